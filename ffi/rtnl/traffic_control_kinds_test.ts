import { assert, assertEquals } from "@std/assert";
import type { Bytes } from "../../net/bytes.ts";
import { assertLayout, type Layout } from "../../tests/_harness/codecs.ts";
import { splitAttributes } from "../netlink/attribute.ts";
import {
  decodeRate,
  encodeRate,
  kindAttributes,
  type KindOptions,
  trafficControlKinds,
} from "./traffic_control_kinds.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

function encode(kind: string, options: KindOptions): Bytes {
  const codec = trafficControlKinds[kind];
  assert(codec !== undefined);
  return codec.encode(options);
}

/** Returns the payload of the attribute with a type. */
function payloadOf(bytes: Bytes, type: number): Bytes {
  const found = splitAttributes(bytes).find((one) => one.type === type);
  assert(found !== undefined);
  return found.bytes;
}

// Offsets and sizes as gcc reports them.
Deno.test("options are laid out as the kernel's structs", async (t) => {
  const rate: Layout = {
    cellLog: [0, 1],
    linkLayer: [1, 1],
    overhead: [2, 2],
    cellAlign: [4, 2],
    mpu: [6, 2],
    rate: [8, 4],
  };
  type Fields = Record<string, number>;
  const rows: [string, (fields: Fields) => Bytes, number, Layout][] = [
    [
      "struct tc_tbf_qopt",
      (bucket) => payloadOf(encode("tbf", { bucket }), 1),
      36,
      { limit: [24, 4], buffer: [28, 4], mtu: [32, 4] },
    ],
    [
      "struct tc_ratespec, the rate of struct tc_tbf_qopt",
      (rate) => payloadOf(encode("tbf", { bucket: { rate } }), 1),
      36,
      rate,
    ],
    [
      "the peak rate of struct tc_tbf_qopt",
      ({ rate = 0 }) =>
        payloadOf(encode("tbf", { bucket: { peakRate: { rate } } }), 1),
      36,
      { rate: [20, 4] },
    ],
    [
      "struct tc_htb_opt",
      (htbClass) => payloadOf(encode("htb", { class: htbClass }), 1),
      44,
      {
        buffer: [24, 4],
        ceilBuffer: [28, 4],
        quantum: [32, 4],
        level: [36, 4],
        priority: [40, 4],
      },
    ],
    [
      "struct tc_htb_glob",
      (global) => payloadOf(encode("htb", { global }), 2),
      20,
      {
        version: [0, 4],
        rateToQuantum: [4, 4],
        defaultClass: [8, 4],
        debug: [12, 4],
        directPackets: [16, 4],
      },
    ],
    [
      "struct tc_fifo_qopt",
      (options) => encode("bfifo", options),
      4,
      { limit: [0, 4] },
    ],
    [
      "struct tc_u32_sel with a struct tc_u32_key",
      ({ mask = 0, value = 0, offset = 0, flags = 0 }) => {
        const keys = [{ mask, value, offset }];
        return payloadOf(encode("u32", { selector: { flags, keys } }), 5);
      },
      32,
      { flags: [0, 1], mask: [16, 4], value: [20, 4], offset: [24, 4] },
    ],
    [
      "struct tc_mirred",
      (mirred) => {
        const first = { kind: "mirred", options: { mirred } };
        const action = payloadOf(encode("u32", { actions: { first } }), 7);
        return payloadOf(payloadOf(payloadOf(action, 1), 2), 2);
      },
      28,
      {
        index: [0, 4],
        capabilities: [4, 4],
        action: [8, 4],
        references: [12, 4],
        bindings: [16, 4],
        mirredAction: [20, 4],
        ifindex: [24, 4],
      },
    ],
  ];
  await eachRow(t, rows, ([, encodeFields, size, layout]) => {
    assertEquals(encodeFields({}).length, size);
    assertLayout(encodeFields, layout);
  });
});

Deno.test("a u32 selector says how many keys follow", () => {
  const key = { mask: 0xffff_0000, value: 0x0a01_0000, offset: 12 };
  const selector = { flags: 1, keys: [key, { ...key, offset: 16 }] };
  const bytes = payloadOf(encode("u32", { selector }), 5);
  assertEquals(
    bytes.toHex(),
    "01000200000000000000000000000000" +
      "ffff00000a0100000c00000000000000" +
      "ffff00000a0100001000000000000000",
  );
});

Deno.test("kindAttributes() reads options by the kind beside them", async (t) => {
  const set = kindAttributes<KindOptions>(trafficControlKinds);
  await t.step("of a kind that is known", () => {
    const values = { kind: "bfifo", options: { limit: 7 } };
    assertEquals(set.decode(set.encode(values)), values);
  });
  await t.step("of another kind, which are passed over", () => {
    const bytes = set.encode({ kind: "fq_codel", options: { limit: 7 } });
    assertEquals(set.decode(bytes), { kind: "fq_codel", options: {} });
  });
  await t.step("whichever of the two comes first", () => {
    const bytes = set.encode({ kind: "bfifo", options: { limit: 7 } });
    // 4 and 6 bytes of kind, with its padding; 8 of options.
    const turned = new Uint8Array([
      ...bytes.subarray(12),
      ...bytes.subarray(0, 12),
    ]);
    assertEquals(set.decode(turned).options, { limit: 7 });
  });
  await t.step("and names what lies within them", () => {
    const bytes = set.encode({ kind: "tbf", options: { burst: 7 } });
    assertEquals(set.locate(bytes, bytes.length - 4), "options.burst");
  });
});

testRows("encodeRate() uses 64 bits where 32 are too few", [
  [0, 0, undefined],
  [1_250_000, 1_250_000, undefined],
  [2 ** 32 - 1, 2 ** 32 - 1, undefined],
  [2 ** 32, 2 ** 32 - 1, 2n ** 32n],
  [40e9, 2 ** 32 - 1, 40_000_000_000n],
  [2 ** 61, 2 ** 32 - 1, 2n ** 61n],
], ([rate, spec, rate64]: [number, number, bigint | undefined]) => {
  assertEquals(encodeRate(rate), { spec: { rate: spec }, rate64 });
  assertEquals(decodeRate({ rate: spec }, rate64), rate);
}, ([rate]) => `${rate} bytes per second`);

Deno.test("decodeRate() reads no rate as 0", () => {
  assertEquals(decodeRate(undefined, undefined), 0);
});
