/**
 * The configurations that a command line names: networks, files, directories and
 * stdin.
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import { CniError, ErrorCode, toCniError } from "../../base/error.ts";
import {
  ifPossible,
  isDirectory,
  readFile as readRegularFile,
  readTextFile,
  withIoFailure,
} from "../../base/files/io.ts";
import {
  isObject,
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../../base/json/json.ts";
import { listConfFiles } from "../../libcni/mod.ts";
import { whileSignalsKill } from "../../base/command_line/interrupt.ts";
import {
  type Directories,
  getNetwork,
  listNetworks,
  readNetworkFile,
  UnknownNetworkError,
} from "../node/network.ts";
import { ConfText, type Position } from "./conf_text.ts";
import { listDefinitions } from "./definitions.ts";
import type { Given } from "./document.ts";
import { errorAt, type Problem, warningAt } from "../../metadata/problem.ts";

/** A configuration to validate. */
export interface Source {
  /** Its file as named, and the object inside it: `nets.yaml (default/net1)`. */
  readonly label: string;
  /** The file as named; `<stdin>` for stdin. */
  readonly file: string;
  readonly text: ConfText;
  /** Undefined if it is not JSON. */
  readonly given: Given | undefined;
  /** Problems of the text. */
  readonly problems: readonly Problem[];
  /** Plugins in files of their own, which follow the list's own. */
  readonly parts: readonly { readonly file: string; readonly text: ConfText }[];
}

/** A problem's place in a file. */
export interface Location extends Position {
  readonly file: string;
  /** The line's text. */
  readonly source: string;
}

/** Finds the place of a problem. */
export function locate(
  { file, text, parts, given }: Source,
  problem: Problem,
): Location {
  const [first, index, ...inner] = problem.place;
  const inlined = countInlined(given, parts.length);
  const part = first === "plugins" && typeof index === "number"
    ? parts[index - inlined]
    : undefined;
  const within = part?.text ?? text;
  const place = part === undefined ? problem.place : inner;
  const position = within.locate({ ...problem, place });
  return {
    ...position,
    file: part?.file ?? file,
    source: within.lineAt(position.line),
  };
}

function countInlined(given: Given | undefined, parts: number): number {
  const document = given?.document;
  const plugins = isObject(document) ? document["plugins"] : undefined;
  return (Array.isArray(plugins) ? plugins.length : 0) - parts;
}

/**
 * Reads what the arguments name.
 *
 * @param stdin Reads all of stdin, for the argument `-`
 * @throws {UnknownNetworkError} If no network has the name
 * @throws {CniError} 5 If a file cannot be read
 */
export async function readSources(
  args: readonly string[],
  directories: Directories,
  stdin: () => Uint8Array,
): Promise<Source[]> {
  const sources: Source[] = [];
  for (const arg of args) {
    if (arg === "-") {
      const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(
        whileSignalsKill(stdin),
      );
      sources.push(...await readText("<stdin>", text, true));
    } else {
      for (const file of listFiles(arg, directories)) {
        sources.push(
          ...await readSourceFile(file, file === arg).catch((error) => {
            if (file === arg) throw error;
            return [describeFailure(file, error)];
          }),
        );
      }
    }
  }
  return sources;
}

/** An invalid file of a directory does not prevent the check of the other files. */
function describeFailure(file: string, error: unknown): Source {
  const { code, message } = toCniError(error);
  if (code === ErrorCode.Internal) throw error;
  const problems = [{ ...errorAt([], message), offset: 0 }];
  const text = new ConfText("");
  return { label: file, file, text, given: undefined, problems, parts: [] };
}

/** The files of a directory that might be configurations. */
const EXTENSIONS = [".conflist", ".conf", ".json", ".yaml", ".yml"];

function listFiles(arg: string, directories: Directories): string[] {
  const isFile = ifPossible(() => Deno.statSync(arg))?.isFile === true;
  if (isFile) return [arg];
  if (arg.includes("/") || isDirectory(arg) && !isNetwork(directories, arg)) {
    if (!isDirectory(arg)) return [arg];
    const files = listConfFiles(arg, EXTENSIONS);
    if (files.length > 0) return files;
    throw new CniError(
      ErrorCode.IoFailure,
      `"${arg}" has no *.conflist, *.conf, *.json, *.yaml or *.yml`,
    );
  }
  try {
    getNetwork(directories, arg);
  } catch (error) {
    if (error instanceof UnknownNetworkError) {
      // The name of a file that does not exist.
      if (EXTENSIONS.some((extension) => arg.endsWith(extension))) return [arg];
      throw error;
    }
    // A search by name stops at the first malformed file.
    const obstacle = listConfFiles(directories.confDir, [".conflist"])
      .concat(listConfFiles(directories.confDir, [".conf", ".json"]))
      .find((file) => ifPossible(() => readNetworkFile(file)) === undefined);
    if (obstacle === undefined) throw error;
    return [...new Set([obstacle, ...listOf(directories, arg)])];
  }
  return listOf(directories, arg);
}

function isNetwork({ confDir }: Directories, name: string): boolean {
  return listNetworks(confDir).some(({ list }) => list.name === name);
}

function listOf({ confDir }: Directories, name: string): string[] {
  return listNetworks(confDir).filter(({ list }) => list.name === name)
    .map(({ file }) => file).slice(0, 1);
}

/**
 * Reads the configurations in a file.
 *
 * @param isNamed Whether the user named it: it can then be a pipe
 */
export async function readSourceFile(
  file: string,
  isNamed = false,
): Promise<Source[]> {
  const bytes = withIoFailure(
    `read "${file}"`,
    () =>
      isNamed
        ? whileSignalsKill(() => Deno.readFileSync(file))
        : readRegularFile(file),
  );
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  return await readText(file, text, isNamed);
}

async function readText(
  file: string,
  content: string,
  isNamed: boolean,
): Promise<Source[]> {
  const isYaml = /\.ya?ml$/.test(file) ||
    !/\.(conflist|conf|json)$/.test(file) && !/^\s*[{[]/.test(content);
  if (isYaml) return await readYaml(file, content, isNamed);
  const text = new ConfText(content);
  const syntax = text.findSyntaxError();
  if (syntax !== undefined) {
    const problems = [{ ...errorAt([], syntax.message), ...syntax }];
    return [{ label: file, file, text, given: undefined, problems, parts: [] }];
  }
  const document = parseJson(content) as JsonValue;
  if (isObject(document) && document["kind"] && document["apiVersion"]) {
    return await readYaml(file, content, isNamed);
  }
  return [withParts(file, text, document as JsonValue)];
}

function toSource(
  { label, file, text, form, name, hasDevice = false }: {
    readonly label: string;
    readonly file: string;
    readonly text: ConfText;
    readonly form: Given["form"];
    readonly name?: string | undefined;
    readonly hasDevice?: boolean | undefined;
  },
  document: JsonValue,
): Source {
  const problems = text.listRepeatedKeys().map((repeated): Problem => {
    const { place, offset, firstLine, first } = repeated;
    const spelling = first === place.at(-1) ? "" : `, as "${first}"`;
    const problem = `the key is repeated: it is also on line ${firstLine}` +
      `${spelling}; the last one wins`;
    return { ...warningAt(place, problem), isKey: true, offset };
  });
  const given = { document, form, defaultName: name, hasDevice };
  return { label, file, text, given, problems, parts: [] };
}

/** Adds the plugins in files of their own, as the Go library does. */
function withParts(
  file: string,
  text: ConfText,
  document: JsonValue,
): Source {
  const form = file.endsWith(".conflist")
    ? "list"
    : /\.(conf|json)$/.test(file)
    ? "plugin"
    : "either";
  const source = toSource({ label: file, file, text, form }, document);
  const { name, plugins = [], loadOnlyInlinedPlugins } = isObject(document)
    ? document as JsonObject
    : {};
  const isAlone = form !== "list" || loadOnlyInlinedPlugins === true ||
    typeof name !== "string" || name === "" || !Array.isArray(plugins) ||
    basename(name) !== name || name === "..";
  if (isAlone || !isObject(document)) return source;
  const parts = listConfFiles(join(dirname(file), name), [".conf"])
    .flatMap((path) => {
      const content = ifPossible(() => readTextFile(path));
      const part = content && ifPossible(() => parseJson(content));
      return content === undefined || part === undefined
        ? []
        : [{ file: path, text: new ConfText(content), part }];
    });
  if (parts.length === 0) return source;
  const all = [...plugins, ...parts.map(({ part }) => part as JsonValue)];
  const complete = { ...document as JsonObject, plugins: all };
  return { ...source, parts, given: { document: complete, form } };
}

async function readYaml(
  file: string,
  content: string,
  isNamed: boolean,
): Promise<Source[]> {
  const { definitions, hasObjects } = await listDefinitions(content);
  if (!hasObjects && definitions.length === 0 && isNamed) {
    const text = new ConfText(content);
    const message = "no network: neither a configuration in JSON nor " +
      "Kubernetes objects";
    const problems = [{ ...errorAt([], message), offset: 0 }];
    return [{ label: file, file, text, given: undefined, problems, parts: [] }];
  }
  return definitions.map((definition) => {
    const { label, name, form, text, problems, hasDevice } = definition;
    const place = { label: label ? `${file} (${label})` : file, file, text };
    const syntax = problems === undefined ? text.findSyntaxError() : undefined;
    const all = syntax === undefined
      ? problems
      : [{ ...errorAt([], syntax.message), ...syntax }];
    if (all !== undefined) {
      return { ...place, given: undefined, problems: all, parts: [] };
    }
    const document = parseJson(text.json) as JsonValue;
    return toSource({ ...place, form, name, hasDevice }, document);
  });
}
