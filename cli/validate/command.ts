/**
 * `cni validate`: checks configurations against their plugins.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { readStdin } from "../../base/process/stdio.ts";
import { ifPossible } from "../../base/files/io.ts";
import { listConfFiles } from "../../libcni/mod.ts";
import type { Output } from "../../base/command_line/command.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import { didYouMean } from "../../base/command_line/suggest.ts";
import type { CniCall } from "../flags.ts";
import {
  createRuntime,
  type Directories,
  readDirectories,
} from "../node/network.ts";
import { checkNeighbors, type Neighbor } from "./overlaps.ts";
import {
  FORMATS,
  type ReportedConf,
  type ReportedProblem,
  toDocument,
} from "./report.ts";
import {
  formatPlace,
  type Problem,
  WARNING_CODES,
  warningAt,
} from "../../metadata/problem.ts";
import { locate, readSourceFile, readSources, type Source } from "./sources.ts";
import { noteNoPlugins, type Validator } from "./plugin_calls.ts";
import { validateNetwork, type Validation } from "./validate.ts";

/**
 * Lists problems. Fails on errors, and on warnings with `--strict`.
 *
 * @param stdin Reads all of stdin
 */
export async function validate(
  call: CniCall,
  stdin: () => Uint8Array = readStdin,
): Promise<Output> {
  const { args, flags, command } = call;
  const directories = readDirectories(call);
  const named = flags.all ? [...args, `${directories.confDir}/`] : args;
  if (named.length === 0) {
    throw refuse(command, "name networks, files or directories, or use --all");
  }
  const ignored = readIgnored(call);
  const sources = await readSources(named, directories, stdin);
  const confs = await reportOn(sources, directories, call, ignored);
  const document = toDocument(confs);
  const missing = noteNoPlugins(directories.pluginDirs);
  const isValid = confs.length > 0 && confs.every(({ valid }) => valid);
  const format = FORMATS[flags.format ?? "text"] ?? FORMATS["text"];
  return {
    json: document,
    text: (style) => format?.(confs, style) ?? "",
    note: sources.length === 0
      ? `No network configuration is in ${named.join(", ")}`
      : missing &&
        `${missing}, so missing ones are not reported`,
    exitCode: isValid ? 0 : 1,
  };
}

/** Validates configurations, each together with all other configurations of the node. */
async function reportOn(
  sources: readonly Source[],
  directories: Directories,
  call: CniCall,
  ignored: readonly string[],
): Promise<ReportedConf[]> {
  // The plugins' log is not needed, because their errors are shown.
  const quiet = { ...call, onStderr(): void {} };
  const { pluginDirs } = directories;
  const { signal } = call;
  const runtime = createRuntime(quiet, directories);
  const validator = { runtime, pluginDirs, env: call.env, signal };
  const validated: { source: Source; neighbor: Neighbor }[] = [];
  for (const source of sources) {
    const validation = await validateSource(source, validator);
    const { label, file } = source;
    validated.push({ source, neighbor: { label, file, validation } });
  }
  const neighbors = [
    ...validated.map(({ neighbor }) => neighbor),
    ...await readOthers(sources, directories, validator),
  ];
  return validated.map(({ source, neighbor }) => {
    const { validation } = neighbor;
    const others = neighbors.filter((other) => other !== neighbor);
    const problems = [
      ...source.problems,
      ...validation.problems,
      ...checkNeighbors(neighbor, others),
      ...isIgnored(source, directories) ? [IGNORED] : [],
    ].filter((problem) => !isIgnoredWarning(problem, ignored))
      .map((problem) => call.flags.strict ? harden(problem) : problem);
    const hasErrors = problems.some(({ severity }) => severity === "error");
    const valid = !hasErrors && (problems.length === 0 || !call.flags.strict);
    return {
      label: source.label,
      network: validation.list?.name ?? "",
      cniVersion: validation.list?.cniVersion ?? "",
      valid,
      problems: problems.map((problem) => {
        const { severity, place, message, isUnknownKey = false } = problem;
        const { code = severity === "warning" ? "value" : null } = problem;
        const path = formatPlace(place);
        const location = locate(source, problem);
        return { severity, path, message, code, isUnknownKey, ...location };
      }).sort(comparePositions),
      plugins: validation.types,
      capabilities: validation.capabilities,
      notChecked: validation.notChecked,
    };
  });
}

/** Reads `--ignore`. @throws {UsageError} If a code is unknown */
function readIgnored({ flags, command }: CniCall): readonly string[] {
  const codes = (flags.ignore ?? "").split(",").map((code) => code.trim())
    .filter((code) => code !== "");
  const known: readonly string[] = WARNING_CODES;
  const unknown = codes.find((code) => !known.includes(code));
  if (unknown === undefined) return codes;
  throw refuse(
    command,
    `no warning has the code "${unknown}"${didYouMean(unknown, known)}; ` +
      `the codes are ${known.join(", ")}`,
  );
}

/** Errors cannot be ignored. */
function isIgnoredWarning(
  { severity, code = "value" }: Problem,
  ignored: readonly string[],
): boolean {
  return severity === "warning" && ignored.includes(code);
}

/** A problem of any other file than those that runtimes read. */
const IGNORED = {
  ...warningAt(
    [],
    "runtimes ignore *.yaml in their directory: an API server takes it",
    "file",
  ),
  offset: 0,
};

/** Reports whether a file is where runtimes look, but they do not read it. */
function isIgnored(
  { file, problems }: Source,
  { confDir }: Directories,
): boolean {
  return problems.length === 0 && /\.ya?ml$/.test(file) &&
    isSame(dirname(file), confDir.replace(/(.)\/$/, "$1"));
}

/** A key that nothing reads is not what was meant. */
function harden(problem: Problem): Problem {
  return problem.isUnknownKey ? { ...problem, severity: "error" } : problem;
}

/** The order of positions; plugins in files of their own come by file. */
function comparePositions(
  one: ReportedProblem,
  other: ReportedProblem,
): number {
  if (one.file !== other.file) return one.file < other.file ? -1 : 1;
  return one.line - other.line || one.column - other.column;
}

async function validateSource(
  { given }: Source,
  validator: Validator,
): Promise<Validation> {
  return given === undefined
    ? {
      list: undefined,
      problems: [],
      types: [],
      capabilities: [],
      notChecked: [],
      ranges: [],
      gateways: [],
    }
    : await validateNetwork(given, validator);
}

/** Reads the node's other networks, for their ranges. */
async function readOthers(
  sources: readonly Source[],
  { confDir }: Directories,
  validator: Validator,
): Promise<Neighbor[]> {
  const isNamed = (path: string): boolean =>
    sources.some(({ file }) => isSame(file, path));
  const others: Neighbor[] = [];
  for (
    const file of ifPossible(() => listConfFiles(confDir, CONF_FILES)) ?? []
  ) {
    if (isNamed(file)) continue;
    for (const source of await readSourceFile(file).catch((): Source[] => [])) {
      const validation = await validateSource(source, validator);
      others.push({ label: source.label, file, validation });
    }
  }
  return others;
}

const CONF_FILES = [".conflist", ".conf", ".json"];

function isSame(one: string, other: string): boolean {
  return one === other ||
    ifPossible(() => Deno.realPathSync(one) === Deno.realPathSync(other)) ===
      true;
}
