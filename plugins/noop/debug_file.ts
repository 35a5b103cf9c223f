/**
 * The files with which a test controls noop and reads its input. Their keys equal the
 * Go noop's keys, so that each noop reads the other's files.
 *
 * Source: containernetworking/cni plugins/test/noop/debug/debug.go.
 *
 * @module
 */

import * as z from "zod/mini";
import type { Environment } from "../../base/process/environment.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { optional } from "../../cni/config/types.ts";
import { decode, once, parseJson, type Schema } from "../../base/json/json.ts";

/** Instructions for noop. Missing or empty instructions are skipped. */
export interface Script {
  /**
   * Output, verbatim. `PASSTHROUGH` stands for the prevResult, and `INJECT-DNS`
   * for the prevResult with the name server 1.2.3.4.
   */
  readonly ReportResult?: string | undefined;
  /** Message of an error to print instead. */
  readonly ReportError?: string | undefined;
  /** The error's code; 999 if it is 0. */
  readonly ReportErrorCode?: number | undefined;
  /** Output to stderr, verbatim. */
  readonly ReportStderr?: string | undefined;
  /** The claimed versions of the specification. */
  readonly ReportVersionSupport?: readonly string[] | undefined;
  /** The exit status after the result has been printed; at least 1. */
  readonly ExitWithCode?: number | undefined;
  /** Time between recording the call and the output; not in the Go noop. */
  readonly SleepSeconds?: number | undefined;
}

/** Input of noop: the variables, and stdin in base64. */
export interface RecordedArgs {
  readonly ContainerID: string;
  readonly Netns: string;
  readonly IfName: string;
  readonly Args: string;
  readonly Path: string;
  readonly NetnsOverride: string;
  readonly StdinData: string;
}

/** A call of noop. */
export interface RecordedCall {
  /** CNI_COMMAND. */
  readonly Command: string;
  readonly CmdArgs: RecordedArgs;
}

/** Describes a call. */
export function recordCall(env: Environment, stdin: Uint8Array): RecordedCall {
  const variable = (name: string): string => env[`CNI_${name}`] ?? "";
  return {
    Command: variable("COMMAND"),
    CmdArgs: {
      ContainerID: variable("CONTAINERID"),
      Netns: variable("NETNS"),
      IfName: variable("IFNAME"),
      Args: variable("ARGS"),
      Path: variable("PATH"),
      NetnsOverride: variable("NETNS_OVERRIDE"),
      StdinData: stdin.toBase64(),
    },
  };
}

const scriptSchema: () => Schema<Script> = once(() =>
  z.looseObject({
    ReportResult: optional(z.string()),
    ReportError: optional(z.string()),
    ReportErrorCode: optional(z.int().check(z.nonnegative())),
    ReportStderr: optional(z.string()),
    ReportVersionSupport: optional(z.array(z.string())),
    ExitWithCode: optional(z.int()),
    SleepSeconds: optional(z.number().check(z.nonnegative())),
  })
);

/**
 * Reads the instructions of a debug file.
 *
 * @returns All keys of the file, including unknown ones
 * @throws {CniError} 5 if the file cannot be read, 6 or 7 if it is not a debug
 *   file
 */
export function readScript(path: string): Script {
  const what = `debug file "${path}"`;
  const text = failingAs(what, () => Deno.readTextFileSync(path));
  return decode(scriptSchema(), parseJson(text, what), what);
}

/**
 * Writes a call into its debug file, and replaces the previous call. The change is
 * atomic for readers.
 * is atomic for readers.
 *
 * @throws {CniError} 5 if the file cannot be written
 */
export function writeCall(
  path: string,
  script: Script,
  call: RecordedCall,
): void {
  const text = JSON.stringify({ ...script, ...call });
  const temporary = `${path}.${Deno.pid}`;
  failingAs(`debug file "${path}"`, () => {
    Deno.writeTextFileSync(temporary, text, { mode: 0o600 });
    Deno.renameSync(temporary, path);
  });
}

/**
 * Appends a call to a command log, which is a list of all calls. The file must exist,
 * and can be empty. Processes that log at the same time wait for each other.
 *
 * @throws {CniError} 5 if the file cannot be read and written, 6 or 7 if it is
 *   not a list
 */
export function logCall(path: string, call: RecordedCall): void {
  const what = `command log "${path}"`;
  using file = failingAs(
    what,
    () => Deno.openSync(path, { read: true, write: true }),
  );
  file.lockSync(true);
  const text = Deno.readTextFileSync(path);
  const calls = text === "" ? null : parseJson(text, what);
  const list = decode(z.nullable(z.array(z.unknown())), calls, what) ?? [];
  // The descriptor would overwrite the beginning. The lock covers the file, whichever
  // descriptor writes.
  Deno.writeTextFileSync(path, JSON.stringify([...list, call]));
}

function failingAs<T>(what: string, access: () => T): T {
  try {
    return access();
  } catch (error) {
    const message = `Cannot access ${what}`;
    throw new CniError(ErrorCode.IoFailure, message, { cause: error });
  }
}
