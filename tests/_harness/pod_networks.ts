/**
 * A pod on two networks of the bridge plugin, to whose interfaces the default
 * routes are applied that it asks for, as multus does.
 *
 * ```ts ignore
 * using pod = new PodNetworks({ net1: ["10.1.1.1"] });
 * await pod.attach("eth0", { subnets: ["10.1.0.0/24"], defaults: [{ dst: "0.0.0.0/0" }] });
 * await pod.attach("net1", { subnets: ["10.1.1.0/24"] });
 * assertEquals(pod.leavesBy("203.0.113.1"), "net1");
 * ```
 *
 * @module
 */

import type { JsonObject } from "../../cni/json/json.ts";
import { AttachmentCache } from "../../cni/libcni/cache.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { applyDefaultRoute } from "../../plugins/multus/route/default_route.ts";
import { markDefaultRoutes } from "../../plugins/multus/select/default_route_marks.ts";
import type { Delegate } from "../../plugins/multus/model/delegate.ts";
import {
  buildNetworkStatus,
  type NetworkStatus,
} from "../../plugins/multus/report/network_status.ts";
import { assertSuccess } from "./call_outcome.ts";
import { defaultRoutes } from "./default_routes.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { delegatesWith, type Gateways } from "./multus_delegates.ts";
import { TestHosts } from "../../testing/test_hosts.ts";

const INTERFACES = ["eth0", "net1"] as const;

/** One of the pod's interfaces. */
export type PodInterface = typeof INTERFACES[number];

/** The properties of a network. */
export interface PodNetwork {
  /** Of which the first address is the router's. */
  readonly subnets: readonly string[];
  /** The default routes that its plugin makes. */
  readonly defaults?: readonly JsonObject[];
  /** Version of its plugin's results; the newest if undefined. */
  readonly cniVersion?: string;
}

/** The pod. */
export class PodNetworks implements Disposable {
  readonly #hosts = TestHosts.create();
  readonly #delegates: readonly Delegate[];
  /** Where results are remembered. */
  readonly cache: AttachmentCache = new AttachmentCache(this.#hosts.directory);
  /** The annotation's entry for each attachment. */
  readonly statuses: NetworkStatus[] = [];

  /** @param requests The gateways that each network is asked to have */
  constructor(requests: { readonly [Name in PodInterface]?: Gateways }) {
    const { eth0, net1 } = requests;
    this.#delegates = markDefaultRoutes(delegatesWith(eth0, net1));
  }

  /** Its namespace. */
  get sandbox(): NetNs {
    return this.#hosts.sandbox;
  }

  /**
   * Runs ADD for an interface, and what comes after it.
   *
   * @returns What the plugin answered, with the default routes that there are
   */
  async attach(
    ifName: PodInterface,
    { subnets, defaults = [], cniVersion = "1.1.0" }: PodNetwork,
  ): Promise<JsonObject> {
    const network = `of-${ifName}`;
    const ipam = { ...this.#hosts.hostLocal(...subnets), routes: defaults };
    const config = {
      cniVersion,
      name: network,
      type: "bridge",
      bridge: `br-${ifName}`,
      isGateway: true,
      ipam,
    };
    const added = await this.#hosts.run("bridge", "ADD", config, { ifName });
    assertSuccess(added);
    const key = { network, containerId: "test-container", ifName };
    this.cache.writeAttachment({
      ...key,
      netns: this.sandbox.path,
      config: new TextEncoder().encode(JSON.stringify(config)),
      cniArgs: [],
      capabilityArgs: {},
    }, added.json);
    const index = INTERFACES.indexOf(ifName);
    const document = this.#route(ifName, index, added.json);
    this.cache.replaceResult(key, document);
    return document;
  }

  #route(ifName: string, index: number, document: JsonObject): JsonObject {
    const delegate = this.#delegates[index] as Delegate;
    const routed = applyDefaultRoute({
      args: { netns: this.sandbox.path },
      ifName,
      delegate,
      delegates: this.#delegates,
      document,
      result: decodeResult(document),
    });
    this.statuses.push(...buildNetworkStatus({
      delegate,
      isMaster: index === 0,
      result: decodeResult(routed),
    }));
    return routed;
  }

  /** Lists the default routes of the sandbox. */
  defaults(): string[] {
    return defaultRoutes(this.sandbox);
  }

  /** Returns the interface for packets to an address; undefined if unreachable. */
  leavesBy(address: string): string | undefined {
    try {
      return ipJson(this.sandbox, "route", "get", address)[0].dev;
    } catch {
      return undefined;
    }
  }

  /** Reads the default routes of the remembered results, as `gateway destination`. */
  remembered(): string[] {
    return this.cache.listAttachments().flatMap(({ result = {} }) =>
      decodeResult(result).routes
        .filter(({ dst }) => dst.prefixLength === 0)
        .map(({ dst, gw }) => `${gw ?? "-"} ${dst}`)
    );
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    this.#hosts[Symbol.dispose]();
  }
}
