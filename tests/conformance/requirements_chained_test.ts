/** Requirements of the specification on plugins that follow another, and on IPAM plugins. */

import { requirementsOn } from "../_harness/requirements.ts";

/** Where a test of the plugin's own goes further. */
const BY_FAULTS = { "cut-short": "fault_test.ts fails each step, in two ways" };
const BY_STRESS = { "at-once": "a stress test attaches more" };

requirementsOn({
  type: "portmap",
  makes: ["firewall"],
  keys: () => ({ backend: "nftables" }),
  // What other programs changed in between, or left.
  optional: /^NFT_MSG_GET/,
});
requirementsOn({
  type: "firewall",
  isNightly: true,
  makes: ["firewall"],
  except: {
    ...BY_FAULTS,
    "check-too-early": "its first version has CHECK",
  },
});
requirementsOn({
  type: "bandwidth",
  isNightly: true,
  makes: ["shaping"],
  except: { ...BY_FAULTS, ...BY_STRESS },
});
const SYSCTL = "sysctls are not restored: they end with the container";
requirementsOn({
  type: "tuning",
  isNightly: true,
  makes: ["sysctl"],
  keys: (hosts) => ({ dataDir: `${hosts.directory}/tuning` }),
  except: {
    ...BY_FAULTS,
    "del": SYSCTL,
    "del-without-prev-result-clean": SYSCTL,
  },
});
requirementsOn({
  type: "sbr",
  isNightly: true,
  makes: ["rule"],
  except: {
    ...BY_FAULTS,
    ...BY_STRESS,
    "del-without-prev-result-clean":
      "only prevResult says where the default route was",
  },
});
requirementsOn({
  type: "host-local",
  except: BY_STRESS,
  keys: (hosts) => ({ ipam: hosts.hostLocal("10.88.0.0/16", "fd00:88::/64") }),
  full: (hosts) => ({ ipam: hosts.hostLocal("10.89.0.0/30") }),
});
requirementsOn({
  type: "static",
  isNightly: true,
  except: {
    "check-lease": "it keeps none",
    "status-full": "it gives the same address to all",
  },
});
