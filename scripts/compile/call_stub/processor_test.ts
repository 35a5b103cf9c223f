import { assertEquals, assertThrows } from "@std/assert";
import { eachRow } from "../../../tests/_harness/table.ts";
import { Arm64Processor } from "./aarch64.ts";
import type { Processor, Relation } from "./processor.ts";
import { makeProgram, ProgramFile, testMachines } from "./program_sample.ts";
import { X86Processor } from "./x86_64.ts";

/** Operations that leave a number in `a`, which is the exit status. */
const operations: [string, (p: Processor) => void, status: number][] = [
  ["number", (p) => p.number("a", 7), 7],
  ["number of 32 bits", (p) => {
    p.number("a", 0xffff_ffff);
    p.number("b", 0xffff_fff0);
    p.subtract("a", "b");
  }, 15],
  ["a number replaces all of a register", (p) => {
    p.number("a", 0xffff_ffff);
    p.number("a", 3);
  }, 3],
  ["move, also of the result", (p) => {
    p.number("result", 9);
    p.move("f", "result");
    p.move("e", "f");
    p.move("a", "e");
  }, 9],
  ["store and load in the frame", (p) => {
    p.number("b", 11);
    p.store("b", "frame", 8);
    p.number("b", 0);
    p.store("b", "frame", 16);
    p.load("a", "frame", 8);
  }, 11],
  ["store and load by each register", (p) => {
    for (const base of ["b", "c", "d", "e", "f"] as const) {
      p.frameAddress(base, 32);
      p.number("a", 13);
      p.store("a", base, 8);
      p.number("a", 0);
      p.load("a", base, 8);
    }
  }, 13],
  ["one byte", (p) => {
    for (const base of ["b", "c", "d", "e", "f"] as const) {
      p.frameAddress(base, 8);
      p.number("a", 0x10203);
      p.store("a", base, 0);
      p.addNumber(base, 1);
      p.number("a", 0x1aa);
      p.storeByte("a", base);
      p.addNumber(base, -1);
      p.load("a", base, 0);
      p.number(base, 0x1aa03);
      p.subtract("a", base);
    }
  }, 0],
  ["a byte fills all of a register", (p) => {
    p.labelAddress("b", "text");
    p.number("a", 0xffff_ffff);
    p.loadByte("a", "b");
  }, 0xc3],
  ["sums", (p) => {
    p.number("a", 100);
    p.number("c", 20);
    p.add("a", "c");
    p.addNumber("a", 4095);
    p.addNumber("a", -4090);
    p.subtract("a", "c");
  }, 105],
  ["shifts", (p) => {
    for (const register of ["a", "b", "c", "d", "e", "f"] as const) {
      p.number(register, 0x1234);
      p.shiftLeft(register, 32);
      p.shiftRight(register, 36);
      p.number("result", 0x100);
      p.subtract(register, "result");
    }
    for (const register of ["b", "c", "d", "e", "f"] as const) {
      p.subtract("a", register);
      p.add("a", register);
    }
  }, 0x23],
  ["bits that two numbers share", (p) => {
    for (const register of ["b", "c", "d", "e", "f"] as const) {
      p.number("a", 0xffff_ffee);
      p.number(register, 0x8000_003c);
      p.and("a", register);
      p.and(register, "a");
    }
    p.number("c", 0x8000_0000);
    p.subtract("a", "c");
  }, 0x2c],
  ["what a system call keeps", (p) => {
    const kept = ["a", "b", "c", "d", "e", "f"] as const;
    kept.forEach((register, index) => p.number(register, 1 << index));
    p.systemCall("close", 99);
    for (const register of kept.slice(1)) p.add("a", register);
  }, 63],
  ["six arguments, and memory of the kernel", (p) => {
    p.systemCall("mmap", 0, 4096, 3, 0x22, 0xffff_ffff, 0);
    p.move("b", "result");
    p.number("a", 21);
    p.store("a", "b", 4088);
    p.number("a", 0);
    p.load("a", "b", 4088);
    p.systemCall("munmap", "b", 4096);
  }, 21],
  ["addresses as arguments", (p) => {
    p.systemCall("memfd_create", { label: "text" }, 0);
    p.move("b", "result");
    p.number("a", 0x4241);
    p.store("a", "frame", 8);
    p.systemCall("write", "b", { frame: 8 }, 2);
    p.move("a", "result");
  }, 2],
  ["a failed system call", (p) => {
    p.number("a", 1);
    p.systemCall("close", 99);
    p.jumpIfNegative("result", "done");
    p.number("a", 2);
    p.label("done");
  }, 1],
  ["a system call that succeeds", (p) => {
    p.number("a", 1);
    p.systemCall("munmap", 0, 4096);
    p.jumpIfNegative("result", "done");
    p.number("a", 2);
    p.label("done");
  }, 2],
  ["a jump back", (p) => {
    p.number("a", 0);
    p.label("again");
    p.addNumber("a", 3);
    p.jumpIf("a", "<", 30, "again");
    p.jump("done");
    p.number("a", 1);
    p.label("done");
  }, 30],
];

const FRAME = 128, KEPT = 0;

/** Runs operations, and returns the exit status. */
async function runOperations(
  machine: Parameters<typeof makeProgram>[0],
  write: (p: Processor) => void,
): Promise<number> {
  const program = makeProgram(machine, (p, code) => {
    p.enter(FRAME, KEPT);
    write(p);
    p.systemCall("exit_group", "a");
    code.text("text", "é"); // c3, a9
  });
  await using file = new ProgramFile(machine, program);
  return (await file.run()).code;
}

testMachines("each operation does what it says", async (t, machine) => {
  await eachRow(t, operations, async ([, write, status]) => {
    assertEquals(await runOperations(machine, write), status);
  });
});

/** Numbers as they compare without a sign. */
const comparisons: [left: number, right: number][] = [
  [0, 0],
  [1, 2],
  [2, 1],
  [4095, 4095],
  [4096, 4095],
  [5000, 70_000],
  [70_000, 70_000],
  [0x7fff_ffff, 3],
];
const relations: Record<Relation, (left: number, right: number) => boolean> = {
  "==": (left, right) => left === right,
  "!=": (left, right) => left !== right,
  "<": (left, right) => left < right,
  ">=": (left, right) => left >= right,
};

testMachines("numbers compare without a sign", async (_, machine) => {
  const rows = comparisons.flatMap(([left, right]) =>
    Object.keys(relations).map((relation) =>
      [left, relation as Relation, right] as const
    )
  );
  for (const right of ["number", "register"]) {
    // One program for all: it ends with the number of the first wrong row.
    const status = await runOperations(machine, (p) => {
      rows.forEach(([left, relation, number], index) => {
        const isTrue = relations[relation](left, number);
        p.number("a", index + 1);
        p.number("b", left);
        p.number("c", number);
        p.jumpIf("b", relation, right === "number" ? number : "c", `${index}`);
        if (isTrue) p.jump("end");
        else p.jump(`${index} right`);
        p.label(`${index}`);
        if (!isTrue) p.jump("end");
        p.label(`${index} right`);
      });
      p.number("a", 0);
      p.label("end");
    });
    const [row] = status === 0 ? [] : rows.slice(status - 1);
    assertEquals(row, undefined, right);
  }
});

testMachines(
  "a negative number is large without a sign",
  async (_, machine) => {
    const status = await runOperations(machine, (p) => {
      p.number("a", 1);
      p.number("b", 0);
      p.addNumber("b", -1);
      p.jumpIf("b", "<", 4000, "end");
      p.number("a", 0);
      p.label("end");
    });
    assertEquals(status, 0);
  },
);

testMachines("leave() is the opposite of enter()", async (t, machine) => {
  const ways: readonly ((p: Processor) => void)[] = [
    (p) => p.leave(FRAME, KEPT, "there"),
    ...(["b", "c", "d", "e", "f"] as const).map((target) => (p: Processor) => {
      p.labelAddress(target, "there");
      p.leaveTo(FRAME, KEPT, target);
    }),
  ];
  for (const [index, leave] of ways.entries()) {
    await t.step(`way ${index + 1}`, async () => {
      // The stack of the new process begins with argc.
      const program = makeProgram(machine, (p) => {
        p.enter(FRAME, KEPT);
        p.number("a", 1);
        leave(p);
        p.systemCall("exit_group", "a");
        p.label("there");
        p.load("a", "frame", 0);
        p.systemCall("exit_group", "a");
      });
      await using file = new ProgramFile(machine, program);
      const { code } = await file.run({ args: ["1", "2", "3", "4"] });
      assertEquals(code, 5);
    });
  }
});

Deno.test("what has no encoding is refused", () => {
  for (const p of [new X86Processor(0), new Arm64Processor(0)]) {
    const args = Array.from({ length: 7 }, () => 0);
    assertThrows(() => p.systemCall("mmap", ...args), Error, "too many");
  }
});
