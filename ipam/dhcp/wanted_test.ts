import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { testRows } from "../../tests/_harness/table.ts";
import { wantedOptions } from "./wanted.ts";

/** An option of the configuration, which has all keys once decoded. */
function provided(option: string, value = "", fromArg = ""): {
  option: string;
  value: string;
  fromArg: string;
} {
  return { option, value, fromArg };
}

Deno.test("wantedOptions() refuses DHCPv4 keys for DHCPv6 and the reverse", () => {
  const provide = [provided("host-name", "a")];
  for (
    const [ipam, message] of [
      [{ family: 6, provide }, 'Cannot use IPv4 options with "family": 6'],
      [{ defaultRoute: false }, 'Cannot use "defaultRoute" without IPv6'],
      [
        { family: 4, defaultRoute: true },
        'Cannot use "defaultRoute" without IPv6',
      ],
    ] as const
  ) {
    assertThrows(() => wantedOptions(ipam, ""), CniError, message);
  }
  wantedOptions({ family: "both", provide, defaultRoute: false }, "");
});

Deno.test("wantedOptions() sends values of the configuration and of CNI_ARGS", () => {
  const provide = [
    provided("host-name", "fixed"),
    provided("60", "", "CLASS"),
    provided("user-class", "default", "GONE"),
  ];
  const request = [{ option: "42", skipDefault: false }];
  assertEquals(
    wantedOptions({ provide, request }, "CLASS=a=b;junk").toJSON(),
    {
      "12": "6669786564",
      "55": "2a0301",
      "60": "613d62",
      "77": "64656661756c74",
    },
  );
});

testRows<[string, string, string]>(
  "wantedOptions() refuses options that no packet can contain",
  [
    ["next-server", "x", 'Can not parse option "next-server"'],
    ["0", "x", 'Can not parse option "0"'],
    ["255", "x", 'Can not parse option "255"'],
    ["256", "x", 'Can not parse option "256"'],
    ["-1", "x", 'Can not parse option "-1"'],
    ["host-name", "é".repeat(128), 'value too long for option "host-name"'],
  ],
  ([option, value, message]) => {
    const error = assertThrows(
      () => wantedOptions({ provide: [provided(option, value)] }, ""),
      CniError,
      message,
    );
    const key = message.includes("too long") ? "value" : "option";
    const details = `the key is ipam.provide[0].${key}`;
    assertEquals([error.code, error.details], [7, details]);
  },
  ([option]) => option,
);
