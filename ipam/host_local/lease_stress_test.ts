/**
 * host-local where it is hard: many processes at a time, processes that are
 * killed, disks that are full, directories with thousands of leases.
 *
 * @module
 */

import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { join } from "@std/path/posix";
import type { Environment } from "../../base/process/environment.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { eachAtOnce, howOften } from "../../tests/_harness/repetition.ts";
import {
  allOf,
  canUseNetns,
  goPlugin,
  hasCommand,
  ignoreUnless,
  type Needs,
  type TestHeader,
} from "../../testing/capabilities.ts";
import {
  addressesOf,
  assertFailure,
  assertSuccess,
  DataDirectory,
  Disk,
  type Output,
  ownProgram,
  type Run,
  runAs,
  runInProcess,
  spawn,
} from "./testing.ts";
import { needsBin } from "../../tests/_harness/executables.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** How many of them start and stop; there are a thousand addresses. */
const CONTAINERS = Math.min(howOften(80), 900);

const needsRoot = ignoreUnless(
  canUseNetns && hasCommand("nsenter"),
  "needs root",
);
const needsSetpriv = ignoreUnless(hasCommand("setpriv"), "needs setpriv");
const needsStrace = ignoreUnless(hasCommand("strace"), "needs strace");

/** Returns the header of a test that needs the executables, and maybe more. */
function stress(
  name: string,
  ...others: readonly Needs[]
): TestHeader {
  const { ignore, suffix } = allOf(needsBin, ...others);
  return { name: `host-local ${name}${suffix}`, ignore };
}

/** Our program, and Go's as the second if there is one. */
const program = await ownProgram();
const ours = runAs(program);
const go = goPlugin("host-local");
const others = go === undefined ? ours : runAs([go]);

/** An attachment: half of them are ours, half are Go's. */
interface Attachment {
  readonly id: string;
  readonly own: Run;
  readonly other: Run;
}

function attachment(_: unknown, i: number): Attachment {
  const [own, other] = i % 2 === 0 ? [ours, others] : [others, ours];
  return { id: `container${i}`, own, other };
}

/** Returns the configuration of a network with a thousand addresses. */
function thousandAddresses(directory: DataDirectory): JsonObject {
  // Which Debian's Go plugins know.
  return directory.config({ subnet: "10.1.0.0/22" }, { cniVersion: "1.0.0" });
}

Deno.test({
  ...stress(
    `gives ${CONTAINERS} containers, 16 at a time, an address each${
      go === undefined ? "" : ", half of them by Go's"
    }`,
  ),
  fn: async (t) => {
    using directory = new DataDirectory();
    const config = thousandAddresses(directory);
    const all = Array.from({ length: CONTAINERS }, attachment);
    const isBrief = ({ id }: Attachment): boolean => id.endsWith("3");
    const leased = new Map<string, string>();

    await t.step("ADD, and DEL of some by the other program", async () => {
      await eachAtOnce(all, 16, async (one) => {
        const env = { CNI_CONTAINERID: one.id };
        const [address = ""] = addressesOf(await one.own("ADD", config, env));
        if (isBrief(one)) assertSuccess(await one.other("DEL", config, env));
        else leased.set(address.split("/")[0] ?? "", `${one.id}\r\neth0`);
      });
      const lasting = all.filter((one) => !isBrief(one));
      assertEquals(leased.size, lasting.length, "an address was given twice");
      assertEquals(directory.leases(), Object.fromEntries(leased));
    });
    await t.step("DEL of all by the other program", async () => {
      await eachAtOnce(all, 16, async ({ id, other }) => {
        const env = { CNI_CONTAINERID: id };
        assertSuccess(await other("DEL", config, env));
      });
      assertEquals(directory.leases(), {});
    });
  },
});

/**
 * Runs commands of containers, and kills some at a random moment. Moments lie
 * within what the last calls took here, beside whatever else was going on.
 */
class Killer {
  readonly #config: JsonObject;
  /** How long calls took that were not killed, in milliseconds. */
  readonly #durations: number[] = [];
  /** How many calls were killed. */
  killed = 0;

  constructor(config: JsonObject) {
    this.#config = config;
  }

  /** Runs a command to its end. */
  async run(command: string, id: string): Promise<string> {
    const startMs = performance.now();
    const child = await this.#spawn(command, id);
    const { stdout, success } = await child.output();
    assert(success, `${command} of ${id} failed`);
    this.#durations.push(performance.now() - startMs);
    return new TextDecoder().decode(stdout);
  }

  /** Runs a command and kills it; answers "" unless it was quicker. */
  async runAndKill(command: string, id: string): Promise<string> {
    const lately = this.#durations.slice(-12);
    const afterMs = Math.random() * Math.max(...lately);
    const child = await this.#spawn(command, id);
    const timer = setTimeout(() => {
      try {
        child.kill("SIGKILL");
      } catch {
        // It was quicker.
      }
    }, afterMs);
    const { stdout, success, signal } = await child.output();
    clearTimeout(timer);
    if (signal === "SIGKILL") this.killed++;
    else assert(success, `${command} of ${id} failed`);
    return success ? new TextDecoder().decode(stdout) : "";
  }

  #spawn(command: string, id: string): Promise<Deno.ChildProcess> {
    return spawn(program, command, this.#config, { CNI_CONTAINERID: id });
  }
}

/** Asserts that a directory holds whole leases only, and brings it to these by GC. */
async function assertCollectable(
  directory: DataDirectory,
  config: JsonObject,
  valid: ReadonlyMap<string, string>,
): Promise<void> {
  const leases = directory.leases();
  for (const [address, content] of Object.entries(leases)) {
    assert(/^container\d+\r\neth0$/.test(content), `${address}: ${content}`);
  }
  for (const [address, id] of valid) {
    assertEquals(leases[address], `${id}\r\neth0`, address);
  }
  const attachments = [...valid.values()]
    .map((containerID) => ({ containerID, ifname: "eth0" }));
  assertSuccess(
    await ours("GC", {
      ...config,
      cniVersion: "1.1.0",
      "cni.dev/valid-attachments": attachments,
    }),
  );
  assertEquals(
    Object.keys(directory.leases()).sort(),
    [...valid.keys()].sort(),
  );
}

Deno.test({
  ...stress("survives kills at random"),
  fn: async (t) => {
    using directory = new DataDirectory();
    // As the Go plugin leaves them when it is killed.
    const empty = { "10.1.0.5": "", "10.1.0.6": "" };
    directory.plant(empty);
    const config = thousandAddresses(directory);
    const ids = Array.from({ length: CONTAINERS }, (_, i) => `container${i}`);
    const valid = new Map<string, string>();

    const killer = new Killer(config);
    const keep = (added: string, id: string): string => {
      const [{ address }] = JSON.parse(added).ips;
      const ip = address.split("/")[0];
      assertEquals(valid.get(ip), undefined, "an address was given twice");
      valid.set(ip, id);
      return ip;
    };

    await t.step("a third of the ADDs run as a measurement", async () => {
      const brief = ids.filter((_, i) => i % 3 === 0);
      await eachAtOnce(brief, 6, async (id) => {
        keep(await killer.run("ADD", id), id);
      });
    });
    await t.step("most of the other ADDs and DELs are killed", async () => {
      const others = ids.filter((_, i) => i % 3 !== 0);
      await eachAtOnce(others, 6, async (id) => {
        const added = await killer.runAndKill("ADD", id);
        if (added === "") return void await killer.runAndKill("DEL", id);
        const ip = keep(added, id);
        if (Math.random() < 0.5) return;
        valid.delete(ip);
        await killer.runAndKill("DEL", id);
        // So that the measure is of now, not of the beginning.
        await killer.run("DEL", id);
      });
      assert(killer.killed > 0, "no call was killed");
    });
    await t.step("the addresses of empty files are used again", () => {
      for (const address of Object.keys(empty)) {
        assert(directory.leases()[address] !== "", address);
      }
    });
    await t.step(
      "GC keeps the leases of valid attachments",
      () => assertCollectable(directory, config, valid),
    );
    await t.step("every remaining container gets an address", async () => {
      const attached = new Set(valid.values());
      for (const id of ids.filter((id) => !attached.has(id))) {
        addressesOf(await runInProcess("ADD", config, { CNI_CONTAINERID: id }));
      }
      assertEquals(Object.keys(directory.leases()).length, ids.length);
    });
  },
});

/** A system call, and the how many-th of its kind; on which path. */
type Moment = [path: string, call: string, nth: number];

/** Kills a call of our plugin when it is about to make a system call. */
async function runAndKillAt(
  [path, call, nth]: Moment,
  command: string,
  config: JsonObject,
  env?: Environment,
): Promise<void> {
  const strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", path];
  const inject = `inject=${call}:signal=SIGKILL:when=${nth}`;
  const traced = [...strace, "-e", `trace=${call}`, "-e", inject, ...program];
  const child = await spawn(traced, command, config, env);
  const { signal, code } = await child.output();
  assert(signal === "SIGKILL" || code === 137, `it was not killed: ${code}`);
}

/** Creates a directory so large that it has an index. */
async function plantLarge(
  directory: DataDirectory,
  config: JsonObject,
): Promise<void> {
  const leases = Array.from({ length: 600 }, (_, i) => [
    `10.1.${1 + (i >> 8)}.${i & 255}`,
    `other${i}\r\neth0`,
  ]);
  directory.plant(Object.fromEntries(leases));
  const env = { CNI_CONTAINERID: "first" };
  addressesOf(await runInProcess("ADD", config, env));
}

Deno.test({
  ...stress("survives a kill at each step", needsStrace),
  fn: async (t) => {
    const index = ".index/mynet";
    const rows: [command: string, path: string, ...calls: string[]][] = [
      ["ADD", "mynet/unfinished", "openat 1", "write 1", "fdatasync 1"],
      ["ADD", "mynet/unfinished", "linkat 1", "unlink 1"],
      ["ADD", "mynet/unfinished", "openat 2", "write 2", "rename 1"],
      ["ADD", "mynet", "utimensat 1"],
      ["ADD", `${index}.unfinished`, "openat 1", "write 1", "rename 1"],
      ["DEL", "mynet/10.1.0.3", "unlink 1"],
      ["DEL", "mynet", "utimensat 1"],
      ["DEL", `${index}.unfinished`, "openat 1", "write 1", "rename 1"],
    ];
    for (const [command, path, ...calls] of rows) {
      await eachRow(t, calls, async (moment) => {
        using directory = new DataDirectory();
        const config = thousandAddresses(directory);
        await plantLarge(directory, config);
        const before = directory.leases();
        if (command === "DEL") {
          addressesOf(await runInProcess("ADD", config));
        }
        const [call = "", nth] = moment.split(" ");
        const place = join(directory.path, path);
        await runAndKillAt([place, call, Number(nth)], command, config);

        const env = { CNI_CONTAINERID: "next" };
        const added = addressesOf(await runInProcess("ADD", config, env));
        const [address = ""] = added.map((cidr) => cidr.split("/")[0] ?? "");
        assertEquals(directory.leases()[address], "next\r\neth0");
        assertSuccess(await runInProcess("DEL", config));
        const { [address]: _, ...rest } = directory.leases();
        assertEquals(rest, before);
        assertEquals(Object.hasOwn(directory.read(), "unfinished"), false);
        assertEquals(addressesOf(await runInProcess("ADD", config)).length, 1);
        assertSuccess(await runInProcess("CHECK", config));
      }, (moment) => `${command}: ${moment} on ${path}`);
    }
  },
});

Deno.test({
  ...stress("keeps a pod name's address over a kill at each step", needsStrace),
  fn: async (t) => {
    const names = ".by-name/mynet/test:eth0";
    const envOf = (pod: string, number: number): Environment => ({
      CNI_CONTAINERID: `${pod}-${number}`,
      CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME=${pod}`,
    });
    const held = ["symlink 1", "rename 1"];
    const taken = ["openat 1", "write 1", "fdatasync 1", "rename 2"];
    const rows: [command: string, path: string, ...calls: string[]][] = [
      ["DEL", "mynet/unfinished", ...held],
      // Without a DEL, the lease remains at first, and then the next sandbox has it.
      ["ADD", "mynet/unfinished", ...held, ...taken],
      ["ADD", `${names}/.unfinished/0`, "openat 1", "write 1", "rename 1"],
    ];
    for (const [command, path, ...calls] of rows) {
      for (const isOrderly of [true, false]) {
        await eachRow(
          t,
          calls,
          async (moment) => {
            using directory = new DataDirectory();
            const config = directory.config(
              { subnet: "10.1.0.0/24", stay: "name", stayTime: "1h" },
            );
            const run = (command: string, pod: string, number: number) =>
              runInProcess(command, config, envOf(pod, number));
            const first = addressesOf(await run("ADD", "db", 1));
            const [call = "", nth] = moment.split(" ");
            const place = join(directory.path, path);
            const killed = command === "DEL" ? 1 : 2;
            await runAndKillAt(
              [place, call, Number(nth)],
              command,
              config,
              envOf("db", killed),
            );
            addressesOf(await run("ADD", "other", 1));
            if (isOrderly) assertSuccess(await run("DEL", "db", killed));
            assertEquals(addressesOf(await run("ADD", "db", 3)), first);
            assertEquals(Object.values(directory.leases()).sort(), [
              "db-3\r\neth0",
              "other-1\r\neth0",
            ]);
          },
          (moment) =>
            `${command}: ${moment} on ${path}${isOrderly ? "" : ", no DEL"}`,
        );
      }
    }
  },
});

Deno.test({
  ...stress("changes nothing if ADD fails on a full disk", needsRoot),
  fn: async (t) => {
    // Six pages, including a page for each file with content.
    await using disk = await Disk.mount(
      "24k",
      "head -c 12288 /dev/zero > data",
    );
    using directory = new DataDirectory();
    const config = directory.config({
      subnet: "10.1.2.0/24",
      dataDir: disk.dataDir,
    });
    const path = `${disk.dataDir}/mynet`;
    const run = (command: string, id: string): Promise<Output> =>
      ours(command, config, { CNI_CONTAINERID: id });
    assertEquals(addressesOf(await run("ADD", "one")), ["10.1.2.2/24"]);
    const before = await readDirectory(path);

    await t.step("no space for the last reserved address", async () => {
      const message = `Cannot write "${path}/last_reserved_ip.0"`;
      assertOutOfSpace(await run("ADD", "two"), message);
      assertEquals(await readDirectory(path), before);
    });
    await Deno.writeTextFile(`${disk.dataDir}/more`, "x");
    await t.step("no space for the lease", async () => {
      const message = `Cannot write "${path}/10.1.2.3"`;
      assertOutOfSpace(await run("ADD", "two"), message);
      assertEquals(await readDirectory(path), before);
    });
    await t.step("DEL frees space for the next ADD", async () => {
      assertSuccess(await run("DEL", "one"));
      await Deno.remove(`${disk.dataDir}/more`);
      assertEquals(addressesOf(await run("ADD", "two")), ["10.1.2.3/24"]);
    });
  },
});

function assertOutOfSpace(output: Output, message: string): void {
  assertFailure(output, 5, `failed to allocate for range 0: ${message}`);
  assertStringIncludes(output.json.details, "No space left on device");
  assertEquals(output.stderr, "");
}

async function readDirectory(path: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for await (const { name } of Deno.readDir(path)) {
    files[name] = await Deno.readTextFile(join(path, name));
  }
  return files;
}

Deno.test({
  ...stress("reports a read-only file system", needsRoot),
  fn: async (t) => {
    await using disk = await Disk.mount(
      "64k",
      "mkdir mynet && printf 'dummy\\r\\neth0' > mynet/10.1.2.2 && " +
        "cp -r mynet unlocked && touch mynet/lock && " +
        "mount -o remount,ro /mnt",
    );
    using directory = new DataDirectory();
    const path = (name: string): string => `${disk.dataDir}/${name}`;
    const opening = "Cannot open the lease directory";
    const writing = "Cannot write to the lease directory";
    const rows: [string, string, string, number, string][] = [
      ["ADD", "mynet", "dummy", 5, `${opening} "${path("mynet")}"`],
      ["CHECK", "mynet", "dummy", 0, ""],
      ["DEL", "mynet", "dummy", 5, `Cannot remove "${path("mynet/10.1.2.2")}"`],
      ["DEL", "mynet", "other", 0, ""],
      ["GC", "mynet", "dummy", 0, ""],
      ["DEL", "unlocked", "dummy", 5, `${opening} "${path("unlocked")}"`],
      ["DEL", "unlocked", "other", 0, ""],
      ["ADD", "none", "dummy", 5, `${opening} "${path("none")}"`],
      ["DEL", "none", "dummy", 0, ""],
      ["STATUS", "mynet", "dummy", 50, `${writing} "${path("mynet")}"`],
      ["STATUS", "none", "dummy", 50, `${writing} "${path("none")}"`],
    ];
    const before = await readDirectory(path("mynet"));
    for (const [command, name, CNI_CONTAINERID, code, message] of rows) {
      await t.step(`${command} of ${CNI_CONTAINERID} in ${name}`, async () => {
        const ipam = { subnet: "10.1.2.0/24", dataDir: disk.dataDir };
        const ips = [{ address: "10.1.2.2/24" }];
        const valid = [{ containerID: "dummy", ifname: "eth0" }];
        const others = {
          name,
          prevResult: { cniVersion: "1.1.0", ips },
          "cni.dev/valid-attachments": valid,
        };
        const config = directory.config(ipam, others);
        const output = await ours(command, config, { CNI_CONTAINERID });
        if (code === 0) return assertSuccess(output);
        assertFailure(output, code, message);
        assertStringIncludes(output.json.details, "Read-only file system");
      });
    }
    assertEquals(await readDirectory(path("mynet")), before);
  },
});

Deno.test({
  ...stress("locks a file that it can only read", needsRoot, needsSetpriv),
  fn: async () => {
    using directory = new DataDirectory();
    directory.plant({ lock: "", "10.1.2.2": "dummy\r\neth0" });
    const lock = join(directory.directoryOf(), "lock");
    await Deno.chmod(lock, 0o400);
    // Root, but not above the permissions of files.
    const run = runAs([
      "setpriv",
      "--bounding-set=-dac_override,-dac_read_search",
      ...program,
    ]);
    const config = directory.config({ subnet: "10.1.2.0/24" });
    const refused = await run("ADD", config, { CNI_CONTAINERID: "other" });
    assertFailure(
      refused,
      5,
      `Cannot open the lease directory "${directory.directoryOf()}"`,
    );
    assertStringIncludes(refused.json.details, "Permission denied");
    assertSuccess(await run("DEL", config));
    assertEquals(directory.leases(), {});
  },
});

Deno.test({
  ...stress("finds the leases of a large directory on a full disk", needsRoot),
  fn: async () => {
    const plant = "mkdir -p mynet && cd mynet && for i in $(seq 700); do " +
      "printf 'other\\r\\neth0' > 10.1.$((i / 250 + 4)).$((i % 250)); done";
    // A page each for the lease and the last address, and no page for the index.
    const room = "head -c 8192 /dev/zero > /mnt/room";
    const fill = "head -c 99999999 /dev/zero > /mnt/full 2>&-";
    await using disk = await Disk.mount(
      "4m",
      `(${plant}) && ${room} && (${fill} || true) && rm /mnt/room`,
    );
    using directory = new DataDirectory();
    const config = directory.config({
      subnet: "10.1.0.0/16",
      dataDir: disk.dataDir,
    });
    assertEquals(addressesOf(await ours("ADD", config)), ["10.1.0.2/16"]);
    const path = `${disk.dataDir}/mynet/10.1.0.2`;
    assertEquals(await Deno.readTextFile(path), "dummy\r\neth0");
    const index = `${disk.dataDir}/.index/mynet`;
    await assertRejects(() => Deno.stat(index), Deno.errors.NotFound);
    assertSuccess(await ours("DEL", config));
    const { msg } = (await ours("CHECK", config)).json;
    assertStringIncludes(msg, "Failed to find address");
  },
});

/** Counts the files of a network that a call opens; -1 if it lists them all. */
async function countOpened(
  directory: DataDirectory,
  command: string,
  config: JsonObject,
): Promise<number> {
  const log = directory.write("strace.log", "");
  const strace = ["strace", "-f", "-y", "-qq", "-o", log];
  const traced = [...strace, "-e", "trace=openat,getdents64", ...program];
  assertSuccess(await runAs(traced)(command, config));
  const lines = (await Deno.readTextFile(log)).split("\n");
  const ofDirectory = lines.filter((line) => line.includes(directory.path));
  return ofDirectory.some((line) => line.includes("getdents64"))
    ? -1
    : ofDirectory.length;
}

Deno.test({
  ...stress("opens few files, however many leases there are", needsStrace),
  fn: async (t) => {
    using directory = new DataDirectory();
    const config = directory.config({ subnet: "10.1.0.0/16" });
    const leases = Array.from({ length: 5000 }, (_, i) => [
      `10.1.${1 + (i >> 8)}.${i & 255}`,
      `other${i}\r\neth0`,
    ]);
    directory.plant(Object.fromEntries(leases));
    const steps: [name: string, command: string, readsAll: boolean][] = [
      ["ADD, the first one", "ADD", true],
      ["DEL", "DEL", false],
      ["DEL of nothing", "DEL", false],
      ["ADD", "ADD", false],
      ["CHECK", "CHECK", false],
      ["CHECK after another program", "CHECK", true],
      ["DEL of an address", "DEL", false],
      ["ADD after another program", "ADD", true],
    ];
    await eachRow(t, steps, async ([name, command, readsAll]) => {
      if (name.includes("after another")) {
        const address = `10.1.0.${command.length + 20}`;
        directory.plant({ [address]: "other\r\neth0" });
      }
      const count = await countOpened(directory, command, config);
      assertEquals(count < 0, readsAll);
      // Lock, index, lease, last reserved address.
      assert(count < 12, `${count} files were opened`);
    });
  },
});

/** Number of pods, and number of restarts. */
const NAMES = 40, RESTARTS = howOften(80);

/** A pod with a persistent address. */
class NamedPod {
  readonly #name: string;
  readonly #config: JsonObject;
  readonly #run: DataDirectory;
  #number = 0;
  #address = "";
  /** How many ADDs gave another address than the first. */
  changed = 0;

  constructor(name: string, config: JsonObject, run: DataDirectory) {
    this.#name = name;
    this.#config = config;
    this.#run = run;
  }

  get address(): string {
    return this.#address;
  }

  #call(command: string, number: number): Promise<Output> {
    // Some calls are processes.
    const call = Math.random() < 0.1 ? ours : runInProcess;
    return call(command, this.#config, {
      CNI_CONTAINERID: `${this.#name}-${number}`,
      CNI_NETNS: join(this.#run.path, `${this.#name}-${number}`),
      CNI_ARGS:
        `IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME=${this.#name}`,
    });
  }

  /** Starts the next sandbox. */
  async start(): Promise<void> {
    this.#run.write(`${this.#name}-${++this.#number}`, "");
    const [address = ""] = addressesOf(await this.#call("ADD", this.#number));
    if (address !== (this.#address || address)) this.changed++;
    this.#address ||= address;
  }

  /** Ends the sandbox; its DEL comes before its end, after it, or later. */
  async restart(between: () => Promise<void>): Promise<void> {
    const number = this.#number;
    const way = Math.random();
    if (way < 0.4) assertSuccess(await this.#call("DEL", number));
    this.#run.remove(`${this.#name}-${number}`);
    if (way >= 0.4 && way < 0.8) {
      assertSuccess(await this.#call("DEL", number));
    }
    await between();
    await this.start();
    if (way >= 0.8) assertSuccess(await this.#call("DEL", number));
  }

  /** Ends it. */
  async end(): Promise<void> {
    assertSuccess(await this.#call("DEL", this.#number));
  }
}

Deno.test({
  ...stress(
    `keeps the addresses of names for ${RESTARTS} restarts and a reboot${
      go === undefined ? "" : ", beside Go's"
    }`,
  ),
  fn: async (t) => {
    using directory = new DataDirectory();
    using run = new DataDirectory();
    const config = directory.config(
      { subnet: "10.1.0.0/24", stay: "name", stayTime: "1h" },
      { cniVersion: "1.0.0" },
    );
    const pods = Array.from(
      { length: NAMES },
      (_, i) => new NamedPod(`db-${i}`, config, run),
    );
    let count = 0, failed = 0;
    /** A pod of the Go plugin, which has no persistent addresses. */
    const other = async (): Promise<void> => {
      if (go === undefined || Math.random() < 0.9) return;
      const env = { CNI_CONTAINERID: `other${count++}` };
      const { exitCode } = await others("ADD", config, env);
      if (exitCode !== 0) failed++;
      const end = Math.random() < 0.5 ? others : ours;
      assertSuccess(await end("DEL", config, env));
    };
    const restartAll = async (times: number): Promise<void> => {
      const todo = Array.from({ length: times }, (_, i) => i);
      // No pod is restarted twice at a time.
      const free = [...pods];
      await eachAtOnce(todo, 8, async () => {
        const index = Math.floor(Math.random() * free.length);
        const [pod] = free.splice(index, 1);
        if (pod === undefined) throw new Error("all are restarted");
        await pod.restart(other);
        free.push(pod);
      });
    };
    const changed = (): number =>
      pods.reduce((sum, pod) => sum + pod.changed, 0);

    await t.step("containers restart and keep their addresses", async () => {
      await eachAtOnce(pods, 8, (pod) => pod.start());
      assertEquals(new Set(pods.map(({ address }) => address)).size, NAMES);
      await restartAll(Math.ceil(RESTARTS / 2));
      assertEquals([changed(), failed], [0, 0]);
    });
    await t.step("containers restart after the node", async () => {
      // The files in /run were deleted, and no DEL ran.
      for (const name of run.list()) run.remove(name);
      await eachAtOnce(pods.toReversed(), 8, async (pod) => {
        await other();
        await pod.start();
      });
      assertEquals([changed(), failed], [0, 0]);
    });
    await t.step("containers restart again", async () => {
      await restartAll(Math.floor(RESTARTS / 2));
      assertEquals([changed(), failed], [0, 0]);
      const leases = Object.values(directory.leases());
      assertEquals(leases.length, NAMES);
      assert(leases.every((content) => content.startsWith("db-")));
    });
    await t.step("GC releases the addresses after their stayTime", async () => {
      for (const pod of pods) await pod.end();
      const leases = directory.leases();
      assertEquals(Object.keys(leases).length, NAMES);
      for (const [address, content] of Object.entries(leases)) {
        assert(content.startsWith("-> stay/test/db-"), content);
        directory.age(address, 3601);
      }
      const valid = { "cni.dev/valid-attachments": [], cniVersion: "1.1.0" };
      assertSuccess(await ours("GC", { ...config, ...valid }));
      assertEquals(directory.leases(), {});
      assertEquals(
        await Array.fromAsync(Deno.readDir(`${directory.path}/.by-name/mynet`)),
        [],
      );
    });
  },
});

Deno.test({
  ...stress(`starts ${RESTARTS} pods in a range full of addresses that stay`),
  fn: async () => {
    using directory = new DataDirectory();
    const config = directory.config({
      subnet: "10.1.0.0/27",
      stay: "name",
      stayTime: "1h",
    });
    const names = Array.from({ length: RESTARTS }, (_, i) => `job-${i}`);
    let failed = 0;
    await eachAtOnce(names, 8, async (name) => {
      const env = {
        CNI_CONTAINERID: name,
        CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME=${name}`,
      };
      const { exitCode } = await runInProcess("ADD", config, env);
      if (exitCode !== 0) failed++;
      assertSuccess(await runInProcess("DEL", config, env));
    });
    assertEquals(failed, 0);
    const leases = Object.values(directory.leases());
    assertEquals(leases.length, Math.min(29, RESTARTS));
    assert(leases.every((content) => content.startsWith("-> stay/test/job-")));
  },
});
