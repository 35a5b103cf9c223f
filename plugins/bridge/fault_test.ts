/** ADD that fails at any single step: nothing may be left. */

import { bridgeConfig, occupy } from "./testing/bridge_network.ts";
import {
  type FaultScene,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import { linkNames, snapshot } from "../../testing/ip_json.ts";
import { PluginScene } from "../../tests/_harness/plugin_scene.ts";
import { nftRules } from "../../tests/_harness/rules.ts";

/** A host with the bridge and another container, or without both. */
class BridgeScene extends PluginScene implements FaultScene {
  readonly #hasBridge: boolean;

  private constructor(hasBridge: boolean) {
    super("bridge", (hosts) =>
      bridgeConfig(hosts, {
        ipMasq: true,
        macspoofchk: true,
        hairpinMode: true,
      }));
    this.#hasBridge = hasBridge;
  }

  static async make(hasBridge: boolean): Promise<BridgeScene> {
    const scene = new BridgeScene(hasBridge);
    if (hasBridge) await occupy(scene.hosts);
    return scene;
  }

  /**
   * Everything except the objects that attachments share: the tables of rules,
   * and the bridge that a first ADD creates, with the gateway's addresses.
   */
  override get state(): unknown {
    const { host, sandbox } = this.hosts;
    return {
      host: this.#hasBridge
        ? snapshot(host)
        : linkNames(host).filter((name) => name !== "br0"),
      sandbox: snapshot(sandbox),
      leases: this.hosts.leases(),
      rules: nftRules(host, /test-container|CNI-/),
    };
  }
}

for (const hasBridge of [true, false]) {
  const which = hasBridge ? "with the bridge" : "without it";
  testFaultsOfAdd("bridge", `, on a host ${which}`, {
    make: () => BridgeScene.make(hasBridge),
    // The links of both ends, addresses, routes, rules, leases, ...
    atLeast: 26,
    optional:
      /^write .*\/conf\/(eth0|br0|veth[0-9a-f]{11})\/(accept_ra|accept_dad|keep_addr_on_down|arp_notify|ndisc_notify)$/,
  });
}
