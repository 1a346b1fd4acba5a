//! Files in Cloud Storage, which BigQuery loads from or people look at, written and
//! deleted as the identity that talks to BigQuery.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use object_store::gcp::{GcpCredential, GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::path::Path;
use object_store::{
    ClientOptions, CredentialProvider, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
};

use super::endpoint::{USER_AGENT, nothing_answers, request_policy};
use super::excerpt::excerpt;
use super::retry::{Clock, RetryPolicy, retry};
use crate::auth::Credentials;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::options::{EndpointUrl, StagingPath};

/// The header that names the project whose quota a request uses.
const QUOTA_PROJECT: &str = "x-goog-user-project";

/// Folders that are listed at a time.
const LISTINGS: usize = 16;

/// Files below a staging path. Cloning is cheap.
#[derive(Clone)]
pub struct Staging {
    store: Arc<GoogleCloudStorage>,
    path: StagingPath,
    /// The option that says the path.
    option: &'static str,
    endpoint: EndpointUrl,
    policy: RetryPolicy,
    clock: Arc<dyn Clock>,
}

/// The bucket of `path`, as the identity that talks to BigQuery.
pub(super) fn bucket(
    path: &StagingPath,
    endpoint: &EndpointUrl,
    credentials: &Credentials,
    quota_project: Option<&str>,
    retry: RetryConfig,
) -> Result<GoogleCloudStorage> {
    let mut headers = HeaderMap::new();
    if let Some(project) = quota_project.and_then(|p| HeaderValue::from_str(p).ok()) {
        headers.insert(QUOTA_PROJECT, project);
    }
    let client = ClientOptions::new()
        .with_user_agent(HeaderValue::from_static(USER_AGENT))
        .with_default_headers(headers)
        .with_allow_http(endpoint.is_plaintext());
    GoogleCloudStorageBuilder::new()
        .with_bucket_name(path.bucket())
        .with_base_url(&endpoint.to_string())
        .with_credentials(Arc::new(Bridge(credentials.clone())))
        .with_client_options(client)
        .with_retry(retry)
        .build()
        .map_err(|error| {
            Error::new(
                ErrorKind::Internal,
                format!("files cannot be written under {path}: the client cannot be set up"),
            )
            .with_source(error)
        })
}

impl Staging {
    pub(super) fn new(
        path: &StagingPath,
        option: &'static str,
        endpoint: &EndpointUrl,
        credentials: &Credentials,
        quota_project: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        // It does not repeat everything that can be: that is done here.
        let once = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        let store = bucket(path, endpoint, credentials, quota_project, once)?;
        Ok(Staging {
            store: Arc::new(store),
            path: path.clone(),
            option,
            endpoint: endpoint.clone(),
            policy: request_policy(endpoint),
            clock,
        })
    }

    /// The staging path.
    pub fn path(&self) -> &StagingPath {
        &self.path
    }

    /// The address of the file `name`, as load jobs take it.
    pub fn uri(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Writes the file `name`, in place of one that has the name already, and
    /// answers its address. The file is there as a whole or not at all.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the bucket does not exist,
    /// [`ErrorKind::PermissionDenied`] when the identity may not write to it, and
    /// whatever keeps Cloud Storage from answering.
    pub async fn put(&self, name: &str, content: PutPayload) -> Result<String> {
        let uri = self.uri(name);
        tracing::debug!(%uri, bytes = content.content_length(), "writing a file");
        let object = self.object(name);
        let attempt = || async {
            let put = self.store.put(&object, content.clone()).await;
            put.map_err(|error| self.explain(error, "roles/storage.objectCreator"))
        };
        match retry(self.policy, &self.clock, attempt).await {
            Ok(_) => Ok(uri),
            Err(error) => Err(error
                .with_effect(Effect::Unknown)
                .with_context(format!("writing {uri}"))),
        }
    }

    /// That there is a bucket, as far as the identity may know: who may write files need
    /// not be allowed to read them. `name` is of a file that does not exist.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the bucket does not exist, and whatever keeps Cloud
    /// Storage from answering.
    pub async fn check_bucket(&self, name: &str) -> Result<()> {
        let object = self.object(name);
        let attempt = || async {
            match self.store.get(&object).await {
                Ok(_) | Err(object_store::Error::PermissionDenied { .. }) => Ok(()),
                Err(error @ object_store::Error::NotFound { .. }) if !names_bucket(&error) => {
                    Ok(())
                }
                Err(error) => Err(self.explain(error, "roles/storage.objectViewer")),
            }
        };
        retry(self.policy, &self.clock, attempt)
            .await
            .map_err(|error| error.with_context(format!("looking at {}", self.path)))
    }

    /// The sizes of the files at these addresses, which are in the bucket of the staging
    /// path. Files that are not there are left out. None when the identity may not list
    /// what is in the bucket.
    ///
    /// # Errors
    /// As [`put`](Self::put) otherwise.
    pub async fn sizes(&self, uris: &[String]) -> Result<Option<BTreeMap<String, u64>>> {
        let in_bucket = format!("gs://{}/", self.path.bucket());
        let folders: BTreeSet<Path> = uris
            .iter()
            .filter_map(|uri| Some(uri.strip_prefix(&in_bucket)?.rsplit_once('/')?.0))
            .map(Path::from)
            .collect();
        let listed = stream::iter(folders)
            .map(|folder| async move {
                let attempt = || async {
                    let listed = self.store.list(Some(&folder)).try_collect::<Vec<_>>().await;
                    listed.map_err(|error| self.explain(error, "roles/storage.objectViewer"))
                };
                retry(self.policy, &self.clock, attempt).await
            })
            .buffer_unordered(LISTINGS)
            .try_collect::<Vec<_>>()
            .await;
        match listed {
            Ok(listed) => Ok(Some(
                listed
                    .into_iter()
                    .flatten()
                    .map(|found| (format!("{in_bucket}{}", found.location), found.size))
                    .collect(),
            )),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(None),
            Err(error) => {
                Err(error.with_context(format!("looking at the files under {}", self.path)))
            }
        }
    }

    /// Deletes the file at `uri`; one that is not there is deleted already.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the address is not of this bucket; as
    /// [`put`](Self::put) otherwise.
    pub async fn delete(&self, uri: &str) -> Result<()> {
        let in_bucket = format!("gs://{}/", self.path.bucket());
        let Some(object) = uri.strip_prefix(&in_bucket) else {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("{uri} is not in the bucket of {}", self.path),
            ));
        };
        let object = Path::from(object);
        let attempt = || async {
            match self.store.delete(&object).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(self.explain(error, "roles/storage.objectUser")),
            }
        };
        retry(self.policy, &self.clock, attempt)
            .await
            .map_err(|error| error.with_context(format!("deleting {uri}")))
    }

    fn object(&self, name: &str) -> Path {
        match self.path.prefix() {
            "" => Path::from(name),
            prefix => Path::from(format!("{prefix}/{name}")),
        }
    }

    /// What an error of the store means. Its text may repeat whatever a server
    /// answered, so only the service's own explanations are quoted, as a source.
    fn explain(&self, error: object_store::Error, role: &str) -> Error {
        if let Some(own) = own_error(&error) {
            return Error::new(own.kind(), own.message()).with_retry(own.retry_advice());
        }
        let bucket = self.path.bucket();
        let (kind, message) = match &error {
            object_store::Error::NotFound { .. } => (
                ErrorKind::NotFound,
                format!(
                    "there is no bucket '{bucket}': check option '{}'",
                    self.option
                ),
            ),
            object_store::Error::PermissionDenied { .. } => (
                ErrorKind::PermissionDenied,
                format!("the caller may not do this in bucket '{bucket}': it needs {role} there"),
            ),
            object_store::Error::Unauthenticated { .. } => (
                ErrorKind::Unauthenticated,
                "Cloud Storage does not accept the credentials: check option 'credentials'"
                    .to_string(),
            ),
            object_store::Error::AlreadyExists { .. }
            | object_store::Error::Precondition { .. } => (
                ErrorKind::FailedPrecondition,
                "the object is held or retained and cannot be replaced".to_string(),
            ),
            _ if is_connect(&error) => {
                return nothing_answers("storage_endpoint", &self.endpoint).with_source(error);
            }
            _ => (
                ErrorKind::Unavailable,
                format!("Cloud Storage did not do it: {}", excerpt(&last_of(&error))),
            ),
        };
        Error::new(kind, message).with_source(error)
    }
}

impl fmt::Debug for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Staging")
            .field(&self.path.to_string())
            .finish()
    }
}

/// The error and what caused it, from the outside in.
fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// The error of our credentials inside one of the store.
fn own_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    chain(error).find_map(|error| error.downcast_ref::<Error>())
}

fn is_connect(error: &(dyn StdError + 'static)) -> bool {
    use object_store::client::{HttpError, HttpErrorKind};
    chain(error).any(|error| {
        error
            .downcast_ref::<HttpError>()
            .is_some_and(|error| error.kind() == HttpErrorKind::Connect)
    })
}

/// Whether it is the bucket that was not found, by the service's code
/// (<https://cloud.google.com/storage/docs/xml-api/reference-status#404%E2%80%94not_found>).
fn names_bucket(error: &(dyn StdError + 'static)) -> bool {
    last_of(error).contains("<Code>NoSuchBucket</Code>")
}

/// The innermost explanation.
fn last_of(error: &(dyn StdError + 'static)) -> String {
    chain(error)
        .last()
        .map_or_else(String::new, ToString::to_string)
}

/// Hands our tokens to the store.
#[derive(Debug)]
struct Bridge(Credentials);

#[async_trait]
impl CredentialProvider for Bridge {
    type Credential = GcpCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<GcpCredential>> {
        let failed = |error: Error| object_store::Error::Generic {
            store: "GCS",
            source: Box::new(error),
        };
        let headers = self.0.headers().await.map_err(failed)?;
        // Without an identity, which only local servers answer, the token is empty.
        let bearer = match headers.get(AUTHORIZATION) {
            None => String::new(),
            Some(value) => value
                .to_str()
                .ok()
                .and_then(|value| value.strip_prefix("Bearer "))
                .map(str::to_string)
                .ok_or_else(|| {
                    failed(Error::new(
                        ErrorKind::Unauthenticated,
                        "Cloud Storage takes access tokens, and the credentials give none: check \
                         option 'credentials'",
                    ))
                })?,
        };
        Ok(Arc::new(GcpCredential { bearer }))
    }
}
