// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/** host-local with the key `stay`: persistent addresses of pod names. */

import {
  assertEquals,
  assertMatch,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { join } from "@std/path/posix";
import { LONGEST_STAY_MS } from "../../base/duration.ts";
import { CniError } from "../../base/error.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { readPool } from "./inspect.ts";
import {
  addressesOf,
  assertFailure,
  assertSuccess,
  DataDirectory,
  type Output,
  runInProcess,
} from "./testing.ts";
import { hideBootId } from "../../tests/_harness/boot_id.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const STAY = { subnet: "10.1.2.0/24", stay: "name", stayTime: "10m" };
/** Three addresses. */
const SMALL = { ...STAY, subnet: "10.1.2.0/29", rangeStart: "10.1.2.4" };
/** A namespace that stays, and not the network namespace of the plugin. */
const HERE = "/proc/self/ns/ipc";

/** Calls for pods in a directory. */
class Pods implements Disposable {
  readonly data = new DataDirectory();
  readonly ipam: JsonObject;

  constructor(ipam: JsonObject = STAY) {
    this.ipam = ipam;
  }

  /** Calls for a pod whose sandbox is `POD-NUMBER`. */
  call(
    command: string,
    pod: string,
    number: number,
    { netns = "/some/netns", args = "", ipam = {}, conf = {} }: {
      netns?: string;
      args?: string;
      ipam?: JsonObject;
      conf?: JsonObject;
    } = {},
  ): Promise<Output> {
    return runInProcess(
      command,
      this.data.config({ ...this.ipam, ...ipam }, conf),
      {
        CNI_CONTAINERID: `${pod}-${number}`,
        CNI_NETNS: netns,
        CNI_ARGS: args ||
          `IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME=${pod}`,
      },
    );
  }

  /** Runs ADD; returns the addresses without prefix lengths. */
  async add(
    pod: string,
    number: number,
    more: Parameters<Pods["call"]>[3] = {},
  ): Promise<string> {
    const output = await this.call("ADD", pod, number, more);
    return addressesOf(output).map((one) => one.split("/")[0]).join();
  }

  async del(
    pod: string,
    number: number,
    more: Parameters<Pods["call"]>[3] = {},
  ): Promise<void> {
    assertSuccess(await this.call("DEL", pod, number, more));
  }

  async gc(valid: readonly string[], ipam: JsonObject = {}): Promise<void> {
    const conf = {
      "cni.dev/valid-attachments": valid.map((containerID) => ({
        containerID,
        ifname: "eth0",
      })),
    };
    assertSuccess(await this.call("GC", "any", 0, { ipam, conf }));
  }

  /** Lists the leased addresses. */
  addresses(): string[] {
    return Object.keys(this.data.leases()).sort();
  }

  /** Lists the names that have a file. */
  names(): string[] {
    try {
      return [...Deno.readDirSync(this.nameDirectory)]
        .map(({ name }) => name).sort();
    } catch {
      return [];
    }
  }

  get nameDirectory(): string {
    return join(this.data.path, ".by-name/mynet/test:eth0");
  }

  [Symbol.dispose](): void {
    this.data[Symbol.dispose]();
  }
}

Deno.test("hostLocal stay: a pod name gets the same addresses after each DEL", async (t) => {
  const rows: Record<string, [JsonObject, string]> = {
    "one family": [STAY, "10.1.2.2"],
    "both": [
      { ...STAY, ranges: [[{ subnet: "fd00::/64" }]] },
      "10.1.2.2,fd00::2",
    ],
  };
  await eachRow(t, Object.entries(rows), async ([, [ipam, ips]]) => {
    using pods = new Pods(ipam);
    assertEquals(await pods.add("db-0", 1), ips);
    const all = ips.split(",");
    for (let round = 1; round < 4; round++) {
      await pods.del("db-0", round);
      assertEquals(
        all.map((ip) => pods.data.leases()[ip]),
        all.map(() => "-> stay/test/db-0/eth0"),
      );
      // Again, and it is the same.
      await pods.del("db-0", round);
      await pods.add(`other-${round}`, round);
      assertEquals(await pods.add("db-0", round + 1), ips);
      assertEquals(
        all.map((ip) => pods.data.leases()[ip]),
        all.map(() => `db-0-${round + 1}\r\neth0`),
      );
    }
    // The last allocated address does not change.
    assertStringIncludes(await pods.add("last", 1), "10.1.2.6");
  });
});

Deno.test("hostLocal stay: another pod gets the address after stayTime", async () => {
  using pods = new Pods(SMALL);
  assertEquals(await pods.add("a", 1), "10.1.2.4");
  await pods.del("a", 1);
  assertEquals(await pods.add("b", 1), "10.1.2.5");
  assertEquals(await pods.add("c", 1), "10.1.2.6");
  pods.data.age("10.1.2.4", 599);
  const before = pods.data.leases()["10.1.2.4"];
  assertEquals(before, "-> stay/test/a/eth0");
  pods.data.age("10.1.2.4", 601);
  assertEquals(await pods.add("d", 1), "10.1.2.4");
});

Deno.test("hostLocal stay: a pod gets its address again after a sandbox ended without DEL", async () => {
  using pods = new Pods();
  const netns = join(pods.data.path, "netns");
  Deno.writeTextFileSync(netns, "");
  assertEquals(await pods.add("db-0", 1, { netns }), "10.1.2.2");
  // The node starts again.
  Deno.removeSync(netns);
  assertEquals(await pods.add("other", 1), "10.1.2.3");
  assertEquals(await pods.add("db-0", 2), "10.1.2.2");
  await pods.del("db-0", 1);
  assertEquals(pods.data.leases()["10.1.2.2"], "db-0-2\r\neth0");
  // A different namespace has the path.
  assertEquals(await pods.add("db-1", 1, { netns: HERE }), "10.1.2.4");
  const file = join(pods.nameDirectory, "db-1");
  const record = JSON.parse(Deno.readTextFileSync(file));
  for (
    const change of [{ boot: "before" }, { id: "4:1" }, { id: undefined }]
  ) {
    const sandbox = { ...record.sandbox, ...change };
    Deno.writeTextFileSync(file, JSON.stringify({ ...record, sandbox }));
    const id = change.boot ? 2 : change.id ? 3 : 4;
    assertEquals(await pods.add("db-1", id), "10.1.2.4");
    await pods.del("db-1", id);
    assertEquals(await pods.add("db-1", 1, { netns: HERE }), "10.1.2.4");
  }
});

Deno.test("hostLocal stay: ADD fails while the previous sandbox of the name exists", async () => {
  using pods = new Pods();
  await pods.add("db-0", 1, { netns: HERE });
  const before = pods.data.read();
  const output = await pods.call("ADD", "db-0", 2);
  assertFailure(
    output,
    11,
    '10.1.2.2 is reserved for pod "test/db-0", and its container "db-0-1" holds it ' +
      "until its DEL",
  );
  assertEquals(output.json.details, `"${HERE}" exists`);
  assertEquals(pods.data.read(), before);
  await pods.del("db-0", 1);
  assertEquals(await pods.add("db-0", 2), "10.1.2.2");
});

Deno.test("hostLocal stay: ADD recognizes a living namespace although the boot ID is hidden", async (t) => {
  for (const hiddenAt of [1, 2]) {
    await t.step(`from ADD ${hiddenAt}`, async () => {
      using pods = new Pods();
      const add = async (number: number): Promise<number> => {
        using _hidden = number === hiddenAt ? hideBootId() : undefined;
        const netns = number === 1 ? HERE : "/some/netns";
        return (await pods.call("ADD", "db-0", number, { netns })).exitCode;
      };
      assertEquals([await add(1), await add(2)], [0, 1]);
    });
  }
});

Deno.test("hostLocal stay: a full range reuses the address that was unused longest", async () => {
  using pods = new Pods(SMALL);
  for (const [index, pod] of ["a", "b", "c"].entries()) {
    const ip = await pods.add(pod, 1);
    await pods.del(pod, 1);
    pods.data.age(ip, pod === "b" ? 300 : index);
  }
  assertSuccess(await pods.call("STATUS", "x", 1));
  const { exitCode, json, stderr } = await pods.call("ADD", "x", 1);
  assertEquals([exitCode, json.ips[0].address], [0, "10.1.2.5/29"]);
  assertMatch(stderr, /The range is full: reusing a persistent address/);
  assertMatch(stderr, /10\.1\.2\.5/);
  // It has lost it, and takes another name's.
  assertEquals((await pods.call("ADD", "b", 2)).exitCode, 0);
  assertEquals((await pods.call("ADD", "y", 1)).exitCode, 0);
  const failure = await pods.call("ADD", "z", 1);
  assertEquals(failure.json.code, 11);
  // Only root can determine which containers were deleted.
  assertMatch(failure.stderr, Deno.uid() === 0 ? /^$/ : /run it as root/);
});

Deno.test("hostLocal stay: an ADD that fails keeps the persistent addresses of other pods", async () => {
  const second = [{ subnet: "10.1.3.0/30", rangeStart: "10.1.3.2" }];
  using pods = new Pods({ ...SMALL, ranges: [second] });
  for (const pod of ["a", "b", "c"]) {
    await pods.add(pod, 1, { ipam: { ranges: [] } });
    await pods.del(pod, 1, { ipam: { ranges: [] } });
  }
  // The last address of the second range.
  pods.data.plant({ "10.1.3.2": "other\r\neth0" });
  const before = pods.data.leases();
  for (const pod of ["a", "x"]) {
    assertEquals((await pods.call("ADD", pod, 2)).json.code, 11);
    assertEquals(pods.data.leases(), before);
  }
});

Deno.test("hostLocal stay: GC keeps an unused address until its stayTime expires", async () => {
  using pods = new Pods();
  for (const pod of ["a", "b", "c"]) await pods.add(pod, 1);
  pods.data.plant({ "10.1.2.9": "foreign\r\neth0" });
  await pods.del("b", 1);
  // "a" ended without a DEL; the pod of 10.1.2.9 is unknown.
  await pods.gc(["c-1"]);
  assertEquals(pods.data.leases(), {
    "10.1.2.2": "-> stay/test/a/eth0",
    "10.1.2.3": "-> stay/test/b/eth0",
    "10.1.2.4": "c-1\r\neth0",
  });
  assertEquals(pods.names(), ["a", "b", "c"]);
  pods.data.age("10.1.2.3", 601);
  pods.data.age("10.1.2.2", 599);
  await pods.gc(["c-1"]);
  assertEquals(pods.addresses(), ["10.1.2.2", "10.1.2.4"]);
  assertEquals(pods.names(), ["a", "c"]);
  assertEquals(await pods.add("a", 2), "10.1.2.2");
  await pods.del("a", 2);
  // Without the key no address is persistent.
  await pods.gc(["c-1"], { stay: null, stayTime: null });
  assertEquals(pods.addresses(), ["10.1.2.4"]);
  assertEquals(pods.names(), ["c"]);
  await pods.gc([], { stay: null, stayTime: null });
  assertEquals(pods.names(), []);
});

Deno.test("hostLocal stay: GC ignores stayTime without stay, and keeps addresses without stayTime", async () => {
  using pods = new Pods();
  await pods.add("a", 1);
  await pods.del("a", 1);
  pods.data.age("10.1.2.2", LONGEST_STAY_MS / 1000);
  await pods.gc([], { stayTime: null });
  assertEquals(pods.addresses(), ["10.1.2.2"]);
  pods.data.age("10.1.2.2", 0);
  await pods.gc([], { stay: null });
  assertEquals(pods.addresses(), []);
});

Deno.test("readPool() refuses stay without stayTime, as ADD and STATUS do", async () => {
  using pods = new Pods({ ...STAY, stayTime: null });
  const network = { name: "mynet", cniVersion: "1.1.0" };
  assertThrows(
    () => readPool(pods.data.config(pods.ipam), network),
    CniError,
    'needs "stayTime"',
  );
  for (const command of ["ADD", "STATUS"]) {
    const { json } = await pods.call(command, "a", 1);
    assertEquals(json.code, 7);
    assertMatch(json.msg, /needs "stayTime"/);
  }
});

Deno.test("hostLocal stay: the address is free after the key is removed", async () => {
  using pods = new Pods(SMALL);
  await pods.add("a", 1);
  await pods.del("a", 1);
  await pods.add("b", 1);
  await pods.add("c", 1);
  const ipam = { stay: null, stayTime: null };
  assertEquals(await pods.add("d", 1, { ipam }), "10.1.2.4");
  await pods.del("d", 1, { ipam });
  assertEquals(pods.addresses(), ["10.1.2.5", "10.1.2.6"]);
});

Deno.test("hostLocal stay: a pod can request its own address or a free one", async (t) => {
  using pods = new Pods();
  const args = (ip: string, pod: string): { args: string } => ({
    args: `IgnoreUnknown=1;IP=${ip};K8S_POD_NAMESPACE=test;K8S_POD_NAME=${pod}`,
  });
  await pods.add("a", 1);
  await pods.del("a", 1);
  await t.step("ADD refuses the address of a different name", async () => {
    const { json } = await pods.call("ADD", "b", 1, args("10.1.2.2", "b"));
    assertEquals(json.code, 11);
    assertMatch(
      json.details,
      /belongs to pod "test\/a", interface "eth0", for/,
    );
  });
  await t.step("ADD leases the name's own address", async () => {
    assertEquals(await pods.add("a", 2, args("10.1.2.2", "a")), "10.1.2.2");
    await pods.del("a", 2);
  });
  await t.step("ADD leases a requested address instead", async () => {
    assertEquals(await pods.add("a", 3, args("10.1.2.77", "a")), "10.1.2.77");
    assertEquals(pods.addresses(), ["10.1.2.77"]);
    await pods.del("a", 3);
    assertEquals(await pods.add("a", 4), "10.1.2.77");
  });
});

Deno.test("hostLocal stay: a pod gets a new address if its own is now excluded", async () => {
  using pods = new Pods();
  await pods.add("a", 1);
  await pods.del("a", 1);
  const ipam = { exclude: ["10.1.2.2"] };
  assertEquals(await pods.add("a", 2, { ipam }), "10.1.2.3");
  assertEquals(pods.addresses(), ["10.1.2.3"]);
});

Deno.test("hostLocal stay: ADD refuses invalid keys and pod names, and DEL succeeds", async (t) => {
  using pods = new Pods();
  const args = (text: string): { args: string } => ({ args: text });
  const rows: [string, Parameters<Pods["call"]>[3], number, RegExp][] = [
    ["no pod", args("IgnoreUnknown=1"), 4, /"stay" needs the name of a pod/],
    [
      "no namespace",
      args("IgnoreUnknown=1;K8S_POD_NAME=a"),
      4,
      /they are "" and "a"/,
    ],
    [
      "no name",
      args("IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME="),
      4,
      /they are "a" and ""/,
    ],
    [
      "a path",
      args("IgnoreUnknown=1;K8S_POD_NAMESPACE=..;K8S_POD_NAME=../../x"),
      4,
      /they are "\.\." and "\.\.\/\.\.\/x"/,
    ],
    [
      "a long name",
      args(
        `IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=${"x".repeat(254)}`,
      ),
      4,
      /"stay" needs the name of a pod/,
    ],
    ["no time", { ipam: { stayTime: null } }, 7, /needs "stayTime"/],
    ["no duration", { ipam: { stayTime: "soon" } }, 7, /not a duration/],
    ["no time at all", { ipam: { stayTime: "0s" } }, 7, /not a duration/],
    ["another kind", { ipam: { stay: "statefulset" } }, 7, /stay/],
  ];
  await eachRow(t, rows, async ([, more, code, text]) => {
    const { json, exitCode } = await pods.call("ADD", "a", 1, more);
    assertEquals([json.code, exitCode], [code, 1], json.msg);
    assertMatch(`${json.msg} ${json.details}`, text);
    assertEquals((await pods.call("DEL", "a", 1, more)).exitCode, 0);
    assertEquals(pods.data.list(), []);
  });
});

Deno.test("hostLocal stay: a pod keeps its address with the longest name in Kubernetes", async () => {
  using pods = new Pods();
  const pod = `${"x".repeat(249)}.abc`;
  const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=${
    "n".repeat(63)
  };K8S_POD_NAME=${pod}`;
  assertEquals(await pods.add("a", 1, { args }), "10.1.2.2");
  await pods.add("b", 1);
  // Even without a DEL.
  assertEquals(await pods.add("a", 2, { args }), "10.1.2.2");
});

Deno.test("hostLocal stay: DEL without a pod name, or of an older sandbox", async (t) => {
  const without = { args: "IgnoreUnknown=1" };
  await t.step("finds the pod name in the file of the name", async () => {
    using pods = new Pods();
    await pods.add("a", 1);
    await pods.del("a", 1, without);
    assertEquals(pods.data.leases()["10.1.2.2"], "-> stay/test/a/eth0");
  });
  await t.step("releases the address of an unknown container", async () => {
    using pods = new Pods();
    pods.data.plant({ "10.1.2.9": "a-1\r\neth0" });
    await pods.del("a", 1, without);
    assertEquals(pods.data.leases(), {});
  });
  await t.step("keeps an address from before the key", async () => {
    using pods = new Pods();
    pods.data.plant({ "10.1.2.9": "a-1\r\neth0" });
    await pods.del("a", 1);
    assertEquals(await pods.add("a", 2), "10.1.2.9");
  });
  await t.step("releases the old address if there is a new one", async () => {
    using pods = new Pods();
    pods.data.plant({ "10.1.2.9": "a-1\r\neth0" });
    await pods.add("a", 2);
    await pods.del("a", 1);
    assertEquals(Object.values(pods.data.leases()), ["a-2\r\neth0"]);
  });
});

Deno.test("hostLocal stay: CHECK compares the lease, and a second ADD of a sandbox fails", async () => {
  using pods = new Pods();
  const { json } = await pods.call("ADD", "a", 1);
  const conf = { prevResult: json };
  assertSuccess(await pods.call("CHECK", "a", 1, { conf }));
  const again = await pods.call("ADD", "a", 1);
  assertEquals(again.json.code, 999);
  assertStringIncludes(again.json.msg, "duplicate allocation is not allowed");
  await pods.del("a", 1);
  assertEquals((await pods.call("CHECK", "a", 1, { conf })).json.code, 999);
});

Deno.test("hostLocal stay: third-party links in the directory are never followed or removed", async () => {
  using pods = new Pods(SMALL);
  pods.data.plant({});
  const target = pods.data.write("target", "mine");
  for (const [name, to] of [["10.1.2.4", target], ["10.1.2.5", "nowhere"]]) {
    Deno.symlinkSync(`${to}`, join(pods.data.directoryOf(), `${name}`));
  }
  assertEquals(await pods.add("a", 1), "10.1.2.6");
  const { json } = await pods.call("ADD", "b", 1);
  assertEquals(json.code, 11);
  await pods.gc([], { stay: null, stayTime: null });
  assertEquals(pods.data.leases(), {
    "10.1.2.4": `-> ${target}`,
    "10.1.2.5": "-> nowhere",
  });
  assertEquals(Deno.readTextFileSync(target), "mine");
});

Deno.test("hostLocal stay: a name keeps its address if its file is lost or truncated", async (t) => {
  const few = 3, many = 900;
  for (const count of [few, many]) {
    await t.step(`among ${count} leases`, async () => {
      using pods = new Pods({ ...STAY, subnet: "10.1.0.0/16" });
      pods.data.plant(
        Object.fromEntries(
          Array.from({ length: count }, (_, i) => [
            `10.1.${1 + (i >> 8)}.${i & 255}`,
            `c${i}\r\neth0`,
          ]),
        ),
      );
      const ip = await pods.add("a", 1);
      await pods.add("b", 1);
      await pods.del("a", 1);
      assertEquals(await pods.add("a", 2), ip);
      // It ends without a DEL.
      assertEquals(await pods.add("a", 3), ip);
      const file = join(pods.nameDirectory, "a");
      const text = Deno.readTextFileSync(file);
      for (const length of [0, 1, text.length / 2, text.length - 2]) {
        Deno.writeTextFileSync(file, text.slice(0, length));
        // DEL writes it again.
        await pods.del("a", 3);
        assertEquals(await pods.add("a", 3), ip);
      }
      Deno.writeTextFileSync(file, "{}");
      assertEquals((await pods.add("a", 4)) === ip, false);
      await pods.gc(["a-4", "b-1"]);
      assertEquals(Object.keys(pods.data.leases()).length, 2);
    });
  }
});
