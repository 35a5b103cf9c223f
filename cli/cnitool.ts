/**
 * The tool when invoked as `cnitool`: takes the command lines of the Go program of
 * that name, with its output and exit codes.
 *
 * Source: containernetworking/cni cnitool/cmd.
 *
 * @module
 */

import { resolve } from "@std/path/posix";
import { splitPath } from "../cni/invoke/find.ts";
import {
  findNetworkConfList,
  type NetworkConfList,
  NetworkRuntime,
  type RuntimeConf,
} from "../libcni/mod.ts";
import type {
  CommandRow,
  Output,
  Program,
  Run,
} from "../base/command_line/command.ts";
import { type CniCall, pick } from "./flags.ts";
import { readArgs, readDirectories } from "./node/network.ts";
import { createNodeInvoker, readPluginEnv } from "./node/node_invoker.ts";
import { arrangeResult, makeContainerId } from "./node/attachment.ts";
import { BUILT_IN_COMMANDS } from "../base/command_line/built_in_commands.ts";

/** A network, the attachment from the command line, and the runtime. */
interface Setting {
  readonly list: NetworkConfList;
  readonly conf: RuntimeConf;
  readonly runtime: NetworkRuntime;
}

type Verb = (
  setting: Setting,
  options: { readonly signal: AbortSignal },
) => Promise<unknown>;

/** The action of each verb. Its return value is printed. */
const VERBS: Readonly<Record<string, Verb>> = {
  add: async ({ runtime, list, conf }, options) =>
    arrangeResult(await runtime.addNetworkList(list, conf, options)),
  check: ({ runtime, list, conf }, options) =>
    runtime.checkNetworkList(list, conf, options),
  del: ({ runtime, list, conf }, options) =>
    runtime.delNetworkList(list, conf, options),
  // Without a list of valid attachments, all attachments to the network are
  // deleted.
  gc: ({ runtime, list }, options) => runtime.gcNetworkList(list, options),
  status: ({ runtime, list }, options) =>
    runtime.statusNetworkList(list, options),
  validate: async ({ runtime, list }, options) => {
    await runtime.validateNetworkList(list, options);
  },
};

function runVerb(verb: Verb): Run {
  return async (call): Promise<Output> => {
    const json = await verb(await readSetting(call), { signal: call.signal });
    return json === undefined
      ? { json: {}, text: "" }
      : { json, text: JSON.stringify(json, null, 4), isBare: true };
  };
}

/** Checks in the order of the Go program, so that the same error is reported first. */
async function readSetting(call: CniCall): Promise<Setting> {
  const [network = "", path = ""] = call.args;
  const { env, onStderr } = call;
  const list = findNetworkConfList(readDirectories(call).confDir, network);
  const args = readArgs(call);
  const netns = resolve(path);
  const containerId = await makeContainerId(netns);
  const runtime = new NetworkRuntime({
    pluginDirs: splitPath(env["CNI_PATH"] ?? ""),
    env: readPluginEnv(call),
    onStderr,
    invoker: createNodeInvoker(),
  });
  return { list, runtime, conf: { containerId, netns, ...args } };
}

const rows = Object.entries(VERBS).map(([name, verb]): CommandRow => ({
  name,
  summary: name === "validate"
    ? "Checks that the plugins exist and support the configuration"
    : `Runs ${name.toUpperCase()}`,
  args: [
    { name: "NETWORK", summary: "name of the network", completes: "network" },
    { name: "NETNS", summary: "path of the namespace", completes: "file" },
    {
      name: "IGNORED",
      summary: "whatever follows",
      isOptional: true,
      isRepeated: true,
    },
  ],
  flags: pick("ifname", "no-daemon"),
  load: () => Promise.resolve(runVerb(verb)),
}));

/** The program. */
export const cnitool: Program = {
  name: "cnitool",
  about: "A simple program that executes a CNI configuration. It will add, " +
    "check, remove, gc, or get status of an interface in an already-created " +
    "network namespace.",
  rows: [...rows, ...BUILT_IN_COMMANDS.filter(({ name }) => name === "help")],
  helpsWithoutCommand: true,
};
