/**
 * A network with a router beyond a link of the host: containers get their IPv6
 * addresses from its advertisements or its DHCPv6 server, both Debian's.
 *
 * ```ts ignore
 * await using net = new RouterNet("macvlan");
 * await net.advertise("prefix 2001:db8:1::/64 {};");
 * const result = await net.succeed("ADD", { type: "slaac" });
 * ```
 *
 * @module
 */

import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import { Mac } from "../../net/mac.ts";
import { ROUTER_ROOT } from "../../scripts/setup/debian_packages.ts";
import {
  ignoreUnless,
  isExecutable,
  type Needs,
} from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../testing/test_hosts.ts";
import { Background } from "./background.ts";
import { assertSuccess } from "./call_outcome.ts";
import { eventually } from "./eventually.ts";
import { MASTER, VLAN } from "./on_master.ts";
import type { Keys } from "./plugin_scene.ts";

const RADVD = `${ROUTER_ROOT}/usr/sbin/radvd`;
const DHCPD = `${ROUTER_ROOT}/usr/sbin/dhcpd`;

/** For tests with router advertisements. */
export const needsRadvd: Needs = ignoreUnless(
  isExecutable(RADVD),
  "needs radvd",
);
/** For tests with ISC's DHCP server. */
export const needsDhcpd: Needs = ignoreUnless(
  isExecutable(DHCPD),
  "needs isc-dhcp-server",
);

/** The longest lifetime of an address that tests wait for, and more, in ms. */
const HAS_MS = 60_000;

/** The plugins of interfaces in such a network. */
export type RouterNetType = "bridge" | "macvlan" | "ipvlan" | "vlan";

/** An address of a container, as iproute2 shows it. */
export interface ShownAddress {
  readonly local: string;
  readonly prefixlen: number;
  readonly scope: string;
  readonly deprecated?: boolean;
  readonly temporary?: boolean;
  readonly dynamic?: boolean;
  readonly valid_life_time: number;
}

/**
 * Reports whether there is one address for each prefix, and no other. It takes one
 * look: between two an address could come, and each would see one.
 */
export function areOf(
  addresses: readonly string[],
  prefixes: readonly string[],
): boolean {
  return addresses.length === prefixes.length &&
    prefixes.every((prefix) => addresses.some((ip) => ip.startsWith(prefix)));
}

/** The network. */
export class RouterNet implements AsyncDisposable {
  /** The host, with the router beyond its link. */
  readonly hosts: TestHosts;
  /** The router's namespace. */
  readonly router: NetNs;
  readonly #stack = new DisposableStack();
  readonly #type: RouterNetType;
  readonly #dev: string;
  readonly #programs: Background[] = [];
  #radvd: Background | undefined;

  /**
   * Connects the host and the router; `vlan` has the router in the VLAN.
   *
   * @param hosts Borrowed; a host of its own by default
   */
  constructor(type: RouterNetType, hosts?: TestHosts) {
    this.hosts = hosts ?? this.#stack.use(TestHosts.create());
    this.router = this.hosts.addNetns();
    this.#type = type;
    this.#dev = type === "vlan" ? "tagged" : "wire";
    const { host } = this.hosts;
    using rtnl = Rtnl.open(host.path);
    // Else tests wait for duplicate detection of addresses that are not theirs.
    for (const netns of [host, this.router]) {
      inNetns(netns, () => {
        writeSysctl("net/ipv6/conf/default/accept_dad", "0");
        writeSysctl("net/ipv6/conf/all/accept_dad", "0");
      });
    }
    inNetns(
      this.router,
      () => writeSysctl("net/ipv6/conf/all/forwarding", "1"),
    );
    const masterIndex = type === "bridge"
      ? rtnl.link.addBridge({ name: "br0", mac: Mac.random() }).index
      : undefined;
    const peer = { netns: this.router, name: "wire" };
    rtnl.link.addVeth({
      name: MASTER,
      mtu: 1500,
      mac: Mac.random(),
      peer,
      ...masterIndex === undefined ? {} : { masterIndex },
    });
    runIn(
      this.router,
      "sh",
      "-ec",
      `ip link set wire up; ${
        type === "vlan"
          ? `ip link add link wire name tagged type vlan id ${VLAN}; ip link set tagged up`
          : ""
      }`,
    );
  }

  /** Gives the router an address. */
  addRouterAddress(address: string): void {
    const { router } = this;
    runIn(router, "ip", "address", "add", address, "dev", this.#dev, "nodad");
  }

  /** Takes an address from the router. */
  removeRouterAddress(address: string): void {
    runIn(this.router, "ip", "address", "del", address, "dev", this.#dev);
  }

  /** The router's address on the link. */
  get gateway(): string {
    const [link] = ipJson(
      this.router,
      "-6",
      "address",
      "show",
      "dev",
      this.#dev,
    );
    return link.addr_info
      .find(({ scope }: ShownAddress) => scope === "link").local;
  }

  /** Starts radvd, or has it read new options of the interface. */
  async advertise(options: string): Promise<Background> {
    await this.stopAdvertising();
    this.#radvd = this.#startRadvd("radvd", options);
    return this.#radvd;
  }

  /** Starts the radvd of a second router, which has this link-local address. */
  addRouter(address: string, options: string): Background {
    this.addRouterAddress(`${address}/64`);
    const source = `AdvRASrcAddress { ${address}; };`;
    return this.#startRadvd("second", `${source} ${options}`);
  }

  #startRadvd(name: string, options: string): Background {
    const path = `${this.hosts.directory}/${name}`;
    Deno.writeTextFileSync(
      `${path}.conf`,
      `interface ${this.#dev} {
        AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4;
        ${options}
      };\n`,
    );
    const files = ["-C", `${path}.conf`, "-p", `${path}.pid`];
    return this.spawn(RADVD, "-n", "-d", "1", "-m", "stderr", ...files);
  }

  /** Ends radvd without its last words, by which it would end its addresses. */
  async stopAdvertising(): Promise<void> {
    await this.#radvd?.stop("SIGKILL");
  }

  /** Starts ISC's DHCP server, which keeps its leases if it is started again. */
  async serve(configuration: string, family: 4 | 6 = 6): Promise<Background> {
    const { directory } = this.hosts;
    const [file, leases] = [
      `${directory}/dhcpd.conf`,
      `${directory}/dhcpd.leases`,
    ];
    Deno.writeTextFileSync(file, configuration);
    Deno.writeTextFileSync(leases, "", { append: true });
    const flags = ["-f", "-d", "--no-pid", "-cf", file, "-lf", leases];
    const server = this.spawn(DHCPD, `-${family}`, ...flags, this.#dev);
    await server.says("Server starting service");
    return server;
  }

  /** Starts a program in the router's namespace. */
  spawn(program: string, ...args: string[]): Background {
    const background = new Background(this.router, program, args);
    this.#programs.push(background);
    return background;
  }

  /** A configuration of the network. */
  config(ipam: Keys, more: Keys = {}): Keys {
    const type = this.#type;
    return {
      cniVersion: "1.1.0",
      name: "net1",
      type,
      ...type === "bridge" ? { bridge: "br0" } : { master: MASTER },
      ...type === "vlan" ? { vlanId: VLAN } : {},
      ipam,
      ...more,
    };
  }

  /** Calls the plugin of the interface. */
  run(
    command: string,
    ipam: Keys,
    more: Keys = {},
    options: CallOptions = {},
  ): Promise<CallOutput> {
    return this.hosts
      .run(this.#type, command, this.config(ipam, more), options);
  }

  /** Calls it, which must succeed; returns the result. */
  async succeed(
    ...args: Parameters<RouterNet["run"]>
  ): Promise<CallOutput["json"]> {
    const output = await this.run(...args);
    assertSuccess(output);
    return output.json;
  }

  /** The global IPv6 addresses of a container's interface. */
  addresses(
    sandbox: NetNs = this.hosts.sandbox,
    ifName = "eth0",
  ): ShownAddress[] {
    const [link] = ipJson(sandbox, "-6", "address", "show", "dev", ifName);
    return (link?.addr_info ?? [])
      .filter(({ scope }: ShownAddress) => scope === "global");
  }

  /** Waits until the container has an address that begins like this. */
  async gets(prefix: string): Promise<void> {
    const list = (): string[] => this.addresses().map(({ local }) => local);
    await eventually(
      `the container has an address of ${prefix}`,
      () => list().some((local) => local.startsWith(prefix)),
      () => list().join(" "),
    );
  }

  /** Waits until the container has one address for each prefix, and no other. */
  async has(...prefixes: string[]): Promise<void> {
    const list = (): string[] => this.addresses().map(({ local }) => local);
    await eventually(
      `the container has addresses of ${prefixes.join(" and ") || "nothing"}`,
      () => areOf(list(), prefixes),
      () => list().join(" "),
      HAS_MS,
    );
  }

  /** Ends the programs, and removes its own host. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const program of this.#programs) await program.stop();
    this.#stack.dispose();
  }
}
