/**
 * A node that exists for the measurements only: a network namespace that stands
 * for the host's, a directory, and containers whose number grows.
 *
 * @module
 */

import type { NetNs } from "../../../ffi/netns.ts";
import {
  CallFailure,
  type CallRunner,
  type RunningCall,
  type Times,
} from "./call.ts";
import { BenchDaemon, ThickMultus } from "./daemon.ts";
import { awaitTeardown, makeNetns } from "./isolation.ts";
import { waitFor } from "./process.ts";
import {
  type Attachment,
  byDaemon,
  type ChainName,
  type DaemonKind,
  describeNetwork,
  oneByOne,
  type PlannedCall,
  type Route,
  type Verb,
} from "./route.ts";
import type { Subject } from "./subject.ts";
import { sumTimes } from "./summary.ts";

/** The steps to run on an attachment. */
export interface Job {
  readonly verb: Verb;
  readonly attachment: Attachment;
  readonly calls: readonly PlannedCall[];
}

/** The parts of a node. */
interface NodeParts {
  /** The owner of the executables on it. */
  readonly subject: Subject;
  readonly chain: ChainName;
  readonly masquerade: boolean;
  readonly runner: CallRunner;
  /** An empty directory. */
  readonly directory: string;
  /** The command that runs a script of this project. */
  readonly deno: readonly string[];
}

/** How many containers are attached at once that only are to be there. */
export const FILL_WIDTH = 4;

const FIRST_PORT = 1024, PORTS = 60_000;

/** A node. */
export class BenchNode implements Disposable {
  readonly #parts: NodeParts;
  readonly #containers: NetNs[] = [];
  readonly #daemons = new Map<DaemonKind, BenchDaemon | ThickMultus>();
  #attachments = 0;
  #size = 0;
  /** Stands for the host's namespace. */
  readonly host: NetNs = makeNetns();

  /** Creates a node without containers. */
  constructor(parts: NodeParts) {
    this.#parts = parts;
  }

  /** The owner of the executables on it. */
  get subject(): Subject {
    return this.#parts.subject;
  }

  /** Runs its calls. */
  get runner(): CallRunner {
    return this.#parts.runner;
  }

  /**
   * Starts a daemon on the node, unless it runs.
   *
   * @throws {CallFailure} If it is not ready in time
   */
  startDaemon(kind: DaemonKind): void {
    if (this.#daemons.has(kind)) return;
    const { subject, deno } = this.#parts;
    const directory = `${this.#parts.directory}/${kind}`;
    this.#daemons.set(
      kind,
      kind === "node"
        ? BenchDaemon.startOwn(subject, directory, this.host)
        : new ThickMultus({ subject, deno, directory, host: this.host }),
    );
  }

  /** Returns the processor time that a daemon has used so far; 0 without one. */
  cpuMsOf(kind: DaemonKind | undefined): number {
    return kind === undefined ? 0 : this.#daemons.get(kind)?.cpuMs ?? 0;
  }

  /** Names a container in `netns` that is to be attached. */
  newAttachment(netns: NetNs): Attachment {
    const number = this.#attachments++;
    const { chain, masquerade, directory } = this.#parts;
    const list = describeNetwork({
      chain,
      masquerade,
      dataDir: `${directory}/leases`,
      hostPort: FIRST_PORT + number % PORTS,
    });
    return { id: `container-${number}`, netns: netns.path, list };
  }

  /** Plans to do something with an attachment. */
  plan(verb: Verb, attachment: Attachment, route: Route): Job {
    const { chain, subject, directory } = this.#parts;
    const { bin, multus = bin } = subject;
    const calls = route.plan(chain, verb, {
      ...{ bin, multus, directory },
      socket: `${directory}/node/daemon.sock`,
      thickDir: `${directory}/thick/run`,
    });
    return { verb, attachment, calls };
  }

  /**
   * Runs the calls of a job one after the other.
   *
   * @throws {CallFailure} Of the first call that fails
   */
  runInTurn({ verb, attachment, calls }: Job): Times {
    return sumTimes(calls.map(({ make }) => {
      const ended = this.runner.run(make(attachment), this.host);
      if (verb === "ADD") attachment.result = ended.stdout;
      return ended;
    }));
  }

  /**
   * Does jobs, several at the same time, each call by call. After a failure no
   * other job is begun.
   *
   * @throws {CallFailure} If a call fails, once all others have ended
   */
  run(jobs: readonly Job[], width: number): Times {
    const waiting = jobs.toReversed();
    const running = new Map<number, RunningJob>();
    const failures: unknown[] = [];
    let cpuMs = 0;
    const begin = (job: Job | undefined, at: number): void => {
      const planned = job?.calls[at];
      if (job === undefined || planned === undefined) return;
      const call = this.runner.start(planned.make(job.attachment), this.host);
      running.set(call.pid, { job, at, call });
    };
    const endOne = (): void => {
      const ended = waitFor(-1);
      const done = running.get(ended.pid);
      if (done === undefined) return; // An orphan of a call's.
      running.delete(ended.pid);
      const { job, at, call } = done;
      const stdout = call.finish(ended);
      cpuMs += ended.cpuMs;
      if (job.verb === "ADD") job.attachment.result = stdout;
      if (at + 1 === job.calls.length) begin(waiting.pop(), 0);
      else begin(job, at + 1);
    };
    const startMs = performance.now();
    while (running.size < width && waiting.length > 0) begin(waiting.pop(), 0);
    while (running.size > 0) {
      try {
        endOne();
      } catch (error) {
        failures.push(error);
        waiting.length = 0;
      }
    }
    if (failures.length > 0) throw failures[0];
    return { wallMs: performance.now() - startMs, cpuMs };
  }

  /**
   * Attaches containers until there are so many, with the daemon if the node has it.
   *
   * @throws {CallFailure} If one cannot be attached
   */
  grow(size: number): void {
    const route = this.#daemons.has("node") ? byDaemon : oneByOne;
    const jobs: Job[] = [];
    for (; this.#size < size; this.#size++) {
      const attachment = this.newAttachment(this.#newContainer());
      jobs.push(this.plan("ADD", attachment, route));
    }
    this.run(jobs, FILL_WIDTH);
  }

  /** Detaches a container as far as that can be done. */
  detach(attachment: Attachment): void {
    try {
      this.run([this.plan("DEL", attachment, oneByOne)], 1);
    } catch (error) {
      if (!(error instanceof CallFailure)) throw error;
    }
  }

  /** Leases alone need no namespace each. */
  #newContainer(): NetNs {
    const [first] = this.#containers;
    if (this.#parts.chain === "host-local" && first !== undefined) return first;
    const made = makeNetns();
    this.#containers.push(made);
    return made;
  }

  /** Removes everything, and returns once the kernel is done. */
  [Symbol.dispose](): void {
    for (const daemon of this.#daemons.values()) daemon[Symbol.dispose]();
    for (const container of this.#containers) container[Symbol.dispose]();
    this.host[Symbol.dispose]();
    awaitTeardown();
  }
}

/** A job with a running call. */
interface RunningJob {
  readonly job: Job;
  /** The call's position. */
  readonly at: number;
  readonly call: RunningCall;
}
