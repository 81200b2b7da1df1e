//! Word that something was written, so that nobody has to look again and again. A word can be lost: whoever waits for
//! one looks after a while anyway, and finds what there is in the store.

use std::time::Duration;

use tokio::sync::broadcast;

/// Words that wait for a slow listener; one that misses some is told that there were any.
const KEPT: usize = 64;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Tickets that can be handed out.
    Tickets,
    /// Executions that ended.
    Reports,
    /// A scorer version, or the choice of one.
    Scorers,
}

impl Topic {
    pub(crate) const ALL: [Self; 3] = [Self::Tickets, Self::Reports, Self::Scorers];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Tickets => "tickets",
            Self::Reports => "reports",
            Self::Scorers => "scorers",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.as_str() == word)
    }
}

/// Where words are told and heard within a process.
#[derive(Debug, Clone)]
pub(crate) struct Hub(broadcast::Sender<Topic>);

impl Default for Hub {
    fn default() -> Self {
        Self(broadcast::Sender::new(KEPT))
    }
}

impl Hub {
    pub(crate) fn tell(&self, topic: Topic) {
        // Nobody may be listening.
        let _ = self.0.send(topic);
    }

    pub(crate) fn listen(&self) -> Watch {
        Watch(self.0.subscribe())
    }
}

/// Hears what is written from its making on, by this process and, on PostgreSQL, by others.
#[derive(Debug)]
pub struct Watch(broadcast::Receiver<Topic>);

impl Watch {
    /// Waits for word about a topic, at most so long; says whether there was any.
    pub async fn heard(&mut self, topic: Topic, within: Duration) -> bool {
        let wait = async {
            loop {
                match self.0.recv().await {
                    Ok(told) if told == topic => return true,
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Lagged(_)) => return true,
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        tokio::time::timeout(within, wait).await.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_was_asked_for_is_heard_and_a_wait_ends() {
        let hub = Hub::default();
        let mut watch = hub.listen();
        hub.tell(Topic::Reports);
        assert!(!watch.heard(Topic::Tickets, Duration::from_millis(20)).await);
        hub.tell(Topic::Tickets);
        assert!(watch.heard(Topic::Tickets, Duration::from_secs(9)).await);
        for _ in 0..2 * KEPT {
            hub.tell(Topic::Reports);
        }
        assert!(
            watch.heard(Topic::Tickets, Duration::from_secs(9)).await,
            "some words were missed"
        );
    }
}
