//! Reading a request's body, bounded in size and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::answer::{self, Answer};

/// Bytes reserved on the word of `content-length` alone; the rest is reserved as it arrives.
const TRUSTED_LENGTH: u64 = 256 * 1024;

/// What a body may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    /// Bytes; the setting `limits.body`.
    pub(crate) bytes: u64,
    /// From the end of the headers to the end of the body.
    pub(crate) time: Duration,
}

/// Why a body was not read to its end. The rest of it is still on its way.
#[derive(Debug)]
pub(crate) enum BodyError {
    TooLarge(u64),
    TooSlow,
    /// The client went away or broke the framing.
    Broken,
}

impl BodyError {
    pub(crate) fn answer(&self) -> Answer {
        match self {
            Self::TooLarge(limit) => {
                let message = format!("the body is larger than {limit} bytes; the limit is \"body\" in [limits] of config.toml");
                answer::error(StatusCode::PAYLOAD_TOO_LARGE, &message)
            }
            Self::TooSlow => answer::error(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"),
            Self::Broken => answer::error(StatusCode::BAD_REQUEST, "the body broke off"),
        }
    }
}

/// The whole body. A body that announces too much is refused before any of it is read.
pub(crate) async fn read(mut body: Incoming, limits: BodyLimits) -> Result<Bytes, BodyError> {
    let too_large = || BodyError::TooLarge(limits.bytes);
    let announced = body.size_hint().lower();
    if announced > limits.bytes {
        return Err(too_large());
    }
    let read = async {
        let mut first: Option<Bytes> = None;
        let mut rest = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
            let length = first.as_ref().map_or(0, Bytes::len) + rest.len();
            if (length + data.len()) as u64 > limits.bytes {
                return Err(too_large());
            }
            // Most bodies come in one piece and are not copied.
            match first.take() {
                None if rest.is_empty() => first = Some(data),
                None => rest.extend_from_slice(&data),
                Some(before) => {
                    rest.reserve(usize::try_from(announced.min(TRUSTED_LENGTH)).unwrap_or(0));
                    rest.extend_from_slice(&before);
                    rest.extend_from_slice(&data);
                }
            }
        }
        Ok(first.unwrap_or_else(|| rest.freeze()))
    };
    tokio::time::timeout(limits.time, read).await.map_err(|_| BodyError::TooSlow)?
}
