/**
 * Mistakes in a configuration of bridge, and keys without effect.
 *
 * @module
 */

import type { Linted } from "../../metadata/plugin_metadata.ts";
import {
  errorAt,
  keyWarningAt,
  listOf,
  type Problem,
  readCidr,
  readIp,
  warningAt,
} from "../../metadata/problem.ts";
import { type JsonObject, objectOf } from "../../base/json/json.ts";
import { typeHas } from "../parts/traits.ts";
import { gatewayFor } from "./inspect.ts";
import { MAX_VLAN } from "./trunk.ts";

/** With either of these keys, the bridge has the gateway's address. */
export const GATEWAY_KEYS = ["isGateway", "isDefaultGateway"];

/** Finds fixed addresses that the bridge itself would have. */
function lintGateways({ type, addresses }: JsonObject): Problem[] {
  if (!typeHas(type, "assigns requests")) return [];
  return listOf(addresses).flatMap(({ address, gateway }, index) => {
    const own = readCidr(address);
    if (own === undefined) return [];
    const bridge = readIp(gateway) ?? gatewayFor(own);
    return !bridge.equals(own.ip) ? [] : [
      errorAt(
        ["ipam", "addresses", index, "address"],
        `${own.ip} is the bridge's own: it is the gateway`,
      ),
    ];
  });
}

/** See {@linkcode Lint}. */
export function lint({ conf }: Linted): Problem[] {
  const hasIpam = Boolean(objectOf(conf["ipam"])["type"]);
  const idle = [
    "isGateway",
    "isDefaultGateway",
    "ipMasq",
    "forceAddress",
    "conflictCheck",
  ].filter((key) => conf[key] === true && !hasIpam)
    .map((key) => keyWarningAt([key], 'no effect without "ipam"', "no-effect"));
  const trunk = listOf(conf["vlanTrunk"]).flatMap((item, index) =>
    ["id", "minID", "maxID"]
      .filter((key) => Number(item[key]) < 1 || Number(item[key]) > MAX_VLAN)
      .map((key) =>
        errorAt(
          ["vlanTrunk", index, key],
          `incorrect trunk ${key} parameter: expected 1 to ${MAX_VLAN}`,
        )
      )
  );
  // A misspelt key is reported anyway.
  const { vlanTrunk } = conf;
  const empty = (Array.isArray(vlanTrunk) ? vlanTrunk : []).flatMap((
    item,
    index,
  ) =>
    JSON.stringify(item) !== "{}" ? [] : [
      warningAt(
        ["vlanTrunk", index],
        'no VLAN: set "id", or "minID" and "maxID"',
      ),
    ]
  );
  const gatewayKeys = GATEWAY_KEYS.filter((key) => conf[key] === true);
  const ipam = objectOf(conf["ipam"]);
  return [
    ...gatewayKeys.length > 0 ? lintGateways(ipam) : [],
    ...typeHas(ipam["type"], "needs router")
      ? gatewayKeys.map((key) =>
        errorAt(
          [key],
          `${
            ipam["type"]
          } needs a router in the network: the bridge cannot be one`,
        )
      )
      : [],
    ...idle,
    ...trunk,
    ...empty,
    ...conf["hairpinMode"] === true && conf["promiscMode"] === true
      ? [
        errorAt(
          ["promiscMode"],
          "cannot set hairpin mode and promiscuous mode at the same time",
        ),
      ]
      : [],
  ];
}
