/** host-local and addresses that other machines have. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { CONFLICTS } from "../../cni/config/types.ts";
import {
  addressesOf,
  assertFailure,
  assertSuccess,
  DataDirectory,
  type Output,
  runInProcess,
} from "./testing.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const MAC = "02:00:00:00:00:09", LINK = `-> conflict/${MAC}`;
const RANGE = { subnet: "10.1.2.0/24" };
const DUAL = { ...RANGE, ranges: [[{ subnet: "fd00::/64" }]] };
/** Longer than an address is set aside, in seconds. */
const LATER = 601;

/** Calls in a directory. */
class Calls implements Disposable {
  readonly data = new DataDirectory();

  run(
    command: string,
    ipam: JsonObject,
    id = "one",
    conf: JsonObject = {},
  ): Promise<Output> {
    const env = {
      CNI_CONTAINERID: id,
      CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME=pod-${id}`,
    };
    return runInProcess(command, this.data.config(ipam, conf), env);
  }

  /** Runs ADD, again if there are conflicts. @returns The addresses */
  async add(
    ipam: JsonObject,
    id = "one",
    ...conflicts: readonly string[]
  ): Promise<string[]> {
    const output = await this.run("ADD", ipam, id, conflictsOf(conflicts));
    assertSuccess(output);
    return addressesOf(output).map((one) => one.split("/")[0] ?? "");
  }

  [Symbol.dispose](): void {
    this.data[Symbol.dispose]();
  }
}

function conflictsOf(ips: readonly string[]): JsonObject {
  return ips.length === 0
    ? {}
    : { [CONFLICTS]: ips.map((ip) => ({ ip, mac: MAC })) };
}

Deno.test("hostLocal.add() replaces an address that another machine uses", async (t) => {
  const rows: readonly (readonly [
    name: string,
    ipam: JsonObject,
    conflicts: readonly string[],
    after: readonly string[],
  ])[] = [
    ["the only one", RANGE, ["10.1.2.2"], ["10.1.2.3"]],
    ["one of two", DUAL, ["fd00::2"], ["10.1.2.2", "fd00::3"]],
    ["both", DUAL, ["10.1.2.2", "fd00::2"], ["10.1.2.3", "fd00::3"]],
    [
      "and none that was replaced before",
      RANGE,
      ["10.1.2.3", "10.1.2.2"],
      ["10.1.2.4"],
    ],
    [
      "of a pod's name",
      { ...RANGE, stay: "name", stayTime: "10m" },
      ["10.1.2.2"],
      ["10.1.2.3"],
    ],
  ];
  await eachRow(t, rows, async ([, ipam, conflicts, after]) => {
    using calls = new Calls();
    const before = await calls.add(ipam);
    assertEquals(await calls.add(ipam, "one", ...conflicts), after);
    const aside = before.filter((ip) => conflicts.includes(ip));
    assertEquals(
      calls.data.leases(),
      Object.fromEntries([
        ...aside.map((ip) => [ip, LINK]),
        ...after.map((ip) => [ip, "one\r\neth0"]),
      ]),
    );
    const check = after.map((ip) => ({
      address: ip.includes(":") ? `${ip}/64` : `${ip}/24`,
    }));
    const prevResult = { cniVersion: "1.1.0", ips: check };
    assertSuccess(await calls.run("CHECK", ipam, "one", { prevResult }));
    assertSuccess(await calls.run("DEL", ipam));
    assertEquals(
      Object.values(calls.data.leases()).filter((one) => one === LINK).length,
      aside.length,
    );
  });
});

Deno.test("hostLocal.add() leases no address that was set aside within ten minutes", async () => {
  using calls = new Calls();
  const small = { ...RANGE, rangeStart: "10.1.2.2", rangeEnd: "10.1.2.5" };
  await calls.add(small);
  assertEquals(await calls.add(small, "one", "10.1.2.2"), ["10.1.2.3"]);
  assertEquals(await calls.add(small, "two"), ["10.1.2.4"]);
  calls.data.age("10.1.2.2", LATER);
  assertEquals(await calls.add(small, "three"), ["10.1.2.5"]);
  assertEquals(await calls.add(small, "four"), ["10.1.2.2"]);
  assertFailure(
    await calls.run("ADD", small, "five"),
    11,
    "failed to allocate for range 0: no IP addresses available in range set: 10.1.2.2-10.1.2.5",
  );
});

Deno.test("hostLocal.gc() keeps an address that is set aside until its ten minutes expire", async () => {
  using calls = new Calls();
  await calls.add(RANGE);
  await calls.add(RANGE, "one", "10.1.2.2");
  const none = { "cni.dev/valid-attachments": [] };
  assertSuccess(await calls.run("GC", RANGE, "one", none));
  assertEquals(calls.data.leases(), { "10.1.2.2": LINK });
  calls.data.age("10.1.2.2", LATER);
  assertSuccess(await calls.run("GC", RANGE, "one", none));
  assertEquals(calls.data.leases(), {});
});

Deno.test("hostLocal.add() sets at most a quarter of a range aside", async () => {
  using calls = new Calls();
  const range = { ...RANGE, rangeStart: "10.1.2.2", rangeEnd: "10.1.2.9" };
  const met: string[] = [];
  const [first = ""] = await calls.add(range);
  for (let next = first; met.length < 7;) {
    met.push(next);
    [next = ""] = await calls.add(range, "one", ...met);
  }
  assertEquals(Object.values(calls.data.leases()).sort(), [
    LINK,
    LINK,
    "one\r\neth0",
  ]);
  // The range has only addresses that this call reports as conflicts.
  const last = [...met, "10.1.2.9"];
  const refused = await calls.run("ADD", range, "one", conflictsOf(last));
  assertFailure(
    refused,
    11,
    "failed to allocate for range 0: no IP addresses available in range set: 10.1.2.2-10.1.2.9",
  );
  assertSuccess(await calls.run("DEL", range));
  assertEquals(Object.values(calls.data.leases()), [LINK, LINK]);
});

Deno.test("hostLocal.add() reuses the address set aside first if the range is full", async () => {
  using calls = new Calls();
  const range = { ...RANGE, rangeStart: "10.1.2.2", rangeEnd: "10.1.2.9" };
  await calls.add(range);
  await calls.add(range, "one", "10.1.2.2");
  await calls.add(range, "one", "10.1.2.3");
  calls.data.age("10.1.2.3", 60);
  for (let number = 0; number < 5; number++) {
    await calls.add(range, `other-${number}`);
  }
  assertSuccess(await calls.run("STATUS", range));
  const output = await calls.run("ADD", range, "last");
  assertEquals(output.json.ips[0].address, "10.1.2.3/24");
  assertStringIncludes(
    output.stderr,
    "The range is full: reusing an address that is set aside",
  );
});

Deno.test("hostLocal.add() fails if a requested address conflicts, and does not replace it", async () => {
  using calls = new Calls();
  const requested = { runtimeConfig: { ips: ["10.1.2.7"] } };
  assertSuccess(await calls.run("ADD", RANGE, "one", requested));
  const again = await calls.run("ADD", RANGE, "one", {
    ...requested,
    ...conflictsOf(["10.1.2.7"]),
  });
  assertFailure(
    again,
    11,
    `the requested address 10.1.2.7 is in use by ${MAC}`,
  );
  // Others that request it find out by themselves.
  assertSuccess(await calls.run("DEL", RANGE));
  calls.data.plant({});
  await calls.add(RANGE, "two");
  await calls.add(RANGE, "two", "10.1.2.8");
  const set = { runtimeConfig: { ips: ["10.1.2.8"] } };
  assertSuccess(await calls.run("ADD", RANGE, "three", set));
});

Deno.test("hostLocal.add() refuses a malformed list of conflicts", async () => {
  using calls = new Calls();
  const conf = { [CONFLICTS]: [{ ip: "10.1.2", mac: MAC }] };
  const refused = await calls.run("ADD", RANGE, "one", conf);
  assertFailure(
    refused,
    7,
    "Cannot decode network configuration: cni.dev/conflicts[0].ip: invalid IP address: 10.1.2",
  );
});
