/**
 * `cni explain` and `cni schema`: describe the keys of configurations.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { withIoFailure } from "../../base/files/io.ts";
import type { Output } from "../../base/command_line/command.ts";
import type { Check } from "../doctor/finding.ts";
import {
  type Column,
  formatListing,
  wrap,
} from "../../base/command_line/table.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import type { CniCall } from "../flags.ts";
import { explainKey } from "./explain.ts";
import type { JsonSchema } from "../../metadata/json_schema.ts";
import { readDirectories } from "../node/network.ts";
import { pluginNames } from "../../plugins/registry.ts";
import { findDescribedPlugin } from "../node/described_plugin.ts";
import { type ListSchema, makeSchemas } from "./make.ts";
import { findKey, type Key, selectSchema } from "./schemas.ts";
import { didYouMean } from "../../base/command_line/suggest.ts";
import { requireDirectoryOf, writeTarget } from "../written_file.ts";

const COLUMNS: readonly Column<Row>[] = [
  { heading: "TYPE", cell: ([type]) => type },
  { heading: "STATUS", cell: ([, schema]) => statusOf(schema) },
  {
    heading: "WHAT IT DOES",
    cell: ([, schema]) => firstOf(schema),
    narrow: "wrap",
  },
];

/** Explains a plugin or a key; without arguments, lists the plugins. */
export async function explain(call: CniCall): Promise<Output> {
  const { args } = call;
  const [name] = args;
  if (/^cni\d+$/i.test(name ?? "")) return await explainFinding(name ?? "");
  const list = await makeAll(call, name);
  if (name === undefined) {
    const rows = Object.entries(list.definitions);
    return {
      json: rows.map(([type, schema]) => ({
        type,
        status: schema["x-status"],
        description: schema.description,
      })),
      text: formatListing(call.flags, COLUMNS, rows, ([type]) => type),
    };
  }
  const found = findKey(list, name);
  if (typeof found === "string") {
    const finding = await findFinding(name);
    if (finding !== undefined) return describeFinding(finding);
    const problem = `Cannot explain "${name}": ${found}`;
    throw new CniError(ErrorCode.InvalidEnvironment, problem);
  }
  return {
    json: toDocument(found),
    text: (style) => explainKey(found, style),
  };
}

/** Finds a check of `cni doctor` by its code or its name. */
async function findFinding(given: string): Promise<Check | undefined> {
  const { CHECKS } = await import("../doctor/checks.ts");
  return CHECKS.find(({ code, name }) =>
    code === given.toUpperCase() || name === given
  );
}

/** Explains a code of `cni doctor`. */
async function explainFinding(given: string): Promise<Output> {
  const check = await findFinding(given);
  if (check === undefined) {
    const { CHECKS } = await import("../doctor/checks.ts");
    const wanted = given.toUpperCase();
    const hint = didYouMean(wanted, CHECKS.map(({ code }) => code));
    const problem =
      `Cannot explain "${given}": no finding has this code${hint}`;
    throw new CniError(ErrorCode.InvalidEnvironment, problem);
  }
  return describeFinding(check);
}

function describeFinding(
  { code, name, finds, effect, cause, howToInspect: look, howToFix: fix }:
    Check,
): Output {
  const rows = [
    ["Effect", effect],
    ["Cause", cause],
    ["Look", look],
    ["Fix", fix],
  ] as const;
  const indent = 8;
  return {
    json: { code, check: name, finds, effect, cause, look, fix },
    text: (style) =>
      [
        `${style.bold(`${code} ${name}`)}: ${finds}`,
        "",
        ...rows.map(([label, text]) => {
          const lines = wrap(
            text.replaceAll("`", ""),
            Math.max((style.width ?? Infinity) - indent, 2 * indent),
          );
          return style.bold(label.padEnd(indent)) +
            lines.join(`\n${" ".repeat(indent)}`);
        }),
      ].join("\n"),
  };
}

/** Makes all schemas, and the schema of a plugin outside of this project if it is meant. */
async function makeAll(
  call: CniCall,
  name: string | undefined,
): Promise<ListSchema> {
  const list = await makeSchemas();
  const [type = ""] = name?.split(/[.[]/) ?? [];
  if (type === "" || pluginNames.includes(type)) return list;
  const described = await findDescribedPlugin(
    type,
    readDirectories(call).pluginDirs,
    call,
  );
  if (described === undefined) return list;
  const definitions = { ...list.definitions, [type]: described.jsonSchema };
  return { ...list, definitions };
}

type Row = readonly [type: string, schema: JsonSchema];

function statusOf(schema: JsonSchema): string {
  return schema["x-status"] ?? "";
}

/** Returns the first sentence. */
function firstOf({ description = "" }: JsonSchema): string {
  return description.split(/(?<=\.) /)[0] ?? "";
}

function toDocument({ name, type, schema, isRequired }: Key): object {
  return { name, plugin: type, required: isRequired, schema };
}

function print(schema: unknown, file = "-"): Output {
  const text = JSON.stringify(schema, null, 2);
  if (file === "-") return { json: schema, text };
  writeTarget(file, `${text}\n`);
  return { json: { files: [file] }, text: file };
}

/** Prints or writes the schema of a plugin or of lists, or all of them. */
export async function schema(call: CniCall): Promise<Output> {
  const { args, flags, command } = call;
  const list = await makeAll(call, args[0]);
  const names = ["conflist", "conf", ...Object.keys(list.definitions)];
  const [name = "conflist"] = args;
  if (!flags.all) {
    const json = selectSchema(list, name);
    if (json !== undefined) return print(json, flags.output);
    throw new CniError(
      ErrorCode.InvalidEnvironment,
      `No schema is named "${name}"${didYouMean(name, names)}`,
    );
  }
  if (args.length > 0) throw refuse(command, "--all takes no TYPE");
  const all = Object.fromEntries(
    names.map((name) => [name, selectSchema(list, name)]),
  );
  const directory = flags.output;
  if (directory === undefined || directory === "-") {
    return { json: all, text: JSON.stringify(all, null, 2) };
  }
  requireDirectoryOf(directory);
  withIoFailure(
    `create "${directory}"`,
    () => Deno.mkdirSync(directory, { recursive: true }),
  );
  const files = Object.entries(all).map(([name, schema]) => {
    const file = `${directory}/${name}.json`;
    writeTarget(file, JSON.stringify(schema, null, 2) + "\n");
    return file;
  });
  return { json: { files }, text: files.join("\n") };
}
