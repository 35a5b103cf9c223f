/**
 * Runs a user's programs inside the sandbox.
 *
 * @module
 */

import { CniError, describeError } from "../../base/error.ts";
import { deadline } from "../../base/deadline.ts";
import { type ProcessResult, runToEnd } from "../../base/process/child.ts";
import type { Call } from "../../cni/plugin.ts";
import { checkChange } from "../../ffi/change_check.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { findSandbox } from "../parts/sandbox/sandbox.ts";
import type { DebugConfig } from "./schema.ts";

/** A program and its arguments. */
export type Hook = readonly string[];

/** Default time limit of a hook: well below the runtimes' limits. */
const DEFAULT_TIMEOUT_SECONDS = 30;

/**
 * Runs hooks one at a time in the sandbox's namespace. Failures are only logged;
 * without a namespace, no hook runs.
 * logged; without a namespace no hook runs.
 */
export async function runHooks(
  hooks: readonly Hook[],
  call: Call<DebugConfig>,
): Promise<void> {
  using sandbox = findOpenSandbox(call);
  if (sandbox === undefined) return;
  for (const hook of hooks) {
    const problem = await findProblem(hook, sandbox.netns, call);
    if (problem === undefined) continue;
    call.log.warn("A hook failed", { hook: JSON.stringify(hook), ...problem });
  }
}

function findOpenSandbox(call: Call<DebugConfig>): Rtnl | undefined {
  try {
    return findSandbox(call);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    call.log.warn("The hooks are skipped", { error: describeError(error) });
    return undefined;
  }
}

/** Log fields of a failed hook. */
interface Problem {
  readonly error: string;
  readonly stderr?: string;
}

/** Runs a hook, and drops its stdout. */
async function findProblem(
  hook: Hook,
  netns: NetNs,
  call: Call<DebugConfig>,
): Promise<Problem | undefined> {
  const seconds = call.config.hookTimeoutSeconds ?? DEFAULT_TIMEOUT_SECONDS;
  let ending: ProcessResult;
  checkChange();
  try {
    const child = spawn(hook, netns, call);
    ending = await runToEnd(child, new Uint8Array(), deadline(seconds * 1000));
  } catch (error) {
    return { error: describeError(error) };
  }
  if (ending.success) return undefined;
  const error = ending.abort
    ? `it did not finish within ${seconds} s`
    : ending.cause;
  return { error, stderr: ending.stderr.trim() };
}

/**
 * Starts a hook in a namespace. The process exists when this returns, and the
 * caller waits for it from outside.
 */
function spawn(
  [program = "", ...args]: Hook,
  netns: NetNs,
  call: Call,
): Deno.ChildProcess {
  const command = new Deno.Command(program, {
    args,
    env: environmentOf(call),
    // A process group, which is killed after the time limit.
    detached: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  });
  return inNetns(netns, () => command.spawn());
}

/** Returns the variables of the call; all others are inherited. */
function environmentOf({ command, args }: Call): Record<string, string> {
  return {
    CNI_COMMAND: command,
    CNI_CONTAINERID: args.containerId,
    CNI_NETNS: args.netns,
    CNI_IFNAME: args.ifName,
    CNI_ARGS: args.args,
    CNI_PATH: args.path,
  };
}
