//! Streams over broken connections: nothing lost, nothing twice.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use wolli_client::{ClientError, LinkState, Notice, SessionHandle, Subscription};
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::FrameId;
use wolli_testkit::proxy::{FaultProxy, Plan};

use super::fake::{FakeDaemon, Follower, Place, SESSION, shared};

/// A daemon behind a faulty network.
async fn behind_proxy(place: &Place) -> (FakeDaemon, FaultProxy) {
    let daemon = FakeDaemon::listen(([127, 0, 0, 1], 0).into(), shared("scribe", &place.file.token)).await;
    let proxy = FaultProxy::start(daemon.address);
    place.change("port", json!(proxy.address().port()));
    (daemon, proxy)
}

async fn open(place: &Place) -> SessionHandle {
    place.agent().session(&SESSION.into()).await.unwrap()
}

/// Waits until the session's view is the daemon's own.
async fn agree(session: &SessionHandle, daemon: &FakeDaemon) {
    let mut watch = session.watch();
    let same = watch.until(|view| {
        let state = daemon.state();
        view.last_id() == state.uncut.last_id() && *view == state.uncut
    });
    if tokio::time::timeout(wolli_testkit::DEADLINE, same).await.is_err() {
        session.read(|view| assert_eq!(*view, daemon.state().uncut)).unwrap();
        panic!("the view was late");
    }
}

async fn next_id(events: &mut Subscription) -> Option<u64> {
    match events.next().await.unwrap() {
        Notice::Event { id, .. } => id.map(|id| id.0),
        other => panic!("{other:?}"),
    }
}

/// The entry of the message whose end comes next, without a frame.
async fn next_ended(events: &mut Subscription) -> String {
    match events.next().await.unwrap() {
        Notice::Event { id: None, event } => match &*event {
            SessionEvent::MessageEnd { entry_id: Some(id), .. } => id.to_string(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn handles_share_one_stream_and_every_subscriber_gets_every_event() {
    let place = Place::new(None);
    let daemon = place.daemon().await;
    let agent = place.agent();
    let (one, two) = (agent.session(&SESSION.into()).await.unwrap(), place.agent().session(&SESSION.into()).await.unwrap());
    let (mut first, mut second) = (one.subscribe(), two.subscribe());
    daemon.say("hi");
    for events in [&mut first, &mut second] {
        assert_eq!((next_id(events).await, next_id(events).await), (Some(1), Some(2)));
    }
    agree(&two, &daemon).await;
    assert_eq!((daemon.count("/events?view=delta"), daemon.state().open_streams), (1, 1));
    drop(one);
    assert_eq!(daemon.state().open_streams, 1);
    drop(two);
    daemon.until(|state| state.open_streams == 0).await;
    assert!(first.next().await.is_none());
}

#[tokio::test]
async fn a_cut_stream_goes_on_where_it_was() {
    let place = Place::new(None);
    let (daemon, proxy) = behind_proxy(&place).await;
    let session = open(&place).await;
    let mut events = session.subscribe();
    daemon.say("one");
    assert_eq!((next_id(&mut events).await, next_id(&mut events).await), (Some(1), Some(2)));
    proxy.refuse(true);
    proxy.cut_all();
    daemon.say("two");
    session.watch_link().wait_for(|link| matches!(link, LinkState::Waiting { attempts: 2.., .. })).await.unwrap();
    proxy.refuse(false);
    assert_eq!((next_id(&mut events).await, next_id(&mut events).await), (Some(3), Some(4)));
    agree(&session, &daemon).await;
    let state = daemon.state();
    let last = state.seen.iter().rfind(|seen| seen.line.contains("/events?view")).unwrap();
    assert_eq!(last.head.header("last-event-id"), Some("2"));
    assert!(last.line.ends_with("&after=e0"), "{}", last.line);
}

#[tokio::test]
async fn any_cuts_lose_nothing_and_double_nothing() {
    let place = Place::new(None);
    let (daemon, proxy) = behind_proxy(&place).await;
    let session = open(&place).await;
    let mut events = session.subscribe();
    // Cuts at places all over the frames; a small linear congruence, so that a failure can be repeated.
    let mut random = 12_345_u64;
    let mut sent = 0;
    for round in 0..40 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let plan = Plan { cut_after: Some(500 + (random >> 33) % 2_500), reset: round % 2 == 0, ..Plan::default() };
        proxy.plan_all(plan);
        if round == 0 {
            proxy.cut_all();
        }
        // Frames come until they have reached the cut and the next connection is there; those in between are replayed.
        let before = proxy.connections().accepted;
        while proxy.connections().accepted == before {
            daemon.say("some words that make the frame longer than a few bytes, and é");
            sent += 2;
            let _ = tokio::time::timeout(Duration::from_millis(20), proxy.wait_for_connections(|counts| counts.accepted > before)).await;
        }
    }
    proxy.plan_all(Plan::default());
    proxy.cut_all();
    agree(&session, &daemon).await;
    for expected in 1..=sent {
        assert_eq!(next_id(&mut events).await, Some(expected));
    }
    assert!(daemon.count("/events?view") > 10);
}

#[tokio::test]
async fn after_a_gap_the_view_is_whole_again() {
    for (hello_entries, page) in [(usize::MAX, 500), (1, 2)] {
        let place = Place::new(None);
        let (daemon, proxy) = behind_proxy(&place).await;
        daemon.state().hello_entries = hello_entries;
        daemon.state().page = page;
        let session = open(&place).await;
        let mut events = session.subscribe();
        daemon.say("seen");
        assert_eq!((next_id(&mut events).await, next_id(&mut events).await), (Some(1), Some(2)));
        proxy.refuse(true);
        proxy.cut_all();
        for _ in 0..7 {
            daemon.say("missed");
        }
        daemon.forget_frames();
        proxy.refuse(false);
        assert!(matches!(events.next().await.unwrap(), Notice::Rebuilt));
        for expected in 1..=7 {
            assert_eq!(next_ended(&mut events).await, format!("e{}", 2 * expected));
        }
        daemon.say("live");
        assert_eq!((next_id(&mut events).await, next_id(&mut events).await), (Some(17), Some(18)));
        agree(&session, &daemon).await;
        assert_eq!(session.read(|view| view.transcript.len()).unwrap(), 9);
    }
}

#[tokio::test]
async fn a_gap_before_anything_was_seen_is_filled_too() {
    let place = Place::new(None);
    let (daemon, proxy) = behind_proxy(&place).await;
    daemon.say("before anybody came");
    let session = open(&place).await;
    let mut events = session.subscribe();
    proxy.refuse(true);
    proxy.cut_all();
    daemon.say("missed");
    daemon.forget_frames();
    proxy.refuse(false);
    assert!(matches!(events.next().await.unwrap(), Notice::Rebuilt));
    assert_eq!(next_ended(&mut events).await, "e2");
    session.watch().until(|view| view.transcript.len() == 2).await.unwrap();
}

/// The entries that `hello` leaves out cannot be read at first: no hole may stand in the view, and nothing be lost.
#[tokio::test]
async fn a_gap_is_filled_also_when_that_fails_at_first() {
    let place = Place::new(None);
    let (daemon, proxy) = behind_proxy(&place).await;
    daemon.state().hello_entries = 1;
    let session = open(&place).await;
    let mut events = session.subscribe();
    daemon.say("seen");
    assert_eq!((next_id(&mut events).await, next_id(&mut events).await), (Some(1), Some(2)));
    proxy.refuse(true);
    proxy.cut_all();
    for _ in 0..5 {
        daemon.say("missed");
    }
    daemon.forget_frames();
    daemon.state().refuse_pages = 1;
    proxy.refuse(false);
    assert!(matches!(events.next().await.unwrap(), Notice::Rebuilt));
    for expected in 1..=5 {
        assert_eq!(next_ended(&mut events).await, format!("e{}", 2 * expected));
    }
    agree(&session, &daemon).await;
    assert_eq!(daemon.state().refuse_pages, 0);
}

/// What was read to fill a gap is newer than `hello`: the frames of it come as well.
#[tokio::test]
async fn a_message_that_ends_while_a_gap_is_filled_is_told_once() {
    let place = Place::new(None);
    let (daemon, proxy) = behind_proxy(&place).await;
    daemon.state().hello_entries = 1;
    let session = open(&place).await;
    let mut events = session.subscribe();
    daemon.say("seen");
    assert_eq!((next_id(&mut events).await, next_id(&mut events).await), (Some(1), Some(2)));
    proxy.refuse(true);
    proxy.cut_all();
    for _ in 0..3 {
        daemon.say("missed");
    }
    daemon.forget_frames();
    daemon.state().late_messages = 2;
    proxy.refuse(false);
    assert!(matches!(events.next().await.unwrap(), Notice::Rebuilt));
    for expected in 1..=5 {
        assert_eq!(next_ended(&mut events).await, format!("e{}", 2 * expected));
    }
    // Their beginnings; their ends were told.
    assert_eq!((next_id(&mut events).await, next_id(&mut events).await), (Some(9), Some(11)));
    daemon.say("live");
    assert_eq!((next_id(&mut events).await, next_id(&mut events).await), (Some(13), Some(14)));
    agree(&session, &daemon).await;
}

#[tokio::test]
async fn the_session_goes_on_in_another_process_at_another_port() {
    let place = Place::new(None);
    let daemon = place.daemon().await;
    let session = open(&place).await;
    daemon.say("before");
    agree(&session, &daemon).await;
    let (_, shared) = daemon.stop().await;
    shared.next_epoch();
    shared.say("in between");
    let daemon = FakeDaemon::listen(([127, 0, 0, 1], 0).into(), shared).await;
    place.change("port", json!(daemon.address.port()));
    daemon.until(|state| state.open_streams == 1).await;
    daemon.say("after");
    agree(&session, &daemon).await;
    assert!(session.read(|view| view.last_id()).unwrap().unwrap() > FrameId::before_epoch(1));
}

#[tokio::test]
async fn a_frame_that_is_missing_is_fetched() {
    let place = Place::new(None);
    let daemon = place.daemon().await;
    let session = open(&place).await;
    let mut events = session.subscribe();
    daemon.state().skip_frames = 1;
    daemon.say("x");
    assert_eq!((next_id(&mut events).await, next_id(&mut events).await), (Some(1), Some(2)));
    assert_eq!(daemon.count("/events?view"), 2);
    // A daemon that leaves it out every time: the view is made anew.
    daemon.state().skip_frames = 3;
    daemon.say("y");
    daemon.say("z");
    assert!(matches!(events.next().await.unwrap(), Notice::Event { .. } | Notice::Rebuilt));
    daemon.state().skip_frames = 0;
    agree(&session, &daemon).await;
}

#[tokio::test]
async fn a_link_without_a_sound_is_dead() {
    let place = Place::new(None);
    let (daemon, proxy) = behind_proxy(&place).await;
    let session = open(&place).await;
    proxy.freeze(true);
    daemon.say("unheard");
    let mut link = session.watch_link();
    let started = tokio::time::Instant::now();
    tokio::time::pause();
    let waiting = link.wait_for(|link| matches!(link, LinkState::Waiting { .. })).await.unwrap().clone();
    assert!(matches!(waiting, LinkState::Waiting { problem, .. } if problem.contains("45 s")));
    let silent = started.elapsed().as_secs();
    assert!((44..=46).contains(&silent), "{silent}");
    tokio::time::resume();
    proxy.freeze(false);
    agree(&session, &daemon).await;
}

#[tokio::test]
async fn a_connection_without_a_sound_holds_no_command_for_ever() {
    let place = Place::new(None);
    let (daemon, proxy) = behind_proxy(&place).await;
    let session = open(&place).await;
    // Its connection is used again, and nothing comes back over it.
    session.messages().await.unwrap();
    proxy.freeze(true);
    tokio::time::pause();
    let error = session.steer("unheard").await.unwrap_err();
    assert!(matches!(error, ClientError::Interrupted { command: "steer" }), "{error}");
    tokio::time::resume();
    proxy.freeze(false);
    session.messages().await.unwrap();
    agree(&session, &daemon).await;
}

#[tokio::test]
async fn explicit_answers_are_final_and_others_are_not() {
    let place = Place::new(None);
    let daemon = place.daemon().await;
    let agent = place.agent();
    let error = agent.session(&"nosuch".into()).await.unwrap_err();
    assert_eq!(error.to_string(), "No session \"nosuch\" for agent \"scribe\"");

    daemon.state().refuse = Some(503);
    let mut waiting = JoinSet::new();
    let (opening, id) = (agent.clone(), SESSION.into());
    waiting.spawn(async move { opening.session(&id).await });
    daemon.until(|state| state.seen.iter().filter(|seen| seen.line.contains("/events?view")).count() >= 3).await;
    daemon.state().refuse = None;
    waiting.join_next().await.unwrap().unwrap().unwrap();

    for (status, unauthorized) in [(401, true), (403, false)] {
        let session = agent.session(&SESSION.into()).await.unwrap();
        let mut events = session.subscribe();
        daemon.state().refuse = Some(status);
        session.close();
        assert!(events.next().await.is_none());
        let error = agent.session(&SESSION.into()).await.unwrap_err();
        assert_eq!(matches!(error, ClientError::Unauthorized { .. }), unauthorized, "{error}");
        daemon.state().refuse = None;
    }
}

#[tokio::test]
async fn a_daemon_of_the_origin_is_not_asked_to_resume() {
    let mut place = Place::new(None);
    let daemon = place.old_daemon().await;
    let agent = place.agent();
    let session = agent.session(&SESSION.into()).await.unwrap();
    daemon.say("one");
    session.watch().until(|view| view.transcript.len() == 1).await.unwrap();
    let (address, shared) = daemon.stop().await;
    let daemon = FakeDaemon::listen(address, shared).await;
    daemon.until(|state| state.open_streams == 1).await;
    let requests: Vec<_> = daemon.state().seen.iter().filter(|seen| seen.line.contains("/events?view")).cloned().collect();
    assert!(requests.len() == 2 && requests.iter().all(|seen| seen.head.header("last-event-id").is_none()));
    let error = agent.session(&"nosuch".into()).await.unwrap_err();
    assert!(matches!(error, ClientError::UnknownSession { .. }), "{error}");
}

#[tokio::test]
async fn history_is_put_before_what_was_seen() {
    let place = Place::new(None);
    let daemon = place.daemon().await;
    daemon.state().page = 2;
    for _ in 0..5 {
        daemon.say("earlier");
    }
    let session = open(&place).await;
    daemon.say("now");
    session.watch().until(|view| view.transcript.len() == 1).await.unwrap();
    session.load_history().await.unwrap();
    agree(&session, &daemon).await;
}

#[tokio::test]
async fn a_slow_subscriber_is_told_and_the_view_has_everything() {
    let place = Place::new(None);
    let daemon = place.daemon().await;
    let session = open(&place).await;
    let mut events = session.subscribe();
    for _ in 0..2_200 {
        daemon.say("x");
    }
    agree(&session, &daemon).await;
    let Notice::Missed(missed) = events.next().await.unwrap() else { panic!("nothing is missed") };
    assert_eq!(next_id(&mut events).await, Some(missed + 1));
}

#[tokio::test]
async fn snapshots_follow_a_run_over_cuts_and_gaps() {
    let place = Place::new(None);
    let (daemon, proxy) = behind_proxy(&place).await;
    let session = open(&place).await;
    let mut snapshots = session.snapshots();
    let delta = |text: &str| {
        let step = json!({"type": "text_delta", "contentIndex": 0, "delta": text});
        json!({"type": "message_update", "assistantMessageEvent": step})
    };
    daemon.send(json!({"type": "agent_start"}));
    daemon.say("do it");
    let seen = snapshots.until(|snapshot| snapshot.prompt.is_some()).await.unwrap();
    assert_eq!(seen.prompt.as_deref(), Some("do it"));
    let answer = json!({"role": "assistant", "content": [], "api": "a", "provider": "p", "model": "m", "usage": {"input": 0, "output": 0,
        "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}},
        "stopReason": "stop", "timestamp": 1});
    daemon.send(json!({"type": "message_start", "message": answer, "entryId": "a1"}));
    for round in 0..20 {
        daemon.send(delta(&format!("{round} ")));
        proxy.cut_all();
        daemon.send(delta("more "));
        if round == 10 {
            // What was missed is gone; the whole comes again.
            let mut state = daemon.state();
            state.ring_start = state.frames.len();
        }
        let wanted = format!("{round} more ");
        snapshots.until(|snapshot| snapshot.text.as_ref().is_some_and(|text| text.ends_with(&wanted))).await.unwrap();
    }
    let whole = {
        let state = daemon.state();
        Follower::attach(&state, &json!({}), state.frames.len()).fold
    };
    assert_eq!(snapshots.read(Clone::clone), *whole.snapshot());
    assert!(daemon.count("view=snapshot") > 20);
    drop(snapshots);
    daemon.until(|state| state.open_streams <= 2).await;
    session.close();
}
