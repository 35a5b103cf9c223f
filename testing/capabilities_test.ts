import { assertEquals } from "@std/assert";
import { join } from "@std/path/posix";
import { importFlags } from "../scripts/import_flags.ts";
import {
  canUseNetns,
  goPlugin,
  hasCommand,
  ignoreUnless,
  missingForNetns,
  requireRoot,
  rootTest,
} from "./capabilities.ts";

/**
 * Runs `test` while an environment variable names a directory that holds an
 * executable `run`, a plain file `read` and a directory `enter`.
 */
function withDirectory(
  variable: string,
  test: (directory: string) => void,
): void {
  const before = Deno.env.get(variable);
  const directory = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(join(directory, "run"), "", { mode: 0o755 });
    Deno.writeTextFileSync(join(directory, "read"), "", { mode: 0o644 });
    Deno.mkdirSync(join(directory, "enter"));
    Deno.env.set(variable, directory);
    test(directory);
  } finally {
    if (before === undefined) Deno.env.delete(variable);
    else Deno.env.set(variable, before);
    Deno.removeSync(directory, { recursive: true });
  }
}

Deno.test("hasCommand() finds executable files in PATH", () => {
  withDirectory("PATH", () => {
    const found = ["run", "read", "enter", "absent"].map(hasCommand);
    assertEquals(found, [true, false, false, false]);
  });
});

Deno.test("goPlugin() finds executable files in CNI_GO_PLUGINS", () => {
  withDirectory("CNI_GO_PLUGINS", (directory) => {
    assertEquals(goPlugin("run"), join(directory, "run"));
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
  const suffix = canUseNetns ? "" : ` (skipped: ${missingForNetns})`;
  assertEquals(requireRoot("ptp.add() works"), {
    name: `ptp.add() works${suffix}`,
    ignore: !canUseNetns,
  });
});

rootTest(
  "missingForNetns names a root directory that is not a mount point",
  async () => {
    // A chroot to a copy of / that is not mounted itself has these directories.
    const script =
      `mount -t tmpfs tmpfs /mnt && cd /mnt && mkdir root && cd root &&
    for path in /*; do
      if [ -L $path ]; then cp -P $path .
      elif [ -d $path ]; then mkdir .$path && mount --rbind $path .$path; fi
    done && exec chroot . "$@"`;
    const root = new URL("..", import.meta.url).pathname;
    const module = new URL("capabilities.ts", import.meta.url);
    const print = `import { missingForNetns } from "${module}";
    console.log(missingForNetns);`;
    const url = `data:text/typescript,${encodeURIComponent(print)}`;
    const deno = [
      Deno.execPath(),
      "run",
      "-A",
      "--no-check",
      ...await importFlags(),
    ];
    const { stdout, stderr } = await new Deno.Command("unshare", {
      args: [
        "-m",
        "sh",
        "-c",
        script,
        "sh",
        "sh",
        "-c",
        'cd "$0" && exec "$@"',
        root,
        ...deno,
        url,
      ],
    }).output();
    const [told, said] = [stdout, stderr].map((bytes) =>
      new TextDecoder().decode(bytes)
    );
    assertEquals(told, "needs a root directory that is a mount point\n", said);
  },
);

rootTest("canUseNetns holds where unshare works", () => {
  const namespaces = ["", "unshare -n "].map((prefix) => {
    const args = ["-c", `${prefix}readlink /proc/self/ns/net`];
    const { stdout } = new Deno.Command("sh", { args }).outputSync();
    return new TextDecoder().decode(stdout);
  });
  assertEquals(new Set(namespaces).size, 2);
});
