import { assertEquals } from "@std/assert";
import { findHolders } from "./lock_holders.ts";
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
