/**
 * A real firewalld with a bus of its own, where Debian's is installed.
 *
 * @module
 */

import { FIREWALLD_ROOT } from "../../scripts/setup/debian_packages.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  isExecutable,
  type Needs,
} from "../../testing/capabilities.ts";
import { eventually } from "./eventually.ts";
import { needsBus, PrivateBus } from "./fake_firewalld.ts";

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

/** Where it runs. */
export interface FirewalldPlace {
  /** The command that runs a program on the host, in front of its command line. */
  readonly enter: readonly string[];
  /** For its files. */
  readonly directory: string;
}

/** A running firewalld. */
export class Firewalld implements AsyncDisposable {
  readonly #place: FirewalldPlace;
  readonly #bus: PrivateBus;
  #process: Deno.ChildProcess | undefined;

  private constructor(place: FirewalldPlace, bus: PrivateBus) {
    [this.#place, this.#bus] = [place, bus];
  }

  /** Starts it with Debian's configuration. */
  static async start(place: FirewalldPlace): Promise<Firewalld> {
    const bus = await PrivateBus.start(place.directory);
    const firewalld = new Firewalld(place, bus);
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
    const { enter: [program = "", ...enter], directory } = this.#place;
    const config = `${directory}/etc-firewalld`;
    const log = `${directory}/firewalld.log`;
    const args = [
      ...enter,
      "unshare",
      ...["--mount", "--propagation=private", "sh", "-c"],
      `mkdir -p ${config} && mount -t tmpfs none /run && exec "$@" 2>>${log}`,
      ...["sh", PYTHON, PROGRAMS.firewalld, "--nofork", "--nopid"],
      `--default-config=${FIREWALLD_ROOT}/usr/lib/firewalld`,
      ...[`--system-config=${config}`, `--log-file=${log}`],
    ];
    const { env } = this, stdout = "null", stderr = "null";
    const process = new Deno.Command(program, { args, env, stdout, stderr })
      .spawn();
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
    const { enter: [program = "", ...enter] } = this.#place;
    const { success, stdout, stderr } = new Deno.Command(program, {
      args: [...enter, PYTHON, PROGRAMS["firewall-cmd"], ...args],
      env: this.env,
    }).outputSync();
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

  /** Removes a source from the zone of containers. */
  removeSource(source: string): void {
    this.#ask("removeSource", "trusted", source);
  }

  #askZone(zone: string): Deno.CommandOutput {
    return this.#ask("getSources", zone);
  }

  #ask(method: string, ...values: readonly string[]): Deno.CommandOutput {
    return new Deno.Command("dbus-send", {
      args: [
        ...["--system", "--print-reply=literal", `--dest=${NAME}`],
        ...[`/${NAME.replaceAll(".", "/")}`, `${NAME}.zone.${method}`],
        ...values.map((value) => `string:${value}`),
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
