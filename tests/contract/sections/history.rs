//! What was weak in wolli 0.0.2, and what shows that it is mended.

use crate::table::{Section, row};

pub(crate) const MENDED: Section = Section {
    title: "Weaknesses of wolli 0.0.2 that are gone",
    rows: &[
        row(
            "A lone client that lost its connection could not resume.",
            &[
                "contract positions::frames_are_kept_while_nobody_listens",
                "e2e cut_and_resume::a_reader_that_is_cut_anywhere_loses_nothing",
            ],
        ),
        row(
            "One stalled reader, or a `HEAD`, starved the others, and memory grew without bound.",
            &[
                "e2e readers::a_stalled_and_a_vanished_reader_change_nothing_for_the_others",
                "e2e readers::a_head_request_gets_the_headers_and_does_not_attach",
            ],
        ),
        row(
            "Live frames came between replayed ones, lifecycle frames before `hello`.",
            &[
                "contract positions::readers_that_attach_in_a_run_miss_nothing_and_all_see_the_same_bytes",
                "contract control_stream::hello_comes_first_also_when_sessions_come_and_go_at_that_moment",
            ],
        ),
        row("An unknown session on a stream hung the client.", &["contract access::an_unknown_session_has_these_bytes_on_every_route"]),
        row(
            "Requests were not checked, and could destroy a session.",
            &[
                "contract envelope::a_bad_field_is_named_and_nothing_has_happened",
                "e2e appending::bad_messages_are_refused_and_leave_nothing_behind",
            ],
        ),
        row(
            "Prompts that name a skill or template were acknowledged and lost.",
            &[
                "daemon resources::a_skill_called_during_a_run_waits_and_is_not_lost",
                "daemon resources::a_slash_calls_a_skill_or_a_template_and_everything_else_is_text",
            ],
        ),
        row(
            "What failed before a run after its acknowledgement was invisible.",
            &[
                "contract order::a_provider_without_a_key_is_named_in_the_stream",
                "e2e full_disk::a_disk_that_fills_up_in_a_turn_is_named_and_tears_nothing",
            ],
        ),
        row(
            "Blocking requests of more than 300 s failed in the client.",
            &["daemon control::a_long_wait_is_answered_at_once_and_filled_with_white_space"],
        ),
        row(
            "A dialog without clients waited for ever; other clients were not told that one is settled.",
            &["runtime dialogs::with_nobody_there_a_question_ends_at_once", "daemon logins::the_first_answer_counts_whoever_gives_it"],
        ),
        row(
            "A session stayed in memory for ever after a detached run or a single command.",
            &["contract residency::a_run_goes_on_when_the_last_client_leaves_and_its_end_lets_the_session_go"],
        ),
        row(
            "New sessions used the model of the start; `config` went stale.",
            &[
                "contract commands::set_model_answers_the_model_tells_it_and_saves_it",
                "contract access::a_config_says_at_once_what_stands_in_its_file",
            ],
        ),
        row("A failed deployment left the agent deployed.", &["runtime deploy::what_fails_leaves_nothing_behind"]),
        row(
            "Between `agent_end` and the real end of a run a prompt started a second run.",
            &[
                "e2e concurrency::what_arrives_while_a_turn_ends_is_run_once_or_refused",
                "contract commands::at_the_end_of_a_run_the_session_is_idle",
            ],
        ),
        row(
            "Histories were cached by the time of a file and could be stale.",
            &["daemon control::prompt_wait_and_messages_always_show_the_answer"],
        ),
        row("Updates cost bytes with the square of a reply's length.", &["e2e readers::a_reply_costs_bytes_in_proportion_to_its_length"]),
        row(
            "Two who opened a session at once could build it twice.",
            &["contract residency::a_session_that_many_open_at_once_is_opened_once"],
        ),
    ],
};

pub(crate) const ABSENT: Section = Section {
    title: "What wolli 0.0.2 had and this version has not",
    rows: &[
        row("Extensions in JavaScript, with the commands, hooks, tools, titles and widgets that they bring.", &[])
            .differs("nothing is loaded into the daemon; what extends an agent is a program of its own."),
        row("A sandbox, and the question whether a command may leave it.", &[])
            .differs("there is none yet: `confinement` is `none`, and everything says so that shows a state."),
        row("Installed units of service managers, and hand-overs to them.", &[])
            .differs("there is none yet; a daemon is started by hand or by its first client."),
    ],
};
