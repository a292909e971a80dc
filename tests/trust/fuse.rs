//! Files in a FUSE file system with made-up owners and modes. The tests serve the file system
//! themselves. They mount it for one run of the program, in a mount namespace that ends with the
//! run.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::thread;

use rustix::io::Errno;

use super::*;
use crate::support::process::Process;

/// The inode number of the only folder.
const ROOT: u64 = 1;

/// A FUSE file system with one folder of files. It claims that root owns them.
struct FileSystem {
    files: Vec<(&'static str, Vec<u8>)>,
}

impl FileSystem {
    /// Runs the program with the file system mounted on `mnt`. Returns `None` if this machine
    /// cannot mount it.
    fn run(&self, program: &Program, options: &str, arguments: &[&str]) -> Option<Run> {
        fs::create_dir_all(program.folder.path().join("mnt")).unwrap();
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.ok()?;
        let mut command = crate::support::program::command(Path::new("unshare"));
        let script = format!(
            "mount -i -t fuse -o fd=0,rootmode=40000,group_id=0,allow_other,{options} test mnt && \
             echo mounted && exec \"$0\" \"$@\" </dev/null"
        );
        command
            .args(["--mount", "--", "sh", "-c", &script])
            .arg(env!("CARGO_BIN_EXE_skillhost"))
            .args(arguments)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir(program.folder.path())
            .stdin(Stdio::from(device.try_clone().unwrap()));
        let mut child = Process::start(&mut command);
        drop(command);
        let mut first_line = [0; "mounted\n".len()];
        let mounted = child.stdout.as_mut().unwrap().read_exact(&mut first_line);
        let output = thread::scope(|scope| {
            // The server ends with the last process of the mount namespace.
            let server = mounted.is_ok().then(|| scope.spawn(|| self.serve(&device)));
            let output = child.output();
            if let Some(server) = server {
                server.join().unwrap();
            }
            output
        });
        let run = Run {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        if mounted.is_err() {
            eprintln!("this machine mounts no FUSE file system: {}", run.stderr);
            return None;
        }
        Some(run)
    }

    /// Answers the kernel's requests until the file system is unmounted.
    fn serve(&self, mut device: &File) {
        let mut request = vec![0; 1 << 17];
        while let Ok(length) = device.read(&mut request) {
            let request = &request[..length];
            let Some(answer) = self.answer(number(request, 4, 4), request) else {
                continue;
            };
            let (error, body) = answer.map_or_else(|error| (error, Vec::new()), |body| (0, body));
            let mut message = u32::try_from(16 + body.len())
                .unwrap()
                .to_le_bytes()
                .to_vec();
            message.extend(error.to_le_bytes());
            message.extend(&request[8..16]);
            message.extend(body);
            // Fails if the request was interrupted.
            let _ = device.write_all(&message);
        }
    }

    /// Returns the answer to a request of `linux/fuse.h`, or a negated error code. Returns `None`
    /// if the request gets no answer.
    fn answer(&self, operation: u64, request: &[u8]) -> Option<Result<Vec<u8>, i32>> {
        let node = number(request, 16, 8);
        let body = &request[40..];
        Some(Ok(match operation {
            // LOOKUP
            1 => {
                let name = body.strip_suffix(b"\0").unwrap();
                let mut files = self.files.iter();
                let Some(index) = files.position(|(known, _)| known.as_bytes() == name) else {
                    return Some(Err(-Errno::NOENT.raw_os_error()));
                };
                let node = ROOT + 1 + index as u64;
                [fields(&[node, 0, 0, 0, 0]), self.attributes(node)].concat()
            }
            // FORGET, INTERRUPT, BATCH_FORGET
            2 | 36 | 42 => return None,
            // GETATTR
            3 => [fields(&[0, 0]), self.attributes(node)].concat(),
            // OPEN, OPENDIR
            14 | 27 => fields(&[0, 0]),
            // READ, READDIR
            15 | 28 => {
                let content = match operation {
                    15 => self.content(node).to_vec(),
                    _ => self.listing(),
                };
                let start = usize::try_from(number(body, 8, 8))
                    .unwrap()
                    .min(content.len());
                let size = usize::try_from(number(body, 16, 4)).unwrap();
                let end = content.len().min(start + size);
                content[start..end].to_vec()
            }
            // STATFS
            17 => vec![0; 80],
            // RELEASE, FLUSH, RELEASEDIR
            18 | 25 | 29 => Vec::new(),
            // INIT: version 7.31, and at most 4 KiB in a write.
            26 => {
                let mut answer = vec![0; 64];
                answer[0] = 7;
                answer[4] = 31;
                answer[21] = 16;
                answer
            }
            _ => return Some(Err(-Errno::NOSYS.raw_os_error())),
        }))
    }

    fn content(&self, node: u64) -> &[u8] {
        &self.files[usize::try_from(node - ROOT - 1).unwrap()].1
    }

    fn attributes(&self, node: u64) -> Vec<u8> {
        let (mode, size) = match node {
            ROOT => (0o040_755, 0),
            file => (0o100_644, self.content(file).len() as u64),
        };
        // Inode, size, blocks, three times, their nanoseconds with the mode, and one link. Owner,
        // group and the rest are zero.
        let mut attributes = fields(&[node, size, 0, 0, 0, 0, 0, mode << 32, 1]);
        attributes.resize(88, 0);
        attributes
    }

    /// Returns the folder's entries. Each entry has the offset of the next one.
    fn listing(&self) -> Vec<u8> {
        let mut listing = Vec::new();
        for (index, (name, _)) in self.files.iter().enumerate() {
            let end = listing.len() + 24 + name.len().next_multiple_of(8);
            let kind = 8 << 32;
            let inode = ROOT + 1 + index as u64;
            listing.extend(fields(&[inode, end as u64, kind | name.len() as u64]));
            listing.extend(name.as_bytes());
            listing.resize(end, 0);
        }
        listing
    }
}

/// Reads a number of `length` bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut number = [0; 8];
    number[..length].copy_from_slice(&bytes[at..at + length]);
    u64::from_le_bytes(number)
}

fn fields(numbers: &[u64]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

#[test]
fn trusts_fuse_mounts_of_root_and_named_users() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can mount a file system of another user; CI runs as root.
    }
    let file_system = FileSystem {
        files: vec![
            ("skillhost.toml", b"skills = [\"../skills\"]\n".to_vec()),
            (
                "count_lines.wasm",
                fs::read(guests().join("count_lines.wasm")).unwrap(),
            ),
        ],
    };
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let list = ["--config", "mnt/skillhost.toml", "skills"];
    let options = "--skills skills --tools mnt --grant count_lines.wasm=a";
    let call = format!("{options} call count_lines skill_name=a path=SKILL.md");
    let call: Vec<&str> = call.split(' ').collect();
    for arguments in [&list[..], &call] {
        for (mount, trust, is_trusted) in [
            ("user_id=0", "user:54322", true),
            ("user_id=54321", "user:54321", true),
            ("user_id=54321", "everyone", true),
            ("user_id=54321", "user:54322", false),
            // On a read-only mount, the owners are made up as well.
            ("user_id=54321,ro", "user:54322", false),
        ] {
            let arguments = [&["--trust", trust], arguments].concat();
            let Some(run) = file_system.run(&program, mount, &arguments) else {
                return;
            };
            let case = format!("{mount} {trust} {run:?}");
            if is_trusted {
                assert_eq!(run.code, 0, "{case}");
                assert_ne!(run.stdout, "", "{case}");
                continue;
            }
            assert_ne!(run.code, 0, "{case}");
            assert_eq!(run.stdout, "", "{case}");
            let path = fs::canonicalize(program.folder.path()).unwrap().join("mnt");
            let step = format!("`{}` (owner root, mode 0755) is in a FUSE", path.display());
            for said in [
                &*step,
                "of the user 54321, who",
                "`--trust user:54321` trusts",
            ] {
                assert!(run.stderr.contains(said), "{said}: {case}");
            }
        }
    }
}
