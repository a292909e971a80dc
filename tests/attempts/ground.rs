//! What the attempts aim at: files, processes and sockets that the test made, and
//! descriptors that the process had open before its wall went up.

use std::ffi::{CString, c_long};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::path::PathBuf;

use crate::table::TABLE;

/// The variable that turns the attempts on: the folder of the test, the victim's process
/// id, the test's TCP port, and the number of the attempt to begin with.
pub(crate) const VARIABLE: &str = "SKILLHOST_ATTEMPTS";

/// What the attempts aim at.
pub(crate) struct Ground {
    folder: PathBuf,
    /// A process of the test.
    pub(crate) victim: usize,
    /// A port on which the test listens.
    pub(crate) port: u16,
    from: usize,
    /// A socket that listens.
    pub(crate) listener: usize,
    /// A connection over TCP.
    pub(crate) stream: usize,
    /// Unix sockets that are not connected, of streams and of datagrams.
    pub(crate) socket: usize,
    pub(crate) bindable: usize,
    pub(crate) datagrams: usize,
    /// A file of the root, open for reading.
    pub(crate) file: usize,
    /// The leading end of a terminal.
    pub(crate) terminal: usize,
}

/// The kernel's answer: a number, or an error's.
pub(crate) type Answer = Result<i64, i32>;

impl Ground {
    /// Opens what must be open before the wall. `None` if nothing is to be tried.
    pub(crate) fn prepare() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let mut words = text.split('\n');
        let folder = PathBuf::from(words.next()?);
        let listener = TcpListener::bind("127.0.0.1:0").ok()?;
        let stream = TcpStream::connect(listener.local_addr().ok()?).ok()?;
        let file = std::fs::File::open(folder.join("skills/a/SKILL.md")).ok()?;
        leave_terminal();
        Some(Self {
            victim: words.next()?.parse().ok()?,
            port: words.next()?.parse().ok()?,
            from: words.next()?.parse().ok()?,
            folder,
            listener: listener.into_raw_fd() as usize,
            stream: stream.into_raw_fd() as usize,
            socket: socket(libc::SOCK_STREAM),
            bindable: socket(libc::SOCK_STREAM),
            datagrams: socket(libc::SOCK_DGRAM),
            // SAFETY: it takes a number alone.
            terminal: unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) } as usize,
            file: file.into_raw_fd() as usize,
        })
    }

    /// Tries all attempts from the first that this process is to try, and says how each
    /// ends. One that ends this process has no second line.
    pub(crate) fn run(&self) {
        for (number, attempt) in TABLE.iter().enumerate().skip(self.from) {
            say(&format!("attempt {number} begins {}\n", attempt.name));
            let answer = match (attempt.run)(self) {
                Ok(_) => "done".to_owned(),
                Err(error) => error.to_string(),
            };
            say(&format!("attempt {number} ends {answer}\n"));
        }
        say("attempts end\n");
    }

    /// Returns a path in the test's folder.
    pub(crate) fn path(&self, path: &str) -> String {
        self.folder.join(path).to_str().unwrap().to_owned()
    }

    /// Returns the address of a path in the test's folder, for a system call.
    pub(crate) fn at(&self, path: &str) -> usize {
        text(&self.path(path))
    }

    /// Returns the address of a path below the victim's folder of `/proc`.
    pub(crate) fn of_victim(&self, path: &str) -> usize {
        text(&format!("/proc/{}/{path}", self.victim))
    }
}

/// No attempt reaches the terminal from which the tests were started.
fn leave_terminal() {
    if let Ok(terminal) = std::fs::File::open("/dev/tty") {
        // SAFETY: it takes a number alone.
        unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCNOTTY) };
    }
    let status = std::fs::read_to_string("/proc/self/stat").unwrap();
    // After the name, which may have spaces.
    let terminal = status.rsplit(") ").next().unwrap().split(' ').nth(4);
    assert_eq!(terminal, Some("0"), "this process has a terminal");
}

fn socket(kind: i32) -> usize {
    // SAFETY: it takes numbers alone.
    let socket = unsafe { libc::socket(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0) };
    socket as usize
}

fn say(line: &str) {
    // SAFETY: the bytes live as long as the call.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// Returns the address of a text. It is kept for good: few are made.
pub(crate) fn text(text: &str) -> usize {
    CString::new(text).unwrap().into_raw() as usize
}

/// Returns the address of a value, which is kept for good.
pub(crate) fn value<T>(value: T) -> usize {
    Box::into_raw(Box::new(value)) as usize
}

/// Makes a system call.
pub(crate) fn call(number: c_long, arguments: &[usize]) -> Answer {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f] = all;
    // SAFETY: addresses among the arguments are those of values that are kept for good.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    match answer {
        -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
        answer => Ok(answer),
    }
}

/// Makes a process that has the stack of this one until it ends, so no function runs there.
pub(crate) fn vfork() -> Answer {
    let answer: i64;
    // SAFETY: the new process ends at once, and changes nothing but registers.
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

/// Makes a system call that may return a second time, in a new process, which ends.
pub(crate) fn fork_by(number: c_long, arguments: &[usize]) -> Answer {
    match call(number, arguments)? {
        // SAFETY: it ends the new process at once.
        0 => unsafe { libc::_exit(0) },
        process => {
            let waited = [process as usize, 0, libc::__WALL as usize, 0];
            let _ = call(libc::SYS_wait4, &waited);
            Ok(process)
        }
    }
}
