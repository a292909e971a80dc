//! Signers that are identities, such as workflows of a repository, and not keys.
//!
//! A certificate authority gives an identity a certificate for a few minutes. A log or a timestamp
//! proves that the signature was made in that time, so it can be verified later and without a
//! network.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use sigstore_verify::trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};
use sigstore_verify::types::{Artifact, Bundle, Sha256Hash, SignatureContent};
use sigstore_verify::{
    CertificateError, Error, TimestampError, TransparencyLogError, VerificationPolicy, Verifier,
};
use skillhost_skills::named_file;
use skillhost_skills::trust::Trust;

use crate::digest::Digest;
use crate::quote::quote;
use crate::ring_provider;
use crate::statement::check_statement;

/// The maximum size of a trusted root, in bytes.
const MAX_ROOT: u64 = 1 << 20;

/// The maximum number of characters of the verifier's reason in an error. Guards against: a bundle
/// that fills the terminal.
const MAX_REASON: usize = 300;

/// An identity, as its certificate names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignerIdentity {
    /// The URI of the workflow with its ref, or an e-mail address.
    pub identity: String,
    /// The service that confirmed the identity.
    pub issuer: String,
    /// The URI of the repository that the workflow ran for.
    pub repository: Option<String>,
    /// The git ref that the workflow ran at, such as `refs/tags/v1.2`.
    pub git_ref: Option<String>,
}

impl SignerIdentity {
    /// Returns whether another identity is equal, except for the git ref: each release changes it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let without_ref = |it: &Self| {
            let text = it.identity.as_str();
            let workflow = text.rsplit_once("@refs/").map_or(text, |(it, _)| it);
            (
                workflow.to_owned(),
                it.issuer.clone(),
                it.repository.clone(),
            )
        };
        without_ref(self) == without_ref(other)
    }
}

impl fmt::Display for SignerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", quote(&self.identity), quote(&self.issuer))?;
        if let Some(repository) = &self.repository {
            write!(f, ", for {}", quote(repository))?;
        }
        if let Some(git_ref) = &self.git_ref {
            write!(f, " at {}", quote(git_ref))?;
        }
        Ok(())
    }
}

/// The identities that a rule trusts. `identity` and `git_ref` can end in `/*`, which fits any
/// text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdentityRule(SignerIdentity);

impl IdentityRule {
    /// Checks a rule.
    pub(crate) fn new(rule: SignerIdentity) -> anyhow::Result<Self> {
        ensure!(
            !rule.identity.is_empty() && !rule.issuer.is_empty(),
            "`identity` and `issuer` must not be empty"
        );
        let is_workflow = rule.identity.contains("://");
        ensure!(
            !is_workflow || (rule.repository.is_some() && rule.git_ref.is_some()),
            "a workflow can sign for many repositories, and at any ref: name the `repository` and \
             the `ref` to trust, such as \"refs/tags/*\""
        );
        let identity = rule.identity.strip_suffix("/*").unwrap_or(&rule.identity);
        let git_ref = rule.git_ref.as_deref().unwrap_or_default();
        let git_ref = git_ref.strip_suffix("/*").unwrap_or(git_ref);
        let has_ref = identity.len() == rule.identity.len() || identity.contains("@refs/");
        let others = [Some(&rule.issuer), rule.repository.as_ref()];
        let is_pattern = |text: &&String| text.contains('*');
        ensure!(
            has_ref
                && !identity.contains('*')
                && !git_ref.contains('*')
                && !others.iter().flatten().any(is_pattern),
            "`*` is allowed only at the end of a ref, as in \"…/release.yml@refs/tags/*\""
        );
        Ok(Self(rule))
    }

    /// Checks that an identity fits the rule.
    fn check(&self, found: &SignerIdentity) -> anyhow::Result<()> {
        let rule = &self.0;
        let missing = || "none".to_owned();
        ensure!(
            found.issuer == rule.issuer,
            "its signer was confirmed by the issuer `{}`, not `{}`",
            quote(&found.issuer),
            rule.issuer
        );
        for (what, wanted, found) in [
            ("repository", &rule.repository, &found.repository),
            ("ref", &rule.git_ref, &found.git_ref),
        ] {
            let Some(wanted) = wanted else { continue };
            ensure!(
                found.as_ref().is_some_and(|found| fits(wanted, found)),
                "it was signed for the {what} `{}`, not `{wanted}`",
                quote(&found.clone().unwrap_or_else(missing))
            );
        }
        ensure!(
            fits(&rule.identity, &found.identity),
            "it was signed by the identity `{}`, not `{}`",
            quote(&found.identity),
            rule.identity
        );
        Ok(())
    }
}

/// Returns whether a text fits a pattern: they are equal, or the pattern ends in `*`, and the text
/// starts with the part before it.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => text == pattern,
    }
}

/// The trusted certificate authorities and logs, which prove who signed and when.
pub(crate) struct SigningRoot(Box<Verifier>);

impl fmt::Debug for SigningRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningRoot").finish_non_exhaustive()
    }
}

impl SigningRoot {
    /// Reads a trusted root, as sigstore publishes it.
    ///
    /// Fails if users outside `trust` can change the file. Without a file, returns the built-in root of
    /// sigstore's public service.
    pub(crate) fn read(file: Option<&Path>, trust: &Trust) -> anyhow::Result<Self> {
        let Some(file) = file else {
            return Self::parse(SIGSTORE_PRODUCTION_TRUSTED_ROOT);
        };
        let read = || {
            let opened = named_file::open_public(file, trust, trust.opener())?;
            Self::parse(&named_file::read_all_text(opened, MAX_ROOT)?)
        };
        read().with_context(|| format!("cannot use the trusted root `{}`", file.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        ring_provider::install();
        let root = TrustedRoot::from_json(text).context("it is not a trusted root in JSON")?;
        ensure!(
            !root.certificate_authorities.is_empty() && !root.tlogs.is_empty(),
            "it has no certificate authority, or no transparency log"
        );
        Ok(Self(Box::new(Verifier::new(&root)?)))
    }

    /// Returns the identity that signed a manifest.
    ///
    /// # Errors
    ///
    /// If the identity does not fit the rule, or the bundle does not prove that it signed this
    /// manifest while its certificate was valid.
    pub(crate) fn verify(
        &self,
        rule: &IdentityRule,
        bundle: &[u8],
        manifest: &Digest,
    ) -> anyhow::Result<SignerIdentity> {
        let text = std::str::from_utf8(bundle).context("the bundle is invalid")?;
        let bundle = Bundle::from_json(text).ok();
        let bundle = bundle.context("the bundle is invalid")?;
        let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
            bail!("the bundle has no DSSE envelope");
        };
        ensure!(
            bundle.signing_certificate().is_some(),
            "it is signed by a key, but a rule in `[trust]` asks for an identity"
        );
        let artifact = Artifact::from_digest(Sha256Hash::from_hex(manifest.hex())?);
        // The policy accepts any identity, because the rule checks more than a policy can.
        let verified = self
            .0
            .verify(artifact, &bundle, &VerificationPolicy::any_identity());
        let verified = verified.map_err(|error| explain(&error))?;
        check_statement(envelope.payload.as_bytes(), manifest)?;
        let claims = verified.certificate().map(|it| it.ci_claims.clone());
        let claims = claims.unwrap_or_default();
        let identity = verified.identity().map(|it| it.as_str().to_owned());
        let found = SignerIdentity {
            identity: identity.context("the certificate names no identity")?,
            issuer: verified.issuer().unwrap_or_default().to_owned(),
            repository: claims.source_repository_uri,
            git_ref: claims.source_repository_ref,
        };
        rule.check(&found)?;
        Ok(found)
    }
}

/// Returns the verifier's error in plain words.
fn explain(error: &Error) -> anyhow::Error {
    let reason: String = error.to_string().chars().take(MAX_REASON).collect();
    let reason = quote(&reason);
    let what = match error {
        Error::ArtifactMismatch(_) => {
            return anyhow::anyhow!("it is a signature of another artifact");
        }
        Error::Timestamp(TimestampError::NoVerifiedTimestamp(_)) => {
            "its certificate is valid for minutes, and no trusted log or timestamp says when it was \
             signed"
        }
        Error::Timestamp(_) => "no timestamp authority of the trusted root says when it was signed",
        Error::Certificate(
            CertificateError::Expired { .. } | CertificateError::NotYetValid { .. },
        )
        | Error::TransparencyLog(TransparencyLogError::IntegratedTime(_)) => OUTSIDE_VALIDITY,
        Error::Certificate(CertificateError::ChainInvalid(reason))
            if is_outside_validity(reason) =>
        {
            OUTSIDE_VALIDITY
        }
        Error::Certificate(
            CertificateError::ChainInvalid(_) | CertificateError::NoValidAuthority { .. },
        ) => "no authority of the trusted root issued its certificate",
        Error::Certificate(CertificateError::Sct(_)) => {
            "no log of the trusted root recorded its certificate"
        }
        Error::TransparencyLog(_) => "no log of the trusted root proves the signature",
        Error::SignatureInvalid(_) => "the key of its certificate did not sign it",
        _ => "the bundle is invalid",
    };
    anyhow::anyhow!("{what} ({reason})")
}

/// The reason for refusing a signature made while its certificate was not valid.
const OUTSIDE_VALIDITY: &str = "its certificate was not valid when it was signed";

/// Returns whether the verifier's reason says that a certificate was not valid at the time of
/// signing. Only for messages, because the verifier reports this only as text.
fn is_outside_validity(reason: &str) -> bool {
    ["CertExpired", "CertNotValidYet"]
        .iter()
        .any(|name| reason.contains(name))
}
