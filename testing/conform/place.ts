/**
 * Where plugins are tried: a node that is thrown away.
 *
 * @module
 */

import { inNetns, NetNs, type Sync } from "../../ffi/netns.ts";
import { OWN_NETNS } from "../../ffi/own_netns.ts";
import { Fd } from "../../ffi/file/fd.ts";
import { O_CLOEXEC, O_RDONLY } from "../../ffi/file/open_flags.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import * as libc from "../../ffi/libc.ts";
import { ifPossible } from "../../base/files/io.ts";

/** A node for one try. Whatever happens on it is gone afterwards. */
export interface Place extends Disposable {
  /** The node's own network namespace. */
  readonly host: NetNs;
  /** The path of that namespace. */
  readonly hostPath: string;
  /** Where plugins find others, for CNI_PATH. */
  readonly path: string;
  /** A directory for what plugins keep. */
  readonly directory: string;
  /** Creates a container's namespace; returns it and its path for plugins. */
  addSandbox(name: string): Sandbox;
  /** Does synchronous work among the node's files. */
  inside<T>(work: () => Sync<T>): T;
  /** Lists the files that were written, or that differ from before. */
  files(): readonly string[];
  /** Returns what else there is to compare, in lines. */
  more?(): readonly string[];
}

/** A container's namespace. */
export interface Sandbox {
  readonly netns: NetNs;
  /** For CNI_NETNS. */
  readonly path: string;
  /** Removes it, as a runtime does after DEL. */
  remove(): void;
}

/** Source: include/uapi/linux/sched.h. */
const CLONE_FS = 0x00000200, CLONE_NEWNS = 0x00020000;
/** Source: include/uapi/linux/mount.h. */
const MS_REC = 0x4000, MS_PRIVATE = 1 << 18, MNT_DETACH = 2;

/** Directories whose files are the node's own copies, if they exist. */
export const COPIED = ["/etc", "/var", "/tmp", "/opt", "/root", "/srv"];
/** What is written to copies, in the new /run. */
const WRITTEN = "/run/.written";

/**
 * A node with a network namespace and mounts of its own: `/run` is empty, `/sys`
 * is the namespace's, and what is written to `/etc`, `/var`, `/tmp`, `/opt`,
 * `/root` and `/srv` reaches no disk. It needs root.
 */
export class ThrowAwayNode implements Place {
  readonly #stack = new DisposableStack();
  readonly #mounts: Mounts;
  readonly #copied: readonly string[];
  /** Namespaces that are open here, so that no other can have their numbers. */
  readonly #open = new Set<NetNs>();
  readonly host: NetNs;
  readonly path: string;
  readonly directory = "/run/conform";
  readonly hostPath = "/run/netns/node";

  /**
   * Makes a node.
   *
   * @param path For CNI_PATH, whose directories are visible on the node
   * @throws {SyscallError} EPERM without CAP_SYS_ADMIN
   */
  constructor(path: string) {
    this.path = path;
    this.host = this.#stack.use(NetNs.create());
    using here = new Mounts();
    const cwd = Deno.cwd();
    try {
      libc.unshare(CLONE_NEWNS);
      this.#mounts = this.#stack.use(new Mounts());
      this.#copied = inNetns(this.host, mountAll);
      inNetns(this.host, settle);
    } finally {
      here.enter();
      Deno.chdir(cwd);
    }
    this.#open.add(this.host);
    this.#bind(this.host, this.hostPath);
  }

  inside<T>(work: () => Sync<T>): T {
    using here = new Mounts();
    const cwd = Deno.cwd();
    this.#mounts.enter();
    try {
      return work();
    } finally {
      here.enter();
      Deno.chdir(cwd);
    }
  }

  addSandbox(name: string): Sandbox {
    const netns = this.#stack.use(NetNs.create());
    this.#open.add(netns);
    const path = `/run/netns/${name}`;
    this.#bind(netns, path);
    inNetns(netns, settle);
    const remove = (): void => {
      this.#kill([netns]);
      this.#open.delete(netns);
      this.inside(() => {
        libc.umount(path, MNT_DETACH);
        Deno.removeSync(path);
      });
      netns[Symbol.dispose]();
    };
    return { netns, path, remove };
  }

  #bind(netns: NetNs, path: string): void {
    this.inside(() => {
      Deno.writeTextFileSync(path, "");
      netns.bindTo(path);
    });
  }

  files(): readonly string[] {
    return this.inside(() => {
      const copied = this.#copied.flatMap((directory) =>
        list(`${WRITTEN}${directory}/upper`)
          .map((file) => `${directory}${file}`)
      );
      const ofRun = list("/run")
        .filter((file) => !/^\/(\.written|netns)\//.test(file))
        .map((file) => `/run${file}`);
      return [...copied, ...ofRun].sort();
    });
  }

  /**
   * Kills what still runs in namespaces. They must be open: the kernel gives the
   * number of one that is gone to the next one, of whomever.
   */
  #kill(namespaces: Iterable<NetNs>): void {
    const numbers = new Set([...namespaces].map(numberOf));
    for (const { name: pid } of Deno.readDirSync("/proc")) {
      if (!/^\d+$/.test(pid) || Number(pid) === Deno.pid) continue;
      const netns = ifPossible(() => Deno.readLinkSync(`/proc/${pid}/ns/net`));
      if (netns === undefined || !numbers.has(netns)) continue;
      ifPossible(() => Deno.kill(Number(pid), "SIGKILL"));
    }
  }

  [Symbol.dispose](): void {
    this.#kill(this.#open);
    this.#open.clear();
    this.#stack.dispose();
  }
}

/**
 * This thread's mounts, and its root directory in them: in a chroot that is not
 * the mounts' own.
 */
class Mounts implements Disposable {
  readonly #namespace = new Fd(
    libc.open("/proc/thread-self/ns/mnt", O_RDONLY | O_CLOEXEC),
  );
  readonly #root = Fd.atPath("/");

  /**
   * Moves the thread there. A thread that it started in between shares its root
   * directory, so the kernel refuses that.
   */
  enter(): void {
    libc.unshare(CLONE_FS);
    libc.setns(this.#namespace.number, CLONE_NEWNS);
    libc.chroot(this.#root.number);
  }

  [Symbol.dispose](): void {
    this.#namespace[Symbol.dispose]();
    this.#root[Symbol.dispose]();
  }
}

/** Mounts what the node has for itself; returns the directories with copies. */
function mountAll(): string[] {
  libc.mount("", "/", MS_PRIVATE | MS_REC);
  libc.umount("/sys", MNT_DETACH);
  libc.mountNew("sysfs", "/sys", 0);
  libc.mountNew("tmpfs", "/run", 0);
  for (const name of ["netns", "conform", "lock"]) {
    Deno.mkdirSync(`/run/${name}`);
  }
  return COPIED.filter((directory) => {
    const upper = `${WRITTEN}${directory}/upper`;
    const work = `${WRITTEN}${directory}/work`;
    Deno.mkdirSync(upper, { recursive: true });
    Deno.mkdirSync(work);
    const data = `lowerdir=${directory},upperdir=${upper},workdir=${work}`;
    const isCopied = ifPossible(() => {
      libc.mountNew("overlay", directory, 0, data);
      return true;
    });
    // Better to have nothing there than the machine's own.
    if (!isCopied && directory === "/var") {
      Deno.mkdirSync("/var/lib", { recursive: true });
      libc.mountNew("tmpfs", "/var/lib", 0);
    }
    return isCopied;
  });
}

/** Brings the loopback up, and makes addresses usable immediately. */
function settle(): void {
  using rtnl = Rtnl.open(OWN_NETNS);
  rtnl.link.set(rtnl.link.get("lo").index, { isUp: true });
  acceptAddresses();
}

/** Turns off the search for duplicates of IPv6 addresses, which takes a second. */
export function acceptAddresses(): void {
  for (const name of ["default", "all"]) {
    ifPossible(() => writeSysctl(`net/ipv6/conf/${name}/accept_dad`, "0"));
  }
}

/** Returns a namespace's number, as `/proc/PID/ns/net` shows it. */
function numberOf(netns: NetNs): string {
  return inNetns(netns, () => Deno.readLinkSync(OWN_NETNS));
}

/** Lists files below a directory, with paths from there. */
function list(directory: string, below = ""): string[] {
  const entries = ifPossible(() => [...Deno.readDirSync(directory + below)]);
  return (entries ?? []).flatMap(({ name, isDirectory }) =>
    isDirectory ? list(directory, `${below}/${name}`) : [`${below}/${name}`]
  );
}
