//! Sessions that come and go, and the states that are told of them.

use crate::table::{Section, row};

pub(crate) const CONTROL_STREAM: Section = Section {
    title: "Frames of the control stream",
    rows: &[
        row(
            "`session_added`: a session is in memory now; its summary has no `createdAt`.",
            &[
                "contract frames::frames_of_the_control_stream_have_these_bytes_and_no_number",
                "contract control_stream::a_new_session_is_told_to_all_and_stands_first",
            ],
        ),
        row(
            "`session_removed`: it is not any more; its file stays.",
            &["contract frames::frames_of_the_control_stream_have_these_bytes_and_no_number"],
        ),
        row(
            "`session_renamed`: `sessionId`, `sessionName`.",
            &["contract frames::frames_of_the_control_stream_have_these_bytes_and_no_number"],
        ),
        row(
            "`session_deleted`: only for clients that include `lifecycle`.",
            &[
                "protocol golden::control_events",
                "e2e deleting::a_deleted_session_is_gone_with_its_files_and_everybody_is_told_what_they_asked_for",
            ],
        )
        .differs("sessions could not be deleted."),
        row(
            "`hello` first, the same as `GET /sessions`; what happens meanwhile comes behind it.",
            &["contract control_stream::hello_comes_first_also_when_sessions_come_and_go_at_that_moment"],
        )
        .differs("frames could come before `hello`."),
        row(
            "The session that is open at the start is not told; the end of the daemon tells of no session.",
            &[
                "contract control_stream::the_end_of_the_daemon_ends_the_streams_and_tells_of_no_session",
                "contract frames::frames_of_the_control_stream_have_these_bytes_and_no_number",
            ],
        ),
        row("All clients get all frames.", &["contract control_stream::a_new_session_is_told_to_all_and_stands_first"]),
    ],
};

pub(crate) const RESIDENCY: Section = Section {
    title: "Sessions in memory",
    rows: &[
        row(
            "At the start the newest session is opened, or a first one made.",
            &["contract residency::a_daemon_starts_with_its_newest_session_open_and_keeps_it"],
        ),
        row(
            "An attach opens an idle session; several at once open it once.",
            &[
                "contract residency::attaching_opens_a_session_once_and_the_last_one_to_leave_lets_it_go",
                "contract residency::a_session_that_many_open_at_once_is_opened_once",
                "daemon limits::a_session_that_is_opened_by_many_at_once_is_opened_once",
            ],
        ),
        row(
            "A command opens it as well; an answer to a dialog does not.",
            &["contract residency::a_command_opens_a_session_and_answers_to_dialogs_do_not"],
        ),
        row(
            "The last client that leaves an idle session lets it go; one of several does not.",
            &["contract residency::attaching_opens_a_session_once_and_the_last_one_to_leave_lets_it_go"],
        ),
        row(
            "A run goes on when everybody has left; its end lets the session go.",
            &[
                "contract residency::a_run_goes_on_when_the_last_client_leaves_and_its_end_lets_the_session_go",
                "e2e concurrency::sessions_come_and_go_with_their_readers_but_not_in_a_turn",
            ],
        )
        .differs("it stayed until somebody attached and left."),
        row(
            "A session that only a command opened leaves a minute after the last one.",
            &["runtime echo::a_session_that_nobody_attached_to_leaves_a_minute_after_its_last_command"],
        )
        .differs("it stayed until somebody attached and left."),
        row(
            "File, name, model, level and numbers survive that it leaves.",
            &[
                "contract residency::what_a_session_keeps_when_it_leaves",
                "contract positions::numbers_begin_at_1_rise_by_1_and_go_on_when_the_session_comes_back",
            ],
        ),
    ],
};

pub(crate) const STATES: Section = Section {
    title: "States, messages and models",
    rows: &[
        row("The agent: `config` as `agent.json` has it, unknown keys too, `cwd`, `sessions`, `confinement`.", &[
            "contract access::the_agent_and_its_sessions_have_these_bytes",
            "contract access::a_config_says_at_once_what_stands_in_its_file",
            "protocol golden::states_and_answers",
        ])
        .differs("`config` could lag behind its file; `confinement` is new."),
        row("A session: `sessionId`, `model`, `thinkingLevel`, `scopedModels`, `isStreaming`, `sessionName`?, `sessionFile`, `messageCount`, `pendingMessageCount`, `confinement`.", &[
            "contract commands::get_state_has_these_fields",
        ])
        .differs("`confinement` is new."),
        row("Messages by role, their blocks and their usage.", &["protocol golden::messages", "contract commands::get_messages_and_get_entries_show_what_was_said_and_where_it_stands"]),
        row("Models, and the placeholder where there is none.", &[
            "protocol golden::files_and_resources",
            "contract commands::get_state_has_these_fields",
            "contract order::an_agent_without_any_model_says_so_in_the_stream_and_has_a_placeholder",
        ]),
        row("Levels of thinking: the next higher one that the model has, else the next lower.", &["protocol model::levels_are_clamped_up_then_down"]),
        row("Entries: `type`, `id`, `parentId`, `timestamp`, then what the type has.", &[
            "protocol golden::files_and_resources",
            "contract commands::get_messages_and_get_entries_show_what_was_said_and_where_it_stands",
        ]),
        row("A home that wolli 0.0.2 wrote opens, lists and continues, and that version can open it again.", &["e2e home_of_002::it_opens_lists_and_continues_and_can_be_opened_by_wolli_0_0_2_again"]),
        row("`details` of tools.", &[
            "runtime tools::edit::the_recorded_edit",
            "runtime tools::read::line_limit",
            "runtime tools::ls::limits_are_told",
            "runtime tools::grep::limits_are_told",
            "runtime tools::find::limits_and_errors",
            "runtime tools::memory::table",
            "runtime tools::deploy::purpose_and_soul_are_saved_trimmed",
            "runtime tools::bash::updates_of_long_output_name_the_file",
        ]),
    ],
};
