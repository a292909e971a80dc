//! What clients may take of something that all share. Half of it is divided among them in
//! equal parts of at least one unit, which nobody else takes; the rest is for those who
//! ask first. Guards against: one client that leaves nothing to others.

use std::collections::HashMap;

use anyhow::ensure;

use crate::client::ClientKey;

/// The part of the whole that is divided is one in so many.
const DIVIDED_PART: usize = 2;

/// The units that clients have taken.
pub(crate) struct ClientShares {
    /// The units of each client that nobody else takes.
    own: usize,
    /// The units for whoever asks first.
    common: usize,
    common_taken: usize,
    taken: HashMap<ClientKey, usize>,
}

impl ClientShares {
    /// Checks that there is a unit for each client.
    pub(crate) fn check(most: usize, clients: usize, key: &str) -> anyhow::Result<()> {
        ensure!(
            most >= clients,
            "`{key}` in `[http]` leaves {most} to {clients} clients, and each needs one of its \
             own; raise `{key}` by {} at least",
            clients - most
        );
        Ok(())
    }

    /// Divides so many units among so many clients, if there are [enough](Self::check).
    pub(crate) fn new(most: usize, clients: usize) -> Self {
        let clients = clients.max(1);
        let own = (most / DIVIDED_PART / clients).max(1);
        Self {
            own,
            common: most.saturating_sub(own * clients),
            common_taken: 0,
            taken: HashMap::new(),
        }
    }

    /// Takes units for a client. Returns false if too few are left for it.
    pub(crate) fn take(&mut self, client: &ClientKey, units: usize) -> bool {
        let taken = self.taken.get(client).copied().unwrap_or_default();
        let Some(now) = taken.checked_add(units) else {
            return false;
        };
        let more = self.of_common(now) - self.of_common(taken);
        if more > self.common - self.common_taken {
            return false;
        }
        self.common_taken += more;
        self.taken.insert(client.clone(), now);
        true
    }

    /// Gives units of a client back.
    pub(crate) fn give_back(&mut self, client: &ClientKey, units: usize) {
        let Some(&taken) = self.taken.get(client) else {
            return;
        };
        let left = taken.saturating_sub(units);
        self.common_taken -= self.of_common(taken) - self.of_common(left);
        match left {
            0 => self.taken.remove(client),
            _ => self.taken.insert(client.clone(), left),
        };
    }

    /// Returns how many of a client's units are not its own.
    fn of_common(&self, taken: usize) -> usize {
        taken.saturating_sub(self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ClientKey {
        Some(name.into())
    }

    fn take_all(shares: &mut ClientShares, client: &ClientKey) -> usize {
        (0..1000).take_while(|_| shares.take(client, 1)).count()
    }

    #[test]
    fn a_client_that_takes_all_it_can_leaves_others_their_part() {
        for (most, clients, greedy, other) in [
            (128, 2, 96, 32),
            (128, 10, 74, 6),
            (4, 3, 2, 1),
            (128, 65, 64, 1),
            (3, 3, 1, 1),
        ] {
            let mut shares = ClientShares::new(most, clients);
            let about = format!("{most} {clients}");
            assert_eq!(take_all(&mut shares, &key("greedy")), greedy, "{about}");
            assert_eq!(take_all(&mut shares, &None), other, "{about}");
        }
    }

    #[test]
    fn more_clients_than_units_are_refused() {
        ClientShares::check(128, 128, "streams").unwrap();
        let error = ClientShares::check(128, 130, "streams").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`streams` in `[http]` leaves 128 to 130 clients, and each needs one of its own; \
             raise `streams` by 2 at least"
        );
    }

    #[test]
    fn a_client_without_others_takes_everything() {
        for most in [1, 7, 128] {
            let mut shares = ClientShares::new(most, 1);
            assert_eq!(take_all(&mut shares, &None), most);
        }
    }

    #[test]
    fn what_is_given_back_can_be_taken_by_anybody_as_before() {
        let mut shares = ClientShares::new(8, 2);
        let (one, other) = (key("one"), key("other"));
        for _ in 0..3 {
            assert_eq!(take_all(&mut shares, &one), 6);
            assert_eq!(take_all(&mut shares, &other), 2);
            shares.give_back(&one, 1);
            assert!(shares.take(&other, 1) && !shares.take(&one, 1));
            (0..5).for_each(|_| shares.give_back(&one, 1));
            (0..3).for_each(|_| shares.give_back(&other, 1));
            assert!(shares.taken.is_empty() && shares.common_taken == 0);
        }
        // What nobody took is not given back.
        shares.give_back(&one, 1);
        assert_eq!(take_all(&mut shares, &one), 6);
    }
}
