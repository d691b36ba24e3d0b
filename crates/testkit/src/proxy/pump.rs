//! Carries the bytes of one connection.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use super::{Plan, Shared};

/// Small, so that a server that writes much feels that nobody reads.
const BUFFER: usize = 16 * 1024;

/// Limits of one direction.
struct Direction {
    cut_after: Option<u64>,
    stall_after: Option<u64>,
    delay: Duration,
    piece: usize,
}

/// Returns when the connection has ended, both sides of it.
pub(super) async fn carry(client: TcpStream, server: TcpStream, plan: &Plan, shared: &Shared) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let mut cuts = shared.cuts.subscribe();
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let down = Direction {
        cut_after: plan.cut_after,
        stall_after: plan.stall_after,
        delay: plan.delay,
        piece: plan.piece.unwrap_or(BUFFER).clamp(1, BUFFER),
    };
    let up = Direction { cut_after: plan.cut_request_after, stall_after: None, delay: Duration::ZERO, piece: BUFFER };
    let mut sides = (client_read, client_write, server_read, server_write);
    {
        let downwards = pump(&mut sides.2, &mut sides.1, &down, shared.frozen.subscribe());
        let upwards = pump(&mut sides.0, &mut sides.3, &up, shared.frozen.subscribe());
        let both = async {
            // An orderly end of one direction leaves the other one; a cut ends both.
            tokio::pin!(downwards, upwards);
            tokio::select! {
                cut = &mut downwards => if !cut { upwards.await; },
                cut = &mut upwards => if !cut { downwards.await; },
            }
        };
        tokio::select! {
            biased;
            _ = cuts.changed() => {}
            () = both => {}
        }
    }
    let (client_read, client_write, server_read, server_write) = sides;
    if let (Ok(client), Ok(server)) = (client_read.reunite(client_write), server_read.reunite(server_write))
        && plan.reset
    {
        for side in [&client, &server] {
            let _ = socket2::SockRef::from(side).set_linger(Some(Duration::ZERO));
        }
    }
}

/// Carries one direction; true when the plan cut it.
async fn pump(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, direction: &Direction, mut frozen: watch::Receiver<bool>) -> bool {
    let mut passed = 0_u64;
    let mut buffer = vec![0; direction.piece];
    loop {
        let left = |limit: Option<u64>| limit.map_or(u64::MAX, |limit| limit.saturating_sub(passed));
        if left(direction.cut_after) == 0 {
            return true;
        }
        if left(direction.stall_after) == 0 {
            std::future::pending::<()>().await;
        }
        let room = left(direction.cut_after).min(left(direction.stall_after)).min(buffer.len() as u64);
        let room = usize::try_from(room).unwrap_or(buffer.len());
        let count = match from.read(&mut buffer[..room]).await {
            Ok(0) => {
                let _ = to.shutdown().await;
                return false;
            }
            Ok(count) => count,
            Err(_) => return true,
        };
        // The sender lives as long as the proxy; when it is gone, so is this task.
        let _ = frozen.wait_for(|frozen| !*frozen).await;
        if direction.delay > Duration::ZERO {
            tokio::time::sleep(direction.delay).await;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return true;
        }
        passed += count as u64;
    }
}
