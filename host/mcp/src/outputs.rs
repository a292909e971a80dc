//! The files that a call made or changed, as embedded resources of its answer. The
//! text of the answer lists them all; these blocks have the contents, up to a bound.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{ContentBlock, ResourceContents};
use skillhost::OutputFiles;

use super::resources::uri;

/// The most bytes of files in an answer. Guards against: a script whose files fill the
/// context of a model, because its client shows it every resource.
const MOST_BYTES: usize = 1 << 20;

/// The address of a file that a call made. Its scheme is no skill's: the file is in
/// this answer and nowhere else, so no client can read it again.
struct OutputUri<'a>(&'a str);

impl fmt::Display for OutputUri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("skillhost-output://")?;
        uri::write_path(f, self.0)
    }
}

/// Returns the files as blocks, in their order, as far as there is room.
pub(crate) fn blocks(files: &OutputFiles) -> Vec<ContentBlock> {
    let mut room = MOST_BYTES;
    let files = files.files.iter().filter_map(|file| {
        let bytes = file.bytes.as_ref()?;
        room = room.checked_sub(bytes.len())?;
        let uri = OutputUri(&file.path).to_string();
        let contents = match std::str::from_utf8(bytes) {
            Ok(text) => ResourceContents::text(text, uri),
            Err(_) => ResourceContents::blob(BASE64_STANDARD.encode(bytes), uri),
        };
        Some(ContentBlock::resource(
            contents.with_mime_type(file.media_type),
        ))
    });
    files.collect()
}
