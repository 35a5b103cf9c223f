import { assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { pause } from "../base/deadline.ts";
import { CniError } from "../base/error.ts";
import { createLog } from "../base/log/log.ts";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";
import { eachRow } from "../tests/_harness/table.ts";
import { TestNode } from "./testing.ts";
import { DefaultNetwork } from "./default_network.ts";

const { signal } = new AbortController();
const PAST = new Date("2020-01-01T00:00:00Z");

/** A default network, and what it logs. */
interface Fixture {
  readonly network: DefaultNetwork;
  readonly lines: string[];
}

function fixtureOf(node: TestNode, retryAfterMs?: number): Fixture {
  const lines: string[] = [];
  const network = new DefaultNetwork(
    {
      confDir: node.conf.path,
      pluginDirs: [node.plugins.directory.path],
      runtime: node.plugins.runtime(),
      loopback: undefined,
    },
    createLog({}, (line) => lines.push(line)),
    retryAfterMs,
  );
  return { network, lines };
}

/** Makes everything old, lest it be too new to be believed. */
async function age(...directories: string[]): Promise<void> {
  for (const directory of directories) setTimes(directory);
  // That of the change cannot be set, and has whole seconds.
  await pause(1100);
}

function setTimes(directory: string): void {
  for (const { name, isDirectory } of Deno.readDirSync(directory)) {
    if (isDirectory) setTimes(`${directory}/${name}`);
    else Deno.utimeSync(`${directory}/${name}`, PAST, PAST);
  }
  Deno.utimeSync(directory, PAST, PAST);
}

/** How often plugins were asked for their versions. */
function probes(node: TestNode): number {
  return node.plugins.story.filter((call) => call.endsWith("VERSION")).length;
}

async function nameOf({ network }: Fixture): Promise<string | undefined> {
  return (await network.get(signal)).network?.list.name;
}

Deno.test("DefaultNetwork.get() validates once for each change", async (t) => {
  using node = new TestNode();
  const { path } = node.conf;
  const bin = node.plugins.directory.path;
  node.addPlugin("a");
  node.addNetwork("20.conflist", ["a"]);
  node.conf.add("net1/.keep", "");
  await age(path, bin);
  const fixture = fixtureOf(node);
  assertEquals([await nameOf(fixture), probes(node)], ["net1", 1]);

  const rows: [string, () => void, string | undefined][] = [
    ["nothing", () => {}, "net1"],
    ["a file before it", () => {
      node.addNetwork("10.conflist", ["a"], { name: "net0" });
    }, "net0"],
    ["that file broken", () => void node.conf.add("10.conflist", "{"), "net1"],
    ["that file gone", () => Deno.removeSync(`${path}/10.conflist`), "net1"],
    ["another name", () => {
      node.addNetwork("20.conflist", ["a"], { name: "net2" });
    }, "net2"],
    ["a plugin of a directory", () => {
      node.conf.add("net2/a.conf", { name: "net2", type: "missing" });
    }, undefined],
    [
      "that plugin broken",
      () => void node.conf.add("net2/a.conf", "{"),
      undefined,
    ],
    ["that plugin repaired", () => {
      node.conf.add("net2/a.conf", { name: "net2", type: "a" });
    }, "net2"],
    [
      "a plugin's executable gone",
      () => Deno.removeSync(`${bin}/a`),
      undefined,
    ],
    ["a plugin's executable back", () => node.addPlugin("a"), "net2"],
    ["nothing but a file of no meaning", () => {
      node.conf.add("README", "");
    }, "net2"],
    [
      "the directory gone",
      () => Deno.removeSync(path, { recursive: true }),
      undefined,
    ],
    ["the directory back", () => {
      Deno.mkdirSync(path);
      node.addNetwork("20.conflist", ["a"]);
    }, "net1"],
  ];
  await eachRow(t, rows, async ([, change, expected]) => {
    change();
    assertEquals(await nameOf(fixture), expected);
  });

  await t.step("and not again without a change", async () => {
    await age(path, bin);
    await nameOf(fixture);
    const before = probes(node);
    for (let use = 0; use < 5; use++) await nameOf(fixture);
    assertEquals(probes(node), before);
  });
});

Deno.test("DefaultNetwork.get() runs once for concurrent callers", async () => {
  using node = new TestNode();
  node.addPlugin("a");
  node.addNetwork("10.conflist", ["a"]);
  await age(node.conf.path, node.plugins.directory.path);
  const { network } = fixtureOf(node);
  const [first, ...others] = await Promise.all(
    [1, 2, 3].map(() => network.get(signal)),
  );
  for (const other of others) assertStrictEquals(other, first);
  assertEquals(probes(node), 1);
});

Deno.test("DefaultNetwork.get() returns no result from before the call", async () => {
  using node = new TestNode();
  node.addPlugin("a");
  node.addNetwork("10.conflist", ["a"], { name: "before" });
  const { network } = fixtureOf(node);
  const early = network.get(signal);
  // By then the file has been read, and the plugin is asked.
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
  node.addNetwork("10.conflist", ["a"], { name: "after" });
  const late = network.get(signal);
  assertEquals((await early).network?.list.name, "before");
  assertEquals((await late).network?.list.name, "after");
});

Deno.test("DefaultNetwork.get() retries temporary failures later", async () => {
  using node = new TestNode();
  // Elsewhere: no file that the choice depends on changes.
  using elsewhere = new PluginDirectory();
  const flag = `${elsewhere.path}/flag`;
  node.addPlugin("a", {
    VERSION:
      `[ -e '${flag}' ] && ${`echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}'`}`,
  });
  node.addNetwork("10.conflist", ["a"]);
  // The first call of a plugin creates a file next to it.
  assertEquals(await nameOf(fixtureOf(node)), undefined);
  await age(node.conf.path, node.plugins.directory.path);
  const [patient, eager] = [fixtureOf(node, Infinity), fixtureOf(node, 0)];
  assertEquals(await nameOf(patient), undefined);
  assertEquals(await nameOf(eager), undefined);
  await Deno.writeTextFile(flag, "");
  assertEquals(await nameOf(patient), undefined);
  assertEquals(await nameOf(eager), "net1");
});

Deno.test("DefaultNetwork.get() stops at the signal, and other callers get the result", async () => {
  using node = new TestNode();
  node.addPlugin("a");
  node.addNetwork("10.conflist", ["a"]);
  const fixture = fixtureOf(node);
  const impatient = AbortSignal.abort();
  const given = fixture.network.get(impatient);
  const answer = nameOf(fixture);
  const error = await assertRejects(() => given, CniError);
  assertEquals(
    [error.code, error.message],
    [11, `Cannot choose a network of "${node.conf.path}": context canceled`],
  );
  assertEquals(await answer, "net1");
});

Deno.test("DefaultNetwork.get() logs each new state once", async () => {
  using node = new TestNode();
  node.addPlugin("a");
  node.conf.add("10.conflist", "{");
  node.addNetwork("20.conflist", ["a"]);
  const fixture = fixtureOf(node);
  for (let use = 0; use < 3; use++) await nameOf(fixture);
  assertEquals(
    fixture.lines.map((line) => line.replace(/(error|path)=.*/, "").trim()),
    [
      'level=warn msg="Skipped a network configuration"',
      'level=info msg="Chose the default network" network=net1',
    ],
  );
  node.conf.add("10.conflist", "[]");
  await nameOf(fixture);
  assertEquals(fixture.lines.length, 3);
});
