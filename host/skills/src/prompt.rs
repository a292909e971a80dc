//! The section of a system prompt that lists the skills for a model, within a budget of
//! tokens: its wording, the count of tokens, and how a large catalog is shortened.

use std::fmt::Write as _;

use crate::catalog::{Catalog, ReadBudget, Skill};
use crate::text::count::count;

/// The maximum number of characters of a description in a prompt, as in the Agent Skills
/// specification. Guards against: a skill that fills the model's context.
const MAX_DESCRIPTION: usize = 1024;

/// The minimum number of characters of a cut description: enough to distinguish skills. If even
/// these do not fit, skills are omitted.
const MIN_DESCRIPTION: usize = 40;

/// The maximum size, in bytes, of a name that the note on omitted skills gives as the cursor for
/// `list_skills`. Valid names have at most 64 characters. Guards against: a name of apostrophes,
/// because each takes seven bytes in XML.
const MAX_CURSOR_BYTES: usize = 64;

/// The format of the section.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// A line for each skill that says how to load it.
    #[default]
    List,
    /// An `<available_skills>` element.
    Xml,
}

/// The tool with which a model finds omitted skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkillFinder {
    /// `find_skills`.
    Find,
    /// `list_skills`.
    List,
    /// No tool.
    Nothing,
}

impl SkillFinder {
    /// Returns the tool that a prompt names. Prefers `find_skills` to `list_skills`.
    pub fn of(is_offered: impl Fn(&str) -> bool) -> Self {
        match () {
            () if is_offered("find_skills") => Self::Find,
            () if is_offered("list_skills") => Self::List,
            () => Self::Nothing,
        }
    }
}

/// A section and its statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Section {
    /// The text of the section.
    pub text: String,
    /// The number of skills in it.
    pub listed: usize,
    /// The number of omitted skills. The `unread` ones may include unlisted skills.
    pub left_out: usize,
    /// The number of omitted skills that were not read, because too many earlier skills are
    /// unlisted, have no SKILL.md, or have much frontmatter.
    pub unread: usize,
    /// The length in characters to which longer descriptions are cut. `None` if nothing is
    /// cut.
    pub cut_at: Option<usize>,
    /// The budget in tokens.
    pub budget: usize,
}

impl Section {
    /// Returns whether there are no skills.
    pub fn is_empty(&self) -> bool {
        self.listed == 0 && self.left_out == 0
    }

    /// Returns a message for the operator if some text or skills did not fit.
    pub fn warning(&self) -> Option<String> {
        let cut_at = self.cut_at?;
        if self.unread > 0 {
            return Some(format!(
                "the prompt leaves out {}; {} not read, because too many earlier skills are \
                 unlisted, have no `SKILL.md`, or have much frontmatter; remove such skills",
                count(self.left_out, "skill"),
                match self.unread {
                    1 => "1 was".to_owned(),
                    more => format!("{more} were"),
                }
            ));
        }
        let all = self.listed + self.left_out;
        let verb = if all == 1 { "does" } else { "do" };
        let left_out = match self.left_out {
            0 => String::new(),
            some => format!(" and leaves {some} out"),
        };
        Some(format!(
            "the {} {verb} not fit the {} tokens of a prompt: the prompt cuts descriptions to \
             {cut_at} characters{left_out}; `budget` in `[prompt]` changes that",
            count(all, "skill"),
            self.budget
        ))
    }
}

/// Returns the section for all current skills.
///
/// To fit the budget, it first removes the instruction to load the skill from each line, then cuts
/// descriptions to a common length, then omits the last skills by name. The section then says how
/// many are omitted and which tool finds them.
pub fn section(catalog: &Catalog, style: Style, budget: usize, finder: SkillFinder) -> Section {
    section_of(catalog, catalog.names(), style, budget, finder)
}

/// Returns the section for the skills with these names, which must be sorted.
pub fn section_of(
    catalog: &Catalog,
    names: Vec<String>,
    style: Style,
    budget: usize,
    finder: SkillFinder,
) -> Section {
    let mut names = names.into_iter();
    let mut skills = Vec::new();
    let mut min_cost = cost(style.frame().0) + cost(style.frame().1);
    let mut first_omitted = None;
    let mut read_budget = ReadBudget::default();
    let mut unread = 0;
    while let Some(name) = names.next() {
        if read_budget.is_spent() {
            unread = names.len() + 1;
            break;
        }
        let skill = catalog.read_within(&name, &mut read_budget);
        let Some(skill) = skill.filter(is_loadable) else {
            // No prompt lists this skill, so it is not one of the omitted skills.
            read_budget.leave_out();
            continue;
        };
        min_cost += cost(&style.line(&skill, Some(MIN_DESCRIPTION)));
        if min_cost > units(budget) {
            first_omitted = Some(name);
            break;
        }
        skills.push(skill);
    }
    let fits = |text: &str| cost(text) <= units(budget);
    let mut left_out = names.len() + usize::from(first_omitted.is_some() || unread > 0);
    let (text, cut_at) = if left_out == 0
        && let whole = style.render(&skills, None, "")
        && fits(&whole)
    {
        (whole, None)
    } else {
        let render = |skills: &[Skill], cut, left_out, first_omitted: &Option<String>| {
            let note = style.note(left_out, first_omitted.as_deref(), finder);
            style.render(skills, Some(cut), &note)
        };
        // The note on omitted skills needs tokens itself.
        while !fits(&render(&skills, MIN_DESCRIPTION, left_out, &first_omitted))
            && let Some(last) = skills.pop()
        {
            left_out += 1;
            first_omitted = Some(last.name);
        }
        let (mut cut, mut too_long) = (MIN_DESCRIPTION, MAX_DESCRIPTION + 1);
        while cut + 1 < too_long {
            let middle = cut.midpoint(too_long);
            if fits(&render(&skills, middle, left_out, &first_omitted)) {
                cut = middle
            } else {
                too_long = middle
            }
        }
        (render(&skills, cut, left_out, &first_omitted), Some(cut))
    };
    Section {
        text,
        listed: skills.len(),
        left_out,
        unread,
        cut_at,
        budget,
    }
}

/// Returns whether all skills fit without cuts. Reads only as many skills as fit, and no skill
/// if the names alone exceed the budget.
pub fn fits(catalog: &Catalog, names: &[String], budget: usize) -> bool {
    let style = Style::List;
    let frame = cost(style.frame().0);
    let bare = names.iter().map(|name| cost(&list_line(name, "", None)));
    let mut remaining = units(budget).checked_sub(frame);
    if remaining.is_none_or(|remaining| bare.sum::<usize>() > remaining) {
        return false;
    }
    let mut read_budget = ReadBudget::default();
    for name in names {
        if read_budget.is_spent() {
            return false;
        }
        let skill = catalog.read_within(name, &mut read_budget);
        let Some(skill) = skill.filter(is_loadable) else {
            read_budget.leave_out();
            continue;
        };
        let line = cost(&style.line(&skill, None));
        remaining = remaining.and_then(|remaining| remaining.checked_sub(line));
        if remaining.is_none() {
            return false;
        }
    }
    true
}

/// Estimates the tokens of a text: a token is four bytes, or one Chinese, Japanese or
/// Korean character.
pub fn tokens(text: &str) -> usize {
    cost(text).div_ceil(UNITS_PER_TOKEN)
}

/// The units per token in this estimate. A unit is a byte, or a quarter of a CJK character.
const UNITS_PER_TOKEN: usize = 4;

/// Converts a number of tokens to units.
fn units(tokens: usize) -> usize {
    tokens.saturating_mul(UNITS_PER_TOKEN)
}

/// Returns the units of a text.
fn cost(text: &str) -> usize {
    let cost = |c: char| {
        if is_cjk(c) {
            UNITS_PER_TOKEN
        } else {
            c.len_utf8()
        }
    };
    text.chars().map(cost).sum()
}

/// Returns whether a character is Chinese, Japanese, Korean or full-width.
fn is_cjk(c: char) -> bool {
    matches!(
        c,
        '\u{1100}'..='\u{11ff}'
            | '\u{2e80}'..='\u{9fff}'
            | '\u{a960}'..='\u{a97f}'
            | '\u{ac00}'..='\u{d7ff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{fe30}'..='\u{fe4f}'
            | '\u{ff00}'..='\u{ffef}'
            | '\u{20000}'..='\u{3ffff}'
    )
}

/// Returns a list with a line for each skill that says how and when to call `read_skill`
/// for it.
pub fn list(skills: &[Skill]) -> String {
    Style::List.render_uncut(skills)
}

/// Returns an `<available_skills>` element with each skill's name, description, and
/// location in the catalog.
pub fn xml(skills: &[Skill]) -> String {
    Style::Xml.render_uncut(skills)
}

impl Style {
    /// Returns the text before and after the skills.
    fn frame(self) -> (&'static str, &'static str) {
        match self {
            Self::List => (
                "# Skills\n\n\
                 When the user's request matches a skill's purpose, call \
                 read_skill(skill_name='<name>') first to load its instructions, then follow \
                 them.\n\n\
                 Available skills:\n",
                "",
            ),
            Self::Xml => ("<available_skills>\n", "</available_skills>\n"),
        }
    }

    /// Returns a section with all skills that a prompt lists.
    fn render_uncut(self, skills: &[Skill]) -> String {
        self.render(loadable(skills), None, "")
    }

    /// Returns a section with these skills and a note after them.
    fn render<'s>(
        self,
        skills: impl IntoIterator<Item = &'s Skill>,
        cut: Option<usize>,
        note: &str,
    ) -> String {
        let (start, end) = self.frame();
        let mut section = start.to_owned();
        for skill in skills {
            section.push_str(&self.line(skill, cut));
        }
        section + note + end
    }

    /// Returns the entry of a skill, with its description cut to a number of characters.
    fn line(self, skill: &Skill, cut: Option<usize>) -> String {
        match self {
            Self::List => list_line(&skill.name, &skill.description, cut),
            Self::Xml => {
                let file = skill.file.as_deref().unwrap_or_default();
                let description = shortened(&skill.description, cut.unwrap_or(MAX_DESCRIPTION));
                format!(
                    "  <skill>\n    <name>{}</name>\n    <description>{}</description>\n    \
                     <location>{}</location>\n  </skill>\n",
                    escape_xml(&one_line(&skill.name)),
                    escape_xml(&description),
                    escape_xml(&one_line(&format!("{}/{file}", skill.name))),
                )
            }
        }
    }

    /// Returns the note on omitted skills. `first_omitted` is `None` if that skill was not read.
    fn note(self, left_out: usize, first_omitted: Option<&str>, finder: SkillFinder) -> String {
        if left_out == 0 {
            return String::new();
        }
        let how = match finder {
            SkillFinder::Find => {
                ": call find_skills(query='<what the task needs>') to find the right one".to_owned()
            }
            SkillFinder::List => match first_omitted.filter(|name| can_be_cursor(name)) {
                Some(name) => {
                    let cursor = escape_quotes(name);
                    format!(": call list_skills(cursor='{cursor}') to list them")
                }
                None => ": call list_skills() to list all".to_owned(),
            },
            SkillFinder::Nothing => String::new(),
        };
        let left_out = count(left_out, "more skill");
        let note = format!("{left_out}, last by name, did not fit{how}.");
        match self {
            Self::List => format!("{note}\n"),
            Self::Xml => format!("  <note>{}</note>\n", escape_xml(&note)),
        }
    }
}

/// Returns the line of a skill. A cut line does not say how to load the skill, because the text
/// above the lines does.
fn list_line(name: &str, description: &str, cut: Option<usize>) -> String {
    let name = one_line(name);
    let description = shortened(description, cut.unwrap_or(MAX_DESCRIPTION));
    let separator = if description.is_empty() { "" } else { ": " };
    let mut line = format!("  - {name}{separator}{description}");
    if cut.is_none() {
        let _ = write!(
            line,
            " — call read_skill(skill_name='{}') to load instructions when relevant",
            escape_quotes(&name),
        );
    }
    line.push('\n');
    line
}

/// Returns whether a name fits into a note unchanged, even with the smallest budget. A changed
/// cursor could skip a skill.
fn can_be_cursor(name: &str) -> bool {
    name.len() <= MAX_CURSOR_BYTES && one_line(name) == name
}

/// Returns a name escaped for single quotes.
fn escape_quotes(name: &str) -> String {
    name.replace('\\', "\\\\").replace('\'', "\\'")
}

/// Returns whether a prompt lists any of these skills. Also returns true if it reads none of the
/// skills that it could list.
pub fn may_list_any(catalog: &Catalog, names: &[String]) -> bool {
    let mut budget = ReadBudget::default();
    names.iter().any(|name| {
        if budget.is_spent() {
            return true;
        }
        let skill = catalog.read_within(name, &mut budget);
        let is_listed = skill.as_ref().is_some_and(is_loadable);
        if !is_listed {
            budget.leave_out();
        }
        is_listed
    })
}

/// Returns the skills that a prompt lists.
fn loadable(skills: &[Skill]) -> impl Iterator<Item = &Skill> {
    skills.iter().filter(|skill| is_loadable(skill))
}

/// Returns whether a prompt lists a skill. A skill without a SKILL.md has nothing to load.
fn is_loadable(skill: &Skill) -> bool {
    skill.file.is_some() && skill.unlisted.is_none()
}

/// Returns untrusted text as one line of bounded length, without line breaks and control
/// characters.
fn one_line(text: &str) -> String {
    shortened(text, MAX_DESCRIPTION)
}

/// Returns untrusted text as one line with a maximum number of characters.
fn shortened(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut words = text.split(|c: char| c.is_whitespace() || c.is_control());
    if let Some(first) = words.next() {
        line.push_str(first);
    }
    for word in words.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    match line.char_indices().nth(max) {
        None => line,
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
    }
}

fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
