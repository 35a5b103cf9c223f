// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * A node that is not as it should be: files planted where plugins keep their
 * state, and an environment that steers Deno, Node or Tokio. No call writes to
 * where a link points, prints what it finds there, or hangs; and no variable
 * changes what a plugin does.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../testing/capabilities.ts";
import { snapshot } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { BIN, needsBin } from "./_harness/executables.ts";

const SECRET = "a-secret-of-the-node";

/** No call of a plugin takes so long, however busy the machine is. */
const DEADLINE_MS = 60_000;

/** Things that can be in the place of a file. */
const PLANTED: Readonly<Record<string, (path: string, away: string) => void>> =
  {
    "a link to a file": (path, away) => Deno.symlinkSync(`${away}/file`, path),
    "a link to nothing": (path, away) => Deno.symlinkSync(`${away}/none`, path),
    "a link to itself": (path) => Deno.symlinkSync(path, path),
    "a link to a device": (path) => Deno.symlinkSync("/dev/zero", path),
    "a pipe": (path) => {
      new Deno.Command("mkfifo", { args: [path] }).outputSync();
    },
    "a directory": (path) => Deno.mkdirSync(path),
  };

/** The files of each plugin, from a directory that the configuration names. */
const STATE: Readonly<
  Record<string, { config: (directory: string) => object; files: string[] }>
> = {
  "host-local": {
    config: (directory) => ({
      type: "ptp",
      ipam: {
        type: "host-local",
        dataDir: directory,
        ranges: [[{ subnet: "10.60.0.0/24" }]],
      },
    }),
    files: ["pods/lock", "pods/last_reserved_ip.0", "pods/10.60.0.2", "pods"],
  },
  "tuning": {
    config: (directory) => ({ type: "tuning", mtu: 1400, dataDir: directory }),
    files: ["test-container_eth0.json", "test-container_lo.json"],
  },
};

/** Runs calls with a planted file; returns what they printed. */
async function attack(
  plant: (path: string, away: string) => void,
  { config, files: [file = ""] }: {
    readonly config: (directory: string) => object;
    readonly files: readonly string[];
  },
): Promise<string> {
  using hosts = TestHosts.create();
  const [directory, away] = ["state", "away"].map((name) => {
    Deno.mkdirSync(`${hosts.directory}/${name}`);
    return `${hosts.directory}/${name}`;
  }) as [string, string];
  Deno.writeTextFileSync(`${away}/file`, SECRET);
  const path = `${directory}/${file}`;
  Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
  plant(path, away);
  const conf = { cniVersion: "1.1.0", name: "pods", ...config(directory) };
  const { type } = conf as unknown as { type: string };
  const prevResult = { cniVersion: "1.1.0", interfaces: [{ name: "eth0" }] };
  const printed: string[] = [];
  for (const command of ["ADD", "CHECK", "DEL", "GC"]) {
    const startMs = performance.now();
    const { stdout, stderr } = await hosts.run(type, command, {
      ...conf,
      prevResult,
      ...command === "GC" && { "cni.dev/valid-attachments": [] },
    } as never);
    assert(performance.now() - startMs < DEADLINE_MS, command);
    printed.push(stdout, stderr);
  }
  assertEquals(Deno.readTextFileSync(`${away}/file`), SECRET);
  // A lock's file is made where a link points to, as by the Go plugins.
  const made = [...Deno.readDirSync(away)].filter(({ name }) =>
    name !== "file"
  );
  for (const { name } of made) {
    assertEquals(Deno.statSync(`${away}/${name}`).size, 0);
  }
  return printed.join("\n");
}

for (const [plugin, { config, files }] of Object.entries(STATE)) {
  rootTest(`${plugin} follows no file planted in its state`, async (t) => {
    for (const file of files) {
      for (const [what, plant] of Object.entries(PLANTED)) {
        await t.step(`${what} as ${file}`, async () => {
          const printed = await attack(plant, { config, files: [file] });
          assert(!printed.includes(SECRET), printed);
        });
      }
    }
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

rootTest("no variable of its runtime steers a plugin", needsBin, () => {
  using hosts = TestHosts.create();
  const config = {
    cniVersion: "1.0.0",
    name: "pods",
    type: "ptp",
    ipam: hosts.hostLocal("10.60.0.0/24"),
  };
  const before = snapshot(hosts.host);
  const env = { ...STEERING, CNI_PATH: BIN };
  const added = hosts.exec(`${BIN}/ptp`, "ADD", config, { env });
  assertEquals([added.exitCode, added.stderr], [0, ""], added.stdout);
  assertEquals(added.json.ips[0].address, "10.60.0.2/24");
  const deleted = hosts.exec(`${BIN}/ptp`, "DEL", config, { env });
  assertEquals(
    [deleted.exitCode, deleted.stdout, deleted.stderr],
    [0, "", ""],
  );
  assertEquals(snapshot(hosts.host), before);
});
