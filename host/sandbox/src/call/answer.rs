//! The bounded answer of a guest.

use super::types::{RawFailure, RawOutput};
use crate::tool::{FailureKind, Stop};

/// The answer of a guest.
pub struct GuestAnswer {
    pub text: String,
    pub details: Option<String>,
}

/// The failure that a guest reports instead of an answer.
pub struct GuestFailure {
    pub kind: FailureKind,
    pub message: String,
    pub details: Option<String>,
}

/// Returns the guest's answer, or a stop if it exceeds the limit.
pub(super) fn bounded(
    result: Result<RawOutput, RawFailure>,
    limit: usize,
) -> Result<Result<GuestAnswer, GuestFailure>, Stop> {
    let (text, details) = match &result {
        Ok(output) => (&output.text, &output.details),
        Err(failure) => (&failure.message, &failure.details),
    };
    if text.len() + details.as_ref().map_or(0, String::len) > limit {
        return Err(Stop::Output(limit));
    }
    Ok(match result {
        Ok(RawOutput { text, details }) => Ok(GuestAnswer { text, details }),
        Err(RawFailure {
            kind,
            message,
            details,
        }) => Err(GuestFailure {
            kind: kind.into(),
            message,
            details,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::super::types::RawFailureKind;
    use super::*;

    #[test]
    fn text_and_details_share_output_limit() {
        for (limit, fits) in [(6, true), (5, false)] {
            let (text, details) = ("four".to_owned(), Some("of".to_owned()));
            let answer = RawOutput {
                text: text.clone(),
                details: details.clone(),
            };
            let failure = RawFailure {
                kind: RawFailureKind::Failed,
                message: text,
                details,
            };
            for result in [Ok(answer), Err(failure)] {
                let stop = bounded(result, limit).err();
                assert_eq!(stop, (!fits).then_some(Stop::Output(limit)));
            }
        }
    }
}
