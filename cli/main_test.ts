// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * The `cni` tool on a node of its own: the compiled executable where `CNI_BIN`
 * says where it is, else from its sources.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import {
  hasCommand,
  ignoreUnless,
  needsRoot,
  rootTest,
} from "../testing/capabilities.ts";
import { conformance } from "../tests/_harness/conformance.ts";
import { eventually } from "../tests/_harness/eventually.ts";
import { BIN, needsBin } from "../tests/_harness/executables.ts";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";
import { eachRow } from "../tests/_harness/table.ts";
import { type ToolEnded, ToolHost } from "../tests/_harness/tool_host.ts";

/** Registers a test on a node of its own. */
function onNode(
  name: string,
  test: (host: ToolHost, t: Deno.TestContext) => Promise<void>,
): void {
  rootTest(name, async (t) => {
    await using host = await ToolHost.create();
    await test(host, t);
  });
}

/** Builds a row of a conformance list that runs on a node of its own. */
function row(test: (host: ToolHost) => Promise<void>): () => Promise<void> {
  return async () => {
    await using host = await ToolHost.create();
    await test(host);
  };
}

/** A plugin that shows what it was given, and answers with an address. */
const SHOW = `env | grep ^CNI_ | sort >&2; cat >&2
echo '{"cniVersion":"1.1.0","ips":[{"address":"10.9.8.7/24"}]}'`;
const FAIL = `echo '{"code":7,"msg":"bad thing","details":"very"}'; exit 1`;
/** Notes its calls, and never answers to ADD. */
const HANG = `echo "$CNI_COMMAND" >> /run/calls
[ "$CNI_COMMAND" != ADD ] || sleep 100
echo undone >&2`;

/** Adds networks of one plugin each. */
function addScripts(
  host: ToolHost,
  scripts: Readonly<Record<string, string>>,
): void {
  for (const [type, script] of Object.entries(scripts)) {
    host.addPlugin(type, script);
    host.addNetwork(type, [{ type, capabilities: { mac: true } }]);
  }
}

const NETNS = "/var/run/netns/testing";
/** A failure as cnitool shows it. */
function failed(stderr: string): ToolEnded {
  return { code: 1, stdout: "", stderr };
}

rootTest(
  "validate and plugins recognize the executable under other names",
  needsBin,
  async (t) => {
    await using host = await ToolHost.create();
    using directory = new PluginDirectory();
    const { path } = directory;
    for (const name of ["acme-ptp", "acme", "host-local"]) {
      Deno.symlinkSync(`${BIN}/cni`, `${path}/${name}`);
    }
    Deno.copyFileSync(`${BIN}/cni`, `${path}/ptp.real`);
    const validate = (type: string): Promise<ToolEnded> => {
      const ipam = host.hostLocal("10.1.2.0/24");
      host.addNetwork("renamed", [{ type, ipMask: true, mtu: "x", ipam }]);
      return host.cni("validate renamed", `--cni-path=${path}`);
    };
    for (const type of ["acme-ptp", "ptp.real"]) {
      await t.step(type, async () => {
        const { code, stdout } = await validate(type);
        assertEquals(code, 1);
        assertMatch(
          stdout,
          /ipMask: \S+ has no such key; did you mean "ipMasq"/,
        );
        assertMatch(stdout, /mtu: expected a number, got a string/);
        assert(!stdout.includes("keys not checked"), stdout);
      });
    }
    await t.step("a name that is not a plugin type", async () => {
      const { code, stdout } = await validate("acme");
      assertEquals(code, 1);
      assertMatch(stdout, /\.type: no plugin is named "acme"/);
    });
    await t.step("cni plugins", async () => {
      const { stdout } = await host.cni("plugins", `--cni-path=${path}`);
      assertMatch(stdout, /^acme-ptp +0\.1\.0-1\.1\.0 +ours \(ptp\) /m);
      assertMatch(stdout, /^ptp\.real +0\.1\.0-1\.1\.0 +copy \(ptp\) /m);
      assertMatch(stdout, /^acme +0\.4\.0-1\.1\.0 +ours +\//m);
    });
  },
);

conformance("cnitool", {
  "add prints the result, indented by 4, no newline": row(async (host) => {
    addScripts(host, { show: SHOW });
    const { code, stdout } = await host.cnitool("add", "show", NETNS);
    assertEquals([code, stdout], [
      0,
      `{
    "cniVersion": "1.1.0",
    "ips": [
        {
            "address": "10.9.8.7/24"
        }
    ]
}`,
    ]);
  }),
  "add tells plugins what the environment says": row(async (host) => {
    addScripts(host, { show: SHOW });
    host.env["CNI_ARGS"] = "A=1;B=2";
    host.env["CAP_ARGS"] = '{"mac":"00:11:22:33:44:55","other":1}';
    const { stderr } = await host.cnitool("add", "show", NETNS, "extra");
    assertStringIncludes(
      stderr,
      [
        "CNI_ARGS=A=1;B=2",
        "CNI_COMMAND=ADD",
        "CNI_CONTAINERID=cnitool-77383ca0a0715733ca6f",
        "CNI_IFNAME=eth0",
        "CNI_LOG_FILE=stderr",
        `CNI_NETNS=${NETNS}`,
        `CNI_PATH=${host.path}`,
      ].join("\n"),
    );
    assertStringIncludes(
      stderr,
      '"runtimeConfig":{"mac":"00:11:22:33:44:55"}',
    );
  }),
  "a relative path of a namespace is made absolute": row(async (host) => {
    addScripts(host, { show: SHOW });
    const { stderr } = await host.cnitool("add", "show", "var/../x/./y/");
    assertStringIncludes(stderr, "CNI_NETNS=/x/y\n");
  }),
  "-i wins over CNI_IFNAME, before and after the verb": row(async (host) => {
    addScripts(host, { show: SHOW });
    host.env["CNI_IFNAME"] = "net1";
    const lines: [args: string[], ifName: string][] = [
      [["del", "show", NETNS], "net1"],
      [["del", "show", NETNS, "-i", "net2"], "net2"],
      [["--ifname", "net3", "del", "show", NETNS], "net3"],
    ];
    for (const [args, ifName] of lines) {
      const { stderr } = await host.cnitool(...args);
      assertStringIncludes(stderr, `CNI_IFNAME=${ifName}\n`);
    }
  }),
  "every verb needs a network and a namespace": row(async (host) => {
    const verbs = ["add", "check", "del", "gc", "status"];
    const lines = verbs.flatMap((verb) => [[verb], [verb, "net"]]);
    for (const args of lines) {
      const { code, stdout, stderr } = await host.cnitool(...args);
      assertEquals([code, stdout], [1, ""]);
      assertStringIncludes(stderr, `usage: cnitool ${args[0]} NETWORK NETNS`);
    }
  }),
  "without a verb, and with help, it prints its help": row(async (host) => {
    const { stdout, ...ended } = await host.cnitool();
    assertEquals(ended, { code: 0, stderr: "" });
    assertMatch(stdout, /^Usage: cnitool COMMAND/m);
    for (const args of [["help"], ["--help"], ["-h"]]) {
      assertEquals(await host.cnitool(...args), { ...ended, stdout });
    }
    const add = await host.cnitool("help", "add");
    assertEquals(add, await host.cnitool("add", "--help"));
    assertMatch(add.stdout, /^Usage: cnitool add NETWORK NETNS/m);
  }),
  "an unknown verb fails": row(async (host) => {
    const { code, stdout } = await host.cnitool("frob", "net", NETNS);
    assertEquals([code, stdout], [1, ""]);
  }),
  "check, del, gc and status print nothing": row(async (host) => {
    addScripts(host, { quiet: "exit 0" });
    for (const verb of ["check", "del", "gc", "status"]) {
      const ended = await host.cnitool(verb, "quiet", NETNS);
      assertEquals(ended, { code: 0, stdout: "", stderr: "" });
    }
  }),
  "errors are the library's texts on stderr": row(async (host) => {
    addScripts(host, { fail: FAIL });
    host.addNetwork("gone", [{ type: "gone" }]);
    const missing = `failed to find plugin "gone" in path [${
      host.path.replace(":", " ")
    }]\n`;
    const lines: [verb: string, network: string, stderr: string][] = [
      ["add", "fail", 'plugin type="fail" failed (add): bad thing; very\n'],
      ["check", "fail", "bad thing; very\n"],
      ["del", "fail", 'plugin type="fail" failed (delete): bad thing; very\n'],
      ["gc", "fail", "failed to GC plugin fail: bad thing; very\n"],
      ["status", "fail", "bad thing; very\n"],
      ["add", "gone", `plugin type="gone" failed (add): ${missing}`],
      ["status", "gone", missing],
      [
        "add",
        "none",
        `no net configuration with name "none" in ${host.confDir}\n`,
      ],
    ];
    for (const [verb, network, stderr] of lines) {
      assertEquals(await host.cnitool(verb, network, NETNS), failed(stderr));
    }
  }),
  "a pair of CNI_ARGS without key or value is refused": row(async (host) => {
    addScripts(host, { show: SHOW });
    for (const pair of ["A", "A=", "=1", "A=b=c", ""]) {
      host.env["CNI_ARGS"] = `X=1;${pair}`;
      assertEquals(
        await host.cnitool("add", "show", NETNS),
        failed(`invalid CNI_ARGS pair "${pair}"\n`),
      );
    }
  }),
  "without configurations it says where it looked": row(async (host) => {
    host.env["NETCONFPATH"] = "/nowhere";
    assertEquals(
      await host.cnitool("status", "net", NETNS),
      failed("no net configurations found in /nowhere\n"),
    );
    host.env["NETCONFPATH"] = "";
    const { stderr } = await host.cnitool("status", "any net", NETNS);
    assertStringIncludes(stderr, " in /etc/cni/net.d\n");
  }),
  "CNI_PATH has no default": row(async (host) => {
    addScripts(host, { show: SHOW });
    host.env["CNI_PATH"] = "";
    assertEquals(
      await host.cnitool("status", "show", NETNS),
      failed("no paths provided\n"),
    );
  }),
  "a list is found before a bare plugin of the same name": row(async (host) => {
    addScripts(host, { show: SHOW, fail: FAIL });
    const bare = '{"cniVersion":"1.1.0","name":"show","type":"fail"}';
    Deno.writeTextFileSync(`${host.confDir}/00.conf`, bare);
    assertEquals((await host.cnitool("status", "show", NETNS)).code, 0);
  }),
  "gc deletes all attachments and names no valid ones": row(async (host) => {
    addScripts(host, { show: SHOW });
    await host.cnitool("add", "show", NETNS);
    await host.cnitool("add", "show", "/other");
    const { code, stderr } = await host.cnitool("gc", "show", NETNS);
    assertEquals([code, stderr.split("CNI_COMMAND=DEL").length], [0, 3]);
    assert(!stderr.includes("valid-attachments"), stderr);
    const left = await host.run(["ls", "/var/lib/cni/results"]);
    assertEquals(left.stdout, "");
  }),
}, needsRoot);

/** A network of our own plugins. */
function addPods(host: ToolHost): string {
  const ipam = host.hostLocal("10.22.0.0/24", "fd00:22::/64");
  return host.addNetwork("pods", [{ type: "ptp", ipam }]);
}

/** Runs the tool, which must succeed, and returns what it printed. */
async function succeed(
  host: ToolHost,
  line: string,
  ...args: string[]
): Promise<string> {
  const { code, stdout, stderr } = await host.cni(line, ...args);
  assertEquals([code, stderr], [0, ""], line);
  return stdout;
}

/** Runs the tool with --json, and returns the document. */
// deno-lint-ignore no-explicit-any -- each test knows its document
async function readJson(host: ToolHost, line: string): Promise<any> {
  return JSON.parse(await succeed(host, `${line} --json`));
}

onNode("cni attaches, shows, checks and detaches a container", async (host) => {
  addPods(host);
  await succeed(host, "netns add blue");
  const result = JSON.parse(await succeed(host, "add pods blue"));
  assertEquals(result.ips[0].address, "10.22.0.2/24");
  assertEquals(result.interfaces[1].sandbox, "/var/run/netns/blue");
  const inside = await succeed(host, "netns exec blue -- ip -br addr");
  assertStringIncludes(inside, "10.22.0.2/24");
  for (const verb of ["check", "status"]) {
    assertEquals(await succeed(host, verb, "pods", "blue"), "");
  }
  const [listed] = await readJson(host, "list");
  const { since, containerID, ...attachment } = listed;
  assertMatch(since, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  assertMatch(containerID, /^cnitool-[0-9a-f]{20}$/);
  assertEquals(attachment, {
    network: "pods",
    pod: null,
    via: null,
    definition: null,
    ifname: "eth0",
    addresses: ["10.22.0.2/24", "fd00:22::2/64"],
    netns: "/var/run/netns/blue",
    netnsExists: true,
    missingNetworks: null,
    hostAccess: null,
    fromNetwork: null,
    lastRepair: null,
    repairError: null,
  });
  assertMatch(await succeed(host, "netns list"), /^blue .* pods\/eth0$/m);
  await succeed(host, "del pods blue");
  assertEquals(await host.run(["ls", "/run/leases/pods"]), {
    code: 0,
    stdout: "last_reserved_ip.0\nlast_reserved_ip.1\nlock\n",
    stderr: "",
  });
  const links = await host.run(["ip", "-br", "link"]);
  assertEquals(links.stdout.trim().split("\n").length, 1);
});

onNode("cni trace does not need a namespace", async (host) => {
  addPods(host);
  // Without --wide, accesses to files are shown only if they take long.
  const { code, stdout, stderr } = await host.cni("trace pods --wide");
  assertEquals(code, 0, stdout + stderr);
  assertMatch(stdout, / ptp ADD .*\n[^]* ptp DEL /);
  assertMatch(stdout, / readDir .* ✗ No such file or directory$/m);
  assertEquals(await readJson(host, "list"), []);
  const links = await host.run(["ip", "-br", "link"]);
  assertEquals(links.stdout.trim().split("\n").length, 1);
});

onNode("cni trace prints one error for an unknown name", async (host) => {
  addPods(host);
  const rows = { "pod": /"pod"/, "pods blue": /"blue"/ };
  for (const [args, message] of Object.entries(rows)) {
    const { code, stdout, stderr } = await host.cni(`trace ${args}`);
    assertEquals([code, stdout, stderr.split("\n").length], [1, "", 2]);
    assertMatch(stderr, message);
  }
});

onNode("cni add prints lines, even into a pipe", async (host) => {
  addPods(host);
  await succeed(host, "netns add blue");
  const { stdout } = await host.cni("add pods blue");
  assertMatch(stdout, /^\{\n[^]*\n\}\n$/);
});

onNode("cni finds an attachment by any path of its netns", async (host) => {
  const config = addPods(host);
  await succeed(host, "netns add blue");
  await succeed(host, "add pods /run/netns/blue -i net1");
  await succeed(host, "check", config, "blue", "--ifname=net1");
  await succeed(host, "del pods /run/../run/netns/blue -i net1");
  assertEquals(await readJson(host, "del pods blue"), {
    network: "pods",
    containerID: "cnitool-296747069b8a02dc4e2a",
    ifname: "eth0",
    netns: "/var/run/netns/blue",
    wasAttached: false,
  });
});

onNode("cni del reports that no attachment is known", async (host, t) => {
  addPods(host);
  await succeed(host, "netns add blue");
  await succeed(host, "add pods blue");
  const rows: [args: string[], note: string][] = [
    [["-i", "typo"], 'to "pods" as "typo" is known; see cni list'],
    [["--container-id", "typo"], 'with container ID "typo" is known; see cni'],
  ];
  await eachRow(t, rows, async ([args, note]) => {
    const del = ["del", "pods", "blue", ...args];
    const lax = await host.cni(...del);
    assertEquals([lax.code, lax.stdout], [0, ""]);
    assertStringIncludes(lax.stderr, note);
    const strict = await host.cni(...del, "--strict");
    assertEquals([strict.code, strict.stderr], [1, lax.stderr]);
    const { stdout } = await host.cni(...del, "--strict", "--json");
    assertEquals(JSON.parse(stdout).code, 3);
    await succeed(host, "check pods blue");
  }, ([args]) => args.join(" "));
  await t.step("and nothing else if something was", async () => {
    await succeed(host, "del pods blue --strict");
  });
});

onNode("cni add refuses attached and missing namespaces", async (host) => {
  addPods(host);
  host.addNetwork("more", [{
    type: "ptp",
    ipam: host.hostLocal("10.1.0.0/24"),
  }]);
  await succeed(host, "netns add blue");
  await succeed(host, "add pods blue");
  const refusals: [args: string[], text: string][] = [
    [["pods", "blue"], 'already attached to "pods" with'],
    [["pods", "/run/netns/blue"], 'already attached to "pods" with'],
    [["more", "blue"], 'already attached to "pods" with'],
    [["pods", "green"], '"/var/run/netns/green" does not exist'],
    [["pods", "/etc/passwd"], '"/etc/passwd" is not a network namespace'],
    [["pods", ".."], "a name must have 1 to 255 bytes and no slash"],
    [["none", "blue"], 'no net configuration with name "none"'],
    [["./none", "blue"], "error reading ./none; No such file or directory\n"],
    [["pods", "blue", "-i", "a/b"], "interface name contains / or :"],
    [
      ["pods", "blue", "--container-id", "?"],
      "invalid characters in container",
    ],
  ];
  for (const [args, text] of refusals) {
    const { code, stdout, stderr } = await host.cni("add", ...args);
    assertEquals([code, stdout], [1, ""]);
    assertStringIncludes(stderr, text);
    assertEquals(stderr.trimEnd().split("\n").length, 1, stderr);
  }
  await succeed(host, "check pods blue");
});

onNode("cni check and del use the configuration of add", async (host) => {
  addPods(host);
  await succeed(host, "netns add blue");
  const unknown = await host.cni("check pods blue --json");
  assertEquals([unknown.code, JSON.parse(unknown.stdout)], [1, {
    code: 3,
    msg: 'Cannot check "/var/run/netns/blue": no attachment to "pods" as ' +
      '"eth0" is known; see cni list',
  }]);
  await succeed(host, "add pods blue");
  // Another network's file, which comes first, cannot be parsed.
  const broken = `${host.confDir}/00-broken.conflist`;
  await Deno.writeTextFile(broken, "{");
  await succeed(host, "check pods blue");
  await succeed(host, "del pods blue");
  const failed = await host.cni("del pods blue");
  assertStringIncludes(failed.stderr, broken);
  await Deno.remove(broken);
  await succeed(host, "add pods blue");
  // Its configuration is gone.
  await Deno.remove(`${host.confDir}/pods.conflist`);
  await succeed(host, "check pods blue");
  await host.run(["ip", "-n", "blue", "link", "set", "eth0", "down"]);
  const down = await host.cni("check pods blue");
  assertEquals([down.code, down.stderr.split(":")[0]], [1, "ptp"]);
  const other = await host.cni("check pods blue -i net1");
  assertStringIncludes(other.stderr, "no net configurations found in");
  // The namespace is also deleted.
  await host.run(["ip", "netns", "del", "blue"]);
  assertMatch((await host.cni("list")).stdout, /\/blue +no /);
  await succeed(host, "del pods blue");
  assertEquals((await host.run(["ls", "/var/lib/cni/results"])).stdout, "");
  const again = await host.cni("del pods blue");
  assertStringIncludes(again.stderr, "no net configurations found in");
});

onNode("cni check and del pass the arguments of cni add", async (host) => {
  addScripts(host, { show: SHOW });
  await succeed(host, "netns add blue");
  const env = { CNI_ARGS: "A=1", CAP_ARGS: '{"mac":"00:11:22:33:44:55"}' };
  Object.assign(host.env, env);
  assertEquals((await host.cni("add show blue")).code, 0);
  for (const name of Object.keys(env)) delete host.env[name];
  for (const verb of ["check", "del"]) {
    const { code, stderr } = await host.cni(verb, "show", "blue");
    assertEquals(code, 0, stderr);
    assertStringIncludes(stderr, "CNI_ARGS=A=1\n");
    assertStringIncludes(stderr, '"runtimeConfig":{"mac":"00:11:22:33:44:55"}');
  }
});

onNode("cni finds attachments cached without a namespace", async (host) => {
  addPods(host);
  await succeed(host, "netns add blue");
  await succeed(host, "add pods blue --container-id c1");
  // As libcni before 1.2 writes it: podman 4 and containerd 1 have that.
  const file = "/var/lib/cni/results/pods-c1-eth0";
  const stripped = await host.run([
    "sed",
    "-i",
    's/"netns":"[^"]*",//',
    file,
  ]);
  assertEquals(stripped.code, 0);
  const [listed] = await readJson(host, "list");
  assertEquals(
    [listed.netns, listed.netnsExists],
    ["/var/run/netns/blue", true],
  );
  assertMatch(await succeed(host, "netns list"), /^blue .* pods\/eth0$/m);
  const { stderr } = await host.cni("add pods blue");
  assertStringIncludes(stderr, 'already attached to "pods" with');
  assertEquals(await succeed(host, "gc pods blue"), "");
  await succeed(host, "check pods blue");
  await succeed(host, "del pods /run/netns/blue");
  assertEquals(await succeed(host, "list --json"), "[]\n");
});

onNode("cni check reads cache files of libcni before 0.8", async (host) => {
  addScripts(host, { show: SHOW });
  await succeed(host, "netns add blue");
  await host.run(["mkdir", "-p", "/var/lib/cni/results"]);
  const file = "/var/lib/cni/results/show-c1-eth0";
  const check = async (content: string): Promise<ToolEnded> => {
    await host.run(["sh", "-c", 'printf %s "$1" > "$0"', file, content]);
    return await host.cni("check show blue --container-id c1");
  };
  const ips = [{ version: "4", address: "10.9.8.7/24" }];
  const { code, stderr } = await check(
    JSON.stringify({ cniVersion: "0.4.0", ips, dns: {} }),
  );
  assertEquals(code, 0, stderr);
  assertStringIncludes(stderr, "CNI_COMMAND=CHECK\n");
  assertMatch(stderr, /"prevResult":{"cniVersion":"1.1.0","ips":\[{"address":/);
  assertStringIncludes(stderr, "the cache contains only its result\n");
  const junk = await check('{"kind":"cniCacheV9"}');
  assertEquals(junk.code, 1);
  assertStringIncludes(junk.stderr, 'its kind is "cniCacheV9"');
});

onNode("cni gc keeps the named attachments only", async (host) => {
  addPods(host);
  for (const name of ["blue", "green"]) {
    await succeed(host, "netns add", name);
    await succeed(host, "add pods", name);
    await succeed(host, "add pods", name, "-i", "net1");
  }
  const list = async (): Promise<string[]> =>
    (await readJson(host, "list"))
      .map((row: { netns: string; ifname: string }) =>
        `${row.netns.replace(/.*\//, "")}:${row.ifname}`
      ).sort();
  const refusals: [args: string[], text: string][] = [
    [[], "use --all to remove every attachment to the network"],
    [
      ["--all", "blue"],
      "--all removes everything; do not name namespaces with it",
    ],
    [["blue", "--exit-code"], "Cannot use --exit-code without --orphans"],
    [["blu"], 'Cannot keep the attachments of "blu"'],
    [["blu:eth0"], 'Cannot keep the attachments of "blu:eth0"'],
    [["blue:"], "interface name is empty"],
    [
      ["blue", "green:net7"],
      'Cannot keep "green:net7": "/var/run/netns/green" has no attachment ' +
      '"net7" to "pods"; it has eth0, net1',
    ],
    [["red:eth0"], 'has no attachment "eth0" to "pods"; it has none'],
    [[""], 'Cannot name a network namespace ""'],
  ];
  await succeed(host, "netns add red");
  for (const [args, text] of refusals) {
    const { code, stderr } = await host.cni("gc pods", ...args);
    assertEquals(code, 1);
    assertStringIncludes(stderr, text);
  }
  const dry = await host.cni("gc pods blue red --dry-run");
  assertEquals(dry.code, 0, dry.stderr);
  assertMatch(
    dry.stdout,
    /^(would delete cnitool-\S+ \S+ in \/var\/run\/netns\/green\n){2}$/,
  );
  const { wouldDelete } = await readJson(host, "gc pods --all --dry-run");
  assertEquals(wouldDelete.length, 4);
  assertEquals((await list()).length, 4);
  const gone = await succeed(host, "gc pods /run/netns/blue green:net1");
  assertMatch(gone, /^deleted cnitool-\S+ eth0 in \/var\/run\/netns\/green\n$/);
  assertEquals(await list(), ["blue:eth0", "blue:net1", "green:net1"]);
  await succeed(host, "check pods green -i net1");
  const all = await succeed(host, "gc pods --all --json");
  assertEquals(JSON.parse(all).deleted.length, 3);
  assertEquals(await list(), []);
});

onNode("cni gc keeps what an unreadable file might name", async (host) => {
  host.addNetwork("pods", [
    { type: "ptp", ipam: host.hostLocal("10.1.2.0/24") },
  ]);
  for (const name of ["blue", "green", "red"]) {
    await succeed(host, "netns add", name);
    await succeed(host, "add pods", name);
  }
  await host.sh(
    "truncate -s 20 $(grep -l /netns/green /var/lib/cni/results/pods-*)",
  );
  const leases = (): Promise<string> =>
    host.sh("cd /run/leases/pods && find . -name '10.*' | sort");
  const kept = await host.cni("gc pods blue green");
  assertMatch(kept.stdout, /^deleted \S+ eth0 in \S+\/red\n$/);
  assertStringIncludes(kept.stderr, "file of the cache that cannot be read");
  assertEquals(await leases(), "./10.1.2.2\n./10.1.2.3\n");
  await host.succeed("gc pods --all");
  assertEquals(await leases(), "");
});

onNode("cni gc reports a version without GC", async (host) => {
  host.addPlugin("note", 'echo "$CNI_COMMAND" >> /run/calls');
  await succeed(host, "netns add blue");
  for (const [cniVersion, calls] of [["1.0.0", ""], ["1.1.0", "GC\n"]]) {
    host.addNetwork("one", [{ type: "note" }], { cniVersion });
    const { code, stdout, stderr } = await host.cni("gc one blue");
    const note = calls === ""
      ? 'Only cached attachments are deleted: version "1.0.0" of "one" has no GC\n'
      : "";
    assertEquals([code, stdout, stderr], [0, "", note]);
    assertEquals((await host.run(["cat", "/run/calls"])).stdout, calls);
  }
});

rootTest(
  "cni gc reads the cache once",
  ignoreUnless(hasCommand("strace"), "needs strace"),
  async () => {
    await using host = await ToolHost.create();
    addScripts(host, { quiet: `echo '{"cniVersion":"1.1.0"}'` });
    for (const name of ["blue", "green"]) {
      await succeed(host, `netns add ${name}`);
      await succeed(host, `add quiet ${name}`);
    }
    const { containerID } = (await readJson(host, "list"))
      .find(({ netns }: { netns: string }) => netns.endsWith("/blue"));
    const gc = host.command("gc", "quiet", "blue");
    const strace = ["strace", "-f", "-qq", "-e", "trace=openat"];
    const { code, stdout, stderr } = await host.run([...strace, ...gc]);
    assertEquals([code, stdout.split("\n").length], [0, 2], stderr);
    const opened = stderr.split("\n")
      .filter((line) => line.includes(`/quiet-${containerID}-eth0`));
    assertEquals(opened.length, 1, opened.join("\n"));
  },
);

/** Waits until plugins have noted these calls. */
async function waitForCalls(host: ToolHost, calls: string): Promise<void> {
  await eventually(
    `these calls were made: ${calls}`,
    async () => (await host.run(["cat", "/run/calls"])).stdout === calls,
  );
}

/** Notes its calls; ADD ends once there is /run/go. */
const SLOW = `echo "$CNI_COMMAND" >> /run/calls
[ "$CNI_COMMAND" = ADD ] || exit 0
until [ -e /run/go ]; do sleep 0.01; done
echo '{"cniVersion":"1.1.0"}'`;

/** Waits until GC keeps everybody else away, or waits itself for those at work. */
async function waitForGate(host: ToolHost): Promise<void> {
  const gate = "/var/lib/cni/locks/.gate";
  await eventually(
    "somebody has the gate",
    async () =>
      (await host.run(["flock", "-n", "-s", gate, "true"])).code !== 0,
  );
}

onNode("cni gc keeps attachments added while it waited", async (host) => {
  addScripts(host, { slow: SLOW });
  await succeed(host, "netns add blue");
  const adding = host.start("add slow blue");
  await waitForCalls(host, "ADD\n");
  const collecting = host.start("gc slow blue");
  await waitForGate(host);
  await host.run(["touch", "/run/go"]);
  assertEquals((await adding.output()).code, 0);
  assertEquals((await collecting.output()).code, 0);
  await waitForCalls(host, "ADD\nGC\n");
  await succeed(host, "check slow blue");
});

onNode(
  "cni gc --orphans lets other calls attach while it waits for a slow plugin",
  async (host) => {
    addScripts(host, { slow: SLOW, other: "echo '{}'" });
    await succeed(host, "netns add blue");
    await succeed(host, "netns add green");
    const gone = crypto.getRandomValues(new Uint8Array(32)).toHex();
    const lease = "/var/lib/cni/networks/pods/10.7.3.9";
    const planted = await host.run([
      ...["sh", "-c"],
      `mkdir -p \${0%/*} && touch \${0%/*}/lock && printf '${gone}\\r\\neth0' > $0`,
      lease,
    ]);
    assertEquals(planted.code, 0, planted.stderr);
    const adding = host.start("add slow blue");
    await waitForCalls(host, "ADD\n");
    const removing = host.start("gc --orphans --yes --grace 1ms");
    await waitForGate(host);
    await succeed(host, "add other green --timeout 60s");
    await host.run(["touch", "/run/go"]);
    assertEquals((await adding.output()).code, 0);
    const { code, stdout, stderr } = await removing.output();
    const [out, errors] = [stdout, stderr].map((bytes) =>
      new TextDecoder().decode(bytes)
    );
    assertEquals([code, out], [
      0,
      `removed lease ${lease} of ${gone.slice(0, 13)}\n`,
    ], errors);
    assertMatch(
      errors ?? "",
      /Waiting until no .*held by process \d+ \(container/,
    );
  },
);

onNode("cni add undoes an ADD whose plugin hangs", async (host, t) => {
  addPods(host);
  host.addPlugin("hang", HANG);
  host.addNetwork("hang", [
    { type: "ptp", ipam: host.hostLocal("10.1.0.0/24") },
    { type: "hang" },
  ]);
  await succeed(host, "netns add blue");
  const leases = async (): Promise<string> =>
    (await host.run(["sh", "-c", "cd /run/leases/hang && ls -d 10.*"])).stdout;
  const args = ["add", "hang", "blue", "--timeout", "3s"];
  await t.step("at the time limit", async () => {
    const { code, stderr } = await host.cni(...args);
    assertEquals(code, 1);
    // The error comes first, and nothing of what DEL printed after it.
    const [error = "", ...more] = stderr.split("\n");
    assertMatch(error, /^plugin type="hang" failed \(add\): /);
    assertStringIncludes(error, "the deadline has passed");
    assertEquals(more, ["Undoing ADD (at most 30s)…", "ADD undone", ""]);
    assertEquals(await leases(), "");
  });
  await t.step("and shows the output of plugins with --verbose", async () => {
    const { stderr } = await host.cni(...args, "--verbose");
    assertMatch(stderr, /\nUndoing ADD.*\nundone\nADD undone\n$/s);
  });
  await t.step("as a document", async () => {
    const { stdout } = await host.cni(...args, "--json");
    assertEquals(JSON.parse(stdout).code, 999);
  });
  await t.step("not with --no-undo", async () => {
    assertEquals((await host.cni(...args, "--no-undo")).code, 1);
    assertEquals(await leases(), "10.1.0.5\n");
    const { code, stderr } = await host.cni("del hang blue");
    assertEquals(code, 0);
    assertStringIncludes(stderr, 'to "hang" as "eth0" is known; see cni list');
    assertEquals(await leases(), "");
  });
  const signals: [Deno.Signal, number][] = [["SIGINT", 130], ["SIGTERM", 143]];
  await eachRow(t, signals, async ([signal, code]) => {
    await host.run(["rm", "/run/calls"]);
    const child = host.start("add hang blue");
    await waitForCalls(host, "ADD\n");
    child.kill(signal);
    const output = await child.output();
    assertEquals(output.code, code);
    const stderr = new TextDecoder().decode(output.stderr);
    assertStringIncludes(stderr, `interrupted by ${signal}\n`);
    const calls = await host.run(["cat", "/run/calls"]);
    assertEquals(calls.stdout, "ADD\nDEL\n");
    assertEquals(await leases(), "");
  }, ([signal]) => `on ${signal}`);
});

onNode("cni add stops undoing at its time limit", async (host, t) => {
  host.addPlugin("stuck", 'echo "$CNI_COMMAND" >&2; sleep 100');
  host.addNetwork("stuck", [{ type: "stuck" }]);
  await succeed(host, "netns add blue");
  const args = ["add", "stuck", "blue", "--timeout=3s", "--undo-timeout=3s"];
  await t.step("and names possible orphans", async () => {
    const { code, stderr } = await host.cni(...args);
    assertEquals(code, 1);
    assertMatch(
      stderr,
      /^ADD\nplugin .* failed \(add\): .*\nUndoing ADD \(at most 3s\)…\nDEL\nCannot undo ADD: plugin .* was killed after .*\nResources might remain: run cni del stuck \/var\/run\/netns\/blue --ifname eth0\n$/,
    );
  });
  await t.step("also as a document", async () => {
    const { code, stdout, stderr } = await host.cni(...args, "--json");
    assertEquals([code, JSON.parse(stdout).code], [1, 999]);
    assertMatch(stderr, /^ADD\nDEL\nCannot undo ADD: /);
  });
});

onNode("cni add undoes only plugins that it started", async (host, t) => {
  addPods(host);
  host.addPlugin(
    "old",
    `case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"0.4.0","supportedVersions":["0.4.0"]}' ;;
ADD) echo '{"code":1,"msg":"incompatible"}'; exit 1 ;;
esac`,
  );
  const ipam = host.hostLocal("10.1.0.0/24");
  host.addNetwork("first", [{ type: "brigde", ipam }, { type: "tuning" }]);
  host.addNetwork("second", [{ type: "ptp", ipam }, { type: "brigde" }]);
  host.addNetwork("ipam", [{ type: "ptp", ipam: { type: "lost" } }]);
  host.addNetwork("version", [{ type: "old" }]);
  await succeed(host, "netns add blue");
  const rows: [network: string, lines: RegExp[]][] = [
    ["first", [
      /^plugin type="brigde" failed \(add\): failed to find plugin "brigde" in path \[[^\]]*\]; did you mean "bridge"\?$/,
    ]],
    ["version", [/^plugin type="old" failed \(add\): incompatible$/]],
    ["second", [
      /^plugin type="brigde" failed \(add\): /,
      /^Undoing ADD /,
      /^ADD undone$/,
    ]],
    ["ipam", [
      /^plugin type="ptp" failed \(add\): failed to find plugin "lost" /,
      /^Undoing ADD /,
      /^Cannot undo ADD: .*failed to find plugin "lost" /,
      /: DEL also needs lost\. Correct its type or install it, then run cni del ipam \S+ --ifname eth0$/,
    ]],
  ];
  await eachRow(t, rows, async ([network, lines]) => {
    const { code, stderr } = await host.cni("add", network, "blue");
    assertEquals(code, 1);
    const got = stderr.trimEnd().split("\n");
    assertEquals(got.length, lines.length, stderr);
    lines.forEach((line, at) => assertMatch(got[at] ?? "", line));
  });
});

onNode("cni exits immediately on a second signal", async (host) => {
  addScripts(host, { hang: 'echo "$CNI_COMMAND" >> /run/calls; sleep 100' });
  await succeed(host, "netns add blue");
  const child = host.start("add hang blue");
  await waitForCalls(host, "ADD\n");
  child.kill("SIGINT");
  // It undoes the ADD, and would wait 30 s for that.
  await waitForCalls(host, "ADD\nDEL\n");
  const interrupted = performance.now();
  child.kill("SIGINT");
  const { code } = await child.output();
  assertEquals(code, 130);
  assert(performance.now() - interrupted < 25_000);
});

onNode("cni exits on a signal while it waits for a pipe", async (host, t) => {
  const pipe = `${host.confDir}/pipe.json`;
  await host.run(["mkfifo", pipe]);
  const reading = ["validate", "convert", "trace --from"];
  await eachRow(t, reading, async (command) => {
    const child = host.start(`${command} ${pipe}`);
    // Waits until the pipe is open for reading.
    using _writer = await Deno.open(pipe, { write: true });
    await endsOnSignal(child);
  }, (command) => command);
  await t.step("that no process reads", async () => {
    const log = `${host.confDir}/big.log`;
    Deno.writeTextFileSync(log, "level=info msg=x\n".repeat(50_000));
    const child = host.start(`logs --log-file ${log}`);
    const reader = child.stdout.getReader();
    await reader.read();
    await endsOnSignal(child);
    await reader.cancel();
  });
});

/** Ends a child by a signal, which nothing in it handles. */
async function endsOnSignal(child: Deno.ChildProcess): Promise<void> {
  let ended: Deno.CommandStatus | undefined;
  child.status.then((status) => ended = status);
  try {
    child.kill("SIGTERM");
    await eventually("it has ended", () => ended !== undefined);
    assertEquals(ended?.signal, "SIGTERM");
  } finally {
    if (ended === undefined) child.kill("SIGKILL");
    await child.status;
  }
}

onNode("cni logs reads regular files only", async (host) => {
  const pipe = `${host.confDir}/pipe.log`;
  await host.run(["mkfifo", pipe]);
  const { code, stderr } = await host.cni(`logs --log-file ${pipe}`);
  assertEquals(code, 1);
  assertEquals(
    stderr,
    `Cannot read the log file "${pipe}"; it is not a file\n`,
  );
});

onNode("cni netns and ip netns list the same namespaces", async (host) => {
  const ip = (...args: string[]): Promise<ToolEnded> =>
    host.run(["ip", "netns", ...args]);
  await succeed(host, "netns add blue");
  await ip("add", "green");
  const { stdout } = await ip("list");
  assertEquals(stdout.trim().split("\n").sort(), ["blue", "green"]);
  const named = await readJson(host, "netns list");
  assertEquals(
    named.map(({ name, isNetns }: Record<string, unknown>) => [name, isNetns]),
    [["blue", true], ["green", true]],
  );
  assertEquals((await ip("exec", "blue", "true")).code, 0);
  // In a user namespace, root of the machine is nobody.
  const modes = await host.run(
    ["stat", "-Lc", "%a %U", "/run/netns/blue", "/proc/self/ns/net"],
  );
  const [mode, expected] = modes.stdout.split("\n");
  assertEquals(mode, expected);
  assertMatch(mode ?? "", /^444 (root|nobody)$/);
  // The last mount of the directory is the one that is seen.
  const mounts = ["findmnt", "-no", "PROPAGATION", "/run/netns"];
  const before = (await host.run(mounts)).stdout;
  assertMatch(before, /shared\n$/);
  await succeed(host, "netns add red");
  await succeed(host, "netns del red");
  assertEquals((await host.run(mounts)).stdout, before);
  await succeed(host, "netns del green");
  assertEquals((await ip("del", "blue")).code, 0);
  assertEquals((await host.run(["ls", "/run/netns"])).stdout, "");
});

onNode("cni netns creates and deletes only namespaces", async (host) => {
  await succeed(host, "netns add blue");
  await host.run(["touch", "/run/netns/fake"]);
  await host.run(["mkdir", "/run/netns/directory"]);
  const refusals: [args: string[], text: string][] = [
    [["add", "blue"], 'Cannot add network namespace "blue": it already exists'],
    [["add", "fake"], "is not a network namespace; remove the file"],
    [["add", "a/b"], "a name must have 1 to 255 bytes and no slash"],
    [["del", "fake"], '"/var/run/netns/fake" is not a network namespace'],
    [["del", "directory"], 'netns/directory" is not a network namespace'],
    [["del", "none"], '"/var/run/netns/none" does not exist'],
    [["exec", "fake", "true"], "is not a network namespace"],
  ];
  for (const [args, text] of refusals) {
    const { code, stderr } = await host.cni("netns", ...args);
    assertEquals(code, 1, args.join(" "));
    assertStringIncludes(stderr, text);
  }
  const { stdout } = await host.run(["ls", "/run/netns"]);
  assertEquals(stdout, "blue\ndirectory\nfake\n");
});

onNode("cni netns del refuses a namespace with attachments", async (host) => {
  addPods(host);
  await succeed(host, "netns add blue");
  await succeed(host, "add pods blue");
  const attached = 'it is attached to "pods" as "eth0": ' +
    "run cni del pods /var/run/netns/blue --ifname eth0";
  assertEquals(
    await host.cni("netns del blue"),
    failed(
      `Cannot delete network namespace "blue": ${attached}; or use --force\n`,
    ),
  );
  await succeed(host, "check pods blue");
  const unreadable = await host
    .cni("netns del blue --cache-dir=/etc/passwd");
  assertEquals(unreadable.code, 1);
  assertStringIncludes(unreadable.stderr, "Attachments are unknown: ");
  const { code, stderr } = await host.cni("netns del blue --force");
  assertEquals([code, stderr], [0, `${attached}\n`]);
  assertEquals((await host.run(["ls", "/run/netns"])).stdout, "");
  const again = await host.cni("netns del blue");
  assertStringIncludes(again.stderr, '"/var/run/netns/blue" does not exist');
});

onNode(
  "cni netns list and gc --orphans are tables in 80 columns",
  async (host, t) => {
    const name = "cni-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
    await succeed(host, `netns add ${name}`);
    await succeed(host, "netns add blue");
    await t.step("netns list", async () => {
      assertEquals(await host.seen(80, "netns list"), [
        "NAME                                      ATTACHMENTS",
        "blue                                      -",
        "cni-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9  -",
        "Not shown at this width: PATH, NAMESPACE (--wide shows all)",
      ]);
    });
    // No process of this machine may name the container.
    const id = crypto.getRandomValues(new Uint8Array(32)).toHex();
    const leases = "/var/lib/cni/networks/a-network-with-a-long-name";
    const file = `${leases}/fd00:1234:5678:9abc:1234:5678:9abc:1234`;
    const plant =
      `mkdir -p ${leases} && printf '${id}\\r\\neth0' > ${file} && touch ${leases}/lock`;
    assertEquals((await host.run(["sh", "-c", plant])).code, 0);
    await t.step("gc --orphans", async () => {
      assertEquals(
        (await host.seen(80, "gc --orphans --grace 0"))
          .map((line) => line.replace(id.slice(0, 13), "ID")),
        [
          "KIND   WHERE                                                       CONTAINER",
          "lease  /var/lib/cni/networks/a-netw…5678:9abc:1234:5678:9abc:1234  ID",
          "  no namespace has fd00:1234:5678:9abc:1234:5678:9abc:1234",
          "Not shown at this width: NETWORK. Shortened: WHERE (--wide shows all)",
        ],
      );
    });
  },
);

onNode("cni netns list reports an unreadable cache", async (host) => {
  await succeed(host, "netns add blue");
  const line = "netns list --cache-dir=/etc/passwd";
  const { code, stdout, stderr } = await host.cni(line);
  assertEquals(code, 0);
  assertMatch(stdout, /^blue .* unknown$/m);
  assertMatch(stderr, /^Attachments are unknown: .*"\/etc\/passwd\/results"/);
  const [blue] = await readJson(host, line);
  assertEquals(blue.attachments, null);
});

onNode("cni netns exec replaces itself with the program", async (host, t) => {
  await succeed(host, "netns add blue");
  const exec = (...args: string[]): Promise<ToolEnded> =>
    host.cni("netns exec blue", ...args);
  const rows: [name: string, args: string[], want: Partial<ToolEnded>][] = [
    ["its exit code", ["--", "sh", "-c", "exit 7"], { code: 7 }],
    ["its end by a signal", ["sh", "-c", "kill -9 $$"], { code: 137 }],
    ["flags that are not ours", ["printf", "%s", "--json", "--", "-h"], {
      stdout: "--json---h",
    }],
    ["the namespace's own /sys", ["ls", "/sys/class/net"], { stdout: "lo\n" }],
    ["a program that is not there", ["--", "nothere"], { code: 127 }],
    ["a file that is not a program", ["--", "/etc/passwd"], { code: 126 }],
    ["no program", [], { code: 1 }],
    [
      "variables that Deno would heed",
      ["sh", "-c", "echo $FORCE_COLOR $NODE_OPTIONS"],
      { stdout: "1 --x\n" },
    ],
    // yes(1) would complain of a pipe that is closed.
    ["SIGPIPE", ["sh", "-c", "yes | head -1"], { stdout: "y\n", stderr: "" }],
  ];
  host.env["FORCE_COLOR"] = "1";
  host.env["NODE_OPTIONS"] = "--x";
  await eachRow(t, rows, async ([, args, want]) => {
    const ended = await exec(...args);
    assertEquals({ ...ended, ...want }, ended);
  });
  await t.step("replaces the process", async () => {
    const child = host.start("netns exec blue -- sh -c", "echo $$");
    const { stdout } = await child.output();
    assertEquals(new TextDecoder().decode(stdout), `${child.pid}\n`);
  });
  await t.step("its limit of open files", async () => {
    const limited = 'ulimit -Sn 321; "$@"; exit $?';
    const command = host.command("netns", "exec", "blue");
    const { stdout } = await host.run([
      ...["sh", "-c", limited, "sh"],
      ...command,
      ...["sh", "-c", "ulimit -Sn"],
    ]);
    assertEquals(stdout, "321\n");
  });
  await t.step("files of /etc/netns", async () => {
    const script = "mkdir -p /run/etc/netns/blue && cd /run/etc && " +
      "touch hostname && cd netns/blue && echo mine > hostname && " +
      "touch not-in-etc && mount --bind /run/etc /etc";
    assertEquals((await host.run(["sh", "-c", script])).code, 0);
    const { stdout, stderr } = await exec("cat", "/etc/hostname");
    assertEquals(stdout, "mine\n");
    assertStringIncludes(stderr, 'on "/etc/not-in-etc": mount: ENOENT');
  });
});

onNode("cni prints to a terminal and to pipes", async (host) => {
  const quoted = host.command("completion", "fish")
    .map((word) => `'${word}'`).join(" ");
  // The reader has gone when the tool begins to write.
  const script = `exec 3> >(:); wait $!; ${quoted} >&3`;
  const piped = await host.run(["bash", "-c", script]);
  assertEquals([piped.code, piped.stderr], [141, ""]);
  const full = await host.run(["bash", "-c", `${quoted} > /dev/full`]);
  assertEquals(full.code, 1);
  assertStringIncludes(full.stderr, "Cannot write to stdout: No space left");
  // To a runtime it is a plugin, and there is none of its name.
  host.env["CNI_COMMAND"] = "VERSION";
  const asPlugin = await host.cni();
  assertEquals([asPlugin.code, JSON.parse(asPlugin.stdout).code], [1, 4]);
  assertEquals((await host.cni("version")).code, 0);
});

onNode("cni explains errors of networks and plugins", async (host) => {
  addPods(host);
  host.addNetwork("late", [{ type: "none", ipam: { type: "nor-this" } }]);
  Deno.writeTextFileSync(`${host.confDir}/zz.conflist`, "{");
  Deno.writeTextFileSync(
    `${host.confDir}/pods.conf`,
    '{"cniVersion":"1.0.0","name":"pods","type":"ptp"}',
  );
  const networks = await readJson(host, "networks");
  const problems = networks
    .map(({ name, problems }: Record<string, unknown>) => [name, problems]);
  const none = (type: string): string =>
    `failed to find plugin "${type}" in path [${host.path.replace(":", " ")}]`;
  assertEquals(problems.slice(0, 2), [
    ["late", [none("none"), none("nor-this")]],
    ["pods", []],
  ]);
  assertMatch(problems[2][1][0], /^error parsing configuration list: /);
  assertEquals(problems[3], [
    "pods",
    [`not used: ${host.confDir}/pods.conflist also has "pods", and comes first`],
  ]);
  const pods = await succeed(host, "validate pods");
  assertMatch(pods, /\npods is valid: ptp\n1 warning\n$/);
  assertStringIncludes(
    pods,
    `/pods.conflist:1:23 warning name: not used: ${host.confDir}/pods.conf also has `,
  );
  const invalid = await host.cni("validate late");
  const late = `${host.confDir}/late.conflist`;
  const line =
    '    1 | …,"name":"late","plugins":[{"type":"none","ipam":{"type":"nor-this"}}]}';
  assertEquals(invalid, {
    code: 1,
    stderr: "",
    stdout: `${late}:1:56 error   plugins[0].type: ${none("none")}
${line}
${late}:1:78 error   plugins[0].ipam.type: ${none("nor-this")}
${line}
late is not valid: none; keys not checked: none, nor-this
2 errors
`,
  });
});

onNode("cni networks shows networks that a broken file hides", async (host) => {
  host.addPlugin("p", "");
  const before = host.addNetwork("before", [{ type: "p" }]);
  const broken = `${host.confDir}/broken.conflist`;
  Deno.writeTextFileSync(broken, "{");
  // Another file that only a search by name stumbles over.
  const list = '{"cniVersion":"1.1.0","name":"bare","plugins":[{"type":"p"}]}';
  Deno.writeTextFileSync(`${host.confDir}/bare.conf`, list);
  host.addNetwork("pods", [{ type: "p" }]);
  const rows: { name: string; problems: string[] }[] = await readJson(
    host,
    "networks",
  );
  const hidden = `not found by name: ${broken} comes first and cannot be read`;
  const problems = new Map(rows.map((row) => [row.name, row.problems]));
  assertEquals(problems.get("before"), []);
  assertEquals(problems.get("pods"), [hidden]);
  const [unnamed = "", also] = problems.get("bare") ?? [];
  assertMatch(unnamed, /missing 'type'/);
  assertEquals(also, hidden);
  await succeed(host, "netns add blue");
  for (const name of ["pods", "bare"]) {
    const { code, stderr } = await host.cni("add", name, "blue");
    assertEquals(code, 1);
    assertStringIncludes(stderr, `in "${broken}"`);
  }
  assertEquals((await host.cni("networks --exit-code")).code, 1);
  for (const file of [broken, `${host.confDir}/bare.conf`]) {
    Deno.removeSync(file);
  }
  assertEquals((await host.cni("networks --exit-code")).code, 0);
  Deno.removeSync(before);
});

onNode("cni fails for unknown names and directories", async (host, t) => {
  addPods(host);
  host.addPlugin("none", "exit 1");
  const rows: [args: string[], code: number, stderr: string][] = [
    [["list"], 0, 'There are no attachments in "/var/lib/cni"\n'],
    [["list", "pods"], 0, "There are no such attachments in "],
    [["list", "podz"], 1, `in ${host.confDir}; did you mean "pods"?\n`],
    [["add", "podz", "blue"], 1, '; did you mean "pods"?\n'],
    [
      ["networks", "--conf-dir=/nosuch"],
      1,
      'The directory "/nosuch" does not exist\n',
    ],
    [
      ["plugins", "--cni-path=/nosuch"],
      1,
      'The directory "/nosuch" does not exist\n',
    ],
    [
      ["plugins", `--cni-path=/nosuch:${host.path}`],
      0,
      'The directory "/nosuch" does not exist\n',
    ],
    [["plugins"], 0, ""],
    [["plugins", "--exit-code"], 1, ""],
    [["netns", "exec", "blue", "--", "nothere"], 127, "not found in PATH\n"],
  ];
  await succeed(host, "netns add blue");
  await eachRow(t, rows, async ([args, code, text]) => {
    const { stderr, ...ended } = await host.cni(...args);
    assertEquals(ended.code, code, stderr);
    assertStringIncludes(stderr, text);
  }, ([args]) => args.join(" "));
  await t.step("the default directories may be missing", async () => {
    host.env["NETCONFPATH"] = "";
    const { code, stderr } = await host.cni("networks");
    delete host.env["NETCONFPATH"];
    const text = 'The directory "/etc/cni/net.d" does not exist\n';
    assertEquals([code, stderr], [0, text]);
  });
  await t.step("list --exit-code", async () => {
    await succeed(host, "add pods blue");
    assertEquals((await host.cni("list --exit-code")).code, 0);
    assertEquals((await host.cni("netns del blue --force")).code, 0);
    assertEquals((await host.cni("list --exit-code")).code, 1);
  });
});

onNode("cni add names CAP_ARGS that no plugin receives", async (host) => {
  addScripts(host, { show: SHOW });
  await succeed(host, "netns add blue");
  host.env["CAP_ARGS"] = '{"mac":"00:11:22:33:44:55","portMappings":[]}';
  const { code, stderr } = await host.cni("add show blue");
  assertEquals(code, 0);
  assertMatch(stderr, /: no plugin of "show" declares "portMappings"\n$/);
});

onNode("cni suggests root if a permission is missing", async (host, t) => {
  await host.run(["mkdir", "-m", "0700", "-p", "/var/lib/cni/results"]);
  const asNobody = (...args: string[]): Promise<ToolEnded> =>
    host.run([
      ...["setpriv", "--reuid=65534", "--clear-groups"],
      ...host.command(...args),
    ]);
  // From source it would download its dependencies.
  const { code } = BIN === "" ? { code: 1 } : await asNobody("version");
  await t.step({
    name: "as user nobody, if other users can run the tool",
    ignore: code !== 0,
    async fn(): Promise<void> {
      const denied = await asNobody("list");
      assertEquals(denied.code, 1);
      assertMatch(denied.stderr, /; run it as root\n$/);
      host.addPlugin(
        "needy",
        `case $CNI_COMMAND in VERSION)
  echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}';;
*) echo '{"cniVersion":"1.1.0","code":50,"msg":"EPERM"}'; exit 1;; esac`,
      );
      host.addNetwork("pods", [{ type: "needy" }]);
      const directories = [host.confDir, ...host.path.split(":")];
      await host.run(["chmod", "0755", "/var/lib/cni/results", ...directories]);
      const doctor = await asNobody("doctor");
      assertMatch(doctor.stdout, /Not checked: .*not-ready.*; run it as root/);
      const waiting = await asNobody("doctor", "--wait", "0");
      assertEquals([doctor.code, waiting.code], [3, 3]);
    },
  });
  // Root's home may be closed to others.
  const { code: unreadable } = await host.run([
    ...["setpriv", "--reuid=65534", "--clear-groups"],
    ...["test", "-r", `${BIN}/cni`],
  ]);
  await t.step({
    name: "but not to install into the user's own directory",
    ignore: code !== 0 || unreadable !== 0,
    async fn(): Promise<void> {
      // Whether a daemon runs the old executable cannot be seen.
      const script = `mkdir -m 0700 /run/cni && mkdir /run/own &&
        cp /bin/true /run/own/cni && chown -R 65534 /run/own`;
      assertEquals((await host.run(["sh", "-c", script])).code, 0);
      const ended = await asNobody("install", "/run/own", "--only", "ptp");
      assertEquals(ended.code, 0, ended.stderr);
    },
  });
});

onNode("cni status checks what each CNI version allows", async (host, t) => {
  const ipam = host.hostLocal("10.1.0.0/24");
  const more = { cniVersion: "1.0.0" };
  host.addPlugin("other", 'echo "$CNI_COMMAND" >> /run/calls');
  host.addNetwork("own", [{ type: "ptp", ipam }], more);
  host.addNetwork("mixed", [{ type: "ptp", ipam }, { type: "other" }], more);
  host.addNetwork("gone", [{ type: "gone", ipam: { type: "nor-this" } }], more);
  host.addNetwork("new", [{ type: "ptp", ipam }, { type: "gone" }]);
  host.addNetwork("unwritable", [{
    type: "ptp",
    ipam: { ...ipam, dataDir: "/dev/null/leases" },
  }], more);
  await t.step("this project's plugin", async () => {
    assertEquals(await succeed(host, "status own"), "");
    const json = await readJson(host, "status own");
    assertEquals(json, { network: "own", ready: true, asked: ["ptp"] });
  });
  const reason = 'Not queried: other; version "1.0.0" of "mixed" has no STATUS';
  await t.step("not a third-party plugin, with a note", async () => {
    const { code, stdout, stderr } = await host.cni("status mixed");
    assertEquals([code, stdout, stderr], [0, "", `${reason}\n`]);
    const json = await readJson(host, "status mixed");
    assertEquals(json, {
      network: "mixed",
      ready: null,
      asked: ["ptp"],
      reason,
    });
    assertEquals((await host.run(["ls", "/run/calls"])).code, 2);
  });
  const rows: [network: string, text: RegExp][] = [
    ["gone", /failed to find plugin "gone" .*failed to find plugin "nor-this"/],
    ["new", /failed to find plugin "gone"/],
    ["unwritable", /Cannot write to the lease directory/],
  ];
  await eachRow(t, rows, async ([network, text]) => {
    const { code, stdout } = await host.cni("status", network, "--json");
    const { code: cniCode, ...failure } = JSON.parse(stdout);
    assertEquals([code, cniCode], [1, 50]);
    assertMatch(failure.msg, text);
  }, ([network]) => `${network} is not ready`);
  await t.step("not an unknown version", async () => {
    host.addNetwork("future", [{ type: "ptp", ipam }], { cniVersion: "2.0.0" });
    const { code, stderr } = await host.cni("status future");
    assertEquals([code, stderr], [
      1,
      'plugin ptp does not support config version "2.0.0"\n',
    ]);
  });
  await t.step("not without an IPAM plugin", async () => {
    host.addNetwork("bare", [{ type: "ptp" }]);
    const { code, stderr } = await host.cni("status bare");
    assertEquals([code, stderr], [
      1,
      'no plugin name provided; ptp needs "ipam" with a "type"\n',
    ]);
  });
});

onNode("cni check shows all differences", async (host, t) => {
  host.addPlugin(
    "wrong",
    `case $CNI_COMMAND in
ADD) echo '{"cniVersion":"1.1.0"}';;
CHECK) echo '{"code":101,"msg":"one","details":"two"}'; exit 1
esac`,
  );
  const ipam = {
    ...host.hostLocal("10.22.0.0/24"),
    routes: [{ dst: "0.0.0.0/0" }, { dst: "10.99.0.0/16" }],
  };
  host.addNetwork("pods", [{ type: "wrong" }, { type: "ptp", ipam }]);
  await succeed(host, "netns add blue");
  await succeed(host, "add pods blue");
  const found = async (): Promise<Record<string, unknown>[]> => {
    const { stdout } = await host.cni("check pods blue --json");
    return JSON.parse(stdout).differences;
  };
  const wrong = { plugin: "wrong", code: 101, msg: "one; two" };
  assertEquals(await found(), [wrong]);
  for (
    const change of [
      "rm /run/leases/pods/10.22.0.2",
      "ip -n blue route del default",
      "ip -n blue route del 10.99.0.0/16",
      "sysctl -qw net.ipv4.ip_forward=0",
    ]
  ) {
    assertEquals((await host.run(change.split(" "))).code, 0, change);
  }
  const eth0 = { netns: "/var/run/netns/blue", link: "eth0" };
  const lack = (destination: string): object => ({
    msg: `Interface "eth0" lacks route ${destination} via 10.22.0.1`,
    expected: { kind: "route", ...eth0, destination, gateway: "10.22.0.1" },
  });
  const forwarding = {
    kind: "sysctl",
    netns: "/proc/thread-self/ns/net",
    key: "net/ipv4/ip_forward",
    value: "1",
  };
  await t.step("as a list", async () => {
    const [first, lease, ...others] = await found();
    assertEquals(first, wrong);
    assertMatch(String(lease?.["msg"]), /host-local/);
    assertEquals(
      others,
      [
        lack("0.0.0.0/0"),
        lack("10.99.0.0/16"),
        { msg: "IPv4 forwarding is off", expected: forwarding },
      ].map((one) => ({ plugin: "ptp", code: lease?.["code"], ...one })),
    );
  });
  await t.step("as text", async () => {
    const { code, stdout, stderr } = await host.cni("check pods blue");
    assertEquals([code, stdout], [1, ""]);
    const lines = stderr.trimEnd().split("\n");
    assertEquals(lines.length, 5, stderr);
    assertEquals(lines[0], "wrong: one; two");
    assertEquals(lines[4], "ptp: IPv4 forwarding is off");
  });
});

onNode("cni list shows pods, and short IDs that are accepted", async (host) => {
  addPods(host);
  await succeed(host, "netns add blue");
  await succeed(host, "add pods blue");
  assertEquals((await host.cni("list")).stdout.includes("POD"), false);
  const id = "0123456789abcdef".repeat(4);
  host.env["CNI_ARGS"] =
    `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0`;
  await succeed(host, "add pods blue -i net1 --container-id", id);
  delete host.env["CNI_ARGS"];
  const table = await succeed(host, "list");
  assertMatch(table, /^NETWORK +POD +CONTAINER /);
  assertMatch(table, /^pods +default\/web-0 +0123456789abc +net1 /m);
  assertMatch(table, /^pods +default\/web-0 +cnitool-\w{20} +eth0 /m);
  assertStringIncludes(await succeed(host, "list --wide"), ` ${id} `);
  const rows = await readJson(host, "list");
  assertEquals(
    rows.map(({ pod }: Record<string, unknown>) => pod).sort(),
    ["default/web-0", "default/web-0"],
  );
  const short = ["pods", "blue", "-i", "net1", "--container-id=0123456789abc"];
  await succeed(host, "check", ...short);
  const command = ["ip", "-br", "link"];
  const links = await succeed(host, "netns exec default/web-0 --", ...command);
  assertMatch(links, /^net1@/m);
  await succeed(host, "check pods default/web-0");
  await succeed(host, "del pods 0123456 -i net1 --strict");
  assertEquals((await host.cni("list")).stdout.includes("net1"), false);
});

onNode("an interrupted cni check reports no differences", async (host) => {
  addScripts(host, {
    hang: `echo "$CNI_COMMAND" >> /run/calls
[ "$CNI_COMMAND" != CHECK ] || sleep 100
echo '{"cniVersion":"1.1.0"}'`,
  });
  await succeed(host, "netns add blue");
  await succeed(host, "add hang blue");
  const child = host.start("check hang blue --json");
  await waitForCalls(host, "ADD\nCHECK\n");
  child.kill("SIGINT");
  const { code, stdout } = await child.output();
  assertEquals(code, 130);
  const { differences, msg } = JSON.parse(new TextDecoder().decode(stdout));
  assertEquals(differences, undefined);
  assertMatch(msg, /signal: killed/);
});
