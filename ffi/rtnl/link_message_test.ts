import { assert, assertEquals } from "@std/assert";
import {
  assertLayout,
  maybe,
  randomBelow,
  randomMac,
  randomOf,
  randomText,
  testMessages,
} from "../../tests/_harness/codecs.ts";
import {
  delLink,
  delLinkProperties,
  getLink,
  type LinkInfo,
  newLink,
  newLinkProperties,
} from "./link_message.ts";
import type { VethData } from "./link_kinds.ts";

type LinkBody = Parameters<typeof newLink.encode>[0];

function randomWord(): number {
  return randomBelow(2 ** 32);
}

function randomLink(): Required<LinkBody> {
  return {
    header: {
      family: randomBelow(2 ** 8),
      type: randomBelow(2 ** 16),
      index: randomBelow(2 ** 32) - 2 ** 31,
      flags: randomWord(),
      change: randomWord(),
    },
    attributes: {
      ...maybe("address", randomMac),
      ...maybe("name", () => randomText(15)),
      ...maybe("mtu", randomWord),
      ...maybe("link", randomWord),
      ...maybe("master", randomWord),
      ...maybe("transmitQueueLength", randomWord),
      ...maybe("operationalState", () => randomBelow(2 ** 8)),
      ...maybe("linkInfo", randomLinkInfo),
      ...maybe("alias", () => randomText(255)),
      ...maybe("group", randomWord),
      ...maybe("netnsFd", randomWord),
      ...maybe("extendedMask", randomWord),
      ...maybe("transmitQueues", randomWord),
      ...maybe("receiveQueues", randomWord),
      ...maybe("linkNetnsId", () => randomBelow(2 ** 31) - 1),
      ...maybe("targetNetnsId", () => randomBelow(2 ** 31) - 1),
      ...maybe("newIndex", () => randomBelow(2 ** 31)),
      ...maybe(
        "properties",
        () => Array.from({ length: randomBelow(3) }, () => randomText(127)),
      ),
      ...maybe("permanentAddress", randomMac),
      ...maybe("parentDevice", () => randomText(15)),
      ...maybe("parentBus", () => randomText(15)),
    },
  };
}

function randomLinkInfo(): LinkInfo {
  const peer = (): LinkBody => randomLink();
  return randomOf<() => LinkInfo>(
    () => ({ kind: "veth", data: undefined }),
    () => ({ kind: "veth", data: maybe("peer", peer) as VethData }),
    () => ({ kind: randomText(15), data: undefined }),
  )();
}

// Offsets and sizes as gcc reports them.
Deno.test("the header of link messages is laid out as struct ifinfomsg", () => {
  assertEquals(newLink.encode({ header: {} }).length, 16);
  assertLayout((header) => newLink.encode({ header }), {
    family: [0, 1],
    type: [2, 2],
    index: [4, 4],
    flags: [8, 4],
    change: [12, 4],
  });
});

testMessages("link", {
  numbers: [
    [newLink, "RTM_NEWLINK", 16],
    [delLink, "RTM_DELLINK", 17],
    [getLink, "RTM_GETLINK", 18],
    [newLinkProperties, "RTM_NEWLINKPROP", 108],
    [delLinkProperties, "RTM_DELLINKPROP", 109],
  ],
  codec: newLink,
  draw: randomLink,
});

Deno.test("link messages pass over the data of a kind that we do not know", () => {
  // IFLA_LINKINFO { IFLA_INFO_KIND "tun", IFLA_INFO_DATA 4 bytes }
  const hex = "00".repeat(16) + "14001200" + "0800010074756e00" +
    "0800020001020304";
  const { attributes } = newLink.decode(Uint8Array.fromHex(hex));
  assertEquals(attributes, { linkInfo: { kind: "tun", data: undefined } });
});

Deno.test("link messages read the kind wherever it stands", () => {
  // The data comes before the kind that determines its type.
  const peer = newLink.encode({ header: { index: 9 } }).toHex();
  const hex = "00".repeat(16) + "28001200" + "18000200" + "14000100" + peer +
    "0900010076657468" + "00000000";
  const { attributes } = newLink.decode(Uint8Array.fromHex(hex));
  const { linkInfo } = attributes;
  assert(linkInfo?.kind === "veth");
  assertEquals(linkInfo.data?.peer?.header.index, 9);
});

Deno.test("link messages name attributes of a peer by their path", () => {
  const bytes = newLink.encode({
    header: {},
    attributes: {
      name: "veth0",
      linkInfo: {
        kind: "veth",
        data: { peer: { header: {}, attributes: { name: "eth0", mtu: 1500 } } },
      },
    },
  });
  // 16 name, 28 linkInfo { 32 kind, 44 data { 48 peer { 52 header, 68 name, 80 mtu } } }
  const rows: [number, string][] = [
    [16, "name"],
    [28, "linkInfo"],
    [32, "linkInfo.kind"],
    [44, "linkInfo.data"],
    [48, "linkInfo.data.peer"],
    [52, "linkInfo.data.peer"],
    [68, "linkInfo.data.peer.name"],
    [80, "linkInfo.data.peer.mtu"],
  ];
  assertEquals(
    rows.map(([offset]) => [offset, newLink.locate?.(bytes, offset)]),
    rows,
  );
});
