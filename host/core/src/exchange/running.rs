//! Runs the calls of a message, several at a time, and returns their answers in order. Limits hold
//! for all calls of a message together.

use std::collections::VecDeque;

use tokio_util::task::AbortOnDropHandle;

use super::{Answer, Call};
use crate::host::Host;
use skillhost_sandbox::tool::arguments::parse_arguments;
use skillhost_sandbox::tool::{CallError, Caller, message};

/// The maximum number of calls of a message that run at a time. A lower `calls_per_tool` lowers
/// this number. Guards against: a message that takes all slots of the host, and answers that fill
/// the memory.
const MAX_CONCURRENT: usize = 16;

/// The maximum number of bytes of all answers to a message. Guards against: hundreds of calls with
/// the largest possible answer.
const MAX_ANSWERS_BYTES: usize = 64 << 20;

/// Runs the calls, several at a time, and returns their answers in order.
///
/// Every call gets an answer for the model, even if its arguments are invalid, its tool is unknown
/// or the host stops it. The audit log has the calls' ids. Dropping the future stops the calls.
/// Needs a tokio runtime with a timer. Calls run in parallel if it has several threads.
pub async fn run(host: &Host, calls: Vec<Call>) -> Vec<Answer> {
    run_from(&Caller::default(), host, calls).await
}

/// Runs the calls like [`run`], and records the caller in the audit log.
pub async fn run_from(caller: &Caller, host: &Host, calls: Vec<Call>) -> Vec<Answer> {
    let max_running = MAX_CONCURRENT.min(host.calls_per_tool()).max(1);
    let mut answers = Vec::with_capacity(calls.len());
    let mut bytes = 0;
    let mut waiting = calls.into_iter();
    let mut running: VecDeque<(Option<String>, String, AbortOnDropHandle<_>)> = VecDeque::new();
    loop {
        while running.len() < max_running
            && let Some(call) = waiting.next()
        {
            let (host, id, name) = (host.clone(), call.id.clone(), call.name.clone());
            let mut caller = caller.clone();
            caller.id.clone_from(&id);
            let task = tokio::spawn(async move {
                let outcome = host.call_json(&caller, &call.name, &call.arguments);
                let outcome = outcome.await;
                let help = outcome.as_ref().err().and_then(CallError::model_help);
                let help = help.map(str::to_owned);
                let has_failed = outcome.is_err();
                let arguments = parse_arguments(&call.arguments).unwrap_or_default();
                let bound = host.answer_bound(&call.name, &arguments);
                let mut text = message::model_text(outcome);
                // A result in a message is a single text, so append the note to the answer.
                if let Some(note) = bound.cut(&mut text) {
                    text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
                    text.push_str(&note);
                }
                (has_failed, help, text)
            });
            running.push_back((id, name, AbortOnDropHandle::new(task)));
        }
        let Some((id, name, task)) = running.pop_front() else {
            return answers;
        };
        let (mut failed, mut help, mut text) = match task.await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!("a call aborted: {error}");
                (true, None, "ERROR: the call aborted".to_owned())
            }
        };
        if bytes + text.len() > MAX_ANSWERS_BYTES {
            (failed, help) = (true, None);
            text = format!(
                "ERROR: the results of this message are together larger than {MAX_ANSWERS_BYTES} \
                 bytes; read less at a time"
            );
        }
        bytes += text.len();
        answers.push(Answer {
            id,
            name,
            text,
            failed,
            help,
        });
    }
}
