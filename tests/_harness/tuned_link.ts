/**
 * A container's interface that tuning changes: one end of a veth, in a
 * throw-away sandbox.
 *
 * ```ts ignore
 * using scene = new TunedLink({ mtu: 1400 });
 * const { json: prevResult } = await scene.succeed("ADD");
 * assertEquals(scene.link.mtu, 1400);
 * ```
 *
 * @module
 */

import { inNetns } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { readSysctl } from "../../ffi/sysctl.ts";
import { Mac } from "../../net/mac.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../testing/test_hosts.ts";
import { assertFailure, assertSuccess } from "./call_outcome.ts";
import { callAs, type Who } from "./parity.ts";
import type { Keys } from "./plugin_scene.ts";

/** The interface's MAC, and one to change it to. */
export const OLD_MAC = "0a:58:0a:01:02:03", NEW_MAC = "c2:11:22:33:44:55";
/** A parameter of every namespace, with the default 0. */
export const SYSCTL = "net.ipv4.conf.all.log_martians";
/** All settings of the interface, none of them as it is. */
export const ALL_SETTINGS = {
  mac: NEW_MAC,
  promisc: true,
  mtu: 1454,
  allmulti: true,
  txQLen: 20_000,
};

/** The interface as `ip` shows it. */
export interface ShownLink {
  readonly mac: string;
  readonly promisc: boolean;
  readonly mtu: number;
  readonly allmulti: boolean;
  readonly txQLen: number;
}

/** The interface, and calls of tuning with one configuration. */
export class TunedLink implements Disposable {
  /** Where it is. */
  readonly hosts: TestHosts = TestHosts.create();
  /** Folder of backups. */
  readonly dataDir = `${this.hosts.folder}/data/tuning`;
  readonly #keys: Keys;

  /** @param keys The configuration's own keys */
  constructor(keys: Keys = {}) {
    this.#keys = keys;
    using host = Rtnl.open(this.hosts.host.path);
    const mac = Mac.parse(OLD_MAC);
    const peer = { netns: this.hosts.sandbox, name: "eth0", mac };
    host.link.addVeth({ name: "host0", peer });
  }

  /** The result of the plugin before. */
  get prevResult(): Keys {
    const sandbox = this.hosts.sandbox.path;
    const address = "10.0.0.2/24";
    return {
      cniVersion: "1.1.0",
      interfaces: [
        { name: "host0", mac: "02:00:00:00:00:01" },
        { name: "eth0", mac: OLD_MAC, sandbox },
      ],
      ips: [{ interface: 1, address, gateway: "10.0.0.1" }],
    };
  }

  /** Runs a command, with more keys or other ones. */
  async run(
    command: string,
    extras: Keys = {},
    options: CallOptions = {},
    who: Who = "ours",
  ): Promise<CallOutput> {
    const config = this.config(extras);
    const call = { type: "tuning", command, config };
    return await callAs(who, this.hosts, call, options);
  }

  /** Returns the configuration of a call. */
  config(extras: Keys = {}): Keys {
    const { dataDir, prevResult } = this;
    const common = { cniVersion: "1.1.0", name: "net1", type: "tuning" };
    return { ...common, dataDir, prevResult, ...this.#keys, ...extras };
  }

  /** Runs a command that must succeed, and have nothing to say on stderr. */
  async succeed(
    command: string,
    extras: Keys = {},
    options: CallOptions = {},
    who: Who = "ours",
  ): Promise<CallOutput> {
    const output = await this.run(command, extras, options, who);
    assertSuccess(output);
    return output;
  }

  /** Runs a command that must fail with a code and a text. */
  async fail(
    command: string,
    [code, text]: readonly [code: number, text: string],
    extras: Keys = {},
    options: CallOptions = {},
  ): Promise<void> {
    assertFailure(await this.run(command, extras, options), code, text);
  }

  /** The interface as `ip` shows it. */
  get link(): ShownLink {
    const [link] = ipJson(this.hosts.sandbox, "link", "show", "eth0");
    const { address: mac, mtu, flags, txqlen: txQLen = 0 } = link;
    const promisc = flags.includes("PROMISC");
    const allmulti = flags.includes("ALLMULTI");
    return { mac, promisc, mtu, allmulti, txQLen };
  }

  /** Changes the interface, as `mtu 1300`. */
  change(words: string): void {
    runIn(
      this.hosts.sandbox,
      "ip",
      ..."link set eth0".split(" "),
      ...words.split(" "),
    );
  }

  /** Reads a parameter of the container, by its name with slashes. */
  sysctl(key = SYSCTL.replaceAll(".", "/")): string {
    return inNetns(this.hosts.sandbox, () => readSysctl(key));
  }

  /** The backups by file name. */
  get backups(): Readonly<Record<string, unknown>> {
    try {
      return Object.fromEntries(
        [...Deno.readDirSync(this.dataDir)].map(({ name }) => [
          name,
          JSON.parse(Deno.readTextFileSync(`${this.dataDir}/${name}`)),
        ]),
      );
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return {};
      throw error;
    }
  }

  /** Replaces a backup. */
  writeBackup(name: string, text: string): void {
    Deno.writeTextFileSync(`${this.dataDir}/${name}`, text);
  }

  /** All that an attachment changes. */
  get state(): unknown {
    return { link: this.link, backups: this.backups, sysctl: this.sysctl() };
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

/**
 * Returns the path of a script that runs a program in a mount namespace where
 * /etc has only an allowlist of sysctls.
 *
 * @param folder Where the script is written; the caller removes it
 * @param program Path of the program
 */
export function withAllowlist(
  folder: string,
  program: string,
  allowlist: string,
): string {
  const etc = Deno.makeTempDirSync({ dir: folder });
  const script = `${etc}.sh`;
  Deno.mkdirSync(`${etc}/cni/tuning`, { recursive: true });
  Deno.writeTextFileSync(`${etc}/cni/tuning/allowlist.conf`, allowlist);
  const mounting = `mount --bind "${etc}" /etc; exec "$0" "$@"`;
  Deno.writeTextFileSync(
    script,
    `#!/bin/sh\nexec unshare --mount sh -ec '${mounting}' "${program}" "$@"\n`,
    { mode: 0o755 },
  );
  return script;
}
