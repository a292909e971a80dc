//! Times skillhost inside a process. `bench/compare` starts this program beside its counterpart in
//! Python, `contract.py`, and gives both the same orders. An order is a line of JSON on stdin, its
//! answer a line on stdout.

mod exchange;
mod plain;
mod recorded;

use std::hint::black_box;
use std::io::{self, BufRead as _, Write as _};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skillhost::{CallError, Grant, Host, Output};
use tokio::runtime::Runtime;

/// The folders of a host.
#[derive(Deserialize)]
struct HostFolders {
    skills: PathBuf,
    cache: PathBuf,
    /// A folder of components that replace the built-in ones, and the names of their tools.
    tools: Option<(PathBuf, Vec<String>)>,
}

/// An action to time.
#[derive(Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
enum Order {
    /// A call of a tool.
    Call {
        tool: String,
        arguments: Value,
        form: Form,
        times: usize,
    },
    /// A plain read of the file in Rust.
    Native { path: PathBuf, times: usize },
    /// Calls of a tool, on several threads at a time.
    Throughput {
        tool: String,
        arguments: Value,
        form: Form,
        threads: usize,
        milliseconds: u64,
    },
    /// Trips of a cache line to another processor and back.
    Exchange { times: usize },
    /// A GET request by `ureq`, with the body of its response.
    Fetch { url: String, times: usize },
}

/// The form of an answer.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    /// The text for the model.
    Text,
    /// The record for programs, as JSON.
    Record,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Timed { nanoseconds: Vec<u64>, last: String },
    Counted { calls: usize, seconds: f64 },
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let runtime = runtime()?;
    let host = |folders: &str| -> anyhow::Result<Host> {
        let folders = serde_json::from_str(folders).context("invalid folders of a host")?;
        runtime.block_on(host(folders))
    };
    let host = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [folders] => host(folders)?,
        ["plain", skills] => return plain::serve(skills.into()),
        [_, "ready", file] => {
            return recorded::serve(&fs::read_to_string(file)?, |_, _| Ok(None));
        }
        [folders, "sandboxed", file] => {
            let host = host(folders)?;
            let HostFolders { skills, .. } = serde_json::from_str(folders)?;
            return recorded::serve(&fs::read_to_string(file)?, |tool, arguments| {
                // This call has the costs of a sandbox, but reads no file.
                let missing = json!({"skill_name": "none", "file_path": "none"});
                let answer = runtime.block_on(host.call(tool, missing));
                ensure!(answer.is_err(), "there is a skill `none`");
                let argument = |name: &str| arguments[name].as_str().unwrap_or_default();
                let path = skills
                    .join(argument("skill_name"))
                    .join(argument("file_path"));
                black_box(fs::read_to_string(path)?);
                Ok(None)
            });
        }
        [folders, "called", file] => {
            let host = host(folders)?;
            return recorded::serve(&fs::read_to_string(file)?, |tool, arguments| {
                let answer = runtime.block_on(host.call(tool, arguments.clone()));
                result(answer).map(Some)
            });
        }
        _ => bail!(
            "usage: skillhost-compare plain DIR | FOLDERS [ready FILE | sandboxed FILE | called FILE]"
        ),
    };
    let mut output = io::stdout().lock();
    writeln!(output, "{}", host.definitions().len())?;
    output.flush()?;
    for line in io::stdin().lock().lines() {
        let order = serde_json::from_str(&line?).context("invalid order")?;
        let answer = execute(&host, &runtime, order)?;
        writeln!(output, "{}", serde_json::to_string(&answer)?)?;
        output.flush()?;
    }
    Ok(())
}

/// Returns a runtime with one thread, as in a program that waits for each answer.
fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
}

/// Builds a host with the default settings over these folders.
async fn host(folders: HostFolders) -> anyhow::Result<Host> {
    let mut builder = Host::builder().skills(folders.skills).cache(folders.cache);
    if let Some((folder, names)) = folders.tools {
        builder = builder.without_embedded_tools().tools(folder);
        for name in names {
            builder = builder.grant(format!("{name}.wasm"), Grant::default().skills(["*"])?);
        }
    }
    let host = builder.build().await?;
    if let [problem, ..] = host.problems() {
        bail!("{problem}");
    }
    Ok(host)
}

fn execute(host: &Host, runtime: &Runtime, order: Order) -> anyhow::Result<Answer> {
    Ok(match order {
        Order::Call {
            tool,
            arguments,
            form,
            times,
        } => timed(times, || Ok(call(host, runtime, &tool, &arguments, form)))?,
        Order::Native { path, times } => timed(times, || Ok(fs::read_to_string(&path)?))?,
        Order::Throughput {
            tool,
            arguments,
            form,
            threads,
            milliseconds,
        } => throughput(threads, Duration::from_millis(milliseconds), |runtime| {
            call(host, runtime, &tool, &arguments, form)
        })?,
        Order::Exchange { times } => Answer::Timed {
            nanoseconds: exchange::trips(times),
            last: String::new(),
        },
        Order::Fetch { url, times } => {
            let agent = ureq::agent();
            timed(times, || {
                let mut body = agent.get(&url).call()?.into_body().into_reader();
                Ok(io::copy(&mut body, &mut io::sink())?.to_string())
            })?
        }
    })
}

fn call(host: &Host, runtime: &Runtime, tool: &str, arguments: &Value, form: Form) -> String {
    let answer = runtime.block_on(host.call(tool, arguments.clone()));
    match (answer, form) {
        (Ok(output), Form::Text) => output.into_model_text(),
        (Ok(output), Form::Record) => output.record_json(),
        (Err(error), Form::Text) => error.model_text(),
        (Err(error), Form::Record) => error.record_json(),
    }
}

/// Returns the result of a tool's call in MCP's form.
fn result(answer: Result<Output, CallError>) -> anyhow::Result<String> {
    let (text, is_error) = match answer {
        Ok(output) => (output.into_model_text(), false),
        Err(error) => (error.model_text(), true),
    };
    let text = serde_json::to_string(&text)?;
    Ok(format!(
        r#"{{"resultType":"complete","content":[{{"type":"text","text":{text}}}],"isError":{is_error}}}"#
    ))
}

/// Returns the time of each run, and the last answer.
fn timed(times: usize, run: impl Fn() -> anyhow::Result<String>) -> anyhow::Result<Answer> {
    let mut nanoseconds = Vec::with_capacity(times);
    let mut last = String::new();
    for _ in 0..times {
        let start = Instant::now();
        let answer = black_box(run()?);
        nanoseconds.push(u64::try_from(start.elapsed().as_nanos())?);
        last = answer;
    }
    Ok(Answer::Timed { nanoseconds, last })
}

/// Returns how often all threads together run `run` within `time`. Each thread has its own runtime.
fn throughput(
    threads: usize,
    time: Duration,
    run: impl Fn(&Runtime) -> String + Sync,
) -> anyhow::Result<Answer> {
    let start = Instant::now();
    let calls = thread::scope(|scope| {
        let count_calls = || -> io::Result<usize> {
            let runtime = runtime()?;
            let mut calls = 0;
            while start.elapsed() < time {
                black_box(run(&runtime));
                calls += 1;
            }
            Ok(calls)
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(count_calls)).collect();
        let counts = threads.into_iter().map(|thread| match thread.join() {
            Ok(calls) => calls,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        counts.sum::<io::Result<usize>>()
    })?;
    Ok(Answer::Counted {
        calls,
        seconds: start.elapsed().as_secs_f64(),
    })
}
