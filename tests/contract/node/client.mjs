// The client of wolli 0.0.2 as a daemon sees it: its requests, its reading of frames, and the order in which it connects.
// Plain `fetch`, nothing else. It never sends an envelope id or Last-Event-ID, and it does not connect again.

/** Splits a stream into frames and gives name and data of each to `onFrame`. */
async function readFrames(body, onFrame) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of body) {
    rest += decoder.decode(piece, { stream: true });
    const frames = rest.split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      let name = "message";
      const data = [];
      for (const line of frame.split("\n")) {
        if (line.startsWith(":")) continue;
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
        // Every other field is passed over, the number of the frame too.
      }
      if (data.length > 0) onFrame(name, data.join("\n"));
    }
  }
}

export class Connection {
  constructor(base, token) {
    this.base = base;
    this.headers = { authorization: `Bearer ${token}` };
  }

  /** `GET /health`, without the token. */
  async healthy() {
    try {
      const response = await fetch(`${this.base}/health`, { signal: AbortSignal.timeout(1000) });
      return response.ok && (await response.json()).status === "ok";
    } catch {
      return false;
    }
  }

  /** Opens a stream; resolves with what the first `hello` says. Every other frame goes to `onFrame`, as JSON. */
  async open(path, onFrame) {
    const url = `${this.base}${path}`;
    const abort = new AbortController();
    const response = await fetch(url, { headers: this.headers, signal: abort.signal });
    if (response.status !== 200) throw new Error(`Failed to open SSE stream ${url} (HTTP ${response.status}).`);
    const stream = { close: () => abort.abort(), ended: undefined, hello: undefined };
    await new Promise((resolve, reject) => {
      stream.ended = readFrames(response.body, (name, data) => {
        if (name === "hello" && stream.hello === undefined) {
          stream.hello = JSON.parse(data);
          resolve();
        } else {
          onFrame(JSON.parse(data));
        }
      }).then(
        () => reject(new Error("the stream ended before hello")),
        (error) => reject(error),
      );
      stream.ended.catch(() => {});
    });
    return stream;
  }

  async get(path, limit) {
    const response = await fetch(`${this.base}${path}`, { headers: this.headers, signal: AbortSignal.timeout(limit ?? 20000) });
    return response.json();
  }

  async post(path, body, limit) {
    const headers = { ...this.headers, "content-type": "application/json" };
    const signal = AbortSignal.timeout(limit ?? 60000);
    const response = await fetch(`${this.base}${path}`, { method: "POST", headers, body: JSON.stringify(body), signal });
    // The status is not looked at.
    return response.json();
  }

  /** A command; its data, or an error with the text of the answer. */
  async command(session, type, fields = {}) {
    const answer = await this.post(`/sessions/${session}/control`, { type, ...fields });
    if (!answer.success) throw new Error(answer.error);
    return answer.data;
  }
}

/** An agent as that client holds it: the control stream, and what it says of sessions. */
export class Agent {
  static async connect(base, token) {
    const agent = new Agent();
    agent.connection = new Connection(base, token);
    if (!(await agent.connection.healthy())) throw new Error(`Daemon at ${base} did not become healthy within 15s.`);
    agent.lifecycle = [];
    agent.control = await agent.connection.open("/events", (frame) => agent.take(frame));
    agent.state = agent.control.hello;
    return agent;
  }

  /** Whatever is neither of the first two is a rename to that client. */
  take(frame) {
    this.lifecycle.push(frame.type);
    const sessions = this.state.sessions;
    const at = sessions.findIndex((session) => session.sessionId === (frame.session?.sessionId ?? frame.sessionId));
    if (frame.type === "session_added") {
      if (at < 0) sessions.unshift(frame.session);
      else sessions[at] = { ...sessions[at], ...frame.session };
    } else if (frame.type === "session_removed") {
      if (at >= 0) sessions[at].live = false;
    } else if (at >= 0) {
      sessions[at].sessionName = frame.sessionName;
    }
  }

  /** The session to show: the most recent one. */
  async latest() {
    const { config, sessions } = await this.connection.get("/sessions");
    if (sessions.length === 0) throw new Error(`No session for agent "${config.name}".`);
    return sessions[0].sessionId;
  }

  /** Posts a command that concerns the agent to the first session that is known, which may be idle by now. */
  agentCommand(type, fields) {
    return this.connection.command(this.state.sessions[0].sessionId, type, fields);
  }

  close() {
    this.control.close();
  }
}

/** Polls until `done` says yes. */
export async function until(what, done, limit = 15000) {
  const deadline = Date.now() + limit;
  while (!(await done())) {
    if (Date.now() > deadline) throw new Error(`${what} did not come to pass within ${limit / 1000}s.`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
