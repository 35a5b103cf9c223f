import { assert, assertEquals, assertThrows } from "@std/assert";
import { join } from "@std/path/posix";
import { FileLock } from "../files/lock.ts";
import { compressFiles, LogFile, type LogOptions } from "./rotated_file.ts";
import { testRows } from "../../tests/_harness/table.ts";

const MEGABYTE = 1 << 20;
const OPTIONS: LogOptions = {
  maxAgeDays: 5,
  maxSizeMegabytes: 1,
  maxBackups: 5,
  compress: true,
};

/** A log file in a directory of its own, on a clock that is set by hand. */
class Fixture implements Disposable {
  readonly directory: string = Deno.makeTempDirSync({ prefix: "multus-log-" });
  readonly path: string = join(this.directory, "multus.log");
  time = new Date("2024-05-01T10:00:00.000Z");

  open(options: Partial<LogOptions> = {}, path = this.path): LogFile {
    return new LogFile(path, { ...OPTIONS, ...options }, () => this.time);
  }

  /** Makes the file so large that a line does not fit any more. */
  fill(text = ""): void {
    const bytes = new TextEncoder().encode(text.padEnd(MEGABYTE));
    Deno.writeFileSync(this.path, bytes);
  }

  /** Puts a file beside the log; answers its path. */
  plant(name: string, text: string): string {
    const path = join(this.directory, name);
    Deno.writeTextFileSync(path, text, { mode: 0o600 });
    return path;
  }

  modeOf(name: string): number {
    return (Deno.statSync(join(this.directory, name)).mode ?? 0) & 0o777;
  }

  list(): string[] {
    return [...Deno.readDirSync(this.directory)].map(({ name }) => name).sort();
  }

  read(name = "multus.log"): string {
    return Deno.readTextFileSync(join(this.directory, name));
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.directory, { recursive: true });
  }
}

Deno.test("LogFile.append() appends lines, and creates the directory", () => {
  using fixture = new Fixture();
  const path = join(fixture.directory, "a", "b", "multus.log");
  const file = fixture.open({}, path);
  assertEquals([file.append("one\n"), file.append("två\n")], [false, false]);
  assertEquals(Deno.readTextFileSync(path), "one\ntvå\n");
  assertEquals((Deno.statSync(path).mode ?? 0) & 0o777, 0o600);
});

Deno.test("LogFile.append() rotates a full file", () => {
  using fixture = new Fixture();
  fixture.fill("old");
  const file = fixture.open();
  assertEquals([file.append("one\n"), file.append("two\n")], [true, false]);
  assertEquals(fixture.read(), "one\ntwo\n");
  const backup = "multus-2024-05-01T10-00-00.000.log";
  assertEquals(fixture.list(), [backup, "multus.log"]);
  assertEquals(fixture.read(backup).trimEnd(), "old");
  assertEquals(file.listUncompressed(), [join(fixture.directory, backup)]);
});

Deno.test("LogFile.append() fills a file to its limit", () => {
  using fixture = new Fixture();
  Deno.writeFileSync(fixture.path, new Uint8Array(MEGABYTE - 4));
  assertEquals(fixture.open().append("one\n"), false);
  assertEquals(fixture.open().append("\n"), true);
});

Deno.test("LogFile.append() writes a line that is larger than the limit", () => {
  using fixture = new Fixture();
  const line = `${"x".repeat(MEGABYTE)}\n`;
  assertEquals(fixture.open().append(line), false);
  assertEquals(fixture.read(), line);
});

Deno.test("LogFile.append() uses 100 MiB without a limit", () => {
  using fixture = new Fixture();
  const file = fixture.open({ maxSizeMegabytes: 0 });
  Deno.writeTextFileSync(fixture.path, "");
  Deno.truncateSync(fixture.path, 100 * MEGABYTE - 1);
  assertEquals([file.append("\n"), file.append("\n")], [false, true]);
});

Deno.test("LogFile.append() gives files of the same time different names", () => {
  using fixture = new Fixture();
  const file = fixture.open();
  for (let number = 0; number < 3; number++) {
    fixture.fill();
    file.append("line\n");
  }
  assertEquals(fixture.list(), [
    "multus-2024-05-01T10-00-00.000.log",
    "multus-2024-05-01T10-00-00.001.log",
    "multus-2024-05-01T10-00-00.002.log",
    "multus.log",
  ]);
});

/** Files that were set aside, newest first, and some that were not. */
const DIRECTORY = [
  "multus-2024-05-01T09-00-00.000.log",
  "multus-2024-04-30T09-00-00.000.log.gz",
  "multus-2024-04-29T09-00-00.000.log",
  "multus-2024-04-29T09-00-00.000.log.gz",
  "multus-2024-04-20T09-00-00.000.log.gz",
  "multus-2024.log",
  "multus-daemon-2024-01-01T09-00-00.000.log",
  "other-2024-01-01T09-00-00.000.log",
];
const NEW = "multus-2024-05-01T10-00-00.000.log";

testRows("LogFile.append() removes old files when it rotates", [
  ["too many", { maxBackups: 3, maxAgeDays: 0 }, [2, 3, 4]],
  ["too old", { maxBackups: 0, maxAgeDays: 5 }, [4]],
  ["either", { maxBackups: 2, maxAgeDays: 1 }, [1, 2, 3, 4]],
  ["no limits", { maxBackups: 0, maxAgeDays: 0 }, []],
], ([, options, removed]: [string, Partial<LogOptions>, number[]]) => {
  using fixture = new Fixture();
  for (const file of DIRECTORY) fixture.plant(file, "");
  fixture.fill();
  fixture.open(options).append("line\n");
  const kept = DIRECTORY.filter((_, index) => !removed.includes(index));
  assertEquals(fixture.list(), [...kept, NEW, "multus.log"].sort());
});

Deno.test("LogFile.append() names files without extension", () => {
  using fixture = new Fixture();
  const path = join(fixture.directory, "log");
  Deno.writeFileSync(path, new Uint8Array(MEGABYTE));
  fixture.open({}, path).append("line\n");
  assertEquals(fixture.list(), ["log", "log-2024-05-01T10-00-00.000"]);
});

Deno.test("LogFile.append() leaves the rotation to another process", async () => {
  using fixture = new Fixture();
  fixture.fill();
  using _lock = await FileLock.acquireExisting(fixture.path);
  assertEquals(fixture.open().append("line\n"), false);
  assertEquals(fixture.list(), ["multus.log"]);
  assertEquals(fixture.read().endsWith("line\n"), true);
});

Deno.test("LogFile.append() neither waits for the reader of a pipe nor rotates it", () => {
  using fixture = new Fixture();
  const made = new Deno.Command("mkfifo", { args: [fixture.path] })
    .outputSync();
  assert(made.success);
  assertEquals(fixture.open().append("line\n"), false);
  assertEquals(fixture.list(), ["multus.log"]);
});

Deno.test("LogFile.append() fails if the file is not writable", () => {
  using fixture = new Fixture();
  Deno.mkdirSync(fixture.path);
  assertThrows(() => fixture.open().append("line\n"), Error);
});

const WRITERS = 4, LINES = 400;

Deno.test("LogFile.append() loses and mixes no lines of several processes", async () => {
  using fixture = new Fixture();
  const module = new URL("./rotated_file.ts", import.meta.url).href;
  const config = new URL(
    "../../scripts/offline/import_map.json",
    import.meta.url,
  );
  const script = (writer: number): string =>
    `import { LogFile } from ${JSON.stringify(module)};
    const options = ${
      JSON.stringify({ ...OPTIONS, maxBackups: 0, maxAgeDays: 0 })
    };
    const file = new LogFile(${JSON.stringify(fixture.path)}, options);
    for (let n = 0; n < ${LINES}; n++) {
      file.append(\`${writer} \${n} \${"x".repeat(4000)}\\n\`);
    }`;
  const writers = Array.from({ length: WRITERS }, async (_, writer) => {
    const path = join(fixture.directory, `writer${writer}.ts`);
    await Deno.writeTextFile(path, script(writer));
    return await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "-A",
        "--no-check",
        "--no-remote",
        `--import-map=${config.pathname}`,
        path,
      ],
      stdout: "null",
    }).output();
  });
  for (const { success, stderr } of await Promise.all(writers)) {
    assert(success, new TextDecoder().decode(stderr));
  }
  const logs = fixture.list().filter((name) => name.endsWith(".log"));
  assert(logs.length > 3, String(logs));
  const lines = logs.flatMap((name) => fixture.read(name).split("\n"))
    .filter((line) => line !== "");
  const broken = lines.filter((line) => !/^\d \d+ x{4000}$/.test(line));
  assertEquals([lines.length, broken], [WRITERS * LINES, []]);
  assertEquals(new Set(lines).size, WRITERS * LINES);
});

Deno.test("LogFile.listUncompressed() lists nothing without compression", () => {
  using fixture = new Fixture();
  const path = fixture.plant(NEW, "");
  assertEquals(fixture.open().listUncompressed(), [path]);
  assertEquals(fixture.open({ compress: false }).listUncompressed(), []);
});

async function gunzip(path: string): Promise<string> {
  using file = await Deno.open(path);
  const stream = file.readable.pipeThrough(new DecompressionStream("gzip"));
  return await new Response(stream).text();
}

Deno.test("compressFiles() replaces files by gzipped ones", async () => {
  using fixture = new Fixture();
  const path = fixture.plant(NEW, "line\n".repeat(100_000));
  // As of one who was interrupted.
  fixture.plant(`${NEW}.gz`, "x".repeat(10_000));
  await compressFiles([path, join(fixture.directory, "missing.log")]);
  assertEquals(fixture.list(), [`${NEW}.gz`]);
  assertEquals(await gunzip(`${path}.gz`), "line\n".repeat(100_000));
  assertEquals(fixture.modeOf(`${NEW}.gz`), 0o600);
});

Deno.test("compressFiles() skips a file that another process compresses", async () => {
  using fixture = new Fixture();
  const path = fixture.plant(NEW, "line\n");
  using _lock = await FileLock.acquireExisting(path);
  await compressFiles([path]);
  assertEquals(fixture.list(), [NEW]);
});
