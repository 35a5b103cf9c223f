// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * A node on which files were planted where plugins keep their state, and an
 * environment that steers Deno, Node or Tokio. No call hangs, or prints or
 * changes the target of a planted link, and no variable changes what a plugin
 * does.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { ifPossible } from "../base/files/io.ts";
import { rootTest } from "../testing/capabilities.ts";
import { runIn, snapshot } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { BIN, needsBin } from "./_harness/executables.ts";
import type { Keys } from "./_harness/plugin_scene.ts";

const SECRET = "a-secret-of-the-node";

/** No call of a plugin takes so long, however busy the machine is. */
const DEADLINE_MS = 60_000;

/** Creates something at a path; `away` is a directory that it can lead to. */
type Plant = (path: string, away: string) => void;

/** Things that can be in the place of a file. */
const PLANTED: Readonly<Record<string, Plant>> = {
  "a link to a file": (path, away) => Deno.symlinkSync(`${away}/file`, path),
  "a link to nothing": (path, away) => Deno.symlinkSync(`${away}/none`, path),
  "a link to itself": (path) => Deno.symlinkSync(path, path),
  "a link to a device": (path) => Deno.symlinkSync("/dev/zero", path),
  "a pipe": (path) => {
    new Deno.Command("mkfifo", { args: [path] }).outputSync();
  },
  "a directory": (path) => Deno.mkdirSync(path),
};

const COMMANDS = ["ADD", "CHECK", "DEL", "GC"] as const;

/** The commands that fail, by what is planted; all others succeed. */
type Failing = Readonly<Record<string, readonly string[]>>;

/** A file that a plugin keeps, in a directory that the configuration names. */
interface StateFile {
  readonly path: string;
  readonly failing: Failing;
  /** A file that only GC reads: its content, with which GC removes it. */
  readonly stale?: string;
}

interface Subject {
  readonly config: (directory: string) => Keys & { readonly type: string };
  readonly files: readonly StateFile[];
}

/** The files of each plugin. */
const STATE: Readonly<Record<string, Subject>> = {
  "host-local": {
    config: (directory) => ({
      type: "ptp",
      ipam: {
        type: "host-local",
        dataDir: directory,
        ranges: [[{ subnet: "10.60.0.0/24" }]],
      },
    }),
    files: [
      {
        path: "pods/lock",
        failing: { "a link to itself": COMMANDS, "a directory": COMMANDS },
      },
      {
        path: "pods/last_reserved_ip.0",
        failing: { "a directory": ["ADD", "CHECK"] },
      },
      { path: "pods/10.60.0.2", failing: {} },
      {
        path: "pods",
        failing: {
          "a link to a file": ["ADD", "CHECK"],
          "a link to nothing": ["ADD", "CHECK"],
          "a link to itself": COMMANDS,
          "a link to a device": ["ADD", "CHECK"],
          "a pipe": ["ADD", "CHECK"],
        },
      },
    ],
  },
  "tuning": {
    config: (directory) => ({
      type: "tuning",
      mtu: 1400,
      dataDir: directory,
      prevResult: { cniVersion: "1.1.0", interfaces: [{ name: "eth0" }] },
    }),
    files: [
      {
        path: "test-container_eth0.json",
        failing: {
          "a link to itself": ["ADD", "CHECK", "DEL"],
          "a link to a device": ["ADD", "CHECK", "DEL"],
          "a pipe": ["ADD", "CHECK", "DEL"],
          "a directory": ["ADD", "CHECK", "DEL"],
        },
      },
      {
        path: "test-container_lo.json",
        failing: {},
        stale: JSON.stringify({ network: "pods" }),
      },
    ],
  },
};

/** What the calls did after a file was planted. */
interface Attack {
  /** The commands that failed. */
  readonly failed: readonly string[];
  readonly printed: string;
  /** Whether the file existed, before and after each call. */
  readonly existed: ReadonlySet<boolean>;
}

/** Runs ADD, CHECK, DEL and GC after a file was planted. */
async function attack(
  plant: Plant,
  config: Subject["config"],
  file: string,
): Promise<Attack> {
  using hosts = TestHosts.create();
  const [directory, away] = ["state", "away"].map((name) => {
    Deno.mkdirSync(`${hosts.directory}/${name}`);
    return `${hosts.directory}/${name}`;
  }) as [string, string];
  Deno.writeTextFileSync(`${away}/file`, SECRET);
  const path = `${directory}/${file}`;
  Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
  plant(path, away);
  const existed = new Set([exists(path)]);
  const { type, ...keys } = config(directory);
  let conf: Keys = { cniVersion: "1.1.0", name: "pods", type, ...keys };
  if (type === "tuning") {
    const pair = "link add eth0 type veth peer name host0";
    runIn(hosts.sandbox, "ip", ...pair.split(" "));
  }
  const failed: string[] = [], printed: string[] = [];
  for (const command of COMMANDS) {
    const startMs = performance.now();
    const { exitCode, stdout, stderr, json } = await hosts.run(type, command, {
      ...conf,
      ...command === "GC" && { "cni.dev/valid-attachments": [] },
    });
    assert(performance.now() - startMs < DEADLINE_MS, command);
    if (exitCode !== 0) failed.push(command);
    else if (command === "ADD") conf = { ...conf, prevResult: json };
    printed.push(stdout, stderr);
    existed.add(exists(path));
  }
  assertEquals(Deno.readTextFileSync(`${away}/file`), SECRET);
  // A lock's file is made where a link points to, as by the Go plugins.
  const made = [...Deno.readDirSync(away)].filter(({ name }) =>
    name !== "file"
  );
  for (const { name } of made) {
    assertEquals(Deno.statSync(`${away}/${name}`).size, 0);
  }
  return { failed, printed: printed.join("\n"), existed };
}

function exists(path: string): boolean {
  return ifPossible(() => Deno.lstatSync(path)) !== undefined;
}

/** Plants each thing in the place of a file; first nothing, as a control. */
async function attackFile(
  t: Deno.TestContext,
  config: Subject["config"],
  { path, failing, stale }: StateFile,
): Promise<void> {
  await t.step(`nothing as ${path}: a call creates or removes it`, async () => {
    const plant: Plant = (at) => stale && Deno.writeTextFileSync(at, stale);
    const { failed, printed, existed } = await attack(plant, config, path);
    assertEquals([failed, existed.size], [[], 2], printed);
  });
  for (const [what, plant] of Object.entries(PLANTED)) {
    await t.step(`${what} as ${path}`, async () => {
      const { failed, printed } = await attack(plant, config, path);
      assertEquals(failed, failing[what] ?? [], printed);
      assert(!printed.includes(SECRET), printed);
    });
  }
}

for (const [plugin, { config, files }] of Object.entries(STATE)) {
  const title =
    `${plugin} neither hangs on a planted file nor prints or changes a link's target`;
  rootTest(title, async (t) => {
    for (const file of files) await attackFile(t, config, file);
  });
}

/** Variables that Deno, Node, V8 or Tokio read, with values that would hurt. */
const STEERING: Readonly<Record<string, string>> = {
  DENO_AUDIT_PERMISSIONS: "/nowhere/audit",
  DENO_AUTO_SERVE: "1",
  DENO_CERT: "/nowhere",
  DENO_COVERAGE_DIR: "/nowhere",
  DENO_DIR: "/nowhere",
  DENO_INTERNAL_CHILD_ENTRYPOINT: "/nowhere",
  DENO_LOG: "trace",
  DENO_PERMISSION_BROKER_PATH: "/nowhere",
  DENO_SERVE_ADDRESS: "tcp:0.0.0.0:1",
  DENO_TLS_CA_STORE: "none",
  DENO_TRACE_PERMISSIONS: "1",
  DENO_UNSTABLE_CONTROL_SOCK: "unix:/nowhere",
  DENO_UNSTABLE_CRON_SOCK: "/nowhere",
  DENO_USE_CGROUPS: "1",
  DENO_V8_FLAGS: "--stack-size=10,--max-old-space-size=1",
  NODE_CHANNEL_FD: "1",
  NODE_DEBUG: "fs,net",
  NODE_OPTIONS: "--require=/nowhere --max-old-space-size=1",
  NODE_UNIQUE_ID: "1",
  NODE_V8_COVERAGE: "/nowhere",
  OTEL_DENO: "true",
  RUST_BACKTRACE: "1",
  RUST_LOG: "trace",
  TOKIO_WORKER_THREADS: "0",
  HOME: "/nowhere",
  TMPDIR: "/nowhere",
};

rootTest(
  "variables that Deno, Node or Tokio read change nothing that ptp does",
  needsBin,
  () => {
    using hosts = TestHosts.create();
    const config = {
      cniVersion: "1.0.0",
      name: "pods",
      type: "ptp",
      ipam: hosts.hostLocal("10.60.0.0/24"),
    };
    const before = snapshot(hosts.host);
    const env = { ...STEERING, CNI_PATH: BIN };
    const deno = new Deno.Command(Deno.execPath(), {
      args: ["eval", "0"],
      env,
    });
    assert(!deno.outputSync().success, "the variables do not steer Deno");
    const added = hosts.exec(`${BIN}/ptp`, "ADD", config, { env });
    assertEquals([added.exitCode, added.stderr], [0, ""], added.stdout);
    assertEquals(added.json.ips[0].address, "10.60.0.2/24");
    const deleted = hosts.exec(`${BIN}/ptp`, "DEL", config, { env });
    assertEquals(
      [deleted.exitCode, deleted.stdout, deleted.stderr],
      [0, "", ""],
    );
    assertEquals(snapshot(hosts.host), before);
  },
);
