/**
 * What plugins say when a request cannot be sent: whichever it is, an operator
 * must be able to tell what was being done, and to what.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { bridgeConfig } from "../plugins/bridge/testing/bridge_network.ts";
import { IP4, SbrScene } from "../plugins/sbr/testing.ts";
import { rootTest } from "../testing/capabilities.ts";
import type { CallOutput, TestHosts } from "../testing/test_hosts.ts";
import { eachStep } from "./_harness/fault_steps.ts";
import { type Keys, PluginScene } from "./_harness/plugin_scene.ts";

const ENOBUFS = 105;

/** Counts sent messages, and makes one send(2) fail. */
class FailingSend {
  /** How many were sent. */
  sent = 0;
  /** Which one fails, from 1; none if 0. */
  failing = 0;

  private constructor() {}

  /**
   * Puts itself before send(2) of the C library, for good. The library must not
   * have been opened yet.
   */
  static install(): FailingSend {
    const self = new FailingSend();
    const dlopen = Deno.dlopen;
    // deno-lint-ignore no-explicit-any -- whichever symbols are asked for
    Deno.dlopen = ((path: string, symbols: any): any => {
      const library = dlopen(path, symbols);
      if (!("send" in symbols)) return library;
      return { symbols: self.#around(library.symbols) };
    }) as typeof Deno.dlopen;
    return self;
  }

  // deno-lint-ignore no-explicit-any -- as above
  #around(symbols: any): unknown {
    const send = (...args: unknown[]): unknown => {
      if (++this.sent !== this.failing) return symbols.send(...args);
      const location = symbols.__errno_location(args.at(-1));
      new Int32Array(Deno.UnsafePointerView.getArrayBuffer(location, 4))[0] =
        ENOBUFS;
      return -1;
    };
    return { ...symbols, send };
  }
}

/** Before anything opens the C library. */
const sending = FailingSend.install();

/** A container, and calls of a plugin for it. */
interface Scene extends Disposable {
  run(command: string, extras?: Keys): Promise<CallOutput>;
}

function ptpConfig(hosts: TestHosts): Keys {
  const routes = [{ dst: "0.0.0.0/0" }, { dst: "::/0" }];
  const subnets = ["10.1.2.0/24", "2001:db8:1::/64"];
  return {
    cniVersion: "1.1.0",
    name: "net1",
    type: "ptp",
    ipam: { ...hosts.hostLocal(...subnets), routes },
  };
}

const SCENES: Readonly<Record<string, () => Scene>> = {
  ptp: () => new PluginScene("ptp", ptpConfig),
  bridge: () =>
    new PluginScene(
      "bridge",
      (hosts) => bridgeConfig(hosts, { hairpinMode: true }),
    ),
  loopback: () =>
    new PluginScene("loopback", () => ({
      cniVersion: "1.1.0",
      name: "lo",
      type: "loopback",
    })),
  sbr: () => new SbrScene(undefined, { cniVersion: "1.1.0", ips: [IP4] }),
};

for (const [type, make] of Object.entries(SCENES)) {
  for (const command of ["ADD", "CHECK", "DEL", "GC"]) {
    rootTest(
      `${type} names the netlink request of ${command} that failed, and its object`,
      async (t) => {
        await eachStep(t, (step) => failAt(make, command, step));
      },
    );
  }
}

/**
 * Has one request of a command fail, and looks at what is said.
 *
 * @returns The message, "" if it was done without; undefined if there is no such request
 */
async function failAt(
  make: () => Scene,
  command: string,
  step: number,
): Promise<string | undefined> {
  using scene = make();
  let extras: Keys = {};
  if (command !== "ADD") {
    const { json } = await scene.run("ADD");
    extras = { "cni.dev/valid-attachments": [] };
    if (scene instanceof PluginScene) extras = { ...extras, prevResult: json };
  }
  sending.sent = 0;
  sending.failing = step;
  const { exitCode, json } = await scene.run(command, extras);
  sending.failing = 0;
  if (sending.sent < step) {
    assertEquals(exitCode, 0);
    return undefined;
  }
  // DEL tries again, or warns where it cannot give something back.
  if (exitCode === 0) return "";
  const { msg, details = "" } = json;
  const text = `${msg}: ${details}`;
  assertMatch(text, /RTM_[A-Z]+ [^:]+.*: send: ENOBUFS/);
  // Numbers of links say nothing to those who read it later.
  const says = /^Cannot .*("|\d[.:/]|stale)|^RTM_GET[A-Z]+ ("|list)/;
  assert(says.test(msg), msg);
  return msg;
}
