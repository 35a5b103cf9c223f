/** ADD that fails at any single step: nothing may be left. */

import { testFaultsOfAdd } from "../../tests/_harness/fault_steps.ts";
import { FlannelScene } from "../../tests/_harness/flannel_network.ts";

testFaultsOfAdd("flannel", "", {
  make: () => new FlannelScene(),
  // The file, and the steps of bridge.
  atLeast: 15,
  optional:
    /^write .*\/conf\/(eth0|cni0|veth[0-9a-f]{11})\/(accept_ra|accept_dad|keep_addr_on_down|arp_notify|ndisc_notify)$/,
});
