/**
 * A daemon that takes a call and then stands still, as the node daemon does while
 * another program holds a lock of the kernel, or when it is starved.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { ifPossible } from "../../base/files/io.ts";
import { moduleCommand } from "./as_module.ts";

/** How it stands still: `D` waits in the kernel, `S` for an event. */
export type StandStill = "D" | "S";

/**
 * posix_spawn(3) returns when the child runs its program. Before that, the child
 * opens its stdin, a pipe with no writer.
 */
const SCRIPT = `
const root = Deno.env.get("ROOT");
const { encodeMessage } = await import(root + "daemon/wire/request.ts");
const { PreparedProgram } = await import(
  root + "scripts/measure/bench/process.ts"
);
const [socket, fifo, how] = JSON.parse(Deno.env.get("PLACE"));
const listener = Deno.listen({ transport: "unix", path: socket });
console.log("listening");
const connection = await listener.accept();
await connection.read(new Uint8Array(65536));
await connection.write(encodeMessage("taken"));
console.log("taken");
if (how === "D") {
  const [path, files] = ["/bin/true", { stdout: "/dev/null", stderr: "/dev/null" }];
  new PreparedProgram({ path, args: [], env: {}, stdin: fifo, ...files }).start();
} else await Deno.readTextFile(fifo);
await connection.write(encodeMessage({ stdout: "{}", exitCode: 0 }))
  .catch(() => {});
`;

/** The daemon, until disposal. */
export class BlockedDaemon implements AsyncDisposable {
  readonly #directory: string;
  readonly #child: Deno.ChildProcess;
  readonly #output: ReadableStreamDefaultReader<string>;
  /** Its socket. */
  readonly path: string;

  private constructor(directory: string, child: Deno.ChildProcess) {
    this.#directory = directory;
    this.#child = child;
    this.path = `${directory}/s.sock`;
    this.#output = child.stdout.pipeThrough(new TextDecoderStream())
      .getReader();
  }

  /** Starts it. */
  static async start(how: StandStill): Promise<BlockedDaemon> {
    const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
    const fifo = `${directory}/fifo`;
    const { success } = new Deno.Command("mkfifo", { args: [fifo] })
      .outputSync();
    assertEquals(success, true);
    const place = JSON.stringify([`${directory}/s.sock`, fifo, how]);
    const command = await moduleCommand(SCRIPT, {
      env: { PLACE: place, ROOT: new URL("../../", import.meta.url).href },
      stdout: "piped",
    });
    const daemon = new BlockedDaemon(directory, command.spawn());
    await daemon.#hear("listening\n");
    return daemon;
  }

  async #hear(expected: string): Promise<void> {
    assertEquals((await this.#output.read()).value, expected);
  }

  /** Waits until it has taken the call. */
  async taken(): Promise<void> {
    await this.#hear("taken\n");
  }

  /** Lets it go on, and answer. */
  async release(): Promise<void> {
    await Deno.writeTextFile(`${this.#directory}/fifo`, "");
  }

  /** Stops it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#output.cancel();
    // It ends by itself after its answer.
    ifPossible(() => this.#child.kill("SIGKILL"));
    await this.#child.status;
    await Deno.remove(this.#directory, { recursive: true });
  }
}
