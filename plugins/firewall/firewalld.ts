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

import type { Environment } from "../../cni/args.ts";
import { tryAll } from "../../cni/rollback.ts";
import type { Ip } from "../../net/ip.ts";
import { checkFailure } from "../parts/check_link.ts";
import type { Backend } from "./backend.ts";
import { withRules } from "./rule_backends.ts";
import {
  BusError,
  BusUnusable,
  SystemBus,
  type Value,
} from "../parts/system_bus.ts";

const FIREWALLD = "org.fedoraproject.FirewallD1";
/** The answers of firewalld if a zone does not have a source. */
const NOTHING_THERE = ["UNKNOWN_SOURCE", "ZONE_CONFLICT", "INVALID_ZONE"];

/** The backend of firewalld. */
export const firewalldBackend: Backend = {
  async add(host, protection): Promise<void> {
    const { env, zone } = host;
    using bus = await openBus(env);
    for (const source of protection.addresses.map(sourceOf)) {
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
    const { env, zone } = host;
    using bus = await openBus(env);
    for (const source of protection.addresses.map(sourceOf)) {
      if (await callZone(bus, "querySource", zone, source) !== true) {
        throw checkFailure(
          `failed to find the address ${source} in ${zone} zone`,
        );
      }
    }
    if (protection.policy === undefined) return;
    const alone = { ...protection, isPolicyOnly: true };
    await withRules((backend) => backend.check(host, alone));
  },

  async del({ env, zone, backend }, addresses: readonly Ip[]): Promise<void> {
    const isMeant = backend === undefined || backend === "firewalld";
    if (!isMeant || addresses.length === 0) return;
    using bus = await findBus(env);
    // Without firewalld the zones have no sources at runtime.
    if (bus === undefined || !await bus.hasOwner(FIREWALLD)) return;
    await tryAll(
      addresses.map(sourceOf).map((source) => [
        `remove the address ${source} from ${zone} zone`,
        async () => {
          try {
            await callZone(bus, "removeSource", zone, source);
          } catch (error) {
            if (isAnswer(error, ...NOTHING_THERE)) return;
            throw error;
          }
        },
      ]),
    );
  },

  async status({ env }): Promise<void> {
    using bus = await openBus(env);
    if (!await bus.hasOwner(FIREWALLD)) {
      throw new Error("firewalld does not run");
    }
  },
};

/** Reports whether firewalld runs. A bus that fails has none. */
export async function isFirewalldRunning(env: Environment): Promise<boolean> {
  try {
    using bus = await SystemBus.open(env);
    return await bus?.hasOwner(FIREWALLD) ?? false;
  } catch {
    return false;
  }
}

function callZone(
  bus: SystemBus,
  member: string,
  ...body: readonly string[]
): Promise<Value | undefined> {
  const zones = `${FIREWALLD}.zone`;
  return bus.call({ destination: FIREWALLD, interface: zones, member, body });
}

async function openBus(env: Environment): Promise<SystemBus> {
  const bus = await SystemBus.open(env);
  if (bus !== undefined) return bus;
  throw new Error("firewalld cannot be reached: the host has no system bus");
}

/**
 * Connects to the bus, unless it is unusable, as in a user namespace: then ADD
 * could not use firewalld either.
 */
async function findBus(env: Environment): Promise<SystemBus | undefined> {
  try {
    return await SystemBus.open(env);
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
