import { assert, assertEquals } from "@std/assert";
import { eachRow } from "../../tests/_harness/table.ts";
import { DirectoryWatches } from "./directory_watch.ts";

/** A directory that is watched, with a file `old` from before. */
class Watched implements Disposable {
  readonly path = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly #watches = new DirectoryWatches();
  readonly watch;

  constructor() {
    this.write("old", "1");
    const watch = this.#watches.watch(this.path);
    assert(watch !== undefined);
    this.watch = watch;
  }

  at(name: string): string {
    return `${this.path}/${name}`;
  }

  write(name: string, text: string): void {
    Deno.writeTextFileSync(this.at(name), text);
  }

  [Symbol.dispose](): void {
    this.#watches[Symbol.dispose]();
    Deno.removeSync(this.path, { recursive: true });
  }
}

const ROWS: readonly [
  name: string,
  change: (watched: Watched) => void,
  changes: Readonly<Record<string, boolean>>,
][] = [
  ["nothing", () => {}, {}],
  ["a new file", (one) => one.write("new", ""), { new: true }],
  ["another content", (one) => one.write("old", "2"), { old: true }],
  ["a hard link", (one) => Deno.linkSync(one.at("old"), one.at("2")), {
    2: true,
  }],
  ["a symbolic link", (one) => Deno.symlinkSync("to", one.at("link")), {
    link: true,
  }],
  ["a removal", (one) => Deno.removeSync(one.at("old")), { old: false }],
  ["another name", (one) => Deno.renameSync(one.at("old"), one.at("new")), {
    old: false,
    new: true,
  }],
  ["a removal and a new file", (one) => {
    Deno.removeSync(one.at("old"));
    one.write("old", "");
  }, { old: true }],
  [
    "many names",
    (one) => {
      for (let i = 0; i < 1000; i++) one.write(`file${i}`, "");
    },
    Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [
      `file${i}`,
      true,
    ])),
  ],
];

Deno.test("DirectoryWatch.takeChanges() knows what other programs do", async (t) => {
  await eachRow(t, ROWS, ([, change, changes]) => {
    using watched = new Watched();
    change(watched);
    const found = watched.watch.takeChanges();
    assertEquals(Object.fromEntries(found ?? []), changes);
    assertEquals(watched.watch.takeChanges(), new Map());
  }, ([name]) => name);
});

Deno.test("DirectoryWatch.takeChanges() says that changes are lost", async (t) => {
  const rows: [name: string, change: (watched: Watched) => void][] = [
    ["the directory is removed", ({ path }): void => {
      Deno.removeSync(path, { recursive: true });
      Deno.mkdirSync(path);
    }],
    ["too many changes", (one): void => {
      const limit = Number(
        Deno.readTextFileSync("/proc/sys/fs/inotify/max_queued_events"),
      );
      // The kernel joins equal events that follow each other.
      for (let i = 0; i <= limit / 2; i++) {
        one.write("a", "1");
        one.write("b", "1");
      }
    }],
    ["the watch has ended", ({ watch }) => watch[Symbol.dispose]()],
  ];
  await eachRow(t, rows, ([, change]) => {
    using watched = new Watched();
    change(watched);
    assertEquals(watched.watch.takeChanges(), undefined);
    watched.write("new", "");
    assertEquals(watched.watch.takeChanges(), undefined);
  }, ([name]) => name);
});

Deno.test("DirectoryWatches keep two directories apart", () => {
  using one = new Watched();
  const path = Deno.makeTempDirSync({ prefix: "cni-test-" });
  using watches = new DirectoryWatches();
  const [first, second] = [one.path, path].map((path) => watches.watch(path));
  one.write("here", "");
  Deno.writeTextFileSync(`${path}/there`, "");
  assertEquals(second?.takeChanges(), new Map([["there", true]]));
  assertEquals(first?.takeChanges(), new Map([["here", true]]));
  Deno.removeSync(path, { recursive: true });
});

Deno.test("DirectoryWatches.watch() refuses what it cannot follow", () => {
  using watches = new DirectoryWatches();
  // What is in /proc changes without events, as on other machines' file systems.
  assertEquals(watches.watch("/proc/self/fd"), undefined);
  assertEquals(watches.watch("/nonexistent"), undefined);
  assertEquals(watches.watch("/dev/null"), undefined);
});
