/**
 * Writes the JSON Schemas of plugins to `schemas/`: `deno task schemas`.
 *
 * @module
 */

import { answerHelp } from "./help.ts";
import { generateSchemas } from "./schemas/generate.ts";

/** Formats a schema as `deno fmt` would leave it. */
export function formatSchema(schema: object): string {
  return JSON.stringify(schema, null, 2) + "\n";
}

if (import.meta.main) {
  answerHelp(`Write the JSON Schemas of all plugins to schemas/.

Usage: deno task schemas`);
  const root = new URL("../", import.meta.url);
  const schemas = await generateSchemas(new URL("docs/", root));
  const folder = new URL("schemas/", root);
  await Deno.mkdir(folder, { recursive: true });
  for (const [name, schema] of Object.entries(schemas)) {
    const file = new URL(`${name}.json`, folder);
    await Deno.writeTextFile(file, formatSchema(schema));
  }
}
