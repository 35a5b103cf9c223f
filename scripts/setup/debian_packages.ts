/**
 * Installs what the tests need on a Debian-like machine.
 *
 * @module
 */

import { hasCommand } from "../../testing/capabilities.ts";
import { exists } from "../../base/files/io.ts";
import { ROOT } from "../project.ts";

/**
 * Oracles, tools and the Go plugins that the tests compare with, what runs an
 * executable for arm64, and what compiles the programs of `launcher/`.
 */
const TEST_PACKAGES = [
  "binutils",
  "clang-14",
  "conntrack",
  "containernetworking-plugins",
  "dbus-daemon",
  "dnsmasq-base",
  "iproute2",
  "iptables",
  "iputils-ping",
  "libc6-arm64-cross",
  "libclang-rt-14-dev",
  "libgcc-s1-arm64-cross",
  "lld-14",
  "llvm-14",
  "nftables",
  "procps",
  "python3-dbus",
  "python3-gi",
  "qemu-user",
  "strace",
  "udhcpd",
];

/**
 * Services that tests start in namespaces, with their libraries. If they were
 * installed, they would also start on this machine, so they are only unpacked.
 */
const UNPACKED = {
  firewalld: ["firewalld", "python3-firewall", "python3-nftables"],
  udev: ["udev"],
  prometheus: ["prometheus", "prometheus-node-exporter"],
  /** A router and a DHCP server. */
  router: ["radvd", "isc-dhcp-server"],
  /** DHCP servers, with libraries that few machines have. */
  kea: [
    "kea-common",
    "kea-dhcp4-server",
    "kea-dhcp6-server",
    "liblog4cplus-2.0.5",
    "libmariadb3",
    "libpq5",
  ],
} as const;

/** Returns the root of the files of unpacked packages. */
function rootOf(name: keyof typeof UNPACKED): string {
  return `${ROOT}build/${name}`;
}

/** The root of the files of firewalld. */
export const FIREWALLD_ROOT: string = rootOf("firewalld");
/** The root of the files of udev. */
export const UDEV_ROOT: string = rootOf("udev");
/** The root of the files of Prometheus. */
export const PROMETHEUS_ROOT: string = rootOf("prometheus");
/** The root of the files of radvd and ISC's DHCP server. */
export const ROUTER_ROOT: string = rootOf("router");
/** The root of the files of Kea. */
export const KEA_ROOT: string = rootOf("kea");

/** Bounds every wait for a mirror or another apt, since CI may have no network. */
const APT_OPTIONS = [
  "-o=Acquire::Retries=0",
  "-o=Acquire::http::Timeout=15",
  "-o=Acquire::https::Timeout=15",
  "-o=DPkg::Lock::Timeout=60",
];

async function listMissingPackages(
  wanted: readonly string[],
): Promise<string[]> {
  // Exits with 1 if it does not know a package, but still lists the others.
  const { stdout } = await new Deno.Command("dpkg-query", {
    args: ["-W", "-f=${Package} ${db:Status-Status}\\n", ...wanted],
    stderr: "null",
  }).output();
  const lines = new Set(new TextDecoder().decode(stdout).split("\n"));
  return wanted.filter((name) => !lines.has(`${name} installed`));
}

async function succeeds(
  program: string,
  args: readonly string[],
  cwd?: string,
): Promise<boolean> {
  const { success } = await new Deno.Command(program, {
    args: [...args],
    env: { DEBIAN_FRONTEND: "noninteractive" },
    stdin: "null",
    stdout: "null",
    stderr: "null",
    ...cwd !== undefined && { cwd },
  }).output();
  return success;
}

function aptGet(args: readonly string[], cwd?: string): Promise<boolean> {
  return succeeds("apt-get", [...APT_OPTIONS, "-qq", ...args], cwd);
}

/** The keys of all Debian releases, where Debian's own packages are used. */
const DEBIAN_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg";

/**
 * Has apt look at another release of Debian only: with lists of its own, so that
 * nothing of it can be installed on the machine.
 *
 * @param directory For the lists
 * @returns Options for apt-get
 */
async function chooseRelease(
  release: string,
  directory: string,
): Promise<string[]> {
  const paths = ["lists", "cache"].map((name) => `${directory}/${name}`);
  for (const path of paths) await Deno.mkdir(path, { recursive: true });
  const sources = `${directory}/sources.list`;
  await Deno.writeTextFile(
    sources,
    `deb [signed-by=${DEBIAN_KEYS}] http://deb.debian.org/debian ${release} main\n`,
  );
  return [
    `-o=Dir::Etc::SourceList=${sources}`,
    "-o=Dir::Etc::SourceParts=/dev/null",
    `-o=Dir::State::Lists=${paths[0]}`,
    `-o=Dir::Cache=${paths[1]}`,
    // A mirror may be older than testing's lists are valid.
    "-o=Acquire::Check-Valid-Until=false",
  ];
}

function install(names: readonly string[]): Promise<boolean> {
  return aptGet(["install", "--yes", "--no-install-recommends", ...names]);
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
  await aptGet(["update"]);
  // One by one, since one unknown name would keep apt-get from the others.
  for (const name of missing) await install([name]);
  return await listMissingPackages(names);
}

/**
 * Downloads packages and unpacks them into a directory, unless it is there.
 *
 * @param directory Appears complete, or not at all
 * @param release Of Debian; by default the machine's
 */
export async function ensureUnpacked(
  names: readonly string[],
  directory: string,
  release?: string,
): Promise<boolean> {
  if (exists(directory)) return true;
  if (!hasCommand("apt-get") || !hasCommand("dpkg-deb")) return false;
  const unfinished = `${directory}.${Deno.pid}`;
  await Deno.mkdir(unfinished, { recursive: true });
  try {
    const lists = `${unfinished}/apt`;
    const options = release === undefined
      ? []
      : await chooseRelease(release, lists);
    const download = [...options, "download", ...names];
    const isThere = await aptGet(download, unfinished) ||
      await aptGet([...options, "update"]) &&
        await aptGet(download, unfinished);
    if (!isThere) return false;
    for (const { name } of await Array.fromAsync(Deno.readDir(unfinished))) {
      if (!name.endsWith(".deb")) continue;
      const unpack = ["--extract", name, "."];
      if (!await succeeds("dpkg-deb", unpack, unfinished)) return false;
      await Deno.remove(`${unfinished}/${name}`);
    }
    if (release !== undefined) await Deno.remove(lists, { recursive: true });
    await Deno.rename(unfinished, directory);
    return true;
  } finally {
    if (exists(unfinished)) await Deno.remove(unfinished, { recursive: true });
  }
}

/** Installs what the tests need, unless `CNI_TEST_NO_INSTALL=1`. */
export async function installTestPackages(): Promise<void> {
  if (Deno.env.get("CNI_TEST_NO_INSTALL") === "1") return;
  const missing = await ensureDebianPackages(TEST_PACKAGES);
  const names = Deno.uid() === 0 ? Object.keys(UNPACKED) : [];
  for (const name of names as (keyof typeof UNPACKED)[]) {
    const packages = UNPACKED[name];
    if (!await ensureUnpacked(packages, rootOf(name))) {
      missing.push(...packages);
    }
  }
  if (missing.length === 0) return;
  console.error(`Not installed, so some tests skip: ${missing.join(" ")}`);
}
