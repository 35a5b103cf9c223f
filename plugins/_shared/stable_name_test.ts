import { assertEquals, assertMatch } from "@std/assert";
import { stableName } from "./stable_name.ts";

Deno.test("stableName() hashes with FNV-1a", async (t) => {
  // The published test vectors of the hash, as far as a name has room.
  const rows: [text: string, want: string][] = [
    ["", "cbf29ce484222325"],
    ["a", "af63dc4c8601ec8c"],
    ["foobar", "85944171f73967e8"],
  ];
  for (const [text, want] of rows) {
    await t.step(JSON.stringify(text), () => {
      assertEquals(stableName("", text), want.slice(0, 15));
      assertEquals(stableName("veth", text), `veth${want.slice(0, 11)}`);
    });
  }
});

Deno.test("stableName() tells attachments apart", () => {
  const names = [
    stableName("veth", "net", "container", "eth0"),
    stableName("veth", "net", "container", "eth1"),
    stableName("veth", "net1", "container", "eth0"),
    stableName("veth", "net", "containe", "reth0"),
    stableName("veth", "netcontainer", "eth0"),
  ];
  assertEquals(new Set(names).size, names.length);
  for (const name of names) assertMatch(name, /^veth[0-9a-f]{11}$/);
});
