/**
 * A system bus of a test's own: a real `dbus-daemon`.
 *
 * @module
 */

import {
  hasCommand,
  ignoreUnless,
  type Needs,
} from "../../testing/capabilities.ts";

/** Skips what needs a bus. */
export const needsBus: Needs = ignoreUnless(
  hasCommand("dbus-daemon"),
  "needs dbus-daemon",
);

/** A bus on which everything is allowed. */
export class PrivateBus implements AsyncDisposable {
  readonly #process: Deno.ChildProcess;
  /** The address of its socket. */
  readonly address: string;
  /** Environment of programs that are to use it as the system bus. */
  readonly env: Record<string, string>;

  private constructor(process: Deno.ChildProcess, address: string) {
    [this.#process, this.address] = [process, address];
    this.env = { DBUS_SYSTEM_BUS_ADDRESS: address };
  }

  /**
   * Starts it, and waits until it listens.
   *
   * @param directory Gets the socket
   */
  static async start(directory: string): Promise<PrivateBus> {
    const address = `unix:path=${directory}/bus`;
    const config = `${directory}/bus.conf`;
    Deno.writeTextFileSync(
      config,
      `<busconfig>
  <type>system</type>
  <listen>${address}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow own="*"/><allow send_destination="*"/><allow eavesdrop="true"/>
  </policy>
</busconfig>`,
    );
    const flags = ["--nofork", "--nopidfile", "--print-address"];
    const args = [`--config-file=${config}`, ...flags];
    const options = { args, stdout: "piped", stderr: "null" } as const;
    const process = new Deno.Command("dbus-daemon", options).spawn();
    await untilItListens(process);
    return new PrivateBus(process, address);
  }

  /** Ends it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill();
    await this.#process.status;
  }
}

/** Waits for the address, which it prints when it listens. */
async function untilItListens({ stdout }: Deno.ChildProcess): Promise<void> {
  const reader = stdout.getReader();
  const { done } = await reader.read();
  await reader.cancel();
  if (done) throw new Error("dbus-daemon ended");
}
