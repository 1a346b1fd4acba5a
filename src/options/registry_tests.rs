use super::*;
use std::collections::HashSet;

#[test]
fn names_and_spellings_are_canonical_and_unique() {
    let mut seen = HashSet::new();
    for row in REGISTRY.iter() {
        for name in std::iter::once(&row.name).chain(row.spellings) {
            assert_eq!(canonical(name), *name);
            assert!(seen.insert(*name), "{name} twice");
        }
    }
}

#[test]
fn any_spelling_finds_the_row() {
    for name in [
        "scan.idle_timeout",
        "SCAN.Idle-Timeout",
        " format.scan.idle_timeout",
        "bigquery.scan.idle-timeout",
        "format.bigquery.scan.idle_timeout",
    ] {
        assert_eq!(find(name).unwrap().name, "scan.idle_timeout", "{name}");
    }
    assert_eq!(find("key_file").unwrap().name, "credentials.key_file");
}

#[test]
fn an_unknown_name_gets_the_nearest_one() {
    let error = find("billing-projct").unwrap_err();
    assert_eq!(
        error.message(),
        "there is no option 'billing_projct': did you mean 'billing_project'?"
    );
    let error = find("colour").unwrap_err();
    assert!(error.message().contains("docs/options.md"), "{error}");
    let error = find("sink.write_methd").unwrap_err();
    assert!(error.message().contains("'sink.write_method'"), "{error}");
}

#[test]
fn a_wrong_value_is_named_with_what_is_allowed() {
    for (row, value, allowed) in [
        (&SCAN_IDLE_TIMEOUT, "10", "duration"),
        (&SCAN_IDLE_TIMEOUT, "0 s", "duration above zero"),
        (&SCAN_COMPRESSION, "gzip", "'zstd' or 'lz4_response'"),
        (&SCAN_RETRY_MAX_ATTEMPTS, "0", "from 1 to"),
        (&SCAN_PUSHDOWN_FILTERS, "maybe", "true or false"),
        (&SCAN_SAMPLE_PERCENTAGE, "101", "0 to 100"),
        (&SCAN_MAX_BYTES_SCANNED, "a lot", "size"),
        (&SCAN_SNAPSHOT_TIME, "yesterday", "ISO-8601"),
        (&JOB_LABELS, "x", "key=value"),
    ] {
        let error = row.check(value).unwrap_err();
        for part in [row.name, value, allowed] {
            assert!(error.message().contains(part), "{part}: {error}");
        }
    }
}

#[test]
fn the_documentation_is_this_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/options.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, markdown()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        written,
        markdown(),
        "write docs/options.md anew: UPDATE_DOCS=1 cargo test the_documentation_is_this_table"
    );
}
