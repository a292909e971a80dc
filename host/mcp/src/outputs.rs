//! The files that a call created or changed, as embedded resources of its answer. The answer's text
//! lists all of them; the resources have their contents, up to a limit.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{ContentBlock, ResourceContents};
use skillhost::OutputFiles;

use super::resources::uri;

/// The maximum size of an answer's files together with their URIs, in bytes. Guards against: a
/// script that fills a model's context with files, because some clients show the model every
/// resource.
const MAX_BYTES: usize = 1 << 20;

/// The maximum number of files in an answer. Guards against: a script that creates many empty
/// files.
const MAX_FILES: usize = 100;

/// The URI of a file that a call created or changed. Its scheme is not that of skills' files,
/// because no client can read the file at this URI: only the answer contains it.
struct OutputUri<'a>(&'a str);

impl fmt::Display for OutputUri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("skillhost-output://")?;
        uri::write_path(f, self.0)
    }
}

/// Returns at most [`MAX_FILES`] files as content blocks, in their order. Leaves out a file without
/// stored bytes, and a file that no longer fits into [`MAX_BYTES`].
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
