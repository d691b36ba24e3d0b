//! Who gets the token, starting a daemon, and the control stream.

use serde_json::json;
use tokio::net::{TcpStream, UnixListener};
use tokio::task::JoinSet;
use wolli_client::{ClientError, LinkState, NewAgent, Trust};
use wolli_home::environment::Environment;
use wolli_home::paths::{Root, socket_path};
use wolli_protocol::event::ControlEvent;

use super::fake::{FakeDaemon, Place, SESSION, shared};

#[tokio::test]
async fn the_token_goes_only_to_a_server_that_proves_itself() {
    for case in ["no proof", "another token", "another agent"] {
        let place = Place::new(None);
        let daemon = place.daemon().await;
        {
            let mut state = daemon.state();
            match case {
                "no proof" => state.without_proof = true,
                "another token" => state.proof_token = Some("f".repeat(64)),
                _ => state.name = "other".into(),
            }
        }
        let agent = place.agent();
        for error in
            [agent.connect().await.unwrap_err(), agent.list_sessions().await.unwrap_err(), agent.create_session().await.unwrap_err()]
        {
            assert!(matches!(error, ClientError::Untrusted { .. }), "{case}: {error}");
        }
        let state = daemon.state();
        assert!(state.seen.len() >= 3);
        for seen in &state.seen {
            assert!(seen.line.starts_with("GET /health?nonce="), "{case}: {}", seen.line);
            assert_eq!(seen.head.header("authorization"), None);
        }
    }
}

#[tokio::test]
async fn every_new_connection_is_proven_and_every_nonce_is_new() {
    let place = Place::new(None);
    let daemon = place.daemon().await;
    let agent = place.agent();
    agent.connect().await.unwrap();
    agent.list_sessions().await.unwrap();
    agent.list_sessions().await.unwrap();
    let nonces: Vec<String> =
        daemon.state().seen.iter().filter(|seen| seen.line.starts_with("GET /health")).map(|seen| seen.line.clone()).collect();
    let mut different = nonces.clone();
    different.sort();
    different.dedup();
    assert_eq!(nonces.len(), different.len());
    // The first connection asked for health, was kept, and carried the control stream; the second one the two lists.
    assert_eq!((nonces.len(), daemon.count("GET /sessions")), (3, 2));
}

#[tokio::test]
async fn a_daemon_is_stopped_and_an_agent_deleted() {
    let place = Place::new(None);
    let agent = place.agent();
    agent.stop().await.unwrap();
    let daemon = place.daemon().await;
    agent.connect().await.unwrap();
    let shut_down = async {
        daemon.until(|state| state.seen.iter().any(|seen| seen.body["type"] == "shutdown")).await;
        daemon.stop().await;
    };
    let (stopped, ()) = tokio::join!(agent.stop(), shut_down);
    stopped.unwrap();
    place.wolli.delete(&agent).await.unwrap();
    assert!(!place.file.home.exists() && place.wolli.get("scribe").unwrap().is_none());
    assert!(matches!(agent.list_sessions().await.unwrap_err(), ClientError::Home(_)));
}

#[tokio::test]
async fn sessions_are_found_by_all_of_their_tags() {
    let place = Place::new(None);
    let _daemon = place.daemon().await;
    let agent = place.agent();
    for (tags, found) in [
        (&[][..], 1),
        (&[("chat", "42")], 1),
        (&[("chat", "42"), ("kind", "private")], 1),
        (&[("chat", "42"), ("kind", "group")], 0),
        (&[("chat", "4")], 0),
        (&[("other", "42")], 0),
    ] {
        assert_eq!(agent.find_sessions(tags).await.unwrap().len(), found, "{tags:?}");
    }
}

/// Programs hold handles and call them from any task.
#[test]
fn handles_and_calls_go_between_tasks() {
    fn check<T: Send + Sync + Clone + 'static>() {}
    fn sent<T: Send>(_: impl Fn(&'static wolli_client::Agent, &'static wolli_client::SessionHandle) -> T) {}
    check::<wolli_client::Wolli>();
    check::<wolli_client::Agent>();
    check::<wolli_client::SessionHandle>();
    check::<wolli_client::ViewWatch>();
    check::<ClientError>();
    sent(|agent, session| async move {
        agent.connect().await?;
        agent.latest_session().await?;
        agent.restart().await?;
        session.prompt("x").await?;
        session.load_history().await?;
        session.watch().until(|_| true).await?;
        session.subscribe().next().await;
        session.wait_for_idle().await
    });
}

#[tokio::test]
async fn an_old_daemon_is_trusted_by_name_only_if_asked() {
    let mut place = Place::new(None);
    let _daemon = place.old_daemon().await;
    let agent = place.agent();
    agent.connect().await.unwrap();
    assert_eq!(agent.state().unwrap().sessions.len(), 1);
    let strict = place.wolli.clone().with_trust(Trust::Proof);
    let error = strict.get("scribe").unwrap().unwrap().connect().await.unwrap_err();
    assert!(matches!(error, ClientError::Untrusted { .. }), "{error}");
}

#[tokio::test]
async fn the_unix_socket_comes_first() {
    let place = Place::new(None);
    let daemon = FakeDaemon::listen(([127, 0, 0, 1], 0).into(), shared("scribe", &place.file.token)).await;
    // A socket needs no proof: its folder and its process are the user's own.
    daemon.state().without_proof = true;
    let root = Root::new(place.home.root());
    let environment = Environment::new([("XDG_RUNTIME_DIR", place.home.folder().join("run"))], "/");
    let home = root.agent(&"scribe".parse().unwrap());
    let path = socket_path(environment.runtime_folder(), &root, &home).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    let address = daemon.address;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut pipes = JoinSet::new();
        while let Ok((mut here, _)) = listener.accept().await {
            pipes.spawn(async move {
                let mut there = TcpStream::connect(address).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
            });
        }
    });
    let agent = place.agent();
    agent.connect().await.unwrap();
    assert_eq!(agent.list_sessions().await.unwrap()[0].session_id.as_str(), SESSION);
    // The socket is gone, its file stays: the port is used then, and a proof is needed.
    tasks.shutdown().await;
    agent.close();
    let again = place.agent();
    assert!(matches!(again.connect().await.unwrap_err(), ClientError::Unreachable { .. }));
}

#[tokio::test]
async fn connect_starts_the_daemon_and_waits_for_it() {
    let place = Place::new(Some("echo \"$@\" > args; echo $$ > pid; exec sleep 1000"));
    let agent = place.agent();
    let args = place.file.home.join("args");
    let daemon = async {
        let started = std::time::Instant::now();
        while std::fs::read_to_string(place.file.home.join("pid")).unwrap_or_default().is_empty() {
            assert!(started.elapsed() < wolli_testkit::DEADLINE);
            tokio::time::sleep(wolli_testkit::POLL_INTERVAL).await;
        }
        let shared = shared("scribe", &place.file.token);
        shared.state().pid = std::fs::read_to_string(place.file.home.join("pid")).unwrap().trim().parse().unwrap();
        FakeDaemon::listen(place.file.address(), shared).await
    };
    let both = [agent.clone(), agent.clone()];
    let (one, two, _daemon) = tokio::join!(both[0].connect(), both[1].connect(), daemon);
    one.unwrap();
    two.unwrap();
    assert_eq!(std::fs::read_to_string(args).unwrap(), "daemon scribe\n");
    // It outlives the client.
    drop(both);
    drop(agent);
    let pid = std::fs::read_to_string(place.file.home.join("pid")).unwrap();
    assert!(std::process::Command::new("kill").arg(pid.trim()).status().unwrap().success());
}

#[tokio::test]
async fn a_daemon_that_was_started_for_nothing_is_ended() {
    let place = Place::new(Some("trap 'echo ended > ended; exit 0' TERM; echo $$ > pid; while :; do sleep 0.05; done"));
    let agent = place.agent();
    let (pid, ended) = (place.file.home.join("pid"), place.file.home.join("ended"));
    let wait_for = async |file: &std::path::Path| {
        let started = std::time::Instant::now();
        while std::fs::read_to_string(file).unwrap_or_default().is_empty() {
            assert!(started.elapsed() < wolli_testkit::DEADLINE, "no {}", file.display());
            tokio::time::sleep(wolli_testkit::POLL_INTERVAL).await;
        }
    };
    // Another one, whose process is not the one that was started here, answers in the end.
    let other = async {
        wait_for(&pid).await;
        place.daemon().await
    };
    let (connected, _daemon) = tokio::join!(agent.connect(), other);
    connected.unwrap();
    wait_for(&ended).await;
}

#[tokio::test]
async fn a_daemon_that_cannot_start_says_why() {
    let place = Place::new(Some("echo bad configuration >&2; exit 78"));
    let error = place.agent().connect().await.unwrap_err().to_string();
    assert!(error.contains("exit status: 78") && error.contains("bad configuration"), "{error}");
    let none = Place::new(None);
    assert!(matches!(none.agent().connect().await.unwrap_err(), ClientError::Unreachable { .. }));
}

#[tokio::test]
async fn a_daemon_that_was_started_twice_is_waited_for() {
    let place = Place::new(Some("exit 75"));
    let agent = place.agent();
    let later = async {
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        place.daemon().await
    };
    let (connected, _daemon) = tokio::join!(agent.connect(), later);
    connected.unwrap();
}

#[tokio::test]
async fn a_refused_token_is_final_and_a_new_one_is_found() {
    let place = Place::new(None);
    let daemon = place.daemon().await;
    let agent = place.agent();
    agent.connect().await.unwrap();
    let session = agent.latest_session().await.unwrap();
    // The daemon and the file have another token; kept connections still carry the old one.
    let other = "b".repeat(64);
    daemon.state().token.clone_from(&other);
    place.change("token", json!(other));
    session.get_state().await.unwrap_err(); // its data is no state, but it was let in
    agent.list_sessions().await.unwrap();
    assert!(session.messages().await.unwrap().is_empty());

    daemon.state().refuse = Some(401);
    assert!(matches!(agent.list_sessions().await.unwrap_err(), ClientError::Unauthorized { .. }));
    assert!(matches!(session.messages().await.unwrap_err(), ClientError::Unauthorized { .. }));
}

#[tokio::test]
async fn the_control_stream_keeps_the_agents_state() {
    let place = Place::new(None);
    let daemon = place.daemon().await;
    let agent = place.agent();
    assert!(agent.state().is_none());
    agent.connect().await.unwrap();
    agent.connect().await.unwrap();
    assert_eq!(daemon.count("GET /events"), 1);
    assert_eq!(agent.state().unwrap().sessions[0].session_id.as_str(), SESSION);
    let mut link = agent.watch_link();
    assert!(matches!(*link.borrow_and_update(), LinkState::Live));

    let mut lifecycle = agent.lifecycle();
    let session = agent.latest_session().await.unwrap();
    daemon.announce(json!({"type": "something_new"}));
    daemon.announce(json!({"type": "session_renamed", "sessionId": SESSION, "sessionName": "named"}));
    assert!(matches!(lifecycle.next().await, Some(ControlEvent::SessionRenamed { session_name, .. }) if session_name == "named"));
    assert_eq!(agent.state().unwrap().sessions[0].session_name.as_deref(), Some("named"));
    assert_eq!(session.read(|view| view.state.session_name.clone()).unwrap().as_deref(), Some("named"));
    agent.close();
    assert_eq!(lifecycle.next().await.map(|_: ControlEvent| ()), None);
    daemon.until(|state| state.open_streams == 0).await;
    assert!(matches!(agent.connect().await.unwrap_err(), ClientError::Closed));
    // Another handle begins anew.
    place.agent().connect().await.unwrap();
}

#[test]
fn agents_are_listed_and_made() {
    let place = Place::new(None);
    assert!(place.wolli.get("nobody").unwrap().is_none());
    assert!(matches!(place.wolli.get("../x").unwrap_err(), ClientError::Name(_)));
    let made = place.wolli.create("second", NewAgent { purpose: Some("p".into()), model: Some("a/b".into()) }).unwrap();
    assert_eq!(made.name().as_str(), "second");
    let names: Vec<_> = place.wolli.list().unwrap().iter().map(|agent| agent.name().to_string()).collect();
    assert_eq!(names, ["scribe", "second"]);
    let file = std::fs::read_to_string(place.home.root().join("agents/second/agent.json")).unwrap();
    assert!(file.contains("\"purpose\": \"p\"") && file.contains("a/b"), "{file}");
    let error = place.wolli.create("second", NewAgent::default()).unwrap_err();
    assert_eq!(error.to_string(), "Agent \"second\" already exists.");
}
