import { assertEquals } from "@std/assert";
import { findCpuModel } from "./machine.ts";
import { testRows } from "../../../tests/_harness/table.ts";

testRows(
  "findCpuModel() finds the name, or what arm64 has in its place",
  [
    [
      "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 7B13\n",
      "AMD EPYC 7B13",
    ],
    [
      "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
      "implementer 0x41, part 0xd0c",
    ],
    ["", "unknown"],
  ],
  ([text, model]: [string, string]) => assertEquals(findCpuModel(text), model),
  ([, model]) => model,
);
