/**
 * `cni completion`: prints a script with which a shell requests the words
 * that can follow from the tool.
 *
 * @module
 */

import { STARTERS } from "../init/make_network.ts";
import { ifPossible } from "../../base/files/io.ts";
import {
  type CommandRow,
  type Completes,
  flagsOf,
  type FlagTable,
  type Output,
  type Program,
  STANDARD_FLAGS,
} from "../../base/command_line/command.ts";
import { findFlag } from "../../base/command_line/parse.ts";
import {
  listNodeAttachments,
  type NodeAttachment,
} from "../node/node_attachments.ts";
import type { CniCall } from "../flags.ts";
import { listNamedNetns } from "../node/named_netns.ts";
import { listNetworkNames, readDirectories } from "../node/network.ts";
import { pluginNames } from "../../plugins/registry.ts";

/** Prints a shell's script. */
export async function completion(
  { args: [shell = ""] }: CniCall,
): Promise<Output> {
  const { loadScripts } = await import("./scripts.ts");
  const text = (await loadScripts())[shell]?.trimEnd() ?? "";
  return { json: { shell, script: text }, text };
}

/** Words with descriptions, or a kind of words that the shell itself completes. */
interface Completion {
  readonly words?: Readonly<Record<string, string>>;
  readonly kind?: "file" | "directory" | "command";
}

/**
 * Prints the words that can come next, one per line, with a tab and their
 * description, or the kind of words: `:file`, `:directory` or `:command`.
 *
 * The arguments are the words of the command line, up to the word at the cursor.
 */
export async function complete(call: CniCall): Promise<Output> {
  const { args, kept } = joinAtColons(call.args);
  const { words = {}, kind } = await findCompletion({ ...call, args });
  const lines = Object.entries(words)
    .filter(([word]) => word.startsWith(kept))
    .map(([word, summary]) =>
      [word.slice(kept.length), summary].filter(Boolean).join("\t")
    );
  const text = kind === undefined ? lines.join("\n") : `:${kind}`;
  return { json: kind ?? Object.keys(words), text };
}

/**
 * Joins the words that bash broke at colons, such as `green`, `:`, `eth0`.
 *
 * @returns Also the part of the last word that bash keeps
 */
function joinAtColons(
  given: readonly string[],
): { readonly args: readonly string[]; readonly kept: string } {
  const args: string[] = [];
  let isJoined = false;
  for (const [at, word] of given.entries()) {
    isJoined = args.length > 0 && (word === ":" || given[at - 1] === ":");
    args.push(isJoined ? args.pop() + word : word);
  }
  const last = args.at(-1) ?? "";
  return {
    args,
    kept: isJoined ? last.slice(0, last.lastIndexOf(":") + 1) : "",
  };
}

async function findCompletion(call: CniCall): Promise<Completion> {
  const { program } = call;
  const typed = call.args.slice(0, -1);
  const cursor = call.args.at(-1) ?? "";
  const rows = program.rows.filter(({ isHidden }) => !isHidden);
  const all: FlagTable = Object.assign({}, ...rows.map(flagsOf));
  const row = findRow(rows, readWords(typed, all).words);
  // Commands have different flags of the same name, such as "to".
  const table: FlagTable = row ? { ...all, ...flagsOf(row) } : all;
  const { words, flags, open } = readWords(typed, table);
  const names = { ...call, flags, words };
  const { name, flag, given } = findFlag(cursor, table);
  // bash breaks words at "=".
  if (open !== undefined) {
    const { completes } = (row ? flagsOf(row)[open] : table[open]) ?? {};
    return await offer(completes, names, cursor.replace(/^=/, ""));
  }
  if (flag !== undefined && given !== undefined && name !== "") {
    return await offer(flag.completes, names, given);
  }
  if (cursor.startsWith("-")) {
    return { words: listFlagWords(row ? flagsOf(row) : STANDARD_FLAGS) };
  }
  if (row === undefined) return { words: listCommandWords(program, words) };
  const { args = [] } = row;
  const at = words.length - row.name.split(" ").length;
  const last = args.at(-1)?.isRepeated ? args.at(-1) : undefined;
  const arg = args[at] ?? last;
  // A command that is also the first word of other commands.
  if (arg === undefined && at === 0) {
    return { words: listCommandWords(program, words) };
  }
  return arg?.isHidden ? {} : await offer(arg?.completes, names, cursor);
}

/** The words before the cursor. */
interface Words {
  readonly words: readonly string[];
  readonly flags: Readonly<Record<string, string>>;
  /** The flag with its value at the cursor. */
  readonly open: string | undefined;
}

function readWords(typed: readonly string[], table: FlagTable): Words {
  const words: string[] = [], flags: Record<string, string> = {};
  let open: string | undefined;
  for (const word of typed) {
    if (open !== undefined && word === "=") continue;
    const { name, flag, given } = findFlag(word, table);
    if (open !== undefined) {
      flags[open] = word;
      open = undefined;
    } else if (flag?.value !== undefined && given === undefined) {
      open = name;
    } else if (given !== undefined) {
      flags[name] = given;
    } else if (!word.startsWith("-")) {
      words.push(word);
    }
  }
  return { words, flags, open };
}

function findRow(
  rows: readonly CommandRow[],
  words: readonly string[],
): CommandRow | undefined {
  // "daemon" comes before "daemon status".
  return rows.findLast(({ name }) =>
    name.split(" ").every((word, at) => word === words[at])
  );
}

/** Lists the commands, or those that begin with a word. */
function listCommandWords(
  { rows }: Program,
  words: readonly string[],
): Record<string, string> {
  const found: Record<string, string> = {};
  for (const { name, summary, isHidden } of rows) {
    const [first = "", second] = name.split(" ");
    if (isHidden || words.length > 1 || (words[0] ?? first) !== first) continue;
    if (words.length === 1) {
      if (second !== undefined) found[second] = summary;
      continue;
    }
    if (second === undefined) found[first] = summary;
    else found[first] = found[first] ? `${found[first]}, ${second}` : second;
  }
  return found;
}

function listFlagWords(flags: FlagTable): Record<string, string> {
  return Object.fromEntries(
    Object.entries(flags).flatMap(([name, { short, summary }]) => [
      [`--${name}`, summary],
      ...short ? [[`-${short[0]}`, summary]] : [],
    ]),
  );
}

/** Names without characters that are special to a shell. */
const PLAIN = /^[\p{L}\p{N}_][\p{L}\p{N}_.@%+,:-]*$/u;

/** A call, and the words of its command line before the cursor. */
type Typed = CniCall & Pick<Words, "words">;

/** Offers values. Ignores errors, which would clutter the prompt. */
async function offer(
  completes: Completes | undefined,
  call: Typed,
  typed: string,
): Promise<Completion> {
  switch (completes) {
    case undefined:
      return {};
    case "file":
    case "directory":
    case "command":
      return { kind: completes };
    case "help":
      return { words: listCommandWords(call.program, call.words.slice(1)) };
    case "starter":
      return { words: describe(STARTERS.map(({ type }) => type)) };
    case "plugin":
      return { words: describe(await listKeys(typed)) };
    case "plugins": {
      const before = typed.slice(0, typed.lastIndexOf(",") + 1);
      return { words: describe(pluginNames.map((name) => before + name)) };
    }
    case "schema":
      return { words: describe(["conflist", "conf", ...pluginNames]) };
    case "container":
      return offerPlain(listCached(call).map(({ containerId }) => containerId));
    case "attached":
      return offerTargets(listCached(call).flatMap(listNames), typed);
    case "interface": {
      const names = listCached(call).flatMap((cached) =>
        listNames(cached).map((name) =>
          typed.includes(":") ? `${name}:${cached.ifName}` : name
        )
      );
      return offerTargets(names, typed);
    }
    case "network":
      return typed.includes("/")
        ? { kind: "file" }
        : offerPlain(listConfigured(call));
    case "configuration": {
      const names = listConfigured(call)
        .filter((name) => name.startsWith(typed));
      return names.length === 0 ? { kind: "file" } : offerPlain(names);
    }
    case "netns": {
      const pods = listCached({ ...call, words: [] })
        .flatMap(({ pod }) => pod ?? []);
      const named = ifPossible(listNamedNetns) ?? [];
      return offerTargets([...named.map(({ name }) => name), ...pods], typed);
    }
    default:
      return { words: describe(completes) };
  }
}

function listConfigured(call: CniCall): string[] {
  const { confDir } = readDirectories(call);
  return ifPossible(() => listNetworkNames(confDir)) ?? [];
}

/** Lists plugins, or the keys of a plugin if the typed word contains a dot. */
async function listKeys(typed: string): Promise<readonly string[]> {
  const [type = "", ...rest] = typed.split(".");
  if (rest.length === 0 || !pluginNames.includes(type)) return pluginNames;
  const { makeSchemas } = await import("../explain/make.ts");
  const { definitions } = await makeSchemas();
  return Object.keys(definitions[type]?.properties ?? {})
    .map((key) => `${type}.${key}`);
}

/** Offers names of namespaces and pods, or paths if the typed word begins none. */
function offerTargets(names: readonly string[], typed: string): Completion {
  const isPath = typed.includes("/") &&
    !names.some((name) => name.startsWith(typed));
  return isPath ? { kind: "file" } : offerPlain([...new Set(names)]);
}

function offerPlain(names: readonly string[]): Completion {
  const isPlain = (name: string): boolean =>
    name.split("/").every((part) => PLAIN.test(part));
  return { words: describe(names.filter(isPlain)) };
}

/** Lists the attachments to the network that the command line names. */
function listCached(call: Typed): NodeAttachment[] {
  const found = ifPossible(() => listNodeAttachments(readDirectories(call))) ??
    [];
  const [, network] = call.words;
  return found.filter((one) => one.network === (network ?? one.network));
}

/** Lists the pod and the name of an attachment's namespace, as far as known. */
function listNames({ pod, netns }: NodeAttachment): string[] {
  const name = /^(?:\/var)?\/run\/netns\/([^/]+)$/.exec(netns)?.[1];
  return [pod, name].filter((text) => text !== undefined);
}

function describe(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(words.map((word) => [word, ""]));
}
