//! One AppendRows call: requests go out in order, responses come in the same
//! order, one for each. What a broken call means is decided by who holds it.

use futures::channel::mpsc;
use futures::future::BoxFuture;
use googleapis_storage::google::cloud::bigquery::storage::v1::AppendRowsResponse;
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::{Status, Streaming};

use super::message::{AppendCodec, Request};
use crate::auth::Credentials;
use crate::client::endpoint;
use crate::client::read::{Connections, Lease, request};
use crate::error::Error;

const APPEND_ROWS: &str = "/google.cloud.bigquery.storage.v1.BigQueryWrite/AppendRows";

/// How a call ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// With a status of the service or of the connection.
    Status(Status),
    /// Before it began.
    Unsent(Error),
    /// Without an error.
    Silent,
}

/// A call under way. Dropping it ends it.
pub(super) struct Call {
    requests: mpsc::UnboundedSender<Request>,
    answers: Answers,
    _lease: Lease,
}

enum Answers {
    /// The service may not begin to answer before the first request has come.
    Awaited(BoxFuture<'static, Result<Streaming<AppendRowsResponse>, Ending>>),
    Coming(Box<Streaming<AppendRowsResponse>>),
}

impl Call {
    /// A call about `stream`. Nothing is sent before the first [`receive`].
    ///
    /// [`receive`]: Self::receive
    pub(super) fn open(connections: &Connections, credentials: &Credentials, stream: &str) -> Self {
        let (requests, outgoing) = mpsc::unbounded();
        let lease = connections.lease();
        let channel = lease.channel();
        let credentials = credentials.clone();
        let routing = endpoint::routing("write_stream", stream);
        let opened = async move {
            let headers = credentials.headers().await.map_err(Ending::Unsent)?;
            let call = request(outgoing, headers, &routing).map_err(Ending::Unsent)?;
            let mut grpc = Grpc::new(channel);
            grpc.ready()
                .await
                .map_err(|error| Ending::Status(Status::from_error(Box::new(error))))?;
            grpc.streaming(call, PathAndQuery::from_static(APPEND_ROWS), AppendCodec)
                .await
                .map(tonic::Response::into_inner)
                .map_err(Ending::Status)
        };
        Call {
            requests,
            answers: Answers::Awaited(Box::pin(opened)),
            _lease: lease,
        }
    }

    /// Adds a request. Whether it arrives shows in the responses.
    pub(super) fn send(&self, request: Request) {
        // A call that is over says so when its next response is asked for.
        let _ = self.requests.unbounded_send(request);
    }

    /// The next response. Nothing is lost if the future is dropped.
    pub(super) async fn receive(&mut self) -> Result<AppendRowsResponse, Ending> {
        loop {
            match &mut self.answers {
                Answers::Awaited(opened) => {
                    let responses = opened.await?;
                    self.answers = Answers::Coming(Box::new(responses));
                }
                Answers::Coming(responses) => {
                    return match responses.message().await {
                        Ok(Some(response)) => Ok(response),
                        Ok(None) => Err(Ending::Silent),
                        Err(status) => Err(Ending::Status(status)),
                    };
                }
            }
        }
    }
}
