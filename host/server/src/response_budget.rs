//! The budget for the bytes of responses that are not yet written, and the turns in which large
//! responses are serialized.

use std::sync::Arc;

use skillhost_mcp::answer_lease::{AnswerLease, JsonTurns};

use crate::budget::{Budget, Holder};

/// The budget for the bytes of responses.
pub(crate) struct ResponseBudget {
    bytes: Arc<Budget>,
    turns: JsonTurns,
}

impl ResponseBudget {
    /// Returns a budget of `bytes` for this number of clients.
    pub(crate) fn new(bytes: usize, clients: usize) -> Self {
        Self {
            bytes: Budget::new(bytes, clients),
            turns: JsonTurns::default(),
        }
    }

    /// Returns the lease of a response, which holds no bytes yet.
    pub(crate) fn lease(&self, holder: Holder) -> Arc<AnswerLease> {
        let mut lease = self.bytes.empty_lease(holder);
        AnswerLease::new(move |more| lease.grow(more)).with_turns(self.turns.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_share_bytes_and_release_them() {
        let budget = ResponseBudget::new(100, 0);
        let (one, other) = (budget.lease(Holder::Anybody), budget.lease(Holder::Anybody));
        assert!(one.reserve(60) && other.reserve(40));
        assert!(!other.reserve(41));
        assert!(!other.reserve_answer(1) && one.reserve_answer(60));
        assert!(one.reserve(10) && !other.reserve(90));
        assert!(!one.reserve(usize::MAX));
        drop(other);
        assert!(one.reserve(100));
        drop(one);
        assert!(budget.lease(Holder::Anybody).reserve(100));
    }

    #[test]
    fn greedy_client_leaves_response_bytes_to_others() {
        let budget = ResponseBudget::new(100, 2);
        let [greedy, other] = ["greedy", "other"].map(|name| Holder::Client(Some(name.into())));
        let leases = [(); 9].map(|()| budget.lease(greedy.clone()));
        assert_eq!(leases.iter().filter(|lease| lease.reserve(25)).count(), 3);
        let own = budget.lease(other);
        assert!(own.reserve(25) && !own.reserve(26));
        drop(leases);
        assert!(own.reserve(75) && !own.reserve(76) && budget.lease(greedy).reserve(25));
    }
}
