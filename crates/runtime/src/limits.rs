//! Bounds and time limits that several parts of the runtime share or promise, each with its reason. One that a single module needs stands there.

use std::time::Duration;

/// Commands that wait in a session's mailbox. Filled by HTTP handlers, drained by the actor, which never waits
/// inside a handler; full means that the session is overloaded, and the caller gets an error at once.
pub const SESSION_MAILBOX: usize = 64;

/// Messages in each of the steering and follow-up queues. Filled by clients, drained between turns; full is an error.
pub const QUEUED_MESSAGES: usize = 64;

/// Changes of a session that wait for the end of a turn. Filled by clients, drained between turns; full is an error. All of them are
/// written again with each that comes.
pub const DEFERRED_ENTRIES: usize = 64;

/// Questions of a run to its actor. The run waits for each answer, so more than one is rare.
pub const RUN_REQUESTS: usize = 8;

/// Writes that wait for a session's file. Filled by the run and the actor, drained by the writer in batches;
/// full makes the run wait, and makes a command of the actor fail.
pub const PENDING_WRITES: usize = 64;

/// Numbered frames that a ring always keeps, unless they exceed [`RING_BYTES`].
pub const RING_FRAMES: usize = 256;

/// What a ring may hold at most, however few frames that is.
pub const RING_BYTES: usize = 8 << 20;

/// A ring keeps more than [`RING_FRAMES`] frames while they fit here.
pub const RING_SPARE_BYTES: usize = 1 << 20;

/// What the rings of evicted sessions may hold together; the oldest leave first.
pub const EVICTED_RINGS_BYTES: usize = 16 << 20;

/// Bytes of a snapshot that outlive its session's stay in memory. A larger one would double what the ring keeps.
pub const KEPT_SNAPSHOT_BYTES: usize = 64 << 10;

/// Logs of evicted sessions that are kept, with or without frames. One without is a few KiB; a daemon that runs for months opens any number
/// of sessions.
pub const EVICTED_LOGS: usize = 1024;

/// Bytes that one read of a cursor hands out at most, so that one reader cannot hold the hub's lock for long.
pub const READ_BATCH_BYTES: usize = 64 << 10;

/// Entries that `hello` carries after `?after=`, in bytes.
pub const HELLO_ENTRIES_BYTES: usize = 1 << 20;

/// Lifecycle frames that wait for a reader of the control stream; one that is further behind is cut off.
pub const CONTROL_FRAMES: usize = 256;

/// Questions of one session that wait for answers. Filled by tools and logins, drained by people; one more is not asked.
pub const OPEN_DIALOGS: usize = 64;

/// Settled questions of one session that are remembered, so that a late answer is told why it does not count.
pub const SETTLED_DIALOGS: usize = 32;

/// How long a session that no client ever attached to stays in memory after its last command.
pub const UNATTENDED_LINGER: Duration = Duration::from_secs(60);

/// How long runs get to end by themselves when the daemon stops; process groups are killed after it.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Patterns of models that one scope is made of; each is compared with every model.
pub const SCOPE_PATTERNS: usize = 1000;

/// Idempotency keys that a session remembers; the oldest are forgotten first.
pub const IDEMPOTENCY_KEYS: usize = 1024;

/// Bytes of an idempotency key. All that are remembered stand in memory and in the session file.
pub const IDEMPOTENCY_KEY_BYTES: usize = 1024;

/// Rounds of summaries that happen by themselves until the model gives a good answer. Each costs money, and a history that three of them did
/// not make small enough stays too long.
pub const AUTOMATIC_COMPACTIONS: u32 = 3;

/// Rounds of one compaction: each has half the input of the one before, if the provider says that even that is too long.
pub const SUMMARY_ROUNDS: u32 = 3;

/// How long growing text waits for a reader of snapshots after the frame before. Short enough to look alive, long enough that a fast reply
/// makes some 25 frames a second instead of hundreds.
pub const SNAPSHOT_PAUSE: Duration = Duration::from_millis(40);

/// How long after the start, or after a session left, the program tidies up. Short enough that an idle daemon is small soon, long enough
/// that a crowd that leaves costs one look at the heap.
pub const REST_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of a session's name. It stands in every list and every first frame; wolli 0.0.2 writes any length, and that is read.
pub const SESSION_NAME_BYTES: usize = 1024;
