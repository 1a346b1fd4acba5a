//! SplitReadStream: one stream becomes two, the original stays readable.

use crate::grpc::proto::{ReadStream, SplitReadStreamRequest, SplitReadStreamResponse};
use crate::server::Service;
use tonic::Status;

use super::blocks;

/// Splits a stream at the block boundary nearest to the fraction. Both streams are
/// there but have no name when the stream has no boundary inside.
pub(super) fn split(
    service: &Service,
    request: &SplitReadStreamRequest,
) -> Result<SplitReadStreamResponse, Status> {
    let (session, stream) = service.read.stream(&request.name)?;
    let fraction = request.fraction;
    if !(fraction > 0.0 && fraction < 1.0) {
        return Err(Status::invalid_argument(format!(
            "fraction must be greater than 0 and less than 1, got {fraction}"
        )));
    }
    let Some((primary, remainder)) = blocks::split(&stream.blocks, fraction) else {
        return Ok(SplitReadStreamResponse {
            primary_stream: Some(ReadStream::default()),
            remainder_stream: Some(ReadStream::default()),
        });
    };
    let name = |blocks| {
        Some(ReadStream {
            name: session.add_stream(blocks),
        })
    };
    Ok(SplitReadStreamResponse {
        primary_stream: name(primary),
        remainder_stream: name(remainder),
    })
}
