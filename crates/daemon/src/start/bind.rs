//! Taking the port.

use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use super::prepare::Prepared;
use super::{StartError, probe};
use crate::server::limits::BACKLOG;

/// Listens where the agent is to be found. Needs a tokio runtime.
///
/// # Errors
/// The port is taken: by a daemon of this agent, or by another program.
pub(crate) async fn tcp(prepared: &Prepared) -> Result<TcpListener, StartError> {
    let address = prepared.address;
    let agent = || prepared.home.name().as_str().to_owned();
    match listen(address) {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            if probe::is_served(address, prepared).await {
                return Err(StartError::AlreadyServed { agent: agent(), address });
            }
            Err(StartError::PortTaken { agent: agent(), port: address.port(), config: prepared.home.config_json() })
        }
        Err(source) => Err(StartError::Bind { agent: agent(), address, source }),
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A successor binds while connections of its predecessor still linger.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}
