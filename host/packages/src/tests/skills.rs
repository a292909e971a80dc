//! Skills: pushed, pulled and locked.

use serde_json::{Value, json};

use super::{MANIFEST, Setup, locked_package, signing_key};
use crate::package::pull_skill;
use crate::skill_files::tests::skill_files;
use crate::{
    DenyList, Digest, LockedSkill, PackageKind, PulledPackage, SigningKey, SkillFiles,
    TrustedSigner, push_skill, read_skill, verify_locked,
};

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

const SKILL_MD: &str = "---\nname: csv\ndescription: Reads tables\nlicense: MIT\nmetadata:\n  \
                        version: \"1.2\"\n---\n# Tables\n";

fn files() -> SkillFiles {
    skill_files(&[("SKILL.md", SKILL_MD), ("scripts/run.py", "print(1)\n")]).unwrap()
}

fn keys(key: &SigningKey) -> Vec<TrustedSigner> {
    vec![key.public().into()]
}

fn pull(
    setup: &Setup,
    keys: Option<&[TrustedSigner]>,
) -> anyhow::Result<(PulledPackage, SkillFiles)> {
    pull_skill(
        &mut setup.client(),
        &setup.reference(),
        keys,
        None,
        &DenyList::default(),
        &setup.store,
    )
}

fn lock(setup: &Setup, pulled: &PulledPackage, files: &SkillFiles) -> LockedSkill {
    LockedSkill {
        package: pulled
            .clone()
            .into_locked(PackageKind::Skill, "csv", &setup.reference()),
        commit: None,
        files: files.digests(),
    }
}

#[test]
fn pushes_and_pulls_signed_skills() {
    let setup = Setup::new();
    let key = signing_key();
    let mut client = setup.client().for_push();
    let pushed = push_skill(&mut client, &setup.reference(), &files(), Some(&key)).unwrap();
    let again = push_skill(&mut client, &setup.reference(), &files(), Some(&key)).unwrap();
    assert_eq!(pushed.manifest, again.manifest);

    let manifest = setup.registry.manifest("1").unwrap();
    assert_eq!(manifest["artifactType"], "dev.toolhive.skills.v1");
    assert_eq!(manifest["layers"][0]["mediaType"], LAYER);
    assert_eq!(
        manifest["config"]["mediaType"],
        "application/vnd.oci.image.config.v1+json"
    );
    for (key, value) in [
        ("dev.toolhive.skills.name", "csv"),
        ("dev.toolhive.skills.description", "Reads tables"),
        ("dev.toolhive.skills.version", "1.2"),
        ("org.opencontainers.image.title", "csv"),
        ("org.opencontainers.image.licenses", "MIT"),
        ("org.opencontainers.image.created", "1970-01-01T00:00:00Z"),
    ] {
        assert_eq!(manifest["annotations"][key], value, "{key}");
    }

    let (pulled, found) = pull(&setup, Some(&keys(&key))).unwrap();
    assert_eq!(pulled.manifest, pushed.manifest);
    assert_eq!(found, files());
    let locked = lock(&setup, &pulled, &found);
    verify_locked(&locked, Some(&keys(&key)), &setup.store).unwrap();
    assert_eq!(read_skill(&locked, &setup.store).unwrap(), files());
    setup.store.unpack(&locked, &found).unwrap();
    setup.store.check_unpacked(&locked).unwrap();

    let mut other = locked.clone();
    other.files.insert("more.md".to_owned(), Digest::of(b""));
    let error = read_skill(&other, &setup.store).unwrap_err().to_string();
    assert!(error.contains("other files than the lock file"), "{error}");
    let mut other = locked.clone();
    other.package.content = Digest::of(b"other");
    let error = verify_locked(&other, None, &setup.store).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the skill `csv` is not in the store; `skillhost fetch`"),
        "{error}"
    );
    // A lock file cannot turn a skill into a component.
    let mut other = locked_package(PackageKind::Component, "csv", &locked.content);
    other.manifest = locked.manifest.clone();
    let error = verify_locked(&other, None, &setup.store).unwrap_err();
    assert!(error.to_string().contains("not a component"), "{error}");
}

#[test]
fn pulls_first_manifest_of_platform_index() {
    let setup = Setup::new();
    let mut client = setup.client().for_push();
    push_skill(&mut client, &setup.reference(), &files(), None).unwrap();
    let first = setup.registry.manifest("1").unwrap();
    let mut second = first.clone();
    second["annotations"]["platform"] = json!("arm64");
    let entry = |tag: &str, manifest: &Value, architecture: &str| {
        json!({
            "mediaType": MANIFEST,
            "digest": setup.registry.put_manifest(tag, manifest),
            "size": manifest.to_string().len(),
            "platform": {"os": "linux", "architecture": architecture},
        })
    };
    let manifests = json!([entry("a", &first, "amd64"), entry("b", &second, "arm64")]);
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "artifactType": "dev.toolhive.skills.v1",
        "manifests": manifests,
    });
    setup.registry.put_manifest("1", &index);
    let (pulled, found) = pull(&setup, None).unwrap();
    assert_eq!(found, files());
    assert_eq!(pulled.manifest.to_string(), manifests[0]["digest"]);
}

#[test]
fn refused_skills_leave_the_store_empty() {
    let setup = Setup::new();
    let mut client = setup.client().for_push();
    push_skill(&mut client, &setup.reference(), &files(), None).unwrap();
    let good = setup.registry.manifest("1").unwrap();
    let layers = |layers: Value| {
        let mut manifest = good.clone();
        manifest["layers"] = layers;
        manifest
    };
    let layer = good["layers"][0].clone();
    let wasm = setup.registry.put_blob("application/wasm", b"\0asm");
    let rubbish = setup.registry.put_blob(LAYER, b"rubbish");
    let mut large = layer.clone();
    large["size"] = json!(65 << 20);
    let empty = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [],
    });
    for (manifest, why) in [
        (layers(json!([wasm])), "not a skill"),
        (
            layers(json!([layer, layer])),
            "has 2 layers, but a skill has one",
        ),
        (layers(json!([])), "has 0 layers"),
        (layers(json!([rubbish])), "not valid gzip"),
        (layers(json!([large])), "more than 67108864"),
        (empty, "lists no manifest"),
    ] {
        setup.registry.put_manifest("1", &manifest);
        let error = format!("{:#}", pull(&setup, None).unwrap_err());
        assert!(error.contains(why), "{why}: {error}");
        assert!(setup.store.list().unwrap().is_empty(), "{error}");
    }
    setup.registry.put_manifest("1", &good);
    let error = format!(
        "{:#}",
        pull(&setup, Some(&keys(&signing_key()))).unwrap_err()
    );
    assert!(error.contains("it is unsigned"), "{error}");
    let error = setup.error(None);
    assert!(error.contains("not a component"), "{error}");
}
