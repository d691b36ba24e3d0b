//! Requests that no client would send, many at a time, over TCP and the Unix socket: made from the written reference and spoilt, and bytes
//! that are no requests at all.
//!
//! What must hold: an answer is one of those that the reference names, every answer comes, nothing panics, and in the end the
//! daemon has what it had before, stops in order, and finds its home as it should be.

mod shape;
mod socket;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wolli_testkit::process::{eventually, open_files};

use self::shape::{Shapes, body, spoil, text};
use self::socket::{Place, Socket};
use crate::support::{Dice, World, count};

/// Connections at a time.
const WORKERS: u64 = 8;
/// Cases of a worker before the next look at the clock.
const CASES: usize = 25;
/// Growth that is no leak: the logs of sessions that were spoken to may hold 16 MiB, and the allocator keeps pages.
const GROWTH_KIB: u64 = 24 << 10;

/// All that a worker needs.
struct Target {
    shapes: Shapes,
    places: Vec<Place>,
    token: String,
    session: String,
}

/// One request and what may be answered.
struct Case {
    method: String,
    bytes: Vec<u8>,
    /// Statuses that the reference names for this route; nothing if it is no route of the reference.
    documented: Option<Vec<u16>>,
}

impl Target {
    fn case(&self, dice: &mut Dice) -> Case {
        let operations = self.shapes.operations();
        let (method, path, operation) = &operations[usize::try_from(dice.range(0, operations.len() as u64)).unwrap()];
        let id = self.id(dice);
        let pattern = path;
        let mut path = pattern.replace("{id}", &id);
        let mut method = method.clone();
        // An id is one segment that is not empty.
        let mut is_documented = !pattern.contains("{id}") || !id.is_empty();
        if dice.one_in(12) {
            let reads = method == "GET";
            method = ["HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "get", "FOO"][usize::try_from(dice.range(0, 7)).unwrap()].into();
            is_documented = is_documented && reads && method == "HEAD";
        }
        if dice.one_in(30) {
            path.push_str(["/", "//", "%00", ";a", "?"][usize::try_from(dice.range(0, 5)).unwrap()]);
            is_documented = false;
        }
        let mut headers = vec!["Host: localhost".to_owned()];
        if !dice.one_in(25) {
            headers.push(format!("Authorization: Bearer {}", self.token));
        }
        path.push_str(&self.query(operation, dice, &mut headers));
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let content = if schema.is_null() { Vec::new() } else { self.content(schema, dice) };
        let chunked = !content.is_empty() && dice.one_in(6);
        match (chunked, content.is_empty()) {
            (true, _) => headers.push("Transfer-Encoding: chunked".into()),
            (false, false) => headers.push(format!("Content-Length: {}", content.len())),
            (false, true) => {}
        }
        if dice.one_in(20) {
            headers.push("Expect: 100-continue".into());
        }
        let mut bytes = format!("{method} {path} HTTP/1.1\r\n{}\r\n\r\n", headers.join("\r\n")).into_bytes();
        if chunked {
            for piece in content.chunks(usize::try_from(dice.range(1, 2000)).unwrap()) {
                bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                bytes.extend_from_slice(piece);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
        } else {
            bytes.extend_from_slice(&content);
        }
        let statuses = operation["responses"].as_object().unwrap().keys().map(|status| status.parse().unwrap()).collect();
        Case { method, bytes, documented: is_documented.then_some(statuses) }
    }

    /// An id for the path, in most cases that of the session.
    fn id(&self, dice: &mut Dice) -> String {
        if !dice.one_in(6) {
            return self.session.clone();
        }
        let text = text(dice).as_str().unwrap_or_default().to_owned();
        let coded: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let ids = ["x".repeat(2000), "%".into(), "%ff%fe".into(), "..".into(), "%2e%2e%2f".into(), coded, self.session.to_uppercase()];
        ids[usize::try_from(dice.range(0, ids.len() as u64)).unwrap()].clone()
    }

    /// Parameters as they should be, or nearly.
    fn query(&self, operation: &Value, dice: &mut Dice, headers: &mut Vec<String>) -> String {
        let mut pairs = Vec::new();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let parameter = self.shapes.resolve(parameter);
            if parameter["in"] == "path" || dice.one_in(2) {
                continue;
            }
            let name = parameter["name"].as_str().unwrap();
            let mut value = self.shapes.fitting(&parameter["schema"], dice);
            if dice.one_in(3) {
                spoil(&mut value, dice);
            }
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if parameter["in"] == "header" {
                let line: String = text.chars().filter(|letter| !letter.is_control()).take(1000).collect();
                headers.push(format!("{name}: {line}"));
            } else {
                let coded: String = text.bytes().take(5000).map(|byte| format!("%{byte:02x}")).collect();
                pairs.push(format!("{name}={coded}"));
            }
        }
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }

    fn content(&self, schema: &Value, dice: &mut Dice) -> Vec<u8> {
        loop {
            let mut value = self.shapes.fitting(schema, dice);
            for _ in 0..dice.range(0, 3) {
                spoil(&mut value, dice);
            }
            let bytes = body(&value, dice);
            // Whoever may shut the daemon down may do so; here it is to stay.
            if !bytes.windows(8).any(|window| window == b"shutdown") {
                return bytes;
            }
        }
    }

    /// A request and its answer.
    async fn asked(&self, dice: &mut Dice) {
        let case = self.case(dice);
        let place = &self.places[usize::try_from(dice.range(0, self.places.len() as u64)).unwrap()];
        let mut socket = Socket::open(place).await;
        socket.send(&case.bytes).await;
        let shown = || String::from_utf8_lossy(&case.bytes).chars().take(3000).collect::<String>();
        let Some(answer) = socket.answer(&case.method).await else { panic!("no answer to {}", shown()) };
        match &case.documented {
            Some(statuses) => {
                assert!(statuses.contains(&answer.status), "{} is not documented: {}\n{}", answer.status, shown(), answer.head)
            }
            None => assert!(answer.status < 500 || answer.status == 503, "{}\n{}", shown(), answer.head),
        }
        if answer.is_json() && case.method != "HEAD" {
            let json: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?} to {}", shown()));
            assert!(json.is_object(), "{json}");
        }
    }

    /// Bytes that are hardly a request: changed, cut, repeated, or none at all.
    async fn noise(&self, dice: &mut Dice) {
        let mut bytes = self.case(dice).bytes;
        for _ in 0..dice.range(0, 4) {
            bytes.extend(self.case(dice).bytes);
        }
        if dice.one_in(4) {
            bytes = (0..dice.range(0, 3000)).map(|_| dice.next().to_be_bytes()[0]).collect();
        }
        let head = bytes.len().min(400) as u64;
        for _ in 0..dice.range(0, 6) {
            let at = usize::try_from(dice.range(0, head + 1)).unwrap().min(bytes.len());
            match dice.range(0, 4) {
                0 => bytes.splice(at..at, *b"\r\n").for_each(drop),
                1 => bytes.splice(at..at, [dice.next().to_be_bytes()[0]]).for_each(drop),
                2 => drop(bytes.drain(at..(at + 3).min(bytes.len()))),
                _ => bytes.truncate(bytes.len() - usize::try_from(dice.range(0, bytes.len() as u64 / 2 + 1)).unwrap()),
            }
        }
        if bytes.windows(8).any(|window| window == b"shutdown") {
            return;
        }
        let place = &self.places[usize::try_from(dice.range(0, self.places.len() as u64)).unwrap()];
        let mut socket = Socket::open(place).await;
        for piece in bytes.chunks(usize::try_from(dice.range(1, 4000)).unwrap().max(bytes.len() / 20)) {
            socket.send(piece).await;
        }
        if dice.one_in(3) {
            return; // gone in the middle of it
        }
        socket.half_close().await;
        let answers = socket.rest().await;
        let text = String::from_utf8_lossy(&answers);
        assert!(answers.is_empty() || text.starts_with("HTTP/1."), "{text}");
        for line in text.lines().filter(|line| line.starts_with("HTTP/1.1 5")) {
            assert!(line.starts_with("HTTP/1.1 503"), "{line} to {}", bytes.escape_ascii());
        }
    }

    async fn work(&self, mut dice: Dice) {
        for _ in 0..CASES {
            if dice.one_in(4) {
                self.noise(&mut dice).await;
            } else {
                self.asked(&mut dice).await;
            }
        }
    }
}

/// Proportional memory of a process, in KiB.
fn pss_kib(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

/// All that the daemon logged.
fn logged(world: &World) -> String {
    let files = std::fs::read_dir(world.agent.home.join("logs")).into_iter().flatten().flatten();
    let texts = files.map(|file| String::from_utf8_lossy(&std::fs::read(file.path()).unwrap_or_default()).into_owned());
    texts.chain([world.daemon.output()]).collect()
}

async fn round(target: &Arc<Target>, dice: &mut Dice) {
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..WORKERS {
        let (target, dice) = (Arc::clone(target), dice.child());
        workers.spawn(async move { target.work(dice).await });
    }
    while let Some(ended) = workers.join_next().await {
        if let Err(failed) = ended {
            std::panic::resume_unwind(failed.into_panic());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_sent_the_daemon_answers_as_documented_and_stays_as_it_was() {
    let mut world = World::echo().await;
    let lock: Value = serde_json::from_slice(&std::fs::read(world.agent.home.join("daemon.lock")).unwrap()).unwrap();
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/openapi.json");
    let target = Arc::new(Target {
        shapes: Shapes::new(serde_json::from_slice(&std::fs::read(reference).unwrap()).unwrap()),
        places: vec![Place::Tcp(world.agent.address()), Place::Unix(PathBuf::from(lock["socket"].as_str().unwrap()))],
        token: world.agent.token.clone(),
        session: world.session.clone(),
    });
    let mut dice = Dice::new(20_261_130);
    let time = Duration::from_secs(count(8, 600) as u64);
    let pid = world.daemon.pid();

    // What is loaded once is no growth.
    round(&target, &mut dice).await;
    let rested = |world: &World| (open_files(world.daemon.pid()).unwrap(), threads(world.daemon.pid()));
    eprintln!("warm");
    world.succeed(json!({"type": "abort"})).await;
    let quiet = Duration::from_secs(60);
    let base = eventually("a rest", quiet, || Some(rested(&world)).filter(|(_, threads)| *threads < 12)).await.unwrap();
    let memory = pss_kib(pid);
    eprintln!("files and threads {base:?}, {memory} KiB");

    let started = Instant::now();
    let mut rounds = 0;
    while rounds == 0 || started.elapsed() < time {
        round(&target, &mut dice).await;
        rounds += 1;
    }
    eprintln!("{} cases in {:?}", rounds * CASES as u64 * WORKERS, started.elapsed());

    world.succeed(json!({"type": "abort"})).await;
    eventually("the files and threads of before", quiet, || {
        let (files, threads) = rested(&world);
        // A session that stays in memory has its file open.
        (files <= base.0 + 8 && threads <= base.1 + 2).then_some(())
    })
    .await
    .unwrap_or_else(|error| panic!("{error}: {base:?}, then {:?}", rested(&world)));
    let grown = pss_kib(pid).saturating_sub(memory);
    assert!(grown < GROWTH_KIB, "the daemon grew by {grown} KiB");
    assert_eq!(world.daemon.pid(), pid);

    world.restart().await;
    let log = logged(&world);
    assert!(!log.contains("panic"), "{}", log.lines().filter(|line| line.contains("panic")).collect::<Vec<_>>().join("\n"));
    let sessions = world.agent_state().await["sessions"].as_array().unwrap().clone();
    assert!(!sessions.is_empty());
    for session in &sessions {
        world.session = session["sessionId"].as_str().unwrap().to_owned();
        world.messages().await;
        world.lines().await;
    }
    let complaints = json!(world.diagnostics().await).to_string();
    assert!(!complaints.contains(".jsonl"), "session files are damaged: {complaints}");
}
