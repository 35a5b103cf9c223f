/**
 * The scene for tests of flannel: a node with a leased subnet.
 *
 * @module
 */

import { unlessMissing } from "../../base/files/io.ts";
import { linkNames } from "../../testing/ip_json.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import { type Keys, PluginScene } from "../../tests/_harness/plugin_scene.ts";

/** Variants of flanneld's file, by the node's subnets. */
export const SUBNET_ENV = {
  ipv4: [
    "FLANNEL_NETWORK=10.244.0.0/16",
    "FLANNEL_SUBNET=10.244.1.1/24",
    "FLANNEL_MTU=1450",
    "FLANNEL_IPMASQ=true",
  ],
  ipv6: [
    "FLANNEL_IPV6_NETWORK=fd00:10:244::/56",
    "FLANNEL_IPV6_SUBNET=fd00:10:244:1::1/64",
    "FLANNEL_MTU=1430",
    "FLANNEL_IPMASQ=false",
  ],
  dual: [
    "FLANNEL_NETWORK=10.244.0.0/16,10.245.0.0/16,10.244.0.0/16",
    "FLANNEL_SUBNET=10.244.1.1/24",
    "FLANNEL_IPV6_NETWORK=fd00:10:244::/56",
    "FLANNEL_IPV6_SUBNET=fd00:10:244:1::1/64",
    "FLANNEL_MTU=1430",
    "FLANNEL_IPMASQ=true",
  ],
} as const;

/** Builds a configuration whose files are all in the temporary directory. */
export function flannelConfig(hosts: TestHosts, extras: Keys = {}): Keys {
  return {
    cniVersion: "1.1.0",
    name: "net1",
    type: "flannel",
    subnetFile: `${hosts.directory}/subnet.env`,
    dataDir: `${hosts.directory}/flannel`,
    ipam: { dataDir: `${hosts.directory}/leases` },
    ...extras,
  };
}

/** A node that runs flanneld. */
export class FlannelScene extends PluginScene {
  constructor(extras: Keys = {}, env: readonly string[] = SUBNET_ENV.ipv4) {
    super("flannel", (hosts) => flannelConfig(hosts, extras));
    this.writeEnv(env);
  }

  /** Writes flanneld's file. */
  writeEnv(lines: readonly string[]): void {
    const text = lines.map((line) => `${line}\n`).join("");
    Deno.writeTextFileSync(`${this.config["subnetFile"]}`, text);
  }

  /** The saved configurations by the names of their files. */
  get saved(): Record<string, string> {
    const directory = `${this.config["dataDir"]}`;
    const files = unlessMissing(() => [...Deno.readDirSync(directory)]) ?? [];
    return Object.fromEntries(
      files.map(({ name }) => name).sort()
        .map((name) => [name, Deno.readTextFileSync(`${directory}/${name}`)]),
    );
  }

  /** Everything that an attachment changes, except the bridge. */
  override get state(): unknown {
    const { host, sandbox } = this.hosts;
    return {
      host: linkNames(host).filter((name) => name !== "cni0"),
      sandbox: linkNames(sandbox),
      leases: this.hosts.leases(),
      saved: this.saved,
    };
  }
}
