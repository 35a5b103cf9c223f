import { assertEquals } from "@std/assert";
import { keepUsing } from "./keep_using.ts";
import { eachRow } from "../../tests/_harness/table.ts";

Deno.test("keepUsing() adds a use behind each declaration", async (t) => {
  const rows: readonly [name: string, source: string, kept: string][] = [
    [
      "in one line",
      "  using a = open();\n  return a.n;\n}",
      "  using a = open();\na;\n  return a.n;\n}",
    ],
    [
      "in several lines",
      "  await using a = await open(\n    () => 1,\n  );\n\n  return a.n;",
      "  await using a = await open(\n    () => 1,\n  );\n\na;\n  return a.n;",
    ],
    [
      "with statements in it",
      "  using a = open(() => {\n    b();\n  });\n  c(a);",
      "  using a = open(() => {\n    b();\n  });\na;\n  c(a);",
    ],
    [
      "one behind another",
      "  using a = open();\n  using b = open(a);\n  c(b);",
      "  using a = open();\na;\n  using b = open(a);\nb;\n  c(b);",
    ],
    [
      "at the end of a block",
      "  if (x) {\n    using _a = open();\n  }",
      "  if (x) {\n    using _a = open();\n_a;\n  }",
    ],
    [
      "and leaves the rest",
      "const using = 1;\nf(using);",
      "const using = 1;\nf(using);",
    ],
  ];
  await eachRow(
    t,
    rows,
    ([, source, kept]) => assertEquals(keepUsing(source), kept),
  );
});
