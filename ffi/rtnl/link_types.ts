/**
 * Types of links, of links to create and of changes.
 *
 * @module
 */

import type { Mac } from "../../net/mac.ts";
import type { NetNs } from "../netns.ts";
import type { KindData } from "./link_kinds.ts";

/** A link as the kernel reports it. */
export interface Link {
  /** Index within its namespace. */
  readonly index: number;
  /** Its name in that namespace, 1 to 15 bytes. */
  readonly name: string;
  /** Kind, such as `veth`; "" for physical links and loopback. */
  readonly kind: string;
  /** The link-layer address, if it has 48 bits. */
  readonly mac: Mac | undefined;
  /** The MTU in bytes. */
  readonly mtu: number;
  /** Whether it is administratively up. */
  readonly isUp: boolean;
  /** Index of a veth's peer or of the lower link, in that link's namespace. */
  readonly linkIndex: number | undefined;
  /**
   * The nsid of the namespace of {@linkcode linkIndex}; undefined for this namespace.
   */
  readonly linkNsid: number | undefined;
  /** Index of the bridge or VRF that it is a port of. */
  readonly masterIndex: number | undefined;
  /** A free text for people and programs. */
  readonly alias: string | undefined;
  /** Alternative names, by which it can also be found. They move with the link. */
  readonly alternativeNames: readonly string[];
  /** The hardware's own address; undefined for most virtual links. */
  readonly permanentMac: Mac | undefined;
  /** Its parent device on a bus; undefined for virtual links, and before Linux 5.14. */
  readonly parent: ParentDevice | undefined;
  /** Whether packets pass: the link and its lower links are up. */
  readonly isOperational: boolean;
  /** Whether it accepts all frames, whatever their destination. */
  readonly isPromiscuous: boolean;
  /** Whether it accepts all multicast frames. */
  readonly isAllMulticast: boolean;
  /** Length of its queue in packets, if the qdisc does not set its own limit. */
  readonly transmitQueueLength: number;
  /** Properties of its kind; undefined for kinds that are not decoded. */
  readonly data: LinkData | undefined;
  /** Its options as a port of a bridge; undefined for other links. */
  readonly port:
    | BridgePort & {
      readonly state: BridgePortState;
      /** Whether the bridge learns MAC addresses from its frames. */
      readonly learns: boolean;
      /**
       * Whether it gets frames for MAC addresses that are not in the forwarding
       * database.
       */
      readonly isFlooded: boolean;
    }
    | undefined;
  /** Whether it uses ARP. */
  readonly hasArp: boolean;
  /** Whether it supports multicast. */
  readonly hasMulticast: boolean;
  /** Its group, by which commands and firewall rules can select it; 0 by default. */
  readonly group: number;
}

/** A device of a bus, such as a PCI function. */
export interface ParentDevice {
  /** The bus, such as `pci`. */
  readonly bus: string;
  /** Its name on the bus, such as `0000:00:1f.6`. */
  readonly name: string;
}

/**
 * The STP state of a bridge port: only `forwarding` lets frames pass.
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
    /**
     * The VLAN of new ports; 0 for none, or if the kernel does not support bridge
     * VLANs.
     */
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
  /** A VLAN link. */
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
  /** Whether frames can leave through the port on which they arrived. */
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
  /** The link's name, 1 to 15 bytes. */
  readonly name: string;
  readonly info: KindData;
  /** Index of the lower link, in this socket's namespace. */
  readonly lowerIndex?: number | undefined;
  /** The MTU in bytes; the kernel's default if undefined. */
  readonly mtu?: number | undefined;
  /** The MAC address; random if undefined. */
  readonly mac?: Mac | undefined;
}

/** A bridge to create. */
export interface NewBridge {
  /** The bridge's name, 1 to 15 bytes. */
  readonly name: string;
  /** The MTU in bytes; the kernel's default if undefined. */
  readonly mtu?: number | undefined;
  /**
   * The MAC address. If it is set, it does not change when ports are added or
   * removed.
   */
  readonly mac?: Mac | undefined;
  /** Whether VLAN filtering is on. */
  readonly vlanFiltering?: boolean | undefined;
}

/** Changes of a link; undefined keeps a value. */
export interface LinkChange {
  /**
   * The namespace to move it to, where it is down and without addresses and routes.
   * The other changes are made there. With `name`, a link there can have the link's
   * current name.
   */
  readonly netns?: NetNs | undefined;
  /** Its index in `netns`. Kernels before 5.13 ignore it. */
  readonly newIndex?: number | undefined;
  /** Its name, 1 to 15 bytes. Most links must be down for this. */
  readonly name?: string | undefined;
  /** Whether it is administratively up. */
  readonly isUp?: boolean | undefined;
  /** The link-layer address. */
  readonly mac?: Mac | undefined;
  /** The MTU in bytes. */
  readonly mtu?: number | undefined;
  /** Index of the bridge or VRF to make it a port of; 0 for none. */
  readonly masterIndex?: number | undefined;
  /** Whether it accepts all frames, whatever their destination. */
  readonly isPromiscuous?: boolean | undefined;
  /** Whether it accepts all multicast frames. */
  readonly isAllMulticast?: boolean | undefined;
  /** Whether it uses ARP. */
  readonly hasArp?: boolean | undefined;
  /** Whether it supports multicast. */
  readonly hasMulticast?: boolean | undefined;
  /** Its group. */
  readonly group?: number | undefined;
  /** Length of its queue in packets, if the qdisc does not set its own limit. */
  readonly transmitQueueLength?: number | undefined;
  /** A free text for people and programs, of at most 254 bytes. */
  readonly alias?: string | undefined;
  /** Settings of a bridge. */
  readonly bridge?: {
    readonly vlanFiltering: boolean;
  } | undefined;
  /** Settings of a bridge port. */
  readonly port?: Partial<BridgePort> | undefined;
}

/** A veth pair to create. */
export interface NewVeth {
  /** Name of the end in this socket's namespace, 1 to 15 bytes. */
  readonly name: string;
  /** MTU of both ends in bytes; the kernel's default if undefined. */
  readonly mtu?: number | undefined;
  /**
   * MAC address of this end; random if undefined. udev soon replaces a random address
   * (`MACAddressPolicy=persistent`).
   */
  readonly mac?: Mac | undefined;
  /** Index of the bridge that this end becomes a port of. */
  readonly masterIndex?: number | undefined;
  /** The alias of this end, like {@linkcode LinkChange.alias}. */
  readonly alias?: string | undefined;
  /** The other end. */
  readonly peer: {
    /** The namespace in which the other end is created; it is never moved. */
    readonly netns: NetNs;
    readonly name: string;
    /** The MAC address of the other end; random if undefined. */
    readonly mac?: Mac | undefined;
  };
}

/** An intermediate functional block to create. */
export interface NewIfb {
  /** The link's name, 1 to 15 bytes. */
  readonly name: string;
  /** The MTU in bytes. */
  readonly mtu: number;
  /** Length of its queue in packets, if the qdisc does not set its own limit. */
  readonly transmitQueueLength: number;
  /** The alias, like {@linkcode LinkChange.alias}. */
  readonly alias?: string | undefined;
}

/** A virtual routing and forwarding domain to create. */
export interface NewVrf {
  /** The VRF's name, 1 to 15 bytes. */
  readonly name: string;
  /** The routing table of its ports, from 1. */
  readonly table: number;
}
