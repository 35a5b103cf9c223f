/**
 * The keys of a schema, for messages about unknown keys.
 *
 * @module
 */

import type * as z from "zod/mini";
import { foldKeys, isObject, type Schema } from "../../base/json/json.ts";

/** A key that is in no schema. */
export interface UnknownKey {
  /** Where it is: keys and indices, the key itself last. */
  readonly path: readonly PropertyKey[];
  /** The keys that could be in its place. */
  readonly known: readonly string[];
}

/** The values of an object's keys, or of an array's items. */
type Shape = Readonly<Record<string, z.core.$ZodType>>;

/**
 * Lists the keys of a value that a schema does not know, at every depth that it
 * describes. Keys are known in any case, as when the value is decoded.
 */
export function listUnknownKeys(
  schema: Schema<unknown>,
  value: unknown,
): UnknownKey[] {
  return list(schema as z.core.$ZodType, foldKeys(schema, value), []);
}

function list(
  schema: z.core.$ZodType,
  value: unknown,
  path: readonly PropertyKey[],
): UnknownKey[] {
  const { def } = unwrap(schema)._zod;
  if (def.type === "array" && Array.isArray(value)) {
    return value
      .flatMap((item, index) => list(def.element, item, [...path, index]));
  }
  if (def.type !== "object" || !isObject(value)) return [];
  const shape: Shape = def.shape;
  const known = Object.keys(shape);
  // A schema without keys accepts any object.
  if (known.length === 0) return [];
  return Object.entries(value).flatMap(([key, item]) => {
    const place = [...path, key], inner = shape[key];
    return inner === undefined
      ? [{ path: place, known }]
      : list(inner, item, place);
  });
}

/**
 * Lists the keys of an object in a schema.
 *
 * @param path Keys that lead to the object from the schema's own
 * @returns Empty if the object does not exist
 */
export function listKnownKeys(
  schema: Schema<unknown>,
  ...path: readonly string[]
): string[] {
  let place: z.core.$ZodType | undefined = schema as z.core.$ZodType;
  for (const key of path) place = place && shapeOf(place)[key];
  return place === undefined ? [] : Object.keys(shapeOf(place));
}

function shapeOf(schema: z.core.$ZodType): Shape {
  const { def } = unwrap(schema)._zod;
  return def.type === "object" ? def.shape : {};
}

/** Finds the schema of what is written, without what is made of it. */
function unwrap(schema: z.core.$ZodType): z.core.$ZodTypes {
  const known = schema as z.core.$ZodTypes;
  const { def } = known._zod;
  switch (def.type) {
    case "pipe":
      return unwrap(def.in);
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "readonly":
      return unwrap(def.innerType);
    default:
      return known;
  }
}
