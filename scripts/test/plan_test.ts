import { assert, assertEquals } from "@std/assert";
import { listTestFiles, planFiles, RATES } from "./plan.ts";

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

const DURATIONS = { whole: 60, files: { "tests/sbr_stress_test.ts": 20 } };

Deno.test("planFiles() begins with what takes long", () => {
  const files = [
    { path: "net/ip_test.ts", size: 10 },
    { path: "plugins/ptp/plugin_test.ts", size: 900 },
    { path: "tests/sbr_stress_test.ts", size: 60 },
  ];
  assertEquals(planFiles(files, DURATIONS), [
    "tests/sbr_stress_test.ts",
    "plugins/ptp/plugin_test.ts",
    "net/ip_test.ts",
  ]);
});

Deno.test("planFiles() runs every test file of the project once", () => {
  const files = listTestFiles(ROOT);
  const planned = planFiles(files, DURATIONS);
  assertEquals(
    planned.toSorted(),
    files.map(({ path }) => path).toSorted(),
  );
  assert(planned.includes("scripts/test/plan_test.ts"));
});

Deno.test("RATES names files that are there", () => {
  const planned = planFiles(listTestFiles(ROOT), DURATIONS);
  const missing = RATES.filter((path) => !planned.includes(path));
  assertEquals(missing, []);
});
