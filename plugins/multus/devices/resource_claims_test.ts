import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import type { LogFields } from "../../../base/log/log.ts";
import { KubeError } from "../../../kube/kube_error.ts";
import type {
  ClaimStatus,
  ResourceClaim,
  ResourceSlice,
} from "../../../kube/types.ts";
import { allocated, claimOf, DRIVER, sliceOf } from "../testing/claims.ts";
import type { ClaimClient } from "./published_devices.ts";
import { type ClaimSource, readClaimedDevices } from "./resource_claims.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";

const NIC = "vendor.com/nic";
const FPGA = "vendor.com/fpga";

/** Claims and slices in memory. */
class Cluster implements ClaimClient {
  readonly claims: ResourceClaim[] = [];
  readonly slices: ResourceSlice[] = [];
  /** The requests. */
  readonly requests: string[] = [];
  /** The devices left out, with the reasons. */
  readonly warnings: LogFields[] = [];

  getResourceClaim(namespace: string, name: string): Promise<ResourceClaim> {
    this.requests.push(`GET ${namespace}/${name}`);
    const claim = this.claims.find(({ metadata }) =>
      metadata?.namespace === namespace && metadata.name === name
    );
    return claim ? Promise.resolve(claim) : Promise.reject(
      new KubeError(`resourceclaims "${name}" not found`, { status: 404 }),
    );
  }

  listResourceSlices(
    { driver, nodeName }: { driver: string; nodeName?: string | undefined },
  ): Promise<ResourceSlice[]> {
    this.requests.push(`LIST ${driver} ${nodeName}`);
    return Promise.resolve(
      this.slices.filter(({ spec }) =>
        spec.driver === driver && (!nodeName || spec.nodeName === nodeName)
      ),
    );
  }

  /** Reads the devices of a pod with these claims, and returns IDs by resource. */
  async read(
    status: ClaimStatus,
    more: Partial<ClaimSource> = {},
  ): Promise<Record<string, string[]>> {
    const devices = await readClaimedDevices({
      status,
      namespace: "test",
      nodeName: "node1",
      client: this,
      log: { warn: (msg, fields) => this.warnings.push({ msg, ...fields }) },
      ...more,
    });
    const ids: Record<string, string[]> = {};
    for (const { resourceName, deviceId } of devices) {
      (ids[resourceName] ??= []).push(deviceId);
    }
    return ids;
  }
}

/** A cluster with claims `c1` and `c2` of one NIC each, and one of an FPGA. */
function makeCluster(): Cluster {
  const cluster = new Cluster();
  cluster.claims.push(
    claimOf("c1", [allocated("dev-1")]),
    claimOf("c2", [allocated("dev-2")]),
    claimOf("c3", [allocated("dev-3")]),
  );
  cluster.slices.push(sliceOf("s1", {
    "dev-1": { id: "0000:03:02.1", resource: NIC },
    "dev-2": { id: "0000:03:02.2", resource: NIC },
    "dev-3": { id: "0000:04:00.0", resource: FPGA },
  }));
  return cluster;
}

/** The status of a pod with generated claims. */
function claims(...names: string[]): ClaimStatus {
  return {
    resourceClaimStatuses: names.map((resourceClaimName, index) => ({
      name: `ref-${index}`,
      resourceClaimName,
    })),
  };
}

/** The status of a pod with a claim for its extended resources. */
function extended(
  claim: string,
  mappings: Readonly<Record<string, string>>,
): ClaimStatus {
  const requestMappings = Object.entries(mappings).map((
    [requestName, resourceName],
  ) => ({ containerName: "c", requestName, resourceName }));
  return {
    extendedResourceClaimStatus: { resourceClaimName: claim, requestMappings },
  };
}

async function assertFails(
  cluster: Cluster,
  status: ClaimStatus,
  code: number,
  text: string,
): Promise<void> {
  const error = await assertRejects(() => cluster.read(status), CniError);
  assertEquals(error.code, code, String(error));
  assertStringIncludes(String(error), text);
}

Deno.test("readClaimedDevices() reads the devices allocated to claims", async () => {
  const cluster = makeCluster();
  assertEquals(await cluster.read(claims("c1", "c2", "c3")), {
    [NIC]: ["0000:03:02.1", "0000:03:02.2"],
    [FPGA]: ["0000:04:00.0"],
  });
  assertEquals(cluster.warnings, []);
});

Deno.test("readClaimedDevices() requests each claim and driver once", async () => {
  const cluster = makeCluster();
  await cluster.read({
    ...claims("c1", "c2", "c1"),
    ...extended("c1", { "req-0": NIC }),
  });
  assertEquals(cluster.requests, [
    "GET test/c1",
    "GET test/c2",
    `LIST ${DRIVER} node1`,
  ]);
});

testRows("readClaimedDevices() sends no request without claims", [
  ["nothing", {}],
  ["an empty list", { resourceClaimStatuses: [] }],
  ["null", { extendedResourceClaimStatus: null }],
  ["a claim that was not made", { resourceClaimStatuses: [{ name: "r" }] }],
], async ([, status]: [string, ClaimStatus]) => {
  const cluster = makeCluster();
  assertEquals(await cluster.read(status), {});
  assertEquals(cluster.requests, []);
});

Deno.test("readClaimedDevices() reads only the pod's node, pool and driver", async (t) => {
  const other = { "dev-1": { id: "wrong", resource: NIC } };
  await eachRow(t, ["driver", "pool", "nodeName"], async (where) => {
    const cluster = makeCluster();
    const slice = sliceOf("other", other, { [where]: "other" });
    cluster.slices.unshift(slice);
    cluster.slices.push(slice);
    assertEquals(await cluster.read(claims("c1")), { [NIC]: ["0000:03:02.1"] });
  });
  await t.step("all nodes, if the pod's node is unknown", async () => {
    const cluster = makeCluster();
    const ids = await cluster.read(claims("c1"), { nodeName: undefined });
    assertEquals(ids, { [NIC]: ["0000:03:02.1"] });
    assertEquals(cluster.requests.at(-1), `LIST ${DRIVER} undefined`);
  });
});

Deno.test("readClaimedDevices() leaves out devices that are not for networks", async (t) => {
  const rows: [string, Parameters<typeof sliceOf>[1], string][] = [
    ["no slice has it", {}, "no resource slice has it"],
    ["no attributes", { gpu: {} }, 'no attribute "k8s.cni.cncf.io/deviceID"'],
    [
      "no ID",
      { gpu: { resource: NIC } },
      'no attribute "k8s.cni.cncf.io/deviceID"',
    ],
    [
      "an empty ID",
      { gpu: { id: "", resource: NIC } },
      'no attribute "k8s.cni.cncf.io/deviceID"',
    ],
    [
      "no resource",
      { gpu: { id: "0000:05:00.0" } },
      'no attribute "k8s.cni.cncf.io/resourceName"',
    ],
  ];
  await eachRow(t, rows, async ([, devices, why]) => {
    const cluster = makeCluster();
    const gpu = { driver: "gpu.example.com", pool: "gpus" };
    const results = [allocated("gpu", gpu), allocated("dev-1")];
    cluster.claims.push(claimOf("both", results));
    cluster.slices.push(sliceOf("gpus", devices, gpu));
    assertEquals(await cluster.read(claims("both")), {
      [NIC]: ["0000:03:02.1"],
    });
    const [{ msg, why: said, ...fields } = {}, ...more] = cluster.warnings;
    assertEquals([msg, more], ["Skipped a device of a resource claim", []]);
    assertEquals(fields, { claim: "both", ...gpu, device: "gpu" });
    assertStringIncludes(String(said), why);
  });
});

Deno.test("readClaimedDevices() fails if a claim cannot be read", async (t) => {
  await t.step("the claim does not exist", async () => {
    const text = 'Cannot read resource claim "test/c9"; ' +
      'resourceclaims "c9" not found';
    await assertFails(makeCluster(), claims("c1", "c9"), 7, text);
  });
  await t.step("the claim is not allocated yet", async () => {
    const cluster = makeCluster();
    cluster.claims.push(claimOf("c4"));
    const text = "claim c4 has no device allocation";
    await assertFails(cluster, claims("c4"), 11, text);
    await assertFails(cluster, extended("c4", {}), 11, text);
  });
  await t.step("the slices cannot be listed", async () => {
    const cluster = makeCluster();
    cluster.listResourceSlices = () =>
      Promise.reject(new KubeError("no answer", { status: 0 }));
    const text = `Cannot list the resource slices of "${DRIVER}"; no answer`;
    await assertFails(cluster, claims("c1"), 11, text);
  });
});

Deno.test("readClaimedDevices() accepts a claim without devices", async () => {
  const cluster = makeCluster();
  cluster.claims.push(claimOf("none", []));
  assertEquals(await cluster.read(claims("none")), {});
});

Deno.test("readClaimedDevices() reads extended resources by their requests", async () => {
  const cluster = makeCluster();
  cluster.claims.push(claimOf("ext", [
    allocated("dev-2", { request: "container-0-request-0" }),
    allocated("dev-1", { request: "container-0-request-0" }),
    allocated("dev-3", { request: "container-0-request-1" }),
    allocated("gpu", { request: "container-0-request-2" }),
  ]));
  const status = extended("ext", {
    "container-0-request-0": NIC,
    "container-0-request-1": FPGA,
  });
  assertEquals(await cluster.read(status), {
    [NIC]: ["0000:03:02.2", "0000:03:02.1"],
    [FPGA]: ["0000:04:00.0"],
  });
});

Deno.test("readClaimedDevices() refuses devices that are not the extended resource", async (t) => {
  const attribute = "k8s.cni.cncf.io/resourceName";
  const rows: [name: string, status: ClaimStatus, text: string][] = [
    [
      "of another resource",
      extended("c1", { "req-0": FPGA }),
      `as "${FPGA}": its "${attribute}" is "${NIC}"`,
    ],
    [
      "that nothing was given for",
      extended("c1", { "req-9": NIC }),
      "request req-9 not found in claim c1",
    ],
    [
      "without the attribute",
      extended("gpu", { "req-0": NIC }),
      `as "${NIC}": it has no attribute "${attribute}"`,
    ],
    [
      "in no slice",
      extended("lost", { "req-0": NIC }),
      'Cannot use device "dev-9" of request "req-0"',
    ],
  ];
  await eachRow(t, rows, async ([, status, text]) => {
    const cluster = makeCluster();
    cluster.claims.push(claimOf("gpu", [allocated("dev-8")]));
    cluster.claims.push(claimOf("lost", [allocated("dev-9")]));
    cluster.slices.push(sliceOf("s2", { "dev-8": { id: "0000:05:00.0" } }));
    await assertFails(cluster, status, 7, text);
  });
});

Deno.test("readClaimedDevices() does not mix up pools and devices", async () => {
  const cluster = new Cluster();
  cluster.claims.push(claimOf("c", [allocated("x", { pool: "a/b" })]));
  cluster.slices.push(
    sliceOf("s1", { x: { id: "1", resource: NIC } }, { pool: "a" }),
    sliceOf("s2", { x: { id: "2", resource: NIC } }, { pool: "a/b" }),
  );
  assertEquals(await cluster.read(claims("c")), { [NIC]: ["2"] });
});
