import { assertEquals, assertStringIncludes } from "@std/assert";
import { SyscallError } from "../../../ffi/errno.ts";
import { NetlinkSocket } from "../../../ffi/netlink/socket.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { intercept } from "../../../testing/fault_injector.ts";
import { runIn } from "../../../testing/ip_json.ts";
import type { TestHosts } from "../../../testing/test_hosts.ts";
import { needsLinks } from "../../../tests/_harness/link_kinds.ts";
import {
  type Keys,
  PluginScene,
} from "../../../tests/_harness/plugin_scene.ts";

/** The requests that take a link from its container. */
const DELETES = ["RTM_DELLINK"], MOVES = ["RTM_NEWLINK", "RTM_SETLINK"];

const PLUGINS: readonly (readonly [type: string, Keys, string[]])[] = [
  ["bridge", { bridge: "br0" }, DELETES],
  ["ptp", {}, DELETES],
  ["macvlan", { master: "up0" }, DELETES],
  ["ipvlan", { master: "up0" }, DELETES],
  ["vlan", { master: "up0", vlanId: 5 }, DELETES],
  ["dummy", {}, DELETES],
  ["tap", {}, DELETES],
  ["host-device", { device: "up1" }, MOVES],
];

class Scene extends PluginScene {
  constructor(type: string, keys: Keys) {
    super(type, (hosts: TestHosts) => ({
      cniVersion: "1.1.0",
      name: "net1",
      type,
      ipam: hosts.hostLocal("10.1.2.0/24"),
      ...keys,
    }));
    const { host } = this.hosts;
    runIn(host, "ip", "link", "add", "up0", "type", "veth", "peer", "up1");
    runIn(host, "ip", "link", "set", "up0", "up");
  }
}

/** Refuses requests for lack of memory. */
class Refusal implements Disposable {
  readonly #stack = new DisposableStack();

  /** @param from The request with which it begins; by default at once */
  constructor(names: readonly string[], from?: string) {
    let hasBegun = from === undefined;
    const refuse = (request: unknown): SyscallError | undefined => {
      const { name } = request as { readonly name: string };
      hasBegun ||= name === from;
      return hasBegun && names.includes(name)
        ? new SyscallError(name, 12)
        : undefined;
    };
    const { prototype } = NetlinkSocket;
    this.#stack.defer(intercept(prototype, "request", ([type], work) => {
      const refusal = refuse(type);
      if (refusal !== undefined) throw refusal;
      return work();
    }));
    this.#stack.defer(intercept(prototype, "requestAll", ([all], work) => {
      for (const refusal of (all as unknown[]).map(refuse)) {
        if (refusal !== undefined) throw refusal;
      }
      return work();
    }));
    this.#stack.defer(intercept(prototype, "requestEach", ([all], work) => {
      const refusals = (all as unknown[]).map(refuse);
      return refusals.some((one) => one !== undefined) ? refusals : work();
    }));
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

for (const [type, keys, requests] of PLUGINS) {
  rootTest(
    `${type}.del() keeps the lease until the link is deleted`,
    needsLinks(type),
    async () => {
      using scene = new Scene(type, keys);
      const { json: prevResult } = await scene.succeed("ADD");
      const leases = scene.hosts.leases();
      assertEquals(leases.length, 1);
      {
        using _refusal = new Refusal(requests);
        const { exitCode, stdout } = await scene.run("DEL", { prevResult });
        assertEquals(exitCode, 1);
        assertStringIncludes(stdout, "ENOMEM");
      }
      assertEquals(scene.hosts.leases(), leases);
      await scene.succeed("DEL", { prevResult });
      assertEquals(scene.hosts.leases(), []);
    },
  );

  rootTest(
    `${type}.add() that fails keeps the lease until the link is deleted`,
    needsLinks(type),
    async () => {
      using scene = new Scene(type, keys);
      {
        const address = "RTM_NEWADDR";
        using _refusal = new Refusal([address, ...requests], address);
        const { exitCode, stdout } = await scene.run("ADD");
        assertEquals(exitCode, 1);
        assertStringIncludes(stdout, "ENOMEM");
      }
      assertEquals(scene.hosts.leases().length, 1);
      await scene.succeed("DEL");
      assertEquals(scene.hosts.leases(), []);
    },
  );
}

for (const type of ["bridge", "ptp"]) {
  rootTest(
    `${type}.gc() keeps the leases until the links are deleted`,
    async () => {
      using scene = new Scene(type, {});
      await scene.succeed("ADD");
      const leases = scene.hosts.leases();
      const stale = { "cni.dev/valid-attachments": [] };
      {
        using _refusal = new Refusal(DELETES);
        const { exitCode, stdout } = await scene.run("GC", stale);
        assertEquals(exitCode, 1);
        assertStringIncludes(stdout, "ENOMEM");
      }
      assertEquals(scene.hosts.leases(), leases);
      await scene.succeed("GC", stale);
      assertEquals(scene.hosts.leases(), []);
    },
  );
}
