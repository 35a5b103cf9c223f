/**
 * Runs this project's host-local and the Go plugin on temporary data directories.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path/posix";
import { lutimesSync } from "node:fs";
import type { Environment } from "../../base/process/environment.ts";
import { removeQuietly } from "../../base/files/io.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { dispatch } from "../../cni/skel.ts";
import { importFlags } from "../../scripts/import_flags.ts";
import { contextWith } from "../../tests/_harness/call_context.ts";
import { hostLocal } from "./plugin.ts";

/** How a call ended. */
export interface Output {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  /** The decoded output; undefined if empty. */
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  readonly json: any;
}

/** Runs host-local once. */
export type Run = (
  command: string,
  config: JsonObject,
  env?: Environment,
) => Promise<Output>;

function environment(command: string, env: Environment): Environment {
  return {
    CNI_COMMAND: command,
    CNI_CONTAINERID: "dummy",
    CNI_NETNS: "/some/netns",
    CNI_IFNAME: "eth0",
    CNI_PATH: "/some/bin",
    // Not the log that the node's /etc/cni/log.json names.
    CNI_LOG_FILE: "stderr",
    ...env,
  };
}

/** Runs the plugin in this process: it needs no namespace, and no other plugin. */
export async function runInProcess(
  command: string,
  config: JsonObject,
  env: Environment = {},
): Promise<Output> {
  const output = await dispatch(hostLocal, {
    ...contextWith({ env: environment(command, env) }),
    stdin: () => encode(config),
  });
  return { ...output, json: decode(output.stdout) };
}

/** Starts a plugin as a process, and passes its configuration. */
export async function spawn(
  [program = "", ...args]: readonly string[],
  command: string,
  config: JsonObject,
  env: Environment = {},
): Promise<Deno.ChildProcess> {
  const child = new Deno.Command(program, {
    args,
    env: environment(command, env),
    cwd: new URL("../..", import.meta.url),
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(encode(config));
  await writer.close();
  return child;
}

/** Returns how to run a program as a process. */
export function runAs(program: readonly string[]): Run {
  return async (command, config, env) => {
    const child = await spawn(program, command, config, env);
    const { code, ...output } = await child.output();
    const [stdout = "", stderr = ""] = [output.stdout, output.stderr]
      .map((bytes) => new TextDecoder().decode(bytes));
    return { exitCode: code, stdout, stderr, json: decode(stdout) };
  };
}

/** Returns the command line of this project's plugin: the executable, if it was built. */
export async function ownProgram(): Promise<string[]> {
  const directory = Deno.env.get("CNI_BIN");
  return directory ? [join(directory, "host-local")] : [
    Deno.execPath(),
    "eval",
    ...await importFlags(),
    'import { runMain } from "./cni/skel.ts";' +
    'import { hostLocal } from "./ipam/host_local/plugin.ts";' +
    "runMain(hostLocal);",
  ];
}

function encode(config: JsonObject): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(JSON.stringify(config));
}

function decode(stdout: string): Output["json"] {
  return stdout === "" ? undefined : JSON.parse(stdout);
}

/** A data directory, and configurations that use it. */
export class DataDirectory implements Disposable {
  /** Where it is. */
  readonly path: string = Deno.makeTempDirSync({ prefix: "host-local-" });

  /** Builds a configuration of the network `mynet`. */
  config(ipam: JsonObject, others: JsonObject = {}): JsonObject {
    return {
      cniVersion: "1.1.0",
      name: "mynet",
      type: "ptp",
      ipam: { type: "host-local", dataDir: this.path, ...ipam },
      ...others,
    };
  }

  /** Returns the directory of a network. */
  directoryOf(network = "mynet"): string {
    return join(this.path, network);
  }

  /**
   * Writes a file beside the networks' directories.
   *
   * @returns Its path
   */
  write(name: string, content: string): string {
    const path = join(this.path, name);
    Deno.writeTextFileSync(path, content);
    return path;
  }

  /** Removes a file next to the networks' directories, if it exists. */
  remove(name: string): void {
    removeQuietly(join(this.path, name));
  }

  /** Creates leases or other files in a network's directory. */
  plant(files: Readonly<Record<string, string>>, network = "mynet"): void {
    Deno.mkdirSync(this.directoryOf(network), { recursive: true });
    for (const [name, content] of Object.entries(files)) {
      this.write(`${network}/${name}`, content);
    }
  }

  /** Puts a directory that is not empty where a file would be written. */
  obstruct(name: string): void {
    const path = join(this.directoryOf(), name, "in-the-way");
    Deno.mkdirSync(path, { recursive: true });
  }

  /** Makes an address persistent since so many seconds ago. */
  age(address: string, seconds: number): void {
    const path = join(this.directoryOf(), address);
    const then = Date.now() / 1000 - seconds;
    // Deno has none that leaves links alone.
    lutimesSync(path, then, then);
  }

  /** Reads a network's files, and the targets of its links. */
  read(network = "mynet"): Record<string, string> {
    const directory = this.directoryOf(network);
    const entries = [...Deno.readDirSync(directory)].filter(
      ({ isFile, isSymlink }) => isFile || isSymlink,
    );
    return Object.fromEntries(entries.map(({ name, isFile }) => {
      const path = join(directory, name);
      return [
        name,
        isFile ? Deno.readTextFileSync(path) : `-> ${Deno.readLinkSync(path)}`,
      ];
    }));
  }

  /** Reads a network's leases, without its other files. */
  leases(network = "mynet"): Record<string, string> {
    const isLease = ([name]: [string, string]): boolean =>
      /^[\da-f]*[.:]/.test(name);
    return Object.fromEntries(
      Object.entries(this.read(network)).filter(isLease),
    );
  }

  /** Lists the networks' directories, and other files next to them. */
  list(): string[] {
    return [...Deno.readDirSync(this.path)].map(({ name }) => name);
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

/** Asserts that a call succeeded and had nothing to say on stderr. */
export function assertSuccess({ exitCode, stdout, stderr }: Output): void {
  assertEquals({ exitCode, stderr }, { exitCode: 0, stderr: "" }, stdout);
}

/** Asserts that a call failed with this code and message. */
export function assertFailure(
  { json, exitCode }: Output,
  code: number,
  msg: string,
): void {
  assertEquals([json?.code, json?.msg, exitCode], [code, msg, 1]);
}

/** Returns the addresses of a result of 0.3.0 or later. */
export function addressesOf(output: Output): string[] {
  assertSuccess(output);
  return output.json.ips.map(({ address }: JsonObject) => address);
}

/**
 * A file system in memory, mounted in a mount namespace of its own and reached
 * through the process in that namespace. It ends with that process.
 */
export class Disk implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  /** The file system's root, as seen from here. */
  readonly dataDir: string;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.dataDir = `/proc/${child.pid}/root/mnt`;
  }

  /**
   * Mounts a file system.
   *
   * @param size What it holds, as `16k`; a multiple of pages
   * @param prepare Shell commands, run in the file system's root
   */
  static async mount(size: string, prepare: string): Promise<Disk> {
    const script = `mount -t tmpfs -o size=${size} tmpfs /mnt && cd /mnt && ` +
      `${prepare} && echo ready && read _`;
    const child = new Deno.Command("unshare", {
      args: ["--mount", "sh", "-c", script],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const disk = new Disk(child);
    const { done } = await child.stdout.getReader().read();
    assert(!done, "the file system was not mounted");
    return disk;
  }

  /** Returns the command line that runs a program where /mnt is the file system. */
  enter(program: readonly string[]): string[] {
    const target = `--target=${this.#child.pid}`;
    return ["nsenter", target, "--mount", "--root", "--wd", "--", ...program];
  }

  /** Stops the process, and with it the file system. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child.stdin.close();
    await this.#child.status;
  }
}
