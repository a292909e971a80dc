//! Skills' files as resources, through the Rust API. Each read of a resource runs in a sandbox, as
//! each call of a tool does.

mod contents;
mod manifests;
mod policy;

use sha2::{Digest as _, Sha256};
use skillhost::{Contents, EntryKind, Host, ResourceError, SkillFiles, SkillResources};

use crate::support::folders::Folders;
use crate::support::{block_on, build, builder};

const MIB: usize = 1 << 20;

fn host(folders: &Folders) -> Host {
    build(builder().skills(&folders.root))
}

fn resources(folders: &Folders) -> SkillResources {
    host(folders).skill_resources().unwrap()
}

fn read(resources: &SkillResources, path: &str) -> Result<Contents, ResourceError> {
    block_on(resources.read("a", path))
}

fn manifest(resources: &SkillResources) -> SkillFiles {
    block_on(resources.manifest("a")).unwrap()
}

fn paths(files: &SkillFiles) -> Vec<&str> {
    files.files.iter().map(|file| &*file.path).collect()
}

fn left_out(files: &SkillFiles) -> Vec<(&str, &str)> {
    let named = files.left_out.iter();
    let mut named: Vec<_> = named.map(|out| (&*out.path, &*out.reason)).collect();
    named.sort_unstable();
    named
}

/// Returns the names in a folder. Folders' names end with a slash.
fn names(resources: &SkillResources, path: Option<&str>) -> Vec<String> {
    let directory = block_on(resources.directory("a", path)).unwrap();
    let name = |entry: skillhost::DirectoryEntry| match entry.kind {
        EntryKind::File { .. } => entry.name,
        EntryKind::Directory => entry.name + "/",
    };
    directory.entries.into_iter().map(name).collect()
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
