/**
 * The `cni` tool on a node with a node daemon, which runs the plugins as it does
 * for a container runtime.
 *
 * @module
 */

import { assertEquals, assertMatch } from "@std/assert";
import { rootTest } from "../testing/capabilities.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { eventually } from "./_harness/eventually.ts";
import { needsBin } from "./_harness/executables.ts";
import { NodeDaemon } from "./_harness/node_daemon.ts";
import { eachRow } from "./_harness/table.ts";
import { ToolHost } from "./_harness/tool_host.ts";

/** An address of its own: results are the same each time. */
const STATIC = { type: "static", addresses: [{ address: "10.1.2.3/24" }] };

/** Notes its calls in /run/calls, and never answers to ADD. */
const HANG = `echo "$CNI_COMMAND" >> /run/calls
[ "$CNI_COMMAND" != ADD ] || exec sleep 100`;

/** A node with a daemon, and the namespace `blue`. */
class Scene implements AsyncDisposable {
  readonly #stack: AsyncDisposableStack;
  readonly host: ToolHost;
  readonly daemon: NodeDaemon;

  private constructor(
    host: ToolHost,
    daemon: NodeDaemon,
    stack: AsyncDisposableStack,
  ) {
    this.host = host;
    this.daemon = daemon;
    this.#stack = stack;
  }

  static async start(socketDir: string): Promise<Scene> {
    await using stack = new AsyncDisposableStack();
    const host = stack.use(await ToolHost.create());
    const hosts = stack.use(TestHosts.create());
    const options = { wrapper: host.enter, socketDir };
    const daemon = stack.use(await NodeDaemon.start(hosts, options));
    const scene = new Scene(host, daemon, stack.move());
    await scene.succeed("netns add blue");
    return scene;
  }

  /** Runs the tool, which must succeed, and returns what it printed. */
  async succeed(line: string): Promise<string> {
    const { code, stdout, stderr } = await this.host.cni(line);
    assertEquals([code, stderr], [0, ""], line);
    return stdout;
  }

  /** Runs work; returns what the daemon ran during that time. */
  async ranDuring(work: () => Promise<unknown>): Promise<string[]> {
    const before = (await this.daemon.story()).length;
    await work();
    return (await this.daemon.story()).slice(before);
  }

  /** Reads a file or several, by a pattern. */
  async read(pattern: string): Promise<string> {
    return (await this.host.run(["sh", "-c", `cat ${pattern}`])).stdout;
  }

  /** Lists the node's interfaces. */
  async links(): Promise<string> {
    return (await this.host.run(["ls", "/sys/class/net"])).stdout;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** Registers a test on a node with a daemon at the default socket. */
function onNode(
  name: string,
  test: (scene: Scene, t: Deno.TestContext) => Promise<void>,
  socketDir = "/run/cni",
): void {
  rootTest(name, needsBin, async (t) => {
    await using scene = await Scene.start(socketDir);
    await test(scene, t);
  });
}

/** Leaves out what is random. */
function withoutMacs(text: string): string {
  return text.replace(/(?:[0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC");
}

onNode("cni has the node daemon run the plugins", async (scene, t) => {
  const { host } = scene;
  host.addNetwork("pods", [{ type: "ptp", ipam: STATIC }]);
  await t.step("of each command", async () => {
    const ran = await scene.ranDuring(async () => {
      await scene.succeed("add pods blue");
      await scene.succeed("check pods blue");
      await scene.succeed("status pods");
      await scene.succeed("del pods blue");
      await scene.succeed("gc pods --all");
    });
    assertEquals(ran, [
      "ptp ADD 0",
      "ptp CHECK 0",
      "ptp STATUS 0",
      "ptp DEL 0",
      "ptp GC 0",
    ]);
  });
  await t.step("of cnitool", async () => {
    const ran = await scene.ranDuring(async () => {
      for (const verb of ["add", "check", "del"]) {
        const ended = await host.cnitool(verb, "pods", "/run/netns/blue");
        assertEquals([ended.code, ended.stderr], [0, ""]);
      }
    });
    assertEquals(ran, ["ptp ADD 0", "ptp CHECK 0", "ptp DEL 0"]);
  });
  await t.step(
    "with the result and the cache of plugins that run locally",
    async () => {
      const attach = async (flags: string): Promise<string[]> => {
        const result = await scene.succeed(`add pods blue${flags}`);
        const cache = await scene.read("/var/lib/cni/results/*");
        await scene.succeed(`del pods blue${flags}`);
        return [result, cache].map(withoutMacs);
      };
      const [result, cache] = await attach("");
      assertMatch(result ?? "", /"10\.1\.2\.3\/24"/);
      assertEquals(await attach(" --no-daemon"), [result, cache]);
    },
  );
});

onNode("cni runs the plugins here if it is told so", async (scene, t) => {
  const { host } = scene;
  const plugin = { type: "ptp", ipam: STATIC };
  host.addNetwork("pods", [plugin]);
  host.addNetwork("alone", [{ ...plugin, daemonSocket: "" }]);
  const commands = async (network: string, flags = ""): Promise<void> => {
    await scene.succeed(`add ${network} blue${flags}`);
    await scene.succeed(`check ${network} blue${flags}`);
    await scene.succeed(`del ${network} blue${flags}`);
  };
  const rows: Record<string, () => Promise<unknown>> = {
    "by --no-daemon": () => commands("pods", " --no-daemon"),
    "by the network": () => commands("alone"),
    "by the environment": async () => {
      host.env["CNI_NO_DAEMON"] = "1";
      await commands("pods");
      delete host.env["CNI_NO_DAEMON"];
    },
    "by --no-daemon of cnitool": async () => {
      for (const verb of ["add", "del"]) {
        const line = [verb, "pods", "/run/netns/blue", "--no-daemon"];
        assertEquals((await host.cnitool(...line)).code, 0);
      }
    },
    "to trace them": () => host.cni("trace pods blue --del"),
  };
  await eachRow(t, Object.entries(rows), async ([, work]) => {
    assertEquals(await scene.ranDuring(work), []);
  }, ([name]) => name);
});

onNode("cni asks the daemon that the network names", async (scene) => {
  const { socket } = scene.daemon;
  const plugin = { type: "ptp", ipam: STATIC, daemonSocket: socket };
  scene.host.addNetwork("pods", [plugin]);
  const ran = await scene.ranDuring(async () => {
    await scene.succeed("add pods blue");
    await scene.succeed("del pods blue");
  });
  assertEquals(ran, ["ptp ADD 0", "ptp DEL 0"]);
}, "/run/other");

onNode("cni ends the daemon's call, and undoes it", async (scene, t) => {
  const { host, daemon } = scene;
  host.addPlugin("hang", HANG);
  host.addNetwork("hang", [{ type: "ptp", ipam: { type: "hang" } }]);
  const links = await scene.links();
  let steps = 0;
  /** The call of the tool has ended, and then its DEL. */
  const assertUndone = async (): Promise<void> => {
    steps++;
    await eventually(
      `the daemon has ended both calls: ${daemon.log}`,
      async () => (await daemon.story()).length === 2 * steps,
    );
    const story = await daemon.story();
    assertEquals(story.slice(-2), ["ptp ADD 11", "ptp DEL 0"]);
    assertMatch(await scene.read("/run/calls"), /^ADD\n(DEL\n)+$/);
    assertEquals(await scene.links(), links);
    await host.run(["rm", "/run/calls"]);
  };
  await t.step("at the time limit", async () => {
    const { code, stderr } = await host.cni("add hang blue --timeout 2s");
    assertEquals(code, 1);
    assertMatch(
      stderr,
      /\/ptp was killed after \d+ ms: the deadline has passed\nUndoing ADD/,
    );
    await assertUndone();
  });
  const signals: [Deno.Signal, number][] = [["SIGINT", 130], ["SIGTERM", 143]];
  await eachRow(t, signals, async ([signal, code]) => {
    const child = host.start("add hang blue");
    await eventually(
      "the plugin was called",
      async () => await scene.read("/run/calls") === "ADD\n",
    );
    child.kill(signal);
    const output = await child.output();
    assertEquals(output.code, code);
    await assertUndone();
  }, ([signal]) => `on ${signal}`);
});
