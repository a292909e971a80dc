//! `prompts/list` and `prompts/get`: one prompt, which tells a model what
//! skills there are. With no skills it is not offered.

use rmcp::model::{
    ErrorData, GetPromptRequestParams, GetPromptResult, ListPromptsResult, PaginatedRequestParams,
    Prompt, PromptMessage, Role,
};

use super::live::{Live, blocking};
use super::page;
use skillhost::Host;
use skillhost::prompt;

/// The prompt's name.
const SKILLS: &str = "skills";

const DESCRIPTION: &str = "The skills that there are, each with when and how to load it";

/// The prompts that there are.
pub(crate) async fn list(
    live: &Live,
    request: Option<PaginatedRequestParams>,
) -> Result<ListPromptsResult, ErrorData> {
    let host = live.host_to_list().await;
    let offered = blocking(move || offered(&host)).await?;
    let prompts = match offered {
        true => vec![Prompt::new(SKILLS, Some(DESCRIPTION), Some(Vec::new())).with_title("Skills")],
        false => Vec::new(),
    };
    let cursor = request.and_then(|request| request.cursor);
    let (page, next) = page::cut(prompts, cursor.as_deref(), |prompt| &prompt.name)?;
    let mut result = ListPromptsResult::with_all_items(page);
    result.next_cursor = next;
    Ok(result)
}

/// A prompt.
pub(crate) async fn get(
    live: &Live,
    request: GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    let unknown = || ErrorData::invalid_params("there is no prompt of this name", None);
    if request.name != SKILLS {
        return Err(unknown());
    }
    let host = live.host().await;
    let skills = blocking(move || host.catalog().list().skills).await?;
    if !prompt::has_any(&skills) {
        return Err(unknown());
    }
    let message = PromptMessage::new_text(Role::User, prompt::list(&skills));
    Ok(GetPromptResult::new(vec![message]).with_description(DESCRIPTION))
}

/// Whether the prompt has anything to tell.
pub(crate) fn offered(host: &Host) -> bool {
    let mut skills = host.catalog().skills();
    skills.any(|skill| prompt::has_any(&[skill]))
}
