//! Bounds on `subscriptions/listen`, for every transport. Its stream keeps the request as
//! long as it is open, and rmcp compares the lists in it with one another. So the request is
//! smaller than others may be.

use rmcp::model::SubscriptionFilter;

use crate::values;

/// The method of a subscription.
pub const LISTEN: &str = "subscriptions/listen";

/// The most bytes of a subscription's request. Guards against: streams that keep megabytes
/// each.
const REQUEST_BYTES: usize = 64 << 10;

/// The most values in a subscription's request. Guards against: small values that take much
/// memory, and lists that take rmcp quadratic time.
const REQUEST_VALUES: usize = 256;

/// Returns an error message if a subscription's request is too large.
pub fn excess(request: &[u8]) -> Option<String> {
    let fits = request.len() <= REQUEST_BYTES && values::count(request) <= REQUEST_VALUES;
    (!fits).then(|| {
        format!(
            "a `{LISTEN}` request has {REQUEST_BYTES} bytes and {REQUEST_VALUES} JSON values at \
             most; leave `resourceSubscriptions` out"
        )
    })
}

/// Returns the most bytes that a subscription's request takes while its stream is open.
pub fn bytes_kept(request: &[u8]) -> usize {
    request.len() + values::bytes_of(values::count(request))
}

/// Returns the part of a filter that the server serves: changes of lists, and none in a
/// single resource.
pub(crate) fn served(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut served = SubscriptionFilter::new();
    served.tools_list_changed = requested.tools_list_changed;
    served.prompts_list_changed = requested.prompts_list_changed;
    served.resources_list_changed = requested.resources_list_changed;
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serves_changes_of_lists_alone() {
        let lists = SubscriptionFilter::builder()
            .tools_list_changed()
            .resources_list_changed()
            .build();
        let mut requested = lists.clone();
        // rmcp would search it once for each of its resources.
        requested.resource_subscriptions = Some(vec!["skill://a/SKILL.md".to_owned(); 10]);
        assert_eq!(served(&requested), lists);
    }

    #[test]
    fn bounds_the_bytes_and_values_of_a_request() {
        let list =
            |values: usize| format!("[{}]", ["1"; REQUEST_VALUES].join(",")[..values].to_owned());
        let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        let most = 2 * (REQUEST_VALUES - 1) - 1;
        for (request, fits) in [
            (text(REQUEST_BYTES), true),
            (text(REQUEST_BYTES + 1), false),
            (list(most), true),
            (list(most + 2), false),
        ] {
            assert_eq!(excess(request.as_bytes()).is_none(), fits, "{request:.20}");
        }
        assert_eq!(bytes_kept(b"[1, 2]"), 6 + values::bytes_of(3));
    }
}
