//! `wasi:sockets`, of which nothing works: no socket is ever made and no name
//! is ever resolved. Components made from Python import these interfaces
//! whether they use them or not, so they are here, and every way in is closed.
//! What acts on a socket is wasmtime-wasi's; without a socket it cannot be
//! reached, and its context allows no protocol besides.

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

use super::HasWorld;

/// The way in, closed.
pub(super) struct Closed;

impl HasData for Closed {
    type Data<'a> = Closed;
}

pub(super) fn link<T: HasWorld>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let options = network::LinkOptions::default();
    instance_network::add_to_linker::<T, WasiSockets>(linker, |t| t.world().sockets())?;
    network::add_to_linker::<T, WasiSockets>(linker, &options, |t| t.world().sockets())?;
    tcp::add_to_linker::<T, WasiSockets>(linker, |t| t.world().sockets())?;
    udp::add_to_linker::<T, WasiSockets>(linker, |t| t.world().sockets())?;
    ip_name_lookup::add_to_linker::<T, Closed>(linker, |_| Closed)?;
    tcp_create_socket::add_to_linker::<T, Closed>(linker, |_| Closed)?;
    udp_create_socket::add_to_linker::<T, Closed>(linker, |_| Closed)?;
    Ok(())
}

impl network::Host for Closed {
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

impl HostNetwork for Closed {
    fn drop(&mut self, _: Resource<Network>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl tcp_create_socket::Host for Closed {
    fn create_tcp_socket(&mut self, _: IpAddressFamily) -> SocketResult<Resource<TcpSocket>> {
        Err(ErrorCode::AccessDenied.into())
    }
}

impl udp_create_socket::Host for Closed {
    fn create_udp_socket(&mut self, _: IpAddressFamily) -> SocketResult<Resource<UdpSocket>> {
        Err(ErrorCode::AccessDenied.into())
    }
}

type Addresses = ip_name_lookup::ResolveAddressStream;

impl ip_name_lookup::Host for Closed {
    fn resolve_addresses(
        &mut self,
        _: Resource<Network>,
        _: String,
    ) -> SocketResult<Resource<Addresses>> {
        Err(ErrorCode::AccessDenied.into())
    }
}

impl HostResolveAddressStream for Closed {
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
