//! Work that a request waits for: stopped when the client cancels it, and
//! reported while it goes on, if the client asked for that.

use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use rmcp::model::{ErrorData, ProgressNotificationParam, ProgressToken};
use rmcp::service::{RequestContext, RoleServer};

/// How long work goes on before it is reported, and between reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// Does the work of a request. When the request is cancelled the work is
/// dropped where it stands: its sandbox with it. Nobody gets the error then.
///
/// The work is boxed at once: it is moved several times on its way, and large.
pub(crate) fn during<'a, T: Send + 'a>(
    context: &'a RequestContext<RoleServer>,
    work: impl Future<Output = Result<T, ErrorData>> + Send + 'a,
) -> impl Future<Output = Result<T, ErrorData>> + Send + 'a {
    let work: Pin<Box<dyn Future<Output = _> + Send + 'a>> = Box::pin(work);
    async move {
        let work = async {
            match context.meta.get_progress_token() {
                Some(token) => reported(context, token, work).await,
                None => work.await,
            }
        };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            done = work => done,
        }
    }
}

async fn reported<T>(
    context: &RequestContext<RoleServer>,
    token: ProgressToken,
    work: impl Future<Output = T>,
) -> T {
    let start = Instant::now();
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let seconds = start.elapsed().as_secs_f64();
        let report = ProgressNotificationParam::new(token.clone(), seconds)
            .with_message(format!("running for {seconds:.0} s"));
        let mut report = pin!(context.peer.notify_progress(report));
        tokio::select! {
            biased;
            done = &mut work => {
                // A report that is on its way goes before the answer.
                let _ = report.await;
                return done;
            }
            // That it cannot be sent shows when the answer cannot be either.
            _ = &mut report => {}
        }
    }
}
