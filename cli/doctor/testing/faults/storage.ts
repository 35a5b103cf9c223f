/**
 * Faults of what is kept in files: leases, caches, and the disks below them.
 *
 * @module
 */

import { CONFLICTS } from "../../../../cni/config/types.ts";
import { NetNs } from "../../../../ffi/netns.ts";
import { isVolatile } from "../../../../ipam/host_local/lint.ts";
import { WhereaboutsScene } from "../../../../ipam/whereabouts/testing/scene.ts";
import {
  attachmentOfNone,
  both,
  cacheAttachment,
  cached,
  type Fault,
  GONE_ID,
  leaseOfNone,
  mounted,
  network,
  remove,
  type Seed,
  type Undo,
} from "../fault.ts";
import type { DoctorScene } from "../scene.ts";

const leases = ({ hosts }: DoctorScene): string => `${hosts.directory}/leases`;

/** Starts a program that keeps the lock of a network's leases. */
function lockHolder(stop: boolean): Seed {
  return (scene) => {
    const path = `${leases(scene)}/lan/lock`;
    const child = new Deno.Command("flock", {
      args: ["--no-fork", path, "sleep", "1000"],
      stdin: "null",
    }).spawn();
    while (isFree(path));
    if (stop) child.kill("SIGSTOP");
    return () => {
      child.kill("SIGKILL");
      child.unref();
      // It keeps the lock until it has ended.
      while (!isFree(path));
    };
  };
}

function isFree(path: string): boolean {
  using file = Deno.openSync(path, { read: true });
  return file.tryLockSync(true);
}

/** Creates the lease directory of network `more`. */
function leasesOfMore(fill: (directory: string) => void): Seed {
  return (scene) => {
    const directory = `${leases(scene)}/more`;
    Deno.mkdirSync(directory);
    fill(directory);
    return () => Deno.removeSync(directory, { recursive: true });
  };
}

/** Has ADD of network `more` meet a machine, 02:00:00:00:00:09, which has 10.9.0.2. */
async function meetSquatter(scene: DoctorScene): Promise<Undo> {
  const { hosts, outside } = scene;
  const [file, container] = ["30-more", "aaaaaaaaaaaaaaaa"];
  const path = scene.writeNetwork(file, [{
    type: "bridge",
    bridge: "more0",
    conflictCheck: true,
    ipam: hosts.hostLocal("10.9.0.0/24"),
  }]);
  scene.sh(`
    ip link add more0 type bridge
    ip link add squatter0 master more0 type veth \\
      peer name squatter1 address 02:00:00:00:00:09 netns ${outside.path}
    ip link set squatter0 up
    ip link set more0 up`);
  scene.ip("address add 10.9.0.2/24 dev squatter1", outside);
  scene.ip("link set squatter1 up", outside);
  {
    using netns = NetNs.create();
    await scene.attach(file, netns, container, "job");
    await scene.detach(file, netns, container);
  }
  scene.sh("ip link del squatter0; ip link del more0");
  return () => {
    Deno.removeSync(path);
    Deno.removeSync(`${leases(scene)}/more`, { recursive: true });
  };
}

/** Has an ADD of whereabouts replace an address, as the cached attachment says. */
async function replaceInCluster(
  { cacheDir }: DoctorScene,
): Promise<() => Promise<void>> {
  const cluster = await WhereaboutsScene.start();
  const ipam = { range: "10.0.0.0/24" };
  const call = { pod: "job", id: GONE_ID };
  await cluster.add(ipam, call);
  const conflict = { ip: "10.0.0.1", mac: "02:00:00:00:00:09" };
  const { json } = await cluster.call("ADD", ipam, {
    ...call,
    conf: { [CONFLICTS]: [conflict] },
  });
  const path = cacheAttachment(cacheDir, {
    type: "macvlan",
    ipam: cluster.ipam(ipam),
  }, json);
  return async () => {
    remove(path);
    await cluster[Symbol.asyncDispose]();
  };
}

/** Faults of what is kept in files: leases, caches, and the disks below them. */
export const STORAGE_FAULTS: readonly Fault[] = [
  {
    name: "no address but a persistent one",
    // Its directory is below TMPDIR: one that is empty after a reboot, or not.
    checks: [
      ...isVolatile(Deno.env.get("TMPDIR") ?? "/tmp") ? ["conf-doubtful"] : [],
      "pool-staying",
    ],
    message:
      /"more" has no free address of 10.9.0.0\/30: 1 of 1 are reserved for pods/,
    seed: both(
      leasesOfMore((directory) =>
        Deno.symlinkSync("stay/default/job-1/eth0", `${directory}/10.9.0.2`)
      ),
      network(({ hosts }) => ({
        type: "ptp",
        ipam: {
          ...hosts.hostLocal("10.9.0.0/30"),
          stay: "name",
          stayTime: "10m",
        },
      })),
    ),
  },
  {
    name: "an address that another machine has",
    checks: ["address-set-aside"],
    message: /"more" does not use 10.9.0.2 until .*: 02:00:00:00:00:09 has it/,
    seed: meetSquatter,
  },
  {
    name: "an address that another machine has, in a cluster",
    checks: ["address-set-aside"],
    message: /"net" does not use 10.0.0.1 until .*: 02:00:00:00:00:09 has it/,
    command: /^cni cluster-gc --dry-run$/m,
    seed: replaceInCluster,
  },
  {
    name: "no address left",
    checks: ["pool-full"],
    message: /"more" has 0 of 1 addresses of 10.9.0.0\/30 left/,
    seed: both(
      leasesOfMore((directory) =>
        Deno.writeTextFileSync(
          `${directory}/10.9.0.2`,
          "0123456789abcdef\r\neth9",
        )
      ),
      network(({ hosts }) => ({
        type: "bridge",
        isGateway: true,
        ipam: hosts.hostLocal("10.9.0.0/30"),
      })),
    ),
  },
  {
    name: "a cache file with garbage",
    checks: ["cache-broken"],
    message: /results\/pods-x-eth0" is not readable/,
    seed: cached("pods-x-eth0", "{"),
    follow: true,
  },
  {
    name: "an empty cache file",
    checks: ["cache-broken"],
    message: /results\/pods-x-eth0" is empty/,
    seed: cached("pods-x-eth0", ""),
    follow: true,
  },
  {
    name: "a pipe in the place of a cache file",
    checks: ["cache-broken"],
    message: /results\/pods-x-eth0" is not a file/,
    seed: ({ cacheDir }): Undo => {
      const path = `${cacheDir}/results/pods-x-eth0`;
      new Deno.Command("mkfifo", { args: [path] }).outputSync();
      return () => remove(path);
    },
    follow: true,
  },
  {
    name: "a container that ended without DEL",
    checks: ["leftover"],
    message: new RegExp(`"lan" has 1 orphan of .*: attachment .*${GONE_ID}`),
    seed: attachmentOfNone,
  },
  {
    name: "a lease of no container",
    checks: ["leftover"],
    message: /"lan" has 1 orphan of .*: lease .*10.2.0.200/,
    seed: leaseOfNone,
  },
  {
    name: "a full disk",
    checks: ["disk-full"],
    message: /leases" \(tmpfs\) is full: it contains the leases of "pods", /,
    seed: mounted(
      leases,
      "size=1m",
      "dd if=/dev/zero of=$path/fill bs=64k",
    ),
  },
  {
    name: "no inodes",
    checks: ["disk-full"],
    message: /leases" \(tmpfs\) has no inode left/,
    seed: mounted(
      leases,
      "size=1m,nr_inodes=40",
      "i=0; while : > $path/fill$i; do i=$((i+1)); done",
    ),
  },
  {
    name: "a disk that is nearly full",
    checks: ["disk-full"],
    message: /leases" \(tmpfs\) is nearly full/,
    seed: mounted(
      leases,
      "size=64m",
      "fallocate -l 64800k $path/fill",
    ),
  },
  {
    name: "a read-only file system",
    checks: ["state-unwritable", "not-ready", "conf-doubtful"],
    message:
      /leases" is mounted read-only: it contains the leases of "pods", the leases of/,
    seed: mounted(leases, "size=1m", "mount -o remount,ro $path"),
    follow: true,
  },
  {
    name: "a file in the place of the lease directory",
    checks: ["state-unwritable", "not-ready", "conf-doubtful"],
    message: /leases\/more", for the leases of "more", is not a directory/,
    seed: (scene) => {
      const path = `${leases(scene)}/more`;
      Deno.writeTextFileSync(path, "");
      const undo = network({
        type: "bridge",
        bridge: "br9",
        ipam: scene.hosts.hostLocal("10.9.0.0/24"),
      })(scene);
      return () => {
        undo();
        for (const one of [path, `${path}.unused`]) {
          scene.sh(`rm -rf ${one}`);
        }
      };
    },
    follow: true,
  },
  {
    name: "host-local's lock that another process holds",
    checks: ["lock-held"],
    message: /process \d+ \(.*\) holds the lock ".*leases\/lan\/lock"/,
    seed: lockHolder(false),
  },
  {
    name: "host-local's lock that a stopped process holds",
    checks: ["lock-held"],
    message: /process \d+ \(.*\), which is stopped, holds the lock/,
    command: /^kill -CONT \d+$/,
    seed: lockHolder(true),
  },
];
