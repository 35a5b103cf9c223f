import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { readCheckpoint } from "./checkpoint.ts";
import type { PodDevice } from "./pod_resources.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";

const UID = "970a395d-bb3b-11e8-89df-408d5c537d23";

function readText(text: string): PodDevice[] {
  const path = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(path, text);
    return readCheckpoint(path, UID);
  } finally {
    Deno.removeSync(path);
  }
}

function readEntries(entries: unknown): PodDevice[] {
  const Data = { PodDeviceEntries: entries, RegisteredDevices: {} };
  return readText(JSON.stringify({ Data, Checksum: 229855270 }));
}

function entryOf(DeviceIDs: unknown, more: object = {}): object {
  return {
    PodUID: UID,
    ContainerName: "c1",
    ResourceName: "vendor.com/nic",
    DeviceIDs,
    AllocResp: "CkIKDHNyaW92",
    ...more,
  };
}

testRows("readCheckpoint() reads every format of device lists", [
  ["by NUMA node", { "1": ["d2", "d3"], "0": ["d1"] }, ["d1", "d2", "d3"]],
  ["without a NUMA node", { "-1": ["d1"] }, ["d1"]],
  ["a node without devices", { "0": null, "1": [] }, []],
  ["one list, as before 1.20", ["d1", "d2"], ["d1", "d2"]],
  ["null", null, []],
], ([, deviceIds, expected]: [string, unknown, string[]]) => {
  const devices = readEntries([entryOf(deviceIds)]);
  assertEquals(devices.map(({ deviceId }) => deviceId), expected);
});

Deno.test("readCheckpoint() reads the devices of one pod only", () => {
  const devices = readEntries([
    entryOf({ "0": ["d1"] }),
    entryOf({ "0": ["other"] }, { PodUID: "another" }),
    entryOf({ "0": ["d2"] }, { ContainerName: "c2" }),
    entryOf({ "0": ["f1"] }, { ResourceName: "vendor.com/fpga" }),
  ]);
  assertEquals(devices, [
    { resourceName: "vendor.com/nic", deviceId: "d1" },
    { resourceName: "vendor.com/nic", deviceId: "d2" },
    { resourceName: "vendor.com/fpga", deviceId: "f1" },
  ]);
});

testRows("readCheckpoint() returns nothing for an empty checkpoint", [
  ["no data", "{}"],
  ["no entries", '{"Data":{"PodDeviceEntries":null}}'],
  ["an empty list", '{"Data":{"PodDeviceEntries":[]},"Checksum":1}'],
], ([, text]: [string, string]) => assertEquals(readText(text), []));

Deno.test("readCheckpoint() refuses malformed and unreadable files", async (t) => {
  const rows: [name: string, text: string, code: number][] = [
    ["an empty file", "", 6],
    ["no JSON", '{"Data":', 6],
    ["another document", '{"Data":{"PodDeviceEntries":{}}}', 7],
    [
      "devices of another kind",
      `{"Data":{"PodDeviceEntries":[{"PodUID":"${UID}","DeviceIDs":"d1"}]}}`,
      7,
    ],
  ];
  await eachRow(t, rows, ([, text, code]) => {
    assertEquals(assertThrows(() => readText(text), CniError).code, code);
  });
  await t.step("a missing file", () => {
    const error = assertThrows(() => readCheckpoint("/none", UID), CniError);
    assertEquals([error.code, error.message], [5, "error reading file /none"]);
    assertStringIncludes(error.details, "No such file");
  });
});
