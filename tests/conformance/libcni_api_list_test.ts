/**
 * libcni with lists of plugins, as seen by runtimes that call the Go library.
 *
 * Source: containernetworking/cni libcni/api_test.go.
 */

import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { CniError, toCniError } from "../../base/error.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { CheckNotSupportedError } from "../../libcni/check.ts";
import type { NetworkConf, NetworkConfList } from "../../libcni/conf.ts";
import { PluginFailure, type RuntimeConf } from "../../libcni/operation.ts";
import { conformance } from "../_harness/conformance.ts";
import { deadlineWhen } from "../_harness/eventually.ts";
import {
  assertFails,
  type Debug,
  failureOf,
  type Keys,
  NETWORK,
  type Network,
  NoopNetwork,
  PORTS,
  RESULT,
  row,
  RUNTIME_CONFIG,
} from "../../plugins/noop/testing.ts";

const MISSING = 'failed to find plugin "does-not-exist" in path [';
const BANANA: Debug = { ReportError: "plugin error: banana" };
const PASS: Debug = { ReportResult: "PASSTHROUGH" };
const INJECT: Debug = { ReportResult: "INJECT-DNS" };

/** The result of three plugins; the last one adds a name server. */
const FINAL: JsonObject = {
  cniVersion: "1.0.0",
  dns: { nameservers: ["1.2.3.4"] },
  ips: [{ address: "10.1.2.3/24", gateway: "10.1.2.1" }],
};

/** A list of 1.0.0, in which the results need no conversion. */
function list(
  noop: NoopNetwork,
  debugs: readonly Debug[] = [{}, PASS, INJECT],
  keys: Keys = {},
): NetworkConfList {
  return noop.list(debugs, { cniVersion: "1.0.0", ...keys });
}

/** A list with a missing second plugin. */
function withMissing(noop: NoopNetwork, keys: Keys = {}): NetworkConfList {
  return noop.listOf([
    noop.plugin({}, 0),
    { type: "does-not-exist" },
    noop.plugin({}, 2),
  ], { cniVersion: "1.0.0", ...keys });
}

/** The prevResult of each plugin's last call. */
function prevResults(noop: NoopNetwork, count: number): unknown[] {
  return Array.from(
    { length: count },
    (_, index) => noop.call(index)?.stdin.prevResult,
  );
}

/** The last command of each plugin. */
function lastCommands(noop: NoopNetwork, count: number): unknown[] {
  return Array.from({ length: count }, (_, index) => noop.call(index)?.Command);
}

function repeat(command: string, count: number): string[] {
  return Array.from({ length: count }, () => command);
}

/** Networks of version 1.0.0, for the rows of bare plugins and of lists. */
interface Form {
  readonly suffix: string;
  /** Has one plugin. */
  readonly network: (noop: NoopNetwork, keys?: Keys) => Network;
  /** Has all plugins, and their result. */
  readonly full: (noop: NoopNetwork) => Network;
  readonly result: JsonObject;
  readonly count: number;
  /** Has a missing plugin, after `before` others. */
  readonly missing: (noop: NoopNetwork) => Network;
  readonly before: number;
}

const FORMS: readonly Form[] = [{
  suffix: "",
  network: (noop, keys) => noop.single({}, keys),
  full: (noop) => noop.single(),
  result: RESULT,
  count: 1,
  missing: (noop) => noop.single({}, { type: "does-not-exist" }),
  before: 0,
}, {
  suffix: "List",
  network: (noop, keys) => list(noop, [{}], keys),
  full: list,
  result: FINAL,
  count: 3,
  missing: withMissing,
  before: 1,
}];

for (const { suffix, network, ...form } of FORMS) {
  const { full, missing } = form;
  conformance(`libcni AddNetwork${suffix}`, {
    "caches the result": row(async (noop) => {
      const net = full(noop);
      await noop.add(net);
      assertEquals(noop.cachedResult(net), form.result);
    }),
    "fails for a plugin that is missing": row(async (noop) => {
      await assertFails(noop.add(missing(noop)), MISSING);
      assertEquals(noop.commands, repeat("ADD", form.before));
    }),
    "fails if the cache cannot be written": row(async (noop) => {
      noop.spoilCache();
      const text = `failed to set network "${NETWORK}" cached result: `;
      await assertFails(noop.add(full(noop)), text);
      assertEquals(noop.commands, repeat("ADD", form.count));
    }),
  });

  conformance(`libcni CheckNetwork${suffix}`, {
    "fails for a plugin that is missing": row(async (noop) => {
      noop.writeCacheFile(RESULT);
      await assertFails(noop.check(missing(noop)), MISSING);
      assertEquals(noop.commands, repeat("CHECK", form.before));
    }),
    "is not supported before 0.4.0, and runs nothing": row(async (noop) => {
      await assertRejects(
        () => noop.check(network(noop, { cniVersion: "0.3.1" })),
        CheckNotSupportedError,
        'configuration version "0.3.1" does not support the CHECK command',
      );
      assertEquals(noop.commands, []);
    }),
    "is supported at 0.4.0": row(async (noop) => {
      noop.writeCacheFile(RESULT);
      await noop.check(network(noop, { cniVersion: "0.4.0" }));
      assertEquals(noop.call()?.stdin.prevResult.cniVersion, "0.4.0");
    }),
    "fails for a corrupt cache file": row(async (noop) => {
      noop.writeCacheFile("adfadsfasdfasfdsafaf");
      const text = `failed to get network "${NETWORK}" cached result: ` +
        "decoding version from network config: ";
      await assertFails(noop.check(full(noop)), text);
      assertEquals(noop.commands, []);
    }),
  });

  conformance(`libcni DelNetwork${suffix}`, {
    "leaves nothing in the cache": row(async (noop) => {
      const net = full(noop);
      await noop.add(net);
      assertEquals(noop.isCached, true);
      await noop.del(net);
      assertEquals(noop.isCached, false);
      assertEquals(noop.cachedResult(net), undefined);
      const { runtime } = noop;
      assertEquals(runtime.findCachedConfig(net, noop.conf()), undefined);
      assertEquals(runtime.listCachedAttachments(), []);
    }),
    "fails for a plugin that is missing": row((noop) =>
      assertFails(noop.del(missing(noop)), MISSING)
    ),
    "may be repeated": row(async (noop) => {
      const net = network(noop);
      await noop.add(net);
      await noop.del(net);
      await noop.del(net);
      assertEquals(noop.commands, ["ADD", "DEL", "DEL"]);
    }),
    "gives no result before 0.4.0": row(async (noop) => {
      noop.writeCacheFile(RESULT);
      await noop.del(network(noop, { cniVersion: "0.3.1" }));
      assertEquals("prevResult" in noop.call()?.stdin, false);
      assertEquals(noop.isCached, false);
    }),
    "gives the result from 0.4.0 on": row(async (noop) => {
      noop.writeCacheFile(RESULT);
      await noop.del(network(noop, { cniVersion: "0.4.0" }));
      assertEquals(noop.call()?.stdin.prevResult.cniVersion, "0.4.0");
    }),
  });
}

const REFUSED: readonly (readonly [
  what: string,
  keys: Partial<RuntimeConf> & { readonly network?: string },
  code: number,
  text: string,
])[] = [
  [
    "a container ID of other characters",
    { containerId: "some-%%container-id" },
    4,
    "invalid characters in containerID",
  ],
  ["no container ID", { containerId: "" }, 3, "missing containerID"],
  [
    "a network name of other characters",
    { network: "invalid%%%%name" },
    7,
    "invalid characters found in network name",
  ],
  ...([
    ["no interface name", "", "is empty"],
    ["an interface name of 16 characters", "1234567890123456", "is too long"],
    ["the interface name .", ".", "is . or .."],
    ["the interface name ..", "..", "is . or .."],
    ["an interface name with a slash", "test/test", "contains / or :"],
    ["an interface name with a colon", "test:test", "contains / or :"],
    ["an interface name with a blank", "test test", "contains / or :"],
  ] as const).map(([what, ifName, text]) =>
    [what, { ifName }, 4, `interface name ${text}`] as const
  ),
];

conformance(
  "libcni AddNetworkList",
  Object.fromEntries(REFUSED.map(([what, keys, code, text]) => [
    `refuses ${what}`,
    row(async (noop) => {
      const { network: name = NETWORK, ...conf } = keys;
      const network = list(noop, [{}], { name });
      const error = await assertRejects(
        () => noop.add(network, noop.conf(conf)),
        PluginFailure,
        'plugin type="noop" failed (add)',
      );
      assertStringIncludes(toCniError(error).message, text);
      assertEquals(toCniError(error).code, code);
      assertEquals(noop.call(), undefined);
    }),
  ])),
);

conformance("libcni AddNetworkList", {
  "runs ADD in order, each with the previous result": row(async (noop) => {
    const { document } = await noop.add(list(noop));
    assertEquals(lastCommands(noop, 3), ["ADD", "ADD", "ADD"]);
    assertEquals(prevResults(noop, 3), [undefined, RESULT, RESULT]);
    assertEquals(document, FINAL);
  }),
  "gives plugins name, version, environment, arguments": row(async (noop) => {
    const plugins = [0, 1].map((index) => ({
      ...noop.plugin(index === 0 ? {} : PASS, index),
      capabilities: { portMappings: true, somethingElse: index === 0 },
    }));
    const network = noop.listOf(plugins, { cniVersion: "1.0.0" });
    await noop.add(network);
    const { portMappings } = RUNTIME_CONFIG;
    const offered = [RUNTIME_CONFIG, { portMappings }];
    for (const [index, runtimeConfig] of offered.entries()) {
      const { CmdArgs, stdin } = noop.call(index) ?? {};
      assertEquals(CmdArgs?.ContainerID, "some-container-id");
      assertEquals(CmdArgs?.Netns, "/some/netns/path");
      assertEquals(CmdArgs?.IfName, "eno0");
      assertEquals(CmdArgs?.Args, "FOO=BAR");
      assertEquals(CmdArgs?.Path, noop.directory.path);
      assertEquals(stdin.name, NETWORK);
      assertEquals(stdin.cniVersion, "1.0.0");
      assertEquals(stdin.runtimeConfig, runtimeConfig);
    }
  }),
  "caches the configuration": row(async (noop) => {
    const network = list(noop);
    await noop.add(network);
    const bare = noop.conf({ args: [], capabilityArgs: {} });
    const cached = noop.runtime.findCachedConfig(network, bare);
    assertEquals(cached?.config, network.bytes);
    assertEquals(cached?.conf, noop.conf());
    const [attachment] = noop.runtime.listCachedAttachments();
    assertEquals(attachment?.config, network.bytes);
    assertEquals(attachment?.capabilityArgs, PORTS);
  }),
  "fails for a plugin in the middle that is missing": row(async (noop) => {
    const text = await failureOf(noop.add(withMissing(noop)));
    assertStringIncludes(text, MISSING);
    assertStringIncludes(text, 'plugin type="does-not-exist" failed (add): ');
    assertEquals(lastCommands(noop, 1), ["ADD"]);
    assertEquals(noop.call(2), undefined);
  }),
  "caches nothing if the second plugin fails": row(async (noop) => {
    const network = list(noop, [{}, BANANA, {}]);
    assertEquals(
      await failureOf(noop.add(network)),
      'plugin type="noop" failed (add): plugin error: banana',
    );
    assertEquals(noop.call(2), undefined);
    assertEquals(noop.isCached, false);
  }),
  "names the plugin that its object names": row(async (noop) => {
    const plugin = { ...noop.plugin(BANANA), name: "some-plugin" };
    const network = noop.listOf([plugin], { cniVersion: "1.0.0" });
    assertEquals(
      await failureOf(noop.add(network)),
      'plugin type="noop" name="some-plugin" failed (add): plugin error: banana',
    );
  }),
  "keeps the code of the plugin's error": row(async (noop) => {
    const network = list(noop, [{ ...BANANA, ReportErrorCode: 11 }]);
    const error = await assertRejects(() => noop.add(network));
    const { code, message } = toCniError(error);
    assertEquals([code, message], [11, "plugin error: banana"]);
  }),
});

conformance("libcni CheckNetworkList", {
  "gives all plugins the result of the last": row(async (noop) => {
    const network = list(noop);
    await noop.add(network);
    await noop.check(network);
    assertEquals(lastCommands(noop, 3), ["CHECK", "CHECK", "CHECK"]);
    assertEquals(prevResults(noop, 3), [FINAL, FINAL, FINAL]);
  }),
  "gives all plugins the result of a legacy cache file": row(async (noop) => {
    noop.writeCacheFile(RESULT);
    await noop.check(list(noop));
    assertEquals(prevResults(noop, 3), [RESULT, RESULT, RESULT]);
    assertEquals(noop.commands, ["CHECK", "CHECK", "CHECK"]);
  }),
  "runs nothing with disableCheck": row(async (noop) => {
    const network = list(noop, [{}], { disableCheck: true });
    await noop.check(network);
    assertEquals(noop.commands, []);
  }),
  "throws the second plugin's error unchanged": row(async (noop) => {
    const network = list(noop, [{}, { ...BANANA, ReportErrorCode: 11 }, {}]);
    const error = await assertRejects(
      () => noop.check(network),
      CniError,
      "plugin error: banana",
    );
    assertEquals(error.code, 11);
    assertEquals(noop.commands, ["CHECK", "CHECK"]);
  }),
  "fails for a cached result that cannot be converted": row(async (noop) => {
    noop.writeCacheFile({ cniVersion: "0.4567.0" });
    await assertFails(
      noop.check(list(noop)),
      'unsupported CNI result version "0.4567.0"',
    );
  }),
});

/** Adds plugins that log their commands to one file, to show the order. */
function orderedPlugins(noop: NoopNetwork): Keys[] {
  return ["a", "b", "c"].map((type) => {
    const log = `${noop.directory.path}/order`;
    noop.directory.add(type, `echo ${type} $CNI_COMMAND >> ${log}; echo {}`);
    return { type };
  });
}

function orderOf(noop: NoopNetwork): string[] {
  const order = Deno.readTextFileSync(`${noop.directory.path}/order`);
  return order.trim().split("\n");
}

conformance("libcni DelNetworkList", {
  "runs DEL of the plugins in reverse order": row(async (noop) => {
    const network = noop.listOf(orderedPlugins(noop));
    await noop.add(network);
    await noop.del(network);
    assertEquals(
      orderOf(noop),
      ["a ADD", "b ADD", "c ADD", "c DEL", "b DEL", "a DEL"],
    );
  }),
  "gives all plugins the result of the last": row(async (noop) => {
    const network = list(noop);
    await noop.add(network);
    await noop.del(network);
    assertEquals(lastCommands(noop, 3), ["DEL", "DEL", "DEL"]);
    assertEquals(prevResults(noop, 3), [FINAL, FINAL, FINAL]);
  }),
  "names the plugin that failed": row(async (noop) => {
    const network = list(noop, [{}, BANANA, {}]);
    assertEquals(
      await failureOf(noop.del(network)),
      'plugin type="noop" failed (delete): plugin error: banana',
    );
  }),
  "stops at the plugin that failed, and keeps the cache": row(async (noop) => {
    const network = list(noop, [{}, {}, {}]);
    await noop.add(network);
    noop.tell(BANANA, 1);
    await failureOf(noop.del(network));
    assertEquals(lastCommands(noop, 3), ["ADD", "DEL", "DEL"]);
    assertEquals(noop.isCached, true);
  }),
  "ignores a corrupt cache file": row(async (noop) => {
    noop.writeCacheFile("adfadsfasdfasfdsafaf");
    await noop.del(list(noop, [{}, {}]));
    assertEquals(prevResults(noop, 2), [undefined, undefined]);
    assertEquals(noop.commands, ["DEL", "DEL"]);
    assertEquals(noop.isCached, false);
  }),
});

conformance("libcni ValidateNetworkList", {
  "returns each capability once": row(async (noop) => {
    const plugins = [{ a: true, b: true }, { b: true, c: true, d: false }]
      .map((capabilities) => ({ type: "noop", capabilities }));
    const network = noop.listOf(plugins, { cniVersion: "1.0.0" });
    const capabilities = await noop.runtime.validateNetworkList(network);
    assertEquals(capabilities.toSorted(), ["a", "b", "c"]);
  }),
  "fails for a plugin that is missing": row(async (noop) => {
    const text = await failureOf(
      noop.runtime.validateNetworkList(withMissing(noop)),
    );
    assert(text.startsWith(`[${MISSING}`), text);
    assert(text.endsWith("]]"), text);
  }),
  "joins the errors of all plugins about a version": row(async (noop) => {
    const network = list(noop, [{}, {}, {}], { cniVersion: "broken" });
    const one = 'plugin noop does not support config version "broken"';
    assertEquals(
      await failureOf(noop.runtime.validateNetworkList(network)),
      `[${one} ${one} ${one}]`,
    );
  }),
});

/** The attachment of `NoopNetwork.conf()` as GC spells it. */
const VALID = { containerId: "some-container-id", ifName: "eno0" };

conformance("libcni GC", {
  "runs nothing with disableGC": row(async (noop) => {
    const network = noop.list([{}], { disableGC: true });
    await noop.add(network);
    await noop.gc(network, []);
    assertEquals(noop.commands, ["ADD"]);
    assertEquals(noop.isCached, true);
  }),
  "keeps a valid attachment and names it": row(async (noop) => {
    const network = noop.list([{}]);
    await noop.add(network);
    await noop.gc(network, [VALID]);
    assertEquals(noop.commands, ["ADD", "GC"]);
    const stdin = noop.call()?.stdin;
    const named = [{ containerID: "some-container-id", ifname: "eno0" }];
    assertEquals(stdin["cni.dev/valid-attachments"], named);
    assertEquals(stdin["cni.dev/attachments"], named);
    assertEquals([stdin.name, stdin.cniVersion], [NETWORK, "1.1.0"]);
    assertEquals(noop.isCached, true);
  }),
  "deletes a stale attachment, then runs GC": row(async (noop) => {
    const network = noop.list([{}]);
    await noop.add(network);
    await noop.gc(network, [VALID]);
    await noop.gc(network, []);
    assertEquals(noop.commands, ["ADD", "GC", "DEL", "GC"]);
    assertEquals(noop.call()?.stdin["cni.dev/valid-attachments"], []);
    assertEquals(noop.isCached, false);
  }),
  "deletes the stale interface, and keeps the valid one": row(async (noop) => {
    const network = noop.list([{}]);
    const other = noop.conf({ ifName: "eth7" });
    await noop.add(network);
    await noop.add(network, other);
    await noop.gc(network, [VALID]);
    const left = noop.runtime.listCachedAttachments();
    assertEquals(left.map(({ ifName }) => ifName), ["eno0"]);
  }),
  "does not touch other networks": row(async (noop) => {
    const network = noop.list([{}]);
    const other = noop.list([{}], { name: "other" });
    await noop.add(network);
    await noop.add(other);
    await noop.gc(network, []);
    const left = noop.runtime.listCachedAttachments();
    assertEquals(left.map((attachment) => attachment.network), ["other"]);
    assertEquals(noop.commands, ["ADD", "ADD", "DEL", "GC"]);
  }),
  "deletes all without valid attachments, names none": row(async (noop) => {
    const network = noop.list([{}]);
    await noop.add(network);
    await noop.gc(network);
    assertEquals(noop.commands, ["ADD", "DEL", "GC"]);
    const keys = Object.keys(noop.call()?.stdin);
    assertEquals(keys.filter((key) => key.startsWith("cni.dev/")), []);
  }),
  "collects failures and calls all plugins": row(async (noop) => {
    const network = noop.list([BANANA, {}, BANANA]);
    const text = await failureOf(noop.gc(network, []));
    const one = "failed to GC plugin noop: plugin error: banana";
    assertStringIncludes(text, `${one}; ${one}`);
    assertEquals(noop.commands, ["GC", "GC", "GC"]);
  }),
  "continues after a DEL that fails": row(async (noop) => {
    const network = noop.list([{}]);
    await noop.add(network);
    noop.tell(BANANA);
    await assertFails(
      noop.gc(network),
      "failed to delete stale attachment some-container-id eno0: " +
        'plugin type="noop" failed (delete): plugin error: banana',
    );
    assertEquals(noop.commands, ["ADD", "DEL", "GC"]);
    assertEquals(noop.isCached, true);
  }),
  "runs the plugins in order": row(async (noop) => {
    const network = noop.listOf(orderedPlugins(noop));
    await noop.gc(network, []);
    assertEquals(orderOf(noop), ["a GC", "b GC", "c GC"]);
  }),
  "is not about an attachment": row(async (noop) => {
    await noop.gc(noop.list([{}]));
    const { StdinData: _, ...env } = noop.call()?.CmdArgs ?? {};
    assertEquals(env, {
      ContainerID: "",
      Netns: "",
      IfName: "",
      Args: "",
      Path: noop.directory.path,
      NetnsOverride: "",
    });
  }),
  "only deletes before 1.1.0": row(async (noop) => {
    const network = list(noop, [{}]);
    await noop.add(network);
    await noop.gc(network, []);
    assertEquals(noop.commands, ["ADD", "DEL"]);
  }),
});

conformance("libcni STATUS", {
  "runs the plugins with name and version only": row(async (noop) => {
    await noop.status(noop.list([{}, {}]));
    assertEquals(noop.commands, ["STATUS", "STATUS"]);
    const { CmdArgs, stdin } = noop.call(1) ?? {};
    assertEquals([stdin.name, stdin.cniVersion], [NETWORK, "1.1.0"]);
    assertEquals([CmdArgs?.ContainerID, CmdArgs?.IfName], ["", ""]);
    assertEquals(CmdArgs?.Path, noop.directory.path);
  }),
  "shows code 50 of the second, and skips the third": row(async (noop) => {
    const network = noop.list([
      {},
      { ReportError: "plugin error: banana", ReportErrorCode: 50 },
      {},
    ]);
    const error = await assertRejects(
      () => noop.status(network),
      CniError,
      "plugin error: banana",
    );
    assertEquals(error.code, 50);
    assertEquals(noop.commands, ["STATUS", "STATUS"]);
  }),
  "fails for a plugin that is missing": row(async (noop) => {
    const network = withMissing(noop, { cniVersion: "1.1.0" });
    await assertFails(noop.status(network), MISSING);
  }),
  "runs nothing before 1.1.0": row(async (noop) => {
    await noop.status(list(noop, [BANANA]));
    assertEquals(noop.commands, []);
  }),
});

const TIMEOUT_MS = 30_000;

interface Timed {
  readonly runtime: NoopNetwork["runtime"];
  readonly single: NetworkConf;
  readonly list: NetworkConfList;
  readonly conf: RuntimeConf;
}

/** Operations on the plugin `sleep`, which takes longer than the deadline. */
const TIMED: Readonly<
  Record<
    string,
    (on: Timed, options: { readonly signal: AbortSignal }) => Promise<unknown>
  >
> = {
  AddNetwork: (on, options) =>
    on.runtime.addNetwork(on.single, on.conf, options),
  CheckNetwork: (on, options) =>
    on.runtime.checkNetwork(on.single, on.conf, options),
  DelNetwork: (on, options) =>
    on.runtime.delNetwork(on.single, on.conf, options),
  GetVersionInfo: (on, options) => on.runtime.getVersionInfo("sleep", options),
  ValidateNetwork: (on, options) =>
    on.runtime.validateNetwork(on.single, options),
  AddNetworkList: (on, options) =>
    on.runtime.addNetworkList(on.list, on.conf, options),
  CheckNetworkList: (on, options) =>
    on.runtime.checkNetworkList(on.list, on.conf, options),
  DelNetworkList: (on, options) =>
    on.runtime.delNetworkList(on.list, on.conf, options),
  ValidateNetworkList: (on, options) =>
    on.runtime.validateNetworkList(on.list, options),
  GC: (on, options) => on.runtime.gcNetworkList(on.list, options),
  STATUS: (on, options) => on.runtime.statusNetworkList(on.list, options),
};

conformance(
  "libcni deadline",
  Object.fromEntries(
    Object.entries(TIMED).map(([name, operation]) => [
      `ends ${name}`,
      row(async (noop) => {
        const mark = `${noop.directory.path}/mark`;
        noop.directory.add("sleep", `echo > ${mark}; exec sleep 60`);
        const on = {
          runtime: noop.runtime,
          single: noop.single({}, { type: "sleep" }),
          list: noop.listOf([{ type: "sleep" }]),
          conf: noop.conf(),
        };
        const begin = performance.now();
        const signal = deadlineWhen(() => noop.directory.read("mark") !== "");
        await assertFails(
          operation(on, { signal }),
          "netplugin failed with no error message",
        );
        assert(performance.now() - begin < TIMEOUT_MS, "it took too long");
      }),
    ]),
  ),
);
