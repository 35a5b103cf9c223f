import { assertEquals } from "@std/assert";
import { parseTrace } from "./record.ts";
import { requireRoot } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { needsBin, startPlugin } from "../../tests/_harness/executables.ts";

Deno.test(
  requireRoot(
    "CNI_TRACE joins a plugin and the process that it starts",
    needsBin,
  ),
  async () => {
    using hosts = TestHosts.create();
    const path = `${hosts.directory}/trace`;
    const config = {
      cniVersion: "1.1.0",
      name: "net1",
      type: "ptp",
      ipam: hosts.hostLocal("10.1.2.0/24"),
    };
    const call = { type: "ptp", command: "ADD", config } as const;
    const env = { CNI_TRACE: path, CNI_NO_INPROCESS: "1" };
    const ended = await startPlugin(hosts, call, { env }).output;
    assertEquals(ended.code, 0);
    const records = parseTrace(await Deno.readTextFile(path));
    const calls = records.filter(({ kind }) => kind === "call");
    assertEquals(calls.map(({ name }) => name), ["ptp ADD", "host-local ADD"]);
    const [ptp, ipam] = calls.map(({ pid }) =>
      records.filter((one) => one.pid === pid).map(({ kind }) => kind)
    );
    assertEquals(ptp?.includes("netlink"), true);
    assertEquals(ptp?.includes("process"), true);
    assertEquals(ipam?.includes("file"), true);
  },
);

Deno.test(
  requireRoot("CNI_TRACE with a pipe does not change a call", needsBin),
  async () => {
    using hosts = TestHosts.create();
    const path = `${hosts.directory}/pipe`;
    await new Deno.Command("mkfifo", { args: [path] }).output();
    const config = { cniVersion: "1.1.0", name: "net1", type: "ptp" };
    const call = { type: "ptp", command: "DEL", config } as const;
    const ended = await startPlugin(hosts, call, { env: { CNI_TRACE: path } })
      .output;
    assertEquals([ended.code, ended.stdout], [0, ""]);
  },
);
