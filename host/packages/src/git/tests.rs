//! Fetches from git repositories, well-behaved and hostile.

use std::io::Write as _;
use std::time::{Duration, Instant};

use super::{GitFiles, GitSource};
use crate::client::RegistrySettings;
use crate::skill_files::{MAX_BYTES, MAX_FILES};
use git_server::GitServer;

#[path = "../../../../tests/support/git_server.rs"]
mod git_server;

const SKILL: &str = "---\nname: reports\ndescription: d\n---\n";

fn fetch(server: &GitServer, rest: &str) -> anyhow::Result<GitFiles> {
    let source: GitSource = server.source(rest).parse()?;
    fetch_with(&source, &RegistrySettings::default())
}

fn fetch_with(source: &GitSource, settings: &RegistrySettings) -> anyhow::Result<GitFiles> {
    source.fetch(settings, tempfile::tempdir().unwrap())
}

#[track_caller]
fn error(server: &GitServer, rest: &str) -> String {
    format!("{:#}", fetch(server, rest).unwrap_err())
}

/// Returns a server with a skill in the folder `skills/reports`, and its commit.
fn with_skill() -> (GitServer, String) {
    let server = GitServer::start();
    server.write("skills/reports/SKILL.md", SKILL);
    server.write("skills/reports/scripts/run.sh", "echo 1\n");
    server.write("skills/reports/copy.sh", "echo 1\n");
    server.write("README.md", "other");
    let commit = server.commit();
    (server, commit)
}

#[test]
fn parses_only_unambiguous_addresses() {
    for text in [
        "git+https://git.example/acme/skills",
        "git+https://git.example/~acme/skills.git@v1.2#a/b c",
        "git+https://git.example:8443/x@0123456789abcdef0123456789abcdef01234567",
        "git+https://git.example/x@acme/branch",
        "git+https://git.example/x@acme@1.0.0",
        "git+http://localhost:8000/x",
    ] {
        let source: GitSource = text.parse().unwrap();
        assert_eq!(source.to_string(), text);
    }
    for text in [
        "https://git.example/x",
        "git+ssh://git.example/x",
        "git+file:///srv/x",
        "git+ext::sh",
        "git+https://-oProxyCommand=x/x",
        "git+http://git.example/x",
        "git+https://user@git.example/x",
        "git+https://user:word@git.example/x",
        "git+https://git.example",
        "git+https://git.example/",
        "git+https://git.example/../x",
        "git+https://git.example//x",
        "git+https://git.example/x?service=y",
        "git+https://git.example/x%2f",
        "git+https://git.example/x@",
        "git+https://git.example/x@--upload-pack=touch",
        "git+https://git.example/x@+main",
        "git+https://git.example/x@main:refs/heads/x",
        "git+https://git.example/x@refs/heads/*",
        "git+https://git.example/x@a..b",
        "git+https://git.example/x@main^{tree}",
        "git+https://git.example/x@@{u}",
        "git+https://git.example/x@a\nb",
        "git+https://git.example/x#../y",
        "git+https://git.example/x#/y",
        "git+https://git.example/x#a//b",
        "git+https://git.example/x#a\u{1b}[2J",
    ] {
        assert!(text.parse::<GitSource>().is_err(), "{text}");
    }
    for (text, name) in [
        ("git+https://git.example/acme/skills.git", "skills"),
        (
            "git+https://git.example/acme/skills@v1#a/reports",
            "reports",
        ),
    ] {
        assert_eq!(text.parse::<GitSource>().unwrap().last_name(), name);
    }
}

#[test]
fn fetches_folder_at_branch_tag_and_commit() {
    let (server, first) = with_skill();
    server.git(&["tag", "--annotate", "--message=x", "v1"]);
    server.write("skills/reports/SKILL.md", "other");
    let second = server.commit();
    // A server without filters sends everything.
    for filters in ["true", "false"] {
        server.git(&["config", "uploadpack.allowFilter", filters]);
        for (version, commit) in [
            ("", &second),
            ("@main", &second),
            ("@v1", &first),
            (&format!("@{first}"), &first),
        ] {
            let found = fetch(&server, &format!("{version}#skills/reports")).unwrap();
            assert_eq!(found.commit, *commit, "{version}");
            let files: Vec<_> = found.files.iter().map(|(path, _)| path).collect();
            assert_eq!(files, ["SKILL.md", "copy.sh", "scripts/run.sh"]);
            let text = if *commit == first { SKILL } else { "other" };
            assert_eq!(found.files.skill_md().1, text.as_bytes(), "{version}");
            assert_eq!(found.files.get("copy.sh").unwrap(), b"echo 1\n");
        }
    }
    let tag = server.git(&["rev-parse", "v1"]);
    for (rest, why) in [
        ("", "it has no SKILL.md"),
        ("@v2", "couldn't find remote ref v2"),
        ("#skills/other", "has no folder `skills/other`"),
        ("#README.md", "`git ls-tree` failed"),
        (
            &format!("@{tag}#skills/reports"),
            "the version is the id of a tag",
        ),
        (&format!("@{}", "1".repeat(40)), "`git fetch` failed"),
    ] {
        let error = error(&server, rest);
        assert!(error.contains(why), "{rest}: {error}");
    }
}

#[test]
fn fetches_no_file_outside_the_folder() {
    let server = GitServer::start();
    let id = server.blob(SKILL.as_bytes());
    let tree = server.git_with(
        &["mktree"],
        format!("100644 blob {id}\tSKILL.md\n").as_bytes(),
    );
    // The server lacks the file beside the folder.
    let missing = "1".repeat(40);
    server.commit_tree(&format!(
        "100644 blob {missing}\tlarge.bin\n040000 tree {tree}\treports\n"
    ));
    let found = fetch(&server, "#reports").unwrap();
    assert_eq!(found.files.skill_md(), ("SKILL.md", SKILL.as_bytes()));
    assert!(error(&server, "").contains("`git fetch` failed"));
}

#[test]
fn refuses_anything_but_files() {
    let server = GitServer::start();
    let id = server.blob(SKILL.as_bytes());
    let link = server.blob(b"/etc/passwd");
    let commit = "1".repeat(40);
    let skill = format!("100644 blob {id}\tSKILL.md\n");
    for (entry, why) in [
        (format!("120000 blob {link}\tx"), "`x` is a symlink"),
        (format!("160000 commit {commit}\tx"), "`x` is a submodule"),
        (format!("100644 blob {id}\t.git"), "contains '.git'"),
        (format!("100644 blob {id}\t.."), "contains '..'"),
        (
            format!("120000 blob {link}\t.gitmodules"),
            "is a symbolic link",
        ),
        (format!("100644 blob {id}\tskill.md"), "differ only by case"),
        (format!("100644 blob {id}\ta\\b"), "has a backslash"),
        (format!("100644 blob {id}\t\"\\033[2J\""), "is not visible"),
        (format!("100644 blob {id}\t\"\\377\""), "is not UTF-8"),
    ] {
        server.commit_tree(&format!("{skill}{entry}\n"));
        let error = error(&server, "");
        assert!(error.contains(why), "{entry}: {error}");
        assert!(
            !error.contains('\u{1b}') && !error.contains('\n'),
            "{error}"
        );
    }
}

#[test]
fn bounds_number_and_size_of_files() {
    let server = GitServer::start();
    let id = server.blob(b"");
    let many: String = (0..=MAX_FILES)
        .map(|n| format!("100644 blob {id}\t{n}\n"))
        .collect();
    server.commit_tree(&many);
    assert!(error(&server, "").contains("more than 4096 files"));
    let large = server.blob(&vec![0; usize::try_from(MAX_BYTES).unwrap() + 1000]);
    server.commit_tree(&format!("100644 blob {large}\tSKILL.md\n"));
    let larger = error(&server, "");
    assert!(
        larger.contains("`git cat-file` wrote more than"),
        "{larger}"
    );
    // Ten trees, each of which contains the next one ten times.
    let mut entries = format!("100644 blob {id}\tx\n");
    for _ in 0..10 {
        let tree = server.git_with(&["mktree"], entries.as_bytes());
        entries = (0..10)
            .map(|n| format!("040000 tree {tree}\t{n}\n"))
            .collect();
    }
    server.commit_tree(&entries);
    let endless = error(&server, "");
    assert!(
        endless.contains("`git ls-tree` wrote more than"),
        "{endless}"
    );
}

/// Writes the start of the response to a request for a pack.
fn begin_pack(stream: &mut std::net::TcpStream, commit: &str) -> std::io::Result<()> {
    let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let shallow = line(&format!("shallow {commit}"));
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\
         Content-Type: application/x-git-upload-pack-result\r\n\r\n{}{shallow}0001{}",
        line("shallow-info\n"),
        line("packfile\n"),
    )
}

#[test]
fn bounds_size_and_time_of_repositories() {
    let (server, commit) = with_skill();
    let begin = Instant::now();
    let source: GitSource = server.source("").parse().unwrap();
    // One file that claims to have half a terabyte, and never ends.
    let id = commit.clone();
    server.replace_answers(move |request, stream| {
        if !request.contains("command=fetch") {
            // Git answers this request.
            return false;
        }
        let head = [
            &b"PACK\0\0\0\x02\0\0\0\x01"[..],
            b"\xb0\x80\x80\x80\x80\x80\x01",
            b"\x78\x01",
        ];
        let mut packet = b"fff0\x01".to_vec();
        packet.extend_from_slice(&head.concat());
        let block = [&b"\0\xff\xff\0\0"[..], &[7; 65535]].concat();
        let mut blocks = block.iter().copied().cycle();
        let mut write = || {
            begin_pack(stream, &id)?;
            loop {
                packet.extend(blocks.by_ref().take(0xfff0 - packet.len()));
                stream.write_all(&packet)?;
                packet.truncate(5);
            }
        };
        let ended: std::io::Result<()> = write();
        ended.is_err()
    });
    let error = format!(
        "{:#}",
        fetch_with(&source, &RegistrySettings::default()).unwrap_err()
    );
    assert!(
        error.contains("the repository has more than 256 MiB"),
        "{error}"
    );
    // The server sends the start of the response, and then nothing more.
    server.replace_answers(move |request, stream| {
        let is_pack = request.contains("command=fetch");
        if is_pack && begin_pack(stream, &commit).is_ok() {
            // Ends when the client leaves.
            let _ = std::io::copy(stream, &mut std::io::sink());
        }
        is_pack
    });
    let settings = RegistrySettings {
        request_time: Some(Duration::from_secs(2)),
        ..RegistrySettings::default()
    };
    let error = format!("{:#}", fetch_with(&source, &settings).unwrap_err());
    assert!(error.contains("`git fetch` took longer than"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn follows_no_redirect_and_sends_no_credentials() {
    let (server, _) = with_skill();
    let (other, _) = with_skill();
    let target = other.source("").replace("git+", "");
    server.replace_answers(move |_, stream| {
        let location = format!("{target}/info/refs?service=git-upload-pack");
        let answer = format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\n\r\n");
        stream.write_all(answer.as_bytes()).is_ok()
    });
    assert!(error(&server, "").contains("`git fetch` failed"));
    let heads = other.request_heads();
    assert!(heads.is_empty(), "{heads:?}");
    server.replace_answers(|_, stream| {
        let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\n\
                      Content-Length: 0\r\n\r\n";
        stream.write_all(answer.as_bytes()).is_ok()
    });
    let refused = error(&server, "");
    assert!(refused.contains("could not read Username"), "{refused}");
    let heads = server.request_heads().join("").to_ascii_lowercase();
    assert!(!heads.contains("authorization"), "{heads}");
}
