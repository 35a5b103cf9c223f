/**
 * `cni daemon` on a temporary host, as a process that can be killed and
 * stopped, and calls of executables that are handed over to it.
 *
 * @module
 */

import { inNetns } from "../../ffi/netns.ts";
import type { CallOptions, TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "./eventually.ts";
import { BIN } from "./executables.ts";
import { type Spawned, spawnIn } from "./spawn_in.ts";

/** How a daemon differs from the usual one. */
export interface NodeDaemonOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Directory of the sockets; one in the host's directory if undefined. */
  readonly socketDir?: string;
  /** Starts it, as `["prlimit", "--nofile=40"]` does. */
  readonly wrapper?: readonly string[];
  /** Whether it removes orphans, which may be of other tests; false by default. */
  readonly heals?: boolean;
}

/** A call of an executable. */
export interface ReceivedCall extends CallOptions {
  /** Configuration; `daemonSocket` is added. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Other directories with plugins, which come first. */
  readonly plugins?: string;
  /** Starts the executable, as `["unshare", "--mount"]` does. */
  readonly wrapper?: readonly string[];
}

/** A daemon. */
export class NodeDaemon implements AsyncDisposable {
  readonly #hosts: TestHosts;
  readonly #child: Deno.ChildProcess;
  readonly #logFile: string;
  /** Directory of the sockets. */
  readonly directory: string;
  readonly #isInHost: boolean;

  private constructor(
    hosts: TestHosts,
    {
      args = [],
      env,
      socketDir = `${hosts.directory}/run`,
      wrapper = [],
      heals = false,
    }: NodeDaemonOptions,
  ) {
    this.#hosts = hosts;
    this.directory = socketDir;
    this.#isInHost = socketDir.startsWith(hosts.directory);
    this.#logFile = Deno.makeTempFileSync({
      dir: hosts.directory,
      prefix: "daemon-",
    });
    const command = new Deno.Command("/bin/sh", {
      args: [
        "-c",
        'exec "$@" 2>"$0"',
        this.#logFile,
        ...wrapper,
        `${BIN}/cni`,
        "daemon",
        `--socket-dir=${socketDir}`,
        "--no-warm-up",
        ...heals ? [] : ["--no-heal"],
        ...args,
      ],
      clearEnv: true,
      env: {
        PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
        CNI_LOG_FILE: "stderr",
        ...env,
      },
      stdin: "null",
      stdout: "null",
      stderr: "null",
    });
    this.#child = inNetns(hosts.host, () => command.spawn());
  }

  /** Starts a daemon, and waits until it listens. */
  static async start(
    hosts: TestHosts,
    options: NodeDaemonOptions = {},
  ): Promise<NodeDaemon> {
    const daemon = new NodeDaemon(hosts, options);
    await daemon.says("msg=listening");
    return daemon;
  }

  /** Its log so far. */
  get log(): string {
    return Deno.readTextFileSync(this.#logFile);
  }

  /** Waits until a text is in its log. */
  async says(text: string): Promise<void> {
    await eventually(
      `the daemon logs "${text}": ${this.log}`,
      () => this.log.includes(text),
    );
  }

  /** Path of its socket for calls. */
  get socket(): string {
    return `${this.directory}/daemon.sock`;
  }

  /** Its process ID. */
  get pid(): number {
    return this.#child.pid;
  }

  /** Starts an executable that hands its call over. */
  call(type: string, command: string, call: ReceivedCall): Spawned {
    const { config, plugins, wrapper = [], ...options } = call;
    const [path = "", ...args] = [...wrapper, `${BIN}/${type}`];
    const directories = plugins === undefined ? BIN : `${plugins}:${BIN}`;
    const env = {
      PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
      ...this.#hosts.environment(command, options),
      CNI_PATH: directories,
      ...options.env,
    };
    const stdin = JSON.stringify({ daemonSocket: this.socket, ...config });
    return spawnIn(this.#hosts.host, { path, args, env, stdin });
  }

  /** All calls that it has answered, as {@linkcode readStory} tells. */
  async story(): Promise<string[]> {
    // It logs a call after its answer, and before it answers anything else.
    await this.ask("/healthz").catch(() => "it has ended, and logged all");
    return readStory(this.log);
  }

  /** Asks over HTTP; returns the status and the body. */
  async ask(path: string): Promise<{ status: number; body: string }> {
    // Another directory is in mounts of its own.
    const root = this.#isInHost ? "" : `/proc/${this.#child.pid}/root`;
    return await askOverUnix(`${root}${this.directory}/multus.sock`, path);
  }

  /** Reads one of its metrics; 0 if there is no such sample. */
  async metric(sample: string): Promise<number> {
    const { body } = await this.ask("/metrics");
    const line = body.split("\n").find((line) => line.startsWith(`${sample} `));
    return Number(line?.split(" ").at(-1) ?? 0);
  }

  /** Sends a signal. */
  signal(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** Waits until it has ended; returns its exit code. */
  async ended(): Promise<number> {
    const { code } = await this.#child.status;
    return code;
  }

  /** Kills it if it still runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.signal("SIGKILL");
    } catch {
      // It has ended.
    }
    await this.ended();
  }
}

/** Asks an HTTP server on a unix socket. */
async function askOverUnix(
  socket: string,
  path: string,
): Promise<{ status: number; body: string }> {
  using connection = await Deno.connect({ transport: "unix", path: socket });
  const request = `GET ${path} HTTP/1.0\r\nHost: localhost\r\n\r\n`;
  await connection.write(new TextEncoder().encode(request));
  const answer = await new Response(connection.readable).text();
  const [head = "", ...rest] = answer.split("\r\n\r\n");
  return { status: Number(head.split(" ")[1]), body: rest.join("\r\n\r\n") };
}

/** Lists the calls that a daemon's log says it ran, as `ptp ADD 0`. */
export function readStory(log: string): string[] {
  return log.split("\n").flatMap((line) => {
    const [, plugin, command, rest = ""] =
      /msg=call plugin=(\S+) command=(\S+) (.*)$/.exec(line) ?? [];
    if (plugin === undefined) return [];
    const code = / code=(\d+)/.exec(rest)?.[1] ?? "declined";
    return [`${plugin} ${command} ${code}`];
  });
}
