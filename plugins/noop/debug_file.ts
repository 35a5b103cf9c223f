/**
 * The files by which a test tells noop what to do and sees what it was given.
 * Their keys are those of the Go noop, so that either reads the other's.
 *
 * Source: containernetworking/cni plugins/test/noop/debug/debug.go.
 *
 * @module
 */

import * as z from "zod/mini";
import type { Environment } from "../../cni/args.ts";
import { CniError, ErrorCode } from "../../cni/error.ts";
import { decode, parseJson, type Schema } from "../../cni/json.ts";
import { once, optional } from "../../cni/types.ts";

/** What noop shall do. What is left out, or empty, is not done. */
export interface Script {
  /**
   * What is printed, verbatim. `PASSTHROUGH` stands for the prevResult, and
   * `INJECT-DNS` for the prevResult with the name server 1.2.3.4.
   */
  readonly ReportResult?: string | undefined;
  /** Message of the error that is printed instead. */
  readonly ReportError?: string | undefined;
  /** The error's code; 999 if it is 0. */
  readonly ReportErrorCode?: number | undefined;
  /** What is written to stderr, verbatim. */
  readonly ReportStderr?: string | undefined;
  /** The versions of the specification that are claimed. */
  readonly ReportVersionSupport?: readonly string[] | undefined;
  /** The exit status, from 1, after the result has been printed. */
  readonly ExitWithCode?: number | undefined;
  /** How long to wait between recording the call and answering; not in the Go noop. */
  readonly SleepSeconds?: number | undefined;
}

/** What noop was given: the variables, and stdin in base64. */
export interface RecordedArgs {
  readonly ContainerID: string;
  readonly Netns: string;
  readonly IfName: string;
  readonly Args: string;
  readonly Path: string;
  readonly NetnsOverride: string;
  readonly StdinData: string;
}

/** One call of noop. */
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
 * Reads what noop shall do from a debug file.
 *
 * @returns All keys of the file, those that noop does not know included
 * @throws {CniError} 5 if the file cannot be read, 6 or 7 if it is no debug file
 */
export function readScript(path: string): Script {
  const what = `debug file "${path}"`;
  const text = failingAs(what, () => Deno.readTextFileSync(path));
  return decode(scriptSchema(), parseJson(text, what), what);
}

/**
 * Writes a call into the debug file that told what to do, over the call before.
 * Who reads the file meanwhile sees either.
 *
 * @throws {CniError} 5 if the file cannot be written
 */
export function writeCall(
  path: string,
  script: Script,
  call: RecordedCall,
): void {
  const text = JSON.stringify({ ...script, ...call });
  const unfinished = `${path}.${Deno.pid}`;
  failingAs(`debug file "${path}"`, () => {
    Deno.writeTextFileSync(unfinished, text, { mode: 0o600 });
    Deno.renameSync(unfinished, path);
  });
}

/**
 * Adds a call to a command log, a list of all calls. The file must be there,
 * and may be empty. Processes that log at the same time wait for each other.
 *
 * @throws {CniError} 5 if the file cannot be read and written, 6 or 7 if it is
 *   no list
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
  // The descriptor would write over the beginning; the lock is on the file.
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
