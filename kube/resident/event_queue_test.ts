import { assert, assertEquals } from "@std/assert";
import { KubeError } from "../kube_error.ts";
import type { Event } from "../types.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { EventQueue, type EventQueueOptions } from "./event_queue.ts";
import { testRows } from "../../tests/_harness/table.ts";

/** An event, identified by its message. */
function event(message: string): Event {
  return { metadata: {}, involvedObject: {}, message };
}

/** A queue that records its posted events. */
class Scene implements AsyncDisposable {
  readonly posted: string[] = [];
  readonly logged: string[] = [];
  readonly queue: EventQueue;
  readonly #controller = new AbortController();
  #running: Promise<void> = Promise.resolve();

  /** @param reply Returns the HTTP status of a response; 0 for none */
  constructor(
    reply: (message: string) => Promise<number> | number = () => 201,
    options: Partial<EventQueueOptions> = {},
  ) {
    const log = (message: string, fields: object = {}): void =>
      void this.logged.push(`${message} ${JSON.stringify(fields)}`);
    this.queue = new EventQueue({
      post: async ({ message = "" }) => {
        const status = await reply(message);
        this.posted.push(message);
        if (status !== 201) throw new KubeError(`${status}`, { status });
      },
      log: { info: log, warn: log },
      maxEvents: 3,
      ...options,
    });
  }

  add(...messages: string[]): void {
    for (const message of messages) this.queue.add(event(message));
  }

  run(): void {
    this.#running = this.queue.run(this.#controller.signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#controller.abort();
    await this.#running;
  }
}

function failOnce(status: number): () => number {
  let isFirst = true;
  return () => {
    if (!isFirst) return 201;
    isFirst = false;
    return status;
  };
}

Deno.test("EventQueue posts events in order", async () => {
  await using scene = new Scene();
  scene.add("a");
  scene.run();
  await eventually("it is posted", () => scene.queue.size === 0);
  scene.add("b", "c");
  await eventually("they are posted", () => scene.posted.length === 3);
  assertEquals([scene.posted, scene.logged], [["a", "b", "c"], []]);
});

Deno.test("EventQueue drops the oldest events, and logs that", async () => {
  await using scene = new Scene();
  scene.add("a", "b", "c", "d", "e");
  assertEquals(scene.queue.size, 3);
  assertEquals(scene.logged, ['Dropping events: the queue is full {"size":3}']);
  scene.run();
  await eventually("they are posted", () => scene.posted.length === 3);
  await eventually("it is logged", () => scene.logged.length === 2);
  assertEquals(scene.posted, ["c", "d", "e"]);
  assertEquals(scene.logged[1], 'Events were dropped {"count":2}');
});

testRows<[number, string[]]>("EventQueue retries temporary failures only", [
  [0, ["a", "a", "b"]],
  [429, ["a", "b", "a"]],
  [503, ["a", "b", "a"]],
  [403, ["a", "b"]],
  [409, ["a", "b"]],
], async ([status, posted]) => {
  await using scene = new Scene(failOnce(status));
  scene.add("a", "b");
  scene.run();
  await eventually("the queue is empty", () => scene.queue.size === 0);
  assertEquals(scene.posted, posted);
}, ([status]) => `status ${status}`);

Deno.test("EventQueue drops an event that is refused repeatedly", async () => {
  await using scene = new Scene(
    (message) => message === "bad" ? 500 : 201,
    { maxTries: 2 },
  );
  scene.add("bad", "b", "c");
  scene.run();
  await eventually("the queue is empty", () => scene.queue.size === 0);
  assertEquals(scene.posted, ["bad", "b", "c", "bad"]);
  assertEquals(scene.logged, ['Cannot post an event {"error":"500"}']);
});

Deno.test("EventQueue keeps the order if an event is dropped while it is posted", async () => {
  const { promise, resolve } = Promise.withResolvers<number>();
  await using scene = new Scene(
    (message) => message === "a" ? promise : 201,
    { maxEvents: 2 },
  );
  scene.add("a");
  scene.run();
  scene.add("b", "c", "d");
  resolve(201);
  await eventually("the queue is empty", () => scene.queue.size === 0);
  await eventually("in order", () => scene.posted.join("") === "acd");
});

Deno.test("EventQueue.run() stops immediately", async () => {
  const scene = new Scene(() => new Promise(() => {}));
  scene.add("a");
  scene.run();
  const startMs = performance.now();
  await scene[Symbol.asyncDispose]();
  assert(performance.now() - startMs < 30_000);
});

Deno.test("EventQueue.finish() posts events until its time limit", async (t) => {
  const never = (): Promise<number> => new Promise(() => {});
  const lost = ['Events are lost {"count":2}'];
  const rows: [
    string,
    () => Promise<number> | number,
    { withinMs?: number; posted: string[]; logged: string[] },
  ][] = [
    ["all", () => 201, { posted: ["a", "b"], logged: [] }],
    ["none", never, { withinMs: 20, posted: [], logged: lost }],
    ["each once", () => 503, { posted: ["a", "b"], logged: lost }],
    ["none after a failed one", () => 0, {
      posted: ["a"],
      logged: ['Cannot post an event {"error":"0"}', ...lost],
    }],
  ];
  for (const [name, reply, { withinMs = 60_000, ...expected }] of rows) {
    await t.step(name, async () => {
      const scene = new Scene(reply);
      scene.add("a", "b");
      await scene.queue.finish(withinMs);
      const { posted, logged } = scene;
      assertEquals({ posted, logged }, expected);
    });
  }
});
