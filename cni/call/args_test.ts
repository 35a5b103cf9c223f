import { assertEquals, assertThrows } from "@std/assert";
import {
  checkContainerId,
  checkInterfaceName,
  checkNetworkName,
  loadArgs,
  parseArgBoolean,
  parseArgs,
  readCmdArgs,
} from "./args.ts";
import { Ip } from "../../net/ip.ts";
import { CniError } from "../../base/error.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

/** A whole environment, as a runtime sets it. */
const ENV = {
  CNI_CONTAINERID: "some-container-id",
  CNI_NETNS: "/some/netns/path",
  CNI_IFNAME: "eth0",
  CNI_ARGS: "some=extra;more=args",
  CNI_PATH: "/some/cni/path:/other",
};

/** Runs what must throw; answers what the runtime would be shown. */
function failureOf(
  run: () => unknown,
): { code: number; msg: string; details?: string } {
  const { cniVersion: _, ...failure } = assertThrows(run, CniError)
    .toObject("");
  return failure;
}

Deno.test("readCmdArgs() reports the first malformed variable", () => {
  const env = { ...ENV, CNI_CONTAINERID: "%", CNI_IFNAME: "a/b" };
  assertEquals(failureOf(() => readCmdArgs("DEL", env)), {
    code: 4,
    msg: "invalid characters in containerID",
    details: "%",
  });
  assertEquals(readCmdArgs("VERSION", env).ifName, "a/b");
});

const NAMES: [check: (name: string) => void, fine: string[], bad: string[]][] =
  [
    [
      checkContainerId,
      ["A", "0", "a_b.c-d"],
      ["some-%%container-id", "-a", ".a", "_a", "a/b", "a b", "ä", "a\0"],
    ],
    [
      checkNetworkName,
      ["skel-test", "0.a_b"],
      ["te%%st", "../a", "a/b", "-a", "a\n"],
    ],
    [
      checkInterfaceName,
      ["a", "...", ".a", "äöüäöüä"],
      [".", "..", "", "äöüäöüäö", "test\n"],
    ],
  ];

testRows("the names in a call are checked", NAMES, ([check, fine, bad]) => {
  fine.forEach(check);
  for (const name of bad) assertThrows(() => check(name), CniError);
}, ([check]) => check.name);

Deno.test("checkInterfaceName() takes for white space what Go does", () => {
  // unicode.IsSpace includes U+0085, but not U+FEFF, U+180E and U+200B.
  const spaces = [..."\t\n\v\f\r \u0085\u00a0\u1680\u2028\u2029\u202f\u205f"]
    .concat("\u3000")
    .concat(
      Array.from(
        { length: 11 },
        (_, index) => String.fromCodePoint(0x2000 + index),
      ),
    );
  const refused: string[] = [];
  for (let code = 0; code < 0xd800; code++) {
    const character = String.fromCodePoint(code);
    try {
      checkInterfaceName(`a${character}b`);
    } catch {
      refused.push(character);
    }
  }
  assertEquals(refused, [...spaces, "/", ":"].sort());
  checkInterfaceName("a\ufeffb");
});

testRows("parseArgs() splits CNI_ARGS into pairs", [
  ["", []],
  ["IgnoreUnknown=1", [["IgnoreUnknown", "1"]]],
  ["IgnoreUnknown=True;Unk=nown", [["IgnoreUnknown", "True"], ["Unk", "nown"]]],
  ["IP=10.1.2.3/24", [["IP", "10.1.2.3/24"]]],
  ["ip=lower;IP=upper", [["ip", "lower"], ["IP", "upper"]]],
  ["K8S_POD_NAME=", [["K8S_POD_NAME", ""]]],
  ["IP=first;IP=last", [["IP", "last"]]],
], ([args, pairs]: [string, [string, string][]]) => {
  assertEquals([...parseArgs(args)], pairs);
}, ([args]) => JSON.stringify(args));

testRows<[string, string]>("parseArgs() refuses malformed pairs", [
  ["IP", "IP"],
  ["IP:10.1.2.3", "IP:10.1.2.3"],
  ["A=b;", ""],
  [";A=b", ""],
  ["A=b;;C=d", ""],
  ["A=b=c", "A=b=c"],
], ([args, pair]) => {
  assertEquals(failureOf(() => parseArgs(args)), {
    code: 4,
    msg: `CNI_ARGS: invalid pair "${pair}"`,
  });
}, ([args]) => JSON.stringify(args));

/** Keys that an IPAM plugin might read. */
const KNOWN = { IP: Ip.parse, GATEWAY: Ip.parse, isSticky: parseArgBoolean };

Deno.test("loadArgs() reads the keys that are known", async (t) => {
  const ip = Ip.parse("10.1.2.3");
  const rows: [args: string, loaded: object][] = [
    ["", {}],
    ["IP=10.1.2.3", { IP: ip }],
    ["GATEWAY=10.1.2.3;isSticky=True", { GATEWAY: ip, isSticky: true }],
    ["IP=::1;IP=10.1.2.3", { IP: ip }],
    ["IP=", {}],
    ["IP=10.1.2.3;IP=", {}],
    ["IgnoreUnknown=1", {}],
    ["IgnoreUnknown=True;Unk=nown", {}],
    ["Unk=nown;IP=10.1.2.3;IgnoreUnknown=1", { IP: ip }],
    ["IgnoreUnknown=0;IP=10.1.2.3", { IP: ip }],
    ["IgnoreUnknown=0;Unk=nown;IgnoreUnknown=true", {}],
    ["IgnoreUnknown=1;ip=10.1.2.3;constructor=a;__proto__=b", {}],
  ];
  await eachRow(t, rows, ([args, loaded]) => {
    assertEquals<object>(loadArgs(args, KNOWN), loaded);
  }, ([args]) => JSON.stringify(args));
});

Deno.test("loadArgs() refuses what it cannot read", async (t) => {
  const value = "error parsing value of pair";
  const rows: [args: string, problem: string, details?: string][] = [
    ["IP", 'invalid pair "IP"'],
    ["IP=10.1.2.3;", 'invalid pair ""'],
    ["IP=a=b", 'invalid pair "IP=a=b"'],
    ["IgnoreUnknown=0, Unk=nown", 'invalid pair "IgnoreUnknown=0, Unk=nown"'],
    ["Unk=nown", 'unknown args ["Unk=nown"]'],
    ["A=b;IP=::1;C=d", 'unknown args ["A=b" "C=d"]'],
    ["ip=::1", 'unknown args ["ip=::1"]'],
    ["IgnoreUnknown=1;A=b;IgnoreUnknown=false", 'unknown args ["A=b"]'],
    ["IP=ten", `${value} "IP=ten"`, "invalid IP address: ten"],
    ["IP=ten;IP=::1", `${value} "IP=ten"`, "invalid IP address: ten"],
    [
      "IgnoreUnknown=yes",
      `${value} "IgnoreUnknown=yes"`,
      'Cannot parse boolean "yes"',
    ],
    [
      "IgnoreUnknown=",
      `${value} "IgnoreUnknown="`,
      'Cannot parse boolean ""',
    ],
  ];
  await eachRow(t, rows, ([args, problem, details]) => {
    assertEquals(failureOf(() => loadArgs(args, KNOWN)), {
      code: 4,
      msg: `CNI_ARGS: ${problem}`,
      ...details === undefined ? {} : { details },
    });
  }, ([args]) => JSON.stringify(args));
});

Deno.test("parseArgBoolean() knows four texts, in any case", () => {
  const texts = ["1", "true", "TRUE", "True", "0", "false", "FALSE", "False"];
  assertEquals(texts.map(parseArgBoolean), [
    ...Array(4).fill(true),
    ...Array(4).fill(false),
  ]);
  for (const text of ["", "yes", "t", "10", " 1", "true\n", "nottrue"]) {
    assertThrows(() => parseArgBoolean(text), RangeError, "boolean");
  }
});
