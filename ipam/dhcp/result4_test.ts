import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import type { Lease4 } from "./lease.ts";
import { resultOf4 } from "./result4.ts";

/** A lease that a server acknowledged by these options. */
function leaseOf(ack: Lease4["ack"], priority = 0): Lease4 {
  return {
    network: "net1",
    containerId: "pod",
    ifName: "eth0",
    netns: "/run/netns/pod",
    options: {},
    priority,
    netnsId: "4:1",
    ifindex: 2,
    address: "10.9.0.7",
    ack,
    serverMac: "02:00:00:00:00:01",
    obtainedAt: 0,
    expires: "",
  };
}

/** Returns the routes of a result as text. */
function routesOf(ack: Lease4["ack"], priority?: number): string[] {
  return resultOf4(leaseOf({ "1": "ffffff00", ...ack }, priority)).routes
    .map(({ dst, gw, scope, priority }) =>
      [dst, gw, scope, priority].filter((part) => part !== undefined).join(" ")
    );
}

Deno.test("resultOf4() lists static routes before the default route", () => {
  const classful = { "33": "c0000200" + "0a090002" };
  assertEquals(routesOf(classful), ["192.0.2.0/24 10.9.0.2"]);
  assertEquals(routesOf({ ...classful, "3": "0a090001" }, 5), [
    "192.0.2.0/24 10.9.0.2 5",
    "0.0.0.0/0 10.9.0.1 5",
  ]);
});

Deno.test("resultOf4() prefers classless routes, those on the link in its scope", () => {
  const classless = "18c63364" + "00000000" + "00" + "0a0900fe";
  assertEquals(routesOf({ "121": classless, "3": "0a090001" }), [
    "198.51.100.0/24 0.0.0.0 253",
    "0.0.0.0/0 10.9.0.254",
  ]);
});

Deno.test("resultOf4() refuses a lease without subnet mask", () => {
  const error = assertThrows(
    () => resultOf4(leaseOf({})),
    CniError,
    "Subnet Mask",
  );
  assertEquals(error.code, 999);
});
