//! The check of the layers finds what it is there to find.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the check over a tree of these files.
fn check(files: &[(&str, &str)]) -> Output {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("Cargo.toml", "[dependencies]\n[dev-dependencies]\n");
    write("crates/local/Cargo.toml", "");
    write("crates/local/src/lib.rs", "");
    write("src/lib.rs", "mod error;\n");
    for (path, text) in files {
        write(path, text);
    }
    Command::new("bash")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/layers"))
        .arg(root.path())
        .output()
        .unwrap()
}

#[test]
fn what_is_allowed_passes() {
    let output = check(&[
        ("src/error.rs", "use datafusion::error::DataFusionError;\n"),
        (
            "src/options/set.rs",
            "use datafusion::config::ConfigExtension;\n",
        ),
        ("src/types/mod.rs", "use crate::{Error, options::Raw};\n"),
        (
            "src/client/read/a.rs",
            "use super::b;\n/// As [`crate::scan`].\nuse crate::client::c;\n",
        ),
        (
            "src/scan/mod.rs",
            "use crate::{\n    client::Client,\n    filter,\n};\nuse datafusion::x;\n",
        ),
        (
            "src/filter/mod.rs",
            "#[cfg(test)]\nmod checks;\n#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;\n",
        ),
        ("src/filter/checks.rs", "use tokio::x;\n"),
        ("src/filter/a_tests.rs", "use tokio::x;\n"),
        (
            "src/filter/a.rs",
            "#[cfg(test)]\nmod tests {\n    use crate::scan::x;\n}\n",
        ),
    ]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
}

#[test]
fn each_offence_is_found() {
    for (path, text, said) in [
        (
            "src/client/a.rs",
            "use crate::scan::x;\n",
            "client must not import scan",
        ),
        (
            "src/client/a.rs",
            "fn f() { crate::filter::x() }\n",
            "client must not import filter",
        ),
        (
            "src/client/mod.rs",
            "use super::scan;\n",
            "client must not import scan",
        ),
        (
            "src/types/a.rs",
            "use crate::{\n    error::Error,\n    client::{a, b},\n};\n",
            "types must not import client",
        ),
        (
            "src/types/a.rs",
            "use crate::{error, table};\n",
            "types must not import table",
        ),
        (
            "src/filter/a.rs",
            "pub(crate) use crate::client;\n",
            "filter must not import client",
        ),
        (
            "src/client/a.rs",
            "use datafusion::x;\n",
            "client must not use datafusion",
        ),
        (
            "src/client/a.rs",
            "fn f() -> datafusion::X {}\n",
            "client must not use datafusion",
        ),
        (
            "src/types/a.rs",
            "use tokio::fs;\n",
            "types must not use tokio",
        ),
        (
            "src/filter/a.rs",
            "use std::fs::File;\n",
            "filter must not use std::fs",
        ),
        (
            "src/filter/a.rs",
            "use std::{fmt, net::X};\n",
            "filter must not use std::net",
        ),
        (
            "src/options/raw.rs",
            "use datafusion::config::X;\n",
            "options uses no more",
        ),
        (
            "src/error.rs",
            "use datafusion::common::X;\n",
            "error uses no more",
        ),
        ("src/novel.rs", "", "has no layer"),
        (
            "src/scan/a.rs",
            "use bigquery_local::X;\n",
            "must not know crates/local",
        ),
        (
            "crates/local/src/a.rs",
            "use datafusion_bigquery::X;\n",
            "must not know the library",
        ),
        (
            "crates/local/Cargo.toml",
            "datafusion-bigquery = \"1\"\n",
            "must not know the library",
        ),
        (
            "Cargo.toml",
            "[dependencies]\nbigquery-local.workspace = true\n",
            "only be a dev-dependency",
        ),
        (
            "src/filter/a.rs",
            "#[cfg(test)]\nfn t() {}\nuse crate::scan;\n",
            "filter must not import scan",
        ),
    ] {
        // A file without a line is never read, so each has one.
        let output = check(&[(path, &format!("{text}\n"))]);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(!output.status.success(), "{path}: {text}");
        assert!(printed.contains(said), "{path}: {text}{printed}");
    }
}
