/**
 * `cni init`: writes a first network, by asking or from flags.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { join } from "@std/path/posix";
import type { PluginMetadata } from "../../metadata/plugin_metadata.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { isTaken, withIoFailure } from "../../base/files/io.ts";
import { isSpecVersion } from "../../cni/version.ts";
import { Cidr } from "../../net/cidr.ts";
import { findPrompt, type Prompt } from "../../base/command_line/prompt.ts";
import type { Output } from "../../base/command_line/command.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import { type CniCall, INIT_ANSWERS } from "../flags.ts";
import {
  findFreeSubnet,
  type NodeSubnets,
  readNodeSubnets,
} from "./free_subnets.ts";
import { type Choices, makeNetwork, STARTERS } from "./make_network.ts";
import { listTypes } from "../node/plugin_types.ts";
import {
  createRuntime,
  listNetworks,
  readDirectories,
} from "../node/network.ts";
import { findMissing } from "../node/plugin_file.ts";
import { formatPlace } from "../../metadata/problem.ts";
import { noteNoPlugins } from "../validate/plugin_calls.ts";
import { validateNetwork } from "../validate/validate.ts";
import { checkTarget, writeTarget } from "../written_file.ts";

/** What `cni init` depends on. */
export interface InitSetting {
  /** Undefined without a terminal. */
  readonly ask: Prompt | undefined;
  /** Reads what the node has. */
  readonly readNode: (confDir: string) => NodeSubnets;
}

/** Makes, validates and writes a network. */
export async function init(
  call: CniCall,
  { ask, readNode }: InitSetting = {
    ask: findPrompt(),
    readNode: readNodeSubnets,
  },
): Promise<Output> {
  const { flags } = call;
  const directories = readDirectories(call);
  const isAnswered = INIT_ANSWERS.some((flag) => flags[flag]) || flags.json;
  const node = readNode(directories.confDir);
  const missing = listMissing(directories.pluginDirs);
  const choices = choose(call, node, missing, isAnswered ? undefined : ask);
  const document = makeNetwork(choices);
  const text = JSON.stringify(document, null, 2);
  await check(call, document, choices);
  const { confDir } = directories;
  const target = flags.output ?? join(confDir, `10-${choices.name}.conflist`);
  const notes = noteLeftOut(call, choices, missing);
  if (target === "-") {
    return { json: document, text, ...notes && { note: notes } };
  }
  checkTarget(target);
  checkNew(target, choices.name, confDir, flags.force === true);
  // A node without networks might have no directory.
  if (flags.output === undefined) {
    withIoFailure(`create "${confDir}"`, () => makeDirectory(confDir));
  }
  writeTarget(target, `${text}\n`);
  const { pluginDirs } = directories;
  const none = noteNoPlugins(pluginDirs);
  return {
    json: { file: target, network: document },
    text: `Wrote ${target}:\n${text}\n\nTry it: cni netns add test && ` +
      shell`cni add ${choices.name} test`,
    note: none ? `${none} yet: ` + shell`cni install ${pluginDirs[0]}` : notes,
  };
}

/** Lists the plugins of first networks that are not installed; none if no plugin is. */
function listMissing(pluginDirs: readonly string[]): string[] {
  if (noteNoPlugins(pluginDirs) !== undefined) return [];
  return [...STARTERS.map(({ type }) => type), "portmap"]
    .filter((type) => findMissing(type, pluginDirs) !== undefined);
}

/** Notes that portmap, which networks have by default, is not installed. */
function noteLeftOut(
  { flags }: CniCall,
  { metadata, chained }: Choices,
  missing: readonly string[],
): string | undefined {
  const isWanted = !flags["no-portmap"] && !chained.includes("portmap") &&
    !metadata.start?.asks?.includes("master") && missing.includes("portmap");
  return isWanted
    ? "Omitted portmap, which forwards host ports: it is not installed"
    : undefined;
}

/** Takes flags, answers and defaults, in this order. */
function choose(
  call: CniCall,
  { taken, uplink }: NodeSubnets,
  missing: readonly string[],
  ask: Prompt = (_question, fallback) => fallback,
): Choices {
  const { flags, command } = call;
  const yes = (question: string, fallback: boolean): boolean =>
    /^y/i.test(ask(`${question} (y/n)`, fallback ? "y" : "n"));
  const name = flags.name ?? ask("Network name", "pods");
  const types = STARTERS.map(({ type }) => type);
  const usual = STARTERS.filter(({ start }) => !start?.asks?.includes("master"))
    .map(({ type }) => type).find((type) => !missing.includes(type));
  const metadata = flags.type === undefined
    ? readType(call, ask(`Type: ${types.join(", ")}`, usual ?? types[0] ?? ""))
    : readFlag(call, flags.type);
  const { start } = metadata;
  const needsMaster = start?.asks?.includes("master") === true;
  const master = needsMaster
    ? flags.master ?? ask("Host interface", uplink ?? "eth0")
    : undefined;
  if (flags.master !== undefined && !needsMaster) {
    throw refuse(command, `${metadata.type} has no --master`);
  }
  const vlanId = start?.asks?.includes("vlanId")
    ? readVlan(call, flags["vlan-id"] ?? ask("VLAN", "100"))
    : undefined;
  const free = `${findFreeSubnet(4, taken)}`;
  const subnet = readSubnet(
    call,
    flags.subnet ?? ask("Subnet of the containers", free),
  );
  const isDual = subnet.family === 4 &&
    (flags.ipv6 || yes("Also assign IPv6 addresses", false));
  const subnets = [subnet, ...isDual ? [findFreeSubnet(6, taken)] : []];
  // The containers might have to join the master's own network.
  const clash = taken.find((other) => other.overlaps(subnet));
  if (clash !== undefined && !needsMaster && !flags.force) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `Cannot use ${subnet}: this node has ${clash}; ${free} is free`,
    );
  }
  const cniVersion = flags["cni-version"] ?? "1.0.0";
  if (!isSpecVersion(cniVersion)) {
    throw refuse(
      command,
      `"${cniVersion}" is not a version of the CNI specification`,
    );
  }
  const mapsPorts = flags["no-portmap"] ? false : flags.portmap ||
    !needsMaster && yes("Forward host ports", !missing.includes("portmap"));
  const limits = flags.bandwidth || yes("Limit rates", false);
  return {
    name,
    metadata,
    cniVersion,
    subnets,
    master,
    vlanId,
    chained: [...mapsPorts ? ["portmap"] : [], ...limits ? ["bandwidth"] : []],
  };
}

function findStarter(given: string): PluginMetadata | undefined {
  return STARTERS.find(({ type }) => type === given.trim().toLowerCase());
}

function readFlag({ command }: CniCall, given: string): PluginMetadata {
  const metadata = findStarter(given);
  if (metadata !== undefined) return metadata;
  const types = STARTERS.map(({ type }) => type).join(", ")
    .replace(/, (\w+)$/, " or $1");
  throw refuse(command, `--type must be ${types}, not "${given}"`);
}

function readType({ command }: CniCall, given: string): PluginMetadata {
  const metadata = findStarter(given);
  if (metadata !== undefined) return metadata;
  const types = STARTERS.map(({ type }) => type).join(", ");
  throw refuse(command, `the type must be ${types}, not "${given}"`);
}

function readVlan({ command }: CniCall, given: string): number {
  const id = Number(given);
  if (Number.isInteger(id) && id >= 1 && id <= 4094) return id;
  throw refuse(command, `the VLAN must be 1 to 4094, not "${given}"`);
}

function readSubnet({ command }: CniCall, given: string): Cidr {
  let subnet: Cidr;
  try {
    subnet = Cidr.parse(given.trim());
  } catch {
    throw refuse(
      command,
      `the subnet must be like 10.1.2.0/24, not "${given}"`,
    );
  }
  if (!subnet.hasHostBits) return subnet;
  throw refuse(command, `${given} has host bits set; use ${subnet.masked()}`);
}

/** @throws {CniError} 7 With all errors that `cni validate` would find */
async function check(
  call: CniCall,
  document: ReturnType<typeof makeNetwork>,
  { name }: Choices,
): Promise<void> {
  const directories = readDirectories(call);
  const runtime = createRuntime(
    { ...call, onStderr(): void {} },
    directories,
  );
  const { problems } = await validateNetwork({ document, form: "list" }, {
    runtime,
    pluginDirs: directories.pluginDirs,
    env: call.env,
    signal: call.signal,
  });
  const errors = problems.filter(({ severity }) => severity === "error");
  if (errors.length === 0) return;
  const texts = errors.map(({ place, message }) =>
    `${formatPlace(place)}: ${message}`
  );
  const { pluginDirs } = directories;
  const missing = listTypes(document).filter((type) =>
    texts.some((text) => text.includes(`"${type}" in path`))
  );
  const command = missing.length === 0
    ? ""
    : shell`; run cni install ${pluginDirs[0]} --only ${missing.join(",")}`;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot create the network "${name}": ${texts.join("; ")}${command}`,
  );
}

/** @throws {CniError} 7 If the file or the network exists */
function checkNew(
  target: string,
  name: string,
  confDir: string,
  isForced: boolean,
): void {
  const other = listNetworks(confDir).find(({ file, list }) =>
    list.name === name || file === target
  );
  const file = other?.file ?? (isTaken(target) ? target : undefined);
  if (file === undefined || isForced && file === target) return;
  const what = file === target
    ? `"${target}" exists; replace it with --force`
    : `"${file}" already contains the network "${name}"; choose a different --name`;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot write the network "${name}": ${what}`,
  );
}

function makeDirectory(path: string): void {
  Deno.mkdirSync(path, { recursive: true });
}
