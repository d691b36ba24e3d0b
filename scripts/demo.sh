#!/bin/sh
# `make run`: builds wolli, gives an agent called `demo` a home below .demo/, serves it, and opens a chat. Without a terminal it sends
# one prompt instead, shows the answer and how curl would do the same, and stops what it started.
# Needs Rust and git, no account and no network but for the crates. It may be run again and again.
set -eu
cd "$(dirname "$0")/.."

demo="$PWD/.demo"
limit=30 # seconds until the daemon answers; it takes a few milliseconds

say() { printf '%s\n' "$*"; }

# The dev profile: it is built in half the time of the release profile, and fast enough for a demonstration.
say "Building wolli (cargo build, dev profile; some minutes the first time) ..."
cargo build --quiet -p wolli-cli --bin wolli
wolli="${CARGO_TARGET_DIR:-target}/debug/wolli"

umask 077
mkdir -p "$demo"
WOLLI_HOME="$demo/home"
WOLLI_SHARED_DIR="$demo/shared"
WOLLI_SERVICE_MANAGER=none
export WOLLI_HOME WOLLI_SHARED_DIR WOLLI_SERVICE_MANAGER
# The daemon's own address and token, whatever is meant for other agents.
unset WOLLI_DAEMON_HOST WOLLI_DAEMON_TOKEN

config="$WOLLI_HOME/agents/demo/agent.json"
if [ ! -e "$config" ]; then
  # `new` opens a chat when it has a terminal; here it shall not.
  "$wolli" new demo --model echo/demo --purpose "show what wolli does" </dev/null | cat
fi

daemon=
stop() {
  if [ -n "$daemon" ]; then
    kill -TERM "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
    daemon=
    say "Stopped the daemon."
  fi
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

log="$demo/daemon.log"
# At a terminal the daemon gets a process group of its own: Ctrl+C is meant for the chat.
if [ -t 0 ]; then set -m; fi
"$wolli" daemon demo >"$log" 2>&1 </dev/null &
daemon=$!
if [ -t 0 ]; then set +m; fi
waited=0
until grep -q ' listening on http://' "$log"; do
  if ! kill -0 "$daemon" 2>/dev/null; then
    status=0
    wait "$daemon" || status=$?
    daemon=
    # 75: an earlier one is still there. It serves us as well, and is not ours to stop.
    if [ "$status" = 75 ]; then
      say "The demo agent is being served already."
      break
    fi
    say "The daemon ended with status $status:" >&2
    cat "$log" >&2
    exit 1
  fi
  if [ "$waited" -ge $((limit * 10)) ]; then
    say "The daemon did not start within $limit s:" >&2
    cat "$log" >&2
    exit 1
  fi
  sleep 0.1
  waited=$((waited + 1))
done
sed -n '/ listening on http/p' "$log"

show_more() {
  port=$(sed -n 's/^ *"port": *\([0-9]*\).*/\1/p' "$config")
  cat <<END

The same with curl:

  export WOLLI_HOME=$WOLLI_HOME WOLLI_SHARED_DIR=$WOLLI_SHARED_DIR
  $wolli daemon demo & daemon=\$!; sleep 1
  token=\$(sed -n 's/^ *"token": *"\\([^"]*\\)".*/\\1/p' $config)
  session=\$(curl -s -H "Authorization: Bearer \$token" http://127.0.0.1:$port/sessions | sed 's/.*"sessions":\\[{"sessionId":"\\([^"]*\\)".*/\\1/')
  curl -sN -H "Authorization: Bearer \$token" http://127.0.0.1:$port/sessions/\$session/events &
  curl -s -H "Authorization: Bearer \$token" http://127.0.0.1:$port/sessions/\$session/control \\
    -d '{"type":"prompt","message":"Hello from curl"}'

Afterwards, to stop the daemon and with it the curl that listens:

  kill \$daemon; unset WOLLI_HOME WOLLI_SHARED_DIR

With a real model: set the provider's key (ANTHROPIC_API_KEY, DEEPSEEK_API_KEY, GROQ_API_KEY, ...) and make an agent of your own,

  $wolli new scribe --model anthropic/claude-opus-4-8

README.md says more: other providers, local model servers, and where everything is stored.
END
}

if [ -t 0 ] && [ -t 1 ]; then
  cat <<'END'

This agent has no model behind it: it repeats what you say. Lines that begin with ! are obeyed; try

  !tool ls {"path":"."}
  !think Let me see
  !repeat 20 on and on

Ctrl+C stops an answer, and ends the chat when there is none; so does /quit.

END
  trap : INT
  "$wolli" demo || true
else
  say
  printf '%s\n' 'Hello, wolli! First I look around in my home:\' '!tool ls {"path":"."}' | "$wolli" demo
fi
show_more
