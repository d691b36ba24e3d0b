//! Connections, JSON, who may ask, and what is answered outside of commands.

use crate::table::{Section, row};

pub(crate) const CONNECTIONS: Section = Section {
    title: "Connections",
    rows: &[
        row("HTTP/1.1 on the address of the agent; HTTP/1.0 gets an answer and the end of the connection.", &[
            "daemon limits::a_client_of_http_1_0_gets_an_answer_and_an_end",
            "daemon process::it_says_where_it_listens_and_ends_with_the_signals_status",
        ]),
        row("Answers say `connection: keep-alive` and `keep-alive: timeout=5`; a connection at rest is closed after 5 s, one in use is not.", &[
            "contract access::health_has_these_bytes_for_strangers",
            "daemon limits::a_connection_at_rest_is_closed_and_a_busy_one_is_not",
            "daemon limits::an_answer_that_is_still_being_read_is_not_a_connection_at_rest",
        ]),
        row("The head of a request has 60 s, the whole request 300 s; an answer has no limit.", &[
            "daemon limits::slow_requests_are_ended",
            "e2e bad_input::a_head_that_never_ends_is_given_up",
            "e2e shutdown::a_slow_answer_is_finished_before_the_end",
        ]),
        row("Several requests sent ahead over one connection are answered in their order.", &["daemon limits::requests_that_are_sent_ahead_are_answered_in_order"]),
        row("`connection: close` is honoured.", &["daemon limits::a_client_that_asks_to_close_is_closed"]),
        row("A client may close its sending side and still gets its answer.", &["daemon control::a_client_that_closes_its_sending_side_gets_its_answer"]),
        row("No CORS headers, no compression, no redirects.", &[
            "daemon access::refusals_have_the_known_bytes",
            "contract access::a_stream_begins_with_these_bytes_before_its_first_frame",
            "contract access::the_agent_and_its_sessions_have_these_bytes",
        ]),
        row("A body has at most 32 MiB.", &["daemon limits::a_body_beyond_the_limit_is_refused_by_name", "e2e bad_input::bodies_beyond_the_limit_are_refused_by_name"])
            .differs("it had no limit, so that one request could take all memory."),
        row("Paths are exact: case counts, and so does a slash at the end; the session's id is one segment, percent-decoded.", &[
            "daemon http::route::routes",
            "contract access::the_three_failures_of_a_bearer_have_these_bytes",
            "contract access::an_unknown_session_has_these_bytes_on_every_route",
        ]),
        row("A query is ignored where it means nothing.", &[
            "contract access::health_has_these_bytes_for_strangers",
            "contract access::the_agent_and_its_sessions_have_these_bytes",
            "contract envelope::neither_content_type_nor_query_nor_unknown_fields_matter",
        ])
        .differs("it was ignored everywhere. `/health` now reads `nonce`, streams read `view`, `include` and `after`, entries `after` and `limit`; no client of that version sends a query."),
        row("`HEAD` is answered as `GET` without a body; on a stream it does not attach.", &[
            "daemon streams::head_looks_and_does_not_stay",
            "e2e readers::a_head_request_gets_the_headers_and_does_not_attach",
        ])
        .differs("a `HEAD` on a stream attached a reader that never read, which held up all others."),
        row("What is no HTTP is refused and harms nobody else.", &[
            "e2e bad_input::what_is_no_http_is_refused_and_harms_nobody",
            "daemon limits::malformed_http_hurts_nobody_else",
        ]),
        row("The same is served on a Unix socket of mode 0600; the token is wanted there as well.", &[
            "daemon access::the_unix_socket_asks_for_the_token_but_for_no_name",
            "e2e shutdown::the_unix_socket_serves_its_owner_and_goes_with_the_daemon",
        ])
        .differs("there was no such socket."),
    ],
};

pub(crate) const JSON: Section = Section {
    title: "JSON",
    rows: &[
        row(
            "A field that is not there is left out and not `null`; keys stand in the order in which the reference lists them.",
            &[
                "protocol golden::messages",
                "protocol golden::events_in_both_views",
                "protocol golden::control_events",
                "protocol golden::commands",
                "protocol golden::states_and_answers",
                "protocol golden::dialogs",
                "protocol golden::files_and_resources",
            ],
        ),
        row(
            "Whole numbers have no fraction: `0`, not `0.0`.",
            &["protocol number::whole_numbers_have_no_fraction", "contract frames::a_run_has_these_bytes"],
        ),
        row(
            "`timestamp` of a message is in milliseconds since 1970; other times are ISO 8601 in UTC with milliseconds and `Z`.",
            &[
                "protocol time::iso_has_three_decimals_and_goes_both_ways",
                "contract access::health_has_these_bytes_for_strangers",
                "contract worked_example::one_prompt_with_one_tool_call_has_these_bytes",
            ],
        ),
        row(
            "Text is UTF-8 and not escaped beyond what JSON asks for; a document has no line break.",
            &["contract frames::a_run_has_these_bytes", "contract frames::data_is_one_line_whatever_it_holds"],
        ),
        row("Unknown fields of requests are ignored.", &["contract envelope::neither_content_type_nor_query_nor_unknown_fields_matter"]),
        row(
            "Lengths called `chars` count UTF-16 units.",
            &[
                "protocol text::lengths_and_cuts_stay_between_characters",
                "contract commands::get_context_info_lists_memory_then_project_files",
            ],
        ),
        row("Ids of sessions are lower-case UUIDs of version 7.", &["contract access::the_agent_and_its_sessions_have_these_bytes"]),
    ],
};

pub(crate) const AUTHENTICATION: Section = Section {
    title: "Authentication",
    rows: &[
        row(
            "`/health` is open; `/events`, `/sessions` and everything below `/sessions/` want `Authorization: Bearer <token>`, whatever the method and whether or not the path exists.",
            &[
                "contract access::the_three_failures_of_a_bearer_have_these_bytes",
                "daemon access::refusals_have_the_known_bytes",
                "e2e bad_input::bearers_are_checked_before_anything_else_is",
            ],
        ),
        row(
            "Without the header, or with an empty one: 401, `WWW-Authenticate: Bearer realm=\"\"`, `Unauthorized`.",
            &["contract access::the_three_failures_of_a_bearer_have_these_bytes"],
        ),
        row(
            "With another scheme or a malformed token: 400, `Bearer error=\"invalid_request\"`, `Bad Request`.",
            &["contract access::the_three_failures_of_a_bearer_have_these_bytes"],
        ),
        row(
            "With a well-formed token that is another one: 401, `Bearer error=\"invalid_token\"`, `Unauthorized`.",
            &["contract access::the_three_failures_of_a_bearer_have_these_bytes"],
        ),
        row(
            "These bodies are chunked, without a newline, `text/plain;charset=UTF-8`.",
            &["contract access::the_three_failures_of_a_bearer_have_these_bytes"],
        ),
        row(
            "The scheme may be spelled in any case, and be followed by several spaces.",
            &["contract access::the_three_failures_of_a_bearer_have_these_bytes", "daemon http::access::bearer_tokens"],
        ),
        row(
            "A token in the query is none.",
            &["daemon http::access::a_token_in_the_query_is_no_token", "daemon access::refusals_have_the_known_bytes"],
        ),
        row(
            "A path that is no route and not below `/sessions/` is 404 without a token.",
            &["contract access::the_three_failures_of_a_bearer_have_these_bytes"],
        ),
        row("The body of a request that is refused is not read.", &["daemon access::a_refused_body_is_not_read_and_the_answer_arrives"]),
        row(
            "The daemon never sends its token; `config.token` is empty.",
            &["daemon access::the_token_is_never_on_the_wire", "contract access::the_agent_and_its_sessions_have_these_bytes"],
        )
        .differs("the token stood in `config.token`. Whoever got the state got the key; no client of that version reads the field."),
        row(
            "A daemon proves with `?nonce=` that it knows the token, before a client shows it.",
            &[
                "daemon access::health_tells_strangers_nothing_and_proves_itself",
                "client connecting::the_token_goes_only_to_a_server_that_proves_itself",
            ],
        )
        .differs("there was no proof, so that any program on the port could collect tokens."),
    ],
};

pub(crate) const HOSTS: Section = Section {
    title: "Hosts and origins",
    rows: &[
        row(
            "A request whose `Host` is not a name of the daemon gets 421, on every path and before anything else.",
            &[
                "daemon access::foreign_names_and_pages_are_turned_away_from_every_path",
                "e2e bad_input::foreign_hosts_and_pages_are_sent_away_from_every_route",
                "daemon access::configured_names_count",
            ],
        )
        .differs("`Host` was not checked; a page could reach the daemon under a name of its own."),
        row(
            "A request of a page from another origin gets 403.",
            &["daemon access::foreign_names_and_pages_are_turned_away_from_every_path", "daemon http::access::origins"],
        )
        .differs("`Origin` was not looked at."),
    ],
};

pub(crate) const ROUTES: Section = Section {
    title: "Routes and statuses",
    rows: &[
        row("`GET /health`: `status` (`ok`), `agent`, `pid`, `startedAt`; nothing else for strangers.", &[
            "contract access::health_has_these_bytes_for_strangers",
            "daemon access::health_tells_strangers_nothing_and_proves_itself",
        ])
        .differs("it answered once all was loaded. Now it answers at once, and other routes wait until the agent is loaded, at most 10 s."),
        row("`GET /sessions`: the agent's `config`, its home as `cwd`, and every stored session, newest first; read anew for every request.", &[
            "contract access::the_agent_and_its_sessions_have_these_bytes",
            "contract access::a_config_says_at_once_what_stands_in_its_file",
            "contract control_stream::a_new_session_is_told_to_all_and_stands_first",
        ]),
        row("`GET /events`: the control stream.", &["contract frames::frames_of_the_control_stream_have_these_bytes_and_no_number"]),
        row("`GET /sessions/:id/events`: the stream of a session.", &["contract frames::the_hello_of_a_session_has_these_bytes"]),
        row("`GET /sessions/:id/entries`: the active branch in pages, without loading the session.", &[
            "daemon streams::entries_come_in_pages",
            "contract residency::a_command_opens_a_session_and_answers_to_dialogs_do_not",
        ])
        .differs("there was no such route."),
        row("`GET /openapi.json`: this protocol for generators of clients.", &["daemon reference::the_daemon_serves_the_document_and_what_is_in_it", "daemon reference::document_and_table_have_the_same_routes"])
            .differs("there was no such document."),
        row("`POST /sessions/:id/control`: one command.", &["contract envelope::the_id_is_echoed_whatever_json_it_is"]),
        row("`POST /sessions/:id/ui-response` and `/login-response`: answers to dialogs; neither opens a session.", &[
            "contract residency::a_command_opens_a_session_and_answers_to_dialogs_do_not",
        ]),
        row("Every other path or method is 404 with the 13 bytes `404 Not Found`, `text/plain; charset=UTF-8`.", &["contract access::the_three_failures_of_a_bearer_have_these_bytes"]),
        row("An unknown session on a stream or on its entries is 404 with `{\"error\":\"No session \\\"<id>\\\" for agent \\\"<agent>\\\"\"}`.", &[
            "contract access::an_unknown_session_has_these_bytes_on_every_route",
            "daemon streams::what_cannot_be_attached_is_said_with_a_status",
        ])
        .differs("it was 200 and an `error` frame, on which the client of that version waited for ever; on 404 it says what is wrong."),
        row("While the agent is loaded other routes wait; then they are 503 with the reason.", &[
            "daemon api::opening::whoever_comes_early_waits_and_not_for_ever",
            "daemon api::opening::a_failure_is_told_to_those_who_wait",
        ])
        .differs("the port was not open then."),
        row("A stream's head: `text/event-stream` without a charset, `cache-control`, `connection: keep-alive`, chunked, without `keep-alive`; sent before the first frame.", &[
            "contract access::a_stream_begins_with_these_bytes_before_its_first_frame",
            "e2e readers::streams_have_the_headers_and_bytes_that_proxies_and_clients_need",
        ])
        .differs("`cache-control` was `no-cache` alone; `no-transform` and `x-accel-buffering: no` keep proxies from gathering frames."),
    ],
};
