//! The bytes of answers that are not yet written, divided among clients, and the turns of
//! large ones.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::client::ClientKey;
use crate::client_shares::ClientShares;
use skillhost_mcp::room::{JsonTurns, Room};

/// The bytes that answers may take. Without clients, all of them are anybody's.
pub(crate) struct AnswerBytes {
    shares: Mutex<ClientShares>,
    turns: JsonTurns,
}

/// The bytes that one answer has taken. They are given back when this is dropped.
struct AnswerShare {
    bytes: Arc<AnswerBytes>,
    client: ClientKey,
    taken: usize,
}

impl AnswerBytes {
    /// Divides so many bytes among so many clients.
    pub(crate) fn new(most: usize, clients: usize) -> Arc<Self> {
        Arc::new(Self {
            shares: Mutex::new(ClientShares::new(most, clients)),
            turns: JsonTurns::default(),
        })
    }

    /// Returns the room for an answer to a client, which is empty.
    pub(crate) fn room(self: &Arc<Self>, client: ClientKey) -> Arc<Room> {
        let mut share = AnswerShare {
            bytes: Arc::clone(self),
            client,
            taken: 0,
        };
        Room::new(move |more| share.take(more)).with_turns(self.turns.clone())
    }

    fn shares(&self) -> MutexGuard<'_, ClientShares> {
        self.shares
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

impl AnswerShare {
    fn take(&mut self, more: usize) -> bool {
        let fits = self.bytes.shares().take(&self.client, more);
        if fits {
            self.taken += more;
        }
        fits
    }
}

impl Drop for AnswerShare {
    fn drop(&mut self) {
        self.bytes.shares().give_back(&self.client, self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_share_bytes_and_give_them_back() {
        let bytes = AnswerBytes::new(100, 0);
        let (one, other) = (bytes.room(None), bytes.room(None));
        assert!(one.fit(60) && other.fit(40));
        assert!(!other.fit(41));
        assert!(!other.holds(1) && one.holds(60));
        assert!(one.fit(10) && !other.fit(90));
        assert!(!one.fit(usize::MAX));
        drop(other);
        assert!(one.fit(100));
        drop(one);
        assert!(bytes.room(None).fit(100));
    }

    #[test]
    fn the_answers_to_a_client_leave_others_their_part() {
        let bytes = AnswerBytes::new(100, 2);
        let [greedy, other] = ["greedy", "other"].map(|name| Some(name.into()));
        let taken = [(); 9].map(|()| bytes.room(ClientKey::clone(&greedy)));
        assert_eq!(taken.iter().filter(|room| room.fit(25)).count(), 3);
        let own = bytes.room(other);
        assert!(own.fit(25) && !own.fit(26));
        drop(taken);
        assert!(own.fit(75) && !own.fit(76) && bytes.room(greedy).fit(25));
    }
}
