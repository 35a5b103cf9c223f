// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import { assertEquals, assertRejects } from "@std/assert";
import { conformance } from "../../tests/_harness/conformance.ts";
import { AttachmentCache } from "../../libcni/mod.ts";
import {
  describeMadeAttachment,
  describeNewAttachment,
  makeContainerId,
} from "./attachment.ts";
import { isOfNetns } from "./node_attachments.ts";
import type { CniFlags } from "../flags.ts";
import { callWith } from "../../tests/_harness/tool_call.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const OWN_NETNS = "/proc/self/ns/net";

Deno.test("isOfNetns() compares paths and namespaces", () => {
  assertEquals(isOfNetns({ netns: "/gone" }, "/gone"), true);
  assertEquals(isOfNetns({ netns: "/gone" }, "/lost"), false);
  assertEquals(
    isOfNetns({ netns: OWN_NETNS }, "/proc/thread-self/ns/net"),
    true,
  );
  assertEquals(isOfNetns({ netns: OWN_NETNS }, "/proc/self/ns/mnt"), false);
  assertEquals(isOfNetns({ netns: "" }, ""), false);
});

Deno.test("isOfNetns() recognizes a deleted namespace by each of its paths", () => {
  const directory = Deno.makeTempDirSync();
  try {
    Deno.mkdirSync(`${directory}/run/netns`, { recursive: true });
    Deno.mkdirSync(`${directory}/var`);
    Deno.symlinkSync("../run", `${directory}/var/run`);
    const made = { netns: `${directory}/var/run/netns/a` };
    const isOf = (path: string): boolean => isOfNetns(made, directory + path);
    assertEquals(isOf("/run/netns/a"), true);
    assertEquals(isOf("/run/netns/b"), false);
    assertEquals(isOf("/a"), false);
    // The directory of names also disappears.
    Deno.removeSync(`${directory}/run/netns`);
    assertEquals(isOf("/run/netns/a"), true);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("describeNewAttachment() derives the ID from the path unless one is given", async () => {
  const made = await describeNewAttachment(
    callWith({}),
    "/var/run/netns/testing",
  );
  assertEquals(made.containerId, "cnitool-77383ca0a0715733ca6f");
  assertEquals([made.netns, made.ifName], ["/var/run/netns/testing", "eth0"]);
  const given = await describeNewAttachment(
    callWith({ flags: { "container-id": "c" } }),
    "/n",
  );
  assertEquals(given.containerId, "c");
});

Deno.test("describeMadeAttachment() finds an attachment with a different ID", async (t) => {
  const directory = Deno.makeTempDirSync();
  try {
    const cache = new AttachmentCache(directory);
    const attach = (
      containerId: string,
      ifName: string,
      netns = OWN_NETNS,
    ): void =>
      cache.writeAttachment({
        network: "net",
        containerId,
        ifName,
        netns,
        config: new TextEncoder().encode("{}"),
        cniArgs: [],
        capabilityArgs: {},
      }, undefined);
    attach("runtime", "eth0");
    attach("gone", "eth0", `${directory}/netns/a`);
    Deno.symlinkSync(directory, `${directory}/link`);
    attach("one", "net1");
    attach("two", "net1");
    const describe = async (
      netns: string,
      flags: CniFlags = {},
    ): Promise<string> => {
      const call = callWith({ flags: { "cache-dir": directory, ...flags } });
      const key = { network: "net", netns };
      return (await describeMadeAttachment(call, key)).containerId;
    };
    const rows: [name: string, flags: CniFlags, id: string][] = [
      ["a runtime's", {}, "runtime"],
      ["the given ID", { "container-id": "x" }, "x"],
      [
        "the given ID of two",
        { "ifname": "net1", "container-id": "two" },
        "two",
      ],
      ["another interface name", { "ifname": "net2" }, "cnitool-"],
    ];
    await eachRow(t, rows, async ([, flags, id]) => {
      const found = await describe("/proc/thread-self/ns/net", flags);
      assertEquals(found.slice(0, id.length), id);
    });
    await t.step("a deleted namespace by another path", async () => {
      assertEquals(await describe(`${directory}/link/netns/a`), "gone");
    });
    await t.step("a different namespace", async () => {
      assertEquals((await describe("/nowhere")).slice(0, 8), "cnitool-");
    });
    await t.step("one of two attachments", async () => {
      await assertRejects(
        () => describe(OWN_NETNS, { "ifname": "net1" }),
        Error,
        "name one with --container-id: one, two",
      );
    });
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

const vectors = {
  "/var/run/netns/testing": "cnitool-77383ca0a0715733ca6f",
  "/var/run/netns/cnitest": "cnitool-20c433bb2b1d6ede56d6",
};

conformance(
  "cnitool",
  Object.fromEntries(
    Object.entries(vectors).map(([netns, id]) => [
      `the container ID of ${netns} is ${id}`,
      async (): Promise<void> => assertEquals(await makeContainerId(netns), id),
    ]),
  ),
);
