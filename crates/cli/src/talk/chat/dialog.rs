//! Questions of the daemon as text, and typed lines as their answers. Pure.

use wolli_protocol::dialog::{DialogAnswer, DialogMethod, NotifyType};

/// What a request adds to the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The next line that is typed answers it.
    Question(String),
    /// Nothing is to be answered.
    Remark(String),
    /// Of no meaning in a chat of lines: titles, widgets, text for an editor.
    Nothing,
}

/// How a request looks.
pub(crate) fn show(method: &DialogMethod) -> Shown {
    match method {
        DialogMethod::Select { title, options, .. } => {
            let options: String = options.iter().enumerate().map(|(n, option)| format!("\n  {}. {option}", n + 1)).collect();
            Shown::Question(format!("{title}{options}\nNumber (an empty line cancels):"))
        }
        DialogMethod::Confirm { title, message, .. } => Shown::Question(format!("{title}\n{message}\ny or n (an empty line cancels):")),
        DialogMethod::Input { title, placeholder, .. } => {
            let example = placeholder.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
            Shown::Question(format!("{title}{example}\nAnswer (an empty line cancels):"))
        }
        DialogMethod::Editor { title, prefill } => {
            let before = prefill.as_ref().map(|text| format!("\n{text}")).unwrap_or_default();
            Shown::Question(format!("{title}{before}\nText (an empty line cancels):"))
        }
        DialogMethod::Notify { message, notify_type } => Shown::Remark(match notify_type {
            Some(NotifyType::Warning) => format!("Warning: {message}"),
            Some(NotifyType::Error) => format!("Error: {message}"),
            Some(NotifyType::Info) | None => message.clone(),
        }),
        DialogMethod::SetStatus { status_text: Some(text), .. } => Shown::Remark(text.clone()),
        DialogMethod::SetStatus { .. }
        | DialogMethod::SetWidget { .. }
        | DialogMethod::SetTitle { .. }
        | DialogMethod::SetEditorText { .. } => Shown::Nothing,
    }
}

/// The answer that a line gives; an error says what would be one.
pub(crate) fn answer(method: &DialogMethod, line: &str) -> Result<DialogAnswer, &'static str> {
    let typed = line.trim();
    if typed.is_empty() {
        return Ok(DialogAnswer { cancelled: Some(true), ..DialogAnswer::default() });
    }
    let value = |text: &str| Ok(DialogAnswer { value: Some(text.to_owned()), ..DialogAnswer::default() });
    match method {
        DialogMethod::Select { options, .. } => {
            let number = typed.parse::<usize>().ok().and_then(|n| options.get(n.checked_sub(1)?));
            match number.or_else(|| options.iter().find(|option| option.as_str() == typed)) {
                Some(option) => value(option),
                None => Err("Please type one of the numbers."),
            }
        }
        DialogMethod::Confirm { .. } => match typed.to_lowercase().as_str() {
            "y" | "yes" => Ok(DialogAnswer { confirmed: Some(true), ..DialogAnswer::default() }),
            "n" | "no" => Ok(DialogAnswer { confirmed: Some(false), ..DialogAnswer::default() }),
            _ => Err("Please type y or n."),
        },
        DialogMethod::Input { .. }
        | DialogMethod::Editor { .. }
        | DialogMethod::Notify { .. }
        | DialogMethod::SetStatus { .. }
        | DialogMethod::SetWidget { .. }
        | DialogMethod::SetTitle { .. }
        | DialogMethod::SetEditorText { .. } => value(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> DialogAnswer {
        DialogAnswer { value: Some(text.into()), ..DialogAnswer::default() }
    }

    #[test]
    fn answers() {
        let cancelled = DialogAnswer { cancelled: Some(true), ..DialogAnswer::default() };
        let confirmed = |yes| DialogAnswer { confirmed: Some(yes), ..DialogAnswer::default() };
        let select = DialogMethod::Select { title: "Which?".into(), options: vec!["red".into(), "blue".into()], timeout: None };
        let confirm = DialogMethod::Confirm { title: "Sure?".into(), message: "It is final.".into(), timeout: None };
        let input = DialogMethod::Input { title: "Name".into(), placeholder: None, timeout: None };
        for (method, line, expected) in [
            (&select, "2", Ok(value("blue"))),
            (&select, "red", Ok(value("red"))),
            (&select, "0", Err("Please type one of the numbers.")),
            (&select, "3", Err("Please type one of the numbers.")),
            (&select, " ", Ok(cancelled.clone())),
            (&confirm, "Yes", Ok(confirmed(true))),
            (&confirm, "n", Ok(confirmed(false))),
            (&confirm, "perhaps", Err("Please type y or n.")),
            (&input, " two words ", Ok(value(" two words "))),
            (&input, "", Ok(cancelled)),
        ] {
            assert_eq!(answer(method, line), expected, "{line:?}");
        }
    }

    #[test]
    fn questions() {
        let select = DialogMethod::Select { title: "Which?".into(), options: vec!["red".into(), "blue".into()], timeout: None };
        assert_eq!(show(&select), Shown::Question("Which?\n  1. red\n  2. blue\nNumber (an empty line cancels):".into()));
        let notice = DialogMethod::Notify { message: "slow".into(), notify_type: Some(NotifyType::Warning) };
        assert_eq!(show(&notice), Shown::Remark("Warning: slow".into()));
        assert_eq!(show(&DialogMethod::SetTitle { title: "x".into() }), Shown::Nothing);
    }
}
