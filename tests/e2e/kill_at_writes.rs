//! A kill right before each write, sync, rename and removal of an operation: what was acknowledged is there once, every file is whole, and
//! nothing piles up.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use wolli_testkit::process::eventually;
use wolli_testkit::provider::{Answer, Gate, Kind};

use crate::support::strace::{Killer, missing};
use crate::support::{World, count, strict, text_of, texts_of};

/// Kinds of system calls; the first only on the files of the session.
const CALLS: [&str; 6] = ["write,pwrite64,writev", "fdatasync", "fsync", "/^rename", "/^unlink", "ftruncate"];

/// One thing that is asked of the daemon, and what has to be true after a kill.
trait Operation {
    /// Puts things in place; the daemon runs.
    async fn prepare(&mut self, world: &mut World, round: usize);
    /// Does it; gives true if it was acknowledged. The daemon may die on the way.
    async fn act(&mut self, world: &World, round: usize) -> bool;
    /// Looks at what came of it; another daemon runs.
    async fn check(&mut self, world: &mut World, round: usize, acknowledged: bool, at: &str);
}

/// The command's answer, if there was one.
async fn asked(world: &World, session: &str, command: Value) -> bool {
    let answer = tokio::time::timeout(Duration::from_secs(20), world.client().command(session, &command)).await;
    answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer["success"] == true))
}

fn session_files(world: &World) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(world.agent.home.join("sessions")).unwrap().map(|entry| entry.unwrap().path());
    folders.filter(|path| path.is_dir()).flat_map(|path| std::fs::read_dir(path).unwrap().map(|file| file.unwrap().path())).collect()
}

fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".wolli-"))
}

async fn kill_at_every_call(mut world: World, operation: &mut impl Operation) {
    let (mut kills, mut round) = (0, 0);
    for calls in CALLS {
        for number in 1..=count(2, 30) {
            round += 1;
            operation.prepare(&mut world, round).await;
            let file = world.session_file().await;
            let sidecar = file.with_extension("state.json");
            let only: &[&Path] = if calls.starts_with("write") { &[&file, &sidecar] } else { &[] };
            let killer = match Killer::attach(world.daemon.pid(), calls, number, only, world.home.folder()).await {
                Ok(killer) => killer,
                Err(why) => return missing(&why),
            };
            let acknowledged = operation.act(&world, round).await;
            let killed = killer.end().await;
            kills += usize::from(killed.is_some());
            let at = format!("round {round}, {calls} {number}: {}", killed.as_deref().unwrap_or("not killed"));
            eprintln!("{at}");
            world.daemon.kill().unwrap();
            // Temporary files of others are young; these were left by a writer that is gone.
            let home = std::fs::read_dir(&world.agent.home).unwrap().map(|entry| entry.unwrap().path());
            for left in home.filter(|path| is_temporary(path)) {
                std::fs::File::open(left).unwrap().set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
            }
            world.start().await;
            operation.check(&mut world, round, acknowledged, &at).await;
            check_files(&world, &at).await;
            if killed.is_none() {
                break;
            }
        }
    }
    assert!(kills >= 2, "only {kills} of {round} rounds ended in a kill");
}

/// Every session opens and is what wolli 0.0.2 would open; nothing is left that belongs to nobody.
async fn check_files(world: &World, at: &str) {
    let state = world.agent_state().await;
    for session in state["sessions"].as_array().unwrap() {
        let id = session["sessionId"].as_str().unwrap();
        world.client().succeed(id, &json!({"type": "get_state"})).await.unwrap_or_else(|error| panic!("{at}: {error}"));
    }
    serde_json::from_slice::<Value>(&std::fs::read(world.agent.home.join("agent.json")).unwrap()).unwrap();
    for path in session_files(world) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".jsonl") {
            strict::check_appended(&path, 1);
        } else if let Some(session) = name.strip_suffix(".state.json") {
            serde_json::from_slice::<Value>(&std::fs::read(&path).unwrap()).unwrap();
            assert!(path.with_file_name(format!("{session}.jsonl")).exists(), "{at}: {name} has no session");
        } else {
            assert!(name.contains(".jsonl.torn-"), "{at}: {name} was left behind");
        }
    }
    let home = std::fs::read_dir(&world.agent.home).unwrap().map(|entry| entry.unwrap().path());
    let left: Vec<PathBuf> = home.filter(|path| is_temporary(path)).collect();
    assert!(left.is_empty(), "{at}: {left:?}");
}

/// How often a text stands in the conversation or in a queue.
async fn times(world: &World, text: &str) -> usize {
    let stored = texts_of(&world.messages().await, "user").iter().filter(|told| *told == text).count();
    let sidecar: Value = serde_json::from_slice(&std::fs::read(world.session_file().await.with_extension("state.json")).unwrap()).unwrap();
    let queued = ["steer", "followUp"].iter().flat_map(|queue| sidecar[queue].as_array().unwrap());
    stored + queued.filter(|queued| text_of(&queued["message"]) == text).count()
}

#[track_caller]
fn once_if_acknowledged(found: usize, acknowledged: bool, at: &str) {
    assert!(found == 1 || (found == 0 && !acknowledged), "{at}: there {found} times, acknowledged: {acknowledged}");
}

struct Prompt;

impl Operation for Prompt {
    async fn prepare(&mut self, _: &mut World, _: usize) {}

    async fn act(&mut self, world: &World, round: usize) -> bool {
        let text = format!("prompt {round}");
        let acknowledged = asked(world, &world.session, json!({"type": "prompt", "message": text, "idempotencyKey": text})).await;
        asked(world, &world.session, json!({"type": "wait_for_idle"})).await;
        acknowledged
    }

    async fn check(&mut self, world: &mut World, round: usize, acknowledged: bool, at: &str) {
        let text = format!("prompt {round}");
        once_if_acknowledged(times(world, &text).await, acknowledged, at);
        // A client that was not answered asks again, and has it once.
        world.succeed(json!({"type": "prompt", "message": text, "idempotencyKey": text})).await;
        world.idle().await;
        assert_eq!(times(world, &text).await, 1, "{at}");
    }
}

#[tokio::test]
async fn a_prompt() {
    kill_at_every_call(World::echo().await, &mut Prompt).await;
}

/// A steering message and an appended one, in the middle of a run that then takes them.
struct Steer(Gate);

impl Operation for Steer {
    async fn prepare(&mut self, world: &mut World, round: usize) {
        self.0 = Gate::new();
        world.succeed(json!({"type": "clear_queue"})).await;
        let gate = self.0.clone();
        world.provider.respond_with(move |_| Answer::says("So be it.").hold_before(3, &gate));
        world.prompt(&format!("go {round}")).await;
        self.0.reached().await;
    }

    async fn act(&mut self, world: &World, round: usize) -> bool {
        let steered = asked(world, &world.session, json!({"type": "steer", "message": format!("steer {round}")})).await;
        let message = json!({"role": "user", "content": format!("appended {round}"), "timestamp": 1});
        let appended = asked(world, &world.session, json!({"type": "append_message", "message": message})).await;
        self.0.open();
        asked(world, &world.session, json!({"type": "wait_for_idle"})).await;
        steered && appended
    }

    async fn check(&mut self, world: &mut World, round: usize, acknowledged: bool, at: &str) {
        for text in [format!("steer {round}"), format!("appended {round}")] {
            once_if_acknowledged(times(world, &text).await, acknowledged, at);
        }
        assert_eq!(times(world, &format!("go {round}")).await, 1, "{at}");
    }
}

#[tokio::test]
async fn messages_for_a_run() {
    kill_at_every_call(World::scripted(Kind::Anthropic).await, &mut Steer(Gate::new())).await;
}

/// A name for a session in memory, and one for a session that is not; a level that is stored in `agent.json`.
struct Rename(String);

impl Operation for Rename {
    async fn prepare(&mut self, world: &mut World, _: usize) {
        if self.0.is_empty() {
            world.succeed(json!({"type": "deploy"})).await;
            self.0 = another(world).await;
            world.restart().await;
        }
    }

    async fn act(&mut self, world: &World, round: usize) -> bool {
        let mut acknowledged = true;
        for id in [&self.0, &world.session] {
            let command = json!({"type": "rename_session", "targetSessionId": id, "sessionName": format!("name {round}")});
            acknowledged &= asked(world, &world.session, command).await;
        }
        let level = ["low", "high"][round % 2];
        acknowledged & asked(world, &world.session, json!({"type": "set_thinking_level", "level": level})).await
    }

    async fn check(&mut self, world: &mut World, round: usize, acknowledged: bool, at: &str) {
        let state = world.agent_state().await;
        for id in [&self.0, &world.session] {
            let session = state["sessions"].as_array().unwrap().iter().find(|session| session["sessionId"] == **id).unwrap();
            let name = session["sessionName"].as_str().unwrap_or_default();
            assert!(!acknowledged || name == format!("name {round}"), "{at}: {session}");
            assert!(name.is_empty() || name.starts_with("name "), "{at}: {session}");
        }
    }
}

async fn another(world: &World) -> String {
    world.succeed(json!({"type": "create_session"})).await["sessionId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn names_and_levels() {
    kill_at_every_call(World::scripted(Kind::OpenAi).await, &mut Rename(String::new())).await;
}

/// Deletes a session that has a conversation and something in its queue.
struct Delete(String);

impl Operation for Delete {
    async fn prepare(&mut self, world: &mut World, round: usize) {
        if round == 1 {
            world.succeed(json!({"type": "deploy"})).await;
        }
        self.0 = another(world).await;
        let prompt = json!({"type": "prompt", "message": format!("hello {round}")});
        world.client().succeed(&self.0, &prompt).await.unwrap();
        world.client().succeed(&self.0, &json!({"type": "wait_for_idle"})).await.unwrap();
    }

    async fn act(&mut self, world: &World, _: usize) -> bool {
        asked(world, &world.session, json!({"type": "delete_session", "targetSessionId": self.0})).await
    }

    async fn check(&mut self, world: &mut World, round: usize, acknowledged: bool, at: &str) {
        let state = world.agent_state().await;
        let listed = state["sessions"].as_array().unwrap().iter().any(|session| session["sessionId"] == *self.0);
        assert!(!(acknowledged && listed), "{at}: it is listed after all");
        if listed {
            let data = world.client().succeed(&self.0, &json!({"type": "get_messages"})).await.unwrap();
            let messages = data["messages"].as_array().unwrap();
            assert_eq!(messages.len(), 2, "{at}");
            assert_eq!(text_of(&messages[0]), format!("hello {round}"));
            world.succeed(json!({"type": "delete_session", "targetSessionId": self.0})).await;
        }
        eventually("the end of the deletion", Duration::from_secs(10), || {
            (!session_files(world).iter().any(|path| path.to_string_lossy().contains(&self.0))).then_some(())
        })
        .await
        .unwrap_or_else(|error| panic!("{at}: {error}"));
    }
}

#[tokio::test]
async fn a_deletion() {
    kill_at_every_call(World::echo().await, &mut Delete(String::new())).await;
}

/// Makes a session.
struct Create;

impl Operation for Create {
    async fn prepare(&mut self, world: &mut World, round: usize) {
        if round == 1 {
            world.succeed(json!({"type": "deploy"})).await;
        }
    }

    async fn act(&mut self, world: &World, _: usize) -> bool {
        asked(world, &world.session, json!({"type": "create_session"})).await
    }

    async fn check(&mut self, world: &mut World, _: usize, acknowledged: bool, at: &str) {
        let state = world.agent_state().await;
        let others: Vec<&str> = state["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|session| session["sessionId"].as_str().unwrap())
            .filter(|id| *id != world.session)
            .collect();
        assert!(!acknowledged || !others.is_empty(), "{at}");
        for id in others {
            world.succeed(json!({"type": "delete_session", "targetSessionId": id})).await;
        }
    }
}

#[tokio::test]
async fn a_new_session() {
    kill_at_every_call(World::echo().await, &mut Create).await;
}

/// Puts a summary in the place of a history that grows with each round.
struct Compact {
    /// Summaries in the file before this round.
    before: usize,
}

async fn summaries(world: &World) -> usize {
    let entries = world.succeed(json!({"type": "get_entries"})).await;
    entries["entries"].as_array().unwrap().iter().filter(|entry| entry["type"] == "compaction").count()
}

impl Operation for Compact {
    async fn prepare(&mut self, world: &mut World, round: usize) {
        for turn in 0..2 {
            world.prompt(&format!("round {round}, turn {turn}")).await;
            world.idle().await;
        }
        self.before = summaries(world).await;
    }

    async fn act(&mut self, world: &World, _: usize) -> bool {
        asked(world, &world.session, json!({"type": "compact"})).await
    }

    async fn check(&mut self, world: &mut World, round: usize, acknowledged: bool, at: &str) {
        let written = summaries(world).await - self.before;
        assert!(written == 1 || (written == 0 && !acknowledged), "{at}: {written} summaries, acknowledged: {acknowledged}");
        let messages = world.messages().await;
        let shown = messages.iter().filter(|message| message["role"] == "compactionSummary").count();
        assert!(shown == usize::from(self.before + written > 0), "{at}: {shown} summaries are shown");
        let whole = texts_of(&messages, "user").iter().any(|text| *text == format!("round {round}, turn 1"));
        assert!(whole || written == 1, "{at}: a turn is gone");
        // Half a compaction is none, and the next one works.
        if written == 0 {
            world.succeed(json!({"type": "compact"})).await;
        }
        world.prompt("and on").await;
        world.idle().await;
    }
}

#[tokio::test]
async fn a_compaction() {
    kill_at_every_call(World::echo().await, &mut Compact { before: 0 }).await;
}
