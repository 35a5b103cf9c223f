/**
 * What links are, and what can be asked for of them.
 *
 * @module
 */

import type { Mac } from "../../net/mac.ts";
import type { NetNs } from "../netns.ts";

/** A link as the kernel has it. */
export interface Link {
  /** Index within its namespace. */
  readonly index: number;
  /** Its name there, 1 to 15 bytes. */
  readonly name: string;
  /** Kind, as in `veth`; "" for physical links and loopback. */
  readonly kind: string;
  /** The link-layer address, if it has one of 48 bits. */
  readonly mac: Mac | undefined;
  /** In bytes. */
  readonly mtu: number;
  /** Whether it is administratively up. */
  readonly isUp: boolean;
  /** Index of a veth's peer, or of the link below, in whichever namespace that is. */
  readonly linkIndex: number | undefined;
  /** Index of the bridge or VRF it is a port of. */
  readonly masterIndex: number | undefined;
  /** A text for people and programs. */
  readonly alias: string | undefined;
  /** Whether packets pass: it is up, and so is what it depends on. */
  readonly isOperational: boolean;
  /** Whether it takes in all frames, whoever they are for. */
  readonly isPromiscuous: boolean;
  /** A bridge's: whether its ports have VLANs. */
  readonly hasVlanFiltering: boolean;
  /** A bridge port's: whether frames may go out where they came in. */
  readonly hasHairpin: boolean;
  /** A bridge port's: whether it is cut off from other ports that are. */
  readonly isIsolated: boolean;
}

/** A bridge to create. */
export interface NewBridge {
  /** 1 to 15 bytes. */
  readonly name: string;
  /** In bytes; the kernel's default if undefined. */
  readonly mtu?: number | undefined;
  /** One that is given stays, whichever ports come and go. */
  readonly mac?: Mac | undefined;
  /** Whether its ports have VLANs. */
  readonly vlanFiltering?: boolean | undefined;
}

/** What can be changed of a link; what is undefined stays. */
export interface LinkChange {
  /** The link-layer address. */
  readonly mac?: Mac | undefined;
  /** In bytes. */
  readonly mtu?: number | undefined;
  /** Index of the bridge or VRF to make it a port of; 0 for none. */
  readonly masterIndex?: number | undefined;
  /** Whether it takes in all frames, whoever they are for. */
  readonly isPromiscuous?: boolean | undefined;
}

/** What can be changed of a bridge. */
export interface BridgeChange {
  /** Whether its ports have VLANs. */
  readonly vlanFiltering: boolean;
}

/** What can be changed of a bridge's port; what is undefined stays. */
export interface BridgePortChange {
  /** Whether frames may go out where they came in. */
  readonly hairpin?: boolean | undefined;
  /** Whether it is cut off from other ports that are. */
  readonly isolated?: boolean | undefined;
}

/** A veth pair to create. */
export interface NewVeth {
  /** Name of the end in this socket's namespace, 1 to 15 bytes. */
  readonly name: string;
  /** MTU of both ends in bytes; the kernel's default if undefined. */
  readonly mtu?: number | undefined;
  /** Index of the bridge that the end here becomes a port of. */
  readonly masterIndex?: number | undefined;
  /** The other end. */
  readonly peer: {
    /** The namespace in which the other end is born; it is never moved. */
    readonly netns: NetNs;
    readonly name: string;
    /** The kernel chooses one if undefined. */
    readonly mac?: Mac | undefined;
  };
}

/** An intermediate functional block to create. */
export interface NewIfb {
  /** 1 to 15 bytes. */
  readonly name: string;
  /** In bytes. */
  readonly mtu: number;
  /** How many packets its queue holds, where that has no limit of its own. */
  readonly transmitQueueLength: number;
}
