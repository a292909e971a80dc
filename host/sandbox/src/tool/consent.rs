//! Consent: a person allows a component to send requests to an origin, if its grant has
//! `network = "ask"`.
//!
//! A transport implements [`Asker`] and gives each of its callers a [`ConsentSession`]. Nothing
//! here knows how a person is asked.

mod file;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::declare_limits;
use skillhost_skills::blocking;
use skillhost_skills::text::line::Line;

pub use file::ConsentFile;

/// The maximum number of characters of a value in a question. Guards against: a component whose
/// names hide the rest of the question.
const MAX_SHOWN: usize = 100;

declare_limits! {
    /// The limits of the questions whether a component may send requests to an origin.
    ConsentLimits in "network", "nobody could answer a question" {
        /// Time that a person has to answer a question. Without an answer, the requests are denied.
        consent_time: Duration, Time "60s" in 100, 3_600_000;
        against "a call that waits for a person who is away"

        /// Questions in a session. Further requests to new origins are denied.
        consent_questions: usize, Count "8" in 1, 1_000;
        against "a component that asks until a person gives in"
    }
}

/// A question whether a component may send requests to an origin.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Question {
    /// The tool that was called.
    pub tool: String,
    /// The skill of the call, if it has one.
    pub skill: Option<String>,
    /// The name of the component's file.
    pub component: String,
    /// SHA-256 of the component, in hex.
    pub digest: String,
    /// The method of the first request.
    pub method: String,
    /// The scheme, host and port, normalised.
    pub origin: String,
    /// True if an answer can be stored for later sessions.
    pub can_remember: bool,
}

/// A person's answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Allows the origin until the session ends.
    Session,
    /// Allows the origin to this component from now on.
    Always,
    /// Denies the origin until the session ends.
    Deny,
}

/// The result of asking: the choice, or the reason why nobody could be asked.
pub type Answer = Result<Choice, String>;

/// A way to ask a person.
pub trait Asker: Send + Sync {
    /// Asks a question, and waits for the answer. Dropping the future withdraws the question.
    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;
}

/// The person behind a session, and what that person has decided in it.
pub struct ConsentSession {
    asker: Box<dyn Asker>,
    /// The number of questions so far. Locked during a question, so that there is one at a time.
    question_count: tokio::sync::Mutex<usize>,
    /// The decisions. There is at most one entry for each question.
    decisions: Mutex<BTreeMap<DecisionKey, Decision>>,
}

/// The component's digest, the skill and the origin. The skill is part of the key because the
/// scripts of all skills run in the same component.
type DecisionKey = (String, Option<String>, String);

/// A decision that holds until the session ends.
#[derive(Debug, Clone)]
enum Decision {
    Allowed,
    Denied(String),
}

/// A host's rules for consent: the limits, and the file with consent for later sessions.
#[derive(Debug, Default)]
pub struct ConsentRules {
    /// The limits of questions.
    pub limits: ConsentLimits,
    /// The file, if the operator names one.
    pub file: Option<Arc<ConsentFile>>,
}

/// The consent that allows a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// A person's answer in this session.
    Session,
    /// This line of the file.
    Line(usize),
}

impl fmt::Display for Consent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session => f.write_str("consent for the session"),
            Self::Line(line) => write!(f, "consent in line {line} of the consent file"),
        }
    }
}

impl Question {
    /// Creates the question of a call, without method and origin.
    pub fn new(tool: &str, skill: Option<&str>, component: &str, digest: &str) -> Self {
        Self {
            tool: tool.to_owned(),
            skill: skill.map(str::to_owned),
            component: component.to_owned(),
            digest: digest.to_owned(),
            method: String::new(),
            origin: String::new(),
            can_remember: false,
        }
    }

    fn key(&self) -> DecisionKey {
        let Self {
            digest,
            skill,
            origin,
            ..
        } = self;
        (digest.clone(), skill.clone(), origin.clone())
    }
}

impl fmt::Display for Question {
    /// Writes the question for a person. Names and origin come from a component, so each is one
    /// escaped line that cannot look like another part of the question.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tool,
            skill,
            component,
            digest,
            method,
            origin,
            can_remember,
        } = self;
        writeln!(
            f,
            "May a tool send requests over the internet? It can send what its calls know: \
             arguments, and files of the skill.\n"
        )?;
        // Shows the whole origin, because the end of a host name decides who owns it. A host name
        // has at most 253 bytes.
        writeln!(f, "Origin: {}", in_backticks(origin))?;
        if origin.contains("://xn--") || origin.contains(".xn--") {
            writeln!(
                f,
                "The host is an international name in its ASCII form (punycode). It may look like \
                 another name."
            )?;
        }
        writeln!(f, "First request: {}", shortened(method))?;
        writeln!(f, "Tool: {}", shortened(tool))?;
        if let Some(skill) = skill {
            writeln!(f, "Skill: {}", shortened(skill))?;
            if *can_remember {
                writeln!(
                    f,
                    "If you always allow this origin, the consent covers every skill that the \
                     component reads."
                )?;
            }
        }
        writeln!(f, "Component: {}", shortened(component))?;
        write!(f, "SHA-256: {}", shortened(digest))
    }
}

/// Returns a value for a person, cut at a maximum length; see [`in_backticks`].
fn shortened(value: &str) -> String {
    let mut short: String = value.chars().take(MAX_SHOWN).collect();
    if short.len() < value.len() {
        short.push('…');
    }
    in_backticks(&short)
}

/// Returns a value for a person: on one line, in backticks that it cannot close.
fn in_backticks(value: &str) -> String {
    format!("`{}`", Line::new(value.replace('`', "'")))
}

impl ConsentSession {
    /// Creates a session in which nothing is decided.
    pub fn new(asker: impl Asker + 'static) -> Self {
        Self {
            asker: Box::new(asker),
            question_count: tokio::sync::Mutex::default(),
            decisions: Mutex::default(),
        }
    }

    /// Returns the session's earlier decision about the question's component, skill and origin.
    fn earlier_decision(&self, question: &Question) -> Option<Result<Consent, String>> {
        let decisions = self.decisions();
        Some(match decisions.get(&question.key())? {
            Decision::Allowed => Ok(Consent::Session),
            Decision::Denied(why) => Err(why.clone()),
        })
    }

    fn remember(&self, question: &Question, decision: Decision) {
        self.decisions().insert(question.key(), decision);
    }

    fn decisions(&self) -> MutexGuard<'_, BTreeMap<DecisionKey, Decision>> {
        let locked = self.decisions.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ConsentSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsentSession").finish_non_exhaustive()
    }
}

impl ConsentRules {
    /// Returns the consent to a request, and asks for it if nothing is decided yet. Requests to
    /// the same origin wait for the same question.
    ///
    /// # Errors
    ///
    /// Fails with a reason for the operator if the request is denied.
    pub async fn decide(
        &self,
        session: Option<&ConsentSession>,
        mut question: Question,
    ) -> Result<Consent, String> {
        question.can_remember = self.file.is_some();
        let session_to_ask = match self.existing_decision(session, &question).await {
            Some(decided) => return decided,
            None => session.ok_or("this caller cannot ask a person")?,
        };
        let mut question_count = session_to_ask.question_count.lock().await;
        // Meanwhile another request may have asked.
        if let Some(decided) = self.existing_decision(session, &question).await {
            return decided;
        }
        let max = self.limits.consent_questions;
        if *question_count >= max {
            return Err(format!(
                "the session has asked all {max} questions that `consent_questions` allows"
            ));
        }
        // Counts the question before the answer, because a call that ends meanwhile has shown it.
        *question_count += 1;
        let time = self.limits.consent_time;
        let denied = match tokio::time::timeout(time, session_to_ask.asker.ask(&question)).await {
            Ok(Ok(Choice::Always)) if self.append(&question).await => {
                if let Some(decided) = self.find_line(&question).await {
                    return Ok(decided);
                }
                None
            }
            Ok(Ok(Choice::Session | Choice::Always)) => None,
            Ok(Ok(Choice::Deny)) => Some("a person denied it in this session".to_owned()),
            Ok(Err(why)) => {
                *question_count -= 1;
                return Err(why);
            }
            Err(_) => Some(format!("nobody answered the question in {time:?}")),
        };
        match denied {
            None => {
                session_to_ask.remember(&question, Decision::Allowed);
                Ok(Consent::Session)
            }
            Some(why) => {
                session_to_ask.remember(&question, Decision::Denied(why.clone()));
                Err(why)
            }
        }
    }

    /// Returns the decision that exists already. A line of the file overrides the session.
    async fn existing_decision(
        &self,
        session: Option<&ConsentSession>,
        question: &Question,
    ) -> Option<Result<Consent, String>> {
        match self.find_line(question).await {
            Some(consent) => Some(Ok(consent)),
            None => session.and_then(|session| session.earlier_decision(question)),
        }
    }

    /// Reads the file again, and returns the line that allows the origin.
    async fn find_line(&self, question: &Question) -> Option<Consent> {
        let file = Arc::clone(self.file.as_ref()?);
        let (digest, origin) = (question.digest.clone(), question.origin.clone());
        let found = blocking::run((), move || file.find(&digest, &origin)).await;
        match found.ok()? {
            Ok(line) => line.map(Consent::Line),
            Err(error) => {
                tracing::error!(
                    "{}",
                    Line::new(format_args!("{error:#}; the file allows nothing"))
                );
                None
            }
        }
    }

    /// Writes a line to the file. Returns whether that worked.
    async fn append(&self, question: &Question) -> bool {
        let Some(file) = self.file.clone() else {
            return false;
        };
        let question = question.clone();
        let written = blocking::run((), move || {
            file.append(&question.component, &question.digest, &question.origin)
        });
        match written.await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                let error = Line::new(format_args!(
                    "{error:#}; the answer holds only for this session"
                ));
                tracing::error!("{error}");
                false
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
