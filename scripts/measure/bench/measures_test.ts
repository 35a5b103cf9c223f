import { assertEquals } from "@std/assert";
import { combineMeasures } from "./measures.ts";

Deno.test("combineMeasures() adds up all but peaks", () => {
  const steps = [
    { wallMs: 1, cpuMs: 2, peakKib: 30, execs: 1, syscalls: 100 },
    { wallMs: 10, cpuMs: 20, peakKib: 20, execs: 2, syscalls: 50 },
  ];
  assertEquals(combineMeasures(steps), {
    wallMs: 11,
    cpuMs: 22,
    peakKib: 30,
    execs: 3,
    syscalls: 150,
  });
});

Deno.test("combineMeasures() leaves out what was not measured", () => {
  assertEquals(combineMeasures([{ peakKib: 1 }, { peakKib: 2 }]), {
    peakKib: 2,
  });
  assertEquals(combineMeasures([]), {});
});
