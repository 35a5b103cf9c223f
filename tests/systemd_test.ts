/**
 * The node daemon on a machine that a real systemd runs, and in an image.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { allOf } from "../testing/capabilities.ts";
import { needsBin } from "./_harness/executables.ts";
import { eventually } from "./_harness/eventually.ts";
import {
  needsSystemd,
  runInImage,
  SystemdNode,
} from "./_harness/systemd_node.ts";

const { ignore, suffix } = allOf(needsBin, needsSystemd);

const UNIT = "/etc/systemd/system/cni-daemon.service";
const INSTALL = "/mnt/cni install /opt/cni/bin --only ptp,host-local";

/** A network that names no daemon. */
const CONFIG = {
  cniVersion: "1.0.0",
  name: "pods",
  type: "ptp",
  ipMasq: true,
  ipam: { type: "host-local", subnet: "10.22.0.0/24" },
};

/** Calls ptp as a runtime does: `call ADD c1`. */
const CALL = `#!/bin/sh
export CNI_COMMAND=$1 CNI_CONTAINERID=$2 CNI_NETNS=/run/netns/blue
export CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin
echo '${JSON.stringify(CONFIG)}' | /opt/cni/bin/ptp
`;

/** Attaches and detaches until /root/stop exists. */
const LOOP = `#!/bin/sh
n=0
until [ -e /root/stop ]; do
  n=$((n + 1))
  for command in ADD DEL; do
    /root/call $command c$n >/root/answer || cat /root/answer >>/root/failed
  done
done
echo $n >/root/count
`;

/** Makes an executable that a daemon of the first takes for another build. */
const OTHER_BUILD = `
digest=$(grep -aoE '"[0-9a-f]{64}"' /mnt/cni | head -n 1 | tr -d '"')
mkdir /root/other
sed "s/$digest/$(echo $digest | rev)/g" /mnt/cni >/root/other/cni
chmod +x /root/other/cni
cmp /mnt/cni /root/other/cni >/dev/null || /root/other/cni version`;

async function daemonPid(node: SystemdNode): Promise<number> {
  return Number(
    await node.get("systemctl show cni-daemon --property=MainPID --value"),
  );
}

/** Counts the calls that daemons have run. */
async function countCalls(node: SystemdNode): Promise<number> {
  const text = await node.get(
    "journalctl --quiet --unit=cni-daemon --output=cat | grep -c msg=call || true",
  );
  return Number(text);
}

/** Waits for a number of calls: the journal is written later than a call ends. */
async function awaitCalls(node: SystemdNode, count: number): Promise<void> {
  await eventually(
    `daemons have run ${count} calls`,
    async () => await countCalls(node) === count,
  );
}

Deno.test({
  name: "systemd: cni install starts the daemon, an update replaces it, and " +
    "cni uninstall leaves nothing" + suffix,
  ignore,
  async fn(t): Promise<void> {
    await using node = await SystemdNode.boot();
    Deno.writeTextFileSync(node.pathOf("/root/call"), CALL, { mode: 0o755 });
    Deno.writeTextFileSync(node.pathOf("/root/loop"), LOOP, { mode: 0o755 });
    await node.get("ip netns add blue");

    await t.step("install: enabled and active", async () => {
      const plan = await node.get(`${INSTALL} --dry-run`);
      assertMatch(plan, /^daemon {6}started$/m);
      assertEquals((await node.run(`ls ${UNIT}`)).code, 2);
      assertMatch(await node.get(INSTALL), /^daemon {6}started$/m);
      const states = "systemctl is-enabled cni-daemon; systemctl is-active " +
        "cni-daemon";
      assertEquals(await node.get(states), "enabled\nactive");
      assertMatch(await node.get(INSTALL), /^daemon {6}unchanged$/m);
      const { running, executable } = JSON.parse(
        await node.get("/opt/cni/bin/cni daemon status --json"),
      );
      assertEquals([running, executable], [true, "/opt/cni/bin/cni"]);
    });

    await t.step("a call goes through the daemon", async () => {
      assertStringIncludes(await node.get("/root/call ADD c0"), "10.22.0.2");
      await node.get("/root/call DEL c0");
      await awaitCalls(node, 2);
    });

    await t.step("no option unshares the daemon's mounts", async () => {
      const pid = await daemonPid(node);
      const links = `readlink /proc/1/ns/mnt /proc/${pid}/ns/mnt ` +
        `/proc/1/ns/uts /proc/${pid}/ns/uts`;
      const [mnt, ownMnt, uts, ownUts] = (await node.get(links)).split("\n");
      assertEquals([ownMnt, ownUts], [mnt, uts]);
    });

    await t.step(
      "an update replaces the daemon, and loses no call",
      async () => {
        await node.get(OTHER_BUILD);
        const before = await daemonPid(node);
        const looping = node.get("/root/loop");
        await eventually("calls run", async () => await countCalls(node) > 10);
        const update = INSTALL.replace("/mnt/cni", "/root/other/cni");
        assertMatch(await node.get(update), /^daemon {6}restarted$/m);
        assertNotEquals(await daemonPid(node), before);
        const soFar = await countCalls(node);
        await eventually(
          "the new daemon runs calls",
          async () => await countCalls(node) > soFar + 10,
        );
        await node.get("touch /root/stop");
        await looping;
        assert(Number(await node.get("cat /root/count")) > 10);
        const { text } = await node.run("cat /root/failed");
        assertStringIncludes(text, "No such file");
      },
    );

    await t.step("a stopped daemon is replaced", async () => {
      // The unit waits for as long as a daemon may be blocked.
      const dropIn = "/run/systemd/system/cni-daemon.service.d";
      await node.get(
        `mkdir -p ${dropIn}; printf '[Service]\nWatchdogSec=10\n' >${dropIn}/watchdog.conf; ` +
          "systemctl daemon-reload; systemctl restart cni-daemon",
      );
      const before = await daemonPid(node);
      await node.get(`kill -STOP ${before}`);
      await eventually("systemd starts another one", async () => {
        const pid = await daemonPid(node);
        const { code } = await node.run("systemctl is-active cni-daemon");
        return code === 0 && pid !== 0 && pid !== before;
      });
      const soFar = await countCalls(node);
      await node.get("/root/call ADD c1 && /root/call DEL c1");
      await awaitCalls(node, soFar + 2);
      await node.get(`rm -r ${dropIn}; systemctl daemon-reload`);
    });

    await t.step("a disabled unit remains disabled", async () => {
      await node.get("/opt/cni/bin/cni daemon disable");
      const update = await node.get(INSTALL);
      assertMatch(update, /^daemon {6}disabled$/m);
      assertEquals((await node.run("/mnt/cni daemon status")).code, 1);
      await node.get("/root/call ADD c1 && /root/call DEL c1");
      await node.get("/opt/cni/bin/cni daemon enable");
      await node.get("/opt/cni/bin/cni daemon status");
    });

    await t.step("a failing daemon fails no installation", async () => {
      const dropIn = `${UNIT}.d`;
      await node.get(
        `mkdir ${dropIn} && printf '[Service]\\nExecStart=\\n` +
          `ExecStart=/bin/false\\n' >${dropIn}/no.conf`,
      );
      const update = INSTALL.replace("/mnt/cni", "/root/other/cni");
      const text = await node.get(update);
      assertMatch(text, /^daemon {6}failed$/m);
      assertStringIncludes(text, "journalctl -u cni-daemon");
      await node.get("/root/call ADD c2 && /root/call DEL c2");
      await node.get(`rm -r ${dropIn} && systemctl daemon-reload`);
      await node.get(
        "systemctl reset-failed && /root/other/cni daemon restart",
      );
    });

    await t.step("uninstall leaves nothing", async () => {
      const text = await node.get("/mnt/cni uninstall /opt/cni/bin");
      assertMatch(text, /^daemon {6}removed$/m);
      const left = await node.run(
        `find ${UNIT}* /etc/systemd/system/*.wants/cni* /run/cni /opt/cni/bin/* ` +
          "/opt/cni/bin/.cni-install /run/systemd/system/cni* 2>/dev/null",
      );
      assertEquals(left.text, "");
      const { text: active } = await node.run("systemctl is-active cni-daemon");
      assertEquals(active.trim(), "inactive");
      assertEquals(await node.get("ip -o link | grep -c veth || true"), "0");
    });
  },
});

Deno.test({
  name: "systemd: in an image, cni install enables the daemon for its boot" +
    suffix,
  ignore,
  async fn(): Promise<void> {
    const link = "/etc/systemd/system/multi-user.target.wants/" +
      "cni-daemon.service";
    const { code, text } = await runInImage(
      `${INSTALL} && test -L ${link} && grep ^ExecStart= ${UNIT} &&
      /opt/cni/bin/cni uninstall /opt/cni/bin && ! test -L ${link} &&
      ! test -e ${UNIT} && /mnt/cni install /usr/lib/cni --no-daemon &&
      ! test -e ${UNIT} && /mnt/cni install /tmp/bin && ! test -e ${UNIT}`,
    );
    assertEquals(code, 0, text);
    assertMatch(text, /^daemon {6}unit installed$/m);
    assertMatch(text, /^daemon {6}removed$/m);
    assertMatch(text, /^The node daemon is not started: systemd, which .* /m);
    assertStringIncludes(text, "ExecStart=/opt/cni/bin/cni daemon\n");
  },
});
