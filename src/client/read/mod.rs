//! Reading over the Storage Read API.
//!
//! [`session`] opens a session: a snapshot of a table, cut into streams.
//! [`stream`] reads one of them, coming back to the row where it stopped after
//! every failure that another attempt can cure. `aligned` receives responses,
//! `decode` turns them into record batches and trusts nothing in them.

mod aligned;
mod channel;
mod decode;
#[doc(hidden)]
pub mod fuzzing;
mod message;
mod schema;
pub mod session;
pub(crate) mod status;
pub mod stream;

pub(crate) use channel::{Connections, Lease, request};
pub(crate) use session::open as open_session;
pub(crate) use stream::open as open_stream;
