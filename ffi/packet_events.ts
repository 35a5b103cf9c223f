/**
 * The kernel's trace events about packets: the links through which a packet passes,
 * and the function that drops it, with the reason. The events cover all namespaces,
 * and also drops outside rules: reverse path filtering, bridge ports, queues, routes.
 *
 * Source: include/trace/events/net.h, skb.h.
 *
 * @module
 */

import { isErrno, isSystemError } from "./errno.ts";
import { Fd } from "./file/fd.ts";
import { O_CLOEXEC, O_NONBLOCK, O_RDONLY } from "./file/open_flags.ts";
import * as libc from "./libc.ts";

/** The drop of a packet. */
export interface PacketEnd {
  /** The kernel's function, such as `ip_rcv_finish_core`. */
  readonly location: string;
  /** The kernel's drop reason, such as `IP_RPFILTER`; undefined before Linux 5.17. */
  readonly reason: string | undefined;
}

/** The events of a packet, in order. */
export interface PacketPath {
  /** Number of its protocol: 0x0806 for ARP; 0 if it is unknown. */
  readonly type: number;
  /** Its length without the link's header. */
  readonly length: number;
  /**
   * The mark after which this thread sent it; undefined if a different thread sent
   * it.
   */
  readonly mark: string | undefined;
  /** The links through which it left or arrived. */
  readonly links: readonly {
    readonly isSent: boolean;
    readonly name: string;
  }[];
  /** Undefined if it was delivered, or left the machine. */
  readonly end: PacketEnd | undefined;
}

/** Properties of the packets to record. */
export interface PacketFilter {
  /** Lengths without the link's header. */
  readonly lengths: readonly number[];
}

const PREFIX = "cni-probe-";
/**
 * Lengths of the possible link headers: none, Ethernet, and Ethernet with a VLAN tag.
 */
const ETHERNET_BYTES = 14, LINK_HEADERS = [0, ETHERNET_BYTES, 18];
/** Size of the trace buffer of each CPU, in KiB. */
const BUFFER_KILOBYTES = 64;
const EVENTS = ["net/net_dev_queue", "net/netif_receive_skb"] as const;
const END_EVENT = "skb/kfree_skb";
/**
 * Each commit of a rule frees thousands of netlink messages, which have no protocol.
 * They would push the packets out of the buffer.
 */
const IS_PACKET = "protocol!=0";

/** A recording. Dispose of it to stop recording. */
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
   * Starts recording.
   *
   * @returns Undefined if the kernel lacks these events, or denies access to them
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
      // An instance with an open file is in use, and cannot be removed.
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

  /** Marks the packets that this thread sends next. */
  mark(mark: string): void {
    Deno.writeTextFileSync(`${this.#path}/trace_marker`, mark, {
      create: false,
      append: true,
    });
  }

  /** Returns the packets since the start of the recording. */
  read(): PacketPath[] {
    return parsePackets(
      Deno.readTextFileSync(`${this.#path}/trace`),
      this.#filter,
      threadId(),
    );
  }

  /** Stops the recording, and frees its memory. */
  [Symbol.dispose](): void {
    this.#stack[Symbol.dispose]();
  }
}

/** Removes recordings of killed processes. */
export function removeLeftRecordings(): void {
  using stack = new DisposableStack();
  const root = openRoot(stack);
  if (root !== undefined) removeLeft(root);
}

function openRoot(stack: DisposableStack): string | undefined {
  try {
    return stack.use(new Fd(libc.mountDetached("tracefs"))).path;
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

/** Removes a recording, unless another process uses it or has removed it. */
function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // Another process uses it, or has just removed it.
  }
}

/** Returns the ID of this thread, which sends the packets. */
function threadId(): number {
  return Number(Deno.readLinkSync("/proc/thread-self").split("/").at(-1));
}

const LINE =
  /-(\d+\s+\[\d+\]).*? ([\d.]+): (\w+): (?:dev=(\S+) )?.*?skbaddr=(\S+)(.*)$/;
const MARK = /-(\d+)\s+\[\d+\].*: tracing_mark_write: (\S+)/;
/**
 * The longest time between a packet's last event and its drop, in seconds, on the
 * same CPU in the same context. After that, the address belongs to a different
 * packet, because the kernel does not report deliveries.
 */
const END_SECONDS = 0.001;

/** A packet that is being parsed. */
interface Parsing {
  readonly links: { readonly isSent: boolean; readonly name: string }[];
  readonly length: number;
  readonly mark: string | undefined;
  seconds: number;
  /** The thread and its CPU. */
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
    // A packet is never forwarded through the link on which it arrived.
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
