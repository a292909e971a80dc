//! Subscriptions: `subscriptions/listen` requests, whose streams notify a client of changes.

use rmcp::model::SubscriptionFilter;

/// The method of a subscription.
pub const LISTEN: &str = "subscriptions/listen";

/// Returns the part of a filter that the server accepts: changes of lists. Changes of single
/// resources are not reported.
pub(crate) fn accepted_filter(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = SubscriptionFilter::new();
    accepted.tools_list_changed = requested.tools_list_changed;
    accepted.prompts_list_changed = requested.prompts_list_changed;
    accepted.resources_list_changed = requested.resources_list_changed;
    accepted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_changes_of_lists_only() {
        let lists = SubscriptionFilter::builder()
            .tools_list_changed()
            .resources_list_changed()
            .build();
        let mut requested = lists.clone();
        // Accepting them would be slow: rmcp would search the whole list for each resource in it.
        requested.resource_subscriptions = Some(vec!["skill://a/SKILL.md".to_owned(); 10]);
        assert_eq!(accepted_filter(&requested), lists);
    }
}
