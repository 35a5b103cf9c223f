import { assertEquals } from "@std/assert";
import { multus } from "../../../plugins/multus/plugin.ts";
import { translateShimCall } from "./shim_call.ts";

Deno.test("translateShimCall() answers a call that has run, whatever it printed", async () => {
  const translation = await translateShimCall({
    build: "",
    name: "multus-shim",
    exe: "",
    world: { netns: null, host: "", mnt: "", root: "", cwd: "/", umask: 0 },
    env: {
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "c",
      CNI_NETNS: "/n",
      CNI_IFNAME: "eth0",
      CNI_PATH: "/bin",
      CNI_ARGS: "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web",
    },
    stdin: '{"cniVersion":"0.2.0","name":"n","type":"multus-shim"}',
  }, {
    lookup: () => Promise.resolve(multus),
    env: {},
    // multus prints a result without addresses; 0.2.0 cannot express it.
    overlay: { cniVersion: "1.0.0" },
    onStderr: () => {},
  });
  if (typeof translation !== "object") throw new Error(`${translation}`);
  const stdout = '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0"}]}';
  const answer = await translation.answer({ stdout, exitCode: 0 });
  assertEquals(answer.exitCode, 1);
  assertEquals(JSON.parse(answer.stdout).code, 1);
});
