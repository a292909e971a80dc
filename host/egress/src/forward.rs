//! Sends one request of the host to a server: a request of a component if its grant allows it, or a
//! request for an issuer's keys.

mod echo;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
    header, response,
};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body as _, Incoming};
use tokio_rustls::TlsConnector;

use self::echo::CheckedBody;
use crate::connect::connect;
use crate::issuer::Issuers;
use crate::message::{Failure, FailureKind, GRANT, ISSUER, OUTCOME, Outcome};
use crate::placeholders::{PLACEHOLDER_BYTES, Placeholders};
use crate::policy::{Denial, NetworkGrant};
use crate::resolve::Resolve;
use crate::secrets::Secrets;
use crate::target::{Target, TargetError};

/// Headers that concern one connection, or that this process sets itself.
const DROPPED: [HeaderName; 9] = [
    header::CONNECTION,
    header::EXPECT,
    header::HOST,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Headers with which some servers replace the method, the host or the path, or use a second path,
/// besides those that [`replaces_target`] recognizes by their words. Guards against: requests that do
/// more than their rule allows.
const OVERRIDES: [&str; 11] = [
    "destination",
    "httpmethod",
    "uploadconcat",
    "xcontainersyncto",
    "xhost",
    "xhttpmethod",
    "xinvokepath",
    "xmatchedpath",
    "xmssourcecontainername",
    "xobjectmanifest",
    "xversionslocation",
];

/// Words of headers that replace the target. A name with one of the first and one of the second list
/// is refused, wherever they are in it.
const OVERRIDE_WORDS: (&[&str], &[&str]) = (
    &["original", "override", "rewrite"],
    &["host", "method", "path", "uri", "url", "verb"],
);

/// Words of headers that name a second target. One of the first and one of the second list are words
/// of their own, or beside each other.
const SECOND_TARGET_WORDS: [(&[&str], &[&str]); 3] = [
    (&["copy", "rename", "undelete"], &["from", "source"]),
    (&["symlink"], &["bucket", "target"]),
    (&["target"], &["host", "uri", "url"]),
];

/// Variables of CGI by which a server tells a program the method, the host and the path. Some servers
/// also take them from headers, with or without `X-`: gunicorn removes `SCRIPT_NAME` from the path.
const CGI_VARIABLES: [&str; 12] = [
    "documenturi",
    "httphost",
    "origpathinfo",
    "pathinfo",
    "pathtranslated",
    "redirecturl",
    "requestmethod",
    "requesturi",
    "scriptname",
    "scripturi",
    "scripturl",
    "servername",
];

/// The methods of requests without a body.
const NO_BODY: [&str; 2] = ["GET", "HEAD"];

/// Headers that request a part of a response. Guards against: a guest that reads a secret piece by
/// piece.
const RANGES: [&str; 5] = ["a_im", "if_range", "range", "request_range", "x_ms_range"];

/// The body of a response to the host.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Sends requests, with the grants, secrets and issuers that these need.
pub(crate) struct Sender<R> {
    /// The grants, by component file.
    pub(crate) grants: BTreeMap<String, NetworkGrant>,
    pub(crate) secrets: Arc<Secrets>,
    /// Each component's own resolver, so that none waits until another's name servers answer.
    pub(crate) resolvers: BTreeMap<String, R>,
    pub(crate) tls: TlsConnector,
    pub(crate) issuers: Issuers<R>,
}

impl<R: Resolve> Sender<R> {
    /// Answers a request of the host with the server's response or a failure.
    pub(crate) async fn answer(&self, mut request: Request<Incoming>) -> Response<ResponseBody> {
        let mut outcome = Outcome::default();
        let answered = match request.headers_mut().remove(ISSUER) {
            Some(address) => self.fetch_keys(&address, &mut outcome).await,
            None => self.send(request, &mut outcome).await,
        };
        let mut response = match answered {
            Ok(response) => response,
            Err(failure) => {
                outcome.failure = Some(self.secrets.hide(failure));
                let empty = http_body_util::Empty::new().map_err(|never| match never {});
                let mut response = Response::new(empty.boxed_unsync());
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                response
            }
        };
        response.headers_mut().insert(OUTCOME, outcome.header());
        response
    }

    /// Returns the status and the body of an issuer's response.
    async fn fetch_keys(
        &self,
        address: &HeaderValue,
        outcome: &mut Outcome,
    ) -> Result<Response<ResponseBody>, Failure> {
        let (target, response) = self.issuers.fetch_keys(address, outcome).await?;
        let (head, body) = response.into_parts();
        let body = CheckedBody::new(body, self.secrets.search(&target), target.origin());
        let mut response = Response::new(body.boxed_unsync());
        *response.status_mut() = head.status;
        Ok(response)
    }

    async fn send(
        &self,
        mut request: Request<Incoming>,
        outcome: &mut Outcome,
    ) -> Result<Response<ResponseBody>, Failure> {
        let denied = |why: &dyn ToString| Failure::new(FailureKind::Denied, why.to_string());
        let component = request.headers_mut().remove(GRANT);
        let component = component.and_then(|name| String::from_utf8(name.as_bytes().to_vec()).ok());
        let component = component.unwrap_or_default();
        let grant = self.grants.get(&component);
        let (grant, resolver) = grant
            .zip(self.resolvers.get(&component))
            .ok_or_else(|| denied(&Denial::NoRule))?;
        let target = Target::new(request.method(), request.uri()).map_err(|why| denied(&why))?;
        let permission = grant.allow(&target).map_err(|why| denied(&why))?;
        outcome.rule = Some(permission.to_string());
        let replacing = headers_and_trailers(request.headers()).find(|name| replaces_target(name));
        if let Some(name) = replacing {
            let why = format!("the request's header `{name}` may replace the method, host or path");
            return Err(denied(&why));
        }
        let method = request.method();
        let has_body = !request.body().is_end_stream();
        // Some servers ignore the body of a GET or HEAD request, and read it as the next request.
        if has_body
            && NO_BODY
                .iter()
                .any(|it| it.eq_ignore_ascii_case(method.as_str()))
        {
            return Err(denied(&format!("a {method} request must have no body")));
        }
        let may_receive_secrets = self.secrets.may_be_sent_to(&target);
        if may_receive_secrets {
            let is_range = |name: &&str| RANGES.contains(&&*as_variable(name));
            if let Some(name) = headers_and_trailers(request.headers()).find(is_range) {
                let why = format!(
                    "the request's header `{name}` asks for a part of a response, and the host may \
                     receive secrets"
                );
                return Err(denied(&why));
            }
            // The search does not find encoded or compressed secrets.
            let choices = [header::ACCEPT_CHARSET, header::ACCEPT_ENCODING];
            remove_like(request.headers_mut(), &choices);
            let identity = HeaderValue::from_static("identity");
            request
                .headers_mut()
                .insert(header::ACCEPT_ENCODING, identity);
        }
        let sent = self.insert_secrets(&component, grant, &target, request.headers_mut());
        outcome.secrets = sent.map_err(|why| denied(&why))?;

        let is_head = request.method() == Method::HEAD;
        let request = for_server(request, &target).map_err(|why| denied(&why))?;
        let check = |address| grant.allow_address(permission, address);
        let connection = connect(&target, resolver, &self.tls, check, outcome).await?;
        let response = connection.exchange(request).await?;
        let (mut head, body) = response.into_parts();
        remove_like(&mut head.headers, &DROPPED);
        if !is_head {
            head.headers.remove(header::CONTENT_LENGTH);
        }
        head.headers.remove(OUTCOME);
        // In HTTP/1.0, a body ends with its connection, so the host could mistake a truncated body for
        // a complete one.
        head.version = Version::HTTP_11;
        // The extensions have the reason phrase, which can contain a secret.
        head.extensions.clear();
        if may_receive_secrets && is_partial(&head) {
            let why = "the server sent a part of a response, which may contain a part of a secret";
            return Err(Failure::new(FailureKind::Secret, why));
        }
        let secrets = self.secrets.search(&target);
        if let Some(name) = secrets.find_in_headers(&head.headers) {
            let why = format!("the headers of the response contain the secret {name}");
            return Err(Failure::new(FailureKind::Secret, why));
        }
        let body = CheckedBody::new(body, secrets, target.origin());
        Ok(Response::from_parts(head, body.boxed_unsync()))
    }

    /// Replaces the placeholders in the headers with secrets, and returns the names of the secrets.
    ///
    /// Searches only the headers of the guest, never a text that has a secret already. Otherwise,
    /// escaped code could guess the secret piece by piece. Finds no placeholder that is encoded, such
    /// as in base64 for Basic authentication.
    fn insert_secrets(
        &self,
        component: &str,
        grant: &NetworkGrant,
        target: &Target,
        headers: &mut HeaderMap,
    ) -> Result<Vec<String>, Denial> {
        let placeholders = Placeholders::take(headers)?;
        let denial = |name: &str| Denial::Secret(name.to_owned());
        for address in [target.path_and_query(), target.host()] {
            if let Some((_, name)) = placeholders.find(address.as_bytes()) {
                return Err(denial(name));
            }
        }
        let mut sent = BTreeSet::new();
        for (header, text) in headers.iter_mut() {
            let mut replaced = Vec::new();
            let mut rest = text.as_bytes();
            while let Some((start, name)) = placeholders.find(rest) {
                let secret = grant.find_secret(name);
                let is_allowed = secret.is_some_and(|secret| secret.allows(target, header));
                let value = self.secrets.value(component, name).filter(|_| is_allowed);
                replaced.extend_from_slice(&rest[..start]);
                replaced.extend_from_slice(&value.ok_or_else(|| denial(name))?.0);
                rest = &rest[start + PLACEHOLDER_BYTES..];
                sent.insert(name.to_owned());
            }
            if rest.len() < text.len() {
                replaced.extend_from_slice(rest);
                *text = HeaderValue::from_bytes(&replaced).map_err(|_| denial(header.as_str()))?;
                text.set_sensitive(true);
            }
        }
        Ok(sent.into_iter().collect())
    }
}

/// Returns the request in the form that the server gets.
fn for_server(
    request: Request<Incoming>,
    target: &Target,
) -> Result<Request<Incoming>, TargetError> {
    let (mut head, body) = request.into_parts();
    remove_like(&mut head.headers, &DROPPED);
    // hyper sets the length of the body again.
    remove_like(&mut head.headers, &[header::CONTENT_LENGTH]);
    let host = HeaderValue::try_from(target.authority()).map_err(|_| TargetError::Host)?;
    head.headers.insert(header::HOST, host);
    head.uri = Uri::try_from(target.path_and_query()).map_err(|_| TargetError::Path)?;
    Ok(Request::from_parts(head, body))
}

fn remove_like(headers: &mut HeaderMap, removed: &[HeaderName]) {
    let names = headers.keys().filter(|name| is_like_any(name, removed));
    let names: Vec<HeaderName> = names.cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Returns whether a server can mistake a header for one of `others`. CGI and WSGI turn all characters
/// except letters and digits into `_`.
fn is_like_any(name: &HeaderName, others: &[HeaderName]) -> bool {
    let name = as_variable(name.as_str());
    others
        .iter()
        .any(|other| as_variable(other.as_str()) == name)
}

/// Returns a header's name as CGI and WSGI read it, in lower case.
fn as_variable(name: &str) -> String {
    let read = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        }
    };
    name.chars().map(read).collect()
}

/// Returns the names of the headers and trailers of a request. Only trailers that `Trailer` declares
/// are sent.
fn headers_and_trailers(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let trailers = headers.get_all(header::TRAILER).iter();
    let trailers = trailers.filter_map(|value| value.to_str().ok());
    let trailers = trailers.flat_map(|value| value.split(',')).map(str::trim);
    headers.keys().map(HeaderName::as_str).chain(trailers)
}

/// Returns whether a response can be a part of a larger response.
fn is_partial(head: &response::Parts) -> bool {
    let content_type = head.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.map(|value| value.as_bytes().to_ascii_lowercase());
    let status = head.status;
    status == StatusCode::PARTIAL_CONTENT
        || status == StatusCode::IM_USED
        || content_type.is_some_and(|it| it.trim_ascii_start().starts_with(b"multipart/byteranges"))
}

/// Returns whether some servers read the method, the host, the path or a second path from a header.
/// Frameworks, proxies and object stores have many of these headers, with similar names.
fn replaces_target(name: &str) -> bool {
    let name = as_variable(name);
    let glued = name.replace('_', "");
    if OVERRIDES.contains(&&*glued)
        || name.starts_with("forwarded")
        || (name.starts_with("x_forwarded") && name != "x_forwarded_for")
        || CGI_VARIABLES.contains(&glued.strip_prefix('x').unwrap_or(&glued))
    {
        return true;
    }
    // Object stores keep these as notes of the author about an object.
    if name.contains("_meta_") {
        return false;
    }
    let contains = |words: &[&str]| words.iter().any(|word| glued.contains(word));
    if contains(OVERRIDE_WORDS.0) && contains(OVERRIDE_WORDS.1) {
        return true;
    }
    let has_word = |words: &[&str]| name.split('_').any(|word| words.contains(&word));
    let has_glued = |(first, second): (&str, &str)| {
        glued.contains(&format!("{first}{second}")) || glued.contains(&format!("{second}{first}"))
    };
    SECOND_TARGET_WORDS.iter().any(|(one, other)| {
        let mut pairs = one.iter().flat_map(|a| other.iter().map(|b| (*a, *b)));
        has_word(one) && has_word(other) || pairs.any(has_glued)
    })
}
