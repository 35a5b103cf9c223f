/**
 * Calls that our `multus-shim` sends over the daemon's own protocol, with the same
 * results as over HTTP, in fewer steps.
 *
 * @module
 */

import type { Environment } from "../../../base/process/environment.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import type { PluginLookup } from "../../../cni/invoke/in_process.ts";
import { formatFailure } from "../../../base/error.ts";
import { formatAdded, toAnswer } from "./client.ts";
import { readShimCall } from "./shim.ts";
import type { CallIdentity } from "../../../daemon/server/call.ts";
import type { TranslatedCall } from "../../../daemon/server/call_socket.ts";
import { SHIM } from "../../../daemon/wire/daemon_socket.ts";
import type { CallRequest } from "../../../daemon/wire/request.ts";
import type { DeclineReason } from "../../../daemon/server/decline_reasons.ts";
import {
  CNI_PATH,
  describeFailure,
  toNewest,
} from "../../../daemon/server/http_calls.ts";
import { checkPodEnv, overlayConfig } from "./handler.ts";

/** How the daemon runs multus. */
export interface ShimCallOptions {
  /** Finds multus. */
  readonly lookup: PluginLookup;
  /** The daemon's environment. */
  readonly env: Environment;
  /** The daemon's own configuration. */
  readonly overlay: JsonObject;
  /** Receives log text of multus. */
  readonly onStderr: (text: string) => void;
}

/** The reasons to use HTTP. */
const INVALID = "invalid shim call", FAILED = "failed DEL";

/** The plugin that runs calls of the shim. */
const MULTUS = "multus";

/**
 * Identifies the attachment of a shim call, in the same way as for a call of multus.
 * Never throws.
 *
 * @returns Undefined for any other call
 */
export function identifyShimCall(
  { name, env, stdin }: Pick<CallRequest, "name" | "env" | "stdin">,
  overlay: JsonObject,
): CallIdentity | undefined {
  if (name !== SHIM) return undefined;
  const plugin = { name: MULTUS };
  try {
    return { plugin, env, stdin: overlayConfig(stdin, overlay) };
  } catch {
    return { plugin, env, stdin };
  }
}

/**
 * Translates a shim call to a call of multus.
 *
 * @returns Undefined for any other call; or the reason why the shim must use HTTP,
 * over which it then receives the error
 */
export async function translateShimCall(
  { name, env, stdin }: Pick<CallRequest, "name" | "env" | "stdin">,
  { lookup, env: own, overlay, onStderr }: ShimCallOptions,
): Promise<TranslatedCall | DeclineReason | undefined> {
  if (name !== SHIM) return undefined;
  const read = readShimCall(env, () => stdin);
  const multus = await lookup(MULTUS);
  if (read === undefined || multus === undefined) return INVALID;
  const { cniVersion } = read;
  try {
    return {
      plugin: multus,
      env: { CNI_PATH, ...own, ...checkPodEnv("/cni", env) },
      stdin: overlayConfig(stdin, overlay),
      onStderr,
      convert: async ({ stdout, exitCode }) => {
        try {
          if (exitCode !== 0) {
            // DEL needs only files on disk, so a different process might succeed.
            if (env["CNI_COMMAND"] === "DEL") return { declined: FAILED };
            const body = JSON.stringify(describeFailure(stdout));
            return await toAnswer({ env, cniVersion }, { status: 400, body });
          }
          if (stdout === "") return { stdout, exitCode };
          const result = toNewest(stdout);
          return { stdout: await formatAdded(result, cniVersion), exitCode };
        } catch (error) {
          return formatFailure(error, cniVersion);
        }
      },
    };
  } catch {
    return INVALID;
  }
}
