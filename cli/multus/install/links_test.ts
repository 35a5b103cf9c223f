import { assertEquals } from "@std/assert";
import { createLog } from "../../../cni/log/log.ts";
import { ConfFolder } from "../../../tests/_harness/conf_folder.ts";
import { Links } from "./links.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** Creates links `a` and `b` in a folder; returns the result at `a`. */
function link(
  folder: ConfFolder,
  replacesOthers = false,
): { a: string; log: string } {
  let log = "";
  const links = new Links(
    { folder: folder.path, target: "t", links: ["a", "b"], replacesOthers },
    createLog({}, (line) => log += line),
  );
  links.ensure();
  links.ensure();
  assertEquals(Deno.readTextFileSync(`${folder.path}/b`), "ours");
  return { a: readLink(`${folder.path}/a`), log };
}

function readLink(path: string): string {
  const { isSymlink } = Deno.lstatSync(path);
  return isSymlink
    ? `-> ${Deno.readLinkSync(path)}`
    : Deno.readTextFileSync(path);
}

Deno.test("Links.ensure() makes links beside the executable", async (t) => {
  const rows: [string, (folder: ConfFolder) => void, boolean, string][] = [
    ["where nothing is", () => {}, false, "-> t"],
    [
      "but not over a file",
      (folder) => folder.add("a", "other"),
      false,
      "other",
    ],
    [
      "over a file, if it is to",
      (folder) => folder.add("a", "other"),
      true,
      "-> t",
    ],
    [
      "but not over another link",
      (folder) => folder.addLink("a", "/bin/sh"),
      false,
      "-> /bin/sh",
    ],
    [
      "but not over a broken link",
      (folder) => folder.addLink("a", "x"),
      false,
      "-> x",
    ],
    [
      "over a broken link, if it is to",
      (folder) => folder.addLink("a", "x"),
      true,
      "-> t",
    ],
    [
      "but not over a hard link",
      ({ path }) => Deno.linkSync(`${path}/t`, `${path}/a`),
      true,
      "ours",
    ],
    [
      "whatever a crash has left",
      (folder) => folder.addLink("a.unfinished", "x"),
      false,
      "-> t",
    ],
  ];
  await eachRow(t, rows, ([, prepare, replacesOthers, expected]) => {
    using folder = new ConfFolder({ t: "ours" });
    prepare(folder);
    assertEquals(link(folder, replacesOthers).a, expected);
  });
});

Deno.test("Links.ensure() tells once of a file that it leaves alone", () => {
  using folder = new ConfFolder({ t: "ours", a: "other" });
  const { log } = link(folder);
  assertEquals(log.match(/left a plugin alone/g)?.length, 1);
});

Deno.test("Links.ensure() keeps the file that it replaced last", () => {
  using folder = new ConfFolder({ t: "ours", a: "first" });
  folder.addLink("b", "x");
  const options = {
    folder: folder.path,
    target: "t",
    links: ["a", "b", "c"],
    replacesOthers: true,
    kept: ".kept",
  };
  const links = new Links(options, createLog({}, () => {}));
  links.ensure();
  const kept = `${folder.path}/.kept`;
  assertEquals(readLink(`${kept}/a`), "first");
  assertEquals(readLink(`${kept}/b`), "-> x");
  // Another installer, which replaces the file instead of writing through it.
  folder.add("second", "second");
  Deno.renameSync(`${folder.path}/second`, `${folder.path}/a`);
  links.ensure();
  assertEquals(readLink(`${folder.path}/a`), "-> t");
  assertEquals(readLink(`${kept}/a`), "second");
  assertEquals([...Deno.readDirSync(kept)].length, 2);
});
