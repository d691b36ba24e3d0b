//! Everything that a client can see of a daemon, sentence by sentence, in the order in which a reader needs it.

mod commands;
mod dialogs;
mod events;
mod history;
mod process;
mod sessions;
mod streams;
mod transport;

use crate::table::Section;

pub(crate) const SECTIONS: &[Section] = &[
    transport::CONNECTIONS,
    transport::JSON,
    transport::AUTHENTICATION,
    transport::HOSTS,
    transport::ROUTES,
    commands::ENVELOPE,
    commands::ORDER,
    commands::COMMANDS,
    commands::PROMPT,
    streams::FRAMES,
    streams::ATTACHING,
    streams::NUMBERS,
    streams::READERS,
    events::EVENTS,
    events::STEPS,
    events::ORDER,
    events::FAILURES,
    events::COMPACTION,
    sessions::CONTROL_STREAM,
    sessions::RESIDENCY,
    sessions::STATES,
    dialogs::FRAMES,
    dialogs::ANSWERS,
    dialogs::LOGINS,
    process::START,
    process::END,
    process::CLIENT,
    history::MENDED,
    history::ABSENT,
];
