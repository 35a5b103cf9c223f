/**
 * Networks with DHCP servers, and the DHCP daemon in this process: its leases are
 * those of containers on a bridge of a temporary host, or behind a router.
 *
 * @module
 */

import { createLog } from "../../base/log/log.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Lease } from "./lease.ts";
import { LeaseDirectory } from "./lease_directory.ts";
import { Cidr } from "../../net/cidr.ts";
import { Mac } from "../../net/mac.ts";
import { type DhcpOptions, runDhcp } from "./daemon.ts";
import {
  hasCommand,
  ignoreUnless,
  type Needs,
} from "../../testing/capabilities.ts";
import { ipJson } from "../../testing/ip_json.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../testing/test_hosts.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import {
  RouterNet,
  type RouterNetType,
} from "../../tests/_harness/router_net.ts";
import { assertSuccess } from "../../tests/_harness/call_outcome.ts";
import { Background } from "../../tests/_harness/background.ts";
import { eventually } from "../../tests/_harness/eventually.ts";

/** For tests with a DHCP server. */
export const needsDnsmasq: Needs = ignoreUnless(
  hasCommand("dnsmasq"),
  "needs dnsmasq",
);
/** For tests with leases of a few seconds. */
export const needsUdhcpd: Needs = ignoreUnless(
  hasCommand("udhcpd"),
  "needs udhcpd",
);

/** The daemon, in this process. */
export class TestDaemon {
  #end: AbortController | undefined;
  #running: Promise<void> | undefined;
  /** Path of its socket. */
  readonly socket: string;
  /** Its leases on disk. */
  readonly directory: LeaseDirectory;
  /** Its log. */
  log = "";

  /** Takes the path of the socket. */
  constructor(socket: string) {
    this.socket = socket;
    this.directory = new LeaseDirectory(socket);
  }

  /** Starts it, and waits until it listens. */
  async start(options: Partial<DhcpOptions> = {}): Promise<void> {
    const end = new AbortController();
    const { promise: ready, resolve: onReady } = Promise.withResolvers<void>();
    const running = runDhcp({
      socket: this.socket,
      hostPrefix: "",
      broadcast: false,
      timeoutMs: 10_000,
      resendMaxMs: 1000,
      resendTimeoutMs: 60_000,
      log: createLog({}, (line) => this.log += line),
      signal: end.signal,
      onReady,
      ...options,
    });
    await Promise.race([ready, running]);
    [this.#end, this.#running] = [end, running];
  }

  /** Ends it. */
  async stop(): Promise<void> {
    this.#end?.abort();
    await this.#running;
  }

  /** The leases on disk. */
  get leases(): Lease[] {
    return this.directory.list();
  }

  /** Waits until its log has a text, so many times. */
  async says(text: string, times = 1): Promise<void> {
    await eventually(
      `the daemon says "${text}"`,
      () => this.log.split(text).length > times,
      () => this.log,
    );
  }
}

/** The scene. */
export class DhcpScene implements AsyncDisposable {
  /** The host, with `br0` at 10.9.0.1/24. */
  readonly hosts: TestHosts = TestHosts.create();
  readonly #servers: Background[] = [];
  readonly #daemon = new TestDaemon(`${this.hosts.directory}/dhcp.sock`);

  /** Makes the host. */
  constructor() {
    using host = Rtnl.open(this.hosts.host.path);
    const { index: ifindex } = host.link.addBridge({
      name: "br0",
      mac: Mac.random(),
    });
    host.address.add({ ifindex, address: Cidr.parse("10.9.0.1/24") });
  }

  /** Creates a scene with a running daemon. */
  static async start(options: Partial<DhcpOptions> = {}): Promise<DhcpScene> {
    const scene = new DhcpScene();
    await scene.startDaemon(options);
    return scene;
  }

  /** Path of the daemon's socket. */
  get socket(): string {
    return this.#daemon.socket;
  }

  /** The daemon's leases on disk. */
  get directory(): LeaseDirectory {
    return this.#daemon.directory;
  }

  /** The daemon's log. */
  get log(): string {
    return this.#daemon.log;
  }

  /** Starts the daemon, and waits until it listens. */
  async startDaemon(options: Partial<DhcpOptions> = {}): Promise<void> {
    await this.#daemon.start(options);
  }

  /** Ends the daemon. */
  async stopDaemon(): Promise<void> {
    await this.#daemon.stop();
  }

  /** Starts a program on the host. */
  spawn(program: string, ...args: string[]): Background {
    const background = new Background(this.hosts.host, program, args);
    this.#servers.push(background);
    return background;
  }

  /** Starts dnsmasq, which keeps its leases if it is started again. */
  async startDnsmasq(...more: string[]): Promise<Background> {
    const server = this.spawn(
      "dnsmasq",
      "--keep-in-foreground",
      "--conf-file=/dev/null",
      "--user=root",
      "--port=0",
      "--pid-file=",
      "--log-facility=-",
      "--log-dhcp",
      "--interface=br0",
      "--bind-interfaces",
      "--no-ping",
      "--dhcp-authoritative",
      "--leasefile-ro",
      ...more.some((arg) => arg.startsWith("--dhcp-range"))
        ? []
        : ["--dhcp-range=10.9.0.10,10.9.0.99,255.255.255.0,1h"],
      ...more,
    );
    await server.says("DHCP, ");
    return server;
  }

  /** Starts udhcpd, with leases of so many seconds. */
  async startUdhcpd(seconds: number, ...more: string[]): Promise<Background> {
    const file = `${this.hosts.directory}/udhcpd.conf`;
    const leases = `${this.hosts.directory}/udhcpd.leases`;
    Deno.writeTextFileSync(
      file,
      [
        "start 10.9.0.10",
        "end 10.9.0.99",
        "interface br0",
        `lease_file ${leases}`,
        `pidfile ${this.hosts.directory}/udhcpd.pid`,
        "min_lease 1",
        "opt subnet 255.255.255.0",
        "opt router 10.9.0.1",
        `opt lease ${seconds}`,
        ...more,
      ].join("\n") + "\n",
    );
    const server = this.spawn("udhcpd", "-f", "-a", "1", file);
    await server.says("started");
    return server;
  }

  /** The configuration of a bridge with this daemon. */
  config(ipam: object = {}): Record<string, unknown> {
    return {
      cniVersion: "1.1.0",
      name: "net1",
      type: "bridge",
      bridge: "br0",
      ipam: { type: "dhcp", daemonSocketPath: this.socket, ...ipam },
    };
  }

  /** Runs a command of the bridge. */
  run(
    command: string,
    more: object = {},
    options: CallOptions = {},
  ): Promise<CallOutput> {
    return this.hosts.run(
      "bridge",
      command,
      { ...this.config(), ...more },
      options,
    );
  }

  /** Runs a command that must succeed; returns the result. */
  async succeed(
    ...args: Parameters<DhcpScene["run"]>
  ): Promise<CallOutput["json"]> {
    const output = await this.run(...args);
    assertSuccess(output);
    return output.json;
  }

  /** The leases on disk, by container. */
  get leases(): Lease[] {
    return this.#daemon.leases;
  }

  /** Waits until the daemon's log has a text, so many times. */
  async says(text: string, times = 1): Promise<void> {
    await this.#daemon.says(text, times);
  }

  /** The IPv4 addresses of eth0 in the first container. */
  addresses(sandbox = this.hosts.sandbox): string[] {
    const [link] = ipJson(sandbox, "-4", "address", "show", "dev", "eth0");
    return (link?.addr_info ?? [])
      .map((address: { local: string; prefixlen: number }) =>
        `${address.local}/${address.prefixlen}`
      );
  }

  /** Ends servers and daemon, and removes the host. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopDaemon();
    for (const server of this.#servers) await server.stop();
    this.hosts[Symbol.dispose]();
  }
}

/** A network with a router that refers to DHCPv6, and a daemon; servers run on the router. */
export class RoutedScene extends RouterNet {
  /** The daemon. */
  readonly daemon: TestDaemon = new TestDaemon(
    `${this.hosts.directory}/dhcp.sock`,
  );
  /** The `ipam` of a lease from the daemon. */
  readonly ipam: Keys = {
    type: "dhcp",
    family: 6,
    daemonSocketPath: this.daemon.socket,
  };

  /** Starts router and daemon. */
  static async start(
    type: RouterNetType = "bridge",
    options: Partial<DhcpOptions> = {},
  ): Promise<RoutedScene> {
    const scene = new RoutedScene(type);
    scene.addRouterAddress("2001:db8:1::1/64");
    await scene.advertise(
      "AdvManagedFlag on; prefix 2001:db8:1::/64 { AdvAutonomous on; };",
    );
    await scene.daemon.start(options);
    return scene;
  }

  /** The global IPv6 addresses of the container. */
  get locals(): string[] {
    return this.addresses().map(({ local }) => local);
  }

  /** Ends the daemon, and removes the network. */
  override async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon.stop();
    await super[Symbol.asyncDispose]();
  }
}
