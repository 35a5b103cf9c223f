import { assertEquals, assertRejects } from "@std/assert";
import { makeImportMap } from "./import_map.ts";
import { ROOT } from "../project.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const PROJECT = {
  name: "@ours/lib",
  exports: { ".": "./mod.ts", "./kernel": "./deep/kernel.ts" },
  imports: { "@std/path": "jsr:@std/path@^1", "zod": "npm:zod@^4" },
};

/** Writes files to a new directory, and sets whether jsr.io is reachable. */
async function withFiles<T>(
  files: Readonly<Record<string, string>>,
  offline: "0" | "1",
  work: (directory: string) => Promise<T>,
): Promise<T> {
  const directory = await Deno.makeTempDir();
  const before = Deno.env.get("OFFLINE");
  Deno.env.set("OFFLINE", offline);
  try {
    for (const [path, text] of Object.entries(files)) {
      const file = `${directory}/${path}`;
      await Deno.mkdir(file.slice(0, file.lastIndexOf("/")), {
        recursive: true,
      });
      await Deno.writeTextFile(file, text);
    }
    return await work(directory);
  } finally {
    if (before === undefined) Deno.env.delete("OFFLINE");
    else Deno.env.set("OFFLINE", before);
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("makeImportMap() has the project in it, and its packages", async (t) => {
  const files = {
    "p/deno.json": JSON.stringify(PROJECT),
    "p/scripts/offline/import_map.json": JSON.stringify({
      imports: { "@std/path/posix": "./posix.ts", "zod/": "npm:/zod@^4/" },
    }),
    "a b/main.ts": "",
  };
  const rows: [name: string, offline: "0" | "1", imports: object][] = [
    ["from the registries", "0", {
      "@std/path": "jsr:@std/path@^1",
      "@std/path/": "jsr:/@std/path@^1/",
      "zod": "npm:zod@^4",
      "zod/": "npm:/zod@^4/",
    }],
    ["from the stand-ins", "1", {
      "@std/path/posix": "file://DIRECTORY/p/scripts/offline/posix.ts",
      "zod/": "npm:/zod@^4/",
    }],
  ];
  await eachRow(
    t,
    rows,
    ([, offline, imports]) =>
      withFiles(files, offline, async (directory) => {
        const map = await makeImportMap(
          `${directory}/p`,
          `${directory}/a b/main.ts`,
        );
        const text = JSON.stringify(map).replaceAll(directory, "DIRECTORY");
        assertEquals(JSON.parse(text), {
          imports: {
            ...imports,
            "@ours/lib": "file://DIRECTORY/p/mod.ts",
            "@ours/lib/kernel": "file://DIRECTORY/p/deep/kernel.ts",
          },
          scopes: {},
        });
      }),
  );
});

Deno.test("makeImportMap() heeds the program's own deno.json", async (t) => {
  const theirs = `{ /* mine, // all mine */
    "imports": {
      "@ours/lib": "../elsewhere/mod.ts", // a checkout
      "zod": "npm:zod@^3",
      "ms": "npm:ms@2",
      "url,}": "https://example.org/a//b.ts",
      "mine/": "./lib/",
      "up": "../up.ts",
    },
  }`;
  const files = {
    "p/deno.json": JSON.stringify(PROJECT),
    "a %20#b/deno.jsonc": theirs,
    "a %20#b/src/main.ts": "",
  };
  await withFiles(files, "0", async (directory) => {
    const entry = `${directory}/a %20#b/src/main.ts`;
    const { imports, scopes } = await makeImportMap(`${directory}/p`, entry);
    const url = `file://${directory}/a%20%2520%23b/`;
    await t.step("in the program's directory", () => {
      assertEquals(scopes, {
        [url]: {
          "ms": "npm:ms@2",
          "ms/": "npm:/ms@2/",
          "url,}": "https://example.org/a//b.ts",
          "mine/": `${url}lib/`,
          "up": `file://${directory}/up.ts`,
          ...imports,
        },
      });
    });
    await t.step("except for what the project uses, too", () => {
      assertEquals(imports["zod"], "npm:zod@^4");
      assertEquals(imports["@ours/lib"], `file://${directory}/p/mod.ts`);
    });
  });
});

Deno.test("makeImportMap() adds nothing for what is in the project", async () => {
  const entry = `${ROOT}docs/examples/neighbors/main.ts`;
  assertEquals((await makeImportMap(ROOT.slice(0, -1), entry)).scopes, {});
});

Deno.test("makeImportMap() says which deno.json it cannot read", async () => {
  const files = {
    "p/deno.json": JSON.stringify(PROJECT),
    "a/deno.json": "{ imports: {} }",
  };
  await withFiles(files, "0", async (directory) => {
    await assertRejects(
      () => makeImportMap(`${directory}/p`, `${directory}/a/main.ts`),
      Error,
      `Cannot parse "${directory}/a/deno.json"`,
    );
  });
});
