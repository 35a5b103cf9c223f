/**
 * This project's cnitool compared with the Go program, in one cache: what one
 * attaches the other checks and detaches.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path/posix";
import { actingRules } from "../tests/_harness/acting_rules.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  isExecutable,
  rootTest,
} from "../testing/capabilities.ts";
import { execIn, type ExecOutput } from "../testing/exec_in.ts";
import { BIN, needsBin } from "../tests/_harness/executables.ts";
import { stockOf } from "../testing/ip_json.ts";
import { hostLimits, WIDE } from "../plugins/bandwidth/testing/limited_pair.ts";
import { listPeers } from "../tests/_harness/parity.ts";
import { NEWEST_DIRECTORY } from "../tests/_harness/peers.ts";
import { TestHosts } from "../testing/test_hosts.ts";

const needsTools = ignoreUnless(
  ["unshare", "mount", "nft", "tc"].every(hasCommand),
  "needs unshare, mount, nft and tc",
);

/** A host, and a directory in place of /var/lib, where both tools keep the cache. */
class ToolScene implements Disposable {
  readonly hosts: TestHosts = TestHosts.create();
  readonly #confDirectory = `${this.hosts.directory}/net.d`;
  readonly #varLib = `${this.hosts.directory}/lib`;

  constructor() {
    for (const directory of [this.#confDirectory, this.#varLib]) {
      Deno.mkdirSync(directory);
    }
    const routes = [{ dst: "0.0.0.0/0" }];
    const ipam = { ...this.hosts.hostLocal("10.1.2.0/24"), routes };
    const plugins = [{ type: "ptp", ipam }, { type: "bandwidth", ...WIDE }];
    const list = { cniVersion: "1.0.0", name: "net1", plugins };
    const path = `${this.#confDirectory}/net1.conflist`;
    Deno.writeTextFileSync(path, JSON.stringify(list));
  }

  /** Runs the cnitool of a directory, with the plugins there. */
  run(directory: string, command: string): ExecOutput {
    const { host, sandbox } = this.hosts;
    const script = 'mount --bind "$0" /var/lib; exec "$@"';
    const tool = [join(directory, "cnitool"), command, "net1", sandbox.path];
    const inside = ["sh", "-ec", script, this.#varLib, ...tool];
    return execIn(host, {
      path: "unshare",
      args: ["--mount", "--propagation", "private", ...inside],
      env: {
        PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
        CNI_PATH: directory,
        NETCONFPATH: this.#confDirectory,
      },
      stdin: "",
    });
  }

  /** Runs a command that must succeed. */
  succeed(directory: string, command: string): void {
    const { code, stdout, stderr } = this.run(directory, command);
    assertEquals(code, 0, `${command}: ${stdout}${stderr}`);
  }

  /** Lists the cache's files. */
  cached(): string[] {
    try {
      const files = Deno.readDirSync(`${this.#varLib}/cni/results`);
      return [...files].map(({ name }) => name);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  }

  /** All that an attachment changes. */
  state(): unknown {
    const { host } = this.hosts;
    const kernel = [stockOf(this.hosts), hostLimits(host), actingRules(host)];
    return [...kernel, this.hosts.leases(), this.cached()];
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

// Debian's package has the plugins only.
const peers = listPeers("cnitool")
  .filter(({ directory }) => directory === NEWEST_DIRECTORY);

for (const { name, directory } of peers) {
  const needsPeer = ignoreUnless(
    isExecutable(join(directory, "cnitool")),
    `needs cnitool in ${directory}`,
  );
  for (const isOursFirst of [true, false]) {
    const sides = isOursFirst ? ["ours", "Go"] : ["Go", "ours"];
    const [adder = "", other = ""] = isOursFirst
      ? [BIN, directory]
      : [directory, BIN];
    const run = `cnitool: ${sides[0]} adds, ${sides[1]} checks and deletes`;
    rootTest(`${run} (${name})`, allOf(needsPeer, needsBin, needsTools), () => {
      using scene = new ToolScene();
      const before = scene.state();
      scene.succeed(adder, "add");
      const [file = "", ...more] = scene.cached();
      assertEquals(more, []);
      assertStringIncludes(file, "net1-cnitool-");
      scene.succeed(other, "check");
      scene.succeed(other, "del");
      assertEquals(scene.state(), before);
      for (const side of [other, adder]) {
        scene.succeed(side, "del");
        assertEquals(scene.state(), before);
      }
    });
  }
}
