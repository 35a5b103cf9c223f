import { assertEquals } from "@std/assert";
import { join } from "@std/path/posix";
import {
  canUseNetns,
  goPlugin,
  hasCommand,
  ignoreUnless,
  requireRoot,
  rootTest,
} from "./capabilities.ts";

/**
 * Runs `test` while an environment variable names a folder that holds an
 * executable `run`, a plain file `read` and a folder `enter`.
 */
function withFolder(variable: string, test: (folder: string) => void): void {
  const before = Deno.env.get(variable);
  const folder = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(join(folder, "run"), "", { mode: 0o755 });
    Deno.writeTextFileSync(join(folder, "read"), "", { mode: 0o644 });
    Deno.mkdirSync(join(folder, "enter"));
    Deno.env.set(variable, folder);
    test(folder);
  } finally {
    if (before === undefined) Deno.env.delete(variable);
    else Deno.env.set(variable, before);
    Deno.removeSync(folder, { recursive: true });
  }
}

Deno.test("hasCommand() finds executable files in PATH", () => {
  withFolder("PATH", () => {
    const found = ["run", "read", "enter", "absent"].map(hasCommand);
    assertEquals(found, [true, false, false, false]);
  });
});

Deno.test("goPlugin() finds executable files in CNI_GO_PLUGINS", () => {
  withFolder("CNI_GO_PLUGINS", (folder) => {
    assertEquals(goPlugin("run"), join(folder, "run"));
    assertEquals(goPlugin("read"), undefined);
    assertEquals(goPlugin("absent"), undefined);
  });
});

Deno.test("ignoreUnless() gives a reason only to what is skipped", () => {
  assertEquals(ignoreUnless(true, "needs nft"), { ignore: false, suffix: "" });
  assertEquals(ignoreUnless(false, "needs nft"), {
    ignore: true,
    suffix: " (skipped: needs nft)",
  });
});

Deno.test("requireRoot() skips what needs network namespaces", () => {
  const suffix = canUseNetns ? "" : " (skipped: needs root)";
  assertEquals(requireRoot("ptp.add() works"), {
    name: `ptp.add() works${suffix}`,
    ignore: !canUseNetns,
  });
});

rootTest("canUseNetns holds where unshare works", () => {
  const namespaces = ["", "unshare -n "].map((prefix) => {
    const args = ["-c", `${prefix}readlink /proc/self/ns/net`];
    const { stdout } = new Deno.Command("sh", { args }).outputSync();
    return new TextDecoder().decode(stdout);
  });
  assertEquals(new Set(namespaces).size, 2);
});
