/**
 * The files of the configuration directory.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { ErrorCode } from "../../base/error.ts";
import { isObject, type JsonObject, parseJson } from "../../base/json/json.ts";
import { ifPossible, isDirectory, readTextFile } from "../../base/files/io.ts";
import { listCapabilities } from "../../libcni/conf.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import { findMissing } from "../node/plugin_file.ts";
import { givenOf, isNamelessLoopback } from "../validate/document.ts";
import { formatPlace, type Problem } from "../../metadata/problem.ts";
import { ConfText } from "../validate/conf_text.ts";
import { validateNetwork } from "../validate/validate.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import {
  type ConfiguredNetwork,
  type NodeReader,
  oncePerNode,
  typesOf,
} from "../node/node_reader.ts";

/** Finds that runtimes have no network at all. */
function findNoNetwork(
  { directories: { confDir }, configuration }: NodeReader,
): Findings {
  const { networks, unusable } = configuration;
  // Files that cannot be used are reported by conf-unusable.
  if (networks.length + unusable.length > 0) return [];
  return [
    error(
      isDirectory(confDir)
        ? `"${confDir}" has no usable network configuration`
        : `the directory "${confDir}" does not exist`,
      "the runtime reports NetworkPluginNotReady, and no pod starts",
      {
        advice: `write one with cni init, or start the program that writes it`,
        look: shell`ls -l ${confDir}`,
      },
    ),
  ];
}

function findUnreadable(node: NodeReader): Findings {
  const { networks, unusable } = node.configuration;
  return unusable.filter(({ path }) => {
    const document = ifPossible(() => parseJson(readTextFile(path), path));
    return !isObject(document) || !isNamelessLoopback(document as JsonObject);
  }).map((
    { path, error: cause, name },
  ) => {
    const next = networks.find((network) => network.path > path);
    const earlier = networks.some((network) => network.path < path);
    const isFirst = !earlier && next !== undefined;
    const what = cause.code === ErrorCode.IoFailure ? "read" : "used";
    return error(
      `"${path}" cannot be ${what}: ${formatFailureText(cause)}`,
      name !== undefined
        ? `containers of "${name}" do not start`
        : networks.length === 0
        ? "no network is left: the runtime reports NetworkPluginNotReady, and " +
          "no pod starts"
        : isFirst
        ? `runtimes skip it and take "${next.file}"; cni and multus stop at it ` +
          "when they look up a network by name"
        : "runtimes skip it; cni and multus stop at it when they look up a network by name",
      {
        advice: `${findMistake(path) ?? "correct it"}, or move it away`,
        look: node.cni(shell`validate ${path}`),
      },
    );
  });
}

/** Explains what to correct in a file that is not JSON; undefined if it is. */
function findMistake(path: string): string | undefined {
  const text = new ConfText(ifPossible(() => readTextFile(path)) ?? "{}");
  const mistake = text.findSyntaxError();
  if (mistake === undefined) return undefined;
  const { line, column } = text.positionOf(mistake.offset ?? 0);
  return `correct line ${line}, column ${column} (${mistake.message})`;
}

/** Ends of names under which people write configurations, and runtimes do not look. */
const IGNORED = /\.(ya?ml|jsonc|json5|txt)$|\.(CONFLIST|CONF|JSON)$/;

/** What a configuration has, in JSON as in YAML; a note beside it has not. */
const CONFIGURATION = /^[\s{]*["']?(cniVersion|plugins|type)["']?\s*:/m;

/** Finds configurations that no runtime reads because of their names. */
function findIgnored(node: NodeReader): Findings {
  const { directories: { confDir }, networks } = node;
  const entries = ifPossible(() => [...Deno.readDirSync(confDir)]) ?? [];
  const [first] = networks;
  const isMeant = (name: string): boolean =>
    CONFIGURATION.test(
      ifPossible(() => readTextFile(`${confDir}/${name}`)) ?? "",
    );
  const found = entries.filter(({ name }) =>
    IGNORED.test(name) && isMeant(name)
  );
  return found.map(({ name }) => {
    const path = `${confDir}/${name}`;
    const isFirst = first !== undefined && name < first.file;
    return warning(
      `"${path}" is not read: runtimes read .conflist, .conf and .json only`,
      isFirst
        ? `"${first.name}" of "${first.file}" is the default network instead`
        : "its network does not exist",
      {
        advice:
          "write it as JSON under a name that ends in .conflist, or move " +
          "it away",
        look: node.cni(shell`validate ${path}`),
      },
    );
  });
}

/** Finds files that a runtime cannot reach by their network's name. */
function findSameName({ networks }: NodeReader): Findings {
  return networks.flatMap(({ name, path, file }, index) => {
    const first = networks.slice(0, index).find((one) => one.name === name);
    if (first === undefined) return [];
    return [
      warning(
        `"${file}" is not used: "${first.file}" also has the name ` +
          `"${name}", and comes first`,
        "changes to that file have no effect",
        { command: shell`mv ${path} ${path}.unused` },
      ),
    ];
  });
}

/** Finds what `cni validate` finds, without plugins that are not installed. */
async function findInvalid(
  node: NodeReader,
  severity: Problem["severity"],
): Promise<Findings> {
  return (await listProblems(node))
    .filter(({ problem }) => problem.severity === severity)
    .map(({ network, problem }) => describeProblem(node, network, problem));
}

const listProblems = oncePerNode(async (node) => {
  const found: { network: ConfiguredNetwork; problem: Problem }[] = [];
  for (const network of node.networks) {
    for (const problem of await validate(node, network)) {
      found.push({ network, problem });
    }
  }
  return found;
});

/** Leaves out what other checks report: plugins that cannot be started. */
async function validate(
  node: NodeReader,
  network: ConfiguredNetwork,
): Promise<readonly Problem[]> {
  const { runtime, directories: { pluginDirs }, signal } = node;
  const usable = await node.findUsable();
  const missing = typesOf(network)
    .map((type) => findMissing(type, pluginDirs));
  const isBroken = typesOf(network)
    .some((type, at) => missing[at] === undefined && !usable(type));
  if (isBroken) return [];
  const validator = { runtime, pluginDirs, env: node.env, signal };
  const { problems } = await validateNetwork(
    givenOf(network.list),
    validator,
  );
  return problems.filter(({ message }) => !missing.includes(message));
}

function describeProblem(
  node: NodeReader,
  { path, name }: ConfiguredNetwork,
  { severity, place, message }: Problem,
): Finding {
  const where = formatPlace(place);
  const text = where === "" ? message : `${where}: ${message}`;
  const isError = severity === "error";
  return (isError ? error : warning)(
    `"${path}": ${text}`,
    isError
      ? `containers of "${name}" do not start`
      : `"${name}" might not do what it was written for`,
    {
      advice: `correct it in that file`,
      look: node.cni(shell`validate ${path}`),
    },
  );
}

/** The default network, as the summary shows it. */
export interface ChosenNetwork {
  readonly name: string;
  readonly file: string;
  readonly plugins: readonly string[];
  readonly capabilities: readonly string[];
}

/** Returns the network to which runtimes attach pods; undefined without networks. */
export function findDefault(
  { networks }: NodeReader,
): ChosenNetwork | undefined {
  const [first] = networks;
  return first && {
    name: first.name,
    file: first.file,
    plugins: first.plugins.map(({ type }) => type),
    capabilities: listCapabilities(first.plugins),
  };
}

/** Checks of configurations. */
export const CONFIGURATION_CHECKS: readonly Check[] = [
  {
    code: "CNI0101",
    name: "no-network",
    finds: "no network is configured",
    effect: "The runtime reports NetworkPluginNotReady, and no pod starts.",
    cause:
      "No program has written a network yet, or the runtime uses a different directory.",
    howToInspect: "`ls /etc/cni/net.d`, and the runtime's `conf_dir`.",
    howToFix:
      "`cni init`, or start the program that writes it, such as the DaemonSet of flannel or multus.",
    run: findNoNetwork,
  },
  {
    code: "CNI0102",
    name: "conf-unusable",
    finds: "a file of the configuration directory cannot be used",
    effect:
      "Runtimes skip the file, and might use the next file as the default network.",
    cause: "It is not JSON, or has no plugins or an invalid name.",
    howToInspect: "`cni validate FILE` shows the line.",
    howToFix: "Correct the file, or move it away.",
    run: findUnreadable,
  },
  {
    code: "CNI0103",
    name: "conf-same-name",
    finds: "a file is not used because another file has the network's name",
    effect: "Changes to that file have no effect.",
    cause: "The file is a copy, or two programs write the same network.",
    howToInspect: "`cni networks`.",
    howToFix: "Rename one of them, or move it away.",
    run: findSameName,
  },
  {
    code: "CNI0106",
    name: "conf-ignored",
    finds: "a file is not read because of its name",
    effect:
      "Its network does not exist, or another network becomes the default.",
    cause: "The configuration is in YAML, or the name has a different ending.",
    howToInspect: "`ls` of the directory, `cni networks`.",
    howToFix: "Write it as JSON, under a name that ends in `.conflist`.",
    run: findIgnored,
  },
  {
    code: "CNI0104",
    name: "conf-invalid",
    finds: "a plugin would refuse a configuration",
    effect: "Containers of that network do not start.",
    cause: "A value has the wrong type, or contradicts another value.",
    howToInspect:
      "`cni validate FILE` shows the line, `cni explain KEY` the key.",
    howToFix: "Correct the value.",
    run: (node) => findInvalid(node, "error"),
  },
  {
    code: "CNI0105",
    name: "conf-doubtful",
    finds: "a configuration has keys or values that are probably mistakes",
    effect: "The network might not work as intended.",
    cause:
      "A key is misspelt or belongs to another plugin, or a value has no effect.",
    howToInspect:
      "`cni validate FILE` shows the line, `cni explain TYPE` the keys.",
    howToFix: "Correct or remove the key.",
    run: (node) => findInvalid(node, "warning"),
  },
];
