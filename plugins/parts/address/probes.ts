/**
 * The sockets with which a link probes its network for addresses, with ARP and
 * neighbour discovery, and receives the answers.
 *
 * @module
 */

import type { Conflict } from "../../../cni/config/conflicts.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { checkChange } from "../../../ffi/change_check.ts";
import { ArpSocket } from "../../../ffi/socket/arp_socket.ts";
import type { SocketLink } from "../../../ffi/socket/link_socket.ts";
import { SolicitationSocket } from "../../../ffi/socket/solicitation_socket.ts";
import type { Ip } from "../../../net/ip.ts";

/** The location of a link, and of the links on which answers arrive. */
export interface ProbingPlace {
  /** The link's namespace. */
  readonly sandbox: Pick<Rtnl, "netns">;
  /** The host's link to the same network. */
  readonly host?: {
    readonly rtnl: Pick<Rtnl, "netns">;
    readonly link: Pick<Link, "index">;
    /**
     * Whether some answers only arrive on this link, because an ipvlan has its MAC
     * address.
     */
    readonly hasSameMac: boolean;
  } | undefined;
}

/**
 * Sockets that send probes and receive answers. They stay open while addresses are
 * replaced, because closing each takes the kernel at least 10 ms.
 */
export class Probes implements AsyncDisposable {
  readonly #arp: ArpSocket | undefined;
  readonly #ndp: SolicitationSocket | undefined;
  readonly #all: readonly (ArpSocket | SolicitationSocket)[];

  private constructor(
    arp: ArpSocket | undefined,
    hostArp: ArpSocket | undefined,
    ndp: SolicitationSocket | undefined,
  ) {
    this.#arp = arp;
    this.#ndp = ndp;
    this.#all = [arp, hostArp, ndp].filter((socket) => socket !== undefined);
  }

  /**
   * Opens the sockets for addresses of some families.
   *
   * @throws {SyscallError} ENODEV, ENETDOWN; EPERM without CAP_NET_RAW
   */
  static open(
    { sandbox: { netns }, host }: ProbingPlace,
    link: SocketLink,
    ips: readonly Ip[],
  ): Probes {
    using stack = new DisposableStack();
    const has = (wanted: Ip["family"]): boolean =>
      ips.some(({ family }) => family === wanted);
    const arp = has(4) ? stack.use(new ArpSocket(netns, link)) : undefined;
    const hostArp = arp !== undefined && host?.hasSameMac
      ? stack.use(
        new ArpSocket(host.rtnl.netns, {
          index: host.link.index,
          mac: link.mac,
        }),
      )
      : undefined;
    const ndp = has(6)
      ? stack.use(new SolicitationSocket(netns, link))
      : undefined;
    stack.move();
    return new Probes(arp, hostArp, ndp);
  }

  /**
   * Sends probes for an address.
   *
   * @throws {SyscallError} ENETDOWN
   */
  ask(ip: Ip): void {
    if (ip.family === 4) this.#arp?.ask(ip);
    else this.#ndp?.ask(ip);
  }

  /** Returns the answers about some addresses that have arrived, by address. */
  hear(ips: readonly Ip[]): Map<string, Conflict> {
    const found = new Map<string, Conflict>();
    for (const socket of this.#all) {
      for (const one of socket.receiveClaims()) {
        const { ip } = one;
        if (ips.some((own) => own.equals(ip))) found.set(String(ip), one);
      }
    }
    return found;
  }

  /**
   * Announces that the link has an IPv4 address.
   *
   * Source: RFC 5227, section 2.3.
   */
  announce(ip: Ip): void {
    checkChange();
    if (ip.family === 4) this.#arp?.ask(ip, ip);
  }

  /** Closes the sockets, all at the same time. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#all.map((one) => one.closeInBackground()));
  }
}
