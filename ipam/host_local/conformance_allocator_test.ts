/**
 * The addresses that host-local's ADD returns: the rows AL of the conformance
 * list.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import {
  addressesOf,
  assertFailure,
  assertSuccess,
  DataDirectory,
  type Output,
  runInProcess as run,
} from "./testing.ts";
import { conformance, type Row } from "../../tests/_harness/conformance.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** A network with containers `c1`, `c2`… in the order of their ADDs. */
class Network extends DataDirectory {
  readonly #config: JsonObject;
  #containers = 0;

  /**
   * @param subnets The subnets of its only range set
   * @param taken Addresses of other containers
   * @param last The address that was handed out last, if any was
   */
  constructor(subnets: string, taken = "", last = "") {
    super();
    const set = subnets.split(" ").map((subnet) => ({ subnet }));
    this.#config = this.config({ ranges: [set] });
    this.plant(last === "" ? {} : { "last_reserved_ip.0": last });
    for (const ip of taken.split(" ").filter(Boolean)) {
      this.plant({ [ip]: "somebody\r\neth0" });
    }
  }

  add(requested = ""): Promise<Output> {
    return run("ADD", this.#config, {
      CNI_CONTAINERID: `c${++this.#containers}`,
      CNI_ARGS: requested === "" ? "" : `IP=${requested}`,
    });
  }

  /** Adds and answers the address, without its prefix length. */
  async next(requested = ""): Promise<string> {
    const [address = ""] = addressesOf(await this.add(requested));
    return address.split("/")[0] ?? "";
  }

  async del(container: number): Promise<void> {
    const env = { CNI_CONTAINERID: `c${container}` };
    assertSuccess(await run("DEL", this.#config, env));
  }

  /** Asserts that exactly these addresses follow. */
  async assertRest(want: string): Promise<void> {
    const given: string[] = [];
    for (const _ of want.split(" ")) given.push(await this.next());
    assertEquals(given.join(" "), want);
  }

  async assertExhausted(ranges: string): Promise<void> {
    assertFailure(
      await this.add(),
      11,
      "failed to allocate for range 0: no IP addresses available in range " +
        `set: ${ranges}`,
    );
  }
}

/** Taken addresses, the last address, and the expected next address. */
const FIRST_FREE: readonly [string, string, string, string][] = [
  ["10.0.0.0/29", "", "", "10.0.0.2"],
  ["2001:db8:1::/64", "", "", "2001:db8:1::2"],
  ["10.0.0.0/30", "", "", "10.0.0.2"],
  ["10.0.0.0/29", "10.0.0.2", "", "10.0.0.3"],
  ["10.0.0.0/29", "", "10.0.0.5", "10.0.0.6"],
  ["10.0.0.0/29", "10.0.0.4 10.0.0.5", "10.0.0.3", "10.0.0.6"],
  ["10.0.0.0/29", "10.0.0.6", "10.0.0.5", "10.0.0.2"],
  ["10.0.0.0/29", "10.0.0.2", "10.0.0.128", "10.0.0.3"],
  [
    "10.0.0.0/29",
    "10.0.0.2 10.0.0.4 10.0.0.5 10.0.0.6",
    "10.0.0.3",
    "10.0.0.3",
  ],
  ["10.0.0.0/30 10.0.1.0/30", "", "", "10.0.0.2"],
  ["10.0.0.0/30 10.0.1.0/30", "", "10.0.0.2", "10.0.1.2"],
  ["10.0.0.0/30 10.0.1.0/30 10.0.2.0/30", "", "10.0.2.2", "10.0.0.2"],
];

/** Sets, the number of their addresses, and their ranges in the error. */
const EXHAUSTED: readonly [string, number, string][] = [
  ["10.0.0.0/30", 1, "10.0.0.1-10.0.0.2"],
  ["10.0.0.0/29", 5, "10.0.0.1-10.0.0.6"],
  ["10.0.0.0/30 10.0.1.0/30", 2, "10.0.0.1-10.0.0.2,10.0.1.1-10.0.1.2"],
];

const ALL_OF_29 = "10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6";

/** Lets all addresses of a network be handed out, in the order given. */
function handsOut(
  subnets: string,
  last: string,
  want: string,
  ranges: string,
): Row {
  return async () => {
    using network = new Network(subnets, "", last);
    await network.assertRest(want);
    await network.assertExhausted(ranges);
  };
}

conformance("host-local", {
  "AL-1: a new network hands out its addresses in order": handsOut(
    "10.0.0.0/29",
    "",
    ALL_OF_29,
    "10.0.0.1-10.0.0.6",
  ),

  "AL-2: allocation wraps around after the last address": handsOut(
    "10.0.0.0/29",
    "10.0.0.6",
    ALL_OF_29,
    "10.0.0.1-10.0.0.6",
  ),

  "AL-3: the last reserved address is tried last": handsOut(
    "10.0.0.0/29",
    "10.0.0.3",
    "10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.2 10.0.0.3",
    "10.0.0.1-10.0.0.6",
  ),

  "AL-4: the first free address is leased": async (t) => {
    for (const [subnets, taken, last, want] of FIRST_FREE) {
      await t.step(`${subnets} | ${taken} | ${last} => ${want}`, async () => {
        using network = new Network(subnets, taken, last);
        assertEquals(await network.next(), want);
      });
    }
  },

  "AL-5: the gateway and broadcast addresses are never leased": async () => {
    using network = new Network("192.168.1.0/29");
    for (let i = 0; i < 5; i++) await network.next();
    await network.assertExhausted("192.168.1.1-192.168.1.6");
    assertEquals(
      Object.keys(network.leases()).sort(),
      [2, 3, 4, 5, 6].map((octet) => `192.168.1.${octet}`),
    );
  },

  "AL-6: a released address is not leased next": async () => {
    using network = new Network("192.168.1.0/29");
    assertEquals(await network.next(), "192.168.1.2");
    await network.del(1);
    assertEquals(await network.next(), "192.168.1.3");
  },

  "AL-7: a requested address is leased once": async () => {
    using network = new Network("192.168.1.0/29");
    assertEquals(await network.next("192.168.1.5"), "192.168.1.5");
    assertFailure(
      await network.add("192.168.1.5"),
      11,
      "failed to allocate for range 0: requested IP address 192.168.1.5 is " +
        "not available in range set 192.168.1.1-192.168.1.6",
    );
  },

  "AL-8: a requested address outside the range is refused": async (t) => {
    using directory = new DataDirectory();
    const config = directory.config({
      subnet: "192.168.1.0/24",
      rangeStart: "192.168.1.10",
      rangeEnd: "192.168.1.20",
    });
    await eachRow(t, ["192.168.1.9", "192.168.1.21"], async (ip) => {
      const output = await run("ADD", config, { CNI_ARGS: `IP=${ip}` });
      const message = `failed to allocate all requested IPs: ${ip}`;
      assertFailure(output, 7, message);
    });
  },

  "AL-9: an exhausted set is reported": async (t) => {
    await eachRow(t, EXHAUSTED, async ([subnets, free, ranges]) => {
      using network = new Network(subnets);
      for (let i = 0; i < free; i++) await network.next();
      await network.assertExhausted(ranges);
    });
  },

  "AL-10: the start of the next range follows the end of a range": async () => {
    using network = new Network("10.0.0.0/29 10.0.1.0/29", "", "10.0.0.6");
    assertEquals(await network.next(), "10.0.1.2");
  },

  "AL-11: a new network starts with its first range": async () => {
    using network = new Network("10.0.0.0/29 10.0.1.0/29");
    assertEquals(await network.next(), "10.0.0.2");
  },
});
