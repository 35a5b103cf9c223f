import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Environment } from "../../base/process/environment.ts";
import type { JsonObject } from "../../base/json/json.ts";
import {
  addressesOf,
  assertFailure,
  assertSuccess,
  DataDirectory,
  runInProcess as run,
} from "./testing.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

Deno.test("hostLocal.add() refuses a second lease for an attachment (HL-7)", async (t) => {
  using fixture = new DataDirectory();
  const config = fixture.config({ subnet: "10.1.2.0/24" });
  const ids = ["dummy", "dummy1"];
  await eachRow(t, ids.entries(), async ([i, id]) => {
    const env = { CNI_CONTAINERID: id };
    const address = `10.1.2.${2 + i}`;
    const added = await run("ADD", config, env);
    assertEquals(addressesOf(added), [`${address}/24`]);
    const again = await run("ADD", config, env);
    assertFailure(
      again,
      999,
      `failed to allocate for range 0: ${address} has been allocated to ` +
        `${id}, duplicate allocation is not allowed`,
    );
    assertEquals(again.json.details, `${fixture.path}/mynet/${address}`);
  }, ([, id]) => `HL-7: ${id} gets one address`);
  await t.step("even if it requests a different address", async () => {
    // The Go plugin would lease a second address.
    const { json } = await run("ADD", config, { CNI_ARGS: "IP=10.1.2.9" });
    assertStringIncludes(json.msg, "duplicate allocation is not allowed");
  });
  await t.step("and the refused ADDs change no file", () => {
    assertEquals(fixture.read(), {
      "lock": "",
      "10.1.2.2": "dummy\r\neth0",
      "10.1.2.3": "dummy1\r\neth0",
      "last_reserved_ip.0": "10.1.2.3",
    });
  });
  await t.step("HL-7: both DELs succeed", async () => {
    for (const id of ids) {
      assertSuccess(await run("DEL", config, { CNI_CONTAINERID: id }));
    }
    assertEquals(fixture.leases(), {});
  });
});

Deno.test("hostLocal.add() names the range set in which the attachment has a lease", async () => {
  using fixture = new DataDirectory();
  fixture.plant({ "10.1.3.9": "dummy" });
  const ranges = [[{ subnet: "10.1.2.0/24" }], [{ subnet: "10.1.3.0/24" }]];
  assertFailure(
    await run("ADD", fixture.config({ ranges })),
    999,
    "failed to allocate for range 1: 10.1.3.9 has been allocated to dummy, " +
      "duplicate allocation is not allowed",
  );
  assertEquals(fixture.read(), { "lock": "", "10.1.3.9": "dummy" });
});

Deno.test("hostLocal.del() releases all leases of the attachment", async (t) => {
  const rows: [string, Record<string, string>, Record<string, string>][] = [
    ["a lease of no range", { "192.0.2.2": "dummy\r\neth0" }, {}],
    [
      "several",
      { "10.1.2.2": "dummy\r\neth0", "10.1.2.3": "dummy\r\neth0" },
      {},
    ],
  ];
  await eachRow(t, rows, async ([, before, after]) => {
    using fixture = new DataDirectory();
    fixture.plant(before);
    const config = fixture.config({ subnet: "10.1.2.0/24" });
    assertSuccess(await run("DEL", config));
    assertEquals(fixture.leases(), after);
    assertSuccess(await run("DEL", config));
  });
});

Deno.test("hostLocal.del() does not create a missing directory (HL-9)", async () => {
  using fixture = new DataDirectory();
  assertSuccess(await run("DEL", fixture.config({ subnet: "10.1.2.0/24" })));
  assertEquals(fixture.list(), []);
});

// The Go plugin refuses all of these, so the lease is never released.
testRows("hostLocal.del() accepts an invalid configuration", [
  ["no ranges", {}, {}],
  ["an invalid subnet", { subnet: "10.1.2.0" }, {}],
  ["host bits", { subnet: "10.1.2.9/24" }, {}],
  [
    "ranges that overlap",
    { subnet: "10.1.2.0/24", ranges: [[{ subnet: "10.1.2.0/25" }]] },
    {},
  ],
  ["a missing resolv.conf", { resolvConf: "/no/such/file" }, {}],
  ["CNI_ARGS that are wrong", {}, { CNI_ARGS: "IP=nonsense;;" }],
  ["no namespace", { subnet: "10.1.2.0/24" }, { CNI_NETNS: "" }],
], async ([, ipam, env]: [string, JsonObject, Environment]) => {
  using fixture = new DataDirectory();
  fixture.plant({ "10.1.2.2": "dummy\r\neth0" });
  const { exitCode } = await run("DEL", fixture.config(ipam), env);
  assertEquals(exitCode, 0);
  assertEquals(fixture.leases(), {});
});

Deno.test("hostLocal.add() leases the requested addresses", async (t) => {
  const ips = (...ips: string[]): JsonObject => ({ args: { cni: { ips } } });
  const twoSets = {
    ranges: [[{ subnet: "10.1.2.0/24" }], [{ subnet: "10.1.3.0/24" }]],
  };
  const rows: [string, JsonObject, JsonObject, Environment, string[]][] = [
    [
      "in the order of the sets",
      twoSets,
      ips("10.1.3.77", "10.1.2.88"),
      {},
      ["10.1.2.88/24", "10.1.3.77/24"],
    ],
    [
      "for one set only",
      twoSets,
      { runtimeConfig: { ips: ["10.1.3.77/16"] } },
      {},
      ["10.1.2.2/24", "10.1.3.77/24"],
    ],
    [
      "the same by two ways",
      { subnet: "10.1.2.0/24" },
      ips("10.1.2.88"),
      { CNI_ARGS: "IgnoreUnknown=1;IP=10.1.2.88" },
      ["10.1.2.88/24"],
    ],
    [
      "of the runtime's range",
      { subnet: "10.1.2.0/24" },
      { runtimeConfig: { ipRanges: [[{ subnet: "10.9.9.0/24" }]] } },
      { CNI_ARGS: "IP=10.9.9.9" },
      ["10.9.9.9/24", "10.1.2.2/24"],
    ],
  ];
  await eachRow(t, rows, async ([, ipam, others, env, want]) => {
    using fixture = new DataDirectory();
    const output = await run("ADD", fixture.config(ipam, others), env);
    assertEquals(addressesOf(output), want);
  });
});

Deno.test("hostLocal.add() returns a gateway outside a /32 subnet", async () => {
  using fixture = new DataDirectory();
  const gateway = "169.254.1.1";
  const config = fixture.config({ subnet: "10.1.2.7/32", gateway });
  const { json } = await run("ADD", config);
  assertEquals(json.ips, [{ address: "10.1.2.7/32", gateway }]);
});

testRows("hostLocal.add() leases the address after the last reserved address", [
  ["the next one", { "last_reserved_ip.0": "10.1.2.9" }, "10.1.2.10/24"],
  // The Go plugin starts over in this case.
  ["with a line end", { "last_reserved_ip.0": "10.1.2.9\n" }, "10.1.2.10/24"],
  ["of another network", { "last_reserved_ip.0": "10.9.9.9" }, "10.1.2.2/24"],
  ["of another set", { "last_reserved_ip.1": "10.1.2.9" }, "10.1.2.2/24"],
  ["unreadable", { "last_reserved_ip.0": "\0\0\0" }, "10.1.2.2/24"],
  [
    "over what is leased",
    { "last_reserved_ip.0": "10.1.2.254", "10.1.2.2": "x" },
    "10.1.2.3/24",
  ],
  // The Go plugin never hands this address out again.
  ["into an empty lease", { "10.1.2.2": "" }, "10.1.2.2/24"],
  ["after a kill", { "unfinished": "other\r\net" }, "10.1.2.2/24"],
], async ([, files, want]: [string, Record<string, string>, string]) => {
  using fixture = new DataDirectory();
  fixture.plant(files);
  const config = fixture.config({ subnet: "10.1.2.0/24" });
  assertEquals(addressesOf(await run("ADD", config)), [want]);
  assertEquals(Object.hasOwn(fixture.read(), "unfinished"), false);
});

Deno.test("hostLocal.add() fails with a code and a message", async (t) => {
  const subnet = "10.1.2.0/30";
  const rows: [
    id: string,
    ipam: JsonObject,
    others: JsonObject,
    env: Environment,
    code: number,
    msg: string,
  ][] = [
    [
      "an address that is taken",
      { subnet },
      {},
      { CNI_ARGS: "IP=10.1.2.2" },
      11,
      "failed to allocate for range 0: requested IP address 10.1.2.2 is not " +
      "available in range set 10.1.2.1-10.1.2.2",
    ],
    [
      "the gateway's address",
      { subnet },
      {},
      { CNI_ARGS: "IP=10.1.2.1" },
      7,
      "failed to allocate for range 0: requested ip 10.1.2.1 is subnet's gateway",
    ],
    [
      "an excluded address",
      { subnet: "10.1.2.0/24", exclude: ["10.1.2.128/25"] },
      {},
      { CNI_ARGS: "IP=10.1.2.200" },
      7,
      "failed to allocate for range 0: requested ip 10.1.2.200 is excluded",
    ],
    [
      "CNI_ARGS with a key that is not known",
      { subnet },
      {},
      { CNI_ARGS: "K8S_POD_NAME=x" },
      4,
      'CNI_ARGS: unknown args ["K8S_POD_NAME=x"]',
    ],
    [
      "an address of no set",
      { subnet },
      { runtimeConfig: { ips: ["10.9.9.9"] } },
      {},
      7,
      "failed to allocate all requested IPs: 10.9.9.9",
    ],
    [
      "no address at all",
      { subnet },
      {},
      { CNI_ARGS: "IP=ten" },
      4,
      'CNI_ARGS: error parsing value of pair "IP=ten"',
    ],
    [
      "exhausted",
      { subnet },
      {},
      {},
      11,
      "failed to allocate for range 0: no IP addresses available in range " +
      "set: 10.1.2.1-10.1.2.2",
    ],
    [
      "no resolv.conf",
      { subnet, resolvConf: "/no/such/file" },
      {},
      {},
      5,
      'Cannot read "/no/such/file"',
    ],
    [
      "a data directory that cannot be made",
      { subnet, dataDir: "/dev/null" },
      {},
      {},
      5,
      'Cannot open the lease directory "/dev/null/mynet"',
    ],
    ["no ranges", {}, {}, {}, 7, "no IP ranges specified"],
  ];
  await eachRow(t, rows, async ([, ipam, others, env, code, msg]) => {
    using fixture = new DataDirectory();
    fixture.plant({ "10.1.2.2": "other\r\neth0" });
    const output = await run("ADD", fixture.config(ipam, others), env);
    assertFailure(output, code, msg);
    assertEquals(fixture.leases(), { "10.1.2.2": "other\r\neth0" });
  });
});

Deno.test("hostLocal.add() names the lease file or range in the error's details", async (t) => {
  const leased = { "10.1.2.2": "other\r\neth0" };
  const rows: [
    name: string,
    ipam: JsonObject,
    env: Environment,
    details: (directory: string) => string,
  ][] = [
    [
      "an address that is taken",
      { subnet: "10.1.2.0/24" },
      { CNI_ARGS: "IP=10.1.2.2" },
      (directory) =>
        `"${directory}/10.1.2.2" belongs to container "other", interface "eth0"`,
    ],
    [
      "no address left",
      { subnet: "10.1.2.0/30" },
      {},
      (directory) =>
        `0 of 1 addresses are free; the leases are in "${directory}"`,
    ],
    [
      "an excluded address",
      { subnet: "10.1.2.0/24", exclude: ["10.1.2.4/30"] },
      { CNI_ARGS: "IP=10.1.2.5" },
      () => "by 10.1.2.4/30",
    ],
    [
      "a second lease",
      { subnet: "10.1.2.0/24" },
      { CNI_CONTAINERID: "other" },
      (directory) => `${directory}/10.1.2.2`,
    ],
  ];
  await eachRow(t, rows, async ([, ipam, env, details]) => {
    using fixture = new DataDirectory();
    fixture.plant(leased);
    const { json } = await run("ADD", fixture.config(ipam), env);
    assertEquals(json.details, details(fixture.directoryOf()));
  });
});

Deno.test("hostLocal.add() leases no excluded address", async () => {
  using fixture = new DataDirectory();
  const config = fixture.config({
    ranges: [[
      { subnet: "10.1.2.0/29", exclude: ["10.1.2.2", "10.1.2.4/31"] },
      { subnet: "10.1.3.0/30", exclude: ["10.1.3.2"] },
    ]],
  });
  const addresses: string[] = [];
  for (const id of ["a", "b"]) {
    const added = await run("ADD", config, { CNI_CONTAINERID: id });
    addresses.push(...addressesOf(added));
  }
  assertEquals(addresses, ["10.1.2.3/29", "10.1.2.6/29"]);
  const { json } = await run("ADD", config);
  assertEquals(json.code, 11);
});

Deno.test("hostLocal.add() releases only its own new leases when it fails", async (t) => {
  const ranges = [[{ subnet: "10.1.2.0/24" }], [{ subnet: "10.1.3.0/30" }]];
  // The owner's own lease, from a time with other ranges. The Go plugin removes
  // it.
  const own = { "192.0.2.2": "dummy\r\neth0" };
  const ips = { args: { cni: { ips: ["10.1.2.5", "10.1.3.2"] } } };

  await t.step("when a later set is exhausted", async () => {
    using fixture = new DataDirectory();
    fixture.plant({ ...own, "10.1.3.2": "other\r\neth0" });
    assertFailure(
      await run("ADD", fixture.config({ ranges })),
      11,
      "failed to allocate for range 1: no IP addresses available in range " +
        "set: 10.1.3.1-10.1.3.2",
    );
    assertEquals(fixture.leases(), { ...own, "10.1.3.2": "other\r\neth0" });
  });
  await t.step("when last_reserved_ip cannot be written", async () => {
    using fixture = new DataDirectory();
    fixture.plant(own);
    fixture.obstruct("last_reserved_ip.1");
    const path = `${fixture.path}/mynet/last_reserved_ip.1`;
    assertFailure(
      await run("ADD", fixture.config({ ranges }, ips)),
      5,
      `failed to allocate for range 1: Cannot write "${path}"`,
    );
    const { lock: _, ...files } = fixture.read();
    assertEquals(files, { ...own, "last_reserved_ip.0": "10.1.2.5" });
  });
});

Deno.test("hostLocal.check() compares the leases with prevResult", async (t) => {
  const config = { subnet: "10.1.2.0/24" };
  const missing = "host-local: Failed to find address added by container dummy";
  const result = (...addresses: string[]): JsonObject => ({
    prevResult: {
      cniVersion: "1.1.0",
      ips: addresses.map((address) => ({ address })),
    },
  });
  const rows: [
    name: string,
    files: Record<string, string>,
    others: JsonObject,
    details: string | undefined,
  ][] = [
    ["leased", { "10.1.2.2": "dummy\r\neth0" }, result("10.1.2.2/24"), ""],
    [
      "of the container alone",
      { "10.1.2.2": "dummy" },
      result("10.1.2.2/24"),
      "",
    ],
    ["no result", { "10.1.2.2": "dummy\r\neth0" }, {}, ""],
    [
      "beside another plugin's address",
      { "10.1.2.2": "dummy\r\neth0" },
      result("10.1.2.2/24", "192.0.2.9/24"),
      "",
    ],
    ["not leased", {}, result("10.1.2.2/24"), "10.1.2.2 is not leased"],
    [
      "two not leased",
      {},
      result("10.1.2.2/24", "10.1.2.3/24"),
      "10.1.2.2 is not leased\n10.1.2.3 is not leased",
    ],
    ["not leased, no result", {}, {}, undefined],
    [
      "leased to another",
      { "10.1.2.2": "other\r\neth0" },
      result("10.1.2.2/24"),
      "10.1.2.2 is not leased",
    ],
    // The Go plugin accepts this.
    [
      "another address leased",
      { "10.1.2.3": "dummy\r\neth0" },
      result("10.1.2.2/24"),
      "10.1.2.2 is not leased",
    ],
    [
      "none of the result's addresses leased",
      { "10.1.2.2": "dummy\r\neth0" },
      result("192.0.2.9/24"),
      "192.0.2.9 is not leased",
    ],
  ];
  await eachRow(t, rows, async ([, files, others, details]) => {
    using fixture = new DataDirectory();
    fixture.plant(files);
    const output = await run("CHECK", fixture.config(config, others));
    if (details === "") return assertSuccess(output);
    assertFailure(output, 999, missing);
    assertEquals(output.json.details, details);
  });
  await t.step("a missing directory, which is not created", async () => {
    using fixture = new DataDirectory();
    assertFailure(await run("CHECK", fixture.config(config)), 999, missing);
    assertEquals(fixture.list(), []);
  });
});

Deno.test("hostLocal.del() succeeds if the lease directory cannot exist", async (t) => {
  using fixture = new DataDirectory();
  const plain = fixture.write("plain", "");
  const rows: [name: string, config: JsonObject][] = [
    [
      "a name too long for a directory",
      fixture.config({}, { name: "n".repeat(300) }),
    ],
    [
      "a data directory below a file",
      fixture.config({ dataDir: `${plain}/x` }),
    ],
  ];
  await eachRow(t, rows, async ([, config]) => {
    assertEquals((await run("ADD", config)).exitCode, 1);
    assertSuccess(await run("DEL", config));
  });
});

Deno.test("hostLocal.gc() releases the leases of stale attachments", async (t) => {
  const kept = { "10.1.2.2": "dummy\r\neth0", "10.1.2.3": "dummy" };
  const ended = {
    "10.1.2.4": "dummy\r\neth1",
    "10.1.2.5": "gone\r\neth0",
    "10.1.2.6": "",
  };
  const others = { "last_reserved_ip.0": "10.1.2.6", "lock": "", "README": "" };
  const all = { ...kept, ...ended, ...others };
  const dummy = { containerID: "dummy", ifname: "eth0" };
  const rows: [string, JsonObject, Record<string, string>][] = [
    ["one is valid", { "cni.dev/valid-attachments": [dummy] }, {
      ...kept,
      ...others,
    }],
    ["none is valid", { "cni.dev/valid-attachments": [] }, others],
    ["it is not known which", {}, all],
    // Go's libcni writes an empty list like this.
    ["null instead of a list", { "cni.dev/valid-attachments": null }, others],
  ];
  await eachRow(t, rows, async ([, config, after]) => {
    using fixture = new DataDirectory();
    fixture.plant(all);
    const { exitCode } = await run("GC", fixture.config({}, config));
    assertEquals(exitCode, 0);
    assertEquals(fixture.read(), after);
  });
  await t.step("a malformed list is refused, and releases none", async () => {
    using fixture = new DataDirectory();
    fixture.plant(all);
    const config = {
      "cni.dev/valid-attachments": [dummy, { containerID: "gone" }],
    };
    const output = await run("GC", fixture.config({}, config));
    assertFailure(
      output,
      7,
      "Cannot decode network configuration: " +
        "cni.dev/valid-attachments[1].ifname: missing",
    );
    assertEquals(fixture.read(), all);
  });
  await t.step("a missing directory, which is not created", async () => {
    using fixture = new DataDirectory();
    const config = { "cni.dev/valid-attachments": [] };
    assertSuccess(await run("GC", fixture.config({}, config)));
    assertEquals(fixture.list(), []);
  });
});
