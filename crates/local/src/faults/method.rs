//! The methods that rules name, and which of them a REST request is.

use http::Method;

use crate::store::TableRef;

/// RPCs and REST methods.
pub(super) const ALL: [&str; 39] = [
    "CreateReadSession",
    "ReadRows",
    "SplitReadStream",
    "CreateWriteStream",
    "AppendRows",
    "GetWriteStream",
    "FinalizeWriteStream",
    "BatchCommitWriteStreams",
    "FlushRows",
    "projects.list",
    "projects.getServiceAccount",
    "datasets.list",
    "datasets.get",
    "datasets.insert",
    "datasets.patch",
    "datasets.update",
    "datasets.delete",
    "tables.list",
    "tables.get",
    "tables.insert",
    "tables.patch",
    "tables.update",
    "tables.delete",
    "tabledata.list",
    "tabledata.insertAll",
    "jobs.list",
    "jobs.get",
    "jobs.insert",
    "jobs.upload",
    "jobs.cancel",
    "jobs.delete",
    "jobs.query",
    "jobs.getQueryResults",
    "datasets.undelete",
    "discovery.get",
    "objects.list",
    "objects.get",
    "objects.insert",
    "objects.delete",
];

/// Whether a method is one of the Storage API.
pub(super) fn is_rpc(method: &str) -> bool {
    method.starts_with(|c: char| c.is_ascii_uppercase())
}

/// The REST method of a request and the table in its path.
pub(super) fn of_request(method: &Method, path: &str) -> Option<(&'static str, Option<TableRef>)> {
    let upload = path.starts_with("/upload/") || path.starts_with("/resumable/upload/");
    if path.starts_with("/$discovery/") || path.starts_with("/discovery/") {
        return Some(("discovery.get", None));
    }
    let at = path.find("/projects")?;
    let parts: Vec<String> = path[at + 1..]
        .split('/')
        .map(|p| percent(p).unwrap_or_else(|| p.to_string()))
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let table = |p: &str, d: &str, t: &str| Some(TableRef::new(p, d, t));
    // Verbs on a collection, and on one of its members.
    let on_collection = |list, insert| match *method {
        Method::GET => Some(list),
        Method::POST => Some(insert),
        _ => None,
    };
    let on_member = |get, patch, update, delete| match *method {
        Method::GET => Some(get),
        Method::PATCH => Some(patch),
        Method::PUT => Some(update),
        Method::DELETE => Some(delete),
        _ => None,
    };
    Some(match parts[..] {
        ["projects"] => ("projects.list", None),
        ["projects", _, "serviceAccount"] => ("projects.getServiceAccount", None),
        ["projects", _, "datasets"] => (on_collection("datasets.list", "datasets.insert")?, None),
        ["projects", _, "datasets", d] => (
            if d.ends_with(":undelete") {
                "datasets.undelete"
            } else {
                on_member(
                    "datasets.get",
                    "datasets.patch",
                    "datasets.update",
                    "datasets.delete",
                )?
            },
            None,
        ),
        ["projects", _, "datasets", _, "tables"] => {
            (on_collection("tables.list", "tables.insert")?, None)
        }
        ["projects", p, "datasets", d, "tables", t] => (
            on_member(
                "tables.get",
                "tables.patch",
                "tables.update",
                "tables.delete",
            )?,
            table(p, d, t),
        ),
        ["projects", p, "datasets", d, "tables", t, "data"] => ("tabledata.list", table(p, d, t)),
        ["projects", p, "datasets", d, "tables", t, "insertAll"] => {
            ("tabledata.insertAll", table(p, d, t))
        }
        ["projects", _, "jobs"] if upload => ("jobs.upload", None),
        ["projects", _, "jobs"] => (on_collection("jobs.list", "jobs.insert")?, None),
        ["projects", _, "jobs", _] => ("jobs.get", None),
        ["projects", _, "jobs", _, "cancel"] => ("jobs.cancel", None),
        ["projects", _, "jobs", _, "delete"] => ("jobs.delete", None),
        ["projects", _, "queries"] => ("jobs.query", None),
        ["projects", _, "queries", _] => ("jobs.getQueryResults", None),
        _ => return None,
    })
}

/// What a request to Cloud Storage does with an object, in either API. Parts of an
/// upload in several requests are calls of `objects.insert`.
pub(super) fn of_storage_request(method: &Method, path: &str) -> Option<&'static str> {
    let upload = path.starts_with("/upload/") || path.starts_with("/resumable/upload/");
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let object = match parts[..] {
        ["storage" | "download", "v1", ..] | ["download", "storage", "v1", ..] => {
            let at = parts.iter().position(|part| *part == "o")?;
            parts.len() > at + 1
        }
        _ if upload => true,
        ["v1" | "_local" | "batch", ..] => return None,
        // Both levels of the XML API: a bucket, and an object in it.
        [_, ref object @ ..] => object.iter().any(|part| !part.is_empty()),
        [] => return None,
    };
    match (method, object) {
        (&Method::GET, false) => Some("objects.list"),
        (&Method::GET | &Method::HEAD, true) => Some("objects.get"),
        (&Method::PUT | &Method::POST, true) => Some("objects.insert"),
        (&Method::DELETE, true) => Some("objects.delete"),
        _ => None,
    }
}

fn percent(part: &str) -> Option<String> {
    if !part.contains('%') {
        return None;
    }
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|h| std::str::from_utf8(h).ok())
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_methods() {
        for (verb, path, method, table) in [
            (
                Method::GET,
                "/bigquery/v2/projects/p/datasets/d/tables/t",
                "tables.get",
                Some("p:d.t"),
            ),
            (
                Method::PATCH,
                "/projects/p/datasets/d/tables/t%2Du",
                "tables.patch",
                Some("p:d.t-u"),
            ),
            (
                Method::POST,
                "/projects/p/datasets/d/tables",
                "tables.insert",
                None,
            ),
            (
                Method::POST,
                "/bigquery/v2/projects/p/datasets/d/tables/t/insertAll",
                "tabledata.insertAll",
                Some("p:d.t"),
            ),
            (
                Method::POST,
                "/upload/bigquery/v2/projects/p/jobs",
                "jobs.upload",
                None,
            ),
            (
                Method::PUT,
                "/upload/bigquery/v2/projects/p/jobs",
                "jobs.upload",
                None,
            ),
            (
                Method::POST,
                "/bigquery/v2/projects/p/jobs",
                "jobs.insert",
                None,
            ),
            (
                Method::GET,
                "/bigquery/v2/projects/p/queries/j",
                "jobs.getQueryResults",
                None,
            ),
        ] {
            let (found, of) = of_request(&verb, path).unwrap();
            assert_eq!(found, method, "{verb} {path}");
            assert_eq!(of.map(|t| t.to_string()).as_deref(), table);
            assert!(ALL.contains(&found));
        }
        assert_eq!(of_request(&Method::GET, "/storage/v1/b"), None);
    }

    #[test]
    fn requests_to_cloud_storage_have_methods() {
        for (verb, path, method) in [
            (Method::PUT, "/bucket/a%2Fb", Some("objects.insert")),
            (Method::POST, "/bucket/a/b", Some("objects.insert")),
            (Method::HEAD, "/bucket/a", Some("objects.get")),
            (Method::GET, "/bucket/a", Some("objects.get")),
            (Method::DELETE, "/bucket/a", Some("objects.delete")),
            (Method::GET, "/bucket", Some("objects.list")),
            (Method::GET, "/bucket/", Some("objects.list")),
            (Method::PUT, "/bucket", None),
            (Method::GET, "/storage/v1/b/bucket/o", Some("objects.list")),
            (Method::GET, "/storage/v1/b/bucket/o/a", Some("objects.get")),
            (
                Method::DELETE,
                "/storage/v1/b/bucket/o/a",
                Some("objects.delete"),
            ),
            (
                Method::POST,
                "/upload/storage/v1/b/bucket/o",
                Some("objects.insert"),
            ),
            (Method::POST, "/storage/v1/b", None),
            (Method::POST, "/v1/projects/p/topics/t:publish", None),
        ] {
            assert_eq!(of_storage_request(&verb, path), method, "{verb} {path}");
            assert!(method.is_none_or(|method| ALL.contains(&method)));
        }
    }
}
