//! Tests of the catalog.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::thread::{CapabilitySet, CapabilitySets};

use super::*;
use crate::check::Severity;

fn skill(place: &tempfile::TempDir, name: &str) {
    let folder = place.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("SKILL.md"), "Text.").unwrap();
}

#[test]
fn skill_name_is_one_visible_path_component() {
    for name in ["a", "a-b", "a.b", "\u{e4}", "a b", "A"] {
        assert!(Skill::is_name(name), "{name}");
    }
    for name in [
        "", ".", ".a", "..", "a..b", "a/b", "/", "a\\b", "a\nb", "a\u{7f}", "a\u{85}", "a\u{9b}",
    ] {
        assert!(!Skill::is_name(name), "{name:?}");
    }
}

#[test]
fn full_name_has_the_number_of_its_root() {
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    skill(&places[0], "a");
    skill(&places[1], "a");
    skill(&places[1], "b");
    skill(&places[1], "brewing");
    std::fs::create_dir(places[1].path().join("x..y")).unwrap();
    std::fs::write(places[1].path().join("file"), "x").unwrap();
    let roots = places.each_ref().map(|place| SkillsRoot::new(place.path()));
    let catalog = Catalog::open(&roots, None).unwrap();
    for (name, expected) in [
        ("a", true),
        ("b", true),
        ("root2.a", true),
        ("c", false),
        ("file", false),
        ("root2.b", false),
        ("root1.a", false),
        ("root0.a", false),
        ("root3.a", false),
        ("root02.a", false),
        ("root+2.a", false),
        ("root.a", false),
        ("../a", false),
    ] {
        assert_eq!(catalog.has(name), expected, "{name}");
        assert_eq!(catalog.read(name).is_some(), expected, "{name}");
        let folder = catalog.skill(name, HardLinks::Refused);
        assert_eq!(folder.err(), (!expected).then_some(FolderError::Unknown));
    }
    assert_eq!(catalog.path_in_root("root2.a").unwrap(), "a");
    assert_eq!(catalog.nearest("brewin")[0], "brewing");
    let problems = catalog.problems();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("x..y"), "{problems:?}");
    let findings = catalog.check("b").unwrap().unwrap();
    assert!(!findings.is_empty());
    assert!(catalog.check("c").is_none());
}

/// Runs a test on a thread without capabilities, so that file modes apply even to the root user.
fn without_privileges(test: impl FnOnce() + Send) {
    let test = || {
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, none).unwrap();
        test();
    };
    std::thread::scope(|scope| scope.spawn(test).join()).unwrap();
}

#[test]
fn unreadable_skill_still_hides_those_of_later_roots() {
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let locked = places[0].path().join(".locked");
    std::fs::create_dir_all(locked.join("a")).unwrap();
    symlink(".locked/a", places[0].path().join("a")).unwrap();
    symlink("nowhere", places[0].path().join("b")).unwrap();
    skill(&places[1], "a");
    skill(&places[1], "b");
    let roots = places.each_ref().map(|place| SkillsRoot {
        follow_links: true,
        ..SkillsRoot::new(place.path())
    });
    let catalog = Catalog::open(&roots, None).unwrap();
    let set_mode = |mode| {
        std::fs::set_permissions(&locked, Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o000);
    without_privileges(|| {
        let folder = catalog.skill("a", HardLinks::Refused);
        assert_eq!(folder.err(), Some(FolderError::Unreadable));
        assert_eq!(catalog.read("a"), None);
        assert_eq!(catalog.document("a", 100).unwrap(), None);
        let listing = catalog.list();
        let names = listing.skills.iter().map(|skill| skill.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["b"]);
        let problems = listing.problems.join("\n");
        assert!(problems.contains("Permission denied"), "{problems}");
        assert!(
            problems.contains("its full name is `root2.a`"),
            "{problems}"
        );
        // The skill of the later root keeps its own name.
        assert!(catalog.read("root2.a").is_some());
    });
    set_mode(0o700);
    assert_eq!(catalog.path_in_root("a").unwrap(), "a");
}

#[test]
fn caches_a_folder_unless_it_is_a_mount() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("skill")).unwrap();
    // Every Linux machine has the mount `/proc`.
    for (root, name, expected) in [
        (root.path(), "skill", true),
        (Path::new("/"), "proc", false),
    ] {
        let catalog = Catalog::open(&[SkillsRoot::new(root)], None).unwrap();
        assert!(catalog.cache.get(0, name).is_none(), "{name}");
        catalog.skill(name, HardLinks::Refused).unwrap();
        assert_eq!(catalog.cache.get(0, name).is_some(), expected, "{name}");
    }
}

#[tokio::test]
async fn abandoned_work_reads_no_skill() {
    let place = tempfile::tempdir().unwrap();
    skill(&place, "a");
    let catalog = Arc::new(Catalog::open(&[SkillsRoot::new(place.path())], None).unwrap());
    let read = || {
        let catalog = Arc::clone(&catalog);
        move || (catalog.names().len(), catalog.read("a").is_some())
    };
    assert_eq!(blocking::run_abandoned(read()).await, (0, false));
    assert_eq!(read()(), (1, true));
}

#[test]
fn reads_odd_metadata_fast_and_reports_clear_problems() {
    let root = tempfile::tempdir().unwrap();
    let entries = |count: usize| -> String {
        let entries = (0..count).map(|number| format!("  key{number}: value\n"));
        entries.collect()
    };
    let nested = |levels: usize| -> String {
        let levels = (1..=levels).map(|level| format!("{}l:\n", "  ".repeat(level)));
        levels.collect()
    };
    let cases = [
        (
            "cut",
            entries(70_000),
            "the frontmatter was not read: a second line `---` is missing in",
        ),
        (
            "deep",
            nested(64),
            "not valid YAML, so it was read line by line: recursion limit",
        ),
        (
            "many",
            entries(1_500).repeat(2),
            "not valid YAML, so it was read line by line: too many",
        ),
        (
            "twice",
            entries(1).repeat(2),
            "`metadata.key0` occurs twice: the one on line 5 counts",
        ),
    ];
    for (name, metadata, _) in &cases {
        let folder = root.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let text = format!("---\nname: {name}\ndescription: d.\nmetadata:\n{metadata}---\n");
        std::fs::write(folder.join("SKILL.md"), text).unwrap();
    }
    let catalog = Catalog::open(&[SkillsRoot::new(root.path())], None).unwrap();
    let skills = catalog.list().skills;
    for (skill, (name, _, problem)) in skills.iter().zip(&cases) {
        assert_eq!(skill.name, *name);
        let [found] = &skill.problems[..] else {
            panic!("{name}: {:?}", skill.problems);
        };
        assert!(found.starts_with(problem), "{name}: {found}");
        let findings = catalog.check(name).unwrap().unwrap();
        let errors = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        assert_eq!(errors.count(), 1, "{name}: {findings:?}");
    }
    assert_eq!(skills.len(), cases.len());
}
