//! A git repository on loopback, which the installed git makes and serves.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;

use tempfile::TempDir;

/// Answers a request, given as its head and body. Returns false without an answer to let git
/// answer.
type Change = Box<dyn Fn(&str, &mut TcpStream) -> bool + Send + Sync>;

/// A server with the repository `acme/skills`. Its threads end with the test's process.
pub(crate) struct GitServer {
    /// The host `localhost` with the port.
    pub(crate) authority: String,
    folder: TempDir,
    change: Arc<RwLock<Option<Change>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl GitServer {
    /// Starts a server with an empty repository, whose branch is `main`.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let server = Self {
            authority: format!("localhost:{}", listener.local_addr().unwrap().port()),
            folder,
            change: Arc::default(),
            heads: Arc::default(),
        };
        let repository = server.repository();
        fs::create_dir_all(&repository).unwrap();
        server.git(&["init", "--quiet", "--initial-branch=main"]);
        server.git(&["config", "uploadpack.allowFilter", "true"]);
        let root = server.folder.path().to_owned();
        let (change, heads) = (Arc::clone(&server.change), Arc::clone(&server.heads));
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (root, change, heads) = (root.clone(), change.clone(), heads.clone());
                thread::spawn(move || exchange(stream, &root, &change, &heads));
            }
        });
        server
    }

    /// Returns the folder of the repository.
    pub(crate) fn repository(&self) -> PathBuf {
        self.folder.path().join("acme/skills")
    }

    /// Returns a source in this server's repository, with `rest` after the repository's path.
    pub(crate) fn source(&self, rest: &str) -> String {
        format!("git+http://{}/acme/skills{rest}", self.authority)
    }

    /// Runs git in the repository, and returns what it prints.
    #[track_caller]
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.git_with(arguments, b"")
    }

    /// Runs git with an input.
    #[track_caller]
    pub(crate) fn git_with(&self, arguments: &[&str], input: &[u8]) -> String {
        let mut command = git(self.folder.path());
        command.args(arguments).current_dir(self.repository());
        let output = command.stdin(file_with(input)).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Writes a file of the work tree.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.repository().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Commits the work tree, and returns the commit.
    pub(crate) fn commit(&self) -> String {
        self.git(&["add", "--all", "--force"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=x"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Commits a tree with these entries, as `git mktree` reads them, and returns the commit. Git
    /// would not make some of these trees from a work tree.
    pub(crate) fn commit_tree(&self, entries: &str) -> String {
        let tree = self.git_with(&["mktree", "--missing"], entries.as_bytes());
        let commit = self.git(&["commit-tree", &tree, "-m", "x"]);
        self.git(&["update-ref", "refs/heads/main", &commit]);
        commit
    }

    /// Writes a blob, and returns its id.
    pub(crate) fn blob(&self, bytes: &[u8]) -> String {
        self.git_with(&["hash-object", "-w", "--stdin"], bytes)
    }

    /// From now on, lets `change` answer requests before git does.
    pub(crate) fn replace_answers(
        &self,
        change: impl Fn(&str, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) {
        *self.change.write().unwrap() = Some(Box::new(change));
    }

    /// Returns the heads of all requests so far.
    pub(crate) fn request_heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// Returns a command that runs git without the user's configuration.
fn git(home: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", home)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "acme")
        .env("GIT_AUTHOR_EMAIL", "acme@git.example")
        .env("GIT_COMMITTER_NAME", "acme")
        .env("GIT_COMMITTER_EMAIL", "acme@git.example")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Answers a request with `git http-backend`.
fn exchange(
    stream: TcpStream,
    root: &Path,
    change: &RwLock<Option<Change>>,
    heads: &Mutex<Vec<String>>,
) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    heads.lock().unwrap().push(head.clone());
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value).to_owned()
    };
    let mut body = Vec::new();
    let length = header("content-length").parse().unwrap_or(0);
    let _ = (&mut reader).take(length).read_to_end(&mut body);
    let mut stream = reader.into_inner();
    let request = head.clone() + &String::from_utf8_lossy(&body);
    if let Some(change) = &*change.read().unwrap()
        && change(&request, &mut stream)
    {
        return;
    }
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut command = git(root);
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .stdin(file_with(&body));
    let output = command.output().unwrap().stdout;
    let text = String::from_utf8_lossy(&output);
    let status = text.strip_prefix("Status: ");
    let status = status.and_then(|it| it.lines().next()).unwrap_or("200 OK");
    let _ = write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n");
    let _ = stream.write_all(&output);
}

/// Returns a temporary file with this content, which readers read from its start.
fn file_with(input: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(input).unwrap();
    file.rewind().unwrap();
    file
}
