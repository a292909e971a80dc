//! The issuers of access tokens, whose keys verify tokens.
//!
//! The host names an issuer by the address of its keys. The host cannot choose another address, a
//! method or a header.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::Empty;
use tokio_rustls::TlsConnector;

use crate::connect::connect;
use crate::driven::DrivenBody;
use crate::message::{Failure, FailureKind, Outcome};
use crate::resolve::Resolve;
use crate::target::Target;

/// The issuers whose keys may be fetched.
pub(crate) struct Issuers<R> {
    /// The address of each issuer's keys, and the issuer's own resolver. So a fetch of its keys
    /// does not wait until host names for other issuers or for guests are resolved.
    pub(crate) resolvers: Vec<(String, R)>,
    /// Trusts only Mozilla's authorities. An operator adds others for tools, not for tokens.
    pub(crate) tls: TlsConnector,
}

impl<R: Resolve> Issuers<R> {
    /// Requests the keys at this address.
    ///
    /// Allows every IP address, because the operator chose the address of the keys.
    pub(crate) async fn fetch_keys(
        &self,
        address: &HeaderValue,
        outcome: &mut Outcome,
    ) -> Result<(Target, Response<DrivenBody>), Failure> {
        let denied = |why: &dyn ToString| Failure::new(FailureKind::Denied, why.to_string());
        let mut issuers = self.resolvers.iter();
        let issuer = issuers.find(|(known, _)| known.as_bytes() == address.as_bytes());
        let (address, resolver) =
            issuer.ok_or_else(|| denied(&"no issuer has its keys at this address"))?;
        let uri = Uri::try_from(address).map_err(|why| denied(&why))?;
        let target = Target::new(&Method::GET, &uri).map_err(|why| denied(&why))?;
        let request = Request::get(target.path_and_query())
            .header(header::HOST, target.authority())
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, "skillhost")
            .body(Empty::<Bytes>::new())
            .map_err(|why| denied(&why))?;
        let connection = connect(&target, resolver, &self.tls, |_| Ok(()), outcome).await?;
        let response = connection.exchange(request).await?;
        Ok((target, response))
    }
}
