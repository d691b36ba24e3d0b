use std::os::unix::ffi::OsStringExt;

use secrecy::ExposeSecret;

use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::new(variables.iter().copied(), "/current")
}

#[test]
fn root_and_shared_folder() {
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str);
    let cases: &[Case<'_>] = &[
        (&[("HOME", "/h")], "/h/.wolli", "/h/.wolli/agent"),
        (&[("HOME", "/h"), ("WOLLI_HOME", "/w")], "/w", "/h/.wolli/agent"),
        (&[("HOME", "/h"), ("WOLLI_HOME", ""), ("WOLLI_SHARED_DIR", "")], "/h/.wolli", "/h/.wolli/agent"),
        (&[("HOME", "/h"), ("WOLLI_HOME", "~"), ("WOLLI_SHARED_DIR", "~/s")], "/h", "/h/s"),
        (&[("HOME", "/h"), ("WOLLI_HOME", "~\\x"), ("WOLLI_SHARED_DIR", "~x")], "/h/x", "/current/~x"),
        (&[("HOME", "/h"), ("WOLLI_HOME", "a/../b/./c"), ("WOLLI_SHARED_DIR", "/../s/")], "/current/b/c", "/s"),
        (&[("HOME", "/h"), ("WOLLI_HOME", " /w"), ("WOLLI_SHARED_DIR", "/s ")], "/current/ /w", "/s "),
        (&[("WOLLI_HOME", "/w"), ("WOLLI_SHARED_DIR", "/s")], "/w", "/s"),
    ];
    for (variables, root, shared) in cases {
        let environment = environment(variables);
        assert_eq!(environment.root().unwrap(), Path::new(root), "{variables:?}");
        assert_eq!(environment.shared_folder().unwrap(), Path::new(shared), "{variables:?}");
    }
}

#[test]
fn without_home_the_error_says_what_to_set() {
    for variables in [&[][..], &[("HOME", "")], &[("HOME", "relative")], &[("WOLLI_HOME", "~/x")]] {
        let error = environment(variables).root().unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot tell where the home folder is: HOME is not set (set HOME, or WOLLI_HOME to an absolute path)"
        );
    }
    assert_eq!(environment(&[]).shared_folder().unwrap_err().instead, "WOLLI_SHARED_DIR");
}

#[test]
fn meanings_of_values() {
    let sandbox = |v| environment(&[("WOLLI_SANDBOX", v)]).sandbox();
    assert_eq!(sandbox(" host\n"), Sandbox::Host);
    assert_eq!(sandbox("local-os"), Sandbox::LocalOs);
    assert_eq!(sandbox("docker"), Sandbox::Docker);
    for other in ["", "auto", "HOST", "Host", "podman"] {
        assert_eq!(sandbox(other), Sandbox::Auto, "{other:?}");
    }

    let manager = |v| environment(&[("WOLLI_SERVICE_MANAGER", v)]).service_manager();
    assert_eq!(manager(" none "), ServiceManager::None);
    assert_eq!(manager("launchd"), ServiceManager::Launchd);
    assert_eq!(manager("systemd"), ServiceManager::Systemd);
    assert_eq!(manager("openrc"), ServiceManager::Detect);

    for (value, expected) in [("1", true), (" true ", true), ("TRUE", false), ("yes", false), ("", false)] {
        let environment = environment(&[("WOLLI_BYPASS_PERMISSIONS", value)]);
        assert_eq!(environment.bypass_permissions(), expected, "{value:?}");
    }
    for (value, expected) in [("1", true), ("Yes", true), ("TRUE", true), ("", false), ("on", false), (" 1", false)] {
        assert_eq!(environment(&[("WOLLI_TELEMETRY", value)]).telemetry(), Some(expected), "{value:?}");
        assert_eq!(environment(&[("WOLLI_OFFLINE", value)]).offline(), expected, "{value:?}");
    }
    assert_eq!(environment(&[]).telemetry(), None);
    assert!(!environment(&[]).bypass_permissions());

    assert_eq!(environment(&[]).daemon_host(), "127.0.0.1");
    assert_eq!(environment(&[("WOLLI_DAEMON_HOST", "  ")]).daemon_host(), "127.0.0.1");
    assert_eq!(environment(&[("WOLLI_DAEMON_HOST", " ::1 ")]).daemon_host(), "::1");

    assert!(environment(&[("WOLLI_DAEMON_TOKEN", " \t")]).daemon_token().is_none());
    let token = environment(&[("WOLLI_DAEMON_TOKEN", " abc\n")]).daemon_token().unwrap();
    assert_eq!(token.expose_secret(), "abc");

    assert_eq!(environment(&[("TMPDIR", "/t")]).temporary_folder(), Path::new("/t"));
    assert_eq!(environment(&[("TMPDIR", "t")]).temporary_folder(), Path::new("/tmp"));
    assert_eq!(environment(&[("XDG_RUNTIME_DIR", "run")]).runtime_folder(), None);
    assert_eq!(environment(&[("XDG_RUNTIME_DIR", "/run/u")]).runtime_folder(), Some(Path::new("/run/u")));
}

#[test]
fn provider_keys_are_looked_up_by_name() {
    let environment = environment(&[("GROQ_API_KEY", "k"), ("EMPTY", "")]);
    assert_eq!(environment.variable("GROQ_API_KEY"), Some("k"));
    assert_eq!(environment.variable("EMPTY"), None);
    assert_eq!(environment.variable("ABSENT"), None);
    assert!(environment.secret("EMPTY").is_none());
}

#[test]
fn values_are_never_shown() {
    let shown = format!("{:?}", environment(&[("GROQ_API_KEY", "very-secret")]));
    assert!(shown.contains("GROQ_API_KEY") && !shown.contains("very-secret"), "{shown}");
}

#[test]
fn paths_need_not_be_text() {
    let odd = OsString::from_vec(b"/\xff".to_vec());
    let environment = Environment::new([(OsString::from("WOLLI_HOME"), odd.clone())], "/current");
    assert_eq!(environment.root().unwrap(), Path::new(&odd));
    assert_eq!(environment.variable("WOLLI_HOME"), None);
}

#[test]
fn the_first_of_two_equal_names_counts() {
    assert_eq!(environment(&[("A", "1"), ("A", "2")]).variable("A"), Some("1"));
}
