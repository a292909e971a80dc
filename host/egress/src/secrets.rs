//! The secrets of all components, and the search for them in responses.
//!
//! A server can send a secret in its response to another request, or to another component. So each
//! response is searched for the secrets of all components.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use memchr::memmem::{self, Finder};

use crate::message::Failure;
use crate::policy::NetworkGrant;
use crate::target::{Host, Target};

/// The minimum length of a secret that is searched for in the responses of all hosts, in bytes.
///
/// Guards against: a guest that lets a server send all short texts, and learns a secret from the
/// response that is withheld.
const MIN_EVERYWHERE: usize = 16;

/// The maximum number of held bytes is a multiple of this. Guards against: a guest that learns the
/// length of a secret.
const HELD_STEP: usize = 64;

/// The value of a secret. It is never shown.
#[derive(Clone)]
pub(crate) struct SecretValue(pub(crate) Arc<[u8]>);

/// The secrets of all components.
pub(crate) struct Secrets {
    /// The values, by component file and name.
    values: BTreeMap<(String, String), SecretValue>,
    known: Vec<KnownSecret>,
    /// The number of bytes at the end of a piece of a body, and at the start of the next piece,
    /// that are searched for a secret across both.
    overlap: usize,
}

/// A secret to search for. A search of 100 MiB takes 10 ms.
struct KnownSecret {
    /// Its name and component, for the operator.
    name: String,
    finder: Finder<'static>,
    /// The secret in lower case, as in the name of a header.
    lower: Vec<u8>,
    /// The hosts that may receive it.
    hosts: Vec<(Host, u16)>,
}

impl Secrets {
    /// Prepares the search for secrets. The grants say which hosts may receive them.
    pub(crate) fn new(
        values: BTreeMap<(String, String), SecretValue>,
        grants: &BTreeMap<String, NetworkGrant>,
    ) -> Self {
        let known = values.iter().map(|((component, name), value)| {
            // Spaces around a header's value are not part of it.
            let bytes = match value.0.trim_ascii() {
                [] => &*value.0,
                bytes => bytes,
            };
            let secret = grants.get(component);
            let secret = secret.and_then(|grant| grant.find_secret(name));
            KnownSecret {
                name: format!("`{name}` of `{component}`"),
                finder: Finder::new(bytes).into_owned(),
                lower: bytes.to_ascii_lowercase(),
                hosts: secret.map_or(Vec::new(), |secret| secret.hosts.clone()),
            }
        });
        let known: Vec<KnownSecret> = known.collect();
        let longest = known.iter().map(|secret| secret.lower.len()).max();
        Self {
            overlap: longest.unwrap_or_default().saturating_sub(1),
            known,
            values,
        }
    }

    /// Returns the value of a secret.
    pub(crate) fn value(&self, component: &str, name: &str) -> Option<&SecretValue> {
        self.values.get(&(component.to_owned(), name.to_owned()))
    }

    /// Returns whether any grant allows sending a secret to this host.
    pub(crate) fn may_be_sent_to(&self, target: &Target) -> bool {
        let origin = (target.host.clone(), target.port);
        self.known
            .iter()
            .any(|secret| secret.hosts.contains(&origin))
    }

    /// Returns the search for secrets in a response of the target's origin.
    pub(crate) fn search(self: &Arc<Self>, target: &Target) -> SecretSearch {
        SecretSearch {
            all: Arc::clone(self),
            origin: (target.host.clone(), target.port),
        }
    }

    /// Replaces an explanation that contains a secret, in upper or lower case.
    pub(crate) fn hide(&self, failure: Failure) -> Failure {
        let text = failure.why.to_ascii_lowercase();
        let mut long = self.known.iter().filter(|secret| secret.is_long());
        match long.find(|secret| memmem::find(text.as_bytes(), &secret.lower).is_some()) {
            Some(secret) => {
                let why = format!("the explanation contains the secret {}", secret.name);
                Failure::new(failure.kind, why)
            }
            None => failure,
        }
    }
}

impl KnownSecret {
    fn is_long(&self) -> bool {
        self.lower.len() >= MIN_EVERYWHERE
    }
}

/// The search for secrets in a response of one origin.
pub(crate) struct SecretSearch {
    all: Arc<Secrets>,
    origin: (Host, u16),
}

impl SecretSearch {
    /// Returns the name of a secret that headers contain.
    pub(crate) fn find_in_headers(&self, headers: &HeaderMap) -> Option<&str> {
        let is_in_name = |secret: &&KnownSecret| {
            let mut names = headers.keys().map(|name| name.as_str().as_bytes());
            names.any(|name| memmem::find(name, &secret.lower).is_some())
        };
        let mut values = headers.values();
        let in_value = values.find_map(|value| self.find(value.as_bytes()));
        in_value.or_else(|| Some(&*self.sought().find(is_in_name)?.name))
    }

    /// Returns the name of a secret that the bytes contain.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<&str> {
        let is_in_bytes = |secret: &&KnownSecret| secret.finder.find(bytes).is_some();
        Some(&*self.sought().find(is_in_bytes)?.name)
    }

    /// Returns the name of a secret that starts in a piece of a body and ends in the next one.
    pub(crate) fn find_between(&self, before: &[u8], after: &[u8]) -> Option<&str> {
        let after = &after[..after.len().min(self.overlap())];
        if before.is_empty() {
            None
        } else {
            self.find(&[before, after].concat())
        }
    }

    pub(crate) fn overlap(&self) -> usize {
        self.all.overlap
    }

    /// Returns the number of bytes at the end that are held back until more bytes follow, because they
    /// can be the start of a secret for this origin.
    ///
    /// No secret has a line end, so complete lines are not held back. The number depends on no byte
    /// of a secret. Guards against: a guest that lets a server repeat its guess, and learns from
    /// the delay that the guess is right.
    pub(crate) fn held_at_end(&self, bytes: &[u8]) -> usize {
        let known = self.all.known.iter();
        let receivable = known.filter(|secret| self.may_receive(secret));
        let longest = receivable
            .map(|secret| secret.lower.len())
            .max()
            .unwrap_or(0);
        let max = longest.saturating_sub(1).next_multiple_of(HELD_STEP);
        let end = bytes.iter().rev().take(max);
        end.take_while(|byte| !b"\r\n".contains(byte)).count()
    }

    /// Returns the secrets to search for: those of this origin, and all long ones.
    fn sought(&self) -> impl Iterator<Item = &KnownSecret> {
        let known = self.all.known.iter();
        known.filter(|secret| secret.is_long() || self.may_receive(secret))
    }

    /// Returns whether the origin may receive a secret.
    fn may_receive(&self, secret: &KnownSecret) -> bool {
        secret.hosts.contains(&self.origin)
    }
}
