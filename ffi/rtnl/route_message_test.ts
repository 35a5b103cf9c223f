import { assertEquals, assertThrows } from "@std/assert";
import { Ip } from "../../net/ip.ts";
import {
  assertLayout,
  maybe,
  randomBelow,
  randomIp,
  testMessages,
} from "../../tests/_harness/codecs.ts";
import type { RawMessage } from "../netlink/message.ts";
import { decodeAnswers } from "../netlink/request.ts";
import { newAddress } from "./address_message.ts";
import { delRoute, getRoute, newRoute } from "./route_message.ts";

type RouteBody = Parameters<typeof newRoute.encode>[0];
type NextHop = NonNullable<
  NonNullable<RouteBody["attributes"]>["multipath"]
>[number];

/** The length is the one that the kernel would set. */
function randomNextHop(): NextHop {
  const gateway = maybe("gateway", randomIp);
  const size = gateway.gateway === undefined
    ? 0
    : 4 + gateway.gateway.toBytes().length;
  return {
    header: {
      length: 8 + size,
      flags: randomBelow(2 ** 8),
      hops: randomBelow(2 ** 8),
      ifindex: randomBelow(2 ** 31),
    },
    attributes: gateway,
  };
}

function randomRoute(): RouteBody {
  const word = (): number => randomBelow(2 ** 32);
  return {
    header: {
      family: randomBelow(2 ** 8),
      destinationLength: randomBelow(129),
      sourceLength: randomBelow(129),
      tos: randomBelow(2 ** 8),
      table: randomBelow(2 ** 8),
      protocol: randomBelow(2 ** 8),
      scope: randomBelow(2 ** 8),
      type: randomBelow(2 ** 8),
      flags: word(),
    },
    attributes: {
      ...maybe("destination", randomIp),
      ...maybe("oif", word),
      ...maybe("gateway", randomIp),
      ...maybe("priority", word),
      ...maybe("preferredSource", randomIp),
      ...maybe("metrics", () => ({
        ...maybe("mtu", word),
        ...maybe("advmss", word),
      })),
      ...maybe(
        "multipath",
        () => Array.from({ length: randomBelow(4) }, randomNextHop),
      ),
      ...maybe("table", word),
      ...maybe("nextHopId", word),
    },
  };
}

// Offsets and sizes as gcc reports them.
Deno.test("the header of route messages is laid out as struct rtmsg", () => {
  assertEquals(newRoute.encode({ header: {} }).length, 12);
  assertLayout((header) => newRoute.encode({ header }), {
    family: [0, 1],
    destinationLength: [1, 1],
    sourceLength: [2, 1],
    tos: [3, 1],
    table: [4, 1],
    protocol: [5, 1],
    scope: [6, 1],
    type: [7, 1],
    flags: [8, 4],
  });
});

testMessages("route", {
  numbers: [
    [newRoute, "RTM_NEWROUTE", 24],
    [delRoute, "RTM_DELROUTE", 25],
    [getRoute, "RTM_GETROUTE", 26],
  ],
  codec: newRoute,
  draw: randomRoute,
});

Deno.test("next hops are laid out as struct rtnexthop, each with its length", () => {
  const gateway = Ip.parse("10.1.2.3");
  const header = { length: 0, flags: 4, hops: 2, ifindex: 7 };
  const bytes = newRoute.encode({
    header: {},
    attributes: {
      multipath: [
        { header, attributes: {} },
        { header, attributes: { gateway } },
      ],
    },
  });
  const hex = "1c000900" + "08000402" + "07000000" +
    "10000402" + "07000000" + "08000500" + "0a010203";
  assertEquals(bytes.subarray(12).toHex(), hex);
});

Deno.test("next hops refuse a length that would never end", () => {
  const hex = "00".repeat(12) + "0c000900" + "00000000" + "07000000";
  assertThrows(
    () => newRoute.decode(Uint8Array.fromHex(hex)),
    RangeError,
    "Cannot decode a next hop of 0 bytes where only 8 remain",
  );
});

Deno.test("decodeAnswers() leaves out routes and addresses of other families", () => {
  const replyOf = (type: number, hex: string): RawMessage => ({
    type,
    flags: 0,
    sequence: 1,

    body: Uint8Array.fromHex(hex),
  });
  // A job of cangw with frames that it dropped, and an address of Phonet.
  const route = replyOf(newRoute.type, "1d010000" + "08000800" + "05000000");
  assertEquals(decodeAnswers([route], newRoute), []);
  const address = replyOf(
    newAddress.type,
    "23000000" + "01000000" + "0500020040000000",
  );
  assertEquals(decodeAnswers([address], newAddress), []);
});
