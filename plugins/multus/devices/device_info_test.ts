import {
  assert,
  assertEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import {
  copyDeviceInfo,
  findDeviceInfo,
  removeDeviceInfo,
} from "./device_info.ts";
import { deviceInfoPath } from "../model/attachment.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";

const DEVICE = { resourceName: "vendor.com/nic", deviceId: "0000:03:02.1" };
const INFO = {
  type: "pci",
  version: "1.1.0",
  pci: { "pci-address": "0000:03:02.1", "vendor/key": [1, null] },
};
const KEY = { delegateName: "ns/nad", containerId: "c1", ifName: "net1" };

/** A folder like `devinfo` with files of a device plugin. */
class Folder implements Disposable {
  readonly dir = Deno.makeTempDirSync({ prefix: "devinfo-" });
  readonly path = deviceInfoPath(KEY, this.dir);

  publish(text: string): void {
    Deno.mkdirSync(`${this.dir}/dp`, { recursive: true });
    const file = "vendor.com-nic-0000:03:02.1-device.json";
    Deno.writeTextFileSync(`${this.dir}/dp/${file}`, text);
  }

  copy(): boolean {
    return copyDeviceInfo(DEVICE, this.path, this.dir);
  }

  list(): string[] {
    return [...Deno.readDirSync(`${this.dir}/cni`)].map(({ name }) => name);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.dir, { recursive: true });
  }
}

function assertFails(fail: () => unknown, code: number, text: string): void {
  const error = assertThrows(fail, CniError);
  assertEquals(error.code, code, String(error));
  assertStringIncludes(String(error), text);
}

Deno.test("deviceInfoPath() names the file of an attachment", async (t) => {
  const base = "/var/run/k8s.cni.cncf.io/devinfo/cni";
  const rows: [delegateName: string, ifName: string, path: string][] = [
    ["ns/nad", "net1", `${base}/ns-nad-c1_net1`],
    ["kube-ovn", "eth0", `${base}/kube-ovn-c1_eth0`],
    ["../../etc/passwd", "net1", `${base}/..-..-etc-passwd-c1_net1`],
  ];
  await eachRow(t, rows, ([delegateName, ifName, path]) => {
    assertEquals(deviceInfoPath({ ...KEY, delegateName, ifName }), path);
  }, ([, , path]) => path);
});

Deno.test("copyDeviceInfo() copies the bytes to a world-readable file", () => {
  using folder = new Folder();
  const text = `${JSON.stringify(INFO, null, 1)}\n`;
  folder.publish(text);
  assert(folder.copy());
  assertEquals(Deno.readTextFileSync(folder.path), text);
  const { mode } = Deno.statSync(folder.path);
  assertEquals((mode ?? 0) & 0o777, 0o444);
  const { mode: dirMode } = Deno.statSync(`${folder.dir}/cni`);
  assertEquals((dirMode ?? 0) & 0o777, 0o755 & ~Deno.umask());
});

Deno.test("copyDeviceInfo() reports whether there is a file to copy", () => {
  using folder = new Folder();
  assertEquals(folder.copy(), false);
  assertEquals(findDeviceInfo(folder.path), undefined);
});

Deno.test("copyDeviceInfo() never overwrites, and leaves no temporary file", () => {
  using folder = new Folder();
  folder.publish('{"type":"old"}');
  folder.copy();
  folder.publish('{"type":"new"}');
  assertFails(() => folder.copy(), 5, "exists");
  assertEquals(findDeviceInfo(folder.path), { type: "old" });
  assertEquals(folder.list(), ["ns-nad-c1_net1"]);
});

testRows("copyDeviceInfo() copies only JSON objects", [
  "",
  "{",
  "[]",
  "null",
  '"pci"',
], (text) => {
  using folder = new Folder();
  folder.publish(text);
  assertFails(() => folder.copy(), 6, "0000:03:02.1-device.json");
  assertEquals(findDeviceInfo(folder.path), undefined);
}, (text) => JSON.stringify(text));

Deno.test("copyDeviceInfo() fails if the target is not writable", () => {
  using folder = new Folder();
  folder.publish("{}");
  Deno.writeTextFileSync(`${folder.dir}/cni`, "in the way");
  assertFails(() => folder.copy(), 5, `Cannot copy "${folder.dir}/dp/`);
});

Deno.test("findDeviceInfo() reads what the CNI plugin wrote", () => {
  using folder = new Folder();
  Deno.mkdirSync(`${folder.dir}/cni`);
  Deno.writeTextFileSync(folder.path, JSON.stringify(INFO));
  assertEquals(findDeviceInfo(folder.path), INFO);
});

Deno.test("findDeviceInfo() reports a malformed file", () => {
  using folder = new Folder();
  Deno.mkdirSync(`${folder.dir}/cni`);
  Deno.writeTextFileSync(folder.path, '{"type":');
  assertFails(() => findDeviceInfo(folder.path), 6, folder.path);
  assertFails(() => findDeviceInfo(folder.dir), 5, folder.dir);
});

Deno.test("removeDeviceInfo() removes a file, which may be gone", () => {
  using folder = new Folder();
  folder.publish("{}");
  folder.copy();
  removeDeviceInfo(folder.path);
  removeDeviceInfo(folder.path);
  assertEquals(folder.list(), []);
  removeDeviceInfo(`${folder.dir}/none/at/all`);
  assertFails(() => removeDeviceInfo(`${folder.dir}/dp/`), 5, "remove");
});
