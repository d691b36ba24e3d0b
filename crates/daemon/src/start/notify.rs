//! Tells the service manager that started us how we are: the datagrams of `sd_notify(3)`.
//!
//! Invariant: "ready" is said when `/health` has answered, and not before. Without `NOTIFY_SOCKET` nothing is sent, and without
//! `WATCHDOG_USEC` there is no timer, so that an idle daemon is never woken for it. The variables are taken from the environment that
//! `main` read; programs that the daemon starts never see them, since their environment is an allow list.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};
use wolli_home::environment::Environment;

use super::probe;
use crate::api::opening::Opening;
use crate::stop::Stop;

/// Between two looks whether `/health` answers: mostly the first one sees it.
const PROBE_PAUSE: Duration = Duration::from_millis(50);

/// The line to the service manager.
#[derive(Debug)]
pub(crate) struct Notifier {
    socket: Option<UnixDatagram>,
    /// How often it has to hear of us.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// The line that the environment names. A line that cannot be had is none: whoever waits at its end says so.
    pub(crate) fn of(environment: &Environment) -> Self {
        let socket = environment.variable("NOTIFY_SOCKET").and_then(|address| {
            connect(address).inspect_err(|error| tracing::warn!(%error, address, "the service manager cannot be told anything")).ok()
        });
        let watchdog = socket.is_some().then(|| watchdog(environment, std::process::id())).flatten();
        Self { socket, watchdog }
    }

    /// Sends assignments in one datagram.
    fn say(&self, assignments: &[&str]) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(assignments.join("\n").as_bytes())
        {
            tracing::warn!(%error, "the service manager was not told");
        }
    }

    /// Tells what becomes of the daemon, for as long as it is polled.
    pub(crate) async fn follow(&self, address: SocketAddr, opening: watch::Receiver<Opening>, stop: Stop) -> Infallible {
        if self.socket.is_none() {
            return pending().await;
        }
        tokio::select! {
            never = self.keep_watchdog() => never,
            never = self.tell(address, opening, stop) => never,
        }
    }

    async fn keep_watchdog(&self) -> Infallible {
        let Some(limit) = self.watchdog else { return pending().await };
        let mut ticks = interval(limit / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.say(&["WATCHDOG=1"]);
        }
    }

    async fn tell(&self, address: SocketAddr, opening: watch::Receiver<Opening>, stop: Stop) -> Infallible {
        self.say(&["STATUS=loading"]);
        tokio::select! {
            biased;
            _ = stop.wanted() => {}
            () = self.tell_start(address, opening) => { stop.wanted().await; }
        }
        self.say(&["STOPPING=1", "STATUS=stopping"]);
        pending().await
    }

    async fn tell_start(&self, address: SocketAddr, mut opening: watch::Receiver<Opening>) {
        while !probe::answers(address).await {
            sleep(PROBE_PAUSE).await;
        }
        self.say(&["READY=1"]);
        // One that cannot be loaded is about to stop.
        if opening.wait_for(|opening| matches!(opening, Opening::Open(_))).await.is_ok() {
            self.say(&[&format!("STATUS=serving on {address}")]);
        }
    }
}

/// A path, or a name of Linux's abstract namespace behind an `@`.
fn connect(address: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not hold us up.
    socket.set_nonblocking(true)?;
    match address.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            socket.connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)?;
        }
        #[cfg(not(target_os = "linux"))]
        Some(_) => return Err(io::ErrorKind::Unsupported.into()),
        None if address.starts_with('/') => socket.connect(address)?,
        None => return Err(io::ErrorKind::Unsupported.into()),
    }
    Ok(socket)
}

/// What the watchdog allows between two signs of life, if it watches this process.
fn watchdog(environment: &Environment, process: u32) -> Option<Duration> {
    let ours = environment.variable("WATCHDOG_PID").is_none_or(|pid| pid == process.to_string());
    let limit: u64 = environment.variable("WATCHDOG_USEC")?.parse().ok()?;
    (ours && limit > 0).then(|| Duration::from_micros(limit))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, UnixDatagram as Datagrams};

    use super::*;
    use crate::stop::StopReason;

    async fn next(received: &Datagrams) -> String {
        let mut buffer = [0; 256];
        let count = received.recv(&mut buffer).await.unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    }

    #[tokio::test]
    async fn ready_is_said_after_the_first_answer_and_stopping_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let received = Datagrams::bind(&path).unwrap();
        let notifier = Notifier::of(&Environment::new([("NOTIFY_SOCKET", path.to_str().unwrap())], "/"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (opened, opening) = watch::channel(Opening::Loading);
        let stop = Stop::default();
        let following = notifier.follow(listener.local_addr().unwrap(), opening, stop.clone());
        let test = async {
            assert_eq!(next(&received).await, "STATUS=loading");
            let (mut asked, _) = listener.accept().await.unwrap();
            let mut head = [0; 512];
            let count = asked.read(&mut head).await.unwrap();
            assert!(head[..count].starts_with(b"GET /health"), "asked for something else");
            assert!(received.try_recv(&mut [0; 9]).is_err(), "it was ready before it answered");
            asked.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            assert_eq!(next(&received).await, "READY=1");
            stop.request(StopReason::Command);
            assert_eq!(next(&received).await, "STOPPING=1\nSTATUS=stopping");
        };
        tokio::select! {
            never = following => match never {},
            () = test => {}
        }
        drop(opened);
    }

    #[test]
    fn the_watchdog_is_ours_or_nobodys() {
        for (variables, limit) in [
            (&[("WATCHDOG_USEC", "120000000")][..], Some(120)),
            (&[("WATCHDOG_USEC", "120000000"), ("WATCHDOG_PID", "7")], Some(120)),
            (&[("WATCHDOG_USEC", "120000000"), ("WATCHDOG_PID", "8")], None),
            (&[("WATCHDOG_USEC", "0")], None),
            (&[("WATCHDOG_USEC", "soon")], None),
            (&[], None),
        ] {
            let environment = Environment::new(variables.iter().copied(), "/");
            assert_eq!(watchdog(&environment, 7), limit.map(Duration::from_secs), "{variables:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_come_twice_as_often_as_they_must() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let received = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        received.set_nonblocking(true).unwrap();
        let variables = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "120000000")];
        let notifier = Notifier::of(&Environment::new(variables, "/"));
        let asked = tokio::time::timeout(Duration::from_secs(241), notifier.keep_watchdog()).await;
        assert!(asked.is_err());
        let mut count = 0;
        while received.recv(&mut [0; 64]).is_ok() {
            count += 1;
        }
        assert_eq!(count, 5, "at once, then every minute for four minutes");
    }

    #[test]
    fn an_address_that_is_none_is_no_line() {
        for address in ["relative", "/nobody/here", "vsock:2:1"] {
            let notifier = Notifier::of(&Environment::new([("NOTIFY_SOCKET", address), ("WATCHDOG_USEC", "5")], "/"));
            assert!(notifier.socket.is_none() && notifier.watchdog.is_none());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn abstract_names_work() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("wolli-notify-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let received = UnixDatagram::bind_addr(&address).unwrap();
        let notifier = Notifier::of(&Environment::new([("NOTIFY_SOCKET", format!("@{name}"))], "/"));
        notifier.say(&["READY=1", "STATUS=x"]);
        let mut buffer = [0; 64];
        let count = received.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"READY=1\nSTATUS=x");
    }
}
