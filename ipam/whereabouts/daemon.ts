/**
 * whereabouts in the node daemon: the plugin, which keeps its connections between
 * calls, and the release of addresses whose IPAMClaims are deleted.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import type { Environment } from "../../base/process/environment.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { type ClientOptions, KubeClient } from "../../kube/client.ts";
import { openConnection } from "../../kube/connection.ts";
import { Upstream } from "../../kube/resident/upstream.ts";
import { ClaimReleaser } from "./claim_releaser.ts";
import { createWhereabouts } from "./plugin.ts";
import type { OpenClient } from "./session.ts";

/** whereabouts in a daemon, which disposes of it at the end. */
export class WhereaboutsService implements Disposable {
  /** whereabouts with the daemon's connections to API servers. */
  readonly plugin: Plugin;
  readonly #clients: ResidentClients;
  readonly #releaser: ClaimReleaser;

  /** Opens it. API servers are asked when calls or claims need it. */
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

  /** Looks after the claims of the pods that it has attached, until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#releaser.run(signal);
  }

  /** Closes the connections. */
  [Symbol.dispose](): void {
    this.#clients[Symbol.dispose]();
  }
}

/** One client for each kubeconfig. Dispose of it to close the connections. */
export class ResidentClients implements Disposable {
  readonly #log: Pick<Log, "info" | "warn">;
  readonly #clients = new Map<string, KubeClient>();

  /** Starts without clients. */
  constructor(log: Pick<Log, "info" | "warn">) {
    this.#log = log;
  }

  /** Opens a client for a call, whose disposal keeps the connections. */
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
