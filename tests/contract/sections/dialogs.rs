//! Questions to people, their answers, and logins.

use crate::table::{Section, row};

const GOLDEN: &str = "protocol golden::dialogs";
const QUESTIONS: &str = "runtime dialogs::questions_have_the_known_fields_in_their_order";
const NOTICES: &str = "runtime dialogs::notices_have_the_known_fields_in_their_order";

pub(crate) const FRAMES: Section = Section {
    title: "Dialog frames",
    rows: &[
        row("`select`: `title`, `options`, `timeout`?.", &[GOLDEN, QUESTIONS]),
        row("`confirm`: `title`, `message`, `timeout`?.", &[GOLDEN, QUESTIONS]),
        row("`input`: `title`, `placeholder`?, `timeout`?.", &[GOLDEN, QUESTIONS]),
        row("`editor`: `title`, `prefill`?.", &[GOLDEN, QUESTIONS]),
        row("`notify`: `message`, `notifyType`?.", &[GOLDEN, NOTICES]),
        row("`setStatus`: `statusKey`, `statusText`?.", &[GOLDEN, NOTICES]),
        row("`setWidget`: `widgetKey`, `widgetLines`?, `widgetPlacement`?.", &[GOLDEN, NOTICES]),
        row("`setTitle`: `title`.", &[GOLDEN, NOTICES]),
        row("`setEditorText`: `text`.", &[GOLDEN, NOTICES]),
    ],
};

pub(crate) const ANSWERS: Section = Section {
    title: "The life of a dialog",
    rows: &[
        row(
            "A request is a frame without a number: `{\"type\":\"extension_ui_request\",\"id\":...,\"method\":...}`, to every client of the session, in every view.",
            &[
                "contract dialogs::a_question_has_these_bytes_in_every_view",
                "runtime dialogs::questions_have_the_known_fields_in_their_order",
                "runtime dialogs::notices_have_the_known_fields_in_their_order",
            ],
        ),
        row(
            "`value` answers `select`, `input` and `editor`, `confirmed` a `confirm`, `cancelled` any; what fits nothing is no answer or no.",
            &["runtime dialogs::answers_are_read_as_the_origin_reads_them"],
        ),
        row(
            "The first answer counts; later ones are a success that says it was not applied.",
            &[
                "contract dialogs::a_question_has_these_bytes_in_every_view",
                "runtime dialogs::the_first_answer_counts_and_the_others_are_told",
                "daemon logins::the_first_answer_counts_whoever_gives_it",
            ],
        )
        .differs("the answer was `{\"success\":true}` alone; `applied` and `reason` say whether anybody was waiting for it."),
        row("An answer counts under the session of its path alone.", &["daemon logins::the_first_answer_counts_whoever_gives_it"]),
        row(
            "A body that is JSON is a success, whatever it says; one that is none is `Malformed JSON body.`",
            &["contract dialogs::bodies_of_answers_have_these_answers"],
        )
        .differs("`null` was a 500 once the session had asked something."),
        row("`timeout` ends a question by the daemon's clock.", &["runtime dialogs::a_question_ends_with_its_time"]),
        row(
            "A question ends with what asked it; asked too late, there is no frame.",
            &["runtime dialogs::a_question_ends_with_what_asked_it"],
        ),
        row(
            "The last client that leaves cancels what is open; one of several does not.",
            &["daemon logins::what_ends_a_login_without_a_key"],
        ),
        row(
            "With nobody attached a question ends at once.",
            &["runtime dialogs::with_nobody_there_a_question_ends_at_once", "daemon logins::who_can_be_logged_in_to"],
        )
        .differs("it stayed until somebody came and left."),
        row(
            "Who attaches later finds open questions in `hello`, and in view `full` as frames behind it.",
            &[
                "contract dialogs::a_question_has_these_bytes_in_every_view",
                "runtime dialogs::whoever_attaches_later_gets_each_open_question_once",
            ],
        )
        .differs("a client that came later was not told of them."),
        row(
            "The other clients are told with `extension_ui_resolved` that a question is settled.",
            &["contract dialogs::a_question_has_these_bytes_in_every_view"],
        )
        .differs("they were not told."),
        row(
            "Errors that belong to no session are a `notify` to every live one.",
            &["daemon logins::a_broken_file_is_told_of_and_left_as_it_is"],
        ),
    ],
};

pub(crate) const LOGINS: Section = Section {
    title: "Logins",
    rows: &[
        row(
            "A login asks over the rail of the dialogs: `input` with `Enter API key for <provider>`.",
            &["contract dialogs::a_question_has_these_bytes_in_every_view"],
        )
        .differs("it asked over a rail of its own, against its own guide."),
        row(
            "Clients that include `login_ui` get the rail of logins instead, answered on `/login-response`; either rail's first answer counts.",
            &[
                "daemon logins::the_first_answer_counts_whoever_gives_it",
                "runtime dialogs::a_login_is_seen_in_both_forms_and_answered_in_either",
                "protocol login::each_step_as_a_dialog",
            ],
        ),
        row("An empty or cancelled key: `API key cannot be empty.`", &["daemon logins::what_ends_a_login_without_a_key"]),
        row("A second login of a session: `A login is already in progress.`", &["daemon logins::what_ends_a_login_without_a_key"])
            .differs("it took the first one's place."),
        row(
            "What was typed is not shown again, in no frame, answer or log.",
            &[
                "daemon logins::a_key_is_asked_for_stored_used_and_removed",
                "daemon logins::a_file_that_cannot_be_written_is_an_error_without_the_key",
                "runtime dialogs::what_was_typed_is_not_shown",
            ],
        ),
    ],
};
