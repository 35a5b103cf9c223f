import { assert, assertEquals, assertRejects } from "@std/assert";
import { deadline, waitUntil } from "../../../../base/deadline.ts";
import { NetNs } from "../../../../ffi/netns.ts";
import { rootTest } from "../../../../testing/capabilities.ts";
import { TestHosts } from "../../../../testing/test_hosts.ts";
import { eventually } from "../../../../tests/_harness/eventually.ts";
import { eachRow } from "../../../../tests/_harness/table.ts";
import { execute, GivenUp, Overdue, runIptables } from "./program.ts";

/** Programs that do not end. Each one writes process IDs to a file. */
const HANGING = {
  "a program that is stopped": "echo $$ > pids; kill -STOP $$",
  "a script whose program hangs":
    "sleep 20 & echo $! > pids; echo $$ >> pids; wait",
  "a script that ends before its program": "sleep 20 & echo $! > pids",
} as const;

/** A program on a host, and what it has started. */
class Fixture implements Disposable {
  readonly #hosts = TestHosts.create();
  readonly netns = NetNs.open(this.#hosts.host.path);
  readonly directory = this.#hosts.directory;
  readonly path = `${this.#hosts.directory}/program`;

  constructor(script: string) {
    const text = `#!/bin/sh\ncd ${this.#hosts.directory}\n${script}\n`;
    Deno.writeTextFileSync(this.path, text, { mode: 0o755 });
  }

  /** Runs it, for 5 s at most. */
  async run(signal?: AbortSignal, limitSeconds = 0.5): Promise<string> {
    const { netns, path } = this;
    const running = execute(
      { netns, path, signal },
      "",
      [],
      "in",
      limitSeconds,
    );
    const ended = await waitUntil(running, deadline(5000));
    assert(ended, "it has not ended");
    return ended.stdout;
  }

  /** The names of the processes that still run. */
  listRunning(): string[] {
    const pids = Deno.readTextFileSync(`${this.#hosts.directory}/pids`);
    return pids.trim().split("\n").flatMap((pid) => {
      try {
        return Deno.readTextFileSync(`/proc/${pid}/cmdline`) || [];
      } catch {
        return [];
      }
    });
  }

  [Symbol.dispose](): void {
    this.netns[Symbol.dispose]();
    this.#hosts[Symbol.dispose]();
  }
}

rootTest("execute() kills a program at its time limit", async (t) => {
  await eachRow(t, Object.entries(HANGING), async ([, script]) => {
    using fixture = new Fixture(script);
    await assertRejects(
      () => fixture.run(new AbortController().signal),
      Overdue,
      `${fixture.path} did not end within 0.5 s`,
    );
    await eventually("all are dead", () => fixture.listRunning().length === 0);
  }, ([name]) => name);
});

rootTest("execute() kills a program when its call is cancelled", async () => {
  using fixture = new Fixture(HANGING["a script whose program hangs"]);
  const call = new AbortController();
  setTimeout(() => call.abort(), 300);
  await assertRejects(
    () => fixture.run(call.signal, 30),
    GivenUp,
    `${fixture.path} was killed: context canceled`,
  );
  await eventually("all are dead", () => fixture.listRunning().length === 0);
});

rootTest("iptables has a minute after its wait for the lock", async () => {
  using fixture = new Fixture('echo "$@" > args; exec sleep 600');
  const { netns, path, directory } = fixture;
  const { timeout } = AbortSignal;
  let waitedMs = 0;
  // Most of the time passes quickly.
  AbortSignal.timeout = (ms) => {
    waitedMs += ms;
    return timeout.call(AbortSignal, waitedMs < 79_000 ? 1 : ms);
  };
  try {
    const iptables = { netns, family: 4, table: "nat", path } as const;
    const error = await assertRejects(
      () => runIptables(iptables, ["-S"]),
      Overdue,
    );
    const args = await Deno.readTextFile(`${directory}/args`);
    const [, lockSeconds] = /^-w (\d+) /.exec(args) ?? [];
    const [, seconds] = /did not end within (\d+) s$/.exec(error.message) ?? [];
    assertEquals(Number(seconds) - Number(lockSeconds), 60);
  } finally {
    AbortSignal.timeout = timeout;
  }
});

rootTest(
  "execute() kills a program at its time limit in a single-call process",
  async () => {
    using fixture = new Fixture(HANGING["a program that is stopped"]);
    await assertRejects(() => fixture.run(), Overdue);
    assertEquals(fixture.listRunning(), []);
  },
);

rootTest(
  "execute() stops reading the output of an exited program",
  async () => {
    using fixture = new Fixture(
      HANGING["a script that ends before its program"],
    );
    await assertRejects(() => fixture.run(), Overdue);
  },
);

rootTest(
  "execute() keeps a program in the process group of a single call",
  async () => {
    const groupIn = (stat: string): string => stat.split(" ")[4] ?? "";
    const own = groupIn(await Deno.readTextFile("/proc/self/stat"));
    using fixture = new Fixture("cat /proc/$$/stat");
    assertEquals(groupIn(await fixture.run(undefined, 5)), own);
    const { signal } = new AbortController();
    assert(groupIn(await fixture.run(signal, 5)) !== own);
  },
);

rootTest("execute() runs an undo after a cancelled call", async () => {
  using fixture = new Fixture("cat");
  assertEquals(await fixture.run(AbortSignal.abort(), 5), "in");
});
