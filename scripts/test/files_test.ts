import { assert, assertEquals } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import {
  isFast,
  listTestFiles,
  needsExecutables,
  planBatches,
  RATES,
  selectNamed,
} from "./files.ts";

const ROOT = new URL("../../", import.meta.url);

/** Makes files of so many bytes each. */
function makeDirectory(sizes: Readonly<Record<string, number>>): URL {
  const directory = new URL(`file://${Deno.makeTempDirSync()}/`);
  for (const [path, size] of Object.entries(sizes)) {
    const file = new URL(path, directory);
    Deno.mkdirSync(new URL(".", file), { recursive: true });
    Deno.writeFileSync(file, new Uint8Array(size));
  }
  return directory;
}

Deno.test("listTestFiles() lists what deno test would find, with sizes", () => {
  const directory = makeDirectory({
    "a_test.ts": 7,
    "b.test.js": 3,
    "c/d_test.tsx": 2,
    "c/test.mts": 1,
    "c/contest.ts": 1,
    // %3a in its name, as Debian packages have.
    "c/x_1%253a2.deb": 1,
    "c/a_test.ts.txt": 1,
    "dist/x_test.ts": 1,
    ".git/x_test.ts": 1,
    "node_modules/x_test.ts": 1,
    "scripts/test.ts": 1,
  });
  try {
    const files = listTestFiles(directory)
      .toSorted((a, b) => a.path < b.path ? -1 : 1);
    assertEquals(files, [
      { path: "a_test.ts", size: 7 },
      { path: "b.test.js", size: 3 },
      { path: "c/d_test.tsx", size: 2 },
      { path: "c/test.mts", size: 1 },
    ]);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("planBatches() begins with what takes long, and runs others together", () => {
  const files = [
    ...["net/a_test.ts", "net/b_test.ts"].map((path) => ({ path, size: 10 })),
    { path: "scripts/c_test.ts", size: 900 },
    { path: "plugins/sbr/stress_test.ts", size: 60 },
    { path: "tests/one_stress_test.ts", size: 50 },
  ];
  assertEquals(planBatches(files, ["plugins/sbr/stress_test.ts"]), [
    {
      name: "plugins/sbr/stress_test.ts",
      paths: ["plugins/sbr/stress_test.ts"],
    },
    // It may download, so it runs elsewhere.
    { name: "scripts/c_test.ts", paths: ["scripts/c_test.ts"] },
    {
      name: "tests/one_stress_test.ts",
      paths: ["tests/one_stress_test.ts"],
    },
    {
      name: "net/a_test.ts and 1 more",
      paths: ["net/a_test.ts", "net/b_test.ts"],
    },
  ]);
});

Deno.test("planBatches() runs every test file of the project once", () => {
  const files = listTestFiles(ROOT);
  const batches = planBatches(files);
  const planned = batches.flatMap(({ paths }) => paths);
  assertEquals(
    planned.toSorted(),
    files.map(({ path }) => path).toSorted(),
  );
  assert(planned.includes("scripts/test/files_test.ts"));
  const names = batches.map(({ name }) => name);
  assertEquals(new Set(names).size, names.length);
});

Deno.test("RATES names files that are there", () => {
  const paths = listTestFiles(ROOT).map(({ path }) => path);
  const missing = RATES.filter((path) => !paths.includes(path));
  assertEquals(missing, []);
});

Deno.test("needsExecutables() finds what starts them, also through modules of tests", () => {
  const sources: Readonly<Record<string, string>> = {
    "net/ip_test.ts": 'import { Ip } from "./ip.ts";',
    "tests/direct_test.ts": 'const BIN = Deno.env.get("CNI_BIN") ?? "";',
    "tests/indirect_test.ts": 'import { scene } from "./_harness/scene.ts";',
    "plugins/multus/daemon_test.ts":
      'import { host } from "./testing/host.ts";',
    "plugins/multus/testing/host.ts":
      'import { BIN } from "../../../tests/_harness/executables.ts";',
    "plugins/noop/plugin_test.ts": 'import { noop } from "./testing.ts";',
    "plugins/noop/testing.ts": 'Deno.env.get("CNI_BIN")',
    "tests/_harness/scene.ts": 'export { BIN } from "./executables.ts";',
    "tests/_harness/executables.ts": 'Deno.env.get("CNI_BIN")',
  };
  const read = (path: string): string => sources[path] ?? "";
  const files = Object.keys(sources)
    .filter((path) => path.endsWith("_test.ts"))
    .map((path) => ({ path, size: 1 }));
  const rows: [args: string[], named: string[], needs: boolean[]][] = [
    [["--filter", "ip"], [], []],
    [["./net"], [], []],
    [["net", "--no-check"], ["net/ip_test.ts"], [false]],
    [["tests/"], ["tests/direct_test.ts", "tests/indirect_test.ts"], [
      true,
      true,
    ]],
    [["net/ip_test.ts"], ["net/ip_test.ts"], [false]],
    [["plugins"], [
      "plugins/multus/daemon_test.ts",
      "plugins/noop/plugin_test.ts",
    ], [true, true]],
  ];
  for (const [args, ...expected] of rows) {
    const named = selectNamed(files, args).map(({ path }) => path);
    const needs = named.map((path) => needsExecutables(path, read));
    assertEquals([named, needs], expected, args.join(" "));
  }
});

testRows<[string, boolean]>("isFast() chooses quick files about one part", [
  ["cni/args_test.ts", true],
  ["plugins/bridge/fault_test.ts", false],
  ["tests/conformance/ptp_test.ts", true],
  ["tests/conformance/sbr_test.ts", true],
  ["tests/conformance/bridge_test.ts", false],
  ["tests/conformance/bandwidth_test.ts", false],
  ["plugins/vrf/parity_test.ts", false],
  ["plugins/multus/tests/shim_test.ts", false],
  ["scripts/test/files_test.ts", false],
], ([path, expected]) => assertEquals(isFast(path), expected));
