/**
 * The DNS options of router advertisements.
 *
 * @module
 */

import { type Bytes, viewOf } from "../../net/bytes.ts";
import { decodeDomainNames } from "../../net/domain_names.ts";
import { Ip } from "../../net/ip.ts";

/** Source: RFC 8106, sections 5.1 and 5.2. */
const RDNSS = 25, DNSSL = 31;
/** Type, length in units of 8 bytes, 2 reserved bytes, and the lifetime in seconds. */
const Offset = { length: 1, lifetime: 4, content: 8 } as const;
const UNIT = 8, IP_BYTES = 16;

/** Most name servers, and most domains: a resolver uses three servers. */
const MOST = 16;

/** What routers advertise, in the order in which it came. */
export class RouterDns {
  readonly #nameservers = new Set<string>();
  readonly #domains = new Set<string>();

  /** The addresses of the servers, without link-local addresses. */
  get nameservers(): string[] {
    return [...this.#nameservers];
  }

  /** The domains to try for short names. */
  get search(): string[] {
    return [...this.#domains];
  }

  /**
   * Adds an option of an advertisement; ignores other and malformed options. A lifetime
   * of 0 revokes the values of earlier options.
   */
  take(option: Bytes): void {
    const length = (option[Offset.length] ?? 0) * UNIT;
    if (length <= Offset.content || length > option.length) return;
    const lifetime = viewOf(option).getUint32(Offset.lifetime);
    const content = option.slice(Offset.content, length);
    const [kind] = option;
    if (kind === RDNSS) {
      this.#put(this.#nameservers, lifetime, serversIn(content));
    }
    if (kind === DNSSL) {
      this.#put(this.#domains, lifetime, decodeDomainNames(content));
    }
  }

  #put(into: Set<string>, lifetime: number, values: readonly string[]): void {
    for (const value of values) {
      if (lifetime === 0) into.delete(value);
      else if (into.size < MOST) into.add(value);
    }
  }
}

/**
 * Lists the addresses of servers. The address of a link would need the link's
 * name, which results and some resolvers have no place for.
 */
function serversIn(content: Bytes): string[] {
  return Array.from(
    { length: Math.floor(content.length / IP_BYTES) },
    (_, index) =>
      Ip.fromBytes(content.subarray(index * IP_BYTES).slice(0, IP_BYTES)),
  ).filter((ip) => !ip.isLinkLocal && !ip.isUnspecified).map(String);
}
