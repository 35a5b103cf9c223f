/**
 * The manifests of deploy/whereabouts: that they permit exactly the requests of the
 * plugin and of cluster-gc.
 */

import { assert, assertEquals } from "@std/assert";
import { loadAll } from "js-yaml";
import { flagsOf } from "../../base/command_line/command.ts";
import { parseDuration } from "../../base/duration.ts";
import { createLog } from "../../base/log/log.ts";
import { ClaimReleaser, ResidentClients } from "./daemon.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { findTarget, verbOf } from "../../kube/testing/target.ts";
import { CREATED_BY, MIGRATION_JOB } from "../../kube/pod_evidence.ts";
import {
  instanceOf,
  machineOf,
  putIpamClaim,
  putRunningPod,
  setOf,
  withClaim,
} from "./testing/claims.ts";
import { parseFlags, runCni } from "../../tests/_harness/tool_call.ts";
import { describeClusterGc } from "./command.ts";
import { POOLS, WhereaboutsScene } from "./testing/scene.ts";

const RESERVATIONS = "overlappingrangeipreservations";
const DIRECTORY = new URL("../../deploy/whereabouts/", import.meta.url);

// deno-lint-ignore no-explicit-any -- a wrong path is a failed test
type Manifest = any;

function read(file: string): Manifest[] {
  return loadAll(Deno.readTextFileSync(new URL(file, DIRECTORY))) as Manifest[];
}

/** Lists the permissions of a role, as `get ippools`. */
function permissionsOf(...roles: [kind: string, name: string][]): string[] {
  const objects = read("rbac.yaml");
  return roles.flatMap(([kind, name]) => {
    const role = objects.find((object) =>
      object.kind === kind && object.metadata.name === name
    );
    return role.rules.flatMap((rule: Manifest) =>
      rule.resources.flatMap((resource: string) =>
        rule.verbs.map((verb: string) => `${verb} ${resource}`)
      )
    );
  }).sort();
}

/** Lists the received requests, such as `get ippools`. */
function listAsked({ api }: WhereaboutsScene): string[] {
  const asked = api.requests.map(({ method, path }) => {
    const [place = "", query] = path.split("?");
    const target = findTarget(place);
    if (target === undefined) throw new Error(path);
    const verb = verbOf(method, target, new URLSearchParams(query));
    const { resource: { name }, subresource } = target;
    return `${verb} ${subresource === "" ? name : `${name}/${subresource}`}`;
  });
  api.clearRequests();
  return [...new Set(asked)].sort();
}

/** Additional permissions of the node daemon, which releases addresses of deleted claims. */
const OF_DAEMON = [
  "list ipamclaims",
  `patch ${RESERVATIONS}`,
  "watch ipamclaims",
];

/** Lists the requests of a daemon after a claim is deleted. */
async function releaseByDaemon(scene: WhereaboutsScene): Promise<string[]> {
  const log = createLog({}, () => {});
  using clients = new ResidentClients(log);
  const releaser = new ClaimReleaser({
    clientOf: (kubeconfig) => clients.clientOf({ kubeconfig, env: {} }),
    log,
    checkMs: 10,
  });
  scene.useClients(clients.open, (claim) => releaser.note(claim));
  putIpamClaim(scene, "deleted");
  await scene.add({ range: "10.3.0.0/24" }, withClaim("deleted"));
  scene.api.clearRequests();
  scene.api.remove("ipamclaims", "test", "deleted");
  const end = new AbortController();
  const running = releaser.run(end.signal);
  await eventually("released", () => releaser.size === 0);
  end.abort();
  await running;
  return listAsked(scene);
}

Deno.test("deploy/whereabouts: kustomization.yaml lists all manifests", () => {
  const files = [...Deno.readDirSync(DIRECTORY)].map(({ name }) => name)
    .filter((name) => name !== "kustomization.yaml");
  const [{ resources }] = read("kustomization.yaml");
  assertEquals(resources.toSorted(), files.toSorted());
});

Deno.test("deploy/whereabouts: the roles permit exactly the requests that are sent", async () => {
  await using scene = await WhereaboutsScene.start();
  scene.api.put("nodeslicepools", {
    metadata: { namespace: POOLS, name: "net" },
    status: {
      allocations: [{ nodeName: "node1", sliceRange: "10.0.0.0/26" }],
    },
  });
  scene.putReservation("10.0.0.1", "test/other");
  const ipam = { range: "10.0.0.0/16", node_slice_size: "/26" };
  const env = { NODENAME: "node1" };
  await scene.add(ipam, { env });
  await scene.del(ipam, { env });
  const role = permissionsOf(["Role", "cni-whereabouts"]);
  assertEquals(
    listAsked(scene),
    role.filter((one) => !OF_DAEMON.includes(one)),
  );

  const machine = instanceOf("vm");
  const labels = { [CREATED_BY]: machine.uid, [MIGRATION_JOB]: "job" };
  const owner = machineOf("vm");
  const vms = { range: "10.2.0.0/16", enable_overlapping_ranges: false };
  putIpamClaim(scene, "vm", { owner });
  await scene.add(vms, { pod: "first" });
  scene.api.clearRequests();
  for (const pod of ["vm-1", "vm-2", "vm-3"]) {
    putRunningPod(scene, pod, { controller: machine, labels });
    const conf = {
      allowPersistentIPs: true,
      args: { cni: { "ipam-claim-reference": "vm" } },
    };
    await scene.add(vms, { pod, conf });
    if (pod !== "vm-1") await scene.del(vms, { pod: "vm-1" });
  }
  const named = { stay: "name", stayTime: "1s" };
  await scene.add({ ...vms, ...named }, { pod: "web" });
  await scene.del({ ...vms, ...named }, { pod: "web" });
  const [get, patch] = ["get ippools", "patch ippools"];
  const claims = permissionsOf(["ClusterRole", "cni-whereabouts-claims"]);
  assertEquals(
    listAsked(scene).filter((one) => one !== get && one !== patch),
    claims.filter((one) => !OF_DAEMON.includes(one)),
  );
  const released = await releaseByDaemon(scene);
  assertEquals(released.filter((one) => OF_DAEMON.includes(one)), OF_DAEMON);
  assertEquals(
    released.filter((one) => ![...role, ...claims].includes(one)),
    [],
  );

  scene.putPool("10.1.0.0-24", "10.1.0.0/24", {
    "1": { id: "x", podref: "test/gone", ifname: "net1" },
  });
  // The reservations of a deleted claim, and of a claim whose reservation upstream deleted.
  for (const name of ["gone", "kept"]) {
    putIpamClaim(scene, name);
    await scene.add({ range: "10.1.0.0/24" }, withClaim(name, { pod: name }));
  }
  scene.api.remove("ipamclaims", "test", "gone");
  const kept = scene.api.find(RESERVATIONS, POOLS, "10.1.0.3");
  scene.api.put(RESERVATIONS, {
    ...kept,
    metadata: {
      ...kept?.metadata,
      name: "10.1.0.3",
      deletionTimestamp: "2026-01-01T00:00:00Z",
    },
  });
  // Claims whose time begins, whose time has expired, and of a set.
  const ended = "2026-01-01T00:00:00Z";
  const unused = { type: "cni.dev/Unused", lastTransitionTime: ended };
  const putStay = (name: string, annotations: object, status: object): void =>
    void scene.api.put("ipamclaims", {
      metadata: {
        namespace: "test",
        name,
        annotations: { "cni.dev/stay-pod": `${name}-9`, ...annotations },
        ownerReferences: [setOf(name)],
      },
      spec: { network: "net", interface: "" },
      status,
    });
  const time = { "cni.dev/stay-time-ms": "1000" };
  putStay("begins", time, { conditions: [] });
  putStay("over", time, { conditions: [unused] });
  putStay("set", { "cni.dev/stay-when-scaled": "delete" }, {});
  scene.api.clearRequests();
  const flags = ["--kubeconfig", scene.kubeconfig, "--yes", "--grace", "0"];
  await runCni("cluster-gc", ...flags);
  assertEquals(
    listAsked(scene),
    permissionsOf(["Role", "cni-cluster-gc"], [
      "ClusterRole",
      "cni-cluster-gc",
    ]),
  );
});

Deno.test("deploy/whereabouts: the CronJob runs a command that exists", () => {
  const [{ spec }] = read("cronjob.yaml");
  const [{ args }] = spec.jobTemplate.spec.template.spec.containers;
  const [command, ...flags] = args;
  assertEquals(command, "cluster-gc");
  const { yes, grace, timeout } = parseFlags(
    "multus cluster-gc",
    flagsOf(describeClusterGc("multus")),
    flags,
  );
  assertEquals(yes, true);
  // It ends by itself, with an error, shortly before Kubernetes kills it.
  const [graceMs = 0, timeoutMs = 0] = [grace, timeout].map((text) =>
    parseDuration(String(text))
  );
  const { activeDeadlineSeconds } = spec.jobTemplate.spec;
  const spareMs = activeDeadlineSeconds * 1000 - timeoutMs - graceMs;
  assert(spareMs > 0 && spareMs <= 120_000, `${spareMs} ms`);
});

Deno.test("deploy/whereabouts: the CRDs declare the fields that are written", () => {
  const fields = read("crd.yaml").map(({ spec: { names, versions } }) => {
    const { properties } = versions[0].schema.openAPIV3Schema.properties.spec;
    return [names.plural, Object.keys(properties).sort().join()];
  });
  assertEquals(Object.fromEntries(fields), {
    ippools: "allocations,range",
    overlappingrangeipreservations: "containerid,ifname,podref",
    nodeslicepools: "range,sliceSize",
    ipamclaims: "interface,network",
  });
});
