//! The document that tells peers how to get an access token (RFC 9728).

use axum::Router;
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_TYPE};
use axum::routing::get;

/// Serves what tells peers how to get an access token. Pages of any origin may read it.
pub(crate) fn serve(router: Router, paths: &[String], document: String) -> Router {
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    ];
    let answer = (headers, document);
    let add = |router: Router, path: &String| {
        let answer = answer.clone();
        router.route(path, get(move || std::future::ready(answer.clone())))
    };
    // A segment that begins with `*` or `:` is taken literally.
    let router = router.without_v07_checks();
    paths.iter().fold(router, add)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;

    use super::*;

    #[tokio::test]
    async fn metadata_is_served_at_the_path_as_it_is_written() {
        for path in ["/mcp", "/*x", "/:x", "/a/*"] {
            let router = serve(Router::new(), &[path.to_owned()], "{}".to_owned());
            for (asked, status) in [(path, 200), ("/other", 404)] {
                let request = Request::get(asked).body(Body::empty()).unwrap();
                let service = TowerToHyperService::new(router.clone());
                let answer = service.call(request).await.unwrap();
                assert_eq!(answer.status(), status, "{path}");
            }
        }
    }
}
