//! Runs the loops of `docs/guides/agents.md` unchanged against a scripted model, and checks their
//! output and what the model receives.

use std::env;
use std::fs;
use std::path::Path;
use std::sync::Once;

use serde_json::{Value, json};
use skillhost::prompt::tokens;

use crate::support::model::{Model, Request};
use crate::support::program::{Run, command, example, finish};
use crate::support::repository;

/// Returns the code blocks of the page, each with its info string.
fn blocks() -> Vec<(String, String)> {
    let page = fs::read_to_string(repository().join("docs/guides/agents.md")).unwrap();
    let mut blocks = Vec::new();
    let mut parts = page.split("\n```");
    parts.next();
    while let (Some(block), Some(_)) = (parts.next(), parts.next()) {
        let (info, text) = block.split_once('\n').unwrap();
        blocks.push((info.to_owned(), format!("{text}\n")));
    }
    blocks
}

fn block(wanted: &str) -> String {
    let found = blocks().into_iter().find(|(info, _)| info == wanted);
    found.unwrap_or_else(|| panic!("no block `{wanted}`")).1
}

/// The answers of a scripted model, and the messages that it must receive.
struct Script {
    question: String,
    answers: Vec<Value>,
    /// The messages that the loop must add after each answer.
    added: Vec<Value>,
    /// The text that the loop must print.
    text: String,
    tools: Value,
}

fn script(format: &str) -> Script {
    let read = |path: String| -> Value {
        let path = repository().join("tests/vectors").join(path);
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    };
    let script = read(format!("loops/{format}.json"));
    let turns = script["turns"].as_array().unwrap();
    let text = |key: &str| script[key].as_str().unwrap().to_owned();
    Script {
        question: text("question"),
        answers: turns.iter().map(|turn| turn["answer"].clone()).collect(),
        added: turns
            .iter()
            .filter_map(|turn| turn.get("then").cloned())
            .collect(),
        text: text("text"),
        tools: read(format!("tools/{format}.json")),
    }
}

impl Script {
    /// Checks that the model received the tools, the skills and the whole conversation in order.
    fn assert_followed(&self, requests: &[Request], conversation: &str, instructions: &str) {
        assert_eq!(requests.len(), self.answers.len());
        let first = requests[0].body[conversation].as_array().unwrap();
        let question = first.last().unwrap().to_string();
        assert!(question.contains(&self.question), "{question}");
        let mut expected = first.clone();
        let added = self.added.iter().map(Some).chain([None]);
        for (request, added) in requests.iter().zip(added) {
            assert!(request.headers["content-type"].starts_with("application/json"));
            assert_eq!(request.body["tools"], self.tools);
            let prompt = request.body[instructions].to_string();
            assert!(
                prompt.contains("read_skill(skill_name='calculator')"),
                "{prompt}"
            );
            assert_eq!(request.body[conversation], Value::from(expected.clone()));
            expected.extend(
                added
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .cloned(),
            );
        }
    }
}

/// Runs a block of the page on the sample skills.
fn run_python(
    info: &str,
    base_variable: &str,
    key_variable: &str,
    model: &Model,
    question: &str,
) -> Run {
    run_python_in(
        repository(),
        info,
        base_variable,
        key_variable,
        model,
        question,
    )
}

/// Runs a block of the page with `current_dir` as the current folder.
fn run_python_in(
    current_dir: &Path,
    info: &str,
    base_variable: &str,
    key_variable: &str,
    model: &Model,
    question: &str,
) -> Run {
    // Compile the tools first, because the program reports a long compilation on stderr.
    static WARM: Once = Once::new();
    WARM.call_once(|| {
        let mut warm = command(Path::new(env!("CARGO_BIN_EXE_skillhost")));
        warm.arg("warm");
        let run = finish(warm, "");
        assert_eq!(run.code, 0, "{}", run.stderr);
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.py");
    fs::write(&file, block(info)).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_skillhost")).parent().unwrap();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(
        [programs.to_owned()]
            .into_iter()
            .chain(env::split_paths(&path)),
    );
    let base_path = if info.ends_with("openai") { "/v1" } else { "" };
    let mut command = command(Path::new("python3"));
    command
        .arg(file)
        .arg(question)
        .current_dir(current_dir)
        .env("PATH", path.unwrap())
        .env("LANG", "C.UTF-8")
        .env(
            base_variable,
            format!("http://{}{base_path}", model.address),
        )
        .env(key_variable, "secret-key")
        .env("MODEL", "scripted");
    finish(command, "")
}

#[test]
fn python_loop_on_chat_completions_works() {
    let script = script("openai");
    let model = Model::play(script.answers.clone());
    let run = run_python(
        "python openai",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        &model,
        &script.question,
    );
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(run.stdout.trim_end(), script.text);
    let requests = model.requests();
    script.assert_followed(&requests, "messages", "messages");
    for request in requests {
        assert_eq!(request.path, "/v1/chat/completions");
        assert_eq!(request.headers["authorization"], "Bearer secret-key");
        assert_eq!(request.body["model"], "scripted");
    }
}

#[test]
fn python_loop_on_anthropic_messages_works() {
    let script = script("anthropic");
    let model = Model::play(script.answers.clone());
    let run = run_python(
        "python anthropic",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_KEY",
        &model,
        &script.question,
    );
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(run.stdout.trim_end(), script.text);
    let requests = model.requests();
    script.assert_followed(&requests, "messages", "system");
    for request in requests {
        assert_eq!(request.path, "/v1/messages");
        assert_eq!(request.headers["x-api-key"], "secret-key");
        assert_eq!(request.headers["anthropic-version"], "2023-06-01");
        assert_eq!(request.body["model"], "scripted");
        assert!(request.body["max_tokens"].is_u64());
    }
}

#[test]
fn python_loop_on_gemini_works() {
    let script = script("gemini");
    let model = Model::play(script.answers.clone());
    let run = run_python(
        "python gemini",
        "GEMINI_BASE_URL",
        "GEMINI_API_KEY",
        &model,
        &script.question,
    );
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(run.stdout.trim_end(), script.text);
    let requests = model.requests();
    script.assert_followed(&requests, "contents", "systemInstruction");
    for request in requests {
        assert_eq!(request.path, "/models/scripted:generateContent");
        assert_eq!(request.headers["x-goog-api-key"], "secret-key");
    }
}

#[test]
fn rust_loop_on_responses_works() {
    let script = script("responses");
    let model = Model::play(script.answers.clone());
    let mut command = command(&example("agent"));
    command
        .arg(&script.question)
        .current_dir(repository())
        .env("OPENAI_BASE_URL", format!("http://{}/v1", model.address))
        .env("OPENAI_API_KEY", "secret-key")
        .env("MODEL", "scripted");
    let run = finish(command, "");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(run.stdout.trim_end(), script.text);
    let requests = model.requests();
    script.assert_followed(&requests, "input", "instructions");
    for request in requests {
        assert_eq!(request.path, "/v1/responses");
        assert_eq!(request.headers["authorization"], "Bearer secret-key");
        assert_eq!(request.body["model"], "scripted");
    }
}

/// Makes a thousand skills in `skills` with similar purposes.
fn thousand_skills() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let things = (0..40).map(|number| format!("thing{number:02}"));
    let things: Vec<String> = things.chain(["maps".to_owned()]).collect();
    let verbs = [
        "archive", "compare", "convert", "count", "crop", "draw", "encrypt", "export",
    ];
    let more = [
        "filter", "import", "index", "join", "mask", "measure", "merge", "mirror",
    ];
    let last = [
        "paint", "print", "rotate", "scan", "sort", "split", "stamp", "trace", "trim",
    ];
    let verbs = verbs.iter().chain(&more).chain(&last);
    for (verb, thing) in verbs.flat_map(|verb| things.iter().map(move |thing| (verb, thing))) {
        let skill = folder.path().join(format!("skills/{verb}-{thing}"));
        fs::create_dir_all(&skill).unwrap();
        let text = format!(
            "---\nname: {verb}-{thing}\ndescription: How to {verb} {thing} with care, step by \
             step, for people who have never done it before and want to see each result.\n---\n\
             # To {verb} {thing}\n"
        );
        fs::write(skill.join("SKILL.md"), text).unwrap();
    }
    let files = folder.path().join("skills/rotate-maps/references");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("angles.md"), "# Angles\nHalf a turn is 180.\n").unwrap();
    folder
}

/// Returns a model's answer that calls a tool, in an interface's format.
fn tool_call(format: &str, name: &str, arguments: Value) -> Value {
    let text = arguments.to_string();
    match format {
        "openai" => json!({"choices": [{"message": {"role": "assistant", "content": null,
            "tool_calls": [{"id": "call_1", "type": "function",
                "function": {"name": name, "arguments": text}}]}}]}),
        "anthropic" => json!({"role": "assistant", "type": "message", "content": [
            {"type": "tool_use", "id": "call_1", "name": name, "input": arguments}]}),
        "gemini" => json!({"candidates": [{"content": {"role": "model", "parts": [
            {"functionCall": {"name": name, "args": arguments}}]}}]}),
        _ => json!({"output": [{"type": "function_call", "id": "f", "call_id": "call_1",
            "name": name, "arguments": text}]}),
    }
}

/// Returns a model's last answer in an interface's format.
fn last_answer(format: &str, text: &str) -> Value {
    match format {
        "openai" => json!({"choices": [{"message": {"role": "assistant", "content": text}}]}),
        "anthropic" => json!({"role": "assistant", "type": "message", "content": [
            {"type": "text", "text": text}]}),
        "gemini" => json!({"candidates": [{"content": {"role": "model", "parts": [
            {"text": text}]}}]}),
        _ => json!({"output": [{"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": text}]}]}),
    }
}

/// Returns the text of the system prompt in a request.
fn instructions<'r>(format: &str, body: &'r Value) -> &'r str {
    let path = match format {
        "openai" => "/messages/0/content",
        "anthropic" => "/system",
        "gemini" => "/systemInstruction/parts/0/text",
        _ => "/instructions",
    };
    body.pointer(path).unwrap().as_str().unwrap()
}

#[test]
fn each_loop_finds_skill_within_8000_tokens() {
    let folder = thousand_skills();
    let query = json!({"query": "my maps are upside down: rotate them"});
    // The loop in Rust has no index.
    let cursor = json!({"cursor": "rotate-maps", "limit": 1});
    let skill = json!({"skill_name": "rotate-maps"});
    let file = json!({"skill_name": "rotate-maps", "path": "references/angles.md"});
    for (format, tool, arguments) in [
        ("openai", "find_skills", &query),
        ("anthropic", "find_skills", &query),
        ("gemini", "find_skills", &query),
        ("responses", "list_skills", &cursor),
    ] {
        let model = Model::play([
            tool_call(format, tool, arguments.clone()),
            tool_call(format, "read_skill", skill.clone()),
            tool_call(format, "list_files_in_skill", skill.clone()),
            tool_call(format, "read_skill_file", file.clone()),
            last_answer(format, "They are the right way up."),
        ]);
        let path = folder.path();
        let info = format!("python {format}");
        let run = match format {
            "responses" => {
                let mut command = command(&example("agent"));
                command
                    .arg("x")
                    .current_dir(path)
                    .env("OPENAI_BASE_URL", format!("http://{}/v1", model.address))
                    .env("OPENAI_API_KEY", "secret-key")
                    .env("MODEL", "scripted");
                finish(command, "")
            }
            _ => {
                let variable = |suffix: &str| format!("{}_{suffix}", format.to_uppercase());
                let (base, key) = (variable("BASE_URL"), variable("API_KEY"));
                run_python_in(path, &info, &base, &key, &model, "x")
            }
        };
        assert_eq!(run.code, 0, "{format}: {run:?}");
        assert_eq!(run.stdout.trim_end(), "They are the right way up.");
        if format != "responses" {
            let warning = "the 1025 skills do not fit the 4000 tokens of a prompt";
            assert!(run.stderr.contains(warning), "{}", run.stderr);
        }
        let requests = model.requests();
        let prompt = instructions(format, &requests[0].body);
        assert!(prompt.contains(&format!("call {tool}(")), "{prompt}");
        let answers = [
            "How to rotate maps",
            "# To rotate maps",
            "references/angles.md",
            "Half a turn is 180.",
        ];
        for (request, answer) in requests[1..].iter().zip(answers) {
            let body = request.body.to_string();
            assert!(body.contains(answer), "{format}: no {answer} in {body}");
        }
        // The last request contains the instructions, the tools and all calls with answers.
        let used = tokens(&requests[4].body.to_string());
        assert!(used <= 8000, "{format}: {used} tokens");
    }
}

#[test]
fn loop_fails_after_twenty_turns_or_service_error() {
    let script = script("openai");
    let model = Model::play(vec![script.answers[0].clone(); 30]);
    let run = run_python(
        "python openai",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        &model,
        "x",
    );
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert_eq!(
        run.stderr,
        "the model was still calling tools after 20 turns\n"
    );
    assert_eq!(model.requests().len(), 20);
    let model = Model::play([]);
    let run = run_python(
        "python gemini",
        "GEMINI_BASE_URL",
        "GEMINI_API_KEY",
        &model,
        "x",
    );
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.contains("HTTP Error 500"), "{}", run.stderr);
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn page_shows_only_loops_that_run() {
    let blocks = blocks();
    let loops = blocks
        .iter()
        .map(|(info, _)| info.as_str())
        .filter(|info| info.starts_with("python") || info.starts_with("rust"));
    assert_eq!(
        loops.collect::<Vec<_>>(),
        ["python openai", "python anthropic", "python gemini"]
    );
}
