/**
 * IPAMClaims, the pods that use them, and calls of whereabouts with a claim.
 *
 * @module
 */

import type { JsonObject } from "../../../base/json/json.ts";
import { type PodEvidence } from "../../../kube/pod_evidence.ts";
import type { KubeObject } from "../../../kube/testing/objects.ts";
import type { PodCall, WhereaboutsScene } from "./scene.ts";

/** Properties of a claim that differ from the defaults. */
export interface ClaimOptions {
  readonly namespace?: string;
  readonly network?: string;
  readonly interface?: string;
  readonly owner?: Owner;
  readonly ips?: readonly string[];
  readonly ownerPod?: string;
  readonly metadata?: JsonObject;
}

/** The owner of a claim, or the controller of a pod. */
export interface Owner {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** Puts a claim, into namespace `test` by default. */
export function putIpamClaim(
  { api }: Pick<WhereaboutsScene, "api">,
  name: string,
  options: ClaimOptions = {},
): KubeObject {
  const { namespace = "test", network = "net", owner, ips, ownerPod } = options;
  const status = {
    ...ips && { ips: [...ips] },
    ...ownerPod !== undefined && { ownerPod: { name: ownerPod } },
  };
  return api.put("ipamclaims", {
    metadata: {
      namespace,
      name,
      ...owner && { ownerReferences: [owner] },
      ...options.metadata,
    },
    spec: { network, interface: options.interface ?? "" },
    ...Object.keys(status).length > 0 && { status },
  });
}

/** Returns a claim's status; undefined if it has none. */
// deno-lint-ignore no-explicit-any -- tests look into it as they please
export function claimStatus({ api }: WhereaboutsScene, name: string): any {
  return api.find("ipamclaims", "test", name)?.["status"];
}

/** Returns the record of a claim in a pool. */
export function claimRecord(
  { api }: WhereaboutsScene,
  name: string,
  ifname = "net1",
): { id: string; podref: string; ifname: string } {
  const uid = api.find("ipamclaims", "test", name)?.metadata.uid;
  return { id: `ipamclaim/test/${name}/${uid}`, podref: "", ifname };
}

/** Puts a pod into namespace `test`, as the kubelet runs it. */
export function putRunningPod(
  { api }: Pick<WhereaboutsScene, "api">,
  name: string,
  { controller, labels = {}, annotations = {}, phase = "Running", podIPs }: {
    readonly controller?: Owner;
    readonly labels?: Record<string, string>;
    readonly annotations?: Record<string, string>;
    readonly phase?: string;
    /** The addresses of its default network. */
    readonly podIPs?: readonly string[];
  } = {},
): KubeObject {
  return api.putPod({
    metadata: {
      namespace: "test",
      name,
      labels,
      annotations,
      ...controller && {
        ownerReferences: [{
          controller: true,
          ...controller,
        }],
      },
    },
    status: { phase, ...podIPs && { podIPs: podIPs.map((ip) => ({ ip })) } },
  });
}

/** Sources of a running pod's addresses. */
export const EVIDENCE: Readonly<
  Record<
    string,
    (ips: readonly string[]) => NonNullable<Parameters<typeof putRunningPod>[2]>
  >
> = {
  "the network status by multus": (ips) => ({
    annotations: {
      "k8s.v1.cni.cncf.io/network-status": JSON.stringify([
        { name: "test/net", interface: "net1", ips },
      ]),
    },
  }),
  "the status by the kubelet": (podIPs) => ({ podIPs }),
};

/** Returns a call as our multus makes it for a pod that names a claim; "" for none. */
export function withClaim(
  claim: string,
  call: PodCall = {},
  evidence: Partial<PodEvidence> = {},
): PodCall {
  return {
    ...call,
    conf: {
      allowPersistentIPs: true,
      args: { cni: { "ipam-claim-reference": claim } },
      "cni.dev/pod": {
        uid: `uid-${call.pod ?? "p1"}`,
        labels: {},
        ...evidence,
      },
      ...call.conf,
    } as JsonObject,
  };
}

/** Returns a StatefulSet. */
export function setOf(name: string, uid = `set-${name}`): Owner {
  return { apiVersion: "apps/v1", kind: "StatefulSet", name, uid };
}

/** Returns a virtual machine. */
export function machineOf(name: string, uid = `vm-${name}`): Owner {
  return { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name, uid };
}

/** Returns the instance of a virtual machine, which controls its pods. */
export function instanceOf(machine: string, uid = `vmi-${machine}`): Owner {
  const apiVersion = "kubevirt.io/v1";
  return { apiVersion, kind: "VirtualMachineInstance", name: machine, uid };
}
