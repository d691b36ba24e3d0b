//! Who listens on our port: asked without showing it the token.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wolli_home::token;

use super::prepare::Prepared;

/// A daemon of ours answers far faster, and a stranger may never answer.
const LIMIT: Duration = Duration::from_secs(2);
/// Bytes of an answer that are looked at.
const ANSWER_BYTES: u64 = 16 * 1024;
/// Random bytes of the nonce.
const NONCE_BYTES: usize = 16;

/// Whether a daemon of this agent answers on `address`. One that gives a proof must know our token; wolli 0.0.2 gives none.
pub(crate) async fn is_served(address: SocketAddr, prepared: &Prepared) -> bool {
    let Ok(nonce) = token::random_hex(NONCE_BYTES) else { return false };
    let answer = tokio::time::timeout(LIMIT, health(reachable(address), &nonce)).await;
    let Ok(Ok(health)) = answer else { return false };
    let named = health.get("agent").and_then(Value::as_str) == Some(prepared.home.name().as_str());
    let healthy = health.get("status").and_then(Value::as_str) == Some("ok");
    let proof = health.get("proof").and_then(Value::as_str);
    named && healthy && proof.is_none_or(|proof| token::proves(prepared.token.expose_secret(), &nonce, proof))
}

/// Whether anything that speaks HTTP answers on `address`, whatever it says.
pub(crate) async fn answers(address: SocketAddr) -> bool {
    const HEAD: &[u8] = b"HTTP/1.1 ";
    let asked = async {
        let address = reachable(address);
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(format!("GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes()).await?;
        let mut head = [0; HEAD.len()];
        stream.read_exact(&mut head).await?;
        Ok::<_, std::io::Error>(head == *HEAD)
    };
    matches!(tokio::time::timeout(LIMIT, asked).await, Ok(Ok(true)))
}

/// "All addresses" is reached over loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

async fn health(address: SocketAddr, nonce: &str) -> std::io::Result<Value> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /health?nonce={nonce} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer).await?;
    let start = answer.windows(4).position(|window| window == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    let body = answer.get(start..).unwrap_or_default();
    // A chunked body has its length before the JSON.
    let json = body.iter().position(|byte| *byte == b'{').and_then(|at| body.get(at..)).unwrap_or_default();
    serde_json::Deserializer::from_slice(json).into_iter().next().unwrap_or(Ok(Value::Null)).map_err(std::io::Error::other)
}
