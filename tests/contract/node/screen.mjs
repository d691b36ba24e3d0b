// What the terminal of wolli 0.0.2 would show of a session: it reads the fields that that program reads, and no other.

export const NUDGE =
  "Your human asked you to deploy. If you're ready, call the deploy tool now with your distilled purpose and final SOUL.md.";

const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh"];

/** The levels that can be chosen for a model. */
export function levelsOf(model) {
  if (!model.reasoning) return ["off"];
  const map = model.thinkingLevelMap ?? {};
  return LEVELS.filter((level) => (level === "xhigh" ? typeof map.xhigh === "string" : map[level] !== null));
}

const textOf = (content) =>
  typeof content === "string" ? content : content.filter((block) => block.type === "text").map((block) => block.text).join("");

export class Screen {
  constructor(connection, session) {
    Object.assign(this, { connection, session, lines: [], panels: new Map(), busy: false, compacting: false, compactions: 0 });
    Object.assign(this, { queued: { steer: [], followUp: [] }, notices: [], deployed: false, askDeploy: false, unknown: [], streamed: "" });
    this.waiters = [];
  }

  /** Connects as that program does: the stream, then two questions at once, then what the chat needs. */
  async open() {
    this.stream = await this.connection.open(`/sessions/${this.session}/events`, (frame) => {
      this.take(frame);
      this.waiters = this.waiters.filter((waiter) => !waiter());
    });
    const state = this.stream.hello;
    this.state = state;
    [this.model, this.level, this.scope, this.name] = [state.model, state.thinkingLevel, state.scopedModels, state.sessionName];
    [this.resources, this.commands] = await Promise.all([this.ask("get_resource_summary"), this.ask("get_commands")]);
    const [history, entries] = await Promise.all([this.ask("get_messages"), this.ask("get_entries")]);
    await this.ask("get_entries");
    this.history = history.messages;
    this.entries = entries.entries;
    for (const message of history.messages) this.paint(message);
    return this;
  }

  ask(type, fields) {
    return this.connection.command(this.session, type, fields);
  }

  /** Resolves when a frame made it so. */
  seen(what, condition, limit = 20000) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`never seen: ${what}; shown:\n${this.shown()}`)), limit);
      const waiter = () => {
        if (!condition()) return false;
        clearTimeout(timer);
        resolve();
        return true;
      };
      if (!waiter()) this.waiters.push(waiter);
    });
  }

  shown() {
    return this.lines.map((line) => (typeof line === "string" ? line : line.text())).join("\n");
  }

  /** A whole message, as of the history. */
  paint(message) {
    if (message.role === "user") {
      const text = textOf(message.content);
      if (text !== NUDGE) this.lines.push(`> ${text}`);
    } else if (message.role === "assistant") {
      this.bubble(message);
      for (const block of message.content) if (block.type === "toolCall") this.panel(block.id, block.name, block.arguments);
      this.failure(message);
    } else if (message.role === "toolResult") {
      const panel = this.panels.get(message.toolCallId);
      if (panel) Object.assign(panel, { result: message, isError: message.isError, done: true });
    } else if (message.role === "compactionSummary") {
      this.lines.push(`[compacted from ${message.tokensBefore > 0 ? "some" : "no"} tokens] ${message.summary}`);
    } else if (message.role === "bashExecution") {
      this.lines.push(`! ${message.command}\n${message.output}`);
    } else if (message.role === "custom" && message.display) {
      this.lines.push(textOf(message.content));
    }
  }

  bubble(message) {
    const bubble = { message, text: () => `< ${textOf(bubble.message.content)}` };
    this.lines.push(bubble);
    return bubble;
  }

  failure(message) {
    if (message.stopReason === "aborted") this.lines.push("(aborted)");
    else if (message.stopReason === "error") this.lines.push(`(error: ${message.errorMessage})`);
  }

  panel(id, name, args) {
    const known = this.panels.get(id);
    if (known) return Object.assign(known, { name, args });
    const panel = { id, name, args, result: undefined, isError: false, done: false };
    panel.text = () => {
      const output = panel.result ? textOf(panel.result.content).trimEnd() : "...";
      return `# ${panel.name} ${JSON.stringify(panel.args)}${panel.isError ? " failed" : ""}: ${output}`;
    };
    this.panels.set(id, panel);
    this.lines.push(panel);
    return panel;
  }

  take(frame) {
    switch (frame.type) {
      case "agent_start":
        this.busy = true;
        break;
      case "agent_end":
        this.busy = false;
        this.askDeploy = this.deployed;
        this.deployed = false;
        break;
      case "message_start":
        if (frame.message.role === "user") this.paint(frame.message);
        else if (frame.message.role === "assistant" && !["error", "aborted"].includes(frame.message.stopReason))
          this.current = this.bubble(frame.message);
        break;
      case "message_update":
        // Only the message is drawn; the deltas are what a simple client adds up.
        if (frame.assistantMessageEvent.type === "text_delta") this.streamed += frame.assistantMessageEvent.delta;
        this.current.message = frame.message;
        for (const block of frame.message.content) if (block.type === "toolCall") this.panel(block.id, block.name, block.arguments);
        break;
      case "message_end":
        if (frame.message.role === "assistant") {
          if (this.current) this.current.message = frame.message;
          this.current = undefined;
          this.failure(frame.message);
        }
        break;
      case "tool_execution_start":
        this.panel(frame.toolCallId, frame.toolName, frame.args);
        break;
      case "tool_execution_update":
        if (!Array.isArray(frame.partialResult.content)) throw new Error("a partial result without content");
        this.panel(frame.toolCallId, frame.toolName, frame.args).result = frame.partialResult;
        break;
      case "tool_execution_end": {
        const panel = this.panels.get(frame.toolCallId);
        Object.assign(panel, { result: frame.result, isError: frame.isError, done: true });
        if (frame.toolName === "deploy" && !frame.isError && frame.result.details?.applied) this.deployed = true;
        break;
      }
      case "queue_update":
        this.queued = { steer: frame.steer.map((it) => textOf(it.content)), followUp: frame.followUp.map((it) => textOf(it.content)) };
        break;
      case "model_update":
        this.model = frame.model;
        break;
      case "thinking_level_update":
        this.level = frame.level;
        break;
      case "scoped_models_update":
        this.scope = frame.scopedModels;
        break;
      case "compaction_start":
        this.compacting = true;
        break;
      case "compaction_end":
        this.compacting = false;
        this.compactions += 1;
        this.compacted = frame;
        break;
      case "login_ui_request":
        this.login = frame;
        break;
      case "extension_ui_request":
        if (frame.method === "notify") this.notices.push(frame.message);
        else this.dialog = frame;
        break;
      case "turn_start":
      case "turn_end":
        break;
      default:
        // Passed over by that program.
        this.unknown.push(frame.type);
    }
  }

  /** After a compaction it draws everything anew. */
  async repaint() {
    this.lines = [];
    this.panels.clear();
    for (const message of (await this.ask("get_messages")).messages) this.paint(message);
  }

  /** What is typed. */
  async type(text) {
    await this.ask("prompt", { message: text, ...(this.busy ? { streamingBehavior: "steer" } : {}) });
  }

  close() {
    this.stream.close();
  }
}
