//! Kubernetes volumes: the files are in a folder `..2026_…`. The symlink `..data` leads to that
//! folder, and the other symlinks lead through `..data` to the files.

use super::*;

const READ: &str = "read_file_in_skill";

/// Makes the next generation of a volume's files, as Kubernetes does, and removes the previous one.
fn update(volume: &Path, number: u32, files: &[(&str, &str)]) {
    let name = format!("..2026_01_31_12_00_00.{number}");
    let generation = volume.join(&name);
    for (path, text) in files {
        let file = generation.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let before = fs::read_link(volume.join("..data"));
    symlink(&name, volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    for (path, _) in files {
        let first = path.split('/').next().unwrap();
        // Fails if an earlier generation made the symlink.
        let _ = symlink(format!("..data/{first}"), volume.join(first));
    }
    if let Ok(before) = before {
        fs::remove_dir_all(volume.join(before)).unwrap();
    }
}

fn root(folders: &Folders, depth: usize) -> SkillsRoot {
    SkillsRoot {
        depth,
        ..SkillsRoot::new(&folders.root)
    }
}

#[test]
fn volume_root_lists_each_skill_once() {
    let folders = Folders::new();
    let files = [("a/SKILL.md", "# A\n"), ("b/SKILL.md", "# B\n")];
    update(&folders.root, 1, &files);
    for (depth, follow_links) in [(1, false), (1, true), (3, false), (3, true)] {
        let root = SkillsRoot {
            follow_links,
            ..root(&folders, depth)
        };
        let host = build(builder().skills_root(root));
        assert_eq!(host.catalog().names(), ["a", "b"], "{depth}");
        assert_eq!(host.catalog().problems(), [""; 0], "{depth}");
        let text = model_text(&host, "read_skill", json!({"skill_name": "a"}));
        assert_eq!(text, "# A\n");
    }
    let folders = Folders::new();
    update(&folders.root, 1, &[("author/deep/SKILL.md", "# Deep\n")]);
    let host = build(builder().skills_root(root(&folders, 2)));
    let text = model_text(&host, "read_skill", json!({"skill_name": "deep"}));
    assert_eq!(text, "# Deep\n");
}

#[test]
fn sees_update_of_volume_at_once() {
    let folders = Folders::new();
    let skill = folders.root.join("own");
    fs::create_dir(&skill).unwrap();
    update(&folders.root, 1, &[("a/SKILL.md", "# One\n")]);
    update(&skill, 1, &[("SKILL.md", "# One\n")]);
    let host = build(builder().skills_root(root(&folders, 1)));
    let text = |name: &str| model_text(&host, "read_skill", json!({"skill_name": name}));
    assert_eq!((&*text("a"), &*text("own")), ("# One\n", "# One\n"));
    let files = [("a/SKILL.md", "# Two\n"), ("b/SKILL.md", "# B\n")];
    update(&folders.root, 2, &files);
    update(&skill, 2, &[("SKILL.md", "# Two\n")]);
    assert_eq!((&*text("a"), &*text("own")), ("# Two\n", "# Two\n"));
    assert_eq!(host.catalog().names(), ["a", "b", "own"]);
}

#[test]
fn server_notices_update_of_volume() {
    const CHANGED: &str = "notifications/resources/list_changed";
    let program = Program::new();
    let root = program.folder.path().join("skills");
    let inner = root.join("own");
    fs::create_dir_all(&inner).unwrap();
    update(&root, 1, &[("a/SKILL.md", "# One\n")]);
    update(&inner, 1, &[("SKILL.md", "# One\n")]);
    let mut client = Client::start(program.folder.path(), &[], "2025-11-25");
    client.wait_for_components();
    client.request("tools/list", json!({}));
    for (volume, path, name) in [(&root, "a/SKILL.md", "a"), (&inner, "SKILL.md", "own")] {
        update(volume, 2, &[(path, "# Two\n")]);
        client.message_with_method(CHANGED);
        let read = client.call("read_skill", json!({"skill_name": name}));
        assert!(read.to_string().contains("# Two"), "{read}");
        while client.unclaimed_count(CHANGED) > 0 {
            client.message_with_method(CHANGED);
        }
    }
}

#[test]
fn links_of_a_volume_do_not_lead_out() {
    let folders = Folders::new();
    let outside = folders.outside.join("secret");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("SKILL.md"), CANARY).unwrap();
    update(&folders.root, 1, &[("a/SKILL.md", "# A\n")]);
    let at = |path: &str| folders.root.join(path);
    symlink(&outside, at("..data/b")).unwrap();
    for (name, target) in [
        ("b", "..data/b"),
        ("c", "..data/a"),
        ("d", "..data/../../outside/secret"),
        ("secret", "../outside/secret"),
    ] {
        symlink(target, at(name)).unwrap();
    }
    for depth in [1, 3] {
        let host = build(builder().skills_root(root(&folders, depth)));
        for name in ["b", "c", "d", "secret"] {
            let read = call(&host, "read_skill", json!({"skill_name": name}));
            assert!(read.is_err(), "{depth} {name}");
        }
    }
    // `..data` itself leads out.
    fs::remove_file(at("..data")).unwrap();
    symlink("../outside", at("..data")).unwrap();
    symlink("..data/secret", at("..secret")).unwrap();
    fs::remove_file(at("secret")).unwrap();
    symlink("..data/secret", at("secret")).unwrap();
    let host = build(builder().skills_root(root(&folders, 1)));
    assert_eq!(host.catalog().names(), [""; 0]);
    assert!(call(&host, "read_skill", json!({"skill_name": "secret"})).is_err());
}

#[test]
fn lists_files_of_volume_once() {
    let folders = Folders::new();
    let skill = folders.root.join("a");
    fs::create_dir(&skill).unwrap();
    update(
        &skill,
        1,
        &[
            ("SKILL.md", "# A\n"),
            ("docs/x.md", "x"),
            ("docs/y/z.md", ""),
        ],
    );
    symlink("../../outside/canary.txt", skill.join("out")).unwrap();
    let host = build(builder().skills(&folders.root));
    let resources = host.skill_resources().unwrap();
    let manifest = block_on(resources.manifest("a")).unwrap();
    let paths: Vec<_> = manifest.files.iter().map(|file| &*file.path).collect();
    assert_eq!(paths, ["SKILL.md", "docs/x.md", "docs/y/z.md"]);
    assert_eq!(manifest.left_out[0].reason, "outside");
    let text = model_text(&host, "list_files_in_skill", json!({"skill_name": "a"}));
    assert!(!text.contains(".."), "{text}");
    let arguments = json!({"skill_name": "a", "file_path": "..data/docs/x.md"});
    assert_eq!(model_text(&host, READ, arguments), "x");
    // If a folder is not a volume, lists contain its names that start with `..`.
    folders.write("b/SKILL.md", "# B\n");
    folders.write("b/..notes", "");
    let manifest = block_on(resources.manifest("b")).unwrap();
    assert_eq!(manifest.files[0].path, "..notes");
}

#[test]
fn check_reports_unlisted_files_of_volume() {
    let folders = Folders::new();
    let skill = folders.root.join("a");
    fs::create_dir(&skill).unwrap();
    update(&skill, 1, &[("SKILL.md", "# A\n"), ("x.md", "x")]);
    folders.write("a/..data/unlinked.md", "x");
    folders.write("a/..2026_01_31_12_00_00.7/old.md", "x");
    folders.write("a/..payload/inner/SKILL.md", "x");
    for (target, link) in [("..data", "dd"), ("..data/x.md", "again.md")] {
        symlink(target, skill.join(link)).unwrap();
    }
    let host = build(builder().skills(&folders.root));
    let resources = host.skill_resources().unwrap();
    let manifest = block_on(resources.manifest("a")).unwrap();
    let paths: Vec<_> = manifest.files.iter().map(|file| &*file.path).collect();
    assert_eq!(paths, ["..payload/inner/SKILL.md", "SKILL.md", "x.md"]);
    let findings = skillhost::check::check_folder(&skill).unwrap();
    let message = |rule: &str| {
        let mut findings = findings.iter().filter(|finding| finding.rule == rule);
        findings.next().map(|finding| &*finding.message).unwrap()
    };
    let omitted = message("omitted-files");
    for part in [
        "..2026_01_31_12_00_00.",
        " and 1 more: 2 files with 2 bytes in total",
    ] {
        assert!(omitted.contains(part), "{omitted}");
    }
    let nested = message("nested-skill");
    assert!(nested.contains("..payload/inner/SKILL.md"), "{nested}");
}

#[test]
fn finds_files_while_volumes_are_updated() {
    let folders = Folders::new();
    let skill = folders.root.join("own");
    fs::create_dir(&skill).unwrap();
    update(&folders.root, 0, &[("a/SKILL.md", "a")]);
    update(&skill, 0, &[("SKILL.md", "own")]);
    let host = build(builder().skills_root(root(&folders, 1)));
    let ended = AtomicBool::new(false);
    let reads = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=1000 {
                update(&folders.root, number, &[("a/SKILL.md", "a")]);
                update(&skill, number, &[("SKILL.md", "own")]);
            }
            ended.store(true, Ordering::SeqCst);
        });
        let mut reads = 0;
        while !ended.load(Ordering::SeqCst) || reads == 0 {
            for name in ["a", "own"] {
                assert!(host.catalog().has(name), "{name} after {reads}");
            }
            let arguments = json!({"skill_name": "own", "file_path": "SKILL.md"});
            assert_eq!(model_text(&host, READ, arguments), "own", "after {reads}");
            reads += 1;
        }
        reads
    });
    assert!(reads > 0);
}
