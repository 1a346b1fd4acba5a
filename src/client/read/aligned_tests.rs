use googleapis_storage::google::cloud::bigquery::storage::v1::read_rows_response::Rows;
use googleapis_storage::google::cloud::bigquery::storage::v1::{
    ArrowRecordBatch, ArrowSchema, StreamStats, read_rows_response,
};
use proptest::prelude::*;

use super::*;

/// A response whose record batch has metadata of so many bytes.
fn response(metadata: usize, body: usize) -> ReadRowsResponse {
    let mut message = vec![0xff; 4];
    message.extend(u32::try_from(metadata).unwrap().to_le_bytes());
    message.extend(std::iter::repeat_n(7, metadata));
    message.extend((0..body).map(|at| u8::try_from(at % 251).unwrap()));
    #[allow(deprecated, reason = "the service leaves it out")]
    let rows = ArrowRecordBatch {
        serialized_record_batch: message.into(),
        row_count: 0,
    };
    ReadRowsResponse {
        row_count: 12,
        stats: Some(StreamStats::default()),
        rows: Some(Rows::ArrowRecordBatch(rows)),
        schema: Some(read_rows_response::Schema::ArrowSchema(ArrowSchema {
            serialized_schema: Bytes::from_static(b"schema"),
        })),
        ..ReadRowsResponse::default()
    }
}

fn framed(content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
    bytes.extend(content);
    bytes
}

/// What comes of bytes that arrive in frames of these lengths, the rest in one.
fn received(bytes: &[u8], frames: &[usize]) -> (Vec<Bytes>, Vec<u8>, Assembly) {
    let (mut assembly, mut whole) = (Assembly::default(), VecDeque::new());
    let mut left = Bytes::copy_from_slice(bytes);
    let mut seen = Vec::new();
    for length in frames.iter().copied().chain([usize::MAX]) {
        let frame = left.split_to(length.min(left.len()));
        seen.extend_from_slice(&assembly.take(frame, &mut whole));
    }
    (whole.into(), seen, assembly)
}

fn body_of(message: &Bytes) -> Bytes {
    let response = ReadRowsResponse::decode(message.clone()).unwrap();
    let Some(Rows::ArrowRecordBatch(batch)) = response.rows else {
        panic!("no rows");
    };
    let message = batch.serialized_record_batch;
    let metadata: [u8; 4] = message[4..8].try_into().unwrap();
    message.slice(8 + usize::try_from(u32::from_le_bytes(metadata)).unwrap()..)
}

proptest! {
    /// However messages are cut into frames, they come out whole, with their
    /// buffers aligned, and tonic sees one message each.
    #[test]
    fn messages_are_put_together(
        shapes in prop::collection::vec((0usize..40, 0usize..3_000), 0..5),
        frames in prop::collection::vec(1usize..200, 0..60),
    ) {
        let sent: Vec<_> = shapes
            .iter()
            .map(|(metadata, body)| response(metadata * 8, *body).encode_to_vec())
            .collect();
        let bytes: Vec<u8> = sent.iter().flat_map(|content| framed(content)).collect();
        let (whole, seen, mut assembly) = received(&bytes, &frames);
        prop_assert_eq!(&whole, &sent);
        prop_assert_eq!(seen, vec![0; HEADER_BYTES * sent.len()]);
        prop_assert_eq!(assembly.rest(), None);
        for (message, (_, size)) in whole.iter().zip(&shapes) {
            let body = body_of(message);
            prop_assert_eq!(body.len(), *size);
            if *size > 0 {
                prop_assert_eq!(body.as_ptr() as usize % ALIGNMENT, 0);
            }
        }
    }

    /// Bytes that are no messages of the service's are put together all the same:
    /// what they mean is decided when they are decoded.
    #[test]
    fn any_contents_come_out_as_they_are(
        contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..4),
        frames in prop::collection::vec(1usize..100, 0..20),
    ) {
        let bytes: Vec<u8> = contents.iter().flat_map(|content| framed(content)).collect();
        let (whole, ..) = received(&bytes, &frames);
        prop_assert_eq!(whole, contents);
    }
}

#[test]
fn empty_messages_are_messages() {
    let (whole, seen, _) = received(&[framed(&[]), framed(b"x"), framed(&[])].concat(), &[3, 2]);
    assert_eq!(whole, [&b""[..], b"x", b""]);
    assert_eq!(seen, [0; 3 * HEADER_BYTES]);
}

#[test]
fn what_is_cut_off_stays_incomplete() {
    for length in [1, 4, 5, 7] {
        let (whole, seen, mut assembly) = received(&framed(b"abc")[..length], &[]);
        assert!(whole.is_empty() && seen.is_empty(), "{length}");
        assert_eq!(assembly.rest().unwrap(), [0, 0, 0, 0, 1][..]);
        assert_eq!(assembly.rest(), None);
    }
}

#[test]
fn what_is_not_understood_is_passed_on() {
    let compressed = [&[1, 0, 0, 0, 2][..], b"ab", b"more"].concat();
    let too_long = [&[0, 0xff, 0xff, 0xff, 0xff][..], b"ab"].concat();
    for bytes in [compressed, too_long] {
        for frames in [&[][..], &[2, 4]] {
            let (whole, seen, _) = received(&bytes, frames);
            assert!(whole.is_empty());
            assert_eq!(seen, bytes);
        }
    }
}
