//! The HTTP clients that model requests travel over, made when they are first needed.
//!
//! HTTP/1.1 only. A redirect is followed only within the same origin, so that a key never reaches another host. Proxies
//! come from the environment, but never for loopback. A client for `http` loads no certificates, so that a daemon that
//! talks to a local server, or to none, does not pay for them.
//!
//! Not here: when to send again, what the bytes mean.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, Url, redirect};

/// Idle connections are kept this long for the next turn.
const POOL_IDLE: Duration = Duration::from_secs(60);
/// Most redirects within one origin.
const MAX_REDIRECTS: usize = 3;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    #[error("invalid base URL for provider {provider}: {reason}")]
    Address { provider: String, reason: String },
    #[error("could not set up the HTTP client: {0}")]
    Setup(String),
}

/// The clients, each made once.
#[derive(Debug, Default)]
pub(crate) struct Transport {
    connect_timeout: Duration,
    /// By whether it speaks TLS, and by whether it stays on this machine.
    made: Mutex<[[Option<Client>; 2]; 2]>,
}

impl Transport {
    pub(crate) fn new(connect_timeout: Duration) -> Self {
        Self { connect_timeout, made: Mutex::default() }
    }

    /// True if the client for an address was made before, so that taking it costs nothing.
    pub(crate) fn is_ready_for(&self, url: &Url) -> bool {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made[usize::from(url.scheme() == "https")][usize::from(is_loopback(url))].is_some()
    }

    /// The client for an address. The first one for `https` reads the certificates of the machine.
    pub(crate) fn client(&self, url: &Url) -> Result<Client, TransportError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let secure = url.scheme() == "https";
        let loopback = is_loopback(url);
        let slot = &mut made[usize::from(secure)][usize::from(loopback)];
        if let Some(client) = slot {
            return Ok(client.clone());
        }
        let client = self.build(secure, loopback)?;
        Ok(slot.insert(client).clone())
    }

    fn build(&self, secure: bool, without_proxy: bool) -> Result<Client, TransportError> {
        let setup = |error: &dyn std::fmt::Display| TransportError::Setup(error.to_string());
        let mut builder = Client::builder()
            .http1_only()
            .connect_timeout(self.connect_timeout)
            .pool_idle_timeout(POOL_IDLE)
            .redirect(redirect::Policy::custom(same_origin));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        if secure {
            // Somebody else may have installed one; either will do.
            let _ = rustls::crypto::ring::default_provider().install_default();
        } else {
            let config = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| setup(&error))?
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            builder = builder.tls_backend_preconfigured(config);
        }
        if without_proxy {
            builder = builder.no_proxy();
        }
        builder.build().map_err(|error| setup(&root_cause(&error)))
    }
}

fn same_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let origin = |url: &Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default());
    let here = attempt.previous().last().map(origin);
    if here == Some(origin(attempt.url())) && attempt.previous().len() <= MAX_REDIRECTS { attempt.follow() } else { attempt.stop() }
}

/// True for addresses that never leave the machine.
fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost" | "[::1]" | "::1") => true,
        Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

/// What went wrong in the end, without the address: it may hold credentials.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if std::ptr::addr_eq(cause, error as &dyn std::error::Error) {
        // The error itself prints its address.
        return if error.is_timeout() { "timed out".to_owned() } else { "the request failed".to_owned() };
    }
    cause.to_string()
}

/// True if a failure to get a response may pass: no connection, a reset, a time-out.
pub(crate) fn may_pass(error: &reqwest::Error) -> bool {
    if error.is_builder() || error.is_redirect() {
        return false;
    }
    // The same certificate will be refused again.
    let cause = root_cause(error).to_ascii_lowercase();
    !cause.contains("certificate") && (error.is_connect() || error.is_timeout() || error.is_request() || error.is_body())
}

/// The address of a request: the base URL, which is complete by now, and the path of the kind.
pub(crate) fn address(base_url: &str, path: &str, provider: &str) -> Result<Url, TransportError> {
    let base = base_url.trim_end_matches('/');
    // People write the base URL with and without the version.
    let path = if base.ends_with("/v1") { path.strip_prefix("/v1").unwrap_or(path) } else { path };
    let invalid = |reason: String| TransportError::Address { provider: provider.to_owned(), reason };
    let url = Url::parse(&format!("{base}{path}")).map_err(|error| invalid(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(format!("the scheme {} is not http or https", url.scheme())));
    }
    Ok(url)
}
