//! The bytes of answers that are not yet written, divided among clients, and the turns of
//! large ones.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::client::ClientKey;
use crate::client_shares::ClientShares;
use skillhost_mcp::answer_lease::{AnswerLease, JsonTurns};

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
    pub(crate) fn room(self: &Arc<Self>, client: ClientKey) -> Arc<AnswerLease> {
        let mut share = AnswerShare {
            bytes: Arc::clone(self),
            client,
            taken: 0,
        };
        AnswerLease::new(move |more| share.take(more)).with_turns(self.turns.clone())
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
        assert!(one.reserve(60) && other.reserve(40));
        assert!(!other.reserve(41));
        assert!(!other.reserve_answer(1) && one.reserve_answer(60));
        assert!(one.reserve(10) && !other.reserve(90));
        assert!(!one.reserve(usize::MAX));
        drop(other);
        assert!(one.reserve(100));
        drop(one);
        assert!(bytes.room(None).reserve(100));
    }

    #[test]
    fn the_answers_to_a_client_leave_others_their_part() {
        let bytes = AnswerBytes::new(100, 2);
        let [greedy, other] = ["greedy", "other"].map(|name| Some(name.into()));
        let taken = [(); 9].map(|()| bytes.room(ClientKey::clone(&greedy)));
        assert_eq!(taken.iter().filter(|room| room.reserve(25)).count(), 3);
        let own = bytes.room(other);
        assert!(own.reserve(25) && !own.reserve(26));
        drop(taken);
        assert!(own.reserve(75) && !own.reserve(76) && bytes.room(greedy).reserve(25));
    }
}
