import { assertEquals, assertThrows } from "@std/assert";
import { parseCommandLine } from "./command_line.ts";
import { TARGETS } from "./target.ts";
import { eachRow } from "../../tests/_harness/table.ts";

Deno.test("parseCommandLine() reads every option", () => {
  assertEquals(parseCommandLine([]), {});
  assertEquals(
    parseCommandLine(["--out", "here", `--target=${TARGETS[1]}`]),
    { out: "here", target: "aarch64-unknown-linux-gnu" },
  );
});

Deno.test("parseCommandLine() leaves steps out", () => {
  const args = ["--no-prelink", "--no-link"];
  assertEquals(parseCommandLine(args), { without: ["link", "prelink"] });
});

Deno.test("parseCommandLine() names a plugin from outside", async (t) => {
  const rows: [args: string[], name: string, entry: string][] = [
    [["--plugin", "/a/neighbors/main.ts"], "neighbors", "/a/neighbors/main.ts"],
    [["--plugin", "/a/b/greeter.ts"], "greeter", "/a/b/greeter.ts"],
    [["--plugin=main.ts", "--name", "x-1.2"], "x-1.2", `${Deno.cwd()}/main.ts`],
  ];
  await eachRow(t, rows, ([args, name, entry]) => {
    const program = { name, entry, links: [] };
    assertEquals(parseCommandLine(args), { program });
  }, ([args]) => args.join(" "));
});

const refused: [args: string[], message: string][] = [
  [
    ["--target", "riscv64"],
    'Cannot compile for "riscv64": the targets are x86_64-unknown-linux-gnu ' +
    "and aarch64-unknown-linux-gnu",
  ],
  [["--target"], "Cannot read the command line: Option '--target <value>'"],
  [["--output", "x"], "Unknown option '--output'; see --help"],
  [["--no-bundle"], "Unknown option '--no-bundle'; see --help"],
  [["ptp"], "Unexpected argument 'ptp'"],
  [["--name", "x"], "Cannot use --name without --plugin; see --help"],
  [["--plugin", "a/my plugin.ts"], 'compile "a/my plugin.ts" as "my plugin"'],
  [["--plugin", "a.ts", "--name", "../b"], 'compile "a.ts" as "../b"'],
];

Deno.test("parseCommandLine() refuses what it does not know", async (t) => {
  await eachRow(t, refused, ([args, message]) => {
    assertThrows(() => parseCommandLine(args), Error, message);
  }, ([args]) => args.join(" "));
});
