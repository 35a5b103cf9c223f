/**
 * The schemas of custom resources: a server drops the fields that they lack, and
 * refuses objects without the fields that they require.
 *
 * Source: whereabouts doc/crds
 *
 * @module
 */

import { isObject } from "./merge_patch.ts";
import type { NewObject, ResourceName } from "./objects.ts";

/** Fields by name: `true` for any value, `*` for any other name. */
interface Fields {
  readonly [name: string]: Fields | true;
}

const SPECS: Partial<
  Record<ResourceName, { fields: Fields; needs: string[] }>
> = {
  ippools: {
    fields: {
      range: true,
      allocations: { "*": { id: true, podref: true, ifname: true } },
    },
    needs: ["range", "allocations"],
  },
  overlappingrangeipreservations: {
    fields: { podref: true, ifname: true, containerid: true },
    needs: ["podref"],
  },
};

/** Returns an object without the fields that its schema lacks. */
export function prune<T extends NewObject>(
  resource: ResourceName,
  object: T,
): T {
  const schema = SPECS[resource];
  if (schema === undefined || !isObject(object["spec"])) return object;
  return { ...object, spec: pruneFields(object["spec"], schema.fields) };
}

/** Returns the first required field of the spec that is missing. */
export function findMissing(
  resource: ResourceName,
  object: NewObject,
): string | undefined {
  const spec = isObject(object["spec"]) ? object["spec"] : {};
  return SPECS[resource]?.needs.find((name) => spec[name] === undefined);
}

function pruneFields(
  value: Record<string, unknown>,
  fields: Fields,
): Record<string, unknown> {
  const kept = Object.entries(value).flatMap(([name, part]) => {
    const field = fields[name] ?? fields["*"];
    if (field === undefined) return [];
    const isDeep = field !== true && isObject(part);
    return [[name, isDeep ? pruneFields(part, field) : part] as const];
  });
  return Object.fromEntries(kept);
}
