//! What subscribers get.

use std::sync::Arc;

use futures_util::Stream;
use tokio::sync::{broadcast, watch};
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::FrameId;
use wolli_protocol::reduce::SessionView;

use crate::error::ClientError;
use crate::link::{self, LinkState};

/// One thing that happened on a session's stream. The view has taken it in already.
#[derive(Clone, Debug)]
pub enum Notice {
    /// An event; each is given once, over all reconnects.
    Event {
        /// Its frame's number; notices of the daemon, dialogs, and messages that are told after [`Notice::Rebuilt`] have none.
        id: Option<FrameId>,
        event: Arc<SessionEvent>,
    },
    /// An event of a type that this version does not know, as JSON.
    Unknown { id: Option<FrameId>, data: Arc<str> },
    /// The daemon no longer had the frames of the time without connection, for example since it was restarted. The view was made
    /// anew. Of the events of that time only [`MessageEnd`](SessionEvent::MessageEnd) is given, for each message that ended, right after
    /// this one: so every message that ends is told once and in order, whatever happens to the connection.
    Rebuilt,
    /// This subscriber was too slow; so many notices are gone. The view has them.
    Missed(u64),
}

/// Notices of one session.
#[derive(Debug)]
pub struct Subscription {
    notices: broadcast::Receiver<Notice>,
    link: watch::Receiver<LinkState>,
}

impl Subscription {
    pub(super) const fn new(notices: broadcast::Receiver<Notice>, link: watch::Receiver<LinkState>) -> Self {
        Self { notices, link }
    }

    /// The next notice; none when the stream has ended for good.
    ///
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Notice> {
        let received = link::receive(&mut self.notices, &mut self.link).await?;
        Some(received.unwrap_or_else(Notice::Missed))
    }

    /// The same as a stream, for the combinators of `futures`.
    ///
    /// ```no_run
    /// use futures_util::StreamExt;
    /// use wolli_client::{Notice, SessionHandle};
    /// use wolli_protocol::event::SessionEvent;
    ///
    /// # async fn example(session: SessionHandle) -> Result<(), wolli_client::ClientError> {
    /// // The messages that end, once each and in order, over broken connections and restarts of the daemon.
    /// let ended = session.subscribe().into_stream().filter_map(async |notice| match notice {
    ///     Notice::Event { event, .. } => match &*event {
    ///         SessionEvent::MessageEnd { message, .. } => Some(message.clone()),
    ///         _ => None,
    ///     },
    ///     _ => None,
    /// });
    /// session.prompt("What is in a.txt?").await?;
    /// // The prompt itself, and what comes first of the answer.
    /// let first_two: Vec<_> = ended.take(2).collect().await;
    /// # assert_eq!(first_two.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = Notice> + Send + Unpin {
        Box::pin(futures_util::stream::unfold(self, |mut subscription| async move {
            let notice = subscription.next().await?;
            Some((notice, subscription))
        }))
    }
}

/// Follows the view of a session.
#[derive(Clone, Debug)]
pub struct ViewWatch {
    view: watch::Receiver<Option<SessionView>>,
    link: watch::Receiver<LinkState>,
}

impl ViewWatch {
    pub(super) const fn new(view: watch::Receiver<Option<SessionView>>, link: watch::Receiver<LinkState>) -> Self {
        Self { view, link }
    }

    /// Waits for a change since the last look. Many changes are one.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Closed`] when the stream has ended for good.
    pub async fn changed(&mut self) -> Result<(), ClientError> {
        tokio::select! {
            biased;
            changed = self.view.changed() => changed.map_err(|_| ClientError::Closed),
            () = link::ended(&mut self.link) => Err(ClientError::Closed),
        }
    }

    /// Reads the view as it is now. Keep `read` short: the stream waits for it.
    ///
    /// # Errors
    /// [`ClientError::Closed`] when there is no view.
    pub fn read<T>(&mut self, read: impl FnOnce(&SessionView) -> T) -> Result<T, ClientError> {
        self.view.borrow_and_update().as_ref().map(read).ok_or(ClientError::Closed)
    }

    /// Waits until the view is as `wanted` says.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Closed`] when the stream has ended for good.
    pub async fn until(&mut self, mut wanted: impl FnMut(&SessionView) -> bool) -> Result<(), ClientError> {
        tokio::select! {
            biased;
            found = self.view.wait_for(|view| view.as_ref().is_some_and(&mut wanted)) => {
                found.map(|_| ()).map_err(|_| ClientError::Closed)
            }
            () = link::ended(&mut self.link) => Err(ClientError::Closed),
        }
    }
}
