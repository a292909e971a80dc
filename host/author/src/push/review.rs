//! Finds what a registry, a client or an operator would object to in a component, before it is
//! pushed. Uses no network, and does not call the component's tools.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use skillhost::exchange::Format;
use skillhost::{Definition, Inspection, Line};
use skillhost_conformance::broken_formats;
use skillhost_packages::Reference;
use skillhost_program::exit::Exit;
use skillhost_program::options::ReportFormat;
use skillhost_program::terminal::{self, format_line};
use skillhost_sandbox::component::embedded;
use skillhost_skills::named_file;
use skillhost_skills::text::count::count;

use super::{MAX_COMPONENT, imports};
use crate::build;

/// The size in bytes above which a component is slow to load and to add.
const LARGE_COMPONENT: usize = 10 << 20;

/// The maximum number of characters of a package's description. Lists of packages cut longer ones.
const MAX_DESCRIPTION: usize = 300;

/// An objection to a component.
pub(super) struct Finding {
    /// Its name, which never changes.
    id: &'static str,
    /// True if a registry, client or operator refuses the component, false for a warning.
    is_error: bool,
    /// The problem.
    why: String,
    /// The advice.
    fix: String,
}

/// The findings so far.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, id: &'static str, is_error: bool, why: String, fix: impl Into<String>) {
        self.0.push(Finding {
            id,
            is_error,
            why,
            fix: fix.into(),
        });
    }

    fn error(&mut self, id: &'static str, why: String, fix: impl Into<String>) {
        self.add(id, true, why, fix);
    }

    fn warn(&mut self, id: &'static str, why: String, fix: impl Into<String>) {
        self.add(id, false, why, fix);
    }
}

/// Returns the objections to a component, errors first.
///
/// # Errors
///
/// If the component cannot be read.
pub(super) fn review(
    reference: &Reference,
    is_signed: bool,
    component: &Path,
    inspection: &Inspection,
) -> anyhow::Result<Vec<Finding>> {
    let bytes = named_file::read(component, inspection.size as u64)?;
    let mut findings = Findings::default();
    check_reference(&mut findings, reference, inspection);
    check_metadata(&mut findings, inspection);
    check_size(&mut findings, inspection.size);
    match &inspection.tools {
        Err(why) => findings.error(
            "refused",
            format!("no host loads the component: {why}"),
            "correct that, and run `skillhost test`",
        ),
        Ok(tools) => {
            for tool in tools {
                check_tool(&mut findings, tool);
            }
        }
    }
    for import in imports::unused(&bytes) {
        findings.warn(
            "unused-import",
            format!("the component imports `{import}`, but does not use it"),
            "remove it from the component's world: an operator reads the imports",
        );
    }
    check_powers(&mut findings, inspection);
    check_project(&mut findings, component);
    if !is_signed {
        findings.warn(
            "unsigned",
            "the component would not be signed".to_owned(),
            "sign with `--key FILE`: operators with `require_signatures` refuse it otherwise",
        );
    }
    let mut findings = findings.0;
    findings.sort_by_key(|finding| !finding.is_error);
    Ok(findings)
}

fn check_reference(findings: &mut Findings, reference: &Reference, inspection: &Inspection) {
    let Some(tag) = reference.tag() else {
        let fix = "name a tag, such as `:1.2`: the content determines the digest";
        let why = "the reference has a digest instead of a tag".to_owned();
        findings.error("no-tag", why, fix);
        return;
    };
    if tag == "latest" {
        findings.warn(
            "latest",
            "the tag is `latest`".to_owned(),
            "name a version, such as `:1.2`: with `latest`, operators cannot see what they get",
        );
        return;
    }
    let number = tag.strip_prefix('v').unwrap_or(tag);
    if let Some(version) = &inspection.metadata.version
        && number.starts_with(|c: char| c.is_ascii_digit())
        && !is_version_prefix(number, version)
    {
        findings.warn(
            "other-version",
            format!("the tag is `{tag}`, and the component's version is `{version}`"),
            "push it under its own version, or change the version and build again",
        );
    }
}

/// Checks whether a number is a version or its first parts, such as `1.2` of `1.2.0`.
fn is_version_prefix(number: &str, version: &str) -> bool {
    let rest = version.strip_prefix(number);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '+']))
}

fn check_metadata(findings: &mut Findings, inspection: &Inspection) {
    let metadata = &inspection.metadata;
    for (id, field, text) in [
        ("no-name", "name", &metadata.name),
        ("no-version", "version", &metadata.version),
        ("no-description", "description", &metadata.description),
        ("no-license", "license", &metadata.licenses),
        ("no-source", "URL of the source", &metadata.source),
        ("no-authors", "authors", &metadata.authors),
    ] {
        if text.as_ref().is_none_or(|text| text.trim().is_empty()) {
            let fix = format!("add the {field} to the project's own file, and build again");
            findings.warn(id, format!("the component's metadata has no {field}"), fix);
        }
    }
    let length = metadata.description.as_ref();
    let length = length.map_or(0, |text| text.chars().count());
    if length > MAX_DESCRIPTION {
        findings.warn(
            "long-description",
            format!("the component's description has {length} characters"),
            format!("shorten it to {MAX_DESCRIPTION}: lists of packages cut the rest"),
        );
    }
}

fn check_size(findings: &mut Findings, size: usize) {
    if size as u64 > MAX_COMPONENT {
        findings.error(
            "too-large",
            format!("the component has {size} bytes, and hosts load {MAX_COMPONENT} at most"),
            "build it without debug information, or with fewer libraries",
        );
    } else if size > LARGE_COMPONENT {
        findings.warn(
            "large",
            format!("the component has {size} bytes"),
            format!("a component of less than {LARGE_COMPONENT} bytes is added and loaded faster"),
        );
    }
}

fn check_tool(findings: &mut Findings, tool: &Definition) {
    let name = &tool.name;
    if embedded::names().any(|built_in| built_in == name) {
        findings.error(
            "reserved-name",
            format!("the tool `{name}` has the name of a built-in tool"),
            "give it another name: no host serves it",
        );
    }
    for (rule, reason) in broken_formats(tool) {
        let why = format!("the tool `{name}`: {}", reason.why);
        findings.error(rule.id, why, reason.fix);
    }
    for format in Format::ALL {
        let dropped = format.dropped_keywords(tool);
        if dropped.is_empty() {
            continue;
        }
        let dropped: Vec<String> = dropped.iter().map(|it| format!("`{it}`")).collect();
        findings.warn(
            "dropped-keywords",
            format!(
                "the tool `{name}`: {} does not get {} of its schema",
                format.title(),
                dropped.join(", ")
            ),
            "say in a description what they mean: the host checks them, and a model that does not \
             know them fails first",
        );
    }
}

fn check_powers(findings: &mut Findings, inspection: &Inspection) {
    let needs = match &inspection.needs.needs {
        Ok(needs) => needs,
        Err(why) => {
            findings.error(
                "invalid-needs",
                format!("the component's needs are invalid, so hosts ignore all of them: {why}"),
                "give each request and secret of `needs.toml` a reason (`why`), and build again",
            );
            return;
        }
    };
    match (inspection.needs.sends_requests, needs.asks_for_network()) {
        (true, false) => findings.warn(
            "unasked-requests",
            "the component can send HTTP requests, but does not say which ones it needs and why"
                .to_owned(),
            "list them in `needs.toml`, or build it without that import",
        ),
        (false, true) => findings.warn(
            "unused-requests",
            "the component asks for HTTP requests, but cannot send any".to_owned(),
            "remove `[[network]]` from `needs.toml`",
        ),
        _ => {}
    }
}

/// Checks the project of a component: the component's folder, or the parent of a folder `dist`.
fn check_project(findings: &mut Findings, component: &Path) {
    if let Some(source) = build::newer_source(component) {
        findings.warn(
            "old-component",
            format!("`{}` is newer than the component", source.display()),
            "run `skillhost build`",
        );
    }
    let file = component.canonicalize().unwrap_or_default();
    let folder = file.parent().unwrap_or(Path::new(""));
    let project = folder.parent().filter(|_| folder.ends_with("dist"));
    let entries = fs::read_dir(project.unwrap_or(folder).join("cases"));
    let mut files = entries.into_iter().flatten().flatten();
    let is_case = |file: fs::DirEntry| file.path().extension().is_some_and(|it| it == "json");
    if !files.any(is_case) {
        findings.warn(
            "no-cases",
            "the folder `cases` of the component's project has no cases for `skillhost test`"
                .to_owned(),
            "write one for each tool: docs/guides/test-tools.md describes their format",
        );
    }
}

/// Prints the findings. The exit code says whether there are errors.
pub(super) fn print(
    reference: &Reference,
    component: &Path,
    findings: &[Finding],
    format: ReportFormat,
) -> anyhow::Result<Exit> {
    let errors = findings.iter().filter(|it| it.is_error).count();
    let warnings = findings.len() - errors;
    match format {
        ReportFormat::Text => {
            let total = format_line!(
                "{reference}: {}, {}; nothing was pushed",
                count(errors, "error"),
                count(warnings, "warning")
            );
            let lines = findings.iter().flat_map(lines).chain([total]);
            terminal::print(&lines.collect::<Vec<_>>())?;
        }
        ReportFormat::Json => terminal::print_json(&json!({
            "reference": reference.to_string(),
            "component": component.display().to_string(),
            "errors": errors,
            "warnings": warnings,
            "findings": findings.iter().map(to_json).collect::<Value>(),
        }))?,
    }
    Ok(if errors > 0 { Exit::Failure } else { Exit::Ok })
}

fn level(finding: &Finding) -> &'static str {
    if finding.is_error { "error" } else { "warning" }
}

fn lines(finding: &Finding) -> [Line; 2] {
    let Finding { id, why, fix, .. } = finding;
    [
        format_line!("{}: {why} [{id}]", level(finding)),
        format_line!("  {fix}"),
    ]
}

fn to_json(finding: &Finding) -> Value {
    json!({
        "id": finding.id,
        "level": level(finding),
        "why": finding.why,
        "fix": finding.fix,
    })
}
