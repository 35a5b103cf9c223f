import { assertEquals, assertThrows } from "@std/assert";
import { createLog } from "../../../cni/log/log.ts";
import { ConfFolder } from "../../../tests/_harness/conf_folder.ts";
import { GivenConfiguration, MadeConfiguration } from "./configuration.ts";
import { NotYetError } from "./steps.ts";
import type { ConfigurationOptions } from "./options.ts";

const log = createLog({}, () => {});
const POD = { cniVersion: "1.0.0", name: "pods", type: "ptp" };
const OTHER = { cniVersion: "1.0.0", name: "other", type: "bridge" };

function make(
  folder: ConfFolder,
  options: Partial<ConfigurationOptions> = {},
): MadeConfiguration {
  return new MadeConfiguration({
    folder: folder.path,
    masterFolder: folder.path,
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

function listNames(folder: ConfFolder): string[] {
  return [...Deno.readDirSync(folder.path)].map(({ name }) => name).sort();
}

function readDelegate(folder: ConfFolder): unknown {
  const text = Deno.readTextFileSync(`${folder.path}/00-multus.conflist`);
  return JSON.parse(text).plugins[0].delegates[0].name;
}

Deno.test("MadeConfiguration.ensure() keeps the last good one when the version is wrong", () => {
  using folder = new ConfFolder({ "10-pods.conf": POD });
  const configuration = make(folder);
  configuration.ensure();
  folder.add("10-pods.conf", { name: "pods", type: "ptp" });
  assertThrows(() => configuration.ensure(), Error, "cannot get cniVersion");
  assertEquals(readDelegate(folder), "pods");
});

Deno.test("MadeConfiguration.ensure() leaves a network alone that has its other name", () => {
  using folder = new ConfFolder({
    "00-multus.conf": OTHER,
    "10-pods.conf": POD,
  });
  make(folder, { masterFile: "10-pods.conf" }).ensure();
  assertEquals(listNames(folder), [
    "00-multus.conf",
    "00-multus.conflist",
    "10-pods.conf",
  ]);
});

Deno.test("MadeConfiguration.ensure() makes nothing before it is ready", () => {
  using folder = new ConfFolder({ "10-pods.conf": POD });
  const configuration = make(folder, {
    readinessFile: `${folder.path}/ready`,
    readinessTimeoutMs: 1e6,
  });
  assertThrows(() => configuration.ensure(), NotYetError);
  assertEquals(listNames(folder), ["10-pods.conf"]);
  folder.add("ready", "");
  configuration.ensure();
  assertEquals(readDelegate(folder), "pods");
});

Deno.test("MadeConfiguration.ensure() takes the next network when the master's file is gone", () => {
  using folder = new ConfFolder({
    "10-pods.conf": POD,
    "20-other.conf": OTHER,
  });
  const configuration = make(folder);
  configuration.ensure();
  Deno.removeSync(`${folder.path}/10-pods.conf`);
  configuration.ensure();
  assertEquals(readDelegate(folder), "other");
});

Deno.test("MadeConfiguration.remove() removes ours alone", () => {
  using folder = new ConfFolder({
    "00-multus.conf": OTHER,
    "00-multus.conflist": { ...POD, type: "multus" },
  });
  const configuration = make(folder);
  configuration.remove();
  configuration.remove();
  assertEquals(listNames(folder), ["00-multus.conf"]);
});

Deno.test("GivenConfiguration.ensure() copies what is valid", () => {
  using folder = new ConfFolder({ "own/x.conf": POD, "net.d/other": "" });
  const source = `${folder.path}/own/x.conf`;
  const target = `${folder.path}/net.d/x.conf`;
  const configuration = new GivenConfiguration(
    { source, folder: `${folder.path}/net.d` },
    log,
  );
  configuration.ensure();
  assertEquals(JSON.parse(Deno.readTextFileSync(target)), POD);
  for (const content of ["", "[]", "{}"]) {
    folder.add("own/x.conf", content);
    assertThrows(() => configuration.ensure());
    assertEquals(JSON.parse(Deno.readTextFileSync(target)), POD);
  }
});
