// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls
/** `cni probe` and `cni metrics` on a node with two networks. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { metrics } from "../metrics/command.ts";
import { probe } from "./command.ts";
import type { CniCall } from "../flags.ts";
import { ORPHAN_KINDS } from "../../metadata/orphans.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { chooseStyle } from "../../base/command_line/style.ts";
import { DoctorScene } from "../doctor/testing/scene.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import { callWith } from "../../tests/_harness/tool_call.ts";

const NEEDS = allOf(needsRuleTools, needsInetRules);
const WEB = "default/web", DB = "default/db";

/** The document of `cni probe`. */
interface Shown {
  readonly ok: boolean;
  readonly probes: readonly {
    readonly protocol: string;
    readonly reached: boolean;
    readonly error: string | null;
  }[];
  readonly causes: readonly { readonly message: string }[];
}

function callOn(scene: DoctorScene, ...args: readonly string[]): CniCall {
  const { confDir, cacheDir } = scene;
  const flags = { "conf-dir": confDir, "cache-dir": cacheDir };
  return callWith({ args, flags });
}

async function tryOn(
  scene: DoctorScene,
  ...args: readonly string[]
): Promise<Shown> {
  const { hosts: { host }, proc } = scene;
  const options = { hostNetns: host.path, proc };
  const call = callOn(scene, ...args);
  // CHECK needs the plugins.
  const flags = { ...call.flags, "cni-path": scene.hosts.path };
  const { json, exitCode } = await probe({ ...call, flags }, options);
  const shown = json as Shown;
  assertEquals(exitCode, shown.ok ? 0 : 1);
  return shown;
}

rootTest("cni probe reports each connection", NEEDS, async (t) => {
  using scene = await DoctorScene.create();
  await t.step("both ways, all families", async () => {
    const { ok, probes } = await tryOn(scene, WEB, DB);
    assertEquals(ok, true, JSON.stringify(probes));
    assertMatch(probes.map(({ protocol }) => protocol).join(), /^icmp,icmp/);
  });
  await t.step("a port, on a narrow terminal", async () => {
    const { hosts: { host }, proc } = scene;
    const options = { hostNetns: host.path, proc };
    const { text } = await probe(callOn(scene, WEB, DB, "80"), options);
    assert(typeof text === "function");
    const lines = text(chooseStyle(false, 60)).split("\n");
    assertEquals(lines.filter((line) => line.length > 60), []);
  });
  await t.step("an address", async () => {
    assertEquals((await tryOn(scene, WEB, "10.1.0.1")).probes.length, 2);
  });
  await t.step("a port where nothing listens", async () => {
    const { ok, probes, causes } = await tryOn(scene, WEB, DB, "80");
    const tcp = probes.filter(({ protocol }) => protocol === "tcp");
    assertEquals(tcp[0]?.error, "nothing listens on this port");
    assertEquals([ok, causes], [false, []]);
  });
  await t.step("an address without a route", async () => {
    scene.ip("route del default", scene.other);
    const call = callOn(scene, DB, "192.0.2.2");
    const { hosts: { host }, proc } = scene;
    const options = { hostNetns: host.path, proc };
    const { text } = await probe(call, options);
    const shown = typeof text === "function" ? text(chooseStyle(false)) : text;
    assertMatch(shown ?? "", /: no route in the namespace$/m);
  });
  await t.step("wrong arguments", async () => {
    await assertRejects(
      () => tryOn(scene, WEB, DB, "0"),
      Error,
      "PORT must be",
    );
    await assertRejects(
      () => tryOn(scene, "10.1.0.1", WEB),
      Error,
      "an address",
    );
    await assertRejects(
      () => tryOn(scene, WEB, "nobody"),
      Error,
      "There is no",
    );
  });
  await t.step("a deleted namespace", async () => {
    const netns = scene.hosts.addNetns();
    await scene.attach("20-lan", netns, "aaaaaaaaaaaaaaaa", "brief");
    scene.ip("link set eth0 down", netns);
    const { hosts: { host }, proc } = scene;
    netns[Symbol.dispose]();
    // Takes the number of its descriptor.
    using _other = Deno.openSync("/dev/null");
    const probing = probe(callOn(scene, WEB, "default/brief"), {
      hostNetns: host.path,
      proc,
    });
    await assertRejects(() => probing, Error, "its namespace no longer exists");
  });
  await t.step("an interface that is down", async () => {
    scene.ip("link set eth0 down", scene.other);
    const { ok, causes } = await tryOn(scene, WEB, DB);
    assertEquals(ok, false);
    assertMatch(
      causes.map(({ message }) => message).join("\n"),
      /default\/db eth0: bridge: Interface "eth0" is down/,
    );
  });
});

rootTest(
  "cni metrics --findings counts the findings of cni doctor",
  NEEDS,
  async () => {
    using scene = await DoctorScene.create();
    const { hosts: { host, path, directory }, proc } = scene;
    const call = callOn(scene);
    const flags = { ...call.flags, "cni-path": path, findings: true };
    const daemonSocket = `${directory}/daemon.sock`;
    const options = { hostNetns: host.path, proc, daemonSocket };
    const count = async (): Promise<string> => {
      const { text, exitCode, note } = await metrics(
        { ...call, env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" }, flags },
        { ...options, resolvConf: "/dev/null" },
      );
      assertEquals([exitCode, note], [0, undefined]);
      return String(text);
    };
    const well = await count();
    assertEquals(well.match(/severity="error"/g), null, well);
    assertMatch(well, /^cni_findings_unchecked 0$/m);
    scene.sh("sysctl -qw net.ipv4.ip_forward=0");
    assertMatch(
      await count(),
      /^cni_findings\{code="CNI0601",finding="ip-forward",severity="error"\} 1$/m,
    );
  },
);

rootTest(
  "cni metrics counts traffic, and reports what it cannot read",
  NEEDS,
  async () => {
    using scene = await DoctorScene.create();
    const { hosts: { host, directory }, proc } = scene;
    const textfile = `${directory}/cni.prom`;
    const call = callOn(scene);
    const daemonSocket = `${directory}/daemon.sock`;
    const options = { hostNetns: host.path, proc, daemonSocket };
    const written = await metrics(
      { ...call, flags: { ...call.flags, textfile } },
      options,
    );
    assertEquals([written.text, written.exitCode, written.note], [
      "",
      0,
      undefined,
    ]);
    const text = Deno.readTextFileSync(textfile);
    assertMatch(text, /^cni_attachments\{network="pods"\} 1$/m);
    assertMatch(text, /^cni_stale_attachments\{network="pods"\} 0$/m);
    for (const kind of ORPHAN_KINDS) {
      assertMatch(text, new RegExp(`^cni_orphans\\{kind="${kind}"\\} 0$`, "m"));
    }
    assertMatch(text, /^cni_node_daemon\{state="absent"\} 1$/m);
    assertMatch(text, /^cni_node_daemon\{state="running"\} 0$/m);
    assertMatch(
      text,
      /^cni_pool_addresses\{network="pods",subnets="10.1.0.0\/28"\} 13$/m,
    );
    assertMatch(
      text,
      /^cni_pool_used_addresses\{network="pods",subnets="10.1.0.0\/28"\} 1$/m,
    );
    await assertRejects(
      () => {
        const flags = { ...call.flags, textfile: `${directory}/none/cni.prom` };
        return metrics({ ...call, flags }, options);
      },
      Error,
      "Cannot write",
    );
    Deno.writeTextFileSync(`${directory}/file`, "");
    const broken = { ...call.flags, "cache-dir": `${directory}/file` };
    const { text: some, exitCode, note, json } = await metrics(
      { ...call, flags: broken },
      options,
    );
    assertEquals(exitCode, 1);
    assertMatch(String(note), /^Cannot read cni_attachments: /m);
    const failed = (json as Record<string, unknown>[]).filter(({ labels }) =>
      (labels as Record<string, string>)["metric"] === "cni_attachments"
    );
    assertEquals(failed.map(({ name, value }) => [name, value]), [
      ["cni_metric_failed", 1],
    ]);
    assertMatch(String(failed[0]?.["error"]), /Not a directory|ENOTDIR/);
    assertMatch(
      String(some),
      /^cni_metric_failed\{metric="cni_attachments"\} 1$/m,
    );
    assertMatch(String(some), /^cni_networks 2$/m);
  },
);
