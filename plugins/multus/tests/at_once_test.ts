/**
 * multus, several times concurrently for one container: what one has made,
 * another does not take away, and nothing is left that nobody knows of.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { eventually } from "../../../tests/_harness/eventually.ts";
import { BIN, type HostCall, hostTest, MultusHost } from "../testing/host.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";

const isBegun = ({ name }: Deno.DirEntry): boolean => name === "begun";

/** A master that takes its time, and leaves a file to tell that it has begun. */
function slowMaster(host: MultusHost, directory: PluginDirectory): HostCall {
  directory.add(
    "slow",
    `cat > /dev/null
    touch '${directory.path}/begun'
    [ "$CNI_COMMAND" != ADD ] || sleep 0.6
    echo '{"cniVersion":"1.0.0"}'`,
  );
  const slow = { cniVersion: "1.0.0", name: "slow", type: "slow" };
  return {
    keys: { delegates: [slow, host.master()] },
    env: { CNI_PATH: `${directory.path}:${BIN}` },
  };
}

hostTest("one of two concurrent ADDs fails, and changes nothing", async () => {
  await using host = await MultusHost.start();
  using directory = new PluginDirectory();
  const call = slowMaster(host, directory);
  const pod = host.addPod("web");
  const outputs = await Promise.all([
    host.call("ADD", pod, call),
    host.call("ADD", pod, call),
  ]);
  const codes = outputs.map(({ code }) => code);
  assertEquals(codes.toSorted(), [0, 1]);
  assertStringIncludes(
    outputs[codes.indexOf(1)]?.json.msg,
    "interface name net1 already exists",
  );
  assertEquals(host.interfaces(pod), ["lo", "net1"]);
  await host.succeed("DEL", pod, call);
  assertEquals(host.remains(), []);
});

hostTest("a DEL during ADD removes everything that ADD creates", async () => {
  await using host = await MultusHost.start();
  using directory = new PluginDirectory();
  const call = slowMaster(host, directory);
  const pod = host.addPod("web");
  const adding = host.call("ADD", pod, call);
  await eventually(
    "master begun",
    () => [...Deno.readDirSync(directory.path)].some(isBegun),
  );
  await host.succeed("DEL", pod, call);
  assertEquals((await adding).code, 0);
  assertEquals(host.remains(), []);
});
