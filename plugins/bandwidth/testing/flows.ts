/**
 * TCP flows between a temporary host and its containers, and their rates.
 *
 * @module
 */

import { assert } from "@std/assert";
import type { NetNs } from "../../../ffi/netns.ts";
import type { ExecOutput } from "../../../testing/exec_in.ts";
import { type Spawned, spawnIn } from "../../../tests/_harness/spawn_in.ts";

const FLOOD = new URL("flood.ts", import.meta.url);

/** The container's end of a flow. */
export interface Container {
  readonly sandbox: NetNs;
  /** Its IPv4 address. */
  readonly address: string;
}

/** The direction of a flow, in the limits' terms: ingress is towards the container. */
export type Direction = "ingress" | "egress";

/** Parameters of a measurement. */
export interface Measurement {
  /** Address of the host to which the containers connect. */
  readonly to: string;
  /** How long to wait after the first byte. */
  readonly warmMs: number;
  /** How long to measure afterwards. */
  readonly windowMs: number;
}

/**
 * Sends as fast as possible between the host and all containers at the same time,
 * over connections that the containers open.
 *
 * @returns Bits per second, by container
 */
export async function measureFlows(
  host: NetNs,
  containers: readonly Container[],
  direction: Direction,
  { to, warmMs, windowMs }: Measurement,
): Promise<number[]> {
  const isIngress = direction === "ingress";
  const [outside, inside] = isIngress
    ? ["send", "receive"]
    : ["receive", "send"];
  const times = [warmMs, windowMs];
  const addresses = containers.map(({ address }) => address);
  const atHost = flood(host, "listen", outside, ...times, ...addresses);
  const atContainers = containers.map(({ sandbox }) =>
    flood(sandbox, "connect", inside, ...times, to)
  );
  const [receivers, senders] = isIngress
    ? [atContainers, [atHost]]
    : [[atHost], atContainers];
  const outputs = await outputsOf(receivers);
  // A limit can delay the notification that the other end has closed.
  for (const sender of senders) sender.kill();
  await outputsOf(senders);
  return containers.map(({ address }, at) => {
    const { stdout = "", stderr = "" } = outputs[isIngress ? at : 0] ?? {};
    const peer = isIngress ? to : address;
    const line = stdout.split("\n").map((text) => text.replace("::ffff:", ""))
      .find((text) => text.startsWith(`${peer} `));
    assert(line !== undefined, `nothing was measured: ${stdout}${stderr}`);
    return Number(line.split(" ")[1]);
  });
}

/**
 * Repeats the measurement, at most three times, if a flow does not reach its limit. A
 * busy machine slows a flow down, or makes a receiver read data that arrived before.
 * Only a wrong limit fails each time.
 *
 * @param limits In bits per second, by container
 * @param tolerance As a share of a limit
 */
export async function measureUndisturbed(
  measure: () => Promise<readonly number[]>,
  limits: readonly number[],
  tolerance: number,
): Promise<readonly number[]> {
  const isMissed = (rates: readonly number[]): boolean =>
    limits.some((limit, at) =>
      Math.abs((rates[at] ?? 0) / limit - 1) > tolerance
    );
  let rates = await measure();
  for (let again = 0; again < 3 && isMissed(rates); again++) {
    rates = await measure();
  }
  return rates;
}

function outputsOf(processes: readonly Spawned[]): Promise<ExecOutput[]> {
  return Promise.all(processes.map(({ output }) => output));
}

function flood(netns: NetNs, ...args: (string | number)[]): Spawned {
  return spawnIn(netns, {
    path: Deno.execPath(),
    args: ["run", "-A", "--no-config", "--no-lock", FLOOD.pathname]
      .concat(args.map(String)),
    env: { PATH: "/usr/bin:/bin", HOME: Deno.env.get("HOME") ?? "/" },
    stdin: "",
  });
}
