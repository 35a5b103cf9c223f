import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import { isOwnConf, loadDelegate } from "../model/delegate.ts";
import type { Master } from "./master.ts";
import { formatMultusConf, type MultusConfOptions } from "./multus_conf.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

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

Deno.test("formatMultusConf() writes what the reference writes, to the letter", async (t) => {
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

Deno.test("formatMultusConf() makes what multus and the installer know for theirs", () => {
  for (const cniVersion of ["0.4.0", "1.0.0"]) {
    const { content } = formatMultusConf(masterOf({ cniVersion }), ALL);
    const { conf } = loadDelegate(new TextEncoder().encode(content));
    assertEquals(isOwnConf(conf), true);
  }
});

Deno.test("formatMultusConf() takes the master network's name if it is to", () => {
  const options = { ...PLAIN, takesName: true };
  const { content } = formatMultusConf(
    masterOf({ cniVersion: "1.0.0", loadOnlyInlinedPlugins: true }),
    options,
  );
  const conf = JSON.parse(content);
  assertEquals([conf.name, conf.loadOnlyInlinedPlugins], ["test1", true]);
});

Deno.test("formatMultusConf() escapes what a flag brings", () => {
  const keys = { logFile: '/a"b\\c' };
  const { content } = formatMultusConf(masterOf({ cniVersion: "0.4.0" }), {
    ...PLAIN,
    keys,
  });
  assertEquals(JSON.parse(content).logFile, keys.logFile);
});

Deno.test("formatMultusConf() can be told the version", () => {
  const forced = { ...PLAIN, cniVersion: "0.3.1", forcesVersion: true };
  for (const document of [{}, { cniVersion: "1.0.0" }]) {
    const conf = formatMultusConf(masterOf(document), forced);
    const { cniVersion, delegates } = JSON.parse(conf.content);
    assertEquals(conf.fileName, "00-multus.conf");
    assertEquals([cniVersion, delegates[0].cniVersion], ["0.3.1", "0.3.1"]);
  }
});

Deno.test("formatMultusConf() refuses a version that cannot be", async (t) => {
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
