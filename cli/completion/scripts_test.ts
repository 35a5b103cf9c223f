// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

import { assertEquals } from "@std/assert";
import { hasCommand, ignoreUnless } from "../../testing/capabilities.ts";
import type { Program } from "../../tool/command.ts";
import { cni } from "../commands.ts";
import { formatBash } from "./bash.ts";
import { formatFish } from "./fish.ts";
import { formatZsh } from "./zsh.ts";

const FORMATS: Readonly<Record<string, (program: Program) => string>> = {
  bash: formatBash,
  zsh: formatZsh,
  fish: formatFish,
};

/** Runs a shell on a script and returns what it printed. */
function run(shell: string, args: string[], env = {}): string {
  const output = new Deno.Command(shell, { args, env }).outputSync();
  const stderr = new TextDecoder().decode(output.stderr);
  assertEquals([output.code, stderr], [0, ""]);
  return new TextDecoder().decode(output.stdout);
}

for (const [shell, format] of Object.entries(FORMATS)) {
  const { ignore, suffix } = ignoreUnless(hasCommand(shell), `needs ${shell}`);
  Deno.test({
    name: `the completion script is one that ${shell} can read${suffix}`,
    ignore,
    fn(): void {
      const path = Deno.makeTempFileSync();
      try {
        Deno.writeTextFileSync(path, format(cni));
        run(shell, ["-n", path]);
      } finally {
        Deno.removeSync(path);
      }
    },
  });
}

Deno.test("the completion scripts have every command and flag", async (t) => {
  for (const [shell, format] of Object.entries(FORMATS)) {
    await t.step(shell, () => {
      const script = format(cni);
      const words = cni.rows
        .filter(({ isHidden }) => isHidden !== true)
        .flatMap(({ name, flags = {} }) => [
          ...name.split(" "),
          ...Object.keys(flags),
        ]);
      assertEquals(words.filter((word) => !script.includes(word)), []);
      assertEquals(script.includes("undefined"), false);
    });
  }
});

/** Completes the last word in bash, with a tool that prints names. */
const ASK = `source "$1"; shift
cni() { [[ $1 == __complete ]] && printf '%s\\n' "$2-a" "$2-b"; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cni 2>/dev/null
printf '%s\\n' "\${COMPREPLY[@]}"`;

Deno.test("bash completes commands, flags and names", async (t) => {
  const path = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(path, formatBash(cni));
    const rows: [line: string, want: string][] = [
      ["cni a", "add"],
      ["cni netns e", "exec"],
      ["cni netns ", "add del list exec"],
      ["cni --conf-dir x net", "networks netns"],
      ["cni add n", "network-a network-b"],
      ["cni add pods netns-b", "netns-b"],
      ["cni --ifname x add pods ", "netns-a netns-b"],
      ["cni add --ifname = x n", "network-a network-b"],
      ["cni gc pods a b ", "netns-a netns-b"],
      ["cni add --no", "--no-undo"],
      ["cni add --timeout ", ""],
      ["cni completion f", "fish"],
      ["cni list --conf-dir /pro", "/proc"],
      ["cni convert --to ", "chain list"],
      ["cni convert --to l", "list"],
      // Then bash itself completes file names.
      ["cni convert --output ", ""],
      ["cni convert f", ""],
      ["cni convert --wr", "--write"],
    ];
    for (const [line, want] of rows) {
      await t.step(line, () => {
        const args = ["-c", ASK, "bash", path, ...line.split(" ")];
        assertEquals(run("bash", args).trim().split("\n").join(" "), want);
      });
    }
  } finally {
    Deno.removeSync(path);
  }
});
