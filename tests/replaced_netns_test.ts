/**
 * CNI_NETNS as a link that another thread turns from the container's namespace
 * to the host's and back, all the time: a call works in the one or refuses the
 * other.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { rootTest } from "../testing/capabilities.ts";
import { linkNames } from "../testing/ip_json.ts";
import { type CallOutput, TestHosts } from "../testing/test_hosts.ts";
import { needsBin, startPlugin } from "./_harness/executables.ts";
import { NodeDaemon } from "./_harness/node_daemon.ts";
import type { Keys } from "./_harness/plugin_scene.ts";

/** A thread that turns a link until it is disposed of. */
class TurningLink implements Disposable {
  readonly path: string;
  readonly #stop = new Int32Array(new SharedArrayBuffer(8));
  readonly #worker: Worker;

  constructor(directory: string, targets: readonly string[]) {
    this.path = `${directory}/netns`;
    Deno.symlinkSync(targets[0] ?? "", this.path);
    const code = `onmessage = ({ data: { path, targets, stop } }) => {
      while (Atomics.load(stop, 0) === 0) {
        for (const target of targets) {
          Deno.symlinkSync(target, path + ".new");
          Deno.renameSync(path + ".new", path);
          // Another processor stays free for the call.
          Atomics.wait(stop, 0, 0, 0.05);
        }
      }
      Atomics.store(stop, 1, 1);
      Atomics.notify(stop, 1);
    };`;
    const url = `data:text/javascript,${encodeURIComponent(code)}`;
    this.#worker = new Worker(url, { type: "module" });
    this.#worker.postMessage({ path: this.path, targets, stop: this.#stop });
  }

  [Symbol.dispose](): void {
    Atomics.store(this.#stop, 0, 1);
    Atomics.wait(this.#stop, 1, 0);
    this.#worker.terminate();
  }
}

/** How many attachments are tried, in this process and by others: two calls each, or three. */
const ATTACHMENTS = 110, BY_PROCESS = 40;

/** Runs a command of a plugin. */
type Run = (
  command: string,
  env: Record<string, string>,
) => Promise<Pick<CallOutput, "exitCode" | "stdout">>;

/** Attaches and detaches by a path that turns. */
async function attachByTurningPath(
  hosts: TestHosts,
  run: Run,
  attachments = ATTACHMENTS,
): Promise<void> {
  const { host, sandbox, directory } = hosts;
  using link = new TurningLink(directory, [sandbox.path, host.path]);
  const turning = { CNI_NETNS: link.path };
  let attached = 0;
  for (let count = 0; count < attachments; count++) {
    const added = await run("ADD", turning);
    assert(!linkNames(host).includes("eth0"), "the host has the interface");
    const isThere = linkNames(sandbox).includes("eth0");
    if (added.exitCode !== 0) {
      assertMatch(added.stdout, /"code": ?8,/);
      // As runtimes do; a list keeps what its first plugins have made.
      await run("DEL", {});
      continue;
    }
    assert(isThere, "ADD has succeeded without an interface");
    attached++;
    const deleted = await run("DEL", turning);
    if (deleted.exitCode === 0) assertEquals(linkNames(sandbox), ["lo"]);
    else await run("DEL", {});
    assertEquals(linkNames(sandbox), ["lo"]);
  }
  assert(attached > 0 && attached < attachments, `${attached} were attached`);
  assertEquals(hosts.leases(), []);
}

function ptpOf(hosts: TestHosts): Keys {
  const ipam = hosts.hostLocal("10.1.2.0/24");
  return { cniVersion: "1.0.0", name: "net1", type: "ptp", ipam };
}

/** Plugins that work in the sandbox. */
const ROWS: Readonly<Record<string, (hosts: TestHosts) => Keys>> = {
  "ptp": ptpOf,
  "bridge": (hosts) => ({ ...ptpOf(hosts), type: "bridge", bridge: "br0" }),
  "tap": (hosts) => ({ ...ptpOf(hosts), type: "tap" }),
  "chain": (hosts) => ({
    ...ptpOf(hosts),
    type: "chain",
    ipam: undefined,
    plugins: [ptpOf(hosts), { type: "tuning", mtu: 1400 }],
  }),
};

for (const [type, configOf] of Object.entries(ROWS)) {
  rootTest(
    `${type} changes nothing in a namespace that replaces the sandbox`,
    async () => {
      using hosts = TestHosts.create();
      const config = configOf(hosts);
      await attachByTurningPath(
        hosts,
        (command, env) => hosts.run(type, command, config, { env }),
      );
    },
  );
}

rootTest(
  "an executable changes nothing in a namespace that replaces the sandbox",
  needsBin,
  async () => {
    using hosts = TestHosts.create();
    const config = ptpOf(hosts);
    await attachByTurningPath(hosts, async (command, keys) => {
      const call = { type: "ptp", command, config };
      const env = { ...keys, CNI_NO_DAEMON: "1" };
      const { code, stdout } = await startPlugin(hosts, call, { env }).output;
      return { exitCode: code === 0 ? 0 : 1, stdout };
    }, BY_PROCESS);
  },
);

rootTest(
  "a daemon changes nothing in a namespace that replaces the sandbox",
  needsBin,
  async () => {
    using hosts = TestHosts.create();
    await using daemon = await NodeDaemon.start(hosts);
    const config = ptpOf(hosts);
    await attachByTurningPath(hosts, async (command, env) => {
      const call = daemon.call("ptp", command, { config, env });
      const { code, stdout } = await call.output;
      return { exitCode: code === 0 ? 0 : 1, stdout };
    }, BY_PROCESS);
    assert(
      (await daemon.story()).some((line) => line === "ptp ADD 0"),
      daemon.log,
    );
  },
);
