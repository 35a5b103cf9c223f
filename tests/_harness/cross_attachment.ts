/**
 * Containers whose plugins are called of either side, ours and Go's, and what
 * they leave on the host.
 *
 * @module
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { snapshot } from "../../testing/ip_json.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../testing/test_hosts.ts";
import { actingRules } from "./acting_rules.ts";
import { hostLimits } from "../../plugins/bandwidth/testing/limited_pair.ts";
import { callAs, nameOf, type Who } from "./parity.ts";
import type { Keys } from "./plugin_scene.ts";

/** A plugin's part of a configuration. */
export type PluginKeys = Keys & { readonly type: string };

/** The attachment. */
export interface Row {
  /** Returns the plugins in the order of ADD. */
  readonly plugins: (
    hosts: TestHosts,
    containerId: string,
  ) => readonly PluginKeys[];
  /** `eth0` if undefined. */
  readonly ifName?: string;
  /** The link that attachments share, and that the last DEL leaves. */
  readonly sharedLink?: string;
  /** Why a release of the Go plugins cannot take part, by its name. */
  readonly impossible?: Readonly<Record<string, string>>;
  /** Prepares a sandbox, as runtimes make them. */
  readonly prepare?: (sandbox: NetNs) => void;
  /** Go plugins that also fail a CHECK of their own attachment, and why. */
  readonly goFailsCheck?: Readonly<Record<string, string>>;
  /** Plugins of a release that fail a second DEL, by its name, and their error. */
  readonly goFailsDelAgain?: Readonly<
    Record<string, readonly [type: string, error: string]>
  >;
}

/** Returns an IPAM configuration with addresses of both families. */
export function dualIpam(hosts: TestHosts): Keys {
  const routes = [{ dst: "0.0.0.0/0" }, { dst: "::/0" }];
  return { ...hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"), routes };
}

/** Returns the keys of ptp with such addresses. */
export function ptp(hosts: TestHosts, keys: Keys = {}): PluginKeys {
  return { type: "ptp", ipam: dualIpam(hosts), ...keys };
}

/** One container of a network, and whose plugins are called for it. */
export class Attachment {
  readonly #hosts: TestHosts;
  readonly #row: Row;
  readonly #plugins: readonly Keys[];
  readonly #options: CallOptions;
  /** Its namespace. */
  readonly sandbox: NetNs;
  #prevResult: unknown;

  constructor(
    hosts: TestHosts,
    row: Row,
    cniVersion: string,
    containerId: string,
  ) {
    this.#hosts = hosts;
    this.#row = row;
    this.sandbox = hosts.addNetns();
    row.prepare?.(this.sandbox);
    const network = { cniVersion, name: "net1" };
    this.#plugins = row.plugins(hosts, containerId)
      .map((keys) => ({ ...network, ...keys }));
    const { ifName = "eth0" } = row;
    this.#options = { sandbox: this.sandbox, containerId, ifName };
  }

  async add(who: Who): Promise<void> {
    for (const config of this.#plugins) {
      const { json } = await this.#succeed(who, "ADD", config);
      this.#prevResult = json;
    }
  }

  async check(who: Who): Promise<void> {
    const failing = who === "ours" ? {} : this.#row.goFailsCheck ?? {};
    for (const config of this.#plugins) {
      const reason = failing[String(config["type"])];
      const { exitCode, stdout } = await this.#call(who, "CHECK", config);
      assertEquals(exitCode, reason === undefined ? 0 : 1, reason ?? stdout);
    }
  }

  async del(who: Who): Promise<void> {
    for (const config of this.#plugins.toReversed()) {
      await this.#succeed(who, "DEL", config);
    }
  }

  /** Runs DEL once there is nothing left to delete. */
  async delAgain(who: Who): Promise<void> {
    const [failing, error] = this.#row.goFailsDelAgain?.[nameOf(who)] ?? [];
    for (const config of this.#plugins.toReversed()) {
      if (config["type"] !== failing) {
        await this.#succeed(who, "DEL", config);
        continue;
      }
      const { exitCode, json } = await this.#call(who, "DEL", config);
      assertEquals(exitCode, 1);
      assertStringIncludes(json.msg, error ?? "");
    }
  }

  /** Runs GC of our plugins: those of Go have none. */
  async gc(valid: readonly string[]): Promise<void> {
    const attachments = valid.map((containerID) => ({
      containerID,
      ifname: this.#options.ifName,
    }));
    for (const keys of this.#plugins) {
      const config = {
        ...keys,
        cniVersion: "1.1.0",
        "cni.dev/valid-attachments": attachments,
      };
      await this.#succeed("ours", "GC", config);
    }
  }

  async #succeed(
    who: Who,
    command: string,
    config: Keys,
  ): Promise<CallOutput> {
    const output = await this.#call(who, command, config);
    assertEquals(output.exitCode, 0, output.stdout + output.stderr);
    return output;
  }

  #call(who: Who, command: string, config: Keys): Promise<CallOutput> {
    const prevResult = command !== "GC" && this.#prevResult;
    const whole = { ...config, ...prevResult ? { prevResult } : {} };
    const type = String(config["type"]);
    const call = { type, command, config: whole };
    return callAs(who, this.#hosts, call, this.#options);
  }
}

/**
 * Lists all that attachments change, in the host and in sandboxes.
 *
 * @param sharedLink A link of the host to leave out
 * @param sharedRules Rules to leave out
 */
export function stateOf(
  hosts: TestHosts,
  sandboxes: readonly NetNs[],
  sharedLink?: string,
  sharedRules?: RegExp,
): unknown {
  const { links, routes, rules } = snapshot(hosts.host);
  const isOther = ({ ifname, dev }: Record<string, unknown>): boolean =>
    sharedLink === undefined || (ifname ?? dev) !== sharedLink;
  const names = (links as { ifname: string }[]).map(({ ifname }) => ifname);
  const { qdiscs, filters } = hostLimits(hosts.host, names);
  return {
    links: (links as []).filter(isOther),
    routes: (routes as []).filter(isOther),
    rules,
    qdiscs: qdiscs.filter((line) => !line.includes(` dev ${sharedLink} `)),
    filters,
    acting: actingRules(hosts.host).filter((rule) => !sharedRules?.test(rule)),
    leases: hosts.leases(),
    sandboxes: sandboxes.map(snapshot),
  };
}
