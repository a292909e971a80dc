//! Reads of files and folders, and their refusals.

use std::fs;

use skillhost::{Contents, Limits, ResourceError, SKILL_RESOURCES};

use super::{MIB, manifest, names, paths, read, resources};
use crate::support::folders::{CANARY, Folders};
use crate::support::{block_on, build, builder};

#[test]
fn reads_every_byte_of_file_unchanged() {
    let folders = Folders::new();
    let all: Vec<u8> = (0..=255).collect();
    let text = |text: &str| Contents::Text(text.to_owned());
    let cases = [
        ("SKILL.md", "# A\n".as_bytes(), text("# A\n")),
        ("empty", b"", text("")),
        ("bom.txt", "\u{feff}x\r\n".as_bytes(), text("\u{feff}x\r\n")),
        ("nul.txt", b"a\0b", text("a\0b")),
        ("docs/deep/er/städte.md", "ä".as_bytes(), text("ä")),
        ("a b%20+&=.txt", b"x", text("x")),
        ("all.bin", &all, Contents::Binary(all.clone())),
        ("latin1.txt", b"\xe4", Contents::Binary(vec![0xe4])),
        ("cut.txt", b"\xc3", Contents::Binary(vec![0xc3])),
    ];
    for (path, bytes, _) in &cases {
        folders.write(&format!("a/{path}"), bytes);
    }
    let resources = resources(&folders);
    for (path, bytes, contents) in cases {
        let outcome = read(&resources, path);
        assert_eq!(outcome, Ok(contents.clone()), "{path}");
        assert_eq!(contents.into_bytes(), bytes, "{path}");
    }
}

#[test]
fn directory_lists_its_own_entries_only() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("a/docs/b.md", "x");
    folders.write("a/docs/a.md", "x");
    folders.write("a/docs/deep/c.md", "x");
    fs::create_dir(folders.root.join("a/empty")).unwrap();
    let resources = resources(&folders);
    assert_eq!(names(&resources, None), ["SKILL.md", "docs/", "empty/"]);
    let docs = ["a.md", "b.md", "deep/"];
    assert_eq!(names(&resources, Some("docs")), docs);
    assert_eq!(names(&resources, Some("docs/deep")), ["c.md"]);
    assert_eq!(names(&resources, Some("empty")), [] as [&str; 0]);
    let directory = |path| block_on(resources.directory("a", Some(path)));
    assert_eq!(directory("SKILL.md"), Err(ResourceError::NotADirectory));
    assert_eq!(directory("SKILL.md/x"), Err(ResourceError::NotFound));
    assert_eq!(directory("none"), Err(ResourceError::NotFound));
    assert_eq!(directory(".."), Err(ResourceError::Outside));
    assert_eq!(directory("docs/../.."), Err(ResourceError::Outside));
}

#[test]
fn no_path_reads_outside_the_skill() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("b/SKILL.md", CANARY);
    let resources = resources(&folders);
    let absolute = folders.outside.join("canary.txt");
    for path in [
        "..",
        "../b/SKILL.md",
        "docs/../../b/SKILL.md",
        "..\\b\\SKILL.md",
        "/etc/passwd",
        "C:/x",
        "\0",
        "",
        absolute.to_str().unwrap(),
    ] {
        assert_eq!(
            read(&resources, path),
            Err(ResourceError::Outside),
            "{path}"
        );
    }
    for skill in [
        "",
        ".",
        "..",
        "../skills/b",
        "a/..",
        "b/../b",
        "A",
        "none",
        "a\0",
    ] {
        let outcome = block_on(resources.read(skill, "SKILL.md"));
        assert_eq!(outcome, Err(ResourceError::UnknownSkill), "{skill}");
    }
}

#[test]
fn reads_files_up_to_answer_limit() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "x");
    folders.write("a/text", vec![b'x'; 16 * MIB]);
    folders.write("a/binary", vec![0xff; 16 * MIB]);
    folders.write("a/more", vec![b'x'; 16 * MIB + 1]);
    folders.write("a/huge", "");
    let huge = fs::File::options()
        .write(true)
        .open(folders.root.join("a/huge"));
    huge.unwrap().set_len(1 << 40).unwrap();
    let resources = resources(&folders);
    assert_eq!(read(&resources, "text").unwrap().len(), 16 * MIB);
    let binary = read(&resources, "binary").unwrap();
    assert!(matches!(&binary, Contents::Binary(bytes) if bytes.len() == 16 * MIB));
    for path in ["more", "huge"] {
        let too_large = Err(ResourceError::TooLarge(16 * MIB));
        assert_eq!(read(&resources, path), too_large, "{path}");
    }

    let mut limits = Limits::default();
    limits.output = 1000;
    let host = build(builder().skills(&folders.root).limits(limits));
    folders.write("a/text", vec![b'x'; 1000]);
    folders.write("a/binary", vec![0xff; 1000]);
    folders.write("a/more", vec![0xff; 1001]);
    let resources = host.skill_resources().unwrap();
    assert_eq!(read(&resources, "text").unwrap().len(), 1000);
    assert_eq!(read(&resources, "binary").unwrap().len(), 1000);
    assert_eq!(read(&resources, "more"), Err(ResourceError::TooLarge(1000)));
    let grant = host.grants().pop().unwrap();
    assert_eq!((&*grant.tool, grant.limits.output), (SKILL_RESOURCES, 1000));
}

#[test]
fn each_call_sees_the_current_files() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "one");
    let resources = resources(&folders);
    let before = manifest(&resources);
    assert_eq!(resources.skills(), ["a"]);
    folders.write("a/SKILL.md", "two");
    folders.write("a/new", "x");
    folders.write("b/SKILL.md", "b");
    let after = manifest(&resources);
    assert_ne!(before.files[0].sha256, after.files[0].sha256);
    assert_eq!(after.skill_md.as_deref(), Some("two"));
    assert_eq!(paths(&after), ["SKILL.md", "new"]);
    assert_eq!(resources.skills(), ["a", "b"]);
    fs::remove_dir_all(folders.root.join("a")).unwrap();
    assert_eq!(
        block_on(resources.manifest("a")),
        Err(ResourceError::UnknownSkill)
    );
    assert_eq!(resources.skills(), ["b"]);
}
