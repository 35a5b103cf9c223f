import { assert, assertEquals, assertThrows } from "@std/assert";
import { Draft } from "./draft.ts";

/** Runs `test` with the path of a new folder. */
function withFolder(test: (folder: string) => void): void {
  const folder = Deno.makeTempDirSync();
  try {
    test(folder);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

/** Reads all files by name. */
function read(folder: string): Record<string, string> {
  return Object.fromEntries(
    [...Deno.readDirSync(folder)].map(({ name }) => [
      name,
      Deno.readTextFileSync(`${folder}/${name}`),
    ]),
  );
}

Deno.test("Draft.link() gives a name that nothing has", () => {
  withFolder((folder) => {
    using draft = new Draft(`${folder}/draft`, "new");
    assertEquals(read(folder), { draft: "new" });
    assert(draft.link(`${folder}/name`));
    assertEquals(read(folder), { name: "new" });
    assert(!draft.isThere);
  });
});

Deno.test("Draft.link() leaves a name to what has it", () => {
  withFolder((folder) => {
    Deno.writeTextFileSync(`${folder}/name`, "old");
    {
      using draft = new Draft(`${folder}/draft`, "new");
      assert(!draft.link(`${folder}/name`));
      assert(draft.isThere);
      assertEquals(read(folder), { draft: "new", name: "old" });
    }
    assertEquals(read(folder), { name: "old" });
  });
});

Deno.test("Draft.replace() takes a name from what has it", () => {
  withFolder((folder) => {
    Deno.writeTextFileSync(`${folder}/name`, "old");
    using draft = new Draft(`${folder}/draft`, "new");
    draft.replace(`${folder}/name`);
    assertEquals(read(folder), { name: "new" });
  });
});

Deno.test("Draft never touches what a killed process left", () => {
  withFolder((folder) => {
    // Left by a kill between the two steps of link(): one file with two names.
    Deno.writeTextFileSync(`${folder}/10.1.2.2`, "dummy");
    Deno.linkSync(`${folder}/10.1.2.2`, `${folder}/draft`);
    using draft = new Draft(`${folder}/draft`, "other");
    assert(draft.link(`${folder}/10.1.2.3`));
    assertEquals(read(folder), { "10.1.2.2": "dummy", "10.1.2.3": "other" });
  });
});

Deno.test("Draft leaves nothing where it cannot be finished", () => {
  withFolder((folder) => {
    const fail = (): never => {
      throw new Error("no");
    };
    assertThrows(() => new Draft(`${folder}/draft`, "new", fail), Error, "no");
    assertEquals(read(folder), {});
    assertThrows(
      () => new Draft(`${folder}/none/draft`, "new"),
      Deno.errors.NotFound,
    );
  });
});
