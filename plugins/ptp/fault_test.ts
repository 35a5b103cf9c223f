/** ADD that fails at any single step: whatever the step, nothing may be left. */

import type { NetNs } from "../../ffi/netns.ts";
import { Nftables } from "../../ffi/nftables/mod.ts";
import { dualStack } from "../../tests/_harness/dual_stack.ts";
import {
  type FaultScene,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import { PluginScene } from "../../tests/_harness/plugin_scene.ts";

class PtpScene extends PluginScene implements FaultScene {
  constructor() {
    super("ptp", (hosts) => ({ ...dualStack(hosts), ipMasq: true }));
  }

  /** The tables of rules that all attachments share do not count. */
  override get state(): unknown {
    return [super.state, listMasqueraded(this.hosts.host)];
  }
}

/** Lists the addresses that are masqueraded. */
function listMasqueraded({ path }: NetNs): string[] {
  using nftables = Nftables.open(path);
  const table = { family: "inet", name: "cni_plugins_masquerade" } as const;
  return ["source_ip", "source_ip6"].flatMap((map) =>
    nftables.listElements(table, map).map(({ key }) => key.toString())
  );
}

testFaultsOfAdd("ptp", "", {
  make: () => new PtpScene(),
  // The links of both ends, four addresses, six routes, two leases, ...
  atLeast: 21,
  optional:
    /^write .*\/net\/ipv6\/conf\/(eth0|veth[0-9a-f]{11})\/(accept_ra|accept_dad|keep_addr_on_down)$/,
});
