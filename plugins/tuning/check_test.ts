import { assertEquals, assertMatch } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { ALL_SETTINGS, NEW_MAC, SYSCTL, TunedLink } from "./testing.ts";
import { runIn } from "../../testing/ip_json.ts";

rootTest(
  "tuning.check() reports each change, and repair() restores it",
  async (t) => {
    const rows: [name: string, change: string, text: string][] = [
      ["MAC", "address 02:00:00:00:00:07", `Ethernet of eth0 is ${NEW_MAC}`],
      ["promisc", "promisc off", "promiscuous mode of eth0 is true"],
      ["MTU", "mtu 1300", "MTU of eth0 is 1454, current value is 1300"],
      ["allmulti", "allmulticast off", "all-multicast mode of eth0 is true"],
      ["queue", "txqueuelen 9", "Transmit Queue Length of eth0 is 20000"],
      ["name", "name eth1", "Cannot find container link eth0"],
    ];
    await eachRow(t, rows, async ([, change, text]) => {
      using scene = new TunedLink(ALL_SETTINGS);
      const { json: prevResult } = await scene.succeed("ADD");
      scene.change(change);
      await scene.fail("CHECK", [999, text], { prevResult });
      if (change === "name eth1") return;
      const env = { CNI_REPAIR_SANDBOX: "1" };
      await scene.succeed("REPAIR", { prevResult }, { env });
      await scene.succeed("CHECK", { prevResult });
    });
    await t.step("sysctl", async () => {
      using scene = new TunedLink({ sysctl: { [SYSCTL]: "1" } });
      const { json: prevResult } = await scene.succeed("ADD");
      runIn(scene.hosts.sandbox, "sysctl", "-qw", `${SYSCTL}=0`);
      const text = "Error: Tuning configured value of " +
        "/proc/sys/net/ipv4/conf/all/log_martians is 1, current value is 0";
      await scene.fail("CHECK", [999, text], { prevResult });
      const { json } = await scene.succeed("REPAIR", { prevResult });
      assertEquals(json.repaired, []);
      const env = { CNI_REPAIR_SANDBOX: "1" };
      await scene.succeed("REPAIR", { prevResult }, { env });
      await scene.succeed("CHECK", { prevResult });
    });
    await t.step("no prevResult", async () => {
      using scene = new TunedLink(ALL_SETTINGS);
      await scene.succeed("ADD");
      const text = "Required prevResult missing";
      await scene.fail("CHECK", [7, text], { prevResult: undefined });
    });
  },
);

rootTest("tuning.check() compares only what is configured", async () => {
  using scene = new TunedLink({ mtu: 1400, promisc: false });
  const { json: prevResult } = await scene.succeed("ADD");
  for (const change of ["promisc on", "allmulticast on", "txqueuelen 9"]) {
    scene.change(change);
  }
  await scene.succeed("CHECK", { prevResult });
});

rootTest("tuning.check() reports all differences", async () => {
  using scene = new TunedLink({ ...ALL_SETTINGS, sysctl: { [SYSCTL]: "1" } });
  const { json: prevResult } = await scene.succeed("ADD");
  runIn(scene.hosts.sandbox, "sysctl", "-qw", `${SYSCTL}=0`);
  for (const change of ["mtu 1300", "txqueuelen 9"]) scene.change(change);
  const { json } = await scene.run("CHECK", { prevResult });
  assertMatch(json.msg, /log_martians is 1, current value is 0/);
  assertMatch(
    json.details,
    /^also: .*MTU of eth0 is 1454.*\nalso: .*Transmit Queue Length of eth0/,
  );
});
