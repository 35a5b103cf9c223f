/**
 * A temporary node with networks and a container on each network, as a fixture of
 * `cni doctor`.
 *
 * ```ts ignore
 * await using scene = await DoctorScene.create();
 * assertEquals(await scene.find(), []);
 * ```
 *
 * @module
 */

import { doctor } from "../command.ts";
import type { CniFlags } from "../../flags.ts";
import { CHECKS } from "../checks.ts";
import { diagnose } from "../diagnose.ts";
import type { DirectoryFlags } from "../../node/network.ts";
import { NodeReader, type NodeReaderOptions } from "../../node/node_reader.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import { parseNetworkConfList } from "../../../libcni/mod.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import type { Output } from "../../../base/command_line/command.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { ROOT } from "../../../scripts/project.ts";
import { importFlags } from "../../../scripts/import_flags.ts";
import { BIN } from "../../../tests/_harness/executables.ts";
import { connectOutside } from "../../../tests/_harness/outside.ts";
import { callWith } from "../../../tests/_harness/tool_call.ts";

/** A finding: its check, severity and text. */
export type Seen = Pick<
  Awaited<ReturnType<typeof diagnose>>["findings"][number],
  "check" | "severity" | "message" | "command" | "advice" | "look" | "fix"
>;

/** Options of `deno run` for the tool's source. */
const IMPORT_FLAGS = (await importFlags())
  .map((flag) => flag.replace("--import-map=", `--import-map=${ROOT}`));

/** The node. */
export class DoctorScene implements Disposable {
  readonly hosts: TestHosts = TestHosts.create();
  /** The node's neighbour, which is also its router. */
  readonly outside: NetNs;
  /** The container on network `lan`; the container on `pods` is `hosts.sandbox`. */
  readonly other: NetNs;
  readonly confDir: string;
  readonly cacheDir: string;
  /** Stands for /proc in the search for services. */
  readonly proc: string;

  private constructor() {
    const { directory } = this.hosts;
    this.confDir = `${directory}/net.d`;
    this.cacheDir = `${directory}/cache`;
    this.proc = `${directory}/proc`;
    for (const path of [this.confDir, this.proc]) Deno.mkdirSync(path);
    this.outside = connectOutside(this.hosts);
    this.other = this.hosts.addNetns();
    this.ip("route add default via 192.0.2.2");
    this.ip("route add default via 2001:db8:ff::2");
  }

  /** Creates a node without networks. */
  static bare(): DoctorScene {
    return new DoctorScene();
  }

  /** Creates a healthy node: `pods` of ptp, and `lan` of bridge. */
  static async create(): Promise<DoctorScene> {
    const scene = new DoctorScene();
    const { hosts } = scene;
    const ipam = (...subnets: string[]): object => ({
      ...hosts.hostLocal(...subnets),
      routes: subnets.map((subnet) => ({
        dst: subnet.includes(":") ? "::/0" : "0.0.0.0/0",
      })),
    });
    scene.writeNetwork("10-pods", [
      {
        type: "ptp",
        ipMasq: true,
        ipMasqBackend: "nftables",
        ipam: ipam("10.1.0.0/28", "fd00:1::/64"),
      },
      {
        type: "bandwidth",
        ingressRate: 1_000_000_000,
        ingressBurst: 8_000_000,
      },
    ]);
    scene.writeNetwork("20-lan", [{
      type: "bridge",
      bridge: "lan0",
      isGateway: true,
      ipam: ipam("10.2.0.0/24"),
    }]);
    await scene.attach("10-pods", hosts.sandbox, "0123456789abcdef", "web");
    await scene.attach("20-lan", scene.other, "fedcba9876543210", "db");
    return scene;
  }

  /** Writes a configuration, named after its file: `10-pods` is of `pods`. */
  writeNetwork(file: string, plugins: object[], more: object = {}): string {
    const name = file.replace(/^\d+-/, "");
    const document = { cniVersion: "1.1.0", name, plugins, ...more };
    return this.writeConf(`${file}.conflist`, JSON.stringify(document));
  }

  /** Writes `multus`, which attaches a pod to `pods` and to `storage`. */
  writeMultus(): void {
    const { hosts } = this;
    const routes = [{ dst: "0.0.0.0/0" }];
    this.writeNetwork("00-multus", [{
      type: "multus",
      cniDir: `${hosts.directory}/multus`,
      binDir: hosts.path,
      capabilities: { portMappings: true },
      delegates: [{
        cniVersion: "1.1.0",
        name: "pods",
        plugins: [{
          type: "ptp",
          ipMasq: true,
          ipam: { ...hosts.hostLocal("10.1.0.0/24"), routes },
        }, { type: "portmap", capabilities: { portMappings: true } }],
      }, {
        cniVersion: "1.1.0",
        name: "storage",
        type: "bridge",
        bridge: "storage0",
        isGateway: true,
        ipam: hosts.hostLocal("10.2.0.0/24"),
      }],
    }]);
  }

  /** Writes any file into the configuration directory. */
  writeConf(file: string, text: string): string {
    const path = `${this.confDir}/${file}`;
    Deno.writeTextFileSync(path, text);
    return path;
  }

  /** Reads a plugin list of a network, to change it. */
  readNetwork(file: string): { plugins: Record<string, unknown>[] } {
    const path = `${this.confDir}/${file}.conflist`;
    return JSON.parse(Deno.readTextFileSync(path));
  }

  /** Attaches a pod of namespace `default`. */
  async attach(
    file: string,
    netns: NetNs,
    containerId: string,
    pod: string,
    more: { readonly capabilityArgs?: JsonObject; readonly ifName?: string } =
      {},
  ): Promise<void> {
    using node = this.node();
    const path = `${this.confDir}/${file}.conflist`;
    await node.runtime.addNetworkList(
      parseNetworkConfList(Deno.readFileSync(path)),
      {
        containerId,
        netns: netns.path,
        ifName: "eth0",
        ...more,
        args: [
          ["IgnoreUnknown", "1"],
          ["K8S_POD_NAMESPACE", "default"],
          ["K8S_POD_NAME", pod],
        ],
      },
    );
  }

  /** Detaches a pod. */
  async detach(file: string, netns: NetNs, containerId: string): Promise<void> {
    using node = this.node();
    const path = `${this.confDir}/${file}.conflist`;
    await node.runtime.delNetworkList(
      parseNetworkConfList(Deno.readFileSync(path)),
      { containerId, netns: netns.path, ifName: "eth0" },
    );
  }

  /** The flags that name the scene's directories. */
  get flags(): DirectoryFlags {
    return {
      "cni-path": this.hosts.path,
      "conf-dir": this.confDir,
      "cache-dir": this.cacheDir,
    };
  }

  /** The node, as the tool sees it. */
  node(options: Partial<NodeReaderOptions> = {}): NodeReader {
    const { hosts: { host, path, directory }, confDir, cacheDir, proc } = this;
    return new NodeReader({
      directories: { pluginDirs: [path], confDir, cacheDir, flags: this.flags },
      // Never the machine's own log, in which plugins warn of conflicts.
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", CNI_LOG_FILE: "stderr" },
      signal: new AbortController().signal,
      hostNetns: host.path,
      proc,
      daemonSocket: `${directory}/daemon.sock`,
      resolvConf: "/dev/null",
      ...options,
    });
  }

  /**
   * Runs all checks. Fails if a check could not run.
   *
   * @param without Names of checks to leave out
   */
  async find(
    { without = [], ...options }: Partial<NodeReaderOptions> & {
      readonly without?: readonly string[];
    } = {},
  ): Promise<Seen[]> {
    using node = this.node(options);
    const checks = CHECKS.filter(({ name }) => !without.includes(name));
    const { findings, unchecked } = await diagnose(node, () => {}, checks);
    if (unchecked.length > 0) {
      throw new Error(JSON.stringify(unchecked, null, 2));
    }
    return [...findings];
  }

  /** Runs the command. */
  doctor(
    flags: CniFlags = {},
    { signal, resolvConf = "/dev/null", onProgress, hostNetns }: {
      readonly hostNetns?: string;
      readonly onProgress?: (text: string) => void;
      readonly resolvConf?: string;
      readonly signal?: AbortSignal;
    } = {},
  ): Promise<Output> {
    const { hosts: { host, directory }, proc } = this;
    const call = callWith({
      ...signal && { signal },
      ...onProgress && { onProgress },
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
      flags: { ...this.flags, ...flags },
    });
    const daemonSocket = `${directory}/daemon.sock`;
    return doctor(call, {
      hostNetns: hostNetns ?? host.path,
      proc,
      daemonSocket,
      resolvConf,
    });
  }

  /** Runs `ip` on the host, or in another namespace. */
  ip(line: string, netns: NetNs = this.hosts.host): string {
    return runIn(netns, "ip", ...line.split(" "));
  }

  /**
   * Runs a shell script on the host, or in another namespace. `$SAVED` begins the
   * names of files in which a script keeps what another one puts back.
   */
  sh(script: string, netns: NetNs = this.hosts.host): string {
    const saved = `SAVED='${this.hosts.directory}/saved-'`;
    return runIn(netns, "sh", "-ec", `${saved}\n${script}`);
  }

  /** Runs a command that `cni doctor` printed, as a person would; returns whether it succeeded. */
  follow(command: string): boolean {
    const { directory } = this.hosts;
    const tool = BIN === ""
      ? [Deno.execPath(), "run", "-A", "--no-check", ...IMPORT_FLAGS].join(
        " ",
      ) +
        ` ${ROOT}cli/main.ts`
      : `${BIN}/cni`;
    const script = `cni() { ${tool} "$@"; }\n${command}`;
    const file = `${directory}/follow`;
    Deno.writeTextFileSync(file, script);
    try {
      this.sh(`exec bash ${file}`);
      return true;
    } catch {
      return false;
    }
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}
