//! Generates the server side of the Storage API. The messages come from a crate
//! that has clients only, so the services are described here by hand.

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

const MESSAGES: &str = "::googleapis_storage::google::cloud::bigquery::storage::v1";

fn method(name: &str, route: &str, input: &str, output: &str) -> MethodBuilder {
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type(format!("{MESSAGES}::{input}"))
        .output_type(format!("{MESSAGES}::{output}"))
        .codec_path("::tonic_prost::ProstCodec")
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let read = Service::builder()
        .name("BigQueryRead")
        .package("google.cloud.bigquery.storage.v1")
        .method(
            method(
                "create_read_session",
                "CreateReadSession",
                "CreateReadSessionRequest",
                "ReadSession",
            )
            .build(),
        )
        .method(
            method(
                "read_rows",
                "ReadRows",
                "ReadRowsRequest",
                "ReadRowsResponse",
            )
            .server_streaming()
            .build(),
        )
        .method(
            method(
                "split_read_stream",
                "SplitReadStream",
                "SplitReadStreamRequest",
                "SplitReadStreamResponse",
            )
            .build(),
        )
        .build();
    Builder::new().build_client(false).compile(&[read]);
}
