/**
 * HTTP requests about the daemon's own state.
 *
 * @module
 */

import type { HistoryDocument } from "./call_history.ts";

/** The daemon's state. */
export interface State {
  /** Whether calls may come. */
  readonly isReady: () => boolean;
  /** Formats the metrics for Prometheus. */
  readonly metrics: () => Promise<string>;
  /** Describes the daemon and what became of its calls. */
  readonly describe: () => StateDocument;
}

/** What `/state` answers, as JSON. */
export interface StateDocument {
  /** The release. */
  readonly version: string;
  /** Identifies the code: calls of another build are left to their callers. */
  readonly build: string;
  readonly pid: number;
  /** As RFC 3339 has it. */
  readonly startedAt: string;
  /** Whether calls may come. */
  readonly ready: boolean;
  /** Where the state is served over TCP, and why it is not now. */
  readonly metrics?: { readonly address: string; readonly problem?: string };
  /** What has become of resources of deleted containers; missing with --no-heal. */
  readonly leftovers?: OrphansDocument;
  /** What was repaired; missing without --repair. */
  readonly repairs?: RepairsDocument;
  /** Pods without networks that they request; missing if the pods are unknown. */
  readonly missingNetworks?: readonly MissingNetworksDocument[];
  readonly calls: HistoryDocument & {
    /** Calls that are running. */
    readonly running: number;
    /** Calls that wait in the queue. */
    readonly waiting: number;
  };
}

/** A pod without networks that it requests. */
export interface MissingNetworksDocument {
  /** `namespace/name`. */
  readonly pod: string;
  /** `namespace/name` of each. */
  readonly networks: readonly string[];
}

/** An attachment that the daemon has looked at. */
interface RepairedName {
  readonly network: string;
  readonly container: string;
  readonly ifname: string;
}

/** A repair of an attachment. */
export interface RepairDocument {
  /** When, as RFC 3339 has it. */
  readonly at: string;
  /** What was missing, each as `plugin: text`. */
  readonly repaired: readonly string[];
}

/** What the daemon has repaired since it started. */
export interface RepairsDocument {
  /** How often it has looked at the attachments. */
  readonly rounds: number;
  /** How many attachments it has repaired. */
  readonly repaired: number;
  /** What it could not repair in its last round. */
  readonly remaining: readonly ({ readonly error: string } & RepairedName)[];
  /** The last repair of each attachment that still exists. */
  readonly done: readonly (RepairDocument & RepairedName)[];
  /** When its last round ended, as RFC 3339 has it. */
  readonly lastAt?: string;
  /** Why its last round failed. */
  readonly problem?: string;
}

/** What has become of resources of deleted containers since the daemon started. */
export interface OrphansDocument {
  /** How many it has removed, by kind. */
  readonly removed: Readonly<Record<string, number>>;
  /** Those that it could not remove in its last search. */
  readonly failed: readonly {
    readonly kind: string;
    readonly where: string;
    readonly error: string;
  }[];
  /** How often it has searched. */
  readonly searches: number;
  /** When it last searched, as RFC 3339 has it. */
  readonly lastAt?: string;
  /** Why its last search failed. */
  readonly problem?: string;
}

/** Answers `/metrics`, `/state`, `/healthz` and `/readyz`; 404 to anything else. */
export async function answerState(
  request: Request,
  state: State,
): Promise<Response> {
  switch (new URL(request.url).pathname) {
    case "/metrics":
      return new Response(await state.metrics(), {
        headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
      });
    case "/state":
      return Response.json(state.describe());
    case "/healthz":
      return new Response(null, { status: 200 });
    case "/readyz":
      return new Response(null, { status: state.isReady() ? 200 : 500 });
    default:
      return new Response(null, { status: 404 });
  }
}
