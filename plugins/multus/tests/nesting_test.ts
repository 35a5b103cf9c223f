/**
 * multus behind a plugin that multus runs: a mistake that must end soon, or a
 * wish that works.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import {
  BIN,
  type HostCall,
  type HostPod,
  hostTest,
  MultusHost,
} from "../testing/host.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";

/** A node on which plugin `wrapper` calls multus with a configuration of its own. */
class Nest implements AsyncDisposable {
  readonly host: MultusHost;
  readonly directory: PluginDirectory;
  readonly pod: HostPod;

  private constructor(host: MultusHost, directory: PluginDirectory) {
    this.host = host;
    this.directory = directory;
    this.pod = host.addPod("web");
  }

  /** @param prepare What `sh` does before it calls multus */
  static async start(prepare = ":"): Promise<Nest> {
    const directory = new PluginDirectory();
    directory.add(
      "wrapper",
      `cat > /dev/null
      echo "$CNI_COMMAND" >> '${directory.path}/calls'
      ${prepare}
      '${BIN}/multus' < '${directory.path}/inner.conf'`,
    );
    return new Nest(await MultusHost.start(), directory);
  }

  /** Sets what the inner multus is called with. */
  setInner(keys: JsonObject): void {
    this.directory.addFile("inner.conf", JSON.stringify(this.host.conf(keys)));
  }

  /** How the outer multus is called: its only network is the wrapper's. */
  get call(): HostCall {
    const delegates = [
      { cniVersion: "1.0.0", name: "wrapped", type: "wrapper" },
    ];
    return { keys: { delegates }, env: { CNI_PATH: this.directory.path } };
  }

  /** Counts the calls of the wrapper. */
  count(command: string): number {
    const calls = Deno.readTextFileSync(`${this.directory.path}/calls`);
    return calls.split("\n").filter((line) => line === command).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.directory[Symbol.dispose]();
    await this.host[Symbol.asyncDispose]();
  }
}

hostTest("multus refuses a call of its own delegate", async () => {
  await using nest = await Nest.start();
  const { host, pod, call } = nest;
  nest.setInner(call.keys ?? {});
  const { code, json } = await host.call("ADD", pod, call);
  assertEquals([code, json.code], [1, 7]);
  assertStringIncludes(
    json.msg,
    "Cannot run multus: it was called by one of its own delegates",
  );
  assertEquals([nest.count("ADD"), nest.count("DEL")], [1, 1]);
  await host.succeed("DEL", pod, call);
  assertEquals([nest.count("DEL"), host.remains()], [2, []]);
});

hostTest("multus stops calling itself for new interfaces", async () => {
  await using nest = await Nest.start("export CNI_IFNAME=${CNI_IFNAME}0");
  const { host, pod, call } = nest;
  nest.setInner(call.keys ?? {});
  const { code, json } = await host.call("ADD", pod, call);
  assertEquals([code, json.code], [1, 7]);
  assert(nest.count("ADD") <= 8, `${nest.count("ADD")} calls`);
  assertEquals((await host.call("DEL", pod, call)).code, 0);
});

hostTest("multus behind a delegate attaches another interface", async () => {
  await using nest = await Nest.start("export CNI_IFNAME=inner0");
  const { host, pod, call } = nest;
  const cniDir = `${host.hosts.directory}/inner`;
  nest.setInner({ cniDir });
  const { json } = await host.succeed("ADD", pod, call);
  assertEquals(json.interfaces[1].name, "inner0");
  assertEquals(host.interfaces(pod), ["inner0", "lo"]);
  await host.succeed("CHECK", pod, call);
  await host.succeed("DEL", pod, call);
  assertEquals(host.remains(), []);
});
