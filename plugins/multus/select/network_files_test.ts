import { assert, assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import type { NetworkConf, NetworkConfList } from "../../../libcni/conf.ts";
import {
  ConfDirectory,
  type ConfFiles,
} from "../../../tests/_harness/conf_directory.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";
import { type Delegate, isList } from "../model/delegate.ts";
import {
  findFirstNetworkFile,
  findNetworkFile,
  loadAuxiliaryChain,
  readNetworkFile,
} from "./network_files.ts";

/** The types of a network's plugins. */
function typesOf(conf: NetworkConfList | NetworkConf): string[] {
  const plugins = isList(conf) ? conf.plugins : [conf.plugin];
  return plugins.map(({ type }) => type);
}

const A = { name: "a", type: "type-a" }, B = { name: "b", type: "type-b" };
const LIST_A = { name: "a", plugins: [{ type: "list-a" }] };
const BROKEN = "asdfasdfasfdasfd";

testRows("findNetworkFile() returns the first file of a name", [
  ["*.conf", { "10.conf": B, "20.conf": A }, ["type-a"]],
  ["*.json", { "10.json": A }, ["type-a"]],
  ["*.conflist", { "10.conf": B, "20.conflist": LIST_A }, ["list-a"]],
  ["a list first", { "10.conflist": LIST_A, "20.conf": A }, ["list-a"]],
  ["a list last", { "10.conf": A, "20.conflist": LIST_A }, ["type-a"]],
  ["other files", { "00.txt": BROKEN, "x/00.conf": A, "1.conf": A }, [
    "type-a",
  ]],
  ["a broken file later", { "10.conf": A, "20.conf": BROKEN }, ["type-a"]],
  [
    "a list with files beside it",
    { "1.conflist": LIST_A, "a/1.conf": { type: "x" }, "b/1.conf": BROKEN },
    ["list-a", "x"],
  ],
  [
    "another list's broken directory",
    { "1.conflist": { ...LIST_A, name: "b" }, "2.conf": A, "b/1.conf": "{" },
    ["type-a"],
  ],
], ([, files, types]: [string, ConfFiles, string[]]) => {
  using directory = new ConfDirectory(files);
  const conf = findNetworkFile(directory.path, "a");
  assertEquals([conf.name, typesOf(conf)], ["a", types]);
});

Deno.test("findNetworkFile() keeps the bytes of the file", () => {
  const text = '{ "type": "x",\n  "name": "a" }';
  using directory = new ConfDirectory({ "10.conf": text });
  const { bytes } = findNetworkFile(directory.path, "a");
  assertEquals(new TextDecoder().decode(bytes), text);
});

Deno.test("findNetworkFile() reports the malformed file", async (t) => {
  const rows: [string, ConfFiles, number, string][] = [
    ["an empty directory", {}, 7, "No networks found in "],
    [
      "no such network",
      { "1.conf": B },
      7,
      "no network available in the name a in cni dir ",
    ],
    [
      "a broken *.conf",
      { "1.conf": BROKEN, "2.conf": A },
      6,
      "1.conf: error parsing configuration: ",
    ],
    [
      "an empty file",
      { "1.json": "", "2.conf": A },
      6,
      "Error loading CNI config file ",
    ],
    [
      "a broken *.conflist",
      { "1.conflist": BROKEN },
      6,
      "Error loading CNI conflist file ",
    ],
    ["a list in a *.conf", { "1.conf": LIST_A }, 7, "missing 'type'"],
    [
      "a plugin in a *.conflist",
      { "1.conflist": A },
      7,
      "no plugin configs found",
    ],
  ];
  await eachRow(t, rows, ([, files, code, message]) => {
    using directory = new ConfDirectory(files);
    const find = (): unknown => findNetworkFile(directory.path, "a");
    const error = assertThrows(find, CniError, message);
    assert(error.message.includes(directory.path), error.message);
    assertEquals(error.code, code);
  });
  await t.step("no directory", () => {
    const find = (): unknown => findNetworkFile("/no/such/directory", "a");
    assertThrows(find, CniError, "No networks found in /no/such/directory");
  });
});

Deno.test("findFirstNetworkFile() skips multus, whatever its file's name", async (t) => {
  const own = { name: "multus-cni-network", type: "multus" };
  const ownList = { name: "m", plugins: [{ type: "multus-shim" }] };
  const rows: [string, ConfFiles, string][] = [
    ["nothing of multus", { "1.conf": B, "0.conflist": LIST_A }, "a"],
    ["*.conf", { "00-multus.conf": own, "10.conf": B }, "b"],
    ["*.conflist", { "00-multus.conflist": ownList, "10.conf": B }, "b"],
    ["renamed", { "00-first.conf": own, "10.conflist": LIST_A }, "a"],
    ["later", { "10.conf": B, "99-multus.conf": own }, "b"],
  ];
  await eachRow(t, rows, ([, files, expected]) => {
    using directory = new ConfDirectory(files);
    assertEquals(findFirstNetworkFile(directory.path).name, expected);
  });
  await t.step("nothing else", () => {
    using directory = new ConfDirectory({
      "0.conf": own,
      "1.conflist": ownList,
    });
    const find = (): unknown => findFirstNetworkFile(directory.path);
    assertThrows(find, CniError, "except networks of multus itself");
  });
  await t.step("a broken file", () => {
    using directory = new ConfDirectory({ "00-multus.conf": "", "10.conf": B });
    const find = (): unknown => findFirstNetworkFile(directory.path);
    assertThrows(find, CniError, "00-multus.conf: ");
  });
});

Deno.test("readNetworkFile() reads the plugins next to a list, unless the list forbids it", async (t) => {
  const beside = { "a/2.conf": { type: "y" }, "a/1.conf": { type: "x" } };
  const rows: [object, string[]][] = [
    [{}, ["list-a", "x", "y"]],
    [{ plugins: undefined }, ["x", "y"]],
    [{ loadOnlyInlinedPlugins: true }, ["list-a"]],
  ];
  await eachRow(t, rows, ([more, types]) => {
    using directory = new ConfDirectory({
      ...beside,
      "1.conflist": { ...LIST_A, ...more },
    });
    const conf = readNetworkFile(`${directory.path}/1.conflist`);
    assertEquals(typesOf(conf), types);
    const { plugins } = JSON.parse(new TextDecoder().decode(conf.bytes));
    assertEquals(plugins.map(({ type }: { type: string }) => type), types);
  }, ([, types]) => JSON.stringify(types));
});

Deno.test("readNetworkFile() reports a missing file", () => {
  const read = (): unknown => readNetworkFile("/no/such/10.conf");
  const error = assertThrows(read, CniError, "file /no/such/10.conf: error");
  assertEquals(error.code, 5);
});

/** Loads a chain of the files, and collects what is logged. */
function load(
  files: ConfFiles,
  name = "vendor",
  root = "",
): [Delegate | undefined, string[]] {
  using directory = new ConfDirectory(files);
  const warnings: string[] = [];
  const chain = loadAuxiliaryChain(name, {
    config: { clusterNetwork: `${root}${directory.path}/10-master.conf` },
    cniVersion: "1.0.0",
    log: { warn: (_, fields) => void warnings.push(String(fields?.["error"])) },
  });
  return [chain, warnings];
}

Deno.test("loadAuxiliaryChain() chains the files of the directory after passthru", () => {
  const [chain, warnings] = load({
    "vendor/20.conf": { type: "b", x: 1 },
    "vendor/10.conf": { type: "a" },
    "vendor/30.json": { type: "c" },
    "vendor/40.conflist": { name: "d", plugins: [{ type: "d" }] },
    "other/10.conf": { type: "e" },
  });
  assertEquals([chain?.name, warnings], ["vendor", []]);
  assertEquals(JSON.parse(new TextDecoder().decode(chain?.conf.bytes)), {
    cniVersion: "1.0.0",
    loadOnlyInlinedPlugins: true,
    name: "vendor",
    plugins: [{ type: "passthru" }, { type: "a" }, { type: "b", x: 1 }],
  });
});

Deno.test("loadAuxiliaryChain() finds the directory next to a container's path", () => {
  const files = {
    "10-master.conf": { name: "a", type: "a" },
    "vendor/10.conf": { type: "a" },
  };
  const [chain, warnings] = load(files, "vendor", "/host");
  assertEquals([chain?.name, warnings], ["vendor", []]);
});

testRows<[string, ConfFiles]>("loadAuxiliaryChain() finds nothing to chain", [
  ["no directory", {}],
  ["no files", { "vendor/x.txt": "" }],
], ([, files]) => assertEquals(load(files), [undefined, []]));

Deno.test("loadAuxiliaryChain() skips a malformed chain, with a warning", async (t) => {
  const good = { "vendor/10.conf": { type: "a" } };
  const rows: [string, ConfFiles, string, string][] = [
    ["a broken file", { ...good, "vendor/2.conf": "{" }, "vendor", "2.conf"],
    [
      "multus",
      { ...good, "vendor/2.conf": { type: "multus" } },
      "vendor",
      "multus would call itself",
    ],
    ["a path", good, "../vendor", "invalid characters"],
  ];
  await eachRow(t, rows, ([, files, chainName, reason]) => {
    const [chain, [warning = "", ...others]] = load(files, chainName);
    assertEquals([chain, others], [undefined, []]);
    assertEquals(warning.includes(reason), true, warning);
  });
});

testRows("loadAuxiliaryChain() needs a clusterNetwork that is a path", [{}, {
  clusterNetwork: "net",
}], (config) => {
  const context = {
    config,
    cniVersion: "1.0.0",
    log: { warn: (): void => {} },
  };
  const error = assertThrows(
    () => loadAuxiliaryChain("vendor", context),
    CniError,
    "is not a path",
  );
  assertEquals(error.code, 7);
}, (config) => JSON.stringify(config));
