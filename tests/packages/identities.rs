//! Packages that a workflow signed, from a rule of `[trust]` to a call without a network.

use super::*;
use crate::support::keyless::{Signing, SigningService};

/// Writes a rule for the workflow of [`Signing::default`], at any tag.
fn trust(user: &User, service: &SigningService) {
    user.program.write("root.json", service.root().to_string());
    user.append(&format!(
        "[trust.\"oci://{}/acme/*\"]\n\
         identity = \"https://forge.example/acme/csv/.github/workflows/release.yml@refs/tags/*\"\n\
         issuer = \"https://tokens.forge.example\"\n\
         repository = \"https://forge.example/acme/csv\"\n\
         ref = \"refs/tags/*\"\n\
         root = \"root.json\"\n",
        user.registry.authority
    ));
}

/// Pushes a component, and signs it as a workflow does.
fn push(user: &User, component: &[u8], service: &SigningService, signing: &Signing) {
    let pushed = user.push(component, None);
    let manifest = pushed
        .lines()
        .find_map(|line| line.strip_prefix("manifest: "));
    let manifest = manifest.unwrap();
    let hex = manifest.strip_prefix("sha256:").unwrap();
    let bundle = service.sign(hex, signing).to_string();
    let bundle_type = "application/vnd.dev.sigstore.bundle.v0.3+json";
    let layer = user.registry.put_blob(bundle_type, bundle.as_bytes());
    let config = user
        .registry
        .put_blob("application/vnd.oci.empty.v1+json", b"{}");
    let manifest_type = "application/vnd.oci.image.manifest.v1+json";
    user.registry.put_manifest(
        "signature",
        &json!({
            "schemaVersion": 2,
            "mediaType": manifest_type,
            "artifactType": bundle_type,
            "config": config,
            "layers": [layer],
            "subject": {"mediaType": manifest_type, "digest": manifest, "size": 1},
        }),
    );
}

fn new_user() -> User {
    User {
        registry: TestRegistry::start_with_referrers(),
        ..User::new()
    }
}

#[test]
fn adds_and_calls_component_signed_by_workflow() {
    let user = new_user();
    let service = SigningService::new();
    trust(&user, &service);
    user.push(&count_lines(), None);
    let error = user.run_err(4, &["add", &user.reference()]);
    assert!(error.contains("it is unsigned"), "{error}");
    push(&user, &count_lines(), &service, &Signing::default());
    let shown = user.run_ok(&["add", &user.reference()]);
    let signer = "signer: https://forge.example/acme/csv/.github/workflows/release.yml@refs/tags/v1 \
                  of https://tokens.forge.example, for https://forge.example/acme/csv at refs/tags/v1";
    assert!(shown.contains(signer), "{shown}");
    let lock = user.files()[1].clone().unwrap();
    for line in [
        "identity = \"https://forge.example/acme/csv/.github/workflows/release.yml@refs/tags/v1\"\n",
        "issuer = \"https://tokens.forge.example\"\n",
        "repository = \"https://forge.example/acme/csv\"\n",
        "ref = \"refs/tags/v1\"\n",
    ] {
        assert!(lock.contains(line), "{line}: {lock}");
    }
    user.append(GRANT);
    user.registry.take_request_heads();
    let run = user.call();
    assert!(
        run.code == 0 && run.stdout.starts_with("2 lines"),
        "{run:?}"
    );
    user.run_ok(&["lock", "--check"]);
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
    // Each load applies the current rule, and the lock file cannot change who signed.
    let config = user.files()[0].clone().unwrap();
    for (from, to, why) in [
        ("release.yml@", "test.yml@", "signed by the identity"),
        ("tokens.forge", "tokens.other", "confirmed by the issuer"),
        (
            "\"refs/tags/*\"",
            "\"refs/heads/main\"",
            "signed for the ref",
        ),
    ] {
        user.program
            .write("skillhost.toml", config.replace(from, to));
        let run = user.call();
        assert_eq!(run.code, 4, "{run:?}");
        assert!(run.stderr.contains(why), "{why}: {run:?}");
    }
    user.program.write("skillhost.toml", &config);
    user.program
        .write("skillhost.lock", lock.replace("tags/v1", "tags/v2"));
    let run = user.call();
    assert!(
        run.code == 4 && run.stderr.contains("another signer"),
        "{run:?}"
    );
    user.program.write("skillhost.lock", &lock);
    user.program
        .write("root.json", SigningService::new().root().to_string());
    let run = user.call();
    assert!(
        run.code == 4 && run.stderr.contains("is not valid"),
        "{run:?}"
    );
}

#[test]
fn next_release_needs_no_new_trust() {
    let user = new_user();
    let service = SigningService::new();
    let config = "skills = [\"skills\"]\nrequire_signatures = true\n";
    user.program.write("skillhost.toml", config);
    trust(&user, &service);
    push(&user, &count_lines(), &service, &Signing::default());
    user.run_ok(&["add", &user.reference()]);
    let signing_with = |change: fn(&mut Signing)| {
        let mut signing = Signing::default();
        change(&mut signing);
        signing
    };
    let second = signing_with(|it| {
        it.identity = it.identity.replace("/v1", "/v2");
        it.git_ref = Some("refs/tags/v2".to_owned());
    });
    let component = with_section(count_lines(), r#"{"network": []}"#);
    push(&user, &component, &service, &second);
    let shown = user.run_ok(&["update"]);
    assert!(shown.contains("at refs/tags/v2"), "{shown}");
    let other =
        signing_with(|it| it.repository = Some("https://forge.example/evil/csv".to_owned()));
    let component = with_section(component, r#"{"network": []}"#);
    push(&user, &component, &service, &other);
    let error = user.run_err(4, &["update"]);
    let why = "signed for the repository `https://forge.example/evil/csv`";
    assert!(error.contains(why), "{error}");
}
