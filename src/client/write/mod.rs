//! Writing over the Storage Write API.
//!
//! [`append`] appends to a stream, sends again what was not answered and tells what
//! became of each request; `driver` is the task behind it and `place` knows where
//! requests stand in streams that have offsets. [`streams`] makes streams, ends
//! them and makes their rows visible. `connection` is one call, `message` its
//! requests, `status` what refusals mean, `counters` what is counted, `window` the bytes
//! under way on several streams.

pub mod append;
mod connection;
mod counters;
mod driver;
pub(crate) mod message;
mod place;
mod status;
pub mod streams;
mod window;

use std::sync::Arc;

pub use counters::WriteCounters;
pub use message::{RequestRows, WriterSchema};
pub use window::Window;

use crate::auth::Credentials;
use crate::client::read::Connections;
use crate::client::retry::Clock;
use crate::options::StreamOptions;
use append::{AppendStream, AppendTarget, StartAt};
use driver::Terms;
use message::Opening;
use place::Place;
use streams::CreatedStream;

/// What every stream of a client needs.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    pub(super) connections: &'a Connections,
    pub(super) credentials: &'a Credentials,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) trace_id: Option<&'a str>,
}

impl Access<'_> {
    /// Opens the default stream of the table.
    pub(super) fn default_stream<T: Send + 'static>(
        self,
        target: AppendTarget,
        options: &StreamOptions,
        counters: Arc<WriteCounters>,
    ) -> AppendStream<T> {
        let stream = format!("{}/streams/_default", target.table.resource_name());
        let terms = self.terms(stream, target, "sink.default_stream", counters);
        AppendStream::open(terms, Place::Anywhere, options)
    }

    /// Opens a stream that was created.
    pub(super) fn created_stream<T: Send + 'static>(
        self,
        stream: CreatedStream,
        target: AppendTarget,
        options: &StreamOptions,
        counters: Arc<WriteCounters>,
    ) -> AppendStream<T> {
        let place = match stream.start {
            StartAt::Beginning => Place::beginning(),
            StartAt::Offset(rows) => Place::after(rows),
        };
        let terms = self.terms(stream.name, target, stream.kind.options(), counters);
        AppendStream::open(terms, place, options)
    }

    fn terms(
        self,
        stream: String,
        target: AppendTarget,
        options: &'static str,
        counters: Arc<WriteCounters>,
    ) -> Terms {
        Terms {
            connections: self.connections.clone(),
            credentials: self.credentials.clone(),
            clock: Arc::clone(self.clock),
            opening: Opening {
                stream,
                schema: target.schema,
                trace_id: self.trace_id.map(str::to_string),
            },
            table: target.table,
            defaulted: target.defaulted,
            denied: target.denied,
            unexplained: target.unexplained,
            order: target.order,
            options,
            counters,
        }
    }
}
