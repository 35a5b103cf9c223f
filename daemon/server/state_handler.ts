/**
 * HTTP requests about the daemon's own state.
 *
 * @module
 */

import type { HistoryDocument } from "./call_history.ts";

/** The daemon's state. */
export interface State {
  /** Whether the daemon accepts calls. */
  readonly isReady: () => boolean;
  /** Formats the metrics for Prometheus. */
  readonly metrics: () => Promise<string>;
  /** Describes the daemon and the outcomes of its calls. */
  readonly describe: () => StateDocument;
}

/** The JSON document of `/state`. */
export interface StateDocument {
  /** The release. */
  readonly version: string;
  /** Identifies the code: the daemon declines calls of a different build. */
  readonly build: string;
  readonly pid: number;
  /** In RFC 3339 format. */
  readonly startedAt: string;
  /** Whether the daemon accepts calls. */
  readonly ready: boolean;
  /** The TCP address of the state, and the error if the daemon cannot listen there. */
  readonly metrics?: { readonly address: string; readonly problem?: string };
  /** Removed resources of deleted containers, and failures; missing with --no-heal. */
  readonly leftovers?: OrphansDocument;
  /** Repairs and failures; missing without --repair. */
  readonly repairs?: RepairsDocument;
  /** Pods without networks that they request; missing if the daemon does not follow pods. */
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

/** An attachment that the daemon has checked. */
interface RepairedName {
  readonly network: string;
  readonly container: string;
  readonly ifname: string;
}

/** A repair of an attachment. */
export interface RepairDocument {
  /** The time of the repair, in RFC 3339 format. */
  readonly at: string;
  /** What was missing, each as `plugin: text`. */
  readonly repaired: readonly string[];
}

/** Repairs since the daemon started. */
export interface RepairsDocument {
  /** How many rounds have checked attachments. */
  readonly rounds: number;
  /** How many attachments were repaired. */
  readonly repaired: number;
  /** Attachments that the last round could not repair. */
  readonly remaining: readonly ({ readonly error: string } & RepairedName)[];
  /** The last repair of each attachment that still exists. */
  readonly done: readonly (RepairDocument & RepairedName)[];
  /** The end of the last round, in RFC 3339 format. */
  readonly lastAt?: string;
  /** Why the last round failed. */
  readonly problem?: string;
}

/** Removals of resources of deleted containers since the daemon started. */
export interface OrphansDocument {
  /** How many resources were removed, by kind. */
  readonly removed: Readonly<Record<string, number>>;
  /** Resources that could not be removed after the last search. */
  readonly failed: readonly {
    readonly kind: string;
    readonly where: string;
    readonly error: string;
  }[];
  /** How many searches there were. */
  readonly searches: number;
  /** The end of the last search, in RFC 3339 format. */
  readonly lastAt?: string;
  /** Why the last search failed. */
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
