//! One client of a server: its name, what it may use, and its share.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use skillhost::Scope;
use skillhost::config::ClientConfig;

use crate::shares::{Share, ShareError, Shares};

/// The longest time between two looks at the clock, which may be set meanwhile.
const LOOK: Duration = Duration::from_secs(60);

/// A client that has shown who it is.
#[derive(Debug)]
pub struct Identified {
    /// The client.
    pub client: Arc<Client>,
    /// Until when what it has shown counts.
    pub expiry: Expiry,
}

/// The time from which on what was shown no longer counts, if there is one.
#[derive(Debug, Clone, Copy)]
pub struct Expiry(Option<SystemTime>);

impl Expiry {
    pub(crate) fn at(time: SystemTime) -> Self {
        Self(Some(time))
    }

    /// Returns the earlier one.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0.into_iter().chain(other.0).min())
    }

    pub(crate) fn has_passed(self) -> bool {
        self.0.is_some_and(|time| time <= SystemTime::now())
    }

    /// Waits until it has passed.
    pub async fn passed(self) {
        let Self(Some(time)) = self else {
            return std::future::pending().await;
        };
        while let Ok(left) = time.duration_since(SystemTime::now())
            && !left.is_zero()
        {
            tokio::time::sleep(left.min(LOOK)).await;
        }
    }
}

/// One that may ask: its name, what it may use, and its share.
#[derive(Debug)]
pub struct Client {
    name: Option<Arc<str>>,
    /// None: everything.
    scope: Option<Arc<Scope>>,
    reads_metrics: bool,
    expires: Option<SystemTime>,
    shares: Option<Shares>,
}

impl Client {
    /// Returns the client without a name, who has the server's one token. It may use
    /// everything, and has these shares.
    pub(crate) fn unnamed(shares: Option<Shares>) -> Self {
        Self {
            name: None,
            scope: None,
            reads_metrics: true,
            expires: None,
            shares,
        }
    }

    pub(crate) fn new(config: &ClientConfig) -> Self {
        let scope = Some(&config.scope).filter(|scope| !scope.is_everything());
        Self {
            name: Some(config.name.as_str().into()),
            scope: scope.cloned(),
            reads_metrics: config.metrics,
            expires: config.expires,
            shares: Some(Shares::new(&config.limits)),
        }
    }

    /// Returns the name by which the operator knows the client.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// Returns the tools and skills that it may use. None: everything.
    pub fn scope(&self) -> Option<&Arc<Scope>> {
        self.scope.as_ref()
    }

    /// Checks that it may read the metrics, which tell of all clients.
    pub fn reads_metrics(&self) -> bool {
        self.reads_metrics
    }

    pub(crate) fn expiry(&self) -> Expiry {
        Expiry(self.expires)
    }

    /// Counts a request against the client's share.
    ///
    /// # Errors
    ///
    /// If the client has used up its share of this minute.
    pub fn count_request(&self) -> Result<(), ShareError> {
        let shares = self.shares.as_ref();
        shares.map_or(Ok(()), Shares::count_request)
    }

    /// Waits until a request of the client may be worked on.
    pub async fn enter(&self) -> Share {
        match &self.shares {
            Some(shares) => shares.enter().await,
            None => Share::unbounded(),
        }
    }

    /// Counts bytes of a request or an answer against the client's share.
    pub fn count_bytes(&self, bytes: usize) {
        if let Some(shares) = &self.shares {
            shares.count_bytes(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_ends_the_earlier_one_counts() {
        let now = SystemTime::now();
        let (past, later) = (now.checked_sub(LOOK), now.checked_add(LOOK));
        for (one, other, has_passed) in [
            (None, None, false),
            (None, later, false),
            (later, later, false),
            (None, past, true),
            (later, past, true),
            (past, past, true),
        ] {
            for (one, other) in [(one, other), (other, one)] {
                let both = Expiry(one).or(Expiry(other));
                assert_eq!(both.has_passed(), has_passed, "{one:?} {other:?}");
            }
        }
    }
}
