/**
 * Finds orphans that no plugin of this project finds: cached attachments, locks, veth
 * pairs, and orphans that third-party plugins report.
 *
 * @module
 */

import {
  AttachmentCache,
  lockDirectoryOf,
  NetworkRuntime,
} from "../../libcni/mod.ts";
import type { Orphan, OrphanOwner } from "../../metadata/orphans.ts";
import { cachedAddressesOf } from "../../plugins/parts/evidence/evidence.ts";
import { netnsOf } from "../../libcni/cached_result.ts";
import { listNestedPlugins, readConfs, type Scene } from "./search.ts";
import { listFiles } from "../../base/files/list_files.ts";
import {
  FileLock,
  PRIVATE_LOCKS,
  readIfLocked,
} from "../../base/files/lock.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { linkOrphan } from "../../plugins/parts/owner/orphans.ts";
import { ifPossible } from "../../base/files/io.ts";
import { askPlugin } from "../../metadata/ask_plugin.ts";
import { readAttachment } from "../../libcni/cache.ts";
import { findExecutable } from "../../cni/invoke/find.ts";
import { findValue, type JsonObject } from "../../base/json/json.ts";
import type { ReportedOrphan } from "../../metadata/tool_question.ts";
import { Ip, unlessNoAddress } from "../../net/ip.ts";
import { pluginNames } from "../../plugins/registry.ts";

/**
 * Finds attachments that caches still have. They are removed by DEL with the input
 * of ADD, so that every plugin releases what it holds, also in places that this
 * search does not know.
 */
export function findAttachments(scene: Scene): Orphan[] {
  return scene.caches.flatMap((directory) => findCached(scene, directory));
}

function findCached(scene: Scene, cacheDir: string): Orphan[] {
  const found = new AttachmentCache(cacheDir).eachAttachment();
  return found.flatMap((attachment): Orphan[] => {
    const { network, containerId, ifName, path, since } = attachment;
    const reason = scene.evidence.findReason({
      container: containerId,
      addresses: cachedAddressesOf(attachment),
      netns: netnsOf(attachment),
      since,
    });
    if (reason === undefined) return [];
    return [{
      kind: "attachment",
      where: path,
      container: containerId,
      network,
      ...reason,
      async remove(): Promise<void> {
        // Read again: the configurations of all orphans take megabytes.
        const cached = readAttachment(path);
        if (cached === undefined) return;
        const bare = { name: network, cniVersion: "", plugins: [] };
        // It takes no locks: the remover holds them.
        await new NetworkRuntime({ ...scene, cacheDir }).delNetworkList(
          { ...bare, bytes: cached.config },
          { containerId, netns: "", ifName },
          {
            useCachedConfig: true,
            continueOnDelErrors: true,
            ...scene.signal && { signal: scene.signal },
          },
        );
      },
    }];
  }).toArray();
}

/** Finds locks of processes that were killed, on containers and on the node's objects. */
export function findLocks(scene: Scene): Orphan[] {
  return [...scene.caches.map(lockDirectoryOf), PRIVATE_LOCKS]
    .flatMap((directory) => findLocksIn(scene, directory));
}

function findLocksIn({ evidence }: Scene, directory: string): Orphan[] {
  return listFiles(directory)
    .filter(({ name, since }) =>
      !name.startsWith(".") && !evidence.isYoung(since)
    )
    .filter(({ name }) => readIfLocked(`${directory}/${name}`) === "")
    .map(({ name }) => ({
      kind: "lock",
      where: `${directory}/${name}`,
      container: directory === PRIVATE_LOCKS ? "" : name,
      network: "",
      why: "no process holds it",
      async remove(): Promise<void> {
        await Promise.resolve();
        const path = `${directory}/${name}`;
        try {
          FileLock.tryAcquire(path, { create: false })?.remove();
        } catch (error) {
          if (!(error instanceof Deno.errors.NotFound)) throw error;
        }
      },
    }));
}

/**
 * Finds veths with both ends on the host. A veth with an end in another namespace
 * ends with that namespace, so it is never left over.
 */
export function findPairs(scene: Scene): Orphan[] {
  using host = Rtnl.open(scene.hostNetns);
  const links = host.link.list();
  return links.filter((link) => isHostPair(link, links))
    .flatMap((link) => linkOrphan(scene, link));
}

/** Reports whether a veth of this project also has its peer on the host. */
function isHostPair(link: Link, links: readonly Link[]): boolean {
  return link.kind === "veth" && link.linkNsid === undefined &&
    links.some(({ index }) => index === link.linkIndex);
}

function typeOf(conf: JsonObject): string {
  return String(findValue(conf, "type"));
}

/** Asks each plugin outside of this project that a configuration names. */
export async function askOthers(scene: Scene): Promise<Orphan[]> {
  const confs = readConfs(scene).flatMap(listNestedPlugins)
    .filter((conf) => !pluginNames.includes(typeOf(conf))).toArray();
  const orphans: Orphan[] = [];
  for (const [type, own] of Map.groupBy(confs, typeOf)) {
    const { pluginDirs } = scene;
    const path = ifPossible(() => findExecutable(type, pluginDirs));
    if (path !== undefined) orphans.push(...await ask(scene, path, own));
  }
  return orphans;
}

async function ask(
  { hostNetns, evidence, env, signal }: Scene,
  path: string,
  confs: readonly JsonObject[],
): Promise<Orphan[]> {
  const question = {
    ask: "leftovers",
    hostNetns,
    path: env["PATH"] ?? "",
    confs,
  } as const;
  const options = { env, signal };
  const answer = await askPlugin(path, question, options);
  return (answer?.leftovers ?? []).flatMap((reported) => {
    const { kind, where, container, network } = reported;
    const { why } = reported;
    const reason = why === ""
      ? evidence.findReason(ownerOf(reported))
      : { why };
    return reason === undefined ? [] : [{
      kind,
      where,
      container,
      network,
      ...reason,
      async remove(): Promise<void> {
        const removed = { ...question, remove: [where] };
        if (await askPlugin(path, removed, options) === undefined) {
          throw new Error(`Cannot remove ${where}: ${path} failed`);
        }
      },
    }];
  });
}

function ownerOf({ claim = {} }: ReportedOrphan): OrphanOwner {
  const { addresses = [], since, ...others } = claim;
  return {
    ...others,
    addresses: addresses
      .flatMap((text) => unlessNoAddress(() => Ip.parse(text)) ?? []),
    since: since === undefined ? undefined : new Date(since),
  };
}
