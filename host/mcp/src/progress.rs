//! Runs the work of a request when the client's turn comes. Drops it when the client cancels the
//! request, and reports its progress if the client asks for reports.

use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use http::request::Parts;
use rmcp::model::{ErrorData, ProgressNotificationParam};
use rmcp::service::{RequestContext, RoleServer};
use skillhost::Host;

use crate::client::ClientView;

/// The mark of a request whose client accepts no progress reports. The HTTP transport puts it into
/// the extensions of the request.
#[derive(Debug, Clone, Copy)]
pub struct WithoutReports;

/// The time before the first progress report, and between reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// Waits for the `host` that a request needs and then for its client's turn, and does the work of
/// the request. If the request is cancelled, the work is dropped, and its sandbox with it. The
/// returned error is then not sent.
///
/// The work gets the host again, because it may change until the turn has come.
///
/// The work is boxed at once, because it is large and is moved several times.
pub(crate) fn run<'a, T: Send + 'a>(
    context: &'a RequestContext<RoleServer>,
    view: &'a ClientView<'a>,
    host: impl Future<Output = Host> + Send + 'a,
    work: impl Future<Output = Result<T, ErrorData>> + Send + 'a,
) -> impl Future<Output = Result<T, ErrorData>> + Send + 'a {
    let work: Pin<Box<dyn Future<Output = _> + Send + 'a>> = Box::pin(work);
    async move {
        let start = Instant::now();
        let work = async {
            view.wait_for_turn_after(run_with_reports(context, start, host))
                .await?;
            run_with_reports(context, start, work).await
        };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            result = work => result,
        }
    }
}

fn accepts_reports(context: &RequestContext<RoleServer>) -> bool {
    let parts = context.extensions.get::<Parts>();
    parts.is_none_or(|parts| parts.extensions.get::<WithoutReports>().is_none())
}

/// Does work, and reports the time since `start` if the client asks for reports.
async fn run_with_reports<T>(
    context: &RequestContext<RoleServer>,
    start: Instant,
    work: impl Future<Output = T>,
) -> T {
    let token = context.meta.get_progress_token();
    let Some(token) = token.filter(|_| accepts_reports(context)) else {
        return work.await;
    };
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            result = &mut work => return result,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let seconds = start.elapsed().as_secs_f64();
        let report = ProgressNotificationParam::new(token.clone(), seconds)
            .with_message(format!("running for {seconds:.0} s"));
        let mut sending = pin!(context.peer.notify_progress(report));
        tokio::select! {
            biased;
            result = &mut work => {
                // A report that is partly sent must be completed before the answer.
                let _ = sending.await;
                return result;
            }
            // If a report cannot be sent, the answer cannot be sent either.
            _ = &mut sending => {}
        }
    }
}
