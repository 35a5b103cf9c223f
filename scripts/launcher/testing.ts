/**
 * Programs of machine code for tests: a static executable, run by this
 * processor or by an emulator.
 *
 * @module
 */

import { concat } from "../../net/bytes.ts";
import { hasCommand } from "../../testing/capabilities.ts";
import { type Machine, writeU64 } from "../mkdenort/elf.ts";
import { MACHINES } from "./objects.ts";

/** Source: elf(5), `e_machine`. */
const machines: Readonly<Record<Machine, number>> = {
  x86_64: 62,
  aarch64: 183,
};

const ADDRESS = 0x40_0000;
/** The headers have the page before the code. */
const HEADERS_SIZE = 0x1000;

/** Returns an executable of pieces of machine code, which begins with the first. */
export function makeProgram(
  machine: Machine,
  ...pieces: readonly Uint8Array<ArrayBuffer>[]
): Uint8Array<ArrayBuffer> {
  const bytes = concat([new Uint8Array(HEADERS_SIZE), ...pieces]);
  writeHeaders(
    new DataView(bytes.buffer),
    machines[machine],
    ADDRESS + HEADERS_SIZE,
  );
  return bytes;
}

/** Writes the headers of a file that is one segment. */
function writeHeaders(view: DataView, machine: number, entry: number): void {
  const words = (at: number, numbers: number[]): void =>
    numbers.forEach((number, index) => writeU64(view, at + 8 * index, number));
  view.setUint32(0, 0x7f454c46);
  view.setUint32(4, 0x02010100); // 64 bits, lowest byte first, version 1
  view.setUint16(16, 2, true); // ET_EXEC
  view.setUint16(18, machine, true);
  view.setUint32(20, 1, true);
  words(24, [entry, 64, 0]);
  [64, 56, 1].forEach((number, index) =>
    view.setUint16(52 + 2 * index, number, true)
  );
  view.setUint32(64, 1, true); // PT_LOAD
  view.setUint32(68, 5, true); // to be read and run
  const size = view.byteLength;
  words(72, [0, ADDRESS, ADDRESS, size, size, 0x1000]);
}

/** How to run a program. */
export interface RunOptions {
  readonly name?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string | Uint8Array<ArrayBuffer>;
  readonly args?: readonly string[];
  /** Starts it. */
  readonly wrapper?: readonly string[];
}

/** A program on disk. */
export class ProgramFile implements AsyncDisposable {
  readonly #directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly #runner: readonly string[];

  /** Writes it. */
  constructor(machine: Machine, bytes: Uint8Array) {
    Deno.writeFileSync(`${this.#directory}/program`, bytes, { mode: 0o755 });
    this.#runner = findRunner(machine) ?? [];
  }

  /** Gives it one more name. */
  link(name: string): void {
    Deno.symlinkSync("program", `${this.#directory}/${name}`);
  }

  /** Runs it to its end. */
  async run(
    options: RunOptions = {},
  ): Promise<{ code: number; stdout: string; stderr: string }> {
    const { code, stdout, stderr } = await this.output(options);
    const decode = (bytes: Uint8Array): string =>
      new TextDecoder().decode(bytes);
    return { code, stdout: decode(stdout), stderr: decode(stderr) };
  }

  /** Runs it to its end; returns what it printed as bytes. */
  async output(
    { name = "program", env = {}, stdin = "", args = [], wrapper = [] }:
      RunOptions,
  ): Promise<Deno.CommandOutput> {
    const path = `${this.#directory}/${name}`;
    const [command = "", ...rest] = [...wrapper, ...this.#runner, path];
    const child = new Deno.Command(command, {
      args: [...rest, ...args],
      clearEnv: true,
      env,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const input = new Response(stdin).body?.pipeTo(child.stdin)
      .catch(() => {}) ?? child.stdin.close();
    const [output] = await Promise.all([child.output(), input]);
    return output;
  }

  /** Removes it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.#directory, { recursive: true });
  }
}

/** Returns what runs programs for a processor; undefined if this machine has nothing. */
function findRunner(machine: Machine): readonly string[] | undefined {
  if (Deno.build.arch === machine) return [];
  const emulator = `qemu-${machine}`;
  return hasCommand(emulator) ? [emulator] : undefined;
}

/**
 * Registers a test for each processor, skipped for those that cannot run here.
 *
 * @param command Another program that it needs
 */
export function testMachines(
  name: string,
  fn: (t: Deno.TestContext, machine: Machine) => Promise<void>,
  command?: string,
): void {
  for (const machine of MACHINES) {
    const missing = findRunner(machine) === undefined
      ? "qemu-user"
      : command !== undefined && !hasCommand(command)
      ? command
      : undefined;
    const ignore = missing !== undefined;
    const why = ignore ? ` (skipped: needs ${missing})` : "";
    Deno.test({
      name: `${name}: ${machine}${why}`,
      ignore,
      fn: (t) => fn(t, machine),
    });
  }
}
