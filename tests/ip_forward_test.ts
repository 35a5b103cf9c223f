/**
 * Turning forwarding on while something else does, with whole executables.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { inNetns, type NetNs } from "../ffi/netns.ts";
import { listSysctls, readSysctl, writeSysctl } from "../ffi/sysctl.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../testing/capabilities.ts";
import { linkNames, runIn } from "../testing/ip_json.ts";
import { type CallOutput, TestHosts } from "../testing/test_hosts.ts";
import { BIN, needsBin, startPlugin } from "./_harness/executables.ts";
import { needsKind } from "./_harness/on_master.ts";
import { eachRow } from "./_harness/table.ts";
import { withMounts } from "./_harness/host_programs.ts";

const needs = allOf(
  needsBin,
  ignoreUnless(hasCommand("unshare"), "needs unshare"),
);

const CONF = "net/ipv4/conf";

/** Which links do not forward; `default` is for links that come later. */
function listNotForwarding(host: NetNs): string[] {
  return inNetns(
    host,
    () =>
      listSysctls(CONF).filter((link) =>
        readSysctl(`${CONF}/${link}/forwarding`) === "0"
      ),
  ).sort();
}

/**
 * Returns the path of a script that runs a program which takes forwarding to be
 * off, and whose write to ip_forward changes nothing: as in the kernel if
 * another write is undone in between.
 */
function withoutEffect({ directory }: TestHosts, program: string): string {
  const file = `${directory}/ip_forward`;
  Deno.writeTextFileSync(file, "0\n");
  const mount = `mount --bind "${file}" /proc/sys/net/ipv4/ip_forward`;
  return withMounts(directory, program, [mount]);
}

/** Returns the path of a script that runs a program with a read-only /proc/sys. */
function withReadOnlySysctls(
  { directory }: TestHosts,
  program: string,
): string {
  return withMounts(directory, program, [
    "mount --bind /proc/sys /proc/sys",
    "mount -o remount,bind,ro /proc/sys",
  ]);
}

rootTest(
  "after ADD without write access to /proc/sys, CHECK reports links that do not forward",
  needs,
  async (t) => {
    await eachRow(t, ["bridge", "ptp"], (type) => {
      using hosts = TestHosts.create();
      const config = {
        cniVersion: "1.1.0",
        name: "net1",
        type,
        isGateway: true,
        ipam: hosts.hostLocal("10.1.2.0/24"),
      };
      const path = withReadOnlySysctls(hosts, `${BIN}/${type}`);
      const run = (command: string, keys: object = {}): CallOutput =>
        hosts.exec(path, command, { ...config, ...keys });
      inNetns(hosts.host, () => {
        writeSysctl("net/ipv4/ip_forward", "0");
      });
      const { exitCode, json } = run("ADD");
      assertEquals(exitCode, 1);
      assertMatch(json.msg, /Cannot enable IPv4 forwarding/);
      inNetns(hosts.host, () => {
        writeSysctl("net/ipv4/ip_forward", "1");
        writeSysctl(`${CONF}/default/forwarding`, "0");
        // A bridge stays after a failed ADD.
        for (const link of listSysctls(CONF)) {
          if (link !== "all") writeSysctl(`${CONF}/${link}/forwarding`, "0");
        }
      });
      const added = run("ADD");
      assertEquals(added.exitCode, 0, added.stdout + added.stderr);
      const checked = run("CHECK", { prevResult: added.json });
      assertEquals(checked.exitCode, 1);
      assertMatch(checked.json.msg, /IPv4 forwarding is off on/);
      const { json: report } = run("REPAIR", { prevResult: added.json });
      assertEquals(report.repaired, []);
      assertMatch(report.remaining.join(), /IPv4 forwarding is off on/);
      assertMatch(
        report.error,
        /^Cannot enable IPv4 forwarding on ".*": Read-only file system/,
      );
    });
  },
);

rootTest(
  "REPAIR without write access to /proc/sys reports the missing host access",
  allOf(needs, needsKind("macvlan")),
  () => {
    using hosts = TestHosts.create();
    const script = `ip link add lan0 type veth peer name lan1
      ip link set lan0 up; ip link set lan1 up
      ip address add 10.1.2.200/24 dev lan0
      ip address add 2001:db8:1::200/64 dev lan0 nodad`;
    runIn(hosts.host, "sh", "-ec", script);
    const config = {
      cniVersion: "1.1.0",
      name: "net1",
      type: "macvlan",
      master: "lan0",
      hostAccess: true,
      ipam: hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"),
    };
    const program = `${BIN}/macvlan`;
    const { exitCode, json, stdout } = hosts.exec(program, "ADD", config);
    assertEquals(exitCode, 0, stdout);
    const [accessLink = ""] = linkNames(hosts.host)
      .filter((name) => name.startsWith("cnih"));
    const key = `net/ipv6/conf/${accessLink}/proxy_ndp`;
    inNetns(hosts.host, () => writeSysctl(key, "0"));
    const path = withReadOnlySysctls(hosts, program);
    const run = (command: string): CallOutput =>
      hosts.exec(path, command, { ...config, prevResult: json });
    const problem = `net.ipv6.conf.${accessLink}.proxy_ndp is not 1`;
    const checked = run("CHECK");
    assertEquals([checked.exitCode, checked.json.msg], [1, problem]);
    const { repaired, remaining, error } = run("REPAIR").json;
    assertEquals([repaired, remaining], [[], [problem]]);
    assertMatch(
      error,
      /^Cannot set net\.ipv6\.conf\..*\.proxy_ndp to 1: Read-only file system/,
    );
  },
);

rootTest(
  "a host forwards on all links after ADD enabled forwarding",
  needs,
  async (t) => {
    await eachRow(t, ["bridge", "ptp"], async (type) => {
      using hosts = TestHosts.create();
      const { host } = hosts;
      runIn(host, "ip", "link", "add", "lan0", "type", "bridge");
      const config = {
        cniVersion: "1.1.0",
        name: "net1",
        type,
        isGateway: true,
        ipam: hosts.hostLocal("10.1.2.0/24"),
      };
      const add = async (path?: string): Promise<void> => {
        const call = { type, command: "ADD", config, ...path && { path } };
        const sandbox = hosts.addNetns(), containerId = path ? "c1" : "c2";
        const output = await startPlugin(hosts, call, { sandbox, containerId })
          .output;
        assertEquals(output.code, 0, output.stdout + output.stderr);
      };
      // Both states: "all" is on, and no link is.
      const turnOffLinks = (): void =>
        inNetns(host, () => {
          writeSysctl("net/ipv4/ip_forward", "1");
          for (const link of ["default", "lan0", "lo"]) {
            writeSysctl(`${CONF}/${link}/forwarding`, "0");
          }
        });
      turnOffLinks();
      await add(withoutEffect(hosts, `${BIN}/${type}`));
      assertEquals(listNotForwarding(host), []);
      // An administrator's choice while forwarding is on.
      turnOffLinks();
      await add();
      const left = listNotForwarding(host)
        .filter((link) => !link.startsWith("veth"));
      assertEquals(left, ["default", "lan0", "lo"]);
    });
  },
);
