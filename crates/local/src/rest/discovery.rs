//! The discovery document, from which the `bq` tool and Google's generated
//! clients make their methods.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::Method;
use serde_json::{Map, Value, json};

use super::answer::{self, RestResult};
use super::request::Params;
use crate::error::{Result, ServiceError};
use crate::server::Service;

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/$discovery/rest", get(document))
        .route("/discovery/v1/apis/bigquery/v2/rest", get(document))
}

async fn document(State(service): State<Arc<Service>>, params: Params) -> RestResult {
    check_version(&params)?;
    Ok(answer::json(&describe(&format!(
        "http://{}",
        service.options.rest
    ))))
}

fn check_version(params: &Params) -> Result<()> {
    match params.get("version") {
        None | Some("v2") => Ok(()),
        Some(other) => Err(ServiceError::not_found(format_args!(
            "Discovery document for version {other}"
        ))),
    }
}

/// One method: resource, name, HTTP method, path, query parameters, and the
/// schemas of its request and its answer.
struct Described {
    resource: &'static str,
    name: &'static str,
    method: Method,
    path: &'static str,
    query: &'static [(&'static str, &'static str)],
    request: Option<&'static str>,
    response: Option<&'static str>,
}

const DATASETS: &str = "projects/{+projectId}/datasets";
const DATASET: &str = "projects/{+projectId}/datasets/{+datasetId}";
const TABLES: &str = "projects/{+projectId}/datasets/{+datasetId}/tables";
const TABLE: &str = "projects/{+projectId}/datasets/{+datasetId}/tables/{+tableId}";
const DATA: &str = "projects/{+projectId}/datasets/{+datasetId}/tables/{+tableId}/data";
const INSERT_ALL: &str = "projects/{+projectId}/datasets/{+datasetId}/tables/{+tableId}/insertAll";
const JOBS: &str = "projects/{+projectId}/jobs";
const JOB: &str = "projects/{+projectId}/jobs/{+jobId}";
const QUERIES: &str = "projects/{+projectId}/queries";
const QUERY: &str = "projects/{+projectId}/queries/{+jobId}";

const PAGE: [(&str, &str); 2] = [("maxResults", "integer"), ("pageToken", "string")];

const fn described(
    resource: &'static str,
    name: &'static str,
    method: Method,
    path: &'static str,
    query: &'static [(&'static str, &'static str)],
    request: Option<&'static str>,
    response: Option<&'static str>,
) -> Described {
    Described {
        resource,
        name,
        method,
        path,
        query,
        request,
        response,
    }
}

static METHODS: [Described; 28] = [
    described(
        "projects",
        "list",
        Method::GET,
        "projects",
        &PAGE,
        None,
        Some("ProjectList"),
    ),
    described(
        "datasets",
        "list",
        Method::GET,
        DATASETS,
        &[
            ("maxResults", "integer"),
            ("pageToken", "string"),
            ("all", "boolean"),
            ("filter", "string"),
        ],
        None,
        Some("DatasetList"),
    ),
    described(
        "datasets",
        "insert",
        Method::POST,
        DATASETS,
        &[("accessPolicyVersion", "integer")],
        Some("Dataset"),
        Some("Dataset"),
    ),
    described(
        "datasets",
        "get",
        Method::GET,
        DATASET,
        &[
            ("accessPolicyVersion", "integer"),
            ("datasetView", "string"),
        ],
        None,
        Some("Dataset"),
    ),
    described(
        "datasets",
        "patch",
        Method::PATCH,
        DATASET,
        &[("accessPolicyVersion", "integer"), ("updateMode", "string")],
        Some("Dataset"),
        Some("Dataset"),
    ),
    described(
        "datasets",
        "update",
        Method::PUT,
        DATASET,
        &[("accessPolicyVersion", "integer"), ("updateMode", "string")],
        Some("Dataset"),
        Some("Dataset"),
    ),
    described(
        "datasets",
        "delete",
        Method::DELETE,
        DATASET,
        &[("deleteContents", "boolean")],
        None,
        None,
    ),
    described(
        "tables",
        "list",
        Method::GET,
        TABLES,
        &PAGE,
        None,
        Some("TableList"),
    ),
    described(
        "tables",
        "insert",
        Method::POST,
        TABLES,
        &[],
        Some("Table"),
        Some("Table"),
    ),
    described(
        "tables",
        "get",
        Method::GET,
        TABLE,
        &[("selectedFields", "string"), ("view", "string")],
        None,
        Some("Table"),
    ),
    described(
        "tables",
        "patch",
        Method::PATCH,
        TABLE,
        &[("autodetect_schema", "boolean")],
        Some("Table"),
        Some("Table"),
    ),
    described(
        "tables",
        "update",
        Method::PUT,
        TABLE,
        &[("autodetect_schema", "boolean")],
        Some("Table"),
        Some("Table"),
    ),
    described("tables", "delete", Method::DELETE, TABLE, &[], None, None),
    described(
        "tabledata",
        "list",
        Method::GET,
        DATA,
        &[
            ("maxResults", "integer"),
            ("pageToken", "string"),
            ("startIndex", "string"),
            ("selectedFields", "string"),
            ("formatOptions.useInt64Timestamp", "boolean"),
            ("formatOptions.timestampOutputFormat", "string"),
        ],
        None,
        Some("TableDataList"),
    ),
    described(
        "tabledata",
        "insertAll",
        Method::POST,
        INSERT_ALL,
        &[],
        Some("TableDataInsertAllRequest"),
        Some("TableDataInsertAllResponse"),
    ),
    described(
        "jobs",
        "list",
        Method::GET,
        JOBS,
        &[
            ("maxResults", "integer"),
            ("pageToken", "string"),
            ("allUsers", "boolean"),
            ("projection", "string"),
            ("stateFilter", "string"),
            ("minCreationTime", "string"),
            ("maxCreationTime", "string"),
            ("parentJobId", "string"),
        ],
        None,
        Some("JobList"),
    ),
    described(
        "jobs",
        "insert",
        Method::POST,
        JOBS,
        &[],
        Some("Job"),
        Some("Job"),
    ),
    described(
        "jobs",
        "get",
        Method::GET,
        JOB,
        &[("location", "string")],
        None,
        Some("Job"),
    ),
    described(
        "jobs",
        "cancel",
        Method::POST,
        "projects/{+projectId}/jobs/{+jobId}/cancel",
        &[("location", "string")],
        None,
        Some("JobCancelResponse"),
    ),
    described(
        "jobs",
        "delete",
        Method::DELETE,
        "projects/{+projectId}/jobs/{+jobId}/delete",
        &[("location", "string")],
        None,
        None,
    ),
    described(
        "jobs",
        "query",
        Method::POST,
        QUERIES,
        &[],
        Some("QueryRequest"),
        Some("QueryResponse"),
    ),
    described(
        "jobs",
        "getQueryResults",
        Method::GET,
        QUERY,
        &[
            ("location", "string"),
            ("maxResults", "integer"),
            ("pageToken", "string"),
            ("startIndex", "string"),
            ("timeoutMs", "integer"),
            ("formatOptions.useInt64Timestamp", "boolean"),
            ("formatOptions.timestampOutputFormat", "string"),
        ],
        None,
        Some("GetQueryResultsResponse"),
    ),
    described(
        "routines",
        "list",
        Method::GET,
        "projects/{+projectId}/datasets/{+datasetId}/routines",
        &[
            ("maxResults", "integer"),
            ("pageToken", "string"),
            ("filter", "string"),
            ("readMask", "string"),
        ],
        None,
        Some("ListRoutinesResponse"),
    ),
    described(
        "routines",
        "get",
        Method::GET,
        "projects/{+projectId}/datasets/{+datasetId}/routines/{+routineId}",
        &[("readMask", "string")],
        None,
        Some("Routine"),
    ),
    described(
        "routines",
        "delete",
        Method::DELETE,
        "projects/{+projectId}/datasets/{+datasetId}/routines/{+routineId}",
        &[],
        None,
        None,
    ),
    described(
        "models",
        "list",
        Method::GET,
        "projects/{+projectId}/datasets/{+datasetId}/models",
        &PAGE,
        None,
        Some("ListModelsResponse"),
    ),
    described(
        "models",
        "get",
        Method::GET,
        "projects/{+projectId}/datasets/{+datasetId}/models/{+modelId}",
        &[],
        None,
        Some("Model"),
    ),
    described(
        "rowAccessPolicies",
        "list",
        Method::GET,
        "projects/{+projectId}/datasets/{+datasetId}/tables/{+tableId}/rowAccessPolicies",
        &[("pageSize", "integer"), ("pageToken", "string")],
        None,
        Some("ListRowAccessPoliciesResponse"),
    ),
];

/// The document of a server at `root` (`http://host:port`).
fn describe(root: &str) -> Value {
    let mut resources = Map::new();
    let mut schemas = Map::new();
    for method in &METHODS {
        for schema in [method.request, method.response].into_iter().flatten() {
            schemas.insert(
                schema.to_string(),
                json!({"id": schema, "type": "object", "additionalProperties": {"type": "any"}}),
            );
        }
        let resource = resources
            .entry(method.resource)
            .or_insert_with(|| json!({"methods": {}}));
        resource["methods"][method.name] = method.describe();
    }
    json!({
        "kind": "discovery#restDescription",
        "discoveryVersion": "v1",
        "id": "bigquery:v2",
        "name": "bigquery",
        "version": "v2",
        "title": "BigQuery API",
        "protocol": "rest",
        "rootUrl": format!("{root}/"),
        "servicePath": "bigquery/v2/",
        "basePath": "/bigquery/v2/",
        "baseUrl": format!("{root}/bigquery/v2/"),
        "batchPath": "batch/bigquery/v2",
        "auth": {"oauth2": {"scopes": {
            "https://www.googleapis.com/auth/bigquery": {"description": "View and manage data"},
        }}},
        "parameters": {
            "alt": {"type": "string", "location": "query", "default": "json"},
            "fields": {"type": "string", "location": "query"},
            "key": {"type": "string", "location": "query"},
            "prettyPrint": {"type": "boolean", "location": "query", "default": "true"},
            "quotaUser": {"type": "string", "location": "query"},
        },
        "schemas": schemas,
        "resources": resources,
    })
}

impl Described {
    fn describe(&self) -> Value {
        let mut parameters = Map::new();
        let mut order = Vec::new();
        for name in self
            .path
            .split("{+")
            .skip(1)
            .filter_map(|p| p.split('}').next())
        {
            order.push(json!(name));
            parameters.insert(
                name.to_string(),
                json!({"type": "string", "location": "path", "required": true, "pattern": "^[^/]+$"}),
            );
        }
        for (name, kind) in self.query {
            let mut parameter = json!({"type": kind, "location": "query"});
            if *kind == "integer" {
                parameter["format"] = json!("uint32");
            }
            parameters.insert((*name).to_string(), parameter);
        }
        let mut method = json!({
            "id": format!("bigquery.{}.{}", self.resource, self.name),
            "path": self.path,
            "flatPath": self.path.replace("{+", "{"),
            "httpMethod": self.method.as_str(),
            "parameters": parameters,
            "parameterOrder": order,
            "scopes": ["https://www.googleapis.com/auth/bigquery"],
        });
        if let Some(schema) = self.request {
            method["request"] = json!({"$ref": schema});
        }
        if let Some(schema) = self.response {
            method["response"] = json!({"$ref": schema});
        }
        if (self.resource, self.name) == ("jobs", "insert") {
            let upload = |protocol: &str| json!({"multipart": true, "path": format!("/{protocol}upload/bigquery/v2/projects/{{+projectId}}/jobs")});
            method["supportsMediaUpload"] = json!(true);
            method["mediaUpload"] = json!({
                "accept": ["*/*"],
                "protocols": {"simple": upload(""), "resumable": upload("resumable/")},
            });
        }
        method
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_every_method() {
        let document = describe("http://127.0.0.1:1");
        let insert = &document["resources"]["jobs"]["methods"]["insert"];
        assert_eq!(insert["httpMethod"], "POST");
        assert_eq!(insert["parameterOrder"], json!(["projectId"]));
        assert_eq!(
            insert["mediaUpload"]["protocols"]["resumable"]["path"],
            "/resumable/upload/bigquery/v2/projects/{+projectId}/jobs"
        );
        let data = &document["resources"]["tabledata"]["methods"]["list"];
        assert_eq!(
            data["parameterOrder"],
            json!(["projectId", "datasetId", "tableId"])
        );
        assert_eq!(data["parameters"]["maxResults"]["format"], "uint32");
        assert!(document["schemas"]["Dataset"].is_object());
    }
}
