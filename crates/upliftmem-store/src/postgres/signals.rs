//! LISTEN and NOTIFY. One thread hears what other processes write, one tells them what this one wrote.
//!
//! NOTIFY inside a transaction would make all that notify wait for each other's syncs, so it is sent after the commit, on a
//! connection of its own, and many of one kind become one. A word that is lost costs a wait, nothing else.

use std::{
    collections::BTreeSet,
    sync::{Mutex, OnceLock, PoisonError, Weak, mpsc},
    time::{Duration, Instant},
};

use postgres::{Client, fallible_iterator::FallibleIterator};

use super::Pool;
use crate::signals::{Hub, Topic, Watch};

/// How often a thread looks whether its store is still there, and how long it waits before it connects again.
const PAUSE: Duration = Duration::from_secs(1);
/// Words that are told together.
const TOGETHER: Duration = Duration::from_millis(5);

/// What a store says and hears.
#[derive(Debug, Default)]
pub(super) struct Signals {
    hub: Hub,
    listening: OnceLock<()>,
    telling: Mutex<Option<mpsc::Sender<Topic>>>,
}

impl Signals {
    /// Hears what is written from now on, by any process.
    pub(super) fn listen(&self, pool: Weak<Pool>) -> Watch {
        let watch = self.hub.listen();
        let hub = self.hub.clone();
        self.listening
            .get_or_init(|| spawn("upliftmem-listen", move || listen(&pool, &hub)));
        watch
    }

    /// Tells everyone who listens.
    pub(super) fn tell(&self, pool: Weak<Pool>, topic: Topic) {
        self.hub.tell(topic);
        let mut telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = telling.get_or_insert_with(|| {
            let (sender, topics) = mpsc::channel();
            spawn("upliftmem-tell", move || tell(&pool, &topics));
            sender
        });
        // A thread that ended is not missed: words are only words.
        let _ = sender.send(topic);
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    // Without the thread everything still works, more slowly.
    drop(std::thread::Builder::new().name(name.into()).spawn(work));
}

fn channel(pool: &Pool) -> String {
    format!("upliftmem_{}", pool.schema)
}

fn connect(pool: &Weak<Pool>) -> Option<(Client, String)> {
    let pool = pool.upgrade()?;
    let client = pool.connector.connect().ok();
    client.map(|client| (client, channel(&pool)))
}

fn listen(pool: &Weak<Pool>, hub: &Hub) {
    while pool.strong_count() > 0 {
        let Some((mut client, channel)) = connect(pool) else {
            std::thread::sleep(PAUSE);
            continue;
        };
        if client.batch_execute(&format!("LISTEN {channel}")).is_err() {
            std::thread::sleep(PAUSE);
            continue;
        }
        // Anything may have been written while nobody listened.
        for topic in Topic::ALL {
            hub.tell(topic);
        }
        while pool.strong_count() > 0 {
            let heard = client.notifications().timeout_iter(PAUSE).next();
            match heard {
                Ok(Some(word)) => {
                    if let Some(topic) = Topic::parse(word.payload()) {
                        hub.tell(topic);
                    }
                }
                Ok(None) if client.is_closed() => break,
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }
}

fn tell(pool: &Weak<Pool>, topics: &mpsc::Receiver<Topic>) {
    let mut connected: Option<(Client, String)> = None;
    while let Ok(first) = topics.recv() {
        let mut together = BTreeSet::from([first.as_str()]);
        // However many come, the first waits no longer than this.
        let until = Instant::now() + TOGETHER;
        while let Ok(next) = topics.recv_timeout(until.saturating_duration_since(Instant::now())) {
            together.insert(next.as_str());
            if together.len() == Topic::ALL.len() {
                break;
            }
        }
        if connected.as_ref().is_none_or(|(client, _)| client.is_closed()) {
            connected = connect(pool);
        }
        let Some((client, channel)) = &mut connected else {
            continue;
        };
        // Nothing is written but the word, so there is nothing to sync.
        let mut statements = String::from("SET synchronous_commit = off;");
        for topic in together {
            statements += &format!("NOTIFY {channel}, '{topic}';");
        }
        if client.batch_execute(&statements).is_err() {
            connected = None;
        }
    }
}
