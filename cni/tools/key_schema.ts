/**
 * A schema that knows the keys of a JSON Schema, but accepts any values.
 *
 * @module
 */

import * as z from "zod/mini";
import type { Schema } from "../../base/json/json.ts";
import { isTuple, type JsonSchema } from "./json_schema.ts";

/** Builds the schema, at every depth. */
export function schemaOfKeys(schema: JsonSchema): Schema<unknown> {
  return build(schema);
}

function build({ properties, items }: JsonSchema): z.ZodMiniType {
  if (items !== undefined) {
    return isTuple(items) ? z.array(z.unknown()) : z.array(build(items));
  }
  if (properties === undefined) return z.unknown();
  return z.looseObject(
    Object.fromEntries(
      Object.entries(properties)
        .map(([key, inner]) => [key, z.optional(build(inner))]),
    ),
  );
}
