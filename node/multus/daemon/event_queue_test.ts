import { assert, assertEquals } from "@std/assert";
import type { ApiRequest } from "../../../kube/request.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import { EventQueue, type EventQueueOptions } from "./event_queue.ts";
import type { ForwardedAnswer } from "./forwarder.ts";

/** An event, identified by its body. */
function event(body: string): ApiRequest {
  return { method: "POST", path: "/events", body };
}

function answer(status: number): ForwardedAnswer {
  const text = `{"code":${status}}`;
  return { status, contentType: "", retryAfter: null, text };
}

/** A queue that records its posted events. */
class Scene implements AsyncDisposable {
  readonly posted: string[] = [];
  readonly logged: string[] = [];
  readonly queue: EventQueue;
  readonly #controller = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(
    reply: (body: string) => Promise<ForwardedAnswer> | ForwardedAnswer,
    options: Partial<EventQueueOptions> = {},
  ) {
    const log = (message: string, fields: object = {}): void =>
      void this.logged.push(`${message} ${JSON.stringify(fields)}`);
    this.queue = new EventQueue({
      forward: async ({ body = "" }) => {
        const answered = await reply(body);
        this.posted.push(body);
        return answered;
      },
      log: { info: log, warn: log },
      maxEvents: 3,
      ...options,
    });
  }

  run(): void {
    this.#running = this.queue.run(this.#controller.signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#controller.abort();
    await this.#running;
  }
}

Deno.test("EventQueue posts events in their order", async () => {
  await using scene = new Scene(() => answer(201));
  scene.queue.add(event("a"));
  scene.run();
  await eventually("it is posted", () => scene.queue.size === 0);
  scene.queue.add(event("b"));
  scene.queue.add(event("c"));
  await eventually("they are posted", () => scene.posted.length === 3);
  assertEquals([scene.posted, scene.logged], [["a", "b", "c"], []]);
});

Deno.test("EventQueue gives up the oldest events, and says so", async () => {
  await using scene = new Scene(() => answer(201));
  for (const body of ["a", "b", "c", "d", "e"]) scene.queue.add(event(body));
  assertEquals(scene.queue.size, 3);
  assertEquals(scene.logged, [
    'Events are dropped: too many wait {"waiting":3}',
  ]);
  scene.run();
  await eventually("they are posted", () => scene.posted.length === 3);
  await eventually("it is told", () => scene.logged.length === 2);
  assertEquals(scene.posted, ["c", "d", "e"]);
  assertEquals(scene.logged[1], 'Events were dropped {"count":2}');
});

Deno.test("EventQueue tries again what may pass, and nothing else", async (t) => {
  const rows: [string, () => ForwardedAnswer, string[]][] = [
    [
      "no answer",
      failOnce(() => {
        throw new Error("refused");
      }),
      ["a", "b"],
    ],
    ["429", failOnce(() => answer(429)), ["a", "b", "a"]],
    ["503", failOnce(() => answer(503)), ["a", "b", "a"]],
    ["403", failOnce(() => answer(403)), ["a", "b"]],
    ["409", failOnce(() => answer(409)), ["a", "b"]],
  ];
  for (const [name, reply, posted] of rows) {
    await t.step(name, async () => {
      await using scene = new Scene(reply);
      scene.queue.add(event("a"));
      scene.queue.add(event("b"));
      scene.run();
      await eventually("all is dealt with", () => scene.queue.size === 0);
      assertEquals(scene.posted, posted);
    });
  }
});

Deno.test("EventQueue lets no event hold up others, and gives it up in the end", async () => {
  await using scene = new Scene(
    (body) => answer(body === "bad" ? 500 : 201),
    { maxTries: 2 },
  );
  for (const body of ["bad", "b", "c"]) scene.queue.add(event(body));
  scene.run();
  await eventually("all is dealt with", () => scene.queue.size === 0);
  assertEquals(scene.posted, ["bad", "b", "c", "bad"]);
  assertEquals(scene.logged, [
    'The API server does not take an event {"status":500,"text":"{\\"code\\":500}"}',
  ]);
});

function failOnce(fail: () => ForwardedAnswer): () => ForwardedAnswer {
  let isFirst = true;
  return () => {
    if (!isFirst) return answer(201);
    isFirst = false;
    return fail();
  };
}

Deno.test("EventQueue keeps an event in its place that others push out meanwhile", async () => {
  const { promise, resolve } = Promise.withResolvers<ForwardedAnswer>();
  await using scene = new Scene(
    (body) => body === "a" ? promise : answer(201),
    { maxEvents: 2 },
  );
  scene.queue.add(event("a"));
  scene.run();
  for (const body of ["b", "c", "d"]) scene.queue.add(event(body));
  resolve(answer(201));
  await eventually("all is posted", () => scene.queue.size === 0);
  await eventually("in order", () => scene.posted.join("") === "acd");
});

Deno.test("EventQueue.run() ends at once", async () => {
  const scene = new Scene(() => new Promise(() => {}));
  scene.queue.add(event("a"));
  scene.run();
  const startMs = performance.now();
  await scene[Symbol.asyncDispose]();
  assert(performance.now() - startMs < 1000);
});

Deno.test("EventQueue.finish() posts what it can in the time that it has", async (t) => {
  await t.step("all", async () => {
    const scene = new Scene(() => answer(201));
    scene.queue.add(event("a"));
    scene.queue.add(event("b"));
    await scene.queue.finish(60_000);
    assertEquals([scene.posted, scene.logged], [["a", "b"], []]);
  });
  await t.step("nothing", async () => {
    const scene = new Scene(() => new Promise(() => {}));
    scene.queue.add(event("a"));
    scene.queue.add(event("b"));
    await scene.queue.finish(20);
    assertEquals(scene.logged, ['Events are lost {"count":2}']);
  });
  await t.step("each once", async () => {
    const scene = new Scene(() => answer(503));
    scene.queue.add(event("a"));
    scene.queue.add(event("b"));
    await scene.queue.finish(60_000);
    assertEquals(scene.posted, ["a", "b"]);
    assertEquals(scene.logged, ['Events are lost {"count":2}']);
  });
  await t.step("no more once there is no answer", async () => {
    let tries = 0;
    const scene = new Scene(() => {
      tries++;
      throw new Error("refused");
    });
    scene.queue.add(event("a"));
    scene.queue.add(event("b"));
    await scene.queue.finish(60_000);
    assertEquals(tries, 1);
  });
});
