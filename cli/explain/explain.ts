/**
 * Explains plugins and their keys.
 *
 * @module
 */

import { formatSection, wrapIndented } from "../../base/command_line/help.ts";
import type { Style } from "../../base/command_line/style.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { isTuple, type JsonSchema } from "../../metadata/json_schema.ts";
import { innerOf, type Key } from "./schemas.ts";

/** Keys that all plugins have; they come last. */
const COMMON_KEYS = [
  "type",
  "cniVersion",
  "name",
  "capabilities",
  "args",
  "runtimeConfig",
  "prevResult",
  "daemonSocket",
  "allowPersistentIPs",
];

/** Explains a plugin or a key, for people. */
export function explainKey(key: Key, style: Style): string {
  const { name, type, schema, isRequired } = key;
  const inner = innerOf(schema);
  const { properties = {}, required = [] } = inner;
  const isPlugin = name === type;
  const status = schema["x-status"];
  const facts: [string, string][] = isPlugin
    ? status === undefined ? [] : [["Status", status]]
    : [
      ["Type", typeOf(schema)],
      ...factsOf(schema),
      ...isRequired ? [["Required", "yes"] as [string, string]] : [],
    ];
  const since = schema["x-since"];
  if (since !== undefined) {
    facts.push(["Since", `release ${since} of the Go plugins`]);
  }
  const shown = Object.entries(properties)
    .filter(([key]) => !isPlugin || !COMMON_KEYS.includes(key));
  const [example] = schema.examples ?? [];
  const title = isPlugin ? schema.title ?? name : name;
  const last = name.split(".").at(-1) ?? "";
  return [
    `${style.bold(title)}\n${wrapIndented(schema.description ?? "", 2)}`,
    facts.map(([label, text]) => `  ${`${label}:`.padEnd(10)}${text}`).join(
      "\n",
    ),
    formatSection(
      "Keys",
      style,
      shown.map(([key, item]) => [
        key,
        [
          `${typeOf(item)}${required.includes(key) ? ", required" : ""}. ` +
          (item.description ?? ""),
          ...factsOf(item).map(([label, text]) =>
            label === "Default" ? `Default: ${text}.` : ""
          ),
        ].filter((text) => text !== "").join(" "),
      ]),
    ),
    example === undefined ? "" : `${style.bold("Example:")}\n${
      indent(
        isPlugin
          ? JSON.stringify(example, null, 2)
          : `${JSON.stringify(last)}: ${JSON.stringify(example, null, 2)}`,
      )
    }`,
    formatSources(key, style),
  ].filter((part) => part !== "").join("\n\n");
}

function formatSources({ name, type }: Key, style: Style): string {
  const page = pageOf(type);
  const sources = [
    ...page === undefined ? [] : [`docs/${page}.md`],
    ...name === type ? [`cni explain ${name}.KEY`] : [],
  ];
  return sources.length === 0
    ? ""
    : `${style.bold("See")} ${sources.join(", and ")}`;
}

/** Returns undefined for plugins outside of this project. */
function pageOf(type: string): string | undefined {
  if (type === "conflist") return "validate";
  const metadata = METADATA.get(type);
  return metadata && (metadata.page ?? type).replace(/#.*/, "");
}

function indent(text: string): string {
  return text.split("\n").map((line) => `  ${line}`).join("\n");
}

function factsOf(schema: JsonSchema): [label: string, text: string][] {
  const { minimum, maximum } = schema;
  const fallback = schema.default === undefined
    ? schema["x-default"]
    : JSON.stringify(schema.default);
  return [
    ...minimum === undefined ? [] : [[
      "Range",
      maximum === undefined ? `${minimum} or more` : `${minimum} to ${maximum}`,
    ] as [string, string]],
    ...fallback === undefined
      ? []
      : [["Default", fallback] as [string, string]],
  ];
}

/** Names a type as people do. */
export function typeOf(schema: JsonSchema): string {
  const { type, items } = schema;
  if (items !== undefined) {
    return isTuple(items)
      ? `list of ${items.map(typeOf).join(", ")}`
      : `list of ${plural(typeOf(items))}`;
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) {
    return schema.enum.filter((value) => value !== "")
      .map((value) => JSON.stringify(value)).join(" or ");
  }
  return type ?? "any value";
}

function plural(noun: string): string {
  if (noun.startsWith("list of ")) return noun.replace("list", "lists");
  return /^[a-z]+$/.test(noun) ? `${noun}s` : noun;
}
