/**
 * Problems of a configuration that are not in any single plugin's part.
 *
 * @module
 */

import type { MetadataLookup } from "../../metadata/plugin_metadata.ts";
import { findValue, foldKey, type JsonObject } from "../../base/json/json.ts";
import { listCapabilities } from "../../libcni/conf.ts";
import type { NetworkConfList } from "../../libcni/mod.ts";
import { compareVersions, SPEC_VERSIONS } from "../../cni/version.ts";
import { CHAIN, type PlacedPlugin } from "../node/chain_form.ts";
import { type CheckedPlugin, listUsedCapabilities } from "./keys.ts";
import { didYouMean } from "../../base/command_line/suggest.ts";
import {
  errorAt,
  keyWarningAt,
  type Problem,
  unknownKeyAt,
  warningAt,
} from "../../metadata/problem.ts";
import { ipamOf } from "../../cni/config/ipam.ts";

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
  "allowPersistentIPs",
];
/** The first version with lists. */
const LISTS_SINCE = "0.3.0";

/** Keys of a plugin that have no effect in the list itself. */
const PLUGIN_KEYS = ["type", "ipam", "capabilities", "dns", "runtimeConfig"];

/**
 * Lists problems of the list itself. It might contain third-party keys.
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
    return hint === "" ? [] : [unknownKeyAt([key], `no such key${hint}`)];
  });
  return [...misspelt, ...checkVersion(cniVersion, document === undefined)];
}

function checkVersion(cniVersion: string, isBare: boolean): Problem[] {
  const known = SPEC_VERSIONS.find((version) => version === cniVersion);
  if (cniVersion === "") {
    return [
      warningAt(["cniVersion"], 'missing, which means "0.1.0"', "version"),
    ];
  }
  if (known === undefined) {
    const versions = SPEC_VERSIONS.join(", ");
    return [
      warningAt(["cniVersion"], `known versions are ${versions}`, "version"),
    ];
  }
  if (isBare || compareVersions(known, LISTS_SINCE) >= 0) return [];
  return [
    warningAt(
      ["cniVersion"],
      `lists of plugins require ${LISTS_SINCE} or later`,
      "version",
    ),
  ];
}

/** Lists problems with the order of the plugins. */
export function checkOrder(
  plugins: readonly PlacedPlugin[],
  metadataOf: MetadataLookup,
): Problem[] {
  return [
    ...checkPositions(plugins, metadataOf),
    ...checkRepetitions(plugins, metadataOf),
  ];
}

/** Lists plugins that would undo or repeat what the same plugin did before. */
function checkRepetitions(
  plugins: readonly PlacedPlugin[],
  metadataOf: MetadataLookup,
): Problem[] {
  return plugins.flatMap(({ conf: { type }, path }, index) => {
    const first = plugins.findIndex(({ conf }) => conf.type === type);
    const { kind, mayRepeat } = metadataOf(type) ?? {};
    return kind === "chained" && !mayRepeat && first < index
      ? [warningAt(path, `a second ${type}; one per network is enough`)]
      : [];
  });
}

function checkPositions(
  plugins: readonly PlacedPlugin[],
  metadataOf: MetadataLookup,
): Problem[] {
  const [first, ...others] = plugins
    .filter(({ conf }) => conf.type !== CHAIN);
  if (first === undefined) return [];
  const { type } = first.conf;
  const early = metadataOf(type)?.kind === "chained"
    ? [errorAt(first.path, `${type} must come after another plugin`)]
    : [];
  const idle =
    metadataOf(type)?.makesInterface === "with ipam" && !hasIpam(first)
      ? [
        errorAt(
          [...first.path, "ipam"],
          `${type} needs "ipam" if it comes first`,
        ),
      ]
      : [];
  const misplaced = plugins
    .filter(({ conf }) => metadataOf(conf.type)?.kind === "ipam")
    .map(({ conf, path }) =>
      errorAt(
        [...path, "type"],
        `${conf.type} makes no interface: name it in "ipam" of a plugin that does`,
      )
    );
  const late = others.filter(({ conf }) => {
    const metadata = metadataOf(conf.type);
    return metadata?.kind === "interface" &&
      metadata.makesInterface === undefined;
  }).map(({ conf, path }) =>
    warningAt(
      path,
      `no effect on the interface: ${conf.type} only brings up lo, and belongs ` +
        "in a network of its own",
      "no-effect",
    )
  );
  const makers = [first, ...others]
    .filter((plugin) => {
      const makes = metadataOf(plugin.conf.type)?.makesInterface;
      // A chained ipvlan takes the addresses of prevResult.
      return makes === "with ipam"
        ? plugin === first || hasIpam(plugin)
        : makes === true;
    });
  const [maker, ...more] = makers;
  return [
    ...early,
    ...idle,
    ...misplaced,
    ...late,
    ...more.map(({ conf, path }) =>
      errorAt(
        path,
        `${conf.type} would create the interface that ${maker?.conf.type} creates`,
      )
    ),
    ...maker === undefined ? [] : checkQueues(maker, others, metadataOf),
  ];
}

/** Lists plugins that queue the traffic of an interface that has no queues. */
function checkQueues(
  { conf: { type: maker } }: PlacedPlugin,
  others: readonly PlacedPlugin[],
  metadataOf: MetadataLookup,
): Problem[] {
  if (metadataOf(maker)?.queues !== "none") return [];
  return others
    .filter(({ conf }) => metadataOf(conf.type)?.queues === "needed")
    .map(({ conf: { type }, path }) =>
      errorAt(
        path,
        `${type} cannot limit the interface of ${maker}: use ptp or bridge`,
      )
    );
}

function hasIpam({ conf }: PlacedPlugin): boolean {
  return Boolean(findValue(ipamOf(conf.document), "type"));
}

/** Lists problems with a chain: the runtime does not check its content. */
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
    .filter((key) => findValue(conf.document, key) !== undefined)
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
  { conf, place, metadata, ipam, ipamMetadata }: CheckedPlugin,
): Problem[] {
  const given = ipamOf(conf.document);
  const type = findValue(given, "type");
  if (!type) {
    const keys = Object.keys(given).filter((key) => foldKey(key) !== "type");
    // flannel and other plugins have an IPAM plugin by default.
    if (
      keys.length > 0 && metadata?.ipam === "possible" &&
      metadata.runs === undefined
    ) {
      const named = keys.map((key) => `"${key}"`).join(", ");
      return [
        warningAt(
          [...place, "ipam", "type"],
          `missing, so nothing reads ${named}: name the IPAM plugin`,
        ),
      ];
    }
    return metadata?.ipam === "required"
      ? [
        errorAt(
          [...place, "ipam"],
          `${conf.type} needs "ipam", an IPAM plugin`,
        ),
      ]
      : [];
  }
  if (typeof type !== "string") return [];
  const refused = metadata?.refusesIpam;
  if (refused !== undefined && ipamMetadata?.traits?.includes(refused)) {
    const problem = `${conf.type} does not work with ${type}`;
    return [errorAt([...place, "ipam", "type"], problem)];
  }
  return ipam !== undefined && ipamMetadata?.kind !== "ipam"
    ? [errorAt([...place, "ipam", "type"], `${type} is not an IPAM plugin`)]
    : [];
}

/** Lists capabilities that are declared but unused, or missing. */
export function checkCapabilities(plugin: CheckedPlugin): Problem[] {
  const { conf: { type, capabilities }, place, metadata, ipamMetadata } =
    plugin;
  const used = metadata?.runs !== undefined
    ? undefined
    : listUsedCapabilities(plugin);
  const declared = Object.keys(capabilities)
    .filter((name) => capabilities[name]);
  // podman declares it for every IPAM plugin.
  const isHarmless = (name: string): boolean =>
    name === "ips" &&
    ipamMetadata?.traits?.includes("asks over link") === true;
  const useless = used === undefined ? [] : declared
    .filter((name) => !used.includes(name) && !isHarmless(name))
    .map((name) =>
      keyWarningAt(
        [...place, "capabilities", name],
        `${type} does not use it${didYouMean(name, used)}`,
        "no-effect",
      )
    );
  return useless;
}
