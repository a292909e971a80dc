//! `skillhost grants explain`: tells whether a tool may send a request, and why.

use std::str::FromStr as _;

use clap::Args;
use http::{Method, Uri};
use serde_json::{Value, json};
use skillhost::{EffectiveGrant, Host, Line, NetworkRule, SecretUse};
use skillhost_egress::{Permission, Target};

use super::find;
use crate::packages;
use skillhost_program::exit::Exit;
use skillhost_program::options::{CommonOptions, ReportFormat};
use skillhost_program::terminal::{self, format_line};

/// Tell whether a tool may send an HTTP request, and which rule allows it
///
/// Resolves no name: only a real request shows whether the addresses of a host are allowed.
/// Asks no person and knows no session: with `network = "ask"`, only the consent file allows
/// a request. Exit codes: 0 allowed, 1 denied or a person is asked, 2 unknown tool or wrong
/// usage.
#[derive(Args)]
#[command(allow_missing_positional = true)]
pub(super) struct ExplainCommand {
    /// Tool that sends the request
    tool: String,
    /// Method of the request
    #[arg(default_value = "GET")]
    method: String,
    /// URL of the request
    url: String,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
    #[command(flatten)]
    options: CommonOptions,
}

impl ExplainCommand {
    pub(super) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let (method, url) = match self.request() {
            Ok(request) => request,
            Err(why) => {
                terminal::complain(why);
                return Ok(Exit::Usage);
            }
        };
        let options = global_options.merge(std::mem::take(&mut self.options));
        let settings = packages::load(&options)?;
        let host = options.build_host_without_calls(settings.host).await?;
        let grants = host.grants();
        let Some(grant) = find(&grants, &self.tool) else {
            return Ok(Exit::Usage);
        };
        let verdict = Verdict::new(&host, grant, &method, &url);
        match self.output {
            ReportFormat::Text => terminal::print(&verdict.lines())?,
            ReportFormat::Json => terminal::print_json(&verdict.to_json())?,
        }
        Ok(match verdict.allowed {
            Ok(_) if verdict.must_ask() => Exit::Failure,
            Ok(_) => Exit::Ok,
            Err(_) => Exit::Failure,
        })
    }

    /// Parses the method and the URL, or returns the reason why one is invalid.
    fn request(&self) -> Result<(Method, Uri), String> {
        let Self { method, url, .. } = self;
        let method = Method::from_str(method)
            .map_err(|_| format!("`{method}` is not a method, such as GET or POST"))?;
        let parsed = Uri::from_str(url).ok();
        let uri = parsed.filter(|url| url.scheme().is_some() && url.authority().is_some());
        let uri = uri.ok_or_else(|| {
            format!("`{url}` is not a URL; an example is `https://api.example.org/v1/a`")
        })?;
        Ok((method, uri))
    }
}

/// The decision about a request of a tool.
struct Verdict<'a> {
    grant: &'a EffectiveGrant,
    /// The method and normalised address.
    request: String,
    /// The rule or the consent that allows the request, or the reason why it is denied.
    allowed: Result<Permission<'a>, String>,
    /// The line of the consent file that allows the request, if the grant asks a person.
    consent_line: Option<usize>,
    /// The host name, if the decision also depends on its addresses.
    unresolved_host: Option<String>,
    /// Each rule, and the first part of the request that it does not allow. Empty if a rule allows
    /// the request.
    differences: Vec<(&'a NetworkRule, &'static str)>,
    /// The secrets that the request may have.
    secrets: Vec<&'a SecretUse>,
}

impl<'a> Verdict<'a> {
    fn new(host: &Host, grant: &'a EffectiveGrant, method: &Method, url: &Uri) -> Self {
        let network = &grant.network;
        let mut verdict = Self {
            grant,
            request: format!("{method} {url}"),
            allowed: Err(String::new()),
            consent_line: None,
            unresolved_host: None,
            differences: Vec::new(),
            secrets: Vec::new(),
        };
        let target = match Target::new(method, url) {
            Ok(target) => target,
            Err(error) => {
                verdict.allowed = Err(error.to_string());
                return verdict;
            }
        };
        verdict.request = format!("{method} {}{}", target.origin(), target.path_and_query());
        verdict.allowed = network
            .allow_unresolved(&target)
            .map_err(|denial| denial.to_string());
        let differences = network.rules().map(|rule| (rule, rule.difference(&target)));
        let differences: Option<Vec<_>> = differences
            .map(|(rule, difference)| Some((rule, difference?)))
            .collect();
        verdict.differences = differences.unwrap_or_default();
        if let Ok(Permission::Consent) = verdict.allowed {
            verdict.consent_line = host.consent_line(&grant.digest, &target.origin());
        }
        if verdict.allowed.is_ok() {
            verdict.unresolved_host = target.address().is_none().then(|| target.host());
            verdict.secrets = network.secrets_for(&target).collect();
        }
        verdict
    }

    /// Returns whether a person must be asked.
    fn must_ask(&self) -> bool {
        matches!(self.allowed, Ok(Permission::Consent)) && self.consent_line.is_none()
    }

    fn lines(&self) -> Vec<Line> {
        let permission =
            match &self.allowed {
                Ok(permission) => permission,
                Err(why) => {
                    let mut lines = vec![
                        format_line!("denied: {}", self.request),
                        format_line!("  {why}"),
                    ];
                    let rules = self.differences.iter();
                    lines.extend(rules.map(|(rule, part)| {
                        format_line!("  the rule `{rule}` is for another {part}")
                    }));
                    return lines;
                }
            };
        let mut lines = match (permission, self.consent_line) {
            (Permission::Rule(rule), _) => vec![
                format_line!("allowed: {}", self.request),
                format_line!("  by the rule `{rule}`"),
            ],
            (Permission::Consent, Some(line)) => vec![
                format_line!("allowed: {}", self.request),
                format_line!("  by line {line} of the consent file"),
            ],
            (Permission::Consent, None) => vec![
                format_line!("asks: {}", self.request),
                format_line!(
                    "  a person decides in each session, at the first request to this origin"
                ),
            ],
        };
        if let Some(host) = &self.unresolved_host {
            lines.push(format_line!("  only if {}", condition(permission, host)));
        }
        lines.extend(self.secrets.iter().map(|secret| {
            let (name, header) = (secret.name(), secret.header());
            format_line!("  the secret {name} may be sent in the header {header}")
        }));
        lines
    }

    fn to_json(&self) -> Value {
        let rules = self.differences.iter();
        let rules = rules.map(|(rule, part)| json!({"rule": rule.to_string(), "differs_in": part}));
        let secrets = self.secrets.iter();
        let secrets =
            secrets.map(|secret| json!({"name": secret.name(), "header": secret.header()}));
        json!({
            "tool": self.grant.tool,
            "component": self.grant.origin,
            "request": self.request,
            "allowed": self.allowed.is_ok() && !self.must_ask(),
            "asks": self.must_ask(),
            "rule": self.allowed.as_ref().ok().map(ToString::to_string),
            "consent_line": self.consent_line,
            "denied_for": self.allowed.as_ref().err(),
            "unresolved_host": self.unresolved_host,
            "other_rules": rules.collect::<Value>(),
            "secrets": secrets.collect::<Value>(),
        })
    }
}

/// Returns the condition on the addresses of a host. Only a real request looks them up.
fn condition(permission: &Permission<'_>, host: &str) -> String {
    let allowed = match (permission.is_localhost(), permission.is_plain()) {
        _ if matches!(permission, Permission::Consent) => "public",
        (true, true) => "of this machine or in `network_private`",
        (true, false) => "of this machine, public, or in `network_private`",
        (false, true) => "in `network_private`",
        (false, false) => "public or in `network_private`",
    };
    format!("every address of `{host}` is {allowed}; this command does not look up addresses")
}
