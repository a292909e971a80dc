//! Attacks on things outside the call, such as its environment, the network and processes;
//! and calls that end without an answer.

use std::net::TcpStream;
use std::process::Command;

use skillhost_guest::{Failure, Output};
use wasip2::cli::environment::{get_arguments, get_environment, initial_cwd};
use wasip2::cli::exit::exit;
use wasip2::cli::stdin::get_stdin;
use wasip2::io::streams::StreamError;
use wasip2::sockets::instance_network::instance_network;
use wasip2::sockets::ip_name_lookup::resolve_addresses;
use wasip2::sockets::network::IpAddressFamily;
use wasip2::sockets::tcp_create_socket::create_tcp_socket;
use wasip2::sockets::udp_create_socket::create_udp_socket;

use crate::{Arguments, Attack, done};

pub(crate) fn environment(_: &Arguments) -> Attack {
    let told = (get_environment(), get_arguments(), initial_cwd());
    Ok(Output::text(format!("{told:?}")))
}

pub(crate) fn standard_input(_: &Arguments) -> Attack {
    match get_stdin().blocking_read(1 << 20) {
        Ok(bytes) => Ok(Output::text(String::from_utf8_lossy(&bytes))),
        Err(StreamError::Closed) => Err(Failure::refused("closed")),
        Err(StreamError::LastOperationFailed(error)) => {
            Err(Failure::refused(error.to_debug_string()))
        }
    }
}

pub(crate) fn tcp(_: &Arguments) -> Attack {
    create_tcp_socket(IpAddressFamily::Ipv4).map_err(|code| Failure::refused(code.name()))?;
    done()
}

pub(crate) fn udp(_: &Arguments) -> Attack {
    create_udp_socket(IpAddressFamily::Ipv6).map_err(|code| Failure::refused(code.name()))?;
    done()
}

pub(crate) fn resolve(call: &Arguments) -> Attack {
    resolve_addresses(&instance_network(), call.path())
        .map_err(|code| Failure::refused(code.name()))?;
    done()
}

fn by_std<T>(result: std::io::Result<T>) -> Attack {
    match result {
        Ok(_) => done(),
        Err(error) => Err(Failure::refused(format!("{:?}", error.kind()))),
    }
}

pub(crate) fn connect_by_std(call: &Arguments) -> Attack {
    by_std(TcpStream::connect(call.path()))
}

pub(crate) fn start_process(_: &Arguments) -> Attack {
    by_std(Command::new("/bin/sh").spawn())
}

pub(crate) fn start_thread(_: &Arguments) -> Attack {
    by_std(std::thread::Builder::new().spawn(|| ()))
}

pub(crate) fn skills(_: &Arguments) -> Attack {
    let skills = skillhost_guest::skills::list();
    let names: Vec<String> = skills.into_iter().map(|skill| skill.name).collect();
    Ok(Output::text(names.join("\n")))
}

pub(crate) fn exit_with_success(_: &Arguments) -> Attack {
    exit(Ok(()));
    done()
}

pub(crate) fn exit_with_failure(_: &Arguments) -> Attack {
    exit(Err(()));
    done()
}

pub(crate) fn break_off(call: &Arguments) -> Attack {
    panic!("{}", call.path())
}

/// Does nothing: only its definition changes.
pub(crate) fn change(_: &Arguments) -> Attack {
    done()
}
