/**
 * A container on two networks; sbr is called for its interface `net1`.
 *
 * ```ts ignore
 * using scene = new SbrScene([...ETH0, ...NET1], { ips: [IP4] });
 * await scene.succeed("ADD");
 * assertEquals(scene.table("100"), [...]);
 * ```
 *
 * @module
 */

import { assertSuccess } from "../../tests/_harness/call_outcome.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import type { CallOutput, TestHosts } from "../../testing/test_hosts.ts";
import {
  ETH0,
  type ListedIp,
  NET1,
  TwoNetworks,
} from "../../tests/_harness/two_networks.ts";

/** The part of a result that describes `net1`. */
export const IP4 = { address: "192.168.1.209/24", gateway: "192.168.1.1" };
/** Like {@linkcode IP4}, for IPv6. */
export const IP6 = { address: "2001:db8:1::209/64", gateway: "2001:db8:1::1" };

/** The keys of a configuration except prevResult, and the content of prevResult. */
export type SceneKeys = Keys & {
  readonly ips?: readonly ListedIp[];
  readonly routes?: readonly unknown[];
};

/** The container, and calls of sbr with a configuration. */
export class SbrScene implements Disposable {
  /** The host and the container. */
  readonly networks: TwoNetworks;
  /** The host and the container, without the routers. */
  readonly hosts: TestHosts;
  /** The configuration's keys, prevResult included. */
  readonly keys: Keys;

  /** @param lines Arguments of `ip` that set up the interfaces */
  constructor(
    lines: readonly string[] = [...ETH0, ...NET1],
    { ips, routes = [], ...others }: SceneKeys = {},
  ) {
    this.networks = new TwoNetworks(lines);
    this.hosts = this.networks.hosts;
    const prevResult = { ...this.networks.result(ips), routes };
    this.keys = { prevResult, ...others };
  }

  /** Runs a command, with additional or different keys. */
  run(command: string, extras: Keys = {}): Promise<CallOutput> {
    return this.networks.run("sbr", command, { ...this.keys, ...extras });
  }

  /** Runs a command that must succeed. */
  async succeed(command: string, extras: Keys = {}): Promise<void> {
    assertSuccess(await this.run(command, extras));
  }

  /** Runs command lines of `ip` in the container. */
  ip(...lines: readonly string[]): void {
    this.networks.ip(...lines);
  }

  /** All settings that determine the routing of packets, in any order. */
  get state(): string[] {
    return this.networks.state().sort();
  }

  /** Lists the routes of a table, without its name; for main, the routes over net1. */
  table(name: string): string[] {
    const isMain = name === "main";
    return this.networks.routes()
      .filter((line) =>
        isMain
          ? / net1/.test(line) && !/ table /.test(line)
          : line.includes(` table ${name}`)
      ).map((line) => line.replace(` table ${name}`, ""));
  }

  /** Removes everything. */
  [Symbol.dispose](): void {
    this.networks[Symbol.dispose]();
  }
}
