//! `prompts/list` and `prompts/get`: one prompt, which lists the skills for a model. Without
//! skills, the prompt is not offered.

use rmcp::model::{
    ErrorData, GetPromptRequestParams, GetPromptResult, ListPromptsResult, PaginatedRequestParams,
    Prompt, PromptMessage, Role,
};

use super::client::ClientView;
use super::page;
use skillhost::prompt;

/// The prompt's name.
const SKILLS: &str = "skills";

const DESCRIPTION: &str = "All skills, each with when to use it and how to load it";

/// Returns a page of the prompts.
pub(crate) async fn list(
    view: &ClientView<'_>,
    request: Option<PaginatedRequestParams>,
) -> Result<ListPromptsResult, ErrorData> {
    let host = view.host_to_list().await;
    let prompts = if view.run_blocking(move || host.has_prompt()).await? {
        vec![Prompt::new(SKILLS, Some(DESCRIPTION), Some(Vec::new())).with_title("Skills")]
    } else {
        Vec::new()
    };
    let cursor = request.and_then(|request| request.cursor);
    let (page, next) = page::cut(
        prompts,
        cursor.as_deref(),
        view.page_bytes(),
        |prompt| &prompt.name,
        page::json_bytes,
    )?;
    let mut result = ListPromptsResult::with_all_items(page);
    result.next_cursor = next;
    Ok(result)
}

/// Returns a prompt.
pub(crate) async fn get(
    view: &ClientView<'_>,
    request: GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    let unknown = || ErrorData::invalid_params("unknown prompt", None);
    if request.name != SKILLS {
        return Err(unknown());
    }
    let host = view.host().await;
    let section = view
        .run_blocking(move || host.prompt(prompt::Style::List))
        .await?;
    if section.is_empty() {
        return Err(unknown());
    }
    view.warn_of_cut_prompt(&section);
    let bytes = page::json_bytes(&section.text);
    view.answer_lease().reserve_and_wait(bytes).await?;
    let message = PromptMessage::new_text(Role::User, section.text);
    Ok(GetPromptResult::new(vec![message]).with_description(DESCRIPTION))
}
