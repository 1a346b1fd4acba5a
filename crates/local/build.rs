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
    let unary = |name: &str, route: &str, input: &str, output: &str| {
        method(name, route, input, output).build()
    };
    let write = Service::builder()
        .name("BigQueryWrite")
        .package("google.cloud.bigquery.storage.v1")
        .method(unary(
            "create_write_stream",
            "CreateWriteStream",
            "CreateWriteStreamRequest",
            "WriteStream",
        ))
        .method(
            method(
                "append_rows",
                "AppendRows",
                "AppendRowsRequest",
                "AppendRowsResponse",
            )
            .input_type("crate::grpc::write::request::AppendRequest")
            .client_streaming()
            .server_streaming()
            .build(),
        )
        .method(unary(
            "get_write_stream",
            "GetWriteStream",
            "GetWriteStreamRequest",
            "WriteStream",
        ))
        .method(unary(
            "finalize_write_stream",
            "FinalizeWriteStream",
            "FinalizeWriteStreamRequest",
            "FinalizeWriteStreamResponse",
        ))
        .method(unary(
            "batch_commit_write_streams",
            "BatchCommitWriteStreams",
            "BatchCommitWriteStreamsRequest",
            "BatchCommitWriteStreamsResponse",
        ))
        .method(unary(
            "flush_rows",
            "FlushRows",
            "FlushRowsRequest",
            "FlushRowsResponse",
        ))
        .build();
    Builder::new().build_client(false).compile(&[read, write]);
}
