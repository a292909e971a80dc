//! Tests of decisions, with a simulated person.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio::sync::{Semaphore, mpsc};

use super::*;
use skillhost_skills::broker::Opener;
use skillhost_skills::trust::Trust;

const DIGEST: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A person who answers each question as the test says.
struct Person {
    answers: tokio::sync::Mutex<mpsc::UnboundedReceiver<Answer>>,
    /// A permit for each question.
    asked: Arc<Semaphore>,
}

impl Asker for Person {
    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        assert!(question.to_string().contains(&question.origin));
        Box::pin(async {
            self.asked.add_permits(1);
            let mut answers = self.answers.try_lock().expect("two questions at a time");
            answers.recv().await.expect("an answer")
        })
    }
}

/// Returns a session, the sender of its person's answers, and the number of questions so far.
fn session() -> (
    ConsentSession,
    mpsc::UnboundedSender<Answer>,
    Arc<Semaphore>,
) {
    let (answer, answers) = mpsc::unbounded_channel();
    let asked = Arc::new(Semaphore::new(0));
    let person = Person {
        answers: tokio::sync::Mutex::new(answers),
        asked: Arc::clone(&asked),
    };
    (ConsentSession::new(person), answer, asked)
}

fn question(origin: &str) -> Question {
    let mut question = Question::new("get", Some("a"), "a b.wasm", DIGEST);
    origin.clone_into(&mut question.origin);
    "GET".clone_into(&mut question.method);
    question
}

fn rules(file: Option<&Path>) -> ConsentRules {
    let open = |path| ConsentFile::open(path, Trust::new(), Opener::DIRECT).unwrap();
    ConsentRules {
        limits: ConsentLimits {
            consent_time: Duration::from_millis(200),
            consent_questions: 3,
        },
        file: file.map(open).map(Arc::new),
    }
}

#[tokio::test]
async fn session_remembers_each_decision() {
    let ((session, answer, asked), rules) = (session(), rules(None));
    let decide = |origin: &'static str| rules.decide(Some(&session), question(origin));
    for (origin, given, expected) in [
        ("https://a.org", Ok(Choice::Session), Ok(Consent::Session)),
        ("https://b.org", Ok(Choice::Deny), Err("denied it")),
        // Without a file, the consent holds only for the session.
        ("https://c.org", Ok(Choice::Always), Ok(Consent::Session)),
    ] {
        answer.send(given).unwrap();
        for _ in 0..2 {
            match (decide(origin).await, expected) {
                (Ok(consent), Ok(expected)) => assert_eq!(consent, expected),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
                other => panic!("{origin}: {other:?}"),
            }
        }
    }
    assert_eq!(asked.available_permits(), 3);
    // The session has no questions left.
    let why = decide("https://d.org").await.unwrap_err();
    assert!(why.contains("asked all 3 questions"), "{why}");
    assert_eq!(decide("https://a.org").await, Ok(Consent::Session));
    // A component with other bytes needs another question, and so does another session.
    let mut other = question("https://a.org");
    other.digest = DIGEST.replace('0', "1");
    assert!(rules.decide(Some(&session), other).await.is_err());
    let (second, answer, asked) = self::session();
    answer.send(Ok(Choice::Session)).unwrap();
    let again = rules.decide(Some(&second), question("https://b.org"));
    assert_eq!(again.await, Ok(Consent::Session));
    assert_eq!(asked.available_permits(), 1);
    let why = rules.decide(None, question("https://a.org")).await;
    assert_eq!(why, Err("this caller cannot ask a person".to_owned()));
}

#[tokio::test]
async fn counts_questions_that_were_shown() {
    let ((session, answer, asked), rules) = (session(), rules(None));
    let decide = |origin: &'static str| rules.decide(Some(&session), question(origin));
    // No question was shown, so none is counted or remembered.
    for _ in 0..5 {
        answer.send(Err("no forms".to_owned())).unwrap();
        assert_eq!(decide("https://a.org").await, Err("no forms".to_owned()));
    }
    assert_eq!(asked.available_permits(), 5);
    for _ in 0..2 {
        let why = decide("https://a.org").await.unwrap_err();
        assert!(why.contains("nobody answered"), "{why}");
    }
    assert_eq!(asked.available_permits(), 6);
    // A request that is cancelled has used up a question, and nothing is decided.
    for _ in 0..2 {
        let time = Duration::from_millis(20);
        let answered = tokio::time::timeout(time, decide("https://b.org")).await;
        assert!(answered.is_err());
    }
    let why = decide("https://b.org").await.unwrap_err();
    assert!(why.contains("asked all 3 questions"), "{why}");
}

#[tokio::test]
async fn requests_wait_for_the_same_question() {
    let ((session, answer, asked), mut rules) = (session(), rules(None));
    rules.limits.consent_time = Duration::from_secs(60);
    let decide = |origin: &'static str| rules.decide(Some(&session), question(origin));
    let answering = async {
        let permit = asked.acquire().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(asked.available_permits(), 0);
        answer.send(Ok(Choice::Session)).unwrap();
        drop(permit);
        // The answer for the other origin.
        answer.send(Ok(Choice::Deny)).unwrap();
    };
    let (one, same, other, ()) = tokio::join!(
        decide("https://a.org"),
        decide("https://a.org"),
        decide("https://b.org"),
        answering
    );
    assert_eq!((one, same), (Ok(Consent::Session), Ok(Consent::Session)));
    assert!(other.is_err());
    assert_eq!(asked.available_permits(), 2);
}

#[tokio::test]
async fn session_decides_for_each_skill() {
    let ((session, answer, asked), rules) = (session(), rules(None));
    for (skill, given) in [
        (Some("a"), Choice::Session),
        (Some("b"), Choice::Deny),
        (None, Choice::Deny),
    ] {
        answer.send(Ok(given)).unwrap();
        let mut question = question("https://a.org");
        question.skill = skill.map(str::to_owned);
        let decided = rules.decide(Some(&session), question).await;
        assert_eq!(decided.is_ok(), given == Choice::Session, "{skill:?}");
    }
    assert_eq!(asked.available_permits(), 3);
}

#[tokio::test]
async fn file_stores_permanent_consent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("consent");
    let rules = rules(Some(&path));
    let (session, answer, asked) = session();
    let ask = async |origin: &str| {
        answer.send(Ok(Choice::Always)).unwrap();
        rules.decide(Some(&session), question(origin)).await
    };
    let read = || fs::read_to_string(&path).unwrap();
    assert_eq!(ask("https://a.org").await, Ok(Consent::Line(1)));
    assert_eq!(read(), format!("{DIGEST} https://a.org # a_b.wasm\n"));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // An editor writes comments and other spellings.
    let edited = format!(
        "# mine\n\n  {} HTTPS://B.ORG:443 # b\n",
        DIGEST.to_uppercase()
    );
    fs::write(&path, &edited).unwrap();
    // Nobody is asked, because the line counts even without a session.
    let known = rules.decide(None, question("https://b.org")).await;
    assert_eq!(known, Ok(Consent::Line(3)));
    assert_eq!(ask("https://c.org:8443").await, Ok(Consent::Line(4)));
    assert_eq!(
        read(),
        format!("{edited}{DIGEST} https://c.org:8443 # a_b.wasm\n")
    );
    assert_eq!(asked.available_permits(), 2);
    // A removed line no longer counts, and neither does a line of another component.
    let denied = rules.decide(None, question("https://a.org")).await;
    assert!(denied.is_err());
    let mut other = question("https://b.org");
    other.digest = DIGEST.replace('0', "1");
    assert!(rules.decide(None, other).await.is_err());
    // A file that others can write allows nothing, and nothing is written to it.
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    assert!(rules.decide(None, question("https://b.org")).await.is_err());
    let before = read();
    assert_eq!(ask("https://d.org").await, Ok(Consent::Session));
    assert_eq!(read(), before);
}

#[test]
fn torn_line_allows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("consent");
    let line = format!("{DIGEST} https://login.example.com:8443 # a.wasm\n");
    for end in 1..line.len() {
        fs::write(&path, &line[..end]).unwrap();
        let file = ConsentFile::open(&path, Trust::new(), Opener::DIRECT).unwrap();
        // A comment follows the whole origin.
        let has_origin = line[..end].contains('#');
        let check_torn_line = || {
            for (host, is_allowed) in [
                ("com:8443", has_origin),
                ("com:8", false),
                ("com", false),
                ("co", false),
            ] {
                let found = file.find(DIGEST, &format!("https://login.example.{host}"));
                assert_eq!(found.unwrap().is_some(), is_allowed, "{host}, cut at {end}");
            }
        };
        check_torn_line();
        file.append("b.wasm", DIGEST, "https://b.org").unwrap();
        check_torn_line();
        let added = file.find(DIGEST, "https://b.org").unwrap();
        assert_eq!(added, Some(2), "cut at {end}");
    }
}

#[test]
fn refuses_files_with_wrong_lines_or_owners() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("consent");
    let open = || ConsentFile::open(&path, Trust::new(), Opener::DIRECT);
    for (line, expected) in [
        (DIGEST.to_owned(), "a line has the SHA-256 digest"),
        (
            format!("{DIGEST} https://a.org GET"),
            "a line has the SHA-256 digest",
        ),
        (format!("{} https://a.org", &DIGEST[1..]), "64 hex digits"),
        (format!("{DIGEST} http://a.org"), "not an origin"),
        (format!("{DIGEST} https://a.org/"), "not an origin"),
        (format!("{DIGEST} https://a.org/v1"), "not an origin"),
        (format!("{DIGEST} https://u@a.org"), "not an origin"),
        (format!("{DIGEST} https://*.org"), "not an origin"),
        (format!("{DIGEST} a.org"), "not an origin"),
    ] {
        fs::write(&path, format!("# one\n{line}\n")).unwrap();
        let error = format!("{:#}", open().unwrap_err());
        assert!(error.contains("line 2"), "{line}: {error}");
        assert!(error.contains(expected), "{line}: {error}");
    }
    fs::write(&path, format!("{DIGEST} https://a.org\n")).unwrap();
    open().unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
    let error = format!("{:#}", open().unwrap_err());
    assert!(error.contains("set its mode to 0644"), "{error}");
    fs::remove_file(&path).unwrap();
    open().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    open().unwrap_err();
}

#[test]
fn question_shows_hostile_names_on_their_own_lines() {
    let mut hostile = Question::new(
        "get`\nOrigin: `https://good.org",
        Some("a\u{202e}b"),
        &"x".repeat(200),
        DIGEST,
    );
    hostile.method = "GET\r\n\u{1b}[2K".to_owned();
    hostile.origin = "https://xn--gogle-0nd.org".to_owned();
    let text = hostile.to_string();
    let origins = text.lines().filter(|line| line.starts_with("Origin:"));
    assert_eq!(
        origins.collect::<Vec<_>>(),
        ["Origin: `https://xn--gogle-0nd.org`"]
    );
    assert!(text.contains("punycode"), "{text}");
    assert!(
        text.contains("Tool: `get'\\nOrigin: 'https://good.org`\n"),
        "{text}"
    );
    assert!(text.contains("Skill: `a\\u{202e}b`\n"), "{text}");
    assert!(
        text.contains(&format!("Component: `{}…`\n", "x".repeat(100))),
        "{text}"
    );
    assert!(text.contains(&format!("SHA-256: `{DIGEST}`")), "{text}");
    // The end of a host name decides who owns it.
    let long = format!("https://good.org.{}.evil.example", "x".repeat(200));
    let text = question(&long).to_string();
    assert!(text.contains(&format!("Origin: `{long}`\n")), "{text}");
    let text = hostile.to_string();
    let is_hidden = |c: char| skillhost_skills::text::line::is_hidden(c) && c != '\n';
    assert!(!text.contains(is_hidden), "{text}");
    for plain in ["https://a.org", "https://axn--b.org", "https://a.org:8443"] {
        assert!(!question(plain).to_string().contains("punycode"), "{plain}");
    }
}
