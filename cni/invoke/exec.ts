/**
 * Running a plugin as a process of its own.
 *
 * @module
 */

import { CniError, ErrorCode } from "../error.ts";
import { findPlugin, splitPath } from "./find.ts";
import type { Invocation, Invoker } from "./invoker.ts";

/** Runs the executable that CNI_PATH leads to. */
export const execInvoker: Invoker = {
  invoke(invocation): Promise<string> {
    const folders = splitPath(invocation.env["CNI_PATH"] ?? "");
    return execPlugin(findPlugin(invocation.type, folders), invocation);
  },
};

/**
 * Runs the executable at `path`.
 *
 * @returns What it printed on stdout
 * @throws {CniError} The plugin's own error, else 999 with what is known of its end
 */
export async function execPlugin(
  path: string,
  { env, stdin, onStderr }: Omit<Invocation, "type" | "hostNetns">,
): Promise<string> {
  const child = spawn(path, env);
  const [output] = await Promise.all([child.output(), feed(child, stdin)]);
  const [stdout, stderr] = [output.stdout, output.stderr].map(decodeText);
  if (stderr) onStderr(stderr);
  if (output.success) return stdout ?? "";
  throw failure(path, {
    stdout: stdout ?? "",
    stderr: stderr ?? "",
    cause: output.signal === null
      ? `exit status ${output.code}`
      : `signal: ${output.signal}`,
  });
}

function spawn(
  path: string,
  env: Readonly<Record<string, string>>,
): Deno.ChildProcess {
  try {
    return new Deno.Command(path, {
      clearEnv: true,
      env,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (error) {
    throw new CniError(ErrorCode.Internal, `Cannot run plugin "${path}"`, {
      cause: error,
    });
  }
}

/** Hands the configuration over. A plugin that does not read it is no failure. */
async function feed(
  child: Deno.ChildProcess,
  stdin: Uint8Array,
): Promise<void> {
  const writer = child.stdin.getWriter();
  try {
    await writer.write(stdin);
    await writer.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

function decodeText(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** How a plugin ended that did not succeed. */
export interface Ending {
  readonly stdout: string;
  readonly stderr: string;
  /** The exit status or signal, in words. */
  readonly cause: string;
}

/**
 * Makes an error of a plugin's end: its own if it printed one.
 *
 * Source: containernetworking/cni pkg/invoke/raw_exec.go `pluginErr`.
 */
export function failure(path: string, ending: Ending): CniError {
  const { stdout, stderr, cause } = ending;
  if (stdout.trim() === "") {
    const msg = stderr.trim() === ""
      ? `netplugin failed with no error message: ${cause}`
      : `netplugin failed: ${JSON.stringify(stderr.trim())}: ${cause}`;
    return new CniError(ErrorCode.Internal, msg, { details: path });
  }
  return parseError(stdout) ?? new CniError(
    ErrorCode.Internal,
    `netplugin failed but error parsing its diagnostic message ${
      JSON.stringify(stdout)
    }: ${cause}`,
    { details: path },
  );
}

/** Reads an error object; undefined if the text is none. */
function parseError(text: string): CniError | undefined {
  try {
    const { code, msg, details } = JSON.parse(text);
    if (!Number.isInteger(code) || typeof msg !== "string" || msg === "") {
      return undefined;
    }
    return new CniError(
      code,
      msg,
      typeof details === "string" && details !== "" ? { details } : {},
    );
  } catch {
    return undefined;
  }
}
