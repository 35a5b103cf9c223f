import { assertEquals } from "@std/assert";
import { hasCommand, ignoreUnless } from "../../testing/capabilities.ts";
import { listNewFiles } from "./new_files.ts";

const { ignore, suffix } = ignoreUnless(hasCommand("git"), "needs git");

Deno.test({
  name: `listNewFiles() lists what git neither has nor ignores${suffix}`,
  ignore,
  async fn(): Promise<void> {
    const root = await Deno.makeTempDir({ prefix: "cni-test-" });
    const git = (...args: string[]): Promise<Deno.CommandOutput> =>
      new Deno.Command("git", { args, cwd: root }).output();
    assertEquals(listNewFiles(root), []);
    await git("init", "-q");
    await Deno.mkdir(`${root}/build`);
    for (const name of [".gitignore", "old", "new é", "build/x"]) {
      await Deno.writeTextFile(`${root}/${name}`, "/build/\n");
    }
    await git("add", "old", ".gitignore");
    assertEquals(listNewFiles(root), ["new é"]);
    await Deno.remove(root, { recursive: true });
  },
});
