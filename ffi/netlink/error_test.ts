import { assertEquals, assertInstanceOf, assertThrows } from "@std/assert";
import { assertDecodeIsTotal } from "../../tests/_harness/codecs.ts";
import { isErrno, SyscallError } from "../errno.ts";
import {
  decodeDone,
  decodeError,
  type ErrorReply,
  NetlinkError,
} from "./error.ts";
import { Flag, type RawMessage } from "./message.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

function reply(flags: number, ...hex: string[]): RawMessage {
  const body = Uint8Array.fromHex(hex.join("").replaceAll(" ", ""));
  return { type: 2, flags, sequence: 1, body };
}

const SUCCESS = "00000000";
/** -22. */
const EINVAL = "eaffffff";
/** The header of a request of 26 bytes, and the rest of it. */
const REQUEST = "1a000000 1400 0506 01000000 00000000";
const REQUEST_BODY = "aaaaaaaa aaaaaaaa aaaa";
const PADDING = "0000";
/** NLMSGERR_ATTR_MSG "Bad". */
const MESSAGE = "08000100 42616400";
/** NLMSGERR_ATTR_OFFS 24. */
const OFFSET = "08000200 18000000";
/** NLMSGERR_ATTR_POLICY, which we do not read. */
const POLICY = "0c000480 08000100 05000000";

const { Capped, AckAttributes } = Flag;

testRows<[string, RawMessage, ErrorReply]>("decodeError() reads the verdict", [
  ["acknowledgement", reply(Capped, SUCCESS, REQUEST), {
    errno: 0,
    extAck: "",
    offset: undefined,
  }],
  [
    "acknowledgement with a warning",
    reply(Capped | AckAttributes, SUCCESS, REQUEST, MESSAGE),
    { errno: 0, extAck: "Bad", offset: undefined },
  ],
  ["refusal, capped", reply(Capped, EINVAL, REQUEST), {
    errno: 22,
    extAck: "",
    offset: undefined,
  }],
  [
    "refusal, capped, explained",
    reply(Capped | AckAttributes, EINVAL, REQUEST, MESSAGE, OFFSET),
    { errno: 22, extAck: "Bad", offset: 24 },
  ],
  [
    "refusal, capped, with more than we read",
    reply(Capped | AckAttributes, EINVAL, REQUEST, POLICY, OFFSET),
    { errno: 22, extAck: "", offset: 24 },
  ],
  [
    "refusal with the whole request",
    reply(0, EINVAL, REQUEST, REQUEST_BODY, PADDING),
    { errno: 22, extAck: "", offset: undefined },
  ],
  [
    "refusal with the whole request, padded, then explained",
    reply(
      AckAttributes,
      EINVAL,
      REQUEST,
      REQUEST_BODY,
      PADDING,
      MESSAGE,
      OFFSET,
    ),
    { errno: 22, extAck: "Bad", offset: 24 },
  ],
  [
    "attributes that no flag announces",
    reply(Capped, EINVAL, REQUEST, MESSAGE),
    { errno: 22, extAck: "", offset: undefined },
  ],
  [
    "flag without attributes",
    reply(Capped | AckAttributes, EINVAL, REQUEST),
    { errno: 22, extAck: "", offset: undefined },
  ],
  [
    "smallest number",
    reply(Capped, "00000080", REQUEST),
    { errno: 2 ** 31, extAck: "", offset: undefined },
  ],
], ([, message, verdict]) => assertEquals(decodeError(message), verdict));

testRows<[string, RawMessage]>("decodeError() refuses truncated replies", [
  ["empty", reply(Capped)],
  ["within the number", reply(Capped, "eaffff")],
  ["within the echoed header", reply(0, EINVAL, "1a000000 1400")],
  [
    "within an attribute",
    reply(Capped | AckAttributes, EINVAL, REQUEST, "08000100 4261"),
  ],
  [
    "within an integer",
    reply(Capped | AckAttributes, EINVAL, REQUEST, "06000200 1800"),
  ],
], ([, message]) => {
  assertThrows(() => decodeError(message), RangeError);
});

Deno.test("decodeDone() reads the verdict on a dump", async (t) => {
  const rows: [name: string, RawMessage, ErrorReply][] = [
    ["success", reply(0, SUCCESS), { errno: 0, extAck: "", offset: undefined }],
    ["nothing, as old kernels say", reply(0), {
      errno: 0,
      extAck: "",
      offset: undefined,
    }],
    ["a count", reply(0, "05000000"), {
      errno: 0,
      extAck: "",
      offset: undefined,
    }],
    ["refusal", reply(0, EINVAL), { errno: 22, extAck: "", offset: undefined }],
    ["refusal, explained", reply(AckAttributes, EINVAL, MESSAGE, OFFSET), {
      errno: 22,
      extAck: "Bad",
      offset: 24,
    }],
  ];
  await eachRow(
    t,
    rows,
    ([, message, verdict]) => assertEquals(decodeDone(message), verdict),
  );
  await t.step("truncated explanation", () => {
    const message = reply(AckAttributes, EINVAL, "09000100 42616400");
    assertThrows(() => decodeDone(message), RangeError);
  });
});

Deno.test("decoding verdicts is safe with any bytes", () => {
  for (const flags of [0, Capped, AckAttributes, Capped | AckAttributes]) {
    const sample = reply(flags, EINVAL, REQUEST, MESSAGE, OFFSET);
    for (const decode of [decodeError, decodeDone]) {
      assertDecodeIsTotal(
        (body) => decode({ ...sample, body }),
        () => sample.body,
      );
    }
  }
});

Deno.test("NetlinkError tells the request, the number's name and the explanation", async (t) => {
  const rows: [ConstructorParameters<typeof NetlinkError>[2], string][] = [
    [undefined, "RTM_NEWROUTE: EINVAL"],
    [{ extAck: "Bad" }, "RTM_NEWROUTE: EINVAL: Bad"],
    [{ attribute: "oif" }, "RTM_NEWROUTE: EINVAL: (attribute oif)"],
    [
      { extAck: "Bad", attribute: "oif" },
      "RTM_NEWROUTE: EINVAL: Bad (attribute oif)",
    ],
    [{ object: "10.1.0.0/16" }, "RTM_NEWROUTE 10.1.0.0/16: EINVAL"],
    [{ syscall: "send" }, "RTM_NEWROUTE: send: EINVAL"],
    [
      { object: "10.1.0.0/16", syscall: "send" },
      "RTM_NEWROUTE 10.1.0.0/16: send: EINVAL",
    ],
  ];
  await eachRow(t, rows, ([explanation, message]) => {
    const error = new NetlinkError("RTM_NEWROUTE", 22, explanation);
    assertInstanceOf(error, SyscallError);
    assertEquals(String(error), `NetlinkError: ${message}`);
    assertEquals(error.request, "RTM_NEWROUTE");
    assertEquals([error.syscall, error.number], ["RTM_NEWROUTE", 22]);
    assertEquals(error.extAck, explanation?.extAck ?? "");
    assertEquals(error.attribute, explanation?.attribute);
    assertEquals(isErrno(error, "EINVAL"), true);
  }, ([, message]) => message);
});
