/**
 * A container's interface that tuning changes: an end of a veth pair, in a temporary
 * sandbox.
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
import type { TestHosts } from "../../testing/test_hosts.ts";
import { type Keys, PluginScene } from "../../tests/_harness/plugin_scene.ts";
import { withMounts } from "../../tests/_harness/host_programs.ts";

/** The interface's MAC address, and a different address for changes. */
export const OLD_MAC = "0a:58:0a:01:02:03", NEW_MAC = "c2:11:22:33:44:55";
/** A parameter of every namespace, with the default 0. */
export const SYSCTL = "net.ipv4.conf.all.log_martians";
/** All settings of the interface, all different from the current settings. */
export const ALL_SETTINGS = {
  mac: NEW_MAC,
  promisc: true,
  mtu: 1454,
  allmulti: true,
  txQLen: 20_000,
};

/** The interface in the output of `ip`. */
export interface ShownLink {
  readonly mac: string;
  readonly promisc: boolean;
  readonly mtu: number;
  readonly allmulti: boolean;
  readonly txQLen: number;
}

/** The interface, and calls of tuning with a configuration. */
export class TunedLink extends PluginScene {
  /** Directory of backups. */
  readonly dataDir: string = dataDirOf(this.hosts);
  /** The result of the previous plugin. */
  readonly prevResult: Keys = resultBefore(this.hosts);

  /** @param keys The configuration's own keys */
  constructor(keys: Keys = {}) {
    super("tuning", (hosts) => ({
      cniVersion: "1.1.0",
      name: "net1",
      type: "tuning",
      dataDir: dataDirOf(hosts),
      prevResult: resultBefore(hosts),
      ...keys,
    }));
    using host = Rtnl.open(this.hosts.host.path);
    const mac = Mac.parse(OLD_MAC);
    const peer = { netns: this.hosts.sandbox, name: "eth0", mac };
    host.link.addVeth({ name: "host0", peer });
  }

  /** The interface in the output of `ip`. */
  get link(): ShownLink {
    const [link] = ipJson(this.hosts.sandbox, "link", "show", "eth0");
    const { address: mac, mtu, flags, txqlen: txQLen = 0 } = link;
    const promisc = flags.includes("PROMISC");
    const allmulti = flags.includes("ALLMULTI");
    return { mac, promisc, mtu, allmulti, txQLen };
  }

  /** Changes the interface, for example with `mtu 1300`. */
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

  /** The backups by file name, without the location of the interface. */
  get backups(): Readonly<Record<string, Keys>> {
    const read = (name: string): Keys => {
      const text = Deno.readTextFileSync(`${this.dataDir}/${name}`);
      return JSON.parse(
        text,
        (key, value) => ["netns", "index"].includes(key) ? undefined : value,
      );
    };
    try {
      return Object.fromEntries(
        [...Deno.readDirSync(this.dataDir)].map(({ name }) => [
          name,
          read(name),
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

  /** Everything that an attachment changes. */
  override get state(): unknown {
    return { link: this.link, backups: this.backups, sysctl: this.sysctl() };
  }
}

function dataDirOf({ directory }: TestHosts): string {
  return `${directory}/data/tuning`;
}

function resultBefore({ sandbox }: TestHosts): Keys {
  const address = "10.0.0.2/24";
  return {
    cniVersion: "1.1.0",
    interfaces: [
      { name: "host0", mac: "02:00:00:00:00:01" },
      { name: "eth0", mac: OLD_MAC, sandbox: sandbox.path },
    ],
    ips: [{ interface: 1, address, gateway: "10.0.0.1" }],
  };
}

/**
 * Returns the path of a script that runs a program in a mount namespace where /etc
 * contains only an allowlist of sysctls.
 *
 * @param directory The directory for the script; the caller removes it
 * @param program Path of the program
 */
export function withAllowlist(
  directory: string,
  program: string,
  allowlist: string,
): string {
  const etc = Deno.makeTempDirSync({ dir: directory });
  Deno.mkdirSync(`${etc}/cni/tuning`, { recursive: true });
  Deno.writeTextFileSync(`${etc}/cni/tuning/allowlist.conf`, allowlist);
  return withMounts(directory, program, [`mount --bind "${etc}" /etc`]);
}
