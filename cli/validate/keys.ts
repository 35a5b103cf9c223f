/**
 * The keys of a plugin's configuration: unknown keys and invalid values.
 *
 * @module
 */

import type { PluginMetadata } from "../../metadata/plugin_metadata.ts";
import {
  findValue,
  foldKeys,
  type JsonObject,
  listIssues,
  objectOf,
  type Schema,
} from "../../base/json/json.ts";
import type { PluginConf } from "../../libcni/mod.ts";
import {
  listKnownKeys,
  listUnknownKeys,
} from "../../cni/config/schema_keys.ts";
import { givenDnsSchema } from "../../cni/config/types.ts";
import { didYouMean } from "../../base/command_line/suggest.ts";
import { advise } from "./advice.ts";
import {
  type ConfigPath,
  errorAt,
  formatPlace,
  keyWarningAt,
  type Problem,
  unknownKeyAt,
} from "../../metadata/problem.ts";
import { ipamOf, ipamTypeOf } from "../../cni/config/ipam.ts";

/** Keys with the same meaning for every plugin, and keys of the runtime and the IPAM plugin. */
const COMMON_KEYS = [
  "type",
  "name",
  "cniVersion",
  "capabilities",
  "args",
  "runtimeConfig",
  "prevResult",
  "dns",
  "ipam",
];

/** A plugin's configuration, its place, and the schemas that decode it. */
export interface CheckedPlugin {
  readonly conf: PluginConf;
  readonly place: ConfigPath;
  /** The configuration with its keys as the schemas spell them. */
  readonly folded: JsonObject;
  /** Undefined for other projects' plugins. */
  readonly own: Schema<unknown> | undefined;
  /** The IPAM plugin's schema; undefined without an IPAM plugin, or for a third-party plugin. */
  readonly ipam: Schema<unknown> | undefined;
  /** What is known about the plugin; undefined if it is unknown. */
  readonly metadata: PluginMetadata | undefined;
  /** What is known about the IPAM plugin. */
  readonly ipamMetadata: PluginMetadata | undefined;
  /** Problems that a plugin outside of this project reports itself. */
  readonly reported: readonly Problem[];
  /** Whether multus adds the device that the cluster allocated. */
  readonly hasDevice?: boolean;
}

/** Spells the keys of a plugin's configuration as its schemas do. */
export function foldPlugin(
  { document }: PluginConf,
  schemas: readonly (Schema<unknown> | undefined)[],
): JsonObject {
  return schemas.reduce<JsonObject>(
    (folded, schema) =>
      schema === undefined ? folded : foldKeys(schema, folded) as JsonObject,
    document,
  );
}

/** A value that Calico replaces by the node's range. */
const PLACEHOLDER = /\busePodCidr(?:IPv6)?$/;

/** Lists values that the plugin or its IPAM plugin cannot read. */
export function listWrongValues(
  { conf: { document }, place, own, ipam }: CheckedPlugin,
): Problem[] {
  const found = new Map<string, Problem>();
  for (const schema of [own, ipam]) {
    // Both read some of the keys.
    for (
      const { path, message } of schema ? listIssues(schema, document) : []
    ) {
      if (own === undefined && PLACEHOLDER.test(message)) continue;
      const problem = errorAt(
        [...place, ...path],
        advise(message, path, document),
      );
      found.set(formatPlace(problem.place) + message, problem);
    }
  }
  return [...found.values()];
}

/** Lists keys in another case than the documentation's. It works, as in Go. */
export function listOddSpellings(
  { conf: { document }, place, folded, own }: CheckedPlugin,
): Problem[] {
  if (own === undefined) return [];
  const compare = (
    given: unknown,
    wanted: unknown,
    at: ConfigPath,
  ): Problem[] => {
    if (Array.isArray(given) && Array.isArray(wanted)) {
      return given.flatMap((item, index) =>
        compare(item, wanted[index], [...at, index])
      );
    }
    const known = Object.keys(objectOf(wanted as JsonObject));
    const value = objectOf(given as JsonObject);
    return Object.keys(value).flatMap((key) => {
      const others = at === place ? [...COMMON_KEYS, ...known] : known;
      const spelling = known.includes(key) && !isCommonKey(key)
        ? key
        : others.find((other) => other.toLowerCase() === key.toLowerCase()) ??
          key;
      const inner = compare(
        value[key],
        objectOf(wanted as JsonObject)[spelling],
        [...at, key],
      );
      return spelling === key ? inner : [
        keyWarningAt(
          [...at, key],
          `usually spelt "${spelling}"`,
          "key-spelling",
        ),
        ...inner,
      ];
    });
  };
  return compare(document, folded, place);
}

/** Lists keys that neither the plugin nor its IPAM plugin has. */
export function listStrangeKeys(
  { conf, place, own, ipam, metadata, ipamMetadata }: CheckedPlugin,
): Problem[] {
  const { type, document } = conf;
  if (metadata?.passesOn) return [];
  const inner = metadata?.runs?.areNetworks ? undefined : metadata?.runs?.key;
  const others = Object.fromEntries(
    Object.entries(document).filter(([key]) => !isCommonKey(key)),
  );
  const ipamType = ipamTypeOf(document) ?? "";
  const asked: (readonly [type: string, schema: typeof own, value: object])[] =
    [
      [type, own, others],
      // Any other plugin reads at most the type.
      ...ipamMetadata?.kind === "ipam"
        ? [[ipamType, ipam, { ipam: ipamOf(document) }] as const]
        : [],
      [
        "dns",
        givenDnsSchema() as Schema<unknown>,
        objectOf(findValue(document, "dns")),
      ],
    ];
  return asked.flatMap(([type, schema, value]) => {
    if (schema === undefined) return [];
    return listUnknownKeys(schema, value).flatMap(({ path, known }) => {
      const key = String(path.at(-1));
      if (isAnnotation(key)) return [];
      const isTop = path.length === 1 && type !== "dns";
      const candidates = isTop ? [...known, ...COMMON_KEYS] : known;
      const isMisplaced = isTop && ipam !== undefined &&
        listKnownKeys(ipam, "ipam").includes(key);
      const hint = isMisplaced
        ? '; it belongs in "ipam"'
        : isTop && inner !== undefined
        ? `; keys of the plugin that it runs belong in "${inner}"`
        : type === ipamType && own !== undefined &&
            listKnownKeys(own).includes(key)
        ? '; it belongs next to "ipam"'
        : didYouMeanWord(key, candidates) || didYouMean(key, candidates);
      const at = type === "dns" ? [...place, "dns"] : place;
      return [unknownKeyAt([...at, ...path], `${type} has no such key${hint}`)];
    });
  });
}

/** Keys of other programs for the same. */
const WORDS: Readonly<Record<string, string>> = {
  "cidr": "subnet",
  "destination": "dst",
  "gateway": "gw",
  "ipvlan_mode": "mode",
  "macvlan_mode": "mode",
  "parent": "master",
  "server": "nameservers",
  "servers": "nameservers",
  "to": "dst",
  "via": "gw",
};

function didYouMeanWord(key: string, known: readonly string[]): string {
  const word = Object.hasOwn(WORDS, key) ? WORDS[key] ?? "" : "";
  return known.includes(word) ? `; did you mean "${word}"?` : "";
}

function isCommonKey(key: string): boolean {
  return COMMON_KEYS.some((known) => known.toLowerCase() === key.toLowerCase());
}

/** Matches comments, and third-party keys: their domain comes before a slash. */
function isAnnotation(key: string): boolean {
  return /^[_$/#]|[./]/.test(key);
}

/**
 * Lists the capabilities that a plugin and its IPAM plugin use.
 *
 * @returns Undefined if unknown, because one of them is another project's
 */
export function listUsedCapabilities(
  { conf, own, ipam }: CheckedPlugin,
): string[] | undefined {
  const hasIpam = findValue(ipamOf(conf.document), "type") !== undefined;
  if (own === undefined || hasIpam && ipam === undefined) return undefined;
  return [own, ipam].flatMap((schema) =>
    schema ? listKnownKeys(schema, "runtimeConfig") : []
  );
}
