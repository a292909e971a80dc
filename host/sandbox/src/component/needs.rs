//! A component's declared needs: the requests and secrets that its author asks an operator for.
//! They are JSON in a custom section, which `skillhost build` writes from `needs.toml`. Asking
//! grants nothing.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value, json};
use skillhost_egress::{NetworkRule, SecretUse};
use wasmparser::Payload;

use super::metadata::sections;

/// The name of the interface that sends requests, up to its version.
const OUTGOING_HANDLER: &str = "wasi:http/outgoing-handler@";

/// The requests and secrets that a component asks for. They are checked, but their texts are
/// untrusted: escape them before a person reads them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table of needs")]
#[non_exhaustive]
pub struct Needs {
    /// The requests that its tools send.
    #[serde(deserialize_with = "read_network")]
    pub network: Vec<NetworkNeed>,
    /// The secrets that its tools send.
    #[serde(deserialize_with = "read_secrets")]
    pub secrets: Vec<SecretNeed>,
}

/// The needs that a component declares, and whether it can send requests at all.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeclaredNeeds {
    /// The requests and secrets that it asks for, or the reason why they cannot be read.
    pub needs: Result<Needs, String>,
    /// True if it imports the interface that sends HTTP requests.
    pub sends_requests: bool,
}

impl DeclaredNeeds {
    /// Reads the needs of a component.
    pub(crate) fn read(component: &[u8]) -> Self {
        Self {
            needs: Needs::read(component),
            sends_requests: imports_http(component),
        }
    }
}

/// Requests that a component asks for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a `[[network]]` table")]
#[non_exhaustive]
pub struct NetworkNeed {
    /// The rule that would allow these requests.
    pub rule: NetworkRule,
    /// The reason, for the operator.
    #[serde(deserialize_with = "read_reason")]
    pub why: String,
}

/// A secret that a component asks for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SecretNeed {
    /// Its name, header and hosts.
    pub secret: SecretUse,
    /// The reason, for the operator.
    pub why: String,
}

impl Needs {
    /// The name of the custom section.
    pub const SECTION: &str = "skillhost:needs";

    /// The maximum size of the section, in bytes. Guards against: a section that fills the
    /// operator's terminal.
    pub const MAX_BYTES: usize = 16 << 10;

    /// The maximum number of rules, of secrets, and of a secret's hosts.
    pub const MAX_ENTRIES: usize = 32;

    /// The maximum length of a reason, in bytes.
    pub const MAX_REASON_BYTES: usize = 300;

    /// Returns whether the component asks to send requests.
    pub fn asks_for_network(&self) -> bool {
        !self.network.is_empty()
    }

    /// Returns whether the component asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.network.is_empty() && self.secrets.is_empty()
    }

    /// Returns the content of the section.
    pub fn to_json(&self) -> Value {
        let rule = |need: &NetworkNeed| json!({"rule": need.rule.to_string(), "why": need.why});
        let secret = |SecretNeed { secret, why }: &SecretNeed| {
            let hosts: Vec<String> = secret.hosts().collect();
            let parts = json!({"header": secret.header(), "hosts": hosts, "why": why});
            (secret.name().to_owned(), parts)
        };
        let secrets: Map<String, Value> = self.secrets.iter().map(secret).collect();
        json!({
            "network": self.network.iter().map(rule).collect::<Vec<_>>(),
            "secrets": secrets,
        })
    }

    /// Reads the section of the outermost component. If there are several, reads only the last.
    ///
    /// # Errors
    ///
    /// Fails if any part of the section is invalid.
    pub(crate) fn read(component: &[u8]) -> Result<Self, String> {
        let sections = sections(component).filter_map(|section| match section {
            Payload::CustomSection(section) => Some(section),
            _ => None,
        });
        let Some(section) = sections
            .filter(|section| section.name() == Self::SECTION)
            .last()
        else {
            return Ok(Self::default());
        };
        let data = section.data();
        if data.len() > Self::MAX_BYTES {
            return Err(format!(
                "it has {} bytes; at most {} are allowed",
                data.len(),
                Self::MAX_BYTES
            ));
        }
        serde_json::from_slice(data).map_err(|error| error.to_string())
    }
}

/// Returns whether the outermost component imports an interface that sends requests.
fn imports_http(component: &[u8]) -> bool {
    sections(component).any(|section| match section {
        Payload::ComponentImportSection(imports) => {
            let mut imports = imports.into_iter().map_while(Result::ok);
            imports.any(|import| import.name.name.starts_with(OUTGOING_HANDLER))
        }
        _ => false,
    })
}

fn read_network<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NetworkNeed>, D::Error> {
    let rules = Vec::deserialize(from)?;
    check_count(rules.len(), "rules")?;
    Ok(rules)
}

fn read_reason<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let reason = String::deserialize(from)?;
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(D::Error::custom("`why` is empty"));
    }
    if reason.len() > Needs::MAX_REASON_BYTES {
        return Err(D::Error::custom(format_args!(
            "`why` has {} bytes; at most {} are allowed",
            reason.len(),
            Needs::MAX_REASON_BYTES
        )));
    }
    Ok(reason.to_owned())
}

fn read_secrets<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SecretNeed>, D::Error> {
    from.deserialize_map(SecretsVisitor)
}

/// A reader of the table of secrets. Checks each secret while it is read, so that the JSON parser
/// adds the secret's position to an error.
struct SecretsVisitor;

impl<'de> Visitor<'de> for SecretsVisitor {
    type Value = Vec<SecretNeed>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`[secrets.NAME]` tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut secrets: Vec<SecretNeed> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if secrets.iter().any(|need| need.secret.name() == name) {
                return Err(A::Error::custom("a secret has the name of an earlier one"));
            }
            secrets.push(map.next_value_seed(SecretSeed(name))?);
            check_count(secrets.len(), "secrets")?;
        }
        Ok(secrets)
    }
}

/// A reader of the secret with this name.
struct SecretSeed(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a `[secrets.NAME]` table")]
struct RawSecret {
    header: String,
    hosts: Vec<String>,
    #[serde(deserialize_with = "read_reason")]
    why: String,
}

impl<'de> DeserializeSeed<'de> for SecretSeed {
    type Value = SecretNeed;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<SecretNeed, D::Error> {
        let RawSecret { header, hosts, why } = RawSecret::deserialize(from)?;
        check_count(hosts.len(), "hosts of a secret")?;
        let secret = SecretUse::new(&self.0, &header, hosts).map_err(D::Error::custom)?;
        Ok(SecretNeed { secret, why })
    }
}

fn check_count<E: Error>(count: usize, what: &str) -> Result<(), E> {
    if count <= Needs::MAX_ENTRIES {
        return Ok(());
    }
    let max = Needs::MAX_ENTRIES;
    Err(E::custom(format_args!("at most {max} {what} are allowed")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::metadata::tests::component;

    fn read(sections: &[&str]) -> Result<Needs, String> {
        let sections = sections
            .iter()
            .map(|text| (Needs::SECTION, text.as_bytes()));
        Needs::read(&component(&sections.collect::<Vec<_>>()))
    }

    #[test]
    fn reads_last_section_of_component() {
        assert!(Needs::read(&component(&[])).unwrap().is_empty());
        let network = json!([{"rule": "GET https://e.org/v1/*", "why": "reads"}]);
        let first = json!({"network": network}).to_string();
        let secret =
            json!({"header": "Authorization", "hosts": ["E.org", "e.org:8443"], "why": " counts "});
        let last = json!({"secrets": {"TOKEN": secret}, "network": network}).to_string();
        let needs = read(&[&first]).unwrap();
        assert!(needs.asks_for_network() && needs.secrets.is_empty());
        let needs = read(&[&first, &last]).unwrap();
        let secret =
            json!({"header": "authorization", "hosts": ["e.org", "e.org:8443"], "why": "counts"});
        let expected = json!({"network": network, "secrets": {"TOKEN": secret}});
        assert_eq!(needs.to_json(), expected);
        // A host reads the same needs that a build wrote.
        let again = read(&[&expected.to_string()]).unwrap();
        assert_eq!(again.to_json(), expected);
        let secrets =
            json!({"secrets": {"TOKEN": {"header": "a", "hosts": ["e.org"], "why": "b"}}});
        assert!(!read(&[&secrets.to_string()]).unwrap().asks_for_network());
    }

    #[test]
    fn refuses_wrong_sections() {
        let rule = |rule: &str, why: &str| json!({"network": [{"rule": rule, "why": why}]});
        let secret = |name: &str, hosts: &[&str]| {
            let secret = json!({"header": "authorization", "hosts": hosts, "why": "counts"});
            json!({"secrets": {name: secret}})
        };
        let rules =
            |count| json!({"network": vec![json!({"rule": "https://e.org", "why": "a"}); count]});
        let secrets = |count| {
            let secret = json!({"header": "a", "hosts": ["e.org"], "why": "b"});
            let secrets = (0..count).map(|number| (format!("A{number}"), secret.clone()));
            json!({"secrets": secrets.collect::<Map<_, _>>()})
        };
        let long = "a".repeat(Needs::MAX_REASON_BYTES);
        for needs in [
            rule("https://e.org", &long),
            secret("A", &["e.org"; Needs::MAX_ENTRIES]),
            rules(Needs::MAX_ENTRIES),
            secrets(Needs::MAX_ENTRIES),
        ] {
            read(&[&needs.to_string()]).unwrap();
        }
        for (needs, message) in [
            (json!(1), "`1`, expected a table of needs"),
            (json!({"powers": []}), "unknown field `powers`"),
            (json!({"network": {}}), "expected a sequence"),
            (
                json!({"network": ["https://e.org"]}),
                "\"https://e.org\", expected a `[[network]]` table",
            ),
            (
                json!({"network": [{"rule": "https://e.org"}]}),
                "missing field `why`",
            ),
            (rule("https://*", "a"), "`https://*`: the host is neither"),
            (rule("https://e.org", " \n"), "`why` is empty"),
            (rule("https://e.org", &(long + "a")), "`why` has 301 bytes"),
            (
                rules(Needs::MAX_ENTRIES + 1),
                "at most 32 rules are allowed",
            ),
            (json!({"secrets": []}), "expected `[secrets.NAME]` tables"),
            (secret("A-B", &["e.org"]), "secret `A-B`: its name"),
            (secret("A", &["*.e.org"]), "secret `A`: `*.e.org`: the host"),
            (secret("A", &[]), "secret `A`: it has no `hosts`"),
            (
                secret("A", &["e.org"; Needs::MAX_ENTRIES + 1]),
                "at most 32 hosts of a secret",
            ),
            (
                secrets(Needs::MAX_ENTRIES + 1),
                "at most 32 secrets are allowed",
            ),
        ] {
            let error = read(&[&needs.to_string()]).unwrap_err();
            assert!(error.contains(message), "{needs}: {error}");
        }
        let secret = r#"{"header": "a", "hosts": ["e.org"], "why": "b"}"#;
        let twice = format!(r#"{{"secrets": {{"A": {secret}, "A": {secret}}}}}"#);
        let error = read(&[&twice]).unwrap_err();
        assert!(error.contains("the name of an earlier one"), "{error}");
        // The last section counts, even if it is wrong and an earlier one is not.
        read(&["{}", "{"]).unwrap_err();
        let spaces = " ".repeat(Needs::MAX_BYTES - 2);
        assert!(read(&[&format!("{spaces}{{}}")]).unwrap().is_empty());
        let error = read(&[&format!("{spaces} {{}}")]).unwrap_err();
        assert!(error.contains("it has 16385 bytes"), "{error}");
    }
}
