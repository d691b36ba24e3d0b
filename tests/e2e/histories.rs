//! Random histories: whatever a person, a model, a crash and another program made of a session, the provider takes it, and the next
//! prompt is answered.
//!
//! The provider refuses what the real ones refuse. Nothing that can be known beforehand is ever refused; what only the provider can know
//! (a forged signature, a picture that cannot be decoded) is refused once in the life of a daemon, and left out from then on.

mod damage;
mod mind;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use wolli_testkit::picture::png;
use wolli_testkit::provider::Kind;

use crate::support::{Dice, World, count, text_of};
use damage::Origin;
use mind::{Mind, PLAIN};

/// Provider and model of everything that can be chosen, and whether the model signs its thinking.
const MODELS: [(&str, &str, bool); 5] = [
    ("scripted", "scripted-1", true),
    ("scripted", "scripted-adaptive", true),
    ("scripted", "scripted-plain", false),
    ("scripted-openai", "scripted-1", false),
    ("scripted-openai", "scripted-plain", false),
];

const PROVIDERS: usize = 2;

const LEVELS: [&str; 6] = ["off", "minimal", "low", "medium", "high", "xhigh"];

/// How many things happen to one history.
const STEPS: usize = 14;

struct Story {
    world: World,
    dice: Dice,
    mind: Arc<Mutex<Mind>>,
    round: usize,
    model: usize,
    /// Models whose signatures were forged.
    forged: Vec<usize>,
    /// A picture that only looks whole was sent.
    broken_picture: bool,
    /// What this daemon may still be refused.
    may_be_refused: usize,
    told: Vec<String>,
}

impl Story {
    async fn begin(seed: u64) -> Self {
        let mut dice = Dice::of(seed);
        let mut world = World::scripted(Kind::Anthropic).await;
        let mut models = world.provider.models_json();
        for (provider, id, _) in MODELS.iter().filter(|(_, id, _)| *id != "scripted-1") {
            let list = &mut models["providers"][provider]["models"];
            let mut model = list[0].clone();
            model["id"] = json!(id);
            if *id == "scripted-plain" {
                (model["reasoning"], model["input"]) = (json!(false), json!(["text"]));
            } else {
                model["compat"] = json!({"forceAdaptiveThinking": true});
            }
            list.as_array_mut().unwrap().push(model);
        }
        world.home.write_json("agent/models.json", &models).unwrap();
        for (name, bytes) in [("picture.png", png(3, 3)), ("wide.png", png(9000, 10)), ("page.png", b"<!DOCTYPE html>".to_vec())] {
            std::fs::write(world.agent.home.join(name), bytes).unwrap();
        }
        world.restart().await;
        let mind = Arc::new(Mutex::new(Mind::new(Dice::of(dice.next()))));
        let answering = Arc::clone(&mind);
        world.provider.respond_with(move |request| answering.lock().unwrap_or_else(PoisonError::into_inner).answer(request));
        let (forged, told) = (Vec::new(), vec![format!("seed {seed}")]);
        Self { world, dice, mind, round: 0, model: 0, forged, broken_picture: false, may_be_refused: 0, told }
    }

    /// A new daemon knows nothing of what the last one was refused.
    async fn start(&mut self) {
        self.forget();
        self.world.start().await;
    }

    fn forget(&mut self) {
        self.check_refusals();
        self.may_be_refused = self.forged.len() + if self.broken_picture { PROVIDERS } else { 0 };
    }

    /// If it came before the answer to a repaired request, nobody knows whether that was what was wrong. And a request may still be on
    /// its way.
    fn after_abort(&mut self) {
        self.forget();
        self.may_be_refused *= 2;
    }

    fn tell(&mut self, what: impl Into<String>) {
        self.told.push(what.into());
    }

    fn so_far(&self) -> String {
        self.told.join("\n  ")
    }

    async fn step(&mut self) {
        self.round += 1;
        match self.dice.range(0, 20) {
            0..4 => self.prompt("prompt").await,
            4..7 => self.leave_midway(Leave::Abort).await,
            7..9 => self.leave_midway(Leave::Kill).await,
            9 => self.leave_midway(Leave::Terminate).await,
            10 | 11 => self.leave_midway(Leave::Queue).await,
            12..14 => self.choose_model(None).await,
            14 => self.choose_level().await,
            15 => {
                let text = ["Welcome.", " ", ""][self.round % 3];
                self.optional(json!({"type": "seed_assistant_message", "text": text})).await;
            }
            16 => self.append().await,
            17 => self.optional(json!({"type": "compact"})).await,
            _ => self.damage().await,
        }
        self.settle().await;
    }

    /// The text and the pictures of something that is said.
    fn words(&mut self) -> (String, Vec<Value>) {
        let text = match self.dice.range(0, 8) {
            0 => String::new(),
            1 => " \n\t".to_owned(),
            2 => "\u{feff}caf\u{e9} \u{1f600}\u{0}".to_owned(),
            _ => format!("message {}", self.round),
        };
        let mut images = Vec::new();
        if self.dice.one_in(4) {
            let copies = if self.dice.one_in(3) { self.dice.range(10, 60) } else { 1 };
            let bytes = match self.dice.range(0, 9) {
                0 | 1 => png(1, 1),
                2 => png(2100, 2),
                3 => png(3, 9000),
                4 => png(2450, 2450),
                5 => b"<!DOCTYPE html><p>404".to_vec(),
                6 => b"GIF89a\x10\x27\x10\x00".to_vec(),
                7 => {
                    self.broken_picture = true;
                    self.may_be_refused += PROVIDERS;
                    let whole = png(5, 5);
                    whole[..whole.len() - 9].to_vec()
                }
                _ => Vec::new(),
            };
            let copies = if bytes.len() > 1 << 20 { 1 } else { copies };
            let image = json!({"type": "image", "data": STANDARD.encode(&bytes), "mimeType": "image/png"});
            images = vec![image; copies as usize];
            self.tell(format!("{copies} pictures of {} bytes", bytes.len()));
        }
        (text, images)
    }

    async fn say(&mut self, kind: &str) {
        let (text, images) = self.words();
        self.tell(format!("{kind} {text:?}"));
        let answer = self.world.command(json!({"type": kind, "message": text, "images": images})).await;
        let too_late = kind == "steer" && answer["error"] == "Cannot steer while idle";
        assert!(answer["success"] == true || too_late, "{answer}\n{}", self.so_far());
    }

    async fn prompt(&mut self, kind: &str) {
        self.say(kind).await;
        self.world.idle().await;
    }

    /// Something happens after a few frames of a run.
    async fn leave_midway(&mut self, how: Leave) {
        self.tell(format!("{how:?} in the middle of"));
        let mut reader = self.world.reader("").await;
        self.say("prompt").await;
        for _ in 0..self.dice.range(0, 40) {
            // A run that has ended shows nothing more.
            match reader.step_within(Duration::from_millis(100)).await {
                Ok(Some(frame)) if frame["type"] != "agent_end" => {}
                _ => break,
            }
        }
        match how {
            Leave::Abort => {
                self.world.succeed(json!({"type": "abort"})).await;
                self.after_abort();
            }
            Leave::Kill => {
                self.world.daemon.kill().unwrap();
                self.start().await;
            }
            Leave::Terminate => {
                self.world.daemon.terminate().await.unwrap();
                self.start().await;
            }
            Leave::Queue => {
                for _ in 0..self.dice.range(1, 4) {
                    let kind = if self.dice.one_in(2) { "steer" } else { "follow_up" };
                    self.say(kind).await;
                }
                if self.dice.one_in(3) {
                    self.world.succeed(json!({"type": "abort"})).await;
                    self.after_abort();
                }
            }
        }
    }

    async fn choose_model(&mut self, model: Option<usize>) {
        self.model = model.unwrap_or_else(|| self.dice.range(0, MODELS.len() as u64) as usize);
        let (provider, id, _) = MODELS[self.model];
        self.tell(format!("model {provider}/{id}"));
        self.world.succeed(json!({"type": "set_model", "provider": provider, "modelId": id})).await;
    }

    async fn choose_level(&mut self) {
        let level = LEVELS[self.dice.range(0, 6) as usize];
        self.tell(format!("level {level}"));
        self.world.succeed(json!({"type": "set_thinking_level", "level": level})).await;
    }

    /// A command that may be refused, for a reason that is told.
    async fn optional(&mut self, command: Value) {
        let answer = self.world.command(command.clone()).await;
        assert!(answer["success"] == true || answer["error"].is_string(), "{command}: {answer}\n{}", self.so_far());
        self.tell(format!("{} {}", command["type"], answer["success"]));
    }

    async fn append(&mut self) {
        let message = match self.dice.range(0, 4) {
            0 => json!({"role": "user", "content": ""}),
            1 => json!({"role": "custom", "customType": "n", "content": "Note.", "display": true}),
            2 => json!({"role": "toolResult", "toolCallId": "nobody's", "toolName": "x", "content": [], "isError": true}),
            _ => json!({"role": "bashExecution", "command": "ls", "output": "", "cancelled": false, "truncated": false}),
        };
        self.optional(json!({"type": "append_message", "message": message})).await;
    }

    /// Another program writes to the session's file while nobody else does.
    async fn damage(&mut self) {
        let path = self.world.session_file().await;
        self.world.daemon.terminate().await.unwrap();
        let (provider, model, signs) = MODELS[self.model];
        let api = if provider == "scripted" { "anthropic-messages" } else { "openai-completions" };
        let damage = damage::write(&path, &mut self.dice, &Origin { api, provider, model }, self.round);
        self.tell(format!("damage: {}", damage.name));
        if let Some(thinking) = damage.unsigned {
            // Servers that do not sign cannot tell.
            self.world.provider.accept_thinking(thinking, "never-sent==");
        }
        // A model that does not think is sent no thinking of its own either.
        if damage.forged && (signs || provider == "scripted") && !self.forged.contains(&self.model) {
            self.forged.push(self.model);
        }
        self.start().await;
    }

    /// Nothing runs any more, and the provider had no reason to complain but those that nobody could know.
    async fn settle(&mut self) {
        self.world.idle().await;
        self.check_refusals();
    }

    fn check_refusals(&mut self) {
        for refusal in self.world.provider.take_violations() {
            self.tell(format!("refused: {refusal}"));
            let unknowable = ["signature", "redacted_thinking", "cannot be modified", "Could not process image"];
            let excused = unknowable.iter().any(|part| refusal.contains(part)) && self.may_be_refused > 0;
            assert!(excused, "the provider refused what could be known:\n  {}", self.so_far());
            self.may_be_refused -= 1;
        }
    }

    /// Every model answers now.
    async fn end(&mut self) {
        self.mind.lock().unwrap().plain = true;
        for model in 0..MODELS.len() {
            self.choose_model(Some(model)).await;
            self.tell("the last prompt");
            self.world.prompt("Is all well?").await;
            self.settle().await;
            let messages = self.world.messages().await;
            let last = messages.last().unwrap();
            assert_eq!((text_of(last).as_str(), &last["stopReason"]), (PLAIN, &json!("stop")), "{last}\n  {}", self.so_far());
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Leave {
    Abort,
    Kill,
    Terminate,
    Queue,
}

async fn tell_story(seed: u64, steps: usize) -> usize {
    eprintln!("history {seed}");
    let mut story = Story::begin(seed).await;
    for _ in 0..steps {
        story.step().await;
    }
    story.end().await;
    story.told.iter().filter(|line| line.starts_with("refused")).count()
}

#[tokio::test]
async fn no_history_is_refused_twice() {
    // One seed tries one history again.
    let chosen = std::env::var("WOLLI_SEED").ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = chosen.map_or(1..=count(10, 400) as u64, |seed| seed..=seed);
    let mut refused = 0;
    for seed in seeds {
        refused += tell_story(seed, STEPS).await;
    }
    eprintln!("{refused} refusals of what nobody could know");
}
