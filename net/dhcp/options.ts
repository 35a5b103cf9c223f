/**
 * DHCP options, declared as a table: a row is an option's number, decoder and
 * type.
 *
 * @module
 */

import {
  type Bytes,
  concat,
  type FixedCodec,
  u16be,
  u32be,
  u8,
} from "../bytes.ts";
import { Cidr } from "../cidr.ts";
import { Ip } from "../ip.ts";

/** A route to a network through a router; 0.0.0.0 stands for the link itself. */
export interface OptionRoute {
  readonly dst: Cidr;
  readonly router: Ip;
}

/** An option: its number, and the decoder of its value, which can throw. */
type Row<T> = readonly [code: number, decode: (bytes: Bytes) => T];

/**
 * The options that are read. Source: RFC 2132; RFC 3397 for 119, RFC 3442 for 121.
 */
export const OPTIONS = {
  subnetMask: [1, decodeMask],
  routers: [3, decodeIps],
  nameServers: [6, decodeIps],
  domainName: [15, decodeText],
  staticRoutes: [33, decodeStaticRoutes],
  leaseTime: [51, fixed(u32be)],
  overload: [52, fixed(u8)],
  messageType: [53, fixed(u8)],
  serverId: [54, decodeIp],
  message: [56, decodeText],
  renewalTime: [58, fixed(u32be)],
  rebindingTime: [59, fixed(u32be)],
  domainSearch: [119, decodeDomains],
  classlessRoutes: [121, decodeClasslessRoutes],
} as const satisfies Record<string, Row<unknown>>;

/** The numbers of options that are only sent. */
export const Code = {
  requestedAddress: 50,
  messageType: 53,
  serverId: 54,
  requestList: 55,
  maxMessageSize: 57,
  clientId: 61,
} as const;

type Table = typeof OPTIONS;

/** The options of a message: values by number. */
export class Options {
  /** The encoded values. */
  readonly values: ReadonlyMap<number, Bytes>;

  /** Creates options from encoded values. */
  constructor(values: ReadonlyMap<number, Bytes>) {
    this.values = values;
  }

  /** Returns an option's value; undefined if it is absent or malformed. */
  get<Name extends keyof Table>(
    name: Name,
  ): ReturnType<Table[Name][1]> | undefined {
    const [code, decode] = OPTIONS[name];
    const bytes = this.values.get(code);
    try {
      return bytes && decode(bytes) as ReturnType<Table[Name][1]>;
    } catch {
      return undefined;
    }
  }

  /** Decodes what {@linkcode toJSON} returned. */
  static fromJSON(json: Readonly<Record<string, string>>): Options {
    return new Options(
      new Map(
        Object.entries(json)
          .map(([code, hex]) => [Number(code), Uint8Array.fromHex(hex)]),
      ),
    );
  }

  /** Returns the values in hexadecimal, by number. */
  toJSON(): Record<string, string> {
    return Object.fromEntries(
      [...this.values].map(([code, bytes]) => [code, bytes.toHex()]),
    );
  }
}

/** Encodes values by number. Source: RFC 2132; RFC 3396 for long values. */
export function encodeOptions(values: ReadonlyMap<number, Bytes>): Bytes {
  const parts: Bytes[] = [];
  for (const [code, bytes] of values) {
    let rest = bytes;
    do {
      const part = rest.slice(0, 255);
      parts.push(Uint8Array.of(code, part.length), part);
      rest = rest.subarray(255);
    } while (rest.length > 0);
  }
  return concat(parts);
}

/**
 * Decodes options into a map, and joins the parts of long options. Stops at the end
 * mark, or at a truncated option.
 */
export function decodeOptions(bytes: Bytes, into: Map<number, Bytes>): void {
  for (let at = 0; at < bytes.length;) {
    const code = bytes[at++] ?? 0;
    if (code === 0) continue; // padding
    const length = bytes[at++] ?? 0;
    if (code === 255 || at + length > bytes.length) return;
    const value = bytes.slice(at, at + length);
    into.set(code, concat([into.get(code) ?? new Uint8Array(), value]));
    at += length;
  }
}

function fixed(codec: FixedCodec<number>): (bytes: Bytes) => number {
  return (bytes) => codec.decode(bytes);
}

function decodeIp(bytes: Bytes): Ip {
  return Ip.fromBytes(bytes.subarray(0, 4));
}

/** Decodes values of 4 bytes, and ignores an incomplete value at the end. */
function decodeIps(bytes: Bytes): Ip[] {
  return Array.from(
    { length: Math.floor(bytes.length / 4) },
    (_, index) => decodeIp(bytes.subarray(4 * index)),
  );
}

/** Decodes a network mask to a prefix length. */
function decodeMask(bytes: Bytes): number {
  const bits = decodeIp(bytes).value.toString(2).padStart(32, "0");
  if (/01/.test(bits)) throw new RangeError("a mask that is not contiguous");
  return bits.replaceAll("0", "").length;
}

/** Decodes a text. Some servers end it with NUL. */
function decodeText(bytes: Bytes): string {
  return new TextDecoder().decode(bytes).replace(/\0+$/, "");
}

/** Decodes routes to networks whose class determines the prefix length. */
function decodeStaticRoutes(bytes: Bytes): OptionRoute[] {
  const ips = decodeIps(bytes);
  return ips.slice(0, ips.length - ips.length % 2).flatMap((dst, index) => {
    const router = ips[index + 1];
    if (index % 2 === 1 || router === undefined) return [];
    const first = dst.toBytes()[0] ?? 0;
    const length = first < 128 ? 8 : first < 192 ? 16 : first < 224 ? 24 : 32;
    return [{ dst: new Cidr(dst, length).masked(), router }];
  });
}

/** @throws {Error} If the option is malformed; it is then ignored */
function decodeClasslessRoutes(bytes: Bytes): OptionRoute[] {
  const routes: OptionRoute[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = bytes[at++] ?? 0;
    const significant = Math.ceil(length / 8);
    const network = new Uint8Array(4);
    network.set(bytes.subarray(at, at + significant));
    at += significant;
    const router = decodeIp(bytes.subarray(at, at += 4));
    routes.push({ dst: new Cidr(Ip.fromBytes(network), length), router });
  }
  return routes;
}

/** Decodes names that can be compressed. Source: RFC 1035, section 4.1.4. */
function decodeDomains(bytes: Bytes): string[] {
  const readName = (start: number): { labels: string[]; end: number } => {
    const labels: string[] = [];
    for (let at = start;;) {
      const length = bytes[at++];
      if (length === undefined) throw new RangeError("a name is truncated");
      if (length === 0) return { labels, end: at };
      if (length >= 0xc0) {
        const target = (length & 0x3f) << 8 | (bytes[at++] ?? 0);
        // Pointers must point backwards, so that decoding terminates.
        if (target >= start) throw new RangeError("a pointer ahead");
        return { labels: [...labels, ...readName(target).labels], end: at };
      }
      labels.push(decodeText(bytes.subarray(at, at += length)));
    }
  };
  const names: string[] = [];
  for (let at = 0; at < bytes.length;) {
    const { labels, end } = readName(at);
    names.push(labels.join("."));
    at = end;
  }
  return names;
}

/** Encodes the length of the longest accepted message, in bytes. */
export function encodeMaxSize(bytes: number): Bytes {
  return u16be.encode(bytes);
}
