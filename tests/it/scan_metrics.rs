//! What EXPLAIN ANALYZE and events tell of a scan.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use datafusion::prelude::SessionConfig;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Event, Metadata, Subscriber};

use crate::fake_read::{Act, FakeRead, rows, throttled};
use crate::harness::{Server, metric, plan, run, text};
use crate::scan_faults::session_over;

#[tokio::test(flavor = "multi_thread")]
async fn explain_analyze_tells_what_was_asked_and_what_came() {
    let server = Server::with_flights(1 << 20).await;
    let context = server.session_with(SessionConfig::new().with_target_partitions(2));
    let sql = "EXPLAIN ANALYZE SELECT f.distance FROM bq.nycflights13.airlines a JOIN \
               bq.nycflights13.flights f ON f.carrier = a.carrier WHERE a.name LIKE '%America%'";
    let told = text(&context, sql).await;
    let line = told
        .lines()
        .find(|line| line.contains("demo.nycflights13.flights"))
        .unwrap();
    for part in [
        "(`carrier` IN ('AA', 'VX'))",
        "late_filters=[carrier]",
        "sessions=1",
        "streams=",
        "received_rows=37.89 K",
        "wire_bytes=",
        "reconnects=0",
        "throttle_percent=0",
        "estimated_bytes_scanned=",
        "late_filters=1",
        "late_filter_timeouts=0",
        "late_filter_wait=",
        "wait_time=",
        "decode_time=",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slowed_down_stream_tells_by_how_much() {
    let server = FakeRead::start(|_, _| {
        [
            throttled(10),
            rows(0..5),
            throttled(70),
            rows(5..9),
            throttled(20),
        ]
        .map(Act::Send)
        .to_vec()
    })
    .await;
    let (_rest, context) = session_over(&server).await;
    let read = plan(&context, "SELECT n FROM bq.d.t").await;
    assert_eq!(run(&context, &read).await, 9);
    assert_eq!(metric(&read, "throttle_percent"), 70);
}

/// Keeps the fields of each event, by its message.
#[derive(Debug, Clone, Default)]
struct Events(Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>);

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("datafusion_bigquery")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        self.0.lock().unwrap().push(fields);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// On one thread, because that is where the subscriber is.
#[tokio::test]
async fn the_end_of_a_scan_is_an_event() {
    let events = Events::default();
    // While a process has one subscriber, whoever meets an event first asks the
    // subscriber of its own thread whether anybody wants it, and the answer stays.
    // Tests on other threads have none; with a second subscriber all are asked.
    let _second = Dispatch::new(NoSubscriber::default());
    let _subscribed = tracing::subscriber::set_default(events.clone());
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    server
        .query("CREATE TABLE d.t AS SELECT n FROM UNNEST(GENERATE_ARRAY(1, 1000)) n")
        .await;
    let context = server.session(3);
    let read = plan(&context, "SELECT n FROM bq.d.t WHERE n > 10").await;
    assert_eq!(run(&context, &read).await, 990);
    drop(read);
    let told = |message: &str| {
        let events = events.0.lock().unwrap();
        let found: Vec<_> = events
            .iter()
            .filter(|event| event.get("message").is_some_and(|text| text == message))
            .cloned()
            .collect();
        assert_eq!(found.len(), 1, "{events:?}");
        found[0].clone()
    };
    let opened = told("session opened");
    assert_eq!(opened["table"], "demo.d.t");
    let over = told("scan over");
    for (field, value) in [
        ("table", "demo.d.t"),
        ("sessions", "1"),
        ("rows", "990"),
        ("reconnects", "0"),
        ("throttle_percent", "0"),
        ("late_filter_timeouts", "0"),
    ] {
        assert_eq!(over[field], value, "{field}");
    }
    for field in ["streams", "wire_bytes", "estimated_bytes_scanned"] {
        assert_ne!(over[field], "0", "{field}");
    }
    for field in ["wait_time", "decode_time", "late_filter_wait"] {
        assert!(over.contains_key(field), "{field}");
    }
}
