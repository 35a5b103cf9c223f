/**
 * What one side attaches and the other detaches: every plugin that both have,
 * in both directions, with each release of the Go plugins. The runs are listed
 * in docs/compatibility.md, which a test here compares with the rows.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { NetNs } from "../ffi/netns.ts";
import { actingRules } from "./_harness/acting_rules.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../testing/capabilities.ts";
import { runIn, snapshot } from "../testing/ip_json.ts";
import { hostLimits, WIDE } from "./_harness/limited_cable.ts";
import { callAs, listPeers, nameOf, type Who } from "./_harness/parity.ts";
import { NEWEST_RELEASE, type Peer } from "./_harness/peers.ts";
import type { Keys } from "./_harness/plugin_scene.ts";
import { needsRuleTools } from "./_harness/rules.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../testing/test_hosts.ts";

/** A plugin's part of a configuration. */
type PluginKeys = Keys & { readonly type: string };

/** One row of the table: what is attached. */
interface Row {
  /** Returns the plugins in the order of ADD. */
  readonly plugins: (hosts: TestHosts) => readonly PluginKeys[];
  /** `eth0` if undefined. */
  readonly ifName?: string;
  /** The link that attachments share, and that the last DEL leaves. */
  readonly sharedLink?: string;
  /** Why a release of the Go plugins cannot take part, by its name. */
  readonly impossible?: Readonly<Record<string, string>>;
  /** Prepares a sandbox, as runtimes make them. */
  readonly prepare?: (sandbox: NetNs) => void;
  /** Plugins of Go that fail a CHECK of their own attachment too, and why. */
  readonly goFailsCheck?: Readonly<Record<string, string>>;
  /** Plugins of a release that fail a second DEL, by its name, and their error. */
  readonly goFailsDelAgain?: Readonly<
    Record<string, readonly [type: string, error: string]>
  >;
}

function dualIpam(hosts: TestHosts): Keys {
  const routes = [{ dst: "0.0.0.0/0" }, { dst: "::/0" }];
  return { ...hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"), routes };
}

function ptp(hosts: TestHosts, keys: Keys = {}): PluginKeys {
  return { type: "ptp", ipam: dualIpam(hosts), ...keys };
}

function bridge(hosts: TestHosts, keys: Keys = {}): PluginKeys {
  const ipam = dualIpam(hosts);
  const network = { bridge: "br0", isGateway: true };
  return { type: "bridge", ...network, ipam, ...keys };
}

const IPTABLES = { ipMasq: true, ipMasqBackend: "iptables" };
const NFTABLES = { ipMasq: true, ipMasqBackend: "nftables" };
const NO_NFTABLES = { "Go 1.1.1": "masquerades by iptables only" };
const BRIDGE = { sharedLink: "br0" };

const ROWS: Readonly<Record<string, Row>> = {
  "ptp": { plugins: (hosts) => [ptp(hosts)] },
  "ptp, masquerade by iptables": { plugins: (hosts) => [ptp(hosts, IPTABLES)] },
  "ptp, masquerade by nftables": {
    plugins: (hosts) => [ptp(hosts, NFTABLES)],
    impossible: NO_NFTABLES,
  },
  "bridge": {
    plugins: (hosts) => [bridge(hosts, { hairpinMode: true })],
    ...BRIDGE,
  },
  "bridge, masquerade by iptables": {
    plugins: (hosts) => [bridge(hosts, IPTABLES)],
    ...BRIDGE,
  },
  "bridge, masquerade by nftables": {
    plugins: (hosts) => [bridge(hosts, NFTABLES)],
    impossible: NO_NFTABLES,
    ...BRIDGE,
  },
  "bridge, macspoofchk": {
    plugins: (hosts) => [bridge(hosts, { macspoofchk: true })],
    ...BRIDGE,
  },
  "host-local": {
    plugins: (hosts) => [{ type: "host-local", ipam: dualIpam(hosts) }],
  },
  "static": {
    plugins: () => [{
      type: "static",
      ipam: { type: "static", addresses: [{ address: "10.1.2.9/24" }] },
    }],
  },
  "bandwidth": {
    plugins: (hosts) => [ptp(hosts), { type: "bandwidth", ...WIDE }],
  },
  "sbr": {
    plugins: (hosts) => [ptp(hosts), { type: "sbr" }],
    goFailsCheck: { ptp: "it does not find the route that sbr has moved" },
    goFailsDelAgain: { "Go 1.1.1": ["sbr", "Failed to get link eth0"] },
  },
  "loopback": {
    plugins: () => [{ type: "loopback" }],
    ifName: "lo",
    prepare: (sandbox) =>
      void runIn(sandbox, "ip", "link", "set", "lo", "down"),
  },
};

/** One container of a network, and whose plugins are called for it. */
class Attachment {
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
    this.#plugins = row.plugins(hosts).map((keys) => ({ ...network, ...keys }));
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

/** Lists all that attachments change, in the host and in sandboxes. */
function stateOf(
  hosts: TestHosts,
  sandboxes: readonly NetNs[],
  sharedLink?: string,
): unknown {
  const { links, routes, rules } = snapshot(hosts.host);
  const isOther = ({ ifname, dev }: Record<string, unknown>): boolean =>
    sharedLink === undefined || (ifname ?? dev) !== sharedLink;
  const { qdiscs, filters } = hostLimits(hosts.host);
  return {
    links: (links as []).filter(isOther),
    routes: (routes as []).filter(isOther),
    rules,
    qdiscs: qdiscs.filter((line) => !line.includes(` dev ${sharedLink} `)),
    filters,
    acting: actingRules(hosts.host),
    leases: hosts.leases(),
    sandboxes: sandboxes.map(snapshot),
  };
}

/**
 * Has one side add what the other checks and deletes, beside a container of
 * the other side.
 */
async function cross(
  t: Deno.TestContext,
  row: Row,
  { adder, other, cniVersion }: Direction,
): Promise<void> {
  using hosts = TestHosts.create();
  const [mine, neighbour] = ["mine", "neighbour"].map((containerId) =>
    new Attachment(hosts, row, cniVersion, containerId)
  ) as [Attachment, Attachment];
  const sandboxes = [mine.sandbox, neighbour.sandbox];
  const empty = stateOf(hosts, sandboxes);
  await neighbour.add(other);
  const before = stateOf(hosts, sandboxes);
  const assertAsBefore = (): void =>
    assertEquals(stateOf(hosts, sandboxes), before);

  await t.step("ADD, CHECK", async () => {
    await mine.add(adder);
    await mine.check(adder);
    await mine.check(other);
  });
  await t.step("GC of ours keeps what is valid", async () => {
    const state = stateOf(hosts, sandboxes);
    await mine.gc(["mine", "neighbour"]);
    assertEquals(stateOf(hosts, sandboxes), state);
    await mine.check(other);
  });
  await t.step("DEL", async () => {
    await mine.del(other);
    assertAsBefore();
  });
  await t.step("DEL again, by each side", async () => {
    for (const who of [other, adder]) {
      await mine.delAgain(who);
      assertAsBefore();
    }
  });
  await t.step("the neighbour stays, until its DEL", async () => {
    await neighbour.check(other);
    await neighbour.del(other);
    const { sharedLink } = row;
    assertEquals(stateOf(hosts, sandboxes, sharedLink), empty);
  });
}

/** Who adds, and who checks and deletes. */
interface Direction {
  readonly adder: Who;
  readonly other: Who;
  readonly cniVersion: string;
}

function directionsWith(peer: Peer): readonly Direction[] {
  const { cniVersion } = peer;
  return [
    { adder: "ours", other: peer, cniVersion },
    { adder: peer, other: "ours", cniVersion },
  ];
}

/** Names a test, which is a cell of the table. */
function nameTest(plugin: string, adder: string, release: string): string {
  const other = adder === "ours" ? "Go" : "ours";
  return `${plugin}: ${adder} adds, ${other} checks and deletes (${release})`;
}

const needsTc = ignoreUnless(hasCommand("tc"), "needs tc");

for (const peer of listPeers("cross runs")) {
  for (const [plugin, row] of Object.entries(ROWS)) {
    if (row.impossible?.[peer.name] !== undefined) continue;
    for (const direction of directionsWith(peer)) {
      const adder = direction.adder === "ours" ? "ours" : "Go";
      const name = nameTest(plugin, adder, peer.name);
      rootTest(
        name,
        allOf(needsRuleTools, needsTc),
        (t) => cross(t, row, direction),
      );
    }
  }
}

/** The releases that the documentation lists. */
const RELEASES = ["Go 1.1.1", `Go ${NEWEST_RELEASE.slice(1)}`];

/** Returns the table of cross runs, one line for each plugin. */
function crossTable(): string[] {
  const columns = RELEASES.flatMap((release) => [
    `ours, then ${release}`,
    `${release}, then ours`,
  ]);
  const rows = Object.entries(ROWS).map(([plugin, { impossible }]) => [
    plugin,
    ...RELEASES.flatMap((release) => {
      const cell = impossible?.[release] === undefined ? "yes" : "no";
      return [cell, cell];
    }),
  ]);
  return [["plugin", ...columns], ["", ...columns.map(() => "")], ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`);
}

Deno.test("docs/compatibility.md lists the cross runs", async () => {
  const path = new URL("../docs/compatibility.md", import.meta.url);
  const lines = (await Deno.readTextFile(path)).split("\n")
    .map((line) => line.replaceAll(/-{2,}/g, "").replaceAll(/ +/g, " "));
  const from = lines.findIndex((line) => line.startsWith("| plugin |"));
  const table = crossTable().map((line) => line.replaceAll(/ +/g, " "));
  assertEquals(lines.slice(from, from + table.length), table);
});
