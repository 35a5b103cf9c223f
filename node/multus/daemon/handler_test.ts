import { assert, assertEquals, assertMatch } from "@std/assert";
import { KubeError } from "../../../kube/kube_error.ts";
import type { ApiRequest } from "../../../kube/request.ts";
import type { ForwardedAnswer } from "./forwarder.ts";
import { Handler, type HandlerOptions, type Memory } from "./handler.ts";

const POD = "/api/v1/namespaces/ns/pods/p1";
const NAD =
  "/apis/k8s.cni.cncf.io/v1/namespaces/ns/network-attachment-definitions/n1";
const EVENTS = "/api/v1/namespaces/ns/events";

/** The plugin's header that permits a cached answer. */
const MAY = { "cache-control": "max-stale" };
const POD_MAY = { ...MAY, "multus-pod-uid": "u1" };

/** A cache with one object. */
function memory(key: string, isCurrent = true): Memory {
  return {
    isCurrent,
    size: 1,
    find: (...names) =>
      names.join("/") === key ? { text: "{}", uids: ["u1", "h1"] } : undefined,
  };
}

const API_ANSWER: ForwardedAnswer = {
  status: 200,
  contentType: "application/json",
  retryAfter: null,
  text: '{"by":"api"}',
};

/** A handler, and a record of its actions. */
class Scene {
  readonly forwarded: ApiRequest[] = [];
  readonly timeouts: number[] = [];
  readonly events: ApiRequest[] = [];
  readonly #handler: Handler;

  constructor(
    options: Partial<HandlerOptions> = {},
    reply: () => ForwardedAnswer = () => API_ANSWER,
  ) {
    this.#handler = new Handler({
      pods: memory("ns/p1"),
      definitions: memory("ns/n1"),
      events: {
        add: (event) => void this.events.push(event),
        size: 0,
      },
      forwarder: {
        forward: (request, timeoutMs): Promise<ForwardedAnswer> => {
          this.forwarded.push(request);
          this.timeouts.push(timeoutMs);
          return new Promise((resolve) => resolve(reply()));
        },
      },
      log: { debug: () => {} },
      ...options,
    });
  }

  async ask(
    method: string,
    path: string,
    headers: Record<string, string> = {},
    body?: string,
  ): Promise<{ status: number; origin: string | null; text: string }> {
    const length = body === undefined
      ? {}
      : { "content-length": String(body.length) };
    const response = await this.#handler.handle(
      new Request(`http://h${path}`, {
        method,
        headers: { ...length, ...headers },
        ...body === undefined ? {} : { body },
      }),
    );
    return {
      status: response.status,
      origin: response.headers.get("multus-origin"),
      text: await response.text(),
    };
  }
}

Deno.test("Handler.handle() answers what is remembered, if that will do", async (t) => {
  const rows: [string, string, Record<string, string>, string][] = [
    ["a pod", POD, POD_MAY, "cache"],
    ["a static pod", POD, { ...MAY, "multus-pod-uid": "h1" }, "cache"],
    ["a pod by another UID", POD, { ...MAY, "multus-pod-uid": "u2" }, "api"],
    ["a pod of which no UID is known", POD, MAY, "api"],
    ["a pod, the newest", POD, { "multus-pod-uid": "u1" }, "api"],
    ["a pod that nobody knows", POD.replace("p1", "p2"), POD_MAY, "api"],
    ["a pod elsewhere", POD.replace("/ns/", "/other/"), POD_MAY, "api"],
    ["a definition", NAD, MAY, "cache"],
    ["a definition, the newest", NAD, {}, "api"],
    ["a definition that nobody knows", NAD.replace("n1", "n2"), MAY, "api"],
  ];
  for (const [name, path, headers, origin] of rows) {
    await t.step(name, async () => {
      const scene = new Scene();
      const answer = await scene.ask("GET", path, headers);
      assertEquals([answer.status, answer.origin], [200, origin]);
      const paths = scene.forwarded.map(({ path }) => path);
      assertEquals(paths, origin === "api" ? [path] : []);
    });
  }
  await t.step("no pod if no node is known", async () => {
    const scene = new Scene({ pods: undefined });
    assertEquals((await scene.ask("GET", POD, POD_MAY)).origin, "api");
  });
});

Deno.test("Handler.handle() asks when it is not told of changes", async (t) => {
  const refuse = (status: number) => (): ForwardedAnswer => ({
    ...API_ANSWER,
    status,
  });
  const rows: [string, () => ForwardedAnswer, number, string | null][] = [
    ["and answers what it hears", () => API_ANSWER, 200, "api"],
    ["also that there is none", refuse(404), 404, "api"],
    ["or what it knew if nobody answers", unreachable, 200, "cache"],
    ["or what it knew of a server in trouble", refuse(503), 200, "cache"],
  ];
  for (const [name, reply, status, origin] of rows) {
    await t.step(name, async () => {
      const definitions = memory("ns/n1", false);
      const scene = new Scene({ definitions }, reply);
      const answer = await scene.ask("GET", NAD, MAY);
      assertEquals([answer.status, answer.origin], [status, origin]);
      assertEquals(scene.timeouts, [700]);
    });
  }
});

function unreachable(): never {
  throw new KubeError("Get: refused", { status: 0 });
}

Deno.test("Handler.handle() forwards what is written, as it is", async () => {
  const scene = new Scene();
  const contentType = "application/merge-patch+json";
  const headers = { "content-type": contentType };
  const answer = await scene.ask("PATCH", `${POD}/status?x=1`, headers, "{}");
  assertEquals([answer.origin, answer.text], ["api", '{"by":"api"}']);
  assertEquals(scene.forwarded, [{
    method: "PATCH",
    path: `${POD}/status?x=1`,
    body: "{}",
    contentType,
  }]);
  assertEquals(scene.timeouts, [1400]);
});

Deno.test("Handler.handle() posts an event before it answers, if it can", async (t) => {
  const status = (status: number) => (): ForwardedAnswer => ({
    ...API_ANSWER,
    status,
  });
  // The API server's answer, the daemon's status, and its origin.
  const rows: [string, () => ForwardedAnswer, number, string | null][] = [
    ["posted", status(201), 201, "api"],
    ["refused", status(403), 403, "api"],
    ["there already", status(409), 409, "api"],
    ["refused for now", status(429), 202, "queue"],
    ["in trouble", status(500), 202, "queue"],
    ["out of reach", unreachable, 202, "queue"],
    ["refused with the daemon's credentials", status(401), 502, null],
  ];
  for (const [name, reply, expected, origin] of rows) {
    await t.step(name, async () => {
      const scene = new Scene({}, reply);
      const answer = await scene.ask("POST", EVENTS, {}, '{"a":1}');
      assertEquals([answer.status, answer.origin], [expected, origin]);
      assertEquals(scene.timeouts, [300]);
      const queued = scene.events.map(({ body }) => body);
      assertEquals(queued, origin === "queue" ? ['{"a":1}'] : []);
    });
  }
  await t.step("not while others wait", async () => {
    const queued: ApiRequest[] = [];
    const add = (event: ApiRequest): void => void queued.push(event);
    const scene = new Scene({ events: { add, size: 1 } });
    const answer = await scene.ask("POST", EVENTS, {}, '{"a":1}');
    assertEquals([answer.status, answer.origin], [202, "queue"]);
    assertEquals([queued.length, scene.forwarded], [1, []]);
  });
});

Deno.test("Handler.handle() passes on what the API server refuses", async () => {
  const scene = new Scene({}, () => ({
    status: 429,
    contentType: "text/plain",
    retryAfter: "4",
    text: "busy",
  }));
  const answer = await scene.ask("PATCH", `${POD}/status`, {}, "{}");
  assertEquals(answer, { status: 429, origin: "api", text: "busy" });
});

Deno.test("Handler.handle() says when it is of no use", async (t) => {
  const timeout = (): never => {
    throw new KubeError("Get: deadline", { status: 0, isTimeout: true });
  };
  const denied = (): ForwardedAnswer => ({ ...API_ANSWER, status: 401 });
  const broken = (): never => {
    throw new TypeError("a mistake");
  };
  const rows: [string, string, () => ForwardedAnswer, number][] = [
    ["nobody is there", POD, unreachable, 502],
    ["nobody answers", POD, timeout, 504],
    ["it is not let in", POD, denied, 502],
    ["it has a fault", POD, broken, 500],
    ["it is asked for secrets", "/api/v1/namespaces/ns/secrets/s", broken, 403],
    ["it is asked for anything", "/", broken, 403],
  ];
  for (const [name, path, reply, status] of rows) {
    await t.step(name, async () => {
      const answer = await new Scene({}, reply).ask("GET", path);
      assertEquals([answer.status, answer.origin], [status, null]);
      assert(answer.text.endsWith("\n"), answer.text);
    });
  }
  await t.step("it is sent too much", async () => {
    const length = { "content-length": String(4 * 2 ** 20) };
    const scene = new Scene();
    const answer = await scene.ask("PATCH", `${POD}/status`, length, "{}");
    assertEquals([answer.status, answer.origin], [413, null]);
    assertEquals(scene.forwarded, []);
  });
});

Deno.test("Handler.handle() tells how it is", async (t) => {
  const old = memory("", false);
  const rows: [string, Partial<HandlerOptions>, number, RegExp][] = [
    ["all is watched", {}, 200, /pods: watched, 1 remembered/],
    ["no node is known", { pods: undefined }, 200, /pods: no node is known/],
    ["pods are not", { pods: old }, 503, /pods: not watched/],
    ["definitions are not", { definitions: old }, 503, /tions: not watched/],
  ];
  for (const [name, options, status, text] of rows) {
    await t.step(name, async () => {
      const scene = new Scene(options);
      const ready = await scene.ask("GET", "/readyz");
      assertEquals(ready.status, status);
      assertMatch(ready.text, text);
      const health = await scene.ask("GET", "/healthz");
      assertEquals([health.status, health.text], [200, "ok\n"]);
    });
  }
});
