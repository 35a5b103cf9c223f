/**
 * A real containerd with runc on a temporary host, and a client of its CRI.
 *
 * Needs nothing from a registry: the image of the sandbox is one program of 129
 * bytes, which waits.
 *
 * @module
 */

import {
  allOf,
  hasCommand,
  ignoreUnless,
  type Needs,
} from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import { CriClient } from "./cri_client.ts";
import { eventually } from "./eventually.ts";
import { BIN, needsBin } from "./executables.ts";
import { writeImage } from "./image.ts";
import { type Spawned, spawnIn } from "./spawn_in.ts";

/** Skips tests where containerd cannot run. */
export const needsContainerd: Needs = allOf(
  needsBin,
  ignoreUnless(
    ["containerd", "ctr", "runc", "nsenter", "unshare"].every(hasCommand),
    "needs containerd, ctr and runc",
  ),
  ignoreUnless(Deno.build.arch === "x86_64", "the image is for x86-64"),
);

/** A program that waits until it is killed, as an ELF file for x86-64. */
const PAUSE = [
  "7f454c46020101000000000000000000",
  "02003e00010000007800400000000000",
  "40000000000000000000000000000000",
  "00000000400038000100000000000000",
  "0100000005000000",
  "0000000000000000", // offset
  "00004000000000000000400000000000", // addresses
  "81000000000000008100000000000000", // sizes
  "0010000000000000",
  "b8220000000f05ebf7", // mov eax, 34 (pause); syscall; jmp to the begin
].join("");
const IMAGE = "localhost/pause:1";

/** How a containerd differs from the usual one. */
export interface ContainerdOptions {
  /** Directory of the plugins; that of our executables by default. */
  readonly bin?: string;
  /** Whether the node daemon of that directory runs beside it. */
  readonly hasDaemon?: boolean;
}

/** A running containerd. Its plugins are our executables. */
export class Containerd extends CriClient implements AsyncDisposable {
  readonly #hosts: TestHosts;
  readonly #directory: string;
  readonly #spawned: Spawned;

  private constructor(hosts: TestHosts, directory: string, spawned: Spawned) {
    super(`${directory}/sock`);
    [this.#hosts, this.#directory, this.#spawned] = [hosts, directory, spawned];
  }

  /**
   * Starts it with one network. It starts again when it is killed.
   *
   * @param plugins Of the network `pods`
   */
  static async start(
    hosts: TestHosts,
    plugins: readonly object[],
    { bin = BIN, hasDaemon = false }: ContainerdOptions = {},
  ): Promise<Containerd> {
    const directory = `${hosts.directory}/containerd`;
    Deno.mkdirSync(`${directory}/net.d`, { recursive: true });
    writeConfig(directory, bin);
    const image = await writePauseImage(`${directory}/image`, IMAGE);
    // Sandboxes and the cache of attachments are not for others to see.
    const script = `
      mount -t tmpfs none /run
      mount -t tmpfs none /var/lib/cni || mount -t tmpfs none /var/lib
      ${hasDaemon ? `${bin}/cni daemon 2>> ${directory}/daemon &` : ""}
      while :; do
        containerd --config ${directory}/config.toml 2>> ${directory}/log
      done`;
    const spawned = spawnIn(hosts.host, {
      path: "unshare",
      args: [
        ...["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"],
        ...["--propagation=private", "sh", "-c", script],
      ],
      env: { PATH: Deno.env.get("PATH") ?? "" },
      stdin: "",
    });
    const containerd = new Containerd(hosts, directory, spawned);
    containerd.configure(plugins);
    try {
      await eventually("containerd runs", () => containerd.runs());
      containerd.#ctr("images", "import", image);
    } catch (error) {
      await containerd[Symbol.asyncDispose]();
      throw error;
    }
    await containerd.untilReady();
    return containerd;
  }

  /** Writes the network's configuration; containerd notices it. */
  configure(plugins: readonly object[]): void {
    const list = { cniVersion: "1.0.0", name: "pods", plugins };
    const path = `${this.#directory}/net.d/10-pods.conflist`;
    Deno.writeTextFileSync(`${path}.new`, JSON.stringify(list));
    Deno.renameSync(`${path}.new`, path);
  }

  /** Kills containerd, as a crash would, and waits until it runs again. */
  async crash(): Promise<void> {
    Deno.kill(this.#findPid(), "SIGKILL");
    await eventually("containerd runs again", () => this.runs());
    await this.untilReady();
  }

  /** Runs `cni` among containerd's processes and mounts. */
  cni(...args: string[]): string {
    const enter = ["-t", String(this.#findPid()), "-m", "-p", "-n"];
    const directories = [
      "--conf-dir",
      `${this.#directory}/net.d`,
      "--cni-path",
      BIN,
    ];
    const { host } = this.#hosts;
    return runIn(
      host,
      "nsenter",
      ...enter,
      `${BIN}/cni`,
      ...args,
      ...directories,
    );
  }

  #findPid(): number {
    const config = `${this.#directory}/config.toml`;
    const names = [...Deno.readDirSync("/proc")].map(({ name }) => name);
    const pid = names.filter((name) => /^\d+$/.test(name)).find((name) => {
      const [program = "", ...args] = readCommandLine(name);
      return /containerd$/.test(program) && args.includes(config);
    });
    if (pid === undefined) throw new Error("containerd does not run");
    return Number(pid);
  }

  /** Removes the pods, and with them their control groups; then ends containerd. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.removeAll();
    this[Symbol.dispose]();
    this.#spawned.kill();
    await this.#spawned.output;
  }

  #ctr(...args: string[]): void {
    const socket = ["--address", `${this.#directory}/sock`];
    runIn(this.#hosts.host, "ctr", ...socket, "-n", "k8s.io", ...args);
  }
}

function readCommandLine(pid: string): string[] {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/cmdline`).split("\0");
  } catch {
    return []; // it has ended
  }
}

/** containerd 2 converts this version to its own. */
function writeConfig(directory: string, bin: string): void {
  const cri = 'plugins."io.containerd.grpc.v1.cri"';
  Deno.writeTextFileSync(
    `${directory}/config.toml`,
    `version = 2
root = "${directory}/root"
state = "${directory}/state"
[grpc]
address = "${directory}/sock"
[${cri}]
sandbox_image = "${IMAGE}"
restrict_oom_score_adj = true
disable_apparmor = true
disable_cgroup = true
disable_tcp_service = true
[${cri}.containerd]
snapshotter = "native"
[${cri}.cni]
bin_dir = "${bin}"
conf_dir = "${directory}/net.d"
`,
  );
}

/** Writes the image of the sandbox into a directory; returns its path. */
export async function writePauseImage(
  directory: string,
  name: string,
): Promise<string> {
  const program = `${directory}/pause`;
  await Deno.mkdir(directory, { recursive: true });
  await Deno.writeFile(program, Uint8Array.fromHex(PAUSE), { mode: 0o755 });
  const files = { "/pause": program };
  return await writeImage(directory, { name, files, entrypoint: ["/pause"] });
}
