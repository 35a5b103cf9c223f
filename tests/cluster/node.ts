/**
 * A node of a cluster: containerd and the kubelet in namespaces and control
 * groups of their own, with the directories `/etc`, `/opt`, `/run` and `/var` of
 * their own. A boot and a crash take milliseconds.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { NetNs } from "../../ffi/netns.ts";
import { killIfAlive } from "../_harness/process_group.ts";
import { DIRECTORY } from "../_harness/kube_apiserver.ts";
import { ControlGroups } from "./control_groups.ts";
import { until } from "../_harness/eventually.ts";

const INIT = decodeURIComponent(
  new URL("node_init.sh", import.meta.url).pathname,
);

/** Processes that end with the node, in the order of their start. */
export type Program = "containerd" | "crio" | "kubelet" | "cni-daemon";

/** How a command ended. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program that was started. */
interface Running {
  readonly child: Deno.ChildProcess;
  /** Whether it has ended, of itself or by a signal. */
  hasEnded: boolean;
}

/** A node. It begins switched off. */
export class Node implements AsyncDisposable {
  readonly name: string;
  /** What it keeps when it is switched off: `etc`, `opt`, `var`; and `log`. */
  readonly directory: string;
  readonly #groups: ControlGroups;
  readonly #programs = new Map<Program, Running>();
  #outer: Deno.ChildProcess | undefined;
  #init = 0;

  /** Creates one, with `/etc` as this machine has it. */
  constructor(name: string, directory: string) {
    [this.name, this.directory] = [name, directory];
    for (
      const path of [
        ...["etc", "opt/cni/bin", "var/lib/cni", "var/log", "var/tmp"],
        "log",
      ]
    ) {
      Deno.mkdirSync(`${directory}/${path}`, { recursive: true });
    }
    Deno.symlinkSync("/run", `${directory}/var/run`);
    exec(["cp", "-a", "/etc/.", `${directory}/etc`]);
    exec(["rm", "-rf", `${directory}/etc/cni`]);
    Deno.mkdirSync(`${directory}/etc/cni/net.d`, { recursive: true });
    const suffix = crypto.randomUUID().slice(0, 8);
    this.#groups = new ControlGroups(`cni-cluster-${name}-${suffix}`);
  }

  /** Path by which this machine finds a file on the node. */
  pathOf(path: string): string {
    return `/proc/${this.#init}/root${path}`;
  }

  /** Its first process, for a link's other end. */
  get init(): number {
    return this.#init;
  }

  /** Opens its network namespace. */
  openNetns(): NetNs {
    return NetNs.open(`/proc/${this.#init}/ns/net`);
  }

  /** Switches it on: namespaces, and no program yet. */
  async boot(): Promise<void> {
    const [path = "", ...args] = this.#groups.enterRoot(
      ...["setpriv", "--pdeathsig=KILL", "unshare", "--net", "--mount"],
      ...["--pid", "--cgroup", "--ipc", "--uts", "--fork", "--kill-child"],
      ...["--mount-proc", "--propagation=private", "sh", INIT],
      ...[this.name, this.directory],
    );
    const outer = new Deno.Command(path, {
      args,
      stdin: "null",
      stderr: "null",
    }).spawn();
    this.#outer = outer;
    const children = `/proc/${outer.pid}/task/${outer.pid}/children`;
    await until(`${this.name} boots`, () => {
      this.#init = Number.parseInt(
        ifPossible(() => Deno.readTextFileSync(children)) ?? "",
      );
      return ifPossible(() => Deno.statSync(this.pathOf("/run/booted"))) !==
        undefined;
    });
    this.#groups.settle();
  }

  /** Switches it off, as a loss of power does. Data in memory is gone. */
  async crash(): Promise<void> {
    if (this.#outer === undefined) return;
    killIfAlive(this.#init);
    await this.#outer.status;
    for (const { child } of this.#programs.values()) await child.status;
    this.#programs.clear();
    this.#outer = undefined;
    // The kubelet would look for the containers of those that are left, for minutes.
    this.#groups.clear();
  }

  /** Runs a shell's commands on the node. */
  async run(script: string): Promise<Ended> {
    const [path = "", ...args] = this.#enter("sh", "-c", script);
    const { code, stdout, stderr } = await new Deno.Command(path, {
      args,
      clearEnv: true,
      env: ENVIRONMENT,
      stdin: "null",
    }).output();
    const decoder = new TextDecoder();
    return {
      code,
      stdout: decoder.decode(stdout),
      stderr: decoder.decode(stderr),
    };
  }

  /** Runs commands that must succeed; returns what they print on stdout. */
  async get(script: string): Promise<string> {
    const { code, stdout, stderr } = await this.run(script);
    if (code === 0) return stdout;
    throw new Error(
      `${this.name}: ${script}: exit code ${code}: ${stdout}${stderr}`,
    );
  }

  /** Writes a file on the node atomically, as installers do. */
  write(path: string, content: string | object): void {
    const text = typeof content === "string"
      ? content
      : JSON.stringify(content, undefined, 2);
    const target = this.pathOf(path);
    Deno.mkdirSync(target.slice(0, target.lastIndexOf("/")), {
      recursive: true,
    });
    Deno.writeTextFileSync(`${target}.new`, text);
    Deno.renameSync(`${target}.new`, target);
  }

  /** Starts a program, whose output is added to its log. */
  start(program: Program, ...command: readonly string[]): void {
    const logPath = `${this.directory}/log/${program}.log`;
    // It ends with this process, even if that is killed.
    const script = `exec setpriv --pdeathsig=KILL "$@" >> ${logPath} 2>&1`;
    const [path = "", ...args] = this.#enter(
      "sh",
      "-c",
      script,
      "sh",
      ...command,
    );
    const child = new Deno.Command(path, {
      args,
      clearEnv: true,
      env: ENVIRONMENT,
      stdin: "null",
    }).spawn();
    const running = { child, hasEnded: false };
    void child.status.then(() => running.hasEnded = true);
    this.#programs.set(program, running);
  }

  /** Sends a signal to a program; waits for its end unless it is to go on. */
  async signal(program: Program, signal: Deno.Signal): Promise<void> {
    const running = this.#programs.get(program);
    if (running === undefined) throw new Error(`${program} does not run`);
    const { pid, status } = running.child;
    // What enters the PID namespace waits for its child, the program.
    const children = Deno.readTextFileSync(`/proc/${pid}/task/${pid}/children`);
    Deno.kill(Number.parseInt(children), signal);
    if (["SIGSTOP", "SIGCONT"].includes(signal)) return;
    await status;
    this.#programs.delete(program);
  }

  /** Returns the end of a program's log. */
  logOf(program: Program, lines = 40): string {
    const path = `${this.directory}/log/${program}.log`;
    const text = ifPossible(() => Deno.readTextFileSync(path)) ?? "";
    return text.trimEnd().split("\n").slice(-lines).join("\n");
  }

  /** Fails if a program has ended of itself. */
  assertRuns(): void {
    for (const [program, { hasEnded }] of this.#programs) {
      if (!hasEnded) continue;
      const log = this.logOf(program, 10);
      throw new Error(`${program} of ${this.name} has ended:\n${log}`);
    }
  }

  #enter(...command: string[]): string[] {
    const target = ["--target", `${this.#init}`];
    const spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"];
    return this.#groups.enter("nsenter", ...target, ...spaces, ...command);
  }

  /** Switches it off, and removes its control groups. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.crash();
    this.#groups[Symbol.dispose]();
  }
}

const ENVIRONMENT = {
  PATH: `${DIRECTORY}:/opt/cni/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
  LC_ALL: "C",
  HOME: "/root",
};

function exec([path = "", ...args]: readonly string[]): void {
  const { success, stderr } = new Deno.Command(path, { args }).outputSync();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}
