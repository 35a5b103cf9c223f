import { assert, assertEquals, assertThrows } from "@std/assert";
import { FakeDaemon } from "../../tests/_harness/unix_server.ts";
import { makeSampleElf, SAMPLE_ENTRY } from "../mkdenort/testing/sample_elf.ts";
import { type Machine, parseElf, SegmentField } from "../mkdenort/elf.ts";
import { prelink } from "../prelink/prelink.ts";
import { MACHINES } from "../launcher/objects.ts";
import { ProgramFile } from "../launcher/testing.ts";
import { attachCallStub, makeCallStub } from "./call_stub.ts";

const BUILD = "b".repeat(64);
const PT_LOAD = 1, PT_DYNAMIC = 2, PT_NOTE = 4, PT_PHDR = 6;

function makeSample(machine: Machine): Uint8Array<ArrayBuffer> {
  return makeSampleElf({
    machine: machine === "x86_64" ? 62 : 183,
    segmentTypes: [PT_PHDR, PT_LOAD, PT_LOAD, PT_DYNAMIC, PT_NOTE],
  });
}

Deno.test("attachCallStub() adds a segment, which has the program headers", () => {
  for (const machine of MACHINES) {
    const before = parseElf(makeSample(machine));
    const bytes = attachCallStub(before.bytes, BUILD);
    const { segments, entry, pageSize } = parseElf(bytes);
    assertEquals(
      segments.map(({ type }) => type),
      [PT_PHDR, PT_LOAD, PT_LOAD, PT_LOAD, PT_DYNAMIC, PT_NOTE],
    );
    const [headers, , , added] = segments;
    assert(headers !== undefined && added !== undefined);
    assertEquals(added.address, entry);
    assertEquals(added.address, added.fileOffset);
    assertEquals(added.address % pageSize, 0);
    assertEquals(added.fileOffset + added.fileSize, bytes.length);
    assertEquals(added.memorySize, added.fileSize);
    // The headers are where their segment says that they are.
    assertEquals(headers.fileOffset, segments[0]?.headerOffset);
    assertEquals(headers.address, headers.fileOffset);
    assertEquals(headers.fileSize, segments.length * 56);
    // All else is as it was.
    const others = segments.filter((segment) =>
      segment !== added && segment !== headers
    );
    const rest = before.segments.slice(1);
    assertEquals(
      others.map(({ headerOffset: _, ...other }) => other),
      rest.map(({ headerOffset: _, ...other }) => other),
    );
    const code = makeCallStub(machine, SAMPLE_ENTRY - entry, BUILD);
    assertEquals(bytes.slice(entry, entry + code.length), code);
  }
});

Deno.test("attachCallStub() always gives the same, and changes nothing", () => {
  for (const machine of MACHINES) {
    const sample = makeSample(machine);
    const [one, two] = [1, 2].map(() => attachCallStub(sample, BUILD));
    assertEquals(one, two);
    assertEquals(sample, makeSample(machine));
  }
});

Deno.test("attachCallStub() refuses what does not begin at address 0", () => {
  const sample = makeSample("x86_64");
  const first = parseElf(sample).segments[1];
  assert(first !== undefined);
  new DataView(sample.buffer)
    .setBigUint64(first.headerOffset + SegmentField.address, 0x1000n, true);
  assertThrows(
    () => attachCallStub(sample, BUILD),
    Error,
    "expected the first segment at its offset in the file",
  );
  assertThrows(() => attachCallStub(new Uint8Array(64), BUILD));
});

Deno.test("an ordinary deno starts behind the stub", async () => {
  // Its headers are those of a denort: with notes, RELRO and an interpreter.
  await using daemon = new FakeDaemon(({ say }) =>
    say({ stdout: "by daemon", exitCode: 0 })
  );
  const deno = await Deno.readFile(Deno.execPath());
  const machine = Deno.build.arch;
  for (const isPrelinked of [false, true]) {
    const bytes = attachCallStub(deno, BUILD);
    await using file = new ProgramFile(
      machine,
      isPrelinked ? prelink(bytes) : bytes,
    );
    const version = await file.run({ args: ["--version"] });
    assertEquals(version.stdout.slice(0, 5), "deno ", version.stderr);
    const call = {
      stdin: JSON.stringify({ daemonSocket: daemon.path }),
      env: { CNI_COMMAND: "STATUS", CNI_PATH: "/x" },
    };
    assertEquals((await file.run(call)).stdout, "by daemon");
  }
  assertEquals(daemon.requests.map(({ build }) => build), [BUILD, BUILD]);
});
