/**
 * Reading flanneld's `subnet.env`, which names the subnets of this node.
 *
 * ```
 * FLANNEL_NETWORK=10.244.0.0/16
 * FLANNEL_SUBNET=10.244.1.1/24
 * FLANNEL_MTU=1450
 * FLANNEL_IPMASQ=true
 * ```
 *
 * Source: flannel-io/cni-plugin flannel.go `loadFlannelSubnetEnv`.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../cni/error.ts";
import { Cidr } from "../../net/cidr.ts";
import { readTextFile } from "../../cni/files/io.ts";

/** The content of the file. */
export interface SubnetEnv {
  /** The cluster's networks, IPv4 first, each once. */
  readonly networks: readonly Cidr[];
  /** The node's subnets, at most one of each family, IPv4 first. */
  readonly subnets: readonly Cidr[];
  /** MTU of the network in bytes. */
  readonly mtu: number;
  /** Whether flanneld masquerades, so that the delegate need not. */
  readonly ipMasq: boolean;
}

/**
 * Reads the file.
 *
 * @throws {CniError} 11 if it does not exist yet, 5 if it cannot be read, 7 if
 *   its content is wrong
 */
export function readSubnetEnv(path: string): SubnetEnv {
  let code: number = ErrorCode.IoFailure;
  try {
    const text = readTextFile(path);
    code = ErrorCode.InvalidNetworkConfig;
    return parseSubnetEnv(text, path);
  } catch (error) {
    const isMissing = error instanceof Deno.errors.NotFound;
    const reason = isMissing
      ? `open ${path}: no such file or directory`
      : describeError(error);
    throw new CniError(
      isMissing ? ErrorCode.TryAgainLater : code,
      `failed to load flannel 'subnet.env' file: ${reason}. ` +
        "Check the flannel pod log for this node",
    );
  }
}

/** Parses the text; the last one of several lines with one key counts. */
function parseSubnetEnv(text: string, path: string): SubnetEnv {
  const values = new Map(
    text.split(/\r?\n/).map((line): [string, string] => {
      const [key = ""] = line.split("=", 1);
      return [key, line.slice(key.length + 1)];
    }),
  );
  const read = <T>(key: string, parse: (value: string) => T): T[] => {
    const value = values.get(`FLANNEL_${key}`);
    if (value === undefined) return [];
    try {
      return [parse(value)];
    } catch (error) {
      throw new Error(`${path}: FLANNEL_${key}: ${describeError(error)}`);
    }
  };
  const readNetworks = (key: string): Cidr[] =>
    dropRepeated(read(key, (value) => value.split(",").map(parseNetwork)));
  const networks = [
    ...readNetworks("NETWORK"),
    ...readNetworks("IPV6_NETWORK"),
  ];
  const subnets = [
    ...read("SUBNET", parseNetwork),
    ...read("IPV6_SUBNET", parseNetwork),
  ];
  const [mtu] = read("MTU", parseMtu);
  const [ipMasq] = read("IPMASQ", (value) => value === "true");
  const missing = [
    networks.length === 0 && "FLANNEL_NETWORK, FLANNEL_IPV6_NETWORK",
    subnets.length === 0 && "FLANNEL_SUBNET, FLANNEL_IPV6_SUBNET",
    mtu === undefined && "FLANNEL_MTU",
    ipMasq === undefined && "FLANNEL_IPMASQ",
  ].filter(Boolean);
  if (mtu === undefined || ipMasq === undefined || missing.length > 0) {
    throw new Error(`${path} is missing ${missing.join(", ")}`);
  }
  return { networks, subnets, mtu, ipMasq };
}

function parseNetwork(text: string): Cidr {
  return Cidr.parse(text).masked();
}

function dropRepeated(lists: readonly Cidr[][]): Cidr[] {
  const networks = lists.flat();
  return networks.filter((network, index) =>
    networks.findIndex((other) => other.equals(network)) === index
  );
}

function parseMtu(text: string): number {
  const mtu = Number(text);
  if (/^\d+$/.test(text) && mtu < 2 ** 32) return mtu;
  throw new Error(`expected an integer below 2^32, got "${text}"`);
}
