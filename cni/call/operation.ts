/**
 * One operation of a plugin: from the configuration to the result.
 *
 * @module
 */

import { CallLog } from "./call_log.ts";
import type { CmdArgs, Command } from "./args.ts";
import { formatFailure } from "../../base/error.ts";
import {
  type DelegatedIpam,
  type DelegatedPlugin,
  delegateTo,
} from "../invoke/delegate.ts";
import { decode, decodeLeniently, once } from "../../base/json/json.ts";
import type { Log } from "../../base/log/log.ts";
import { Rollback } from "../../base/rollback.ts";
import type { Call, Plugin } from "../plugin.ts";
import {
  checkNetns,
  checkVersion,
  type ConfigInput,
  decodeConfigVersion,
  isCommand,
  readRequest,
  unknownCommand,
} from "./request.ts";
import type { Result } from "../result/result.ts";
import { unbatched } from "./link_deletion.ts";
import type { CallContext, DispatchInput, DispatchOutput } from "./context.ts";
import {
  type AttachmentId,
  decodeValidAttachments,
  type NetConf,
} from "../config/types.ts";
import { CURRENT_VERSION, isAtLeast, isSpecVersion } from "../version.ts";

/** From this version on a result can be printed without loss. */
const LOSSLESS_SINCE = "1.0.0";

/** The method of a plugin that handles each command. */
const OPERATIONS = {
  ADD: "add",
  DEL: "del",
  CHECK: "check",
  GC: "gc",
  STATUS: "status",
} as const satisfies Record<Command, keyof Plugin>;

/** The call, before the configuration is read. */
export interface UnreadCall {
  readonly plugin: Plugin;
  /** CNI_COMMAND, unchecked; "CHECK" for a repair. */
  readonly command: string;
  readonly isRepair: boolean;
  readonly args: CmdArgs;
  readonly input: DispatchInput & CallContext;
}

/**
 * Reads the configuration and runs the operation.
 *
 * @returns The output and the exit code
 */
export async function runCommand(
  call: UnreadCall,
): Promise<Pick<DispatchOutput, "stdout" | "exitCode">> {
  let errorVersion: string = CURRENT_VERSION;
  const logs = new CallLog(call.input);
  const { plugin, command, isRepair, args } = call;
  try {
    const request = readRequest(call.input.stdin);
    if (!isCommand(command)) throw unknownCommand(command);
    const cniVersion = decodeConfigVersion(request.document);
    if (isSpecVersion(cniVersion)) {
      errorVersion = cniVersion;
      call.input.onErrorVersion?.(cniVersion);
    }
    checkVersion(plugin, command, cniVersion);
    const run = { ...call, command, request, cniVersion, logs };
    const stdout = isRepair
      ? await (await import("./repair.ts")).repair(
        plugin,
        await createCall(run),
      )
      : await runOperation(run);
    return { stdout, exitCode: 0 };
  } catch (error) {
    const { containerId, ifName } = args;
    const fields = { plugin: plugin.name, command, containerId, ifName };
    logs.logStack(error, fields);
    return formatFailure(error, errorVersion);
  } finally {
    await logs.keep();
  }
}

/** Everything one operation needs. */
interface Run extends UnreadCall {
  readonly command: Command;
  readonly request: ConfigInput;
  /** The configuration's. */
  readonly cniVersion: string;
  readonly logs: CallLog;
}

async function runOperation(run: Run): Promise<string> {
  const { plugin, command, args, input, cniVersion } = run;
  // On ADD before anything is done, so that stdout never holds a result and an
  // error; on DEL afterwards, so that DEL cleans up what it can.
  if (command === "ADD") checkNetns(args, input.hostNetns);
  const call = await createCall(run);
  const result = await plugin[OPERATIONS[command]]?.(call);
  if (command === "DEL") checkNetns(args, input.hostNetns);
  if (command !== "ADD" || !result) return "";
  if ("document" in result) return JSON.stringify(result.document, null, 4);
  // If the result cannot be expressed in the version, ADD is undone.
  await using rollback = new Rollback(call.log);
  rollback.onFailure("undo ADD", () => plugin.del?.(call));
  const { formatResult } = await import("../result/encoding.ts");
  const stdout = formatResult(result, cniVersion);
  rollback.commit();
  if (isAtLeast(cniVersion, LOSSLESS_SINCE)) input.onResult?.(result);
  return stdout;
}

async function createCall(run: Run): Promise<Call> {
  const { plugin, command, args, request, cniVersion, logs } = run;
  const { name: network, bytes: stdin } = request;
  const context = { ...contextOf(run.input), caller: args };
  const { hostNetns, signal, linkDeletion = unbatched } = context;
  const log = logs.create({
    plugin: plugin.name,
    command,
    containerId: args.containerId,
    ifName: args.ifName,
    network,
  });
  const config = await decodeConfig(run, log);
  const hasResult = config.prevResult !== undefined;
  const caller = plugin.name;
  const delegating = { caller, context, cniVersion, hasResult, log };
  const delegate = (type: string, config = stdin): DelegatedPlugin =>
    delegateTo(type, { ...delegating, stdin: config });
  const readPrevResult = await prevResultReader(config, cniVersion);
  const readValid = await validAttachmentsReader(run, log);
  return {
    command,
    args,
    config,
    stdin,
    network,
    cniVersion,
    hostNetns,
    log,
    delegate,
    context,
    linkDeletion,
    signal,
    get prevResult(): Result | undefined {
      return readPrevResult();
    },
    get validAttachments(): readonly AttachmentId[] | undefined {
      return readValid();
    },
    get ipam(): DelegatedIpam {
      const type = config.ipam?.type ?? "";
      if (command === "DEL" && context.keepsAddresses) {
        return { ...delegate(type), del: () => Promise.resolve() };
      }
      if (command !== "GC") return delegate(type);
      return {
        ...delegate(type),
        async gc(more = []): Promise<void> {
          const valid = readValid();
          // An IPAM plugin might treat a missing list as an empty list.
          if (valid === undefined) return;
          const { configOfGc } = await import("./valid_attachments.ts");
          const kept = [...valid, ...more];
          await delegate(type, configOfGc(request, kept)).gc();
        },
      };
    },
  };
}

/** Returns the part of the context that calls of other plugins share. */
function contextOf(
  {
    stdin: _stdin,
    onResult: _onResult,
    onErrorVersion: _onErrorVersion,
    ...context
  }: DispatchInput & CallContext,
): CallContext {
  return context;
}

/** Returns a function that reads the prevResult, and loads its decoder if there is one. */
async function prevResultReader(
  { prevResult }: NetConf,
  cniVersion: string,
): Promise<() => Result | undefined> {
  if (prevResult === undefined) return () => undefined;
  const { parsePrevResult } = await import("../result/decoding.ts");
  return once(() => parsePrevResult({ prevResult, cniVersion }));
}

/** Returns a function that lists the valid attachments, and loads its module for GC. */
async function validAttachmentsReader(
  { plugin, command, request: { document, name } }: Run,
  log: Log,
): Promise<() => readonly AttachmentId[] | undefined> {
  if (command !== "GC" || plugin.isRuntime) {
    return () => decodeValidAttachments(document);
  }
  const { listValidAttachments } = await import("./valid_attachments.ts");
  const onUnreadable = (path: string): void =>
    log.warn(
      "Keeping everything that an unreadable cache file may belong to",
      { path },
    );
  return once(() =>
    listValidAttachments(document, name, undefined, onUnreadable)
  );
}

/** Decodes the configuration. DEL and GC ignore a malformed key, which ADD refuses. */
async function decodeConfig(
  { plugin, command, request }: Run,
  log: Log,
): Promise<NetConf> {
  const schema = await plugin.configSchema();
  const what = "network configuration";
  return command === "DEL" || command === "GC"
    ? decodeLeniently(
      schema,
      request.document,
      what,
      (problem) => log.warn("Ignoring a configuration key", { problem }),
    )
    : decode(schema, request.document, what);
}
