import { assertEquals } from "@std/assert";
import { findIptables, findVariant } from "./find.ts";
import { eachRow } from "../../../../tests/_harness/table.ts";

/** Creates an iptables in each directory, and returns PATH. */
function makePath(
  root: string,
  directories: Readonly<Record<string, Readonly<Record<string, string>>>>,
): string {
  return Object.entries(directories).map(([directory, links]) => {
    const path = `${root}/${directory}`;
    Deno.mkdirSync(path);
    for (const [name, target] of Object.entries(links)) {
      if (target === "") Deno.writeTextFileSync(`${path}/${name}`, "");
      else Deno.symlinkSync(target, `${path}/${name}`);
    }
    return path;
  }).join(":");
}

Deno.test("findIptables() returns the first program in PATH, and its variant", async (t) => {
  const multi = (name: string): Record<string, string> => ({
    iptables: name,
    [name]: "",
  });
  const rows: [string, Record<string, Record<string, string>>, unknown][] = [
    ["nft", { a: multi("xtables-nft-multi") }, ["a/iptables", "nft"]],
    ["legacy", { a: multi("xtables-legacy-multi") }, ["a/iptables", "legacy"]],
    ["before 1.8", { a: multi("xtables-multi") }, ["a/iptables", "legacy"]],
    ["a script", { a: { iptables: "" } }, ["a/iptables", undefined]],
    ["over alternatives", {
      a: { iptables: "alternative", alternative: "../b/xtables-nft-multi" },
      b: { "xtables-nft-multi": "" },
    }, ["a/iptables", "nft"]],
    ["the first", {
      a: {},
      b: { iptables: "" },
      c: multi("xtables-nft-multi"),
    }, ["b/iptables", undefined]],
    ["none that leads nowhere", {
      a: { iptables: "nowhere" },
      b: multi("xtables-nft-multi"),
    }, ["b/iptables", "nft"]],
  ];
  await eachRow(t, rows, ([, directories, found]) => {
    const root = Deno.makeTempDirSync();
    try {
      const program = findIptables(4, `:${makePath(root, directories)}:/none`);
      const path = program?.path.slice(root.length + 1);
      assertEquals([path, program?.variant], found);
    } finally {
      Deno.removeSync(root, { recursive: true });
    }
  });
});

Deno.test("findVariant() finds the preferred program or one with the name", () => {
  const root = Deno.makeTempDirSync();
  try {
    const path = makePath(root, {
      a: {
        "xtables-nft-multi": "",
        "xtables-legacy-multi": "",
        iptables: "xtables-nft-multi",
        "iptables-legacy": "xtables-legacy-multi",
      },
    });
    assertEquals(findVariant("legacy", 4, path), {
      path: `${path}/iptables-legacy`,
      variant: "legacy",
    });
    assertEquals(findVariant("nft", 4, path), {
      path: `${path}/iptables`,
      variant: "nft",
    });
  } finally {
    Deno.removeSync(root, { recursive: true });
  }
});
