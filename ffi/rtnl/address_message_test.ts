import { assertEquals } from "@std/assert";
import {
  assertLayout,
  maybe,
  randomBelow,
  randomIp,
  randomText,
  testMessages,
} from "../../tests/_harness/codecs.ts";
import { delAddress, getAddress, newAddress } from "./address_message.ts";

function randomAddress(): Parameters<typeof newAddress.encode>[0] {
  return {
    header: {
      family: randomBelow(2 ** 8),
      prefixLength: randomBelow(129),
      flags: randomBelow(2 ** 8),
      scope: randomBelow(2 ** 8),
      ifindex: randomBelow(2 ** 32),
    },
    attributes: {
      ...maybe("address", randomIp),
      ...maybe("local", randomIp),
      ...maybe("label", () => randomText(15)),
      ...maybe("broadcast", randomIp),
      ...maybe("flags", () => randomBelow(2 ** 32)),
      ...maybe("targetNetnsId", () => randomBelow(2 ** 31) - 1),
    },
  };
}

// Offsets and sizes as gcc reports them.
Deno.test("the header of address messages is laid out as struct ifaddrmsg", () => {
  assertEquals(newAddress.encode({ header: {} }).length, 8);
  assertLayout((header) => newAddress.encode({ header }), {
    family: [0, 1],
    prefixLength: [1, 1],
    flags: [2, 1],
    scope: [3, 1],
    ifindex: [4, 4],
  });
});

testMessages("address", {
  numbers: [
    [newAddress, "RTM_NEWADDR", 20],
    [delAddress, "RTM_DELADDR", 21],
    [getAddress, "RTM_GETADDR", 22],
  ],
  codec: newAddress,
  draw: randomAddress,
});
