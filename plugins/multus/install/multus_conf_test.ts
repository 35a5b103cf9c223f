import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import { isOwnConf, loadDelegate } from "../model/delegate.ts";
import {
  findMasterFile,
  formatMultusConf,
  type Master,
  type MultusConfOptions,
  readConf,
} from "./multus_conf.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import {
  ConfDirectory,
  type ConfFiles,
} from "../../../tests/_harness/conf_directory.ts";

const PLAIN: MultusConfOptions = {
  cniVersion: "",
  forcesVersion: false,
  takesName: false,
  keys: { logToStderr: false, kubeconfig: "/etc/foobar_kubeconfig" },
};

const ALL: MultusConfOptions = {
  ...PLAIN,
  keys: {
    namespaceIsolation: true,
    globalNamespaces: "foobar,barfoo",
    logLevel: "debug",
    logFile: "/tmp/foobar.log",
    binDir: "/tmp/add_bin_dir",
    confDir: "/tmp/multus/net.d",
    readinessindicatorfile: "/var/lib/foobar_indicator",
    kubeconfig: "/etc/foobar_kubeconfig",
  },
};

function masterOf(
  document: JsonObject,
  capabilities: readonly string[] = [],
): Master {
  return {
    file: "10-testcni.conf",
    path: "/etc/cni/net.d/10-testcni.conf",
    name: "test1",
    document: { type: "cnitesttype", name: "test1", ...document },
    capabilities,
  };
}

Deno.test("formatMultusConf() returns the same bytes as upstream multus", async (t) => {
  const rows: [string, Master, MultusConfOptions, string, string][] = [
    [
      "a bare plugin",
      masterOf({ cniVersion: "0.3.1" }),
      PLAIN,
      "00-multus.conf",
      `{
        "cniVersion": "0.3.1",
        "name": "multus-cni-network",
        "type": "multus",
        "logToStderr": false,
        "kubeconfig": "/etc/foobar_kubeconfig",
        "delegates": [
                {"cniVersion":"0.3.1","name":"test1","type":"cnitesttype"}
        ]
}
`,
    ],
    [
      "a bare plugin with capabilities",
      masterOf(
        { cniVersion: "0.3.1", capabilities: { bandwidth: true } },
        ["bandwidth"],
      ),
      PLAIN,
      "00-multus.conf",
      `{
        "cniVersion": "0.3.1",
        "name": "multus-cni-network",
        "type": "multus",
        "capabilities": {"bandwidth":true},
        "logToStderr": false,
        "kubeconfig": "/etc/foobar_kubeconfig",
        "delegates": [
                {"capabilities":{"bandwidth":true},"cniVersion":"0.3.1","name":"test1","type":"cnitesttype"}
        ]
}
`,
    ],
    [
      "a list",
      masterOf({ cniVersion: "1.0.0" }),
      PLAIN,
      "00-multus.conflist",
      `{
    "cniVersion": "1.0.0",
    "name": "multus-cni-network",
    "plugins": [ {
        "type": "multus",
        "logToStderr": false,
        "kubeconfig": "/etc/foobar_kubeconfig",
        "delegates": [
            {"cniVersion":"1.0.0","name":"test1","type":"cnitesttype"}
        ]
    }]
}
`,
    ],
    [
      "a list with all keys",
      masterOf({ cniVersion: "1.1.0" }),
      ALL,
      "00-multus.conflist",
      `{
    "cniVersion": "1.1.0",
    "name": "multus-cni-network",
    "plugins": [ {
        "type": "multus",
        "namespaceIsolation": true,
        "globalNamespaces": "foobar,barfoo",
        "logLevel": "debug",
        "logFile": "/tmp/foobar.log",
        "binDir": "/tmp/add_bin_dir",
        "confDir": "/tmp/multus/net.d",
        "readinessindicatorfile": "/var/lib/foobar_indicator",
        "kubeconfig": "/etc/foobar_kubeconfig",
        "delegates": [
            {"cniVersion":"1.1.0","name":"test1","type":"cnitesttype"}
        ]
    }]
}
`,
    ],
  ];
  await eachRow(t, rows, ([, master, options, fileName, content]) => {
    const conf = formatMultusConf(master, options);
    assertEquals(conf, { fileName, content });
  });
});

Deno.test("formatMultusConf() returns a configuration that isMadeByInstaller() recognizes", () => {
  for (const cniVersion of ["0.4.0", "1.0.0"]) {
    const { content } = formatMultusConf(masterOf({ cniVersion }), ALL);
    const { conf } = loadDelegate(new TextEncoder().encode(content));
    assertEquals(isOwnConf(conf), true);
  }
});

Deno.test("formatMultusConf() uses the master network's name if configured", () => {
  const options = { ...PLAIN, takesName: true };
  const { content } = formatMultusConf(
    masterOf({ cniVersion: "1.0.0", loadOnlyInlinedPlugins: true }),
    options,
  );
  const conf = JSON.parse(content);
  assertEquals([conf.name, conf.loadOnlyInlinedPlugins], ["test1", true]);
});

Deno.test("formatMultusConf() escapes values of flags", () => {
  const keys = { logFile: '/a"b\\c' };
  const { content } = formatMultusConf(masterOf({ cniVersion: "0.4.0" }), {
    ...PLAIN,
    keys,
  });
  assertEquals(JSON.parse(content).logFile, keys.logFile);
});

Deno.test("formatMultusConf() uses the given version", () => {
  const forced = { ...PLAIN, cniVersion: "0.3.1", forcesVersion: true };
  for (const document of [{}, { cniVersion: "1.0.0" }]) {
    const conf = formatMultusConf(masterOf(document), forced);
    const { cniVersion, delegates } = JSON.parse(conf.content);
    assertEquals(conf.fileName, "00-multus.conf");
    assertEquals([cniVersion, delegates[0].cniVersion], ["0.3.1", "0.3.1"]);
  }
});

Deno.test("formatMultusConf() refuses an invalid version", async (t) => {
  const wanted = { ...PLAIN, cniVersion: "0.3.1" };
  const rows: [string, JsonObject, MultusConfOptions, string][] = [
    ["none", {}, PLAIN, "cannot get cniVersion in master CNI config file"],
    ["an empty one", { cniVersion: "" }, PLAIN, "cannot get cniVersion"],
    ["a number", { cniVersion: 1 }, PLAIN, "cannot get cniVersion"],
    [
      "another one than is wanted",
      { cniVersion: "1.0.0" },
      wanted,
      'Multus cni version is "0.3.1" while master plugin cni version is "1.0.0"',
    ],
    [
      "one that is not spoken",
      { cniVersion: "9.0.0" },
      PLAIN,
      'cniVersion "9.0.0" is not supported; the newest is 1.1.0',
    ],
  ];
  await eachRow(t, rows, ([, document, options, why]) => {
    assertThrows(
      () => formatMultusConf(masterOf(document), options),
      CniError,
      why,
    );
  });
});

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
  const master = findMasterFile(options, current, (path) => {
    skipped.push(path.slice(directory.path.length + 1));
  });
  return { master, skipped };
}

Deno.test("findMasterFile() returns the first network file", async (t) => {
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

Deno.test("findMasterFile() returns the named file only", () => {
  const files = { "a.conf": POD, "b.conflist": LIST };
  assertEquals(find(files, { masterFile: "b.conflist" }).master?.name, "list");
  assertEquals(find(files, { masterFile: "c.conf" }).master, undefined);
});

Deno.test("findMasterFile() fails if the chosen file is unreadable", async (t) => {
  const files = { "a.conf": "{", "b.conf": POD };
  await t.step("by name", () => {
    assertThrows(() => find(files, { masterFile: "a.conf" }), CniError);
  });
  await t.step("before", () => {
    assertThrows(() => find(files, {}, "a.conf"), CniError);
  });
  await t.step("unless it was deleted", () => {
    assertEquals(find(files, {}, "0.conf").master?.name, "pods");
  });
});

Deno.test("findMasterFile() refuses multus as the named file", () => {
  assertThrows(
    () =>
      find({ "a.conf": { ...POD, type: "multus" } }, { masterFile: "a.conf" }),
    CniError,
    "as master network: it is multus itself",
  );
});

Deno.test("findMasterFile() keeps the order of a renamed file", () => {
  const options = { renamesMaster: true };
  const files = { "a.conf.old": POD, "b.conflist": LIST, "c.txt.old": POD };
  assertEquals(find(files, options).master?.file, "a.conf");
  assertEquals(find(files).master?.file, "b.conflist");
  const both = { ...files, "a.conf": { ...POD, name: "new" } };
  assertEquals(find(both, options).master?.name, "new");
});

Deno.test("findMasterFile() adds the plugins of the network's directory", () => {
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

Deno.test("findMasterFile() joins the capabilities of the plugins", () => {
  const plugins = [
    { type: "ptp", capabilities: { portMappings: true, bandwidth: false } },
    { type: "portmap", capabilities: { mac: true, portMappings: false } },
    { type: "other", capabilities: { mac: true } },
  ];
  const { master } = find({ "a.conflist": { ...LIST, plugins } });
  assertEquals(master?.capabilities, ["mac", "portMappings"]);
});

Deno.test("readConf() names an unreadable file", () => {
  assertThrows(
    () => readConf("/nowhere/a.conf"),
    CniError,
    '"/nowhere/a.conf"',
  );
});
