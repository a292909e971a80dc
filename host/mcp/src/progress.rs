//! The work of a request: begun when its client's turn comes, stopped when the client
//! cancels it, with reports of progress if the client asked for them.

use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use rmcp::model::{ErrorData, ProgressNotificationParam, ProgressToken};
use rmcp::service::{RequestContext, RoleServer};

use crate::client;

/// The time before the first report, and between reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// Does the work of a request once its client has its turn. When the request is cancelled, the work is
/// dropped, and its sandbox with it. Nobody reads the error then.
///
/// The work is boxed at once, because it is large and is moved several times.
pub(crate) fn run<'a, T: Send + 'a>(
    context: &'a RequestContext<RoleServer>,
    work: impl Future<Output = Result<T, ErrorData>> + Send + 'a,
) -> impl Future<Output = Result<T, ErrorData>> + Send + 'a {
    let work: Pin<Box<dyn Future<Output = _> + Send + 'a>> = Box::pin(work);
    async move {
        let work = async {
            let _share = client::enter(client::of(context)).await;
            match context.meta.get_progress_token() {
                Some(token) => run_reported(context, token, work).await,
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

async fn run_reported<T>(
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
                // A report that was begun goes out before the answer.
                let _ = report.await;
                return done;
            }
            // A report that cannot be sent is no error: the answer cannot be either.
            _ = &mut report => {}
        }
    }
}
