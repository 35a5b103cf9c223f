import { assertEquals } from "@std/assert";
import {
  formatLines,
  formatRanges,
  parseLcov,
  percent,
  sumLines,
} from "./report.ts";

const LCOV = `SF:/project/cni/a.ts
FN:1,f
FNDA:2,f
DA:1,2
DA:2,0
DA:3,0
DA:7,0
LH:1
LF:4
end_of_record
SF:/project/cni/deep/b.ts
DA:1,1
end_of_record
SF:/project/cni_other/c.ts
DA:4,0
end_of_record
`;

Deno.test("parseLcov() reads the lines of each file", () => {
  assertEquals(parseLcov(LCOV, "/project/"), [
    { path: "cni/a.ts", missed: [2, 3, 7], total: 4, covered: 1 },
    { path: "cni/deep/b.ts", missed: [], total: 1, covered: 1 },
    { path: "cni_other/c.ts", missed: [4], total: 1, covered: 0 },
  ]);
});

Deno.test("sumLines() counts a directory, not one whose name begins like it", () => {
  const files = parseLcov(LCOV, "/project/");
  assertEquals(sumLines(files, "cni"), { covered: 2, total: 5 });
  assertEquals(percent(sumLines(files, "ipam")), 0);
});

Deno.test("formatLines() rounds down, so that 89.99 % is not 90 %", () => {
  const text = formatLines("cni", { covered: 8999, total: 10_000 });
  assertEquals(text, " 89.9 %  8999/10000  cni");
});

Deno.test("formatRanges() joins neighbours", () => {
  assertEquals(formatRanges([1, 3, 4, 5, 9]), "1 3-5 9");
  assertEquals(formatRanges([]), "");
});
