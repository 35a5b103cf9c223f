import { assertEquals, assertRejects } from "@std/assert";
import { deadline } from "../../base/deadline.ts";
import { type Exchange, readAnswer } from "../answer.ts";
import type { Channel } from "../connection.ts";
import { KubeError } from "../kube_error.ts";
import type { KubeRequest } from "../request.ts";
import { testRows } from "../../tests/_harness/table.ts";
import { Upstream } from "./upstream.ts";

/** Returns the response to a request, or throws. */
type Reply = (
  request: KubeRequest,
  signal: AbortSignal,
) => Response | Promise<Response>;

/** The channel. */
class FakeChannel implements Channel {
  /** The requests, such as `GET /x`. */
  readonly requests: string[] = [];
  /** How often credentials were asked for. */
  authentications = 0;
  isClosed = false;
  readonly #reply: Reply;

  /** Responds with a function. */
  constructor(reply: Reply) {
    this.#reply = reply;
  }

  /** Counts. */
  authenticate(): Promise<void> {
    this.authentications++;
    return Promise.resolve();
  }

  /** Responds. */
  async send(request: KubeRequest, signal: AbortSignal): Promise<Exchange> {
    const { method = "GET", path } = request;
    this.requests.push(`${method} ${path}`);
    const answer = await this.#reply(request, signal);
    const named = { method, url: `http://h${path}` };
    return { request: named, answer, signal };
  }

  /** Remembers that it is no longer needed. */
  [Symbol.dispose](): void {
    this.isClosed = true;
  }
}

/** Builds a JSON response. */
function json(value: unknown, init: ResponseInit = {}): Response {
  const headers = { "content-type": "application/json" };
  return new Response(JSON.stringify(value), { headers, ...init });
}

const GET = { path: "/x" };

/**
 * Channels that are opened in sequence, and a clock that stands still.
 */
class Scene {
  readonly opened: FakeChannel[] = [];
  readonly logged: string[] = [];
  nowMs = 1_000_000;
  readonly #replies: readonly (Reply | Error)[];
  #tries = 0;

  constructor(...replies: (Reply | Error)[]) {
    this.#replies = replies;
  }

  /** Opens the first channel, and lets some time pass. */
  async open(): Promise<Upstream> {
    const upstream = this.create();
    await upstream.authenticate(GET, undefined);
    this.nowMs += 10_000;
    return upstream;
  }

  create(): Upstream {
    const log = (message: string): void => void this.logged.push(message);
    return new Upstream({
      open: () => this.#open(),
      log: { info: log, warn: log },
      now: () => this.nowMs,
    });
  }

  #open(): Promise<FakeChannel> {
    const reply = this.#replies[this.#tries++];
    if (reply === undefined || reply instanceof Error) {
      return Promise.reject(reply ?? new Error("no more"));
    }
    const channel = new FakeChannel(reply);
    this.opened.push(channel);
    return Promise.resolve(channel);
  }

  /** Lists the number of requests per channel. */
  get counts(): number[] {
    return this.opened.map(({ requests }) => requests.length);
  }
}

const ok: Reply = () => json({ by: "new" });
const refused: Reply = () => json({}, { status: 401 });

function fail(
  what: Partial<
    Record<"isTimeout" | "isUntrusted" | "isUnsent" | "isRefused", boolean>
  >,
): Reply {
  return () => {
    throw new KubeError("no answer", { status: 0, ...what });
  };
}

async function ask(upstream: Upstream): Promise<unknown> {
  return await readAnswer(await upstream.send(GET, deadline(5000)));
}

Deno.test("Upstream.send() reads refused credentials again", async () => {
  const scene = new Scene(refused, ok);
  const upstream = await scene.open();
  assertEquals(await ask(upstream), { by: "new" });
  assertEquals(await ask(upstream), { by: "new" });
  assertEquals(scene.counts, [1, 2]);
  assertEquals(scene.logged, ["Reconnecting to the API server"]);
});

Deno.test("Upstream.send() returns 401 without other credentials", async (t) => {
  await t.step("the new credentials are refused as well", async () => {
    const scene = new Scene(refused, refused);
    const upstream = await scene.open();
    await assertRejects(() => ask(upstream), KubeError);
    await assertRejects(() => ask(upstream), KubeError);
    assertEquals(scene.counts, [1, 2]);
  });
  await t.step("the credentials were just read", async () => {
    const scene = new Scene(refused, ok);
    await assertRejects(() => ask(scene.create()), KubeError);
    assertEquals(scene.counts, [1]);
  });
  await t.step("the credentials cannot be read", async () => {
    const scene = new Scene(refused, new Error("no kubeconfig"));
    const upstream = await scene.open();
    await assertRejects(() => ask(upstream), KubeError);
    assertEquals(scene.logged, ["Cannot connect to the API server"]);
  });
});

/** How many channels there are a short time after the first, and after a minute. */
testRows("Upstream.send() replaces connections that may be dead", [
  ["nobody answers", fail({ isTimeout: true }), [2, 3]],
  ["somebody else answers", fail({ isUntrusted: true }), [2, 3]],
  [
    "connections are refused",
    fail({ isUnsent: true, isRefused: true }),
    [1, 2],
  ],
  ["a name cannot be looked up", fail({ isUnsent: true }), [1, 2]],
  ["it breaks", fail({}), [1, 2]],
  ["the server is busy", () => json({}, { status: 503 }), [1, 1]],
], async ([, reply, channels]: [string, Reply, number[]]) => {
  const scene = new Scene(reply, reply, ok);
  const upstream = await scene.open();
  const counts: number[] = [];
  for (let tries = 0; tries < 2; tries++) {
    await assertRejects(() => ask(upstream), KubeError);
    counts.push(scene.opened.length);
    scene.nowMs += 60_000;
  }
  assertEquals(counts, channels);
});

Deno.test("Upstream.send() keeps its connections if the caller gives up", async () => {
  const scene = new Scene(fail({}), ok);
  const upstream = await scene.open();
  scene.nowMs += 60_000;
  await assertRejects(() => upstream.send(GET, AbortSignal.abort()), KubeError);
  assertEquals(scene.opened.length, 1);
});

Deno.test("Upstream.send() logs an outage once, whichever requests fail", async () => {
  const lookup: Reply = ({ path }) => {
    const why = "dial tcp: lookup h: no such host";
    throw new KubeError(`Get "http://h${path}": ${why}`, { status: 0 });
  };
  const scene = new Scene(lookup, lookup, lookup, ok);
  const upstream = await scene.open();
  for (const path of ["/a", "/b"]) {
    scene.nowMs += 60_000;
    await assertRejects(() => upstream.send({ path }, deadline(5000)));
  }
  assertEquals(scene.opened.length, 3);
  assertEquals(scene.logged, ["Reconnecting to the API server"]);
});

Deno.test("Upstream.send() reconnects once for concurrent requests", async () => {
  const scene = new Scene(refused, ok);
  const upstream = await scene.open();
  const all = Array.from({ length: 5 }, () => ask(upstream));
  assertEquals(await Promise.all(all), all.map(() => ({ by: "new" })));
  assertEquals(scene.counts, [5, 5]);
});

Deno.test("Upstream opens its channel for the first request", async (t) => {
  const problem = new Error("no kubeconfig");
  await t.step("the channel can be opened later", async () => {
    const scene = new Scene(problem, problem, ok);
    const upstream = scene.create();
    assertEquals(scene.opened, []);
    for (let tries = 0; tries < 2; tries++) {
      await assertRejects(() => ask(upstream), Error, "no kubeconfig");
      // Does not try again immediately.
      await assertRejects(() => ask(upstream), Error, "no kubeconfig");
      scene.nowMs += 10_000;
    }
    assertEquals(await ask(upstream), { by: "new" });
    assertEquals(scene.logged, ["Cannot connect to the API server"]);
  });
  await t.step("for many requests at once", async () => {
    const scene = new Scene(ok);
    const upstream = scene.create();
    await Promise.all(Array.from({ length: 5 }, () => ask(upstream)));
    assertEquals(scene.counts, [5]);
  });
});

Deno.test("Upstream looks for another server once a minute while one refuses", async () => {
  const away = fail({ isUnsent: true, isRefused: true });
  const scene = new Scene(away, away, ok);
  const upstream = await scene.open();
  for (let tries = 1; tries <= 12; tries++) {
    await assertRejects(() => ask(upstream), KubeError);
    assertEquals(scene.opened.length, 1 + Math.floor(tries / 6));
    scene.nowMs += 10_000;
  }
  assertEquals(await ask(upstream), { by: "new" });
  assertEquals(scene.logged, ["Reconnecting to the API server"]);
});

Deno.test("Upstream logs each outage once, even one that begins like the last one", async () => {
  const outage = new Error("connection refused");
  const dead = fail({ isTimeout: true });
  const scene = new Scene(outage, outage, dead, outage, outage, ok);
  const upstream = scene.create();
  // Each request fails, and long after the request before.
  for (let tries = 0; tries < 6; tries++) {
    await assertRejects(() => ask(upstream));
    scene.nowMs += 10_000;
  }
  assertEquals(await ask(upstream), { by: "new" });
  assertEquals(
    scene.logged.filter((message) => message.startsWith("Cannot")).length,
    2,
  );
});
