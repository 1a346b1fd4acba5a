//! The server as a program.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) const ANY_PORTS: [&str; 6] = [
    "--rest",
    "127.0.0.1:0",
    "--grpc",
    "127.0.0.1:0",
    "--storage",
    "127.0.0.1:0",
];

/// The program, logging nothing, with its output to be read.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bigquery-local"));
    command
        .args(arguments)
        .env("RUST_LOG", "off")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The endpoints that the program says it serves.
pub(crate) fn ready(child: &mut Child) -> Value {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    serde_json::from_str(&line).unwrap_or_else(|e| {
        // Without a line it has ended, or is ending.
        let status = child.wait().unwrap();
        panic!("{e}: {line:?}, {status}: {}", complaints(child))
    })
}

/// What a program that has ended wrote to standard error.
pub(crate) fn complaints(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut text).unwrap();
    }
    text
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

fn exit_code(child: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    panic!("the program does not stop");
}

#[tokio::test]
async fn says_where_it_listens_and_stops_on_a_signal() {
    for name in ["TERM", "INT"] {
        let mut child = program(&ANY_PORTS).arg("--project=p1").spawn().unwrap();
        let ready = ready(&mut child);
        let rest = ready["rest"].as_str().unwrap();
        assert!(rest.starts_with("http://127.0.0.1:"), "{ready}");
        assert!(
            ready["grpc"]
                .as_str()
                .unwrap()
                .starts_with("http://127.0.0.1:")
        );
        let storage = ready["storage"].as_str().unwrap();
        let projects: Value = reqwest::get(format!("{rest}/projects"))
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        assert_eq!(projects["projects"][0]["id"], "p1");
        reqwest::get(storage).await.unwrap();
        signal(&child, name);
        assert_eq!(exit_code(&mut child), Some(0), "{name}");
        assert!(reqwest::get(rest).await.is_err());
    }
}

#[test]
fn refuses_to_be_reached_from_elsewhere() {
    let refused = program(&[
        "--rest",
        "0.0.0.0:0",
        "--grpc",
        "127.0.0.1:0",
        "--storage",
        "127.0.0.1:0",
    ])
    .output()
    .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stdout.is_empty());
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(
        words.contains("0.0.0.0:0 is not a loopback address"),
        "{words}"
    );
    assert!(words.contains("--allow-remote"), "{words}");
    let mut allowed = program(&[
        "--allow-remote",
        "--rest",
        "0.0.0.0:0",
        "--grpc",
        "127.0.0.1:0",
        "--storage",
        "127.0.0.1:0",
    ])
    .spawn()
    .unwrap();
    assert!(ready(&mut allowed)["rest"].is_string());
    signal(&allowed, "TERM");
    assert_eq!(exit_code(&mut allowed), Some(0));
}

#[test]
fn an_address_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = program(&[
        "--rest",
        &address,
        "--grpc",
        "127.0.0.1:0",
        "--storage",
        "127.0.0.1:0",
    ])
    .output()
    .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(
        words.contains("the REST address") && words.contains(&address),
        "{words}"
    );
}

#[test]
fn bad_flags_are_refused() {
    for arguments in [
        &["--rest", "nonsense"][..],
        &["--unknown"],
        &["--stream-bytes", "x"],
    ] {
        assert_eq!(
            program(arguments).output().unwrap().status.code(),
            Some(2),
            "{arguments:?}"
        );
    }
}
