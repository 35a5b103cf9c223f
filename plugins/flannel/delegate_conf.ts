/**
 * The configuration of flannel's delegate.
 *
 * Source: flannel-io/cni-plugin flannel_linux.go `doCmdAdd`, `getDelegateIPAM`.
 *
 * @module
 */

import type { JsonObject, JsonValue } from "../../base/json/json.ts";
import type { Call } from "../../cni/plugin.ts";
import type { FlannelConfig } from "./schema.ts";
import type { SubnetEnv } from "./subnet_env.ts";

/** The delegate's configuration: JSON with at least a name and a type. */
export interface DelegateConf extends JsonObject {
  name: string;
  type: string;
}

/**
 * Builds the delegate's configuration from the network's configuration and from the
 * subnets of the node. Keys of `delegate` take precedence over values of the node.
 *
 * @param env Undefined for a configuration that only DEL can use
 */
export function buildDelegateConf(
  { config, network }: Pick<Call<FlannelConfig>, "config" | "network">,
  env?: SubnetEnv,
): DelegateConf {
  const { cniVersion, runtimeConfig } = config;
  // They come from a JSON document and have not been changed.
  const delegate = (config.delegate ?? {}) as JsonObject;
  const { type = "bridge" } = delegate;
  return {
    ...env && { ipMasq: !env.ipMasq, mtu: env.mtu },
    ...type === "bridge" && { isGateway: true },
    ...delegate,
    ...cniVersion && { cniVersion },
    ...runtimeConfig && { runtimeConfig: runtimeConfig as JsonObject },
    type: String(type),
    name: network,
    ipam: buildIpam((config.ipam ?? {}) as JsonObject, env),
  };
}

function buildIpam(ipam: JsonObject, env: SubnetEnv | undefined): JsonObject {
  const named = { type: "host-local", ...ipam };
  if (env === undefined) return named;
  const given = (ipam["routes"] ?? []) as JsonValue[];
  const routes = env.networks.map((network) => ({ dst: String(network) }));
  return {
    ...named,
    ranges: env.subnets.map((subnet) => [{ subnet: String(subnet) }]),
    routes: [...given, ...routes],
  };
}
