import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../../testing/capabilities.ts";
import { measureKernelRequests } from "./kernel_requests.ts";

rootTest("measureKernelRequests() measures the requests of ADD and DEL", () => {
  const { series } = measureKernelRequests({
    rounds: { warmUp: 1, single: 3, batch: 1, peak: 1 },
    progress: () => {},
  });
  assertEquals(series.map(({ step, who }) => `${step} ${who}`), [
    "ADD kernel",
    "DEL kernel",
  ]);
  for (const { values: { wallMs = [], cpuMs = [] } } of series) {
    assertEquals([wallMs.length, cpuMs.length], [3, 3]);
    assert([...wallMs, ...cpuMs].every((value) => value > 0));
  }
});
