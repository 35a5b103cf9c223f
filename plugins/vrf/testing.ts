/**
 * A container with two interfaces for vrf, if the kernel supports VRFs.
 *
 * ```ts ignore
 * using scene = new VrfScene({ vrfname: "blue" });
 * const { json: prevResult } = await scene.succeed("ADD");
 * assertEquals(scene.links, ["eth0 blue", "eth1"]);
 * ```
 *
 * @module
 */

import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import type { Needs } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { needsLinks } from "../../tests/_harness/link_kinds.ts";
import { type Keys, PluginScene } from "../../tests/_harness/plugin_scene.ts";

/** Skips tests that need VRFs; `deno task test:kernel` boots a kernel with VRFs. */
export const needsVrf: Needs = needsLinks("vrf");

/** Addresses and routes of `eth0`, in the syntax of `ip`. */
export const ETH0 = [
  "address add 10.0.0.2/24 dev eth0",
  "address add 2001:db8::2/64 dev eth0 nodad",
  "route add 10.10.10.0/24 via 10.0.0.7 metric 9 src 10.0.0.2",
  "route add default via 10.0.0.1",
  "route add 10.0.1.1 dev eth0 scope link",
  "route add 10.2.0.0/16 via 10.0.1.1 dev eth0",
  "route add 10.3.0.0/16 via 10.0.0.7 table 5000",
  "route add 2001:db8:7::/48 via 2001:db8::7 src 2001:db8::2",
  "route add default via 2001:db8::1",
];
/** Addresses and routes of `eth1`, in the syntax of `ip`. */
export const ETH1 = [
  "address add 10.1.0.2/24 dev eth1",
  "route add 10.11.0.0/16 via 10.1.0.7",
];

/** The container, and calls of vrf with a configuration. */
export class VrfScene extends PluginScene {
  /** The result of the previous plugin. */
  readonly prevResult: Keys = resultBefore(this.hosts.sandbox);

  /**
   * Connects the container.
   *
   * @param keys The configuration's own keys
   * @param lines Arguments of `ip` that set up the interfaces
   */
  constructor(keys: Keys = {}, lines: readonly string[] = [...ETH0, ...ETH1]) {
    super("vrf", ({ sandbox }) => ({
      cniVersion: "1.0.0",
      name: "net1",
      type: "vrf",
      prevResult: resultBefore(sandbox),
      ...keys,
    }));
    const { host, sandbox } = this.hosts;
    for (const netns of [host, sandbox]) {
      const key = "net/ipv6/conf/default/addr_gen_mode";
      inNetns(netns, () => writeSysctl(key, "1"));
    }
    using rtnl = Rtnl.open(sandbox.path);
    using outer = Rtnl.open(host.path);
    for (const name of ["eth0", "eth1"]) {
      const peer = { netns: host, name: `host-${name}` };
      const { linkIndex = 0 } = rtnl.link.addVeth({ name, peer });
      outer.link.set(linkIndex, { isUp: true });
    }
    this.ip(...lines);
  }

  /** Runs command lines of `ip` in the container. */
  ip(...lines: readonly string[]): void {
    const script = 'for line; do echo "$line"; done | ip -batch -';
    runIn(this.hosts.sandbox, "sh", "-ec", script, "sh", ...lines);
  }

  /** The links, each with its master or the VRF's table. */
  get links(): string[] {
    return ipJson(this.hosts.sandbox, "link").slice(1).map((
      // deno-lint-ignore no-explicit-any -- as iproute2 prints it
      { ifname, master, linkinfo }: any,
    ) =>
      [ifname, master ?? linkinfo?.info_data?.table].filter(Boolean).join(" ")
    );
  }

  /** The addresses, and the routes of all tables except the kernel's own. */
  override get state(): string[] {
    const script = "ip -o address; ip -4 route show table all; " +
      "ip -6 route show table all; ip -o link";
    return runIn(this.hosts.sandbox, "sh", "-ec", script).split("\n")
      .filter((line) => line !== "" && !/table local|^(1|\d+): lo/.test(line))
      .map((line) =>
        line.replace(/^\d+: /, "").replace(
          / (pref medium|linkdown|expires \d+sec)/g,
          "",
        )
          .replace(/\\? *(qlen|group|link\/ether|valid_lft).*/, "").trim()
      ).sort();
  }

  /** Lists the unicast routes of a table, without its name. */
  table(name: number | "main"): string[] {
    const suffix = new RegExp(name === "main" ? "$^" : ` table ${name}\\b`);
    return this.state.filter((line) =>
      /^(default|[\da-f.:]+(\/\d+)?) (via|dev) /.test(line) &&
      (name === "main" ? !line.includes(" table ") : suffix.test(line))
    ).map((line) => line.replace(suffix, ""));
  }
}

function resultBefore(sandbox: NetNs): Keys {
  return {
    cniVersion: "1.0.0",
    interfaces: [{ name: "eth0", sandbox: sandbox.path }],
    ips: [
      { interface: 0, address: "10.0.0.2/24", gateway: "10.0.0.1" },
      { interface: 0, address: "2001:db8::2/64", gateway: "2001:db8::1" },
    ],
    routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
  };
}
