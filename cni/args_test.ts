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
import { Ip } from "../net/ip.ts";
import { CniError } from "./error.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

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

Deno.test("readCmdArgs() returns what the environment says", () => {
  assertEquals(readCmdArgs("ADD", ENV), {
    containerId: "some-container-id",
    netns: "/some/netns/path",
    ifName: "eth0",
    args: "some=extra;more=args",
    path: "/some/cni/path:/other",
    netnsOverride: false,
  });
});

Deno.test("readCmdArgs() returns empty texts for what GC is not given", () => {
  assertEquals(readCmdArgs("GC", { CNI_PATH: "/bin" }), {
    containerId: "",
    netns: "",
    ifName: "",
    args: "",
    path: "/bin",
    netnsOverride: false,
  });
});

Deno.test("readCmdArgs() needs the variables of the command", async (t) => {
  const rows: [command: string, required: string[]][] = [
    ["ADD", ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"]],
    ["CHECK", ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"]],
    ["DEL", ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"]],
    ["GC", ["CNI_PATH"]],
    ["STATUS", ["CNI_PATH"]],
    ["VERSION", []],
    ["NOPE", []],
    ["add", []],
  ];
  for (const [command, required] of rows) {
    for (const name of Object.keys(ENV)) {
      const isRequired = required.includes(name);
      const verdict = isRequired ? "refuses" : "accepts";
      await t.step(`${command} ${verdict} no ${name}`, () => {
        const { [name]: _, ...without } = ENV as Record<string, string>;
        for (const env of [without, { ...without, [name]: "" }]) {
          if (!isRequired) readCmdArgs(command, env);
          else {
            assertEquals(failureOf(() => readCmdArgs(command, env)), {
              code: 4,
              msg: `required env variables [${name}] missing`,
            });
          }
        }
      });
    }
  }
});

testRows("readCmdArgs() lists all that is missing, in order", [
  ["ADD", { CNI_CONTAINERID: "c" }, "CNI_NETNS,CNI_IFNAME,CNI_PATH"],
  ["CHECK", { CNI_CONTAINERID: "c" }, "CNI_NETNS,CNI_IFNAME,CNI_PATH"],
  ["DEL", {}, "CNI_CONTAINERID,CNI_IFNAME,CNI_PATH"],
  ["GC", { CNI_IFNAME: "eth0" }, "CNI_PATH"],
], ([command, env, names]: [string, Record<string, string>, string]) => {
  assertEquals(failureOf(() => readCmdArgs(command, env)), {
    code: 4,
    msg: `required env variables [${names}] missing`,
  });
}, ([command, , names]) => `${command}: ${names}`);

Deno.test("readCmdArgs() checks the variables that the command needs", async (t) => {
  await t.step("a malformed one comes before those that are missing", () => {
    const { msg } = failureOf(() => readCmdArgs("ADD", { CNI_IFNAME: "a/b" }));
    assertEquals(
      msg,
      "interface name contains / or : or whitespace characters",
    );
  });
  await t.step("the first malformed one is reported", () => {
    const env = { ...ENV, CNI_CONTAINERID: "%", CNI_IFNAME: "a/b" };
    assertEquals(failureOf(() => readCmdArgs("DEL", env)), {
      code: 4,
      msg: "invalid characters in containerID",
      details: "%",
    });
  });
  await eachRow(t, ["GC", "STATUS", "VERSION"], (command) => {
    const env = { ...ENV, CNI_CONTAINERID: "%", CNI_IFNAME: "a/b" };
    assertEquals(readCmdArgs(command, env).ifName, "a/b");
  }, (command) => `${command} does not look at the others`);
});

testRows<[string, boolean]>("readCmdArgs() reads CNI_NETNS_OVERRIDE", [
  ["1", true],
  ["true", true],
  ["TRUE", true],
  ["True", true],
  ["", false],
  ["0", false],
  ["false", false],
  ["yes", false],
  ["11", false],
  ["true\n", false],
], ([value, expected]) => {
  const env = { ...ENV, CNI_NETNS_OVERRIDE: value };
  assertEquals(readCmdArgs("ADD", env).netnsOverride, expected);
}, ([value]) => JSON.stringify(value));

Deno.test("checkContainerId() refuses invalid container IDs", async (t) => {
  for (const id of ["a51debf7e1eb", "A", "0", "a_b.c-d", "a".repeat(300)]) {
    await t.step(`accepts "${id.slice(0, 20)}"`, () => checkContainerId(id));
  }
  await t.step("none", () => {
    assertEquals(failureOf(() => checkContainerId("")), {
      code: 3,
      msg: "missing containerID",
    });
  });
  const malformed = ["1234%%%", "some-%%container-id", "-a", ".a", "_a"];
  await eachRow(t, [...malformed, "a/b", "a b", "ä", "a\n", "a\0"], (id) => {
    assertEquals(failureOf(() => checkContainerId(id)), {
      code: 4,
      msg: "invalid characters in containerID",
      details: id,
    });
  }, (id) => JSON.stringify(id));
});

Deno.test("checkNetworkName() refuses invalid names", async (t) => {
  await eachRow(
    t,
    ["eth0", "skel-test", "0.a_b"],
    (name) => checkNetworkName(name),
    (name) => `accepts "${name}"`,
  );
  await t.step("none", () => {
    assertEquals(failureOf(() => checkNetworkName("")), {
      code: 7,
      msg: "missing network name",
    });
  });
  for (const name of ["1234%%%", "te%%st", "../a", "a/b", "-a", "a\n"]) {
    await t.step(JSON.stringify(name), () => {
      assertEquals(failureOf(() => checkNetworkName(name)), {
        code: 7,
        msg: "invalid characters found in network name",
        details: name,
      });
    });
  }
});

Deno.test("checkInterfaceName() refuses what the kernel would", async (t) => {
  for (const name of ["testname", "a", "...", "123456789012345", "äöüäöüä"]) {
    await t.step(`accepts "${name}"`, () => checkInterfaceName(name));
  }
  const tooLong = {
    code: 4,
    msg: "interface name is too long",
    details: "interface name should be less than 16 characters",
  };
  const dots = { code: 4, msg: "interface name is . or .." };
  const characters = {
    code: 4,
    msg: "interface name contains / or : or whitespace characters",
  };
  const rows: [name: string, expected: unknown][] = [
    ["", { code: 4, msg: "interface name is empty" }],
    ["1234567890123456", tooLong],
    ["äöüäöüäö", tooLong], // 8 characters, 16 bytes
    [".", dots],
    ["..", dots],
    ["/testname", characters],
    ["test/test", characters],
    ["test:test", characters],
    ["test test", characters],
    ["test\n", characters],
  ];
  await eachRow(t, rows, ([name, expected]) => {
    assertEquals(failureOf(() => checkInterfaceName(name)), expected);
  }, ([name]) => JSON.stringify(name));
});

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
