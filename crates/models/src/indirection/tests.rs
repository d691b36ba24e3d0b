use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;

/// Answers by command; counts how often it was asked.
#[derive(Default)]
struct Scripted {
    calls: AtomicUsize,
}

impl CommandRunner for Scripted {
    fn run<'a>(&'a self, command: &'a str, limit: Duration) -> BoxFuture<'a, Option<SecretString>> {
        assert_eq!(limit, COMMAND_LIMIT);
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match command {
                "good" => Some("  planted-key \n".into()),
                "counted" => Some(format!("call-{call}").into()),
                "empty" => Some(" \n".into()),
                "hangs" => std::future::pending().await,
                "fails-once" if call > 0 => Some("second".into()),
                _ => None,
            }
        })
    }
}

fn resolver() -> Resolver {
    let environment = [("A", "one"), ("B_2", "two"), ("EMPTY", "")].into_iter().collect();
    Resolver::new(environment, Arc::new(Scripted::default()))
}

async fn resolve(resolver: &Resolver, value: &str) -> Result<String, String> {
    let resolved = resolver.resolve(&Template::parse(value), || "API key for provider \"p\"".to_owned()).await;
    resolved.map(|secret| secret.expose_secret().to_owned()).map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn every_form_of_a_value() {
    let resolver = resolver();
    let good = [
        ("literal", "literal"),
        ("$A", "one"),
        ("${A}", "one"),
        ("Bearer $A-${B_2}.", "Bearer one-two."),
        ("$A$B_2", "onetwo"),
        ("${A}B", "oneB"),
        ("a$$A", "a$A"),
        ("$!good", "!good"),
        ("$$$A", "$one"),
        ("cost 5$", "cost 5$"),
        ("$5", "$5"),
        ("${", "${"),
        ("${A", "${A"),
        ("${1A}", "${1A}"),
        ("${A-B}", "${A-B}"),
        ("${}", "${}"),
        ("${${A}}", "${one}"),
        ("a!good", "a!good"),
        ("ключ-$A", "ключ-one"),
        ("$é", "$é"),
        ("", ""),
        ("!good", "planted-key"),
    ];
    for (value, expected) in good {
        assert_eq!(resolve(&resolver, value).await.as_deref(), Ok(expected), "{value:?}");
    }
    let bad = [
        ("$UNSET", "environment variable: UNSET"),
        ("$EMPTY", "environment variable: EMPTY"),
        ("$A-$UNSET-${UNSET}", "environment variable: UNSET"),
        ("$X-$A-$Y", "environment variables: X, Y"),
        ("!nothing here", "shell command: nothing here"),
        ("!empty", "shell command: empty"),
        ("!hangs", "shell command: hangs"),
        ("!", "shell command: "),
    ];
    for (value, expected) in bad {
        let expected = format!("Failed to resolve API key for provider \"p\" from {expected}");
        assert_eq!(resolve(&resolver, value).await, Err(expected), "{value:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_runs_once_a_minute_and_a_failure_is_not_kept() {
    let resolver = resolver();
    assert_eq!(resolve(&resolver, "!counted").await.as_deref(), Ok("call-0"));
    tokio::time::advance(COMMAND_CACHE - Duration::from_secs(1)).await;
    assert_eq!(resolve(&resolver, "!counted").await.as_deref(), Ok("call-0"));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(resolve(&resolver, "!counted").await.as_deref(), Ok("call-1"));
    resolver.forget();
    assert_eq!(resolve(&resolver, "!counted").await.as_deref(), Ok("call-2"));

    let resolver = self::resolver();
    assert!(resolve(&resolver, "!fails-once").await.is_err());
    assert_eq!(resolve(&resolver, "!fails-once").await.as_deref(), Ok("second"));
}

#[tokio::test(start_paused = true)]
async fn old_results_do_not_pile_up() {
    let resolver = resolver();
    assert!(resolve(&resolver, "!good").await.is_ok());
    tokio::time::advance(COMMAND_CACHE).await;
    assert!(resolve(&resolver, "!counted").await.is_ok());
    assert_eq!(resolver.fresh(Instant::now()).len(), 1);
}

#[test]
fn a_command_counts_as_configured_without_being_run() {
    let environment: Environment = [("A", "one"), ("EMPTY", "")].into_iter().collect();
    for (value, expected) in [("!never run", true), ("x", true), ("$A", true), ("$A$UNSET", false), ("${EMPTY}", false), ("$$UNSET", true)]
    {
        assert_eq!(Template::parse(value).is_configured(&environment), expected, "{value}");
    }
}

#[test]
fn nothing_secret_is_shown() {
    let resolver = resolver();
    let shown = format!("{resolver:?} {:?} {:?}", Template::parse("sk-planted $A"), Template::parse("!echo sk-planted"));
    assert!(!shown.contains("planted") && !shown.contains("one"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text_is_a_template(value in "[!$A{}é_ 1]{0,24}") {
        let _ = Template::parse(&value);
    }

    #[test]
    fn escaped_text_stands_for_itself(value in "\\PC{0,24}") {
        let escaped = value.replace('$', "$$");
        prop_assume!(!escaped.starts_with('!'));
        let Template::Text(parts) = Template::parse(&escaped) else { return Err(TestCaseError::fail("not a text")) };
        prop_assert!(parts.len() <= 1);
        let text = match parts.first() { Some(Part::Literal(text)) => text.as_str(), _ => "" };
        prop_assert_eq!(text, value);
    }
}
