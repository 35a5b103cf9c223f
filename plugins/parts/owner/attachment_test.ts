import { assert, assertEquals } from "@std/assert";
import type { NetNs } from "../../../ffi/netns.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { ipJson, runIn } from "../../../testing/ip_json.ts";
import { PluginScene } from "../../../tests/_harness/plugin_scene.ts";
import { aliasOf, aliasPrefixOf, isOfAnother } from "./attachment.ts";
import { hostIfNameOf } from "../link/veth.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

const ID = "0123456789abcdef".repeat(4);

/** Names of several lengths, up to the longest file name. */
const NAMES: readonly [network: string, containerId: string, ifName: string][] =
  [
    ["net1", "c1", "eth0"],
    ["n".repeat(180), ID, "eth0"],
    ["n".repeat(181), ID, "eth0"],
    ["n".repeat(200), ID, "eth0"],
    ["n".repeat(232), "c1", "eth0"],
    ["n".repeat(240), ID, "fifteen-letters"],
    ["n".repeat(181), ID, "éééé"],
    ["net1", ID.repeat(3), "😀😀😀"],
  ];

function bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}

Deno.test("aliasOf() distinguishes attachments whose names are truncated", () => {
  const owners = NAMES.flatMap(([network, containerId, ifName]) => [
    { network, containerId, ifName },
    { network: `${network}x`, containerId, ifName },
    { network, containerId: `${containerId}x`, ifName },
    { network, containerId, ifName: `${ifName.slice(0, 2)}x` },
  ]);
  const aliases = owners.map(aliasOf);
  assertEquals(new Set(aliases).size, owners.length);
  for (const [index, owner] of owners.entries()) {
    const alias = aliases[index] ?? "";
    assert(bytes(alias) <= 254, `${bytes(alias)} bytes`);
    assert(alias.startsWith(aliasPrefixOf(owner.network)), alias);
    const others = owners.filter(({ network }) => network !== owner.network);
    assert(
      !others.some((other) => alias.startsWith(aliasPrefixOf(other.network))),
      alias,
    );
  }
});

Deno.test("aliasOf() does not shorten names that fit", () => {
  const owner = { network: "n".repeat(180), containerId: ID, ifName: "eth0" };
  assertEquals(aliasOf(owner), `cni/${owner.network}/${ID}/eth0`);
  assertEquals(bytes(aliasOf(owner)), 254);
});

Deno.test("aliasOf() survives the kernel unchanged", () => {
  const owner = { network: "net1", containerId: "c1", ifName: "half\ud800" };
  const bytes = new TextEncoder().encode(aliasOf(owner));
  assertEquals(new TextDecoder().decode(bytes), aliasOf(owner));
});

Deno.test("isOfAnother() considers this project's aliases only", async (t) => {
  const owner = { network: "net1", containerId: "c1", ifName: "eth0" };
  const rows: [alias: string | undefined, want: boolean][] = [
    [undefined, false],
    ["cni/net1/c1/eth0", false],
    ["an operator's note", false],
    ["cni/net1/c2/eth0", true],
    ["cni/net2/c1/eth0", true],
  ];
  await eachRow(t, rows, ([alias, want]) => {
    assertEquals(isOfAnother({ alias }, owner), want);
  }, ([alias]) => String(alias));
});

rootTest("ptp attaches and detaches names of any length", async (t) => {
  for (const [network, containerId, ifName] of NAMES) {
    const title = `${bytes(network)}, ${bytes(containerId)}, ${ifName}`;
    await t.step(title, async () => {
      using scene = new PluginScene("ptp", (hosts) => ({
        cniVersion: "1.1.0",
        name: network,
        type: "ptp",
        ipam: hosts.hostLocal("10.1.2.0/24"),
      }));
      const { hosts, state } = scene;
      const options = { containerId, ifName };
      const own = { containerID: containerId, ifname: ifName };
      const valid = (list: unknown): Record<string, unknown> => ({
        "cni.dev/valid-attachments": list,
      });
      await scene.succeed("ADD", {}, options);
      const owner = { network, containerId, ifName };
      const [link] = ipJson(hosts.host, "link", "show", hostIfNameOf(owner));
      assertEquals(link.ifalias, aliasOf(owner));
      const other = { ...own, containerID: `${containerId}x` };
      await scene.succeed("GC", valid([own]), options);
      assertEquals(ipJson(hosts.host, "link").length, 2);
      await scene.succeed("GC", valid([other]), options);
      assertEquals(scene.state, state);
      await scene.succeed("ADD", {}, options);
      await scene.succeed("DEL", {}, options);
      assertEquals(scene.state, state);
    });
  }
});

rootTest("ptp refuses an interface name with a NUL", async () => {
  using scene = new PluginScene("ptp", (hosts) => ({
    cniVersion: "1.0.0",
    name: "net1",
    type: "ptp",
    ipam: hosts.hostLocal("10.1.2.0/24"),
  }));
  const { state } = scene;
  const options = { ifName: "a\0b" };
  const { exitCode, json } = await scene.run("ADD", {}, options);
  assertEquals([exitCode, json.code], [1, 4]);
  assert(json.msg.includes("it contains a NUL"), json.msg);
  await scene.succeed("DEL", {}, options);
  assertEquals(scene.state, state);
});

rootTest("ptp keeps a link with the alias of another attachment", async (t) => {
  const owner = {
    network: "net1",
    containerId: "test-container",
    ifName: "eth0",
  };
  const name = hostIfNameOf(owner);
  const rows: [alias: string, isAnothers: boolean][] = [
    ["cni/net1/another-container/eth0", true],
    [aliasOf(owner), false],
    ["", false],
  ];
  await eachRow(t, rows, async ([alias, isAnothers]) => {
    using scene = new PluginScene("ptp", (hosts) => ({
      cniVersion: "1.0.0",
      name: "net1",
      type: "ptp",
      ipam: hosts.hostLocal("10.1.2.0/24"),
    }));
    const { hosts } = scene;
    const empty = scene.state;
    addVeth(hosts, name, alias);
    const before = scene.state;
    if (isAnothers) {
      await scene.fail("ADD", [999, `Cannot connect "eth0" to "${name}"`]);
      assertEquals(scene.state, before);
      await scene.succeed("DEL");
      assertEquals(scene.state, before);
    } else {
      await scene.succeed("ADD");
      await scene.succeed("DEL");
      assertEquals(scene.state, empty);
      addVeth(hosts, name, alias);
      await scene.succeed("DEL");
      assertEquals(scene.state, empty);
    }
  }, ([alias]) => alias || "no alias");
});

/** Adds a link with one of our names to the host. */
function addVeth(
  { host }: { readonly host: NetNs },
  name: string,
  alias: string,
): void {
  runIn(host, "ip", "link", "add", name, "type", "veth", "peer", "other");
  if (alias !== "") runIn(host, "ip", "link", "set", name, "alias", alias);
}
