import { assertEquals, assertThrows } from "@std/assert";
import { Assembler, expectFits } from "./assembler.ts";

/** Appends one byte that will hold the distance to a label. */
function emitDistance(assembler: Assembler, label: string): void {
  assembler.emitReference([0], label, (code, at, target) => {
    code.setInt8(at, target - at);
  });
}

Deno.test("Assembler fills in distances to labels before and behind", () => {
  const assembler = new Assembler(0x1000);
  assembler.label("start");
  emitDistance(assembler, "end");
  assembler.emit([0xaa]);
  emitDistance(assembler, "start");
  assembler.label("end");
  emitDistance(assembler, "elsewhere");
  assembler.label("elsewhere", 0x1010);
  assertEquals([...assembler.assemble()], [3, 0xaa, 0xfe, 13]);
});

Deno.test("Assembler.text() ends a text with a zero byte", () => {
  const assembler = new Assembler(0);
  assembler.text("greeting", "hi");
  assertEquals([...assembler.assemble()], [0x68, 0x69, 0]);
});

Deno.test("Assembler refuses a label that is missing or there twice", () => {
  const assembler = new Assembler(0);
  emitDistance(assembler, "nowhere");
  assertThrows(
    () => assembler.assemble(),
    Error,
    'Cannot find label "nowhere": it is not defined',
  );
  assembler.label("nowhere");
  assertThrows(
    () => assembler.label("nowhere"),
    Error,
    'Cannot define label "nowhere": it is defined already',
  );
});

Deno.test("expectFits() accepts the numbers of a field and no others", () => {
  for (const value of [-128, 0, 127]) expectFits("a byte", value, 8);
  for (const value of [-129, 128, 0.5, NaN]) {
    assertThrows(
      () => expectFits("a byte", value, 8),
      RangeError,
      `Cannot encode a byte: expected an integer from -128 to 127, found ${value}`,
    );
  }
});
