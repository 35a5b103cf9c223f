import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertThrows,
} from "@std/assert";
import { join } from "@std/path/posix";
import { CniError, describeError, ErrorCode } from "../base/error.ts";
import type { JsonObject } from "../base/json/json.ts";
import { SPEC_VERSIONS } from "../cni/version.ts";
import { AttachmentCache, type DescribedAttachment } from "./cache.ts";
import type { Attachment } from "../cni/config/types.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { describeAttachment, keyOf, type RuntimeConf } from "./operation.ts";
import { readPluginResult } from "../cni/invoke/plugin_result.ts";
import { createLog } from "../base/log/log.ts";
import { toPrevResult } from "./add.ts";

/** Files that libcni 1.3.0 wrote, by the names it gave them. */
const GO_FILES = new URL("../tests/golden/cache/", import.meta.url);
/** A result in each version, as libcni before 0.8 would have cached it. */
const RESULTS = new URL("../tests/golden/results/", import.meta.url);

/** A cache in a directory of its own. */
class Fixture implements Disposable {
  readonly dir: string = Deno.makeTempDirSync({ prefix: "cni-cache-" });
  readonly results: string = join(this.dir, "results");
  readonly cache: AttachmentCache = new AttachmentCache(this.dir);

  /** Puts a file where the cache has its own. */
  plant(name: string, content: string | Uint8Array): void {
    Deno.mkdirSync(this.results, { recursive: true });
    const bytes = typeof content === "string" ? encode(content) : content;
    Deno.writeFileSync(join(this.results, name), bytes);
  }

  /** Puts a document of our format there. */
  plantDocument(name: string, members: JsonObject): void {
    const document = { kind: "cniCacheV1", config: "e30=", ...members };
    this.plant(name, JSON.stringify(document));
  }

  read(name: string): string {
    return Deno.readTextFileSync(join(this.results, name));
  }

  list(): string[] {
    return [...Deno.readDirSync(this.results)].map(({ name }) => name).sort();
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.dir, { recursive: true });
  }
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

const KEY: Attachment = {
  network: "net1",
  containerId: "c1",
  ifName: "eth0",
};
const FILE = "net1-c1-eth0";
const RESULT: JsonObject = { cniVersion: "1.1.0", ips: [] };

function attachment(
  others: Partial<DescribedAttachment> = {},
): DescribedAttachment {
  return {
    ...KEY,
    netns: "/ns",
    config: encode("{}"),
    cniArgs: [],
    capabilityArgs: {},
    ...others,
  };
}

/** The input of libcni for each of its files. */
const GO_ATTACHMENTS: Readonly<
  Record<string, readonly [attachment: DescribedAttachment, result: JsonObject]>
> = {
  "net1-plain-eth0": [
    {
      network: "net1",
      containerId: "plain",
      ifName: "eth0",
      netns: "/run/netns/a",
      config: encode(
        '{"cniVersion":"1.1.0","name":"net1","plugins":[{"type":"answer"}]}',
      ),
      cniArgs: [],
      capabilityArgs: {},
    },
    {
      cniVersion: "1.1.0",
      interfaces: [
        {
          name: "br0",
          mac: "02:00:00:00:00:01",
          mtu: 1500,
          socketPath: "/s",
          pciID: "p",
        },
        { name: "eth0", sandbox: "/run/netns/a" },
      ],
      ips: [
        { interface: 1, address: "10.0.0.5/24", gateway: "10.0.0.1" },
        { address: "fd00::5/64" },
      ],
      routes: [
        {
          dst: "0.0.0.0/0",
          gw: "10.0.0.1",
          mtu: 1400,
          advmss: 1300,
          priority: 5,
          table: 254,
          scope: 0,
        },
        { dst: "::/0" },
      ],
      dns: {
        nameservers: ["10.0.0.53"],
        domain: "example.test",
        search: ["a.test", "b.test"],
        options: ["ndots:5"],
      },
    },
  ],
  "net1-args-net-1": [
    {
      network: "net1",
      containerId: "args",
      ifName: "net-1",
      netns: "/proc/4711/ns/net",
      config: encode(`{
  "cniVersion": "1.0.0",
  "name": "net1",
  "x": "<é>",
  "plugins": [{"type": "answer", "capabilities": {"portMappings": true}}]
}
`),
      cniArgs: [
        ["IgnoreUnknown", "1"],
        ["K8S_POD_NAME", "a<b>&c"],
        ["EMPTY", ""],
        ["K8S_POD_NAME", "twice"],
      ],
      capabilityArgs: {
        portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
        "io.kubernetes.cri.pod-annotations": {
          "10": "ten",
          "9": "nine",
          "a": '<&>\u2028\u2029\b\f\u0001\u007f"\\/é\u{1f600}',
          "é": 1,
          "\u{1f600}": 2,
          "\uffee": 3,
        },
        numbers: [0, -0, 1.5, 1e21, 1e-7, 1e20, 12345678901234567000, -1],
        none: null,
        yes: true,
        no: false,
        list: [],
        map: {},
      },
    },
    { cniVersion: "1.0.0", ips: [{ address: "10.0.0.6/24" }] },
  ],
  "my-net-a-b-eth-0": [
    {
      network: "my-net",
      containerId: "a-b",
      ifName: "eth-0",
      netns: "/ns",
      config: encode('{"cniVersion":"0.4.0","name":"my-net","type":"answer"}'),
      cniArgs: [],
      capabilityArgs: {},
    },
    {
      cniVersion: "0.4.0",
      interfaces: [{ name: "eth0", sandbox: "/ns" }],
      ips: [{
        version: "4",
        interface: 0,
        address: "10.0.0.7/24",
        gateway: "10.0.0.1",
      }],
      routes: [{ dst: "10.9.0.0/16" }],
      dns: {},
    },
  ],
  "old-v031-eth0": [
    {
      network: "old",
      containerId: "v031",
      ifName: "eth0",
      netns: "",
      config: encode(
        '{"cniVersion":"0.3.1","name":"old","plugins":[{"type":"answer"}]}',
      ),
      cniArgs: [],
      capabilityArgs: {},
    },
    {
      cniVersion: "0.3.1",
      ips: [{ version: "6", address: "2001:db8::7/64" }],
      dns: { nameservers: ["::1"] },
    },
  ],
  "old-v020-eth0": [
    {
      network: "old",
      containerId: "v020",
      ifName: "eth0",
      netns: "/ns",
      config: encode(
        '{"cniVersion":"0.2.0","name":"old","plugins":[{"type":"answer"}]}',
      ),
      cniArgs: [],
      capabilityArgs: {},
    },
    {
      cniVersion: "0.2.0",
      ip4: {
        ip: "10.0.0.8/24",
        gateway: "10.0.0.1",
        routes: [{ dst: "0.0.0.0/0", gw: "10.0.0.1" }],
      },
      ip6: { ip: "2001:db8::8/64" },
      dns: {},
    },
  ],
  "old-v010-eth0": [
    {
      network: "old",
      containerId: "v010",
      ifName: "eth0",
      netns: "/ns",
      config: encode('{"name":"old","type":"answer"}'),
      cniArgs: [],
      capabilityArgs: {},
    },
    { cniVersion: "0.1.0", ip4: { ip: "10.0.0.9/24" }, dns: {} },
  ],
  "empty-v110-lo": [
    {
      network: "empty",
      containerId: "v110",
      ifName: "lo",
      netns: "/ns",
      config: encode(
        '{"cniVersion":"1.1.0","name":"empty","plugins":[{"type":"answer"}]}',
      ),
      cniArgs: [],
      capabilityArgs: {},
    },
    { cniVersion: "1.1.0" },
  ],
};

Deno.test("AttachmentCache lists all files that libcni wrote", () => {
  const names = [...Deno.readDirSync(GO_FILES)].map(({ name }) => name).sort();
  assertEquals(names, Object.keys(GO_ATTACHMENTS).sort());
});

Deno.test("AttachmentCache.writeAttachment() writes libcni's bytes", async (t) => {
  for (const [name, [given, result]] of Object.entries(GO_ATTACHMENTS)) {
    await t.step(name, () => {
      using fixture = new Fixture();
      fixture.cache.writeAttachment(given, result);
      assertEquals(fixture.list(), [name]);
      const want = Deno.readTextFileSync(new URL(name, GO_FILES));
      assertEquals(fixture.read(name), want);
    });
  }
});

Deno.test("AttachmentCache reads files that libcni wrote", async (t) => {
  using fixture = new Fixture();
  for (const [name, [given, result]] of Object.entries(GO_ATTACHMENTS)) {
    fixture.plant(name, await Deno.readFile(new URL(name, GO_FILES)));
    await t.step(name, () => {
      const { config, cniArgs, capabilityArgs } = given;
      assertEquals(fixture.cache.readResult(given), result);
      assertEquals(fixture.cache.readConfig(given), {
        config,
        cniArgs,
        capabilityArgs,
      });
      const path = join(fixture.results, name);
      const since = Deno.statSync(path).mtime ?? new Date(0);
      assertEquals(fixture.cache.listAttachments(given.containerId), [
        { ...given, result, since, path },
      ]);
    });
  }
  await t.step("all of them, in the order of their names", () => {
    const paths = fixture.cache.listAttachments().map(({ path }) => path);
    const names = Object.keys(GO_ATTACHMENTS).sort();
    assertEquals(paths, names.map((name) => join(fixture.results, name)));
  });
});

testRows("AttachmentCache.writeAttachment() omits empty values", [
  ["no result", undefined],
  ["an empty result", {}],
], ([, result]: [string, JsonObject | undefined]) => {
  using fixture = new Fixture();
  fixture.cache.writeAttachment(attachment({ netns: "" }), result);
  assertEquals(
    fixture.read(FILE),
    '{"kind":"cniCacheV1","containerId":"c1","config":"e30=",' +
      '"ifName":"eth0","networkName":"net1"}',
  );
  assertEquals(fixture.cache.readResult(KEY), undefined);
  const [found] = fixture.cache.listAttachments();
  assertEquals([found?.netns, found?.result], ["", undefined]);
});

Deno.test("AttachmentCache.writeAttachment() creates files that only the owner can read", () => {
  using fixture = new Fixture();
  fixture.cache.writeAttachment(attachment(), RESULT);
  const modeOf = (path: string): number =>
    (Deno.statSync(path).mode ?? 0) & 0o777;
  assertEquals(modeOf(fixture.results), 0o700);
  assertEquals(modeOf(join(fixture.results, FILE)), 0o600);
});

Deno.test("AttachmentCache.writeAttachment() replaces an older file", () => {
  using fixture = new Fixture();
  fixture.plant(FILE, "longer than what is written, ".repeat(100));
  fixture.cache.writeAttachment(attachment(), { cniVersion: "1.0.0" });
  fixture.cache.writeAttachment(attachment(), RESULT);
  assertEquals(fixture.cache.readResult(KEY), RESULT);
  assertEquals(fixture.list(), [FILE]);
});

Deno.test("AttachmentCache.replaceResult() changes only the result", () => {
  using fixture = new Fixture();
  const { cache } = fixture;
  const whole = attachment({
    config: encode('{ "name" : "net1" }'),
    cniArgs: [["K8S_POD_NAME", "a"], ["K8S_POD_NAME", "b"]],
    capabilityArgs: { mac: "02:00:00:00:00:01" },
  });
  cache.writeAttachment(whole, RESULT);
  const result = { cniVersion: "1.1.0", routes: [{ dst: "0.0.0.0/0" }] };
  assertEquals(cache.replaceResult(KEY, result), true);
  const replaced = fixture.read(FILE);
  cache.writeAttachment(whole, result);
  assertEquals(replaced, fixture.read(FILE));
});

Deno.test("AttachmentCache.replaceResult() creates no file", async (t) => {
  const files: Readonly<Record<string, string | undefined>> = {
    "no file": undefined,
    "an empty file": "",
    "a result alone": '{"cniVersion":"1.1.0"}',
    "another attachment's":
      '{"kind":"cniCacheV1","networkName":"net1-c1","containerId":"eth0","ifName":"e"}',
  };
  await eachRow(t, Object.entries(files), ([, content]) => {
    using fixture = new Fixture();
    fixture.plant("other", "{}");
    if (content !== undefined) fixture.plant(FILE, content);
    const before = fixture.list();
    assertEquals(fixture.cache.replaceResult(KEY, RESULT), false);
    assertEquals(fixture.list(), before);
    if (content !== undefined) assertEquals(fixture.read(FILE), content);
  });
});

Deno.test("AttachmentCache distinguishes names with dashes", async (t) => {
  using fixture = new Fixture();
  const one = { network: "a-b", containerId: "c", ifName: "eth0" };
  const other = { network: "a", containerId: "b-c", ifName: "eth0" };
  fixture.cache.writeAttachment(attachment(one), RESULT);
  await t.step("the file belongs to the attachment that wrote it", () => {
    assertEquals(fixture.cache.readResult(one), RESULT);
    assertEquals(fixture.cache.readResult(other), undefined);
    assertEquals(fixture.cache.readConfig(other), undefined);
    assertEquals(fixture.cache.listAttachments("b-c"), []);
    assertEquals(fixture.cache.listAttachments("b"), []);
    assertEquals(fixture.cache.listAttachments("c").length, 1);
  });
  await t.step("no other attachment removes it", () => {
    fixture.cache.remove(other);
    assertEquals(fixture.list(), ["a-b-c-eth0"]);
    fixture.cache.remove(one);
    assertEquals(fixture.list(), []);
  });
});

testRows("AttachmentCache reads bare results", SPEC_VERSIONS, (version) => {
  using fixture = new Fixture();
  const text = Deno.readTextFileSync(new URL(`${version}.json`, RESULTS));
  fixture.plant(FILE, text);
  assertEquals(fixture.cache.readResult(KEY), JSON.parse(text));
  const error = assertThrows(() => fixture.cache.readConfig(KEY), CniError);
  assertEquals(error.code, ErrorCode.DecodingFailure);
  assertEquals(
    error.message,
    'read cached network "net1" config has wrong kind: ',
  );
  assertEquals(fixture.cache.listAttachments(), []);
  fixture.cache.remove(KEY);
  assertEquals(fixture.list(), []);
});

Deno.test("AttachmentCache treats an empty file as absent", async (t) => {
  const rows: Record<string, string> = {
    "empty": "",
    "white space": " \r\n\t",
    "zeros, which a crash leaves": "\0".repeat(4096),
  };
  await eachRow(t, Object.entries(rows), ([, content]) => {
    using fixture = new Fixture();
    fixture.plant(FILE, content);
    assertEquals(fixture.cache.readResult(KEY), undefined);
    assertEquals(fixture.cache.readConfig(KEY), undefined);
    assertEquals(fixture.cache.listAttachments(), []);
    fixture.cache.remove(KEY);
    assertEquals(fixture.list(), []);
  });
});

Deno.test("AttachmentCache treats an unreadable file as absent", async (t) => {
  using fixture = new Fixture();
  const check = (): void => {
    assertEquals(fixture.cache.readResult(KEY), undefined);
    assertEquals(fixture.cache.readConfig(KEY), undefined);
    assertEquals(fixture.cache.listAttachments(), []);
  };
  await t.step("no directory", () => {
    check();
    fixture.cache.remove(KEY);
  });
  await t.step("a directory in place of the file", () => {
    Deno.mkdirSync(join(fixture.results, FILE), { recursive: true });
    check();
  });
  await t.step("a pipe without a writer", () => {
    fixture.cache.remove(KEY);
    new Deno.Command("mkfifo", { args: [join(fixture.results, FILE)] })
      .outputSync();
    assertEquals(fixture.list(), [FILE]);
    check();
  });
});

Deno.test("AttachmentCache reports malformed content", async (t) => {
  const rows: [string, string, "none" | "fails", string][] = [
    ["text that is not JSON", "adfadsfasdf", "fails", "Cannot parse"],
    ["half a document", '{"kind":"cniCacheV1","cont', "fails", "Cannot parse"],
    ["an array", "[]", "fails", "expected an object, got an array"],
    ["another kind", '{"kind":"cniCacheV9"}', "fails", "cniCacheV9"],
    ["a key of the wrong type", '{"kind":"cniCacheV1","netns":5}', "none", ""],
    [
      "a config that is not base64",
      '{"kind":"cniCacheV1","config":"%"}',
      "none",
      "",
    ],
  ];
  await eachRow(t, rows, ([, content, result, details]) => {
    using fixture = new Fixture();
    fixture.plant(FILE, content);
    assertEquals(fixture.cache.listAttachments(), []);
    const error = assertThrows(() => fixture.cache.readConfig(KEY), CniError);
    assertEquals(error.code, ErrorCode.DecodingFailure);
    assert(error.message.includes('cached network "net1" config'));
    if (result === "none") {
      assertEquals(fixture.cache.readResult(KEY), undefined);
      return;
    }
    const failed = assertThrows(
      () => fixture.cache.readResult(KEY),
      CniError,
    );
    assertEquals(failed.code, ErrorCode.DecodingFailure);
    assertEquals(failed.message, "decoding version from network config");
    assert(failed.details.includes(details), failed.details);
  });
});

Deno.test("AttachmentCache.listAttachments() skips other files", async (t) => {
  const names = { networkName: "net1", containerId: "c1", ifName: "eth0" };
  const rows: Record<string, JsonObject> = {
    "another kind": { ...names, kind: "cniCacheV9" },
    "no network": { ...names, networkName: "" },
    "no container": { ...names, containerId: "" },
    "no interface": { containerId: "c1", networkName: "net1" },
  };
  await eachRow(t, Object.entries(rows), ([, members]) => {
    using fixture = new Fixture();
    fixture.plantDocument(FILE, members);
    assertEquals(fixture.cache.listAttachments(), []);
  });
  await t.step("an unfinished file of a crash", () => {
    using fixture = new Fixture();
    fixture.cache.writeAttachment(attachment(), RESULT);
    Deno.mkdirSync(join(fixture.results, ".unfinished"));
    fixture.plant(".unfinished/0", fixture.read(FILE));
    const paths = fixture.cache.listAttachments().map(({ path }) => path);
    assertEquals(paths, [join(fixture.results, FILE)]);
    fixture.cache.writeAttachment(attachment(), RESULT);
    assertEquals(fixture.list(), [FILE]);
  });
  await t.step("but not other unfinished files", () => {
    using fixture = new Fixture();
    fixture.plant(FILE, "{");
    fixture.plantDocument("net1-c1-eth1", { ...names, ifName: "eth1" });
    const found = fixture.cache.listAttachments("c1");
    assertEquals(found.map(({ ifName }) => ifName), ["eth1"]);
  });
});

Deno.test("AttachmentCache.readAll() distinguishes attachments from other files", () => {
  using fixture = new Fixture();
  fixture.cache.writeAttachment(attachment(), RESULT);
  fixture.plant("net1-c2-eth0", "{");
  fixture.plant("net1-c3-eth0", "");
  const { attachments, unreadable } = fixture.cache.readAll();
  assertEquals(attachments, fixture.cache.listAttachments());
  assertEquals(
    unreadable,
    ["net1-c2-eth0", "net1-c3-eth0"].map((name) => join(fixture.results, name)),
  );
});

Deno.test("AttachmentCache reads keys in any case, and null as absent", () => {
  using fixture = new Fixture();
  fixture.plant(
    FILE,
    '{"Kind":"cniCacheV1","CONTAINERID":"c1","Config":null,"ifname":"eth0",' +
      '"NetworkName":"net1","cniArgs":null,"result":null}',
  );
  assertEquals(fixture.cache.readConfig(KEY), {
    config: new Uint8Array(),
    cniArgs: [],
    capabilityArgs: {},
  });
  assertEquals(fixture.cache.readResult(KEY), undefined);
  assertEquals(fixture.cache.listAttachments("c1").length, 1);
});

testRows("AttachmentCache refuses names that lead to other paths", [
  [
    "an empty one",
    { containerId: "" },
    'cache file path requires network name ("net1"), container ID (""), ' +
    'and interface name ("eth0")',
  ],
  [
    "a path",
    { network: "../../etc/x" },
    'Cannot name a cache file after "../../etc/x", "c1", "eth0": ' +
    'they contain "/" or NUL',
  ],
  [
    "NUL",
    { ifName: "a\0b" },
    'Cannot name a cache file after "net1", "c1", "a\\u0000b": ' +
    'they contain "/" or NUL',
  ],
], ([, part, message]: [string, Partial<Attachment>, string]) => {
  using fixture = new Fixture();
  const { cache } = fixture;
  const key = { ...KEY, ...part };
  const calls: (() => unknown)[] = [
    () => cache.pathOf(key),
    () => cache.writeAttachment(attachment(key), RESULT),
    () => cache.readResult(key),
    () => cache.readConfig(key),
    () => cache.remove(key),
  ];
  for (const call of calls) {
    const error = assertThrows(call, CniError);
    assertEquals([error.code, error.message], [4, message]);
  }
  assertEquals([...Deno.readDirSync(fixture.dir)], []);
});

Deno.test("AttachmentCache refuses names that are too long", () => {
  using fixture = new Fixture();
  const { cache } = fixture;
  // With "net1-" and "-eth0" 255 bytes, and one more.
  const longest = { ...KEY, containerId: "x".repeat(245) };
  const tooLong = { ...KEY, containerId: "x".repeat(246) };
  cache.writeAttachment(attachment(longest), RESULT);
  assertEquals(cache.readResult(longest), RESULT);
  const error = assertThrows(
    () => cache.writeAttachment(attachment(tooLong), RESULT),
    CniError,
  );
  assertEquals(error.code, ErrorCode.InvalidEnvironment);
  assert(error.message.endsWith(
    "their file's name would have 256 bytes; the limit is 255",
  ));
  assertEquals(cache.readResult(tooLong), undefined);
  assertEquals(cache.readConfig(tooLong), undefined);
  cache.remove(tooLong);
});

Deno.test("AttachmentCache names the directory that it cannot use", async (t) => {
  using fixture = new Fixture();
  await Deno.writeTextFile(fixture.results, "in the way");
  const { cache } = fixture;
  const rows: [call: () => unknown, message: string][] = [
    [
      () => cache.writeAttachment(attachment(), RESULT),
      `Cannot write "${fixture.results}/${FILE}"`,
    ],
    [
      () => cache.listAttachments(),
      `Cannot read the cache directory "${fixture.results}"`,
    ],
    [() => cache.remove(KEY), `Cannot remove "${fixture.results}/${FILE}"`],
  ];
  await eachRow(t, rows, ([call, message]) => {
    const error = assertThrows(call, CniError);
    assertEquals([error.code, error.message], [5, message]);
    assertMatch(error.details, /^Not a directory(: "[^"]*\/.unfinished")?$/);
  }, ([, message]) => message.replace(fixture.dir, ""));
});

Deno.test("AttachmentCache uses /var/lib/cni by default", () => {
  const path = `/var/lib/cni/results/${FILE}`;
  assertEquals(new AttachmentCache().pathOf(KEY), path);
  assertEquals(new AttachmentCache("").pathOf(KEY), path);
});

const BARE = '{"name":"net1","cniVersion":"1.0.0","type":"a","mtu":1}';

function remember(
  host: RecordingPlugins,
  text: string,
  conf: RuntimeConf,
): AttachmentCache {
  const cache = new AttachmentCache(host.cacheDir);
  const bytes = new TextEncoder().encode(text);
  cache.writeAttachment(
    describeAttachment({ name: "net1", bytes }, conf),
    undefined,
  );
  return cache;
}

Deno.test("NetworkRuntime.findCachedConfig() returns the bytes, and the cached arguments with the caller's namespace", () => {
  using host = new RecordingPlugins();
  remember(host, BARE, host.conf({ args: [["A", "1"]] }));
  const asked = host.conf({ netns: "/other", args: [["B", "2"]] });
  const runtime = host.runtime();
  const found = runtime.findCachedConfig({ name: "net1" }, asked);
  assertEquals(new TextDecoder().decode(found?.config), BARE);
  assertEquals(found?.conf, {
    ...asked,
    args: [["A", "1"]],
    capabilityArgs: {},
  });
  assertEquals(runtime.findCachedConfig({ name: "net2" }, asked), undefined);
});

Deno.test("NetworkRuntime.findCachedConfig() throws for a file without a configuration", () => {
  using host = new RecordingPlugins();
  const cache = remember(host, BARE, host.conf());
  Deno.writeTextFileSync(
    cache.pathOf({ network: "net1", containerId: "c1", ifName: "eth0" }),
    '{"cniVersion":"1.0.0"}',
  );
  assertThrows(
    () => host.runtime().findCachedConfig({ name: "net1" }, host.conf()),
    CniError,
    "wrong kind",
  );
});

Deno.test("NetworkRuntime.delNetworkList() reads cached lists and bare plugins", async (t) => {
  const list = '{"name":"net1","cniVersion":"1.0.0","plugins":' +
    '[{"type":"a","mtu":1},{"type":"b"}]}';
  const rows: [name: string, text: string, story: string[]][] = [
    ["a list", list, ["b DEL", "a DEL"]],
    ["a bare plugin", BARE, ["a DEL"]],
  ];
  await eachRow(t, rows, async ([, text, story]) => {
    using host = new RecordingPlugins();
    for (const type of ["a", "b", "x"]) host.add(type);
    remember(host, text, host.conf());
    const options = { useCachedConfig: true };
    await host.runtime().delNetworkList(
      host.list(["x"]),
      host.conf(),
      options,
    );
    assertEquals(host.story, story);
    const { stdin } = host.calls.at(-1) ?? {};
    assertEquals([stdin?.name, stdin?.cniVersion, stdin?.mtu], [
      "net1",
      "1.0.0",
      1,
    ]);
  });
});

Deno.test("toPrevResult() converts only results that the next plugin cannot read", async (t) => {
  const old = '{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/24"}}';
  const rows: [name: string, stdout: string, asked: string, version: string][] =
    [
      ["the same version", '{"cniVersion":"1.1.0"}', "1.1.0", "1.1.0"],
      ["the same shape", '{"cniVersion":"1.0.0"}', "1.1.0", "1.0.0"],
      ["an older shape", old, "1.1.0", "1.1.0"],
      ["a newer shape", '{"cniVersion":"1.1.0"}', "0.4.0", "0.4.0"],
      [
        "a result that cannot be converted",
        '{"cniVersion":"1.1.0"}',
        "",
        "1.1.0",
      ],
    ];
  await eachRow(t, rows, ([, stdout, asked, version]) => {
    let logged = "";
    const log = createLog({}, (line) => void (logged += line));
    const result = readPluginResult({ stdout, result: undefined }, asked);
    const prevResult = toPrevResult(result, asked, log);
    assertEquals(prevResult["cniVersion"], version);
    const isTold = version !== JSON.parse(stdout).cniVersion || asked === "";
    assertEquals(logged !== "", isTold);
  });
});

const CONF: RuntimeConf = { containerId: "c", netns: "/n", ifName: "eth0" };
const OF_NET1 = keyOf({ name: "net1" }, CONF);

async function withCached(
  result: JsonObject,
  test: (cache: AttachmentCache) => void,
): Promise<void> {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  try {
    const cache = new AttachmentCache(directory);
    const network = { name: "net1", bytes: new TextEncoder().encode("{}") };
    cache.writeAttachment(describeAttachment(network, CONF), result);
    test(cache);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("AttachmentCache.findResult() converts to the configuration's version", async () => {
  const document = { cniVersion: "0.4.0", x: 1, ips: [{ address: "::1/128" }] };
  await withCached(document, (cache) => {
    const find = (cniVersion: string): JsonObject | undefined =>
      cache.findResult(OF_NET1, cniVersion)?.document;
    assertEquals(find("0.4.0"), document);
    assertEquals(find("1.1.0"), {
      cniVersion: "1.1.0",
      ips: [{ address: "::1/128" }],
      x: 1,
    });
    assertEquals(find("0.2.0")?.["ip6"], { ip: "::1/128" });
    const none = { ...OF_NET1, network: "net2" };
    assertEquals(cache.findResult(none, "1.1.0"), undefined);
  });
});

Deno.test("AttachmentCache.findResult() throws for a version that the result cannot be converted to", async () => {
  await withCached({ cniVersion: "1.1.0" }, (cache) => {
    const error = assertThrows(() => cache.findResult(OF_NET1, "9.0.0"));
    assertEquals(
      describeError(error),
      'failed to convert cached result to config version "9.0.0": ' +
        'unsupported CNI result version "9.0.0"',
    );
  });
});

Deno.test("AttachmentCache.findResult() throws for a malformed result", async () => {
  await assertRejects(
    () =>
      withCached({ cniVersion: "1.1.0", ips: "junk" }, (cache) => {
        cache.findResult(OF_NET1, "1.1.0");
      }),
    CniError,
    "Cannot decode result: ips: expected an array",
  );
});
