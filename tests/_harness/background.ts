/**
 * Programs that run beside a test.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { eventually } from "./eventually.ts";

/** A program in the background, such as a server, whose stderr is read. */
export class Background {
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  /** Its stderr so far. */
  log = "";

  /** Starts a program in a namespace. */
  constructor(netns: NetNs, program: string, args: readonly string[]) {
    this.#child = inNetns(netns, () =>
      new Deno.Command(program, {
        args: [...args],
        stdin: "null",
        stdout: "null",
        stderr: "piped",
      }).spawn());
    this.#reading = this.#read();
  }

  async #read(): Promise<void> {
    const text = this.#child.stderr.pipeThrough(new TextDecoderStream());
    for await (const chunk of text) this.log += chunk;
  }

  /** Its process ID. */
  get pid(): number {
    return this.#child.pid;
  }

  /** Waits until its log has a text. */
  async says(text: string): Promise<void> {
    await eventually(`it says "${text}"`, () => this.log.includes(text));
  }

  /** Ends it, and waits until it is gone. */
  async stop(signal: Deno.Signal = "SIGKILL"): Promise<void> {
    try {
      this.#child.kill(signal);
    } catch {
      // It has ended.
    }
    await this.#child.status;
    await this.#reading;
  }
}
