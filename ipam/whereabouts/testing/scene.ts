/**
 * A cluster with pools, and calls of whereabouts by pods.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import type { Plugin } from "../../../cni/plugin.ts";
import type { Allocations } from "../objects.ts";
import { createWhereabouts, type WhereaboutsOptions } from "../plugin.ts";
import type { OpenClient } from "../session.ts";
import {
  KubeApi,
  type KubeApiOptions,
} from "../../../kube/testing/kube_api.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";
import { type Outcome, run } from "../../../tests/_harness/recorder.ts";

/** The namespace of the pools. */
export const POOLS = "kube-system";

/** An attachment, and the differences of its call. */
export interface PodCall {
  /** Name of a pod in namespace `test`; "" for none. */
  readonly pod?: string;
  /** Container ID; derived from the pod if undefined. */
  readonly id?: string;
  readonly ifName?: string;
  /** More CNI_ARGS. */
  readonly args?: string;
  /** More keys of the network configuration. */
  readonly conf?: JsonObject;
  readonly env?: Readonly<Record<string, string>>;
}

/** The API server, a kubeconfig for it, and a directory for allocation files. */
export class WhereaboutsScene implements AsyncDisposable {
  readonly api: KubeApi;
  readonly directory: PluginDirectory = new PluginDirectory();
  readonly kubeconfig: string;
  #plugin: Plugin = createWhereabouts() as Plugin;

  private constructor(api: KubeApi) {
    this.api = api;
    this.kubeconfig = api.writeKubeconfig(this.directory.path);
    for (const name of [POOLS, "test"]) {
      api.put("namespaces", { metadata: { name } });
    }
  }

  /** Starts the server. */
  static async start(
    options: KubeApiOptions = { transport: "http" },
  ): Promise<WhereaboutsScene> {
    return new WhereaboutsScene(await KubeApi.start(options));
  }

  /** Makes all calls use the same source of clients, as a daemon does. */
  useClients(
    openClient: OpenClient,
    onClaim?: WhereaboutsOptions["onClaim"],
  ): void {
    this.#plugin = createWhereabouts({ openClient, onClaim }) as Plugin;
  }

  /** Writes a file of the scene's directory. @returns Its path */
  write(name: string, content: string | object): string {
    const path = `${this.directory.path}/${name}`;
    const isText = typeof content === "string";
    Deno.writeTextFileSync(path, isText ? content : JSON.stringify(content));
    return path;
  }

  /** Deletes the allocation files. */
  loseAllocationFiles(): void {
    Deno.removeSync(`${this.directory.path}/allocations`, { recursive: true });
  }

  /** Makes the kubeconfig name a context that does not exist. */
  breakContext(): void {
    const text = Deno.readTextFileSync(this.kubeconfig);
    const broken = text.replace(/(current-context"?: ?"?)/, "$1no-");
    Deno.writeTextFileSync(this.kubeconfig, broken);
  }

  /** Builds an `ipam` object. */
  ipam(more: JsonObject): JsonObject {
    return {
      type: "whereabouts",
      kubernetes: { kubeconfig: this.kubeconfig },
      dataDir: `${this.directory.path}/allocations`,
      ...more,
    };
  }

  /** Runs a command. */
  call(
    command: string,
    ipam: JsonObject | undefined,
    call: PodCall = {},
  ): Promise<Outcome> {
    const { pod = "p1", id = `id-${pod}`, ifName = "net1", args } = call;
    const cniArgs = [
      "IgnoreUnknown=1",
      ...pod === "" ? [] : ["K8S_POD_NAMESPACE=test", `K8S_POD_NAME=${pod}`],
      ...args === undefined ? [] : [args],
    ];
    const env = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: id,
      CNI_NETNS: "/some/where",
      CNI_IFNAME: ifName,
      CNI_PATH: "/some/bin",
      CNI_ARGS: cniArgs.join(";"),
      ...call.env,
    };
    return run(this.#plugin, env, {
      cniVersion: "1.1.0",
      name: "net",
      type: "macvlan",
      ...ipam && { ipam: this.ipam(ipam) },
      ...call.conf,
    });
  }

  /** Runs ADD, which must succeed. @returns The addresses */
  async add(ipam: JsonObject, call: PodCall = {}): Promise<string[]> {
    const { exitCode, json, stdout } = await this.call("ADD", ipam, call);
    assertEquals(exitCode, 0, stdout);
    return json.ips.map(({ address }: { address: string }) => address);
  }

  /** Runs DEL, which must succeed. */
  async del(ipam: JsonObject, call: PodCall = {}): Promise<void> {
    const { exitCode, stdout } = await this.call("DEL", ipam, call);
    assertEquals(exitCode, 0, stdout);
  }

  /** Runs ADD, which must fail. @returns The error object */
  async failure(
    ipam: JsonObject | undefined,
    call: PodCall = {},
    command = "ADD",
  ): Promise<{ code: number; msg: string; details?: string }> {
    const { exitCode, json, stdout } = await this.call(command, ipam, call);
    assertEquals(exitCode, 1, stdout);
    return json;
  }

  /** Returns the allocations of a pool; undefined if it does not exist. */
  allocations(pool: string): Allocations | undefined {
    return this.api.find("ippools", POOLS, pool)?.["spec"].allocations;
  }

  /** Returns the names of the reservations in order. */
  reservations(): string[] {
    return this.names("overlappingrangeipreservations");
  }

  /** Returns the names of a resource's objects in order. */
  names(resource: "ippools" | "overlappingrangeipreservations"): string[] {
    return this.api.listNames(resource);
  }

  /** Puts a pool as the reference writes it. */
  putPool(name: string, range: string, allocations: Allocations): void {
    this.api.put("ippools", {
      metadata: { namespace: POOLS, name },
      spec: { range, allocations },
    });
  }

  /** Puts a reservation as the reference writes it. */
  putReservation(name: string, podref: string, ifname?: string): void {
    this.api.put("overlappingrangeipreservations", {
      metadata: { namespace: POOLS, name },
      spec: { podref, ...ifname === undefined ? {} : { ifname } },
    });
  }

  /** Lists the requests since the last call of this, as `GET ippools/x`. */
  takeRequests(): string[] {
    const root = /^\/.*\/namespaces\/[^/]+\//;
    const taken = this.api.requests.map(({ method, path }) =>
      `${method} ${path.replace(root, "")}`
    );
    this.api.clearRequests();
    return taken;
  }

  /** Stops the server, and removes the directory. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.directory[Symbol.dispose]();
    await this.api[Symbol.asyncDispose]();
  }
}
