//! Changed locks, stores, registries and configurations: the program refuses each change with a
//! different message, and writes nothing.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use skillhost_skills::text::digest::sha256_hex;

use super::rollback::{make_writable, updated_skill_user, updated_user};
use super::state::State;
use super::{REPORT, User, lock_value, needs, versioned_component};
use crate::needs::with_section;
use crate::support::registry::{Answer, answer};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// A change to make, the exit code that a run of the program must then have, the arguments of the
/// run, and a part of its error.
type Case<'c> = (Box<dyn Fn(&User) + 'c>, i32, &'c [&'c str], String);

const CALL: &[&str] = &[
    "call",
    "count_lines",
    "skill_name=calculator",
    "path=SKILL.md",
];
const CHECK: &[&str] = &["lock", "--check"];
const FETCH: &[&str] = &["fetch"];
const UPDATE: &[&str] = &["update"];
const ROLLBACK: &[&str] = &["rollback", "csv"];
const READ: &[&str] = &["call", "read_skill", "skill_name=report"];
const ROLLBACK_SKILL: &[&str] = &["rollback", "report"];

/// Makes each case's change in the same state, and checks that the program then fails as expected
/// and writes nothing.
fn refuse_all(user: &User, cases: Vec<Case<'_>>) {
    let folder = user.program.folder.path();
    let state = State::read(folder);
    let mut messages = BTreeSet::new();
    let mut wrong = Vec::new();
    for (at, (change, code, arguments, why)) in cases.into_iter().enumerate() {
        state.restore(folder);
        user.registry.restore_answers();
        change(user);
        let before = State::read(folder);
        let run = user.run(arguments);
        if code == 1 && arguments == UPDATE {
            // `update` exits with 1 after it has downloaded the new version to compare it. These
            // bytes are not a change.
            user.run_ok(&["store", "clean"]);
        }
        let changed = before.difference(&State::read(folder));
        let is_refused = run.code == code && run.stderr.contains(&why);
        if !is_refused || !changed.is_empty() {
            wrong.push(format!(
                "{at}: {code} `{why}`: {run:?}, changed {changed:?}"
            ));
        }
        assert!(messages.insert(why.clone()), "{at}: `{why}` comes twice");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    state.restore(folder);
    user.run_ok(CHECK);
}

fn case<'c>(
    change: impl Fn(&User) + 'c,
    code: i32,
    arguments: &'c [&'c str],
    why: impl Into<String>,
) -> Case<'c> {
    (Box::new(change), code, arguments, why.into())
}

/// Replaces a text, which must be there, in a file.
fn edit(user: &User, file: &str, from: &str, to: &str) {
    let text = fs::read_to_string(user.path(file)).unwrap();
    assert!(text.contains(from), "{from}: {text}");
    user.program.write(file, text.replacen(from, to, 1));
}

/// Makes a case that replaces a text in the lock file.
fn lock_case<'c>(
    from: impl Into<String>,
    to: impl Into<String>,
    code: i32,
    arguments: &'c [&'c str],
    why: &str,
) -> Case<'c> {
    let (from, to) = (from.into(), to.into());
    let change = move |user: &User| edit(user, "skillhost.lock", &from, &to);
    case(change, code, arguments, why)
}

fn set_mode(user: &User, path: &str, mode: u32) {
    fs::set_permissions(user.path(path), Permissions::from_mode(mode)).unwrap();
}

#[test]
fn changed_locks_are_refused() {
    let user = updated_user();
    let text = user.lock();
    let digest = |key: &str, at: usize| lock_value(&text, key, at);
    let [
        [new_manifest, new_content, new_bundle],
        [old_manifest, old_content, _],
    ] = [0, 1].map(|at| ["manifest", "content", "bundle"].map(|key| digest(key, at)));
    let missing = format!("sha256:{}", "0".repeat(64));
    let signer = format!("signer = \"{}\"", digest("signer", 0));
    let bundle = format!("bundle = \"{new_bundle}\"\n");
    let source = user.reference();
    let entry = &text[text.find("[[component]]").unwrap()..text.find("[[previous]]").unwrap()];
    let previous = &text[text.find("[[previous]]").unwrap()..];
    let in_previous = |from: &str, to: &str| previous.replacen(from, to, 1);
    let size = text
        .lines()
        .find(|line| line.starts_with("size = "))
        .unwrap();
    let unsigned = |user: &User| {
        edit(user, "skillhost.lock", &signer, "unsigned = true");
        edit(user, "skillhost.lock", &bundle, "");
    };
    refuse_all(
        &user,
        vec![
            lock_case(
                &new_manifest,
                &old_manifest,
                4,
                CALL,
                "it is a signature of another artifact",
            ),
            lock_case(
                &new_content,
                &old_content,
                4,
                CALL,
                "names other bytes than the lock file",
            ),
            lock_case(size, "size = 1", 4, CALL, "bytes, but the lock file says 1"),
            lock_case(
                "\"1.1.0\"",
                "\"1.0.0\"",
                4,
                CALL,
                "another version than the lock file",
            ),
            lock_case(
                &signer,
                "signer = \"key:ab\"",
                1,
                CHECK,
                "names another signer of",
            ),
            case(unsigned, 4, CALL, "is locked as unsigned"),
            lock_case(&bundle, "", 4, CALL, "needs a `bundle` if it is signed"),
            lock_case(
                &signer,
                format!("{signer}\nunsigned = true"),
                4,
                CALL,
                "either `signer`, or",
            ),
            lock_case(&signer, "signer = \"acme\"", 4, CALL, "is not `key:…`"),
            lock_case(
                &new_bundle,
                &new_manifest,
                4,
                CALL,
                "the bundle has an unknown media type",
            ),
            lock_case(
                &new_bundle,
                &missing,
                4,
                CALL,
                "not in the store; `skillhost fetch` gets it",
            ),
            lock_case(
                &source,
                source.replace("csv:1", "csv:2"),
                4,
                FETCH,
                "is locked from",
            ),
            lock_case(
                entry,
                "",
                4,
                CALL,
                "it has `[[previous]]` of `csv` twice, or does not lock",
            ),
            lock_case(&text, "", 4, CALL, "the component `csv` is not locked"),
            lock_case(
                &text,
                entry.repeat(2),
                4,
                UPDATE,
                "it has the component `csv` twice",
            ),
            lock_case(
                "name = \"csv\"",
                "name = \"../csv\"",
                4,
                CALL,
                "the name `../csv` must",
            ),
            lock_case(
                "name = \"csv\"",
                "name = \"other\"",
                4,
                FETCH,
                "`[[previous]]` of `csv`",
            ),
            lock_case(size, "weight = 1", 4, CALL, "unknown field `weight`"),
            lock_case(size, "", 4, CALL, "missing field `size`"),
            lock_case(size, "size = -1", 4, CALL, "integer `-1`"),
            lock_case(
                "sha256:",
                "sha512:",
                4,
                CALL,
                "expected a digest: `sha256:`",
            ),
            lock_case(previous, "[[comp", 4, CALL, "unclosed"),
            case(
                |user| {
                    user.program
                        .write("skillhost.lock", vec![b'#'; (4 << 20) + 1])
                },
                4,
                CALL,
                "it is larger than 4194304 bytes",
            ),
            case(
                |user| user.program.write("skillhost.lock", [0xff]),
                4,
                CALL,
                "UTF-8",
            ),
            case(
                |user| {
                    fs::rename(user.path("skillhost.lock"), user.path("other")).unwrap();
                    symlink("other", user.path("skillhost.lock")).unwrap();
                },
                4,
                CALL,
                "it is a symlink; put a file in its place",
            ),
            case(
                |user| {
                    fs::remove_file(user.path("skillhost.lock")).unwrap();
                    fs::create_dir(user.path("skillhost.lock")).unwrap();
                },
                4,
                CALL,
                "not a regular file",
            ),
            case(
                |user| set_mode(user, "skillhost.lock", 0o666),
                4,
                CALL,
                "cannot use the lock file `skillhost.lock`: ",
            ),
            // A rollback copies `[[previous]]` into the lock, so it checks these values first.
            lock_case(
                previous,
                in_previous(&old_manifest, &new_manifest),
                4,
                ROLLBACK,
                "cannot roll back `csv`: the signature of the component `csv` is not valid",
            ),
            lock_case(
                previous,
                in_previous(&old_content, &missing),
                4,
                ROLLBACK,
                &format!("the store does not have {missing} of its earlier version"),
            ),
            lock_case(
                previous,
                in_previous("csv:1", "evil:1"),
                4,
                ROLLBACK,
                "its earlier version is from",
            ),
        ],
    );
}

/// Returns the folder in which the store holds the unpacked skill `report`, relative to the user's
/// folder.
fn skill_root(content: &str) -> String {
    let name = content.replace(':', "-");
    format!("data/skillhost/store/skills/{name}-report")
}

#[test]
fn changed_locks_of_skills_are_refused() {
    let user = updated_skill_user();
    let text = user.lock();
    let digest = |key: &str, at: usize| lock_value(&text, key, at);
    let [
        [new_manifest, new_content, new_bundle],
        [old_manifest, old_content, old_bundle],
    ] = [0, 1].map(|at| ["manifest", "content", "bundle"].map(|key| digest(key, at)));
    let signer = format!("signer = \"{}\"", digest("signer", 0));
    let bundle = format!("bundle = \"{new_bundle}\"\n");
    let source = user.skill_reference();
    let (entry, previous) = text.split_at(text.find("[[previous]]").unwrap());
    let file_line = |entry: &str, name: &str| -> String {
        let start = format!("\"{name}\" = ");
        let line = entry.lines().find(|line| line.starts_with(&start));
        format!("{}\n", line.unwrap())
    };
    let wrong_line = |name: &str| format!("\"{name}\" = \"sha256:{}\"\n", "0".repeat(64));
    let skill_md = file_line(entry, "SKILL.md");
    let same_py = file_line(entry, "scripts/same.py");
    let unsigned = |user: &User| {
        edit(user, "skillhost.lock", &signer, "unsigned = true");
        edit(user, "skillhost.lock", &bundle, "");
    };
    let in_previous = |from: &str, to: &str| previous.replacen(from, to, 1);
    refuse_all(
        &user,
        vec![
            lock_case(
                &*skill_md,
                wrong_line("SKILL.md"),
                4,
                READ,
                "`report/SKILL.md` has other bytes",
            ),
            lock_case(
                &*same_py,
                wrong_line("scripts/same.py"),
                4,
                FETCH,
                "the skill `report` has other files than the lock file",
            ),
            lock_case(
                &*same_py,
                "",
                4,
                READ,
                "`report/scripts/same.py` is not in the lock file",
            ),
            lock_case(
                &*same_py,
                format!("{same_py}{}", wrong_line("scripts/more.py")),
                4,
                READ,
                "`report/scripts/more.py` is missing",
            ),
            lock_case("\"SKILL.md\"", "\"../SKILL.md\"", 4, READ, "`..`"),
            lock_case(
                &new_content,
                &old_content,
                4,
                READ,
                "the manifest of the skill `report` names other bytes than the lock file",
            ),
            lock_case(
                &new_bundle,
                &old_bundle,
                4,
                READ,
                "it is a signature of another artifact",
            ),
            lock_case(
                &signer,
                "signer = \"key:ab\"",
                1,
                CHECK,
                "names another signer of the skill `report`",
            ),
            case(
                unsigned,
                4,
                READ,
                "the skill `report` is locked as unsigned",
            ),
            lock_case(
                &source,
                source.replace("report:1", "other:1"),
                4,
                READ,
                "the skill `report` is locked from",
            ),
            lock_case(
                "\"1.1.0\"",
                "\"1.0.0\"",
                4,
                READ,
                "another version than the lock file",
            ),
            lock_case(entry, "", 4, READ, "twice, or does not lock the skill"),
            lock_case(
                &text,
                entry.repeat(2),
                4,
                UPDATE,
                "it has the skill `report` twice",
            ),
            lock_case(
                &text,
                "",
                4,
                READ,
                "the skill `report` is not locked; `skillhost update report`",
            ),
            // A rollback copies `[[previous]]` into the lock, so it checks these values first.
            lock_case(
                previous,
                in_previous(&old_manifest, &new_manifest),
                4,
                ROLLBACK_SKILL,
                "cannot roll back `report`: the signature of the skill `report` is not valid",
            ),
            lock_case(
                previous,
                in_previous(&same_py, &wrong_line("scripts/same.py")),
                4,
                ROLLBACK_SKILL,
                "the layer of the skill `report` has other files than the lock file",
            ),
            lock_case(
                previous,
                in_previous("report:1", "evil:1"),
                4,
                ROLLBACK_SKILL,
                "its earlier version is from",
            ),
        ],
    );
    assert_eq!(user.read_skill().code, 0);
}

#[test]
fn lock_file_gives_skill_no_version() {
    let user = User::new();
    user.push_skill(&[("SKILL.md", REPORT)], None);
    user.add_skill();
    user.run_ok(READ);
    edit(
        &user,
        "skillhost.lock",
        "size = ",
        "version = \"2.1\"\nsize = ",
    );
    let error = user.run_err(4, READ);
    let expected = "the manifest of the skill `report` has another version than the lock file";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn changed_files_of_skills_are_refused() {
    let user = updated_skill_user();
    let content = lock_value(&user.lock(), "content", 0);
    let earlier = lock_value(&user.lock(), "content", 1);
    let root = skill_root(&content);
    let within = |path: &str| format!("{root}/{path}");
    let in_writable_root = |change: fn(&User, &str)| {
        let root = root.clone();
        move |user: &User| {
            make_writable(&user.path(&root));
            change(user, &root);
        }
    };
    refuse_all(
        &user,
        vec![
            case(
                in_writable_root(|user, root| {
                    fs::remove_file(user.path(&format!("{root}/report/SKILL.md"))).unwrap();
                    user.program.write(&format!("{root}/report/SKILL.md"), "x");
                }),
                4,
                READ,
                "`report/SKILL.md` has other bytes",
            ),
            case(
                in_writable_root(|user, root| {
                    user.program.write(&format!("{root}/report/more.md"), "x")
                }),
                4,
                READ,
                "`report/more.md` is not in the lock file",
            ),
            case(
                in_writable_root(|user, root| {
                    fs::remove_file(user.path(&format!("{root}/report/scripts/same.py"))).unwrap();
                }),
                4,
                READ,
                "`report/scripts/same.py` is missing",
            ),
            case(
                in_writable_root(|user, root| {
                    // The symlink leads to the right bytes.
                    let file = user.path(&format!("{root}/report/scripts/run.py"));
                    fs::rename(&file, user.path("copy")).unwrap();
                    symlink(user.path("copy"), file).unwrap();
                }),
                4,
                READ,
                "`report/scripts/run.py` is not in the lock file",
            ),
            case(
                in_writable_root(|user, root| {
                    let file = user.path(&format!("{root}/report/SKILL.md"));
                    fs::remove_file(&file).unwrap();
                    fs::create_dir(file).unwrap();
                }),
                4,
                READ,
                "`report/SKILL.md` is not in the lock file",
            ),
            case(
                in_writable_root(|user, root| {
                    let root = user.path(root);
                    fs::rename(root.join("report"), root.join("other")).unwrap();
                }),
                4,
                READ,
                "`other` is not in the lock file",
            ),
            case(
                in_writable_root(|user, root| {
                    fs::rename(user.path(root), user.path("copy")).unwrap();
                    symlink(user.path("copy"), user.path(root)).unwrap();
                }),
                4,
                READ,
                "Not a directory",
            ),
            case(
                |user| {
                    // Each of two versions is in the place of the other.
                    let roots = [&content, &earlier].map(|it| user.path(&skill_root(it)));
                    fs::rename(&roots[0], user.path("copy")).unwrap();
                    fs::rename(&roots[1], &roots[0]).unwrap();
                    fs::rename(user.path("copy"), &roots[1]).unwrap();
                },
                1,
                CHECK,
                "the files of the skill `report` are not those of the lock file",
            ),
            case(
                |user| set_mode(user, "data/skillhost/store/skills", 0o777),
                4,
                READ,
                "/store/skills`",
            ),
            case(
                |user| {
                    let path = user.blob(&content);
                    let mut bytes = fs::read(&path).unwrap();
                    *bytes.last_mut().unwrap() ^= 1;
                    fs::write(path, bytes).unwrap();
                },
                1,
                CHECK,
                "of the store: its bytes have the digest",
            ),
            case(
                |user| fs::remove_file(user.blob(&content)).unwrap(),
                4,
                READ,
                "the skill `report` is not in the store",
            ),
        ],
    );
    // The mode of a file may differ: the host never executes it.
    set_mode(&user, &within("report/scripts/run.py"), 0o555);
    user.run_ok(CHECK);
    assert_eq!(user.read_skill().code, 0);
}

#[test]
fn changed_stores_are_refused() {
    let user = updated_user();
    let text = user.lock();
    let [manifest, content, bundle] =
        ["manifest", "content", "bundle"].map(|key| lock_value(&text, key, 0));
    let blob_error = |digest: &str, why: &str| {
        let path = user.blob(digest);
        format!("cannot use `{}` of the store{why}", path.display())
    };
    let flip = |digest: &str| {
        let digest = digest.to_owned();
        move |user: &User| {
            let path = user.blob(&digest);
            let mut bytes = fs::read(&path).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(path, bytes).unwrap();
        }
    };
    let remove = |digest: &str| {
        let digest = digest.to_owned();
        move |user: &User| fs::remove_file(user.blob(&digest)).unwrap()
    };
    let store = "data/skillhost/store/sha256";
    refuse_all(
        &user,
        vec![
            case(
                flip(&manifest),
                4,
                CALL,
                blob_error(&manifest, ": its bytes"),
            ),
            case(flip(&bundle), 4, CALL, blob_error(&bundle, ": its bytes")),
            case(
                flip(&content),
                1,
                CHECK,
                blob_error(&content, ": its bytes"),
            ),
            case(
                remove(&content),
                4,
                CALL,
                "the component `csv` is not in the store",
            ),
            case(
                |user| fs::write(user.blob(&manifest), vec![b' '; (1 << 20) + 1]).unwrap(),
                4,
                CALL,
                "it is larger than 1048576 bytes",
            ),
            case(
                |user| {
                    // The symlink leads to the right bytes, in the user's folder.
                    fs::rename(user.blob(&manifest), user.path("other")).unwrap();
                    symlink(user.path("other"), user.blob(&manifest)).unwrap();
                },
                4,
                CALL,
                blob_error(&manifest, ": it is a symlink"),
            ),
            case(
                |user| {
                    fs::remove_file(user.blob(&manifest)).unwrap();
                    fs::create_dir(user.blob(&manifest)).unwrap();
                },
                4,
                CALL,
                "not a regular file",
            ),
            case(
                |user| set_mode(user, store, 0o777),
                4,
                CALL,
                "cannot use the store",
            ),
            case(
                |user| set_mode(user, "data/skillhost/store/locks", 0o777),
                4,
                UPDATE,
                "/store/locks`",
            ),
        ],
    );
}

/// Returns a manifest with these layers.
fn manifest(layers: Value) -> Value {
    json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers})
}

/// Makes a layer the only signature of a manifest: lists a referrer with this layer.
fn set_signature(user: &User, subject: &str, layer: &Value) {
    let mut referrer = manifest(json!([layer]));
    referrer["subject"] = json!({"mediaType": MANIFEST, "digest": subject, "size": 1});
    let digest = user.registry.put_manifest("referrer", &referrer);
    let listed = json!({"mediaType": MANIFEST, "digest": digest, "size": 1});
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [listed]});
    let tag = subject.replace(':', "-");
    user.registry.put_manifest(&tag, &index);
}

#[test]
fn changed_registries_are_refused() {
    let user = updated_user();
    let text = user.lock();
    let good = user.registry.manifest("1").unwrap();
    let signature = fs::read(user.blob(&lock_value(&text, "bundle", 0))).unwrap();
    // The cases set the tag `1` to one of these versions.
    let push = |component: &[u8], key: Option<&str>| {
        user.push(component, key);
        user.registry.manifest("1").unwrap()
    };
    let next = push(&versioned_component("1.2.0"), Some("acme"));
    let lower = push(&versioned_component("1.0.0"), Some("acme"));
    let unversioned = push(&crate::needs::count_lines(), Some("acme"));
    let incomparable = push(&versioned_component("main"), Some("acme"));
    let power = push(
        &with_section(versioned_component("1.2.0"), &needs()),
        Some("acme"),
    );
    let foreign = push(&versioned_component("1.2.1"), Some("evil"));
    let unsigned = push(&versioned_component("1.2.2"), None);
    let tag = |manifest: &Value| {
        let manifest = manifest.clone();
        move |user: &User| drop(user.registry.put_manifest("1", &manifest))
    };
    let changed = |pointer: &str, value: Value| {
        let mut manifest = next.clone();
        *manifest.pointer_mut(pointer).unwrap() = value;
        tag(&manifest)
    };
    let layer = next["layers"][0].clone();
    let layers = |layers: Value| tag(&manifest(layers));
    // Sets the tag to `next`, and answers a request with these bytes if its first line contains
    // `request_part`.
    let replace_answer = |request_part: String, answer_bytes: Vec<u8>| {
        let set_tag = tag(&next);
        move |user: &User| {
            set_tag(user);
            let (request_part, answer_bytes) = (request_part.clone(), answer_bytes.clone());
            let change = move |head: &str| {
                let line = head.lines().next().unwrap();
                line.contains(&request_part)
                    .then(|| Answer::Raw(answer_bytes.clone()))
            };
            user.registry.replace_answers(change);
        }
    };
    let blob_request = format!("/blobs/{}", layer["digest"].as_str().unwrap());
    let with_signature = |media_type: &'static str, bytes: Vec<u8>| {
        let unsigned = manifest(json!([layer]));
        move |user: &User| {
            let digest = user.registry.put_manifest("1", &unsigned);
            let layer = user.registry.put_blob(media_type, &bytes);
            set_signature(user, &digest, &layer);
        }
    };
    let other_type = String::from_utf8(signature.clone()).unwrap();
    let other_type = other_type.replace(BUNDLE, "text/plain").into_bytes();
    let two_signatures = {
        let mut bundle: Value = serde_json::from_slice(&signature).unwrap();
        let signatures = bundle["dsseEnvelope"]["signatures"].as_array_mut().unwrap();
        signatures.push(signatures[0].clone());
        bundle.to_string().into_bytes()
    };
    let no_envelope = json!({"mediaType": BUNDLE}).to_string().into_bytes();
    let entry = |architecture: &str| {
        json!({"mediaType": MANIFEST, "digest": lock_value(&text, "manifest", 0), "size": 1,
            "platform": {"architecture": architecture, "os": "any"}})
    };
    let index = |manifests: Value| {
        tag(&json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}))
    };
    let size = layer["size"].as_u64().unwrap();
    let longer = |size: u64| changed("/layers/0/size", size.into());
    let manifest_answer = |media_type: &str, digest: &str| {
        let headers = [
            ("content-type", media_type),
            ("docker-content-digest", digest),
        ];
        answer("200 OK", &headers, next.to_string().as_bytes())
    };
    let next_digest = format!("sha256:{}", sha256_hex(next.to_string().as_bytes()));
    let manifest_request = || "/manifests/1 ".to_owned();
    refuse_all(
        &user,
        vec![
            case(layers(json!([])), 4, UPDATE, "the package has 0 layers"),
            case(
                layers(json!([layer, layer])),
                4,
                UPDATE,
                "the package has 2 layers",
            ),
            case(
                changed("/layers/0/mediaType", json!("text/x")),
                4,
                UPDATE,
                "`text/x`, not a",
            ),
            case(longer(1 << 40), 4, UPDATE, "more than 67108864"),
            case(
                changed("/schemaVersion", json!(1)),
                4,
                UPDATE,
                "the schema version 1",
            ),
            case(
                changed("/mediaType", json!("text/y")),
                4,
                UPDATE,
                "`text/y` is not a kind",
            ),
            case(
                changed("/layers/0/digest", json!("sha256:../x")),
                4,
                UPDATE,
                "the manifest is invalid: expected a digest",
            ),
            case(
                changed(
                    "/annotations/org.opencontainers.image.version",
                    json!("1".repeat(129)),
                ),
                4,
                UPDATE,
                "the version of the package has 129 bytes",
            ),
            case(
                index(json!([entry("amd64")])),
                4,
                UPDATE,
                "no manifest for the architecture",
            ),
            case(
                index(json!([entry("wasm"), entry("wasm")])),
                4,
                UPDATE,
                "lists several manifests",
            ),
            case(
                replace_answer(manifest_request(), answer("404 X", &[], b"")),
                4,
                UPDATE,
                "no version `1`",
            ),
            case(
                replace_answer(manifest_request(), manifest_answer(INDEX, &next_digest)),
                4,
                UPDATE,
                "but the registry says that it is",
            ),
            case(
                replace_answer(manifest_request(), manifest_answer(MANIFEST, "sha256:0")),
                4,
                UPDATE,
                "says that the manifest has the digest `sha256:0`",
            ),
            case(
                replace_answer(
                    manifest_request(),
                    answer("200 OK", &[], &[b' '; (1 << 20) + 1]),
                ),
                4,
                UPDATE,
                "larger than 1048576 bytes",
            ),
            case(
                replace_answer(
                    blob_request.clone(),
                    answer("200 OK", &[], &vec![b'x'; size as usize]),
                ),
                4,
                UPDATE,
                "its bytes have the digest",
            ),
            case(
                replace_answer(blob_request.clone(), answer("200 OK", &[], b"x")),
                4,
                UPDATE,
                "it has 1 bytes, but its manifest declares",
            ),
            case(
                tag(&unsigned),
                4,
                UPDATE,
                "it is unsigned, but a rule in `[trust]`",
            ),
            case(tag(&foreign), 4, UPDATE, "it is not signed by the key"),
            case(
                with_signature(BUNDLE, signature.clone()),
                4,
                UPDATE,
                "it is a signature of another artifact",
            ),
            case(
                with_signature(BUNDLE, b"{".to_vec()),
                4,
                UPDATE,
                "the bundle is invalid",
            ),
            case(
                with_signature(BUNDLE, other_type),
                4,
                UPDATE,
                "an unknown media type",
            ),
            case(
                with_signature(BUNDLE, no_envelope),
                4,
                UPDATE,
                "has no DSSE envelope",
            ),
            case(
                with_signature(BUNDLE, two_signatures),
                4,
                UPDATE,
                "2 signatures instead of one",
            ),
            case(
                with_signature(BUNDLE, vec![b' '; (256 << 10) + 1]),
                4,
                UPDATE,
                "a signature has 262145 bytes",
            ),
            case(
                tag(&lower),
                1,
                UPDATE,
                "its version `1.0.0` is lower than `1.1.0`",
            ),
            case(
                tag(&unversioned),
                1,
                UPDATE,
                "it has no version, but the locked package has",
            ),
            case(
                tag(&incomparable),
                1,
                UPDATE,
                "its version `main` cannot be compared",
            ),
            case(tag(&power), 1, UPDATE, "it asks for a new power"),
            case(
                |user| {
                    edit(user, "skillhost.toml", "acme.pub", "evil.pub");
                    user.registry.put_manifest("1", &foreign);
                },
                1,
                UPDATE,
                "no signer of `[trust]` is known to have signed the locked version; `--accept-signer`",
            ),
        ],
    );
    user.registry.put_manifest("1", &good);
    assert_eq!(user.run_ok(UPDATE), "csv is up to date\n");
}

#[test]
fn changed_configurations_are_refused() {
    let user = updated_user();
    let text = user.lock();
    let other = "0".repeat(64);
    let key = "keys = [\"acme.pub\"]";
    let prefix = format!("oci://{}/acme/", user.registry.authority);
    let config = |from: &str, to: &str| {
        let (from, to) = (from.to_owned(), to.to_owned());
        move |user: &User| edit(user, "skillhost.toml", &from, &to)
    };
    let append = |text: String| move |user: &User| user.append(&text);
    let deny = |digest: &str, why: &str| append(format!("[deny]\n\"{digest}\" = \"{why}\"\n"));
    let [manifest, content] = ["manifest", "content"].map(|key| lock_value(&text, key, 0));
    let by_digest = |user: &User| {
        for file in ["skillhost.toml", "skillhost.lock"] {
            edit(
                user,
                file,
                "acme/csv:1",
                &format!("acme/csv@sha256:{other}"),
            );
        }
    };
    let previous_by_digest = |user: &User| {
        let at = format!("acme/csv@sha256:{other}");
        edit(user, "skillhost.toml", "acme/csv:1", &at);
        let lock = user.lock().replace("acme/csv:1", &at);
        user.program.write("skillhost.lock", lock);
    };
    let refused = |digest: &str, why: &str| format!("`[deny]` refuses {digest}{why}");
    refuse_all(
        &user,
        vec![
            case(
                config("acme.pub", "evil.pub"),
                4,
                CALL,
                "it is not signed by the key",
            ),
            case(
                config("acme.pub", "missing.pub"),
                4,
                CALL,
                "cannot use the public key `missing.pub`",
            ),
            case(
                config("acme.pub", "acme.key"),
                4,
                CALL,
                "it is a private key",
            ),
            case(config(key, "keys = []"), 4, CALL, "`keys` is empty"),
            case(config(key, "key = []"), 4, CALL, "unknown key"),
            case(
                config("/acme/*", "/*/csv"),
                4,
                CALL,
                "is not a pattern such as",
            ),
            case(
                config(
                    "skills = ",
                    &format!("pins = {{\"csv.wasm\" = \"{other}\"}}\nskills = "),
                ),
                4,
                CALL,
                "and the lock file has",
            ),
            case(
                |user| {
                    edit(user, "skillhost.toml", &prefix, "oci://registry.example/");
                    edit(
                        user,
                        "skillhost.toml",
                        "skills",
                        "require_signatures = true\nskills",
                    );
                },
                4,
                CALL,
                "has no rule in `[trust]`",
            ),
            case(
                config("/csv:1", "/csv:2"),
                4,
                CALL,
                "`skillhost update csv` locks it from",
            ),
            case(
                config("/csv:1", "/../csv:1"),
                4,
                CALL,
                "is not a reference such as",
            ),
            case(
                config("components.csv", "components.Csv"),
                4,
                CALL,
                "the name `Csv` must",
            ),
            case(by_digest, 4, CALL, "names a manifest other than"),
            case(
                previous_by_digest,
                4,
                ROLLBACK,
                "cannot roll back `csv`: `oci://",
            ),
            case(
                deny(&manifest, "it leaks"),
                4,
                CALL,
                refused(&manifest, ": it leaks"),
            ),
            case(deny(&content, ""), 1, CHECK, refused(&content, "\n")),
            case(
                deny("sha256:x", ""),
                4,
                CALL,
                "expected a digest: `sha256:`",
            ),
            case(
                |user| set_mode(user, "acme.pub", 0o666),
                4,
                CALL,
                "cannot use the public key `acme.pub`",
            ),
            case(
                |user| set_mode(user, "skillhost.toml", 0o666),
                4,
                CALL,
                "cannot use the configuration `skillhost.toml`",
            ),
            case(
                |user| {
                    fs::remove_file(user.path("acme.pub")).unwrap();
                    let mode = Mode::from_raw_mode(0o644);
                    mknodat(CWD, user.path("acme.pub"), FileType::Fifo, mode, 0).unwrap();
                },
                4,
                CALL,
                "acme.pub`: it is not a regular file",
            ),
        ],
    );
}

#[test]
fn fetch_replaces_symlinked_blob_and_keeps_target() {
    let user = updated_user();
    let blob = user.blob(&lock_value(&user.lock(), "manifest", 0));
    user.program.write("target", "somebody's file");
    fs::remove_file(&blob).unwrap();
    symlink(user.path("target"), &blob).unwrap();
    assert_eq!(user.run_ok(FETCH), "csv: fetched\n");
    assert!(!blob.is_symlink());
    let target = fs::read_to_string(user.path("target")).unwrap();
    assert_eq!(target, "somebody's file");
    assert_eq!(user.call().code, 0);
}
