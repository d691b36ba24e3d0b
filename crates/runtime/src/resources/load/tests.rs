//! Whole homes: what is found, what wins, what is told.

use serde_json::{Value, json};

use super::*;

struct Home(tempfile::TempDir);

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn load(&self, settings: Value) -> Resources {
        let places = Places { home: self.0.path().to_owned(), user_home: None };
        Resources::load(&places, settings.as_object().unwrap())
    }
}

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: about {name}\n---\nbody of {name}")
}

#[test]
fn the_first_of_a_name_wins_and_a_file_counts_once() {
    let home = Home::new(&[
        ("skills/greet/SKILL.md", &skill("greet")),
        ("skills/again/SKILL.md", &skill("greet")),
        ("skills/off/SKILL.md", &skill("off")),
        ("more/greet.md", &skill("greet")),
        ("prompts/review.md", "Review $1"),
        ("prompts/deep/hidden.md", "not found: not in the folder itself"),
        ("tpl/in/review.md", "Other"),
        ("tpl/bad.md", "---\na: [\n---\n"),
    ]);
    std::os::unix::fs::symlink(home.path("skills/greet"), home.path("skills/zlink")).unwrap();
    let resources = home.load(json!({"skills": ["more/greet.md", "!off"], "prompts": ["./tpl/", "tpl/in/review.md"]}));
    let names: Vec<(&str, &str)> =
        resources.skills().iter().map(|skill| (skill.name.as_str(), skill.source_info.source.as_str())).collect();
    assert_eq!(names, [("greet", "local")]);
    let commands = serde_json::to_value(resources.commands()).unwrap();
    let source = |path: &str| json!({"path": home.path(path), "source": "local", "scope": "user", "origin": "top-level", "baseDir": home.path("").trim_end_matches('/')});
    assert_eq!(
        commands,
        json!([
            {"name": "review", "description": "Other", "source": "prompt", "sourceInfo": source("tpl/in/review.md")},
            {"name": "skill:greet", "description": "about greet", "source": "skill", "sourceInfo": source("more/greet.md")},
        ])
    );
    let collision = |kind: &str, name: &str, shown: &str, winner: &str, loser: &str| {
        json!({
            "type": "collision", "message": format!("name \"{shown}\" collision"), "path": home.path(loser),
            "collision": {"resourceType": kind, "name": name, "winnerPath": home.path(winner), "loserPath": home.path(loser)},
        })
    };
    let mut diagnostics = serde_json::to_value(resources.diagnostics()).unwrap();
    let bad = diagnostics.as_array_mut().unwrap().remove(2);
    assert_eq!((&bad["type"], &bad["path"]), (&json!("warning"), &json!(home.path("tpl/bad.md"))));
    assert_eq!(
        diagnostics,
        json!([
            collision("skill", "greet", "greet", "more/greet.md", "skills/again/SKILL.md"),
            collision("skill", "greet", "greet", "more/greet.md", "skills/greet/SKILL.md"),
            collision("prompt", "review", "/review", "tpl/in/review.md", "prompts/review.md"),
        ])
    );
}

#[test]
fn what_the_settings_get_wrong_is_told() {
    let home = Home::new(&[("notes.txt", "x"), ("skills/ok/SKILL.md", &skill("ok"))]);
    let resources = home.load(json!({"skills": ["nowhere", "notes.txt", "![z-a]"], "prompts": "prompts"}));
    let told: Vec<(String, Option<String>)> =
        resources.diagnostics().iter().map(|diagnostic| (diagnostic.message.clone(), diagnostic.path.clone())).collect();
    assert_eq!(
        told,
        [
            ("setting skills: glob \"[z-a]\" is ignored: invalid range; 'z' > 'a'".to_owned(), None),
            ("skill path does not exist".into(), Some(home.path("nowhere"))),
            ("skill path is not a markdown file".into(), Some(home.path("notes.txt"))),
            ("setting prompts must be a list of strings; it is ignored".into(), None),
        ]
    );
    assert_eq!(resources.skills().len(), 1);
    assert!(home.load(json!({"skills": null})).diagnostics().is_empty());
}

#[test]
fn code_and_plugins_are_told_and_not_loaded() {
    let home = Home::new(&[
        ("extensions/a.ts", "x"),
        ("extensions/b/index.js", "x"),
        ("extensions/readme.md", "x"),
        ("integrations/mail/package.json", "{}"),
        ("integrations.json", "[1"),
    ]);
    let resources = home.load(json!({"extensions": ["mine.js", "!a.ts"], "plugins": ["npm:tools", {"source": "./x"}]}));
    let told: Vec<(&str, Option<&str>)> =
        resources.diagnostics().iter().map(|diagnostic| (diagnostic.message.as_str(), diagnostic.path.as_deref())).collect();
    let (extension, integration) = (
        "extension is not loaded: code within the process is not supported",
        "integration is not loaded: code within the process is not supported",
    );
    assert_eq!(
        told,
        [
            (extension, Some(&*home.path("mine.js"))),
            (extension, Some(&*home.path("extensions/a.ts"))),
            (extension, Some(&*home.path("extensions/b"))),
            (integration, Some(&*home.path("integrations/mail"))),
            (
                "integrations.json cannot be used: invalid type: sequence, expected a map at line 1 column 0",
                Some(&*home.path("integrations.json"))
            ),
            ("plugin \"npm:tools\" is not loaded: this version of wolli loads no plugins", None),
            ("plugin \"./x\" is not loaded: this version of wolli loads no plugins", None),
        ]
    );
    let plugins = serde_json::to_value(resources.plugins()).unwrap();
    let plugin = |source: &str, filtered| json!({"source": source, "scope": "user", "filtered": filtered});
    assert_eq!(plugins, json!([plugin("npm:tools", false), plugin("./x", true)]));
}

#[test]
fn calls_are_recognised_by_their_first_word() {
    let home =
        Home::new(&[("skills/greet/SKILL.md", &skill("greet")), ("prompts/two words.md", "x"), ("prompts/review.md", "Review $1 and $2")]);
    let resources = home.load(json!({}));
    let expand = |text: &str| resources.invocation(text).and_then(|call| call.map(|call| call.expand()).transpose());
    for plain in ["", "hello", "/", "/nothing here", " /review x", "/review\nx", "/Review x", "/two words", "//review", "/skills:greet"] {
        assert_eq!(expand(plain).unwrap(), None, "{plain:?}");
    }
    assert_eq!(expand("/review a.rs 'b c'").unwrap().unwrap(), "Review a.rs and b c");
    assert_eq!(expand("/review").unwrap().unwrap(), "Review  and ");
    assert!(expand("/skill:greet  Ann ").unwrap().unwrap().ends_with("body of greet\n</skill>\n\nAnn"));
    // A text of several lines may begin right behind the name.
    assert!(expand("/skill:greet\nAnn\nand Bob\n").unwrap().unwrap().ends_with("</skill>\n\nAnn\nand Bob"));
    for (text, error) in
        [("/skill:nosuch x", "Unknown skill: nosuch"), ("/skill:", "Unknown skill: "), ("/skill: greet", "Unknown skill: ")]
    {
        assert_eq!(expand(text).unwrap_err().to_string(), error);
    }
    std::fs::remove_dir_all(home.path("skills")).unwrap();
    std::fs::remove_file(home.path("prompts/review.md")).unwrap();
    let error = expand("/skill:greet").unwrap_err().to_string();
    let expected = format!("cannot read the skill \"greet\" at {}: No such file or directory", home.path("skills/greet/SKILL.md"));
    assert!(error.starts_with(&expected), "{error}");
    let error = expand("/review").unwrap_err().to_string();
    assert!(error.starts_with("cannot read the prompt template \"/review\" at "), "{error}");
}

#[test]
fn a_thousand_broken_skills_do_not_flood_anybody() {
    let home = Home::new(&[]);
    std::fs::create_dir(home.path("skills")).unwrap();
    for number in 0..1500 {
        std::fs::write(home.path(&format!("skills/{number}.md")), "no header").unwrap();
    }
    let diagnostics = home.load(json!({})).diagnostics().to_vec();
    assert_eq!(diagnostics.len(), DIAGNOSTICS_MAX + 1);
    assert_eq!(diagnostics.last().unwrap().message, "800 more problems with skills and templates are not listed");
}
