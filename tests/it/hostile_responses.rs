//! Responses damaged in every way, over sockets: an error or rows, never a panic,
//! never an end that was not one.

use bytes::Bytes;
use datafusion_bigquery::client::read::session::ReadSessionRequest;
use datafusion_bigquery::client::read::stream::ReadStreamOptions;
use datafusion_bigquery::options::Compression;
use datafusion_bigquery::types::TableRef;
use futures::TryStreamExt;
use googleapis_storage::google::cloud::bigquery::storage::v1::{
    ArrowSchema, ReadRowsResponse, ReadSession, read_rows_response::Rows, read_session,
};
use prost::Message;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::fake_read::{Act, FakeRead, STREAM, rows, session};

const CASES: u64 = 4_000;

/// Damages `bytes` a little or a lot.
fn damage(random: &mut StdRng, bytes: &Bytes) -> Bytes {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..5) {
        if bytes.is_empty() {
            break;
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..6) {
            0 => bytes[at] = random.random(),
            1 => bytes.truncate(at),
            2 => {
                let end = bytes.len().min(at + random.random_range(1..64));
                bytes.drain(at..end);
            }
            3 => {
                let end = bytes.len().min(at + random.random_range(1..64));
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            // Lengths and offsets of all sizes.
            4 => {
                let value: u64 = [0, 1, u64::MAX, 1 << 31, 1 << 40, 1 << 63, random.random()]
                    [random.random_range(0..7)];
                let end = bytes.len().min(at + 8);
                bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            }
            _ => bytes[at] ^= 1 << random.random_range(0..8),
        }
    }
    bytes.into()
}

/// The second of three responses, damaged.
fn damaged(seed: u64) -> Act {
    let mut random = StdRng::seed_from_u64(seed);
    let mut response: ReadRowsResponse = rows(10..20);
    let Some(Rows::ArrowRecordBatch(arrow)) = &mut response.rows else {
        unreachable!()
    };
    match random.random_range(0..5) {
        0 => response.row_count = random.random(),
        1 => response.uncompressed_byte_size = Some(random.random()),
        2 => return Act::SendRaw(damage(&mut random, &response.encode_to_vec().into())),
        _ => {
            arrow.serialized_record_batch = damage(&mut random, &arrow.serialized_record_batch);
        }
    }
    Act::Send(response)
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_responses_are_errors_or_rows() {
    let server = FakeRead::start(|call, _| {
        let seed = u64::try_from(call).unwrap();
        vec![
            Act::Send(rows(0..10)),
            damaged(seed),
            Act::Send(rows(20..30)),
        ]
    })
    .await;
    let client = server.client();
    let table = TableRef::new("p", "d", "t").unwrap();
    let (mut refused, mut read) = (0, 0);
    for compression in [Compression::None, Compression::Lz4Response] {
        let request = ReadSessionRequest {
            compression,
            ..ReadSessionRequest::new(table.clone())
        };
        let session = client.create_read_session(&request).await.unwrap();
        for _ in 0..CASES / 2 {
            let call = server.offsets().len();
            let options = ReadStreamOptions {
                max_attempts: 1,
                ..ReadStreamOptions::default()
            };
            let outcome: Result<Vec<_>, _> = client
                .read_stream(&session, STREAM, 0, options)
                .try_collect()
                .await;
            match outcome {
                Ok(batches) => {
                    // Damage to values cannot be seen; all else can.
                    let rows: usize = batches.iter().map(|it| it.batch.num_rows()).sum();
                    assert!(rows == 30 || rows == 20, "{call}: {rows} rows");
                    read += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("p.d.t"), "{call}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > CASES / 4 && read > 0, "{refused} and {read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_sessions_are_errors_or_sessions() {
    let server = FakeRead::with_sessions(
        |call, _| {
            let mut random = StdRng::seed_from_u64(u64::try_from(call).unwrap());
            let right = session();
            let Some(read_session::Schema::ArrowSchema(schema)) = &right.schema else {
                unreachable!()
            };
            Ok(ReadSession {
                schema: Some(read_session::Schema::ArrowSchema(ArrowSchema {
                    serialized_schema: damage(&mut random, &schema.serialized_schema),
                })),
                estimated_row_count: random.random(),
                estimated_total_bytes_scanned: random.random(),
                expire_time: Some(prost_types::Timestamp {
                    seconds: random.random(),
                    nanos: random.random(),
                }),
                ..right
            })
        },
        |_, _| vec![],
    )
    .await;
    let client = server.client();
    let request = ReadSessionRequest::new(TableRef::new("p", "d", "t").unwrap());
    let mut refused = 0;
    for _ in 0..CASES {
        match client.create_read_session(&request).await {
            Ok(session) => assert!(session.schema().fields().len() <= 1),
            Err(error) => {
                assert!(error.to_string().contains("p.d.t"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > CASES / 4, "{refused}");
}
