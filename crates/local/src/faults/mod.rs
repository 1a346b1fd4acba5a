//! Faults on purpose: failures that a client must survive, made by a real server
//! over real sockets.
//!
//! A [`Rule`] says which calls it is about (method, table, call number) and what
//! happens to them. Rules come from a file, from Rust ([`Faults::add`]) or over
//! HTTP (`/_local/faults` on the REST listener). There are none by default, and
//! then nothing of this module touches a call.

mod appends;
mod control;
mod decide;
mod frames;
mod http;
mod messages;
mod method;
mod rpc;
mod rule;
mod wire;

pub use decide::{Faults, RuleId, RuleState};
pub use rule::{Action, Detached, Ending, Rule, RuleError};

pub(crate) use http::HttpFaults;
pub(crate) use rpc::RpcFaults;
pub(crate) use wire::{Handle, Wire, WireListener};
