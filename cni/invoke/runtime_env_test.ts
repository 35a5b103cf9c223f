import { assertEquals } from "@std/assert";
import { runtimeEnv } from "./runtime_env.ts";
import { testRows } from "../../tests/_harness/table.ts";

const EMPTY = {
  CNI_CONTAINERID: "",
  CNI_NETNS: "",
  CNI_ARGS: "",
  CNI_IFNAME: "",
  CNI_PATH: "",
};

Deno.test("runtimeEnv() sets all six variables, whatever the runtime's own say", () => {
  const base = {
    PATH: "/bin",
    TRACEPARENT: "00-1-2-03",
    CNI_COMMAND: "own",
    CNI_CONTAINERID: "own",
    CNI_NETNS: "own",
    CNI_ARGS: "own",
    CNI_IFNAME: "own",
    CNI_PATH: "own",
  };
  const before = { ...base };
  const others = { PATH: "/bin", TRACEPARENT: "00-1-2-03" };
  assertEquals(runtimeEnv({ command: "GC" }, base), {
    ...others,
    ...EMPTY,
    CNI_COMMAND: "GC",
  });
  assertEquals(
    runtimeEnv({
      command: "ADD",
      containerId: "c",
      netns: "/run/netns/c",
      ifName: "eth0",
      args: "K=V",
      path: "/a:/b",
    }, base),
    {
      ...others,
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "c",
      CNI_NETNS: "/run/netns/c",
      CNI_IFNAME: "eth0",
      CNI_ARGS: "K=V",
      CNI_PATH: "/a:/b",
    },
  );
  assertEquals(base, before);
});

testRows("runtimeEnv() makes CNI_ARGS of pairs", [
  ["", ""],
  ["a;b", "a;b"],
  [[], ""],
  [[["IgnoreUnknown", "1"]], "IgnoreUnknown=1"],
  [[["K", "V"], ["K2", ""], ["K", "W"]], "K=V;K2=;K=W"],
], ([args, expected]: [string | [string, string][], string]) => {
  const env = runtimeEnv({ command: "ADD", args }, {});
  assertEquals(env, { ...EMPTY, CNI_COMMAND: "ADD", CNI_ARGS: expected });
}, ([args]) => JSON.stringify(args));
