//! The events of a session, their order, and how runs fail.

use crate::table::{Section, row};

const WORKED: &str = "contract worked_example::one_prompt_with_one_tool_call_has_these_bytes";
const RUN: &str = "contract frames::a_run_has_these_bytes";
const GOLDEN: &str = "protocol golden::events_in_both_views";

pub(crate) const EVENTS: Section = Section {
    title: "Events of a session",
    rows: &[
        row("`agent_start`", &[WORKED, RUN]),
        row("`agent_end`: `messages`, all that the run added; in view `delta` each as `{entryId}`.", &[WORKED, RUN]),
        row("`turn_start`", &[WORKED, RUN]),
        row("`turn_end`: `message`, `toolResults` in the order of the calls; in view `delta` each as `{entryId}`.", &[WORKED, RUN]),
        row("`message_start`: `message`, `entryId`.", &[WORKED, RUN]).differs("it had no `entryId`."),
        row(
            "`message_update`: `assistantMessageEvent`, and in view `full` the whole `message` so far.",
            &[WORKED, RUN, "e2e readers::a_reply_costs_bytes_in_proportion_to_its_length"],
        )
        .differs("there was view `full` alone, whose bytes grow with the square of a reply's length."),
        row(
            "`message_end`: `message`, `entryId`; the message is final and in the file.",
            &[WORKED, RUN, "e2e kill::what_was_acknowledged_survives_kill_9_once"],
        )
        .differs("it had no `entryId`."),
        row(
            "`tool_execution_start`: `toolCallId`, `toolName`, `args` as the model gave them.",
            &[WORKED, "contract order::calls_side_by_side_start_in_order_end_as_they_end_and_tell_their_results_in_order"],
        ),
        row(
            "`tool_execution_update`: in view `full` `args` and the whole `partialResult`, in view `delta` what was `appended`.",
            &[
                "contract order::a_program_tells_its_whole_output_so_far_and_is_flushed_before_its_end",
                "runtime hub::view_full_shows_the_whole_output_of_a_tool",
                GOLDEN,
            ],
        ),
        row("`tool_execution_end`: `toolCallId`, `toolName`, `result`, `isError`.", &[WORKED]),
        row(
            "`queue_update`: `steer`, `followUp`, `nextTurn`, each in full.",
            &[
                "contract commands::clear_queue_gives_what_waited_and_tells_the_empty_queues",
                "contract order::steering_comes_before_the_next_answer_and_follow_ups_when_the_run_would_end_one_at_a_time",
            ],
        ),
        row(
            "`model_update`: `model`, `previousModel`?, `source`.",
            &["contract commands::set_model_answers_the_model_tells_it_and_saves_it"],
        ),
        row(
            "`thinking_level_update`: `level`, `previousLevel`.",
            &["contract commands::set_thinking_level_tells_the_level_that_the_model_has_and_saves_it"],
        ),
        row("`scoped_models_update`: `scopedModels`.", &[GOLDEN, "daemon reload::scopes_are_of_a_session_and_enabled_models_of_the_agent"]),
        row(
            "`waiting`: what the session waits for; only for clients that include it.",
            &[GOLDEN, "runtime hub::notices_reach_those_who_asked_and_are_not_replayed"],
        )
        .differs("there was no such frame."),
        row(
            "`retry`: a request is sent again; only for clients that include it.",
            &[GOLDEN, "e2e real_turn::an_error_inside_a_success_is_tried_again_without_a_trace"],
        )
        .differs("there was no such frame."),
        row(
            "`compaction_start`: `reason`; only for clients that include `compaction`, without a number.",
            &["contract compaction::compact_answers_the_summary_and_the_history_begins_with_it", GOLDEN],
        )
        .differs("it went to everybody and had a number, against its own guide."),
        row(
            "`compaction_end`: `reason`, and one of `result`, `aborted`, `errorMessage`, or none of them.",
            &[
                "contract compaction::compact_answers_the_summary_and_the_history_begins_with_it",
                "contract compaction::a_compaction_that_is_cancelled_says_so",
            ],
        )
        .differs("it went to everybody and had a number, against its own guide."),
        row(
            "`usage`: `model`, `answer`, `session`, `today`, `total`, after each request; only for clients that include it.",
            &[GOLDEN, "contract commands::what_was_used_is_told_and_can_be_asked_for"],
        )
        .differs("there was no such frame."),
        row(
            "`extension_ui_request`: see the dialogs.",
            &["protocol golden::dialogs", "contract dialogs::a_question_has_these_bytes_in_every_view"],
        ),
        row(
            "`login_ui_request`: a step of a login, for clients that include `login_ui`.",
            &["daemon logins::the_first_answer_counts_whoever_gives_it", GOLDEN],
        )
        .differs("it went to everybody, against its own guide."),
        row(
            "`extension_ui_resolved`: a dialog needs no answer any more.",
            &[GOLDEN, "contract dialogs::a_question_has_these_bytes_in_every_view"],
        )
        .differs("other clients were not told."),
        row("No other type is sent to a client that includes nothing.", &["contract order::only_the_listed_types_are_on_the_wire"])
            .differs("compaction frames were sent to everybody, against its own guide."),
    ],
};

pub(crate) const STEPS: Section = Section {
    title: "Steps of an answer",
    rows: &[
        row("`text_start`: `contentIndex`; in this and all others view `full` adds `partial`, the same as `message`.", &[WORKED, RUN]),
        row("`text_delta`: `delta`.", &[WORKED, RUN]),
        row("`text_end`: the whole `content` of the block.", &[WORKED, RUN]),
        row("`thinking_start`: as of text.", &[GOLDEN, "e2e real_turn::tools_change_real_files_and_everybody_is_told_the_same"]),
        row("`thinking_delta`: as of text.", &[GOLDEN, "e2e real_turn::tools_change_real_files_and_everybody_is_told_the_same"]),
        row("`thinking_end`: as of text.", &[GOLDEN, "e2e real_turn::tools_change_real_files_and_everybody_is_told_the_same"]),
        row("`toolcall_start`: in view `delta` also `toolCallId` and `toolName`.", &[WORKED, GOLDEN]),
        row("`toolcall_delta`: a fragment of the arguments' JSON.", &[WORKED]),
        row("`toolcall_end`: the whole `toolCall`.", &[WORKED]),
        row(
            "The snapshot of view `full` may be newer than the step, never older; deltas that wait for a reader may come as one.",
            &[
                "runtime hub::view_full_has_whole_messages_and_joins_what_waits",
                "e2e cut_and_resume::a_reader_of_view_full_that_is_cut_anywhere_loses_nothing",
            ],
        )
        .differs("each delta was a frame of its own."),
        row(
            "A call whose arguments still come shows them as far as they go, and nothing of the provider's own.",
            &[WORKED, "protocol partial_json::the_best_object_of_each_text"],
        )
        .differs("keys of the provider's format could show on blocks of partial messages."),
    ],
};

pub(crate) const ORDER: Section = Section {
    title: "Order within a run",
    rows: &[
        row("`agent_start`, `turn_start`, the messages of the user, then the answer; the first turn has one `turn_start`.", &[WORKED]),
        row(
            "Tools side by side: started in the order of their calls, one that is unknown or invalid ends right behind its start; ends as they come; results in the order of the calls.",
            &["contract order::calls_side_by_side_start_in_order_end_as_they_end_and_tell_their_results_in_order"],
        ),
        row(
            "With a sequential tool among them: start, updates, end and result of each call, one after the other.",
            &["contract order::a_batch_with_a_sequential_tool_runs_one_after_the_other"],
        ),
        row(
            "Steering is delivered before the next answer, follow-ups when the run would end; one message each time, oldest first, behind a `queue_update`.",
            &[
                "contract order::steering_comes_before_the_next_answer_and_follow_ups_when_the_run_would_end_one_at_a_time",
                "e2e real_turn::steering_goes_first_one_at_a_time_then_what_is_to_follow",
            ],
        ),
        row(
            "`agent_end` is the last frame of a run; the session is idle then.",
            &["contract commands::at_the_end_of_a_run_the_session_is_idle", WORKED],
        ),
        row(
            "A program tells one empty update at its start, then at most one every 100 ms, and the rest before its end.",
            &[
                "contract order::a_program_tells_its_whole_output_so_far_and_is_flushed_before_its_end",
                "exec run::what_was_not_told_yet_is_told_at_the_end",
                "exec run::updates_are_spaced_and_join_to_the_text",
            ],
        ),
    ],
};

pub(crate) const FAILURES: Section = Section {
    title: "Failures and aborts",
    rows: &[
        row(
            "A provider that fails at once: `message_start` and `message_end` with the failed message, `turn_end`, `agent_end`.",
            &["contract order::a_provider_that_fails_at_once_begins_and_ends_the_failed_message"],
        ),
        row(
            "A provider that fails in the middle: `message_end` with what was said, `stopReason` `error` and `errorMessage`.",
            &[
                "contract order::a_provider_that_fails_in_the_middle_ends_the_message_with_what_was_said",
                "e2e real_turn::a_failure_in_the_middle_keeps_what_was_said_and_the_session_goes_on",
            ],
        ),
        row(
            "No key: a message with one empty text, no usage and `No API key for \"<provider>\". Run /login to authenticate.`; `agent_end` has that message alone.",
            &["contract order::a_provider_without_a_key_is_named_in_the_stream"],
        ),
        row(
            "No model: `No model configured. Run /login to sign in, then /model to choose a model.`; the state has a placeholder.",
            &["contract order::an_agent_without_any_model_says_so_in_the_stream_and_has_a_placeholder"],
        ),
        row(
            "Abort while text comes: `queue_update`, `message_end` (`aborted`, `Request was aborted`), `turn_end`, `agent_end`.",
            &[
                "contract order::an_abort_in_the_text_ends_the_message_the_turn_and_the_run",
                "e2e real_turn::an_abort_in_the_text_keeps_the_text_and_closes_the_request",
            ],
        ),
        row(
            "Abort while a tool runs: its end with `isError` and `Command aborted`, the results, `turn_end`, then a turn with an empty aborted answer.",
            &[
                "contract order::an_abort_in_a_tool_ends_it_and_closes_the_run_with_an_empty_answer",
                "e2e real_turn::an_abort_in_a_tool_leaves_no_process_and_no_dangling_call",
            ],
        ),
        row(
            "Calls of an aborted batch that were not reached have no frames.",
            &["contract order::an_abort_in_a_sequential_batch_leaves_calls_that_were_not_reached_without_a_frame"],
        ),
        row(
            "Failures of tools: `Tool <name> not found`, `Operation aborted`, the validation text with the arguments; `details` is `{}`.",
            &[
                "contract order::calls_side_by_side_start_in_order_end_as_they_end_and_tell_their_results_in_order",
                "runtime tools::set::unknown_tools_bad_arguments_and_aborts_are_results",
                "runtime tools::failure::texts",
            ],
        ),
    ],
};

pub(crate) const COMPACTION: Section = Section {
    title: "Compaction",
    rows: &[
        row(
            "A history over the threshold is compacted behind its run, with the reason `threshold`.",
            &["e2e compaction::a_history_over_the_threshold_is_compacted_behind_its_run"],
        ),
        row(
            "A request that did not fit is compacted with the reason `overflow` and asked once more, in a run without a prompt.",
            &["e2e compaction::an_overflow_is_compacted_and_tried_once_more"],
        ),
        row(
            "A second overflow is told with `compaction_end` alone, and not tried again.",
            &["e2e compaction::given_up::a_second_overflow_is_told_and_not_tried_again"],
        ),
        row(
            "While it goes on the session is at work, and prompts are treated as in a run.",
            &[
                "e2e compaction::what_comes_while_a_summary_is_made_is_refused_or_answered_behind_it",
                "e2e compaction::asked::a_message_that_waits_for_a_compaction_of_a_client_is_answered_behind_it",
                "e2e compaction::every_prompt_around_the_end_of_a_run_is_answered_or_refused",
            ],
        )
        .differs("for a moment behind `agent_end` the session counted as idle."),
        row(
            "`abort` stops an automatic one, not one that a client asked for.",
            &[
                "e2e compaction::an_abort_stops_the_summary_behind_a_run",
                "e2e compaction::asked::only_its_own_command_stops_what_a_client_asked_for",
            ],
        )
        .differs("an automatic one delayed the answer of `abort` and went on."),
        row("A summary that fails says why.", &["e2e compaction::given_up::a_summary_that_fails_says_why"]),
        row(
            "Summaries that do not help are given up, and that is told once.",
            &["e2e compaction::given_up::summaries_that_do_not_help_are_given_up_and_that_is_told_once"],
        ),
    ],
};
