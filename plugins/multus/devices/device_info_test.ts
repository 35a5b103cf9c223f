import { AsyncLocalStorage } from "node:async_hooks";
import {
  assert,
  assertEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { CniError } from "../../../base/error.ts";
import {
  enableChangeChecks,
  withChangeCheck,
} from "../../../ffi/change_check.ts";
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

/** A directory like `devinfo` with files of a device plugin. */
class Directory implements Disposable {
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
  using directory = new Directory();
  const text = `${JSON.stringify(INFO, null, 1)}\n`;
  directory.publish(text);
  assert(directory.copy());
  assertEquals(Deno.readTextFileSync(directory.path), text);
  const { mode } = Deno.statSync(directory.path);
  assertEquals((mode ?? 0) & 0o777, 0o444);
  const { mode: dirMode } = Deno.statSync(`${directory.dir}/cni`);
  assertEquals((dirMode ?? 0) & 0o777, 0o755 & ~Deno.umask());
});

Deno.test("copyDeviceInfo() reports whether there is a file to copy", () => {
  using directory = new Directory();
  assertEquals(directory.copy(), false);
  assertEquals(findDeviceInfo(directory.path), undefined);
});

Deno.test("copyDeviceInfo() never overwrites, and leaves no temporary file", () => {
  using directory = new Directory();
  directory.publish('{"type":"old"}');
  directory.copy();
  directory.publish('{"type":"new"}');
  assertFails(() => directory.copy(), 5, "exists");
  assertEquals(findDeviceInfo(directory.path), { type: "old" });
  assertEquals(directory.list(), ["ns-nad-c1_net1"]);
});

Deno.test("copyDeviceInfo() copies nothing in a superseded call", () => {
  enableChangeChecks(new AsyncLocalStorage());
  const check = (): never => {
    throw new Error("superseded");
  };
  using directory = new Directory();
  directory.publish("{}");
  const copy = (): boolean => withChangeCheck(check, () => directory.copy());
  assertFails(copy, 5, "superseded");
  assertEquals(findDeviceInfo(directory.path), undefined);
});

testRows("copyDeviceInfo() copies only JSON objects", [
  "",
  "{",
  "[]",
  "null",
  '"pci"',
], (text) => {
  using directory = new Directory();
  directory.publish(text);
  assertFails(() => directory.copy(), 6, "0000:03:02.1-device.json");
  assertEquals(findDeviceInfo(directory.path), undefined);
}, (text) => JSON.stringify(text));

Deno.test("copyDeviceInfo() fails if the target is not writable", () => {
  using directory = new Directory();
  directory.publish("{}");
  Deno.writeTextFileSync(`${directory.dir}/cni`, "in the way");
  assertFails(() => directory.copy(), 5, `Cannot copy "${directory.dir}/dp/`);
});

Deno.test("findDeviceInfo() reads what the CNI plugin wrote", () => {
  using directory = new Directory();
  Deno.mkdirSync(`${directory.dir}/cni`);
  Deno.writeTextFileSync(directory.path, JSON.stringify(INFO));
  assertEquals(findDeviceInfo(directory.path), INFO);
});

Deno.test("findDeviceInfo() reports a malformed file", () => {
  using directory = new Directory();
  Deno.mkdirSync(`${directory.dir}/cni`);
  Deno.writeTextFileSync(directory.path, '{"type":');
  assertFails(() => findDeviceInfo(directory.path), 6, directory.path);
  assertFails(() => findDeviceInfo(directory.dir), 5, directory.dir);
});

Deno.test("removeDeviceInfo() removes a file, or succeeds without it", () => {
  using directory = new Directory();
  directory.publish("{}");
  directory.copy();
  removeDeviceInfo(directory.path);
  removeDeviceInfo(directory.path);
  assertEquals(directory.list(), []);
  removeDeviceInfo(`${directory.dir}/none/at/all`);
  assertFails(() => removeDeviceInfo(`${directory.dir}/dp/`), 5, "remove");
});
