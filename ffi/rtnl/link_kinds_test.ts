import { assertEquals } from "@std/assert";
import type { Codec } from "../../net/bytes.ts";
import { linkKinds, type PeerLink } from "./link_kinds.ts";

/** A stand-in for a whole link message: only its index, in one byte. */
const peerLink: Codec<PeerLink> = {
  encode: ({ header }) => new Uint8Array([header.index ?? 0]),
  decode: ([index = 0]) => ({ header: { index } }),
  locate: () => "inside",
};

Deno.test("linkKinds() holds a veth's peer as VETH_INFO_PEER", () => {
  const { veth } = linkKinds(peerLink);
  const value = { peer: { header: { index: 7 } } };
  const bytes = Uint8Array.fromHex("0500010007000000");
  assertEquals(veth?.encode(value), bytes);
  assertEquals(veth?.decode(bytes), value);
  assertEquals(veth?.locate?.(bytes, 4), "peer.inside");
});
