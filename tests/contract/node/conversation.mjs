// A day of a client of wolli 0.0.2 with one daemon, from its first connection to `shutdown`. The provider behind the daemon answers
// what the test that starts this told it to.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent, Connection, until } from "./client.mjs";
import { NUDGE, Screen, levelsOf } from "./screen.mjs";

const { WOLLI_URL: base, WOLLI_TOKEN: token, WOLLI_AGENT_HOME: home } = process.env;
const step = (name) => console.log(`- ${name}`);

step("connect");
const agent = await Agent.connect(base, token);
assert.equal(agent.state.config.name, "scribe");
assert.equal(agent.state.config.purpose.trim(), "");
assert.ok(!agent.state.config.deployedAt, "the agent is forming");
assert.equal(agent.state.cwd, home);
const birth = await agent.latest();
let screen = await new Screen(agent.connection, birth).open();
assert.deepEqual(screen.resources.diagnostics, []);
assert.equal(screen.model.provider, "scripted");

step("birth: the first question is the agent's own");
if (!screen.entries.some((entry) => entry.type === "message")) {
  const seeded = await screen.ask("seed_assistant_message", { text: "What is my purpose?" });
  screen.paint(seeded);
}
assert.equal(screen.shown(), "< What is my purpose?");

step("the agent's page");
const [tools, integrations, skills, plugins, contexts] = await Promise.all(
  ["get_tool_info", "get_integration_info", "get_skills", "get_plugins", "get_context_info"].map((type) => screen.ask(type)),
);
const active = tools.tools.map((tool) => tool.name).filter((name) => tools.activeToolNames.includes(name));
assert.deepEqual(active, ["memory", "deploy", "read", "write", "edit", "ls", "grep", "find", "bash"]);
assert.deepEqual([integrations.integrations, skills.skills, plugins.plugins], [[], [], []]);
assert.deepEqual(
  contexts.contexts.map((context) => `${context.name} ${context.chars}`),
  ["SOUL.md 0", "MEMORY.md 0", "USER.md 0"],
);

step("a prompt with a tool call");
writeFileSync(join(home, "a.txt"), "hello\n");
screen.streamed = "";
await screen.type("What is in a.txt?");
await screen.seen("the end of the run", () => screen.shown().includes("It says hello.") && !screen.busy);
const told = ["> What is in a.txt?", "< Let me look.", '# read {"path":"a.txt"}: hello', "< It says hello."];
assert.equal(screen.shown(), ["< What is my purpose?", ...told].join("\n"));
assert.equal(screen.streamed, "Let me look.It says hello.", "deltas add up to the text");
assert.ok([...screen.panels.values()].every((panel) => panel.done));
assert.equal((await screen.ask("get_state")).isStreaming, false);

step("a second window shows the same");
const other = await new Screen(agent.connection, birth).open();
assert.equal(other.shown(), screen.shown());

step("an abort while it speaks");
await screen.type("count");
await screen.seen("the first words", () => screen.shown().endsWith("< one two "));
await screen.type("no, wait");
await screen.seen("the queue", () => screen.queued.steer.length === 1);
const cleared = await screen.ask("abort");
assert.deepEqual(cleared.clearedSteer.map((message) => message.content[0].text), ["no, wait"]);
await screen.seen("the end of the run", () => !screen.busy);
assert.ok(screen.shown().endsWith("> count\n< one two \n(aborted)"), screen.shown());
assert.deepEqual(screen.queued, { steer: [], followUp: [] });
await other.seen("the same in the other window", () => !other.busy && other.shown() === screen.shown());
other.close();

step("a prompt into a run that it does not know of");
const blind = await new Screen(agent.connection, birth).open();
await screen.type("count");
await screen.seen("the run", () => screen.busy && screen.shown().endsWith("one two "));
const late = await new Screen(agent.connection, birth).open();
assert.equal(late.state.isStreaming, true);
await assert.rejects(late.type("hi"), {
  message: "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.",
});
late.close();
blind.close();
await screen.ask("abort");
await screen.seen("the end of the run", () => !screen.busy);

step("another model, another level");
const { models } = await screen.ask("get_available_models");
const next = models.find((model) => model.provider === "scripted-openai");
assert.deepEqual(levelsOf(next), ["off", "minimal", "low", "medium", "high"]);
await screen.ask("set_model", { provider: next.provider, modelId: next.id });
await screen.seen("the model", () => screen.model.provider === "scripted-openai");
await screen.ask("set_thinking_level", { level: "high" });
await screen.seen("the level", () => screen.level === "high");
await screen.ask("set_thinking_level", { level: "off" });
await screen.type("are you there?");
await screen.seen("its answer", () => screen.shown().endsWith("> are you there?\n< Here.") && !screen.busy);
await assert.rejects(screen.ask("set_model", { provider: "invalid", modelId: "model" }), { message: "Model not found: invalid/model" });

step("a login with a key");
const { providers } = await screen.ask("get_login_providers");
const groq = providers.find((provider) => provider.id === "groq" && provider.authType === "api_key");
assert.equal(groq.name, "Groq");
const login = screen.ask("login", { provider: groq.id, authType: groq.authType });
await screen.seen("the question", () => screen.login !== undefined);
assert.deepEqual(Object.keys(screen.login), ["type", "id", "method", "message"]);
assert.deepEqual([screen.login.method, screen.login.message], ["prompt", "Enter API key for Groq"]);
const answer = { type: "login_ui_response", id: screen.login.id, value: "gsk-000000000000000000" };
assert.equal((await agent.connection.post(`/sessions/${birth}/login-response`, answer)).success, true);
assert.equal(await login, undefined);
assert.ok((await screen.ask("get_logout_providers")).providers.some((provider) => provider.id === "groq"));
assert.ok((await screen.ask("get_available_models")).models.some((model) => model.provider === "groq"));
await screen.ask("logout", { provider: "groq" });
assert.equal(screen.dialog, undefined, "nobody was asked twice");

step("a compaction");
const compacting = screen.ask("compact");
await screen.seen("the spinner", () => screen.compacting || screen.compactions > 0);
const result = await compacting;
await screen.seen("its end", () => !screen.compacting && screen.compactions === 1);
assert.deepEqual([screen.compacted.reason, screen.compacted.result], ["manual", result]);
await screen.repaint();
assert.ok(screen.shown().startsWith("[compacted from some tokens] "), screen.shown());

step("reload");
await screen.ask("reload");
await Promise.all([screen.ask("get_state"), screen.ask("get_resource_summary"), screen.ask("get_commands")]);

step("the human asks to deploy");
await assert.rejects(agent.agentCommand("create_session"), {
  message: "This agent is still forming — it stays in its birth session until it deploys.",
});
await screen.type(NUDGE);
await screen.seen("the agent's yes", () => screen.askDeploy);
assert.ok(!screen.shown().includes("Your human asked"), "the nudge is not shown");
assert.equal(readFileSync(join(home, "SOUL.md"), "utf8"), "I keep minutes.");
const deployed = await agent.agentCommand("deploy");
assert.notEqual(deployed.sessionId, birth);
await until("the lifecycle frame", () => agent.state.sessions.some((session) => session.sessionId === deployed.sessionId));
const fresh = (await agent.connection.get("/sessions")).config;
assert.deepEqual([fresh.purpose, Boolean(fresh.deployedAt)], ["keep minutes", true]);
assert.ok(await agent.connection.healthy(), "without a service manager the same daemon stays");

step("on in the new session");
screen.close();
await until("that the old one is idle", () => agent.state.sessions.find((session) => session.sessionId === birth).live === false);
screen = await new Screen(agent.connection, deployed.sessionId).open();
assert.deepEqual([screen.shown(), screen.state.messageCount], ["", 0]);
await screen.type("are you there?");
await screen.seen("its answer", () => screen.shown() === "> are you there?\n< Here." && !screen.busy);
const { tools: now } = await screen.ask("get_tool_info");
assert.ok(!now.some((tool) => tool.name === "deploy"));

step("one more session, asked for at an idle one");
const created = await agent.connection.command(birth, "create_session");
await until("the lifecycle frame", () => agent.state.sessions[0].sessionId === created.sessionId);
assert.deepEqual(new Set(agent.lifecycle), new Set(["session_added", "session_removed"]));
const both = await new Screen(agent.connection, created.sessionId).open();
await both.type("are you there?");
await both.seen("its answer", () => both.shown() === "> are you there?\n< Here." && !both.busy);
assert.equal(screen.shown(), "> are you there?\n< Here.", "the other session heard nothing");
both.close();

step("what it cannot open");
await assert.rejects(agent.connection.open("/sessions/nobody/events", () => {}), {
  message: `Failed to open SSE stream ${base}/sessions/nobody/events (HTTP 404).`,
});
await assert.rejects(new Connection(base, "wrong").open("/events", () => {}), {
  message: `Failed to open SSE stream ${base}/events (HTTP 401).`,
});
assert.deepEqual(screen.unknown, [], "no frame that it does not know");

step("stop");
const [{ sessionId }] = (await agent.connection.get("/sessions", 2000)).sessions;
assert.equal((await agent.connection.post(`/sessions/${sessionId}/control`, { type: "shutdown" }, 2000)).success, true);
await until("the end of the daemon", async () => !(await agent.connection.healthy()));
await Promise.allSettled([screen.stream.ended, agent.control.ended]);
step("done");
process.exit(0);
