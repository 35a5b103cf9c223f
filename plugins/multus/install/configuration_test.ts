import { assertEquals, assertThrows } from "@std/assert";
import { createLog } from "../../../base/log/log.ts";
import { ConfDirectory } from "../../../tests/_harness/conf_directory.ts";
import {
  GivenConfiguration,
  MadeConfiguration,
  Readiness,
} from "./configuration.ts";
import { NotYetError } from "./steps.ts";
import type { ConfigurationOptions } from "./options.ts";

const log = createLog({}, () => {});
const POD = { cniVersion: "1.0.0", name: "pods", type: "ptp" };
const OTHER = { cniVersion: "1.0.0", name: "other", type: "bridge" };

function make(
  directory: ConfDirectory,
  options: Partial<ConfigurationOptions> = {},
): MadeConfiguration {
  return new MadeConfiguration({
    directory: directory.path,
    masterDirectory: directory.path,
    renamesMaster: false,
    cniVersion: "",
    forcesVersion: false,
    takesName: false,
    keys: {},
    readinessFile: "",
    readinessTimeoutMs: 0,
    ...options,
  }, log);
}

function listNames(directory: ConfDirectory): string[] {
  return [...Deno.readDirSync(directory.path)].map(({ name }) => name).sort();
}

function readDelegate(directory: ConfDirectory): unknown {
  const text = Deno.readTextFileSync(`${directory.path}/00-multus.conflist`);
  return JSON.parse(text).plugins[0].delegates[0].name;
}

Deno.test("MadeConfiguration.ensure() keeps the last valid file if the version is invalid", () => {
  using directory = new ConfDirectory({ "10-pods.conf": POD });
  const configuration = make(directory);
  configuration.ensure();
  directory.add("10-pods.conf", { name: "pods", type: "ptp" });
  assertThrows(() => configuration.ensure(), Error, "cannot get cniVersion");
  assertEquals(readDelegate(directory), "pods");
});

Deno.test("MadeConfiguration.ensure() keeps a third-party network that has its alternative name", () => {
  using directory = new ConfDirectory({
    "00-multus.conf": OTHER,
    "10-pods.conf": POD,
  });
  make(directory, { masterFile: "10-pods.conf" }).ensure();
  assertEquals(listNames(directory), [
    "00-multus.conf",
    "00-multus.conflist",
    "10-pods.conf",
  ]);
});

Deno.test("MadeConfiguration.ensure() writes nothing before the readiness file exists", () => {
  using directory = new ConfDirectory({ "10-pods.conf": POD });
  const configuration = make(directory, {
    readinessFile: `${directory.path}/ready`,
    readinessTimeoutMs: 1e6,
  });
  assertThrows(() => configuration.ensure(), NotYetError);
  assertEquals(listNames(directory), ["10-pods.conf"]);
  directory.add("ready", "");
  configuration.ensure();
  assertEquals(readDelegate(directory), "pods");
});

Deno.test("MadeConfiguration.ensure() uses the next network after the master's file was deleted", () => {
  using directory = new ConfDirectory({
    "10-pods.conf": POD,
    "20-other.conf": OTHER,
  });
  const configuration = make(directory);
  configuration.ensure();
  Deno.removeSync(`${directory.path}/10-pods.conf`);
  configuration.ensure();
  assertEquals(readDelegate(directory), "other");
});

Deno.test("MadeConfiguration.remove() removes only its own file", () => {
  using directory = new ConfDirectory({
    "00-multus.conf": OTHER,
    "00-multus.conflist": { ...POD, type: "multus" },
  });
  const configuration = make(directory);
  configuration.remove();
  configuration.remove();
  assertEquals(listNames(directory), ["00-multus.conf"]);
});

Deno.test("GivenConfiguration.ensure() copies a valid file only", () => {
  using directory = new ConfDirectory({ "own/x.conf": POD, "net.d/other": "" });
  const source = `${directory.path}/own/x.conf`;
  const target = `${directory.path}/net.d/x.conf`;
  const configuration = new GivenConfiguration(
    { source, directory: `${directory.path}/net.d` },
    log,
  );
  configuration.ensure();
  assertEquals(JSON.parse(Deno.readTextFileSync(target)), POD);
  for (const content of ["", "[]", "{}"]) {
    directory.add("own/x.conf", content);
    assertThrows(() => configuration.ensure());
    assertEquals(JSON.parse(Deno.readTextFileSync(target)), POD);
  }
});

function open(
  readinessFile: string,
  readinessTimeoutMs: number,
): { readiness: Readiness; lines: string[] } {
  const lines: string[] = [];
  const log = createLog({}, (line) => lines.push(line));
  return {
    readiness: new Readiness({ readinessFile, readinessTimeoutMs }, log),
    lines,
  };
}

Deno.test("Readiness.require() succeeds if no readiness file is configured", () => {
  const { readiness, lines } = open("", 1e6);
  readiness.require();
  assertEquals(lines, []);
});

Deno.test("Readiness.require() checks the file until it existed once", () => {
  using directory = new ConfDirectory();
  const { readiness, lines } = open(`${directory.path}/ready`, 1e6);
  assertThrows(() => readiness.require(), NotYetError, "does not exist yet");
  const path = directory.add("ready", "");
  readiness.require();
  Deno.removeSync(path);
  readiness.require();
  assertEquals(lines, []);
});

Deno.test("Readiness.require() fails at its time limit, and logs it once", async () => {
  const { readiness, lines } = open("/nowhere", 1);
  await new Promise((resolve) => setTimeout(resolve, 2));
  readiness.require();
  readiness.require();
  assertEquals(lines, [
    'level=warn msg="continued without the readiness indicator file" ' +
    "path=/nowhere waitedMs=1\n",
  ]);
});

Deno.test("Readiness.require() does not check the file if it must not wait", () => {
  const { readiness, lines } = open("/nowhere", 0);
  readiness.require();
  assertEquals(lines, []);
});
