//! A message on its way to the client. The text of a tool's answer is most of it:
//! rmcp writes what is around, and the text is put into its place.

use std::mem;

use rmcp::model::{ContentBlock, JsonRpcMessage, ServerJsonRpcMessage, ServerResult};
use serde::ser::Error as _;

use skillhost::internal::json_string;

/// What rmcp makes of a text that is empty. It makes this of nothing else: in a
/// string, a quotation mark has a backslash before it.
const PLACE: &[u8] = br#""text":"""#;

/// A message, and the text that belongs into it.
pub(crate) struct Outgoing {
    message: ServerJsonRpcMessage,
    text: Option<String>,
}

impl From<ServerJsonRpcMessage> for Outgoing {
    fn from(mut message: ServerJsonRpcMessage) -> Self {
        let text = the_text(&mut message).map(mem::take);
        Self { message, text }
    }
}

impl Outgoing {
    /// Writes it, on one line.
    pub(crate) fn write(&self, line: &mut Vec<u8>) -> serde_json::Result<()> {
        let start = line.len();
        serde_json::to_writer(&mut *line, &self.message)?;
        if let Some(text) = &self.text {
            let mut found = line[start..].windows(PLACE.len());
            let place = found.position(|found| found == PLACE);
            let place = place.ok_or_else(|| serde_json::Error::custom("a text has no place"))?;
            let behind = start + place + PLACE.len();
            let rest = line.split_off(behind);
            line.truncate(behind - 2);
            line.reserve(json_string::room(text) + rest.len() + 1);
            json_string::push(line, text);
            line.extend_from_slice(&rest);
        }
        line.push(b'\n');
        Ok(())
    }
}

/// The text of a tool's answer that holds nothing else.
fn the_text(message: &mut ServerJsonRpcMessage) -> Option<&mut String> {
    let JsonRpcMessage::Response(response) = message else {
        return None;
    };
    let ServerResult::CallToolResult(result) = &mut response.result else {
        return None;
    };
    if result.structured_content.is_some() || result.meta.is_some() {
        return None;
    }
    match &mut result.content[..] {
        [ContentBlock::Text(block)] if block.meta.is_none() && block.annotations.is_none() => {
            Some(&mut block.text)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{
        Annotations, CallToolResult, ErrorData, MetaObject, RequestId, ResultType, TextContent,
    };
    use serde_json::json;

    use super::*;

    fn text(text: &str) -> TextContent {
        TextContent::new(text)
    }

    #[test]
    fn a_message_is_written_as_rmcp_writes_it() {
        let tricky = r#"{"text":""} "text":"" \ é"#;
        let large = format!("{tricky}\n").repeat(10_000);
        let mut results = Vec::new();
        for (error, content) in [("", false), ("x", false), (tricky, true), (&large, false)]
            .map(|(content, error)| (error, vec![ContentBlock::Text(text(content))]))
            .into_iter()
            .chain([
                (false, vec![]),
                (
                    false,
                    [tricky, ""].map(|it| ContentBlock::Text(text(it))).to_vec(),
                ),
            ])
        {
            let mut result = CallToolResult::success(content);
            result.is_error = Some(error);
            results.push(result);
        }
        let mut older = results[1].clone();
        older.result_type = None::<ResultType>;
        let mut structured = results[2].clone();
        structured.structured_content = Some(json!({"text": ""}));
        let mut with_meta = results[2].clone();
        with_meta.meta = Some(MetaObject::default());
        let mut annotated = text(tricky);
        annotated.annotations = Some(Annotations::default());
        let annotated = CallToolResult::success(vec![ContentBlock::Text(annotated)]);
        results.extend([older, structured, with_meta, annotated]);
        for id in [
            RequestId::Number(7),
            RequestId::String(r#""text":"""#.into()),
            RequestId::String("".into()),
        ] {
            let answers = results.iter().map(|result| {
                let result = ServerResult::CallToolResult(result.clone());
                JsonRpcMessage::response(result, id.clone())
            });
            let error = ErrorData::internal_error(tricky, None);
            for message in answers.chain([JsonRpcMessage::error(error, Some(id.clone()))]) {
                let mut line = b"before".to_vec();
                let expected = format!("before{}\n", serde_json::to_string(&message).unwrap());
                Outgoing::from(message).write(&mut line).unwrap();
                assert!(line == expected.as_bytes(), "{expected:.300}");
            }
        }
    }
}
