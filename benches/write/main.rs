//! What writing through SQL costs beside other writers, in one run on loopback: rows
//! of TPC-H lineitem, written to `bigquery-local` in a process of its own.
//!
//! The writers, each a process of its own that writes in turn with the others the
//! same batches, held in memory and repeated until there are enough:
//! * `bare`: a gRPC client that sends protobuf rows in requests encoded before;
//! * an INSERT of this library by each write method;
//! * `rust sdk`: Google's `google-cloud-bigquery`, its Arrow writer (built from
//!   `benches/peers`);
//! * `python`: Google's `google-cloud-bigquery-storage`, protobuf rows as its
//!   documentation shows them, and record batches of pyarrow.
//!
//! The two that take record batches have to cast decimals to NUMERIC's themselves.
//!
//! Megabytes are those of the protobuf rows, whatever is sent. After every turn the
//! rows of the table are counted.
//!
//! Beside that: what each encoder costs for a row, what an INSERT into 1,000 tables
//! takes, and the peak memory of a process that writes much and little.
//!
//! `cargo bench --workspace --bench write`
//!
//! `WRITE_SCALE` (default 0.5) is TPC-H's scale factor, `PEERS=0` leaves Google's
//! clients out, `PEERS_PYTHON` is a Python with `google-cloud-bigquery-storage` and
//! `pyarrow` (without it a virtual environment is made beside the build).

mod bare;
mod encoders;
#[path = "../scan/lineitem.rs"]
mod lineitem;
mod ours;
#[path = "../scan/peers.rs"]
mod peers;
#[path = "../scan/process.rs"]
mod process;
mod report;
mod rows;
#[path = "../scan/serve.rs"]
mod serve;
mod target;

use std::error::Error;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    match process::own_role().as_deref() {
        None => report::run().await,
        Some([role]) if role == "serve" => serve::run().await,
        Some([role, target @ ..]) if role == "bare" => {
            bare::run(&target::Target::from_arguments(target)?).await
        }
        Some([role, target @ .., how]) if role == "ours" => {
            ours::run(&target::Target::from_arguments(target)?, how).await
        }
        Some(other) => Err(format!("no role {other:?}").into()),
    }
}
