/**
 * The Go plugins that tests compare with: Debian's, and the newest release,
 * which `deno task test` builds (scripts/setup/go_plugins.ts).
 *
 * @module
 */

import { join } from "@std/path/posix";
import {
  DEBIAN_PLUGIN_DIR,
  hasCommand,
  isExecutable,
} from "../../testing/capabilities.ts";
import { lockOf } from "../../scripts/setup/go_build.ts";

/** The newest release of github.com/containernetworking/plugins that tests know. */
export const NEWEST_RELEASE = "v1.10.0";

/** The release of github.com/containernetworking/cni that provides cnitool. */
export const CNITOOL_RELEASE = "v1.3.1";

/** Where `deno task test` puts the newest release, in a directory per release. */
export const NEWEST_DIRECTORY: string = decodeURIComponent(
  new URL(`../../build/peers/${NEWEST_RELEASE}`, import.meta.url).pathname,
);

/** Go programs that tests run, as `go install` takes them. */
export const TOOLS = {
  helm: "helm.sh/helm/v4/cmd/helm@v4.3.1",
  actionlint: "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
} as const;

/** Returns where a Go program is built, in a directory for its version. */
export function directoryOfTool(name: keyof typeof TOOLS): string {
  const version = TOOLS[name].replace(/^.*@/, "");
  const url = new URL(`../../build/peers/${name}-${version}`, import.meta.url);
  return decodeURIComponent(url.pathname);
}

/**
 * Returns the path of a Go program, undefined if it was not built. Waits for
 * the end of a build.
 */
export function findTool(name: keyof typeof TOOLS): string | undefined {
  const directory = directoryOfTool(name);
  const path = join(directory, name);
  if (!isExecutable(path)) awaitLock(directory);
  return isExecutable(path) ? path : undefined;
}

/** Go plugins of one version. */
export interface Peer {
  /** The name in test names: `Go 1.10.0`. */
  readonly name: string;
  /** Directory of the executables. */
  readonly directory: string;
  /** The newest CNI version that all of them have. */
  readonly cniVersion: string;
}

/** A peer that is not there, and how to get it. */
export interface AbsentPeer {
  readonly name: string;
  readonly needs: string;
}

/** Returns the existing directories of Go plugins, oldest release first. */
export function peerDirectories(): Peer[] {
  return findPeers().peers;
}

/**
 * Finds the Go plugins. Waits for the end of a build of the newest release.
 *
 * @param newest Directory of that release
 */
export function findPeers(newest: string = NEWEST_DIRECTORY): {
  readonly peers: Peer[];
  readonly absent: AbsentPeer[];
} {
  const peers: Peer[] = [];
  const absent: AbsentPeer[] = [];
  const asked = Deno.env.get("CNI_GO_PLUGINS");
  const directory = asked || DEBIAN_PLUGIN_DIR;
  if (isPluginDirectory(directory)) {
    const version = asked ? `of ${directory}` : packageVersion();
    peers.push(describePeer(`Go ${version}`, directory));
  } else {
    const needs = `needs the Go plugins in ${directory}`;
    absent.push({ name: "Go of Debian", needs });
  }
  const name = `Go ${NEWEST_RELEASE.slice(1)}`;
  awaitBuild(newest);
  if (isPluginDirectory(newest)) {
    peers.push(describePeer(name, newest));
  } else {
    absent.push({ name, needs: "needs go and its module proxy" });
  }
  return { peers, absent };
}

function isPluginDirectory(directory: string): boolean {
  return isExecutable(join(directory, "host-local"));
}

function describePeer(name: string, directory: string): Peer {
  const { stdout } = new Deno.Command(join(directory, "host-local"), {
    env: { CNI_COMMAND: "VERSION" },
    stdin: "null",
  }).outputSync();
  const { supportedVersions } = JSON.parse(new TextDecoder().decode(stdout));
  return { name, directory, cniVersion: supportedVersions.at(-1) };
}

/** Debian's plugins do not know their own version. */
function packageVersion(): string {
  const unknown = "of unknown version";
  if (!hasCommand("dpkg-query")) return unknown;
  const { stdout } = new Deno.Command("dpkg-query", {
    args: ["-W", "-f=${Version}", "containernetworking-plugins"],
    stderr: "null",
  }).outputSync();
  const [version] = new TextDecoder().decode(stdout).match(/^\d[\d.]*/) ?? [];
  return version ?? unknown;
}

/** Waits until no process builds a directory of plugins. */
function awaitBuild(directory: string): void {
  if (!isPluginDirectory(directory)) awaitLock(directory);
}

function awaitLock(directory: string): void {
  try {
    using lock = Deno.openSync(lockOf(directory));
    lock.lockSync(false);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
