//! As whom and where requests are made.

use super::tests::{refused, resolve};
use super::*;

const LOCAL: [(&str, &str); 2] = [
    ("rest_endpoint", "http://127.0.0.1:9050"),
    ("grpc_endpoint", "http://127.0.0.1:9060"),
];

fn with_local<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&LOCAL[..], more].concat()
}

#[test]
fn local_servers_need_no_credentials() {
    let options = resolve(&LOCAL).unwrap();
    assert_eq!(
        options.connection.credentials.source,
        CredentialsSource::Anonymous
    );
    let options = resolve(&with_local(&[("credentials", "adc")])).unwrap();
    assert_eq!(
        options.connection.credentials.source,
        CredentialsSource::ApplicationDefault
    );
}

#[test]
fn anonymous_is_for_local_servers_only() {
    refused(
        &[("credentials", "anonymous")],
        &["'credentials'", "rest_endpoint"],
    );
    refused(
        &[("credentials", "anonymous"), LOCAL[0]],
        &["'credentials'", "grpc_endpoint"],
    );
    // Half local, half Google: nothing says that requests go without identity.
    let options = resolve(&LOCAL[..1]).unwrap();
    assert_eq!(
        options.connection.credentials.source,
        CredentialsSource::ApplicationDefault
    );
}

#[test]
fn keys_never_go_to_local_servers() {
    let message = refused(
        &with_local(&[("credentials.key_file", "/home/me/secret.json")]),
        &["'credentials.key_file'", "'rest_endpoint'"],
    );
    assert!(!message.contains("secret"), "{message}");
    refused(
        &with_local(&[("credentials.impersonate", "a@p.iam.gserviceaccount.com")]),
        &["'credentials.impersonate'", "'rest_endpoint'"],
    );
}

#[test]
fn credentials_and_what_they_need() {
    refused(
        &[("credentials", "key_file")],
        &["'credentials'", "'credentials.key_file'"],
    );
    refused(
        &[("credentials", "impersonate")],
        &["'credentials'", "'credentials.impersonate'"],
    );
    refused(
        &[("credentials", "adc"), ("key_file", "/k.json")],
        &["'credentials'", "'credentials.key_file'"],
    );
    refused(
        &[("credentials", "adc"), ("impersonate", "a@b")],
        &["'credentials'", "'credentials.impersonate'"],
    );
    let credentials = |pairs: &[(&str, &str)]| resolve(pairs).unwrap().connection.credentials;
    assert_eq!(
        credentials(&[("key_file", "/k.json")]).source,
        CredentialsSource::KeyFile("/k.json".into())
    );
    let both = credentials(&[("key_file", "/k.json"), ("impersonate", "a@b")]);
    assert_eq!(both.source, CredentialsSource::KeyFile("/k.json".into()));
    assert_eq!(both.impersonate.as_deref(), Some("a@b"));
    let impersonated = credentials(&[("credentials", "impersonate"), ("impersonate", "a@b")]);
    assert_eq!(impersonated.source, CredentialsSource::ApplicationDefault);
    assert_eq!(impersonated.executables, Executables::Refused);
    let allowed = credentials(&[("credentials.allow_executables", "true")]);
    assert_eq!(allowed.executables, Executables::Allowed);
}

#[test]
fn the_path_of_a_key_does_not_show() {
    let options = resolve(&[("key_file", "/home/me/secret.json")]).unwrap();
    let shown = format!("{options:?}");
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn a_trace_id_is_bounded() {
    let long = "x".repeat(257);
    refused(&[("trace_id", &long)], &["'trace_id'", "256"]);
}
