// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

import { assertEquals, assertThrows } from "@std/assert";
import { findNetnsProblem, isNetns, pathOfName } from "./named.ts";

Deno.test("pathOfName() accepts the same names as ip netns", async (t) => {
  for (const name of ["blue", "a b", "-x", "ü", "x".repeat(255)]) {
    await t.step(name, () => {
      assertEquals(pathOfName(name), `/var/run/netns/${name}`);
    });
  }
  for (const name of ["", ".", "..", "a/b", "a\0b", "ü".repeat(128)]) {
    await t.step(JSON.stringify(name), () => {
      assertThrows(() => pathOfName(name), Error, "Cannot name");
    });
  }
});

Deno.test("isNetns() recognizes network namespaces", async (t) => {
  const folder = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(`${folder}/file`, "");
    await new Deno.Command("mkfifo", { args: [`${folder}/fifo`] }).output();
    Deno.symlinkSync(`${folder}/loop`, `${folder}/loop`);
    Deno.symlinkSync("/proc/self/ns/net", `${folder}/link`);
    const rows: [path: string, want: boolean, problem: string | undefined][] = [
      ["/proc/self/ns/net", true, undefined],
      [`${folder}/link`, true, undefined],
      ["/proc/self/ns/mnt", false, "is not a network namespace"],
      ["/dev/null", false, "is not a network namespace"],
      [folder, false, "is not a network namespace"],
      [`${folder}/file`, false, "is not a network namespace"],
      [`${folder}/fifo`, false, "is not a network namespace"],
      [`${folder}/loop`, false, "is not a network namespace"],
      [`${folder}/file/x`, false, "does not exist"],
      [`${folder}/none`, false, "does not exist"],
    ];
    for (const [path, want, problem] of rows) {
      await t.step(path.replace(folder, ""), () => {
        assertEquals(isNetns(path), want);
        const found = findNetnsProblem(path)?.replace(/ ?"[^"]*" ?/, "");
        assertEquals(found, problem);
      });
    }
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
