/**
 * A call that the daemon runs, and its outcome.
 *
 * @module
 */

import { CniError, ErrorCode, formatFailure } from "../../base/error.ts";
import { isObject } from "../../base/json/json.ts";
import type { Environment } from "../../base/process/environment.ts";
import type { DispatchOutput } from "../../cni/call/context.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { CURRENT_VERSION, isSpecVersion } from "../../cni/version.ts";
import type { CallProgress } from "./call_progress.ts";
import type { DeclineReason } from "./decline_reasons.ts";

/** A call. */
export interface DaemonCall {
  readonly plugin: Plugin;
  readonly env: Environment;
  /** The configuration, byte for byte. */
  readonly stdin: Uint8Array;
  /** Receives log text as it is written. */
  readonly onStderr: (text: string) => void;
  /**
   * The caller's executable, as `findFileId` identifies it: plugins that are
   * the same file run in this process.
   */
  readonly exe?: string;
  /** Describes the caller in the log. */
  readonly from: string;
  /** Where the call is, and why it ends. */
  readonly progress: CallProgress;
}

/** The output of a call, or why the call was declined. */
export type Outcome =
  | Pick<DispatchOutput, "stdout" | "exitCode">
  | { readonly declined: DeclineReason };

/** A call that has ended. */
export interface EndedCall {
  readonly call: DaemonCall;
  readonly outcome: Outcome;
  /** The plugin's type. */
  readonly plugin: string;
  readonly command: string;
  /** The name in the configuration; "" for none. */
  readonly network: string;
  /** The code of the error; 0 for success, -1 for a declined call. */
  readonly code: number;
  /** Time from the call's arrival to its answer, in ms. */
  readonly ms: number;
  /** Time from the call's arrival to its start, in ms. */
  readonly waitedMs: number;
}

/** The values that identify the attachment of a call. */
export interface CallIdentity extends Pick<DaemonCall, "env" | "stdin"> {
  readonly plugin: Pick<Plugin, "name">;
}

/** The network and the attachment of a call. */
export interface CallSubject {
  /** Name of the network; "" for none. */
  readonly network: string;
  readonly cniVersion: string;
  /** Identifies the attachment; undefined for GC, STATUS and VERSION. */
  readonly attachment: string | undefined;
  /** Calls with the same key run one at a time. */
  readonly queueKey: string | undefined;
}

/** The commands for an attachment. */
const OF_ATTACHMENT = ["ADD", "DEL", "CHECK"];

/**
 * Reads the network and the attachment of a call.
 *
 * @param isPerContainer Whether the calls of a container run one at a time, instead of
 *   the calls of an attachment
 */
export function readSubject(
  { plugin, env, stdin }: CallIdentity,
  isPerContainer: boolean,
): CallSubject {
  const config = readTexts(stdin);
  const network = config.get("name") ?? "";
  const version = config.get("cniversion") ?? "";
  const { CNI_COMMAND, CNI_CONTAINERID, CNI_IFNAME } = env;
  const isOfAttachment = OF_ATTACHMENT.includes(CNI_COMMAND ?? "");
  const parts = [plugin.name, network, CNI_CONTAINERID, CNI_IFNAME];
  const attachment = isOfAttachment ? JSON.stringify(parts) : undefined;
  return {
    network,
    cniVersion: isSpecVersion(version) ? version : CURRENT_VERSION,
    attachment,
    queueKey: isPerContainer && isOfAttachment ? CNI_CONTAINERID : attachment,
  };
}

/** Returns the name of a configuration's network; "" for none. */
export function readNetwork(stdin: Uint8Array): string {
  return readTexts(stdin).get("name") ?? "";
}

/** Reads the strings of a configuration, by their keys in lower case. */
function readTexts(stdin: Uint8Array): Map<string, string> {
  const texts = new Map<string, string>();
  for (const [key, value] of Object.entries(parseLeniently(stdin))) {
    if (typeof value === "string") texts.set(key.toLowerCase(), value);
  }
  return texts;
}

/** Parses an object. Anything else gives an empty object, and the plugin refuses it. */
function parseLeniently(bytes: Uint8Array): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** Adds the result of an ADD to its configuration, as a runtime does for DEL. */
export function withPrevResult(stdin: Uint8Array, result: string): Uint8Array {
  const prevResult: unknown = JSON.parse(result);
  return new TextEncoder().encode(
    JSON.stringify({ ...parseLeniently(stdin), prevResult }),
  );
}

/** Returns the outcome of a call that a signal has ended. */
export function cancelledOutcome(
  { cniVersion }: CallSubject,
  { reason }: AbortSignal,
): Outcome {
  const why = reason instanceof Error ? reason.message : String(reason);
  return formatFailure(
    new CniError(ErrorCode.TryAgainLater, `The call was cancelled: ${why}`, {
      details: "try again later",
    }),
    cniVersion,
  );
}

/** Returns the {@linkcode EndedCall.code} of an outcome. */
export function codeOf(outcome: Outcome): number {
  if ("declined" in outcome) return -1;
  if (outcome.exitCode === 0) return 0;
  const { code } = parseLeniently(new TextEncoder().encode(outcome.stdout));
  return typeof code === "number" ? code : ErrorCode.Internal;
}
