/**
 * Mistakes in the addresses of a configuration of static.
 *
 * @module
 */

import type { GivenSubnet, Linted } from "../../metadata/plugin_metadata.ts";
import {
  errorAt,
  listOf,
  type Problem,
  readCidr,
  readIp,
  warningAt,
} from "../../metadata/problem.ts";
import { isObject, type JsonObject, objectOf } from "../../base/json/json.ts";

/** See {@linkcode Lint}. */
export function lint({ conf, capabilities }: Linted): Problem[] {
  const ipam = objectOf(conf["ipam"]);
  const addresses = listOf(ipam["addresses"]);
  const none = addresses.length === 0 && !capabilities["ips"]
    ? [
      warningAt(
        ["ipam", "addresses"],
        'no address: neither "addresses" nor the capability "ips" is set',
      ),
    ]
    : [];
  return [
    ...none,
    ...addresses.flatMap(({ address, gateway }, index) => {
      const place = ["ipam", "addresses", index];
      const own = readCidr(address), router = readIp(gateway);
      const { ip, network, broadcast } = own ?? {};
      const isEntry = Array.isArray(ipam["addresses"]) &&
        isObject(ipam["addresses"][index]);
      if (isEntry && !address && !capabilities["ips"]) {
        return [
          errorAt(
            [...place, "address"],
            'missing: without the capability "ips" no pod can request one',
          ),
        ];
      }
      if (own === undefined || ip === undefined) return [];
      if (router !== undefined && router.family !== ip.family) {
        return [
          errorAt(
            [...place, "gateway"],
            `${router} is not an IPv${ip.family} address, as ${ip} is`,
          ),
        ];
      }
      const first = addresses.findIndex((other) =>
        other["address"] === address
      );
      return [
        ...first < index
          ? [warningAt([...place, "address"], `${ip} is repeated`)]
          : [],
        // With requested addresses, an entry can represent its subnet.
        ...broadcast && network && !capabilities["ips"] &&
            (ip.equals(network) || ip.equals(broadcast))
          ? [
            warningAt(
              [...place, "address"],
              `${ip} is the ${
                ip.equals(network) ? "network's" : "broadcast"
              } address of ${own.masked()}`,
            ),
          ]
          : [],
        ...router === undefined || own.contains(router) ? [] : [
          warningAt(
            [...place, "gateway"],
            `${router} is not in ${own}: containers reach it on the link`,
            "gateway-off-subnet",
          ),
        ],
        ...router?.equals(ip)
          ? [
            warningAt(
              [...place, "gateway"],
              `${ip} is the container's address`,
            ),
          ]
          : [],
      ];
    }),
  ];
}

/** Lists the subnets of the addresses: a container has all of them. */
export function listSubnets(ipam: JsonObject): GivenSubnet[][] {
  return listOf(ipam["addresses"]).map(({ address, gateway }, index) => {
    const subnet = readCidr(address)?.masked();
    const place = ["addresses", index, "address"];
    return subnet === undefined
      ? []
      : [{ place, subnet, gateway: readIp(gateway) }];
  });
}
