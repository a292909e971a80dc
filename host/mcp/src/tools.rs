//! `tools/list` and `tools/call`: definitions and outcomes in the form of the protocol.
//!
//! An answer is sent as the text that the model reads. If this text is the tool's whole record, the
//! tool declares its output schema, and the record is sent as structured content too. Any other
//! tool declares no output schema. With one, the protocol would require the record beside the text,
//! and a file would be sent twice. Omitting the file's text from the record does not help: clients
//! that show structured content instead of text would not show the file.
//!
//! The second block is a note, if the answer is large. Files that a call changed follow as embedded
//! resources. The last blocks are a note on text that other hosts replace, and a note on the
//! skill's scripts.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ErrorData, ListToolsResult, MetaObject,
    PaginatedRequestParams, Tool, ToolAnnotations,
};
use serde_json::{Map, Value};

use super::answer_lease::LeaseHandle;
use super::calls::GuestKind;
use super::client::ClientView;
use super::{outputs, page, values};
use skillhost::exchange::LARGEST_RESULT;
use skillhost::{AnswerBound, CallError, Caller, Definition, Output};

/// The maximum number of values in a record that is sent as structured content. Guards against: a
/// record that consists of brackets, which takes fifty times its size once it is parsed.
const MAX_RECORD_VALUES: usize = 200_000;

/// The longest time that an answer waits for the note on scripts. Guards against: a tool that
/// checks scripts endlessly, or waits long for its turn.
const MAX_NOTE_TIME: Duration = Duration::from_secs(1);

/// Returns a page of the current tools.
pub(crate) async fn list(
    view: &ClientView<'_>,
    request: Option<PaginatedRequestParams>,
) -> Result<ListToolsResult, ErrorData> {
    let host = view.host_to_list().await;
    let listing = host.clone();
    let definitions = view.run_blocking(move || listing.definitions()).await?;
    let cursor = request.and_then(|request| request.cursor);
    let (page, next) = page::cut(
        definitions,
        cursor.as_deref(),
        view.page_bytes(),
        |definition| &definition.name,
        json_bytes_of,
    )?;
    let memory = page.iter().map(memory_of).sum();
    view.answer_lease().reserve(memory)?;
    let tools = page.into_iter().map(tool);
    let mut result = ListToolsResult::with_all_items(tools.collect());
    result.next_cursor = next;
    Ok(result)
}

/// Calls a tool. Of the [`CallError`]s, only an unknown tool becomes an error of the protocol. A
/// failure, an exceeded limit or a missing grant becomes a result.
pub(crate) async fn call(
    view: &ClientView<'_>,
    request: CallToolRequestParams,
    caller: Caller,
) -> Result<CallToolResult, ErrorData> {
    let lease = view.answer_lease();
    let host = view.host_with(&request.name).await;
    let is_structured = host
        .definition(&request.name)
        .is_some_and(|tool| tool.structured_schema().is_some());
    let guest = if host.is_built_in(&request.name) {
        GuestKind::BuiltIn
    } else {
        GuestKind::ThirdParty
    };
    let name = request.name;
    let arguments = Value::Object(request.arguments.unwrap_or_default());
    let bound = host.answer_bound(&name, &arguments);
    let note_parts = host
        .noted_skill(&name, &arguments)
        .map(|skill| (host.clone(), caller.clone(), skill));
    let call_lease = lease.clone();
    let call = async move {
        let result = host.call_from(&caller, &name, arguments).await;
        let note = result.as_ref().ok();
        let note = note.and_then(|output| host.placeholder_note(&name, output));
        // Reserves in the same poll in which the call ends, so that no answer is kept without
        // a lease.
        let bytes = result.as_ref().map_or_else(CallError::size, Output::size);
        call_lease.reserve(bytes).map(|()| (result, note))
    };
    let (result, placeholder_note) = view.run(guest, call).await??;
    match result {
        Ok(output) => {
            let bytes = output.size();
            let mut result = answer(output, is_structured, &bound, lease)?;
            result
                .content
                .extend(placeholder_note.map(ContentBlock::text));
            if let Some((host, caller, skill)) = note_parts {
                let time = Some(MAX_NOTE_TIME);
                let writing = async move { host.script_note(&caller, &skill, time).await };
                // A note may run third-party guests, which must not use the built-in tools'
                // threads.
                let note = view.run(GuestKind::ThirdParty, writing).await;
                let note = note.ok().flatten();
                result.content.extend(note.map(ContentBlock::text));
            }
            let json_bytes = || page::json_bytes(&result);
            lease.reserve_json_and_wait(bytes, json_bytes).await?;
            Ok(result)
        }
        Err(error @ CallError::UnknownTool { .. }) => {
            Err(ErrorData::invalid_params(error.to_string(), None))
        }
        Err(error) => failed_result(view, error, &bound).await,
    }
}

/// Converts a failed call to a result, and waits for its turn. Its help reads folders, which would
/// delay messages on the threads of the protocol and of built-in tools.
async fn failed_result(
    view: &ClientView<'_>,
    error: CallError,
    bound: &AnswerBound,
) -> Result<CallToolResult, ErrorData> {
    let lease = view.answer_lease();
    let text = error.model_text();
    let bytes = text.len();
    lease.reserve(bytes)?;
    let texts = bounded(text, &bound.of_error());
    let help = view.run_blocking(move || error.model_help().map(str::to_owned));
    let result = failure(texts.chain(help.await.unwrap_or_default()));
    let json_bytes = || page::json_bytes(&result);
    lease.reserve_json_and_wait(bytes, json_bytes).await?;
    Ok(result)
}

/// Returns the tool that the parameters of a call name. Returns an empty text if they name none.
pub(crate) fn named_tool(parameters: Option<&Value>) -> &str {
    let name = parameters.and_then(|parameters| parameters.get("name"));
    name.and_then(Value::as_str).unwrap_or_default()
}

/// Records a call with unreadable parameters as refused. Returns the error to send: `error`, unless
/// the call cannot be recorded.
pub(crate) async fn refuse_unparsed_call(
    view: &ClientView<'_>,
    name: &str,
    caller: Caller,
    error: ErrorData,
) -> ErrorData {
    let host = view.host_with(name).await;
    let name = name.to_owned();
    let reason = CallError::Arguments(error.message.to_string());
    let refusal = async move { host.refuse(&caller, &name, reason).await };
    match view.run(GuestKind::BuiltIn, refusal).await {
        Ok(Err(unrecorded @ CallError::Stopped { .. })) => {
            ErrorData::internal_error(unrecorded.to_string(), None)
        }
        Ok(_) => error,
        Err(not_run) => not_run,
    }
}

/// Returns the size of a definition in JSON, without the few bytes that all definitions have in
/// common.
fn json_bytes_of(definition: &Definition) -> usize {
    let texts = [&definition.name, &definition.title, &definition.description];
    let schemas = std::iter::once(&definition.input_schema).chain(&definition.output_schema);
    let texts = texts.map(page::json_bytes).into_iter();
    texts.chain(schemas.map(page::json_bytes)).sum()
}

/// Returns the maximum number of bytes that a definition takes in memory.
fn memory_of(definition: &Definition) -> usize {
    let texts = [&definition.name, &definition.title, &definition.description];
    let schemas = std::iter::once(&definition.input_schema).chain(&definition.output_schema);
    let schemas = schemas.map(values::memory_of_members);
    texts.map(String::len).into_iter().chain(schemas).sum()
}

/// Converts a definition to the protocol's form.
fn tool(definition: Definition) -> Tool {
    let effects = definition.effects;
    let output = definition.structured_schema().cloned();
    let mut tool = Tool::new(
        definition.name,
        definition.description,
        Arc::new(object_schema(definition.input_schema)),
    )
    .with_title(definition.title)
    .with_annotations(
        ToolAnnotations::new()
            .read_only(effects.is_read_only())
            .destructive(effects.is_destructive())
            .idempotent(effects.is_idempotent())
            .open_world(effects.reaches_network()),
    );
    tool.output_schema = output.map(object_schema).map(Arc::new);
    let largest = LARGEST_RESULT.map(|(key, size)| (key.to_owned(), size.into()));
    tool.meta = Some(MetaObject(largest.into_iter().collect()));
    tool
}

/// Returns a schema with `type` set to `object`. Arguments and records always are objects,
/// and a client refuses the whole list if a schema does not say so.
fn object_schema(mut schema: Map<String, Value>) -> Map<String, Value> {
    schema.insert("type".to_owned(), "object".into());
    schema
}

/// Makes the answer of a call. Returns an error if no memory is left for it.
fn answer(
    output: Output,
    is_structured: bool,
    bound: &AnswerBound,
    lease: &LeaseHandle,
) -> Result<CallToolResult, ErrorData> {
    let files = output.files().map_or_else(Vec::new, outputs::blocks);
    let success = |text: String| {
        let blocks = bounded(text, bound).map(ContentBlock::text).chain(files);
        CallToolResult::success(blocks.collect())
    };
    if !is_structured {
        let text = output.into_model_text();
        // The text may be a record in JSON. Escapes make it longer than the reserved bytes.
        lease.reserve(text.len())?;
        return Ok(success(text));
    }
    let json = output.record_json();
    let values = values::count(json.as_bytes());
    if values > MAX_RECORD_VALUES {
        let text = format!("ERROR: the tool's record has more than {MAX_RECORD_VALUES} values");
        return Ok(failure([text]));
    }
    lease.reserve(output.size() + json.len() + values::memory_for(values))?;
    Ok(match serde_json::from_str(&json) {
        Ok(record) => {
            let mut result = success(json);
            result.structured_content = Some(record);
            result
        }
        Err(_) => failure(["ERROR: the tool's record cannot be parsed".to_owned()]),
    })
}

/// Returns the text of an answer within its bound, and a note if it is large. The record for
/// programs is not cut.
fn bounded(mut text: String, bound: &AnswerBound) -> impl Iterator<Item = String> + use<> {
    let note = bound.cut(&mut text).or_else(|| bound.note(text.len()));
    std::iter::once(text).chain(note)
}

/// Returns the result of a failed call. Each text is a block, so that the tool's own words stay
/// separate from the host's.
fn failure(texts: impl IntoIterator<Item = String>) -> CallToolResult {
    let blocks = texts.into_iter().map(ContentBlock::text);
    CallToolResult::error(blocks.collect())
}

#[cfg(test)]
mod tests {
    use skillhost::{Failure, FailureKind, Form, HostBuilder};
    use skillhost_sandbox::tool::Help;

    use super::*;
    use crate::answer_lease::{AnswerLease, JsonTurns};
    use crate::live::LiveHost;

    fn output(details: &str) -> Output {
        Output::new("", Some(details.to_owned()), Form::Record)
    }

    /// Returns whether an answer takes less than 5,000 bytes.
    fn fits(output: Output, is_structured: bool) -> bool {
        let lease = AnswerLease::new(|missing| missing < 5_000);
        let handle = LeaseHandle(Some(Arc::downgrade(&lease)));
        answer(output, is_structured, &AnswerBound::default(), &handle).is_ok()
    }

    #[tokio::test]
    async fn finds_help_on_a_thread_for_blocking_work() {
        let live = LiveHost::new(HostBuilder::default());
        let thread = std::thread::current().id();
        let mut error = Failure::new(FailureKind::NotFound, "no such file");
        error.help = Help::new(move || {
            let is_same = std::thread::current().id() == thread;
            Some(format!("on the same thread: {is_same}"))
        });
        let view = ClientView::without_client(&live);
        let bound = AnswerBound::default();
        let result = failed_result(&view, CallError::Failed(error), &bound);
        let result = result.await.unwrap();
        let texts = result
            .content
            .iter()
            .map(|block| &*block.as_text().unwrap().text);
        let texts: Vec<&str> = texts.collect();
        assert_eq!(texts, ["no such file", "on the same thread: false"]);
    }

    #[tokio::test]
    async fn large_failure_takes_turn() {
        let live = LiveHost::new(HostBuilder::default());
        let message = vec![b' '; 1 << 20];
        for (text, takes_turn) in [
            ("x".repeat(1 << 20), true),
            ("\u{1}".repeat(1 << 18), true),
            ("x".repeat(1 << 18), false),
        ] {
            let lease = AnswerLease::new(|_| true).with_turns(JsonTurns::default());
            let handle = LeaseHandle(Some(Arc::downgrade(&lease)));
            let view = ClientView::without_client(&live).with_answer_lease(handle);
            let error = CallError::Failed(Failure::new(FailureKind::Failed, text));
            let result = failed_result(&view, error, &AnswerBound::default()).await;
            assert!(result.is_ok());
            // An answer with a turn needs none to parse its message.
            let has_turn = lease.turn_to_parse(&message).await.is_none();
            assert_eq!(has_turn, takes_turn);
        }
    }

    #[test]
    fn refuses_record_with_many_or_deep_values() {
        let many = format!(r#"{{"a": [{}0]}}"#, "0,".repeat(200_000));
        let deep = format!(r#"{{"a": {}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
        for details in [many, deep] {
            let result = answer(
                output(&details),
                true,
                &AnswerBound::default(),
                &LeaseHandle(None),
            )
            .unwrap();
            assert_eq!(result.is_error, Some(true));
            assert_eq!(result.structured_content, None);
        }
    }

    #[test]
    fn values_of_record_take_memory_besides_text() {
        let fits_lease = |details| fits(output(details), true);
        assert!(fits_lease(r#"{"a": [1, 2, 3]}"#));
        assert!(!fits_lease(r#"{"a": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}"#));
    }

    #[test]
    fn escaped_text_takes_memory_as_sent() {
        let fits_lease = |text: &str| fits(Output::new(text, None, Form::Record), false);
        assert!(fits_lease(&"x".repeat(1_000)));
        assert!(!fits_lease(&"\u{1}".repeat(1_000)));
    }

    #[test]
    fn sends_record_as_text_and_structured_content() {
        let skills = output(r#"{"skills": [{"name": "a"}]}"#);
        let result = answer(skills, true, &AnswerBound::default(), &LeaseHandle(None)).unwrap();
        assert_eq!(result.is_error, Some(false));
        let record = result.structured_content.unwrap();
        assert_eq!(record, serde_json::json!({"skills": [{"name": "a"}]}));
        let text = &result.content[0].as_text().unwrap().text;
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), record);
    }
}
