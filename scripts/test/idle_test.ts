import { assertEquals } from "@std/assert";
import { IdleMeter } from "./idle.ts";

/** Renders /proc/stat of two processors. */
function stat(ticks: string): string {
  return `cpu  ${ticks} 0 0\ncpu0 1 1\ncpu1 1 1\nintr 5\n`;
}

Deno.test("IdleMeter measures from one call to the next", () => {
  const texts = [
    stat("100 0 100 1000 0 0 0 0"),
    stat("110 1 104 1060 20 2 2 1"), // 80 of 100 are idle or wait for a disk
    stat("210 1 104 1060 20 2 2 1"),
    stat("210 1 104 1060 20 2 2 1"),
    "",
  ];
  const meter = new IdleMeter(() => texts.shift() ?? "");
  assertEquals([1, 2, 3, 4].map(() => meter.measure()), [1.6, 0, 0, 0]);
});

Deno.test("IdleMeter reads the machine's own", () => {
  const idle = new IdleMeter().measure();
  assertEquals(idle >= 0 && idle <= navigator.hardwareConcurrency, true);
});
