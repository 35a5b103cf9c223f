/**
 * Executables of one owner, run in one way, on a node of their own.
 *
 * @module
 */

import type { NetNs } from "../../../ffi/netns.ts";
import {
  type Call,
  CallFailure,
  type CallRunner,
  type Outcome,
} from "./call.ts";
import { pause } from "./netns.ts";
import {
  type BenchNode,
  FILL_WIDTH,
  type Job,
  runJob,
  runJobs,
} from "./node.ts";
import {
  type Attachment,
  type ChainName,
  CHAINS,
  oneByOne,
  type Route,
  ROUTES,
  type Verb,
} from "./route.ts";
import { hasExecutable, OURS } from "./subject.ts";
import { combineMeasures, type Measures } from "./summary.ts";
import { SETTLE_MS } from "./workbench.ts";

/** Receives the measurements of a step. */
type Recorder = (step: string, measures: Measures) => void;

/** How to run a call, which decides on the measurement. */
export type Run = (call: Call, host: NetNs) => Outcome;

/** The steps to run on fresh containers. */
export interface Turn {
  readonly verbs: readonly Verb[];
  /** Their namespaces. */
  readonly sandboxes: readonly NetNs[];
  readonly record: Recorder;
  /** Receives contestants with a failing CHECK, which is not repeated. */
  readonly omit: (failure: CallFailure) => void;
}

/** One who is measured. */
export class Contestant {
  /** Its own. */
  readonly node: BenchNode;
  readonly #route: Route;
  #failsCheck = false;

  /** Has a node's executables run in one way. */
  constructor(node: BenchNode, route: Route) {
    this.node = node;
    this.#route = route;
  }

  /** Whether a drain is measured with it: with the daemon, and with others' plugins. */
  get drains(): boolean {
    return this.#route.daemon === "node" ||
      this.#route === oneByOne && this.node.subject.name !== OURS;
  }

  /**
   * Provides what its calls need on the node.
   *
   * @throws {CallFailure} If the daemon does not start
   */
  prepare(): void {
    if (this.#route.daemon) this.node.startDaemon(this.#route.daemon);
  }

  /** Its name in tables. */
  get who(): string {
    return `${this.node.subject.name} ${this.#route.name}`.trim();
  }

  /**
   * Does everything with each container, one call after the other.
   *
   * @throws {CallFailure} Of the first call that fails; the container is detached
   */
  runInTurn(turn: Turn, run: Run): void {
    for (const attachment of this.#attachmentsIn(turn)) {
      this.#runVerbs(turn, [attachment], ([job]) => {
        if (job === undefined) return;
        const steps = runJob(job, (call) => {
          const before = this.#daemonCpuMs;
          const outcome = run(call, this.node.host);
          return this.#addDaemon(outcome, this.#daemonCpuMs - before);
        });
        const whole = combineMeasures(steps.map(({ measures }) => measures));
        turn.record(job.verb, whole);
        if (steps.length === 1) return;
        for (const { plugin, measures } of steps) {
          turn.record(`${job.verb} ${plugin}`, measures);
        }
      });
    }
  }

  /**
   * Does everything with all containers at the same time.
   *
   * @throws {CallFailure} Of the first call that fails; the containers are detached
   */
  runTogether(turn: Turn, runner: CallRunner): void {
    const attachments = this.#attachmentsIn(turn);
    const { host } = this.node;
    const workshop = { runner, host, width: attachments.length };
    this.#runVerbs(turn, attachments, (jobs, verb) => {
      const before = this.#daemonCpuMs;
      const measures = runJobs(jobs, workshop);
      const { cpuMs = 0 } = measures;
      const all = cpuMs + this.#daemonCpuMs - before;
      turn.record(verb, { ...measures, cpuMs: all });
    });
  }

  /** Attaches all containers, and measures how long it takes to detach them. */
  runDrain(turn: Turn, runner: CallRunner): void {
    const { host } = this.node;
    const attachments = this.#attachmentsIn(turn);
    for (
      const [step, width] of [
        ["DEL, one after the other", 1],
        ["DEL, all at once", attachments.length],
      ] as const
    ) {
      this.#runVerbs({ ...turn, verbs: ["ADD"] }, attachments, (jobs) => {
        runJobs(jobs, { runner, host, width: FILL_WIDTH });
      });
      pause(SETTLE_MS);
      this.#runVerbs({ ...turn, verbs: ["DEL"] }, attachments, (jobs) => {
        turn.record(step, runJobs(jobs, { runner, host, width }));
      });
    }
  }

  /** The daemon's use; 0 if it is not measured. */
  get #daemonCpuMs(): number {
    return this.node.cpuMsOf(this.#route.daemon);
  }

  /** The daemon's part belongs to the call that it was done for. */
  #addDaemon({ stdout, measures }: Outcome, ms: number): Outcome {
    const { cpuMs } = measures;
    if (cpuMs === undefined) return { stdout, measures };
    return { stdout, measures: { ...measures, cpuMs: cpuMs + ms } };
  }

  /** Runs verb after verb, and leaves no half of an attachment to those who come after. */
  #runVerbs(
    { verbs, omit }: Turn,
    attachments: readonly Attachment[],
    run: (jobs: readonly Job[], verb: Verb) => void,
  ): void {
    for (const verb of verbs) {
      if (verb === "CHECK" && this.#failsCheck) continue;
      const jobs = attachments.map((attachment) =>
        this.node.plan(verb, attachment, this.#route)
      );
      try {
        run(jobs, verb);
      } catch (error) {
        if (verb === "CHECK" && error instanceof CallFailure) {
          this.#failsCheck = true;
          omit(error);
          continue;
        }
        for (const attachment of attachments) this.node.detach(attachment);
        throw error;
      }
    }
  }

  #attachmentsIn({ sandboxes }: Turn): Attachment[] {
    return sandboxes.map((netns) => this.node.newAttachment(netns));
  }
}

/** Lists the contestants that can run a chain on a node: plugin by plugin, and in one process. */
export function listContestants(
  node: BenchNode,
  chain: ChainName,
): Contestant[] {
  const { bin, multus = bin, thickDaemon } = node.subject;
  const plugins: readonly string[] = CHAINS[chain];
  return ROUTES.filter(({ name, executable, daemon }) =>
    executable === undefined ||
    (plugins.length > 1 || name === "daemon") &&
      (daemon !== "thick" || thickDaemon !== undefined) &&
      hasExecutable(executable.startsWith("multus") ? multus : bin, executable)
  ).map((route) => new Contestant(node, route));
}
