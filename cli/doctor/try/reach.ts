/**
 * The targets that a network must let its containers reach, and tries to reach them,
 * by ping and by a question to a name server.
 *
 * @module
 */

import { isErrno, SyscallError } from "../../../ffi/errno.ts";
import { waitReadable } from "../../../ffi/libc.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import { UdpSocket } from "../../../ffi/socket/udp_socket.ts";
import { type Bytes, viewOf } from "../../../net/bytes.ts";
import { Ip, type IpFamily } from "../../../net/ip.ts";
import { sendPing } from "../way/neighbor.ts";
import type { ConfiguredNetwork, Node, Patience } from "../node.ts";
import { ifPossible, readTextFile } from "../../../base/files/io.ts";
import type { Result } from "../../../cni/result/result.ts";
import { valueOf } from "../../../metadata/plugin_metadata.ts";
import { parseResolvConf } from "../../../ipam/host_local/inspect.ts";

/** Those who are reached. */
export type Party = "A" | "B" | "node" | "gateway" | "outside" | "name";

/** One attempt. */
export interface Attempt {
  readonly from: Party;
  readonly netns: NetNs;
  readonly to: Party;
  readonly address: Ip;
  /** The sender's address; the kernel chooses one if undefined. */
  readonly source?: Ip | undefined;
}

/** Its outcome. */
export interface Reach {
  readonly from: Party;
  readonly to: Party;
  readonly address: string;
  readonly reached: boolean;
  readonly milliseconds: number;
  /** Why it failed; null without an answer. */
  readonly error: string | null;
}

/** Makes an attempt. */
export async function reach(
  { from, netns, to, address, source }: Attempt,
  { attempts, timeoutMs }: Patience,
  signal: AbortSignal,
): Promise<Reach> {
  const start = performance.now();
  let reached = false;
  let error: string | null = null;
  try {
    for (let at = 0; at < attempts && !reached; at++) {
      signal.throwIfAborted();
      reached = to === "name"
        ? await askName(netns, address, timeoutMs)
        : await sendPing(
          { netns },
          { destination: address, source },
          timeoutMs,
        );
    }
  } catch (thrown) {
    if (!(thrown instanceof SyscallError)) throw thrown;
    error = explain(thrown);
  }
  const milliseconds = Math.round((performance.now() - start) * 10) / 10;
  return { from, to, address: `${address}`, reached, milliseconds, error };
}

function explain(error: SyscallError): string {
  if (isErrno(error, "ENETUNREACH", "EHOSTUNREACH")) return "no route";
  if (isErrno(error, "EPERM")) return "refused by rules of the sender";
  if (isErrno(error, "ECONNREFUSED")) return "nothing listens on port 53";
  if (isErrno(error, "EADDRNOTAVAIL")) return "the sender lacks its address";
  return error.message;
}

const DNS_PORT = 53;
/** Where the flags of a message are, and the bit of answers. Source: RFC 1035. */
const FLAGS_AT = 2, IS_ANSWER = 0x8000;

/** Asks a name server for the servers of the root, which every resolver knows. */
async function askName(
  netns: NetNs,
  server: Ip,
  timeoutMs: number,
): Promise<boolean> {
  using socket = new UdpSocket(netns, server, DNS_PORT);
  const question = encodeQuestion();
  socket.send(question);
  const end = performance.now() + timeoutMs;
  for (let left = timeoutMs; left > 0; left = end - performance.now()) {
    await waitReadable(socket.fd, Math.ceil(left));
    const answer = socket.receive();
    if (answer !== undefined && isAnswer(answer, question)) return true;
  }
  return false;
}

/** A question for `. IN NS`, with recursion. Source: RFC 1035, section 4.1. */
function encodeQuestion(): Bytes {
  const id = crypto.getRandomValues(new Uint8Array(2));
  const rest = [1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
  return new Uint8Array([...id, ...rest]);
}

function isAnswer(answer: Bytes, question: Bytes): boolean {
  return answer.length >= FLAGS_AT + 2 && answer[0] === question[0] &&
    answer[1] === question[1] &&
    (viewOf(answer).getUint16(FLAGS_AT) & IS_ANSWER) !== 0;
}

/** Where it is looked up what containers use. */
export interface AttemptOptions {
  /** The resolver's configuration that pods get if their network has none. */
  readonly resolvConf: string;
}

/** Lists what must be reached if the network does what it was written for. */
export function listAttempts(
  node: Node,
  { plugins }: ConfiguredNetwork,
  netns: readonly NetNs[],
  results: readonly Result[],
  options: AttemptOptions,
): Attempt[] {
  const own = node.host.address.list().map(({ address }) => address.ip);
  const isOwn = (ip: Ip): boolean => own.some((one) => one.equals(ip));
  const masquerades = plugins.some(({ document }) =>
    valueOf(document, "ipMasq") === true
  );
  const [first, second] = results;
  const [a, b] = netns;
  if (!first || !second || !a || !b) return [];
  const attempts: Attempt[] = [];
  const add = (from: Party, by: NetNs, to: Party, address: Ip): void => {
    attempts.push({ from, netns: by, to, address });
  };
  for (const family of [4, 6] as const) {
    const [ipA, ipB] = [first, second].map((one) => ipOf(one, family));
    if (ipA === undefined || ipB === undefined) continue;
    add("A", a, "B", ipB.address.ip);
    add("B", b, "A", ipA.address.ip);
    const { gateway } = ipA;
    const isRouted = gateway !== undefined && isOwn(gateway);
    // host-local names a gateway for each subnet, whether or not there is one.
    const isUsed = isRouted ||
      first.routes.some(({ dst }) => dst.family === family);
    if (gateway !== undefined && isUsed) {
      for (const [name, by] of [["A", a], ["B", b]] as const) {
        add(
          name,
          by,
          "gateway",
          ipOf(name === "A" ? first : second, family)
            ?.gateway ?? gateway,
        );
      }
    }
    if (!isRouted) continue;
    add("node", node.host.netns, "A", ipA.address.ip);
    add("node", node.host.netns, "B", ipB.address.ip);
    const [uplink] = node.host.route.list({ family }).filter((route) =>
      route.destination.prefixLength === 0 && route.ifindex !== undefined
    ).sort((left, right) => (left.priority ?? 0) - (right.priority ?? 0));
    const hasDefault = first.routes.some(({ dst }) =>
      dst.family === family && dst.prefixLength === 0
    );
    if (uplink === undefined || !hasDefault) continue;
    const address = node.host.address.list({ ifindex: uplink.ifindex ?? 0 })
      .find(({ address: { ip } }) => ip.family === family && !ip.isLinkLocal);
    if (address !== undefined) {
      add("A", a, "node", address.address.ip);
      add("B", b, "node", address.address.ip);
    }
    // Without masquerading, the outside needs a route back, which it may not have.
    if (!masquerades || uplink.gateway === undefined) continue;
    add("A", a, "outside", uplink.gateway);
    add("B", b, "outside", uplink.gateway);
  }
  for (const server of listServers(first, masquerades, options)) {
    add("A", a, "name", server);
    add("B", b, "name", server);
  }
  return attempts;
}

function ipOf(
  { ips }: Result,
  family: IpFamily,
): Result["ips"][number] | undefined {
  return ips.find(({ address }) => address.family === family);
}

/** Lists the name servers that containers of a network use, and can reach. */
function listServers(
  { dns, ips, routes }: Result,
  masquerades: boolean,
  { resolvConf }: AttemptOptions,
): Ip[] {
  const ofNetwork = dns.nameservers;
  // A network without a way out is not meant to reach the node's servers.
  const hasWay = masquerades &&
    routes.some(({ dst }) => dst.prefixLength === 0);
  const text = ifPossible(() => readTextFile(resolvConf)) ?? "";
  const named = ofNetwork.length > 0
    ? ofNetwork
    : hasWay
    ? parseResolvConf(text).nameservers
    : [];
  return named.flatMap((text) => ifPossible(() => Ip.parse(text)) ?? [])
    .filter((ip) =>
      !ip.isLoopback && !ip.isLinkLocal &&
      ips.some(({ address }) => address.family === ip.family)
    ).slice(0, 1);
}
