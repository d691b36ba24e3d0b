//! The envelope of commands, and each command.

use crate::table::{Section, row};

pub(crate) const ENVELOPE: Section = Section {
    title: "The command envelope",
    rows: &[
        row(
            "Success: `id`?, `type` (`response`), `command`, `success`, `data`?; failure has `error` in place of `data`. The status is 200 for both.",
            &[
                "contract envelope::the_id_is_echoed_whatever_json_it_is",
                "protocol golden::states_and_answers",
                "daemon control::envelopes",
            ],
        ),
        row(
            "`id` comes back as it was sent, whatever JSON it is, also for unknown commands.",
            &["contract envelope::the_id_is_echoed_whatever_json_it_is", "e2e bad_input::the_id_comes_back_as_it_was_sent"],
        )
        .differs("it was lost when the command was unknown."),
        row(
            "`command` repeats the request's `type`; without one it is left out.",
            &["contract envelope::what_is_no_command_has_these_answers"],
        ),
        row(
            "A body that is no JSON: `command` is `unknown`, the error `Malformed JSON body.`; the session is not looked for.",
            &["contract envelope::what_is_no_command_has_these_answers", "daemon control::envelopes"],
        ),
        row(
            "An unknown session: the error arm with `No session \"<id>\" for agent \"<agent>\"`.",
            &[
                "contract access::an_unknown_session_has_these_bytes_on_every_route",
                "e2e bad_input::sessions_that_do_not_exist_are_said_not_to",
            ],
        ),
        row(
            "An unknown command: `Unknown command: <type>`, `undefined` when there is none; the session was opened before.",
            &[
                "contract envelope::what_is_no_command_has_these_answers",
                "contract residency::a_command_opens_a_session_and_answers_to_dialogs_do_not",
            ],
        ),
        row("JSON that is no object gets the error arm.", &["contract envelope::what_is_no_command_has_these_answers"])
            .differs("`null` was a 500 with a body that clients cannot read."),
        row(
            "A field that is missing or of another type is named: `Invalid <command>: <field> must be <type>`; nothing has happened then.",
            &[
                "contract envelope::a_bad_field_is_named_and_nothing_has_happened",
                "protocol command::a_bad_field_is_named",
                "e2e bad_input::bodies_that_are_no_command_get_an_error_that_names_it",
            ],
        )
        .differs("nothing was checked, errors were those of the engine, and some bad requests damaged a session."),
        row(
            "The content type does not matter; a byte-order mark may stand first.",
            &["contract envelope::neither_content_type_nor_query_nor_unknown_fields_matter"],
        ),
        row(
            "Only the path names the session; an id in the body is ignored.",
            &["contract envelope::neither_content_type_nor_query_nor_unknown_fields_matter"],
        ),
    ],
};

pub(crate) const ORDER: Section = Section {
    title: "Commands side by side",
    rows: &[
        row(
            "Requests are answered side by side; one that waits delays no other.",
            &["contract envelope::several_requests_of_one_session_are_answered_side_by_side"],
        ),
        row(
            "An acknowledged prompt is running: `get_state` says so, `wait_for_idle` waits for it, `get_messages` shows the answer after that.",
            &[
                "contract commands::an_acknowledged_prompt_is_running_and_its_answer_is_there_when_it_is_idle",
                "daemon control::prompt_wait_and_messages_always_show_the_answer",
                "e2e concurrency::after_prompt_and_wait_for_idle_the_answer_is_there",
                "e2e concurrency::an_acknowledged_prompt_counts_as_running_at_once",
            ],
        ),
        row(
            "A command that takes long sends its head at once and a space every 15 s until the answer.",
            &[
                "daemon control::a_long_wait_is_answered_at_once_and_filled_with_white_space",
                "daemon api::control::a_slow_answer_is_preceded_by_one_space_every_15_seconds",
            ],
        )
        .differs("nothing was sent before the answer, so that clients gave up after 300 s."),
        row(
            "A client that hangs up has asked all the same.",
            &[
                "daemon control::a_client_that_hangs_up_has_asked_all_the_same",
                "daemon control::a_command_counts_although_its_client_hung_up_at_once",
            ],
        ),
        row(
            "A repeated `idempotencyKey` gets the first answer and starts nothing, after a restart too.",
            &[
                "e2e concurrency::a_prompt_whose_answer_was_lost_can_be_sent_again",
                "runtime echo::a_repeated_key_starts_nothing_also_after_a_restart",
            ],
        )
        .differs("there was no such field."),
    ],
};

pub(crate) const COMMANDS: Section = Section {
    title: "Commands",
    rows: &[
        row("`prompt`: no data; acknowledged when its entry is on disk and its run is registered.", &[
            "contract worked_example::one_prompt_with_one_tool_call_has_these_bytes",
            "e2e kill::what_was_acknowledged_survives_kill_9_once",
        ]),
        row("`steer`: no data, `queue_update`; `Cannot steer while idle`.", &[
            "contract order::steering_comes_before_the_next_answer_and_follow_ups_when_the_run_would_end_one_at_a_time",
            "contract envelope::the_id_is_echoed_whatever_json_it_is",
        ]),
        row("`follow_up`: no data, `queue_update`; on an idle session it starts a run, and its text is taken as it is.", &["contract commands::a_follow_up_on_an_idle_session_starts_a_run"])
            .differs("on an idle session it was an error, against its own guide."),
        row("`abort`: `{clearedSteer, clearedFollowUp}` when the run has ended; tells the empty queues also when nothing runs.", &[
            "contract order::an_abort_in_the_text_ends_the_message_the_turn_and_the_run",
            "e2e concurrency::aborts_at_once_are_all_answered_and_later_prompts_run",
        ]),
        row("`compact`: a summary takes the place of what was said before; blocks. `compact() requires idle harness`, `Nothing to compact`, `Compaction cancelled`.", &["contract compaction::compact_answers_the_summary_and_the_history_begins_with_it"]),
        row("`abort_compaction`: no data; always succeeds.", &["contract compaction::a_compaction_that_is_cancelled_says_so"]),
        row("`wait_for_idle`: no data; answers when the run has ended altogether, at once when none is active, and does not fail when the run does.", &[
            "contract envelope::several_requests_of_one_session_are_answered_side_by_side",
            "contract order::a_provider_that_fails_at_once_begins_and_ends_the_failed_message",
        ]),
        row("`clear_queue`: `{steering, followUp}`, oldest first; one `queue_update`, the run goes on.", &[
            "contract commands::clear_queue_gives_what_waited_and_tells_the_empty_queues",
            "e2e concurrency::what_is_cleared_is_not_run_and_what_is_run_was_not_cleared",
        ]),
        row("`create_session`: the state of a new session with the present default model; refused while the agent is forming.", &[
            "contract commands::deploy_stamps_the_agent_and_gives_a_fresh_session_each_time",
            "contract commands::set_model_answers_the_model_tells_it_and_saves_it",
            "contract control_stream::a_new_session_is_told_to_all_and_stands_first",
        ])
        .differs("a new session got the model of the daemon's start and not the one that was chosen last."),
        row("`reload`: no data and no frame; settings, models, skills and templates are read again; a run goes on with them in its next turn.", &["daemon reload::a_reload_brings_what_was_added_and_a_broken_file_brings_nothing", "e2e skills::a_reload_during_a_run_gives_its_next_turn_the_models_of_the_moment", "contract node::a_client_of_wolli_0_0_2_shows_what_happens"]),
        row("`deploy`: stamps `deployedAt` once, and answers the state of a fresh session each time.", &[
            "contract commands::deploy_stamps_the_agent_and_gives_a_fresh_session_each_time",
            "runtime echo::forming_agents_have_one_session_until_they_deploy",
                "runtime deploy::what_fails_leaves_nothing_behind",
        ])
        .differs("the stamp stayed when the rest failed; now it is both or neither."),
        row("`shutdown`: no data; the answer is written in full, then the daemon ends with status 0.", &[
            "daemon shutdown::the_shutdown_command_is_acknowledged_and_the_port_is_free_afterwards",
            "e2e shutdown::the_shutdown_command_is_answered_in_full_and_ends_with_0",
        ]),
        row("`get_state`: the state of the session.", &["contract commands::get_state_has_these_fields"]),
        row("`get_messages`: what the model sees, without what is being said.", &["contract commands::get_messages_and_get_entries_show_what_was_said_and_where_it_stands"]),
        row("`get_commands`: `{commands}`.", &["contract envelope::the_id_is_echoed_whatever_json_it_is"]),
        row("`get_entries`: every entry of the file in its order.", &["contract commands::get_messages_and_get_entries_show_what_was_said_and_where_it_stands"]),
        row("`get_resource_summary`: counts and diagnostics.", &[
            "daemon control::what_a_client_of_wolli_0_0_2_asks_on_connect_is_answered",
            "e2e damaged_home::broken_settings_and_configuration_are_told_and_do_no_harm",
        ]),
        row("`get_tool_info`: `memory`, `deploy` while forming, `read`, `write`, `edit`, `ls`, `grep`, `find`, `bash`, with their parameters; and the names that the model is offered.", &[
            "contract commands::get_tool_info_lists_the_tools_in_their_order",
        ]),
        row("`get_integration_info`: `{integrations}`.", &["daemon control::what_a_client_of_wolli_0_0_2_asks_on_connect_is_answered"]),
        row("`get_skills`: `{skills}`.", &["daemon control::what_a_client_of_wolli_0_0_2_asks_on_connect_is_answered"]),
        row("`get_plugins`: `{plugins}`.", &["daemon control::what_a_client_of_wolli_0_0_2_asks_on_connect_is_answered"]),
        row("`get_context_info`: `SOUL.md`, `MEMORY.md`, `USER.md`, then project files, with their lengths.", &["contract commands::get_context_info_lists_memory_then_project_files"]),
        row("`seed_assistant_message`: the message, with no usage and the present model; no frame.", &[
            "contract commands::seed_assistant_message_answers_the_message_and_tells_nobody",
        ]),
        row("`append_message`: no data and no frame; written at once, or at the end of the turn while a run is active.", &["e2e appending::whatever_is_accepted_is_read_back_and_can_be_sent_to_a_model", "e2e appending::during_a_run_they_wait_for_the_end_of_the_turn_and_survive_a_kill", "e2e appending::they_start_no_run_and_make_no_frame", "e2e appending::bad_messages_are_refused_and_leave_nothing_behind"])
            .differs("anything was stored; a message that is none made the session unreadable."),
        row("`install_plugin`: `Path does not exist: <path>`, else an error that says what can be done in its place.", &["daemon reload::plugins_are_listed_and_removed_and_never_loaded"])
            .differs("plugins with code of their own were loaded into the daemon."),
        row("`remove_plugin`: `{removed}`.", &["daemon reload::plugins_are_listed_and_removed_and_never_loaded"]),
        row("`update_plugins`: no data when no plugin is listed, else an error that says what can be done in its place.", &["daemon reload::plugins_are_listed_and_removed_and_never_loaded"]),
        row("`onboard_plugin`: `{results}`, empty where nothing can be set up.", &["daemon reload::plugins_are_listed_and_removed_and_never_loaded"])
            .differs("for an unknown source every integration was set up."),
        row("`set_thinking_level`: no data, `thinking_level_update` with the level that the model has, also when it is the same; saved as the agent's default.", &[
            "contract commands::set_thinking_level_tells_the_level_that_the_model_has_and_saves_it",
            "protocol model::levels_are_clamped_up_then_down",
        ])
        .differs("any value was taken, and told as it came."),
        row("`set_model`: the model, `model_update` also when it is the same; saved as the agent's default; the errors `Model not found: ...` and `No configured credentials for ...`.", &[
            "contract commands::set_model_answers_the_model_tells_it_and_saves_it",
        ]),
        row("`get_available_models`: models with credentials.", &[
            "daemon control::what_a_client_of_wolli_0_0_2_asks_on_connect_is_answered",
            "models registry::only_models_with_a_key_and_a_known_kind_are_available",
        ]),
        row("`set_scoped_models`: no data; patterns of models, of one session and in memory; `scoped_models_update`.", &["daemon reload::scopes_are_of_a_session_and_enabled_models_of_the_agent", "models registry::scope::globs_and_names_in_order_without_repeats"]),
        row("`set_enabled_models`: no data and no frame; saved, and the scope of sessions that are opened later.", &["daemon reload::scopes_are_of_a_session_and_enabled_models_of_the_agent"]),
        row("`login`: asks for the key with a dialog, stores it where all agents find it; blocks. `API key cannot be empty.`, `Unknown OAuth provider: <id>`, `A login is already in progress.`", &["daemon logins::a_key_is_asked_for_stored_used_and_removed", "daemon logins::what_ends_a_login_without_a_key", "contract dialogs::a_question_has_these_bytes_in_every_view"])
            .differs("the key went into the agent's own file; a second login took the first one's place."),
        row("`login_cancel`: no data; always succeeds.", &["daemon logins::what_ends_a_login_without_a_key"]),
        row("`logout`: no data; succeeds for unknown providers too.", &["daemon logins::a_key_is_asked_for_stored_used_and_removed"]),
        row("`get_login_providers`: `{providers}` by name, as people sort.", &["daemon logins::who_can_be_logged_in_to"]),
        row("`get_logout_providers`: `{providers}` with a stored key.", &["daemon logins::a_key_is_asked_for_stored_used_and_removed"])
            .differs("only the agent's own keys were listed; now those that all agents share are as well."),
        row("`rename_session`: no data; trimmed; told on the control stream.", &[
            "contract frames::frames_of_the_control_stream_have_these_bytes_and_no_number",
            "contract residency::what_a_session_keeps_when_it_leaves",
        ])
        .differs("only an extension could name a session."),
        row("`delete_session`: no data; removes a session that is idle, with its file.", &["e2e deleting::a_deleted_session_is_gone_with_its_files_and_everybody_is_told_what_they_asked_for", "e2e deleting::a_session_at_work_is_not_deleted", "e2e deleting::deleting_while_others_open_has_one_outcome"])
            .differs("there was no such command."),
        row("`get_dialogs`: `{dialogs}`, the open questions.", &["daemon control::envelopes", "contract dialogs::a_question_has_these_bytes_in_every_view"]).differs("there was no such command."),
        row("`get_usage`: `{session, today, total}`, each with tokens and cost.", &["contract commands::what_was_used_is_told_and_can_be_asked_for", "e2e snapshots::what_was_used_is_counted_once_over_kills"]).differs("there was no such command."),
    ],
};

pub(crate) const PROMPT: Section = Section {
    title: "Prompts",
    rows: &[
        row(
            "Without `streamingBehavior`, or with an empty one, a prompt in a run is refused: `Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.`",
            &[
                "contract commands::an_acknowledged_prompt_is_running_and_its_answer_is_there_when_it_is_idle",
                "daemon control::prompts_during_a_run_follow_their_behaviour",
                "e2e concurrency::ten_at_once_on_an_idle_session_start_one_run_and_lose_nothing",
            ],
        ),
        row(
            "`followUp` queues it behind the run, any other value before the next answer; ignored on an idle session.",
            &["daemon control::prompts_during_a_run_follow_their_behaviour", "daemon api::commands::behaviours"],
        ),
        row(
            "An empty text is a prompt.",
            &["contract commands::an_acknowledged_prompt_is_running_and_its_answer_is_there_when_it_is_idle"],
        ),
        row(
            "The message of the user has its content as a list: the text, then the images.",
            &["contract worked_example::one_prompt_with_one_tool_call_has_these_bytes"],
        ),
        row("`/skill:<name> <words>` becomes the skill's block and the words; an unknown one is `Unknown skill: <name>`, before anything is acknowledged.", &["daemon resources::a_slash_calls_a_skill_or_a_template_and_everything_else_is_text"])
            .differs("an unknown skill was acknowledged and lost."),
        row("`/<template> <arguments>` becomes its text; every other text with a slash goes to the model as it is.", &["daemon resources::a_slash_calls_a_skill_or_a_template_and_everything_else_is_text"]),
        row("In a run both are expanded and queued as any other prompt.", &["daemon resources::a_skill_called_during_a_run_waits_and_is_not_lost", "e2e skills::a_skill_called_while_the_model_speaks_reaches_it_next"])
            .differs("they were acknowledged and lost."),
    ],
};
