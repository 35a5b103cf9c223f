/**
 * ADD: prepares the interface, and waits until it has addresses.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { sha512 } from "../../base/process/sha512.ts";
import { pollUntil } from "../../base/waiting.ts";
import { parseArgs } from "../../cni/call/args.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Dns } from "../../cni/result/result.ts";
import { inNetns } from "../../ffi/netns.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { routerStateOf, RouterWatch } from "../../ffi/rtnl/router_discovery.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import {
  acceptRouters,
  listRouters,
} from "../../plugins/parts/address/router_advertisements.ts";
import {
  listAddresses,
  withAction,
} from "../../plugins/parts/link/configure_link.ts";
import {
  isUsable,
  listLearned,
} from "../../plugins/parts/address/learned_addresses.ts";
import { RouterDns } from "./router_options.ts";
import type { SlaacConfig } from "./schema.ts";

/**
 * Time limit unless configured, in seconds: a router can wait three seconds before it
 * answers, and its answers can be lost while a bridge learns.
 */
const DEFAULT_SECONDS = 20;

/** The addresses, routers and DNS that an interface received from its routers. */
export interface Learned {
  readonly addresses: readonly Cidr[];
  readonly routers: readonly Ip[];
  readonly dns: Pick<Dns, "nameservers" | "search">;
}

/**
 * Brings an interface up, and waits for its addresses.
 *
 * @throws {CniError} 11 if no router advertises a prefix in time, or another host has
 *   the address
 * @throws {Error} If the interface cannot be prepared
 */
export async function learn(
  call: Call<SlaacConfig>,
  sandbox: Rtnl,
  link: Link,
): Promise<Learned> {
  const { timeoutSeconds = DEFAULT_SECONDS } = call.config.ipam ?? {};
  const dns = new RouterDns();
  // Before the first advertisement can arrive.
  using watch = RouterWatch.open(sandbox.netns, link.index);
  await prepare(call, sandbox, link);
  withAction(`bring "${link.name}" up`, () => {
    sandbox.link.set(link.index, { isUp: true });
  });
  const waiting = new Waiting(sandbox, link, timeoutSeconds);
  using limit = new JoinedSignal(1000 * timeoutSeconds, call.signal);
  const { yieldDuring = (wait) => wait() } = call.context;
  const addresses = await yieldDuring(() =>
    pollUntil(() => {
      const { options, deleted } = watch.take();
      for (const option of options) dns.take(option);
      return waiting.findAddresses(deleted);
    }, {
      signal: limit.signal,
      giveUp: () => waiting.explain(call.signal?.aborted === true),
    })
  );
  const { nameservers, search } = dns;
  const routers = listRouters(sandbox, link);
  return { addresses, routers, dns: { nameservers, search } };
}

/** Sets the sysctls that count when the interface comes up. */
async function prepare(
  call: Call<SlaacConfig>,
  { netns }: Rtnl,
  { name }: Link,
): Promise<void> {
  const { ipam: { addressGeneration = "eui64", ...others } = {} } = call.config;
  const { temporaryAddresses = false, defaultRoute = true } = others;
  const isStable = addressGeneration === "stable-privacy";
  acceptRouters(netns, name, { addresses: true, defaultRoute }, {
    use_tempaddr: temporaryAddresses ? PREFER_TEMPORARY : "0",
    ...isStable ? {} : { addr_gen_mode: MODES[addressGeneration] },
  });
  if (!isStable) return;
  const secret = await secretOf(call);
  withAction(`set how "${name}" chooses its addresses`, () => {
    // The kernel does not return a secret that is not set. It also sets the
    // mode.
    const key = `net/ipv6/conf/${name}/stable_secret`;
    inNetns(netns, () => writeSysctl(key, secret));
  });
}

/** Source: Documentation/networking/ip-sysctl.rst. */
const MODES = { eui64: "0", random: "3" } as const, PREFER_TEMPORARY = "2";

/** Derives a secret in the form of an IPv6 address, which is the same after a pod restarts. */
async function secretOf(
  { network, args: { args, containerId, ifName } }: Call,
): Promise<string> {
  const known = parseArgs(args);
  const names = [known.get("K8S_POD_NAMESPACE"), known.get("K8S_POD_NAME")];
  const owner = names.every(Boolean) ? names : [containerId];
  const hash = await sha512(JSON.stringify([network, ...owner, ifName]));
  return (hash.slice(0, 32).match(/.{4}/g) ?? []).join(":");
}

/** The wait for addresses, and the events during it. */
class Waiting {
  readonly #sandbox: Rtnl;
  readonly #link: Link;
  readonly #seconds: number;
  /** The last address that the kernel deleted because a different host has it. */
  #deleted: Ip | undefined;

  constructor(sandbox: Rtnl, link: Link, seconds: number) {
    this.#sandbox = sandbox;
    this.#link = link;
    this.#seconds = seconds;
  }

  /**
   * Returns the addresses once none of them is being checked.
   *
   * @param deleted Addresses of other hosts that the kernel has deleted since the
   *   last time
   */
  findAddresses(deleted: readonly Ip[]): Cidr[] | undefined {
    this.#deleted = deleted.at(-1) ?? this.#deleted;
    const learned = listLearned(this.#sandbox, this.#link);
    const isBusy = learned.some(({ isTentative, hasDadFailed }) =>
      isTentative && !hasDadFailed
    );
    const usable = learned.filter(isUsable);
    if (isBusy || usable.length === 0) return undefined;
    return usable.map(({ address }) => address);
  }

  /**
   * Builds the error for the end of the wait.
   *
   * @param isEnded Whether the call was cancelled, or its time limit is exceeded
   */
  explain(isEnded: boolean): CniError {
    const [problem, details] = this.#problem(isEnded);
    return new CniError(ErrorCode.TryAgainLater, problem, { details });
  }

  #problem(isEnded: boolean): [problem: string, details: string] {
    const { name, index } = this.#link;
    const time = `${this.#seconds} s`;
    if (isEnded) {
      return [`Cannot wait for the addresses of "${name}": the call ended`, ""];
    }
    const own = listAddresses(this.#sandbox, this.#link);
    const failed = own.find(({ hasDadFailed }) => hasDadFailed);
    const taken = failed?.address.ip ?? this.#deleted;
    if (taken !== undefined) {
      return [
        `Cannot use an address on "${name}": another host has ${taken}`,
        "duplicate address detection failed",
      ];
    }
    const [busy] = listLearned(this.#sandbox, this.#link);
    if (busy !== undefined) {
      return [
        `Cannot determine in ${time} whether another host has ${busy.address.ip}`,
        `"${name}" got the address shortly before the time limit`,
      ];
    }
    const { isAdvertised, isManaged } = routerStateOf(
      this.#sandbox.socket,
      index,
    );
    if (!isAdvertised) {
      return [
        `No router advertisement reached "${name}" in ${time}`,
        this.#sandbox.link.get(index).isOperational
          ? "check that a router of this network sends them"
          : "the interface has no carrier",
      ];
    }
    return [
      `No router advertised a prefix for addresses to "${name}" in ${time}`,
      isManaged
        ? 'the router refers to DHCPv6: use the IPAM plugin dhcp with "family": 6'
        : "a prefix needs the flag for autonomous configuration, 64 bits and a lifetime",
    ];
  }
}
