import { assertEquals, assertRejects } from "@std/assert";
import { makeImportMap } from "./import_map.ts";
import { ROOT } from "./project.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const PROJECT = {
  name: "@ours/lib",
  exports: { ".": "./mod.ts", "./kernel": "./deep/kernel.ts" },
  imports: { "@std/path": "jsr:@std/path@^1", "zod": "npm:zod@^4" },
};

/** Writes files to a new folder, and sets whether jsr.io is reachable. */
async function withFiles<T>(
  files: Readonly<Record<string, string>>,
  offline: "0" | "1",
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const folder = await Deno.makeTempDir();
  const before = Deno.env.get("OFFLINE");
  Deno.env.set("OFFLINE", offline);
  try {
    for (const [path, text] of Object.entries(files)) {
      const file = `${folder}/${path}`;
      await Deno.mkdir(file.slice(0, file.lastIndexOf("/")), {
        recursive: true,
      });
      await Deno.writeTextFile(file, text);
    }
    return await work(folder);
  } finally {
    if (before === undefined) Deno.env.delete("OFFLINE");
    else Deno.env.set("OFFLINE", before);
    await Deno.remove(folder, { recursive: true });
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
      "@std/path/posix": "file://FOLDER/p/scripts/offline/posix.ts",
      "zod/": "npm:/zod@^4/",
    }],
  ];
  await eachRow(
    t,
    rows,
    ([, offline, imports]) =>
      withFiles(files, offline, async (folder) => {
        const map = await makeImportMap(
          `${folder}/p`,
          `${folder}/a b/main.ts`,
        );
        const text = JSON.stringify(map).replaceAll(folder, "FOLDER");
        assertEquals(JSON.parse(text), {
          imports: {
            ...imports,
            "@ours/lib": "file://FOLDER/p/mod.ts",
            "@ours/lib/kernel": "file://FOLDER/p/deep/kernel.ts",
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
  await withFiles(files, "0", async (folder) => {
    const entry = `${folder}/a %20#b/src/main.ts`;
    const { imports, scopes } = await makeImportMap(`${folder}/p`, entry);
    const url = `file://${folder}/a%20%2520%23b/`;
    await t.step("in the program's folder", () => {
      assertEquals(scopes, {
        [url]: {
          "ms": "npm:ms@2",
          "ms/": "npm:/ms@2/",
          "url,}": "https://example.org/a//b.ts",
          "mine/": `${url}lib/`,
          "up": `file://${folder}/up.ts`,
          ...imports,
        },
      });
    });
    await t.step("except for what the project uses, too", () => {
      assertEquals(imports["zod"], "npm:zod@^4");
      assertEquals(imports["@ours/lib"], `file://${folder}/p/mod.ts`);
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
  await withFiles(files, "0", async (folder) => {
    await assertRejects(
      () => makeImportMap(`${folder}/p`, `${folder}/a/main.ts`),
      Error,
      `Cannot parse "${folder}/a/deno.json"`,
    );
  });
});
