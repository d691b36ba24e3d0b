//! The load generator against the reference: real processes, real sockets, counts that must be exact. No times are judged here.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wolli_bench::harness::cpu_time;
use wolli_bench::pacing::Window;
use wolli_bench::provider::{now, stamp, stamps};
use wolli_bench::readers::{Crowd, Stalled, hello};
use wolli_bench::reference::Reference;
use wolli_bench::wire::{Connection, Target};

const LIMIT: Duration = Duration::from_secs(30);

async fn start() -> anyhow::Result<Reference> {
    Reference::start(Path::new(env!("CARGO_BIN_EXE_wolli-bench"))).await
}

fn frames(count: u64) -> Vec<Vec<u8>> {
    (1..=count).map(|number| format!("event: message\ndata: {{\"n\":{number}}}\nid: {number}\n\n").into_bytes()).collect()
}

fn requests(target: &Target, count: usize) -> Vec<Vec<u8>> {
    vec![target.get("/events"); count]
}

#[tokio::test]
async fn every_reader_gets_every_frame() {
    let reference = start().await.unwrap();
    let frames = frames(1_000);
    for readers in [1, 7, 50] {
        let crowd = Crowd::attach(reference.target.address, requests(&reference.target, readers), 0).await.unwrap();
        let progress = Arc::clone(crowd.progress());
        let readers = readers as u64;
        assert_eq!((progress.delivered(), progress.frames()), (0, readers), "each has its hello and nothing else");
        let window = Window::new(Arc::clone(&progress), readers);
        let window = reference.feed().await.unwrap().send_all(&frames, window).await.unwrap();
        assert!(progress.finished(1_000 * readers, LIMIT).await, "{} arrived", progress.delivered());
        assert_eq!((progress.frames(), progress.closed(), window.reopened()), (1_001 * readers, 0, 0));
        assert!(progress.bytes() > frames.concat().len() as u64 * readers);
    }
    assert!(cpu_time(reference.pid().unwrap()).unwrap() < LIMIT);
}

#[tokio::test]
async fn a_stalled_reader_takes_no_frame_from_the_others() {
    let reference = start().await.unwrap();
    let crowd = Crowd::attach(reference.target.address, requests(&reference.target, 3), 0).await.unwrap();
    let stalled = Stalled::attach(reference.target.address, &reference.target.get("/events")).unwrap();
    let frames: Vec<Vec<u8>> =
        (1..=3_000_u64).map(|number| format!("data: {}\nid: {number}\n\n", "x".repeat(2_000)).into_bytes()).collect();
    let window = Window::new(Arc::clone(crowd.progress()), 3);
    reference.feed().await.unwrap().send_all(&frames, window).await.unwrap();
    assert!(crowd.progress().finished(9_000, LIMIT).await);
    assert_eq!(crowd.progress().closed(), 0);
    drop(stalled);
}

#[tokio::test]
async fn an_observed_reader_sees_the_stamps() {
    let reference = start().await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let seen = Arc::clone(&seen);
        Box::new(move |bytes: &[u8]| seen.lock().unwrap().extend(stamps(bytes)))
    };
    let crowd = Crowd::observe(reference.target.address, reference.target.get("/events"), 0, observer).await.unwrap();
    let mut feed = reference.feed().await.unwrap();
    let before = now();
    for number in 1..=100_u64 {
        feed.send(format!("data: {{\"delta\":\"{}\"}}\nid: {number}\n\n", stamp()).as_bytes()).await.unwrap();
        assert!(crowd.progress().finished(number, LIMIT).await);
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 100);
    assert!(seen.is_sorted() && seen[0] >= before && seen[99] <= now());
}

#[tokio::test]
async fn readers_that_lose_their_connection_are_counted() {
    let reference = start().await.unwrap();
    let address = reference.target.address;
    let crowd = Crowd::attach(address, requests(&reference.target, 5), 0).await.unwrap();
    let progress = Arc::clone(crowd.progress());
    drop(reference);
    // What was killed closes its connections; a goal that is never reached is only the wait for it.
    for _ in 0..100 {
        if progress.closed() == 5 {
            break;
        }
        progress.finished(1, Duration::from_millis(100)).await;
    }
    assert_eq!(progress.closed(), 5);
    assert!(Crowd::attach(address, vec![b"GET / HTTP/1.1\r\n\r\n".to_vec()], 0).await.is_err());
}

#[tokio::test]
async fn answers_and_greetings() {
    let reference = start().await.unwrap();
    let mut connection = Connection::open(reference.target.address).await.unwrap();
    for length in [0, 1, 300, 100_000] {
        let request = reference.target.post(&format!("/{length}"), &serde_json::json!({ "type": "get_state" }));
        let answer = connection.exchange(&request).await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, length));
    }
    let greeting = hello(reference.target.address, &reference.target.get("/events")).await.unwrap();
    assert_eq!(greeting, serde_json::json!({}));
}
