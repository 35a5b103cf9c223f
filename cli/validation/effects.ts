/**
 * Keys without effect, and keys that contradict each other, in one plugin.
 *
 * @module
 */

import { type JsonObject, objectOf } from "../../cni/json.ts";
import { listKnownKeys } from "../../cni/schema_keys.ts";
import { listRanges } from "./addresses.ts";
import { type CheckedPlugin, PASSING_ON } from "./keys.ts";
import {
  errorAt,
  keyWarningAt,
  type Place,
  type Problem,
  warningAt,
} from "./problem.ts";

/** Plugins that need an IPAM plugin. */
export const IPAM_USERS: readonly string[] = ["dummy", "ptp", "vlan"];
/** Plugins that run the IPAM plugin if there is one. */
const MAY_USE_IPAM = [
  ...IPAM_USERS,
  "bridge",
  "chain",
  "debug",
  "flannel",
  "host-device",
  "ipvlan",
  "macvlan",
  "multus",
  "noop",
  "tap",
];

/** A plugin's own check. */
type Check = (checked: CheckedPlugin) => Problem[];

/** Checks by plugin type. */
const OWN_CHECKS: Readonly<Record<string, Check>> = {
  "bandwidth": checkLimits,
  "bridge": checkBridge,
  "host-device": checkDevice,
  "multus": checkNetworks,
  "portmap": checkMappings,
  "sbr": checkTable,
  "vrf": checkVrf,
};

/** Lists keys that have no effect, or contradict each other. */
export function checkEffects(
  checked: CheckedPlugin,
  list: { readonly name: string; readonly cniVersion: string },
): Problem[] {
  const { conf: { type }, own } = checked;
  return [
    ...checkOverrides(checked, list),
    ...checkDataDir(checked),
    ...checkRangeKeys(checked),
    ...own === undefined ? [] : [
      ...checkUnused(checked),
      ...checkMtu(checked),
      ...checkMasquerade(checked),
      ...Object.hasOwn(OWN_CHECKS, type)
        ? OWN_CHECKS[type]?.(checked) ?? []
        : [],
    ],
  ];
}

/** Folders where nothing can be created. */
const PSEUDO_FOLDER = /^\/(proc|sys)(\/|$)/;

function checkDataDir({ folded, place, ipam }: CheckedPlugin): Problem[] {
  const { dataDir } = objectOf(folded["ipam"]);
  if (ipam === undefined || typeof dataDir !== "string" || dataDir === "") {
    return [];
  }
  const at = [...place, "ipam", "dataDir"];
  if (!dataDir.startsWith("/")) {
    return [warningAt(at, "a relative path depends on the runtime's folder")];
  }
  return PSEUDO_FOLDER.test(dataDir)
    ? [warningAt(at, `nothing can be written to "${dataDir}"`)]
    : [];
}

/** Keys of the range that is host-local's own object, if that has none. */
function checkRangeKeys({ folded, place, ipam }: CheckedPlugin): Problem[] {
  const own = objectOf(folded["ipam"]);
  if (ipam === undefined || own["type"] !== "host-local" || own["subnet"]) {
    return [];
  }
  return ["rangeStart", "rangeEnd", "gateway"]
    .filter((key) => own[key] !== undefined)
    .map((key) =>
      keyWarningAt(
        [...place, "ipam", key],
        'no effect without "subnet" beside it; put it into a range of "ranges"',
      )
    );
}

/** Keys that the runtime overwrites. */
function checkOverrides(
  { conf: { document }, place, own }: CheckedPlugin,
  list: { readonly name: string; readonly cniVersion: string },
): Problem[] {
  const differing = (["name", "cniVersion"] as const).filter((key) =>
    // Networks of AWS and Linkerd name their plugins, which does no harm.
    own !== undefined && typeof document[key] === "string" &&
    document[key] !== "" &&
    document[key] !== list[key]
  );
  return [
    ...differing.map((key) =>
      keyWarningAt(
        [...place, key],
        `no effect: the plugin gets the list's, ${JSON.stringify(list[key])}`,
      )
    ),
    ...document["prevResult"] === undefined
      ? []
      : [keyWarningAt([...place, "prevResult"], "the runtime sets it")],
  ];
}

/** `ipam` and `dns` of plugins that do not read them. */
function checkUnused({ conf, place, own }: CheckedPlugin): Problem[] {
  const { type, document } = conf;
  if (PASSING_ON.includes(type)) return [];
  const isUsed: Readonly<Record<string, boolean>> = {
    "ipam": MAY_USE_IPAM.includes(type),
    "dns": ["chain", "debug", "flannel", "multus", "noop"].includes(type) ||
      own !== undefined && listKnownKeys(own).includes("dns"),
  };
  return Object.keys(isUsed)
    .filter((key) => !isUsed[key] && document[key] !== undefined)
    .filter((key) => Object.keys(objectOf(document[key])).length > 0)
    .map((key) =>
      keyWarningAt([...place, key], `no effect: ${type} ignores it`)
    );
}

/** Source: the kernel's `ETH_MIN_MTU`, `ETH_MAX_MTU`; RFC 8200, 5. */
const MIN_MTU = 68, MAX_MTU = 65_535, MIN_IPV6_MTU = 1280;

function checkMtu(checked: CheckedPlugin): Problem[] {
  const { folded: { mtu }, place } = checked;
  if (!Number.isInteger(mtu) || mtu === 0) return [];
  const bytes = Number(mtu);
  const at = [...place, "mtu"];
  if (bytes < 0) return [warningAt(at, "negative, which means the default")];
  if (bytes < MIN_MTU || bytes > MAX_MTU) {
    const problem = `expected ${MIN_MTU} to ${MAX_MTU} bytes, got ${mtu}`;
    return [errorAt(at, problem)];
  }
  const hasIpv6 = listRanges(checked).some(({ subnet }) => subnet.family === 6);
  return bytes < MIN_IPV6_MTU && hasIpv6
    ? [errorAt(at, `IPv6 needs at least ${MIN_IPV6_MTU} bytes, got ${mtu}`)]
    : [];
}

/** An unknown backend only matters once masquerading is on. */
function checkMasquerade({ folded, place }: CheckedPlugin): Problem[] {
  const { ipMasq, ipMasqBackend } = folded;
  const isUnknown = typeof ipMasqBackend === "string" &&
    !["", "nftables", "iptables"].includes(ipMasqBackend);
  return isUnknown && ipMasq !== true
    ? [
      warningAt(
        [...place, "ipMasqBackend"],
        `expected "nftables" or "iptables", got "${ipMasqBackend}"`,
      ),
    ]
    : [];
}

function checkBridge({ folded, place }: CheckedPlugin): Problem[] {
  const hasIpam = Boolean(objectOf(folded["ipam"])["type"]);
  const idle = ["isGateway", "isDefaultGateway", "ipMasq", "forceAddress"]
    .filter((key) => folded[key] === true && !hasIpam);
  return idle.map((key) =>
    keyWarningAt([...place, key], 'no effect without "ipam"')
  );
}

/** Keys of host-device that name the device. */
const DEVICE_KEYS = ["device", "hwaddr", "kernelpath", "pciBusID"];

function checkDevice(
  { conf, folded, place, hasDevice }: CheckedPlugin,
): Problem[] {
  const isNamed = hasDevice || conf.capabilities["deviceID"] === true ||
    DEVICE_KEYS.some((key) => folded[key]);
  return isNamed ? [] : [
    errorAt(
      place,
      'no device: set "device", "hwaddr", "kernelpath", "pciBusID", ' +
        'or the capability "deviceID"',
    ),
  ];
}

function checkNetworks({ folded, place }: CheckedPlugin): Problem[] {
  const { delegates, clusterNetwork } = folded;
  const hasDelegates = Array.isArray(delegates) && delegates.length > 0;
  return hasDelegates || clusterNetwork ? [] : [
    errorAt(place, 'multus needs "clusterNetwork" or "delegates"'),
  ];
}

function checkMappings({ conf, place }: CheckedPlugin): Problem[] {
  if (conf.capabilities["portMappings"]) return [];
  return [
    warningAt(
      place,
      'portmap maps nothing: the capability "portMappings" is missing',
    ),
  ];
}

/** Numbers of the kernel's tables. Source: linux/rtnetlink.h. */
const KERNEL_TABLES: Readonly<Record<number, string>> = {
  253: "default",
  254: "main",
  255: "local",
};

function checkTable({ folded, place }: CheckedPlugin): Problem[] {
  const name = KERNEL_TABLES[Number(folded["table"])];
  return name === undefined ? [] : [
    warningAt([...place, "table"], `the table ${name} of the container itself`),
  ];
}

function checkVrf({ folded, place }: CheckedPlugin): Problem[] {
  return folded["vrfname"] ? [] : [errorAt([...place, "vrfname"], "missing")];
}

/** Source: plugins/bandwidth/limits.ts. */
const MAX_BURST_BITS = 0xffff_ffff * 8;

function checkLimits({ conf, folded, place }: CheckedPlugin): Problem[] {
  const directions = (["ingress", "egress"] as const).flatMap((direction) =>
    checkLimit(folded, direction, place)
  );
  const keys = ["shapedSubnets", "unshapedSubnets"].filter((key) => {
    const subnets = folded[key];
    return Array.isArray(subnets) && subnets.length > 0;
  });
  const both = keys.length < 2 ? [] : [
    errorAt(
      [...place, "unshapedSubnets"],
      "shapedSubnets and unshapedSubnets exclude each other",
    ),
  ];
  const hasRate = [folded["ingressRate"], folded["egressRate"]].some(Boolean);
  const idle = hasRate || conf.capabilities["bandwidth"] ? [] : [
    warningAt(
      place,
      "bandwidth limits nothing: it never gets a rate, as neither a rate nor " +
        'the capability "bandwidth" is there',
    ),
  ];
  return [...directions, ...both, ...idle];
}

function checkLimit(
  folded: JsonObject,
  direction: string,
  place: Place,
): Problem[] {
  const rateKey = `${direction}Rate`, burstKey = `${direction}Burst`;
  const rate = Number(folded[rateKey] ?? 0);
  const burst = Number(folded[burstKey] ?? 0);
  if (rate > 0 && burst === 0) {
    return [errorAt([...place, rateKey], `${burstKey} must also be set`)];
  }
  if (burst > 0 && rate === 0) {
    return [errorAt([...place, burstKey], `${rateKey} must also be set`)];
  }
  if (burst >= MAX_BURST_BITS) {
    return [errorAt([...place, burstKey], "more than 4 GB; the unit is bits")];
  }
  return [];
}
