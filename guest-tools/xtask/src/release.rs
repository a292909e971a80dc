//! `cargo xtask release`: builds the programs and the runners, and packs them for people who have
//! no Rust. `release/pack.py` makes the artefacts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::Outcome;
use crate::environment::{cargo, cargo_program, path_with, remap_flags};
use crate::toolchain::{Choice, Toolchain};
use crate::workspace::{metadata, root};

/// The target of the programs.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The oldest glibc that the programs run on.
const GLIBC: &str = "2.28";

/// The folder of this task's files that are not Rust.
const FOLDER: &str = "guest-tools/xtask/release";

/// The Python packages that link the programs: the kits' pinned zig, and cargo-zigbuild, which runs
/// it.
const REQUIREMENTS: [&str; 2] = [
    "guest-tools/kits/c/requirements.txt",
    "guest-tools/xtask/release/requirements.txt",
];

const PYTHON_RUNNER: &str = "guest-tools/runners/python";
const JAVASCRIPT_RUNNER: &str = "guest-tools/runners/javascript";

/// Build the artefacts of a release, without publishing them
///
/// Makes a Python wheel, an npm package, a Debian package, a container image, an MCP bundle, the
/// entry for the MCP registry, a bill of materials, a provenance statement and SHA256SUMS, for
/// x86_64 with glibc 2.28 or newer. On one machine, checkouts of the same commit in different
/// folders give the same bytes.
///
/// Needs Python 3 with venv, Node.js with npm, readelf, and the registries of cargo, Python, npm
/// and Debian.
///
/// Exit codes: 0 built; 2 an error.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder for the artefacts
    #[arg(long, value_name = "DIR", default_value = "target/release-artefacts")]
    out: PathBuf,

    /// Pack these programs instead of building: a folder with `skillhost`,
    /// `skillhost-author` and `skillhost-manual`
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,

    /// Pack the runners in this folder instead of building them
    #[arg(long, value_name = "DIR")]
    runners: Option<PathBuf>,

    /// Continue although files differ from the commit
    #[arg(long)]
    allow_dirty: bool,
}

pub(crate) fn execute(arguments: &Arguments) -> Result<Outcome> {
    let root = root()?;
    let changed = git(&root, &["status", "--porcelain"])?;
    ensure!(
        changed.is_empty() || arguments.allow_dirty,
        "files differ from the commit: commit them, or pass `--allow-dirty`\n{changed}"
    );
    let work = root.join("target/xtask-release");
    fs::create_dir_all(&work).with_context(|| format!("cannot create `{}`", work.display()))?;
    let epoch = git(&root, &["log", "-1", "--format=%ct"])?;
    let programs = match &arguments.programs {
        Some(folder) => absolute(folder)?,
        None => build_programs(&root, &work, &epoch)?,
    };
    let pages = new_folder(work.join("pages"))?;
    run(Command::new(programs.join("skillhost-manual")).arg(&pages))?;
    let runners = match &arguments.runners {
        Some(folder) => absolute(folder)?,
        None => build_runners(&root, &work, &programs)?,
    };
    let Toolchain::Debian(debian) = Toolchain::provide(Some(Choice::Debian), &root)? else {
        bail!("the toolchain of Debian is missing");
    };
    run(Command::new("python3")
        .arg("-B")
        .arg(root.join(FOLDER).join("pack.py"))
        .arg("--programs")
        .arg(&programs)
        .arg("--pages")
        .arg(&pages)
        .arg("--runners")
        .arg(&runners)
        .arg("--debian")
        .arg(debian.join("root"))
        .arg("--out")
        .arg(absolute(&arguments.out)?)
        .args(["--version", &version(&root)?, "--epoch", &epoch])
        .args(["--commit", &git(&root, &["rev-parse", "HEAD"])?])
        .env("CARGO", cargo_program()))?;
    Ok(Outcome::Clean)
}

/// Builds the programs and the generator of their manual. Returns their folder.
fn build_programs(root: &Path, work: &Path, epoch: &str) -> Result<PathBuf> {
    let python = install(root, &work.join("python"))?;
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => absolute(Path::new(&folder))?,
        None => root.join("target"),
    };
    let flags = remap_flags(root, Some(&target))?;
    run(cargo(&Toolchain::Active)?
        .current_dir(root)
        .args(["zigbuild", "--release", "--locked"])
        .args(["--target", &format!("{TARGET}.{GLIBC}")])
        .args(["--bin", "skillhost", "--bin", "skillhost-author"])
        .args([
            "--bin",
            "skillhost-manual",
            "--features",
            "skillhost-author/manual",
        ])
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .env("SOURCE_DATE_EPOCH", epoch)
        .env("PATH", path_with(python)?))?;
    Ok(target.join(TARGET).join("release"))
}

/// Installs the linker's packages, unless they are installed with the current pins. Returns the
/// folder of their programs.
fn install(root: &Path, folder: &Path) -> Result<PathBuf> {
    let mut wanted = String::new();
    for file in REQUIREMENTS {
        let path = root.join(file);
        let context = || format!("cannot read `{}`", path.display());
        wanted += &fs::read_to_string(&path).with_context(context)?;
    }
    let bin = folder.join("bin");
    let stamp = folder.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(bin);
    }
    new_folder(folder.to_owned())?;
    run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let mut pip = Command::new(bin.join("pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"])
        .args(["--require-hashes", "--only-binary", ":all:"])
        .current_dir(root);
    for file in REQUIREMENTS {
        pip.args(["-r", file]);
    }
    run(&mut pip)?;
    fs::write(&stamp, wanted).with_context(|| format!("cannot write `{}`", stamp.display()))?;
    Ok(bin)
}

/// Builds the runners with the built programs. Returns the folder with both components.
fn build_runners(root: &Path, work: &Path, programs: &Path) -> Result<PathBuf> {
    let skillhost = programs.join("skillhost");
    build_python_runner(root, &skillhost)?;
    run(Command::new(root.join(JAVASCRIPT_RUNNER).join("build.sh")).env("SKILLHOST", &skillhost))?;
    let folder = new_folder(work.join("runners"))?;
    for (project, file) in [
        (PYTHON_RUNNER, "run_skill_script.wasm"),
        (JAVASCRIPT_RUNNER, "run_skill_javascript.wasm"),
    ] {
        let from = root.join(project).join("dist").join(file);
        let context = || format!("cannot copy `{}`", from.display());
        fs::copy(&from, folder.join(file)).with_context(context)?;
    }
    Ok(folder)
}

/// Builds the runner for Python twice, and compares the bytes. The component contains the memory of
/// a started interpreter, to which a library could add a time or a random number.
fn build_python_runner(root: &Path, skillhost: &Path) -> Result<()> {
    let project = root.join(PYTHON_RUNNER);
    let component = project.join("dist/run_skill_script.wasm");
    let context = || format!("cannot read `{}`", component.display());
    // Empty these folders first, because the interpreter's memory contains the names of the
    // project's files.
    for folder in ["build", "dist"] {
        new_folder(project.join(folder))?;
    }
    let mut builds = Vec::new();
    for _ in 0..2 {
        run(Command::new(skillhost).arg("build").arg(&project))?;
        builds.push(fs::read(&component).with_context(context)?);
    }
    ensure!(
        builds[0] == builds[1],
        "two builds of `{PYTHON_RUNNER}` differ: `skill_runner/repeatable.py` must reset what a \
         library keeps of the build"
    );
    Ok(())
}

/// Returns the version of the program `skillhost`.
fn version(root: &Path) -> Result<String> {
    let metadata = metadata(&root.join("Cargo.toml"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut versions = packages
        .filter(|package| package["name"] == "skillhost-cli")
        .filter_map(|package| package["version"].as_str());
    let version = versions
        .next()
        .context("the package `skillhost-cli` has no version")?;
    Ok(version.to_owned())
}

/// Returns the output of git, without whitespace at its end.
fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run `git`")?;
    ensure!(
        output.status.success(),
        "`git {}` ended with {}",
        arguments.join(" "),
        output.status
    );
    let text = String::from_utf8(output.stdout).context("git printed invalid UTF-8")?;
    Ok(text.trim_end().to_owned())
}

/// Runs a command whose output is shown.
fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_owned();
    let name = Path::new(&name).display();
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot run `{name}`"))?;
    ensure!(status.success(), "`{name}` ended with {status}");
    Ok(())
}

/// Creates an empty folder. Removes an existing one first.
fn new_folder(folder: PathBuf) -> Result<PathBuf> {
    let context = || format!("cannot create `{}`", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(context)?;
    }
    fs::create_dir_all(&folder).with_context(context)?;
    Ok(folder)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot find `{}`", path.display()))
}
