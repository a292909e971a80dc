//! Packages signed by identities, which a test signing service confirms.

use super::signing_service::{Signing, SigningService};
use super::*;
use crate::SignerIdentity;
use crate::identity::{IdentityRule, SigningRoot};

/// Returns a rule for all tags, which [`Signing::default`] matches.
fn rule() -> SignerIdentity {
    SignerIdentity {
        identity: "https://forge.example/acme/csv/.github/workflows/release.yml@refs/tags/*"
            .to_owned(),
        issuer: "https://tokens.forge.example".to_owned(),
        repository: Some("https://forge.example/acme/csv".to_owned()),
        git_ref: Some("refs/tags/*".to_owned()),
    }
}

/// Reads a trusted root from a file.
fn read_root(root: &Value, folder: &TempDir) -> SigningRoot {
    let file = folder.path().join("root.json");
    fs::write(&file, root.to_string()).unwrap();
    SigningRoot::read(Some(&file), &Trust::new()).unwrap()
}

fn signer(service: &SigningService, folder: &TempDir) -> TrustedSigner {
    TrustedSigner::identity(
        IdentityRule::new(rule()).unwrap(),
        read_root(&service.root(), folder),
    )
}

/// A signing service, its trusted root, and a manifest to sign.
struct Case {
    service: SigningService,
    root: SigningRoot,
    manifest: Digest,
}

impl Case {
    fn new() -> Self {
        let service = SigningService::new();
        Self {
            root: read_root(&service.root(), &tempfile::tempdir().unwrap()),
            service,
            manifest: Digest::of(b"manifest"),
        }
    }

    fn sign(&self, signing: &Signing) -> Value {
        self.service.sign(self.manifest.hex(), signing)
    }

    fn verify(&self, rule: SignerIdentity, bundle: &Value) -> Result<SignerIdentity, String> {
        let rule = IdentityRule::new(rule).unwrap();
        let bundle = bundle.to_string();
        let found = self.root.verify(&rule, bundle.as_bytes(), &self.manifest);
        found.map_err(|error| format!("{error:#}"))
    }
}

#[test]
fn accepts_signature_made_before_certificate_expired() {
    let case = Case::new();
    let signing = Signing::default();
    let found = case.verify(rule(), &case.sign(&signing)).unwrap();
    assert_eq!(found.identity, signing.identity);
    assert_eq!(found.issuer, signing.issuer);
    assert_eq!(found.repository, signing.repository);
    assert_eq!(found.git_ref, signing.git_ref);
    // People have no repository.
    let person = Signing {
        identity: "release@acme.example".to_owned(),
        repository: None,
        git_ref: None,
        ..Signing::default()
    };
    let person_identity = SignerIdentity {
        identity: person.identity.clone(),
        issuer: person.issuer.clone(),
        repository: None,
        git_ref: None,
    };
    let found = case.verify(person_identity.clone(), &case.sign(&person));
    assert_eq!(found, Ok(person_identity));
}

#[test]
fn each_part_of_the_identity_must_fit() {
    let case = Case::new();
    type Change = fn(&mut Signing);
    let cases: [(Change, &str); 8] = [
        (
            |it| it.issuer = "https://tokens.other.example".to_owned(),
            "confirmed by the issuer `https://tokens.other.example`, not",
        ),
        (
            |it| it.repository = Some("https://forge.example/evil/csv".to_owned()),
            "signed for the repository `https://forge.example/evil/csv`, not",
        ),
        (
            |it| it.repository = Some("https://forge.example/acme/csv2".to_owned()),
            "signed for the repository `https://forge.example/acme/csv2`, not",
        ),
        (
            |it| it.repository = None,
            "signed for the repository `none`",
        ),
        (
            |it| it.git_ref = Some("refs/heads/main".to_owned()),
            "signed for the ref `refs/heads/main`, not `refs/tags/*`",
        ),
        (|it| it.git_ref = None, "signed for the ref `none`"),
        (
            |it| it.identity = it.identity.replace("release.yml", "test.yml"),
            "signed by the identity `https://forge.example/acme/csv/.github/workflows/test.yml@",
        ),
        (
            |it| it.identity = "acme@forge.example".to_owned(),
            "signed by the identity `acme@forge.example`, not",
        ),
    ];
    for (change, why) in cases {
        let mut signing = Signing::default();
        change(&mut signing);
        let error = case.verify(rule(), &case.sign(&signing)).unwrap_err();
        assert!(error.contains(why), "expected `{why}`: {error}");
    }
}

#[test]
fn certificate_must_be_recorded_and_valid_when_it_signed() {
    let case = Case::new();
    type Change = fn(&mut Signing);
    let cases: [(Change, &str); 5] = [
        (
            |it| it.has_time = false,
            "no trusted log or timestamp says when it was signed",
        ),
        (
            |it| it.signed_after = 3600,
            "its certificate was not valid when it was signed",
        ),
        (
            |it| it.is_recorded = false,
            "no log of the trusted root recorded its certificate",
        ),
        (
            |it| it.is_for_code = false,
            "no authority of the trusted root issued its certificate",
        ),
        (
            |it| it.predicate = "https://slsa.dev/provenance/v1".to_owned(),
            "the signed statement is of another type",
        ),
    ];
    for (change, why) in cases {
        let mut signing = Signing::default();
        change(&mut signing);
        let error = case.verify(rule(), &case.sign(&signing)).unwrap_err();
        assert!(error.contains(why), "expected `{why}`: {error}");
    }
    // The root of another service, and one with another authority but the same logs.
    let good = case.sign(&Signing::default());
    let other = SigningService::new();
    let mut mixed = case.service.root();
    mixed["certificateAuthorities"] = other.root()["certificateAuthorities"].clone();
    for (root, why) in [
        (
            other.root(),
            "no log of the trusted root proves the signature",
        ),
        (
            mixed,
            "no authority of the trusted root issued its certificate",
        ),
    ] {
        let case = Case {
            root: read_root(&root, &tempfile::tempdir().unwrap()),
            service: SigningService::new(),
            manifest: case.manifest.clone(),
        };
        let error = case.verify(rule(), &good).unwrap_err();
        assert!(error.contains(why), "expected `{why}`: {error}");
    }
    let other = case
        .service
        .sign(Digest::of(b"other").hex(), &Signing::default());
    let error = case.verify(rule(), &other).unwrap_err();
    assert!(error.contains("a signature of another artifact"), "{error}");
}

#[test]
fn timestamp_proves_time_of_signature() {
    let case = Case::new();
    let signing = Signing {
        has_time: false,
        timestamped_after: Some(60),
        ..Signing::default()
    };
    let good = case.sign(&signing);
    let found = case.verify(rule(), &good).unwrap();
    assert_eq!(found.identity, signing.identity);

    let data = "/verificationMaterial/timestampVerificationData";
    let mut foreign_timestamp = good.clone();
    *foreign_timestamp.pointer_mut(data).unwrap() =
        case.sign(&signing).pointer(data).unwrap().clone();
    let mut unlogged = good.clone();
    unlogged["verificationMaterial"]["tlogEntries"] = json!([]);
    let late = Signing {
        timestamped_after: Some(3600),
        ..signing.clone()
    };
    // The time of a log does not replace a timestamp that is too late.
    let late_but_logged = Signing {
        has_time: true,
        ..late.clone()
    };
    for (bundle, why) in [
        (foreign_timestamp, "no timestamp authority"),
        (unlogged, "the bundle is invalid"),
        (case.sign(&late), "was not valid when it was signed"),
        (
            case.sign(&late_but_logged),
            "was not valid when it was signed",
        ),
    ] {
        let error = case.verify(rule(), &bundle).unwrap_err();
        assert!(error.contains(why), "expected `{why}`: {error}");
    }

    let authorities = "timestampAuthorities";
    let with = |value: Value| {
        let mut root = case.service.root();
        root[authorities] = value;
        root
    };
    let mut ended = case.service.root();
    ended[authorities][0]["validFor"]["end"] = json!("2024-12-31T00:00:00Z");
    for root in [
        with(SigningService::new().root()[authorities].clone()),
        with(json!([])),
        ended,
    ] {
        let root = read_root(&root, &tempfile::tempdir().unwrap());
        let rule = IdentityRule::new(rule()).unwrap();
        let bundle = good.to_string();
        let error = root.verify(&rule, bundle.as_bytes(), &case.manifest);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no timestamp authority"), "{error}");
    }
}

#[test]
fn refuses_changed_bundles() {
    let case = Case::new();
    let good = case.sign(&Signing::default());
    let other = case.sign(&Signing::default());
    let by_key: Value =
        serde_json::from_slice(&signing_key().sign(&case.manifest).unwrap()).unwrap();
    let entry = "/verificationMaterial/tlogEntries/0";
    let change = |path: &str, value: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(path).unwrap() = value;
        changed
    };
    let from_other = |path: &str| change(path, other.pointer(path).unwrap().clone());
    let mut without_proof = good.clone();
    without_proof["verificationMaterial"]["tlogEntries"][0]
        .as_object_mut()
        .unwrap()
        .remove("inclusionProof");
    for (what, bundle, why) in [
        (
            "another entry",
            from_other(entry),
            "no log of the trusted root proves",
        ),
        (
            "another certificate",
            from_other("/verificationMaterial/certificate"),
            "",
        ),
        (
            "another signature",
            from_other("/dsseEnvelope/signatures"),
            "the key of its certificate did not sign it",
        ),
        (
            "another time",
            change(&format!("{entry}/integratedTime"), json!("1735689700")),
            "no log of the trusted root proves",
        ),
        (
            "another body",
            from_other(&format!("{entry}/canonicalizedBody")),
            "no log of the trusted root proves",
        ),
        (
            "another root",
            from_other(&format!("{entry}/inclusionProof/rootHash")),
            "",
        ),
        (
            "another checkpoint",
            from_other(&format!("{entry}/inclusionProof/checkpoint")),
            "",
        ),
        (
            "no entry",
            change("/verificationMaterial/tlogEntries", json!([])),
            "",
        ),
        ("no proof", without_proof, ""),
        ("a key", by_key, "a rule in `[trust]` asks for an identity"),
        ("no bundle", json!({}), "the bundle is invalid"),
    ] {
        let error = case.verify(rule(), &bundle).unwrap_err();
        assert!(error.contains(why), "{what}: expected `{why}`: {error}");
    }
    case.verify(rule(), &good).unwrap();
}

#[test]
fn next_release_has_the_same_signer() {
    let signer_with = |change: fn(&mut SignerIdentity)| {
        let signing = Signing::default();
        let mut identity = SignerIdentity {
            identity: signing.identity,
            issuer: signing.issuer,
            repository: signing.repository,
            git_ref: signing.git_ref,
        };
        change(&mut identity);
        Signer::Identity(identity)
    };
    let first = signer_with(|_| {});
    let next = signer_with(|it| {
        it.identity = it.identity.replace("/v1", "/v2");
        it.git_ref = Some("refs/tags/v2".to_owned());
    });
    assert!(first != next && first.is_same(&next));
    for (what, other) in [
        (
            "workflow",
            signer_with(|it| it.identity = it.identity.replace("release", "test")),
        ),
        ("issuer", signer_with(|it| it.issuer += "x")),
        ("repository", signer_with(|it| it.repository = None)),
        ("key", Signer::Key("ab".to_owned())),
        ("nobody", Signer::Unsigned),
    ] {
        assert!(!first.is_same(&other), "{what}");
    }
}

#[test]
fn refuses_wrong_roots() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("root.json");
    let mut empty = SigningService::new().root();
    empty["tlogs"] = json!([]);
    for (text, why) in [
        ("x".to_owned(), "not a trusted root"),
        (empty.to_string(), "no transparency log"),
    ] {
        fs::write(&file, text).unwrap();
        let error = SigningRoot::read(Some(&file), &Trust::new()).unwrap_err();
        assert!(format!("{error:#}").contains(why), "{error:#}");
    }
    // The root that is built in.
    SigningRoot::read(None, &Trust::new()).unwrap();
}

#[test]
fn locked_identity_is_verified_without_a_network() {
    let setup = Setup::with(TestRegistry::start_with_referrers());
    let service = SigningService::new();
    let trusted = [signer(&service, &setup.folder)];
    let pushed = setup.push(CONTENT, None).unwrap();
    assert!(setup.error(Some(&trusted)).contains("it is unsigned"));
    put_signature(
        &setup.registry,
        &pushed,
        &service.sign(pushed.hex(), &Signing::default()),
    );
    let pulled = setup.pull(Some(&trusted)).unwrap();
    let Signer::Identity(found) = &pulled.signer else {
        panic!("{:?}", pulled.signer);
    };
    assert_eq!(found.git_ref.as_deref(), Some("refs/tags/v1"));
    let mut good = locked("csv", &pulled.content);
    (good.manifest, good.size) = (pulled.manifest, pulled.size);
    (good.bundle, good.signer) = (pulled.bundle, pulled.signer.clone());
    setup.registry.take_request_heads();
    verify_locked(&good, Some(&trusted), &setup.store).unwrap();
    assert_eq!(setup.registry.take_request_heads(), [""; 0]);
    let mut changed = good.clone();
    if let Signer::Identity(identity) = &mut changed.signer {
        identity.git_ref = Some("refs/tags/v2".to_owned());
    }
    let error = verify_locked(&changed, Some(&trusted), &setup.store).unwrap_err();
    assert!(error.to_string().contains("another signer"), "{error:#}");
    let others = [signer(&SigningService::new(), &setup.folder)];
    let error = verify_locked(&good, Some(&others), &setup.store).unwrap_err();
    assert!(error.to_string().contains("is not valid"), "{error:#}");
}

/// Adds a signature to a manifest.
fn put_signature(registry: &TestRegistry, manifest: &Digest, bundle: &Value) {
    let kind = "application/vnd.dev.sigstore.bundle.v0.3+json";
    let layer = registry.put_blob(kind, bundle.to_string().as_bytes());
    let mut referrer = super::manifest(&[layer]);
    referrer["subject"] = json!({"mediaType": MANIFEST, "digest": manifest.to_string(), "size": 1});
    registry.put_manifest("signature", &referrer);
}
