/**
 * The kernel's own account of packets: the links that they pass, and the function
 * that ends one, with its reason. It covers all namespaces, and what no rule
 * decides: reverse path filtering, ports of bridges, queues, routes.
 *
 * Source: include/trace/events/net.h, skb.h.
 *
 * @module
 */

import { isErrno, isSystemError } from "./errno.ts";
import { Fd } from "./file/fd.ts";
import * as libc from "./libc.ts";

/** The end of a packet that was not delivered. */
export interface PacketEnd {
  /** The kernel's function, such as `ip_rcv_finish_core`. */
  readonly location: string;
  /** Such as `IP_RPFILTER`; undefined before Linux 5.17. */
  readonly reason: string | undefined;
}

/** What happened to a packet, in order. */
export interface PacketPath {
  /** Number of its protocol: 0x0806 for ARP; 0 if it is not known. */
  readonly type: number;
  /** Its length without the link's header. */
  readonly length: number;
  /** The mark after which this thread sent it; undefined if another one did. */
  readonly mark: string | undefined;
  /** The links that it left or entered by. */
  readonly links: readonly {
    readonly isSent: boolean;
    readonly name: string;
  }[];
  /** Undefined if it was delivered, or left the machine. */
  readonly end: PacketEnd | undefined;
}

/** What distinguishes the packets to record from others. */
export interface PacketFilter {
  /** Lengths without the link's header. */
  readonly lengths: readonly number[];
}

const PREFIX = "cni-probe-";
/** Length of an Ethernet header, and of a VLAN's tag. */
const ETHERNET_BYTES = 14, LINK_HEADERS = [0, ETHERNET_BYTES, 18];
/** Kilobytes of memory for each CPU. */
const BUFFER_KILOBYTES = 64;
const EVENTS = ["net/net_dev_queue", "net/netif_receive_skb"] as const;
const END_EVENT = "skb/kfree_skb";
/**
 * Each commit of a rule ends thousands of messages of netlink, which have no protocol.
 * They would push the packets out of the memory.
 */
const IS_PACKET = "protocol!=0";

/** A recording. Dispose of it to end it. */
export class PacketEvents implements Disposable {
  readonly #stack: DisposableStack;
  readonly #path: string;
  readonly #filter: PacketFilter;

  private constructor(
    path: string,
    filter: PacketFilter,
    stack: DisposableStack,
  ) {
    this.#path = path;
    this.#filter = filter;
    this.#stack = stack;
  }

  /**
   * Begins to record.
   *
   * @returns Undefined if the kernel has no such events, or denies them
   */
  static open(filter: PacketFilter): PacketEvents | undefined {
    using stack = new DisposableStack();
    const root = openRoot(stack);
    if (root === undefined) return undefined;
    const id = crypto.randomUUID().slice(0, 8);
    const path = `${root}/instances/${PREFIX}${id}`;
    try {
      removeLeft(root);
      Deno.mkdirSync(path);
      stack.defer(() => remove(path));
      // An instance with an open file cannot be removed: it is in use.
      const flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
      stack.use(new Fd(libc.open(`${path}/trace_pipe`, flags)));
      const write = (file: string, text: string): void =>
        Deno.writeTextFileSync(`${path}/${file}`, text);
      write("buffer_size_kb", `${BUFFER_KILOBYTES}`);
      const own = `common_pid==${threadId()}`;
      const all = filter.lengths.flatMap((length) =>
        LINK_HEADERS.map((header) => `len==${length + header}`)
      );
      for (const event of EVENTS) {
        write(`events/${event}/filter`, [own, ...all].join("||"));
        write(`events/${event}/enable`, "1");
      }
      write(`events/${END_EVENT}/filter`, IS_PACKET);
      write(`events/${END_EVENT}/enable`, "1");
    } catch (error) {
      if (!isSystemError(error)) throw error;
      return undefined;
    }
    return new PacketEvents(path, filter, stack.move());
  }

  /** Marks what this thread sends next. */
  mark(mark: string): void {
    Deno.writeTextFileSync(`${this.#path}/trace_marker`, mark, {
      create: false,
      append: true,
    });
  }

  /** Returns the packets since the beginning. */
  read(): PacketPath[] {
    return parsePackets(
      Deno.readTextFileSync(`${this.#path}/trace`),
      this.#filter,
      threadId(),
    );
  }

  /** Ends the recording, and frees its memory. */
  [Symbol.dispose](): void {
    this.#stack[Symbol.dispose]();
  }
}

/** Removes recordings of processes that were killed. */
export function removeLeftRecordings(): void {
  using stack = new DisposableStack();
  const root = openRoot(stack);
  if (root !== undefined) removeLeft(root);
}

/** Source: include/uapi/asm-generic/fcntl.h. */
const O_RDONLY = 0, O_NONBLOCK = 0o4000, O_CLOEXEC = 0o2000000;

function openRoot(stack: DisposableStack): string | undefined {
  try {
    const root = stack.use(new Fd(libc.mountDetached("tracefs")));
    return `/proc/self/fd/${root.number}`;
  } catch (error) {
    if (isErrno(error, "ENOSYS", "ENODEV", "EPERM", "EACCES")) return undefined;
    throw error;
  }
}

function removeLeft(root: string): void {
  for (const { name } of Deno.readDirSync(`${root}/instances`)) {
    if (name.startsWith(PREFIX)) remove(`${root}/instances/${name}`);
  }
}

/** Removes a recording, unless another process uses it, or has removed it. */
function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // Another process uses it, or was faster.
  }
}

/** Returns the ID of this thread, which sends. */
function threadId(): number {
  return Number(Deno.readLinkSync("/proc/thread-self").split("/").at(-1));
}

const LINE =
  /-(\d+\s+\[\d+\]).*? ([\d.]+): (\w+): (?:dev=(\S+) )?.*?skbaddr=(\S+)(.*)$/;
const MARK = /-(\d+)\s+\[\d+\].*: tracing_mark_write: (\S+)/;
/**
 * A packet ends right after its last event, in seconds, on the same CPU in the same
 * context. Else its address is that of another one: the kernel does not report what it
 * delivers.
 */
const END_SECONDS = 0.001;

/** A packet that is being parsed. */
interface Parsing {
  readonly links: { readonly isSent: boolean; readonly name: string }[];
  readonly length: number;
  readonly mark: string | undefined;
  seconds: number;
  /** The thread, and its CPU. */
  context: string;
  type: number;
  end: PacketEnd | undefined;
}

/**
 * Parses the text of events.
 *
 * @param thread ID of the thread that sent the probe
 */
export function parsePackets(
  text: string,
  { lengths }: PacketFilter,
  thread: number,
): PacketPath[] {
  const packets: Parsing[] = [];
  const open = new Map<string, Parsing>();
  let mark: string | undefined;
  for (const line of text.split("\n")) {
    const marked = MARK.exec(line);
    if (marked !== null && Number(marked[1]) === thread) mark = marked[2];
    const [, context = "", time, event, name, address = "", rest = ""] =
      LINE.exec(line) ?? [];
    const seconds = Number(time);
    const known = open.get(address);
    if (event === "kfree_skb") {
      const [, type = "0"] = / protocol=(\d+)/.exec(rest) ?? [];
      open.delete(address);
      if (
        known === undefined || known.context !== context ||
        seconds - known.seconds > END_SECONDS
      ) continue;
      if (known.type !== 0 && known.type !== Number(type)) continue;
      const [, location = "?"] = /location=([^\s+]+)/.exec(rest) ?? [];
      const [, reason] = /reason: (\w+)/.exec(rest) ?? [];
      known.type = Number(type);
      known.end = { location, reason };
      continue;
    }
    if (name === undefined) continue;
    const isSent = event === "net_dev_queue";
    const [, length = "0"] = / len=(\d+)/.exec(rest) ?? [];
    const size = lengths.find((one) =>
      LINK_HEADERS.some((header) =>
        Number(length) === one + header
      )
    ) ?? Number(length) - (isSent ? ETHERNET_BYTES : 0);
    // Nobody forwards a packet by the link that it came by.
    const last = known?.links.at(-1);
    const isOther = isSent && last?.isSent === false && last.name === name;
    if (known?.length === size && !isOther) {
      known.links.push({ isSent, name });
      known.seconds = seconds;
      known.context = context;
      continue;
    }
    const packet = {
      links: [{ isSent, name }],
      length: size,
      mark: Number.parseInt(context) === thread ? mark : undefined,
      seconds,
      context,
      type: size === ARP_BYTES ? ARP : 0,
      end: undefined,
    };
    open.set(address, packet);
    packets.push(packet);
  }
  return packets.map(({ links, length, mark, type, end }) => ({
    links,
    length,
    mark,
    type,
    end,
  }));
}

/** Source: include/uapi/linux/if_ether.h `ETH_P_ARP`; RFC 826. */
const ARP = 0x0806, ARP_BYTES = 28;
