//! The files that a call made or changed, as embedded resources of its answer. The answer's
//! text lists all of them; the resources have their contents, up to a limit.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{ContentBlock, ResourceContents};
use skillhost::OutputFiles;

use super::resources::uri;

/// The maximum number of bytes of files in an answer, with their URIs. Guards against: a script
/// that fills a model's context with files, because some clients show the model every resource.
const MAX_BYTES: usize = 1 << 20;

/// The maximum number of files in an answer. Guards against: a script that makes many empty files.
const MAX_FILES: usize = 100;

/// The URI of a file that a call made. It has another scheme than skills, because no client can
/// read the file again: only this answer has it.
struct OutputUri<'a>(&'a str);

impl fmt::Display for OutputUri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("skillhost-output://")?;
        uri::write_path(f, self.0)
    }
}

/// Returns the first files as blocks, in their order. Leaves out each file that does not fit
/// into the remaining bytes.
pub(crate) fn blocks(files: &OutputFiles) -> Vec<ContentBlock> {
    let mut remaining = MAX_BYTES;
    let blocks = files.files.iter().filter_map(|file| {
        let bytes = file.bytes.as_ref()?;
        let uri = OutputUri(&file.path).to_string();
        remaining = remaining.checked_sub(bytes.len() + uri.len())?;
        let contents = match std::str::from_utf8(bytes) {
            Ok(text) => ResourceContents::text(text, uri),
            Err(_) => ResourceContents::blob(BASE64_STANDARD.encode(bytes), uri),
        };
        Some(ContentBlock::resource(
            contents.with_mime_type(file.media_type),
        ))
    });
    blocks.take(MAX_FILES).collect()
}
