/**
 * A host with a device for host-device: an end of a veth pair, whose other end is
 * also on the host. Directories of sysfs are created if a test needs a bus that the
 * machine lacks.
 *
 * @module
 */

import type { NetNs } from "../../ffi/netns.ts";
import { makeHostDevice } from "./plugin.ts";
import type { HostDeviceConfig } from "./schema.ts";
import { ipJson, linkNames, runIn } from "../../testing/ip_json.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import { type Keys, PluginScene } from "../../tests/_harness/plugin_scene.ts";

/** The device's name on the host, and its MAC. */
export const DEVICE = "ens5", DEVICE_MAC = "c2:11:22:33:44:55";

/** Options of a scene. */
export interface DeviceOptions {
  /** Whether the network has addresses. */
  readonly hasIpam?: boolean;
  /** Whether the device is up. */
  readonly isUp?: boolean;
}

/** A host with a device, and calls of host-device on it. */
export class DeviceScene extends PluginScene<HostDeviceConfig> {
  /** A directory in place of `/sys`. */
  readonly sysfs: string = sysfsOf(this.hosts);

  /** @param keys Additional or different keys of the configuration */
  constructor(
    keys: Keys = {},
    { hasIpam = true, isUp = false }: DeviceOptions = {},
  ) {
    super((hosts) => makeHostDevice(sysfsOf(hosts)), (hosts) => ({
      cniVersion: "1.1.0",
      name: "net1",
      type: "host-device",
      device: DEVICE,
      dataDir: `${hosts.directory}/data/host-device`,
      ...hasIpam ? { ipam: ipamOf(hosts) } : {},
      ...keys,
    }));
    addDevice(this.hosts.host, DEVICE, DEVICE_MAC);
    if (isUp) this.ip("link set ens5 up");
  }

  /** The location of the device: on the host, in the container, or lost. */
  override get state(): unknown {
    const { host, sandbox } = this.hosts;
    return [describe(host), describe(sandbox), this.hosts.leases()];
  }

  /** Runs `ip` on the host. */
  ip(args: string): void {
    runIn(this.hosts.host, "ip", ...args.split(" "));
  }

  /** Runs `ip` in the container. */
  ipInside(args: string): void {
    runIn(this.hosts.sandbox, "ip", ...args.split(" "));
  }

  /** Lists the links of the container. */
  get inside(): string[] {
    return linkNames(this.hosts.sandbox);
  }

  /** Lists the links of the host without its loopback and the device's peer. */
  get outside(): string[] {
    return linkNames(this.hosts.host)
      .filter((name) => name !== "lo" && !name.startsWith("wire"));
  }

  /** Creates a file, or a link to a file, in the directory in place of `/sys`. */
  addSysfs(path: string, linkTo?: string): void {
    const target = `${this.sysfs}/${path}`;
    Deno.mkdirSync(target.slice(0, target.lastIndexOf("/")), {
      recursive: true,
    });
    if (linkTo === undefined) Deno.mkdirSync(target);
    else Deno.symlinkSync(linkTo, target);
  }
}

function sysfsOf({ directory }: TestHosts): string {
  return `${directory}/sys`;
}

function ipamOf(hosts: TestHosts): Keys {
  const routes = [{ dst: "0.0.0.0/0" }, { dst: "::/0" }];
  return { ...hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"), routes };
}

/** Adds a device to a host, with its peer up. */
export function addDevice(host: NetNs, name: string, mac: string): void {
  const peer = `wire${name}`;
  const args = `link add ${name} address ${mac} type veth peer name ${peer}`;
  runIn(host, "ip", ...args.split(" "));
  runIn(host, "ip", "link", "set", peer, "up");
}

/** Describes the links of a namespace, except numbers that the kernel chooses. */
function describe(netns: NetNs): unknown[] {
  // deno-lint-ignore no-explicit-any -- as iproute2 prints it
  return ipJson(netns, "address").map((link: any) => ({
    name: link.ifname,
    mac: link.address,
    alias: link.ifalias,
    master: link.master,
    isUp: link.flags.includes("UP"),
    addresses: link.addr_info
      .filter(({ scope }: Keys) => scope === "global")
      .map(({ local }: Keys) => local),
  })).sort((one: Keys, other: Keys) =>
    String(one["name"]).localeCompare(String(other["name"]))
  );
}
