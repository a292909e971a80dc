//! Compares the needs of a component with its grant.

use std::net::IpAddr;

use http::Method;

use crate::policy::{NetworkGrant, Permission, SecretUse};
use crate::rule::{HostPattern, NetworkRule, matches};

/// The part of a needed rule or secret that a grant allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// All of it.
    Whole,
    /// Some of it.
    Part,
    /// Nothing.
    None,
    /// A person decides at the first request.
    Consent,
}

impl NetworkGrant {
    /// Returns whether this grant allows all, some or none of the requests of a needed rule.
    ///
    /// Ignores a granted rule whose path pattern only overlaps the needed one, so that neither
    /// contains the other.
    pub fn coverage(&self, needed: &NetworkRule) -> Coverage {
        if self.asks() {
            let address = needed.address();
            let allowed = self.allow_host(Permission::Consent, address, needed.port);
            return match allowed {
                Ok(()) if needed.is_tls && !needed.host.is_local() => Coverage::Consent,
                _ => Coverage::None,
            };
        }
        let rules = || self.rules.iter();
        let is_whole = match &*needed.methods {
            [] => rules().any(|rule| rule.methods.is_empty() && self.covers(rule, needed)),
            methods => methods.iter().all(|method| {
                rules().any(|rule| rule.has_method(method) && self.covers(rule, needed))
            }),
        };
        let is_part = |rule: &NetworkRule| {
            let mut methods = needed.methods.iter();
            let has_method = needed.methods.is_empty()
                || rule.methods.is_empty()
                || methods.any(|method| rule.has_method(method));
            has_method
                && (self.covers(rule, needed)
                    || needed.covers(rule) && self.may_reach_host(rule, rule))
        };
        if is_whole {
            Coverage::Whole
        } else if rules().any(is_part) {
            Coverage::Part
        } else {
            Coverage::None
        }
    }

    /// Returns whether all, some or none of a needed secret's hosts may receive the secret.
    pub fn secret_coverage(&self, needed: &SecretUse) -> Coverage {
        let granted = self.find_secret(&needed.name);
        let Some(granted) = granted.filter(|granted| granted.header == needed.header) else {
            return Coverage::None;
        };
        let hosts = needed.hosts.iter();
        match hosts.filter(|host| granted.hosts.contains(host)).count() {
            0 => Coverage::None,
            count if count == needed.hosts.len() => Coverage::Whole,
            _ => Coverage::Part,
        }
    }

    /// Returns whether this grant and a rule of it allow every request of a needed rule, apart from
    /// the method.
    fn covers(&self, rule: &NetworkRule, needed: &NetworkRule) -> bool {
        rule.covers(needed) && self.may_reach_host(rule, needed)
    }

    /// Returns whether this grant lets the requests of a rule reach the host of another rule.
    /// Assumes that a name resolves to allowed IP addresses.
    fn may_reach_host(&self, rule: &NetworkRule, other: &NetworkRule) -> bool {
        let rule = Permission::Rule(rule);
        self.allow_host(rule, other.address(), other.port).is_ok()
    }
}

impl NetworkRule {
    fn has_method(&self, method: &Method) -> bool {
        self.methods.is_empty() || self.methods.contains(method)
    }

    /// Returns the IP address, if the host is one.
    fn address(&self) -> Option<IpAddr> {
        match self.host {
            HostPattern::Address(address) => Some(address),
            HostPattern::Labels(_) => None,
        }
    }

    /// Returns whether the rule allows every request that another allows, apart from the method.
    ///
    /// Can return `false` for path patterns that mean the same but are written differently.
    fn covers(&self, other: &Self) -> bool {
        // Treats the other pattern as a path. Only a `*` of this pattern can match a `*` in it. A
        // `*` at the end also stands for `/`: this pattern matches it only if it ends with `*` too.
        self.is_tls == other.is_tls
            && self.port == other.port
            && self.host.covers(&other.host)
            && matches(&self.path, &other.path)
    }
}

impl HostPattern {
    /// Returns whether the pattern matches every host that another pattern matches.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Address(pattern), Self::Address(address)) => pattern == address,
            (Self::Labels(pattern), Self::Labels(labels)) => {
                let is_covered = |(pattern, label): (&Option<String>, &Option<String>)| {
                    pattern.is_none() || pattern == label
                };
                pattern.len() == labels.len() && pattern.iter().zip(labels).all(is_covered)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_only_rules_that_allow_no_more() {
        let rule = |text: &str| text.parse::<NetworkRule>().unwrap();
        for (text, other, covers) in [
            ("https://e.org", "https://e.org/v1/*", true),
            ("https://e.org/v1/*", "https://e.org", false),
            ("https://e.org", "http://e.org", false),
            ("https://e.org", "https://e.org:8443", false),
            ("https://*.e.org", "https://a.e.org", true),
            ("https://*.e.org", "https://*.e.org", true),
            ("https://a.e.org", "https://*.e.org", false),
            ("https://*.*.e.org", "https://*.a.e.org", true),
            ("https://*.a.e.org", "https://*.*.e.org", false),
            ("https://*.e.org", "https://e.org", false),
            ("https://1.2.3.4", "https://1.2.3.4/a", true),
            ("https://1.2.3.4", "https://1.2.3.5/a", false),
            ("https://e.org/v1/*", "https://e.org/v1/*", true),
            ("https://e.org/v1/*", "https://e.org/v1/a/*/b", true),
            ("https://e.org/v1/*", "https://e.org/v1*", false),
            ("https://e.org/v1*", "https://e.org/v1/*", true),
            ("https://e.org/*/b", "https://e.org/*/b", true),
            ("https://e.org/*/b", "https://e.org/a/b", true),
            ("https://e.org/*/b", "https://e.org/*", false),
            ("https://e.org/a/b", "https://e.org/a/*", false),
            ("https://e.org/a*b", "https://e.org/a*", false),
            ("https://e.org/a*b*", "https://e.org/a*", false),
            ("https://e.org/a*b*", "https://e.org/ab*", true),
            ("https://e.org/*/*", "https://e.org/*", false),
        ] {
            assert_eq!(rule(text).covers(&rule(other)), covers, "{text} {other}");
        }
    }

    #[test]
    fn coverage_counts_only_usable_rules() {
        use Coverage::{Consent, None, Part, Whole};
        for (needed, rules, expected) in [
            ("https://e.org", &[][..], None),
            ("https://e.org", &["https://e.org"], Whole),
            ("https://e.org", &["GET https://e.org"], Part),
            ("GET https://e.org", &["https://e.org"], Whole),
            (
                "GET,POST https://e.org",
                &["POST https://e.org", "GET https://e.org"],
                Whole,
            ),
            (
                "GET,POST https://e.org",
                &["POST https://e.org", "PUT https://e.org"],
                Part,
            ),
            ("GET https://e.org", &["POST https://e.org"], None),
            ("https://e.org", &["https://e.org/v1/*"], Part),
            ("https://*.e.org", &["https://a.e.org"], Part),
            ("https://e.org", &["https://f.org"], None),
            ("http://e.org", &["http://e.org"], None),
            ("http://e.org:8080", &["http://e.org:8080"], Whole),
            ("http://localhost", &["http://localhost"], Whole),
            ("https://10.0.0.2", &["https://10.0.0.2"], None),
            ("http://10.0.0.1:8080", &["http://10.0.0.1:8080"], Whole),
        ] {
            let mut grant = NetworkGrant::new().private("10.0.0.1:8080".parse().unwrap());
            for rule in rules {
                grant = grant.rule(rule.parse().unwrap());
            }
            assert_eq!(
                grant.coverage(&needed.parse().unwrap()),
                expected,
                "{needed} {rules:?}"
            );
        }
        let grant = NetworkGrant::ask();
        for (needed, expected) in [
            ("https://e.org", Consent),
            ("https://1.1.1.1", Consent),
            ("https://10.0.0.1", None),
            ("https://localhost", None),
            ("https://a.localhost", None),
            ("https://localhost.e.org", Consent),
            ("http://e.org", None),
        ] {
            assert_eq!(
                grant.coverage(&needed.parse().unwrap()),
                expected,
                "{needed}"
            );
        }
        let secret = |header, hosts: &[&str]| SecretUse::new("A", header, hosts).unwrap();
        let grant = NetworkGrant::new().secret(secret("authorization", &["e.org", "f.org:81"]));
        for (needed, expected) in [
            (secret("Authorization", &["E.org"]), Whole),
            (secret("authorization", &["e.org", "f.org:81"]), Whole),
            (secret("authorization", &["e.org", "f.org"]), Part),
            (secret("authorization", &["f.org"]), None),
            (secret("x-key", &["e.org"]), None),
            (
                SecretUse::new("B", "authorization", ["e.org"]).unwrap(),
                None,
            ),
        ] {
            assert_eq!(grant.secret_coverage(&needed), expected, "{needed:?}");
        }
    }
}
