/**
 * A real firewalld on a throw-away host, with a bus, a configuration and a
 * `/run` of its own.
 *
 * @module
 */

import { inNetns } from "../../ffi/netns.ts";
import { FIREWALLD_ROOT } from "../../scripts/debian_packages.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  isExecutable,
  type Needs,
} from "../../testing/capabilities.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "./eventually.ts";
import { needsBus, PrivateBus } from "./private_bus.ts";

const NAME = "org.fedoraproject.FirewallD1";

/** Debian's, for which its modules are. */
const PYTHON = "/usr/bin/python3";
const LIBRARIES = `${FIREWALLD_ROOT}/usr/lib/python3/dist-packages`;
const PROGRAMS = {
  firewalld: `${FIREWALLD_ROOT}/usr/sbin/firewalld`,
  "firewall-cmd": `${FIREWALLD_ROOT}/usr/bin/firewall-cmd`,
};

function canImportModules(): boolean {
  return new Deno.Command(PYTHON, {
    args: ["-c", "import dbus, gi, firewall, nftables"],
    env: { PYTHONPATH: LIBRARIES },
    stderr: "null",
  }).outputSync().success;
}

/** Skips what needs firewalld. */
export const needsFirewalld: Needs = allOf(
  needsBus,
  ignoreUnless(hasCommand("dbus-send"), "needs dbus-send"),
  ignoreUnless(
    isExecutable(PYTHON) && Object.values(PROGRAMS).every(isExecutable) &&
      canImportModules(),
    "needs Debian's firewalld in build/firewalld",
  ),
);

/** A running firewalld. */
export class Firewalld implements AsyncDisposable {
  readonly #hosts: TestHosts;
  readonly #bus: PrivateBus;
  #process: Deno.ChildProcess | undefined;

  private constructor(hosts: TestHosts, bus: PrivateBus) {
    [this.#hosts, this.#bus] = [hosts, bus];
  }

  /** Starts it with Debian's configuration. */
  static async start(hosts: TestHosts): Promise<Firewalld> {
    const bus = await PrivateBus.start(hosts.directory);
    const firewalld = new Firewalld(hosts, bus);
    try {
      await firewalld.start();
      return firewalld;
    } catch (error) {
      await firewalld[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Environment of programs that speak to it. */
  get env(): Record<string, string> {
    return { ...this.#bus.env, PYTHONPATH: LIBRARIES };
  }

  /** Starts it, and waits until its rules are in place. */
  async start(): Promise<void> {
    const { host, directory } = this.#hosts;
    const config = `${directory}/etc-firewalld`;
    const log = `${directory}/firewalld.log`;
    const args = [
      ...["--mount", "--propagation=private", "sh", "-c"],
      `mkdir -p ${config} && mount -t tmpfs none /run && exec "$@" 2>>${log}`,
      ...["sh", PYTHON, PROGRAMS.firewalld, "--nofork", "--nopid"],
      `--default-config=${FIREWALLD_ROOT}/usr/lib/firewalld`,
      ...[`--system-config=${config}`, `--log-file=${log}`],
    ];
    const { env } = this, stdout = "null", stderr = "null";
    const process = inNetns(
      host,
      () => new Deno.Command("unshare", { args, env, stdout, stderr }).spawn(),
    );
    this.#process = process;
    let hasEnded = false;
    process.status.then(() => hasEnded = true);
    // It has its name before its rules; it answers once it has both.
    await eventually("firewalld answers", () => {
      if (hasEnded) throw new Error(Deno.readTextFileSync(log));
      return this.#askZone("trusted").success;
    });
  }

  /** Stops it as systemd does. */
  async stop(): Promise<void> {
    this.#process?.kill("SIGTERM");
    await this.#process?.status;
    this.#process = undefined;
  }

  /** Runs `firewall-cmd`, which must succeed, and returns what it prints. */
  command(...args: string[]): string {
    const options = {
      args: [PROGRAMS["firewall-cmd"], ...args],
      env: this.env,
    };
    const { success, stdout, stderr } = inNetns(
      this.#hosts.host,
      () => new Deno.Command(PYTHON, options).outputSync(),
    );
    const decoder = new TextDecoder();
    if (success) return decoder.decode(stdout).trim();
    throw new Error(
      `firewall-cmd ${args.join(" ")}: ${decoder.decode(stderr)}`,
    );
  }

  /** Lists the sources of a zone, faster than `firewall-cmd` does. */
  sources(zone = "trusted"): string[] {
    const { success, stdout, stderr } = this.#askZone(zone);
    const decoder = new TextDecoder();
    if (!success) throw new Error(decoder.decode(stderr));
    const words = decoder.decode(stdout).split(/\s+/);
    return words.filter((word) => word.includes("/")).toSorted();
  }

  #askZone(zone: string): Deno.CommandOutput {
    return new Deno.Command("dbus-send", {
      args: [
        ...["--system", "--print-reply=literal", `--dest=${NAME}`],
        ...[`/${NAME.replaceAll(".", "/")}`, `${NAME}.zone.getSources`],
        `string:${zone}`,
      ],
      env: this.env,
    }).outputSync();
  }

  /** Ends firewalld, and then the bus. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await this.#bus[Symbol.asyncDispose]();
  }
}
