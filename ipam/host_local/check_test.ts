import { assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import {
  assertFailure,
  assertSuccess,
  DataDirectory,
  runInProcess as run,
} from "./testing.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const LARGE = "10.1.3.0/24";

Deno.test("checkStatus() succeeds without output if no address is free", async () => {
  using fixture = new DataDirectory();
  fixture.plant({ lock: "", "10.1.2.2": "other\r\neth0" });
  const config = fixture.config({ ranges: [[{ subnet: "10.1.2.0/30" }]] });
  assertEquals((await run("ADD", config)).json?.code, 11);
  const output = await run("STATUS", config);
  assertSuccess(output);
});

Deno.test("checkStatus() fails with 50 if the lease directory cannot be written", async (t) => {
  using fixture = new DataDirectory();
  const plain = fixture.write("plain", "");
  fixture.plant({});
  const rows: [name: string, dataDir: string, network: string, why: string][] =
    [
      ["an empty directory", fixture.path, "mynet", ""],
      ["a directory to be made", fixture.path, "none", ""],
      ["several to be made", `${fixture.path}/a/b/c`, "none", ""],
      ["one in the root", "/no-such-directory", "none", ""],
      ["a file in the way", plain, "mynet", "Not a directory"],
      ["a file further up", `${plain}/a/b`, "mynet", "Not a directory"],
      ["a name too long", fixture.path, "n".repeat(300), "File name too long"],
    ];
  await eachRow(t, rows, async ([, dataDir, network, why]) => {
    const before = fixture.list();
    const config = fixture.config({ subnet: LARGE, dataDir }, {
      name: network,
    });
    const output = await run("STATUS", config);
    assertEquals(fixture.list(), before);
    assertEquals(fixture.read(), {});
    if (why === "") return assertSuccess(output);
    const directory = `${dataDir}/${network}`;
    assertFailure(
      output,
      50,
      `Cannot write to the lease directory "${directory}"`,
    );
    assertStringIncludes(output.json.details, why);
  });
});

Deno.test("checkStatus() does not change the lease directory", async () => {
  using fixture = new DataDirectory();
  fixture.plant({ "10.1.3.2": "other\r\neth0" });
  const directory = fixture.directoryOf();
  const before = await Deno.stat(directory);
  assertSuccess(await run("STATUS", fixture.config({ subnet: LARGE })));
  const { mtime, ctime } = await Deno.stat(directory);
  assertEquals({ mtime, ctime }, { mtime: before.mtime, ctime: before.ctime });
  assertEquals(fixture.read(), { "10.1.3.2": "other\r\neth0" });
});

Deno.test("checkStatus() does not wait for the lock on the leases", async () => {
  using fixture = new DataDirectory();
  fixture.plant({ lock: "" });
  const path = `${fixture.directoryOf()}/lock`;
  using lock = await Deno.open(path, { write: true });
  await lock.lock(true);
  assertSuccess(await run("STATUS", fixture.config({ subnet: LARGE })));
});

Deno.test("checkStatus() fails if the ranges or resolv.conf would make ADD fail", async (t) => {
  const rows: [string, JsonObject, JsonObject, number, string][] = [
    ["no ranges", {}, {}, 7, "no IP ranges specified"],
    [
      "ranges that come with the ADD",
      {},
      { capabilities: { ipRanges: true } },
      0,
      "",
    ],
    [
      "a wrong range",
      { subnet: "10.1.2.3/24" },
      {},
      7,
      "invalid range set 0: Network has host bits set. For a subnet mask of " +
      "length 24 the network address is 10.1.2.0",
    ],
    [
      "no resolv.conf",
      { subnet: LARGE, resolvConf: "/no/such/file" },
      {},
      50,
      'Cannot read "/no/such/file"',
    ],
  ];
  await eachRow(t, rows, async ([, ipam, others, code, message]) => {
    using fixture = new DataDirectory();
    const output = await run("STATUS", fixture.config(ipam, others));
    if (code === 0) return assertSuccess(output);
    assertFailure(output, code, message);
    assertEquals(fixture.list(), []);
  });
});
