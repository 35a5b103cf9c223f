/** What cni list and cni show say of addresses that a network gives. */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { chooseStyle } from "../../base/command_line/style.ts";
import type { JsonObject } from "../../base/json/json.ts";
import {
  DhcpScene,
  needsDnsmasq,
  TestDaemon,
} from "../../ipam/dhcp/testing.ts";
import { AttachmentCache } from "../../libcni/mod.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import {
  needsDhcpd,
  needsRadvd,
  RouterNet,
} from "../../tests/_harness/router_net.ts";
import { type AttachmentRow, toRow } from "../list/command.ts";
import { listSandboxes, readNode } from "../show/live.ts";
import { formatTree } from "../show/tree.ts";
import { formatLifetime } from "./network_addresses.ts";
import { listNodeAttachments } from "./node_attachments.ts";

/** Caches an attachment of the first sandbox; returns what is shown of it. */
async function show(
  { directory, host, sandbox }: TestHosts,
  config: object,
  result: JsonObject,
): Promise<{ row: AttachmentRow; tree: string }> {
  const cacheDir = `${directory}/cache`;
  new AttachmentCache(cacheDir).writeAttachment({
    network: "net1",
    containerId: "test-container",
    ifName: "eth0",
    netns: sandbox.path,
    config: new TextEncoder().encode(JSON.stringify(config)),
    cniArgs: [],
    capabilityArgs: {},
  }, result);
  const attachments = listNodeAttachments({ cacheDir });
  const [attachment] = attachments;
  if (attachment === undefined) throw new Error("there is no attachment");
  const view = await readNode(listSandboxes(attachments), host.path);
  return {
    row: await toRow(attachment),
    tree: formatTree(view, chooseStyle(false)),
  };
}

/** Checks that a time is left, and at most so much. */
function assertLeft(seconds: number | null | undefined, most: number): void {
  assert(seconds && seconds > 0 && seconds <= most, `${seconds} of ${most}`);
}

rootTest(
  "cni list and cni show show new addresses after a router renumbered",
  needsRadvd,
  async () => {
    await using net = new RouterNet("bridge");
    const ipam = { type: "slaac", timeoutSeconds: 60 };
    await net.advertise(
      "prefix 2001:db8:1::/64 { AdvValidLifetime 8; AdvPreferredLifetime 6; };",
    );
    const result = await net.succeed("ADD", ipam);
    await net.advertise(
      "prefix 2001:db8:2::/64 { AdvValidLifetime 30; AdvPreferredLifetime 20; };",
    );
    await net.has("2001:db8:2:");
    const { row, tree } = await show(net.hosts, net.config(ipam), result);
    const [{ local } = { local: "" }] = net.addresses();
    assertEquals(row.addresses, [`${local}/64`]);
    const { addresses = [], ...others } = row.fromNetwork ?? {};
    assertEquals(others, { routers: [net.gateway], leases: [] });
    assertLeft(addresses[0]?.preferredSeconds, 20);
    assertLeft(addresses[0]?.validSeconds, 30);
    assertMatch(tree, /─ 2001:db8:2:\S+\/64 · preferred \d+s, valid \d+s\n/);
    assertMatch(tree, new RegExp(`─ router ${net.gateway}\n`));
    assertEquals(tree.includes("✗"), false, tree);
    // Nothing is left of them.
    await net.stopAdvertising();
    await net.has();
    const later = await show(net.hosts, net.config(ipam), result);
    assertEquals(later.row.addresses, []);
    assertMatch(later.tree, /✗ lacks an address from the network/);
  },
);

rootTest(
  "cni list and cni show show an IPv4 lease",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start();
    await scene.startDnsmasq();
    const result = await scene.succeed("ADD");
    const { row, tree } = await show(scene.hosts, scene.config(), result);
    const [address = ""] = scene.addresses();
    assertEquals(row.addresses, [address]);
    const [given] = row.fromNetwork?.addresses ?? [];
    assertLeft(given?.validSeconds, 3600);
    assertEquals(given?.preferredSeconds, given?.validSeconds);
    assertEquals(row.fromNetwork?.routers, ["10.9.0.1"]);
    const [{ server, isLost } = {}] = row.fromNetwork?.leases ?? [];
    assertEquals([server, isLost], ["10.9.0.1", false]);
    const ip = address.split("/")[0];
    assertMatch(
      tree,
      new RegExp(`─ lease of ${ip} from 10.9.0.1 until \\d{4}-\\S+Z\n`),
    );
    // The routes go with the lease.
    for (const lease of scene.leases) {
      await scene.directory.write({ ...lease, isLost: true });
    }
    const later = await show(scene.hosts, scene.config(), result);
    assertEquals(later.row.fromNetwork?.routers, []);
    assertMatch(
      later.tree,
      new RegExp(`─ lost lease of ${ip} from 10.9.0.1\n`),
    );
  },
);

rootTest(
  "cni list shows an IPv6 lease, and the DUID of its server",
  allOf(needsDhcpd, needsRadvd),
  async () => {
    await using net = new RouterNet("bridge");
    const daemon = new TestDaemon(`${net.hosts.directory}/dhcp.sock`);
    await using stack = new AsyncDisposableStack();
    stack.defer(() => daemon.stop());
    net.addRouterAddress("2001:db8:1::1/64");
    await net.advertise("AdvManagedFlag on;");
    await daemon.start();
    await net.serve(
      `server-duid LL ethernet 02:00:5e:00:53:01;
      default-lease-time 30; preferred-lifetime 20;
      subnet6 2001:db8:1::/64 { range6 2001:db8:1::100 2001:db8:1::1ff; }`,
    );
    const ipam = { type: "dhcp", family: 6, daemonSocketPath: daemon.socket };
    const result = await net.succeed("ADD", ipam);
    const { row } = await show(net.hosts, net.config(ipam), result);
    const [{ local } = { local: "" }] = net.addresses();
    assertEquals(row.addresses, [`${local}/128`]);
    assertLeft(row.fromNetwork?.addresses[0]?.validSeconds, 30);
    assertEquals(
      row.fromNetwork?.leases.map(({ address, server }) => [address, server]),
      [[local, "0003000102005e005301"]],
    );
    await net.succeed("DEL", ipam);
  },
);

Deno.test("formatLifetime() prints the remaining time in the largest unit", () => {
  const rows: [number | null, number | null, string][] = [
    [0, 29, "preferred 0s, valid 29s"],
    [119, 120, "preferred 119s, valid 2m"],
    [7199, 7200, "preferred 119m, valid 2h"],
    [172_799, 172_800, "preferred 47h, valid 2d"],
    [null, null, "preferred forever, valid forever"],
  ];
  for (const [preferredSeconds, validSeconds, expected] of rows) {
    const address = { address: "", preferredSeconds, validSeconds };
    assertEquals(formatLifetime(address), expected);
  }
});
