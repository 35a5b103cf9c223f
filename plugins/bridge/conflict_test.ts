import { assert } from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { canUseNetns, ignoreUnless } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import {
  type ConflictScene,
  testConflicts,
} from "../../tests/_harness/conflict_cases.ts";
import { readQuickly } from "../../tests/_harness/on_master.ts";
import { PluginScene } from "../../tests/_harness/plugin_scene.ts";
import { bridgeConfig } from "./testing/bridge_network.ts";

testConflicts("bridge", {
  needs: ignoreUnless(canUseNetns, "needs network namespaces"),
  make(extras): ConflictScene {
    const scene = new PluginScene("bridge", (hosts) =>
      bridgeConfig(hosts, {
        // The gateway would answer for its addresses, which nobody has yet.
        isDefaultGateway: false,
        ...extras,
      }), readQuickly);
    const { hosts } = scene;
    const neighbour = hosts.addNetns();
    runIn(
      hosts.host,
      "sh",
      "-ec",
      // The kernel's own addresses come and go.
      "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; " +
        "ip link add br0 address 02:00:00:00:00:b0 type bridge; ip link set br0 up; " +
        `ip link add port0 master br0 type veth peer name wire netns ${neighbour.path}; ` +
        "ip link set port0 up",
    );
    runIn(neighbour, "ip", "link", "set", "wire", "up");
    awaitForwarding(hosts.host, "port0");
    return {
      scene,
      neighbour,
      dev: "wire",
      [Symbol.dispose]: () => scene[Symbol.dispose](),
    };
  },
  atLeast: 12,
  optional:
    /^write .*\/conf\/(eth0|veth[0-9a-f]{11})\/(accept_ra|accept_dad|keep_addr_on_down|arp_notify|ndisc_notify)$/,
});

/** Waits until a port of a bridge forwards. */
function awaitForwarding(host: NetNs, name: string): void {
  using rtnl = Rtnl.open(host.path);
  const nobody = new Int32Array(new SharedArrayBuffer(4));
  const end = performance.now() + 60_000;
  while (rtnl.link.get(name).port?.state !== "forwarding") {
    assert(performance.now() < end, `"${name}" does not forward`);
    Atomics.wait(nobody, 0, 0, 1);
  }
}
