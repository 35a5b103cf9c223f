/**
 * The keys of one plugin's configuration: unknown keys and invalid values.
 *
 * @module
 */

import { listIssues, objectOf, type Schema } from "../../cni/json.ts";
import type { PluginConf } from "../../cni/libcni/mod.ts";
import { listKnownKeys, listUnknownKeys } from "../../cni/schema_keys.ts";
import { didYouMean } from "../../tool/suggest.ts";
import { errorAt, type Place, type Problem, warningAt } from "./problem.ts";

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

/** This project's IPAM plugins. */
export const IPAM_PLUGINS: readonly string[] = ["dhcp", "host-local", "static"];

/** A plugin's configuration, its place, and the schemas that decode it. */
export interface CheckedPlugin {
  readonly conf: PluginConf;
  readonly place: Place;
  /** Undefined for other projects' plugins. */
  readonly own: Schema<unknown> | undefined;
  /** The IPAM plugin's schema; undefined without one, or for another project's. */
  readonly ipam: Schema<unknown> | undefined;
}

/** Lists values that the plugin or its IPAM plugin cannot read. */
export function listWrongValues(
  { conf, place, own, ipam }: CheckedPlugin,
): Problem[] {
  const problems = [own, ipam]
    .flatMap((schema) => schema ? listIssues(schema, conf.document) : [])
    .map(({ path, message }) => errorAt([...place, ...path], message));
  // Both read some of the keys.
  return problems.filter((one, index) =>
    problems.findIndex((other) => isSame(one, other)) === index
  );
}

function isSame(one: Problem, other: Problem): boolean {
  return one.path === other.path && one.message === other.message;
}

/** Lists keys that neither the plugin nor its IPAM plugin knows. */
export function listStrangeKeys(
  { conf, place, own, ipam }: CheckedPlugin,
): Problem[] {
  const { type, document } = conf;
  const isCommon = (key: string): boolean =>
    COMMON_KEYS.some((known) => known.toLowerCase() === key.toLowerCase());
  const others = Object.fromEntries(
    Object.entries(document).filter(([key]) => !isCommon(key)),
  );
  const ipamType = String(objectOf(document["ipam"])["type"]);
  const asked: (readonly [type: string, schema: typeof own, value: object])[] =
    [
      [type, own, others],
      // Any other plugin reads at most the type.
      ...IPAM_PLUGINS.includes(ipamType)
        ? [[ipamType, ipam, { ipam: document["ipam"] }] as const]
        : [],
    ];
  return asked.flatMap(([type, schema, value]) => {
    if (schema === undefined) return [];
    return listUnknownKeys(schema, value).flatMap(({ path, known }) => {
      const key = String(path.at(-1));
      if (isAnnotation(key)) return [];
      const candidates = path.length === 1 ? [...known, ...COMMON_KEYS] : known;
      const problem = `${type} has no such key${didYouMean(key, candidates)}`;
      return [warningAt([...place, ...path], problem)];
    });
  });
}

/** Matches comments, and keys that belong to others: their domain comes before a slash. */
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
  const hasIpam = objectOf(conf.document["ipam"])["type"] !== undefined;
  if (own === undefined || hasIpam && ipam === undefined) return undefined;
  return [own, ipam].flatMap((schema) =>
    schema ? listKnownKeys(schema, "runtimeConfig") : []
  );
}
