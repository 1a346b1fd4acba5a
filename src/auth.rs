//! Who requests are made as.
//!
//! Tokens come from `google-cloud-auth`, which caches and renews them. Nothing
//! is read or fetched before the first request needs it. No error or debug
//! text of this module repeats a token, a key, a path or what a parser said:
//! all of them can give secrets away.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use google_cloud_auth::credentials::{
    Builder as ApplicationDefault, CacheableResource, Credentials as Provider, impersonated,
    service_account,
};
use http::{Extensions, HeaderMap, HeaderValue, header};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::error::{Error, ErrorKind, Result, RetryAdvice};
use crate::options::{CredentialsOptions, CredentialsSource, Executables};

/// An access token for the application-default identity, ahead of everything
/// else that identity could come from.
const TOKEN_VARIABLE: &str = "GOOGLE_OAUTH_ACCESS_TOKEN";
/// The file of application-default credentials.
const FILE_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
/// Without this, set to `1`, `google-cloud-auth` runs no program.
const EXECUTABLES_VARIABLE: &str = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES";
/// How long getting a token may take. Without credentials the metadata server
/// is asked, which on other machines than Google's may never answer.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(60);
/// The header that names the project whose quota a request uses.
const QUOTA_PROJECT: &str = "x-goog-user-project";

/// An identity; cloning shares it and its tokens.
#[derive(Clone)]
pub struct Credentials(Arc<Inner>);

struct Inner {
    options: CredentialsOptions,
    quota_project: Option<String>,
    environment: Environment,
    identity: OnceCell<Identity>,
}

enum Identity {
    Anonymous,
    Token(HeaderValue),
    Provider(Provider),
}

/// How environment variables are looked up.
type Environment = Arc<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

impl Credentials {
    /// The identity that the options describe, whose requests use the quota of
    /// `quota_project` if one is given.
    pub fn new(options: CredentialsOptions, quota_project: Option<String>) -> Self {
        let environment = Arc::new(|name: &str| std::env::var_os(name));
        Credentials::with_environment(options, quota_project, environment)
    }

    fn with_environment(
        options: CredentialsOptions,
        quota_project: Option<String>,
        environment: Environment,
    ) -> Self {
        Credentials(Arc::new(Inner {
            options,
            quota_project,
            environment,
            identity: OnceCell::new(),
        }))
    }

    /// The headers that identify a request; none for the anonymous identity.
    /// The first call reads key files and fetches a token, later ones answer
    /// from the cache until a token has to be renewed.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when an option names something unusable,
    /// [`ErrorKind::Unauthenticated`] when no token is to be had, and
    /// [`ErrorKind::Unavailable`] when the token service briefly is not.
    pub async fn headers(&self) -> Result<HeaderMap> {
        let identity = self.0.identity.get_or_try_init(|| self.identity()).await?;
        let mut headers = match identity {
            Identity::Anonymous => return Ok(HeaderMap::new()),
            Identity::Token(value) => {
                HeaderMap::from_iter([(header::AUTHORIZATION, value.clone())])
            }
            Identity::Provider(provider) => {
                let headers = provider.headers(Extensions::new());
                match tokio::time::timeout(TOKEN_TIMEOUT, headers).await {
                    Ok(Ok(CacheableResource::New { data, .. })) => data,
                    // Only answered to a request that names an earlier answer.
                    Ok(Ok(CacheableResource::NotModified)) => HeaderMap::new(),
                    Ok(Err(error)) if error.is_transient() => {
                        return Err(self.no_token().with_retry(RetryAdvice::Backoff));
                    }
                    Ok(Err(_)) | Err(_) => return Err(self.no_token()),
                }
            }
        };
        for value in headers.values_mut() {
            value.set_sensitive(true);
        }
        if let Some(project) = &self.0.quota_project {
            let value = HeaderValue::from_str(project).map_err(|_| {
                Error::configuration(format!(
                    "option 'billing_project' cannot be '{project}': it is not a project id"
                ))
            })?;
            headers.insert(QUOTA_PROJECT, value);
        }
        Ok(headers)
    }

    async fn identity(&self) -> Result<Identity> {
        let options = &self.0.options;
        if let Some(principal) = &options.impersonate {
            check_principal(principal)?;
        }
        let source = match &options.source {
            CredentialsSource::Anonymous => return Ok(Identity::Anonymous),
            CredentialsSource::KeyFile(path) => key_file(path).await?,
            CredentialsSource::ApplicationDefault => {
                if let Some(token) = (self.0.environment)(TOKEN_VARIABLE) {
                    if options.impersonate.is_some() {
                        return Err(Error::configuration(format!(
                            "option 'credentials.impersonate' cannot go together with an access \
                             token in {TOKEN_VARIABLE}: unset the variable, or leave the option out"
                        )));
                    }
                    return access_token(&token);
                }
                self.refuse_executables().await?;
                ApplicationDefault::default().build().map_err(|error| {
                    let why = if error.is_loading() {
                        "cannot be read"
                    } else {
                        "are not valid"
                    };
                    default_credentials(why)
                })?
            }
        };
        let Some(principal) = &options.impersonate else {
            return Ok(Identity::Provider(source));
        };
        let provider = impersonated::Builder::from_source_credentials(source)
            .with_target_principal(principal)
            .build()
            .map_err(|_| {
                Error::new(
                    ErrorKind::Unauthenticated,
                    format!("cannot act as '{principal}': check option 'credentials.impersonate'"),
                )
            })?;
        Ok(Identity::Provider(provider))
    }

    /// Looks into the file of application-default credentials for a program
    /// that it would have run.
    async fn refuse_executables(&self) -> Result<()> {
        let environment = &self.0.environment;
        let Some(path) = default_file(environment) else {
            return Ok(());
        };
        let text = match tokio::fs::read_to_string(&path).await {
            Ok(text) => text,
            // Without the file the metadata server is asked; but a file that
            // was named has to be there.
            Err(_) if environment(FILE_VARIABLE).is_none() => return Ok(()),
            Err(_) => return Err(default_credentials("cannot be read")),
        };
        let json: Value =
            serde_json::from_str(&text).map_err(|_| default_credentials("are not valid"))?;
        if !runs_program(&json) {
            return Ok(());
        }
        match self.0.options.executables {
            Executables::Refused => Err(Error::configuration(
                "the application-default credentials run a program to get a token: set option \
                 'credentials.allow_executables' to true if that program is to be trusted",
            )),
            Executables::Allowed if environment(EXECUTABLES_VARIABLE).is_some_and(|v| v == "1") => {
                Ok(())
            }
            Executables::Allowed => Err(Error::configuration(format!(
                "the application-default credentials run a program to get a token: besides option \
                 'credentials.allow_executables' the environment variable {EXECUTABLES_VARIABLE} \
                 has to be 1"
            ))),
        }
    }

    /// The error for a token that could not be had.
    fn no_token(&self) -> Error {
        let options = &self.0.options;
        let advice = match (&options.source, &options.impersonate) {
            (_, Some(principal)) => format!(
                "check that '{principal}' (option 'credentials.impersonate') exists and that the \
                 caller has roles/iam.serviceAccountTokenCreator on it"
            ),
            (CredentialsSource::KeyFile(_), None) => {
                "check that the key in the file of option 'credentials.key_file' still exists and \
                 is complete"
                    .to_string()
            }
            (CredentialsSource::ApplicationDefault, None) => {
                "run 'gcloud auth application-default login', set GOOGLE_APPLICATION_CREDENTIALS, \
                 or set option 'credentials'"
                    .to_string()
            }
            (CredentialsSource::Anonymous, None) => "set option 'credentials'".to_string(),
        };
        Error::new(
            ErrorKind::Unauthenticated,
            format!("no access token could be obtained: {advice}"),
        )
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("source", &self.0.options.source)
            .field("impersonate", &self.0.options.impersonate)
            .field("quota_project", &self.0.quota_project)
            .finish_non_exhaustive()
    }
}

/// The e-mail of a service account becomes part of a URL.
fn check_principal(principal: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
    if principal.contains('@') && principal.chars().all(fits) {
        return Ok(());
    }
    Err(Error::configuration(format!(
        "option 'credentials.impersonate' cannot be '{principal}': it must be the e-mail of a \
         service account, as in reader@my-project.iam.gserviceaccount.com"
    )))
}

fn access_token(token: &OsString) -> Result<Identity> {
    let value = token
        .to_str()
        .map(str::trim)
        .filter(|token| !token.is_empty())
        .and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok())
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Unauthenticated,
                format!("the environment variable {TOKEN_VARIABLE} does not hold an access token"),
            )
        })?;
    Ok(Identity::Token(value))
}

/// The identity of a service account's key.
async fn key_file(path: &PathBuf) -> Result<Provider> {
    let text = tokio::fs::read_to_string(path).await.map_err(|_| {
        Error::configuration(
            "the file of option 'credentials.key_file' cannot be read: check that it exists and \
             that its permissions allow it",
        )
    })?;
    let wrong = || {
        Error::configuration(
            "the file of option 'credentials.key_file' is not the JSON key of a service account: \
             create one with 'gcloud iam service-accounts keys create', or use option \
             'credentials' set to 'adc' for credentials of another kind",
        )
    };
    let json: Value = serde_json::from_str(&text).map_err(|_| wrong())?;
    if json.get("type").and_then(Value::as_str) != Some("service_account") {
        return Err(wrong());
    }
    service_account::Builder::new(json)
        .build()
        .map_err(|_| wrong())
}

/// Where application-default credentials would be read from.
fn default_file(environment: &Environment) -> Option<PathBuf> {
    if let Some(path) = environment(FILE_VARIABLE) {
        return Some(path.into());
    }
    let base = if cfg!(windows) {
        PathBuf::from(environment("APPDATA")?)
    } else {
        PathBuf::from(environment("HOME")?).join(".config")
    };
    Some(
        base.join("gcloud")
            .join("application_default_credentials.json"),
    )
}

fn default_credentials(why: &str) -> Error {
    Error::new(
        ErrorKind::Unauthenticated,
        format!(
            "the application-default credentials {why}: run 'gcloud auth application-default \
             login', check {FILE_VARIABLE}, or set option 'credentials'"
        ),
    )
}

/// Whether a credential configuration, or one inside it, names a program.
fn runs_program(json: &Value) -> bool {
    match json {
        Value::Object(members) => members.iter().any(|(name, value)| {
            (name == "credential_source" && value.get("executable").is_some())
                || runs_program(value)
        }),
        Value::Array(elements) => elements.iter().any(runs_program),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::Write;

    fn options(source: CredentialsSource) -> CredentialsOptions {
        CredentialsOptions {
            source,
            impersonate: None,
            executables: Executables::Refused,
        }
    }

    fn file(content: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::Builder::new()
            .prefix("hidden-name")
            .tempfile()
            .unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file
    }

    async fn refused(credentials: &Credentials) -> String {
        let error = credentials.headers().await.unwrap_err();
        let shown = format!("{error} {error:?} {credentials:?}");
        assert!(!shown.contains("hidden"), "{shown}");
        error.message().to_string()
    }

    #[tokio::test]
    async fn anonymous_requests_carry_nothing() {
        let credentials = Credentials::new(
            options(CredentialsSource::Anonymous),
            Some("billing".into()),
        );
        assert!(credentials.headers().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_token_of_the_environment_is_sent_and_not_shown() {
        let credentials = Credentials::with_environment(
            options(CredentialsSource::ApplicationDefault),
            Some("billing".into()),
            Arc::new(|name| (name == TOKEN_VARIABLE).then(|| "hidden-token".into())),
        );
        let headers = credentials.headers().await.unwrap();
        assert_eq!(headers[header::AUTHORIZATION], "Bearer hidden-token");
        assert!(headers[header::AUTHORIZATION].is_sensitive());
        assert_eq!(headers[QUOTA_PROJECT], "billing");
        assert!(!format!("{headers:?} {credentials:?}").contains("hidden"));
    }

    #[tokio::test]
    async fn a_token_and_impersonation_are_two_identities() {
        let mut options = options(CredentialsSource::ApplicationDefault);
        options.impersonate = Some("a@p.iam.gserviceaccount.com".into());
        let environment: Environment =
            Arc::new(|name| (name == TOKEN_VARIABLE).then(|| "hidden-token".into()));
        let credentials = Credentials::with_environment(options, None, environment);
        let message = refused(&credentials).await;
        assert!(message.contains("credentials.impersonate"), "{message}");
    }

    #[tokio::test]
    async fn a_wrong_key_file_is_named_by_its_option() {
        for content in [
            "hidden text",
            r#"{"type": "authorized_user", "refresh_token": "hidden"}"#,
            r#"{"type": "service_account", "private_key": "hidden"}"#,
            "[]",
            "",
        ] {
            let file = file(content);
            let credentials = Credentials::new(
                options(CredentialsSource::KeyFile(file.path().into())),
                None,
            );
            let message = refused(&credentials).await;
            assert!(message.contains("'credentials.key_file'"), "{message}");
            assert!(message.contains("gcloud"), "{message}");
        }
        let missing = options(CredentialsSource::KeyFile("/nowhere/hidden.json".into()));
        let message = refused(&Credentials::new(missing, None)).await;
        assert!(message.contains("'credentials.key_file'"), "{message}");
        assert!(message.contains("cannot be read"), "{message}");
    }

    #[tokio::test]
    async fn a_key_that_signs_nothing_is_an_error_too() {
        let file = file(
            &json!({
                "type": "service_account",
                "client_email": "a@p.iam.gserviceaccount.com",
                "private_key_id": "hidden",
                "private_key": "-----BEGIN PRIVATE KEY-----\nhidden\n-----END PRIVATE KEY-----\n",
                "project_id": "p",
            })
            .to_string(),
        );
        let credentials = Credentials::new(
            options(CredentialsSource::KeyFile(file.path().into())),
            None,
        );
        let message = refused(&credentials).await;
        assert!(message.contains("'credentials.key_file'"), "{message}");
    }

    #[tokio::test]
    async fn a_missing_default_file_is_named_by_its_variable() {
        let credentials = Credentials::with_environment(
            options(CredentialsSource::ApplicationDefault),
            None,
            Arc::new(|name| (name == FILE_VARIABLE).then(|| "/nowhere/hidden.json".into())),
        );
        let message = refused(&credentials).await;
        assert!(message.contains(FILE_VARIABLE), "{message}");
    }

    #[tokio::test]
    async fn programs_are_run_only_when_allowed_twice() {
        let external = json!({
            "type": "external_account",
            "credential_source": {"executable": {"command": "/bin/hidden"}},
        });
        let file = file(&external.to_string());
        let path = file.path().as_os_str().to_os_string();
        let environment: Environment =
            Arc::new(move |name| (name == FILE_VARIABLE).then(|| path.clone()));
        let mut options = options(CredentialsSource::ApplicationDefault);
        let credentials =
            Credentials::with_environment(options.clone(), None, Arc::clone(&environment));
        let message = refused(&credentials).await;
        assert!(
            message.contains("'credentials.allow_executables'"),
            "{message}"
        );
        options.executables = Executables::Allowed;
        let message = refused(&Credentials::with_environment(options, None, environment)).await;
        assert!(message.contains(EXECUTABLES_VARIABLE), "{message}");
    }

    #[test]
    fn programs_are_found_wherever_they_hide() {
        let direct = json!({"credential_source": {"executable": {"command": "x"}}});
        assert!(runs_program(&direct));
        assert!(runs_program(&json!({"source_credentials": direct})));
        assert!(!runs_program(
            &json!({"credential_source": {"file": "x"}, "executable": "y"})
        ));
    }

    #[tokio::test]
    async fn a_principal_is_an_email() {
        for principal in ["../../x", "reader", "a@b/c", ""] {
            let mut options = options(CredentialsSource::ApplicationDefault);
            options.impersonate = Some(principal.into());
            let message = refused(&Credentials::new(options, None)).await;
            assert!(message.contains("'credentials.impersonate'"), "{message}");
        }
    }
}
