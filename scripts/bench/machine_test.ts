import { assertEquals } from "@std/assert";
import { findCpuModel } from "./machine.ts";
import { eachRow } from "../../tests/_harness/table.ts";

Deno.test("findCpuModel() finds the name, or what arm64 has in its place", async (t) => {
  const rows: [text: string, model: string][] = [
    [
      "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 7B13\n",
      "AMD EPYC 7B13",
    ],
    [
      "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
      "implementer 0x41, part 0xd0c",
    ],
    ["", "unknown"],
  ];
  await eachRow(
    t,
    rows,
    ([text, model]) => assertEquals(findCpuModel(text), model),
    ([, model]) => model,
  );
});
