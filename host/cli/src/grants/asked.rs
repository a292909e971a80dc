//! The needs of a component, compared with its grant.

use serde_json::{Value, json};
use skillhost::{DeclaredNeeds, Line, Needs, NetworkGrant};
use skillhost_egress::Coverage;

use super::secret_json;
use skillhost_program::inspect::secret_line;
use skillhost_program::terminal::format_line;

/// The needs of a component, and how far its grant covers them.
#[derive(Default)]
pub(super) struct Asked {
    /// True if the component can send requests. `None` if it cannot be read.
    pub(super) sends_requests: Option<bool>,
    /// The reason why its needs cannot be read.
    pub(super) ignored_for: Option<String>,
    network: Vec<AskedPower>,
    secrets: Vec<AskedPower>,
}

/// A rule or secret that is asked for.
struct AskedPower {
    line: Line,
    json: Value,
    coverage: Coverage,
}

impl Asked {
    /// Compares the needs of a component with its grant.
    pub(super) fn new(declared: &Result<DeclaredNeeds, String>, grant: &NetworkGrant) -> Self {
        let declared = match declared {
            Ok(declared) => declared,
            Err(why) => {
                return Self {
                    ignored_for: Some(why.clone()),
                    ..Self::default()
                };
            }
        };
        let mut asked = Self {
            sends_requests: Some(declared.sends_requests),
            ..Self::default()
        };
        match &declared.needs {
            Ok(needs) => asked.compare(needs, grant),
            Err(why) => {
                let section = Needs::SECTION;
                asked.ignored_for = Some(format!("the section `{section}` is ignored: {why}"));
            }
        }
        asked
    }

    fn compare(&mut self, needs: &Needs, grant: &NetworkGrant) {
        let network = needs.network.iter().map(|need| AskedPower {
            line: format_line!("requests {}: {}", need.rule, need.why),
            json: json!({"rule": need.rule.to_string(), "why": need.why}),
            coverage: grant.coverage(&need.rule),
        });
        self.network = network.collect();
        let secrets = needs.secrets.iter().map(|need| {
            let mut json = secret_json(&need.secret);
            json["why"] = need.why.clone().into();
            AskedPower {
                line: format_line!("{}: {}", secret_line(&need.secret), need.why),
                json,
                coverage: grant.secret_coverage(&need.secret),
            }
        });
        self.secrets = secrets.collect();
    }

    /// Returns lines for people. The list is empty if the component asks for nothing.
    pub(super) fn lines(&self) -> Vec<Line> {
        if let Some(why) = &self.ignored_for {
            return vec![format_line!("  asks for: {why}")];
        }
        let powers = self.powers();
        let mut lines: Vec<Line> = powers.map(|power| format_line!("    {power}")).collect();
        if !lines.is_empty() {
            lines.insert(0, format_line!("  asks for (unverified):"));
        }
        lines
    }

    /// Returns a line for each power that the component asks for, and whether it is granted. If its
    /// needs are unknown, the only line gives the reason.
    pub(super) fn powers(&self) -> impl Iterator<Item = Line> {
        let why = self.ignored_for.iter().map(Line::new);
        let powers = self.network.iter().chain(&self.secrets);
        why.chain(powers.map(AskedPower::line))
    }

    pub(super) fn to_json(&self) -> Value {
        let to_json = |powers: &[AskedPower]| powers.iter().map(AskedPower::to_json).collect();
        let (network, secrets): (Value, Value) = (to_json(&self.network), to_json(&self.secrets));
        json!({"network": network, "secrets": secrets})
    }
}

impl AskedPower {
    fn line(&self) -> Line {
        let granted = match self.coverage {
            Coverage::Whole => "granted",
            Coverage::Part => "GRANTED IN PART",
            Coverage::None => "NOT GRANTED",
            Coverage::Asks => "ASKS A PERSON",
        };
        format_line!("{granted}: {}", self.line)
    }

    fn to_json(&self) -> Value {
        let mut json = self.json.clone();
        json["granted"] = match self.coverage {
            Coverage::Whole => "yes",
            Coverage::Part => "part",
            Coverage::None => "no",
            Coverage::Asks => "ask",
        }
        .into();
        json
    }
}
