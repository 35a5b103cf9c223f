/**
 * What loading network configurations means to those who know the Go library.
 *
 * Source: containernetworking/cni libcni/conf_test.go.
 */

import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { CniError, describeError } from "../../base/error.ts";
import type { JsonObject, JsonValue } from "../../base/json/json.ts";
import {
  injectConf,
  type NetworkConfList,
  parseNetworkConf,
  parseNetworkConfList,
  toNetworkConfList,
} from "../../libcni/conf.ts";
import {
  findDefaultNetwork,
  findNetworkConf,
  findNetworkConfList,
  NetworkNotFoundError,
  NoConfigsFoundError,
  readNetworkConf,
  readNetworkConfList,
} from "../../libcni/conf_files.ts";
import { buildRequest } from "../../libcni/operation.ts";
import { encodeJson } from "../../base/json/json_bytes.ts";
import { ConfDirectory, type ConfFiles } from "../_harness/conf_directory.ts";
import { conformance, type Row } from "../_harness/conformance.ts";

const BARE = { name: "some-plugin", type: "foobar", "some-key": "some-value" };

const LIST = {
  name: "some-network",
  cniVersion: "0.3.1",
  disableCheck: true,
  plugins: [
    { type: "host-local", subnet: "10.0.0.1/24" },
    { type: "bridge", mtu: 1400 },
    { type: "port-forwarding", ports: { "20.0.0.1:8080": "80" } },
  ],
};

const text = new TextDecoder();

function encode(document: string | object): Uint8Array {
  return new TextEncoder().encode(
    typeof document === "string" ? document : JSON.stringify(document),
  );
}

/** Builds a row of what happens in a directory with these files. */
function inDirectory(files: ConfFiles, check: (path: string) => void): Row {
  return () => {
    using directory = new ConfDirectory(files);
    check(directory.path);
  };
}

/** Asserts what is said of an error, causes and all. */
function assertSaid(fn: () => unknown, said: RegExp): void {
  assertMatch(describeError(assertThrows(fn, CniError)), said);
}

conformance("libcni conf", {
  "a bare plugin is found by its name in *.conf": inDirectory(
    { "50-whatever.conf": BARE },
    (path) => {
      const conf = findNetworkConf(path, "some-plugin");
      assertEquals([conf.name, conf.plugin.type], ["some-plugin", "foobar"]);
      assertEquals(text.decode(conf.bytes), JSON.stringify(BARE));
    },
  ),
  "a bare plugin is found by its name in *.json": inDirectory(
    { "50-whatever.json": BARE },
    (path) => {
      assertEquals(findNetworkConf(path, "some-plugin").plugin.document, BARE);
    },
  ),
  "a bare plugin in a directory that is missing: no configurations": () => {
    assertThrows(
      () => findNetworkConf("/nonexistent/net.d", "some-plugin"),
      NoConfigsFoundError,
      "no net configurations found in /nonexistent/net.d",
    );
  },
  "a bare plugin of another name: not found": inDirectory(
    { "50-whatever.conf": BARE },
    (path) => {
      assertThrows(
        () => findNetworkConf(path, "some-other-plugin"),
        NetworkNotFoundError,
        `no net configuration with name "some-other-plugin" in ${path}`,
      );
    },
  ),
  "a malformed bare plugin ends the search, though a later one matches":
    inDirectory({ "00-bad.conf": "{", "50-whatever.conf": BARE }, (path) => {
      assertSaid(
        () => findNetworkConf(path, "some-plugin"),
        /^error parsing configuration: /,
      );
    }),
  "bare plugins in nested directories are not found": inDirectory(
    { "net1/50-whatever.conf": BARE, "50-other.conf": { type: "other" } },
    (path) => {
      assertThrows(
        () => findNetworkConf(path, "some-plugin"),
        NetworkNotFoundError,
      );
    },
  ),
  "the capabilities of a bare plugin are read, those that are false too":
    inDirectory({
      "50-whatever.conf": {
        ...BARE,
        capabilities: { portMappings: true, somethingElse: true, noCap: false },
      },
    }, (path) => {
      assertEquals(findNetworkConf(path, "some-plugin").plugin.capabilities, {
        portMappings: true,
        somethingElse: true,
        noCap: false,
      });
    }),
  "a bare plugin's file that cannot be read is named": inDirectory(
    {},
    (path) => {
      const file = `${path}/missing.conf`;
      assertSaid(
        () => readNetworkConf(file),
        new RegExp(`^error reading ${file}: `),
      );
    },
  ),
  "a bare plugin's file without a type": inDirectory(
    { "50-whatever.conf": { name: "some-plugin" } },
    (path) => {
      assertSaid(
        () => readNetworkConf(`${path}/50-whatever.conf`),
        /^error parsing configuration: missing 'type'/,
      );
    },
  ),
  "a bare plugin's bytes without a type": () => {
    assertSaid(
      () => parseNetworkConf(encode({ name: "some-plugin" })),
      /^error parsing configuration: missing 'type'$/,
    );
  },
  "a list in *.conf: missing type, with the hint that it is a list":
    inDirectory(
      { "50-whatever.conf": LIST },
      (path) => {
        assertSaid(
          () => findNetworkConfList(path, "some-network"),
          /missing 'type'.*\*\.conflist$/,
        );
      },
    ),
});

conformance("libcni conf list", {
  "its plugins are loaded in order, with their keys sorted": inDirectory(
    { "50-whatever.conflist": LIST },
    (path) => {
      const { plugins } = findNetworkConfList(path, "some-network");
      assertEquals(
        plugins.map(({ document }) => text.decode(encodeJson(document))),
        [
          `{"subnet":"10.0.0.1/24","type":"host-local"}`,
          `{"mtu":1400,"type":"bridge"}`,
          `{"ports":{"20.0.0.1:8080":"80"},"type":"port-forwarding"}`,
        ],
      );
    },
  ),
  "its name, version, disableCheck and bytes are the file's": inDirectory(
    { "50-whatever.conflist": LIST },
    (path) => {
      const list = findNetworkConfList(path, "some-network");
      assertEquals(list.name, "some-network");
      assertEquals(list.cniVersion, "0.3.1");
      assertEquals([list.disableCheck, list.disableGc], [true, false]);
      assertEquals(text.decode(list.bytes), JSON.stringify(LIST));
    },
  ),
  "it is preferred to a bare plugin of the same name": inDirectory(
    {
      "49-whatever.conf": { name: "some-network", type: "bare" },
      "50-whatever.conflist": LIST,
    },
    (path) => {
      const { plugins } = findNetworkConfList(path, "some-network");
      assertEquals(plugins.length, 3);
    },
  ),
  "a bare plugin is found if no list has the name": inDirectory(
    { "49-whatever.conf": BARE, "50-whatever.conflist": LIST },
    (path) => {
      const list = findNetworkConfList(path, "some-plugin");
      assertEquals(list.plugins.map(({ document }) => document), [BARE]);
    },
  ),
  "a directory that is missing: no configurations": () => {
    assertThrows(
      () => findNetworkConfList("/nonexistent/net.d", "some-network"),
      NoConfigsFoundError,
      "no net configurations found in /nonexistent/net.d",
    );
  },
  "another name is not found, even without bare plugins": inDirectory(
    { "50-whatever.conflist": LIST },
    (path) => {
      assertThrows(
        () => findNetworkConfList(path, "some-other-network"),
        NetworkNotFoundError,
        `no net configuration with name "some-other-network" in ${path}`,
      );
    },
  ),
  "a malformed list ends the search, though a later one matches": inDirectory(
    { "00-bad.conflist": "{", "50-whatever.conflist": LIST },
    (path) => {
      assertSaid(
        () => findNetworkConfList(path, "some-network"),
        /^error parsing configuration list: /,
      );
    },
  ),
  "lists in nested directories are not found": inDirectory(
    { "net1/50-whatever.conflist": LIST },
    (path) => {
      assertThrows(
        () => findNetworkConfList(path, "some-network"),
        NoConfigsFoundError,
      );
    },
  ),
  "a file that cannot be read is named": inDirectory({}, (path) => {
    const file = `${path}/missing.conflist`;
    assertSaid(
      () => readNetworkConfList(file),
      new RegExp(`^error reading ${file}: `),
    );
  }),
  'disableCheck may be the text "true"': () => {
    const list = parseNetworkConfList(
      encode({ ...LIST, disableCheck: "true" }),
    );
    assertEquals(list.disableCheck, true);
  },
  'disableCheck may be the text "false"': () => {
    const list = parseNetworkConfList(
      encode({ ...LIST, disableCheck: "False" }),
    );
    assertEquals(list.disableCheck, false);
  },
  "disableCheck refuses other text": () => {
    assertSaid(
      () => parseNetworkConfList(encode({ ...LIST, disableCheck: "adsf" })),
      /^error parsing configuration list: invalid value "adsf" for disableCheck$/,
    );
  },
  "the keys of the list count to the letter, those of plugins do not": () => {
    const { plugins } = parseNetworkConfList(
      encode({ name: "n", plugins: [{ TYPE: "bridge" }] }),
    );
    assertEquals(plugins[0]?.type, "bridge");
    assertSaid(
      () => parseNetworkConfList(encode({ Name: "n", plugins: [] })),
      /^error parsing configuration list: no name$/,
    );
  },
  "the first file in which a runtime finds plugins is its network": inDirectory(
    {
      "10-bad.conflist": "{",
      "20-list.conf": LIST,
      "30-empty.conflist": { name: "empty" },
      "40-good.json": BARE,
      "50-whatever.conflist": LIST,
    },
    (path) => {
      const skipped: string[] = [];
      const found = findDefaultNetwork(path, (file) => skipped.push(file));
      assertEquals(found?.list.name, "some-plugin");
      assertEquals(found?.path, `${path}/40-good.json`);
      assertEquals(
        skipped,
        ["10-bad.conflist", "20-list.conf", "30-empty.conflist"]
          .map((file) => `${path}/${file}`),
      );
    },
  ),
});

const INLINED = [{ type: "bridge" }];
const PLUGIN_FILE = { "some-network/10-plugin.conf": { type: "tuning" } };

function withList(list: object): ConfFiles {
  return { "50-whatever.conflist": { name: "some-network", ...list } };
}

function loadTypes(path: string): string[] {
  const { plugins } = readNetworkConfList(`${path}/50-whatever.conflist`);
  return plugins.map(({ type }) => type);
}

conformance("libcni conf loadOnlyInlinedPlugins", {
  "true is read": () => {
    const document = {
      name: "n",
      loadOnlyInlinedPlugins: true,
      plugins: INLINED,
    };
    const list = parseNetworkConfList(encode(document));
    assertEquals(list.loadOnlyInlinedPlugins, true);
  },
  "it is false unless said otherwise": () => {
    const list = parseNetworkConfList(encode({ name: "n", plugins: INLINED }));
    assertEquals(list.loadOnlyInlinedPlugins, false);
  },
  "another text is refused": () => {
    const document = {
      name: "n",
      loadOnlyInlinedPlugins: "hi",
      plugins: INLINED,
    };
    assertSaid(
      () => parseNetworkConfList(encode(document)),
      /^error parsing configuration list: invalid value "hi" for loadOnlyInlinedPlugins$/,
    );
  },
  "true without plugins is refused": () => {
    const document = { name: "n", loadOnlyInlinedPlugins: true };
    assertSaid(
      () => parseNetworkConfList(encode(document)),
      /^error parsing configuration list: `loadOnlyInlinedPlugins` is true, and no 'plugins' key$/,
    );
  },
  "false without plugins: those that have files": inDirectory(
    { ...withList({ loadOnlyInlinedPlugins: false }), ...PLUGIN_FILE },
    (path) => assertEquals(loadTypes(path), ["tuning"]),
  ),
  "neither plugins nor files is refused": inDirectory(
    withList({ loadOnlyInlinedPlugins: false }),
    (path) => assertSaid(() => loadTypes(path), /^no plugin configs found/),
  ),
  "plugins without a directory for files": inDirectory(
    withList({ plugins: INLINED }),
    (path) => assertEquals(loadTypes(path), ["bridge"]),
  ),
  "plugins and a directory without files": inDirectory(
    { ...withList({ plugins: INLINED }), "some-network/README": "" },
    (path) => assertEquals(loadTypes(path), ["bridge"]),
  ),
  "plugins and files: both, the files' last": inDirectory(
    { ...withList({ plugins: INLINED }), ...PLUGIN_FILE },
    (path) => assertEquals(loadTypes(path), ["bridge", "tuning"]),
  ),
  "true leaves the files alone": inDirectory(
    {
      ...withList({ plugins: INLINED, loadOnlyInlinedPlugins: true }),
      ...PLUGIN_FILE,
    },
    (path) => assertEquals(loadTypes(path), ["bridge"]),
  ),
  "a plugin's file must have a type": inDirectory(
    { ...withList({ plugins: INLINED }), "some-network/10-plugin.conf": "{}" },
    (path) => {
      assertSaid(
        () => loadTypes(path),
        /^error parsing configuration: missing 'type'/,
      );
    },
  ),
  "no name leads to the files of another directory": inDirectory(
    {
      "net.d/50-whatever.conflist": { name: "../other", plugins: INLINED },
      "other/10-plugin.conf": { type: "evil" },
    },
    (path) => {
      assertSaid(
        () => loadTypes(`${path}/net.d`),
        /^invalid characters found in network name: /,
      );
    },
  ),
});

const ORIGINAL = {
  name: "some-network",
  type: "foobar",
  capabilities: { portMappings: true, somethingElse: true },
  dns: { nameservers: ["10.0.0.1"] },
};

conformance("libcni conf InjectConf", {
  "bytes that are not a configuration are refused early": () => {
    assertSaid(
      () => parseNetworkConf(encode("cc cc cc")),
      /^error parsing configuration: /,
    );
  },
  "an empty key is refused": () => {
    assertSaid(
      () => injectConf(ORIGINAL, { "": "x" }),
      /^keys cannot be empty$/,
    );
  },
  "a value of null is refused": () => {
    assertSaid(
      () => injectConf(ORIGINAL, { name: null }),
      /^key 'name' value must not be nil$/,
    );
  },
  "a new key is added": () => {
    assertEquals(injectConf(ORIGINAL, { test: "test" }), {
      ...ORIGINAL,
      test: "test",
    });
  },
  "an old key is replaced": () => {
    assertEquals(injectConf(ORIGINAL, { name: "test" }), {
      ...ORIGINAL,
      name: "test",
    });
  },
  "the same key twice is the same as once": () => {
    const once = injectConf(ORIGINAL, { test: "test" });
    assertEquals(injectConf(once, { test: "test" }), once);
  },
  "objects in objects and another type": () => {
    const dns = { nameservers: ["10.1.1.1"], domain: "local" };
    const keys: Record<string, JsonValue> = { dns, type: "bridge" };
    assertEquals(injectConf(ORIGINAL, keys), {
      ...ORIGINAL,
      dns,
      type: "bridge",
    });
  },
  "a request is sorted, and has what the plugin wants and gets": () => {
    const { plugin } = parseNetworkConf(encode({ ...ORIGINAL, dns: {} }));
    const capabilityArgs: JsonObject = {
      portMappings: [{ hostPort: 8080 }],
      notWanted: true,
    };
    const list = { name: "net", cniVersion: "0.4.0" };
    assertEquals(
      text.decode(buildRequest(list, plugin, { capabilityArgs })),
      `{"capabilities":{"portMappings":true,"somethingElse":true},` +
        `"cniVersion":"0.4.0","dns":{},"name":"net","runtimeConfig":` +
        `{"portMappings":[{"hostPort":8080}]},"type":"foobar"}`,
    );
  },
});

function chosenVersion(versions: object): string {
  const document = { name: "n", plugins: [{ type: "bridge" }], ...versions };
  return parseNetworkConfList(encode(document)).cniVersion;
}

function reload(list: NetworkConfList): NetworkConfList {
  using directory = new ConfDirectory();
  const file = directory.add("10-list.conflist", text.decode(list.bytes));
  return readNetworkConfList(file);
}

conformance("libcni conf versions", {
  "the newest of cniVersions is chosen": () => {
    const cniVersions = ["1.1.0", "0.4.0", "1.0.0"];
    assertEquals(chosenVersion({ cniVersions }), "1.1.0");
  },
  "a version from the future is skipped": () => {
    const cniVersions = ["0.4.0", "1.0.0", "99.0.0"];
    assertEquals(chosenVersion({ cniVersions }), "1.0.0");
  },
  "an invalid version is refused": () => {
    assertSaid(
      () => chosenVersion({ cniVersions: ["1.1.0", "1.0.f"] }),
      /^error parsing configuration list: invalid cniVersions entry 1\.0\.f at index 1: /,
    );
  },
  "cniVersion alone is kept, whatever it is": () => {
    assertEquals(chosenVersion({ cniVersion: "1.2.3" }), "1.2.3");
  },
  "cniVersion counts as one of cniVersions": () => {
    assertEquals(
      chosenVersion({ cniVersion: "1.0.0", cniVersions: ["0.1.0", "0.4.0"] }),
      "1.0.0",
    );
  },
  "empty cniVersions are no version": () => {
    assertEquals(chosenVersion({ cniVersions: [] }), "");
  },
  "a bare plugin becomes a list that loads the same again": () => {
    const bare = { type: "foobar", name: "some-network", cniVersion: "0.3.1" };
    const list = toNetworkConfList(parseNetworkConf(encode(bare)));
    assertEquals([list.name, list.cniVersion], ["some-network", "0.3.1"]);
    assertEquals(list.plugins.map(({ document }) => document), [bare]);
    assertEquals(reload(list), list);
  },
});
