/**
 * Links of one namespace: create, look up, change, delete.
 *
 * @module
 */

import type { Mac } from "../../net/mac.ts";
import { isErrno } from "../errno.ts";
import { Flag } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import type { NetNs } from "../netns.ts";
import { delLink, getLink, newLink } from "./link_message.ts";

/** Source: include/uapi/linux/if.h. */
const IFF_UP = 1;
/** Leaves the counters, most of a link's reply, out. Source: include/uapi/linux/rtnetlink.h. */
const RTEXT_FILTER_SKIP_STATS = 8;

/** A link as the kernel has it. */
export interface Link {
  /** Index within its namespace. */
  readonly index: number;
  readonly name: string;
  /** Kind, as in `veth`; "" for physical links and loopback. */
  readonly kind: string;
  readonly mac: Mac | undefined;
  readonly mtu: number;
  /** Whether it is administratively up. */
  readonly isUp: boolean;
  /** Index of a veth's peer, or of the link below, in whichever namespace that is. */
  readonly linkIndex: number | undefined;
  /** Index of the bridge or VRF it is a port of. */
  readonly masterIndex: number | undefined;
  readonly alias: string | undefined;
}

/** A veth pair to create. */
export interface NewVeth {
  /** Name of the end in this socket's namespace, 1 to 15 bytes. */
  readonly name: string;
  /** MTU of both ends in bytes; the kernel's default if undefined. */
  readonly mtu?: number | undefined;
  readonly peer: {
    /** The namespace in which the other end is born; it is never moved. */
    readonly netns: NetNs;
    readonly name: string;
    /** The kernel chooses one if undefined. */
    readonly mac?: Mac | undefined;
  };
}

/** Links of the namespace in which the socket was opened. */
export class LinkRequests {
  readonly #socket: NetlinkSocket;

  /** @param socket Borrowed, not closed */
  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /**
   * Creates a veth pair with one end here, up, and the other born in another
   * namespace, down.
   *
   * One queue a side: the kernel would else make one for each processor and
   * then wait, twice, until all but the first are gone again.
   *
   * @returns The end in this namespace
   * @throws {NetlinkError} EEXIST if either name is taken
   */
  addVeth({ name, mtu, peer }: NewVeth): Link {
    const shared = { mtu, transmitQueues: 1, receiveQueues: 1 };
    const answers = this.#socket.request(newLink, {
      flags: Flag.Create | Flag.Exclusive | Flag.Echo,
      header: { flags: IFF_UP, change: IFF_UP },
      attributes: {
        name,
        ...shared,
        linkInfo: {
          kind: "veth",
          data: {
            peer: {
              header: {},
              attributes: {
                name: peer.name,
                address: peer.mac,
                netnsFd: peer.netns.fd,
                ...shared,
              },
            },
          },
        },
      },
    }, newLink);
    // Kernels before 6.2 do not echo a new link.
    return answers[0] === undefined ? this.get(name) : decodeLink(answers[0]);
  }

  /**
   * Looks a link up.
   *
   * @throws {NetlinkError} ENODEV if there is none of that name or index
   */
  get(link: string | number): Link {
    const [answer] = this.#socket.request(getLink, {
      header: headerOf(link),
      attributes: {
        ...nameOf(link),
        extendedMask: RTEXT_FILTER_SKIP_STATS,
      },
    }, newLink);
    if (answer === undefined) {
      throw new Error(`Cannot read link "${link}": the kernel sent none`);
    }
    return decodeLink(answer);
  }

  /** Looks a link up, and returns undefined if there is none. */
  find(link: string | number): Link | undefined {
    try {
      return this.get(link);
    } catch (error) {
      if (isErrno(error, "ENODEV")) return undefined;
      throw error;
    }
  }

  /** Lists all links of the namespace. */
  list(): Link[] {
    return this.#socket.dump(getLink, {
      header: {},
      attributes: { extendedMask: RTEXT_FILTER_SKIP_STATS },
    }, newLink).map(decodeLink);
  }

  /**
   * Brings a link up.
   *
   * @throws {NetlinkError} ENODEV
   */
  setUp(index: number): void {
    this.#socket.request(newLink, {
      header: { index, flags: IFF_UP, change: IFF_UP },
    });
  }

  /**
   * Gives a link an alias, a text for people and programs.
   *
   * @param alias At most 255 bytes
   * @throws {NetlinkError} ENODEV, EINVAL if the alias is too long
   */
  setAlias(index: number, alias: string): void {
    this.#socket.request(newLink, { header: { index }, attributes: { alias } });
  }

  /**
   * Brings a link down.
   *
   * @throws {NetlinkError} ENODEV
   */
  setDown(index: number): void {
    this.#socket.request(newLink, {
      header: { index, flags: 0, change: IFF_UP },
    });
  }

  /**
   * Deletes a link; a veth takes its peer along. The kernel waits until no
   * processor uses it any more, about 15 ms.
   *
   * @throws {NetlinkError} ENODEV if there is none
   */
  del(link: string | number): void {
    this.#socket.request(delLink, {
      header: headerOf(link),
      attributes: nameOf(link),
    });
  }

  /**
   * Deletes a link if it is there.
   *
   * @returns Whether it was there
   */
  ensureGone(link: string | number): boolean {
    try {
      this.del(link);
      return true;
    } catch (error) {
      if (isErrno(error, "ENODEV")) return false;
      throw error;
    }
  }
}

function headerOf(link: string | number): { index?: number } {
  return typeof link === "number" ? { index: link } : {};
}

function nameOf(link: string | number): { name?: string } {
  return typeof link === "string" ? { name: link } : {};
}

type LinkAnswer = ReturnType<typeof newLink.decode>;

function decodeLink({ header, attributes }: LinkAnswer): Link {
  return {
    index: header.index,
    name: attributes.name ?? "",
    kind: attributes.linkInfo?.kind ?? "",
    mac: attributes.address,
    mtu: attributes.mtu ?? 0,
    isUp: (header.flags & IFF_UP) !== 0,
    linkIndex: attributes.link,
    masterIndex: attributes.master,
    alias: attributes.alias,
  };
}
