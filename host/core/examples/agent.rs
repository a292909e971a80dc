//! An agent that uses OpenAI's Responses API, with the skills in `./skills`.
//! Needs `OPENAI_API_KEY` and `MODEL` in the environment.

use std::env;

use anyhow::Context as _;
use serde_json::{Value, json};
use skillhost::Host;
use skillhost::exchange::{self, Format};
use skillhost::prompt::Style;

/// The maximum number of turns in which the model calls tools.
const MAX_TURNS: usize = 20;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let question = env::args().nth(1).context("usage: agent QUESTION")?;
    let variable = |name| env::var(name).context(name);
    let base = variable("OPENAI_BASE_URL").unwrap_or("https://api.openai.com/v1".to_owned());
    let (key, model) = (variable("OPENAI_API_KEY")?, variable("MODEL")?);
    let host = Host::builder().skills("skills").build().await?;
    let instructions = host.prompt(Style::List).text;
    let tools = Format::Responses.tools(&host.definitions());
    let mut input = vec![json!({"role": "user", "content": question})];
    for _ in 0..MAX_TURNS {
        // The thread has nothing else to do while the model thinks.
        let response = ureq::post(format!("{base}/responses"))
            .header("authorization", format!("Bearer {key}"))
            .send_json(json!({
                "model": model,
                "instructions": instructions,
                "tools": tools,
                "input": input,
            }))?
            .body_mut()
            .read_to_string()?;
        let results = exchange::respond(&host, Format::Responses, &response).await?;
        let response: Value = serde_json::from_str(&response)?;
        let items = response["output"].as_array().into_iter().flatten();
        if results.is_empty() {
            let parts = items.filter_map(|item| item["content"].as_array());
            let texts = parts.flatten().filter_map(|part| part["text"].as_str());
            println!("{}", texts.collect::<String>());
            return Ok(());
        }
        input.extend(items.cloned());
        input.extend(results);
    }
    anyhow::bail!("the model was still calling tools after {MAX_TURNS} turns")
}
