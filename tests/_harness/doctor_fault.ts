/**
 * Faults of a node, for `cni doctor` to find: how they are described, and what
 * seeds them.
 *
 * @module
 */

import type { NodeOptions } from "../../cli/doctor/node.ts";
import { AttachmentCache } from "../../cni/libcni/mod.ts";
import type { DoctorScene } from "./doctor_scene.ts";
import {
  putIpamClaim,
  withClaim,
} from "../../ipam/whereabouts/testing/claims.ts";
import { WhereaboutsScene } from "../../ipam/whereabouts/testing/scene.ts";

/** Mends what was broken. */
export type Undo = () => void;

/** A fault: what it is, the checks that find it, the text, and how to break the node. */
export interface Fault {
  readonly name: string;
  readonly checks: readonly string[];
  readonly message: RegExp;
  readonly seed: (scene: DoctorScene) => Undo | Promise<Undo>;
  /** The command that the report names. */
  readonly command?: RegExp;
  readonly options?: (scene: DoctorScene) => Partial<NodeOptions>;
  readonly ignore?: boolean;
  /** Whether the command of the finding is run, and ends it. */
  readonly follow?: boolean;
}

/** Adds a network as the third file. */
export function network(
  plugin: object,
  more: object = {},
): (scene: DoctorScene) => Undo {
  return (scene) => {
    const path = scene.writeNetwork("30-more", [plugin], more);
    return () => Deno.removeSync(path);
  };
}

/** Runs commands of `ip` on the host, or in a container. */
export function ip(
  breaks: string,
  mends: string,
  where: (scene: DoctorScene) => DoctorScene["other"] = ({ hosts }) =>
    hosts.host,
): (scene: DoctorScene) => Undo {
  return (scene) => {
    const [script, undo] = [breaks, mends]
      .map((text) => text.replaceAll("$outside", scene.outside.path));
    scene.sh(script ?? "", where(scene));
    return () => void scene.sh(undo ?? "", where(scene));
  };
}

export const inPod = ({ hosts }: DoctorScene): DoctorScene["other"] =>
  hosts.sandbox;
export const inOther = ({ other }: DoctorScene): DoctorScene["other"] => other;

/** Writes a file that stands for a plugin. */
export function plugin(
  type: string,
  content: string | Uint8Array,
  mode = 0o755,
): (scene: DoctorScene) => Undo {
  return (scene) => {
    const path = `${scene.hosts.path}/${type}`;
    const bytes = typeof content === "string"
      ? new TextEncoder().encode(content)
      : content;
    Deno.writeFileSync(path, bytes, { mode });
    const undo = network({ type })(scene);
    return () => {
      undo();
      Deno.removeSync(path);
    };
  };
}

/** Takes a plugin out of the directory. */
export function without(type: string): (scene: DoctorScene) => Undo {
  return ({ hosts }) => {
    const path = `${hosts.path}/${type}`;
    const kept = `${hosts.directory}/${type}`;
    Deno.renameSync(path, kept);
    return () => Deno.renameSync(kept, path);
  };
}

/** A whole ELF header, without a segment. */
export function elf(machine: number): Uint8Array {
  const bytes = Deno.readFileSync("/bin/true");
  bytes[18] = machine & 0xff;
  bytes[19] = machine >> 8;
  return bytes;
}

/** Starts a runtime, as far as /proc shows it. */
export function runtime(
  limits: string,
  cgroup?: number,
): (scene: DoctorScene) => Undo {
  return ({ proc, hosts }) => {
    const directory = `${proc}/4711`;
    Deno.mkdirSync(`${directory}/ns`, { recursive: true });
    Deno.symlinkSync(hosts.host.path, `${directory}/ns/net`);
    Deno.writeTextFileSync(`${directory}/comm`, "containerd\n");
    Deno.writeTextFileSync(`${directory}/limits`, limits);
    if (cgroup !== undefined) {
      const path = `${directory}/root/sys/fs/cgroup/system.slice/c.service`;
      Deno.writeTextFileSync(
        `${directory}/cgroup`,
        "0::/system.slice/c.service\n",
      );
      Deno.mkdirSync(path, { recursive: true });
      Deno.writeTextFileSync(`${path}/memory.max`, `${cgroup}\n`);
    }
    return () => Deno.removeSync(directory, { recursive: true });
  };
}

/** Configures multus with a kubeconfig, whose token has an expiry. */
export function multus(
  expiresInSeconds: number,
  server = "https://127.0.0.1:1",
): (scene: DoctorScene) => Undo {
  return (scene) => {
    const exp = Math.floor(Date.now() / 1000) + expiresInSeconds;
    const payload = new TextEncoder().encode(JSON.stringify({ exp }))
      .toBase64({ alphabet: "base64url", omitPadding: true });
    const kubeconfig = `${scene.hosts.directory}/kubeconfig`;
    Deno.writeTextFileSync(
      kubeconfig,
      JSON.stringify({
        "current-context": "c",
        contexts: [{ name: "c", context: { cluster: "k", user: "u" } }],
        clusters: [{ name: "k", cluster: { server } }],
        users: [{ name: "u", user: { token: `e30.${payload}.c2ln` } }],
      }),
    );
    return network({ type: "multus", clusterNetwork: "pods", kubeconfig })(
      scene,
    );
  };
}

/** Writes a file of the cache. */
export function cached(
  name: string,
  text: string,
): (scene: DoctorScene) => Undo {
  return ({ cacheDir }) => {
    const path = `${cacheDir}/results/${name}`;
    Deno.writeTextFileSync(path, text);
    makeOld(path);
    return () => remove(path);
  };
}

/** Attaches a pod with an IPAMClaim in a cluster, and breaks something there. */
export function claimed(
  breaks: (cluster: WhereaboutsScene) => void,
): (scene: DoctorScene) => Promise<Undo> {
  return async ({ cacheDir }) => {
    const cluster = await WhereaboutsScene.start();
    putIpamClaim(cluster, "vm");
    const ipam = { range: "10.0.0.0/24" };
    const call = withClaim("vm", { pod: "vm-1", id: "feedfacefeed" });
    const { json } = await cluster.call("ADD", ipam, call);
    breaks(cluster);
    const config = {
      cniVersion: "1.0.0",
      name: "net",
      plugins: [{ type: "macvlan", ipam: cluster.ipam(ipam) }],
    };
    const cache = new AttachmentCache(cacheDir);
    const key = { network: "net", containerId: "feedfacefeed", ifName: "net1" };
    cache.writeAttachment({
      ...key,
      netns: "/run/netns/no-such-namespace",
      config: new TextEncoder().encode(JSON.stringify(config)),
      cniArgs: [],
      capabilityArgs: {},
    }, json);
    return async () => {
      remove(cache.pathOf(key));
      await cluster[Symbol.asyncDispose]();
    };
  };
}

/** Removes a file, if it is still there. */
export function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** Caches an attachment of a container that is gone. */
export function attachmentOfNone(scene: DoctorScene): Undo {
  const path = `${scene.cacheDir}/results/lan-fedcba9876543210-eth0`;
  // Another container may have the address of one that is gone. Its links
  // are gone, too.
  const document = JSON.parse(
    Deno.readTextFileSync(path).replaceAll("10.2.0.2/", "10.2.0.77/"),
  );
  return cached(
    "lan-feedfacefeed-eth0",
    JSON.stringify({
      ...document,
      containerId: "feedfacefeed",
      netns: "/run/netns/no-such-namespace",
      cniArgs: [],
      result: { ...document.result, interfaces: [] },
    }),
  )(scene);
}

/** Writes a lease of a container that is gone. */
export function leaseOfNone({ hosts }: DoctorScene): Undo {
  const path = `${hosts.directory}/leases/lan/10.2.0.200`;
  Deno.writeTextFileSync(path, "feedfacefeed\r\neth0");
  makeOld(path);
  return () => Deno.removeSync(path);
}

/** Makes a file older than the time for which leftovers are kept. */
export function makeOld(path: string): void {
  Deno.utimeSync(path, LONG_AGO, LONG_AGO);
}

/** A time before the grace period of leftovers. */
export const LONG_AGO = new Date(Date.now() - 3_600_000);

/** A plugin that knows its versions and no other command. */
export const VERSIONS = `#!/bin/sh
echo '{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}'`;
