/**
 * Devices that the kubelet gave to a pod, on their way to the plugins and into
 * the status. The kubelet's directories are those of a mount namespace of multus' own.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { allocated, claimOf, sliceOf } from "../testing/claims.ts";
import { FakeKubelet } from "../testing/kubelet.ts";
import {
  BIN,
  type HostOutput,
  type HostPod,
  hostTest,
  MultusHost,
} from "../testing/host.ts";
import { listFiles } from "../testing/scene.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";

const DEVICE_INFO_DIR = "run/k8s.cni.cncf.io/devinfo";
const RESOURCE = "vendor.com/nic";
/** The device plugin's facts about the first device. */
const DEVICE_INFO = {
  type: "pci",
  version: "1.1.0",
  pci: { "pci-address": "0000:03:02.1" },
};

/** Lends multus the directory of a kubelet, and one for device information. */
const SCRIPT = `set -e
mount -t tmpfs tmpfs /var/lib
mkdir -p /var/lib/kubelet/pod-resources
mount --bind "$DIRECTORY" /var/lib/kubelet/pod-resources
mount --bind "$DIRECTORY/run" "$(readlink -f /var/run)"
exec "$@"`;

/** A node with a kubelet, and a plugin that makes nothing of devices but a note. */
class DeviceHost implements AsyncDisposable {
  readonly host: MultusHost;
  readonly directory: PluginDirectory;
  readonly kubelet: FakeKubelet;

  private constructor(
    host: MultusHost,
    directory: PluginDirectory,
    kubelet: FakeKubelet,
  ) {
    this.host = host;
    this.directory = directory;
    this.kubelet = kubelet;
    directory.add(
      "sriov",
      `cat > '${directory.path}/'$CNI_COMMAND-$CNI_IFNAME
      [ "$CNI_COMMAND" != ADD ] || printf \\
        '{"cniVersion":"1.0.0","interfaces":[{"name":"%s","sandbox":"/x"}]}' \\
        "$CNI_IFNAME"`,
    );
  }

  static async start(): Promise<DeviceHost> {
    const host = await MultusHost.start();
    const directory = new PluginDirectory();
    const info = `${directory.path}/${DEVICE_INFO_DIR}/dp`;
    Deno.mkdirSync(info, { recursive: true });
    Deno.writeTextFileSync(
      `${info}/vendor.com-nic-0000:03:02.1-device.json`,
      JSON.stringify(DEVICE_INFO),
    );
    const socketPath = `${directory.path}/kubelet.sock`;
    const kubelet = await FakeKubelet.start({ socketPath });
    return new DeviceHost(host, directory, kubelet);
  }

  /** Adds the network `fast`, which needs a device. */
  putFastNetwork(keys: JsonObject = {}): void {
    this.host.api.putNad(
      "default",
      "fast",
      { cniVersion: "1.0.0", type: "sriov", ...keys },
      { "k8s.v1.cni.cncf.io/resourceName": RESOURCE },
    );
  }

  /** Runs multus in the mount namespace. */
  run(
    command: string,
    pod: HostPod,
    keys: JsonObject = {},
  ): Promise<HostOutput> {
    const { path } = this.directory;
    return this.host.call(command, pod, {
      keys,
      env: { CNI_PATH: path, DIRECTORY: path },
      command: ["unshare", "-m", "sh", "-c", SCRIPT, "sh", `${BIN}/multus`],
    });
  }

  /** The plugin's input. */
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  sent(command: string, ifName: string): any {
    const path = `${this.directory.path}/${command}-${ifName}`;
    return JSON.parse(Deno.readTextFileSync(path));
  }

  /** Lists the device information of attachments. */
  get published(): string[] {
    return listFiles(`${this.directory.path}/${DEVICE_INFO_DIR}/cni`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kubelet[Symbol.asyncDispose]();
    this.directory[Symbol.dispose]();
    await this.host[Symbol.asyncDispose]();
  }
}

hostTest("multus gives each network a device of the kubelet", async (t) => {
  await using devices = await DeviceHost.start();
  const { host, kubelet } = devices;
  devices.putFastNetwork({
    capabilities: { CNIDeviceInfoFile: true, deviceID: true },
  });
  const pod = host.addPod("web", { networks: "fast,fast" });
  kubelet.setPod("default", "web", {
    c1: { [RESOURCE]: ["0000:03:02.2"] },
    c2: { [RESOURCE]: ["0000:03:02.1"] },
  });
  const added = await devices.run("ADD", pod);
  assertEquals([added.code, added.stderr], [0, ""], added.stdout);

  await t.step("in their order, with all keys that plugins read", () => {
    for (const [ifName, id] of [["net1", 1], ["net2", 2]] as const) {
      const { deviceID, pciBusID, runtimeConfig } = devices
        .sent("ADD", ifName);
      const device = `0000:03:02.${id}`;
      assertEquals([deviceID, pciBusID], [device, device]);
      assertEquals(runtimeConfig, {
        deviceID: device,
        CNIDeviceInfoFile: "/var/run/k8s.cni.cncf.io/devinfo/cni/" +
          `default-fast-${pod.containerId}_${ifName}`,
      });
    }
    assertEquals(kubelet.calls.map(({ method }) => method), ["Get"]);
  });
  await t.step("the status has the device plugin's information", () => {
    const [, first, second] = host.status(pod);
    assertEquals(first["device-info"], DEVICE_INFO);
    assertEquals(second["device-info"], undefined);
    assertEquals(devices.published, [`default-fast-${pod.containerId}_net1`]);
  });
  await t.step("DEL uses the same devices without requests", async () => {
    host.api.clearRequests();
    const deleted = await devices.run("DEL", pod);
    assertEquals([deleted.code, deleted.stdout], [0, ""]);
    assertEquals(devices.sent("DEL", "net2").deviceID, "0000:03:02.2");
    assertEquals(host.api.requests, []);
    assertEquals(kubelet.calls.length, 1);
    assertEquals([host.remains(), devices.published], [[], []]);
  });
});

hostTest("multus gives networks extended resources' devices", async () => {
  await using devices = await DeviceHost.start();
  const { host, kubelet } = devices;
  devices.putFastNetwork();
  const device = { id: "0000:03:02.7", resource: RESOURCE };
  const results = [allocated("vf7")];
  host.api.putClaim(claimOf("web-extended", results, "default"));
  host.api.putSlice(sliceOf("slice", { vf7: device }));
  // The containers ask for it by name only: there are no spec.resourceClaims.
  const extendedResourceClaimStatus = {
    resourceClaimName: "web-extended",
    requestMappings: [{ requestName: "req-0", resourceName: RESOURCE }],
  };
  const object = { status: { extendedResourceClaimStatus } };
  const pod = host.addPod("web", { networks: "fast", object });
  kubelet.setPod("default", "web", {});
  const added = await devices.run("ADD", pod);
  assertEquals([added.code, added.stderr], [0, ""], added.stdout);
  assertEquals(devices.sent("ADD", "net1").deviceID, device.id);
  assertEquals((await devices.run("DEL", pod)).code, 0);
});

hostTest("multus attaches nothing if the kubelet does not answer", async () => {
  await using devices = await DeviceHost.start();
  const { host, kubelet } = devices;
  devices.putFastNetwork();
  const pod = host.addPod("web", { networks: "fast" });
  kubelet.fault({ httpStatus: 503 });
  const { code, json } = await devices.run("ADD", pod);
  assertEquals([code, json.code], [1, 11]);
  assertStringIncludes(json.msg, "failed getting the delegate");
  assertEquals(host.remains(), []);
});
