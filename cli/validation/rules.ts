/**
 * Problems of a configuration that are not in any single plugin's part.
 *
 * @module
 */

import { type JsonObject, objectOf } from "../../cni/json.ts";
import { listCapabilities } from "../../cni/libcni/conf.ts";
import type { NetworkConfList } from "../../cni/libcni/mod.ts";
import { compareVersions, SPEC_VERSIONS } from "../../cni/version.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip, unlessNoAddress } from "../../net/ip.ts";
import { CHAIN, type PlacedPlugin } from "../chain_form.ts";
import { listDuplicateKeys } from "./duplicate_keys.ts";
import {
  type CheckedPlugin,
  IPAM_PLUGINS,
  listUsedCapabilities,
} from "./keys.ts";
import { didYouMean } from "../../tool/suggest.ts";
import { errorAt, type Problem, warningAt } from "./problem.ts";

/** Plugins that create the container's interface. */
const INTERFACE_PLUGINS = [
  "bridge",
  "dummy",
  "flannel",
  "host-device",
  "ipvlan",
  "macvlan",
  "multus",
  "ptp",
  "tap",
  "vlan",
];
/** Plugins that need another plugin's result. */
const CHAINED_PLUGINS = [
  "bandwidth",
  "firewall",
  "portmap",
  "sbr",
  "tuning",
  "vrf",
];
/** Plugins that need an IPAM plugin. */
const IPAM_USERS = ["dummy", "ptp", "vlan"];
/** Plugins that ask for addresses before the link has a network. */
const WITHOUT_DHCP = ["dummy", "ptp"];
/** Keys of host-device that name the device. */
const DEVICE_KEYS = /^(device|hwaddr|kernelpath|pciBusID)$/i;
/** Plugins that pass capabilities on to others. */
const DELEGATING_PLUGINS = [CHAIN, "debug", "flannel", "multus"];

/** Keys of a list. Source: CNI spec 1.1.0, "Network configuration objects". */
const LIST_KEYS = [
  "cniVersion",
  "cniVersions",
  "name",
  "disableCheck",
  "disableGC",
  "loadOnlyInlinedPlugins",
  "plugins",
  "args",
];
/** The first version with lists. */
const LISTS_SINCE = "0.3.0";

/** Lists problems of the list itself. It may have keys that belong to others. */
export function checkList(
  { cniVersion, bytes }: NetworkConfList,
  document: JsonObject,
): Problem[] {
  const twice = listDuplicateKeys(new TextDecoder().decode(bytes))
    .map((path) => warningAt(path, "the key is repeated; the last one wins"));
  const keys = Object.keys(document).filter((key) => !LIST_KEYS.includes(key));
  const misspelt = keys.flatMap((key) => {
    const hint = didYouMean(key, LIST_KEYS);
    return hint === "" ? [] : [warningAt([key], `no such key${hint}`)];
  });
  return [...twice, ...misspelt, ...checkVersion(cniVersion)];
}

function checkVersion(cniVersion: string): Problem[] {
  const known = SPEC_VERSIONS.find((version) => version === cniVersion);
  if (cniVersion === "") {
    return [warningAt(["cniVersion"], 'missing, which means "0.1.0"')];
  }
  if (known === undefined) {
    const versions = SPEC_VERSIONS.join(", ");
    return [warningAt(["cniVersion"], `known versions are ${versions}`)];
  }
  if (compareVersions(known, LISTS_SINCE) >= 0) return [];
  return [
    warningAt(
      ["cniVersion"],
      `lists of plugins require ${LISTS_SINCE} or later`,
    ),
  ];
}

/** Lists problems with the order of the plugins. */
export function checkOrder(plugins: readonly PlacedPlugin[]): Problem[] {
  const [first, ...others] = plugins
    .filter(({ conf }) => conf.type !== CHAIN);
  if (first === undefined) return [];
  const { type } = first.conf;
  const early = CHAINED_PLUGINS.includes(type)
    ? [errorAt(first.path, `${type} must come after another plugin`)]
    : [];
  const makers = [first, ...others]
    .filter(({ conf }) => INTERFACE_PLUGINS.includes(conf.type))
    // A chained ipvlan takes the addresses of prevResult.
    .filter((plugin) => plugin === first || !isIpvlanWithoutIpam(plugin));
  const [maker, ...more] = makers;
  return [
    ...early,
    ...more.map(({ conf, path }) =>
      errorAt(
        path,
        `${conf.type} would create the interface that ${maker?.conf.type} creates`,
      )
    ),
  ];
}

function isIpvlanWithoutIpam({ conf }: PlacedPlugin): boolean {
  return conf.type === "ipvlan" && !objectOf(conf.document["ipam"])["type"];
}

/** Lists problems with a chain, whose content the runtime does not see. */
export function checkChain({ conf, path, links }: PlacedPlugin): Problem[] {
  if (conf.type !== CHAIN) return [];
  if (links.length === 0) return [errorAt([...path, "plugins"], "missing")];
  const undeclared = listCapabilities(links)
    .filter((name) => conf.capabilities[name] !== true)
    .map((name) =>
      errorAt(
        [...path, "capabilities"],
        `"${name}" is missing: a plugin of the chain declares it, but ` +
          "the runtime does not pass it on",
      )
    );
  const misplaced = ["ipam", "dns", "ipMasq"]
    .filter((key) => conf.document[key] !== undefined)
    .map((key) =>
      errorAt(
        [...path, key],
        "no effect in a chain; set it in one of its plugins",
      )
    );
  return [...undeclared, ...misplaced];
}

/** Lists problems with the use of an IPAM plugin. */
export function checkIpam(
  { conf, place }: CheckedPlugin,
  isOurs: (type: string) => boolean,
): Problem[] {
  const ipam = objectOf(conf.document["ipam"]);
  const { type } = ipam;
  if (!type) {
    return IPAM_USERS.includes(conf.type)
      ? [errorAt([...place, "ipam"], `${conf.type} needs an IPAM plugin`)]
      : [];
  }
  if (typeof type !== "string") return [];
  if (type === "dhcp" && WITHOUT_DHCP.includes(conf.type)) {
    const problem = `${conf.type} does not work with dhcp`;
    return [errorAt([...place, "ipam", "type"], problem)];
  }
  return isOurs(type) && !IPAM_PLUGINS.includes(type)
    ? [errorAt([...place, "ipam", "type"], `${type} is not an IPAM plugin`)]
    : [];
}

/** Lists that host-device does not know its device. */
export function checkDevice({ conf, place }: CheckedPlugin): Problem[] {
  const { type, capabilities, document } = conf;
  const isNamed = capabilities["deviceID"] === true ||
    Object.keys(document).some((key) =>
      DEVICE_KEYS.test(key) && document[key] !== ""
    );
  return type !== "host-device" || isNamed ? [] : [
    errorAt(
      place,
      'no device: set "device", "hwaddr", "kernelpath", "pciBusID", ' +
        'or the capability "deviceID"',
    ),
  ];
}

/** Lists capabilities that are declared but unused, or missing. */
export function checkCapabilities(plugin: CheckedPlugin): Problem[] {
  const { conf: { type, capabilities, document }, place } = plugin;
  const used = DELEGATING_PLUGINS.includes(type)
    ? undefined
    : listUsedCapabilities(plugin);
  const declared = Object.keys(capabilities)
    .filter((name) => capabilities[name]);
  const useless = used === undefined ? [] : declared
    .filter((name) => !used.includes(name))
    .map((name) =>
      warningAt(
        [...place, "capabilities", name],
        `${type} does not use it${didYouMean(name, used)}`,
      )
    );
  return [
    ...useless,
    ...used === undefined ? [] : listIdle(type, declared, document)
      .map((problem) => warningAt(place, problem)),
  ];
}

/** Lists why a plugin would change nothing. */
function listIdle(
  type: string,
  declared: readonly string[],
  document: JsonObject,
): string[] {
  if (
    type === "bandwidth" && !declared.includes("bandwidth") &&
    !hasRate(document)
  ) {
    return [
      'bandwidth limits nothing: neither a rate nor the capability "bandwidth" is there',
    ];
  }
  if (type === "portmap" && !declared.includes("portMappings")) {
    return ['portmap maps nothing: the capability "portMappings" is missing'];
  }
  return [];
}

function hasRate(document: JsonObject): boolean {
  return Object.entries(document).some(([key, value]) =>
    /^(in|e)gressrate$/i.test(key) && value !== null && value !== 0
  );
}

/** Lists addresses and routes that make no sense for any plugin. */
export function checkAddresses({ conf, place }: CheckedPlugin): Problem[] {
  const { ipam, dns } = conf.document;
  const { routes, addresses, dns: ipamDns } = objectOf(ipam);
  const at = [...place, "ipam"];
  return [
    ...listOf(routes).flatMap((route, index, all) => {
      const isSame = (other: JsonObject): boolean =>
        ["dst", "table", "priority"].every((key) => other[key] === route[key]);
      return all.findIndex(isSame) === index ? [] : [
        warningAt(
          [...at, "routes", index],
          `a second route to ${route["dst"]}; only one of them takes effect`,
        ),
      ];
    }),
    ...listOf(addresses).flatMap(({ address, gateway }, index) => {
      if (isOutside(address, gateway) !== true) return [];
      const path = [...at, "addresses", index, "gateway"];
      return [warningAt(path, `${gateway} is not in ${address}`)];
    }),
    ...checkNameservers([...place, "dns"], dns),
    ...checkNameservers([...at, "dns"], ipamDns),
  ];
}

function listOf(value: JsonObject[string] | undefined): JsonObject[] {
  return Array.isArray(value) ? value.map(objectOf) : [];
}

/** Reports whether a gateway is outside an address's subnet; undefined if unknown. */
function isOutside(address: unknown, gateway: unknown): boolean | undefined {
  if (typeof address !== "string" || typeof gateway !== "string") return;
  return unlessNoAddress(() =>
    gateway !== "" && !Cidr.parse(address).contains(Ip.parse(gateway))
  );
}

function checkNameservers(
  place: readonly PropertyKey[],
  dns: JsonObject[string] | undefined,
): Problem[] {
  const { nameservers } = objectOf(dns);
  return (Array.isArray(nameservers) ? nameservers : [])
    .flatMap((server, index) => {
      if (typeof server !== "string") return [];
      if (unlessNoAddress(() => Ip.parse(server))) return [];
      const path = [...place, "nameservers", index];
      return [warningAt(path, `"${server}" is not an IP address`)];
    });
}
