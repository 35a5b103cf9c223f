/**
 * Which plugins get REPAIR: those that declare it. Any other might take it for DEL.
 *
 * @module
 */

import { isObject, parseJson } from "../../base/json/json.ts";
import type { CallContext } from "../call/context.ts";
import { ASK_COMMANDS, QUESTION_VARIABLE, REPAIR } from "../call/variables.ts";
import { CURRENT_VERSION } from "../version.ts";
import { runtimeEnv } from "./runtime_env.ts";

/**
 * Asks a plugin, with VERSION, whether it has REPAIR. One that fails has not.
 *
 * @param path CNI_PATH
 */
export async function declaresRepair(
  type: string,
  path: string,
  context: CallContext,
): Promise<boolean> {
  const { env, invoker, signal } = context;
  const call = { command: "VERSION", netns: "none", ifName: "eth0", path };
  try {
    const stdout = await invoker.invoke({
      ...context,
      type,
      env: {
        ...runtimeEnv(call, env),
        [QUESTION_VARIABLE]: ASK_COMMANDS,
      },
      stdin: new TextEncoder().encode(`{"cniVersion":"${CURRENT_VERSION}"}`),
      onStderr(): void {},
    });
    const answer = parseJson(stdout, "answer");
    const commands = isObject(answer) ? answer["commands"] : undefined;
    return Array.isArray(commands) && commands.includes(REPAIR);
  } catch {
    signal?.throwIfAborted();
    return false;
  }
}
