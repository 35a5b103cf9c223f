import { assertEquals } from "@std/assert";
import {
  assertLayout,
  maybe,
  randomBelow,
  randomIp,
  randomMac,
  testMessages,
} from "../../tests/_harness/codecs.ts";
import { delNeighbor, getNeighbor, newNeighbor } from "./neighbor_message.ts";

function randomNeighbor(): Parameters<typeof newNeighbor.encode>[0] {
  return {
    header: {
      family: randomBelow(2 ** 8),
      padding1: 0,
      padding2: 0,
      ifindex: randomBelow(2 ** 31),
      state: randomBelow(2 ** 16),
      flags: randomBelow(2 ** 8),
      type: randomBelow(2 ** 8),
    },
    attributes: {
      ...maybe("destination", randomIp),
      ...maybe("linkLayerAddress", randomMac),
    },
  };
}

// Offsets and sizes as gcc reports them.
Deno.test("the header of neighbour messages is laid out as struct ndmsg", () => {
  assertEquals(newNeighbor.encode({ header: {} }).length, 12);
  assertLayout((header) => newNeighbor.encode({ header }), {
    family: [0, 1],
    padding1: [1, 1],
    padding2: [2, 2],
    ifindex: [4, 4],
    state: [8, 2],
    flags: [10, 1],
    type: [11, 1],
  });
});

testMessages("neighbour", {
  numbers: [
    [newNeighbor, "RTM_NEWNEIGH", 28],
    [delNeighbor, "RTM_DELNEIGH", 29],
    [getNeighbor, "RTM_GETNEIGH", 30],
  ],
  codec: newNeighbor,
  draw: randomNeighbor,
});
