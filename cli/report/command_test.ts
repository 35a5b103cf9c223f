import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { runCni, runCniOn } from "../../tests/_harness/tool_call.ts";

/** Reads an archive with tar. Returns texts by path, without the top directory. */
async function readArchive(
  file: string,
  directory: string,
): Promise<Map<string, string>> {
  const run = async (...args: string[]): Promise<string> => {
    const output = await new Deno.Command("tar", { args }).output();
    assert(output.success, new TextDecoder().decode(output.stderr));
    return new TextDecoder().decode(output.stdout);
  };
  const names = (await run("-tzf", file)).trimEnd().split("\n");
  await run("-xzf", file, "-C", directory);
  const texts = names.map(async (name) =>
    [
      name.slice(name.indexOf("/") + 1),
      await Deno.readTextFile(`${directory}/${name}`),
    ] as const
  );
  return new Map(await Promise.all(texts));
}

const ID = "0123456789abcdef".repeat(4);

/** With it, the name of a cached result has more than 100 bytes. */
const LONG_NAME = "a-network-with-quite-a-long-name";

/** Writes a configuration and a cached attachment, both with a secret. */
async function writeNode({ directory, sandbox }: TestHosts): Promise<void> {
  const list = {
    cniVersion: "1.0.0",
    name: "pods",
    plugins: [{ type: "ptp", token: "hidden" }],
  };
  await Deno.mkdir(`${directory}/conf`);
  await Deno.mkdir(`${directory}/cache/results`, { recursive: true });
  await Deno.mkdir(`${directory}/none`);
  const text = JSON.stringify(list);
  await Deno.writeTextFile(`${directory}/conf/10-pods.conflist`, text);
  const cached = {
    kind: "cniCacheV1",
    containerId: ID,
    networkName: "pods",
    ifName: "eth0",
    netns: sandbox.path,
    config: btoa(text),
  };
  for (const name of ["pods", LONG_NAME]) {
    const path = `${directory}/cache/results/${name}-${ID}-eth0`;
    await Deno.writeTextFile(path, JSON.stringify(cached));
  }
}

rootTest("cni report collects the node's state without secrets", async () => {
  using hosts = TestHosts.create();
  const { directory } = hosts;
  await writeNode(hosts);
  const file = `${directory}/report.tar.gz`;
  const call = ["report", file, "--json", "--conf-dir", `${directory}/conf`]
    .concat(
      "--cache-dir",
      `${directory}/cache`,
      "--cni-path",
      `${directory}/none`,
    );
  const { stdout, exitCode } = await runCni(...call);
  assertEquals(exitCode, 0, stdout);
  const { collected, bytes } = JSON.parse(stdout);
  const { size, mode } = await Deno.stat(file);
  assertEquals([size, (mode ?? 0) & 0o777], [bytes, 0o600]);
  const texts = await readArchive(file, directory);
  assertEquals([...texts.keys()], collected);
  for (const [path, text] of texts) assert(!text.includes("hidden"), path);
  const textOf = (path: string): string => texts.get(path) ?? `no ${path}`;
  assertStringIncludes(textOf("config/10-pods.conflist"), '"token":"***"');
  const cached = textOf(`state/results/pods-${ID}-eth0`);
  assertStringIncludes(cached, '"token": "***"');
  assertStringIncludes(cached, '"type": "ptp"');
  const long = textOf(`state/results/${LONG_NAME}-${ID}-eth0`);
  assertStringIncludes(long, '"type": "ptp"');
  assertStringIncludes(textOf("list.json"), ID);
  assertStringIncludes(textOf("networks.json"), '"name": "pods"');
  assert(JSON.parse(textOf("doctor.json")) !== undefined);
  const sandbox = [...texts.keys()].find((path) =>
    /^netns\/.*-0123456789abc\/addresses.txt$/.test(path)
  );
  assertStringIncludes(textOf(sandbox ?? ""), "127.0.0.1/8");
  assertStringIncludes(textOf("host/links.txt"), "lo");
  assertStringIncludes(textOf("index.txt"), "Files:\n  versions.json\n");
  const taken: [string, string][] = [
    [file, "File exists"],
    [directory, "Is a directory"],
    [
      `${directory}/none/none/x`,
      `the directory "${directory}/none/none" does not exist`,
    ],
    [`${file}/x`, `"${file}" is not a directory`],
  ];
  for (const [path, reason] of taken) {
    const progress: string[] = [];
    const { exitCode, stderr } = await runCniOn(
      { onProgress: (text) => progress.push(text) },
      ...["report", path, ...call.slice(3)],
    );
    assertEquals([exitCode, progress], [1, []], path);
    assertStringIncludes(stderr, `Cannot write "${path}"; ${reason}`);
  }
});
