import { assertEquals } from "@std/assert";
import { findHolders, findLockHolders, HoldLimit } from "./lock_holders.ts";
import { eachRow } from "../../tests/_harness/table.ts";

Deno.test("findHolders() reads /proc/locks", async (t) => {
  const locks = `1: FLOCK  ADVISORY  WRITE 3912 fe:00:131090 0 EOF
1: -> FLOCK  ADVISORY  WRITE 3913 fe:00:131090 0 EOF
2: POSIX  ADVISORY  WRITE 5 fe:00:131090 0 EOF
3: FLOCK  ADVISORY  READ 11 00:1a:77 0 EOF
4: FLOCK  ADVISORY  READ 12 00:1a:77 0 EOF
5: FLOCK  ADVISORY  WRITE 0 103:00abc:9 0 EOF
6: FLOCK  ADVISORY  WRITE 14 00:1b:131090 0 EOF
`;
  const rows: [name: string, dev: number, ino: number, want: number[]][] = [
    ["one of several file systems", 0xfe00, 131090, [3912]],
    ["shared", 0x1a, 77, [11, 12]],
    // 259:2748: more digits than eight bits on both sides.
    ["of another PID namespace", 0xa103bc, 9, [0]],
    ["another device number than stat(2) has", 0x99, 77, [11, 12]],
    ["another file", 0xfe00, 1, []],
  ];
  await eachRow(
    t,
    rows,
    ([, dev, ino, want]) =>
      assertEquals(findHolders(locks, { dev, ino }), want),
  );
});

/** Locks and unlocks files of a directory until it is terminated. */
const LOCKER = `self.onmessage = ({ data: directory }) => {
  const files = Array.from({ length: 20 }, (_, i) =>
    Deno.openSync(directory + "/" + i, { create: true, write: true }));
  files.forEach((file) => file.lockSync(true));
  self.postMessage("locked");
  for (;;) {
    files.forEach((file) => file.unlockSync());
    files.forEach((file) => file.lockSync(true));
  }
};`;

Deno.test("findLockHolders() finds a lock while others come and go", async () => {
  const directory = await Deno.makeTempDir();
  using stack = new DisposableStack();
  stack.defer(() => Deno.removeSync(directory, { recursive: true }));
  const options = { create: true, write: true };
  const file = stack.use(await Deno.open(`${directory}/held`, options));
  file.lockSync(true);
  const url = `data:text/javascript,${encodeURIComponent(LOCKER)}`;
  const locker = new Worker(url, { type: "module" });
  stack.defer(() => locker.terminate());
  const { promise, resolve } = Promise.withResolvers<unknown>();
  locker.onmessage = resolve;
  locker.postMessage(directory);
  await promise;
  const info = file.statSync();
  for (let i = 0; i < 500; i++) {
    assertEquals(findLockHolders(info).map(({ pid }) => pid), [Deno.pid]);
  }
});

Deno.test("HoldLimit ends if a lock does not change hands", () => {
  const holdLimit = new HoldLimit(60);
  const left = ["a", "a", "b", "b", "a", "a", "a", "a"].map((holder) => {
    holdLimit.record(holder, 20);
    return holdLimit.leftMs;
  });
  assertEquals(left, [40, 20, 60, 40, 60, 40, 20, 0]);
});
