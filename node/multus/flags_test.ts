import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../cni/error.ts";
import { formatFlags, parseFlags } from "./flags.ts";

const TABLE = {
  "folder": { default: "/default", value: "FOLDER", summary: "is a folder" },
  "name": { default: "", summary: "is a name" },
  "watch": { default: false, summary: "goes on" },
  "log": { default: true, summary: "logs" },
} as const;

const DEFAULTS = { folder: "/default", name: "", watch: false, log: true };

Deno.test("parseFlags() reads flags as pflag does", async (t) => {
  const rows: [string, string[], object][] = [
    ["nothing", [], {}],
    ["a value behind =", ["--folder=/a"], { folder: "/a" }],
    ["a value of its own", ["--folder", "/a"], { folder: "/a" }],
    ["a value that looks like a flag", ["--name", "--watch"], {
      name: "--watch",
    }],
    ["a value with = in it", ["--name=a=b"], { name: "a=b" }],
    ["a value of two lines", ["--name=a\nb"], { name: "a\nb" }],
    ["an empty value", ["--folder=", "--name", ""], { folder: "", name: "" }],
    ["a switch", ["--watch"], { watch: true }],
    ["a switch that is off", ["--log=false", "--watch=0"], { log: false }],
    ["a switch in capitals", ["--watch=TRUE", "--log=F"], {
      watch: true,
      log: false,
    }],
    ["a flag twice", ["--name=a", "--name=b"], { name: "b" }],
  ];
  for (const [name, args, expected] of rows) {
    await t.step(name, () => {
      const values = parseFlags("multus test", TABLE, args);
      assertEquals(values, { ...DEFAULTS, ...expected });
    });
  }
});

Deno.test("parseFlags() refuses what the command does not have", async (t) => {
  const rows: [string, string[], string][] = [
    ["an unknown flag", ["--other"], 'there is no "--other"'],
    ["an unknown flag with a value", ["--o=1"], 'there is no "--o=1"'],
    ["a name of Object.prototype", ["--toString"], 'there is no "--toString"'],
    ["a word", ["watch"], 'there is no "watch"'],
    ["a single dash", ["-watch"], 'there is no "-watch"'],
    ["a value behind a switch", ["--watch", "true"], 'there is no "true"'],
    ["a missing value", ["--name"], "--name needs a value"],
    [
      "a switch that is neither",
      ["--watch=yes"],
      '--watch is true or false, not "yes"',
    ],
  ];
  for (const [name, args, why] of rows) {
    await t.step(name, () => {
      const error = assertThrows(
        () => parseFlags("multus test", TABLE, args),
        CniError,
        `Cannot run "multus test": ${why}; see multus test --help`,
      );
      assertEquals(error.code, 4);
    });
  }
});

Deno.test("formatFlags() tells names, values and defaults", () => {
  assertEquals(
    formatFlags(TABLE),
    `  --folder=FOLDER
      is a folder (default /default)
  --name=TEXT
      is a name
  --watch[=false]
      goes on
  --log[=true]
      logs`,
  );
});
