/**
 * The description and the injection of faults that `cni doctor` finds. The faults are in
 * `faults/`, a file for each topic.
 *
 * @module
 */

import type { JsonObject } from "../../../base/json/json.ts";
import { AttachmentCache } from "../../../libcni/mod.ts";
import type { NodeReaderOptions } from "../../node/node_reader.ts";
import type { DoctorScene } from "./scene.ts";

/** Fixes what was broken. */
export type Undo = () => void;

/** Breaks something. */
export type Seed = (scene: DoctorScene) => Undo;

/** A fault: its name, the checks that find it, their text, and its injection. */
export interface Fault {
  readonly name: string;
  readonly checks: readonly string[];
  readonly message: RegExp;
  readonly seed: (
    scene: DoctorScene,
  ) => Undo | Promise<Undo | (() => Promise<void>)>;
  /** The command that the report names. */
  readonly command?: RegExp;
  readonly options?: (scene: DoctorScene) => Partial<NodeReaderOptions>;
  readonly ignore?: boolean;
  /** Whether the command of the finding is run, and ends it. */
  readonly follow?: boolean;
}

/** Adds network `more` as the third file. */
export function network(
  plugin: object | ((scene: DoctorScene) => object),
  more: object = {},
): Seed {
  return (scene) => {
    const one = typeof plugin === "function" ? plugin(scene) : plugin;
    const path = scene.writeNetwork("30-more", [one], more);
    return () => Deno.removeSync(path);
  };
}

/** Adds network `more` of a bridge `br9` with addresses of host-local. */
export function bridged(
  subnets: readonly string[],
  more: object = { isGateway: true },
): Seed {
  return network(({ hosts }) => ({
    type: "bridge",
    bridge: "br9",
    ...more,
    ipam: hosts.hostLocal(...subnets),
  }));
}

/** Writes a file. */
export function file(
  pathOf: (scene: DoctorScene) => string,
  text: string,
  mode = 0o644,
): Seed {
  return (scene) => {
    const path = pathOf(scene);
    Deno.writeTextFileSync(path, text, { mode });
    return () => remove(path);
  };
}

/** Writes a file into the configuration directory. */
export function conf(name: string, text: string): Seed {
  return file(({ confDir }) => `${confDir}/${name}`, text);
}

/** Mounts a file system at a directory of the node, and copies its files there. */
export function mounted(
  pathOf: (scene: DoctorScene) => string,
  options: string,
  fill = ":",
): Seed {
  return (scene) => {
    const path = pathOf(scene);
    scene.sh(
      `mkdir -p ${path} ${path}.kept; cp -a ${path}/. ${path}.kept; ` +
        `mount -t tmpfs -o ${options} doctor ${path}; ` +
        `cp -a ${path}.kept/. ${path}`,
    );
    scene.sh(`(${fill.replaceAll("$path", path)}) 2>/dev/null || true`);
    return () => void scene.sh(`umount ${path}; rm -r ${path}.kept`);
  };
}

/** Injects several faults in order, and undoes them in reverse order. */
export function both(...seeds: readonly Seed[]): Seed {
  return (scene) => {
    const undos = seeds.map((seed) => seed(scene));
    return () => {
      for (const undo of undos.toReversed()) undo();
    };
  };
}

/** Runs commands of `ip` on the host, or in a container. */
export function ip(
  breaks: string,
  fixes: string,
  where: (scene: DoctorScene) => DoctorScene["other"] = ({ hosts }) =>
    hosts.host,
): Seed {
  return (scene) => {
    const [script, undo] = [breaks, fixes]
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
): Seed {
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

/** Writes a file of the cache. */
export function cached(
  name: string,
  text: string,
): Seed {
  return ({ cacheDir }) => {
    const path = `${cacheDir}/results/${name}`;
    Deno.writeTextFileSync(path, text);
    makeOld(path);
    return () => remove(path);
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

/**
 * A deleted container. Its ID is random, because a process that names a container, even of
 * a concurrent run, is evidence that the container exists.
 */
export const GONE_ID = crypto.randomUUID().replaceAll("-", "");

/** Caches an attachment of a deleted container. */
export function attachmentOfNone(scene: DoctorScene): Undo {
  const path = `${scene.cacheDir}/results/lan-fedcba9876543210-eth0`;
  // A different container might have its address, even in a concurrent test. The links of
  // a deleted container do not exist either.
  const document = JSON.parse(
    Deno.readTextFileSync(path).replaceAll("10.2.0.2/", "10.2.254.77/"),
  );
  return cached(
    `lan-${GONE_ID}-eth0`,
    JSON.stringify({
      ...document,
      containerId: GONE_ID,
      netns: "/run/netns/no-such-namespace",
      cniArgs: [],
      result: { ...document.result, interfaces: [] },
    }),
  )(scene);
}

/**
 * Caches an attachment of a deleted container to network `net`.
 *
 * @param result The result of ADD
 * @returns The file's path
 */
export function cacheAttachment(
  cacheDir: string,
  plugin: JsonObject,
  result: JsonObject,
): string {
  const config = { cniVersion: "1.0.0", name: "net", plugins: [plugin] };
  const cache = new AttachmentCache(cacheDir);
  const key = { network: "net", containerId: GONE_ID, ifName: "net1" };
  cache.writeAttachment({
    ...key,
    netns: "/run/netns/no-such-namespace",
    config: new TextEncoder().encode(JSON.stringify(config)),
    cniArgs: [],
    capabilityArgs: {},
  }, result);
  return cache.pathOf(key);
}

/** Writes a lease of a deleted container. */
export function leaseOfNone({ hosts }: DoctorScene): Undo {
  const path = `${hosts.directory}/leases/lan/10.2.0.200`;
  Deno.writeTextFileSync(path, `${GONE_ID}\r\neth0`);
  makeOld(path);
  return () => Deno.removeSync(path);
}

/** Makes a file older than the time for which orphans are kept. */
export function makeOld(path: string): void {
  Deno.utimeSync(path, LONG_AGO, LONG_AGO);
}

/** A time before the grace period of orphans. */
export const LONG_AGO = new Date(Date.now() - 3_600_000);

/** A plugin that supports only VERSION. */
export const VERSIONS = `#!/bin/sh
echo '{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}'`;

/** Changes the mode of a file or directory. */
export function mode(
  pathOf: (scene: DoctorScene) => string,
  bits: number,
): Seed {
  return (scene) => {
    const path = pathOf(scene);
    const before = (Deno.statSync(path).mode ?? 0) & 0o777;
    Deno.chmodSync(path, bits);
    return () => Deno.chmodSync(path, before);
  };
}

/** Has a tunnel of a VPN that takes packets. */
export function tunnel(
  breaks: string,
  fixes = ":",
): Seed {
  return ip(
    "ip link add tun9 type veth peer name tun8; ip link set tun9 up; " +
      `ip link set tun8 up; ${breaks}`,
    `ip link del tun9; ${fixes}`,
  );
}

/** The MAC of the container behind the bridge. */
export function macOf(scene: DoctorScene): string {
  return scene.sh(
    "ip -o link show eth0 | sed 's/.*ether //; s/ .*//'",
    scene.other,
  ).trim();
}

/** One address. */
export const STATIC = {
  type: "static",
  addresses: [{ address: "10.9.9.9/24" }],
} as const;

/** A network of ptp and another plugin. */
export function withPtp(plugin: object): Seed {
  const ipam = { type: "static", addresses: [{ address: "10.77.0.5/24" }] };
  return (scene) => {
    const path = scene.writeNetwork("30-more", [{ type: "ptp", ipam }, plugin]);
    return () => Deno.removeSync(path);
  };
}

/** A plugin that is too old for the networks. */
export const OLD =
  '#!/bin/sh\necho \'{"cniVersion":"0.3.1","supportedVersions":["0.3.1"]}\'';
