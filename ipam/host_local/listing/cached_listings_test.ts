import { assertEquals } from "@std/assert";
import { DirectoryWatches } from "../../../ffi/file/directory_watch.ts";
import { Ip } from "../../../net/ip.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { cacheListings } from "./open.ts";
import { LeaseStore } from "../store.ts";
import { DataDirectory } from "../testing.ts";

const OURS = { containerId: "ours", ifName: "eth0" };
const GOS = { containerId: "gos", ifName: "eth0" };
const ADDRESS = "10.1.0.2", OTHER = "10.1.0.3";

/** Keeps listings as the node daemon does, until disposal. */
function keep(): Disposable & { readonly count: () => number } {
  using stack = new DisposableStack();
  const watches = stack.use(new DirectoryWatches());
  let count = 0;
  stack.use(cacheListings((path) => {
    count++;
    return watches.watch(path);
  }));
  const all = stack.move();
  return { count: () => count, [Symbol.dispose]: () => all.dispose() };
}

async function leasesOf(
  { path }: DataDirectory,
  owner: typeof OURS,
): Promise<string[]> {
  using store = await LeaseStore.open(path, "mynet");
  return store.leasesOf(owner).map(({ ip }) => ip.toString());
}

async function reserve({ path }: DataDirectory, ip: string): Promise<boolean> {
  using store = await LeaseStore.open(path, "mynet");
  return store.reserve(Ip.parse(ip), OURS);
}

/** Changes of other programs, and the leases of both plugins afterwards. */
const FOREIGN: readonly [
  name: string,
  change: (directory: DataDirectory) => void,
  ours: readonly string[],
  gos: readonly string[],
][] = [
  ["nothing", () => {}, [ADDRESS], []],
  [
    "Go's ADD",
    (one) => one.plant({ [OTHER]: "gos\r\neth0" }),
    [ADDRESS],
    [OTHER],
  ],
  [
    "Go's DEL",
    (one) => Deno.removeSync(`${one.directoryOf()}/${ADDRESS}`),
    [],
    [],
  ],
  [
    "Go's DEL and ADD, of the same address",
    (one) => {
      Deno.removeSync(`${one.directoryOf()}/${ADDRESS}`);
      one.plant({ [ADDRESS]: "gos\r\neth0" });
    },
    [],
    [ADDRESS],
  ],
  [
    "another owner in the same file",
    (one) => one.plant({ [ADDRESS]: "gos\r\neth0" }),
    [],
    [ADDRESS],
  ],
  [
    "a file that replaces another",
    (one) => {
      const path = one.write("restored", "gos\r\neth0");
      Deno.renameSync(path, `${one.directoryOf()}/${ADDRESS}`);
    },
    [],
    [ADDRESS],
  ],
  [
    "a directory that is restored",
    (one) => {
      Deno.renameSync(one.directoryOf(), `${one.path}/away`);
      one.plant({ [OTHER]: "gos\r\neth0" });
    },
    [],
    [OTHER],
  ],
  [
    "a parent directory that is restored",
    (one) => {
      Deno.renameSync(one.path, `${one.path}.away`);
      Deno.mkdirSync(one.path);
      one.plant({ [OTHER]: "gos\r\neth0" });
      Deno.removeSync(`${one.path}.away`, { recursive: true });
    },
    [],
    [OTHER],
  ],
  [
    "a directory that is removed and made again",
    (one) => {
      Deno.removeSync(one.directoryOf(), { recursive: true });
      one.plant({ [OTHER]: "gos\r\neth0" });
    },
    [],
    [OTHER],
  ],
  [
    "an unfinished file of a killed process",
    (one) => one.plant({ unfinished: "gos\r\neth0" }),
    [ADDRESS],
    [],
  ],
];

Deno.test("host-local's cached listings follow changes by other programs", async (t) => {
  await eachRow(t, FOREIGN, async ([, change, ours, gos]) => {
    using directory = new DataDirectory();
    using _cached = keep();
    await reserve(directory, ADDRESS);
    assertEquals(await leasesOf(directory, OURS), [ADDRESS]);
    change(directory);
    assertEquals(await leasesOf(directory, OURS), ours);
    assertEquals(await leasesOf(directory, GOS), gos);
    const taken = [...ours, ...gos];
    assertEquals(await reserve(directory, OTHER), !taken.includes(OTHER));
    assertEquals(directory.read()["unfinished"], undefined);
  }, ([name]) => name);
});

Deno.test("host-local reads a directory once, and later only its changes", async () => {
  using directory = new DataDirectory();
  using cached = keep();
  for (let i = 2; i < 200; i++) await reserve(directory, `10.1.0.${i}`);
  assertEquals(cached.count(), 1);
  assertEquals((await leasesOf(directory, OURS)).length, 198);
});

Deno.test("host-local caches the listings of at most 64 directories", async () => {
  using cached = keep();
  using stack = new DisposableStack();
  const all = Array.from(
    { length: 70 },
    () => stack.use(new DataDirectory()),
  );
  for (const one of all) await reserve(one, ADDRESS);
  for (const one of all) {
    assertEquals(await leasesOf(one, OURS), [ADDRESS]);
  }
  assertEquals(cached.count(), 140, "the oldest ones are dropped");
});

Deno.test("host-local releases no lease because of a stale cached listing", async () => {
  using directory = new DataDirectory();
  // Follows nothing, as if the kernel had not told.
  using _cached = cacheListings(() => ({
    takeChanges: () => new Map(),
    [Symbol.dispose](): void {},
  }));
  await reserve(directory, ADDRESS);
  directory.plant({ [ADDRESS]: "gos\r\neth0" });
  assertEquals(await leasesOf(directory, OURS), []);
  assertEquals(await leasesOf(directory, GOS), [ADDRESS]);
});
