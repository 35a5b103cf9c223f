/**
 * noop, the plugin that records how it was called and answers what it was told,
 * for tests of what calls plugins.
 *
 * ```ts ignore
 * using directory = new PluginDirectory();
 * installNoop(directory.path);
 * const debug = `${directory.path}/debug`;
 * writeDebug(debug, { ReportResult: '{"cniVersion":"1.1.0"}' });
 * // ... run a list whose plugin is { type: "noop", debugFile: debug }
 * assertEquals(readDebug(debug)?.Command, "ADD");
 * ```
 *
 * A plugin that takes too long is one with `SleepSeconds`, or
 * `directory.add("sleep", "exec sleep 60")`.
 *
 * @module
 */

import type {
  RecordedArgs,
  RecordedCall,
  Script,
} from "../../plugins/noop/debug_file.ts";
import { OFFLINE_FLAGS } from "../../scripts/net.ts";

/** The content of a debug file, which controls noop. */
export type Debug = Script;

/** One call of noop, with its stdin as text. */
export interface NoopCall {
  readonly Command: string;
  readonly CmdArgs: RecordedArgs;
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  readonly stdin: any;
}

/**
 * Installs noop: the compiled one if `CNI_BIN` is set, else one that runs our
 * sources with this deno, which takes a second to prepare.
 *
 * @param directory A directory of CNI_PATH
 * @param name The type of the plugin that it replaces
 * @returns The executable's path
 */
export function installNoop(directory: string, name = "noop"): string {
  const path = `${directory}/${name}`;
  const bin = Deno.env.get("CNI_BIN");
  if (bin && name === "noop") Deno.symlinkSync(`${bin}/cni`, path);
  else {
    // Under another name the compiled one would be another plugin.
    const program = bin ? [linkNoop(bin)] : interpretedNoop();
    const command = program.map((word) => `'${word}'`).join(" ");
    Deno.writeTextFileSync(path, `#!/bin/sh\nexec ${command}\n`, {
      mode: 0o755,
    });
  }
  return path;
}

let link: string | undefined;

/** Links to the compiled executable as noop, until the process ends. */
function linkNoop(bin: string): string {
  if (link !== undefined) return link;
  const directory = Deno.makeTempDirSync({ prefix: "cni-noop-" });
  addEventListener("unload", () => {
    Deno.removeSync(directory, { recursive: true });
  });
  Deno.symlinkSync(`${bin}/cni`, `${directory}/noop`);
  return link = `${directory}/noop`;
}

let bundle: string | undefined;

/** Returns the command that runs noop with this deno; it needs no environment. */
function interpretedNoop(): string[] {
  bundle ??= bundleNoop();
  return [Deno.execPath(), "run", "-A", "--no-config", bundle];
}

/** Creates the script of noop once per process, which removes it at its end. */
function bundleNoop(): string {
  const directory = Deno.makeTempDirSync({ prefix: "cni-noop-" });
  addEventListener("unload", () => {
    Deno.removeSync(directory, { recursive: true });
  });
  const path = `${directory}/noop.js`;
  const { success, stderr } = new Deno.Command(Deno.execPath(), {
    // The stand-ins are everywhere and do; no server is asked.
    args: ["bundle", "--quiet", ...OFFLINE_FLAGS, `--output=${path}`]
      .concat("plugins/noop/main.ts"),
    cwd: decodeURIComponent(new URL("../..", import.meta.url).pathname),
    stdout: "null",
  }).outputSync();
  if (success) return path;
  throw new Error(`Cannot bundle noop: ${new TextDecoder().decode(stderr)}`);
}

/** Writes the debug file that controls noop. */
export function writeDebug(path: string, debug: Debug = {}): void {
  Deno.writeTextFileSync(path, JSON.stringify(debug));
}

/** Reads the last call from a debug file; undefined if noop was not called. */
export function readDebug(path: string): NoopCall | undefined {
  const { Command, CmdArgs } = JSON.parse(Deno.readTextFileSync(path));
  return Command ? readCall({ Command, CmdArgs }) : undefined;
}

/** Creates an empty command log. */
export function writeCommandLog(path: string): void {
  Deno.writeTextFileSync(path, "");
}

/** Reads all calls from a command log, in order. */
export function readCommandLog(path: string): NoopCall[] {
  const text = Deno.readTextFileSync(path);
  const calls: RecordedCall[] = text === "" ? [] : JSON.parse(text);
  return calls.map(readCall);
}

function readCall({ Command, CmdArgs }: RecordedCall): NoopCall {
  const stdin = Uint8Array.fromBase64(CmdArgs.StdinData);
  return {
    Command,
    CmdArgs,
    stdin: JSON.parse(new TextDecoder().decode(stdin)),
  };
}
