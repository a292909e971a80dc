//! Escapes over the socket of the egress process: requests that the grants do not allow, and
//! attempts to learn a secret.
//!
//! A row succeeds if its request was sent, or if it learns the secret.

use std::io::{self, Read as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Duration;

use libc::*;

use super::escapes;
use crate::targets::{Answer, Targets, call, text, value};

/// The path of the plain server that the grant allows.
pub(crate) const GRANTED: &str = "/granted";

/// The secret of the tool `read_skill`.
pub(crate) const SECRET: &str = "canary-of-the-escape-tests-2d8b";

/// A placeholder that the escaped code has chosen, in the form of the host's.
const PLACEHOLDER: &str = "placeholder-e5ca9edc0dee5ca9edc0dee5ca9edc0d";

/// The longest wait for an answer.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The descriptors that may be the socket of the egress process.
const DESCRIPTORS: std::ops::Range<usize> = 3..200;

/// Sends bytes and descriptors over a socket.
fn send(socket: usize, bytes: &'static str, descriptors: &[usize]) -> Answer {
    let part = value(iovec {
        iov_base: text(bytes) as *mut _,
        iov_len: bytes.len(),
    });
    let size = (descriptors.len() * size_of::<i32>()) as u32;
    // SAFETY: the functions only compute sizes.
    let (length, space) = unsafe { (CMSG_LEN(size), CMSG_SPACE(size)) };
    let control = value([0_u64; 64]);
    // SAFETY: all zeros is a valid message.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = part as *mut _;
    message.msg_iovlen = 1;
    if !descriptors.is_empty() {
        message.msg_control = control as *mut _;
        message.msg_controllen = space as usize;
        // SAFETY: the buffer is aligned, and has space for the header and all descriptors.
        unsafe {
            let header = CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = SOL_SOCKET;
            (*header).cmsg_type = SCM_RIGHTS;
            (*header).cmsg_len = length as usize;
            let data = CMSG_DATA(header).cast::<i32>();
            for (number, descriptor) in descriptors.iter().enumerate() {
                data.add(number).write_unaligned(*descriptor as i32);
            }
        }
    }
    let flags = (MSG_NOSIGNAL | MSG_DONTWAIT) as usize;
    call(SYS_sendmsg, &[socket, value(message), flags])
}

/// Passes one end of a new socket pair over `socket`, sends a request over the other end, and
/// returns the whole answer. Only the egress process answers.
fn try_exchange(socket: usize, request: &str) -> io::Result<String> {
    let pair = value([0_i32; 2]);
    let to_error = io::Error::from_raw_os_error;
    call(
        SYS_socketpair,
        &[AF_UNIX as usize, SOCK_STREAM as usize, 0, pair],
    )
    .map_err(to_error)?;
    // SAFETY: the kernel has written both descriptors, and nothing else uses the first.
    let (mut ours, theirs) = unsafe {
        let [ours, theirs] = *(pair as *const [i32; 2]);
        (UnixStream::from_raw_fd(ours), theirs)
    };
    let sent = send(socket, "x", &[theirs as usize]);
    let _ = call(SYS_close, &[theirs as usize]);
    sent.map_err(to_error)?;
    ours.write_all(request.as_bytes())?;
    ours.set_nonblocking(true)?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    let start = std::time::Instant::now();
    while start.elapsed() < MAX_WAIT {
        match ours.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(_) => break,
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns the socket of the egress process: the first one that answers a request.
fn egress_socket(targets: &Targets) -> Option<usize> {
    static SOCKET: OnceLock<Option<usize>> = OnceLock::new();
    *SOCKET.get_or_init(|| {
        let own = [
            targets.listener,
            targets.stream,
            targets.socket,
            targets.bindable,
            targets.datagrams,
        ];
        let request = granted(targets, "");
        DESCRIPTORS
            .filter(|number| !own.contains(number))
            .find(|number| {
                try_exchange(*number, &request).is_ok_and(|it| it.starts_with("HTTP/1.1 "))
            })
    })
}

/// Returns a request as the host writes it.
fn request(line: &str, headers: &str) -> String {
    format!("{line} HTTP/1.1\r\nskillhost-grant: read_skill\r\n{headers}\r\n")
}

fn granted(targets: &Targets, headers: &str) -> String {
    let [plain, _] = targets.servers;
    request(&format!("GET http://localhost:{plain}{GRANTED}"), headers)
}

/// Sends a request, and returns the answer if it came from a server.
fn exchange(targets: &Targets, request: &str) -> Result<String, i32> {
    let socket = egress_socket(targets).ok_or(ENOTSOCK)?;
    let answer = try_exchange(socket, request).map_err(|it| it.raw_os_error().unwrap_or(EIO))?;
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    if answer.starts_with("HTTP/1.1 200 ") && !head.contains("\"failure\"") {
        return Ok(answer);
    }
    // The egress process marks its own answer to a denied request.
    let is_denied = answer.starts_with("HTTP/1.1 502 ") && head.contains("\"denied\"");
    // It cannot mark its answer to a request that is not HTTP.
    let is_refused = answer.starts_with("HTTP/1.1 400 ") || answer.is_empty();
    Err(if is_denied || is_refused { EACCES } else { EIO })
}

fn ask(targets: &Targets, line: &str, headers: &str) -> Answer {
    exchange(targets, &request(line, headers)).map(|_| 0)
}

/// Returns headers that declare a placeholder, and send it as the value of this header.
fn placeholder_in(header: &str) -> String {
    format!("skillhost-placeholder: TOKEN={PLACEHOLDER}\r\n{header}: {PLACEHOLDER}\r\n")
}

/// Succeeds if the answer to a request contains the secret.
fn learn(targets: &Targets, line: &str, headers: &str) -> Answer {
    let answer = exchange(targets, &request(line, headers))?;
    if answer.contains(SECRET) {
        return Ok(0);
    }
    Err(EACCES)
}

fn at(port: u16, path: &str) -> String {
    format!("localhost:{port}{path}")
}

escapes! {
    "keeps sending a granted request" => |t| exchange(t, &granted(t, "")).map(|_| 0);
    "send to another path" => |t| ask(t, &format!("GET http://{}", at(t.servers[0], "/other")), "");
    "send to a path by dots" => |t| {
        ask(t, &format!("GET http://{}", at(t.servers[0], "/granted/../other")), "")
    };
    "send with another method" => |t| ask(t, &format!("POST http://{}", at(t.servers[0], GRANTED)), "");
    "send to another port" => |t| ask(t, &format!("GET http://{}", at(t.port, GRANTED)), "");
    "send to an address instead of its name" => |t| {
        ask(t, &format!("GET http://127.0.0.1:{}{GRANTED}", t.servers[0]), "")
    };
    "send to a private address" => |t| ask(t, &format!("GET http://10.0.0.1:{}{GRANTED}", t.servers[0]), "");
    "send without TLS" => |t| ask(t, &format!("GET http://{}", at(t.servers[1], "/")), "");
    "send to a metadata address" => |t| ask(t, "GET http://169.254.169.254/latest", "");
    "send for a component without a grant" => |t| {
        let request = granted(t, "").replace("read_skill", "other.wasm");
        exchange(t, &request).map(|_| 0)
    };
    "send for no component" => |t| {
        let request = granted(t, "").replace("skillhost-grant: read_skill\r\n", "");
        exchange(t, &request).map(|_| 0)
    };
    "open a tunnel" => |t| {
        let port = t.port;
        ask(t, &format!("CONNECT localhost:{port}"), &format!("host: localhost:{port}\r\n"))
    };
    "override the method with a header" => |t| {
        exchange(t, &granted(t, "x-http-method-override: DELETE\r\n")).map(|_| 0)
    };
    "send a second request after the first" => |t| {
        let second = format!("GET http://{}", at(t.servers[0], "/other"));
        let both = granted(t, "") + &request(&second, "");
        match exchange(t, &both)?.matches("HTTP/1.1 200 ").count() {
            1 => Err(EACCES),
            _ => Ok(0),
        }
    };
    "hide a request behind a lone carriage return" => |t| {
        exchange(t, &granted(t, "x: a\rGET /other HTTP/1.1\r\n")).map(|_| 0)
    };
    "send a secret without TLS" => |t| {
        exchange(t, &granted(t, &placeholder_in("authorization"))).map(|_| 0)
    };
    "send a secret in another header" => |t| {
        ask(t, &format!("GET https://{}", at(t.servers[1], "/")), &placeholder_in("x-other"))
    };
    "send a secret in the path" => |t| {
        let line = format!("GET https://{}", at(t.servers[1], &format!("/{PLACEHOLDER}")));
        ask(t, &line, &placeholder_in("authorization"))
    };
    "send a secret with a short placeholder" => |t| {
        let headers = "skillhost-placeholder: TOKEN=a\r\nauthorization: a\r\n";
        ask(t, &format!("GET https://{}", at(t.servers[1], "/")), headers)
    };
    "learn whether a guess of a secret is right" => |t| {
        let guess = |start: &str| {
            let headers = format!(
                "skillhost-placeholder: TOKEN={PLACEHOLDER}\r\n\
                 skillhost-placeholder: guess=padding-of-16-by{start}\r\n\
                 authorization: padding-of-16-by{PLACEHOLDER}\r\n"
            );
            ask(t, &format!("GET https://{}", at(t.servers[1], "/")), &headers)
        };
        if guess(&SECRET[..4]) == guess("none") { Err(EACCES) } else { Ok(0) }
    };
    "keeps sending a secret to its host" => |t| {
        ask(t, &format!("GET https://{}", at(t.servers[1], "/")), &placeholder_in("authorization"))
    };
    "learn a secret from its host" => |t| {
        learn(t, &format!("GET https://{}", at(t.servers[1], "/")), &placeholder_in("authorization"))
    };
    "learn a secret by its name" => |t| {
        let headers = "skillhost-placeholder: TOKEN\r\nauthorization: TOKEN ${TOKEN}\r\n";
        learn(t, &format!("GET https://{}", at(t.servers[1], "/")), headers)
    };
    "read from the socket of the egress process" => |t| {
        let socket = egress_socket(t).ok_or(ENOTSOCK)?;
        let buffer = value([0_u8; 4096]);
        match call(SYS_recvfrom, &[socket, buffer, 4096, MSG_DONTWAIT as usize, 0, 0]) {
            // There is nothing to read.
            Err(EAGAIN) => Err(EACCES),
            answer => answer,
        }
    };
    "keeps sending after malformed messages" => |t| {
        let socket = egress_socket(t).ok_or(ENOTSOCK)?;
        for descriptors in [&[][..], &[t.file], &[t.stream, t.listener], &[t.terminal]] {
            // The queue may be full.
            let _ = send(socket, "nonsense", descriptors);
        }
        exchange(t, &granted(t, "")).map(|_| 0)
    };
}
