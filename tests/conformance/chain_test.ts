/**
 * chain in place of a list: every rule by which a runtime runs the plugins of a
 * list, without a chain and with chains in all ways. What the plugins are sent
 * must be the same to the byte, and so must be what the runtime's caller is told
 * and what the cache has. After a failure, chains run other plugins than a runtime
 * does for a list: such rows say which, and what the chains record.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { makeChain } from "../../cli/node/chain_form.ts";
import { describeError, toCniError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import type { JsonObject, JsonValue } from "../../base/json/json.ts";
import type { NetworkRuntime } from "../../libcni/api.ts";
import {
  decodePluginConfs,
  type NetworkConfList,
  parseNetworkConfList,
} from "../../libcni/conf.ts";
import type { RuntimeConf } from "../../libcni/operation.ts";
import { createChain } from "../../plugins/chain/plugin.ts";
import { readRecord } from "../../plugins/chain/record.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { deadlineWhen } from "../_harness/eventually.ts";
import {
  type Answers,
  type PluginCall,
  RecordingPlugins,
} from "../_harness/recording_plugins.ts";

/** A plugin's configuration. */
type PluginObject = Readonly<Record<string, unknown>>;

/** A network, the results of its plugins, and the operations of a runtime. */
interface Scene {
  /** Scripts of the plugins by type; by default `a`, `b` and `c`, which succeed. */
  readonly answers?: Readonly<Record<string, Answers>>;
  /** The plugins, if they are not one of each type. */
  readonly plugins?: readonly PluginObject[];
  /** Keys of the list. */
  readonly keys?: PluginObject;
  /** The initial content of the cache. */
  readonly cached?: string;
  readonly conf?: Partial<RuntimeConf>;
  /** The operations of the runtime. */
  readonly deed: (
    runtime: NetworkRuntime,
    list: NetworkConfList,
    conf: RuntimeConf,
  ) => Promise<unknown>;
}

/** The outcome of a scene. */
interface Ending {
  /** How the plugins were arranged. */
  readonly arrangement: Arrangement;
  /** The input of the plugins, in order. */
  readonly calls: readonly PluginCall[];
  /** The same input as recorded, byte for byte. */
  readonly recorded: string;
  /** The runtime's result; for an error, its message. */
  readonly answer: unknown;
  /** Code of the error; 0 for none. */
  readonly code: number;
  /** The cached result at the end. */
  readonly kept: JsonObject | undefined;
  /** What the records of chains have at the end: the plugins still to be undone. */
  readonly left: readonly (readonly number[])[];
}

/** Plugins in a row, and in chains. The first is what the others are compared with. */
const ARRANGEMENTS = {
  "a list": (plugins) => plugins,
  "a chain": chain,
  "a chain behind the first": ([first = {}, ...others]) => [
    first,
    ...chain(others),
  ],
  "a chain in a chain": ([first = {}, ...others]) =>
    chain([first, ...chain(others)]),
} satisfies Readonly<Record<string, Arrange>>;

type Arrange = (plugins: readonly PluginObject[]) => readonly PluginObject[];
type Arrangement = keyof typeof ARRANGEMENTS;

/** Puts plugins into a chain, as `cni convert` does with those of ours. */
function chain(plugins: readonly PluginObject[]): readonly PluginObject[] {
  if (plugins.length === 0) return [];
  const links = decodePluginConfs(plugins as readonly JsonValue[]);
  return [makeChain(links).document];
}

/** Plays a scene in all arrangements, a list first. */
async function playAll(scene: Scene): Promise<Ending[]> {
  const endings: Ending[] = [];
  for (const arrangement of Object.keys(ARRANGEMENTS)) {
    endings.push(await play(scene, arrangement as Arrangement));
  }
  return endings;
}

async function play(scene: Scene, arrangement: Arrangement): Promise<Ending> {
  using host = new RecordingPlugins();
  const { answers = { a: {}, b: {}, c: {} }, deed } = scene;
  for (const [type, answer] of Object.entries(answers)) host.add(type, answer);
  host.directory.addOwnExecutable("chain");
  const { plugins = Object.keys(answers).map((type) => ({ type })) } = scene;
  const arranged = ARRANGEMENTS[arrangement](plugins);
  const document = { name: "net1", cniVersion: "1.1.0", ...scene.keys };
  const list = parseNetworkConfList(encode({ ...document, plugins: arranged }));
  // Records of one scene are nothing to the next one.
  const records = `${host.directory.path}/records`;
  const ownChain = createChain(records) as Plugin;
  const invoker = createInvoker(
    (plugin, input) => TestHosts.dispatch(plugin, input),
    (type) => type === "chain" ? Promise.resolve(ownChain) : findPlugin(type),
  );
  const runtime = host.runtime({ invoker });
  const conf = host.conf(scene.conf);
  if (scene.cached !== undefined) fillCache(host, scene.cached);
  const told = await tell(() => deed(runtime, list, conf));
  const { calls, directory, cacheDir } = host;
  const log = readIfThere(`${directory.path}/calls`);
  const file = readIfThere(`${cacheDir}/results/net1-c1-eth0`);
  return {
    ...told,
    arrangement,
    calls,
    // Every host has its own directory.
    recorded: log.replaceAll(directory.path, "@path"),
    kept: file.startsWith("{") ? JSON.parse(file).result : undefined,
    left: readRecords(records),
  };
}

/** Reads what chains have recorded, the shortest first. */
function readRecords(directory: string): number[][] {
  const entries = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  return entries.map(({ name }) => {
    const record = readRecord(`${directory}/${name}`);
    if (record === undefined) throw new Error(`"${name}" cannot be read`);
    return [...record.state.left].sort();
  }).sort((a, b) => a.length - b.length);
}

function encode(document: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(document));
}

/** Writes the attachment's file in the format of libcni before 0.8, or junk. */
function fillCache({ cacheDir }: RecordingPlugins, content: string): void {
  Deno.mkdirSync(`${cacheDir}/results`, { recursive: true });
  Deno.writeTextFileSync(`${cacheDir}/results/net1-c1-eth0`, content);
}

function readIfThere(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

/** The prefix that a chain adds to the error of its plugin. */
const CHAINS =
  /(plugin type="chain" failed \((add|delete)\): |failed to GC plugin chain: )+/g;

async function tell(
  deed: () => Promise<unknown>,
): Promise<Pick<Ending, "answer" | "code">> {
  try {
    return { answer: await deed(), code: 0 };
  } catch (error) {
    const text = describeError(error).replaceAll(CHAINS, "")
      .replaceAll(/\/\w+\/cni-test-\w+/g, "@path")
      .replaceAll(/after \d+ ms/g, "after a time");
    return { answer: text, code: toCniError(error).code };
  }
}

type Deed = Scene["deed"];

/**
 * Builds a row of a scene that is played in all arrangements.
 *
 * @param check What the rule is, of the scene without a chain
 */
function sameWith(scene: Scene, check: (ending: Ending) => void): Row {
  return async () => {
    const [list, ...chains] = await playAll(scene);
    if (list === undefined) throw new Error("nothing was played");
    check(list);
    for (const { arrangement, calls: _, ...ending } of chains) {
      const { arrangement: __, calls: ___, ...expected } = list;
      assertEquals(ending, expected, arrangement);
    }
  };
}

/** What chains do otherwise than a list. */
interface Otherwise {
  /** The number of calls that are the same as those of the list; all if undefined. */
  readonly same?: number;
  /** The calls after these, and the prevResult of each. */
  readonly calls?: readonly (readonly [call: string, prevResult?: unknown])[];
  /** What follows the message of the list. */
  readonly more?: string;
  /** What is still recorded. */
  readonly left?: readonly (readonly number[])[];
}

/**
 * Builds a row of a scene in which chains run other plugins than a list does. What
 * the caller is told and what the cache has must be the same.
 *
 * @param check What the rule is, of the scene without a chain
 * @param otherwise What the rule is of each chain
 */
function otherwiseWith(
  scene: Scene,
  check: (ending: Ending) => void,
  otherwise: Readonly<Record<Exclude<Arrangement, "a list">, Otherwise>>,
): Row {
  return async () => {
    const [list, ...chains] = await playAll(scene);
    if (list === undefined) throw new Error("nothing was played");
    check(list);
    for (const ending of chains) {
      const { arrangement, answer, code, kept } = ending;
      const {
        same = list.calls.length,
        calls = [],
        more: text,
        left = [],
      } = otherwise[arrangement as keyof typeof otherwise];
      const lines = ending.recorded.trimEnd().split("\n");
      const others = lines.slice(same).map((line) => JSON.parse(line));
      assertEquals(
        {
          answer,
          code,
          kept,
          lines: lines.slice(0, same),
          calls: others,
          left: ending.left,
        },
        {
          answer: text === undefined ? list.answer : `${list.answer}${text}`,
          code: list.code,
          kept: list.kept,
          lines: list.recorded.split("\n").slice(0, same),
          calls: calls.map((one) => inputOf(scene, ...one)),
          left,
        },
        arrangement,
      );
    }
  };
}

/** Returns the whole input of a call, of the attachment and the network by default. */
function inputOf(
  { plugins = [] }: Scene,
  call: string,
  prevResult?: unknown,
): PluginCall {
  const [type = "", command = ""] = call.split(" ");
  const own = plugins.find((one) => one["type"] === type) ?? { type };
  return {
    type,
    command,
    containerId: "c1",
    netns: "/run/netns/c1",
    ifName: "eth0",
    args: "",
    path: "@path",
    stdin: {
      ...own,
      cniVersion: "1.1.0",
      name: "net1",
      ...prevResult === undefined ? {} : { prevResult },
    },
  };
}

function story({ calls }: Ending): string[] {
  return calls.map(({ type, command }) => `${type} ${command}`);
}

function prevResults({ calls }: Ending): unknown[] {
  return calls.map(({ stdin }) => stdin.prevResult);
}

const ADD: Deed = async (runtime, list, conf) =>
  (await runtime.addNetworkList(list, conf)).document;
const CHECK: Deed = (runtime, list, conf) =>
  runtime.checkNetworkList(list, conf);
const DEL: Deed = (runtime, list, conf) => runtime.delNetworkList(list, conf);
const GC: Deed = (runtime, list) =>
  runtime.gcNetworkList(list, { validAttachments: [VALID] });
const STATUS: Deed = (runtime, list) => runtime.statusNetworkList(list);
const VALID = { containerId: "c9", ifName: "net3" };

/** Runs one operation after the other, even if the first fails. */
function inTurn(...deeds: readonly Deed[]): Deed {
  return async (...scene) => {
    const told: unknown[] = [];
    for (const deed of deeds) {
      told.push(await deed(...scene).catch(({ message }) => message));
    }
    return told;
  };
}

/** A plugin's result, as `sh` prints it. */
function answer(result: object): string {
  return `echo '${JSON.stringify(result)}'`;
}

const A = { cniVersion: "1.1.0", ips: [{ address: "10.0.0.2/24" }] };
const B = { cniVersion: "1.0.0", x: { y: "<&>" }, interfaces: [{ name: "b" }] };
const C = { cniVersion: "1.1.0", dns: { domain: "c" }, routes: [], z: 1 };
const RESULTS = {
  a: { ADD: answer(A) },
  b: { ADD: answer(B) },
  c: { ADD: answer(C) },
};
/** The result of a plugin that prints `{}`. */
const EMPTY = { cniVersion: "1.1.0" };
const LATER = `echo '{"code":11,"msg":"later","details":"soon"}'; exit 1`;

const CAPABLE = [
  { type: "a", capabilities: { ips: true, mac: false } },
  { type: "b", runtimeConfig: { own: 1 }, args: { cni: { x: "y" } } },
  { type: "c", capabilities: { mac: true, ips: true, other: true } },
];
const OFFER = { ips: ["10.0.0.9"], mac: "02:00:00:00:00:01", nobody: [1] };

conformance("chain ADD", {
  "runs the plugins in order, each with the result before": sameWith(
    { answers: RESULTS, deed: ADD },
    (ending) => {
      assertEquals(story(ending), ["a ADD", "b ADD", "c ADD"]);
      assertEquals(prevResults(ending), [undefined, A, B]);
      assertEquals(ending.answer, C);
    },
  ),
  "gives each plugin the network's name and version, and the environment":
    sameWith({
      keys: { cniVersion: "1.0.0" },
      conf: { args: [["K", "V"], ["IgnoreUnknown", "1"]] },
      deed: ADD,
    }, ({ calls: [, second] }) => {
      assertEquals(second?.args, "K=V;IgnoreUnknown=1");
      assertEquals([second?.containerId, second?.ifName], ["c1", "eth0"]);
      assertEquals(second?.stdin.name, "net1");
      assertEquals(second?.stdin.cniVersion, "1.0.0");
    }),
  "gives each plugin what it declares of the runtime's offer": sameWith({
    plugins: CAPABLE,
    conf: { capabilityArgs: OFFER },
    deed: ADD,
  }, ({ calls }) => {
    const { ips, mac } = OFFER;
    assertEquals(
      calls.map(({ stdin }) => stdin.runtimeConfig),
      [{ ips }, { own: 1 }, { ips, mac }],
    );
  }),
  "keeps whatever else a plugin's object has": sameWith({
    plugins: [{
      type: "a",
      name: "own",
      cniVersion: "0.1.0",
      Name: "OTHER",
      list: [1, null, { "2": "b", "10": "a" }],
      text: "<&>\u2028ä",
      prevResult: { from: "file" },
    }, { type: "b", ipam: {}, dns: { nameservers: ["1.2.3.4"] } }],
    deed: ADD,
  }, ({ calls: [first] }) => {
    assertEquals(first?.stdin.list, [1, null, { "2": "b", "10": "a" }]);
    assertEquals(first?.stdin.prevResult, { from: "file" });
    assertEquals([first?.stdin.name, first?.stdin.Name], ["net1", undefined]);
  }),
  "serves a network without a version": sameWith({
    answers: { a: { ADD: answer({ ip4: { ip: "10.0.0.2/24" } }) }, b: {} },
    keys: { cniVersion: undefined },
    deed: ADD,
  }, ({ calls: [first], recorded, answer }) => {
    assertEquals(first?.stdin.cniVersion, "");
    assertStringIncludes(recorded, '"cniVersion":"0.1.0","ip4"');
    assertEquals(answer, { cniVersion: "0.1.0" });
  }),
  "has the runtime cache the last result to the letter": sameWith({
    answers: { a: {}, b: { ADD: answer({ x: 1, ips: null }) } },
    deed: ADD,
  }, ({ kept }) => {
    assertEquals(kept, { cniVersion: "1.1.0", x: 1, ips: null });
  }),
  "takes null for an empty result": sameWith({
    answers: { a: { ADD: "echo null" }, b: { ADD: "echo null" } },
    deed: ADD,
  }, (ending) => {
    assertEquals(prevResults(ending), [undefined, { cniVersion: "1.1.0" }]);
  }),
  "converts a result of another version for the next plugin": sameWith({
    answers: {
      a: { ADD: answer({ cniVersion: "0.2.0", ip4: { ip: "10.0.0.2/24" } }) },
      b: { ADD: answer(B) },
    },
    deed: ADD,
  }, (ending) => {
    assertEquals(prevResults(ending), [undefined, A]);
  }),
  "does not convert the last result": sameWith({
    answers: {
      a: {},
      b: { ADD: answer({ cniVersion: "0.2.0", ip4: { ip: "10.0.0.2/24" } }) },
    },
    deed: ADD,
  }, ({ kept }) => {
    assertEquals(kept, { cniVersion: "0.2.0", ip4: { ip: "10.0.0.2/24" } });
  }),
  "hands a result on as it is if it cannot be converted": sameWith({
    answers: { a: { ADD: answer({ cniVersion: "1.1.0", x: 1 }) }, b: {} },
    keys: { cniVersion: "0.2.0" },
    deed: ADD,
  }, (ending) => {
    assertEquals(prevResults(ending)[1], { cniVersion: "1.1.0", x: 1 });
  }),
});

type Chains = Parameters<typeof otherwiseWith>[2];

/** A row of an ADD in which one of three plugins fails. */
function failsAt(
  type: string,
  expected: readonly string[],
  otherwise: Chains,
): Row {
  const answers = { ...RESULTS, [type]: { ADD: LATER } };
  return otherwiseWith({ answers, deed: ADD }, (ending) => {
    assertEquals(story(ending), expected);
    assertEquals(
      ending.answer,
      `plugin type="${type}" failed (add): later: soon`,
    );
    assertEquals([ending.code, ending.kept], [11, undefined]);
  }, otherwise);
}

/**
 * What chains do after ADD of the second plugin has failed. A chain whose first
 * plugin fails by itself undoes nothing: that plugin has undone its own part.
 *
 * @param result The result of the first plugin
 */
function undoneFromSecond(result: object, third = true): Chains {
  return {
    "a chain": { calls: [["b DEL", result], ["a DEL", result]], left: [[]] },
    "a chain behind the first": {},
    "a chain in a chain": {
      // The inner chain has no record, and runs all.
      calls: [
        ...third ? [["c DEL", result]] as const : [],
        ["b DEL", result],
        ["a DEL", result],
      ],
      left: [[]],
    },
  };
}

/** A row of an ADD with invalid output of the second plugin. */
function refuses(script: string, expected: string, code: number): Row {
  const answers = { a: {}, b: { ADD: script }, c: {} };
  return otherwiseWith({ answers, deed: ADD }, (ending) => {
    assertEquals(story(ending), ["a ADD", "b ADD"]);
    assertStringIncludes(
      String(ending.answer),
      `plugin type="b" failed (add): ${expected}`,
    );
    assertEquals(ending.code, code);
  }, undoneFromSecond(EMPTY));
}

const WITH_MISSING = [{ type: "a" }, { type: "missing" }, { type: "c" }];
const MISSING = 'failed to find plugin "missing" in path [@path]';

conformance("chain ADD that fails", {
  "at the first plugin runs no other": failsAt("a", ["a ADD"], {
    "a chain": {},
    "a chain behind the first": {},
    "a chain in a chain": {},
  }),
  "at the second runs the third no more, and undoes what has begun": failsAt(
    "b",
    ["a ADD", "b ADD"],
    undoneFromSecond(A),
  ),
  "at the third undoes all in reverse": failsAt(
    "c",
    ["a ADD", "b ADD", "c ADD"],
    {
      "a chain": {
        calls: [["c DEL", B], ["b DEL", B], ["a DEL", B]],
        left: [[]],
      },
      "a chain behind the first": {
        calls: [["c DEL", B], ["b DEL", B]],
        left: [[]],
      },
      "a chain in a chain": {
        calls: [["c DEL", B], ["b DEL", B], ["a DEL", A]],
        left: [[]],
      },
    },
  ),
  "names the plugin as its object does": otherwiseWith({
    answers: { a: {}, b: { ADD: LATER } },
    plugins: [{ type: "a" }, { type: "b", name: "second" }],
    deed: ADD,
  }, (ending) => {
    assertEquals(story(ending), ["a ADD", "b ADD"]);
    assertEquals(
      ending.answer,
      'plugin type="b" name="second" failed (add): later: soon',
    );
  }, undoneFromSecond(EMPTY, false)),
  "for a plugin that is missing": otherwiseWith(
    { plugins: [{ type: "a" }, { type: "c" }, { type: "missing" }], deed: ADD },
    (ending) => {
      assertEquals(story(ending), ["a ADD", "c ADD"]);
      assertEquals(
        ending.answer,
        `plugin type="missing" failed (add): ${MISSING}`,
      );
    },
    {
      "a chain": { calls: [["c DEL", EMPTY], ["a DEL", EMPTY]], left: [[]] },
      "a chain behind the first": { calls: [["c DEL", EMPTY]], left: [[]] },
      "a chain in a chain": {
        calls: [["c DEL", EMPTY], ["a DEL", EMPTY]],
        left: [[]],
      },
    },
  ),
  "for a plugin that is missing, maybe the first": otherwiseWith(
    { plugins: WITH_MISSING, deed: ADD },
    (ending) => {
      assertEquals(story(ending), ["a ADD"]);
      assertEquals(
        ending.answer,
        `plugin type="missing" failed (add): ${MISSING}`,
      );
    },
    {
      "a chain": { calls: [["a DEL", EMPTY]], left: [[]] },
      "a chain behind the first": {},
      "a chain in a chain": {
        // The inner chain has no record: it runs all, and the missing one again.
        more: `: not undone: plugin type="missing" failed (delete): ${MISSING}`,
        calls: [["c DEL", EMPTY], ["a DEL", EMPTY]],
        left: [[0], [0, 1]],
      },
    },
  ),
  "for output that is not JSON": refuses(
    "echo oops",
    "failed to unmarshal raw result: ",
    6,
  ),
  "for a result of an unknown version": refuses(
    answer({ cniVersion: "7.0.0" }),
    'unsupported CNI result version "7.0.0"',
    1,
  ),
  "for output that is not a result": refuses(
    answer({ ips: 5 }),
    "Cannot decode result: ips: ",
    6,
  ),
  "for a plugin that dies": refuses(
    "kill -9 $$",
    "netplugin failed with no error message: signal: killed",
    999,
  ),
  "leaves the runtime's DEL nothing to run twice": otherwiseWith({
    answers: { ...RESULTS, b: { ADD: LATER } },
    deed: (runtime, list, conf) => runtime.addNetworkListOrUndo(list, conf),
  }, (ending) => {
    assertEquals(story(ending), ["a ADD", "b ADD", "b DEL", "a DEL"]);
    assertEquals(prevResults(ending), [undefined, A, undefined, undefined]);
  }, {
    "a chain": { same: 2, calls: [["b DEL", A], ["a DEL", A]] },
    // The chain has undone nothing, and has no record.
    "a chain behind the first": {
      same: 2,
      calls: [["c DEL"], ["b DEL"], ["a DEL"]],
    },
    "a chain in a chain": {
      same: 2,
      calls: [["c DEL", A], ["b DEL", A], ["a DEL", A]],
    },
  }),
});

const FROM_LEGACY = JSON.stringify({ ...A, cniVersion: "1.0.0" });

conformance("chain CHECK", {
  "gives all plugins the result of the whole list": sameWith(
    { answers: RESULTS, deed: inTurn(ADD, CHECK) },
    (ending) => {
      assertEquals(story(ending).slice(3), ["a CHECK", "b CHECK", "c CHECK"]);
      assertEquals(prevResults(ending).slice(3), [C, C, C]);
    },
  ),
  "gives them the result in the network's version": sameWith(
    { cached: FROM_LEGACY, deed: CHECK },
    (ending) => assertEquals(prevResults(ending), [A, A, A]),
  ),
  "gives them no result if none is cached": sameWith(
    { deed: CHECK },
    (ending) => assertEquals(prevResults(ending), Array(3).fill(undefined)),
  ),
  "gives each what it declares of the runtime's offer": sameWith({
    plugins: CAPABLE,
    conf: { capabilityArgs: OFFER },
    deed: CHECK,
  }, ({ calls }) => {
    const { ips, mac } = OFFER;
    assertEquals(calls[2]?.stdin.runtimeConfig, { ips, mac });
  }),
  "throws the error of the first plugin that fails as it is": sameWith(
    { answers: { a: {}, b: { CHECK: LATER }, c: {} }, deed: CHECK },
    (ending) => {
      assertEquals(story(ending), ["a CHECK", "b CHECK"]);
      assertEquals([ending.answer, ending.code], ["later: soon", 11]);
    },
  ),
  "fails for a plugin that is missing": sameWith(
    { plugins: WITH_MISSING, deed: CHECK },
    (ending) => {
      assertEquals(story(ending), ["a CHECK"]);
      assertEquals(ending.answer, MISSING);
    },
  ),
  "runs nothing with disableCheck": sameWith(
    { keys: { disableCheck: true }, deed: CHECK },
    (ending) => assertEquals(story(ending), []),
  ),
  "runs nothing before 0.4.0": sameWith(
    { keys: { cniVersion: "0.3.1" }, deed: CHECK },
    (ending) => assertEquals([story(ending), ending.code], [[], 1]),
  ),
  "works at 0.4.0": sameWith(
    { keys: { cniVersion: "0.4.0" }, cached: FROM_LEGACY, deed: CHECK },
    (ending) => {
      assertEquals(ending.calls[2]?.stdin.prevResult.cniVersion, "0.4.0");
    },
  ),
  "fails before any plugin if the cache is spoilt": sameWith(
    { cached: "junk", deed: CHECK },
    (ending) => assertEquals(story(ending), []),
  ),
});

/** Fails only the first time. */
const ONCE = `mkdir "$0.once" 2>/dev/null || exit 0; ${LATER}`;

conformance("chain DEL", {
  "runs the plugins last to first, with the result of the whole list": sameWith(
    { answers: RESULTS, deed: inTurn(ADD, DEL) },
    (ending) => {
      assertEquals(story(ending).slice(3), ["c DEL", "b DEL", "a DEL"]);
      assertEquals(prevResults(ending).slice(3), [C, C, C]);
      assertEquals(ending.kept, undefined);
    },
  ),
  "gives no result before 0.4.0": sameWith({
    answers: { a: {}, b: {} },
    keys: { cniVersion: "0.3.1" },
    deed: inTurn(ADD, DEL),
  }, (ending) => {
    assertEquals(prevResults(ending).slice(2), [undefined, undefined]);
  }),
  "gives each what it declares of the runtime's offer": sameWith({
    plugins: CAPABLE,
    conf: { capabilityArgs: OFFER },
    deed: DEL,
  }, ({ calls }) => {
    assertEquals(calls[2]?.stdin.runtimeConfig, { ips: OFFER.ips });
  }),
  "runs the rest after a failure, and what was cached stays": otherwiseWith({
    answers: { ...RESULTS, b: { ...RESULTS.b, DEL: LATER } },
    deed: async (...scene) => {
      await ADD(...scene);
      return await DEL(...scene);
    },
  }, (ending) => {
    assertEquals(story(ending).slice(3), ["c DEL", "b DEL"]);
    assertEquals(ending.answer, 'plugin type="b" failed (delete): later: soon');
    assertEquals([ending.code, ending.kept], [11, C]);
  }, {
    "a chain": { calls: [["a DEL", C]], left: [[0, 1]] },
    // The runtime stops at the chain.
    "a chain behind the first": { left: [[0]] },
    "a chain in a chain": { calls: [["a DEL", C]], left: [[0], [0, 1]] },
  }),
  "keeps the addresses until the plugin that failed succeeds": otherwiseWith({
    answers: { a: {}, b: { DEL: ONCE }, c: {} },
    plugins: [{ type: "a", ipam: { type: "x" } }, { type: "b" }, { type: "c" }],
    deed: async (...scene) => [
      await tell(() => DEL(...scene)),
      await tell(() => DEL(...scene)),
    ],
  }, (ending) => {
    assertEquals(ending.answer, [
      { answer: 'plugin type="b" failed (delete): later: soon', code: 11 },
      { answer: undefined, code: 0 },
    ]);
    assertEquals(
      story(ending),
      ["c DEL", "b DEL", "c DEL", "b DEL", "a DEL"],
    );
  }, {
    // It does not run again what has succeeded.
    "a chain": { same: 2, calls: [["b DEL"], ["a DEL"]] },
    "a chain behind the first": { same: 2, calls: [["b DEL"], ["a DEL"]] },
    "a chain in a chain": { same: 2, calls: [["b DEL"], ["a DEL"]] },
  }),
  "fails for a plugin that is missing": otherwiseWith(
    { plugins: WITH_MISSING, deed: DEL },
    (ending) => {
      assertEquals(story(ending), ["c DEL"]);
      assertEquals(
        ending.answer,
        `plugin type="missing" failed (delete): ${MISSING}`,
      );
    },
    {
      "a chain": { calls: [["a DEL"]], left: [[0, 1]] },
      "a chain behind the first": { left: [[0]] },
      "a chain in a chain": { calls: [["a DEL"]], left: [[0], [0, 1]] },
    },
  ),
  "may be repeated, without a namespace too": sameWith(
    { conf: { netns: "" }, deed: inTurn(DEL, DEL) },
    ({ calls }) => {
      assertEquals(calls.length, 6);
      assertEquals(calls[5]?.netns, "");
    },
  ),
  "ignores a corrupt cache": sameWith(
    { cached: "junk", deed: DEL },
    (ending) => assertEquals(story(ending), ["c DEL", "b DEL", "a DEL"]),
  ),
});

conformance("chain GC", {
  "gives the plugins the valid attachments, in order": sameWith(
    { deed: GC },
    (ending) => {
      assertEquals(story(ending), ["a GC", "b GC", "c GC"]);
      const named = [{ containerID: "c9", ifname: "net3" }];
      for (const { stdin, containerId } of ending.calls) {
        assertEquals(stdin["cni.dev/valid-attachments"], named);
        assertEquals(stdin["cni.dev/attachments"], named);
        assertEquals(containerId, "");
      }
    },
  ),
  "gives them an empty list if none is valid": sameWith({
    deed: (runtime, list) =>
      runtime.gcNetworkList(list, { validAttachments: [] }),
  }, ({ calls }) => {
    assertEquals(calls[2]?.stdin["cni.dev/valid-attachments"], []);
  }),
  "gives them no list if the runtime has none": sameWith({
    deed: (runtime, list) => runtime.gcNetworkList(list),
  }, ({ calls: [first] }) => {
    assertEquals(Object.keys(first?.stdin), ["cniVersion", "name", "type"]);
  }),
  "deletes stale attachments first": sameWith(
    { answers: RESULTS, deed: inTurn(ADD, GC) },
    (ending) => {
      assertEquals(
        story(ending).slice(3),
        ["c DEL", "b DEL", "a DEL", "a GC", "b GC", "c GC"],
      );
      assertEquals(ending.kept, undefined);
    },
  ),
  "runs nothing with disableGC": sameWith(
    { keys: { disableGC: true }, deed: GC },
    (ending) => assertEquals(story(ending), []),
  ),
  "runs nothing before 1.1.0": sameWith(
    { keys: { cniVersion: "1.0.0" }, deed: GC },
    (ending) => assertEquals(story(ending), []),
  ),
  "continues after a failure": sameWith(
    { answers: { a: { GC: LATER }, b: {} }, deed: GC },
    (ending) => {
      assertEquals(story(ending), ["a GC", "b GC"]);
      assertEquals(ending.answer, "failed to GC plugin a: later: soon");
      assertEquals(ending.code, 11);
    },
  ),
});

conformance("chain STATUS", {
  "asks the plugins in order, about no attachment": sameWith(
    { deed: STATUS },
    (ending) => {
      assertEquals(story(ending), ["a STATUS", "b STATUS", "c STATUS"]);
      const [first] = ending.calls;
      assertEquals([first?.containerId, first?.netns], ["", ""]);
      assertEquals(first?.stdin, {
        cniVersion: "1.1.0",
        name: "net1",
        type: "a",
      });
    },
  ),
  "keeps code 50 of the first plugin that is not ready": sameWith({
    answers: {
      a: {},
      b: { STATUS: `echo '{"code":50,"msg":"no"}'; exit 1` },
      c: {},
    },
    deed: STATUS,
  }, (ending) => {
    assertEquals(story(ending), ["a STATUS", "b STATUS"]);
    assertEquals([ending.answer, ending.code], ["no", 50]);
  }),
  "fails for a plugin that is missing": sameWith(
    { plugins: WITH_MISSING, deed: STATUS },
    (ending) => assertEquals(ending.answer, MISSING),
  ),
  "runs no plugin before 1.1.0": sameWith(
    { keys: { cniVersion: "1.0.0" }, deed: STATUS },
    (ending) => assertEquals(story(ending), []),
  ),
});

conformance("chain deadline", {
  "ends the plugin that runs, and what has begun is undone": async (t) => {
    const mark = await Deno.makeTempFile();
    const isBegun = (): boolean => Deno.statSync(mark).size > 0;
    await otherwiseWith({
      answers: { a: {}, b: { ADD: `echo > '${mark}'; exec sleep 60` }, c: {} },
      deed: (runtime, list, conf) => {
        Deno.truncateSync(mark);
        const signal = deadlineWhen(isBegun);
        return runtime.addNetworkList(list, conf, { signal });
      },
    }, (ending) => {
      assertEquals(story(ending), ["a ADD", "b ADD"]);
      assertStringIncludes(
        String(ending.answer),
        "netplugin failed with no error message: signal: killed",
      );
    }, {
      ...undoneFromSecond(EMPTY),
      // A first plugin that was killed has undone nothing.
      "a chain behind the first": { calls: [["b DEL", EMPTY]], left: [[]] },
      "a chain in a chain": {
        calls: [["b DEL", EMPTY], ["a DEL", EMPTY]],
        left: [[]],
      },
    })(t);
    await Deno.remove(mark);
  },
});
