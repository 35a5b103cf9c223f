/**
 * The scene of the tests of the API server.
 *
 * @module
 */

import { KubeApi } from "../kube_api.ts";
import { Asker } from "./asker.ts";

/** A server with pod `p` and definition `net` in namespace `n`, and a client. */
export class ApiScene implements AsyncDisposable {
  readonly api: KubeApi;
  readonly asker: Asker;

  private constructor(api: KubeApi) {
    this.api = api;
    this.asker = new Asker(api);
    const metadata = { namespace: "n", name: "p", uid: "u1" };
    api.putPod({ metadata, status: { phase: "Running" } });
    api.putNad("n", "net", { type: "macvlan" }, { "a": "b" });
  }

  /** Starts it. */
  static async create(): Promise<ApiScene> {
    return new ApiScene(await KubeApi.start());
  }

  /** Stops it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.asker[Symbol.dispose]();
    await this.api[Symbol.asyncDispose]();
  }
}
