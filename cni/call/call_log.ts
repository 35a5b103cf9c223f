/**
 * The log of one plugin call: which lines go to stderr, and which to the node's
 * log.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import {
  createLog,
  isDebugLog,
  isJsonLog,
  type Log,
  LOG_LEVELS,
  type LogFields,
  type LogRecord,
} from "../../base/log/log.ts";
import type { CallEnvironment, CallOutput } from "./context.ts";

/** Where a call logs, and its CNI_LOG_* variables. */
type LogInput = CallOutput & Pick<CallEnvironment, "env">;

/**
 * The log of one plugin call. Errors go to stderr immediately. Other lines go
 * to the node's log while the call waits, and to stderr if the node's log cannot be
 * written. `CNI_LOG_LEVEL` also selects the lines on stderr.
 */
export class CallLog {
  readonly #input: LogInput;
  #records: LogRecord[] = [];
  /** Lines that are not on stderr. */
  #held = "";
  #keeping = Promise.resolve();
  /** Whether stderr has all lines, because the node's log cannot be written. */
  #isLost = false;

  constructor(input: LogInput) {
    this.#input = input;
  }

  /** Creates a log whose lines have these fields. */
  create(fields: LogFields): Log {
    const { env, onStderr } = this.#input;
    return createLog(fields, (line, record) => {
      if (this.#isShown(record)) onStderr(line);
      else this.#held += line;
      this.#add(record);
    }, env);
  }

  /** Logs where an error was thrown, if details are to be logged. */
  logStack(error: unknown, fields: LogFields): void {
    const { env, onStderr } = this.#input;
    if (!isDebugLog(env)) return;
    const stack = Deno.inspect(error);
    createLog(fields, (line, record) => {
      // A quoted stack would be one long line.
      onStderr(isJsonLog(env) ? line : `${stack}\n`);
      this.#add(record);
    }, env).debug("The call failed", { stack });
  }

  /** Waits until the lines are in the node's log. Never throws. */
  async keep(): Promise<void> {
    await this.#keeping;
  }

  /** Keeps a line, without delay: a call that waits for a lock may be killed. */
  #add(record: LogRecord): void {
    if (this.#isLost) return;
    this.#records.push(record);
    this.#keeping = this.#keeping.then(() => this.#keepRecords());
  }

  async #keepRecords(): Promise<void> {
    const [records, held] = [this.#records, this.#held];
    if (records.length === 0) return;
    [this.#records, this.#held] = [[], ""];
    const { env, onStderr, keepsLog } = this.#input;
    try {
      const { keepLog } = await import("../../base/log/log_file.ts");
      if (await keepLog(records, env, { usesDefault: keepsLog })) return;
    } catch (error) {
      const fields = { error: describeError(error) };
      createLog({}, onStderr).warn("Cannot log", fields);
    }
    this.#isLost = true;
    const all = held + this.#held;
    [this.#records, this.#held] = [[], ""];
    if (all !== "") onStderr(all);
  }

  #isShown({ level }: LogRecord): boolean {
    const { env, keepsLog } = this.#input;
    return level === "error" || !keepsLog || this.#isLost ||
      isLevel(env["CNI_LOG_LEVEL"]);
  }
}

function isLevel(text = ""): boolean {
  return LOG_LEVELS.some((level) => level === text.toLowerCase());
}
