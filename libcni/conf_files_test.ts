import { assertEquals, assertInstanceOf, assertThrows } from "@std/assert";
import { basename } from "@std/path/posix";
import {
  ConfDirectory,
  type ConfFiles,
} from "../tests/_harness/conf_directory.ts";
import { CniError, describeError } from "../base/error.ts";
import { type NetworkConfList, parseNetworkConfList } from "./conf.ts";
import {
  findDefaultNetwork,
  findNetworkConf,
  findNetworkConfList,
  listConfFiles,
  NetworkNotFoundError,
  NoConfigsFoundError,
  readNetworkConf,
  readNetworkConfList,
  readNetworks,
} from "./conf_files.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

function bare(name: string, type = "bare"): object {
  return { cniVersion: "0.3.1", name, type };
}

function list(name: string, ...types: string[]): object {
  return { name, plugins: types.map((type) => ({ type })) };
}

function listTypes({ plugins }: NetworkConfList): string[] {
  return plugins.map(({ type }) => type);
}

/** Asserts the error; of its text only the beginning, without the directory. */
function assertFails(
  directory: ConfDirectory,
  fn: () => unknown,
  code: number,
  text: string,
): void {
  const error = assertThrows(fn, CniError);
  const said = describeError(error).replaceAll(directory.path, "DIR");
  assertEquals(said.slice(0, text.length), text);
  assertEquals(error.code, code);
}

Deno.test("listConfFiles() selects files by their names in the directory", () => {
  using directory = new ConfDirectory({
    "b.conf": "",
    "a.json": "",
    "c.conflist": "",
    ".conf": "",
    ".hidden.conf": "",
    "B.conf": "",
    "d.CONF": "",
    "e.conf~": "",
    "conf": "",
    "f.conf.bak": "",
    "sub/g.conf": "",
    "h.conf/i.conf": "",
  });
  directory.addLink("z.conf", "absent");
  const names = listConfFiles(`${directory.path}/`, [".conf", ".json"])
    .map((path) => path.replace(`${directory.path}/`, ""));
  assertEquals(names, [
    ".conf",
    ".hidden.conf",
    "B.conf",
    "a.json",
    "b.conf",
    "z.conf",
  ]);
  assertEquals(listConfFiles(`${directory.path}/absent`, [".conf"]), []);
});

Deno.test("listConfFiles() names the directory that it cannot read", () => {
  using directory = new ConfDirectory({ file: "" });
  assertFails(
    directory,
    () => listConfFiles(`${directory.path}/file`, [".conf"]),
    5,
    "error reading DIR/file: ",
  );
});

Deno.test("readNetworkConf() names the file that it cannot read", async (t) => {
  using directory = new ConfDirectory({
    "empty.conf": "",
    "list.conf": list("lan", "ptp"),
  });
  directory.addLink("directory.conf", ".");
  const rows: [file: string, code: number, text: string][] = [
    ["absent.conf", 5, "error reading DIR/absent.conf: "],
    ["directory.conf", 5, "error reading DIR/directory.conf: "],
    [
      "empty.conf",
      6,
      `error parsing configuration: Cannot parse it: it is empty: in "DIR/empty.conf"`,
    ],
    [
      "list.conf",
      7,
      `error parsing configuration: missing 'type': in "DIR/list.conf": ` +
      `a configuration with "plugins" is a list`,
    ],
  ];
  await eachRow(t, rows, ([file, code, text]) => {
    const path = `${directory.path}/${file}`;
    assertFails(directory, () => readNetworkConf(path), code, text);
  });
});

testRows("readNetworkConfList() adds the plugins of the network's directory", [
  ["none", { "lan.conflist": list("lan", "ptp") }, ["ptp"]],
  ["an empty directory", {
    "lan.conflist": list("lan", "ptp"),
    "lan/README": "",
  }, ["ptp"]],
  ["after its own plugins, by file name", {
    "lan.conflist": list("lan", "ptp"),
    "lan/b.conf": { type: "second" },
    "lan/a.conf": { type: "first", name: "whatever" },
    "lan/c.json": "{",
    "lan/d.conflist": "{",
    "lan/e/f.conf": "{",
    "wan/g.conf": "{",
  }, ["ptp", "first", "second"]],
  ["alone", { "lan.conflist": { name: "lan" }, "lan/a.conf": bare("") }, [
    "bare",
  ]],
  ["not if the list declines them", {
    "lan.conflist": { ...list("lan", "ptp"), loadOnlyInlinedPlugins: "true" },
    "lan/a.conf": "{",
  }, ["ptp"]],
], ([, files, types]: [string, ConfFiles, string[]]) => {
  using directory = new ConfDirectory(files);
  const read = readNetworkConfList(`${directory.path}/lan.conflist`);
  assertEquals(listTypes(read), types);
  assertEquals(listTypes(parseNetworkConfList(read.bytes)), types);
});

Deno.test("readNetworkConfList() keeps the bytes of a self-contained file", () => {
  using directory = new ConfDirectory();
  const text = `\n { "plugins": [ {"type": "ptp"} ], "name": "lan" }\n`;
  const { bytes } = readNetworkConfList(directory.add("lan.conflist", text));
  assertEquals(new TextDecoder().decode(bytes), text);
});

Deno.test("readNetworkConfList() names the malformed file", async (t) => {
  const lan = list("lan", "ptp");
  const rows: [name: string, files: ConfFiles, code: number, text: string][] = [
    ["it is absent", {}, 5, "error reading DIR/lan.conflist: "],
    [
      "it is malformed",
      { "lan.conflist": "{}" },
      7,
      [
        "error parsing configuration list: no name",
        `in "DIR/lan.conflist"`,
      ].join(": "),
    ],
    [
      "a plugin's file is malformed",
      { "lan.conflist": lan, "lan/a.conf": "{}" },
      7,
      `error parsing configuration: missing 'type': in "DIR/lan/a.conf"`,
    ],
    [
      "its directory is a file",
      { "lan.conflist": lan, "lan": "" },
      5,
      ["error reading DIR/lan", ""].join(": "),
    ],
    [
      "no plugin",
      { "lan.conflist": bare("lan") },
      7,
      [
        "no plugin configs found",
        `"DIR/lan.conflist" has no "plugins", and "DIR/lan" has no *.conf files; a single-plugin ` +
        "configuration belongs in a file *.conf",
      ].join(": "),
    ],
    [
      "no plugin anywhere",
      { "lan.conflist": '{"name":"lan"}' },
      7,
      [
        "no plugin configs found",
        `"DIR/lan.conflist" has no "plugins", and "DIR/lan" has no *.conf files`,
      ].join(": "),
    ],
  ];
  await eachRow(t, rows, ([, files, code, text]) => {
    using directory = new ConfDirectory(files);
    const path = `${directory.path}/lan.conflist`;
    assertFails(directory, () => readNetworkConfList(path), code, text);
  });
});

Deno.test("readNetworkConfList() refuses names that lead to another directory", async (t) => {
  const invalid = "invalid characters found in network name: in ";
  const rows: [name: string, text: string][] = [
    ["", "missing network name: in "],
    [".", invalid],
    ["..", invalid],
    ["../secret", invalid],
    ["/etc/cni", invalid],
    ["lan/../../secret", invalid],
    ["lan\0", invalid],
    ["la n", invalid],
  ];
  await eachRow(t, rows, ([name, text]) => {
    using directory = new ConfDirectory({
      "net.d/1.conflist": list(name, "ptp"),
      "net.d/a.conf": { type: "evil" },
      "secret/a.conf": { type: "evil" },
      "a.conf": { type: "evil" },
    });
    const path = `${directory.path}/net.d/1.conflist`;
    assertFails(
      directory,
      () => readNetworkConfList(path),
      7,
      `${text}"DIR/net.d/1.conflist"`,
    );
  }, ([name]) => JSON.stringify(name));
});

testRows("findNetworkConf() reads files until it finds the network", [
  ["*.conf", { "1.conf": bare("lan") }, "bare"],
  ["*.json", { "1.json": bare("lan") }, "bare"],
  ["the first of several", {
    "2.conf": bare("lan", "second"),
    "1.json": bare("lan", "first"),
  }, "first"],
  ["past others", { "1.conf": bare(""), "2.conf": bare("lan") }, "bare"],
  ["before a malformed one", { "1.conf": bare("lan"), "2.conf": "{" }, "bare"],
], ([, files, type]: [string, ConfFiles, string]) => {
  using directory = new ConfDirectory(files);
  assertEquals(findNetworkConf(directory.path, "lan").plugin.type, type);
});

testRows("findNetworkConfList() prefers lists to bare plugins", [
  ["a list", {
    "2.conflist": list("lan", "ptp", "tuning"),
    "1.conf": bare("lan"),
    "3.conf": "{",
  }, ["ptp", "tuning"]],
  ["with its directory", {
    "1.conflist": list("lan", "ptp"),
    "lan/1.conf": { type: "tuning" },
  }, ["ptp", "tuning"]],
  ["else a bare plugin", {
    "1.conflist": list("wan", "ptp"),
    "2.conf": bare("lan"),
  }, ["bare"]],
  ["past an unusable list", {
    "1.conflist": list("w a n", "ptp"),
    "2.conflist": { name: "wan" },
    "3.conflist": list("wan2", "ptp"),
    "wan2/a.conf": "{",
    "4.conflist": list("lan", "ptp"),
  }, ["ptp"]],
], ([, files, types]: [string, ConfFiles, string[]]) => {
  using directory = new ConfDirectory(files);
  assertEquals(listTypes(findNetworkConfList(directory.path, "lan")), types);
});

testRows("findNetworkConfList() stops at a malformed file", [
  [
    "a list",
    { "1.conflist": "{}", "2.conflist": list("lan", "ptp") },
    7,
    `error parsing configuration list: no name: in "DIR/1.conflist"`,
  ],
  [
    "a bare plugin",
    { "1.json": "", "2.conf": bare("lan") },
    6,
    "error parsing configuration: Cannot parse it: it is empty",
  ],
], ([, files, code, text]: [string, ConfFiles, number, string]) => {
  using directory = new ConfDirectory(files);
  const find = (): unknown => findNetworkConfList(directory.path, "lan");
  assertFails(directory, find, code, text);
});

Deno.test("findNetworkConfList() distinguishes a missing network from an empty directory", async (t) => {
  const found = `no net configuration with name "lan" in DIR`;
  const none = "no net configurations found in DIR";
  const rows: [name: string, files: ConfFiles, text: string][] = [
    ["an empty directory", {}, none],
    ["other files", { "lan.txt": list("lan"), "lan/lan.conf": "" }, none],
    ["another list", { "1.conflist": list("wan", "ptp") }, found],
    ["another bare plugin", { "1.conf": bare("wan") }, found],
  ];
  await eachRow(t, rows, ([, files, text]) => {
    using directory = new ConfDirectory(files);
    const error = assertThrows(
      () => findNetworkConfList(directory.path, "lan"),
      CniError,
    );
    assertEquals(error.message.replace(directory.path, "DIR"), text);
    assertEquals(error.code, 999);
    if (text === none) {
      assertInstanceOf(error, NoConfigsFoundError);
      assertEquals(error.directory, directory.path);
    } else {
      assertInstanceOf(error, NetworkNotFoundError);
      assertEquals([error.directory, error.network], [directory.path, "lan"]);
    }
  });
  await t.step("no directory", () => {
    assertThrows(
      () => findNetworkConfList("/nonexistent", "lan"),
      NoConfigsFoundError,
      "no net configurations found in /nonexistent",
    );
  });
});

Deno.test("findNetworkConfList() finds nothing under an empty name", () => {
  using directory = new ConfDirectory({
    "1.conf": { type: "nameless" },
    "2.conflist": list("../lan", "ptp"),
  });
  const find = (name: string) => (): unknown =>
    findNetworkConfList(directory.path, name);
  assertFails(directory, find(""), 7, `missing network name: in "DIR/1.conf"`);
  assertFails(
    directory,
    find("../lan"),
    7,
    `invalid characters found in network name: in "DIR/2.conflist": ../lan`,
  );
});

Deno.test("findDefaultNetwork() returns the first usable network", async (t) => {
  const rows: [
    name: string,
    files: ConfFiles,
    expected: [file: string, type: string] | undefined,
    skipped: string[],
  ][] = [
    ["nothing", {}, undefined, []],
    [
      "lists and bare plugins alike",
      { "1.json": bare("lan"), "2.conflist": list("lan", "ptp"), "0.txt": "{" },
      ["1.json", "bare"],
      [],
    ],
    [
      "a list before a bare plugin of the same name",
      { "1.conflist": list("lan", "ptp"), "1.json": bare("lan") },
      ["1.conflist", "ptp"],
      [],
    ],
    [
      "past what cannot",
      {
        "1.conf": "",
        "2.conf": list("lan", "ptp"),
        "3.conf": { type: "nameless" },
        "4.conflist": bare("lan"),
        "5.conflist": list("l a n", "ptp"),
        "6.conflist": list("lan", "ptp"),
        "7.conflist": "{",
      },
      ["6.conflist", "ptp"],
      [
        "1.conf: error parsing configuration",
        "2.conf: error parsing configuration",
        "3.conf: missing network name",
        "4.conflist: no plugin configs found",
        "5.conflist: invalid characters found in network name",
      ],
    ],
    ["no usable file", { "1.conf": "{}" }, undefined, [
      "1.conf: error parsing configuration",
    ]],
  ];
  await eachRow(t, rows, ([, files, expected, skipped]) => {
    using directory = new ConfDirectory(files);
    const told: string[] = [];
    const found = findDefaultNetwork(directory.path, (path, { message }) => {
      told.push(`${basename(path)}: ${message.split(":")[0]}`);
    });
    const type = found?.list.plugins[0]?.type;
    assertEquals(found && [basename(found.path), type], expected);
    assertEquals(told, skipped);
  });
});

Deno.test("findDefaultNetwork() works without onSkipped and without a directory", () => {
  using directory = new ConfDirectory({ "1.conf": "{", "2.conf": bare("lan") });
  assertEquals(findDefaultNetwork(directory.path)?.list.name, "lan");
  assertEquals(findDefaultNetwork(`${directory.path}/absent`), undefined);
});

Deno.test("readNetworks() reads files lazily", () => {
  using directory = new ConfDirectory({
    "1.conflist": list("lan", "ptp"),
    "2.conf": "{",
    "3.conf": bare("wan"),
    "4.conf": "{",
  });
  const skipped: string[] = [];
  const networks = readNetworks(directory.path, (path) => {
    skipped.push(basename(path));
  });
  assertEquals(networks.next().value?.list.name, "lan");
  assertEquals(skipped, []);
  assertEquals(networks.next().value?.list.name, "wan");
  assertEquals(skipped, ["2.conf"]);
  assertEquals(networks.next().done, true);
  assertEquals(skipped, ["2.conf", "4.conf"]);
});
