/**
 * Types of links, of links to create and of changes.
 *
 * @module
 */

import type { Mac } from "../../net/mac.ts";
import type { NetNs } from "../netns.ts";
import type { KindData } from "./link_kinds.ts";

/** A link as the kernel has it. */
export interface Link {
  /** Index within its namespace. */
  readonly index: number;
  /** Its name in that namespace, 1 to 15 bytes. */
  readonly name: string;
  /** Kind, such as `veth`; "" for physical links and loopback. */
  readonly kind: string;
  /** The link-layer address, if it has 48 bits. */
  readonly mac: Mac | undefined;
  /** In bytes. */
  readonly mtu: number;
  /** Whether it is administratively up. */
  readonly isUp: boolean;
  /** Index of a veth's peer or of the lower link, in that link's namespace. */
  readonly linkIndex: number | undefined;
  /** The nsid of that link's namespace; undefined for this namespace. */
  readonly linkNetnsId: number | undefined;
  /** Index of the bridge or VRF that it is a port of. */
  readonly masterIndex: number | undefined;
  /** A free text for people and programs. */
  readonly alias: string | undefined;
  /** Alternative names, by which it can also be found. They move with it. */
  readonly alternativeNames: readonly string[];
  /** The address that its hardware was made with; undefined for most virtual links. */
  readonly permanentMac: Mac | undefined;
  /** The device of a bus that it belongs to; undefined for virtual links, and before Linux 5.14. */
  readonly parent: ParentDevice | undefined;
  /** Whether packets pass: it is up, and so are the links that it depends on. */
  readonly isOperational: boolean;
  /** Whether it accepts all frames, whatever their destination. */
  readonly isPromiscuous: boolean;
  /** Whether it accepts all multicast frames. */
  readonly isAllMulticast: boolean;
  /** Length of its queue in packets, if the qdisc has no limit of its own. */
  readonly transmitQueueLength: number;
  /** Its kind's properties; undefined for kinds that are not decoded. */
  readonly data: LinkData | undefined;
  /** Its options as a port of a bridge; undefined for other links. */
  readonly port:
    | BridgePort & {
      readonly state: BridgePortState;
      /** Whether the bridge learns addresses from its frames. */
      readonly learns: boolean;
      /** Whether it gets frames for MACs that the bridge does not know. */
      readonly isFlooded: boolean;
    }
    | undefined;
  /** Whether it resolves addresses by ARP, and answers. */
  readonly hasArp: boolean;
}

/** A device of a bus, such as a PCI function. */
export interface ParentDevice {
  /** Such as `pci`. */
  readonly bus: string;
  /** Its name on the bus, such as `0000:00:1f.6`. */
  readonly name: string;
}

/**
 * What a bridge port does with frames: only `forwarding` lets them pass.
 *
 * Source: include/uapi/linux/if_bridge.h `BR_STATE_*`.
 */
export type BridgePortState =
  | "disabled"
  | "listening"
  | "learning"
  | "forwarding"
  | "blocking";

/** Properties of links of each kind. */
export interface LinkDataByKind {
  /** A bridge. */
  readonly bridge: {
    readonly vlanFiltering: boolean;
    /** The VLAN of new ports; 0 for none, or if the kernel has no VLANs of bridges. */
    readonly defaultVlan: number;
  };
  /** A VRF. */
  readonly vrf: {
    /** The routing table of its ports. */
    readonly table: number;
  };
  /** A macvlan. */
  readonly macvlan: {
    /** One of `MacvlanMode`. */
    readonly mode: number;
  };
  /** An ipvlan. */
  readonly ipvlan: {
    /** One of `IpvlanMode`. */
    readonly mode: number;
  };
  /** A VLAN's link. */
  readonly vlan: {
    /** The VLAN, 0 to 4094. */
    readonly id: number;
  };
}

/** Properties of a link of a kind. */
export type LinkData = {
  readonly [K in keyof LinkDataByKind]:
    & { readonly kind: K }
    & LinkDataByKind[K];
}[keyof LinkDataByKind];

/** Options of a bridge port. */
export interface BridgePort {
  /** Whether frames may leave by the port they came in by. */
  readonly hairpin: boolean;
  /** Whether it is isolated from other isolated ports. */
  readonly isolated: boolean;
}

/**
 * A link to create in another namespace.
 *
 * @internal For this project's plugins
 */
export interface NewLinkInNetns {
  /** The namespace in which the link is created; it is never moved. */
  readonly netns: NetNs;
  /** 1 to 15 bytes. */
  readonly name: string;
  readonly info: KindData;
  /** Index of the lower link, in this socket's namespace. */
  readonly lowerIndex?: number | undefined;
  /** In bytes; the kernel's default if undefined. */
  readonly mtu?: number | undefined;
  /** The kernel chooses one if undefined. */
  readonly mac?: Mac | undefined;
}

/** A bridge to create. */
export interface NewBridge {
  /** 1 to 15 bytes. */
  readonly name: string;
  /** In bytes; the kernel's default if undefined. */
  readonly mtu?: number | undefined;
  /** A MAC that is set does not change when ports come and go. */
  readonly mac?: Mac | undefined;
  /** Whether VLAN filtering is on. */
  readonly vlanFiltering?: boolean | undefined;
}

/** Changes of a link; undefined keeps a value. */
export interface LinkChange {
  /**
   * The namespace to move it to, down and without its addresses and routes. The
   * other changes are made there. With `name`, the link's current name may be
   * taken there.
   */
  readonly netns?: NetNs | undefined;
  /** Its index in `netns`. Kernels before 5.13 choose one themselves. */
  readonly newIndex?: number | undefined;
  /** Its name, 1 to 15 bytes. Most links must be down for this. */
  readonly name?: string | undefined;
  /** Whether it is administratively up. */
  readonly isUp?: boolean | undefined;
  /** The link-layer address. */
  readonly mac?: Mac | undefined;
  /** In bytes. */
  readonly mtu?: number | undefined;
  /** Index of the bridge or VRF to make it a port of; 0 for none. */
  readonly masterIndex?: number | undefined;
  /** Whether it accepts all frames, whatever their destination. */
  readonly isPromiscuous?: boolean | undefined;
  /** Whether it accepts all multicast frames. */
  readonly isAllMulticast?: boolean | undefined;
  /** Length of its queue in packets, if the qdisc has no limit of its own. */
  readonly transmitQueueLength?: number | undefined;
  /** A free text for people and programs, of at most 254 bytes. */
  readonly alias?: string | undefined;
  /** Of a bridge. */
  readonly bridge?: {
    readonly vlanFiltering: boolean;
  } | undefined;
  /** Of a bridge port. */
  readonly port?: Partial<BridgePort> | undefined;
}

/** A veth pair to create. */
export interface NewVeth {
  /** Name of the end in this socket's namespace, 1 to 15 bytes. */
  readonly name: string;
  /** MTU of both ends in bytes; the kernel's default if undefined. */
  readonly mtu?: number | undefined;
  /**
   * MAC of this end; the kernel chooses one if undefined. A node's udev replaces
   * those that the kernel has chosen (`MACAddressPolicy=persistent`), a little
   * later.
   */
  readonly mac?: Mac | undefined;
  /** Index of the bridge that this end becomes a port of. */
  readonly masterIndex?: number | undefined;
  /** The alias of this end, as {@linkcode LinkChange.alias}. */
  readonly alias?: string | undefined;
  /** The other end. */
  readonly peer: {
    /** The namespace in which the other end is created; it is never moved. */
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
  /** Length of its queue in packets, if the qdisc has no limit of its own. */
  readonly transmitQueueLength: number;
  /** As {@linkcode LinkChange.alias}. */
  readonly alias?: string | undefined;
}

/** A virtual routing and forwarding domain to create. */
export interface NewVrf {
  /** 1 to 15 bytes. */
  readonly name: string;
  /** The routing table of its ports, from 1. */
  readonly table: number;
}
