/**
 * A temporary node for the `cni` tool: a network namespace and a mount
 * namespace of its own, in which the names of namespaces (/run/netns), the
 * attachment cache (/var/lib/cni) and the configurations (/etc/cni) are
 * private.
 *
 * ```ts ignore
 * await using host = await ToolHost.create();
 * host.addNetwork("pods", [{ type: "ptp", ipam: host.hostLocal("10.1.2.0/24") }]);
 * const { code, stdout } = await host.cni("netns", "add", "blue");
 * ```
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { ROOT } from "../../scripts/project.ts";
import { importFlags } from "../../scripts/import_flags.ts";
import { PluginDirectory } from "./plugin_directory.ts";

const BIN = Deno.env.get("CNI_BIN") ?? "";
const IMPORT_MAP = "--import-map=";

/** Lives as long as its stdin: what it made ends with it. */
const HOLDER =
  "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/lib && " +
  "{ [ ! -d /etc/cni ] || mount -t tmpfs tmpfs /etc/cni; } && " +
  "echo ready && cat";

/** How a program ended. */
export interface ToolEnded {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A node, its configurations and its plugins. */
export class ToolHost implements AsyncDisposable {
  readonly #holder: Deno.ChildProcess;
  readonly #plugins = new PluginDirectory();
  readonly #command: readonly string[];
  /** The directory with configurations. */
  readonly confDir: string = Deno.makeTempDirSync({ prefix: "cni-test-" });
  /** Added to the environment of every run; overrides the defaults. */
  readonly env: Record<string, string> = {};

  private constructor(
    holder: Deno.ChildProcess,
    command: readonly string[],
  ) {
    this.#holder = holder;
    this.#command = command;
    if (BIN !== "") return;
    for (const type of ["host-local", "ptp"]) {
      this.#plugins.addOwnExecutable(type);
    }
  }

  /** Creates a node. `CNI_BIN` selects a compiled tool. */
  static async create(): Promise<ToolHost> {
    const holder = new Deno.Command("unshare", {
      args: ["-n", "-m", "--propagation", "private", "sh", "-c", HOLDER],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const reader = holder.stdout.getReader();
    await reader.read();
    await reader.cancel();
    const command = BIN === "" ? await sourceCommand() : [`${BIN}/cni`];
    return new ToolHost(holder, command);
  }

  /** CNI_PATH: our plugins, and those that were added. */
  get path(): string {
    return BIN === "" ? this.#plugins.path : `${BIN}:${this.#plugins.path}`;
  }

  /** Adds a plugin that is a shell script. */
  addPlugin(type: string, script: string): string {
    return this.#plugins.add(type, script);
  }

  /** Adds the configuration of a network; version 1.1.0 unless it says another. */
  addNetwork(name: string, plugins: object[], more: object = {}): string {
    const path = `${this.confDir}/${name}.conflist`;
    const list = { cniVersion: "1.1.0", name, plugins, ...more };
    Deno.writeTextFileSync(path, JSON.stringify(list));
    return path;
  }

  /** Returns an IPAM configuration with leases that end with the node. */
  hostLocal(...subnets: string[]): object {
    const ranges = subnets.map((subnet) => [{ subnet }]);
    return { type: "host-local", dataDir: "/run/leases", ranges };
  }

  /** The command that runs a program on the node, in front of its command line. */
  get enter(): readonly string[] {
    const target = ["-t", `${this.#holder.pid}`, "-n", "-m", "-r"];
    return ["nsenter", ...target, "--", "env", "-C", "/"];
  }

  /** Returns a command line of `cni`. */
  command(...args: string[]): string[] {
    return [...this.#command, ...args];
  }

  /** Runs `cni` with the words of a line, and with further arguments. */
  async cni(line = "", ...args: string[]): Promise<ToolEnded> {
    return await this.run(this.command(...splitLine(line), ...args));
  }

  /** Runs `cni` with its stdout on a terminal of a width, and returns the lines. */
  async seen(columns: number, line: string): Promise<string[]> {
    const quoted = this.command(...splitLine(line))
      .map((word) => `'${word.replaceAll("'", "'\\''")}'`);
    const script = `stty cols ${columns} rows 24; NO_COLOR=1 ${
      quoted.join(" ")
    } 2>/dev/null`;
    const { stdout } = await this.run(["script", "-qec", script, "/dev/null"]);
    return stdout.trimEnd().split("\r\n");
  }

  /** Runs the tool under the name of `cnitool`. */
  async cnitool(...args: string[]): Promise<ToolEnded> {
    return await this.run([
      ...["bash", "-c", 'exec -a cnitool "$@"', "bash"],
      ...this.command(...args),
    ]);
  }

  /** Runs any program on the node, as its root. */
  async run(command: readonly string[]): Promise<ToolEnded> {
    const output = await this.#enter(command).output();
    const decode = (bytes: Uint8Array): string =>
      new TextDecoder().decode(bytes);
    const [stdout, stderr] = [decode(output.stdout), decode(output.stderr)];
    return { code: output.code, stdout, stderr };
  }

  /** Runs a script on the node, which must succeed; returns what it prints. */
  async sh(script: string): Promise<string> {
    const { code, stdout, stderr } = await this.run(["sh", "-ec", script]);
    assertEquals([code, stderr], [0, ""], script);
    return stdout;
  }

  /** Runs `cni`, which must succeed; returns what it prints. */
  async succeed(line: string): Promise<string> {
    const { code, stdout, stderr } = await this.cni(line);
    assertEquals(code, 0, `${line}: ${stdout}${stderr}`);
    return stdout;
  }

  /** Starts `cni`; its pid is its own. */
  start(line: string, ...args: string[]): Deno.ChildProcess {
    return this.#enter(this.command(...splitLine(line), ...args)).spawn();
  }

  #enter(command: readonly string[]): Deno.Command {
    const [nsenter = "", ...args] = this.enter;
    return new Deno.Command(nsenter, {
      args: [...args, ...command],
      clearEnv: true,
      env: {
        PATH: Deno.env.get("PATH") ?? "",
        HOME: Deno.env.get("HOME") ?? "/",
        NETCONFPATH: this.confDir,
        CNI_PATH: this.path,
        CNI_LOG_FILE: "stderr",
        ...this.env,
      },
      cwd: "/",
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    });
  }

  /** Stops the node. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#holder.stdin.close();
    await this.#holder.status;
    this.#plugins[Symbol.dispose]();
    Deno.removeSync(this.confDir, { recursive: true });
  }
}

/** Returns what runs the tool from its sources, in any directory. */
async function sourceCommand(): Promise<string[]> {
  const flags = (await importFlags())
    .map((flag) => flag.replace(IMPORT_MAP, IMPORT_MAP + ROOT));
  const run = [Deno.execPath(), "run", "-A", "--no-check"];
  return [...run, ...flags, `${ROOT}cli/main.ts`];
}

function splitLine(line: string): string[] {
  return line === "" ? [] : line.split(" ");
}
