//! The protected resource metadata (RFC 9728): tells peers how to get an access token.

use axum::Router;
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_TYPE};
use axum::routing::get;

/// Serves the document at its paths. Pages of any origin may read it.
pub(crate) fn serve(router: Router, paths: &[String], document: String) -> Router {
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    ];
    let response = (headers, document);
    let add = |router: Router, path: &String| {
        let response = response.clone();
        router.route(path, get(move || std::future::ready(response.clone())))
    };
    // Without this, axum panics on a segment that begins with `*` or `:`.
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
    async fn serves_document_at_literal_path() {
        for path in ["/mcp", "/*x", "/:x", "/a/*"] {
            let router = serve(Router::new(), &[path.to_owned()], "{}".to_owned());
            for (requested, status) in [(path, 200), ("/other", 404)] {
                let request = Request::get(requested).body(Body::empty()).unwrap();
                let service = TowerToHyperService::new(router.clone());
                let response = service.call(request).await.unwrap();
                assert_eq!(response.status(), status, "{path}");
            }
        }
    }
}
