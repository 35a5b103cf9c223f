/**
 * Names of pods, containers and namespaces on the command line.
 *
 * @module
 */

import { resolve } from "@std/path/posix";
import { ifPossible, isTaken } from "../../base/files/io.ts";
import { findFileId } from "../../base/files/same_file.ts";
import { findNearest } from "../../base/command_line/suggest.ts";
import { findNetnsProblem, listNamedNetns, pathOfName } from "./named_netns.ts";
import type { Directories } from "./network.ts";
import {
  isOfNetns,
  listNodeAttachments,
  type NodeAttachment,
} from "./node_attachments.ts";

/** A pod, container or namespace. */
export interface Target {
  /** As given. */
  readonly text: string;
  readonly kind: "pod" | "container" | "process" | "netns";
  /** The namespace's path, which might not exist; "" if unknown. */
  readonly netns: string;
  /** The container ID; undefined for a process or namespace. */
  readonly containerId: string | undefined;
}

/** A name fits several containers or namespaces. */
class AmbiguousNameError extends Error {}

/** Shorter prefixes of container IDs are not accepted: they are too easily typed by mistake. */
const SHORTEST_PREFIX = 4;

/**
 * Finds the target of a name:
 *
 * - `namespace/pod`
 * - `pid:4711`, the namespace of a process
 * - the path of a namespace, or its name as in `ip netns`
 * - a container ID, or a unique prefix of at least four characters
 * - the name of a container of podman
 *
 * The path and the name of a namespace come first. The cache is read only if
 * needed.
 *
 * @returns The namespace at a path or with a name might not exist
 * @throws {AmbiguousNameError} If several match
 * @throws {Error} If a pod or process is unknown, or the name is invalid
 * @throws {CniError} 5 If the cache cannot be read
 */
export function findTarget(
  text: string,
  directories: Pick<Directories, "cacheDir">,
): Target {
  const pid = /^pid:(\d+)$/.exec(text)?.[1];
  if (pid !== undefined) return findProcess(text, pid);
  if (text.includes("/")) {
    return IS_POD.test(text)
      ? findPod(text, directories)
      : netnsTarget(text, resolve(text));
  }
  const netns = pathOfName(text);
  if (isTaken(netns)) return netnsTarget(text, netns);
  const all = listNodeAttachments(directories);
  const isGone = all.some((one) => isOfNetns(one, netns));
  return (isGone ? undefined : findContainer(text, all)) ??
    netnsTarget(text, netns);
}

/** A target and its attachments. */
export interface AttachedTarget extends Target {
  readonly attachments: readonly NodeAttachment[];
}

/**
 * Finds a target that exists, or has attachments.
 *
 * @throws {Error} As {@linkcode findTarget}, and if a namespace does not exist;
 *   the error suggests the most similar name
 */
export function getTarget(
  text: string,
  directories: Pick<Directories, "cacheDir">,
): AttachedTarget {
  const target = findTarget(text, directories);
  const { netns, containerId } = target;
  const all = listNodeAttachments(directories);
  const attachments = all.filter((one) =>
    netns === "" ? one.containerId === containerId : isOfNetns(one, netns)
  );
  const problem = attachments.length > 0 ? undefined : findNetnsProblem(netns);
  if (problem === undefined) return { ...target, attachments };
  throw new Error(
    target.kind === "netns" && !text.includes("/")
      ? `There is no pod, container or network namespace "${text}"` +
        (suggest(text, all) || "; see cni list")
      : problem,
  );
}

/**
 * Explains that a namespace does not exist, and suggests a name; undefined if it exists
 * or might exist.
 */
export function findUnknown(
  { text, kind, netns }: Target,
  directories: Pick<Directories, "cacheDir">,
): string | undefined {
  const problem = findNetnsProblem(netns);
  const isName = kind === "netns" && !text.includes("/");
  if (problem === undefined || !isName || isTaken(netns)) return problem;
  return problem +
    suggest(text, ifPossible(() => listNodeAttachments(directories)) ?? []);
}

/**
 * Returns the path of the namespace of a pod, container or process, or of a
 * namespace given by path or name, which need not exist.
 *
 * @throws {Error} As {@linkcode findTarget}, and if the path is unknown
 */
export function resolveNetns(
  text: string,
  directories: Pick<Directories, "cacheDir">,
): string {
  const { netns } = findTarget(text, directories);
  if (netns !== "") return netns;
  throw new Error(`The cache has no network namespace of "${text}"`);
}

/** A name without a dot at the start and with one slash inside it. */
const IS_POD = /^[^./][^/]*\/[^/]+$/;

function netnsTarget(text: string, netns: string): Target {
  return { text, kind: "netns", netns, containerId: undefined };
}

function findProcess(text: string, pid: string): Target {
  if (!isTaken(`/proc/${pid}`)) {
    throw new Error(`There is no process with PID ${pid}`);
  }
  const netns = `/proc/${pid}/ns/net`;
  return { text, kind: "process", netns, containerId: undefined };
}

/**
 * Finds a pod.
 *
 * @throws {Error} As {@linkcode findTarget}, and if the name is not a pod's
 */
export function getPod(
  text: string,
  directories: Pick<Directories, "cacheDir">,
): Target {
  const target = findTarget(text, directories);
  if (target.kind === "pod") return target;
  throw new Error(`"${text}" is not the name of a pod: use namespace/name`);
}

/** Finds a pod. Its name might also be a relative path. */
function findPod(
  text: string,
  directories: Pick<Directories, "cacheDir">,
): Target {
  const all = listNodeAttachments(directories);
  const ofPod = all.filter(({ pod }) => pod === text);
  if (ofPod.length > 0) return chooseOne(text, "pod", ofPod);
  if (isTaken(text)) return netnsTarget(text, resolve(text));
  throw new Error(
    `There is no pod "${text}"` + (suggest(text, all) || "; see cni list"),
  );
}

/** Finds a container by its ID or a prefix, or by its name. */
function findContainer(
  text: string,
  all: readonly NodeAttachment[],
): Target | undefined {
  const exact = all.filter((one) =>
    one.containerId === text || findContainerName(one) === text
  );
  const found = exact.length > 0 || text.length < SHORTEST_PREFIX
    ? exact
    : all.filter(({ containerId }) => containerId.startsWith(text));
  return found.length === 0 ? undefined : chooseOne(text, "container", found);
}

/** Finds the name of a container of podman, which passes it without a namespace. */
function findContainerName({ cniArgs }: NodeAttachment): string | undefined {
  const { K8S_POD_NAMESPACE: namespace, K8S_POD_NAME: name } = Object
    .fromEntries<string | undefined>(cniArgs);
  return namespace ? undefined : name || undefined;
}

/**
 * Returns the one namespace of attachments. Attachments of a deleted namespace,
 * such as the previous one of a restarted pod, count only if there are no
 * others.
 */
function chooseOne(
  text: string,
  kind: "pod" | "container",
  found: readonly NodeAttachment[],
): Target {
  const ids = new Set(found.map(({ containerId }) => containerId));
  const attachments = [true, undefined, false]
    .map((isLive) => found.filter((one) => one.isLive === isLive))
    .find(({ length }) => length > 0) ?? [];
  const paths = new Map(
    attachments.map(({ netns, containerId }) => [
      findFileId(netns) ?? (netns || containerId),
      netns,
    ]),
  );
  const isOne = paths.size === 1 && (kind === "pod" || ids.size === 1);
  const [netns = ""] = paths.values();
  const containerId = attachments[0]?.containerId;
  if (isOne) return { text, kind, netns, containerId };
  const shown = (kind === "pod" ? attachments : found).map((
    { containerId, pod, netns },
  ) => `${shortenId(containerId)} (${pod ?? netns})`);
  throw new AmbiguousNameError(
    `"${text}" is ambiguous: it can be ${[...new Set(shown)].join(" or ")}`,
  );
}

/**
 * Shortens an ID: 13 digits identify a container, as in crictl. nerdctl writes
 * its namespace before the digits.
 */
export function shortenId(id: string): string {
  return id.replace(/^(.*-)?([0-9a-f]{13})[0-9a-f]{51}$/, "$1$2");
}

/** Suggests the most similar name at the end of a message; "" if none is similar. */
function suggest(text: string, all: readonly NodeAttachment[]): string {
  const names = new Map<string, string>();
  for (const one of all) {
    const { containerId, pod } = one;
    const name = findContainerName(one) ?? containerId;
    names.set(containerId, containerId).set(name, name);
    if (pod === undefined) continue;
    // People often forget the namespace.
    names.set(pod.slice(pod.indexOf("/") + 1), pod);
    names.set(pod, pod);
  }
  for (const { name } of ifPossible(listNamedNetns) ?? []) {
    names.set(name, name);
  }
  const nearest = names.has(text) ? text : findNearest(text, [...names.keys()]);
  const name = nearest && names.get(nearest);
  return name ? `; did you mean "${name}"?` : "";
}
