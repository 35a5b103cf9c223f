/**
 * Calls that our `multus-shim` sends by the daemon's own protocol: the same
 * results as by HTTP, in fewer steps.
 *
 * @module
 */

import { decodeResult } from "../../../cni/result/decoding.ts";
import { encodeResult } from "../../../cni/result/encoding.ts";
import { formatFailure } from "../../../base/error.ts";
import { formatAdded, toAnswer } from "./client.ts";
import { readShimCall } from "./shim.ts";
import type { Translation } from "../../../daemon/server/call_socket.ts";
import { SHIM } from "../../../daemon/wire/daemon_socket.ts";
import type { CallRequest } from "../../../daemon/wire/request.ts";
import type { Reason } from "../../../daemon/service/reasons.ts";
import { overlayConfig, RESULT_VERSION } from "./configuration.ts";
import { CNI_PATH, describeFailure } from "./handler.ts";
import { checkEnv } from "./request.ts";
import type { ThickServiceOptions } from "./serve.ts";

/** The name by which the shim asks. */
/** The reasons for which HTTP is used. */
const INVALID = "invalid shim call", FAILED = "failed DEL";

/**
 * Translates a call of the shim to a call of multus.
 *
 * @returns Undefined for any other call; why the shim must use HTTP, which
 *   then has the error
 */
export async function translateShimCall(
  { name, env, stdin }: Pick<CallRequest, "name" | "env" | "stdin">,
  { lookup, env: own, overlay, onStderr }: ThickServiceOptions,
): Promise<Translation | Reason | undefined> {
  if (name !== SHIM) return undefined;
  const read = readShimCall(env, () => stdin);
  const multus = await lookup("multus");
  if (read === undefined || multus === undefined) return INVALID;
  const { cniVersion } = read;
  try {
    return {
      plugin: multus,
      env: { CNI_PATH, ...own, ...checkEnv("/cni", env) },
      stdin: overlayConfig(stdin, overlay),
      onStderr,
      answer: async ({ stdout, exitCode }) => {
        try {
          if (exitCode !== 0) {
            // DEL works from what is on disk, so another process may succeed.
            if (env["CNI_COMMAND"] === "DEL") return { notMine: FAILED };
            const body = JSON.stringify(describeFailure(stdout));
            return await toAnswer({ env, cniVersion }, { status: 400, body });
          }
          if (stdout === "") return { stdout, exitCode };
          const result = decodeResult(JSON.parse(stdout));
          const document = encodeResult(result, RESULT_VERSION);
          return { stdout: await formatAdded(document, cniVersion), exitCode };
        } catch (error) {
          return formatFailure(error, cniVersion);
        }
      },
    };
  } catch {
    return INVALID;
  }
}
