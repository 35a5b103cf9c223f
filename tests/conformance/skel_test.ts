/**
 * The dispatcher: which call reaches which operation, and what is refused by
 * which code and words. The plugin serves 9.8.7 and 10.0.0 and is configured as
 * `skel-test` in 9.8.7, as in the reference library's own tests.
 *
 * Source: containernetworking/cni pkg/skel/skel_test.go.
 *
 * @module
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { CmdArgs } from "../../cni/call/args.ts";
import type { Environment } from "../../base/process/environment.ts";
import { CniError } from "../../base/error.ts";
import { emptyResult } from "../../cni/result/result.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import {
  assertFailure,
  CONFIG,
  CURRENT,
  current,
  ENV,
  type Operation,
  recorder,
  run,
  runCommand,
  SILENT,
} from "../_harness/recorder.ts";
import { OWN_NETNS } from "../_harness/call_context.ts";
import { expand, type Failure, record, refuses } from "./rows.ts";

const WHOLE_ARGS: CmdArgs = {
  containerId: "some-container-id",
  netns: "/proc/0/ns/net",
  ifName: "eth0",
  args: "some=extra;more=args",
  path: "/some/cni/path",
  netnsOverride: false,
};

const ASKED = [
  ["ADD", "add"],
  ["CHECK", "check"],
  ["DEL", "del"],
  ["GC", "gc"],
  ["STATUS", "status"],
] as const;

conformance("skel", {
  ...expand(ASKED, ([command, operation]) => [
    `${command} calls only ${operation}, with the environment and raw stdin`,
    async () => {
      const text = ` ${JSON.stringify(CURRENT)}\n`;
      const env = { ...ENV, CNI_COMMAND: command };
      const extras = { versions: ["1.1.0"] };
      const { operations, calls, ...rest } = await record(env, text, extras);
      assertEquals(rest, SILENT);
      assertEquals(operations, [operation]);
      assertEquals(calls[0]?.args, WHOLE_ARGS);
      assertEquals(calls[0]?.stdin, new TextEncoder().encode(text));
      assertEquals<unknown>(calls[0]?.config, CURRENT);
      const { network, cniVersion, hostNetns } = calls[0] ?? {};
      assertEquals(
        [calls[0]?.command, network, cniVersion, hostNetns],
        [command, "skel-test", "1.1.0", OWN_NETNS],
      );
    },
  ]),
  "GC with nothing but CNI_COMMAND and CNI_PATH gets empty texts": async () => {
    const env = { CNI_COMMAND: "GC", CNI_PATH: "/some/cni/path" };
    const { calls } = await record(env, CURRENT, { versions: ["1.1.0"] });
    const empty = { containerId: "", netns: "", ifName: "", args: "" };
    assertEquals(calls[0]?.args, { ...WHOLE_ARGS, ...empty });
  },
});

/** The configuration in another version, or in none. */
function inVersion(cniVersion: unknown): object {
  return { ...CONFIG, cniVersion };
}

const JUNK = "junk";

/** Commands that not all versions have. */
const GATES = [
  ["CHECK", "0.3.0", "0.4.0", ["0.1.0", "0.2.0", "0.3.0"]],
  ["GC", "1.0.0", "1.1.0", ["0.1.0", "0.4.0", "1.0.0"]],
  ["STATUS", "1.0.0", "1.1.0", ["0.1.0", "0.4.0", "1.0.0"]],
] as const;

function gateRows(
  [command, older, since, versions]: typeof GATES[number],
): Record<string, Row> {
  const row = (
    config: unknown,
    plugin: readonly string[],
    failure: Failure,
  ): Row =>
    refuses({ CNI_COMMAND: command }, config, failure, { versions: plugin });
  return {
    [`${command} with a ${older} configuration is code 1, whatever the plugin`]:
      row(inVersion(older), [older, since], {
        code: 1,
        msg: `config version does not allow ${command}`,
      }),
    [`${command} by a plugin of ${versions} is code 1`]: row(
      inVersion(since),
      versions,
      { code: 1, msg: `plugin version does not allow ${command}` },
    ),
    [`${command} with a junk version in the configuration is code 6`]: row(
      inVersion(JUNK),
      [since],
      { code: 6 },
    ),
    [`${command} with a junk version in the plugin's list is code 6`]: row(
      inVersion(since),
      [JUNK, since],
      { code: 6 },
    ),
    [`${command} of a network named te%%st is code 7`]: row(
      { ...CONFIG, cniVersion: since, name: "te%%st" },
      [since],
      { code: 7, msg: "invalid characters found in network name" },
    ),
    [`${command} by a plugin of a later version only is code 1, incompatible`]:
      row(inVersion(since), ["9.9.9"], {
        code: 1,
        msg: "incompatible CNI versions",
        details: `config is "${since}", plugin supports ["9.9.9"]`,
      }),
  };
}

conformance("skel", {
  "a configuration without cniVersion is 0.1.0: ADD is called": async () => {
    const env = { ...ENV, CNI_COMMAND: "ADD" };
    const versions = ["0.1.0", "0.2.0"];
    const outcome = await record(env, inVersion(undefined), { versions });
    assertEquals(outcome.operations, ["add"]);
    assertEquals(outcome.calls[0]?.cniVersion, "0.1.0");
  },
  "a configuration without cniVersion is refused by a plugin of 4.3.2": refuses(
    { CNI_COMMAND: "ADD" },
    inVersion(undefined),
    {
      code: 1,
      msg: "incompatible CNI versions",
      details: 'config is "0.1.0", plugin supports ["4.3.2"]',
    },
    { versions: ["4.3.2"] },
  ),
  ...expand(["1.1", "1.0.1", "01.1.0"], (cniVersion) => [
    `ADD in version ${cniVersion} is refused: versions are compared as texts`,
    refuses({ CNI_COMMAND: "ADD" }, inVersion(cniVersion), {
      code: 1,
      details: `config is "${cniVersion}", plugin supports ["1.0.0" "1.1.0"]`,
    }, { versions: ["1.0.0", "1.1.0"] }),
  ]),
  "ADD ignores an invalid entry of the plugin's versions": async () => {
    const env = { ...ENV, CNI_COMMAND: "ADD" };
    const outcome = await record(env, CONFIG, { versions: [JUNK, "9.8.7"] });
    assertEquals(outcome.operations, ["add"]);
  },
  "a cniVersion that is not a string is code 6": refuses(
    { CNI_COMMAND: "ADD" },
    inVersion(5),
    { code: 6 },
  ),
  ...Object.assign({}, ...GATES.map(gateRows)),
});

function neverRead(): never {
  throw new Error("stdin was read");
}

conformance("skel", {
  "VERSION prints version and list in one line, without an input": async () => {
    for (const others of [{}, { ...ENV, CNI_IFNAME: "/" }]) {
      const env = { ...others, CNI_COMMAND: "VERSION" };
      const outcome = await record(env, "", {}, { stdin: neverRead });
      assertEquals(
        outcome.stdout,
        '{"cniVersion":"1.1.0","supportedVersions":["9.8.7","10.0.0"]}\n',
      );
      assertEquals([outcome.exitCode, outcome.operations], [0, []]);
    }
  },
  "VERSION answers with the cniVersion of its input": async () => {
    for (const cniVersion of ["0.4.0", "1.0.0", "9.9.9"]) {
      const env = { CNI_COMMAND: "VERSION" };
      const { stdout } = await record(env, { cniVersion });
      assertEquals(JSON.parse(stdout).cniVersion, cniVersion);
    }
  },
  "VERSION without a version in its input answers with the newest":
    async () => {
      for (const input of ["", "{", "[]", "null", { cniVersion: 5 }, {}]) {
        const { stdout } = await record({ CNI_COMMAND: "VERSION" }, input);
        assertEquals(JSON.parse(stdout).cniVersion, "1.1.0", `${input}`);
      }
    },
  "NOPE is code 4, unknown CNI_COMMAND: NOPE": refuses(
    { CNI_COMMAND: "NOPE" },
    CONFIG,
    { code: 4, msg: "unknown CNI_COMMAND: NOPE" },
  ),
  "commands are case-sensitive": refuses({ CNI_COMMAND: "add" }, CONFIG, {
    code: 4,
    msg: "unknown CNI_COMMAND: add",
  }),
  ...expand([
    ["a blank CNI_COMMAND", { ...ENV, CNI_COMMAND: "" }],
    ["an empty environment", {}],
  ], ([name, env]) => [
    `${name} makes the plugin introduce itself on stderr, and succeed`,
    async () => {
      const extras = { about: "AWESOME PLUGIN" };
      const outcome = await record(env, "", extras, { stdin: neverRead });
      assertEquals(outcome, {
        ...SILENT,
        stderr:
          "AWESOME PLUGIN\nCNI protocol versions supported: 9.8.7, 10.0.0\n",
        operations: [],
        calls: [],
      });
    },
  ]),
  "the plugins introduce themselves by name and release": async () => {
    const { stderr } = await record({}, "", { name: "ptp" });
    assert(
      /^CNI ptp plugin v1\.\d+\.\d+\+\d+\.\d+\.\d+\n/.test(stderr),
      stderr,
    );
  },
  "no CNI_COMMAND and nothing to introduce is code 4": refuses({}, CONFIG, {
    code: 4,
    msg: "required env variables [CNI_COMMAND] missing",
  }, { about: "" }),
  "stdin that cannot be read is code 5": async () => {
    const env = { ...ENV, CNI_COMMAND: "ADD" };
    const stdin = (): never => {
      throw new Error("banana");
    };
    const outcome = await record(env, "", {}, { stdin });
    const msg = "error reading from stdin: banana";
    assertFailure(outcome, { code: 5, msg });
    assertEquals(outcome.operations, []);
  },
});

/** Builds a row: of what ADD throws, the runtime is shown that. */
function shows(error: unknown, expected: object): Row {
  return async () => {
    const { plugin } = recorder({
      add(): never {
        throw error;
      },
    });
    const outcome = await runCommand(plugin, "ADD");
    assertEquals(outcome.json, { cniVersion: "1.1.0", ...expected });
    assertEquals(outcome.exitCode, 1);
  };
}

const TYPED = new CniError(1234, "insufficient sorcery", { details: "0 mana" });

conformance("skel", {
  "a typed error is shown as it is": shows(TYPED, {
    code: 1234,
    msg: "insufficient sorcery",
    details: "0 mana",
  }),
  "any other error is code 999": shows(new Error("potato"), {
    code: 999,
    msg: "potato",
  }),
  "a wrapped typed error keeps its code and message": shows(
    new Error("Cannot conjure", { cause: TYPED }),
    {
      code: 1234,
      msg: "insufficient sorcery",
      details: "Cannot conjure: 0 mana",
    },
  ),
  "an error document has indent 4, no line feed": async () => {
    const { stdout } = await record({ ...ENV, CNI_COMMAND: "NOPE" }, CONFIG);
    assertEquals(
      stdout,
      '{\n    "cniVersion": "1.1.0",\n    "code": 4,\n' +
        '    "msg": "unknown CNI_COMMAND: NOPE"\n}',
    );
  },
});

const OWN = { CNI_NETNS: OWN_NETNS };
const SAME_NETNS = {
  code: 8,
  msg: "plugin's netns and netns from CNI_NETNS should not be the same",
};

/** Builds a row on the outcome in the plugin's own namespace, or an invalid one. */
function inNetns(
  command: string,
  env: Environment,
  failure: Failure | undefined,
  expected: Operation[],
): Row {
  return async () => {
    const { plugin, calls } = current({ add: () => emptyResult() });
    const all = { ...ENV, CNI_COMMAND: command, ...env };
    // One document: `run` parses what was printed.
    const outcome = await run(plugin, all, CURRENT);
    if (failure) assertFailure(outcome, failure);
    else assertEquals(outcome.exitCode, 0);
    assertEquals(calls.map(([operation]) => operation), expected);
  };
}

conformance("skel", {
  "ADD in the plugin's own namespace is code 8, in one document, before the callback":
    inNetns("ADD", OWN, SAME_NETNS, []),
  "DEL in the plugin's own namespace is code 8, after the callback": inNetns(
    "DEL",
    OWN,
    SAME_NETNS,
    ["del"],
  ),
  "CHECK does not compare the namespaces": inNetns("CHECK", OWN, undefined, [
    "check",
  ]),
  ...expand(["1", "true", "TRUE", "True"], (value) => [
    `CNI_NETNS_OVERRIDE=${value} allows the plugin's own namespace`,
    async (t) => {
      const env = { ...OWN, CNI_NETNS_OVERRIDE: value };
      await inNetns("ADD", env, undefined, ["add"])(t);
      await inNetns("DEL", env, undefined, ["del"])(t);
    },
  ]),
  ...expand(["0", "false", "yes", ""], (value) => [
    `CNI_NETNS_OVERRIDE="${value}" does not`,
    inNetns("ADD", { ...OWN, CNI_NETNS_OVERRIDE: value }, SAME_NETNS, []),
  ]),
  "DEL without a namespace succeeds": inNetns(
    "DEL",
    { CNI_NETNS: "" },
    undefined,
    ["del"],
  ),
  "DEL with a namespace that is gone succeeds": inNetns(
    "DEL",
    { CNI_NETNS: "/nonexistent" },
    undefined,
    ["del"],
  ),
  "the plugin's own namespace by another path is the same": inNetns(
    "ADD",
    { CNI_NETNS: `/proc/${Deno.pid}/ns/net` },
    SAME_NETNS,
    [],
  ),
  "the plugin's own namespace that cannot be read is code 8": async () => {
    const { plugin, calls } = current();
    const more = { hostNetns: "/nonexistent" };
    const outcome = await runCommand(plugin, "ADD", CURRENT, more);
    assertFailure(outcome, { code: 8 });
    assertEquals(calls, []);
  },
});

conformance("skel", {
  "an unknown command with a bad name reports the name, code 7": refuses(
    { CNI_COMMAND: "NOPE" },
    { ...CONFIG, name: "te%%st" },
    { code: 7 },
  ),
  "an unknown command with a bad version reports the command": refuses(
    { CNI_COMMAND: "NOPE" },
    inVersion(5),
    { code: 4, msg: "unknown CNI_COMMAND: NOPE" },
  ),
  "a bad name is reported before a bad version": refuses(
    { CNI_COMMAND: "ADD" },
    { ...inVersion(5), name: "te%%st" },
    { code: 7 },
  ),
  ...expand<readonly [string, string, Failure]>([
    ["empty stdin", "", { code: 6 }],
    ["null", "null", { code: 7, msg: "missing network name" }],
    ["trailing junk", `${JSON.stringify(CONFIG)}x`, { code: 6 }],
    ["an array", "[]", { code: 6 }],
    ["a name that is not a string", '{"name":5}', { code: 6 }],
    ["no name", "{}", { code: 7, msg: "missing network name" }],
    ["an empty name", '{"name":""}', { code: 7, msg: "missing network name" }],
    ["a null name", '{"name":null}', { code: 7, msg: "missing network name" }],
  ], ([name, stdin, failure]) => [
    `${name} is code ${failure.code}`,
    async () => {
      const outcome = await record({ ...ENV, CNI_COMMAND: "ADD" }, stdin);
      assertFailure(outcome, failure);
      if (failure.code === 6) {
        assertStringIncludes(
          outcome.json.msg,
          "error unmarshall network config: ",
        );
      }
    },
  ]),
  "keys in another case are accepted": async () => {
    const Ipam = { TYPE: "host-local" };
    const config = { NAME: "skel-test", CNIVersion: "9.8.7", Ipam };
    const { calls } = await record({ ...ENV, CNI_COMMAND: "ADD" }, config);
    assertEquals(calls[0]?.network, "skel-test");
    assertEquals(calls[0]?.config.ipam?.type, "host-local");
  },
  "the last value of a duplicate key counts": async () => {
    const text = '{"name":"%%","cniVersion":"9.8.7","name":"skel-test"}';
    const outcome = await record({ ...ENV, CNI_COMMAND: "ADD" }, text);
    assertEquals(outcome.calls[0]?.network, "skel-test");
  },
  "an operation that the plugin does not have succeeds": async () => {
    const { name, versions, configSchema } = current().plugin;
    for (const [command] of ASKED) {
      const plugin = { name, versions, configSchema };
      assertEquals(await runCommand(plugin, command, CURRENT), SILENT);
    }
  },
  "a missing operation is still refused by version": async () => {
    const { name, versions, configSchema } = current().plugin;
    const plugin = { name, versions, configSchema };
    const outcome = await runCommand(plugin, "GC", inVersion("0.4.0"));
    assertFailure(outcome, { code: 1 });
  },
});
