/**
 * The guide docs/write-a-plugin.md: what it shows is what there is, and works.
 *
 * @module
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Environment } from "../base/process/environment.ts";
import { execInvoker } from "../cni/invoke/exec_invoker.ts";
import { dispatch } from "../cni/skel.ts";
import project from "../deno.json" with { type: "json" };
import { neighbors } from "../docs/examples/neighbors/main.ts";
import { compile } from "../scripts/compile.ts";
import { makeImportMap } from "../scripts/compile/import_map.ts";
import { ROOT, runDeno } from "../scripts/project.ts";
import { isOffline } from "../scripts/import_flags.ts";
import { rootTest } from "../testing/capabilities.ts";
import { ipJson } from "../testing/ip_json.ts";
import { type CallOutput, TestHosts } from "../testing/test_hosts.ts";
import { eachRow } from "./_harness/table.ts";
import { runCni } from "./_harness/tool_call.ts";

const EXAMPLE = `${ROOT}docs/examples/neighbors`;
/** Files of the example that the guide does not quote. */
const LINKED = ["main.ts", "multi_call.ts", "plugin_test.ts"];

const guide = await Deno.readTextFile(`${ROOT}docs/write-a-plugin.md`);

const NETWORK = { cniVersion: "1.1.0", name: "net1" };

Deno.test("the guide shows or links the files of its example", async (t) => {
  const languages = { ts: "ts", conflist: "json" };
  for (const { name } of await Array.fromAsync(Deno.readDir(EXAMPLE))) {
    await t.step(name, async () => {
      const ending = name.split(".").at(-1) as keyof typeof languages;
      const text = await Deno.readTextFile(`${EXAMPLE}/${name}`);
      const block = `\`\`\`${languages[ending]}\n${text}\`\`\`\n`;
      const link = `(examples/neighbors/${name})`;
      assertStringIncludes(guide, LINKED.includes(name) ? link : block);
    });
  }
});

Deno.test("the guide quotes a part of its example unchanged", async () => {
  const [, quoted = ""] = /^```ts ignore\n([^]*?)^```/m.exec(guide) ?? [];
  assertStringIncludes(quoted, "async add(call)");
  const text = await Deno.readTextFile(`${EXAMPLE}/main.ts`);
  // A method of the plugin, which the page shows without its indent.
  assertStringIncludes(text, quoted.replace(/^(?=.)/gm, "  "));
});

Deno.test("the guide names every entry point", async (t) => {
  for (const [entryPoint, path] of Object.entries(project.exports)) {
    const name = project.name + entryPoint.slice(1);
    await t.step(name, () => {
      assertStringIncludes(
        guide,
        `"${name}": "../cni-plugins${path.slice(1)}"`,
      );
      assertStringIncludes(guide, `| \`${name}\``);
    });
  }
});

Deno.test("the guide shows the output of the example", async (t) => {
  const complete = {
    CNI_CONTAINERID: "c1",
    CNI_NETNS: "/run/netns/c1",
    CNI_IFNAME: "eth0",
    CNI_PATH: "/opt/cni/bin",
  };
  const rows: [name: string, env: Environment, indent: number][] = [
    ["to a key that is wrong", complete, 2],
    ["to no environment", {}, 4],
  ];
  const wrong = [{ ip: "10.88.0.200", mac: "02:00" }];
  const config = { ...NETWORK, type: "neighbors", neighbors: wrong };
  await eachRow(t, rows, async ([, env, indent]) => {
    const { stdout } = await dispatch(neighbors, {
      env: { ...env, CNI_COMMAND: "ADD" },
      stdin: () => new TextEncoder().encode(JSON.stringify(config)),
      invoker: execInvoker,
      hostNetns: "/proc/thread-self/ns/net",
    });
    const block = JSON.stringify(JSON.parse(stdout), null, indent);
    assertStringIncludes(guide, block);
  });
});

/** Creates plugins with `cni new plugin`; returns their modules. */
async function createPlugins(directory: string): Promise<string[]> {
  const kinds = {
    "plain": [],
    "chained": ["--chained"],
    "own-ipam": ["--ipam"],
  };
  const before = Deno.cwd();
  Deno.chdir(directory);
  try {
    for (const [name, flags] of Object.entries(kinds)) {
      const call = ["new", "plugin", name, "--checkout", ROOT, ...flags];
      assertEquals((await runCni(...call)).exitCode, 0);
    }
  } finally {
    Deno.chdir(before);
  }
  return Object.keys(kinds).flatMap((name) =>
    ["main.ts", "plugin_test.ts"].map((file) => `${directory}/${name}/${file}`)
  );
}

/**
 * Checks the types of all code in Markdown, in comments of the entry points, and in
 * new plugins: in one run, for the library takes most of its time.
 */
Deno.test("the code in the documentation and of new plugins type-checks", async () => {
  const { imports } = await makeImportMap(ROOT.slice(0, -1), `${ROOT}mod.ts`);
  // The guide quotes files that stand in another directory than it does.
  const besides = {
    [`file://${ROOT}docs/main.ts`]: `file://${EXAMPLE}/main.ts`,
  };
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  const path = `${directory}/import_map.json`;
  // Deno finds none without a configuration, and writes to the one that it gets.
  const lock = `${directory}/deno.lock`;
  try {
    await Deno.copyFile(`${ROOT}deno.lock`, lock);
    const map = { imports: { ...imports, ...besides } };
    await Deno.writeTextFile(path, JSON.stringify(map));
    const docs = await Array.fromAsync(Deno.readDir(`${ROOT}docs`));
    await runDeno([
      "check",
      "--doc",
      // Its compiler refuses what is never used, which an example need not be.
      "--no-config",
      ...await isOffline() ? ["--no-remote"] : [],
      `--import-map=${path}`,
      `--lock=${lock}`,
      ...Object.values(project.exports),
      ...await createPlugins(directory),
      "README.md",
      ...docs.filter(({ name }) => name.endsWith(".md"))
        .map(({ name }) => `docs/${name}`),
    ]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

/** Runs an executable in the temporary host; it must succeed. */
function call(
  hosts: TestHosts,
  path: string,
  command: string,
  config: object,
): CallOutput {
  const CNI_PATH = path.slice(0, path.lastIndexOf("/"));
  const output = hosts.exec(path, command, config, { env: { CNI_PATH } });
  assertEquals(output.exitCode, 0, output.stdout + output.stderr);
  return output;
}

function listPinned(hosts: TestHosts): string[] {
  const filter = ["nud", "permanent", "dev", "eth0"];
  return ipJson(hosts.sandbox, "neighbor", "show", ...filter)
    .map(({ dst, lladdr }: Record<string, string>) => `${dst} ${lladdr}`);
}

rootTest("the guide's example works as executables", async (t) => {
  using hosts = TestHosts.create();
  const out = `${hosts.directory}/compiled`;
  for (
    const program of [
      { name: "neighbors", entry: `${EXAMPLE}/main.ts`, links: [] },
      {
        name: "all",
        entry: `${EXAMPLE}/multi_call.ts`,
        links: ["ptp", "host-local"],
      },
    ]
  ) await compile({ out, program });
  await Deno.mkdir(`${out}/one`);
  await Deno.link(`${out}/all`, `${out}/one/neighbors`);
  const ipam = hosts.hostLocal("10.1.2.0/24");
  const ptpConfig = { ...NETWORK, type: "ptp", ipam };
  const ptp = call(hosts, `${out}/ptp`, "ADD", ptpConfig);
  const config = {
    ...NETWORK,
    type: "neighbors",
    neighbors: [{ ip: "10.1.2.200", mac: "02:00:5e:10:00:01" }],
    prevResult: ptp.json,
  };
  await eachRow(t, [`${out}/neighbors`, `${out}/one/neighbors`], (path) => {
    const version = call(hosts, path, "VERSION", {});
    assertStringIncludes(guide, `dist/bin/neighbors\n${version.stdout}`);
    assertEquals(call(hosts, path, "ADD", config).json, ptp.json);
    assertEquals(listPinned(hosts), ["10.1.2.200 02:00:5e:10:00:01"]);
    call(hosts, path, "CHECK", config);
    call(hosts, path, "DEL", config);
    assertEquals(listPinned(hosts), []);
    const checked = hosts.exec(path, "CHECK", config);
    assert(checked.exitCode !== 0, checked.stdout);
  }, (path) => path.slice(out.length + 1));
  const unknown = hosts.exec(`${out}/all`, "ADD", config);
  assertEquals(unknown.json.msg, 'no plugin is named "all"');
  assertEquals([unknown.json.code, unknown.stderr], [4, ""]);
  call(hosts, `${out}/ptp`, "DEL", ptpConfig);
  assertEquals(hosts.leases(), []);
});
