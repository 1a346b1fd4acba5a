//! What a scan through SQL costs beside other readers of the same table, in one run
//! on loopback: TPC-H lineitem, served by `bigquery-local` in a process of its own,
//! read whole, three of its sixteen columns, and one row in a hundred.
//!
//! The readers, each a process of its own that reads in turn with the others:
//! * `bare`: a gRPC client that receives the record batches and drops them undecoded;
//! * `ours`: a physical plan of this library, its batches dropped. The others are told the
//!   columns and the restriction in the service's own words; how long it takes from the text
//!   of a SELECT on is printed beside it;
//! * `rust sdk`: Google's `google-cloud-bigquery` with the `arrow` crate's decoder
//!   (built from `benches/peers`);
//! * `python`: Google's `google-cloud-bigquery-storage` with pyarrow.
//!
//! `cargo bench --workspace --bench scan`
//!
//! `SCAN_SCALE` (default 1) is TPC-H's scale factor, `PEERS=0` leaves Google's
//! clients out, `PEERS_PYTHON` is a Python with `google-cloud-bigquery-storage` and
//! `pyarrow` (without it a virtual environment is made beside the build).

mod bare;
mod dataset;
mod lineitem;
mod ours;
mod peers;
mod planning;
mod process;
mod report;
mod serve;
mod shape;

use std::error::Error;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    match process::own_role().as_deref() {
        None => report::run().await,
        Some([role]) if role == "serve" => serve::run().await,
        Some([role, reading @ ..]) if role == "bare" => {
            bare::run(&shape::Reading::from_arguments(reading)?).await
        }
        Some([role, reading @ ..]) if role == "ours" => {
            ours::run(&shape::Reading::from_arguments(reading)?).await
        }
        Some(other) => Err(format!("no role {other:?}").into()),
    }
}
