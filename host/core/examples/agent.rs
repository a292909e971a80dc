//! An agent on OpenAI's Responses interface, with the skills in `./skills`.
//! Needs `OPENAI_API_KEY` and `MODEL` in the environment.

use std::env;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use skillhost::exchange::{self, Format};
use skillhost::{Host, prompt};

/// The model may call tools so often before it has to have an answer.
const TURNS: usize = 20;

struct Service {
    url: String,
    key: String,
    model: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let question = env::args().nth(1).context("usage: agent QUESTION")?;
    let base = env::var("OPENAI_BASE_URL");
    let base = base.unwrap_or_else(|_| "https://api.openai.com/v1".to_owned());
    let service = Service {
        url: format!("{base}/responses"),
        key: env::var("OPENAI_API_KEY").context("OPENAI_API_KEY")?,
        model: env::var("MODEL").context("MODEL")?,
    };
    let host = Host::builder().skills("skills").build().await?;
    println!("{}", answer(&host, &service, &question).await?);
    Ok(())
}

/// What the model says in the end.
async fn answer(host: &Host, service: &Service, question: &str) -> anyhow::Result<String> {
    let instructions = prompt::list(&host.catalog().list().skills);
    let tools = Format::Responses.tools(&host.definitions());
    let mut input = vec![json!({"role": "user", "content": question})];
    for _ in 0..TURNS {
        // Nothing else is to be done while the model thinks.
        let response = ureq::post(&service.url)
            .header("authorization", format!("Bearer {}", service.key))
            .send_json(json!({
                "model": service.model,
                "instructions": instructions,
                "tools": tools,
                "input": input,
            }))?
            .body_mut()
            .read_to_string()?;
        let results = exchange::respond(host, Format::Responses, &response).await?;
        let response: Value = serde_json::from_str(&response)?;
        if results.is_empty() {
            return Ok(text(&response));
        }
        input.extend(response["output"].as_array().into_iter().flatten().cloned());
        input.extend(results);
    }
    bail!("the model was still calling tools after {TURNS} turns")
}

/// The text of a response.
fn text(response: &Value) -> String {
    let items = response["output"].as_array().into_iter().flatten();
    let parts = items
        .filter_map(|item| item["content"].as_array())
        .flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}
