//! One client of a server: its name, its scope and its budget.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use skillhost::Scope;

use crate::budget::{BudgetError, ClientBudget, RequestLease};
use crate::settings::ClientConfig;

/// The longest wait before the clock is read again, because the clock may be set during the wait.
const MAX_CLOCK_PAUSE: Duration = Duration::from_secs(60);

/// The client of a request, identified by a credential.
#[derive(Debug)]
pub struct Identity {
    /// The client.
    pub client: Arc<Client>,
    /// The time at which the credential or the client expires.
    pub expiry: Expiry,
}

/// The time at which a credential or a client expires, if it does.
#[derive(Debug, Clone, Copy)]
pub struct Expiry(Option<SystemTime>);

impl Expiry {
    pub(crate) fn at(time: SystemTime) -> Self {
        Self(Some(time))
    }

    /// Returns the earlier of two times.
    pub(crate) fn min(self, other: Self) -> Self {
        Self(self.0.into_iter().chain(other.0).min())
    }

    pub(crate) fn has_passed(self) -> bool {
        self.0.is_some_and(|time| time <= SystemTime::now())
    }

    /// Waits until the time has passed, or forever if there is none.
    pub async fn passed(self) {
        let Self(Some(time)) = self else {
            return std::future::pending().await;
        };
        while let Ok(left) = time.duration_since(SystemTime::now())
            && !left.is_zero()
        {
            tokio::time::sleep(left.min(MAX_CLOCK_PAUSE)).await;
        }
    }
}

/// A client of a server.
#[derive(Debug)]
pub struct Client {
    name: Option<Arc<str>>,
    /// `None` allows everything.
    scope: Option<Arc<Scope>>,
    reads_metrics: bool,
    expires: Option<SystemTime>,
    budget: Option<ClientBudget>,
}

impl Client {
    /// Creates the unnamed client, which has the server's own token and may use everything.
    pub(crate) fn unnamed(budget: Option<ClientBudget>) -> Self {
        Self {
            name: None,
            scope: None,
            reads_metrics: true,
            expires: None,
            budget,
        }
    }

    pub(crate) fn new(config: &ClientConfig) -> Self {
        let scope = Some(&config.scope).filter(|scope| !scope.is_everything());
        Self {
            name: Some(config.name.as_str().into()),
            scope: scope.cloned(),
            reads_metrics: config.metrics,
            expires: config.expires,
            budget: Some(ClientBudget::new(&config.limits)),
        }
    }

    /// Returns the name that the operator gave the client.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// Returns whether the client has a budget. Every client has a budget if any client has a name.
    pub fn has_budget(&self) -> bool {
        self.budget.is_some()
    }

    /// Returns the tools and skills that the client may use. `None` allows everything.
    pub fn scope(&self) -> Option<&Arc<Scope>> {
        self.scope.as_ref()
    }

    /// Returns whether the client may read the metrics, which cover all clients.
    pub fn reads_metrics(&self) -> bool {
        self.reads_metrics
    }

    pub(crate) fn expiry(&self) -> Expiry {
        Expiry(self.expires)
    }

    /// Counts a request against the client's budget.
    ///
    /// # Errors
    ///
    /// If the client has used up its budget for this minute.
    pub fn count_request(&self) -> Result<(), BudgetError> {
        let budget = self.budget.as_ref();
        budget.map_or(Ok(()), ClientBudget::count_request)
    }

    /// Waits until one more request of the client may run.
    ///
    /// # Errors
    ///
    /// If answers sent during the wait have used up the client's bytes for this minute.
    pub async fn acquire(&self) -> Result<RequestLease, BudgetError> {
        let Some(budget) = &self.budget else {
            return Ok(RequestLease::unlimited());
        };
        let lease = budget.acquire().await;
        budget.check_bytes()?;
        Ok(lease)
    }

    /// Counts bytes of a request or an answer against the client's budget.
    pub fn count_bytes(&self, bytes: usize) {
        if let Some(budget) = &self.budget {
            budget.count_bytes(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_is_the_earlier_expiry() {
        const MINUTE: Duration = Duration::from_secs(60);
        let now = SystemTime::now();
        let (past, later) = (now.checked_sub(MINUTE), now.checked_add(MINUTE));
        for (one, other, has_passed) in [
            (None, None, false),
            (None, later, false),
            (later, later, false),
            (None, past, true),
            (later, past, true),
            (past, past, true),
        ] {
            for (one, other) in [(one, other), (other, one)] {
                let earlier = Expiry(one).min(Expiry(other));
                assert_eq!(earlier.has_passed(), has_passed, "{one:?} {other:?}");
            }
        }
    }
}
