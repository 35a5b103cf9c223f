/**
 * `cni doctor` on a throw-away node: one scene, in which one thing after another
 * is broken and fixed again.
 */
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { CHECKS } from "./checks.ts";
import { formatFindingsPage } from "../../scripts/schemas/site_pages.ts";
import { collapse, diagnose, type DiagnosedFinding } from "./diagnose.ts";
import { error, type Finding } from "./finding.ts";
import { PACKET_CHECKS } from "./packets.ts";
import { parseNetworkConfList } from "../../libcni/mod.ts";
import { SyscallError } from "../../ffi/errno.ts";
import type { Output } from "../../base/command_line/command.ts";
import { chooseStyle } from "../../base/command_line/style.ts";
import { allOf, ignoreUnless, rootTest } from "../../testing/capabilities.ts";
import trySchema from "./try/try.schema.json" with {
  type: "json",
};
import jsonSchema from "./doctor.schema.json" with {
  type: "json",
};
import { DoctorScene } from "./testing/scene.ts";
import {
  attachmentOfNone,
  type Fault,
  GONE_ID,
  network,
  VERSIONS,
} from "./testing/fault.ts";
import { ATTACHMENTS_FAULTS } from "./testing/faults/attachments.ts";
import { CONFIGURATIONS_FAULTS } from "./testing/faults/configurations.ts";
import { FORWARDING_FAULTS } from "./testing/faults/forwarding.ts";
import { LINKS_FAULTS } from "./testing/faults/links.ts";
import { NETWORK_ADDRESS_FAULTS } from "./testing/faults/network_addresses.ts";
import { PACKETS_FAULTS } from "./testing/faults/packets.ts";
import { PLUGINS_FAULTS } from "./testing/faults/plugins.ts";
import { SERVICES_FAULTS } from "./testing/faults/services.ts";
import { STORAGE_FAULTS } from "./testing/faults/storage.ts";
import { listPromises, validate } from "../../tests/_harness/json_schema.ts";
import { EARLIER } from "../../tests/doctor_faults/rows/earlier.ts";
import { KubeApi } from "../../kube/testing/kube_api.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import { ToolHost } from "../../tests/_harness/tool_host.ts";

const DAEMON_SET = new URL(
  "../../deploy/multus/daemonset.yaml",
  import.meta.url,
);
const FAULTS: readonly Fault[] = [
  ...CONFIGURATIONS_FAULTS,
  ...PLUGINS_FAULTS,
  ...SERVICES_FAULTS,
  ...STORAGE_FAULTS,
  ...LINKS_FAULTS,
  ...FORWARDING_FAULTS,
  ...PACKETS_FAULTS,
  ...ATTACHMENTS_FAULTS,
  ...NETWORK_ADDRESS_FAULTS,
];
/** In a user namespace, root may not open it, and a check says so. */
const mayOpenTun = ((): boolean => {
  try {
    Deno.openSync("/dev/net/tun", { read: true, write: true }).close();
    return true;
  } catch (error) {
    return !(error instanceof Deno.errors.PermissionDenied);
  }
})();
const NEEDS = allOf(
  needsRuleTools,
  needsInetRules,
  ignoreUnless(mayOpenTun, "may not open /dev/net/tun"),
);

/** The document of the command, in part. */
interface Report {
  readonly findings: { check: string }[];
  readonly mended: { check: string; failure: string | null }[];
}

/** Returns a text without highlighting. */
function plain(text: Output["text"]): string {
  return typeof text === "string" ? text : text(chooseStyle(false));
}

Deno.test("the site's page of findings has a section for each check", () => {
  const page = formatFindingsPage();
  const codes = [...page.matchAll(/^### (CNI\d{4})$/gm)].map(([, code]) =>
    code
  );
  assertEquals(codes, CHECKS.map(({ code }) => code).toSorted());
});

Deno.test("codes of findings are unique and never change", () => {
  const codes = CHECKS.map(({ code, name }) => `${code} ${name}`).sort();
  assertEquals(new Set(CHECKS.map(({ code }) => code)).size, codes.length);
  assertEquals(
    codes.filter((code) => !/^CNI0[1-7]\d\d [a-z\d-]+$/.test(code)),
    [],
  );
  // Scripts and runbooks name these.
  const released = Deno.readTextFileSync("tests/golden/doctor/codes.txt");
  const missing = released.trim().split("\n")
    .filter((code) => !codes.includes(code));
  assertEquals(missing, []);
});

Deno.test("the schema still contains version 1 of the JSON", () => {
  for (
    const [name, schema] of [
      ["schema_v1.json", jsonSchema],
      ["try_schema_v1.json", trySchema],
    ] as const
  ) {
    const released = JSON.parse(
      Deno.readTextFileSync(`tests/golden/doctor/${name}`),
    );
    const now = listPromises(schema);
    const broken = listPromises(released)
      .filter((promise) => !now.includes(promise));
    assertEquals(broken, []);
  }
});

Deno.test("every check has an injected fault that it finds", () => {
  const found = new Set(FAULTS.flatMap(({ checks }) => checks));
  // tests/doctor_faults has two uplinks, which it needs.
  const elsewhere = ["rp-filter"];
  const others = CHECKS.map(({ name }) => name).filter((name) =>
    !found.has(name) && !elsewhere.includes(name)
  );
  assertEquals(others, [], "faults/ has no fault for these checks");
});

rootTest(
  "cni doctor --fix applies safe fixes only",
  NEEDS,
  async () => {
    await using host = await ToolHost.create();
    const path = host.addNetwork("pods", [
      { type: "ptp", ipam: host.hostLocal("10.1.2.0/24") },
      { type: "custom" },
    ]);
    const custom = host.addPlugin("custom", "");
    await Deno.writeTextFile(custom, VERSIONS);
    // The list without the plugin, which knows no ADD.
    const list = { ...JSON.parse(await Deno.readTextFile(path)), name: "some" };
    const some = `${host.confDir}/some.conflist`;
    await Deno.writeTextFile(
      some,
      JSON.stringify({ ...list, plugins: list.plugins.slice(0, 1) }),
    );
    for (const line of ["netns add blue", "add some blue"]) {
      assertEquals((await host.cni(line)).code, 0, line);
    }
    await Deno.remove(some);
    await Deno.chmod(custom, 0o644);
    const script = `
cd /var/lib/cni/results; : > pods-x-eth0; echo { > pods-y-eth0
touch -d '1 hour ago' pods-x-eth0
printf "${GONE_ID}\\r\\neth0" > /run/leases/some/10.1.2.200
touch -d '1 hour ago' /run/leases/some/10.1.2.200
echo 0 > /proc/sys/net/ipv4/ip_forward
nft add table inet fw '{ chain f1 { type filter hook forward priority 0; policy drop; }; }'`;
    const look = "ls /run/leases/* /var/lib/cni/results; nft list ruleset; " +
      "cat /proc/sys/net/ipv4/ip_forward; ip link; ip -4 -n blue address";
    const run = async (script: string): Promise<string> => {
      const { code, stdout, stderr } = await host.run(["sh", "-ec", script]);
      assertEquals([code, stderr], [0, ""]);
      return stdout;
    };
    await run(script);
    const before = await run(look);
    const ended = await host.cni("doctor --fix --json");
    const { mended: fixed, findings } = JSON.parse(ended.stdout) as Report;
    assertEquals(fixed.map(({ check }) => check).sort(), [
      "cache-broken",
      "ip-forward",
      "leftover",
      "plugin-mode",
    ]);
    assertEquals(fixed.filter(({ failure }) => failure !== null), []);
    // What a person must decide is still there.
    const left = [...new Set(findings.map(({ check }) => check))];
    // The only container reaches the node, and the node has no router.
    assertEquals(left, ["cache-broken"]);
    assertEquals(ended.code, 0);
    assertEquals(((await Deno.stat(custom)).mode ?? 0) & 0o777, 0o755);
    // The container has all that it had.
    const gone = ["10.1.2.200", "pods-x-eth0"];
    const wanted = before.split("\n").filter((line) => !gone.includes(line))
      .map((line) => line === "0" ? "1" : line);
    assertEquals((await run(look)).split("\n"), wanted);
  },
);

rootTest(
  "cni doctor shows a healthy node, and chooses its exit code",
  NEEDS,
  async () => {
    using scene = await DoctorScene.create();
    const well = await scene.doctor({ strict: true });
    assertEquals(well.exitCode, 0);
    assertMatch(
      plain(well.text),
      /^Kernel +Linux .*\n[^]*\n\nNothing is wrong$/,
    );
    assertMatch(plain(well.text), /^Networks +pods is the default/m);
    assertMatch(plain(well.text), /^Attachments +2 on 2 networks$/m);
    const forget = attachmentOfNone(scene);
    assertMatch(
      plain((await scene.doctor()).text),
      /^Attachments +2 on 2 networks; 1 of deleted containers$/m,
    );
    forget();
    const undo = network({ type: "bridge", isGatway: true })(scene);
    assertEquals(await validate(well.json, jsonSchema), []);
    const codes: (number | undefined)[] = [];
    for (const strict of [false, true]) {
      codes.push((await scene.doctor({ strict })).exitCode);
    }
    assertEquals(codes, [0, 1]);
    const { text, json } = await scene.doctor();
    assertEquals(await validate(json, jsonSchema), []);
    const wrong = { ...json as object, errors: "1", findings: [{}] };
    assertEquals((await validate(wrong, jsonSchema)).length > 1, true);
    assertMatch(
      plain(text),
      /\n\nwarning CNI0105 conf-doubtful: .*\n {4}so: {3}.*\n {4}fix: {2}.*\n {4}look: cni validate .*\n {4}see: .*\n\n1 warning$/,
    );
    undo();
  },
);

rootTest(
  "cni doctor reports an unreadable file in place of the cache",
  NEEDS,
  async () => {
    using scene = await DoctorScene.create();
    const results = `${scene.cacheDir}/results`;
    scene.sh(`mv ${results} ${results}.kept; touch ${results}`);
    const { json, exitCode } = await scene.doctor();
    const { findings } = json as { findings: { check: string; fix: string }[] };
    const [found] = findings.filter(({ check }) =>
      check === "state-unwritable"
    );
    assertEquals(exitCode, 1);
    scene.sh(`${found?.fix}; rm -r ${results}; mv ${results}.kept ${results}`);
    assertEquals(await scene.find({ without: ["leftover"] }), []);
  },
);

rootTest(
  "cni doctor reports a name server without answers once, with all its pods",
  NEEDS,
  async () => {
    using scene = await DoctorScene.create();
    for (const [at, pod] of ["two", "three"].entries()) {
      const id = `c${at}`.repeat(8);
      await scene.attach("10-pods", scene.hosts.addNetns(), id, pod);
    }
    const resolvConf = `${scene.hosts.directory}/resolv.conf`;
    await Deno.writeTextFile(resolvConf, "nameserver 192.0.2.2\n");
    const { json } = await scene.doctor({}, { resolvConf });
    const { findings } = json as {
      findings: { code: string; message: string; consequence: string }[];
    };
    assertEquals(findings.map(({ code, message }) => `${code} ${message}`), [
      "CNI0607 the name server 192.0.2.2 does not answer",
    ]);
    const [{ consequence = "" } = {}] = findings;
    const [pods = "", server] = consequence.split(" do not reach ");
    assertEquals(pods.split(", ").toSorted(), [
      "default/three eth0",
      "default/two eth0",
      "default/web eth0",
    ]);
    assertEquals(server, "their name server 192.0.2.2");
  },
);

rootTest("cni doctor prints commands to paste", NEEDS, async () => {
  using scene = await DoctorScene.create();
  scene.sh("echo 0 > /proc/sys/net/ipv4/ip_forward");
  const { text } = await scene.doctor();
  const places = `--cni-path=${scene.hosts.path} ` +
    `--conf-dir=${scene.confDir} --cache-dir=${scene.cacheDir}`;
  const [, fix, or] =
    /^ {4}fix: {2}(sysctl .*)\n {4}or: {3}(.*)$/m.exec(plain(text)) ?? [];
  assertEquals(fix, "sysctl -w net.ipv4.ip_forward=1");
  assertEquals(or, `cni doctor --fix ${places}`);
});

rootTest("cni doctor --wait runs until nothing is wrong", NEEDS, async () => {
  using scene = await DoctorScene.create();
  const forwarding = "/proc/sys/net/ipv4/ip_forward";
  scene.sh(`echo 0 > ${forwarding}`);
  const given = await scene.doctor({ wait: "1ms" });
  assertEquals(given.exitCode, 1);
  const seen: string[] = [];
  const { exitCode, text } = await scene.doctor({ wait: "10m" }, {
    onProgress: (text) => {
      if (seen.at(-1) !== text) seen.push(text);
      if (/^Waiting/.test(text)) scene.sh(`echo 1 > ${forwarding}`);
    },
  });
  assertEquals(exitCode, 0, plain(text));
  assertEquals(seen, [
    "Checking the node",
    "Waiting until nothing is wrong",
    "Checking the node",
  ]);
  scene.sh(`echo 0 > ${forwarding}`);
  const unlimited = await scene.doctor({ wait: "0" }, {
    onProgress: (text) => {
      if (/^Waiting/.test(text)) scene.sh(`echo 1 > ${forwarding}`);
    },
  });
  assertEquals(unlimited.exitCode, 0, plain(unlimited.text));
  for (const flags of [{ fix: true }, { pod: "default/web" }, { try: true }]) {
    const call = scene.doctor({ wait: "1m", ...flags });
    await assertRejects(() => call, Error, "use only one of");
  }
  for (const flags of [{ pod: "default/web" }, { try: true }]) {
    const call = scene.doctor({ strict: true, ...flags });
    await assertRejects(() => call, Error, "have no warnings for --strict");
  }
});

Deno.test("findings of one shape are shown once, with a count", () => {
  const found = (message: string, more: object = {}): DiagnosedFinding => ({
    check: "mtu",
    code: "CNI0703",
    ...error(message, "", more),
  });
  const of = (list: readonly DiagnosedFinding[]): unknown =>
    collapse(list).map(({ message, count, also }) => [
      message,
      count,
      also.map((one) => one.message),
    ]);
  const same = found("the disk is full");
  assertEquals(of([same, same]), [["the disk is full", 2, []]]);
  const pods = [1, 2, 3, 4].map((at) =>
    found(`default/p${at} eth0 on "lan": lacks 10.2.0.${at}`, {
      subject: `default/p${at} eth0`,
    })
  );
  assertEquals(
    of(pods.slice(0, 3)),
    pods.slice(0, 3).map(({ message }) => [
      message,
      1,
      [],
    ]),
  );
  assertEquals(of([...pods, same]), [
    [pods[0]?.message, 4, pods.slice(1).map(({ message }) => message)],
    ["the disk is full", 1, []],
  ]);
});

rootTest("cni doctor reports checks that it cannot run", NEEDS, async () => {
  using scene = await DoctorScene.create();
  using node = scene.node();
  const page = { effect: "", cause: "", howToInspect: "", howToFix: "" };
  const refused = {
    code: "CNI9998",
    name: "refused",
    finds: "",
    ...page,
    run: (): never => {
      throw new SyscallError("setns", 1);
    },
  };
  const { findings, unchecked } = await diagnose(node, () => {}, [refused]);
  assertEquals(findings, []);
  assertEquals(unchecked.map(({ check, isDenied }) => [check, isDenied]), [
    ["refused", true],
  ]);
  const end = new AbortController();
  using dying = scene.node({ signal: end.signal });
  const cut = {
    code: "CNI9999",
    name: "cut",
    finds: "",
    ...page,
    run: (): Finding[] => {
      end.abort();
      return [error("a plugin was killed", "")];
    },
  };
  const rest = await diagnose(dying, () => {}, [cut]);
  assertEquals(rest.findings, []);
  assertEquals(rest.unchecked.map(({ check }) => check), ["cut"]);
  const late = await scene.doctor({}, { signal: AbortSignal.abort() });
  assertEquals(late.exitCode, 3);
  assertMatch(
    plain(late.text),
    /\n\nNot checked: no-network, .*, leftover; the time limit expired.*\n\nThe checks that ran found no problem$/,
  );
});

rootTest(
  "cni doctor has REPAIR restore what CHECK finds, with an uplink or without",
  NEEDS,
  async () => {
    for (const hasUplink of [true, false]) {
      using scene = DoctorScene.bare();
      const { sandbox } = scene.hosts;
      const ipam = scene.hosts.hostLocal("10.55.0.0/24");
      const path = scene.writeNetwork("10-pods", [{
        type: "ptp",
        ipMasq: true,
        ipMasqBackend: "nftables",
        ipam: { ...ipam, routes: [{ dst: "0.0.0.0/0" }] },
      }]);
      using node = scene.node();
      await node.runtime.addNetworkList(
        parseNetworkConfList(await Deno.readFile(path)),
        { containerId: GONE_ID, netns: sandbox.path, ifName: "eth0" },
      );
      if (!hasUplink) scene.ip("link del out0");
      const find = async (): Promise<string[][]> =>
        (await scene.find({ without: ["leftover"] }))
          .filter(({ check }) => check === "attachment-changed")
          .map(({ message, command = "" }) => [
            message.replace(/^.*: ptp: /, ""),
            command,
          ]);
      const before = await scene.find({ without: ["leftover"] });
      assertEquals(
        before.map(({ check, severity }) => [check, severity]),
        hasUplink ? [] : [["uplink", "warning"]],
      );
      const places = `--cni-path=${scene.hosts.path} ` +
        `--conf-dir=${scene.confDir} --cache-dir=${scene.cacheDir}`;
      const onHost = `cni repair ${GONE_ID} ${places}`;
      const inside = `cni repair ${GONE_ID} --sandbox ${places}`;
      scene.sh("nft delete table inet cni_plugins_masquerade");
      const masquerade = ["The masquerade is missing: 10.55.0.2", onHost];
      assertEquals(await find(), [masquerade]);
      const [{ ifname: end }] = JSON.parse(scene.ip("-j link show type veth"))
        .filter(({ ifname }: { ifname: string }) => ifname !== "out0");
      scene.ip(`link set ${end} down`);
      scene.sh("ip route del default; ip address flush dev eth0", sandbox);
      assertEquals(await find(), [
        ['Interface "eth0" lacks address 10.55.0.2/24', inside],
        ['Interface "eth0" lacks route 10.55.0.1/32', inside],
        ['Interface "eth0" lacks route 10.55.0.0/24 via 10.55.0.1', inside],
        ['Interface "eth0" lacks route 0.0.0.0/0 via 10.55.0.1', inside],
        [`Interface "${end}" is down`, onHost],
        masquerade,
      ]);
      scene.follow(inside);
      assertEquals(await find(), []);
      // REPAIR makes no interface.
      scene.sh("ip link del eth0", sandbox);
      const gone = (await scene.find({ without: ["leftover"] }))
        .filter(({ check }) => check === "attachment-changed");
      const restart = "only a new ADD sets it up again: restart the container";
      assertEquals(
        gone.map(({ message, command, advice }) => [
          message.replace(/^.*: ptp: /, ""),
          command,
          advice,
        ]),
        ["eth0", end].map((name) => [
          `Interface "${name}" no longer exists`,
          undefined,
          restart,
        ]),
      );
    }
  },
);

/** How many commands one fault may take, one after another. */
const MOST_STEPS = 6;

/** Faults without a lost packet: no probes are sent. */
const SILENT: readonly Fault[] = [
  ...CONFIGURATIONS_FAULTS,
  ...PLUGINS_FAULTS,
  ...SERVICES_FAULTS,
  ...STORAGE_FAULTS,
  ...NETWORK_ADDRESS_FAULTS,
];
const PROBING = PACKET_CHECKS.map(({ name }) => name);
/** Faults whose commands tests/doctor_faults runs, and shows that they help. */
const FOLLOWED = new Set(EARLIER.map(({ name }) => name));

rootTest(
  "cni doctor finds each injected fault, and nothing without a fault",
  NEEDS,
  async (t) => {
    using scene = await DoctorScene.create();
    assertEquals(await scene.find(), []);
    // A lost packet would be traced each time.
    scene.sh("ip route add 10.2.0.0/24 via 192.0.2.1", scene.outside);
    for (const fault of FAULTS) {
      const { name, checks, message, seed, command, options, ignore } = fault;
      await t.step({
        name,
        ignore: ignore ?? false,
        fn: async () => {
          const undo = await seed(scene);
          try {
            // Looking at all processes of the machine takes as long as the rest.
            const without = [
              ...checks.includes("leftover") ? [] : ["leftover"],
              ...SILENT.includes(fault) ? PROBING : [],
            ];
            const found = await scene.find({ without, ...options?.(scene) });
            const names = [...new Set(found.map(({ check }) => check))];
            const texts = found.map((one) => one.message);
            assertEquals(names, checks, texts.join("\n"));
            assertMatch(texts.join("\n"), message);
            // Every finding says what to do, or that nothing helps, and none
            // sends the reader to another command that finds the same.
            assertEquals(
              found.filter(({ command = "" }) =>
                /^cni (doctor|check|validate|status)\b/.test(command)
              ),
              [],
            );
            assertEquals(
              found.filter((one) => !one.command && !one.advice),
              [],
            );
            const help = found.map((one) => one.command ?? one.look);
            assertMatch(help.join("\n"), command ?? /./);
            if (fault.follow !== true || FOLLOWED.has(name)) return;
            // One after another, as a person would.
            let left = found;
            for (let at = 0; at < MOST_STEPS && left.length > 0; at++) {
              const next = left.find((one) => one.command !== undefined);
              scene.follow(next?.command ?? "true");
              left = await scene.find({ without, ...options?.(scene) });
            }
            assertEquals(left.map((one) => one.message), []);
          } finally {
            await undo();
          }
        },
      });
    }
    await t.step("credentials that the API server refuses", async () => {
      await using api = await KubeApi.start();
      const kubeconfig = api.writeKubeconfig(scene.hosts.directory, "token");
      const undo = network({
        type: "multus",
        clusterNetwork: "pods",
        kubeconfig,
      })(scene);
      const without = ["leftover"];
      assertEquals(await scene.find({ without }), []);
      api.revokeToken(api.token);
      const [{ command, message } = {}] = await scene.find({ without });
      assertMatch(message ?? "", /refuses the credentials/);
      const daemonSet = await Deno.readTextFile(DAEMON_SET);
      const [, name] = /^ {2}name: (.+)$/m.exec(daemonSet) ?? [];
      assertEquals(
        command,
        `kubectl -n kube-system rollout restart daemonset/${name}`,
      );
      undo();
    });
    await t.step("addresses that remain on a bridge", async () => {
      const undo = network({
        type: "bridge",
        bridge: "lan0",
        isGateway: true,
        ipam: scene.hosts.hostLocal("10.9.0.0/24"),
      })(scene);
      const without = ["leftover"];
      const [{ command, message } = {}] = await scene.find({ without });
      assertMatch(message ?? "", /has 10.2.0.1\/24, and "more" needs 10.9.0.1/);
      // Without 10.2.0.1, the container of "lan" would be cut off.
      assertEquals(command, undefined);
      undo();
      scene.ip("address add 10.7.0.1/24 dev lan0");
      assertEquals(await scene.find({ without }), []);
      scene.ip("address del 10.7.0.1/24 dev lan0");
    });
    assertEquals(await scene.find(), []);
  },
);
