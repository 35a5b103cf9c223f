/** What the specification requires of plugins that create an interface. */

import type { Json } from "../../testing/conform/scene.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import { requirementsOn } from "../_harness/requirements.ts";

/** Addresses, with their leases on the host. */
const ipam = (hosts: TestHosts): Json => ({
  ...hosts.hostLocal("10.88.0.0/16", "fd00:88::/64"),
  routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
});
const keys = (hosts: TestHosts): Json => ({ ipam: ipam(hosts) });

/** Sysctls that ADD writes where the kernel has them. */
const optional =
  /^write .*\/conf\/(eth0|cni0|veth[0-9a-f]{11})\/(accept_ra|accept_dad|keep_addr_on_down|arp_notify|ndisc_notify)$/;

/** Where a test of the plugin's own goes further. */
const BY_FAULTS = { "cut-short": "fault_test.ts fails each step, in two ways" };
const BY_DEL = {
  "cut-short": "what a failed ADD leaves is for DEL, which undoes it",
};
const BY_STRESS = { "at-once": "a stress test attaches more" };

requirementsOn({ type: "ptp", keys, makes: ["firewall"], except: BY_FAULTS });
requirementsOn({
  type: "bridge",
  isNightly: true,
  keys,
  makes: ["firewall"],
  except: BY_FAULTS,
});
requirementsOn({
  type: "macvlan",
  isNightly: true,
  keys,
  optional,
  except: BY_STRESS,
});
requirementsOn({
  type: "host-device",
  isNightly: true,
  keys,
  except: { ...BY_FAULTS, ...BY_STRESS },
});
requirementsOn({ type: "tap", isNightly: true, keys, optional });
requirementsOn({
  type: "loopback",
  isNightly: true,
  except: {
    "ifname-taken": "lo is always there",
    "ifname-taken-kept": "lo is always there",
    "long-names": "its interface has a fixed name",
    "del-link-gone": "lo cannot go",
    "check-link": "lo cannot go",
    "check-route": "there is no route",
  },
});
requirementsOn({
  type: "flannel",
  isNightly: true,
  except: BY_FAULTS,
  profile: { files: {} },
  keys: (hosts) => {
    const subnetFile = `${hosts.directory}/subnet.env`;
    Deno.writeTextFileSync(
      subnetFile,
      "FLANNEL_NETWORK=10.88.0.0/16\nFLANNEL_SUBNET=10.88.1.1/24\n" +
        "FLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
    );
    return {
      subnetFile,
      dataDir: `${hosts.directory}/flannel`,
      ipam: { dataDir: `${hosts.directory}/leases` },
    };
  },
});
requirementsOn({
  type: "chain",
  name: "ptp, tuning and sbr in a chain",
  makes: ["firewall", "rule"],
  except: {
    "check-route": "sbr moves the route to a table of its own",
    ...BY_DEL,
  },
  keys: (hosts) => ({
    plugins: [
      { type: "ptp", ipMasq: true, ipam: ipam(hosts) },
      { type: "tuning", mtu: 1400, dataDir: `${hosts.directory}/tuning` },
      { type: "sbr" },
    ],
  }),
});
requirementsOn({
  type: "multus",
  isNightly: true,
  except: { ...BY_DEL, ...BY_STRESS },
  keys: (hosts) => ({
    cniDir: `${hosts.directory}/multus`,
    binDir: hosts.path,
    confDir: `${hosts.directory}/net.d`,
    delegates: [{
      cniVersion: "${VERSION}",
      name: "net1",
      type: "ptp",
      ipam: ipam(hosts),
    }],
  }),
});
