/**
 * Installs what the tests need on a Debian-like machine.
 *
 * @module
 */

import { hasCommand } from "../testing/capabilities.ts";

/**
 * Oracles, tools and the Go plugins that the tests compare with, and what runs
 * an executable for arm64.
 */
const TEST_PACKAGES = [
  "conntrack",
  "containernetworking-plugins",
  "dnsmasq-base",
  "iproute2",
  "iptables",
  "iputils-ping",
  "libc6-arm64-cross",
  "libgcc-s1-arm64-cross",
  "nftables",
  "procps",
  "qemu-user",
  "strace",
  "udhcpd",
];

/** Bounds every wait for a mirror or another apt, since CI may have no network. */
const APT_OPTIONS = [
  "-o=Acquire::Retries=0",
  "-o=Acquire::http::Timeout=15",
  "-o=Acquire::https::Timeout=15",
  "-o=DPkg::Lock::Timeout=60",
];

/**
 * Returns the packages that are not installed.
 *
 * @param status Lines of `<package> <state>`, as {@linkcode listMissingPackages} asks dpkg-query
 */
export function findMissing(
  wanted: readonly string[],
  status: string,
): string[] {
  const installed = new Set(
    status.split("\n").filter((line) => line.endsWith(" installed"))
      .map((line) => line.slice(0, line.indexOf(" "))),
  );
  return wanted.filter((name) => !installed.has(name));
}

async function listMissingPackages(
  wanted: readonly string[],
): Promise<string[]> {
  // Exits with 1 if it does not know a package, but still lists the others.
  const { stdout } = await new Deno.Command("dpkg-query", {
    args: ["-W", "-f=${Package} ${db:Status-Status}\\n", ...wanted],
    stderr: "null",
  }).output();
  return findMissing(wanted, new TextDecoder().decode(stdout));
}

async function aptGet(...args: string[]): Promise<boolean> {
  const { success } = await new Deno.Command("apt-get", {
    args: [...APT_OPTIONS, "-qq", ...args],
    env: { DEBIAN_FRONTEND: "noninteractive" },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).output();
  return success;
}

function install(names: readonly string[]): Promise<boolean> {
  return aptGet("install", "--yes", "--no-install-recommends", ...names);
}

/**
 * Installs the missing ones among some packages, as far as root and apt-get can.
 *
 * @returns The packages that are still missing; empty without dpkg
 */
export async function ensureDebianPackages(
  names: readonly string[],
): Promise<string[]> {
  if (!hasCommand("dpkg-query") || !hasCommand("apt-get")) return [];
  const missing = await listMissingPackages(names);
  if (missing.length === 0 || Deno.uid() !== 0) return missing;
  if (await install(missing)) return [];
  await aptGet("update");
  // One by one, since one unknown name would keep apt-get from the others.
  for (const name of missing) await install([name]);
  return await listMissingPackages(names);
}

/** Installs what the tests need, unless `CNI_TEST_NO_INSTALL=1`. */
export async function installTestPackages(): Promise<void> {
  if (Deno.env.get("CNI_TEST_NO_INSTALL") === "1") return;
  const missing = await ensureDebianPackages(TEST_PACKAGES);
  if (missing.length === 0) return;
  console.error(`Not installed, so some tests skip: ${missing.join(" ")}`);
}
