//! The Avro form of rows (section 2.2 of the service reference): bare datums, one
//! after another, of a root record called `__root__`.

mod encode;
mod schema;

pub(super) use encode::encode;
pub(super) use schema::{DisplayNames, named, schema};
