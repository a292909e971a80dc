//! The budget for the bytes of answers that are not yet written, and the turns of large answers.

use std::sync::Arc;

use skillhost_mcp::room::{JsonTurns, Room};

use crate::budget::{Budget, Holder};

/// The bytes that answers may take.
pub(crate) struct AnswerBudget {
    bytes: Arc<Budget>,
    turns: JsonTurns,
}

impl AnswerBudget {
    /// Returns a budget of so many bytes for so many clients.
    pub(crate) fn new(bytes: usize, clients: usize) -> Self {
        Self {
            bytes: Budget::new(bytes, clients),
            turns: JsonTurns::default(),
        }
    }

    /// Returns the room for an answer, which is empty.
    pub(crate) fn room(&self, holder: Holder) -> Arc<Room> {
        let mut lease = self.bytes.empty_lease(holder);
        Room::new(move |more| lease.grow(more)).with_turns(self.turns.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_share_bytes_and_release_them() {
        let budget = AnswerBudget::new(100, 0);
        let (one, other) = (budget.room(Holder::Anybody), budget.room(Holder::Anybody));
        assert!(one.fit(60) && other.fit(40));
        assert!(!other.fit(41));
        assert!(!other.holds(1) && one.holds(60));
        assert!(one.fit(10) && !other.fit(90));
        assert!(!one.fit(usize::MAX));
        drop(other);
        assert!(one.fit(100));
        drop(one);
        assert!(budget.room(Holder::Anybody).fit(100));
    }

    #[test]
    fn answers_to_greedy_client_leave_others_their_part() {
        let budget = AnswerBudget::new(100, 2);
        let [greedy, other] = ["greedy", "other"].map(|name| Holder::Client(Some(name.into())));
        let rooms = [(); 9].map(|()| budget.room(greedy.clone()));
        assert_eq!(rooms.iter().filter(|room| room.fit(25)).count(), 3);
        let own = budget.room(other);
        assert!(own.fit(25) && !own.fit(26));
        drop(rooms);
        assert!(own.fit(75) && !own.fit(76) && budget.room(greedy).fit(25));
    }
}
