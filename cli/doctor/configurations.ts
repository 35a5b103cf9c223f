/**
 * The files of the configuration folder.
 *
 * @module
 */

import { ErrorCode } from "../../cni/error.ts";
import { listCapabilities } from "../../cni/libcni/conf.ts";
import { formatFailureText } from "../program/failure.ts";
import { isFolder } from "../network.ts";
import { findMissing } from "../plugin_file.ts";
import { givenOf } from "../validation/document.ts";
import { formatPlace, type Problem } from "../../cni/tools/problem.ts";
import { validateNetwork } from "../validation/validate.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import { type ConfiguredNetwork, type Node, typesOf } from "./node.ts";

/** Finds that runtimes have no network at all. */
function findNoNetwork({ folders: { confDir }, networks }: Node): Findings {
  if (networks.length > 0) return [];
  return [
    error(
      isFolder(confDir)
        ? `"${confDir}" has no usable network configuration`
        : `the folder "${confDir}" does not exist`,
      "the runtime reports NetworkPluginNotReady, and no pod starts",
      { command: `cni init --help` },
    ),
  ];
}

function findUnreadable({ configuration }: Node): Findings {
  const { networks, unusable } = configuration;
  return unusable.map(({ path, error: cause, name }) => {
    const next = networks.find((network) => network.path > path);
    const earlier = networks.some((network) => network.path < path);
    const isFirst = !earlier && next !== undefined;
    const what = cause.code === ErrorCode.IoFailure ? "read" : "used";
    return error(
      `"${path}" cannot be ${what}: ${formatFailureText(cause)}`,
      name !== undefined
        ? `containers of "${name}" do not start`
        : isFirst
        ? `runtimes skip it and take "${next.file}"; cni and multus find no ` +
          "network by name behind it"
        : "runtimes skip it; cni and multus find no network by name behind it",
      { command: `cni validate ${path}` },
    );
  });
}

/** Finds files that a runtime cannot reach by their network's name. */
function findSameName({ networks }: Node): Findings {
  return networks.flatMap(({ name, path, file }, index) => {
    const first = networks.slice(0, index).find((one) => one.name === name);
    if (first === undefined) return [];
    return [
      warning(
        `"${file}" is not used: "${first.file}" has the name "${name}" too, ` +
          "and comes first",
        "changes of that file have no effect",
        { command: `mv ${path} ${path}.unused` },
      ),
    ];
  });
}

/** Finds what `cni validate` finds, without plugins that are not installed. */
async function findInvalid(
  node: Node,
  severity: Problem["severity"],
): Promise<Findings> {
  const findings: Finding[] = [];
  for (const network of node.networks) {
    for (const problem of await listProblems(node, network)) {
      if (problem.severity !== severity) continue;
      findings.push(describeProblem(network, problem));
    }
  }
  return findings;
}

const VALIDATED = new WeakMap<ConfiguredNetwork, Promise<readonly Problem[]>>();

function listProblems(
  node: Node,
  network: ConfiguredNetwork,
): Promise<readonly Problem[]> {
  const known = VALIDATED.get(network) ?? validate(node, network);
  VALIDATED.set(network, known);
  return known;
}

/** Leaves out what other checks report: plugins that cannot be started. */
async function validate(
  node: Node,
  network: ConfiguredNetwork,
): Promise<readonly Problem[]> {
  const { runtime, folders: { pluginDirs }, signal } = node;
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
      : `"${name}" may not do what it was written for`,
    { command: `cni validate ${path}` },
  );
}

/** The default network, as the summary shows it. */
export interface DefaultNetwork {
  readonly name: string;
  readonly file: string;
  readonly plugins: readonly string[];
  readonly capabilities: readonly string[];
}

/** Returns the network that runtimes give pods; undefined without one. */
export function findDefault({ networks }: Node): DefaultNetwork | undefined {
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
    name: "no-network",
    finds: "no network is configured",
    run: findNoNetwork,
  },
  {
    name: "conf-unusable",
    finds: "a file of the configuration folder cannot be used",
    run: findUnreadable,
  },
  {
    name: "conf-same-name",
    finds: "a file is not used because another one has the network's name",
    run: findSameName,
  },
  {
    name: "conf-invalid",
    finds: "a plugin would refuse a configuration",
    run: (node) => findInvalid(node, "error"),
  },
  {
    name: "conf-doubtful",
    finds: "a configuration has keys or values that are probably mistakes",
    run: (node) => findInvalid(node, "warning"),
  },
];
