/** What a chain does when one of its plugins fails or is missing. */

import {
  assertEquals,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import type { DispatchInput } from "../../cni/call/context.ts";
import { dispatch } from "../../cni/skel.ts";
import type { Plugin } from "../../cni/plugin.ts";
import {
  type Answers,
  RecordingPlugins,
} from "../../tests/_harness/recording_plugins.ts";
import { ifPossible, isTaken } from "../../base/files/io.ts";
import { netConf } from "../../cni/config/types.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { createChain } from "./plugin.ts";

const FAIL = `echo '{"code":11,"msg":"no"}'; exit 1`;
const REFUSE = `echo '{"code":1,"msg":"which version?"}'; exit 1`;
const RESULT =
  `echo '{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.9/24"}]}'`;

/** A chain of scripts `a`, `b` and `c`. */
class Scene extends RecordingPlugins {
  readonly #plugin: Plugin;
  readonly #records = `${this.directory.path}/records`;
  /** Plugins that run in this process, by type. */
  readonly resident: Map<string, Plugin> = new Map();
  netns = "/run/netns/c1";
  plugins: readonly object[] = ["a", "b", "c"].map((type) => ({ type }));

  constructor() {
    super();
    this.add("a", { ADD: RESULT });
    this.add("b", { ADD: RESULT });
    this.add("c", { ADD: RESULT });
    this.#plugin = createChain(this.#records) as Plugin;
  }

  /** Runs a command; returns the calls that it made, and its error. */
  async run(
    command: string,
    keys: object = {},
    more: Pick<Partial<DispatchInput>, "signal" | "startedAt"> = {},
  ): Promise<{ story: string; error: Record<string, unknown> | undefined }> {
    const before = this.story.length;
    const { plugins } = this;
    const config = { cniVersion: "1.1.0", name: "net1", plugins, ...keys };
    const { exitCode, stdout, stderr } = await dispatch(this.#plugin, {
      env: {
        PATH: "/usr/bin:/bin",
        CNI_COMMAND: command,
        CNI_CONTAINERID: "c1",
        CNI_NETNS: this.netns,
        CNI_IFNAME: "eth0",
        CNI_PATH: this.directory.path,
        CNI_LOG_FILE: "stderr",
      },
      stdin: () => new TextEncoder().encode(JSON.stringify(config)),
      invoker: createInvoker(
        dispatch,
        (type) => Promise.resolve(this.resident.get(type) ?? this.#plugin),
      ),
      hostNetns: "/proc/thread-self/ns/net",
      // After all records.
      startedAt: new Date(Date.now() + 1000),
      ...more,
    });
    this.logged = stderr;
    const error = exitCode === 0 ? undefined : JSON.parse(stdout);
    return { story: this.story.slice(before).join(", "), error };
  }

  get records(): number {
    return ifPossible(() => [...Deno.readDirSync(this.#records)].length) ?? 0;
  }

  /** Makes the records end as after a crash. */
  tear(): void {
    for (const { name } of Deno.readDirSync(this.#records)) {
      Deno.writeTextFileSync(`${this.#records}/${name}`, '{"left":[', {
        append: true,
      });
    }
  }

  /** Changes what a plugin does. */
  change(type: string, answers: Answers = {}): void {
    this.remove(type);
    this.add(type, { ADD: RESULT, ...answers });
  }

  remove(type: string): void {
    Deno.removeSync(`${this.directory.path}/${type}`);
  }
}

Deno.test("a failed ADD is undone in reverse, and DEL runs no plugin", async () => {
  using scene = new Scene();
  scene.change("b", { ADD: FAIL });
  const { story, error } = await scene.run("ADD");
  assertEquals(story, "a ADD, b ADD, b DEL, a DEL");
  assertEquals(error, {
    cniVersion: "1.1.0",
    code: 11,
    msg: 'plugin type="b" failed (add): no',
  });
  const [{ stdin } = { stdin: {} }] = scene.calls.slice(-1);
  assertEquals(stdin.prevResult.ips, [{ address: "10.0.0.9/24" }]);
  assertEquals(await scene.run("DEL"), { story: "", error: undefined });
  assertEquals(scene.records, 0);
});

rootTest(
  "a killed first plugin is undone, unless the interface existed before",
  async (t) => {
    const rows = [
      [false, "a ADD, a DEL", ""],
      [true, "a ADD", "c DEL, b DEL, a DEL"],
    ] as const;
    await eachRow(t, rows, async ([isSecond, expected, deleted]) => {
      using hosts = TestHosts.create();
      using scene = new Scene();
      scene.netns = hosts.sandbox.path;
      if (isSecond) {
        const peer = ["type", "veth", "peer", "name", "peer"];
        runIn(hosts.sandbox, "ip", "link", "add", "eth0", ...peer);
      }
      scene.change("a", { ADD: "exec sleep 60" });
      const cut = new AbortController();
      const adding = scene.run("ADD", {}, { signal: cut.signal });
      await eventually("a runs", () => scene.story.length > 0);
      cut.abort(new Error("the caller disconnected"));
      const { story, error } = await adding;
      assertEquals([story, error === undefined], [expected, false]);
      assertEquals((await scene.run("DEL")).story, deleted);
      assertEquals(scene.records, 0);
    }, ([isSecond]) => isSecond ? "a second ADD" : "the first ADD");
  },
);

Deno.test("DEL skips a plugin that was missing at ADD, even if it exists later", async () => {
  using scene = new Scene();
  scene.remove("c");
  const { story, error } = await scene.run("ADD");
  assertEquals(story, "a ADD, b ADD, b DEL, a DEL");
  assertStringIncludes(String(error?.["msg"]), 'failed to find plugin "c"');
  assertEquals(error?.["details"], undefined);
  scene.add("c");
  assertEquals(await scene.run("DEL"), { story: "", error: undefined });
  assertEquals(await scene.run("DEL"), {
    story: "c DEL, b DEL, a DEL",
    error: undefined,
  });
});

Deno.test("DEL skips a plugin that ADD could not start or that refused the version", async () => {
  for (
    const prepare of [
      (scene: Scene): void =>
        Deno.writeTextFileSync(`${scene.directory.path}/b`, "?"),
      (scene: Scene): void => scene.change("b", { ADD: REFUSE, DEL: REFUSE }),
    ]
  ) {
    using scene = new Scene();
    prepare(scene);
    const { error } = await scene.run("ADD");
    assertEquals(error?.["details"], undefined);
    assertEquals(scene.story.at(-1), "a DEL");
    assertEquals(await scene.run("DEL"), { story: "", error: undefined });
  }
});

Deno.test("ADD names the plugin that it could not undo, and DEL retries it", async () => {
  using scene = new Scene();
  scene.change("b", { DEL: FAIL });
  scene.change("c", { ADD: FAIL });
  const { story, error } = await scene.run("ADD");
  assertEquals(story, "a ADD, b ADD, c ADD, c DEL, b DEL, a DEL");
  assertEquals(
    error?.["details"],
    'not undone: plugin type="b" failed (delete): no',
  );
  assertEquals((await scene.run("DEL")).error?.["code"], 11);
  scene.change("b");
  assertEquals(await scene.run("DEL"), {
    story: "b DEL, a DEL",
    error: undefined,
  });
  assertEquals(scene.records, 0);
});

Deno.test("DEL runs the other plugins if one fails, but keeps the addresses", async () => {
  using scene = new Scene();
  scene.plugins = [{ type: "a", ipam: { type: "x" } }, { type: "b" }, {
    type: "c",
  }];
  assertEquals((await scene.run("ADD")).error, undefined);
  assertEquals(scene.records, 0);
  scene.change("c", { DEL: FAIL });
  const first = await scene.run("DEL");
  assertEquals(first.story, "c DEL, b DEL");
  assertEquals(first.error?.["msg"], 'plugin type="c" failed (delete): no');
  assertEquals(scene.records, 1);
  scene.remove("c");
  assertEquals((await scene.run("DEL")).story, "b DEL");
  scene.add("c");
  assertEquals(await scene.run("DEL"), {
    story: "c DEL, b DEL, a DEL",
    error: undefined,
  });
  assertEquals(scene.records, 0);
});

Deno.test("ADD first removes what a failed ADD left behind", async () => {
  using scene = new Scene();
  scene.change("b", { DEL: FAIL });
  scene.change("c", { ADD: FAIL });
  await scene.run("ADD");
  assertStringIncludes(
    String((await scene.run("ADD")).error?.["msg"]),
    'plugin type="b" failed (delete): no',
  );
  scene.change("b");
  scene.change("c");
  assertEquals(await scene.run("ADD"), {
    story: "b DEL, a DEL, a ADD, b ADD, c ADD",
    error: undefined,
  });
  assertEquals(scene.records, 0);
});

Deno.test("GC retries a failed DEL of a stale attachment", async () => {
  using scene = new Scene();
  await scene.run("ADD");
  scene.change("b", { DEL: FAIL });
  await scene.run("DEL");
  const gc = async (
    ...valid: readonly object[]
  ): ReturnType<typeof scene.run> =>
    await scene.run("GC", { "cni.dev/valid-attachments": valid });
  const kept = await gc({ containerID: "c1", ifname: "eth0" });
  assertEquals(kept.story, "a GC, b GC, c GC");
  const again = await gc();
  assertEquals(again.story, "b DEL, a DEL, a GC, b GC, c GC");
  const failed =
    'failed to delete c1 eth0: plugin type="b" failed (delete): no';
  assertEquals(again.error?.["msg"], failed);
  scene.change("b");
  assertEquals(await gc(), {
    story: "b DEL, a DEL, a GC, b GC, c GC",
    error: undefined,
  });
  assertEquals([scene.records, scene.calls.at(-5)?.netns], [0, ""]);
});

Deno.test("GC keeps an attachment whose record is newer than the runtime's list", async () => {
  using scene = new Scene();
  await scene.run("ADD");
  scene.change("b", { DEL: FAIL });
  await scene.run("DEL");
  const gc = { "cni.dev/valid-attachments": [] };
  const { story } = await scene.run("GC", gc, { startedAt: new Date(0) });
  assertEquals(story, "a GC, b GC, c GC");
  for (const { stdin } of scene.calls.slice(-3)) {
    assertEquals(stdin["cni.dev/valid-attachments"], [
      { containerID: "c1", ifname: "eth0" },
    ]);
  }
});

Deno.test("GC names a record that cannot be read", async () => {
  using scene = new Scene();
  scene.change("a", { DEL: FAIL });
  await scene.run("ADD");
  await scene.run("DEL");
  scene.tear();
  const { story, error } = await scene.run("GC", {
    "cni.dev/valid-attachments": [],
  });
  assertEquals([story, error], ["a GC, b GC, c GC", undefined]);
  assertStringIncludes(scene.logged, "Leaving a record that cannot be read");
  scene.change("a");
  await scene.run("DEL");
  assertEquals(scene.records, 0);
});

Deno.test("GC keeps an attachment whose ADD is running", async (t) => {
  const gc = { "cni.dev/valid-attachments": [] };
  /** Makes ADD of `b` wait for a file. */
  const arrangements: Record<string, (scene: Scene, path: string) => void> = {
    "in a process": (scene, path) =>
      scene.change("b", {
        ADD: `until [ -e '${path}' ]; do sleep 0.05; done; ${RESULT}`,
      }),
    "in this process": (scene, path) => {
      scene.remove("b");
      scene.directory.addOwnExecutable("b");
      scene.resident.set("b", waitingPlugin(path));
    },
    "in a chain in the chain": (scene, path) => {
      scene.directory.addOwnExecutable("chain");
      scene.plugins = [{ type: "a" }, {
        type: "chain",
        plugins: [{ type: "b" }, { type: "c" }],
      }];
      scene.change("b", {
        ADD: `until [ -e '${path}' ]; do sleep 0.05; done; ${RESULT}`,
      });
    },
  };
  await eachRow(t, Object.entries(arrangements), async ([, arrange]) => {
    using scene = new Scene();
    const path = `${scene.directory.path}/go`;
    arrange(scene, path);
    const records = scene.plugins.length === 3 ? 1 : 2;
    const adding = scene.run("ADD");
    await eventually("b runs", () => scene.records === records);
    const { story, error } = await scene.run("GC", gc);
    assertEquals([error, story.includes("DEL")], [undefined, false], story);
    // Its plugins must keep it, too.
    const collected = scene.calls.filter(({ command }) => command === "GC");
    assertNotEquals(collected, []);
    for (const { stdin } of collected) {
      assertEquals(stdin["cni.dev/valid-attachments"], [
        { containerID: "c1", ifname: "eth0" },
      ]);
    }
    await Deno.writeTextFile(path, "");
    const added = await adding;
    assertEquals([added.error, added.story.includes("DEL")], [
      undefined,
      false,
    ]);
    assertEquals(scene.records, 0);
  });
});

/** Makes a plugin whose ADD waits for a file. */
function waitingPlugin(path: string): Plugin {
  const succeed = (): void => {};
  return {
    name: "b",
    versions: ["1.1.0"],
    configSchema: () => netConf({}),
    add: async () => {
      await eventually("ADD may go on", () => isTaken(path));
      return { document: { cniVersion: "1.1.0" } };
    },
    check: succeed,
    del: succeed,
    gc: succeed,
    status: succeed,
  };
}
