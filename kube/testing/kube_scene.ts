/**
 * An API server, and clients with kubeconfigs for it.
 *
 * @module
 */

import { assert } from "@std/assert";
import { type KubeClient, openKubeClient } from "../client.ts";
import type { TransportOptions } from "../transport.ts";
import { KubeError } from "../kube_error.ts";
import { KubeApi, type KubeApiOptions } from "./kube_api.ts";
import type { KubeconfigKind, KubeconfigOverrides } from "./kubeconfig.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";

/** An API server with the pod `test/p1` of UID `u1`. */
export class KubeScene implements AsyncDisposable {
  readonly api: KubeApi;
  /** Where the kubeconfigs are. */
  readonly directory: PluginDirectory = new PluginDirectory();

  private constructor(api: KubeApi) {
    this.api = api;
  }

  /** Starts the server. */
  static async start(options: KubeApiOptions = {}): Promise<KubeScene> {
    const scene = new KubeScene(await KubeApi.start(options));
    scene.api.putPod({
      metadata: { name: "p1", namespace: "test", uid: "u1" },
    });
    return scene;
  }

  /** Opens a client; the caller closes it. */
  async open(
    kind: KubeconfigKind = "token",
    overrides: KubeconfigOverrides = {},
    { env = Deno.env.toObject(), isResident = false }: Partial<
      TransportOptions
    > = {},
  ): Promise<KubeClient> {
    const kubeconfig = this.api.writeKubeconfig(
      this.directory.path,
      kind,
      overrides,
    );
    const client = await openKubeClient({
      kubeconfig,
      env,
      isResident,
    });
    assert(client !== undefined, "a kubeconfig leads to a client");
    return client;
  }

  /** Stops the server, and removes the directory. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.directory[Symbol.dispose]();
    await this.api[Symbol.asyncDispose]();
  }
}

/** Returns the error with which a request fails. */
export async function kubeErrorOf(
  request: Promise<unknown>,
): Promise<KubeError> {
  const error = await request.then(() => undefined, (error) => error);
  assert(error instanceof KubeError, `expected a KubeError, got ${error}`);
  return error;
}
