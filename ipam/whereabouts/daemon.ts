/**
 * whereabouts in the node daemon: the plugin, which keeps its connections between
 * calls, and the release of addresses of deleted IPAMClaims. Each daemon follows the
 * claims of the pods that it has attached, and watches nothing without such claims.
 * `cluster-gc` finds claims that were deleted while the daemon did not run.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import type { Environment } from "../../base/process/environment.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { type ClientOptions, KubeClient } from "../../kube/client.ts";
import { openConnection } from "../../kube/connection.ts";
import { Informer } from "../../kube/resident/informer.ts";
import { Upstream } from "../../kube/resident/upstream.ts";
import { Cidr } from "../../net/cidr.ts";
import { WhereaboutsApi } from "./api.ts";
import {
  ALL_CLAIMS,
  ClaimApi,
  hasEnded,
  podAddressesOf,
} from "./claims/api.ts";
import {
  CLAIM_UID,
  type IpamClaim,
  type NotedClaim,
} from "./claims/ipam_claim.ts";
import { reservationName } from "./objects.ts";
import { createWhereabouts } from "./plugin.ts";
import { findClaimRecord } from "./pools.ts";
import { releaseAllocation } from "./release.ts";
import type { OpenClient } from "./session.ts";

/** whereabouts in a daemon. */
export class WhereaboutsService implements Disposable {
  /** whereabouts with the daemon's connections to API servers. */
  readonly plugin: Plugin;
  readonly #clients: ResidentClients;
  readonly #releaser: ClaimReleaser;

  /** Opens no connection: calls and claims do. */
  constructor(env: Environment, log: Pick<Log, "info" | "warn">) {
    const clients = this.#clients = new ResidentClients(log);
    const releaser = this.#releaser = new ClaimReleaser({
      clientOf: (kubeconfig) => clients.clientOf({ kubeconfig, env }),
      log,
    });
    this.plugin = createWhereabouts({
      openClient: clients.open,
      onClaim: (claim) => releaser.note(claim),
    }) as Plugin;
  }

  /** Follows the claims of the pods that it has attached, until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#releaser.run(signal);
  }

  /** Closes the connections. */
  [Symbol.dispose](): void {
    this.#clients[Symbol.dispose]();
  }
}

/** A client for each kubeconfig. Dispose of this to close the connections. */
export class ResidentClients implements Disposable {
  readonly #log: Pick<Log, "info" | "warn">;
  readonly #clients = new Map<string, KubeClient>();

  /** Starts without clients. */
  constructor(log: Pick<Log, "info" | "warn">) {
    this.#log = log;
  }

  /** Opens a client for a call. Disposing of the client keeps the connections. */
  readonly open: OpenClient = (options) => {
    const client = this.clientOf(options);
    return Promise.resolve({
      request: client.request.bind(client),
      listPages: client.listPages.bind(client),
      [Symbol.dispose](): void {},
    });
  };

  /** Returns the client of a kubeconfig, which this disposes of. */
  clientOf(options: ClientOptions): KubeClient {
    const { kubeconfig = "" } = options;
    const client = this.#clients.get(kubeconfig) ?? this.#create(options);
    this.#clients.set(kubeconfig, client);
    return client;
  }

  #create(options: ClientOptions): KubeClient {
    const log = this.#log;
    return new KubeClient(
      new Upstream({
        open: async () => {
          const resident = { ...options, isResident: true };
          const connection = await openConnection(resident);
          if (connection !== undefined) return connection;
          throw new CniError(
            ErrorCode.InvalidNetworkConfig,
            "there is neither a kubeconfig nor a service account",
          );
        },
        log,
      }),
    );
  }

  /** Closes the connections. */
  [Symbol.dispose](): void {
    for (const client of this.#clients.values()) client[Symbol.dispose]();
  }
}

/** Interval of the checks, in ms, and in how many checks a claim must be missing. */
const CHECK_MS = 10_000, CHECKS = 6;
/** Time limit of the requests of one release, in ms. */
const LIMIT_MS = 30_000;
/** Claims beyond this are left to `cluster-gc`. */
const MOST_CLAIMS = 10_000;

/** Options of a {@linkcode ClaimReleaser}. */
export interface ReleaserOptions {
  /** Returns the resident client of a kubeconfig. */
  readonly clientOf: (kubeconfig: string) => KubeClient;
  readonly log: Pick<Log, "info" | "warn">;
  /** See {@linkcode CHECK_MS}. */
  readonly checkMs?: number;
}

/** A claim, and the number of checks since it was last found. */
interface Followed {
  readonly claim: NotedClaim;
  missed: number;
}

/** The claims of a cluster, and their watch. */
class Cluster {
  readonly claims = new Map<string, Followed>();
  readonly #client: KubeClient;
  readonly #log: ReleaserOptions["log"];
  #watch:
    | {
      readonly informer: Informer<IpamClaim>;
      readonly end: AbortController;
      readonly done: Promise<void>;
    }
    | undefined;

  constructor(client: KubeClient, log: ReleaserOptions["log"]) {
    this.#client = client;
    this.#log = log;
  }

  /** Starts the watch, unless it runs. */
  #informer(): Informer<IpamClaim> {
    if (this.#watch === undefined) {
      const informer = new Informer<IpamClaim>({
        client: this.#client,
        path: ALL_CLAIMS,
        cachedPart: ({ metadata }) =>
          metadata?.uid === undefined
            ? undefined
            : { text: "", uids: [metadata.uid] },
        what: "IPAMClaims",
        log: this.#log,
      });
      const end = new AbortController();
      this.#watch = { informer, end, done: informer.run(end.signal) };
    }
    return this.#watch.informer;
  }

  async stopWatch(): Promise<void> {
    this.#watch?.end.abort();
    await this.#watch?.done;
    this.#watch = undefined;
  }

  async check(signal: AbortSignal): Promise<void> {
    if (this.claims.size === 0) return await this.stopWatch();
    const informer = this.#informer();
    if (!informer.isCurrent) return;
    for (const [uid, followed] of this.claims) {
      const { claim } = followed;
      const seen = informer.find(claim.namespace, claim.name);
      const isThere = seen?.uids.includes(uid) ?? false;
      followed.missed = isThere ? 0 : followed.missed + 1;
      // Missing at the start and at the end of that time, as for cluster-gc.
      if (followed.missed > CHECKS) await this.#release(followed, signal);
      if (signal.aborted) return;
    }
  }

  async #release(followed: Followed, signal: AbortSignal): Promise<void> {
    const { claim } = followed;
    const { uid, namespace, name, ips } = claim;
    followed.missed = 0;
    const limits = { signal, overallMs: LIMIT_MS };
    const api = new WhereaboutsApi(this.#client, claim.pools, limits);
    const of = { claim: `${namespace}/${name}`, addresses: ips.join(", ") };
    try {
      const claims = new ClaimApi(this.#client, limits);
      const outcome = await releaseGone(claim, api, claims);
      if (outcome !== "released") return;
      this.claims.delete(uid);
      this.#log.info("Released the addresses of a deleted IPAMClaim", of);
    } catch (error) {
      if (signal.aborted) return;
      this.#log.warn("Cannot release the addresses of an IPAMClaim", {
        ...of,
        error: describeError(error),
      });
    }
  }
}

/** Releases addresses of deleted claims, until the signal. */
export class ClaimReleaser {
  readonly #options: ReleaserOptions;
  readonly #clusters = new Map<string, Cluster>();

  /** Starts without claims. */
  constructor(options: ReleaserOptions) {
    this.#options = options;
  }

  /** Number of claims that it follows. */
  get size(): number {
    return [...this.#clusters.values()]
      .reduce((sum, { claims }) => sum + claims.size, 0);
  }

  /** Starts to follow a claim. */
  note(claim: NotedClaim): void {
    if (this.size >= MOST_CLAIMS) return;
    const { clientOf, log } = this.#options;
    const { kubeconfig, uid } = claim;
    const cluster = this.#clusters.get(kubeconfig) ??
      new Cluster(clientOf(kubeconfig), log);
    this.#clusters.set(kubeconfig, cluster);
    cluster.claims.set(uid, { claim, missed: 0 });
  }

  /** Checks all claims once. */
  async check(signal: AbortSignal): Promise<void> {
    for (const cluster of this.#clusters.values()) await cluster.check(signal);
  }

  /** Checks the claims repeatedly, until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { checkMs = CHECK_MS } = this.#options;
    while (!signal.aborted) {
      await this.check(signal);
      await pause(checkMs, signal);
    }
    for (const cluster of this.#clusters.values()) await cluster.stopWatch();
  }
}

/** Whether the addresses were released, and why not. */
type GoneOutcome = "exists" | "used" | "released";

/**
 * Releases the addresses, unless the claim exists or a pod has one of the addresses.
 * Concurrent callers are safe: each write tests the value that it removes.
 *
 * @throws {CniError} 11 if the server refuses a write, so addresses remain allocated
 * @throws {KubeError}
 */
async function releaseGone(
  { namespace, name, uid, ips, networkName }: NotedClaim,
  api: WhereaboutsApi,
  claims: ClaimApi,
): Promise<GoneOutcome> {
  const found = await claims.find(namespace, name);
  if (found?.metadata?.uid === uid) return "exists";
  // Only pods of its namespace can use a claim.
  const used = (await claims.listPods(namespace, ""))
    .filter((pod) => !hasEnded(pod)).flatMap(podAddressesOf);
  const all = ips.map((text) => Cidr.parse(text));
  if (all.some(({ ip }) => used.includes(String(ip)))) return "used";
  for (const address of all) {
    const key = { namespace, name, uid };
    const held = await findClaimRecord(api, networkName, key, address);
    if (held !== undefined) await releaseAllocation(held, api);
    const reserved = reservationName(networkName, address.ip);
    const { metadata } = await api.findReservation(reserved) ?? {};
    if (metadata?.annotations?.[CLAIM_UID] !== uid) continue;
    await api.deleteClaimReservation(reserved, metadata.uid ?? "");
  }
  return "released";
}
