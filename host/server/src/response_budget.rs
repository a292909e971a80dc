//! The budget for the bytes of responses that are not yet written, and the turns in which large
//! messages are parsed and large responses are serialized.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use skillhost_mcp::answer_lease::{AnswerLease, JsonTurns};

use crate::budget::{Budget, Holder};
use crate::client::ClientKey;

/// The budget for the bytes of responses.
pub(crate) struct ResponseBudget {
    bytes: Arc<Budget>,
    turns: JsonTurns,
    turns_by_client: Mutex<HashMap<ClientKey, JsonTurns>>,
}

impl ResponseBudget {
    /// Returns a budget of `bytes` for this number of clients.
    pub(crate) fn new(bytes: usize, clients: usize) -> Self {
        Self {
            bytes: Budget::new(bytes, clients),
            turns: JsonTurns::default(),
            turns_by_client: Mutex::default(),
        }
    }

    /// Returns the lease of a response, which holds no bytes yet.
    pub(crate) fn lease(&self, holder: Holder) -> Arc<AnswerLease> {
        let turns = self.turns_of(&holder);
        let mut lease = self.bytes.empty_lease(holder);
        AnswerLease::new(move |more| lease.grow(more)).with_turns(turns)
    }

    fn turns_of(&self, holder: &Holder) -> JsonTurns {
        let Holder::Client(client) = holder else {
            return self.turns.clone();
        };
        let by_client = self.turns_by_client.lock();
        let mut by_client = by_client.unwrap_or_else(|broken| broken.into_inner());
        let turns = by_client.entry(client.clone());
        turns.or_insert_with(|| self.turns.for_client()).clone()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use skillhost_mcp::answer_lease::JsonTurn;

    use super::*;

    /// Takes turns to parse large messages, until no further one comes at once.
    pub(crate) fn take_turns(budget: &ResponseBudget, holder: &Holder) -> Vec<JsonTurn> {
        let lease = budget.lease(holder.clone());
        let message = vec![b' '; 1 << 20];
        let mut task = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| {
            let mut turn = pin!(lease.turn_to_parse(&message));
            match turn.as_mut().poll(&mut task) {
                Poll::Ready(turn) => turn,
                Poll::Pending => None,
            }
        })
        .collect()
    }

    #[test]
    fn free_turn_goes_to_another_client() {
        let budget = ResponseBudget::new(100, 2);
        let [greedy, other] = ["greedy", "other"].map(|name| Holder::Client(Some(name.into())));
        let mut turns = take_turns(&budget, &greedy);
        assert!(take_turns(&budget, &other).is_empty());
        let message = vec![b' '; 1 << 20];
        let leases = [greedy, other].map(|holder| budget.lease(holder));
        let [mut second, mut next] = leases
            .each_ref()
            .map(|lease| Box::pin(lease.turn_to_parse(&message)));
        let mut task = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut task).is_pending());
        assert!(next.as_mut().poll(&mut task).is_pending());
        drop(turns.pop());
        assert!(second.as_mut().poll(&mut task).is_pending());
        assert!(next.as_mut().poll(&mut task).is_ready());
    }

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
