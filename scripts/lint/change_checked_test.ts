import { assertEquals } from "@std/assert";
import { changeChecked, ruleFor, UNCHECKED } from "./change_checked.ts";
import { isIn, isProduct, PRODUCT } from "./project_files.ts";
import { diagnose, testRows } from "./testing.ts";

Deno.test("cni/change-checked accepts writes that ask before", async (t) => {
  await testRows(t, changeChecked, [
    ["plugins/ptp/a.ts", "function a() { checkChange(); Deno.removeSync(b); }"],
    [
      "plugins/ptp/a.ts",
      "class A { a() { checkChange(); return () => libc.send(fd, b, 0); } }",
    ],
    ["plugins/ptp/a.ts", "const a = Deno.openSync(b);"],
    ["plugins/ptp/a.ts", "const a = await Deno.open(b, { read: true });"],
    ["plugins/ptp/a.ts", "let a: Deno.Command;"],
    ["cni/invoke/exec.ts", "function spawn() { new Deno.Command(a); }"],
    ["daemon/server/a.ts", "Deno.removeSync(a);"],
    ["cli/new/command.ts", "Deno.removeSync(a);"],
    ["plugins/ptp/a_test.ts", "Deno.removeSync(a);"],
  ]);
});

Deno.test("cni/change-checked refuses writes without a check", async (t) => {
  const writes = [
    "Deno.removeSync(b)",
    "Deno.rename(b, c)",
    "Deno.openSync(b, { write: true })",
    "Deno.openSync(b, options)",
    "new Deno.Command(b)",
    "fetch(b)",
    "libc.send(fd, b, 0)",
    "libc.mount(b, c, 0)",
  ];
  await testRows(t, changeChecked, [
    ...writes.map((write) =>
      [
        "plugins/ptp/a.ts",
        `function a() { each(() => ${write}); }`,
        "a may change something",
      ] as const
    ),
    ["cni/invoke/exec.ts", "function a() { new Deno.Command(b); }", "a may"],
    [
      "plugins/ptp/a.ts",
      "function a() { checkChange(); } function b() { Deno.removeSync(c); }",
      "b may",
    ],
    ["plugins/ptp/a.ts", "Deno.removeSync(a);", "plugins/ptp/a.ts may"],
  ]);
});

Deno.test("each place of UNCHECKED has a writer without a check", () => {
  const rule = ruleFor([]);
  const files = UNCHECKED.map(([place]) => place.split(" ")[0] ?? "");
  const paths = listProduct().filter((path) => isIn(path, files));
  const found = paths.flatMap((path) =>
    diagnose(rule, path, Deno.readTextFileSync(new URL(path, ROOT)))
      .map((message) => [path, `${path} ${message.split(" ")[0]}`] as const)
  );
  const unused = UNCHECKED.map(([place]) => place).filter((place) =>
    !found.some(([path, name]) => isIn(path, [place]) || name === place)
  );
  assertEquals(unused, []);
});

const ROOT = new URL("../../", import.meta.url);

/** Lists the source files of the product. */
function listProduct(): string[] {
  const list = (path: string): string[] =>
    [...Deno.readDirSync(new URL(path, ROOT))].flatMap(({ name, isFile }) =>
      isFile ? [path + name] : list(`${path}${name}/`)
    );
  return PRODUCT.flatMap((path) => path.endsWith("/") ? list(path) : [path])
    .filter((path) => path.endsWith(".ts") && isProduct(path));
}
