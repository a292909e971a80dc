//! `tools/list` and `tools/call`: definitions and outcomes in the protocol's
//! shapes.
//!
//! An answer is sent once, as the text that the model reads. Only a tool whose
//! model reads its whole record, without a text of its own, declares its output
//! schema and sends the record as structured content too. For any other tool the
//! protocol would then require the record beside the text, so the file would be
//! sent twice; or, with the text left out of the record, clients that show
//! structured content in place of text would not show the file.
//!
//! Files that a call changed follow the text as embedded resources, and a note on the
//! scripts of a skill as a block of its own.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, Tool, ToolAnnotations,
};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::calls::Guest;
use super::client::ClientView;
use super::live::run_blocking;
use super::room::AnswerRoom;
use super::{outputs, page, values};
use skillhost::{CallError, Caller, Definition, Output};

/// The most values in a record that is sent as structured content.
/// Guards against: a record of brackets, which takes fifty times its size once read.
const RECORD_VALUES: usize = 200_000;

/// The longest time that an answer waits for the note on scripts. Guards against: a tool
/// that judges scripts without end, or waits for its turn.
const NOTE_TIME: Duration = Duration::from_secs(1);

/// Returns the current tools.
pub(crate) async fn list(
    live: &ClientView<'_>,
    request: Option<PaginatedRequestParams>,
    room: AnswerRoom,
) -> Result<ListToolsResult, ErrorData> {
    let host = live.host_to_list().await;
    let definitions = run_blocking(move || host.definitions()).await?;
    let cursor = request.and_then(|request| request.cursor);
    let (page, next) = page::cut(definitions, cursor.as_deref(), |definition| {
        &definition.name
    })?;
    room.fit(page.iter().map(size).sum())?;
    let tools = page.into_iter().map(tool).collect();
    let mut result = ListToolsResult::with_all_items(tools);
    result.next_cursor = next;
    Ok(result)
}

/// Calls a tool. Failures, limits and grants give a result; only an unknown tool
/// is an error of the protocol.
pub(crate) async fn call(
    live: &ClientView<'_>,
    request: CallToolRequestParams,
    caller: Caller,
    room: AnswerRoom,
) -> Result<CallToolResult, ErrorData> {
    let host = live.host_with(&request.name).await;
    let structured = host
        .definition(&request.name)
        .is_some_and(|tool| tool.structured_schema().is_some());
    let guest = match host.is_built_in(&request.name) {
        true => Guest::BuiltIn,
        false => Guest::Stranger,
    };
    let name = request.name;
    let arguments = Value::Object(request.arguments.unwrap_or_default());
    let noted = host.noted_skill(&name, &arguments);
    let noted = noted.map(|skill| (host.clone(), caller.clone(), skill));
    let call_room = room.clone();
    let call = async move {
        let called = host.call_from(&caller, &name, arguments).await;
        // Help reads folders, and keeps no message waiting here.
        let _ = called.as_ref().map_err(CallError::model_help);
        // In the poll in which the call ends: an answer without room is never kept.
        let output = called.as_ref().map_or_else(CallError::size, Output::size);
        call_room.fit(output).map(|()| called)
    };
    match live.run(guest, call).await?? {
        Ok(output) => {
            let bytes = output.size();
            let mut result = answer(output, structured, &room)?;
            if let Some((host, caller, skill)) = noted {
                let note = async move { host.script_note(&caller, &skill).await };
                // It runs strangers' guests, which get none of the built-in tools' threads.
                let note = timeout(NOTE_TIME, live.run(Guest::Stranger, note)).await;
                let note = note.ok().and_then(Result::ok).flatten();
                result.content.extend(note.map(ContentBlock::text));
            }
            room.wait_for_turn(bytes).await;
            Ok(result)
        }
        Err(error @ CallError::UnknownTool { .. }) => {
            Err(ErrorData::invalid_params(error.to_string(), None))
        }
        Err(error) => {
            let text = error.model_text();
            room.fit(text.len())?;
            Ok(failure(text, error.model_help()))
        }
    }
}

/// Records a call whose parameters could not be read as a refused one. Returns the error of
/// the protocol: the given one, unless the call cannot be recorded.
pub(crate) async fn refuse_unread(
    live: &ClientView<'_>,
    parameters: Option<&Value>,
    caller: Caller,
    error: ErrorData,
) -> ErrorData {
    let name = parameters.and_then(|parameters| parameters.get("name"));
    let name = name.and_then(Value::as_str).unwrap_or_default().to_owned();
    let host = live.host_with(&name).await;
    let reason = CallError::Arguments(error.message.to_string());
    let refusal = async move { host.refuse(&caller, &name, reason).await };
    match live.run(Guest::BuiltIn, refusal).await {
        Ok(Err(unrecorded @ CallError::Stopped { .. })) => {
            ErrorData::internal_error(unrecorded.to_string(), None)
        }
        Ok(_) => error,
        Err(ending) => ending,
    }
}

/// Returns the most bytes that a definition takes in memory.
fn size(definition: &Definition) -> usize {
    let texts = [&definition.name, &definition.title, &definition.description];
    let schemas = std::iter::once(&definition.input_schema).chain(&definition.output_schema);
    let schemas = schemas.map(values::size_of_object);
    texts.map(String::len).into_iter().chain(schemas).sum()
}

/// Converts a definition to the protocol's shape.
fn tool(definition: Definition) -> Tool {
    let output = definition.structured_schema().cloned();
    let mut tool = Tool::new(
        definition.name,
        definition.description,
        Arc::new(of_objects(definition.input_schema)),
    )
    .with_title(definition.title)
    // True for every component: it can neither write nor reach more than the
    // skills.
    .with_annotations(
        ToolAnnotations::new()
            .read_only(true)
            .destructive(false)
            .idempotent(true)
            .open_world(false),
    );
    tool.output_schema = output.map(of_objects).map(Arc::new);
    tool
}

/// Returns a schema with `type` set to `object`. Arguments and records always are
/// objects, and a client refuses the whole list without that word.
fn of_objects(mut schema: Map<String, Value>) -> Map<String, Value> {
    schema.insert("type".to_owned(), "object".into());
    schema
}

/// Makes the answer of a call. Returns an error if there is no room for its record.
fn answer(
    output: Output,
    structured: bool,
    room: &AnswerRoom,
) -> Result<CallToolResult, ErrorData> {
    let files = output.files().map_or_else(Vec::new, outputs::blocks);
    let success = |text: String| {
        let blocks = std::iter::once(ContentBlock::text(text)).chain(files);
        CallToolResult::success(blocks.collect())
    };
    if !structured {
        let text = output.into_model_text();
        // A record's texts are escaped in it.
        room.fit(text.len())?;
        return Ok(success(text));
    }
    let json = output.record_json();
    let values = values::count(json.as_bytes());
    if values > RECORD_VALUES {
        let text = format!("ERROR: the tool's record has more than {RECORD_VALUES} values");
        return Ok(failure(text, None));
    }
    room.fit(output.size() + json.len() + values::bytes_of(values))?;
    Ok(match serde_json::from_str(&json) {
        Ok(record) => {
            let mut result = success(json);
            result.structured_content = Some(record);
            result
        }
        // It is nested too deeply.
        Err(_) => failure("ERROR: the tool's record cannot be read".to_owned(), None),
    })
}

/// Returns a failure in the tool's own words. The host's help is a second block, so
/// that the words stay what they are.
fn failure(text: String, help: Option<&str>) -> CallToolResult {
    let blocks = std::iter::once(text).chain(help.map(str::to_owned));
    CallToolResult::error(blocks.map(ContentBlock::text).collect())
}

#[cfg(test)]
mod tests {
    use skillhost::Form;

    use super::*;
    use crate::room::Room;

    fn output(details: &str) -> Output {
        Output::new("", Some(details.to_owned()), Form::Record)
    }

    /// Returns whether an answer takes less than 5,000 bytes.
    fn fits(output: Output, structured: bool) -> bool {
        let own = Room::new(|more| more < 5_000);
        let room = AnswerRoom(Some(Arc::downgrade(&own)));
        answer(output, structured, &room).is_ok()
    }

    #[test]
    fn refuses_a_record_that_would_take_too_much_memory() {
        let many = format!(r#"{{"a": [{}0]}}"#, "0,".repeat(200_000));
        let deep = format!(r#"{{"a": {}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
        for details in [many, deep] {
            let result = answer(output(&details), true, &AnswerRoom(None)).unwrap();
            assert_eq!(result.is_error, Some(true));
            assert_eq!(result.structured_content, None);
        }
    }

    #[test]
    fn the_values_of_a_record_take_room_besides_their_text() {
        let in_room = |details| fits(output(details), true);
        assert!(in_room(r#"{"a": [1, 2, 3]}"#));
        assert!(!in_room(r#"{"a": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}"#));
    }

    #[test]
    fn a_text_that_is_escaped_takes_room_as_it_is_sent() {
        let in_room = |text: &str| fits(Output::new(text, None, Form::Record), false);
        assert!(in_room(&"x".repeat(1_000)));
        assert!(!in_room(&"\u{1}".repeat(1_000)));
    }

    #[test]
    fn sends_a_record_as_text_and_as_structured_content() {
        let skills = output(r#"{"skills": [{"name": "a"}]}"#);
        let result = answer(skills, true, &AnswerRoom(None)).unwrap();
        assert_eq!(result.is_error, Some(false));
        let record = result.structured_content.unwrap();
        assert_eq!(record, serde_json::json!({"skills": [{"name": "a"}]}));
        let text = &result.content[0].as_text().unwrap().text;
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), record);
    }
}
