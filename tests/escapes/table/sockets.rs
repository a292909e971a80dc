//! Escapes that reach other processes over sockets.

use libc::*;

use super::escapes;
use crate::targets::{Answer, Targets, call, text, value};

fn socket(family: i32, kind: i32) -> Answer {
    call(SYS_socket, &[family as usize, kind as usize, 0])
}

/// Returns the address of the test's TCP port and its size, for a system call.
fn tcp_address(targets: &Targets) -> [usize; 2] {
    let address = sockaddr_in {
        sin_family: AF_INET as u16,
        sin_port: targets.port.to_be(),
        sin_addr: in_addr {
            s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
        },
        sin_zero: [0; 8],
    };
    [value(address), size_of::<sockaddr_in>()]
}

/// Returns the address of a Unix socket of the test and its size, for a system call.
fn unix_address(targets: &Targets, path: &str) -> [usize; 2] {
    let mut address = sockaddr_un {
        sun_family: AF_UNIX as u16,
        sun_path: [0; 108],
    };
    for (to, from) in address.sun_path.iter_mut().zip(targets.path(path).bytes()) {
        *to = from.cast_signed();
    }
    [value(address), size_of::<sockaddr_un>()]
}

fn pair(family: i32, kind: i32) -> Result<usize, i32> {
    let descriptors = value([0_i32; 2]);
    call(
        SYS_socketpair,
        &[family as usize, kind as usize, 0, descriptors],
    )?;
    // SAFETY: the kernel has written both descriptors.
    Ok(unsafe { *(descriptors as *const i32) } as usize)
}

/// Shuts the listener down, so that it can connect, and returns it. Does nothing if an earlier row
/// has shut it down.
fn connectable_listener(targets: &Targets) -> usize {
    let _ = call(SYS_shutdown, &[targets.listener, SHUT_RD as usize]);
    targets.listener
}

/// Sends a message by `sendmsg` or `sendmmsg`.
fn message(number: c_long, socket: usize, [address, size]: [usize; 2], flags: i32) -> Answer {
    let part = value(iovec {
        iov_base: text("x") as *mut _,
        iov_len: 1,
    });
    // SAFETY: all zeros is a valid message.
    let mut message: mmsghdr = unsafe { std::mem::zeroed() };
    message.msg_hdr.msg_name = address as *mut _;
    message.msg_hdr.msg_namelen = size as u32;
    message.msg_hdr.msg_iov = part as *mut _;
    message.msg_hdr.msg_iovlen = 1;
    if number == SYS_sendmmsg {
        call(number, &[socket, value(message), 1, flags as usize])
    } else {
        call(number, &[socket, value(message), flags as usize])
    }
}

fn set(socket: usize, level: i32, option: i32, to: usize) -> Answer {
    call(
        SYS_setsockopt,
        &[socket, level as usize, option as usize, to, 4],
    )
}

escapes! {
    "keeps creating a stream socket pair" => |_| pair(AF_UNIX, SOCK_STREAM).map(|_| 0);
    "keeps writing to a connection" => |t| call(SYS_sendto, &[t.stream, text("x"), 1, MSG_NOSIGNAL as usize]);

    "create a TCP socket" => |_| socket(AF_INET, SOCK_STREAM);
    "create a TCP socket for IPv6" => |_| socket(AF_INET6, SOCK_STREAM);
    "create a UDP socket" => |_| socket(AF_INET, SOCK_DGRAM);
    "create a raw socket" => |_| call(SYS_socket, &[AF_INET as usize, SOCK_RAW as usize, 1]);
    "create a Unix socket" => |_| socket(AF_UNIX, SOCK_STREAM);
    "create a Unix datagram socket" => |_| socket(AF_UNIX, SOCK_DGRAM);
    "create a netlink socket" => |_| socket(AF_NETLINK, SOCK_RAW);
    "create a packet socket" => |_| socket(AF_PACKET, SOCK_RAW);
    "create an AF_ALG socket" => |_| socket(AF_ALG, SOCK_SEQPACKET);
    "create a vsock socket" => |_| socket(AF_VSOCK, SOCK_STREAM);
    "connect over TCP" => |t| {
        let new = socket(AF_INET, SOCK_STREAM)? as usize;
        let [address, size] = tcp_address(t);
        call(SYS_connect, &[new, address, size])
    };
    "connect an open socket" => |t| {
        let [address, size] = unix_address(t, "secret/socket");
        call(SYS_connect, &[t.socket, address, size])
    };
    "bind a socket" => |t| {
        let [address, size] = unix_address(t, "secret/bound");
        call(SYS_bind, &[t.bindable, address, size])
    };
    "listen on a socket" => |t| call(SYS_listen, &[t.bindable, 1]);
    "connect a listener with sendto" => |t| {
        let ([address, size], flags) = (tcp_address(t), MSG_FASTOPEN | MSG_NOSIGNAL);
        call(SYS_sendto, &[connectable_listener(t), text("x"), 1, flags as usize, address, size])
    };
    "connect a listener with sendmsg" => |t| {
        message(SYS_sendmsg, connectable_listener(t), tcp_address(t), MSG_FASTOPEN | MSG_NOSIGNAL)
    };
    "connect a listener with sendmmsg" => |t| {
        message(SYS_sendmmsg, connectable_listener(t), tcp_address(t), MSG_FASTOPEN | MSG_NOSIGNAL)
    };
    "reconnect a connection elsewhere" => |t| {
        call(SYS_connect, &[t.stream, value([0_u8; 16]), 16])?;
        let [address, size] = tcp_address(t);
        call(SYS_connect, &[t.stream, address, size])
    };
    "create a datagram socket pair" => |_| pair(AF_UNIX, SOCK_DGRAM).map(|_| 0);
    "create a raw socket pair" => |_| pair(AF_UNIX, SOCK_RAW).map(|_| 0);
    "create a seqpacket socket pair" => |_| pair(AF_UNIX, SOCK_SEQPACKET).map(|_| 0);
    "create a TCP socket pair" => |_| pair(AF_INET, SOCK_STREAM).map(|_| 0);
    "send a datagram to a path" => |t| {
        let one = pair(AF_UNIX, SOCK_DGRAM)?;
        let [address, size] = unix_address(t, "secret/datagrams");
        call(SYS_sendto, &[one, text("x"), 1, 0, address, size])
    };
    "send a datagram through an open socket" => |t| {
        message(SYS_sendmmsg, t.datagrams, unix_address(t, "secret/datagrams"), 0)
    };
    "set a socket's priority" => |t| set(t.stream, SOL_SOCKET, SO_PRIORITY, value(1_u32));
    "set a socket's filter" => |t| set(t.stream, SOL_SOCKET, SO_DETACH_FILTER, value(1_u32));
    "attach kernel TLS to a socket" => |t| set(t.stream, SOL_TCP, TCP_ULP, text("none"));
    "enable TCP Fast Open" => |t| set(t.listener, SOL_TCP, TCP_FASTOPEN_CONNECT, value(1_u32));
    "receive several messages" => |t| call(SYS_recvmmsg, &[t.datagrams, 0, 0, MSG_DONTWAIT as usize, 0]);
    "list the network interfaces" => |t| call(SYS_ioctl, &[t.stream, SIOCGIFCONF as usize, value([0_u64; 2])]);
    "have a socket signal this process" => |t| call(SYS_ioctl, &[t.stream, FIOASYNC as usize, value(0_i32)]);
    "choose the process that a socket signals" => |t| call(SYS_ioctl, &[t.stream, 0x8901, value(t.victim as i32)]);
}
