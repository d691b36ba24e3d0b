//! Frames and their bytes, attaching, numbers, and readers that are many, slow or gone.

use crate::table::{Section, row};

pub(crate) const FRAMES: Section = Section {
    title: "Frames and their bytes",
    rows: &[
        row(
            "`event: hello\\ndata: <json>\\n\\n` comes first and has no number.",
            &[
                "contract frames::the_hello_of_a_session_has_these_bytes",
                "contract frames::frames_of_the_control_stream_have_these_bytes_and_no_number",
            ],
        ),
        row(
            "An event: `event: message\\ndata: <json>\\nid: <n>\\n\\n`.",
            &["contract frames::a_run_has_these_bytes", "runtime hub::a_frame_has_the_bytes_of_the_wire"],
        ),
        row(
            "Frames of the control stream have no `id` line.",
            &["contract frames::frames_of_the_control_stream_have_these_bytes_and_no_number"],
        ),
        row(
            "`: ping\\n\\n` comes 15 s after the first frame and every 15 s after that, whatever else is sent.",
            &[
                "contract frames::a_ping_comes_every_15_seconds_whatever_else_is_sent",
                "daemon streams::both_streams_are_kept_alive_at_a_steady_pace_whatever_else_they_carry",
                "e2e readers::quiet_streams_are_pinged_also_while_a_turn_is_silent",
            ],
        ),
        row(
            "One `data` line, a space behind each colon, LF and never CR, no `retry`.",
            &["contract frames::data_is_one_line_whatever_it_holds", "protocol sse::what_is_encoded_is_decoded_under_any_chunking"],
        ),
    ],
};

pub(crate) const ATTACHING: Section = Section {
    title: "Attaching",
    rows: &[
        row("`hello` first, then what is replayed in ascending order, then what happens; nothing twice, nothing between.", &[
            "contract positions::each_form_of_last_event_id_has_its_answer",
            "contract positions::readers_that_attach_in_a_run_miss_nothing_and_all_see_the_same_bytes",
            "runtime hub::hello_and_replay_tell_nothing_twice",
            "e2e cut_and_resume::a_reader_that_is_cut_anywhere_loses_nothing",
        ])
        .differs("on a resumed stream `hello` came behind the replay, and live frames could come between."),
        row("`hello` is the state of the session with `stream` (`firstId`, `lastId`, `resumed`, `gap`) and `dialogs`, and `waiting` when it waits.", &[
            "contract frames::the_hello_of_a_session_has_these_bytes",
            "protocol golden::states_and_answers",
        ])
        .differs("it was the state alone; the fields behind it are new, and ignored by clients of that version."),
        row("A fresh attach or a gap also gives what is being said (`inFlight`) and what waits in the queues; a resumed one has it from the replay.", &[
            "runtime echo::a_late_reader_is_told_what_is_queued",
            "runtime hub::hello_and_replay_tell_nothing_twice",
            "e2e cut_and_resume::a_reader_that_was_away_for_ever_is_told_of_the_gap",
        ])
        .differs("a client that came in the middle of a run learned neither."),
        row("`?after=<entryId>` puts the entries behind that one into `hello`.", &["runtime echo::an_attach_after_an_entry_brings_what_followed"]).differs("queries were ignored."),
        row("`?view=` chooses how events are told, `[events] view` what it is without; an unknown one is 400.", &[
            "daemon streams::view_full_has_the_shapes_of_wolli_0_0_2",
            "daemon streams::what_cannot_be_attached_is_said_with_a_status",
            "daemon api::events::what_is_asked_for",
        ])
        .differs("there was one view, now called `full`; the default `delta` sends each byte of a reply once."),
        row("`view=snapshot`: the run as one snapshot, then patches of it; numbers and resuming as in the other views.", &["e2e snapshots::a_run_is_one_snapshot", "e2e snapshots::cuts_change_nothing"])
            .differs("there was no such view."),
        row("`?include=` adds notices without a number, `[events] include` what it is without; an unknown word is 400.", &[
            "daemon api::events::what_is_asked_for",
            "daemon streams::what_cannot_be_attached_is_said_with_a_status",
            "runtime hub::notices_reach_those_who_asked_and_are_not_replayed",
        ])
        .differs("there were no notices."),
    ],
};

pub(crate) const NUMBERS: Section = Section {
    title: "Numbers and resuming",
    rows: &[
        row("Numbers of a session begin at 1 and rise by 1; eviction and return change nothing.", &[
            "contract positions::numbers_begin_at_1_rise_by_1_and_go_on_when_the_session_comes_back",
            "runtime echo::leaving_evicts_and_numbers_go_on",
        ]),
        row("Another process begins at the next multiple of 2^32; old numbers are a gap then, and no number is ever used again.", &[
            "contract positions::another_process_has_other_numbers_and_old_ones_are_a_gap",
            "runtime hub::numbers_of_another_process_are_a_gap",
        ])
        .differs("a restart began again at 1, so that a client could not tell old numbers from new ones."),
        row("`Last-Event-ID` that is digits and still there replays byte for byte what follows it.", &["contract positions::each_form_of_last_event_id_has_its_answer"]),
        row("Every other `Last-Event-ID` (empty, negative, `1e1`, `0x9`, `3.5`, too old, too new) is a gap: `hello` says so, and nothing is replayed.", &[
            "contract positions::each_form_of_last_event_id_has_its_answer",
            "e2e bad_input::positions_that_are_none_give_a_gap_and_no_replay",
        ])
        .differs("it was read as JavaScript reads numbers, and what was missing was not told."),
        row("At least the last 256 frames are kept (up to 8 MiB), more while they are small; what is older is a gap.", &[
            "contract positions::the_last_256_frames_can_be_had_however_large_and_those_before_are_a_gap",
            "runtime hub::the_ring_keeps_256_frames_and_stays_within_its_bytes",
        ])
        .differs("exactly 256 were kept, and a gap was not told."),
        row("Frames are kept while nobody listens.", &["contract positions::frames_are_kept_while_nobody_listens"])
            .differs("they were kept only while somebody was attached: a lone client lost what came while it was away."),
        row("Every client sees the same frame under the same number.", &[
            "contract positions::readers_that_attach_in_a_run_miss_nothing_and_all_see_the_same_bytes",
            "e2e readers::two_clients_see_the_same_frames_under_the_same_numbers",
        ]),
        row("`Last-Event-ID` means nothing on the control stream.", &["contract frames::frames_of_the_control_stream_have_these_bytes_and_no_number"]),
    ],
};

pub(crate) const READERS: Section = Section {
    title: "Readers",
    rows: &[
        row(
            "A reader that does not read loses its connection, not its data, and delays nobody.",
            &[
                "e2e readers::a_stalled_and_a_vanished_reader_change_nothing_for_the_others",
                "e2e readers::a_reader_that_never_reads_loses_its_connection_and_nothing_else",
                "daemon limits::a_reader_that_does_not_read_is_dropped_and_delays_nobody",
            ],
        )
        .differs("it held up everybody who attached after it, and memory grew without bound."),
        row("A run never waits for its readers.", &["e2e concurrency::a_turn_goes_on_when_everybody_has_left"]),
        row("Sessions do not hear each other.", &["e2e concurrency::sessions_do_not_hear_each_other"]),
        row(
            "Readers that come and go leave nothing behind.",
            &[
                "e2e readers::thousands_that_come_and_go_leave_nothing_behind",
                "daemon limits::readers_that_come_and_go_leave_nothing_behind",
            ],
        ),
    ],
};
