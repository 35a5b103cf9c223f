/**
 * The shape of a configuration: what a runtime must read before it can start a
 * plugin.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { checkNetworkName } from "../../cni/call/args.ts";
import { toCniError } from "../../base/error.ts";
import {
  findValue,
  isObject,
  type JsonObject,
  type JsonValue,
  listIssues,
} from "../../base/json/json.ts";
import {
  type NetworkConfList,
  parseDocument,
  parseNetworkConf,
  parseNetworkConfList,
  pluginSchema,
  toNetworkConfList,
} from "../../libcni/conf.ts";
import { encodeJson } from "../../base/json/json_bytes.ts";
import { CHAIN, findType } from "../node/chain_form.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import { advise } from "./advice.ts";
import {
  type ConfigPath,
  errorAt,
  type Problem,
  warningAt,
} from "../../metadata/problem.ts";

/** A configuration to check. */
export interface Given {
  readonly document: JsonValue;
  /** The form that a runtime expects, by the file's name. */
  readonly form: "list" | "plugin" | "either";
  /** Used if the configuration has no name: the definition's or network's. */
  readonly defaultName?: string | undefined;
  /** Whether multus adds the device that the cluster allocated. */
  readonly hasDevice?: boolean;
  /** Whether plugins can be in a directory with the network's name. */
  readonly mayLackPlugins?: boolean;
}

/** Returns a network that a runtime can read, to check it. */
export function givenOf({ bytes }: NetworkConfList): Given {
  return { document: parseDocument("configuration", bytes), form: "list" };
}

/** A configuration as far as it can be read. */
export interface ReadConf {
  /** Undefined if it is malformed. */
  readonly list: NetworkConfList | undefined;
  /** Whether it is a bare plugin, which is the only plugin of the list. */
  readonly isBare: boolean;
  readonly problems: readonly Problem[];
}

/**
 * Reports whether a document is CRI-O's configuration of loopback, which needs no
 * name: CRI-O sets loopback up by itself.
 */
export function isNamelessLoopback(
  document: JsonObject,
): boolean {
  return findType(document) === "loopback" && (document["name"] ?? "") === "" &&
    document["plugins"] === undefined;
}

/** Reads a configuration and lists the problems that prevent it. */
export function readConf(given: Given): ReadConf {
  const { document, form } = given;
  if (!isObject(document)) {
    const problem = `expected an object, got ${nameType(document)}`;
    return { list: undefined, isBare: false, problems: [errorAt([], problem)] };
  }
  const hasPlugins = document["plugins"] !== undefined;
  const type = findType(document);
  const isBare = type !== undefined && (!hasPlugins || type === "chain") &&
    form !== "list";
  const named = { ...document };
  if (given.defaultName !== undefined && !document["name"]) {
    named["name"] = given.defaultName;
  }
  const isLoopback = isBare && isNamelessLoopback(document);
  // Only the runtime uses it.
  if (isLoopback && !named["name"]) named["name"] = "lo";
  const problems = [
    ...checkName(named),
    ...isBare ? checkPlugin(named, []) : checkPlugins(named, given, type),
  ];
  const warnings = [
    ...form === "plugin" && hasPlugins && !isBare
      ? [
        warningAt(
          ["plugins"],
          "runtimes expect a list in a file *.conflist",
          "file",
        ),
      ]
      : [],
    ...isLoopback && given.defaultName === undefined
      ? [
        warningAt(
          ["name"],
          "missing: CRI-O names the network after the file; cni and multus do " +
            "not find it",
          "file",
        ),
      ]
      : [],
  ];
  if (problems.length > 0) {
    return { list: undefined, isBare, problems: [...problems, ...warnings] };
  }
  try {
    const bytes = encodeJson(named);
    const list = isBare
      ? toNetworkConfList(parseNetworkConf(bytes))
      : parseNetworkConfList(bytes);
    return { list, isBare, problems: warnings };
  } catch (error) {
    const place = findListKey(formatFailureText(error), document);
    const problem = formatFailureText(error)
      .replace(/^error parsing configuration( list)?: /, "");
    return { list: undefined, isBare, problems: [errorAt(place, problem)] };
  }
}

function checkName({ name }: JsonObject): Problem[] {
  if (name === undefined) return [errorAt(["name"], "missing")];
  if (typeof name !== "string") {
    return [errorAt(["name"], `expected a string, got ${nameType(name)}`)];
  }
  try {
    checkNetworkName(name);
    return [];
  } catch (error) {
    const problem = name === ""
      ? toCniError(error).message
      : `invalid network name ${JSON.stringify(name)}: it may have letters, ` +
        "digits, underscores, dots and dashes, and starts with a letter or digit";
    return [errorAt(["name"], problem)];
  }
}

function checkPlugins(
  { plugins, driver }: JsonObject,
  { form, mayLackPlugins = false }: Given,
  type: JsonValue | undefined,
): Problem[] {
  if (plugins === undefined) {
    if (type !== undefined && form === "list") {
      return [
        errorAt(
          [],
          "it is a bare plugin: name the file *.conf, or turn it into a list " +
            "with cni convert --to list",
        ),
      ];
    }
    const hint = typeof driver === "string"
      ? "; networks with a driver, as in podman 4 and later, are not CNI networks"
      : "";
    return mayLackPlugins ? [] : [errorAt(["plugins"], `missing${hint}`)];
  }
  if (!Array.isArray(plugins)) {
    const problem = `expected an array, got ${nameType(plugins)}`;
    const hint = isObject(plugins) ? "; write [{…}]" : "";
    return [errorAt(["plugins"], problem + hint)];
  }
  if (plugins.length === 0) return [errorAt(["plugins"], "no plugins in list")];
  return plugins.flatMap((plugin, index) =>
    checkPlugin(plugin, ["plugins", index])
  );
}

function checkPlugin(value: JsonValue, place: ConfigPath): Problem[] {
  if (!isObject(value)) {
    const problem = `expected an object, got ${nameType(value)}`;
    return [errorAt(place, problem)];
  }
  const type = findType(value);
  const untyped = type === undefined || type === ""
    ? [errorAt([...place, "type"], "missing")]
    : [];
  const pathed = typeof type === "string" && type.includes("/")
    ? [
      errorAt(
        [...place, "type"],
        `expected a name, got a path; write "${basename(type)}"`,
      ),
    ]
    : [];
  const issues = listIssues(pluginSchema(), value)
    .map(({ path, message }) =>
      errorAt([...place, ...path], advise(message, path, value))
    );
  const plugins = findValue(value, "plugins");
  const links = type === CHAIN && Array.isArray(plugins)
    ? plugins.flatMap((link, index) =>
      checkPlugin(link, [...place, "plugins", index])
    )
    : [];
  return [...untyped, ...pathed, ...issues, ...links];
}

/** Finds the key of a list that a message of the Go library is about. */
function findListKey(message: string, document: JsonObject): ConfigPath {
  return Object.keys(document).filter((key) => message.includes(key))
    .sort((left, right) => right.length - left.length).slice(0, 1);
}

function nameType(value: JsonValue | undefined): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
