/**
 * A host on which firewall lets a container's traffic through.
 *
 * @module
 */

import { runIn } from "../../testing/ip_json.ts";
import { type Keys, PluginScene } from "../../tests/_harness/plugin_scene.ts";

/** The addresses of {@linkcode FirewallScene.prevResult}. */
export const ADDRESSES = ["10.0.0.2/32", "2001:db8:1:2::1/128"] as const;

/** A host, and calls of firewall on it. */
export class FirewallScene extends PluginScene {
  /** A result with an address of each family. */
  readonly prevResult: Keys;

  /** @param keys More keys of the configuration, or other ones */
  constructor(keys: Keys = {}) {
    super("firewall", () => ({
      cniVersion: "1.1.0",
      name: "net1",
      type: "firewall",
      ...keys,
    }));
    this.prevResult = {
      cniVersion: this.config["cniVersion"],
      interfaces: [
        { name: "cni0" },
        { name: "eth0", sandbox: this.hosts.sandbox.path },
      ],
      ips: [
        ipOf("10.0.0.2/24", this.config),
        ipOf("2001:db8:1:2::1/64", this.config),
      ],
      dns: { nameservers: ["10.0.0.1"] },
    };
  }

  /** Lists the rules of table filter, as `iptables -S` and `ip6tables -S` do. */
  get rules(): string[] {
    return ["iptables", "ip6tables"].flatMap((program) =>
      runIn(this.hosts.host, program, "-S").trim().split("\n")
    );
  }

  /** Lists the rules of the container's addresses. */
  get ownRules(): string[] {
    return this.rules.filter((line) =>
      ADDRESSES.some((address) => line.includes(` ${address} `))
    );
  }

  /** The table of the nftables backend, as `nft` shows it; "" without it. */
  get table(): string {
    const tables = runIn(this.hosts.host, "nft", "list", "tables");
    return tables.includes("inet cni_firewall")
      ? runIn(this.hosts.host, "nft", "list", "table", "inet", "cni_firewall")
      : "";
  }
}

/** An address as a result of the configuration's version has it. */
function ipOf(address: string, { cniVersion }: Keys): Keys {
  const version = address.includes(":") ? "6" : "4";
  return cniVersion === "0.4.0" ? { version, address } : { address };
}
