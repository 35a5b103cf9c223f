/**
 * Asks the next router whether it is there.
 *
 * @module
 */

import { isErrno, SyscallError } from "../../../ffi/errno.ts";
import { waitReadable } from "../../../ffi/libc.ts";
import { EchoSocket, type EchoTarget } from "../../../ffi/socket/ping.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../../ffi/rtnl/neighbor.ts";
import type { Ip } from "../../../net/ip.ts";
import type { Patience } from "../node.ts";
import { doubt, ends, type Outcome, passes } from "./trip.ts";

/** Asks a neighbour for its MAC and a sign of life. */
export async function askNeighbor(
  rtnl: Rtnl,
  destination: Ip,
  { attempts, timeoutMs, source, link, inNetns }: Patience & {
    readonly source?: Ip;
    readonly link: string;
    /** Writes a command as it runs in the namespace. */
    inNetns(command: string): string;
  },
): Promise<Outcome> {
  try {
    for (let attempt = 0; attempt < attempts; attempt++) {
      if (await ping(rtnl, { destination, source, link }, timeoutMs)) {
        return passes(`the gateway ${destination} answers by "${link}"`);
      }
    }
  } catch (error) {
    if (!isRefusedByRules(error)) throw error;
    return doubt(
      `firewall rules refuse pings to the gateway ${destination} by "${link}"`,
      { look: inNetns("nft list ruleset") },
    );
  }
  const look = inNetns("ip neighbour");
  const known = new NeighborRequests(rtnl.socket)
    .list({ family: destination.family })
    .find(({ ip, mac }) => ip.equals(destination) && mac !== undefined);
  return known === undefined
    ? ends(
      `the gateway ${destination} does not tell its MAC on "${link}"`,
      {
        advice:
          "look at the gateway: nothing on this side fixes it, unless a " +
          "link is down or ARP is off",
        look,
      },
    )
    : doubt(
      `the gateway ${destination} has MAC ${known.mac}, but does not answer pings`,
      { look },
    );
}

/**
 * Reports whether rules of the sender's own namespace dropped a packet. The
 * kernel then answers its sender with EPERM.
 */
function isRefusedByRules(error: unknown): boolean {
  return error instanceof SyscallError && error.syscall === "send" &&
    error.errno === "EPERM";
}

/** Sends a ping and waits for the reply. Returns false without a route. */
async function ping(
  rtnl: Pick<Rtnl, "netns">,
  target: EchoTarget,
  timeoutMs: number,
): Promise<boolean> {
  try {
    return await sendPing(rtnl, target, timeoutMs);
  } catch (error) {
    const isSilent = isErrno(error, "ENETUNREACH", "EHOSTUNREACH", "ENETDOWN");
    if (isSilent) return false;
    throw error;
  }
}

/**
 * Sends a ping and waits for the reply.
 *
 * @throws {SyscallError} As {@linkcode EchoSocket.open} and its `send`
 */
export async function sendPing(
  { netns }: Pick<Rtnl, "netns">,
  target: EchoTarget,
  timeoutMs: number,
): Promise<boolean> {
  using socket = EchoSocket.open(netns, target);
  socket.send();
  const end = performance.now() + timeoutMs;
  for (let left = timeoutMs; left > 0; left = end - performance.now()) {
    await waitReadable(socket.fd, Math.ceil(left));
    if (socket.hasReply()) return true;
  }
  return false;
}
