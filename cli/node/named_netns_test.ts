// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import { assertEquals, assertThrows } from "@std/assert";
import { findNetnsProblem, isNetns, pathOfName } from "./named_netns.ts";
import { eachRow } from "../../tests/_harness/table.ts";

Deno.test("pathOfName() accepts the same names as ip netns", async (t) => {
  await eachRow(t, ["blue", "a b", "-x", "ü", "x".repeat(255)], (name) => {
    assertEquals(pathOfName(name), `/var/run/netns/${name}`);
  });
  await eachRow(t, ["", ".", "..", "a/b", "a\0b", "ü".repeat(128)], (name) => {
    assertThrows(() => pathOfName(name), Error, "Cannot name");
  }, (name) => JSON.stringify(name));
});

Deno.test("isNetns() recognizes network namespaces", async (t) => {
  const directory = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(`${directory}/file`, "");
    await new Deno.Command("mkfifo", { args: [`${directory}/fifo`] }).output();
    Deno.symlinkSync(`${directory}/loop`, `${directory}/loop`);
    Deno.symlinkSync("/proc/self/ns/net", `${directory}/link`);
    const rows: [path: string, want: boolean, problem: string | undefined][] = [
      ["/proc/self/ns/net", true, undefined],
      [`${directory}/link`, true, undefined],
      ["/proc/self/ns/mnt", false, "is not a network namespace"],
      ["/dev/null", false, "is not a network namespace"],
      [directory, false, "is not a network namespace"],
      [`${directory}/file`, false, "is not a network namespace"],
      [`${directory}/fifo`, false, "is not a network namespace"],
      [`${directory}/loop`, false, "is not a network namespace"],
      [`${directory}/file/x`, false, "does not exist"],
      [`${directory}/none`, false, "does not exist"],
    ];
    await eachRow(t, rows, ([path, want, problem]) => {
      assertEquals(isNetns(path), want);
      const found = findNetnsProblem(path)?.replace(/ ?"[^"]*" ?/, "");
      assertEquals(found, problem);
    }, ([path]) => path.replace(directory, ""));
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
