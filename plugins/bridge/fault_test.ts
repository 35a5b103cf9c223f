/** ADD that fails at any single step: nothing may be left. */

import { bridgeConfig, occupy } from "./testing/bridge_network.ts";
import {
  type FaultScene,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import { assertEquals } from "@std/assert";
import { SyscallError } from "../../ffi/errno.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { intercept } from "../../testing/fault_injector.ts";
import { linkNames, snapshot } from "../../testing/ip_json.ts";
import { PluginScene } from "../../tests/_harness/plugin_scene.ts";
import { needsRuleTools, nftRules } from "../../tests/_harness/rules.ts";

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

/** Is told the names of all requests, before they are made. */
function watchRequests(
  onRequests: (names: readonly string[]) => void,
): Disposable {
  using stack = new DisposableStack();
  for (const method of ["request", "requestAll", "requestEach"] as const) {
    stack.defer(intercept(NetlinkSocket.prototype, method, ([first], work) => {
      const requests = [first].flat() as { name: string }[];
      onRequests(requests.map(({ name }) => name));
      return work();
    }));
  }
  return stack.move();
}

rootTest(
  "bridge drops spoofed frames until the link is deleted",
  needsRuleTools,
  async () => {
    using scene = await BridgeScene.make(true);
    const listGuards = (): string[] =>
      nftRules(scene.hosts.host, /iifname.*macspoofchk-test-container/);
    let guards: string[] = [], isRefused = false, commits = 0;
    const refuse = (): never => {
      throw new SyscallError("refused", 16);
    };
    const watch = (names: readonly string[]): void => {
      if (names.includes("RTM_DELLINK")) {
        guards = listGuards();
        if (isRefused) refuse();
      }
      // The second rules are the masquerade's.
      if (names.includes("NFT_MSG_NEWRULE") && ++commits === 2) refuse();
    };
    {
      using _watched = watchRequests(watch);
      await scene.fail("ADD", [999, "refused"]);
      assertEquals([guards.length, listGuards()], [1, []]);
      await scene.succeed("ADD");
      [isRefused, guards] = [true, []];
      await scene.fail("DEL", [999, "refused"]);
      assertEquals([guards.length, listGuards().length], [1, 1]);
      isRefused = false;
      await scene.succeed("DEL");
      assertEquals([guards.length, listGuards()], [1, []]);
    }
  },
);
