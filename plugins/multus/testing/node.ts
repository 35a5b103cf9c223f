/**
 * The directories of a node for `multus install`, and the command.
 *
 * ```ts ignore
 * await using node = MultusNode.create();
 * node.writeMaster("10-pods.conflist", { plugins: [{ type: "ptp" }] });
 * await node.watch();
 * await node.until("the configuration is there", () => node.conf() !== undefined);
 * ```
 *
 * @module
 */

import { ROOT } from "../../../scripts/project.ts";
import { importFlags } from "../../../scripts/import_flags.ts";

const IMPORT_MAP = "--import-map=";
/** Time limit of any wait, in ms. */
const TIMEOUT_MS = 60_000;
const POLL_MS = 10;

/** The outcome of the command. */
export interface InstallEnded {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running `multus install --watch`. */
export class Watch {
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  /** Its log so far. */
  log = "";

  /** Reads the log of a process. */
  constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.#reading = this.#read();
  }

  /** Its process ID. */
  get pid(): number {
    return this.#child.pid;
  }

  async #read(): Promise<void> {
    const text = this.#child.stderr.pipeThrough(new TextDecoderStream());
    for await (const chunk of text) this.log += chunk;
  }

  /** Stops it; returns its exit code and how long that took, in ms. */
  async end(
    signal: Deno.Signal = "SIGTERM",
  ): Promise<{ code: number; tookMs: number }> {
    const startMs = performance.now();
    this.#child.kill(signal);
    const { code } = await this.#child.status;
    const tookMs = performance.now() - startMs;
    await this.#reading;
    return { code, tookMs };
  }

  /** Stops it if it is still running. */
  async dispose(): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has exited.
    }
    await this.#child.status;
    await this.#reading;
  }
}

/** A node. */
export class MultusNode implements AsyncDisposable {
  /** The directory that contains everything else. */
  readonly directory: string = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly binDir: string = `${this.directory}/bin`;
  readonly confDir: string = `${this.directory}/net.d`;
  readonly serviceAccount: string = `${this.directory}/serviceaccount`;
  /** The small executable that is installed. */
  readonly source: string = `${this.directory}/multus`;
  /** The command's environment. */
  readonly env: Record<string, string> = {
    KUBERNETES_SERVICE_HOST: "10.96.0.1",
    KUBERNETES_SERVICE_PORT: "443",
  };
  readonly #watches: Watch[] = [];

  /** Creates a node with a service account, and no network. */
  constructor() {
    for (const path of [this.binDir, this.confDir, this.serviceAccount]) {
      Deno.mkdirSync(path);
    }
    Deno.writeTextFileSync(this.source, "#!/bin/sh\necho one\n", {
      mode: 0o755,
    });
    this.mountServiceAccount({ token: "token-1", ca: "CA 1\n" });
  }

  /**
   * Puts files into the directory of the service account like the kubelet: into a
   * separate directory, which replaces the previous directory when a link to it is
   * renamed.
   */
  mountServiceAccount({ token, ca }: { token: string; ca: string }): void {
    const directory = this.serviceAccount;
    const data = Deno.makeTempDirSync({ dir: directory, prefix: "..2026_" });
    Deno.writeTextFileSync(`${data}/token`, token);
    Deno.writeTextFileSync(`${data}/ca.crt`, ca);
    const old = [...Deno.readDirSync(directory)].map(({ name }) => name)
      .filter((name) => name.startsWith("..2026_"));
    Deno.symlinkSync(
      data.slice(directory.length + 1),
      `${directory}/..data_tmp`,
    );
    Deno.renameSync(`${directory}/..data_tmp`, `${directory}/..data`);
    for (const name of ["token", "ca.crt"]) {
      if (!exists(`${directory}/${name}`)) {
        Deno.symlinkSync(`..data/${name}`, `${directory}/${name}`);
      }
    }
    for (const name of old) {
      if (`${directory}/${name}` === data) continue;
      Deno.removeSync(`${directory}/${name}`, { recursive: true });
    }
  }

  /**
   * Writes a network's configuration, by default with cniVersion 1.0.0 and name
   * "pods".
   */
  writeMaster(file: string, conf: object): string {
    return this.writeConf(
      file,
      JSON.stringify({ cniVersion: "1.0.0", name: "pods", ...conf }),
    );
  }

  /** Writes a file into the directory of configurations, by rename. */
  writeConf(file: string, content: string): string {
    const path = `${this.confDir}/${file}`;
    Deno.writeTextFileSync(`${this.directory}/unfinished`, content);
    Deno.renameSync(`${this.directory}/unfinished`, path);
    return path;
  }

  /** Reads a file of the node; undefined if it does not exist. */
  read(path: string): string | undefined {
    try {
      return Deno.readTextFileSync(`${this.directory}/${path}`);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    }
  }

  /** Returns the master network's configuration in ours, or undefined. */
  delegate(): Record<string, unknown> | undefined {
    const conf = this.conf();
    if (conf === undefined) return undefined;
    const { delegates, plugins } = JSON.parse(conf);
    return (delegates ?? plugins[0].delegates)[0];
  }

  /**
   * Reads our configuration, under either name. The first name is read again at the
   * end, because the configuration can be renamed from the second to the first in
   * between.
   */
  conf(): string | undefined {
    const [list, single] = ["00-multus.conflist", "00-multus.conf"]
      .map((name) => `net.d/${name}`) as [string, string];
    return this.read(list) ?? this.read(single) ?? this.read(list);
  }

  /** Lists the names in the directory of configurations. */
  confNames(): string[] {
    return [...Deno.readDirSync(this.confDir)].map(({ name }) => name).sort();
  }

  /** Runs the command until it exits, with the node's directories. */
  async install(...flags: string[]): Promise<InstallEnded> {
    return await this.multus("install", ...this.#directories(), ...flags);
  }

  /** Runs `multus` with arguments. */
  async multus(...args: string[]): Promise<InstallEnded> {
    const output = await (await this.#command(args)).output();
    const [stdout = "", stderr = ""] = [output.stdout, output.stderr]
      .map((bytes) => new TextDecoder().decode(bytes));
    return { code: output.code, stdout, stderr };
  }

  /** Starts the command with `--watch`. */
  async watch(...flags: string[]): Promise<Watch> {
    const args = ["install", ...this.#directories(), "--watch", ...flags];
    const watch = new Watch((await this.#command(args)).spawn());
    this.#watches.push(watch);
    return watch;
  }

  #directories(): string[] {
    return [
      `--cni-bin-dir=${this.binDir}`,
      `--cni-conf-dir=${this.confDir}`,
      `--multus-autoconfig-dir=${this.confDir}`,
      `--service-account-dir=${this.serviceAccount}`,
      `--multus-bin-file=${this.source}`,
    ];
  }

  async #command(args: readonly string[]): Promise<Deno.Command> {
    const [program = "", ...own] = await findMultus();
    return new Deno.Command(program, {
      args: [...own, ...args],
      clearEnv: true,
      env: {
        HOME: Deno.env.get("HOME") ?? "/",
        CNI_LOG_FILE: "stderr",
        ...this.env,
      },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    });
  }

  /** Waits until a condition holds. */
  async until(what: string, isSo: () => boolean): Promise<void> {
    const endMs = performance.now() + TIMEOUT_MS;
    while (!isSo()) {
      if (performance.now() > endMs) {
        const logs = this.#watches.map(({ log }) => log).join("---\n");
        throw new Error(`Timed out waiting until ${what}:\n${logs}`);
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /** Stops running commands, and removes everything. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const watch of this.#watches) await watch.dispose();
    Deno.removeSync(this.directory, { recursive: true });
  }
}

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the command that runs `multus` from its sources, or the compiled executable
 * if `CNI_BIN` is set.
 */
async function findMultus(): Promise<string[]> {
  const compiled = `${Deno.env.get("CNI_BIN") ?? ""}/multus`;
  if (exists(compiled)) return [compiled];
  const flags = (await importFlags())
    .map((flag) => flag.replace(IMPORT_MAP, IMPORT_MAP + ROOT));
  const run = [Deno.execPath(), "run", "-A", "--no-check"];
  return [...run, ...flags, `${ROOT}cli/multus/commands.ts`];
}
