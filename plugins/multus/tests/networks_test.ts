// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * multus as it is used: the executable, with plugins of this project, a cluster,
 * and pods with several networks.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { encodeJson } from "../../../base/json/json_bytes.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import { ipJson, runIn } from "../../../testing/ip_json.ts";
import {
  BIN,
  type HostOutput,
  type HostPod,
  hostTest,
  MultusHost,
  POD_ANNOTATIONS,
} from "../testing/host.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** A node as in the example that many have read: `00-multus.conf`, and one network more. */
class Example implements AsyncDisposable {
  readonly host: MultusHost;
  readonly pod: HostPod;
  /** As somebody wrote it; it is to stay so. */
  readonly definition: string;

  private constructor(host: MultusHost) {
    this.host = host;
    this.definition =
      `{ "cniVersion": "0.3.1", "name": "bridge-network", "plugins": [ ` +
      `{ "type": "bridge", "bridge": "br-net2", "ipam": { ` +
      `"type": "host-local", "dataDir": "${host.hosts.directory}/leases", ` +
      `"subnet": "192.168.133.0/24", "rangeStart": "192.168.133.190", ` +
      `"rangeEnd": "192.168.133.250" } }, { "type": "sbr" } ] }`;
    host.api.putNad("default", "bridge-net2", this.definition);
    this.pod = host.addPod("web", { networks: "bridge-net2" });
  }

  static async start(): Promise<Example> {
    return new Example(
      await MultusHost.start({ cniVersion: "0.3.1", transport: "https" }),
    );
  }

  /** What the scratch file has for each network: its bytes. */
  get bytes(): [string, string] {
    const utf8 = new TextEncoder();
    return [encodeJson(this.host.master()), utf8.encode(this.definition)]
      .map((bytes) => bytes.toBase64()) as [string, string];
  }

  mac(ifName: string): string {
    return ipJson(this.pod.sandbox, "link", "show", ifName)[0].address;
  }

  get scratchFile(): string {
    return `${this.host.cniDir}/${this.pod.containerId}`;
  }

  remains(): string[] {
    return [
      ...this.host.remains(),
      ...this.host.hosts.leases("bridge-network"),
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]();
  }
}

hostTest("multus attaches the networks of the known example", async (t) => {
  await using example = await Example.start();
  const { host, pod } = example;
  const added = await host.succeed("ADD", pod);

  await t.step("the pod has two interfaces, and a table for the second", () => {
    assertEquals(host.interfaces(pod), ["eth0", "lo", "net1"]);
    const rules = runIn(pod.sandbox, "ip", "rule");
    assertStringIncludes(rules, "from 192.168.133.190 lookup 100");
  });
  await t.step("the runtime gets the result of the first network", () => {
    const { cniVersion, ips } = added.json;
    assertEquals([cniVersion, ips[0].address], ["0.3.1", "10.10.0.2/16"]);
  });
  await t.step("the status has the same bytes as upstream multus'", () => {
    const annotations = host.api.pod("default", "web")?.metadata.annotations;
    assertEquals(
      annotations?.["k8s.v1.cni.cncf.io/network-status"],
      STATUS.replace("MAC0", example.mac("eth0"))
        .replace("MAC1", example.mac("net1")),
    );
  });
  await t.step("the scratch file is Go multus' with the network", () => {
    const [first, second] = example.bytes;
    assertEquals(
      Deno.readTextFileSync(example.scratchFile),
      SCRATCH.join("")
        .replace('"B0"', `"${first}","multusNetwork":"multus-cni-network"`)
        .replace("B1", second),
    );
    assertEquals((Deno.statSync(example.scratchFile).mode ?? 0) & 0o777, 0o600);
  });
  await t.step("libcni's cache has both attachments", () => {
    const [first, second] = example.bytes;
    assertEquals(readCache(host, `pods-${pod.containerId}-eth0`), {
      ...cached(pod, "pods", "eth0", first),
      result: added.json,
    });
    const { result, ...request } = readCache(
      host,
      `bridge-network-${pod.containerId}-net1`,
    );
    assertEquals(request, cached(pod, "bridge-network", "net1", second));
    assertEquals(result.ips[0].address, "192.168.133.190/24");
  });
  await t.step("DEL leaves nothing, and is idempotent", async () => {
    await host.succeed("DEL", pod);
    assertEquals(example.remains(), []);
    assertEquals((await host.succeed("DEL", pod)).stdout, "");
  });
});

const STATUS = `[{
    "name": "pods",
    "interface": "eth0",
    "ips": [
        "10.10.0.2"
    ],
    "mac": "MAC0",
    "default": true,
    "dns": {}
},{
    "name": "default/bridge-net2",
    "interface": "net1",
    "ips": [
        "192.168.133.190"
    ],
    "mac": "MAC1",
    "dns": {}
}]`;

const SCRATCH = [
  '[{"Conf":{"cniVersion":"0.3.1","ipam":{},"name":"pods"},',
  '"ConfList":{"cniVersion":"0.3.1","name":"pods","plugins":[',
  '{"ipam":{"type":"host-local"},"type":"ptp"},',
  '{"capabilities":{"bandwidth":true},"ipam":{},"type":"bandwidth"}]},',
  '"Name":"pods","IsFilterV4Gateway":false,"IsFilterV6Gateway":false,',
  '"Bytes":"B0"},',
  '{"Conf":{"cniVersion":"0.3.1","ipam":{},"name":"bridge-network"},',
  '"ConfList":{"cniVersion":"0.3.1","name":"bridge-network","plugins":[',
  '{"ipam":{"type":"host-local"},"type":"bridge"},',
  '{"ipam":{},"type":"sbr"}]},',
  '"Name":"default/bridge-net2","IsFilterV4Gateway":false,',
  '"IsFilterV6Gateway":false,"Bytes":"B1"}]',
];

/** What multus up to 4.3.0 keeps of a list that it reads from a file. */
const STRIPPED = '{"cniVersion":"0.3.1","name":"pods","plugins":[' +
  '{"ipam":{"type":"host-local"},"type":"ptp"},' +
  '{"capabilities":{"bandwidth":true},"ipam":{},"type":"bandwidth"}]}';

/** The same as multus before 3.9, with a CNI library before 1.2, wrote it. */
const OLD_SCRATCH = [
  '[{"Conf":{"cniVersion":"0.3.1","name":"pods","ipam":{},"dns":{}},',
  '"ConfList":{"cniVersion":"0.3.1","name":"pods","plugins":[',
  '{"type":"ptp","ipam":{"type":"host-local"},"dns":{}},',
  '{"type":"bandwidth","capabilities":{"bandwidth":true},"ipam":{},"dns":{}}]},',
  '"Name":"pods","IsFilterGateway":false,"Bytes":"B0"},',
  '{"Conf":{"cniVersion":"0.3.1","name":"bridge-network","ipam":{},"dns":{}},',
  '"ConfList":{"cniVersion":"0.3.1","name":"bridge-network","plugins":[',
  '{"type":"bridge","ipam":{"type":"host-local"},"dns":{}},',
  '{"type":"sbr","ipam":{},"dns":{}}]},',
  '"Name":"default/bridge-net2","IsFilterGateway":false,"Bytes":"B1"}]',
];

// deno-lint-ignore no-explicit-any -- tests look into it as they please
function readCache(host: MultusHost, name: string): any {
  return JSON.parse(Deno.readTextFileSync(`${host.cniDir}/results/${name}`));
}

/** An attachment in libcni's cache, without the result. */
function cached(
  { name, uid, containerId, sandbox }: HostPod,
  networkName: string,
  ifName: string,
  config: string,
): JsonObject {
  return {
    kind: "cniCacheV1",
    containerId,
    config,
    ifName,
    networkName,
    netns: sandbox.path,
    cniArgs: [
      ["IgnoreUnknown", "true"],
      ["K8S_POD_NAMESPACE", "default"],
      ["K8S_POD_NAME", name],
      ["K8S_POD_INFRA_CONTAINER_ID", containerId],
      ["K8S_POD_UID", uid],
    ],
  };
}

hostTest("multus detaches pods of other releases of multus", async (t) => {
  const rows: [string, string[], boolean][] = [
    ["today's scratch file, and libcni's cache", SCRATCH, true],
    ["today's scratch file alone", SCRATCH, false],
    ["a scratch file of 3.x, and libcni's cache", OLD_SCRATCH, true],
    ["a scratch file of 3.x alone", OLD_SCRATCH, false],
  ];
  await eachRow(t, rows, async ([, scratch, hasCache]) => {
    await using example = await Example.start();
    const { host, pod } = example;
    await host.succeed("ADD", pod);
    const [first, second] = example.bytes;
    Deno.writeTextFileSync(
      example.scratchFile,
      scratch.join("").replace("B0", first).replace("B1", second),
    );
    if (!hasCache) {
      Deno.removeSync(`${host.cniDir}/results`, { recursive: true });
    }
    host.api.clearRequests();
    await host.succeed("DEL", pod);
    assertEquals(example.remains(), []);
    assertEquals(host.api.requests, []);
  });
});

hostTest("multus detaches pods from Go's damaged records", async () => {
  await using example = await Example.start();
  const { host, pod } = example;
  await host.succeed("ADD", pod);
  const [, second] = example.bytes;
  Deno.writeTextFileSync(
    example.scratchFile,
    SCRATCH.join("").replace("B0", btoa(STRIPPED)).replace("B1", second),
  );
  await host.succeed("DEL", pod);
  assertEquals(example.remains(), []);
});

hostTest("multus runs under libcni like any plugin", async () => {
  await using host = await MultusHost.start({ transport: "https" });
  using directory = new PluginDirectory();
  const pod = host.addPod("web", { networks: "green" });
  const { name, cniVersion, ...plugin } = host.conf({
    capabilities: { [POD_ANNOTATIONS]: true },
  });
  const list = { name, cniVersion, plugins: [plugin] };
  directory.addFile("00-multus.conflist", JSON.stringify(list));
  const runCni = (verb: string): Promise<HostOutput> =>
    host.succeed(verb, pod, {
      command: [`${BIN}/cni`, verb, String(name), pod.sandbox.path]
        .concat("--conf-dir", directory.path, "--cache-dir", directory.path),
      env: {
        CNI_COMMAND: "",
        CAP_ARGS: JSON.stringify({ [POD_ANNOTATIONS]: pod.annotations }),
      },
    });
  const added = await runCni("add");
  assertEquals(added.json.ips[0].address, "10.10.0.2/16");
  assertEquals(host.interfaces(pod), ["eth0", "lo", "net1"]);
  // The annotations have come by the runtime.
  assertEquals(host.requestsFor(pod, "GET"), []);
  await runCni("check");
  await runCni("del");
  assertEquals(host.remains(), []);
});
