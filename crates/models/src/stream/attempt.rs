//! One attempt of a request: what is sent, and what a refusal of it means.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::SystemTime;

use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Client, Response, Url};

use super::Sending;
use crate::client::Shared;
use crate::formats::{Folder, Kind, status_text};
use crate::headers::headers;
use crate::refused::Fingerprint;
use crate::repair::{MAX_REPAIRS, Repair, Repairs, repair_for};
use crate::request::ModelRequest;
use crate::retry::{Verdict, verdict_on_status};
use crate::transport::address;

/// How often the request was sent, and why it is sent again.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    /// Retries after failures that may pass.
    pub(super) retries: u32,
    repairs: u32,
    /// The refusal that the last repair answers.
    refused: Option<String>,
    last_body: Option<u64>,
    /// The last refusal said that there were too many requests.
    pub(super) rate_limited: bool,
    /// What the repairs so far left out.
    pub(super) left_out: Vec<Fingerprint>,
}

impl Attempt {
    pub(super) const fn may_repair(&self) -> bool {
        self.repairs < MAX_REPAIRS
    }

    pub(super) fn repaired(&mut self, refusal: String) {
        self.repairs += 1;
        self.refused = Some(refusal);
    }

    pub(super) fn take_refused(&mut self) -> Option<String> {
        self.refused.take()
    }

    /// True if the same body was sent before.
    pub(super) fn repeats(&mut self, body: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let hash = hasher.finish();
        self.last_body.replace(hash) == Some(hash)
    }
}

/// All that is needed to send a request and to read its answer.
pub(super) struct Prepared {
    pub(super) client: Client,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) folder: Folder,
    pub(super) left_out: Vec<Fingerprint>,
}

/// A request that is heavier than this is written on a thread for blocking work: other sessions share this one.
const LIGHT_BYTES: usize = 256 * 1024;

/// True if writing the request takes a moment: it is large, or the HTTP client has to be made first.
pub(super) fn is_heavy(shared: &Shared, request: &ModelRequest) -> bool {
    let ready = Url::parse(&request.model.base_url).is_ok_and(|url| shared.transport.is_ready_for(&url));
    !ready || crate::prepare::weight(&request.messages) + request.system.len() > LIGHT_BYTES
}

/// Writes the request; the error is the text for the person.
pub(super) fn prepare(shared: &Shared, request: &ModelRequest, repairs: &Repairs, timestamp: i64) -> Result<Prepared, String> {
    let model = &request.model;
    let kind = Kind::of(&model.api).ok_or_else(|| format!("No API provider registered for api: {}", model.api))?;
    let key = request.auth.key.as_ref().ok_or_else(|| format!("No API key for provider: {}", model.provider))?;
    let url = address(&model.base_url, kind.path(), &model.provider).map_err(|error| error.to_string())?;
    let written = kind
        .write(request, shared.config.cache_retention, repairs)
        .map_err(|error| format!("could not write the request to {}: {error}", model.provider))?;
    let headers = headers(kind, request, key, &written).map_err(|error| error.to_string())?;
    let client = shared.transport.client(&url).map_err(|error| error.to_string())?;
    let folder = Folder::new(kind, model, written.names, timestamp);
    Ok(Prepared { client, url, headers, body: written.body, folder, left_out: written.left_out })
}

/// Sends a request; it goes out when the future is polled.
pub(super) fn send(client: Client, url: Url, headers: HeaderMap, body: Vec<u8>) -> Sending {
    Box::pin(client.post(url).headers(headers).body(body).send())
}

/// An answer with an error status.
#[derive(Debug)]
pub(super) struct Refusal {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Refusal {
    pub(super) fn new(response: &Response) -> Self {
        Self { status: response.status().as_u16(), headers: response.headers().clone(), body: Vec::new() }
    }

    /// Takes in a piece of the body; true when there is enough.
    pub(super) fn take_in(&mut self, bytes: &[u8], limit: usize) -> bool {
        let room = limit.saturating_sub(self.body.len());
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.body.len() >= limit
    }

    pub(super) const fn is_rate_limit(&self) -> bool {
        self.status == 429
    }

    pub(super) fn text(&self, kind: Kind) -> String {
        if (300..400).contains(&self.status) && self.headers.contains_key(LOCATION) {
            return format!("{} the provider redirects to another address, which is not followed", self.status);
        }
        status_text(kind, self.status, &self.body())
    }

    pub(super) fn repair(&self) -> Option<Repair> {
        repair_for(self.status, &self.body())
    }

    pub(super) fn verdict(&self, now: SystemTime) -> Verdict {
        verdict_on_status(self.status, &self.headers, &self.body(), now)
    }

    fn body(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}
