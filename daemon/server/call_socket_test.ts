import { assertEquals, assertMatch } from "@std/assert";
import { UnixStream } from "../../ffi/socket/unix_stream.ts";
import { encodeRequest } from "../../tests/_harness/call_format.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { MessageAt } from "../wire/call_format.ts";
import type { DeclineReason } from "./decline_reasons.ts";
import { ALIVE_MS, CallSocket, type CallSocketOptions } from "./call_socket.ts";
import { readOwnAttributes } from "./caller_check.ts";

const BUILD = "a build";
const HOST = "/proc/thread-self/ns/net";

/** Its calls run until the caller is gone. */
class Scene implements AsyncDisposable {
  readonly #directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly path = `${this.#directory}/daemon.sock`;
  readonly left: DeclineReason[] = [];
  begun = 0;
  /** The plugins of declined calls that wait for earlier ones. */
  readonly waiting: string[] = [];
  /** Ends the earlier ones, if there are any. */
  readonly earlier: PromiseWithResolvers<void> | undefined;
  readonly #socket: CallSocket;

  constructor(
    lookup: CallSocketOptions["lookup"] = () => Promise.resolve({} as Plugin),
    work: (poll: () => void) => void = () => {},
    { earlier, ...more }: Partial<CallSocketOptions> & Pick<Scene, "earlier"> =
      { earlier: undefined },
  ) {
    this.earlier = earlier;
    const own = readOwnAttributes(BUILD, HOST);
    this.#socket = new CallSocket({
      // The calls are not run.
      lookup,
      calls: {
        recordOffered(): void {},
        waitForEarlier: ({ plugin }) => {
          this.waiting.push(plugin.name);
          return earlier?.promise;
        },
        run: async ({ progress }) => {
          this.begun++;
          work(() => progress.isGivenUp());
          await new Promise<void>((resolve) =>
            progress.signal.addEventListener("abort", () => resolve())
          );
          throw new Error("nobody reads its outcome");
        },
        report(): void {},
      },
      own,
      readAttributes: () => ({ ...own, exe: "" }),
      log: { info(): void {}, warn(): void {} },
      onDeclined: (why) => this.left.push(why),
      ...more,
    });
    this.#socket.listen(this.path);
  }

  /** Offers a call. */
  offer(): UnixStream {
    const caller = UnixStream.connect(this.path);
    if (caller === undefined) throw new Error("nobody listens");
    caller.setLimit(60_000);
    const stdin = new TextEncoder().encode("{}");
    const env = { CNI_COMMAND: "ADD" };
    caller.send(encodeRequest({ build: BUILD, name: "ptp", env, stdin }));
    return caller;
  }

  async close(): Promise<void> {
    await this.#socket.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    Deno.removeSync(this.#directory, { recursive: true });
  }
}

/** Whether it has taken the call, when its caller stops waiting for that. */
function stopWaiting(caller: UnixStream): boolean {
  const message = new Uint8Array(MessageAt.bytes);
  return caller.stopReceiving(message) === MessageAt.bytes;
}

Deno.test("CallSocket does not start a call whose caller no longer waits", async () => {
  await using scene = new Scene();
  // It cannot see the request before this process waits for something.
  using caller = scene.offer();
  assertEquals(stopWaiting(caller), false);
  await eventually("it has looked at it", () => scene.left.length > 0);
  assertEquals([scene.begun, scene.left], [0, ["caller gone"]]);
});

Deno.test("CallSocket accepts a call before it starts it", async () => {
  await using scene = new Scene();
  using caller = scene.offer();
  await eventually("it has begun", () => scene.begun === 1);
  assertEquals(stopWaiting(caller), true);
  assertEquals(scene.left, []);
});

Deno.test("CallSocket drops a call that ends while its plugin is loaded", async () => {
  const { promise: plugin, resolve: load } = Promise.withResolvers<Plugin>();
  let isLookedUp = false;
  await using scene = new Scene(() => {
    isLookedUp = true;
    return plugin;
  });
  using caller = scene.offer();
  await eventually("it looks for the plugin", () => isLookedUp);
  await scene.close();
  load({} as Plugin);
  assertEquals(stopWaiting(caller), true);
  // All that follows from the plugin is done before any timer.
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals([scene.begun, scene.left], [0, ["the daemon ends"]]);
});

Deno.test("CallSocket responds to a started call, whatever fails", async () => {
  await using scene = new Scene(undefined, () => {
    throw new Error("on purpose");
  });
  using caller = scene.offer();
  let answer = "";
  await eventually("it has begun", () => scene.begun === 1);
  const buffer = new Uint8Array(4096);
  for (let length = -1; length !== 0;) {
    // What it sends next comes from this process, too.
    await new Promise((resolve) => setTimeout(resolve, 10));
    length = caller.receive(buffer);
    answer += new TextDecoder().decode(buffer.subarray(0, length));
  }
  assertEquals(scene.left, []);
  assertMatch(answer, /"code": 999,\s+"msg": "on purpose"/);
});

Deno.test("CallSocket sends signs of life even while its timers cannot run", async () => {
  const steps = 2;
  let received = 0;
  await using scene = new Scene(undefined, (poll) => {
    for (let step = 0; step < steps; step++) {
      const endMs = performance.now() + ALIVE_MS + 1;
      while (performance.now() < endMs);
      poll();
      poll();
    }
    received = caller.receive(new Uint8Array(4096));
  });
  using caller = scene.offer();
  await eventually("it has begun", () => scene.begun === 1);
  // That it has taken the call, and a sign of life after each step.
  assertEquals(received, (1 + steps) * MessageAt.bytes);
});

/** Why a call of a program that is not a plugin is declined. */
const declined: [DeclineReason, Partial<CallSocketOptions>][] = [
  ["unknown process", {
    readAttributes: () => {
      throw new Error("on purpose");
    },
  }],
  ["invalid shim call", {
    translate: () => Promise.resolve("invalid shim call"),
  }],
  ["call not prepared", {
    translate: () => Promise.reject(new Error("on purpose")),
  }],
  ["call not prepared", {
    lookup: () => {
      throw new Error("on purpose");
    },
  }],
];

Deno.test("CallSocket declines a call after earlier calls of the attachment have ended", async (t) => {
  await eachRow(t, declined, async ([why, more]) => {
    await using scene = new Scene(
      () => undefined,
      undefined,
      {
        ...more,
        earlier: Promise.withResolvers(),
        identify: ({ env, stdin }) => ({
          plugin: { name: "multus" },
          env,
          stdin,
        }),
      },
    );
    using caller = scene.offer();
    await eventually("it waits", () => scene.waiting.length > 0);
    // The caller is told to wait.
    assertEquals(stopWaiting(caller), true);
    assertEquals([scene.waiting, scene.left], [["multus"], []]);
    scene.earlier?.resolve();
    await eventually("it is declined", () => scene.left.length > 0);
    assertEquals([scene.left, scene.begun], [[why], 0]);
  });
});
