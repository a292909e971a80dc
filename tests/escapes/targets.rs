//! The targets of escaped code: files, processes and sockets of the test, and descriptors from
//! before confinement. Also the system calls of escaped code.

use std::ffi::{CString, c_long};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::path::PathBuf;

use crate::table::{EGRESS_TABLE, Escape, TABLE};

/// The variable that turns on escaped code. Its lines are the folder of the test, the process id of
/// the victim, the test's TCP port, and the number of the first row to try. In a process with an
/// egress process, the ports of the servers of [`Targets::servers`] follow.
pub(crate) const ESCAPES_VARIABLE: &str = "SKILLHOST_ESCAPES";

/// The targets of escaped code. Descriptors are numbers, as system calls take them.
pub(crate) struct Targets {
    folder: PathBuf,
    /// The process id of a process of the test.
    pub(crate) victim: usize,
    /// A TCP port on which the test listens.
    pub(crate) port: u16,
    /// The ports of a plain server and of one with TLS, to which the egress process sends requests.
    /// They are 0 without an egress process.
    pub(crate) servers: [u16; 2],
    first_row: usize,
    /// A listening TCP socket.
    pub(crate) listener: usize,
    /// A TCP connection.
    pub(crate) stream: usize,
    /// An unconnected Unix stream socket.
    pub(crate) socket: usize,
    /// Another Unix socket, to bind.
    pub(crate) bindable: usize,
    /// An unconnected Unix datagram socket.
    pub(crate) datagrams: usize,
    /// A file in the root, open for reading.
    pub(crate) file: usize,
    /// The controlling side of a pseudoterminal.
    pub(crate) terminal: usize,
}

/// The result of a system call: a number, or an error code.
pub(crate) type Answer = Result<i64, i32>;

impl Targets {
    /// Opens the targets. Returns `None` if the variable is not set, so no escaped code runs.
    pub(crate) fn open() -> Option<Self> {
        let text = std::env::var(ESCAPES_VARIABLE).ok()?;
        let mut lines = text.split('\n');
        let folder = PathBuf::from(lines.next()?);
        let listener = TcpListener::bind("127.0.0.1:0").ok()?;
        let stream = TcpStream::connect(listener.local_addr().ok()?).ok()?;
        let file = std::fs::File::open(folder.join("skills/a/SKILL.md")).ok()?;
        leave_terminal();
        Some(Self {
            victim: lines.next()?.parse().ok()?,
            port: lines.next()?.parse().ok()?,
            first_row: lines.next()?.parse().ok()?,
            servers: [lines.next(), lines.next()]
                .map(|port| port.and_then(|port| port.parse().ok()).unwrap_or_default()),
            folder,
            listener: listener.into_raw_fd() as usize,
            stream: stream.into_raw_fd() as usize,
            socket: socket(libc::SOCK_STREAM),
            bindable: socket(libc::SOCK_STREAM),
            datagrams: socket(libc::SOCK_DGRAM),
            // SAFETY: the call takes only a number.
            terminal: unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) } as usize,
            file: file.into_raw_fd() as usize,
        })
    }

    fn table(&self) -> &'static [Escape] {
        match self.servers {
            [0, _] => &TABLE,
            _ => &EGRESS_TABLE,
        }
    }

    /// Tries each row, starting at this process's first row, and prints its result. A row that
    /// kills this process prints no result.
    pub(crate) fn try_escapes(&self) {
        for (number, escape) in self.table().iter().enumerate().skip(self.first_row) {
            print(&format!("escape {number} begins {}\n", escape.name));
            let result = match (escape.run)(self) {
                Ok(_) => "done".to_owned(),
                Err(error) => error.to_string(),
            };
            print(&format!("escape {number} ends {result}\n"));
        }
        print("escapes end\n");
    }

    /// Returns a path in the test's folder.
    pub(crate) fn path(&self, path: &str) -> String {
        self.folder.join(path).to_str().unwrap().to_owned()
    }

    /// Returns the address of a path in the test's folder, for a system call.
    pub(crate) fn at(&self, path: &str) -> usize {
        text(&self.path(path))
    }

    /// Returns the address of a path below the victim's folder in `/proc`, for a system call.
    pub(crate) fn victim_proc(&self, path: &str) -> usize {
        text(&format!("/proc/{}/{path}", self.victim))
    }
}

/// Detaches this process from its terminal, so that escaped code cannot reach the terminal.
fn leave_terminal() {
    if let Ok(terminal) = std::fs::File::open("/dev/tty") {
        // SAFETY: the call takes only a number.
        unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCNOTTY) };
    }
    let status = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The terminal is a field after the name, which may have spaces.
    let terminal = status.rsplit(") ").next().unwrap().split(' ').nth(4);
    assert_eq!(terminal, Some("0"), "this process has a terminal");
}

fn socket(kind: i32) -> usize {
    // SAFETY: the call takes only numbers.
    let socket = unsafe { libc::socket(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0) };
    socket as usize
}

/// Prints to stderr with one system call.
fn print(line: &str) {
    // SAFETY: the bytes outlive the call.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// Returns the address of a string, which is never freed.
pub(crate) fn text(text: &str) -> usize {
    CString::new(text).unwrap().into_raw() as usize
}

/// Returns the address of a value, which is never freed.
pub(crate) fn value<T>(value: T) -> usize {
    Box::into_raw(Box::new(value)) as usize
}

/// Makes a system call.
pub(crate) fn call(number: c_long, arguments: &[usize]) -> Answer {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f] = all;
    // SAFETY: addresses among the arguments belong to values that are never freed.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    match answer {
        -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
        answer => Ok(answer),
    }
}

/// Creates a process by `vfork`. The new process must call no function, because it shares this
/// process's stack.
pub(crate) fn vfork() -> Answer {
    let answer: i64;
    // SAFETY: the new process ends at once, and changes only registers.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov eax, {exit}",
            "xor edi, edi",
            "syscall",
            "2:",
            exit = const libc::SYS_exit,
            inlateout("rax") libc::SYS_vfork => answer,
            lateout("rdi") _,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    match i32::try_from(-answer) {
        Ok(code @ 1..) => Err(code),
        _ => {
            let _ = call(libc::SYS_wait4, &[answer as usize, 0, 0, 0]);
            Ok(answer)
        }
    }
}

/// Makes a system call that may return twice, the second time in a new process, which ends at
/// once.
pub(crate) fn fork_by(number: c_long, arguments: &[usize]) -> Answer {
    match call(number, arguments)? {
        // SAFETY: the call ends the new process at once.
        0 => unsafe { libc::_exit(0) },
        process => {
            let waited = [process as usize, 0, libc::__WALL as usize, 0];
            let _ = call(libc::SYS_wait4, &waited);
            Ok(process)
        }
    }
}
