/**
 * A node that exists for the measurements only: a network namespace that stands
 * for the host's, a directory, and containers whose number grows; and what is done
 * with its containers, step by step or with many at the same time.
 *
 * @module
 */

import type { NetNs } from "../../../ffi/netns.ts";
import {
  type Call,
  CallFailure,
  type CallRunner,
  type Outcome,
  type RunningCall,
} from "./call.ts";
import { BenchDaemon, ThickMultus } from "./daemon.ts";
import { awaitTeardown, makeNetns } from "./netns.ts";
import { waitFor } from "./process.ts";
import {
  type Attachment,
  type ChainName,
  type DaemonKind,
  describeNetwork,
  oneByOne,
  type Place,
  type PlannedCall,
  type Route,
  type Verb,
} from "./route.ts";
import type { Subject } from "./subject.ts";
import { combineMeasures, type Measures } from "./summary.ts";

/** The steps to run on an attachment. */
export interface Job {
  readonly verb: Verb;
  readonly attachment: Attachment;
  readonly calls: readonly PlannedCall[];
}

/** The measurement of one of several calls. */
interface MeasuredCall {
  /** See {@linkcode PlannedCall}. */
  readonly plugin: string;
  readonly measures: Measures;
}

/**
 * Does one job, call by call.
 *
 * @param run How to run each call, which decides on the measurement
 * @throws {CallFailure} Of the first call that fails
 */
export function runJob(
  { verb, attachment, calls }: Job,
  run: (call: Call) => Outcome,
): MeasuredCall[] {
  return calls.map(({ plugin, make }) => {
    const { stdout, measures } = run(make(attachment));
    if (verb === "ADD") attachment.result = stdout;
    return { plugin, measures };
  });
}

/** A job with a running call. */
interface RunningJob {
  readonly job: Job;
  /** The call's position. */
  readonly at: number;
  readonly call: RunningCall;
}

/** Where jobs are done, and how many at the same time. */
interface Workshop {
  readonly runner: CallRunner;
  readonly host: NetNs;
  readonly width: number;
}

/**
 * Does jobs, several at the same time, each call by call. After a failure no
 * other job is begun.
 *
 * @throws {CallFailure} If a call fails, once all others have ended
 */
export function runJobs(
  jobs: readonly Job[],
  { runner, host, width }: Workshop,
): Measures {
  const waiting = jobs.toReversed();
  const running = new Map<number, RunningJob>();
  const measures: Measures[] = [];
  const failures: unknown[] = [];

  function begin(job: Job | undefined, at: number): void {
    const planned = job?.calls[at];
    if (job === undefined || planned === undefined) return;
    const call = runner.start(planned.make(job.attachment), host);
    running.set(call.pid, { job, at, call });
  }

  function endOne(): void {
    const ended = waitFor(-1);
    const done = running.get(ended.pid);
    if (done === undefined) return; // An orphan of a call's.
    running.delete(ended.pid);
    const { job, at, call } = done;
    const outcome = call.finish(ended);
    measures.push(outcome.measures);
    if (job.verb === "ADD") job.attachment.result = outcome.stdout;
    const isLast = at + 1 === job.calls.length;
    if (isLast) begin(waiting.pop(), 0);
    else begin(job, at + 1);
  }

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
  return {
    wallMs: performance.now() - startMs,
    cpuMs: combineMeasures(measures).cpuMs ?? 0,
  };
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
  #attachments = 0;
  #size = 0;
  /** Stands for the host's namespace. */
  readonly host: NetNs = makeNetns();

  readonly #daemons = new Map<DaemonKind, BenchDaemon | ThickMultus>();

  /** Creates a node without containers. */
  constructor(parts: NodeParts) {
    this.#parts = parts;
  }

  /** The owner of the executables on it. */
  get subject(): Subject {
    return this.#parts.subject;
  }

  get #socket(): string {
    return `${this.#parts.directory}/run/daemon.sock`;
  }

  get #thickDir(): string {
    return `${this.#parts.directory}/thick`;
  }

  /**
   * Starts a daemon on the node, unless it runs.
   *
   * @throws {CallFailure} If it is not ready in time
   */
  startDaemon(kind: DaemonKind): void {
    if (this.#daemons.has(kind)) return;
    this.#daemons.set(
      kind,
      kind === "node" ? this.#startOwn() : this.#startThick(),
    );
  }

  #startOwn(): BenchDaemon {
    const ready = this.#socket;
    const directory = ready.slice(0, ready.lastIndexOf("/"));
    Deno.mkdirSync(directory, { mode: 0o700 });
    const args = ["daemon", "--socket-dir", directory];
    const path = `${this.subject.bin}/cni`;
    const program = { path, args, ready, log: `${directory}/log` };
    return new BenchDaemon(program, this.host);
  }

  #startThick(): ThickMultus {
    const { subject, deno } = this.#parts;
    const directory = this.#thickDir;
    return new ThickMultus({ subject, deno, directory, host: this.host });
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
    const [socket, thickDir] = [this.#socket, `${this.#thickDir}/run`];
    const place: Place = { bin, multus, directory, socket, thickDir };
    return { verb, attachment, calls: route.plan(chain, verb, place) };
  }

  /**
   * Attaches containers until there are so many.
   *
   * @throws {CallFailure} If one cannot be attached
   */
  grow(size: number): void {
    const jobs: Job[] = [];
    for (; this.#size < size; this.#size++) {
      const attachment = this.newAttachment(this.#newContainer());
      jobs.push(this.plan("ADD", attachment, oneByOne));
    }
    this.#run(jobs);
  }

  /** Detaches a container as far as that can be done. */
  detach(attachment: Attachment): void {
    try {
      this.#run([this.plan("DEL", attachment, oneByOne)]);
    } catch (error) {
      if (!(error instanceof CallFailure)) throw error;
    }
  }

  #run(jobs: readonly Job[]): void {
    const { runner } = this.#parts;
    runJobs(jobs, { runner, host: this.host, width: FILL_WIDTH });
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
