import { assertEquals } from "@std/assert";
import {
  type CniArgs,
  describeAttachment,
  formatCniArgs,
  listCniArgs,
  restoreArgs,
  type RuntimeConf,
} from "./runtime_conf.ts";
import { testRows } from "../tests/_harness/table.ts";

const CONF: RuntimeConf = { containerId: "c", netns: "/n", ifName: "eth0" };

testRows("formatCniArgs() and listCniArgs() agree on both forms of CNI_ARGS", [
  ["nothing", {}, "", []],
  ["pairs", { args: [["A", "1"], ["B", ""]] }, "A=1;B=", [
    ["A", "1"],
    ["B", ""],
  ]],
  ["text", { rawArgs: "A=1;B=x=y" }, "A=1;B=x=y", [["A", "1"], ["B", "x=y"]]],
  ["text before pairs", { args: [["A", "1"]], rawArgs: "B=2" }, "B=2", [
    ["B", "2"],
  ]],
  ["pairs with an empty text", { args: [["A", "1"]], rawArgs: "" }, "A=1", [
    ["A", "1"],
  ]],
], ([, keys, text, pairs]: [string, Partial<RuntimeConf>, string, CniArgs]) => {
  const conf = { ...CONF, ...keys };
  assertEquals(formatCniArgs(conf), text);
  assertEquals(listCniArgs(conf), pairs);
});

Deno.test("describeAttachment() keeps what DEL needs", () => {
  const bytes = new TextEncoder().encode("{}");
  const conf = { ...CONF, rawArgs: "A=1", capabilityArgs: { mac: "m" } };
  assertEquals(describeAttachment({ name: "net1", bytes }, conf), {
    network: "net1",
    containerId: "c",
    ifName: "eth0",
    netns: "/n",
    config: bytes,
    cniArgs: [["A", "1"]],
    capabilityArgs: { mac: "m" },
  });
});

Deno.test("restoreArgs() replaces args only if some were cached, and capabilityArgs always", async (t) => {
  const asked = { ...CONF, rawArgs: "B=2", capabilityArgs: { mac: "m" } };
  const config = new Uint8Array();
  await t.step("args", () => {
    const cached = {
      config,
      cniArgs: [["A", "1"]] as const,
      capabilityArgs: {},
    };
    assertEquals(restoreArgs(asked, cached), {
      ...CONF,
      args: [["A", "1"]],
      capabilityArgs: {},
    });
  });
  await t.step("no args", () => {
    const cached = { config, cniArgs: [], capabilityArgs: { ips: [] } };
    assertEquals(restoreArgs(asked, cached), {
      ...CONF,
      rawArgs: "B=2",
      capabilityArgs: { ips: [] },
    });
  });
});
