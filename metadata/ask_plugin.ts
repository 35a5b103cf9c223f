/**
 * Queries an executable for its description for tools.
 *
 * @module
 */

import { JoinedSignal } from "../base/deadline.ts";
import { isObject, type JsonObject, parseJson } from "../base/json/json.ts";
import type { CallContext } from "../cni/call/context.ts";
import type {
  DescribeAnswer,
  LintAnswer,
  OrphanAnswer,
  Question,
} from "./tool_question.ts";
import { QUESTION_KEY, QUESTION_VARIABLE } from "../cni/call/variables.ts";
import { CURRENT_VERSION } from "../cni/version.ts";
import { execPlugin } from "../cni/invoke/exec.ts";
import { runtimeEnv } from "../cni/invoke/runtime_env.ts";

/** The answers, by what is asked. */
interface Answers {
  describe: DescribeAnswer;
  lint: LintAnswer;
  leftovers: OrphanAnswer;
}

/** How long a plugin may take for an answer, in ms. */
const ANSWER_MS = 10_000;

/**
 * Asks the executable at a path.
 *
 * @returns Undefined if it does not answer questions, not in time, or fails
 */
export async function askPlugin<Q extends Question>(
  path: string,
  question: Q,
  { env, signal }: Pick<CallContext, "env" | "signal">,
  limitMs: number = ANSWER_MS,
): Promise<Answers[Q["ask"]] | undefined> {
  const call = { command: "VERSION", netns: "none", path: "/" } as const;
  const document = { cniVersion: CURRENT_VERSION, [QUESTION_KEY]: question };
  using limit = new JoinedSignal(limitMs, signal);
  try {
    const stdout = await execPlugin(path, {
      env: {
        ...runtimeEnv({ ...call, ifName: "eth0" }, env),
        [QUESTION_VARIABLE]: question.ask,
      },
      stdin: new TextEncoder().encode(JSON.stringify(document)),
      onStderr(): void {},
      signal: limit.signal,
    });
    const answer = parseJson(stdout, "answer") as JsonObject;
    const reply = isObject(answer) ? answer[QUESTION_KEY] : undefined;
    return isObject(reply) ? reply as unknown as Answers[Q["ask"]] : undefined;
  } catch (error) {
    if (signal?.aborted) throw error;
    return undefined;
  }
}
