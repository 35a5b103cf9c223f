/**
 * The firewall by firewalld: the addresses become sources of a zone, by default
 * `trusted`, which accepts everything. firewalld has no ingress policies: their
 * rules are in iptables or nftables.
 *
 * Source: containernetworking/plugins plugins/meta/firewall/firewalld.go;
 * firewalld firewall.dbus(5).
 *
 * @module
 */

import {
  CniError,
  describeError,
  ErrorCode,
  listCauses,
} from "../../base/error.ts";
import { checkChange } from "../../ffi/change_check.ts";
import { JoinedSignal, waitUntil } from "../../base/deadline.ts";
import { tryAll } from "../../base/rollback.ts";
import { Ip } from "../../net/ip.ts";
import type { Backend, FirewallHost } from "./backend.ts";
import { withRules } from "./rule_backends.ts";
import {
  BusError,
  BusTimeout,
  BusUnusable,
  SystemBus,
  type Value,
} from "./system_bus.ts";

const FIREWALLD = "org.fedoraproject.FirewallD1";
/** The answers of firewalld if a zone does not have a source. */
const NOTHING_THERE = ["UNKNOWN_SOURCE", "ZONE_CONFLICT", "INVALID_ZONE"];

/** How long STATUS waits for firewalld, in ms: a slow STATUS makes a node not ready. */
const STATUS_MS = 1000;

/** The backend of firewalld. */
export const firewalldBackend: Backend = {
  async add(host, protection): Promise<void> {
    const { zone } = host;
    using bus = await openBus(host);
    for (const source of protection.addresses.map(sourceOf)) {
      checkChange();
      try {
        await callZone(bus, "addSource", zone, source);
      } catch (error) {
        if (isAnswer(error, "ZONE_ALREADY_SET")) continue;
        throw new Error(
          `failed to add the address ${source} to ${zone} zone`,
          { cause: error },
        );
      }
    }
    if (protection.policy === undefined) return;
    const alone = { ...protection, isPolicyOnly: true };
    await withRules((backend) => backend.add(host, alone));
  },

  async check(host, protection): Promise<void> {
    const { zone } = host;
    const { Differences } = await import("../../cni/call/differences.ts");
    const differences = new Differences();
    using bus = await openBus(host);
    for (const source of protection.addresses.map(sourceOf)) {
      if (await callZone(bus, "querySource", zone, source) === true) continue;
      const msg = `failed to find the address ${source} in ${zone} zone`;
      differences.add({ msg });
    }
    if (protection.policy !== undefined) {
      const alone = { ...protection, isPolicyOnly: true };
      await differences.collect(() =>
        withRules((backend) => backend.check(host, alone))
      );
    }
    differences.throwAny();
  },

  async del(host, addresses: readonly Ip[]): Promise<void> {
    const { zone, backend } = host;
    const isMeant = backend === undefined || backend === "firewalld";
    if (!isMeant || addresses.length === 0) return;
    using bus = await findFirewalld(host);
    // Without firewalld the zones have no sources at runtime.
    if (bus === undefined) return;
    await tryAll(
      addresses.map(sourceOf).map((source) => [
        `remove the address ${source} from ${zone} zone`,
        async () => {
          try {
            checkChange();
            await callZone(bus, "removeSource", zone, source);
          } catch (error) {
            if (isAnswer(error, ...NOTHING_THERE)) return;
            if (!isDenied(error)) throw error;
            host.log.warn("Cannot remove a source from firewalld", {
              source,
              zone,
              problem: describeError(error),
            });
          }
        },
      ]),
    );
  },

  async status(host): Promise<void> {
    using bus = await openBus(host);
    if (!await bus.hasOwner(FIREWALLD)) {
      throw new Error("firewalld is not running");
    }
    // The bus might deny calls of a service that it names: it then answers at once.
    const query = callZone(
      bus,
      "querySource",
      host.zone,
      sourceOf(Ip.parse("::1")),
    ).then(() => undefined, (error: unknown) => error);
    // While firewalld loads its rules again, it runs, but does not answer.
    using limit = new JoinedSignal(STATUS_MS, host.signal);
    const error = await waitUntil(query, limit.signal);
    if (error !== undefined) throw error;
  },
};

/** A host, as far as the bus needs it. */
type BusHost = Pick<FirewallHost, "env" | "signal">;

/**
 * Reports whether firewalld runs. It does not if there is no bus, or if the bus is
 * unusable or has no such name.
 *
 * @throws {CniError} 11 if the bus cannot be asked, such as at its limit of
 * connections: firewalld may run, and would drop what other rules let through
 */
export async function isFirewalldRunning(host: BusHost): Promise<boolean> {
  try {
    using bus = await findFirewalld(host);
    return bus !== undefined;
  } catch (cause) {
    if (cause instanceof BusTimeout) throw cause;
    throw new CniError(
      ErrorCode.TryAgainLater,
      "Cannot ask the system bus whether firewalld runs",
      { cause },
    );
  }
}

/**
 * Reports whether the bus denies this user calls of firewalld, as AppArmor does
 * with its abstraction `dbus-strict`: the bus then still tells that it runs.
 */
export function isDenied(error: unknown): boolean {
  return listCauses(error).some((cause) => cause instanceof BusUnusable);
}

function callZone(
  bus: SystemBus,
  member: string,
  ...body: readonly string[]
): Promise<Value | undefined> {
  const zones = `${FIREWALLD}.zone`;
  return bus.call({ destination: FIREWALLD, interface: zones, member, body });
}

async function openBus({ env, signal }: BusHost): Promise<SystemBus> {
  const bus = await SystemBus.open(env, signal);
  if (bus !== undefined) return bus;
  throw new Error("firewalld cannot be reached: the host has no system bus");
}

/**
 * Connects to the bus, unless firewalld is not on it or the bus is unusable, as in
 * a user namespace: then ADD could not use firewalld either.
 */
async function findFirewalld(
  { env, signal }: BusHost,
): Promise<SystemBus | undefined> {
  try {
    using stack = new DisposableStack();
    const bus = stack.use(await SystemBus.open(env, signal));
    if (!await bus?.hasOwner(FIREWALLD)) return undefined;
    stack.move();
    return bus;
  } catch (error) {
    if (error instanceof BusUnusable) return undefined;
    throw error;
  }
}

function sourceOf(ip: Ip): string {
  return `${ip}/${ip.bitLength}`;
}

/** Reports whether firewalld answered with one of its error codes. */
function isAnswer(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof BusError &&
    codes.some((code) => error.message.includes(code));
}
