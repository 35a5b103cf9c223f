import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { deadline, pause } from "../../../cni/deadline.ts";
import { KubeError } from "../../../kube/kube_error.ts";
import type { ApiRequest } from "../../../kube/request.ts";
import { FakeChannel, json } from "../../../tests/_harness/fake_channel.ts";
import {
  leaveSocket,
  saySilence,
  type Speak,
  UnixServer,
} from "../../../tests/_harness/unix_server.ts";
import { PluginFolder } from "../../../tests/_harness/plugin_folder.ts";
import { DaemonChannel } from "./daemon_channel.ts";

const GET: ApiRequest = { method: "GET", path: "/pods/p1" };
const TRY_MS = 1500;
/** Upper bound for the delay by an unresponsive daemon on a busy machine, in ms. */
const HOLD_UP_MS = 600;

/** Writes a response. */
function http(
  status: number,
  body: string,
  origin = "multus-origin: api\r\n",
): string {
  return `HTTP/1.1 ${status} X\r\ncontent-type: application/json\r\n` +
    `${origin}content-length: ${body.length}\r\n\r\n${body}`;
}

/** Sends the same response to all requests. */
function always(text: string): Speak {
  return ({ say }) => say(text);
}

const isProbe = (request: string): boolean =>
  request.startsWith("GET /healthz ");

/** A direct channel that returns `{"by":"direct"}`. */
function openDirect(): FakeChannel {
  return new FakeChannel(() => json({ by: "direct" }));
}

function open(
  { path }: { readonly path: string },
  direct: FakeChannel = openDirect(),
  podUid = "",
): DaemonChannel {
  return new DaemonChannel({
    socketPath: path,
    podUid,
    openDirect: () => Promise.resolve(direct),
  });
}

async function ask(
  channel: DaemonChannel,
  request: ApiRequest = GET,
): Promise<unknown> {
  return await channel.exchange(request, deadline(TRY_MS));
}

Deno.test("DaemonChannel.exchange() returns the daemon's response", async (t) => {
  for (const origin of ["cache", "api", "queue"]) {
    await t.step(origin, async () => {
      const header = `multus-origin: ${origin}\r\n`;
      await using daemon = new UnixServer(always(http(200, "{}", header)));
      const direct = openDirect();
      assertEquals(await ask(open(daemon, direct)), {});
      assertEquals(direct.requests, []);
    });
  }
});

Deno.test("DaemonChannel.exchange() sends the headers of the protocol", async (t) => {
  const remembered = { ...GET, mayBeRemembered: true } as const;
  const body = { method: "PATCH", path: "/p", body: "{}" };
  const rows: [string, ApiRequest, string, string[], string[]][] = [
    ["of a pod", remembered, "u1", ["cache-control: max-stale", "uid: u1"], []],
    ["without a pod", remembered, "", ["cache-control: max-stale"], ["uid"]],
    ["an invalid UID", remembered, "u\r\nx: y", ["max-stale"], ["uid"]],
    ["the newest", GET, "u1", [], ["cache-control", "uid"]],
    [
      "a body",
      { ...body, contentType: "application/merge-patch+json" },
      "u1",
      ["content-type: application/merge-patch+json"],
      ["max-stale"],
    ],
  ];
  for (const [name, request, uid, expected, unexpected] of rows) {
    await t.step(name, async () => {
      await using daemon = new UnixServer(always(http(200, "{}")));
      await ask(open(daemon, openDirect(), uid), request);
      const [head = ""] = daemon.requests;
      for (const line of expected) assertStringIncludes(head, line);
      for (const line of unexpected) assert(!head.includes(line), head);
    });
  }
});

Deno.test("DaemonChannel.exchange() throws the API server's error", async (t) => {
  const status = (code: number): string =>
    JSON.stringify({ kind: "Status", code, message: `no ${code}` });
  for (const code of [403, 404, 409, 422, 429, 500, 503]) {
    await t.step(String(code), async () => {
      const text = http(
        code,
        status(code),
        "multus-origin: api\r\nretry-after: 3\r\n",
      );
      await using daemon = new UnixServer(always(text));
      const direct = openDirect();
      const error = await assertRejects(
        () => ask(open(daemon, direct)),
        KubeError,
        `no ${code}`,
      );
      assertEquals([error.status, error.retryAfterMs], [code, 3000]);
      assertEquals(direct.requests, []);
    });
  }
});

Deno.test("DaemonChannel.exchange() bypasses a failing daemon", async (t) => {
  const rows: [string, Speak][] = [
    ["says nothing", saySilence],
    ["closes the connection", (): void => {}],
    ["says half of it", always(http(200, "{}").slice(0, -1))],
    ["is another program", always("SSH-2.0-OpenSSH_9.6\r\n\r\n")],
    ["is another server", always(http(200, "{}", ""))],
    ["cannot reach the API server (502)", always(http(502, "", ""))],
    ["waits in vain (504)", always(http(504, "", ""))],
    ["is broken (500)", always(http(500, "", ""))],
    ["does not let us (403)", always(http(403, "", ""))],
  ];
  for (const [name, speak] of rows) {
    await t.step(name, async () => {
      await using daemon = new UnixServer(speak);
      const startMs = performance.now();
      assertEquals(await ask(open(daemon)), { by: "direct" });
      assert(performance.now() - startMs < HOLD_UP_MS);
    });
  }
  using folder = new PluginFolder();
  await t.step("is not there", async () => {
    assertEquals(await ask(open({ path: `${folder.path}/s` })), {
      by: "direct",
    });
  });
  await t.step("was killed", async () => {
    leaveSocket(`${folder.path}/stale`);
    assertEquals(await ask(open({ path: `${folder.path}/stale` })), {
      by: "direct",
    });
  });
});

Deno.test("DaemonChannel.exchange() does not ask an unresponsive daemon again", async () => {
  await using daemon = new UnixServer(saySilence);
  const direct = openDirect();
  const channel = open(daemon, direct);
  await ask(channel);
  const { length } = daemon.requests;
  await channel.authenticate(GET, undefined);
  await ask(channel);
  assertEquals(daemon.requests.length, length);
  assertEquals([direct.requests.length, direct.authentications], [2, 1]);
});

Deno.test("DaemonChannel.exchange() asks the daemon again after an error response", async () => {
  const answers = [http(502, "", ""), http(200, '{"by":"daemon"}')];
  await using daemon = new UnixServer(({ say }) => say(answers.shift() ?? ""));
  const channel = open(daemon);
  assertEquals(await ask(channel), { by: "direct" });
  await channel.authenticate(GET, undefined);
  assertEquals(await ask(channel), { by: "daemon" });
});

Deno.test("DaemonChannel.exchange() waits for a slow API server", async () => {
  await using daemon = new UnixServer(async ({ request, say }) => {
    if (!isProbe(request)) await pause(400);
    await say(http(200, '{"by":"daemon"}'));
  });
  const direct = openDirect();
  assertEquals(await ask(open(daemon, direct)), { by: "daemon" });
  assertEquals(direct.requests, []);
  const probes = daemon.requests.filter(isProbe).length;
  assert(probes >= 1 && probes <= 4, String(probes));
});

Deno.test("DaemonChannel.exchange() detects a daemon that stops during a request", async () => {
  let probes = 0;
  await using daemon = new UnixServer(async (conversation) => {
    const { request, say } = conversation;
    if (isProbe(request) && probes++ === 0) await say(http(200, "", ""));
    else await conversation.saySilence();
  });
  const startMs = performance.now();
  assertEquals(await ask(open(daemon)), { by: "direct" });
  assert(performance.now() - startMs < TRY_MS);
});

Deno.test("DaemonChannel.exchange() aborts with its signal", async () => {
  await using daemon = new UnixServer(async (conversation) => {
    if (isProbe(conversation.request)) {
      await conversation.say(http(200, "", ""));
    } else await conversation.saySilence();
  });
  const direct = openDirect();
  const channel = open(daemon, direct);
  const error = await assertRejects(
    () => channel.exchange(GET, deadline(300)),
    KubeError,
  );
  assertEquals([error.status, error.isTimeout], [0, true]);
  assertMatch(
    error.message,
    /^Get "unix:\/.*\/s\.sock:\/pods\/p1": context deadline exceeded$/,
  );
  assertEquals(direct.requests, []);
  // The daemon's own connection may be the slow one.
  assertEquals(await ask(channel), { by: "direct" });
});

Deno.test("DaemonChannel.exchange() bypasses a daemon that timed out", async () => {
  const answers = [http(504, "", ""), http(200, '{"by":"daemon"}')];
  await using daemon = new UnixServer(({ say }) => say(answers.shift() ?? ""));
  const channel = open(daemon);
  assertEquals(await ask(channel), { by: "direct" });
  assertEquals(await ask(channel), { by: "direct" });
});

Deno.test("DaemonChannel.exchange() throws the failure of the direct channel", async () => {
  const channel = new DaemonChannel({
    socketPath: "/nowhere",
    podUid: "",
    openDirect: () => Promise.reject(new CniError(7, "no kubeconfig")),
  });
  await assertRejects(() => ask(channel), CniError, "no kubeconfig");
  channel[Symbol.dispose]();
});

Deno.test("DaemonChannel closes the direct channel, if it is open", async () => {
  const direct = openDirect();
  {
    using channel = open({ path: "/nowhere" }, direct);
    await ask(channel);
    assertEquals(direct.isClosed, false);
  }
  await Promise.resolve();
  assertEquals(direct.isClosed, true);
  open({ path: "/nowhere" })[Symbol.dispose]();
});

Deno.test("DaemonChannel.send() bypasses the daemon", async () => {
  await using daemon = new UnixServer(always(http(200, "{}")));
  const direct = openDirect();
  const { answer } = await open(daemon, direct).send(GET, deadline(TRY_MS));
  assertEquals(answer.status, 200);
  await answer.body?.cancel();
  assertEquals([daemon.requests, direct.requests.length], [[], 1]);
});
