/**
 * `cni convert`: rewrites a network's configuration to run its plugins in one
 * process, or in one process each.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { DEFAULT_SOCKET } from "../../daemon/wire/daemon_socket.ts";
import { dirname, join } from "@std/path/posix";
import { findValue, type JsonObject, objectOf } from "../../base/json/json.ts";
import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../../base/error.ts";
import { findExecutable } from "../../cni/invoke/find.ts";
import {
  exists,
  ifPossible,
  isDirectory,
  withIoFailure,
} from "../../base/files/io.ts";
import { listConfFiles, type PluginConf } from "../../libcni/mod.ts";
import {
  CHAIN,
  convertTo,
  findSocket,
  type Form,
  formatPlugins,
  formOf,
  parseWritten,
  unfoldChains,
  withDaemon,
  type WrittenNetwork,
} from "../node/chain_form.ts";
import { pluginNames } from "../../plugins/registry.ts";
import type { Output } from "../../base/command_line/command.ts";
import { whileSignalsKill } from "../../base/command_line/interrupt.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import type { CniCall } from "../flags.ts";
import { isBuiltByGo } from "../node/elf_file.ts";
import { getNetworkFile, readDirectories } from "../node/network.ts";
import { checkTarget, findOutputPath, writeTarget } from "../written_file.ts";
import { diffLines, formatDiff } from "./diff.ts";
import { readStdin } from "../../base/process/stdio.ts";

/** A conversion. */
interface Conversion {
  /** The input file. */
  readonly file: string;
  /** The output file; undefined for stdout. */
  readonly target: string | undefined;
  readonly before: WrittenNetwork;
  readonly after: WrittenNetwork;
  /** The new form. */
  readonly form: Form;
  /** Whether the network already has that form. */
  readonly isDone: boolean;
}

/** Converts files, and prints or writes the results. */
export function convert(
  call: CniCall,
  stdin: () => Uint8Array = readStdin,
): Output {
  const files = call.args.flatMap(listFiles);
  const { command, flags } = call;
  if (flags.daemon && flags["no-daemon"]) {
    throw refuse(command, "--daemon and --no-daemon cannot be combined");
  }
  if (files.length === 1 && files[0] === call.args[0]) {
    return convertFile(call, stdin);
  }
  if (flags.output !== undefined) {
    throw refuse(command, "--output takes one file; use --write for several");
  }
  if (!flags.write && !flags.diff) {
    throw refuse(command, "use --diff or --write for several files");
  }
  const outputs = files.flatMap((file) => {
    try {
      return [convertFile({ ...call, args: [file] }, stdin)];
    } catch (error) {
      if (!(error instanceof CniError)) throw error;
      // The other files are independent of it.
      call.showFailure(error);
      return [];
    }
  });
  const notes = outputs.flatMap(({ note }) =>
    typeof note === "string" ? [note] : []
  );
  return {
    json: outputs.map(({ json }) => json),
    text: (style) =>
      outputs.map(({ text }) => typeof text === "string" ? text : text(style))
        .filter((text) => text !== "").join("\n"),
    note: notes.length === 0 ? undefined : [...new Set(notes)].join("\n"),
    exitCode: outputs.length === files.length ? 0 : 1,
  };
}

/** The files of a directory that runtimes read. */
const EXTENSIONS = [".conflist", ".conf", ".json"];

function listFiles(arg: string): string[] {
  const isNetwork = !arg.includes("/") && arg !== ".";
  if (isNetwork || !isDirectory(arg)) return [arg];
  const files = listConfFiles(arg, EXTENSIONS);
  if (files.length > 0) return files;
  const problem = `"${arg}" has no *.conflist, *.conf or *.json`;
  throw new CniError(ErrorCode.IoFailure, problem);
}

/** Converts a file, and prints or writes the result. */
function convertFile(call: CniCall, stdin: () => Uint8Array): Output {
  const isStdin = call.args[0] === "-";
  if (isStdin && call.flags.write) {
    throw refuse(call.command, "--write has no file to replace");
  }
  const file = isStdin ? "-" : findFile(call);
  const target = findOutputPath(call, file);
  const bytes = whileSignalsKill(() =>
    isStdin
      ? stdin()
      : withIoFailure(`read "${file}"`, () => Deno.readFileSync(file))
  );
  const before = inFile(file, () => parseWritten(bytes));
  const form = findForm(call, before);
  const document = inFile(
    file,
    () => setDaemon(call, convertTo(form, before)),
  );
  const isDone = document === before.document;
  const text = JSON.stringify(document, null, 2);
  const after = parseWritten(new TextEncoder().encode(text));
  const conversion = { file, target, before, after, form, isDone };
  if (call.flags.diff) {
    const old = new TextDecoder().decode(bytes);
    const lines = diffLines(old, `${text}\n`);
    return {
      json: { file, changed: lines.some(({ mark }) => mark !== " "), lines },
      text: (style) => formatDiff(file, lines, style),
    };
  }
  const output = target === undefined
    ? { json: document, text }
    : write(call, conversion, target, `${text}\n`);
  const notes = listNotes(call, conversion);
  return notes.length === 0 ? output : { ...output, note: notes.join("\n") };
}

/** The other form by default; the present form if only the daemon is set. */
function findForm({ flags }: CniCall, before: WrittenNetwork): Form {
  const form = formOf(before);
  if (flags.to !== undefined) return flags.to;
  if (flags.daemon || flags["no-daemon"]) return form;
  return form === "chain" ? "list" : "chain";
}

function setDaemon(
  { flags }: CniCall,
  document: JsonObject,
): JsonObject {
  if (flags.daemon) return withDaemon(document, pluginNames, DEFAULT_SOCKET);
  if (!flags["no-daemon"]) return document;
  return withDaemon(document, pluginNames, undefined);
}

/** Finds the file. An existing file takes precedence over a network of that name. */
function findFile(call: CniCall): string {
  const [network = ""] = call.args;
  const isPath = network.includes("/") ||
    exists(network);
  if (isPath) return network;
  return getNetworkFile(readDirectories(call).confDir, network);
}

/** Adds the file to an error's message. */
function inFile<T>(file: string, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    const { code, message, details } = toCniError(cause);
    const problem = `Cannot convert "${file}": ${message}`;
    throw new CniError(code, problem, { details });
  }
}

function describeDaemon(
  { flags }: CniCall,
  plugins: readonly PluginConf[],
): string {
  if (!flags.daemon && !flags["no-daemon"]) return "";
  const isServed = plugins.some(({ document }) =>
    findSocket(document) !== undefined
  );
  return isServed ? " with the node daemon" : " without the node daemon";
}

function write(
  call: CniCall,
  { file, before, after, isDone }: Conversion,
  target: string,
  text: string,
): Output {
  // An existing list keeps its file name.
  if (before.isBare || target !== file) checkTarget(target);
  if (!isDone || target !== file) writeTarget(target, text);
  const { plugins } = after.list;
  return {
    json: { file: target, form: formOf(after), plugins: listRunTypes(plugins) },
    text: `${target} runs ${formatPlugins(plugins)}${
      describeDaemon(call, plugins)
    } ${isDone ? "already" : "now"}`,
  };
}

function listRunTypes(plugins: readonly PluginConf[]): string[] {
  return unfoldChains(plugins).map(({ type }) => type)
    .filter((type) => type !== CHAIN);
}

/** Lists notes on using the new configuration. */
function listNotes(call: CniCall, conversion: Conversion): string[] {
  const { file, target, before: { list }, form } = conversion;
  const notes = [
    ...form === "chain" ? listChainNotes(call, conversion) : [],
    ...call.flags.daemon ? listDaemonNotes(call, conversion) : [],
  ];
  const isBeside = target !== undefined && target !== file &&
    dirname(target) === dirname(file);
  if (!isBeside) return notes;
  return [
    ...notes,
    `"${file}" still exists: remove it, because runtimes might use it for "${list.name}"`,
  ];
}

function listChainNotes(
  call: CniCall,
  { file, after }: Conversion,
): string[] {
  const notes: string[] = [];
  if (listRunTypes(after.list.plugins).length === 1) {
    notes.push(
      "A chain with one plugin starts as many processes as the plugin alone",
    );
  }
  const { name, loadOnlyInlinedPlugins } = after.list;
  const directory = join(dirname(file), name);
  if (
    !loadOnlyInlinedPlugins && listConfFiles(directory, [".conf"]).length > 0
  ) {
    notes.push(`Plugins in files in "${directory}" are not part of the chain`);
  }
  const hidden = findHiddenFromPodman(after);
  if (hidden !== undefined) notes.push(hidden);
  try {
    findExecutable(CHAIN, readDirectories(call).pluginDirs);
  } catch (error) {
    notes.push(
      `A required plugin is not installed here: ${describeError(error)}`,
    );
  }
  return notes;
}

/** Notes where the key is the default, and Go plugins, which do not know it. */
function listDaemonNotes(call: CniCall, { after }: Conversion): string[] {
  const { pluginDirs } = readDirectories(call);
  const unused = after.list.plugins.flatMap(({ type, document }) => {
    const path = ifPossible(() => findExecutable(type, pluginDirs));
    const isGo = findSocket(document) !== undefined && path !== undefined &&
      isBuiltByGo(path);
    if (!isGo) return [];
    return [
      `"${path}" is built by Go and does not use the daemon: run ` +
      shell`cni install ${dirname(path)} --only ${type}`,
    ];
  });
  return [
    `The key daemonSocket is unnecessary: plugins whose configuration names no socket use "${DEFAULT_SOCKET}"`,
    ...unused,
  ];
}

/** podman's entry in `args` of a network: its creation options. */
const PODMAN_ARGS = ["podman_labels", "podman_options"];

/**
 * Explains the effects of a chain at the beginning of a network on podman;
 * undefined if the chain does not exist, or podman did not create the network.
 *
 * podman keeps no list of its networks apart from their files. It reads the
 * bridges and subnets in use, and what `podman network rm` must delete, from
 * the first plugin of each file, if it knows that plugin.
 *
 * Source: containers/common libnetwork/cni/cni_conversion.go, cni_types.go.
 */
export function findHiddenFromPodman(
  network: WrittenNetwork,
): string | undefined {
  const { list: { name, plugins } } = network;
  const [first] = plugins;
  if (first?.type !== CHAIN || !isOfPodman(network)) return undefined;
  return `podman cannot see inside the chain of "${name}": it might give the bridge's ` +
    "name and subnet to another network, and does not remove the bridge";
}

function isOfPodman({ list: { plugins }, document }: WrittenNetwork): boolean {
  const args = objectOf(findValue(document, "args"));
  return PODMAN_ARGS.some((key) => key in args) ||
    unfoldChains(plugins).some(hasPodmanBridge);
}

function hasPodmanBridge({ document }: PluginConf): boolean {
  const bridge = findValue(document, "bridge");
  return typeof bridge === "string" && /^cni-podman\d+$/.test(bridge);
}
