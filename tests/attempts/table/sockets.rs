//! Attempts to reach others over sockets.

use libc::*;

use super::attempts;
use crate::ground::{Answer, Ground, call, text, value};

fn socket(family: i32, kind: i32) -> Answer {
    call(SYS_socket, &[family as usize, kind as usize, 0])
}

/// Returns the address of the test's port, for a system call, and its size.
fn port(ground: &Ground) -> [usize; 2] {
    let address = sockaddr_in {
        sin_family: AF_INET as u16,
        sin_port: ground.port.to_be(),
        sin_addr: in_addr {
            s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
        },
        sin_zero: [0; 8],
    };
    [value(address), size_of::<sockaddr_in>()]
}

/// Returns the address of a Unix socket of the test, and its size.
fn name(ground: &Ground, path: &str) -> [usize; 2] {
    let mut address = sockaddr_un {
        sun_family: AF_UNIX as u16,
        sun_path: [0; 108],
    };
    for (to, from) in address.sun_path.iter_mut().zip(ground.path(path).bytes()) {
        *to = from.cast_signed();
    }
    [value(address), size_of::<sockaddr_un>()]
}

fn pair(family: i32, kind: i32) -> Result<usize, i32> {
    let both = value([0_i32; 2]);
    call(SYS_socketpair, &[family as usize, kind as usize, 0, both])?;
    // SAFETY: the kernel has written it.
    Ok(unsafe { *(both as *const i32) } as usize)
}

/// Makes a listener a socket that may connect. An earlier attempt may have done so.
fn unused_listener(ground: &Ground) -> usize {
    let _ = call(SYS_shutdown, &[ground.listener, SHUT_RD as usize]);
    ground.listener
}

/// Sends a message by `sendmsg` or `sendmmsg`.
fn message(number: c_long, socket: usize, [address, size]: [usize; 2], flags: i32) -> Answer {
    let part = value(iovec {
        iov_base: text("x") as *mut _,
        iov_len: 1,
    });
    // SAFETY: zeros are a message.
    let mut message: mmsghdr = unsafe { std::mem::zeroed() };
    message.msg_hdr.msg_name = address as *mut _;
    message.msg_hdr.msg_namelen = size as u32;
    message.msg_hdr.msg_iov = part as *mut _;
    message.msg_hdr.msg_iovlen = 1;
    match number == SYS_sendmmsg {
        true => call(number, &[socket, value(message), 1, flags as usize]),
        false => call(number, &[socket, value(message), flags as usize]),
    }
}

fn set(socket: usize, level: i32, option: i32, to: usize) -> Answer {
    call(
        SYS_setsockopt,
        &[socket, level as usize, option as usize, to, 4],
    )
}

attempts! {
    "keeps a pair of streams" => |_| pair(AF_UNIX, SOCK_STREAM).map(|_| 0);
    "keeps writing to a connection" => |g| call(SYS_sendto, &[g.stream, text("x"), 1, MSG_NOSIGNAL as usize]);

    "make a TCP socket" => |_| socket(AF_INET, SOCK_STREAM);
    "make a TCP socket of IPv6" => |_| socket(AF_INET6, SOCK_STREAM);
    "make a UDP socket" => |_| socket(AF_INET, SOCK_DGRAM);
    "make a raw socket" => |_| call(SYS_socket, &[AF_INET as usize, SOCK_RAW as usize, 1]);
    "make a Unix socket" => |_| socket(AF_UNIX, SOCK_STREAM);
    "make a Unix socket for datagrams" => |_| socket(AF_UNIX, SOCK_DGRAM);
    "make a netlink socket" => |_| socket(AF_NETLINK, SOCK_RAW);
    "make a packet socket" => |_| socket(AF_PACKET, SOCK_RAW);
    "make a socket to the kernel's ciphers" => |_| socket(AF_ALG, SOCK_SEQPACKET);
    "make a socket to the machine below" => |_| socket(AF_VSOCK, SOCK_STREAM);
    "connect over TCP" => |g| {
        let new = socket(AF_INET, SOCK_STREAM)? as usize;
        let [address, size] = port(g);
        call(SYS_connect, &[new, address, size])
    };
    "connect a socket that is open" => |g| {
        let [address, size] = name(g, "secret/socket");
        call(SYS_connect, &[g.socket, address, size])
    };
    "bind a socket" => |g| {
        let [address, size] = name(g, "secret/bound");
        call(SYS_bind, &[g.bindable, address, size])
    };
    "listen on a socket" => |g| call(SYS_listen, &[g.bindable, 1]);
    "connect a listener by its first bytes" => |g| {
        let ([address, size], flags) = (port(g), MSG_FASTOPEN | MSG_NOSIGNAL);
        call(SYS_sendto, &[unused_listener(g), text("x"), 1, flags as usize, address, size])
    };
    "connect a listener by a message" => |g| {
        message(SYS_sendmsg, unused_listener(g), port(g), MSG_FASTOPEN | MSG_NOSIGNAL)
    };
    "connect a listener by messages" => |g| {
        message(SYS_sendmmsg, unused_listener(g), port(g), MSG_FASTOPEN | MSG_NOSIGNAL)
    };
    "connect a connection elsewhere" => |g| {
        call(SYS_connect, &[g.stream, value([0_u8; 16]), 16])?;
        let [address, size] = port(g);
        call(SYS_connect, &[g.stream, address, size])
    };
    "make a pair for datagrams" => |_| pair(AF_UNIX, SOCK_DGRAM).map(|_| 0);
    "make a pair of raw sockets" => |_| pair(AF_UNIX, SOCK_RAW).map(|_| 0);
    "make a pair for messages" => |_| pair(AF_UNIX, SOCK_SEQPACKET).map(|_| 0);
    "make a pair of TCP" => |_| pair(AF_INET, SOCK_STREAM).map(|_| 0);
    "send a datagram to a name" => |g| {
        let one = pair(AF_UNIX, SOCK_DGRAM)?;
        let [address, size] = name(g, "secret/datagrams");
        call(SYS_sendto, &[one, text("x"), 1, 0, address, size])
    };
    "send a datagram through a socket that is open" => |g| {
        message(SYS_sendmmsg, g.datagrams, name(g, "secret/datagrams"), 0)
    };
    "set a socket's priority" => |g| set(g.stream, SOL_SOCKET, SO_PRIORITY, value(1_u32));
    "set a socket's filter" => |g| set(g.stream, SOL_SOCKET, SO_DETACH_FILTER, value(1_u32));
    "give a socket to the kernel's TLS" => |g| set(g.stream, SOL_TCP, TCP_ULP, text("none"));
    "let a later connection send at once" => |g| set(g.listener, SOL_TCP, TCP_FASTOPEN_CONNECT, value(1_u32));
    "receive messages at a time" => |g| call(SYS_recvmmsg, &[g.datagrams, 0, 0, MSG_DONTWAIT as usize, 0]);
    "list the interfaces" => |g| call(SYS_ioctl, &[g.stream, SIOCGIFCONF as usize, value([0_u64; 2])]);
    "be signalled by a socket" => |g| call(SYS_ioctl, &[g.stream, FIOASYNC as usize, value(0_i32)]);
    "choose whom a socket signals" => |g| call(SYS_ioctl, &[g.stream, 0x8901, value(g.victim as i32)]);
}
