//! Files are uploaded while rows keep coming.

use crate::load_commit::{TINY, batch, server, sink};

/// Rows of a file: about 110 bytes each, which are not compressed.
const ROWS_PER_FILE: i64 = 256 * 1024 / 110;

/// A writer whose rows are always there never waits before its eighth upload: on a thread
/// of its own nothing else would run until then.
#[tokio::test]
async fn a_writer_gives_way_to_its_uploads() {
    let server = server().await;
    let more = [
        ("sink.file_loads.max_staging_file_bytes", "256 KiB"),
        ("sink.file_loads.compression", "none"),
        ("sink.file_loads.max_concurrent_finalizations", "8"),
    ];
    let sink = sink(&server, "t", TINY, &more).await;
    let mut writer = sink.writer(0, None).unwrap();
    let uploads = server.calls("objects.insert");
    let mut written = 0;
    while server.acted(uploads) == 0 {
        assert!(
            written < 8 * ROWS_PER_FILE,
            "nothing was uploaded while {written} rows were written"
        );
        writer.write(batch(written..written + 1)).await.unwrap();
        written += 1;
    }
    assert!(written >= ROWS_PER_FILE / 2, "{written}");
    writer.close().await.unwrap();
}
