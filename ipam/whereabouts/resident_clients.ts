/**
 * Clients of a resident process, which keep their connections between calls.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import { type ClientOptions, KubeClient } from "../../kube/client.ts";
import { openConnection } from "../../kube/connection.ts";
import type { OpenClient } from "./session.ts";
import { Upstream } from "../../kube/resident/upstream.ts";

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
