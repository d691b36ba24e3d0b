//! The daemon as a process, and the steps that the client of wolli 0.0.2 takes.

use crate::table::{Section, row};

const NODE: &str = "contract node::a_client_of_wolli_0_0_2_shows_what_happens";

pub(crate) const START: Section = Section {
    title: "Start of the daemon",
    rows: &[
        row(
            "`wolli daemon for \"<name>\" listening on http://<host>:<port>` on standard output.",
            &["daemon process::it_says_where_it_listens_and_ends_with_the_signals_status"],
        ),
        row(
            "`WOLLI_DAEMON_HOST` and `WOLLI_DAEMON_TOKEN` go before `127.0.0.1` and the token of `agent.json`.",
            &["daemon process::everybody_may_be_let_in_on_purpose"],
        )
        .differs("any host was enough; an address that other machines reach now also needs a token of one's own and `security.hosts`."),
        row(
            "An unknown agent: `Unknown agent \"<name>\". Create it with: wolli new <name>`, status 1.",
            &["daemon process::an_unknown_agent_is_1"],
        ),
        row(
            "An agent that is being served: status 75, and who serves it.",
            &["daemon process::a_second_daemon_names_the_first_and_ends_with_75"],
        )
        .differs("it was status 1, and two starters of one agent ran side by side for a moment."),
        row("A port of another program: status 76.", &["daemon process::a_port_of_another_program_is_76_and_one_of_our_own_agent_75"])
            .differs("it was status 1."),
        row("A bad configuration: status 78 and what to change.", &["daemon process::bad_configuration_is_78_and_says_what_to_change"])
            .differs("a token that no request can carry made every request 400; now the daemon does not start."),
        row(
            "Neither a missing model nor a missing key keeps it from starting.",
            &["contract order::an_agent_without_any_model_says_so_in_the_stream_and_has_a_placeholder"],
        ),
    ],
};

pub(crate) const END: Section = Section {
    title: "End of the daemon",
    rows: &[
        row(
            "SIGTERM: 143; SIGINT: 130; `shutdown`: 0.",
            &[
                "daemon shutdown::signals_have_their_statuses",
                "e2e shutdown::sigint_ends_with_130_and_a_quiet_daemon_ends_at_once",
                "e2e shutdown::the_shutdown_command_is_answered_in_full_and_ends_with_0",
            ],
        ),
        row(
            "Runs are ended and written, programs with them; streams end with their last chunk.",
            &[
                "e2e shutdown::sigterm_in_a_turn_ends_the_tool_keeps_the_messages_and_closes_the_streams",
                "contract control_stream::the_end_of_the_daemon_ends_the_streams_and_tells_of_no_session",
            ],
        )
        .differs("streams were cut."),
        row(
            "Every step has a limit; a second signal takes the grace away.",
            &["e2e shutdown::a_second_sigterm_takes_the_grace_away", "daemon shutdown::clients_that_never_close_do_not_hold_it_up"],
        )
        .differs("it waited without a limit, and a second signal was ignored."),
        row(
            "Once `shutdown` is acknowledged `/health` ends, on kept connections too; the port is free for a successor at once.",
            &[
                "daemon shutdown::the_shutdown_command_is_acknowledged_and_the_port_is_free_afterwards",
                "e2e shutdown::a_port_is_free_for_the_next_one_at_once",
                "e2e shutdown::a_successor_that_comes_early_waits_and_takes_over",
            ],
        ),
    ],
};

pub(crate) const CLIENT: Section = Section {
    title: "What the client of wolli 0.0.2 does",
    rows: &[
        row(
            "It connects: `/health`, `/events`, `/sessions`, the stream of the newest session, then its questions side by side.",
            &[NODE, "daemon control::what_a_client_of_wolli_0_0_2_asks_on_connect_is_answered"],
        ),
        row("Birth: it seeds `What is my purpose?` when the history is empty.", &[NODE]),
        row("A chat: it draws from `message` of updates, panels of tools from their calls; a second window shows the same.", &[NODE]),
        row("It aborts, and what waited comes back to it.", &[NODE]),
        row("It attaches in the middle of a run and prompts without a behaviour: the error text reaches the person.", &[NODE]),
        row("It switches the model, and computes the levels from `reasoning` and `thinkingLevelMap`.", &[NODE]),
        row("It logs in over the rail of logins, with `include = [\"login_ui\"]`.", &[NODE]),
        row("It compacts and shows so, with `include = [\"compaction\"]`.", &[NODE]),
        row(
            "It asks to deploy with a text that it does not show, and deploys when the agent said yes; without a service manager the same daemon stays.",
            &[NODE],
        ),
        row("It asks for a new session at one that is idle by now.", &[NODE]),
        row("It asks to stop, and waits until `/health` fails.", &[NODE]),
        row("On the control stream it takes every type but the first two for a rename: no other is sent to it.", &[NODE]),
    ],
};
