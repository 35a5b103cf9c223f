/**
 * DEL of what the Go plugins have added, after the runtime has lost the result.
 */

import { assertEquals } from "@std/assert";
import type { NetNs } from "../ffi/netns.ts";
import {
  allOf,
  ignoreUnless,
  isExecutable,
  rootTest,
} from "../testing/capabilities.ts";
import { linkNames, runIn } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { needsLinks } from "./_harness/link_kinds.ts";
import { listPeers, succeedAs } from "./_harness/parity.ts";
import type { Keys } from "./_harness/plugin_scene.ts";

const MASTER = { master: "eth9" };

/** The keys of each plugin, besides `ipam`. */
const ROWS: readonly (Keys & { readonly type: string })[] = [
  { type: "ptp" },
  { type: "bridge", bridge: "br0", isGateway: true },
  { type: "macvlan", ...MASTER },
  { type: "ipvlan", ...MASTER },
  { type: "vlan", ...MASTER, vlanId: 7 },
  { type: "dummy" },
  { type: "tap" },
  { type: "host-device", device: "eth9" },
];

/** Plugins that can attach only one container by these keys. */
const ONE_EACH = ["vlan", "host-device"];

/** A network, and one container that a Go plugin has attached to it. */
class Scene implements Disposable {
  readonly hosts = TestHosts.create();
  readonly config: Keys;
  readonly type: string;

  constructor(keys: Keys & { readonly type: string }, cniVersion: string) {
    const ipam = this.hosts.hostLocal("10.1.2.0/24");
    this.type = keys.type;
    this.config = { cniVersion, name: "net1", ipam, ...keys };
    const pair = "link add eth9 type veth peer name up9";
    runIn(this.hosts.host, "ip", ...pair.split(" "));
    // Only a link that is up has VLANs.
    runIn(this.hosts.host, "ip", "link", "set", "eth9", "up");
  }

  /** The links of the host, without a shared bridge. */
  get outside(): string[] {
    return linkNames(this.hosts.host).filter((name) => name !== "br0").sort();
  }

  async call(
    who: Parameters<typeof succeedAs>[0],
    command: string,
    options: { containerId: string; sandbox: NetNs },
  ): Promise<void> {
    const { hosts, type, config } = this;
    await succeedAs(who, hosts, { type, command, config }, options);
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

for (const peer of listPeers("lost results")) {
  for (const keys of ROWS) {
    const { type } = keys;
    const needs = allOf(
      needsLinks(type),
      ignoreUnless(isExecutable(`${peer.directory}/${type}`), `needs ${type}`),
    );
    rootTest(
      `${type}.del() without prevResult removes what ${peer.name} added`,
      needs,
      async () => {
        using scene = new Scene(keys, peer.cniVersion);
        const { hosts } = scene;
        const before = scene.outside;
        const mine = { containerId: "mine", sandbox: hosts.sandbox };
        await scene.call(peer, "ADD", mine);
        for (let calls = 0; calls < 2; calls++) {
          await scene.call("ours", "DEL", mine);
          assertEquals(linkNames(hosts.sandbox), ["lo"]);
          assertEquals([scene.outside, hosts.leases()], [before, []]);
        }
      },
    );
    if (ONE_EACH.includes(type)) continue;
    rootTest(
      `${type}.del() without prevResult keeps another pod of ${peer.name} at the same path`,
      needs,
      async () => {
        using scene = new Scene(keys, peer.cniVersion);
        const { hosts } = scene;
        const next = { containerId: "next", sandbox: hosts.addNetns() };
        await scene.call(peer, "ADD", next);
        const before = [linkNames(next.sandbox), hosts.leases()];
        const mine = { containerId: "mine", sandbox: hosts.sandbox };
        await scene.call(peer, "ADD", mine);
        const { sandbox } = next;
        await scene.call("ours", "DEL", { ...mine, sandbox });
        assertEquals([linkNames(sandbox), hosts.leases()], before);
      },
    );
  }
}
