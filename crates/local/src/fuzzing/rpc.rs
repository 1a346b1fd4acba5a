//! Messages of the Storage API.

use bytes::{BufMut, Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt, Full};
use prost::Message;
use tonic::body::Body;
use tower::ServiceExt;

use super::world::World;
use super::{Verdict, watch};
use crate::grpc::proto::{ReadRowsRequest, ReadSession};
use crate::grpc::services;

const READ: &str = "/google.cloud.bigquery.storage.v1.BigQueryRead";
const WRITE: &str = "/google.cloud.bigquery.storage.v1.BigQueryWrite";

/// A message of the Storage API: the first byte picks the method (0 CreateReadSession,
/// 1 ReadRows, 2 SplitReadStream, 3 AppendRows), the others are the request. A session
/// that was made is read to its end.
pub fn protobuf(bytes: &[u8]) -> Verdict {
    let Some((method, message)) = bytes.split_first() else {
        return Verdict::Refused;
    };
    let (method, message) = (method % 4, message.to_vec());
    watch::run(async move {
        let world = World::with_table().await;
        let (verdict, answer) = match method {
            0 => call(&world, READ, "CreateReadSession", &message).await,
            1 => call(&world, READ, "ReadRows", &message).await,
            2 => call(&world, READ, "SplitReadStream", &message).await,
            _ => call(&world, WRITE, "AppendRows", &message).await,
        };
        if method == 0
            && verdict == Verdict::Accepted
            && let Some(session) = answer.get(5..).and_then(|m| ReadSession::decode(m).ok())
        {
            for stream in session.streams {
                let request = ReadRowsRequest {
                    read_stream: stream.name,
                    ..ReadRowsRequest::default()
                };
                let (read, _) = call(&world, READ, "ReadRows", &request.encode_to_vec()).await;
                if read == Verdict::Refused {
                    return read;
                }
            }
        }
        verdict
    })
}

/// Sends one message as the body of a call, and takes the whole answer.
async fn call(world: &World, service: &str, method: &str, message: &[u8]) -> (Verdict, Bytes) {
    let mut frame = BytesMut::with_capacity(message.len() + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("inputs are below 4 GiB"));
    frame.put_slice(message);
    let request = Request::post(format!("{service}/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::new(frame.freeze())))
        .expect("the request is valid");
    let (read, write) = services(&world.service);
    let response = if service == READ {
        read.oneshot(request).await
    } else {
        write.oneshot(request).await
    };
    let Ok(response) = response;
    let mut status = response.headers().get("grpc-status").cloned();
    let body = response.into_body().collect().await;
    let Ok(body) = body else {
        return (Verdict::Refused, Bytes::new());
    };
    if let Some(last) = body.trailers().and_then(|t| t.get("grpc-status")) {
        status = Some(last.clone());
    }
    let verdict = match status {
        Some(status) if status == "0" => Verdict::Accepted,
        _ => Verdict::Refused,
    };
    (verdict, body.to_bytes())
}
