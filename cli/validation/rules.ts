/**
 * Problems of a configuration that are not in any single plugin's part.
 *
 * @module
 */

import { type JsonObject, objectOf } from "../../cni/json.ts";
import { listCapabilities } from "../../cni/libcni/conf.ts";
import type { NetworkConfList } from "../../cni/libcni/mod.ts";
import { compareVersions, SPEC_VERSIONS } from "../../cni/version.ts";
import { CHAIN, type PlacedPlugin } from "../chain_form.ts";
import { IPAM_USERS } from "./effects.ts";
import {
  type CheckedPlugin,
  IPAM_PLUGINS,
  listUsedCapabilities,
} from "./keys.ts";
import { didYouMean } from "../../tool/suggest.ts";
import { errorAt, keyWarningAt, type Problem, warningAt } from "./problem.ts";

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
/** Plugins that ask for addresses before the link has a network. */
const WITHOUT_DHCP = ["dummy", "ptp"];
/** Plugins that pass capabilities on to others. */
const DELEGATING_PLUGINS = [CHAIN, "debug", "flannel", "multus", "remote"];

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

/** Keys of a plugin that have no effect in the list itself. */
const PLUGIN_KEYS = ["type", "ipam", "capabilities", "dns", "runtimeConfig"];

/**
 * Lists problems of the list itself. It may have keys that belong to others.
 *
 * @param document Undefined if the configuration is a bare plugin
 */
export function checkList(
  { cniVersion }: NetworkConfList,
  document: JsonObject | undefined,
): Problem[] {
  const keys = Object.keys(document ?? {}).filter((key) =>
    !LIST_KEYS.includes(key)
  );
  const misspelt = keys.flatMap((key) => {
    if (PLUGIN_KEYS.includes(key)) {
      const problem = 'no effect here: it belongs in an item of "plugins"';
      return [keyWarningAt([key], problem)];
    }
    const hint = didYouMean(key, LIST_KEYS);
    return hint === "" ? [] : [keyWarningAt([key], `no such key${hint}`)];
  });
  return [...misspelt, ...checkVersion(cniVersion, document === undefined)];
}

function checkVersion(cniVersion: string, isBare: boolean): Problem[] {
  const known = SPEC_VERSIONS.find((version) => version === cniVersion);
  if (cniVersion === "") {
    return [warningAt(["cniVersion"], 'missing, which means "0.1.0"')];
  }
  if (known === undefined) {
    const versions = SPEC_VERSIONS.join(", ");
    return [warningAt(["cniVersion"], `known versions are ${versions}`)];
  }
  if (isBare || compareVersions(known, LISTS_SINCE) >= 0) return [];
  return [
    warningAt(
      ["cniVersion"],
      `lists of plugins require ${LISTS_SINCE} or later`,
    ),
  ];
}

/** Lists problems with the order of the plugins. */
export function checkOrder(plugins: readonly PlacedPlugin[]): Problem[] {
  return [...checkPositions(plugins), ...checkRepetitions(plugins)];
}

/** Lists plugins that would undo or repeat what the same plugin did before. */
function checkRepetitions(plugins: readonly PlacedPlugin[]): Problem[] {
  return plugins.flatMap(({ conf: { type }, path }, index) => {
    const first = plugins.findIndex(({ conf }) => conf.type === type);
    return CHAINED_PLUGINS.includes(type) && type !== "tuning" && first < index
      ? [warningAt(path, `a second ${type}; one per network is enough`)]
      : [];
  });
}

function checkPositions(plugins: readonly PlacedPlugin[]): Problem[] {
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
    .map((key) => ({
      ...errorAt(
        [...path, key],
        "no effect in a chain; set it in one of its plugins",
      ),
      isKey: true,
    }));
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
      ? [
        errorAt(
          [...place, "ipam"],
          `${conf.type} needs "ipam", an IPAM plugin`,
        ),
      ]
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

/** Lists capabilities that are declared but unused, or missing. */
export function checkCapabilities(plugin: CheckedPlugin): Problem[] {
  const { conf: { type, capabilities }, place } = plugin;
  const used = DELEGATING_PLUGINS.includes(type)
    ? undefined
    : listUsedCapabilities(plugin);
  const declared = Object.keys(capabilities)
    .filter((name) => capabilities[name]);
  // podman declares it for every IPAM plugin.
  const isHarmless = (name: string): boolean =>
    name === "ips" && objectOf(plugin.folded["ipam"])["type"] === "dhcp";
  const useless = used === undefined ? [] : declared
    .filter((name) => !used.includes(name) && !isHarmless(name))
    .map((name) =>
      keyWarningAt(
        [...place, "capabilities", name],
        `${type} does not use it${didYouMean(name, used)}`,
      )
    );
  return useless;
}
