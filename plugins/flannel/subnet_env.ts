/**
 * Reads flanneld's `subnet.env`, which contains the subnets of this node.
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

import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { Cidr } from "../../net/cidr.ts";
import { readTextFile } from "../../base/files/io.ts";

/** flanneld's default path. */
export const SUBNET_FILE = "/run/flannel/subnet.env";

/** The content of the file. */
export interface SubnetEnv {
  /** The cluster's networks, IPv4 first, without duplicates. */
  readonly networks: readonly Cidr[];
  /** The node's subnets, at most one for each family, IPv4 first. */
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

/** Parses the text; the last of several lines with the same key counts. */
function parseSubnetEnv(text: string, path: string): SubnetEnv {
  const pairs = text.split(/\r?\n/).map((line) => line.split(/=(.*)/, 2));
  const values = new Map(pairs.map(([key, value = ""]) => [key, value]));
  const missing: string[] = [];
  /** Reads keys; a single valid key is enough. */
  const read = <T>(parse: (value: string) => T, ...keys: string[]): T[] => {
    const found = keys.filter((key) => values.has(key));
    if (found.length === 0) missing.push(...keys);
    return found.map((key) => {
      try {
        return parse(values.get(key) ?? "");
      } catch (error) {
        throw new Error(`${path}: ${key}: ${describeError(error)}`);
      }
    });
  };
  const networks = read(
    parseNetworks,
    "FLANNEL_NETWORK",
    "FLANNEL_IPV6_NETWORK",
  ).flat();
  const subnets = read(parseNetwork, "FLANNEL_SUBNET", "FLANNEL_IPV6_SUBNET");
  const [mtu = 0] = read(parseMtu, "FLANNEL_MTU");
  const [ipMasq = false] = read((value) => value === "true", "FLANNEL_IPMASQ");
  if (missing.length > 0) {
    throw new Error(`${path} is missing ${missing.join(", ")}`);
  }
  return { networks, subnets, mtu, ipMasq };
}

function parseNetwork(text: string): Cidr {
  return Cidr.parse(text).masked();
}

/** Parses a comma-separated list, in which a network can be repeated. */
function parseNetworks(text: string): Cidr[] {
  const networks = text.split(",").map(parseNetwork);
  return networks.filter((network, index) =>
    networks.findIndex((other) => other.equals(network)) === index
  );
}

function parseMtu(text: string): number {
  const mtu = Number(text);
  if (/^\d+$/.test(text) && mtu < 2 ** 32) return mtu;
  throw new Error(`expected an integer below 2^32, got "${text}"`);
}
