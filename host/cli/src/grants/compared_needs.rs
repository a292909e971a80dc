//! The needs of a component, compared with its grant.

use serde_json::{Value, json};
use skillhost::{DeclaredNeeds, Line, Needs, NetworkGrant};
use skillhost_egress::Coverage;

use super::secret_json;
use skillhost_program::inspect::secret_line;
use skillhost_program::terminal::format_line;

/// The needs of a component, and how far its grant covers them.
#[derive(Default)]
pub(super) struct ComparedNeeds {
    /// True if the component can send requests. `None` if it cannot be read.
    pub(super) sends_requests: Option<bool>,
    /// The reason why the needs are unknown, or `None` if they are known.
    pub(super) unknown_reason: Option<String>,
    network: Vec<NeededPower>,
    secrets: Vec<NeededPower>,
}

/// A rule or secret that the component asks for.
struct NeededPower {
    line: Line,
    json: Value,
    coverage: Coverage,
}

impl ComparedNeeds {
    /// Compares the needs of a component with its grant.
    pub(super) fn new(declared: &Result<DeclaredNeeds, String>, grant: &NetworkGrant) -> Self {
        let declared = match declared {
            Ok(declared) => declared,
            Err(why) => {
                return Self {
                    unknown_reason: Some(why.clone()),
                    ..Self::default()
                };
            }
        };
        let mut compared = Self {
            sends_requests: Some(declared.sends_requests),
            ..Self::default()
        };
        match &declared.needs {
            Ok(needs) => compared.compare(needs, grant),
            Err(why) => {
                let section = Needs::SECTION;
                compared.unknown_reason =
                    Some(format!("the section `{section}` is ignored: {why}"));
            }
        }
        compared
    }

    fn compare(&mut self, needs: &Needs, grant: &NetworkGrant) {
        let network = needs.network.iter().map(|need| NeededPower {
            line: format_line!("requests {}: {}", need.rule, need.why),
            json: json!({"rule": need.rule.to_string(), "why": need.why}),
            coverage: grant.coverage(&need.rule),
        });
        self.network = network.collect();
        let secrets = needs.secrets.iter().map(|need| {
            let mut json = secret_json(&need.secret);
            json["why"] = need.why.clone().into();
            NeededPower {
                line: format_line!("{}: {}", secret_line(&need.secret), need.why),
                json,
                coverage: grant.secret_coverage(&need.secret),
            }
        });
        self.secrets = secrets.collect();
    }

    /// Returns lines for people. The list is empty if the component asks for nothing.
    pub(super) fn lines(&self) -> Vec<Line> {
        if let Some(reason) = &self.unknown_reason {
            return vec![format_line!("  asks for: unknown, because {reason}")];
        }
        let powers = self.powers();
        let mut lines: Vec<Line> = powers.map(|power| format_line!("    {power}")).collect();
        if !lines.is_empty() {
            lines.insert(0, format_line!("  asks for (unverified):"));
        }
        lines
    }

    /// Returns a line for each power that the component asks for, which says whether it is granted.
    /// If the component's needs are unknown, the only line gives the reason.
    pub(super) fn powers(&self) -> impl Iterator<Item = Line> {
        let reason = self.unknown_reason.iter();
        let unknown = reason.map(|reason| format_line!("unknown, because {reason}"));
        let powers = self.network.iter().chain(&self.secrets);
        unknown.chain(powers.map(NeededPower::line))
    }

    pub(super) fn to_json(&self) -> Value {
        let to_json = |powers: &[NeededPower]| powers.iter().map(NeededPower::to_json).collect();
        let (network, secrets): (Value, Value) = (to_json(&self.network), to_json(&self.secrets));
        json!({"network": network, "secrets": secrets})
    }
}

impl NeededPower {
    fn line(&self) -> Line {
        let granted = match self.coverage {
            Coverage::Whole => "granted",
            Coverage::Part => "GRANTED IN PART",
            Coverage::None => "NOT GRANTED",
            Coverage::Consent => "ASKS A PERSON",
        };
        format_line!("{granted}: {}", self.line)
    }

    fn to_json(&self) -> Value {
        let mut json = self.json.clone();
        json["granted"] = match self.coverage {
            Coverage::Whole => "yes",
            Coverage::Part => "part",
            Coverage::None => "no",
            Coverage::Consent => "ask",
        }
        .into();
        json
    }
}
