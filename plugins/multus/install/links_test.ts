import { assertEquals } from "@std/assert";
import { createLog } from "../../../base/log/log.ts";
import { ConfDirectory } from "../../../tests/_harness/conf_directory.ts";
import { Links } from "./links.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** Creates links `a` and `b` in a directory; returns the result at `a`. */
function link(
  directory: ConfDirectory,
  replacesOthers = false,
): { a: string; log: string } {
  let log = "";
  const links = new Links(
    {
      directory: directory.path,
      target: "t",
      links: ["a", "b"],
      replacesOthers,
    },
    createLog({}, (line) => log += line),
  );
  links.ensure();
  links.ensure();
  assertEquals(Deno.readTextFileSync(`${directory.path}/b`), "ours");
  return { a: readLink(`${directory.path}/a`), log };
}

function readLink(path: string): string {
  const { isSymlink } = Deno.lstatSync(path);
  return isSymlink
    ? `-> ${Deno.readLinkSync(path)}`
    : Deno.readTextFileSync(path);
}

Deno.test("Links.ensure() makes links beside the executable", async (t) => {
  const rows: [string, (directory: ConfDirectory) => void, boolean, string][] =
    [
      ["where nothing is", () => {}, false, "-> t"],
      [
        "but not over a file",
        (directory) => directory.add("a", "other"),
        false,
        "other",
      ],
      [
        "over a file, if it is to",
        (directory) => directory.add("a", "other"),
        true,
        "-> t",
      ],
      [
        "but not over another link",
        (directory) => directory.addLink("a", "/bin/sh"),
        false,
        "-> /bin/sh",
      ],
      [
        "but not over a broken link",
        (directory) => directory.addLink("a", "x"),
        false,
        "-> x",
      ],
      [
        "over a broken link, if it is to",
        (directory) => directory.addLink("a", "x"),
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
        (directory) => directory.addLink("a.unfinished", "x"),
        false,
        "-> t",
      ],
    ];
  await eachRow(t, rows, ([, prepare, replacesOthers, expected]) => {
    using directory = new ConfDirectory({ t: "ours" });
    prepare(directory);
    assertEquals(link(directory, replacesOthers).a, expected);
  });
});

Deno.test("Links.ensure() tells once of a file that it leaves alone", () => {
  using directory = new ConfDirectory({ t: "ours", a: "other" });
  const { log } = link(directory);
  assertEquals(log.match(/left a plugin alone/g)?.length, 1);
});

Deno.test("Links.ensure() keeps the file that it replaced last", () => {
  using directory = new ConfDirectory({ t: "ours", a: "first" });
  directory.addLink("b", "x");
  const options = {
    directory: directory.path,
    target: "t",
    links: ["a", "b", "c"],
    replacesOthers: true,
    kept: ".kept",
  };
  const links = new Links(options, createLog({}, () => {}));
  links.ensure();
  const kept = `${directory.path}/.kept`;
  assertEquals(readLink(`${kept}/a`), "first");
  assertEquals(readLink(`${kept}/b`), "-> x");
  // Another installer, which replaces the file instead of writing through it.
  directory.add("second", "second");
  Deno.renameSync(`${directory.path}/second`, `${directory.path}/a`);
  links.ensure();
  assertEquals(readLink(`${directory.path}/a`), "-> t");
  assertEquals(readLink(`${kept}/a`), "second");
  assertEquals([...Deno.readDirSync(kept)].length, 2);
});
