//! One request and its answer.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use secrecy::ExposeSecret;
use tokio::time::timeout;

use super::Transport;
use super::connect::Connection;
use crate::error::ClientError;

/// Largest answer that is taken in: the messages of a very long session.
const ANSWER_BYTES: usize = 256 << 20;

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    None,
    Json(Bytes),
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The daemon has not seen the request.
    NotSent(ClientError),
    /// It may have.
    Interrupted(String),
}

impl Transport {
    /// Sends a request and takes in the whole answer, however long it takes unless there is a `limit`.
    ///
    /// Not cancel-safe: a request whose future is dropped may be carried out or not.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Body, limit: Option<Duration>) -> Result<Answer, Failure> {
        let work = async {
            let (connection, response) = self.exchange(method, path, &[], body).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_BYTES).collect().await.map_err(|error| Failure::Interrupted(error.to_string()))?;
            self.put_free(connection);
            Ok(Answer { status: head.status, body: body.to_bytes() })
        };
        match limit {
            None => work.await,
            Some(limit) => timeout(limit, work).await.unwrap_or_else(|_| Err(Failure::Interrupted(format!("no answer within {limit:?}")))),
        }
    }

    /// Sends a request; gives back the connection and the answer's head.
    pub(super) async fn exchange(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, String)],
        body: Body,
    ) -> Result<(Connection, Response<Incoming>), Failure> {
        loop {
            let (mut connection, reused) = match self.take_free() {
                Some(connection) => (connection, true),
                None => (self.connect().await.map_err(Failure::NotSent)?, false),
            };
            // One that was used needs a moment after its last answer; an error says that it was closed meanwhile.
            if reused && connection.sender.ready().await.is_err() {
                continue;
            }
            let request = build(&connection, method.clone(), path, headers, body.clone())
                .map_err(|problem| Failure::NotSent(ClientError::BadAnswer { request: path.to_owned(), problem }))?;
            match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok((connection, response)),
                // It was closed before the request was written; another one may be good.
                Err(error) if error.message().is_some() && reused => {}
                Err(error) if error.message().is_some() => return Err(Failure::NotSent(self.broken(error.error()))),
                Err(error) => return Err(Failure::Interrupted(error.into_error().to_string())),
            }
        }
    }

    fn broken(&self, error: &hyper::Error) -> ClientError {
        ClientError::Unreachable { agent: self.daemon().home.name().clone(), problem: error.to_string() }
    }
}

fn build(
    connection: &Connection,
    method: Method,
    path: &str,
    headers: &[(&'static str, String)],
    body: Body,
) -> Result<Request<Full<Bytes>>, String> {
    let mut bearer = HeaderValue::from_str(&format!("Bearer {}", connection.token.expose_secret()))
        .map_err(|_| "the token of agent.json cannot stand in a header".to_owned())?;
    bearer.set_sensitive(true);
    let mut builder = Request::builder().method(method).uri(path).header(HOST, &connection.host).header(AUTHORIZATION, bearer);
    for (name, value) in headers {
        builder = builder.header(*name, value);
    }
    let body = match body {
        Body::None => Full::default(),
        Body::Json(bytes) => {
            builder = builder.header(CONTENT_TYPE, "application/json");
            Full::new(bytes)
        }
    };
    builder.body(body).map_err(|error| error.to_string())
}

/// Writes a text as one segment of a path, or as a value of a query.
pub(crate) fn encode_segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(u32::from(digit), 16).unwrap_or('0').to_ascii_uppercase()));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::encode_segment;

    #[test]
    fn segments_hold_nothing_that_ends_them() {
        assert_eq!(encode_segment("01a2-b_c.d~E"), "01a2-b_c.d~E");
        assert_eq!(encode_segment("../a b?c#é%"), "..%2Fa%20b%3Fc%23%C3%A9%25");
    }
}
