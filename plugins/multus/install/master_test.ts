import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import {
  ConfDirectory,
  type ConfFiles,
} from "../../../tests/_harness/conf_directory.ts";
import { findMaster, type Master, readConf } from "./master.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

const POD = { cniVersion: "1.0.0", name: "pods", type: "ptp" };
const LIST = { cniVersion: "1.0.0", name: "list", plugins: [{ type: "ptp" }] };

interface Options {
  readonly masterFile?: string;
  readonly renamesMaster?: boolean;
}

function find(
  files: ConfFiles,
  { masterFile, renamesMaster = false }: Options = {},
  current?: string,
): { master: Master | undefined; skipped: string[] } {
  using directory = new ConfDirectory(files);
  const skipped: string[] = [];
  const options = {
    masterDirectory: directory.path,
    renamesMaster,
    ...masterFile === undefined ? {} : { masterFile },
  };
  const master = findMaster(options, current, (path) => {
    skipped.push(path.slice(directory.path.length + 1));
  });
  return { master, skipped };
}

Deno.test("findMaster() takes the first file that is a network's", async (t) => {
  const rows: [string, ConfFiles, string | undefined, string[]][] = [
    ["nothing", {}, undefined, []],
    [
      "in the order of names",
      { "b.conf": POD, "a.conflist": LIST },
      "list",
      [],
    ],
    ["a .json", { "a.json": POD }, "pods", []],
    ["by content, not by extension", { "a.conflist": POD }, "pods", []],
    ["a list that is named .conf", { "a.conf": LIST }, "list", []],
    [
      "not other files",
      { "a.txt": POD, "b.conf.bak": POD, "c": POD },
      undefined,
      [],
    ],
    ["not directories", { "a.conf/b.conf": POD }, undefined, []],
    [
      "not multus",
      {
        "a.conf": { ...POD, type: "multus" },
        "b.conflist": { ...LIST, plugins: [{ type: "multus-shim" }] },
        "c.conf": POD,
      },
      "pods",
      [],
    ],
    [
      "not what is broken",
      {
        "a.conf": "",
        "b.conf": "{",
        "c.conf": { name: "x" },
        "d.conf": { type: "ptp" },
        "e.conf": { ...POD, name: "../x" },
        "f.conflist": { ...LIST, plugins: [] },
        "g.conf": POD,
      },
      "pods",
      ["a.conf", "b.conf", "c.conf", "d.conf", "e.conf", "f.conflist"],
    ],
  ];
  await eachRow(t, rows, ([, files, name, passedOver]) => {
    const { master, skipped } = find(files);
    assertEquals([master?.name, skipped], [name, passedOver]);
  });
});

Deno.test("findMaster() takes the file that is named, or none", () => {
  const files = { "a.conf": POD, "b.conflist": LIST };
  assertEquals(find(files, { masterFile: "b.conflist" }).master?.name, "list");
  assertEquals(find(files, { masterFile: "c.conf" }).master, undefined);
});

Deno.test("findMaster() does not pass over the file that was chosen", async (t) => {
  const files = { "a.conf": "{", "b.conf": POD };
  await t.step("by name", () => {
    assertThrows(() => find(files, { masterFile: "a.conf" }), CniError);
  });
  await t.step("before", () => {
    assertThrows(() => find(files, {}, "a.conf"), CniError);
  });
  await t.step("unless it is gone", () => {
    assertEquals(find(files, {}, "0.conf").master?.name, "pods");
  });
});

Deno.test("findMaster() refuses multus as the file that is named", () => {
  assertThrows(
    () =>
      find({ "a.conf": { ...POD, type: "multus" } }, { masterFile: "a.conf" }),
    CniError,
    "as master network: it is multus itself",
  );
});

Deno.test("findMaster() finds a renamed file in its old place", () => {
  const options = { renamesMaster: true };
  const files = { "a.conf.old": POD, "b.conflist": LIST, "c.txt.old": POD };
  assertEquals(find(files, options).master?.file, "a.conf");
  assertEquals(find(files).master?.file, "b.conflist");
  const both = { ...files, "a.conf": { ...POD, name: "new" } };
  assertEquals(find(both, options).master?.name, "new");
});

Deno.test("findMaster() adds the plugins that have files of their own", () => {
  const { master } = find({
    "a.conflist": LIST,
    "list/x.conf": { type: "tuning", capabilities: { mac: true } },
  });
  assertEquals(master?.document, {
    ...LIST,
    plugins: [{ type: "ptp" }, { type: "tuning", capabilities: { mac: true } }],
    loadOnlyInlinedPlugins: true,
  });
  assertEquals(master?.capabilities, ["mac"]);
});

Deno.test("findMaster() joins what the plugins want", () => {
  const plugins = [
    { type: "ptp", capabilities: { portMappings: true, bandwidth: false } },
    { type: "portmap", capabilities: { mac: true, portMappings: false } },
    { type: "other", capabilities: { mac: true } },
  ];
  const { master } = find({ "a.conflist": { ...LIST, plugins } });
  assertEquals(master?.capabilities, ["mac", "portMappings"]);
});

Deno.test("readConf() says which file cannot be read", () => {
  assertThrows(
    () => readConf("/nowhere/a.conf"),
    CniError,
    '"/nowhere/a.conf"',
  );
});
