/**
 * What tools may ask of portmap: the ports that runtimes have it map.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { decode, type JsonObject } from "../../base/json/json.ts";
import type { Result } from "../../cni/result/result.ts";
import {
  firstAddressesOf,
  type ForwardedPort,
  isSameHostPort,
  type Mapping,
  portsOf,
  toMapping,
} from "./mapping.ts";
import { mappingSchema } from "./schema.ts";

export { type ForwardedPort, isSameHostPort, portsOf };

/**
 * Lists the mappings that a runtime asked for, with keys in any case: containerd
 * writes `HostPort`. Mappings that ADD refuses are missing.
 *
 * @param capabilityArgs The capability arguments of an attachment
 */
export function listMappings({ portMappings }: JsonObject): Mapping[] {
  const given = Array.isArray(portMappings) ? portMappings : [];
  return given.flatMap((one) =>
    ifPossible(() => toMapping(decode(mappingSchema(), one, "it"))) ?? []
  );
}

/**
 * Lists the ports of the host that lead to an attachment, by the family of its
 * addresses.
 *
 * @param result The result of ADD
 */
export function listForwardedPorts(
  { capabilityArgs, ifName }: {
    readonly capabilityArgs: JsonObject;
    readonly ifName: string;
  },
  result: Result,
): ForwardedPort[] {
  const addresses = firstAddressesOf(result, ifName);
  return portsOf({ addresses, mappings: listMappings(capabilityArgs) });
}
