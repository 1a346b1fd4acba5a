//! Files of load jobs, sent with the job in one request.

use axum::body::Body;
use http::{Request, StatusCode};
use serde_json::{Value, json};

use super::world::{PROJECT, World, fields};
use super::{Verdict, watch};

const BOUNDARY: &str = "0f2c9d8a7b6e5f4c3d2b1a09";

/// An Avro file.
pub fn avro(bytes: &[u8]) -> Verdict {
    let options = json!({"sourceFormat": "AVRO", "useAvroLogicalTypes": true});
    load(bytes, vec![options.clone(), with_schema(&options)])
}

/// A Parquet file.
pub fn parquet(bytes: &[u8]) -> Verdict {
    let options = json!({
        "sourceFormat": "PARQUET", "parquetOptions": {"enableListInference": true}
    });
    load(bytes, vec![options, json!({"sourceFormat": "PARQUET"})])
}

/// A CSV file.
pub fn csv(bytes: &[u8]) -> Verdict {
    let lenient = json!({
        "sourceFormat": "CSV", "allowQuotedNewlines": true, "allowJaggedRows": true,
        "maxBadRecords": 3, "encoding": "UTF-16LE", "fieldDelimiter": "\\t"
    });
    load(
        bytes,
        vec![
            json!({"sourceFormat": "CSV", "autodetect": true, "allowQuotedNewlines": true}),
            with_schema(&json!({"sourceFormat": "CSV", "allowJaggedRows": true})),
            with_schema(&lenient),
        ],
    )
}

/// A file with a JSON object per line.
pub fn newline_json(bytes: &[u8]) -> Verdict {
    let options = json!({"sourceFormat": "NEWLINE_DELIMITED_JSON", "ignoreUnknownValues": true});
    let detected = json!({"sourceFormat": "NEWLINE_DELIMITED_JSON", "autodetect": true});
    load(bytes, vec![detected, with_schema(&options)])
}

fn with_schema(options: &Value) -> Value {
    let mut options = options.clone();
    options["schema"] = fields();
    options
}

/// Loads the file once with each configuration, each into a table of its own, and
/// reads what was loaded. The verdict is that of the first.
fn load(bytes: &[u8], configurations: Vec<Value>) -> Verdict {
    let bytes = bytes.to_vec();
    watch::run(async move {
        let world = World::with_dataset().await;
        let mut verdicts = Vec::new();
        for (i, mut configuration) in configurations.into_iter().enumerate() {
            let table = format!("t{i}");
            configuration["destinationTable"] =
                json!({"projectId": PROJECT, "datasetId": "d", "tableId": table});
            let resource = json!({"configuration": {"load": configuration}});
            world.call(upload(&resource, &bytes)).await;
            let rows = Request::get(format!(
                "/bigquery/v2/projects/{PROJECT}/datasets/d/tables/{table}/data"
            ))
            .body(Body::empty())
            .expect("the request is valid");
            verdicts.push(match world.call(rows).await.0 {
                StatusCode::OK => Verdict::Accepted,
                _ => Verdict::Refused,
            });
        }
        verdicts[0]
    })
}

fn upload(resource: &Value, file: &[u8]) -> Request<Body> {
    let mut body = format!(
        "--{BOUNDARY}\r\nContent-Type: application/json\r\n\r\n{resource}\r\n\
         --{BOUNDARY}\r\nContent-Type: */*\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(file);
    body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
    Request::post(format!(
        "/upload/bigquery/v2/projects/{PROJECT}/jobs?uploadType=multipart"
    ))
    .header(
        "content-type",
        format!("multipart/related; boundary={BOUNDARY}"),
    )
    .body(Body::from(body))
    .expect("the request is valid")
}
