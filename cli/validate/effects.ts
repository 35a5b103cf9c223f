/**
 * Keys without effect, and keys that contradict each other, in one plugin.
 *
 * @module
 */

import { findValue, type JsonValue, objectOf } from "../../base/json/json.ts";
import { listKnownKeys } from "../../cni/config/schema_keys.ts";
import { listRanges } from "./addresses.ts";
import type { CheckedPlugin } from "./keys.ts";
import {
  type ConfigPath,
  errorAt,
  keyWarningAt,
  type Problem,
  readIp,
  under,
  warningAt,
} from "../../metadata/problem.ts";
import { ipamOf } from "../../cni/config/ipam.ts";

/** Lists keys that have no effect, or contradict each other. */
export function checkEffects(
  checked: CheckedPlugin,
  list: { readonly name: string; readonly cniVersion: string },
): Problem[] {
  const { own } = checked;
  return [
    ...checkOverrides(checked, list),
    ...checkDataDir(checked),
    ...own === undefined ? [] : [
      ...checkUnused(checked),
      ...checkMtu(checked),
      ...checkMasquerade(checked),
      ...checkMasqueradedFamilies(checked),
      ...checkHostAddresses(checked),
    ],
    ...lint(checked),
  ];
}

/** Runs the lint of the plugin and of its IPAM plugin. */
function lint(
  { conf, folded, place, own, ipam, metadata, ipamMetadata, hasDevice = false }:
    CheckedPlugin,
): Problem[] {
  const { capabilities } = conf;
  const given = { conf: folded, capabilities, hasDevice };
  return under(place, [
    ...own === undefined
      ? []
      : metadata?.lint?.({ ...given, isOurs: true }) ?? [],
    ...ipamMetadata?.lint?.({ ...given, isOurs: ipam !== undefined }) ?? [],
  ]);
}

/** Directories where nothing can be created. */
const PSEUDO_DIRECTORY = /^\/(proc|sys)(\/|$)/;

function checkDataDir({ folded, place, ipam }: CheckedPlugin): Problem[] {
  const { dataDir } = ipamOf(folded);
  if (ipam === undefined || typeof dataDir !== "string" || dataDir === "") {
    return [];
  }
  const at = [...place, "ipam", "dataDir"];
  if (!dataDir.startsWith("/")) {
    return [
      warningAt(
        at,
        "a relative path depends on the runtime's directory",
        "node-file",
      ),
    ];
  }
  return PSEUDO_DIRECTORY.test(dataDir)
    ? [warningAt(at, `nothing can be written to "${dataDir}"`, "node-file")]
    : [];
}

/** Keys that the runtime overwrites. */
function checkOverrides(
  { conf: { document }, place, own }: CheckedPlugin,
  list: { readonly cniVersion: string },
): Problem[] {
  // Many networks name their plugins, which does no harm.
  const cniVersion = findValue(document, "cniVersion");
  const isOther = own !== undefined && typeof cniVersion === "string" &&
    cniVersion !== "" && cniVersion !== list.cniVersion;
  return [
    ...isOther
      ? [
        keyWarningAt(
          [...place, "cniVersion"],
          `no effect: the plugin gets the version of the list, "${list.cniVersion}"`,
          "no-effect",
        ),
      ]
      : [],
    ...findValue(document, "prevResult") === undefined ? [] : [
      keyWarningAt(
        [...place, "prevResult"],
        "the runtime sets it",
        "no-effect",
      ),
    ],
  ];
}

/** `ipam` and `dns` of plugins that do not read them. */
function checkUnused({ conf, place, own, metadata }: CheckedPlugin): Problem[] {
  const { type, document } = conf;
  if (metadata === undefined || metadata.passesOn) return [];
  const isUsed: Readonly<Record<string, boolean>> = {
    "ipam": metadata.ipam !== undefined,
    "dns": metadata.runs !== undefined ||
      own !== undefined && listKnownKeys(own).includes("dns"),
  };
  return Object.keys(isUsed)
    .filter((key) =>
      !isUsed[key] &&
      Object.keys(objectOf(findValue(document, key))).length > 0
    )
    .map((key) =>
      keyWarningAt(
        [...place, key],
        `no effect: ${type} ignores it`,
        "no-effect",
      )
    );
}

/** Source: the kernel's `ETH_MIN_MTU`, `ETH_MAX_MTU`; RFC 8200, 5. */
const MIN_MTU = 68, MAX_MTU = 65_535, MIN_IPV6_MTU = 1280;

function checkMtu(checked: CheckedPlugin): Problem[] {
  const { folded: { mtu }, place, metadata, own } = checked;
  if (!Number.isInteger(mtu) || mtu === 0) return [];
  const bytes = Number(mtu);
  const at = [...place, "mtu"];
  if (bytes < 0) {
    const ofMaster = metadata?.network?.joins === "lower link" &&
      own !== undefined && listKnownKeys(own).includes("mtu");
    return ofMaster
      ? [errorAt(at, "expected at least 0, where 0 means the master's")]
      : [warningAt(at, "negative, which means the default")];
  }
  if (bytes < MIN_MTU || bytes > MAX_MTU) {
    const problem = `expected ${MIN_MTU} to ${MAX_MTU} bytes, got ${mtu}`;
    return [errorAt(at, problem)];
  }
  const hasIpv6 = listRanges(checked).some(({ subnet }) => subnet.family === 6);
  return bytes < MIN_IPV6_MTU && hasIpv6
    ? [errorAt(at, `IPv6 needs at least ${MIN_IPV6_MTU} bytes, got ${mtu}`)]
    : [];
}

/** Keys about masquerading only matter once it is on. */
function checkMasquerade({ folded, place }: CheckedPlugin): Problem[] {
  const { ipMasq, ipMasqBackend } = folded;
  const idle = ipMasq === true
    ? []
    : ["ipMasqFamilies", "outboundAddresses"].filter((key) =>
      folded[key] !== undefined
    ).map((key) =>
      warningAt([...place, key], "has no effect without ipMasq", "no-effect")
    );
  const isUnknown = typeof ipMasqBackend === "string" &&
    !["", "nftables", "iptables"].includes(ipMasqBackend);
  return isUnknown && ipMasq !== true
    ? [
      ...idle,
      warningAt(
        [...place, "ipMasqBackend"],
        `expected "nftables" or "iptables", got "${ipMasqBackend}"`,
      ),
    ]
    : idle;
}

/** Finds families to masquerade, and outbound addresses, that no container has. */
function checkMasqueradedFamilies(
  { conf: { capabilities }, folded, place, ipamMetadata }: CheckedPlugin,
): Problem[] {
  const subnets = ipamMetadata?.subnets?.(ipamOf(folded))?.flat() ?? [];
  // A runtime might pass addresses of the other family.
  const isKnown = subnets.length > 0 &&
    Object.values(capabilities).every((is) => !is);
  if (folded["ipMasq"] !== true || !isKnown) return [];
  const isMissing = (family: JsonValue | undefined): boolean =>
    !subnets.some(({ subnet }) => subnet.family === family);
  const idle = (at: ConfigPath, family: JsonValue | undefined): Problem =>
    warningAt(
      [...place, ...at],
      `no effect: containers have no IPv${family} addresses`,
      "no-effect",
    );
  const { ipMasqFamilies, outboundAddresses } = folded;
  const families = Array.isArray(ipMasqFamilies) ? ipMasqFamilies : [];
  return [
    // Both families of a network for one of them do no harm.
    ...families.length > 0 && families.every(isMissing)
      ? [idle(["ipMasqFamilies"], families[0])]
      : [],
    ...(Array.isArray(outboundAddresses) ? outboundAddresses : [])
      .flatMap((text, index) => {
        const family = readIp(text)?.family;
        return family !== undefined && isMissing(family)
          ? [idle(["outboundAddresses", index], family)]
          : [];
      }),
  ];
}

/** Finds addresses of the host that a container would also get. */
function checkHostAddresses(checked: CheckedPlugin): Problem[] {
  const { hostAccess, hostAddresses } = checked.folded;
  if (hostAccess !== true || !Array.isArray(hostAddresses)) return [];
  const ranges = listRanges(checked);
  return hostAddresses.flatMap((text, index) => {
    const ip = readIp(text);
    if (ip === undefined) return [];
    const range = ranges.find(({ start, end, withheld }) =>
      ip.family === start.family && start.compare(ip) <= 0 &&
      ip.compare(end) <= 0 && !withheld?.some((block) => block.contains(ip))
    );
    return range === undefined ? [] : [
      warningAt(
        [...checked.place, "hostAddresses", index],
        `${ip} is also in the containers' range of ${range.subnet}: add it to ` +
          '"exclude" of the range',
      ),
    ];
  });
}
