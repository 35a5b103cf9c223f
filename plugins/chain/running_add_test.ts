// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { CniError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { readIfLocked } from "../../base/files/lock.ts";
import { createLog } from "../../base/log/log.ts";
import { decodePluginConfs } from "../../libcni/conf.ts";
import { readRecord, type Recorded, recordPathOf } from "./record.ts";
import {
  findLeft,
  findUnused,
  Left,
  RunningAdd,
  sweepEmpty,
} from "./running_add.ts";

Deno.test("recordPathOf() depends on the plugins, but not on the case of keys", () => {
  using scene = new Scene();
  const pathWith = (inner: object): string => {
    const plugins = decodePluginConfs([{ type: "chain", ...inner }]);
    return recordPathOf({ ...scene.recorded, plugins });
  };
  const [one, same, other] = [
    { plugins: [{ type: "a" }] },
    { Plugins: [{ Type: "a" }] },
    { Plugins: [{ Type: "b" }] },
  ].map(pathWith);
  assertEquals(same, one);
  assert(other !== one);
});

/** An attachment, the directory with its records, and its log. */
class Scene implements Disposable {
  readonly directory: string = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly logs: string[] = [];
  readonly recorded: Recorded & { readonly directory: string } = {
    network: "net1",
    args: {
      containerId: "c1",
      netns: "/run/netns/c1",
      ifName: "eth0",
      args: "A=1",
      path: "/opt/cni/bin",
    } as Recorded["args"],
    stdin: new TextEncoder().encode("{}"),
    log: createLog({}, (text) => this.logs.push(text)),
    signal: undefined,
    plugins: decodePluginConfs([{ type: "a" }, { type: "b" }]),
    directory: `${this.directory}/records`,
  };

  get records(): string[] {
    const { directory } = this.recorded;
    const entries = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
    return entries.map(({ name }) => `${directory}/${name}`);
  }

  begin(changes: Partial<Recorded> = {}): RunningAdd {
    const running = RunningAdd.begin({ ...this.recorded, ...changes });
    assert(running !== undefined, "there is a record");
    return running;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.directory, { recursive: true });
  }
}

Deno.test("RunningAdd records each step, and removes the record when it is done", () => {
  using scene = new Scene();
  {
    using add = scene.begin();
    add.steps.begin(0, undefined);
    add.steps.begin(1, { ips: [] });
    const [path = ""] = scene.records;
    assertEquals(readRecord(path), {
      input: {
        network: "net1",
        env: {
          CNI_CONTAINERID: "c1",
          CNI_NETNS: "/run/netns/c1",
          CNI_IFNAME: "eth0",
          CNI_ARGS: "A=1",
          CNI_PATH: "/opt/cni/bin",
        },
        config: "{}",
      },
      state: { left: [0, 1], open: 1, result: { ips: [] } },
    });
    assertEquals((Deno.statSync(path).mode ?? 0) & 0o777, 0o600);
    assertEquals(RunningAdd.begin(scene.recorded), undefined);
    const plugins = decodePluginConfs([{ type: "a" }]);
    using _chainInIt = scene.begin({ plugins });
    using _another = scene.begin({
      args: { ...scene.recorded.args, ifName: "eth1" },
    });
    assertEquals(scene.records.length, 3);
    add.finish();
  }
  assertEquals([scene.records.length, scene.logs], [2, []]);
});

Deno.test("findLeft() returns the steps of a failed ADD until they are undone", async () => {
  using scene = new Scene();
  {
    using add = scene.begin();
    add.steps.begin(0, undefined);
    add.steps.begin(1, { ips: [] });
    add.steps.end(1);
  }
  {
    using left = await findLeft(scene.recorded, "delete");
    assertEquals([0, 1].map((at) => left?.steps.isLeft(at)), [true, false]);
    assertEquals(left?.steps.result, { ips: [] });
    left?.steps.end(0);
  }
  using left = await findLeft(scene.recorded, "delete");
  assertEquals(left?.steps.isEmpty, true);
  left?.remove();
  assertEquals(scene.records, []);
});

Deno.test("Left without a record writes nothing before a failure", () => {
  using scene = new Scene();
  using left = new Left(scene.recorded, undefined);
  left.steps.end(1);
  assertEquals(scene.records, []);
  left.steps.keep();
  const [path = ""] = scene.records;
  assertEquals(readRecord(path)?.state, { left: [0] });
});

const LOST = [["damaged", '{"left":['], ["empty", ""]] as const;

for (const [what, text] of LOST) {
  Deno.test(`a record that is ${what} is ignored, and a failed DEL replaces it`, async () => {
    using scene = new Scene();
    scene.begin()[Symbol.dispose]();
    const [path = ""] = scene.records;
    Deno.writeTextFileSync(path, text);
    {
      using left = await findLeft(scene.recorded, "delete");
      assertEquals([0, 1].map((at) => left?.steps.isLeft(at)), [true, true]);
      left?.steps.end(1);
      left?.steps.keep();
    }
    const { state, input } = readRecord(path) ?? {};
    assertEquals([state, input?.network], [{ left: [0] }, "net1"]);
    const { size } = Deno.statSync(path);
    using left = await findLeft(scene.recorded, "delete");
    // The file does not grow with each DEL that fails.
    left?.steps.keep();
    assertEquals(Deno.statSync(path).size, size);
  });
}

Deno.test("sweepEmpty() removes old files without a record", () => {
  using scene = new Scene();
  const { directory } = scene.recorded;
  sweepEmpty(directory);
  using add = scene.begin();
  add.steps.begin(0, undefined);
  const [kept] = scene.records;
  for (const name of ["dead", "young"]) {
    Deno.writeTextFileSync(`${directory}/${name}`, "");
  }
  Deno.utimeSync(`${directory}/dead`, 0, 0);
  sweepEmpty(directory);
  const young = `${directory}/young`;
  assertEquals(scene.records.toSorted(), [kept, young].toSorted());
});

Deno.test("findLeft() waits for a process that outlives RunningAdd", async () => {
  using scene = new Scene();
  const add = scene.begin();
  const starter = await add.lock() ?? ((start) => start());
  // Another call's process, which must not matter.
  await using other = new Deno.Command("sleep", { args: ["100"] }).spawn();
  await using child = starter(() =>
    new Deno.Command("sleep", { args: ["0.5"] }).spawn()
  );
  // Keeps the file, as if this process had been killed.
  add[Symbol.dispose]();
  const startMs = performance.now();
  using left = await findLeft(scene.recorded, "delete");
  assert(performance.now() - startMs > 300, "it did not wait");
  await child.status;
  other.kill();
  left?.remove();
  assertEquals([scene.records, scene.logs], [[], []]);
});

Deno.test("RunningAdd waits for a reader before it locks its record", async () => {
  using scene = new Scene();
  using add = scene.begin();
  const [path = ""] = scene.records;
  const look = Deno.openSync(path);
  look.lockSync(false);
  const begun = add.begun();
  setTimeout(() => look.close(), 50);
  await begun;
  add.steps.begin(0, undefined);
  assert(readIfLocked(path) !== "", "it is not locked");
});

Deno.test("findUnused() reports why an attachment is kept", () => {
  using scene = new Scene();
  const since = new Date(0);
  {
    using add = scene.begin();
    add.steps.begin(0, undefined);
    assertEquals(findUnused(scene.recorded, since), "in use");
  }
  assertEquals(findUnused(scene.recorded, since), "changed");
  for (const path of scene.records) Deno.removeSync(path);
  assertEquals(findUnused(scene.recorded, since), "gone");
});

Deno.test("findLeft() stops at the call's signal, and keeps the record", async () => {
  using scene = new Scene();
  const { recorded } = scene;
  assertEquals(await findLeft(recorded, "delete"), undefined);
  {
    using add = scene.begin();
    await add.lock();
    for (const action of ["delete", "add"] as const) {
      const signal = AbortSignal.timeout(50);
      const { code } = await assertRejects(
        () => findLeft({ ...recorded, signal }, action),
        CniError,
        `Cannot ${action}: an earlier ADD, or a plugin that it started, is still running`,
      );
      assertEquals([code, scene.records.length], [11, 1]);
    }
    add.finish();
  }
  assertEquals([scene.records, scene.logs], [[], []]);
});

Deno.test("RunningAdd continues if it cannot write a record", async () => {
  using scene = new Scene();
  const recorded = { ...scene.recorded, directory: "/proc/records" };
  using add = RunningAdd.begin(recorded);
  add?.steps.begin(0, undefined);
  assertEquals(await add?.lock(), undefined);
  assertEquals(add?.steps.isLeft(0), true);
  assertEquals(scene.logs.length, 1);
  assertMatch(
    scene.logs.join(),
    /^level=warn msg="Continuing without a record"/,
  );
  assertEquals(await findLeft(recorded, "delete"), undefined);
});

Deno.test("DEL continues if a record cannot be opened", async () => {
  using scene = new Scene();
  let path = "";
  {
    using add = scene.begin();
    [path = ""] = scene.records;
    add.finish();
  }
  Deno.symlinkSync(path, path);
  assertEquals(RunningAdd.begin(scene.recorded), undefined);
  assertEquals(await findLeft(scene.recorded, "delete"), undefined);
  const [log = ""] = scene.logs;
  assertEquals(scene.logs.length, 1);
  assertMatch(
    log,
    /^level=warn msg="Continuing without a record" .*(?:ELOOP|symbolic links)/,
  );
  assertStringIncludes(log, `path=${path} `);
});
