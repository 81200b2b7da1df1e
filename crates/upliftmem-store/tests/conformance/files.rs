//! Import and export.

use std::{
    io::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use upliftmem_core::MemoryId;
use upliftmem_store::*;

use crate::{journal::one_of_each, support::*};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) async fn exported(store: &TestStore, scope: &Scope, kind: ExportKind) -> String {
    let sink = Sink::default();
    store
        .export(scope, kind, Box::new(sink.clone()), Box::new(|_| {}))
        .await
        .unwrap();
    String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
}

fn mint() -> MintId {
    static NEXT: AtomicU64 = AtomicU64::new(1_000_000);
    Box::new(|created_at| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        MemoryId::from_u128(u128::from(created_at.millis()) << 64 | u128::from(number))
    })
}

fn own(kind: ExportKind, text: &str) -> ImportSource {
    let input = std::io::Cursor::new(text.to_owned().into_bytes());
    json_lines(kind, "test.jsonl", input, &limits(), at(77), mint())
}

async fn import(store: &TestStore, scope: &Scope, source: ImportSource) -> Result<ImportSummary> {
    store.import(scope, at(77), source, Box::new(|_| {})).await
}

pub(crate) async fn memories_round_trip_to_the_byte(store: TestStore) {
    let lines = r#"{"text":"only a text"}
{"id":"00000000-0000-0000-0000-000000000005","text":"all of it","kind":"procedure","tokens":9,"metadata":{"b":1.0,"a":0.1,"n":12345678901234567},"status":"quarantined","quarantine_reason":"x","created_at":5,"expires_at":99,"unknown":{"kept":[true,null]},"Ünïcode":"✓"}

{"text":"with a vector","embedding":{"generation":{"name":"e","dimension":3,"digest":"d"},"vector":[0.1,0.2,0.3]}}
{"text":"gone","status":"superseded","superseded_by":"00000000-0000-0000-0000-000000000005"}
"#;
    let summary = import(&store, &alice(), own(ExportKind::Memories, lines))
        .await
        .unwrap();
    assert_eq!(
        (summary.stored, summary.quarantined, summary.duplicates),
        (4, 1, 0)
    );
    let first = exported(&store, &alice(), ExportKind::Memories).await;
    assert!(first.contains(r#""unknown":{"kept":[true,null]}"#), "{first}");
    assert!(
        first.contains(r#""metadata":{"a":0.1,"b":1.0,"n":12345678901234567}"#),
        "{first}"
    );
    let copy = Scope::user("copy").unwrap();
    import(&store, &copy, own(ExportKind::Memories, &first))
        .await
        .unwrap();
    assert_eq!(exported(&store, &copy, ExportKind::Memories).await, first);
    let again = import(&store, &copy, own(ExportKind::Memories, &first))
        .await
        .unwrap();
    assert_eq!((again.stored, again.duplicates), (0, 4));

    let tasks = "{\"context\":\"do it\",\"difficulty\":3,\"id\":\"t1\",\"metadata\":{\"x\":1}}\n";
    import(&store, &alice(), own(ExportKind::Tasks, tasks))
        .await
        .unwrap();
    assert_eq!(exported(&store, &alice(), ExportKind::Tasks).await, tasks);
}

pub(crate) async fn executions_and_journal_round_trip_to_the_byte(store: TestStore) {
    let entries = one_of_each(&store, &alice()).await;
    store.append(&alice(), at(4), entries).await.unwrap();
    let copy = Scope::user("copy").unwrap();
    for kind in [ExportKind::Executions, ExportKind::Journal] {
        let first = exported(&store, &alice(), kind).await;
        assert!(!first.is_empty());
        import(&store, &copy, own(kind, &first)).await.unwrap();
        assert_eq!(exported(&store, &copy, kind).await, first);
    }
    assert_eq!(
        store.ledger(&copy).await.unwrap(),
        store.ledger(&alice()).await.unwrap()
    );
}

pub(crate) async fn a_bad_line_is_named_and_nothing_is_imported(store: TestStore) {
    let good = "{\"text\":\"good\"}\n";
    let cases = [
        ("{\"text\":5}", ", field \"text\": "),
        ("{\"metadata\":{}}", ", field \"text\": "),
        ("{\"text\":\"x\",\"tokens\":-1}", ", field \"tokens\": "),
        ("{\"text\":\"x\",\"status\":\"lost\"}", ", field \"status\": "),
        (
            "{\"text\":\"x\",\"id\":\"nine\"}",
            ", field \"id\": \"nine\" is not a UUID; leave it out",
        ),
        ("{\"text\":\"\"}", ", field \"text\": "),
        ("[1]", ": it is not a JSON object"),
        (
            "{\"text\":",
            ": it is not JSON: EOF while parsing a value at column 8",
        ),
    ];
    for (bad, rest) in cases {
        let file = format!("{good}\n{bad}\n");
        let error = import(&store, &alice(), own(ExportKind::Memories, &file))
            .await
            .unwrap_err();
        let told = error.to_string();
        assert!(
            told.contains(&format!("test.jsonl, line 3{rest}")),
            "{bad}: {told}"
        );
    }
    let too_long = format!("{good}{{\"text\":\"{}\"}}\n", "x".repeat(1_001));
    let error = import(&store, &alice(), own(ExportKind::Memories, &too_long))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("text_bytes_max"), "{error}");
    assert_eq!(
        exported(&store, &alice(), ExportKind::Memories).await,
        "",
        "nothing is half imported"
    );
    assert_eq!(
        store
            .recall(&alice(), at(0), by_words("good", 3))
            .await
            .unwrap()
            .hits,
        []
    );
}

pub(crate) async fn mem0_exports_are_imported(store: TestStore) {
    let export = r#"{"results":[
        {"id":"b2c3","memory":"Likes tea","hash":"h","metadata":{"category":"taste"},"created_at":"2025-02-03T10:00:00.5-08:00","updated_at":null,"user_id":"alice"},
        {"id":"a1b2","memory":"Lives in Bern","metadata":null,"created_at":"2025-01-02T03:04:05.678901","user_id":"alice","score":0.5}
    ]}"#;
    let read =
        |text: &'static str| mem0_export("mem0.json", text.as_bytes(), &alice(), &limits(), at(77), mint());
    let summary = import(&store, &alice(), read(export)).await.unwrap();
    assert_eq!(summary.stored, 2);
    let stored = store
        .list_memories(&alice(), MemoryFilter::default(), 9)
        .await
        .unwrap();
    assert_eq!(stored[0].memory.text, "Lives in Bern", "ids follow creation");
    assert_eq!(stored[0].created_at, at(1_735_787_045_678));
    assert_eq!(stored[0].provenance["id"], "a1b2");
    assert_eq!(stored[0].extra["score"], 0.5);
    assert_eq!(stored[1].memory.metadata["category"], "taste");
    assert_eq!(stored[1].created_at, at(1_738_605_600_500));
    let others = r#"[{"memory":"secret","user_id":"bob"}]"#;
    let error = import(&store, &alice(), read(others)).await.unwrap_err();
    assert!(
        error.to_string().contains("\"user_id\"") && error.to_string().contains("bob"),
        "{error}"
    );
    let lines = "{\"memory\":\"One a line\"}\n{\"memory\":\"Another\"}\n";
    assert_eq!(import(&store, &alice(), read(lines)).await.unwrap().stored, 2);
    let before = exported(&store, &alice(), ExportKind::Memories).await;
    let half = "{\"results\":[{\"memory\":\"good\"},\n{\"no\":\"memory\"}]}";
    let error = import(&store, &alice(), read(half)).await.unwrap_err();
    assert!(
        error.to_string().contains("mem0.json, line 2") && error.to_string().contains("\"memory\""),
        "{error}"
    );
    assert_eq!(exported(&store, &alice(), ExportKind::Memories).await, before);
}

pub(crate) async fn langgraph_items_are_imported(store: TestStore) {
    let items = r#"[
        {"namespace":["memories","alice"],"key":"k1","value":{"text":"Prefers short answers","weight":2},"created_at":"2025-01-01T00:00:00+00:00","updated_at":"2025-01-02T00:00:00+00:00"},
        {"namespace":["memories","alice"],"key":"k2","value":{"food":"pizza"},"created_at":"2025-01-01T00:00:01+00:00","updated_at":"2025-01-02T00:00:00+00:00","score":null}
    ]"#;
    let read = |text: &'static str| langgraph_items("items.json", text.as_bytes(), &limits(), at(77), mint());
    import(&store, &alice(), read(items)).await.unwrap();
    let stored = store
        .list_memories(&alice(), MemoryFilter::default(), 9)
        .await
        .unwrap();
    assert_eq!(stored[0].memory.text, "Prefers short answers");
    assert_eq!(stored[0].memory.metadata["weight"], 2);
    assert_eq!(stored[0].provenance["key"], "k1");
    assert_eq!(stored[1].memory.text, r#"{"food":"pizza"}"#);
    let wrong = read(r#"[{"namespace":["m"],"key":"k","value":"text"}]"#);
    let error = import(&store, &alice(), wrong).await.unwrap_err();
    assert!(error.to_string().contains("\"value\""), "{error}");
}

pub(crate) async fn text_files_are_imported_by_paragraph(store: TestStore) {
    let text = "First line\nof one.\n\n\n  Second.  \r\n\r\nThird";
    let input = std::io::Cursor::new(text);
    import(
        &store,
        &alice(),
        text_file("notes.txt", input, &limits(), at(77), mint()),
    )
    .await
    .unwrap();
    let stored = store
        .list_memories(&alice(), MemoryFilter::default(), 9)
        .await
        .unwrap();
    let texts: Vec<&str> = stored.iter().map(|stored| stored.memory.text.as_str()).collect();
    assert_eq!(texts, ["First line\nof one.", "Second.", "Third"]);
    assert_eq!(stored[1].provenance["line"], 5);
    let long = std::io::Cursor::new("x".repeat(5_000));
    let error = import(
        &store,
        &alice(),
        text_file("long.txt", long, &limits(), at(77), mint()),
    )
    .await
    .unwrap_err();
    assert!(
        error.to_string().contains("long.txt, line 1") && error.to_string().contains("text_bytes_max"),
        "{error}"
    );
}

pub(crate) async fn a_file_larger_than_a_batch_streams_and_reports_progress(store: TestStore) {
    /// A mem0 export that is never in memory as a whole.
    struct Endless {
        next: u64,
        rest: Vec<u8>,
    }
    impl std::io::Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            if self.rest.is_empty() && self.next <= 600 {
                self.rest = match self.next {
                    0 => b"[".to_vec(),
                    600 => b"{\"memory\":\"fact 600\"}]".to_vec(),
                    number => format!("{{\"memory\":\"fact {number}\"}},\n").into_bytes(),
                };
                self.next += 1;
            }
            let read = self.rest.len().min(into.len());
            into[..read].copy_from_slice(&self.rest[..read]);
            self.rest.drain(..read);
            Ok(read)
        }
    }
    let input = || {
        std::io::BufReader::with_capacity(
            64,
            Endless {
                next: 0,
                rest: Vec::new(),
            },
        )
    };
    let text: String = (0..600).map(|number| format!("note {number}\n\n")).collect();
    let sources = [
        mem0_export("mem0.json", input(), &alice(), &limits(), at(77), mint()),
        text_file("notes.txt", std::io::Cursor::new(text), &limits(), at(77), mint()),
    ];
    for source in sources {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let report = {
            let seen = Arc::clone(&seen);
            Box::new(move |done| seen.lock().unwrap().push(done))
        };
        let summary = store.import(&alice(), at(77), source, report).await.unwrap();
        assert_eq!(summary.stored, 600);
        assert_eq!(*seen.lock().unwrap(), [256, 512, 600]);
    }
}

pub(crate) async fn open_tickets_round_trip_to_the_byte(store: TestStore) {
    let purpose = upliftmem_core::Purpose::Probe;
    let tickets = (1..=4).map(|number| ticket(number, purpose)).collect();
    store.enqueue(&alice(), at(5), tickets).await.unwrap();
    let leased = store.lease(&alice(), at(6), lease_request("w", 3)).await.unwrap();
    store
        .complete(&alice(), at(7), leased[0].lease, report(1, 1.0))
        .await
        .unwrap();
    store.fail(&alice(), leased[1].lease, "lost").await.unwrap();
    let first = exported(&store, &alice(), ExportKind::Tickets).await;
    assert_eq!(first.lines().count(), 3, "{first}");
    let copy = Scope::user("copy").unwrap();
    import(&store, &copy, own(ExportKind::Tickets, &first))
        .await
        .unwrap();
    assert_eq!(exported(&store, &copy, ExportKind::Tickets).await, first);
    let again = import(&store, &copy, own(ExportKind::Tickets, &first))
        .await
        .unwrap();
    assert_eq!((again.stored, again.duplicates), (0, 3));
    let leased = store.lease(&copy, at(8), lease_request("w", 9)).await.unwrap();
    let attempts: Vec<u32> = leased.iter().map(|leased| leased.lease.attempt).collect();
    assert_eq!(attempts, [2, 2, 1], "attempts are not forgotten");
    let done = first.replacen("waiting", "completed", 1);
    let error = import(&store, &alice(), own(ExportKind::Tickets, &done))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("\"state\""), "{error}");
}
