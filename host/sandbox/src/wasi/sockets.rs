//! `wasi:sockets` without a network: no socket is created and no name is resolved.
//! Components made from Python always import these interfaces, so they are linked, and all
//! functions that create sockets are denied. Functions on existing sockets come from
//! wasmtime-wasi: no guest has a socket, and the context allows no protocol either.

use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::{self, HostResolveAddressStream};
use wasmtime_wasi::p2::bindings::sockets::network::{
    self, ErrorCode, HostNetwork, IpAddress, IpAddressFamily,
};
use wasmtime_wasi::p2::bindings::sockets::{instance_network, tcp_create_socket};
use wasmtime_wasi::p2::bindings::sync::sockets::{tcp, udp, udp_create_socket};
use wasmtime_wasi::p2::{Network, SocketError, SocketResult, TcpSocket, UdpSocket};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView as _};
use wasmtime_wasi_io::poll::DynPollable;

use super::HasImportState;

/// The functions that create a socket or resolve a name. All are denied.
pub(super) struct NoNetwork;

impl HasData for NoNetwork {
    type Data<'a> = NoNetwork;
}

pub(super) fn link<T: HasImportState>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let options = network::LinkOptions::default();
    instance_network::add_to_linker::<T, WasiSockets>(linker, |t| t.imports().sockets())?;
    network::add_to_linker::<T, WasiSockets>(linker, &options, |t| t.imports().sockets())?;
    tcp::add_to_linker::<T, WasiSockets>(linker, |t| t.imports().sockets())?;
    udp::add_to_linker::<T, WasiSockets>(linker, |t| t.imports().sockets())?;
    ip_name_lookup::add_to_linker::<T, NoNetwork>(linker, |_| NoNetwork)?;
    tcp_create_socket::add_to_linker::<T, NoNetwork>(linker, |_| NoNetwork)?;
    udp_create_socket::add_to_linker::<T, NoNetwork>(linker, |_| NoNetwork)?;
    Ok(())
}

impl network::Host for NoNetwork {
    fn convert_error_code(&mut self, error: SocketError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn network_error_code(
        &mut self,
        _: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        Ok(None)
    }
}

impl HostNetwork for NoNetwork {
    fn drop(&mut self, _: Resource<Network>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl tcp_create_socket::Host for NoNetwork {
    fn create_tcp_socket(&mut self, _: IpAddressFamily) -> SocketResult<Resource<TcpSocket>> {
        Err(ErrorCode::AccessDenied.into())
    }
}

impl udp_create_socket::Host for NoNetwork {
    fn create_udp_socket(&mut self, _: IpAddressFamily) -> SocketResult<Resource<UdpSocket>> {
        Err(ErrorCode::AccessDenied.into())
    }
}

type Addresses = ip_name_lookup::ResolveAddressStream;

impl ip_name_lookup::Host for NoNetwork {
    fn resolve_addresses(
        &mut self,
        _: Resource<Network>,
        _: String,
    ) -> SocketResult<Resource<Addresses>> {
        Err(ErrorCode::AccessDenied.into())
    }
}

impl HostResolveAddressStream for NoNetwork {
    fn resolve_next_address(&mut self, _: Resource<Addresses>) -> SocketResult<Option<IpAddress>> {
        Err(ErrorCode::AccessDenied.into())
    }

    fn subscribe(&mut self, _: Resource<Addresses>) -> wasmtime::Result<Resource<DynPollable>> {
        wasmtime::bail!("no name is ever looked up")
    }

    fn drop(&mut self, _: Resource<Addresses>) -> wasmtime::Result<()> {
        Ok(())
    }
}
