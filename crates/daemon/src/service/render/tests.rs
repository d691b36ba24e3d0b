use std::path::{Path, PathBuf};
use std::time::Duration;

use wolli_home::environment::Environment;
use wolli_home::paths::{Root, ServiceName};

use super::*;
use crate::service::definition::Definition;

const SECRET: &str = "planted-secret-value";

fn definition(home: &str, on_demand: Option<OnDemand>) -> Definition {
    let environment = Environment::new(
        [
            ("HOME", home),
            ("SHELL", "/bin/zsh"),
            ("WOLLI_SANDBOX", "local-os"),
            ("WOLLI_DAEMON_TOKEN", SECRET),
            ("ANTHROPIC_API_KEY", SECRET),
            ("HTTPS_PROXY", "http://proxy.example:3128"),
            ("HTTP_PROXY", &format!("http://me:{SECRET}@proxy.example:3128")),
            ("LC_TIME", "de_DE.UTF-8"),
            ("EDITOR", "vi"),
        ],
        "/",
    );
    let root = Root::new(Path::new(home).join(".wolli"));
    let agent = root.agent(&"scribe".parse().unwrap());
    let name = ServiceName::new(&environment, &root, agent.name());
    Definition::new(&environment, &agent, name, Path::new("/opt/a b/wolli"), "/opt/bin:/usr/bin".into(), on_demand)
}

fn on_demand() -> OnDemand {
    OnDemand {
        address: "127.0.0.1:20777".parse().unwrap(),
        socket: Some(PathBuf::from("/run/user/1000/wolli-1000/scribe-0123456789abcdef.sock")),
        idle: Duration::from_secs(600),
    }
}

/// The committed file; written anew with `WOLLI_WRITE_GOLDEN=1`.
fn golden(name: &str, text: &str) {
    let text = text.replace(VERSION, "VERSION");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/service").join(name);
    if std::env::var_os("WOLLI_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "{}", path.display());
}

#[test]
fn definitions_are_the_committed_ones() {
    golden("wolli-scribe.service", &unit(&definition("/home/u", None)));
    golden("wolli-scribe.on-demand.service", &unit(&definition("/home/u", Some(on_demand()))));
    golden("wolli-scribe.socket", &socket_unit(&definition("/home/u", Some(on_demand())), &on_demand()));
    golden("com.wolli.scribe.plist", &property_list(&definition("/home/u", None)));
    golden("com.wolli.scribe.on-demand.plist", &property_list(&definition("/home/u", Some(on_demand()))));
}

#[test]
fn no_secret_is_in_them() {
    let definition = definition("/home/u", None);
    for text in [unit(&definition), property_list(&definition)] {
        assert!(!text.contains(SECRET), "{text}");
        assert!(text.contains("proxy.example:3128") && text.contains("de_DE.UTF-8") && !text.contains("EDITOR"), "{text}");
    }
    let notes = definition.notes().join("\n");
    for named in ["WOLLI_DAEMON_TOKEN", "ANTHROPIC_API_KEY", "HTTP_PROXY"] {
        assert!(notes.contains(named), "{notes}");
    }
    assert!(!notes.contains(SECRET));
}

#[test]
fn a_value_is_never_taken_for_a_place_or_for_syntax() {
    let definition = definition("/home/@AGENT@ %h $x \"q\"", None);
    let text = unit(&definition);
    assert!(text.contains("WorkingDirectory=/home/@AGENT@ %%h $x \"q\"/.wolli/agents/scribe\n"), "{text}");
    assert!(text.contains(r#"Environment="HOME=/home/@AGENT@ %%h $x \"q\"""#), "{text}");
    assert!(!text.contains("@ENVIRONMENT@") && !text.contains("@UNIT_EXTRA@"));
    let list = property_list(&definition);
    assert!(list.contains("<string>/home/@AGENT@ %h $x &quot;q&quot;</string>"), "{list}");
}

/// What stands between the tags of a property list, as launchd reads it: `Err` for whatever is not well-formed.
fn check_property_list(text: &str) -> Result<usize, String> {
    let body = text.split_once("<plist version=\"1.0\">").ok_or("no plist")?.1;
    let (mut open, mut values, mut rest) = (Vec::<(&str, usize)>::new(), 0, body);
    while let Some((before, after)) = rest.split_once('<') {
        let (tag, next) = after.split_once('>').ok_or("a tag without end")?;
        let text_of_value = matches!(open.last(), Some(("key" | "string" | "integer", _)));
        if !text_of_value && !before.trim().is_empty() {
            return Err(format!("text between values: {before}"));
        }
        for (at, _) in before.match_indices('&') {
            let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"];
            known.iter().find(|entity| before[at..].starts_with(**entity)).ok_or(format!("an entity: {before}"))?;
        }
        rest = next;
        if let Some(name) = tag.strip_suffix('/') {
            let counted = open.last_mut().ok_or("a value outside")?;
            counted.1 += 1;
            values += 1;
            if !matches!(name, "true" | "false") {
                return Err(format!("<{tag}>"));
            }
        } else if let Some(name) = tag.strip_prefix('/') {
            if name == "plist" {
                return if open.is_empty() { Ok(values) } else { Err(format!("{open:?} is open")) };
            }
            let (opened, inside) = open.pop().ok_or("a value that was not begun")?;
            if opened != name || (name == "dict" && inside % 2 == 1) {
                return Err(format!("<{opened}> with {inside} values ends as </{name}>"));
            }
            if let Some(outer) = open.last_mut() {
                // In a dictionary keys and values take turns.
                if outer.0 == "dict" && (outer.1 % 2 == 0) != (name == "key") {
                    return Err(format!("</{name}> in the wrong place"));
                }
                outer.1 += 1;
            }
            values += 1;
        } else {
            open.push((tag, 0));
        }
    }
    Err("no end".to_owned())
}

#[test]
fn property_lists_are_well_formed() {
    for home in ["/home/u", "/home/@AGENT@ <b>&amp;]]> \"q\"", "/Users/ada \u{1}"] {
        for on_demand in [None, Some(on_demand())] {
            let text = property_list(&definition(home, on_demand));
            let values = check_property_list(&text).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
            assert!(values > 20, "{values}");
        }
    }
    for broken in [
        "<plist version=\"1.0\"><dict><key>a</key></dict></plist>",
        "<plist version=\"1.0\"><dict><string>a</string><key>b</key></dict></plist>",
        "<plist version=\"1.0\"><dict><key>a</key><string>a & b</string></dict></plist>",
        "<plist version=\"1.0\"><dict><key>a</string></dict></plist>",
        "<plist version=\"1.0\"><dict>",
    ] {
        assert!(check_property_list(broken).is_err(), "{broken}");
    }
}
