//! What the store promises, in memory and in a directory.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use super::*;
use crate::error::Result;
use crate::schema::{Field, FieldType, TableSchema, arrow_schema};

fn schema() -> Arc<TableSchema> {
    Arc::new(TableSchema::new(vec![
        Field::new("n", FieldType::Int64),
        Field::new("s", FieldType::String),
    ]))
}

fn batch(values: impl IntoIterator<Item = i64>, width: usize) -> RecordBatch {
    let values: Vec<i64> = values.into_iter().collect();
    let text: Vec<String> = values.iter().map(|n| format!("{n:>width$}")).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(values)),
        Arc::new(StringArray::from(text)),
    ];
    RecordBatch::try_new(arrow_schema(&schema()), columns).unwrap()
}

fn segment(values: impl IntoIterator<Item = i64>, width: usize) -> Segment {
    Segment::in_memory(vec![batch(values, width)], None)
}

fn table(name: &str) -> TableRef {
    TableRef::new("p", "d", name)
}

fn dataset() -> DatasetRef {
    DatasetRef::new("p", "d")
}

fn meta() -> TableMeta {
    TableMeta::new(&Dataset::new("US", 0), TableKind::Table, schema(), 0)
}

fn commit(store: &Store, mutations: Vec<Mutation>) {
    try_commit(store, mutations).unwrap();
}

fn try_commit(store: &Store, mutations: Vec<Mutation>) -> Result<()> {
    store.commit(|_| Ok((mutations, ())))
}

fn create(store: &Store, name: &str) {
    commit(
        store,
        vec![
            Mutation::PutDataset(dataset(), Dataset::new("US", 0)),
            Mutation::PutTable(table(name), Box::new(meta())),
        ],
    );
}

fn numbers(snapshot: &Snapshot) -> Vec<i64> {
    snapshot
        .batches()
        .unwrap()
        .iter()
        .flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec())
        .collect()
}

fn rows(store: &Store, name: &str) -> Vec<i64> {
    numbers(&store.table(&table(name)).unwrap().snapshot())
}

fn reopen(store: Store, directory: &Path) -> Store {
    drop(store);
    Store::open(directory, StoreOptions::default()).unwrap()
}

/// Everything that can be seen of a store, now and at each of `times`.
fn seen(store: &Store, times: &[i64]) -> Vec<String> {
    store.read(|state| {
        let mut out = Vec::new();
        for (reference, dataset) in state.datasets("p") {
            out.push(format!(
                "{reference} {}",
                serde_json::to_string(&**dataset).unwrap()
            ));
            for table in state.tables(reference) {
                let meta = serde_json::to_string(&*table.meta()).unwrap();
                out.push(format!(
                    "{} {} {meta}",
                    table.reference(),
                    table.incarnation()
                ));
                out.push(format!(
                    "{} {}",
                    table.changed(),
                    table.snapshot().logical_bytes()
                ));
                for time in times {
                    let then = table.snapshot_at(*time);
                    let shown = then.map(|s| (numbers(&s), s.rows(), s.schema.fields.len()));
                    out.push(format!("{time} {shown:?}"));
                }
            }
        }
        out
    })
}

fn files(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A change at random, of tables `t0` to `t2`; most are small appends.
fn random_change(random: &mut StdRng, store: &Store, next: &mut i64) -> Vec<Mutation> {
    let reference = table(&format!("t{}", random.random_range(0..3)));
    let exists = store.table(&reference).is_ok();
    if !exists {
        return vec![
            Mutation::PutDataset(dataset(), Dataset::new("EU", 7)),
            Mutation::PutTable(reference, Box::new(meta())),
        ];
    }
    let mut fresh = |random: &mut StdRng| {
        let from = *next;
        *next += random.random_range(1..20);
        // Some segments are too large for the journal.
        let width = if random.random_bool(0.2) { 20_000 } else { 3 };
        segment(from..*next, width)
    };
    match random.random_range(0..20) {
        0 => vec![Mutation::DropTable(reference)],
        1 => vec![Mutation::Replace(reference, vec![fresh(random)])],
        2 => {
            let mut meta = TableMeta::clone(&store.table(&reference).unwrap().meta());
            meta.description = Some(format!("{}", random.random::<u32>()));
            let mut columns = meta.schema.fields.clone();
            columns.push(Field::new(format!("c{}", columns.len()), FieldType::Bool));
            meta.schema = Arc::new(TableSchema::new(columns));
            vec![Mutation::PutTable(reference, Box::new(meta))]
        }
        3 => vec![
            Mutation::Append(reference.clone(), vec![fresh(random), fresh(random)]),
            Mutation::Append(reference, vec![fresh(random)]),
        ],
        _ => vec![Mutation::Append(reference, vec![fresh(random)])],
    }
}

#[test]
fn a_directory_holds_what_memory_holds_whenever_it_is_opened_again() {
    for seed in 0..8 {
        let mut random = StdRng::seed_from_u64(seed);
        let directory = TempDir::new().unwrap();
        let mut store = Store::open(directory.path(), StoreOptions::default()).unwrap();
        let mut next = 0;
        let mut times = Vec::new();
        for _ in 0..60 {
            let change = random_change(&mut random, &store, &mut next);
            commit(&store, change);
            times.push(micros_now());
            if random.random_bool(0.1) {
                store.compact().unwrap();
            }
            if random.random_bool(0.1) {
                store.write_image().unwrap();
            }
            if random.random_bool(0.15) {
                let before = seen(&store, &times);
                store = reopen(store, directory.path());
                assert_eq!(seen(&store, &times), before, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_journal_cut_anywhere_holds_whole_changes_and_all_that_were_synced() {
    let directory = TempDir::new().unwrap();
    let store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    create(&store, "t");
    let journal = directory.path().join("journal-0000000000000000");
    // What the store shows once the journal has each length.
    let mut states = vec![(fs::metadata(&journal).unwrap().len(), seen(&store, &[]))];
    for i in 0..6 {
        let width = if i % 3 == 2 { 30_000 } else { 2 };
        commit(
            &store,
            vec![
                Mutation::Append(table("t"), vec![segment(i * 10..i * 10 + 5, width)]),
                Mutation::Append(table("t"), vec![segment(i * 10 + 5..i * 10 + 9, 2)]),
            ],
        );
        let mut shown = seen(&store, &[]);
        shown.push(format!("{:?}", rows(&store, "t")));
        states.push((fs::metadata(&journal).unwrap().len(), shown));
    }
    drop(store);
    let whole = fs::read(&journal).unwrap();
    let mut random = StdRng::seed_from_u64(1);
    let mut cuts: Vec<usize> = states
        .iter()
        .map(|(n, _)| usize::try_from(*n).unwrap())
        .collect();
    let first = cuts[0];
    cuts.extend((0..120).map(|_| random.random_range(first..whole.len())));
    for cut in cuts {
        let copy = TempDir::new().unwrap();
        fs::create_dir(copy.path().join("rows")).unwrap();
        for name in files(&directory.path().join("rows")) {
            let rows = Path::new("rows").join(name);
            fs::copy(directory.path().join(&rows), copy.path().join(&rows)).unwrap();
        }
        fs::write(copy.path().join("journal-0000000000000000"), &whole[..cut]).unwrap();
        let store = Store::open(copy.path(), StoreOptions::default()).unwrap();
        let (_, want) = states.iter().rfind(|(n, _)| *n <= cut as u64).unwrap();
        let mut shown = seen(&store, &[]);
        if want.len() > shown.len() {
            shown.push(format!("{:?}", rows(&store, "t")));
        }
        assert_eq!(&shown, want, "{cut}");
        // And it goes on from there.
        commit(
            &store,
            vec![Mutation::Append(table("t"), vec![segment([777], 1)])],
        );
        let store = reopen(store, copy.path());
        assert_eq!(rows(&store, "t").last(), Some(&777));
    }
}

#[test]
fn files_go_when_nothing_needs_them() {
    let directory = TempDir::new().unwrap();
    let options = StoreOptions {
        time_travel: Duration::from_millis(1),
    };
    let store = Store::open(directory.path(), options).unwrap();
    let rows_directory = directory.path().join("rows");
    create(&store, "t");
    let large = || segment(0..10, 20_000);
    commit(&store, vec![Mutation::Append(table("t"), vec![large()])]);
    assert_eq!(files(&rows_directory).len(), 1);
    let reader = store.table(&table("t")).unwrap().snapshot();
    commit(
        &store,
        vec![Mutation::Replace(table("t"), vec![segment([1], 1)])],
    );
    std::thread::sleep(Duration::from_millis(5));
    store.forget_old_versions().unwrap();
    // A reader still has the rows.
    assert_eq!(numbers(&reader).len(), 10);
    assert_eq!(files(&rows_directory).len(), 1);
    drop(reader);
    assert!(files(&rows_directory).is_empty());
    assert_eq!(rows(&store, "t"), [1]);
    commit(&store, vec![Mutation::Append(table("t"), vec![large()])]);
    commit(&store, vec![Mutation::DropTable(table("t"))]);
    assert!(files(&rows_directory).is_empty());
    // A change that is refused leaves no file behind.
    assert!(try_commit(&store, vec![Mutation::Append(table("t"), vec![large()])]).is_err());
    let staged = store.stage(vec![large()]).unwrap();
    assert_eq!(files(&rows_directory).len(), 1);
    drop(staged);
    assert!(files(&rows_directory).is_empty());
    let store = reopen(store, directory.path());
    assert!(store.table(&table("t")).is_err());
}

#[test]
fn shared_rows_stay_until_the_last_table_drops_them() {
    let directory = TempDir::new().unwrap();
    let rows_directory = directory.path().join("rows");
    let mut store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    for name in ["a", "b", "c"] {
        create(&store, name);
    }
    let first = vec![segment(0..5, 20_000), segment(5..9, 2)];
    commit(&store, vec![Mutation::Append(table("a"), first)]);
    for (from, to) in [("a", "b"), ("b", "c")] {
        let shared = store.table(&table(from)).unwrap().snapshot();
        let shared = shared.segments.iter().map(|s| s.share()).collect();
        commit(&store, vec![Mutation::Append(table(to), shared)]);
        store.write_image().unwrap();
    }
    let want: Vec<i64> = (0..9).collect();
    for name in ["a", "b"] {
        commit(&store, vec![Mutation::DropTable(table(name))]);
        assert_eq!(rows(&store, "c"), want);
        store = reopen(store, directory.path());
        assert_eq!(rows(&store, "c"), want);
    }
    commit(&store, vec![Mutation::DropTable(table("c"))]);
    assert!(files(&rows_directory).is_empty());
}

#[test]
fn leftovers_are_removed_and_numbers_not_used_again() {
    let directory = TempDir::new().unwrap();
    let store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    create(&store, "t");
    commit(
        &store,
        vec![Mutation::Append(table("t"), vec![segment(0..9, 20_000)])],
    );
    drop(store);
    let rows_directory = directory.path().join("rows");
    fs::write(rows_directory.join("00000000000000aa.arrow"), b"half").unwrap();
    fs::write(directory.path().join("image-0000000000000009.new"), b"half").unwrap();
    let store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    assert_eq!(files(&rows_directory), ["0000000000000000.arrow"]);
    assert_eq!(
        files(directory.path()),
        ["journal-0000000000000000", "lock", "rows"]
    );
    commit(
        &store,
        vec![Mutation::Append(table("t"), vec![segment(9..18, 20_000)])],
    );
    assert_eq!(
        files(&rows_directory),
        ["0000000000000000.arrow", "00000000000000ab.arrow"]
    );
    assert_eq!(rows(&store, "t"), (0..18).collect::<Vec<_>>());
}

#[test]
fn an_image_takes_over_the_journal() {
    let directory = TempDir::new().unwrap();
    let store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    create(&store, "t");
    for i in 0..5 {
        commit(
            &store,
            vec![Mutation::Append(table("t"), vec![segment([i], 1)])],
        );
    }
    let before = seen(&store, &[]);
    let reader = store.table(&table("t")).unwrap().snapshot();
    store.write_image().unwrap();
    assert_eq!(
        files(directory.path()),
        [
            "image-0000000000000001",
            "journal-0000000000000001",
            "lock",
            "rows"
        ]
    );
    assert_eq!(
        fs::metadata(directory.path().join("journal-0000000000000001"))
            .unwrap()
            .len(),
        0
    );
    assert_eq!(files(&directory.path().join("rows")).len(), 1);
    assert_eq!(numbers(&reader), [0, 1, 2, 3, 4]);
    assert_eq!(seen(&store, &[]), before);
    commit(
        &store,
        vec![Mutation::Append(table("t"), vec![segment([5], 1)])],
    );
    let store = reopen(store, directory.path());
    assert_eq!(rows(&store, "t"), [0, 1, 2, 3, 4, 5]);
    // A crash between the new image and the removal of the old one.
    fs::write(directory.path().join("image-0000000000000000"), b"old").unwrap();
    fs::write(directory.path().join("journal-0000000000000000"), b"old").unwrap();
    // And one before the next image was in place.
    fs::write(directory.path().join("journal-0000000000000002"), b"").unwrap();
    let store = reopen(store, directory.path());
    assert_eq!(rows(&store, "t"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(
        files(directory.path()),
        [
            "image-0000000000000001",
            "journal-0000000000000001",
            "lock",
            "rows"
        ]
    );
}

#[test]
fn damage_is_named_and_nothing_is_made_up() {
    let directory = TempDir::new().unwrap();
    let store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    create(&store, "t");
    let second = Store::open(directory.path(), StoreOptions::default()).unwrap_err();
    assert!(
        second
            .to_string()
            .contains("another server uses this directory"),
        "{second}"
    );
    store.write_image().unwrap();
    drop(store);
    let image = directory.path().join("image-0000000000000001");
    let whole = fs::read(&image).unwrap();
    let mut bad = whole.clone();
    bad[40] ^= 1;
    fs::write(&image, bad).unwrap();
    let error = Store::open(directory.path(), StoreOptions::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("image-0000000000000001 is damaged"),
        "{error}"
    );
    fs::remove_file(&image).unwrap();
    let error = Store::open(directory.path(), StoreOptions::default()).unwrap_err();
    assert!(error.to_string().contains("is missing"), "{error}");
    fs::write(&image, whole).unwrap();
    let store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    commit(
        &store,
        vec![Mutation::Append(table("t"), vec![segment(0..9, 20_000)])],
    );
    let rows_directory = directory.path().join("rows");
    fs::remove_file(rows_directory.join(&files(&rows_directory)[0])).unwrap();
    let error = store
        .table(&table("t"))
        .unwrap()
        .snapshot()
        .batches()
        .unwrap_err();
    assert!(
        error
            .message
            .contains("0000000000000000.arrow cannot be read"),
        "{error}"
    );
}

#[test]
fn large_segments_are_cut() {
    let directory = TempDir::new().unwrap();
    let store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    create(&store, "t");
    // About 100 MB in one batch.
    commit(
        &store,
        vec![Mutation::Append(
            table("t"),
            vec![segment(0..5_000, 20_000)],
        )],
    );
    let snapshot = store.table(&table("t")).unwrap().snapshot();
    assert!(snapshot.segments.len() > 1);
    let mut seen = Vec::new();
    for segment in &snapshot.segments {
        for batch in segment.reader().unwrap() {
            let batch = batch.unwrap();
            assert!(batch.num_rows() <= 250, "{}", batch.num_rows());
            seen.extend(
                batch
                    .column(0)
                    .as_primitive::<Int64Type>()
                    .values()
                    .iter()
                    .copied(),
            );
        }
    }
    assert_eq!(seen, (0..5_000).collect::<Vec<_>>());
    let size = snapshot.bytes();
    assert!((90 << 20..250 << 20).contains(&size), "{size}");
}

#[test]
fn compaction_keeps_every_version() {
    let directory = TempDir::new().unwrap();
    for store in [
        Store::in_memory(StoreOptions::default()),
        Store::open(directory.path(), StoreOptions::default()).unwrap(),
    ] {
        create(&store, "t");
        let mut times = Vec::new();
        for i in 0..100 {
            commit(
                &store,
                vec![Mutation::Append(table("t"), vec![segment([i, 100 + i], 1)])],
            );
            times.push(store.table(&table("t")).unwrap().changed());
        }
        let before = seen(&store, &times);
        let version = store.table(&table("t")).unwrap().changed();
        store.compact().unwrap();
        let snapshot = store.table(&table("t")).unwrap().snapshot();
        assert_eq!(snapshot.segments.len(), 1);
        assert_eq!(store.table(&table("t")).unwrap().changed(), version);
        assert_eq!(seen(&store, &times), before);
        commit(
            &store,
            vec![Mutation::Replace(table("t"), vec![segment([7], 1)])],
        );
        let then = store
            .table(&table("t"))
            .unwrap()
            .snapshot_at(times[9])
            .unwrap();
        assert_eq!(then.rows(), 20);
        // Nothing is left to do.
        store.compact().unwrap();
        assert_eq!(rows(&store, "t"), [7]);
    }
    let store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    assert_eq!(rows(&store, "t"), [7]);
}

#[test]
fn a_change_is_seen_whole_or_not_at_all() {
    let store = Store::in_memory(StoreOptions::default());
    create(&store, "t");
    let refused = try_commit(
        &store,
        vec![
            Mutation::Append(table("t"), vec![segment([1], 1)]),
            Mutation::Append(table("missing"), vec![segment([2], 1)]),
        ],
    );
    assert!(refused.is_err());
    assert!(rows(&store, "t").is_empty());
    let refused = try_commit(
        &store,
        vec![
            Mutation::DropDataset(dataset()),
            Mutation::Append(table("t"), vec![segment([1], 1)]),
        ],
    );
    assert!(refused.is_err());
    assert!(rows(&store, "t").is_empty());
}

#[test]
fn writers_share_syncs_and_lose_nothing() {
    let directory = TempDir::new().unwrap();
    let store = Arc::new(Store::open(directory.path(), StoreOptions::default()).unwrap());
    create(&store, "t");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let store = Arc::clone(&store);
            scope.spawn(move || {
                for i in 0..25 {
                    let n = writer * 1000 + i;
                    commit(
                        &store,
                        vec![Mutation::Append(table("t"), vec![segment([n], 1)])],
                    );
                    if i == 10 && writer == 3 {
                        store.write_image().unwrap();
                    }
                }
            });
        }
    });
    let store = reopen(Arc::into_inner(store).unwrap(), directory.path());
    let mut all = rows(&store, "t");
    all.sort_unstable();
    let want: Vec<i64> = (0..8)
        .flat_map(|w| (0..25).map(move |i| w * 1000 + i))
        .collect();
    assert_eq!(all, want);
}

#[test]
fn tables_without_columns_keep_their_rows() {
    let directory = TempDir::new().unwrap();
    let store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    let empty = Arc::new(TableSchema::default());
    let mut none = meta();
    none.schema = Arc::clone(&empty);
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(3));
    let batch =
        RecordBatch::try_new_with_options(arrow_schema(&empty), Vec::new(), &options).unwrap();
    commit(
        &store,
        vec![
            Mutation::PutDataset(dataset(), Dataset::new("US", 0)),
            Mutation::PutTable(table("t"), Box::new(none)),
            Mutation::Append(table("t"), vec![Segment::in_memory(vec![batch], None)]),
        ],
    );
    let store = reopen(store, directory.path());
    let snapshot = store.table(&table("t")).unwrap().snapshot();
    let rows: usize = snapshot
        .batches()
        .unwrap()
        .iter()
        .map(RecordBatch::num_rows)
        .sum();
    assert_eq!((snapshot.rows(), rows), (3, 3));
}

fn routine(text: &str) -> Routine {
    Routine {
        kind: RoutineKind::Function,
        text: text.into(),
        creation_time: 1,
        last_modified_time: 2,
        etag: "e".into(),
    }
}

fn job_record(stage: JobStage, document: &str) -> JobRecord {
    JobRecord {
        stage,
        document: document.into(),
    }
}

#[test]
fn routines_and_jobs_are_there_after_a_journal_and_after_an_image() {
    let directory = TempDir::new().unwrap();
    let mut store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    let function = |name: &str| RoutineRef {
        dataset: dataset(),
        name: name.into(),
    };
    let other = RoutineRef {
        dataset: DatasetRef::new("p", "e"),
        name: "f".into(),
    };
    let job = |id: &str| JobRef {
        project: "p".into(),
        location: "US".into(),
        id: id.into(),
    };
    commit(
        &store,
        vec![
            Mutation::PutRoutine(function("F"), Box::new(routine("one"))),
            Mutation::PutRoutine(function("g"), Box::new(routine("two"))),
            Mutation::PutRoutine(other.clone(), Box::new(routine("three"))),
            Mutation::PutJob(job("b"), job_record(JobStage::Begun, "b")),
            Mutation::PutJob(job("a"), job_record(JobStage::Begun, "a")),
            Mutation::PutJob(job("c"), job_record(JobStage::Begun, "c")),
        ],
    );
    commit(
        &store,
        vec![
            Mutation::PutRoutine(function("f"), Box::new(routine("replaced"))),
            Mutation::DropRoutine(function("G")),
            Mutation::PutJob(job("b"), job_record(JobStage::Done, "b2")),
            Mutation::DropJob(job("c")),
        ],
    );
    for image in [false, true] {
        if image {
            store.write_image().unwrap();
        }
        store = reopen(store, directory.path());
        store.read(|state| {
            let routines: Vec<_> = state
                .routines()
                .map(|(r, routine)| format!("{r} {}", routine.text))
                .collect();
            assert_eq!(routines, ["p:d.f replaced", "p:e.f three"]);
            let jobs: Vec<_> = state.jobs().map(|(r, j)| (r.id.as_str(), j)).collect();
            let b = job_record(JobStage::Done, "b2");
            let a = job_record(JobStage::Begun, "a");
            assert_eq!(jobs, [("b", &b), ("a", &a)], "oldest first");
        });
    }
    commit(&store, vec![Mutation::DropDataset(dataset())]);
    store.read(|state| {
        let left: Vec<_> = state.routines().map(|(r, _)| r.clone()).collect();
        assert_eq!(left, [other], "a dataset's routines go with it");
    });
}

#[test]
fn a_job_that_is_done_changes_nothing_more() {
    let store = Store::in_memory(StoreOptions::default());
    create(&store, "t");
    let job = JobRef {
        project: "p".into(),
        location: "US".into(),
        id: "j".into(),
    };
    let change = |value| {
        vec![
            Mutation::Append(table("t"), vec![segment([value], 1)]),
            Mutation::PutJob(job.clone(), job_record(JobStage::Applied, "")),
        ]
    };
    let put = |stage| vec![Mutation::PutJob(job.clone(), job_record(stage, ""))];
    assert!(try_commit(&store, change(1)).is_err(), "nobody knows it");
    commit(&store, put(JobStage::Begun));
    commit(&store, change(2));
    assert!(try_commit(&store, change(3)).is_err(), "it did so already");
    commit(&store, put(JobStage::Done));
    assert!(try_commit(&store, change(4)).is_err());
    assert_eq!(rows(&store, "t"), [2]);
}

#[test]
fn a_crash_before_the_first_image_is_whole_leaves_its_journal_behind() {
    let directory = TempDir::new().unwrap();
    let store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    create(&store, "t");
    drop(store);
    let next = directory.path().join("journal-0000000000000001");
    fs::write(&next, b"").unwrap();
    let new = directory.path().join("image-0000000000000001.new");
    fs::write(&new, b"half").unwrap();
    let store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    assert!(store.table(&table("t")).is_ok());
    assert!(!next.exists() && !new.exists());
}

/// A row of every kind of column that tables have, and of NULLs.
fn kinds() -> RecordBatch {
    let schema: TableSchema = serde_json::from_str(
        r#"{"fields": [
            {"name": "i", "type": "INTEGER"}, {"name": "b", "type": "BOOLEAN"},
            {"name": "s", "type": "STRING"}, {"name": "y", "type": "BYTES"},
            {"name": "n", "type": "NUMERIC"}, {"name": "m", "type": "BIGNUMERIC"},
            {"name": "ts", "type": "TIMESTAMP"}, {"name": "v", "type": "INTERVAL"},
            {"name": "l", "type": "INTEGER", "mode": "REPEATED"},
            {"name": "r", "type": "RECORD", "fields": [
                {"name": "x", "type": "DATE"},
                {"name": "ls", "type": "STRING", "mode": "REPEATED"}]},
            {"name": "lr", "type": "RECORD", "mode": "REPEATED", "fields": [
                {"name": "f", "type": "FLOAT"}]},
            {"name": "z", "type": "TIME"}]}"#,
    )
    .unwrap();
    let mut rows = crate::value::JsonRowsBuilder::new(
        &schema,
        crate::value::UnknownFields::Refuse,
        crate::value::build::JsonText::Encoded,
    );
    for i in 0..300 {
        let long = "x".repeat(500);
        let row = serde_json::json!({"i": i, "b": true, "s": long, "y": "AAAA", "n": "1.5",
            "m": "2.5", "ts": "2020-01-01 00:00:00", "v": "1-2 3 4:5:6", "l": [1, 2],
            "r": {"x": "2020-01-01", "ls": ["a", "b"]}, "lr": [{"f": 1.5}], "z": "01:02:03"});
        let row = if i % 3 == 0 {
            serde_json::json!({})
        } else {
            row
        };
        rows.push(&row).unwrap();
    }
    rows.finish().unwrap()
}

#[test]
fn columns_are_read_alone_and_right() {
    let directory = TempDir::new().unwrap();
    let store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    let batch = kinds();
    let names: Vec<String> = batch
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    let batches = vec![batch.clone(), batch.slice(10, 37), batch.clone()];
    let [segment] = store
        .stage(vec![Segment::in_memory(batches.clone(), None)])
        .unwrap()
        .try_into()
        .unwrap();
    let in_memory = Segment::in_memory(batches.clone(), None);
    for first in &names {
        for second in &names {
            let wanted = |name: &str| name == first || name == second;
            let positions: Vec<usize> = (0..names.len()).filter(|i| wanted(&names[*i])).collect();
            let mut reader = segment.columns(&wanted).unwrap();
            let found: Vec<RecordBatch> = reader.by_ref().map(Result::unwrap).collect();
            let right: Vec<RecordBatch> = batches
                .iter()
                .map(|b| b.project(&positions).unwrap())
                .collect();
            assert_eq!(found, right, "{first}, {second}");
            let read = reader.bytes_read().expect("the rows are in a file");
            assert!(
                wanted("s") || read < segment.bytes() as u64 / 4,
                "{first}, {second}: {read} of {}",
                segment.bytes()
            );
            let held: Vec<RecordBatch> = in_memory
                .columns(&wanted)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert_eq!(held, right);
        }
    }
    let mut none = segment.columns(&|_| false).unwrap();
    let rows: usize = none.by_ref().map(|b| b.unwrap().num_rows()).sum();
    assert_eq!((rows, none.bytes_read()), (637, Some(0)));
}

#[test]
fn rows_are_replaced_where_they_are_and_their_old_versions_stay() {
    let directory = TempDir::new().unwrap();
    let mut store = Store::open(directory.path(), StoreOptions::default()).unwrap();
    create(&store, "t");
    for first in [0, 10, 20] {
        let segments = vec![segment(first..first + 2, 1)];
        commit(&store, vec![Mutation::Append(table("t"), segments)]);
    }
    let before = store.table(&table("t")).unwrap().snapshot();
    let ids = store
        .table(&table("t"))
        .unwrap()
        .live_ids(&before.segments)
        .unwrap();
    let parts = vec![
        (ids[1], vec![segment([15], 1), segment([16], 1)]),
        (ids[2], Vec::new()),
    ];
    commit(&store, vec![Mutation::Rewrite(table("t"), parts)]);
    for image in [false, true] {
        let now = store.table(&table("t")).unwrap();
        assert_eq!(numbers(&now.snapshot()), [0, 1, 15, 16]);
        let then = now.snapshot_at(before.time).unwrap();
        assert_eq!(numbers(&then), [0, 1, 10, 11, 20, 21]);
        if image {
            store.write_image().unwrap();
        }
        store = reopen(store, directory.path());
    }
    let now = store.table(&table("t")).unwrap();
    assert_eq!(now.live_ids(&before.segments), None, "they are not live");
}
