import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { validate } from "./command.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { callWith, runCni, runCniOn } from "../../tests/_harness/tool_call.ts";

const PODS = `{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    { "type": "ptp",
      "mtu": "abc",
      "ipMask": true,
      "ipam": {
        "type": "host-local",
        "subnet": "10.60.0.0/24",
        "subnet": "10.61.0.0/24" } }
  ]
}
`;

const DEFINITIONS = `# Two networks
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: literal
  namespace: prod
spec:
  config: |
    {
      "cniVersion": "1.0.0",
      "type": "macvlan",
      "mode": "bridgge"
    }
---
apiVersion: v1
kind: List
items:
  - kind: NetworkAttachmentDefinition
    metadata: { name: quoted }
    spec:
      config: '{ "cniVersion": "1.0.0",
        "type": "ipvlan", "mtu": "it''s" }'
  - kind: NetworkAttachmentDefinition
    metadata: { name: escaped }
    spec: { config: "{ \\"cniVersion\\": \\"1.0.0\\", \\"type\\": \\"vlan\\" }" }
  - kind: Pod
    metadata:
      name: web
      annotations:
        k8s.v1.cni.cncf.io/networks: '[{"name": 5}]'
`;

/** Validates files without looking at this machine. */
async function run(
  files: Readonly<Record<string, string>>,
  ...flags: string[]
): Promise<{ stdout: string; exitCode: number }> {
  using directory = new PluginDirectory();
  for (const [name, content] of Object.entries(files)) {
    directory.addFile(name, content);
  }
  const { path } = directory;
  const { stdout, exitCode } = await runCni(
    ...["validate", "--cni-path=/dev/null", "--conf-dir=/dev/null"],
    ...flags,
    `${path}/`,
  );
  return { stdout: stdout.replaceAll(`${path}/`, ""), exitCode };
}

Deno.test("validate shows places and lines", async () => {
  const { stdout, exitCode } = await run({ "pods.conflist": PODS });
  assertEquals(
    stdout,
    `pods.conflist:6:14 error   plugins[0].mtu: expected a number, got a string
    6 |       "mtu": "abc",
pods.conflist:7:7  warning plugins[0].ipMask: ptp has no such key; did you mean "ipMasq"? [unknown-key]
pods.conflist:11:9 warning plugins[0].ipam.subnet: the key is repeated: it is also on line 10; the last one wins [value]
pods is not valid: ptp
1 error, 2 warnings
`,
  );
  assertEquals(exitCode, 1);
});

Deno.test("validate shows lines with tabs, and files with odd names", async () => {
  const tabs = PODS.replaceAll("      ", "\t");
  const { stdout } = await run({ "a.conflist": tabs });
  assertStringIncludes(stdout, '6 |  "mtu": "abc",');
  const { stdout: sarif } = await run(
    { "a #1.conflist": tabs },
    "--format=sarif",
  );
  assertStringIncludes(sarif, "a%20%231.conflist");
});

Deno.test("validate annotates for GitHub and in SARIF", async () => {
  const github = await run({ "pods.conflist": PODS }, "--format", "github");
  assertStringIncludes(
    github.stdout,
    "::error file=pods.conflist,line=6,col=14::plugins[0].mtu: expected a number, got a string\n" +
      "::warning file=pods.conflist,line=7,col=7::",
  );
  const sarif = await run({ "pods.conflist": PODS }, "--format=sarif");
  const { version, runs: [{ results }] } = JSON.parse(sarif.stdout);
  assertEquals([version, results[0].level], ["2.1.0", "error"]);
  assertEquals(
    results.map(({ ruleId }: { ruleId: string }) => ruleId),
    ["error", "unknown-key", "value"],
  );
  assertEquals(results[0].locations[0].physicalLocation.region, {
    startLine: 6,
    startColumn: 14,
  });
  assertEquals([github.exitCode, sarif.exitCode], [1, 1]);
});

Deno.test("validate --json has all problems, and the configurations", async () => {
  const fine = PODS.replace('"abc"', "1450").replace("ipMask", "ipMasq")
    .replace(/ *"subnet": "10.61.*\n/, "")
    .replace('10.60.0.0/24",', '10.62.0.0/24" } }').replace("pods", "fine");
  for (const flag of ["--json", "--format=json"]) {
    const { stdout } = await run(
      { "a.conflist": fine, "b.conflist": PODS },
      flag,
    );
    const { valid, errors, warnings, problems, configurations } = JSON.parse(
      stdout,
    );
    assertEquals([valid, errors, warnings], [false, 1, 2]);
    assertEquals(problems[0], {
      severity: "error",
      path: "plugins[0].mtu",
      message: "expected a number, got a string",
      code: null,
      file: "b.conflist",
      line: 6,
      column: 14,
    });
    assertEquals(
      configurations.map(({ file, valid }: Record<string, unknown>) => [
        file,
        valid,
      ]),
      [["a.conflist", true], ["b.conflist", false]],
    );
  }
});

Deno.test("validate finds networks in Kubernetes objects", async () => {
  const { stdout } = await run({ "nets.yaml": DEFINITIONS }, "--json");
  const { problems, configurations } = JSON.parse(stdout);
  assertEquals(
    configurations.map(({ file, network }: Record<string, string>) => [
      file,
      network,
    ]),
    [
      ["nets.yaml (prod/literal)", "literal"],
      ["nets.yaml (quoted)", "quoted"],
      ["nets.yaml (escaped)", "escaped"],
      ["nets.yaml (web)", ""],
    ],
  );
  const found = problems.map((
    { line, column, path }: Record<string, string | number>,
  ) => [line, column, path]);
  assertEquals(found, [
    [12, 15, "mode"],
    [21, 16, "ipam"],
    [22, 34, "mtu"],
    [25, 22, "vlanId"],
    // No master.
    [25, 22, ""],
    [30, 39, ""],
  ]);
});

Deno.test("validate accepts keys that multus adds to definitions", async () => {
  const define = (annotations: string, config: string): string =>
    "kind: NetworkAttachmentDefinition\n" +
    `metadata: { name: dev, annotations: { ${annotations} } }\n` +
    `spec: { config: ${config} }\n`;
  const config = `'{ "cniVersion": "1.0.0", "type": "host-device" }'`;
  const device = "k8s.v1.cni.cncf.io/resourceName: intel.com/nic";
  const files = [
    define(device, config),
    define("", config),
    define("", "{ type: ptp }"),
  ].join("---\n");
  const { stdout } = await run({ "dev.yaml": files }, "--json");
  const { configurations } = JSON.parse(stdout);
  assertEquals(
    configurations.map(({ valid }: { valid: boolean }) => valid),
    [true, false, false],
  );
});

Deno.test("validate finds misspelt annotations", async () => {
  const object = (kind: string, annotation: string): string =>
    `kind: ${kind}\nmetadata:\n  name: a\n  annotations:\n` +
    `    ${annotation}: intel.com/nic\n` +
    'spec: { config: \'{ "cniVersion": "1.0.0", "type": "sriov" }\' }\n';
  const definition = "NetworkAttachmentDefinition";
  const files = [
    object(definition, "k8s.v1.cni.cncf.io/resourcename"),
    object(definition, "k8s.v1.cni.cncf.io/resourceNames"),
    object(definition, "k8s.cni.cncf.io/resourceName"),
    object("Pod", "k8s.v1.cni.cncf.io/network"),
    // Right, and of others.
    object(definition, "k8s.v1.cni.cncf.io/resourceName"),
    object(definition, "example.com/resource-name"),
    object("Pod", "k8s.v1.cni.cncf.io/networks-status"),
    object("Pod", "k8s.v1.cni.cncf.io/network-status"),
  ].join("---\n");
  const { stdout, exitCode } = await run({ "nads.yaml": files }, "--json");
  const problems: { line: number; column: number; message: string }[] =
    JSON.parse(stdout).problems;
  const resource = 'did you mean "k8s.v1.cni.cncf.io/resourceName"?';
  assertEquals(
    problems.map(({ line, column, message }) => [line, column, message]),
    [
      [
        5,
        5,
        'nothing reads "k8s.v1.cni.cncf.io/resourcename" here; ' + resource,
      ],
      [
        12,
        5,
        'nothing reads "k8s.v1.cni.cncf.io/resourceNames" here; ' + resource,
      ],
      [19, 5, 'nothing reads "k8s.cni.cncf.io/resourceName" here; ' + resource],
      [
        26,
        5,
        'nothing reads "k8s.v1.cni.cncf.io/network" here; ' +
        'did you mean "k8s.v1.cni.cncf.io/networks"?',
      ],
    ],
  );
  assertEquals(exitCode, 0);
  const strict = await run({ "nads.yaml": files }, "--strict");
  assertEquals(strict.exitCode, 1);
});

Deno.test("validate reports definitions that the API server refuses", async () => {
  const define = (kind: string, version: string): string =>
    `kind: ${kind}\napiVersion: ${version}\nmetadata: { name: a }\n` +
    'spec: { config: \'{ "type": "tuning" }\' }\n';
  const kind = "NetworkAttachmentDefinition";
  const files = [
    define("NetworkAttachementDefinition", "k8s.cni.cncf.io/v1"),
    define(kind, "k8s.cni.cncf.io/v1beta1"),
    // Of other projects.
    define("NetworkAttachment", "example.com/v1"),
    define("Network", "operator.openshift.io/v1"),
  ].join("---\n");
  const { stdout } = await run({ "nads.yaml": files }, "--json");
  const messages: string[] = JSON.parse(stdout).problems
    .map(({ message }: { message: string }) => message);
  assertEquals(messages, [
    `kind: NetworkAttachementDefinition is not ${kind}`,
    "apiVersion: expected k8s.cni.cncf.io/v1, got k8s.cni.cncf.io/v1beta1",
  ]);
});

Deno.test("validate continues after an unreadable file", async () => {
  using directory = new PluginDirectory();
  await Deno.symlink("/nonexistent", `${directory.path}/05-a.conflist`);
  directory.addFile("10-pods.conflist", PODS);
  const { stdout, exitCode } = await runCni(
    ...["validate", "--all", "--cni-path=/dev/null"],
    `--conf-dir=${directory.path}`,
  );
  assertMatch(stdout, /05-a.*: Cannot read|05-a.* error +Cannot read/);
  assertStringIncludes(stdout, "plugins[0].mtu");
  assertEquals(exitCode, 1);
});

Deno.test("validate reads stdin", async () => {
  const call = callWith({
    args: ["-"],
    flags: { "cni-path": "/dev/null", "conf-dir": "/dev/null" },
  });
  for (const text of [PODS, DEFINITIONS, "[", "{ a"]) {
    const bytes = new TextEncoder().encode(text);
    const { json, exitCode } = await validate(call, () => bytes);
    const { problems } = json as { problems: { file: string }[] };
    assertEquals(problems[0]?.file, "<stdin>");
    assertEquals(exitCode, 1);
  }
});

Deno.test("validate compares networks of a directory", async () => {
  const net = (name: string, type: string, ipam: object): string =>
    JSON.stringify({
      cniVersion: "1.0.0",
      name,
      plugins: [{ type, master: "x", ipam: { type: "host-local", ...ipam } }]
        .map(({ master, ...plugin }) =>
          type === "macvlan" ? { master, ...plugin } : plugin
        ),
    });
  const { stdout } = await run({
    "10-a.conflist": net("a", "ptp", { subnet: "10.1.0.0/16" }),
    "20-b.conflist": net("b", "bridge", { subnet: "10.1.5.0/24" }),
    "30-a.conflist": net("a", "ptp", { subnet: "10.3.0.0/16" }),
    "40-c.conflist": net("c", "macvlan", {
      subnet: "10.9.0.0/24",
      rangeEnd: "10.9.0.9",
    }),
    "50-d.conflist": net("d", "macvlan", {
      subnet: "10.9.0.0/24",
      rangeStart: "10.9.0.10",
    }),
  }, "--json");
  const { problems } = JSON.parse(stdout);
  assertEquals(
    problems.map((
      { file, path, message }: Record<string, string>,
    ) => `${file} ${path}: ${message}`),
    [
      '10-a.conflist plugins[0].ipam.subnet: 10.1.0.0/16 overlaps 10.1.5.0/24 of network "b" in 20-b.conflist',
      '20-b.conflist plugins[0].ipam.subnet: 10.1.5.0/24 overlaps 10.1.0.0/16 of network "a" in 10-a.conflist',
      "30-a.conflist name: not used: 10-a.conflist also has this name, and comes first",
    ],
  );
});

/** Lists what `validate` says about the gateways of bridges' networks. */
async function validateGateways(
  ...networks: readonly object[]
): Promise<string[]> {
  const ipam = { type: "host-local" };
  const files = networks.map((
    { ipam: own, ...keys }: { ipam?: object },
    at,
  ) => [
    `${at}.conflist`,
    JSON.stringify({
      cniVersion: "1.0.0",
      name: `net${at}`,
      plugins: [{
        type: "bridge",
        isGateway: true,
        ...keys,
        ipam: { ...ipam, ...own },
      }],
    }),
  ]);
  const { stdout } = await run(Object.fromEntries(files), "--json");
  const { problems } = JSON.parse(stdout);
  return problems.map((
    { file, path, message }: Record<string, string>,
  ) => `${file} ${path}: ${message}`);
}

Deno.test("validate reports the effect of ADD on a bridge's other gateway", async (t) => {
  const first = { ipam: { subnet: "10.1.0.0/24" } };
  const second = { ipam: { subnet: "10.2.0.0/24" } };
  const at = (index: number): string =>
    `${index}.conflist plugins[0].ipam.subnet: `;
  const fails = [
    at(0) +
    'ADD fails while "cni0" has the gateway 10.2.0.1/24 of network "net1" in 1.conflist',
    at(1) +
    'ADD fails while "cni0" has the gateway 10.1.0.1/24 of network "net0" in 0.conflist',
  ];
  const rows: [name: string, networks: object[], found: string[]][] = [
    ["two subnets", [first, second], fails],
    ["the bridge's usual name", [first, { ...second, bridge: "cni0" }], fails],
    ["the default gateway", [first, {
      ...second,
      isGateway: false,
      isDefaultGateway: true,
    }], fails],
    ["one VLAN", [{ ...first, vlan: 5 }, { ...second, vlan: 5 }], [
      ...fails.map((text) => text.replace('"cni0"', '"cni0.5"')),
    ]],
    ["one network replaces", [first, { ...second, forceAddress: true }], [
      ...fails.slice(0, 1),
      at(1) +
      'ADD deletes the gateway 10.1.0.1/24 of network "net0" in 0.conflist from "cni0"',
    ]],
    ["two gateways of a subnet", [
      { ipam: { subnet: "10.1.0.0/24", rangeEnd: "10.1.0.9" } },
      {
        ipam: {
          subnet: "10.1.0.0/24",
          rangeStart: "10.1.0.10",
          gateway: "10.1.0.254",
        },
      },
    ], [
      at(0) +
      'ADD fails while "cni0" has the gateway 10.1.0.254/24 of network "net1" in 1.conflist',
      at(1) +
      'ADD fails while "cni0" has the gateway 10.1.0.1/24 of network "net0" in 0.conflist',
    ]],
    ["other IPAM plugins", [
      {
        ipam: { type: "static", addresses: [{ address: "10.1.0.5/24" }] },
      },
      {
        ipam: { type: "whereabouts", range: "10.2.0.0/24" },
      },
    ], [
      '0.conflist plugins[0].ipam.addresses[0].address: ADD fails while "cni0" has the gateway 10.2.0.1/24 of network "net1" in 1.conflist',
      '1.conflist plugins[0].ipam.range: ADD fails while "cni0" has the gateway 10.1.0.1/24 of network "net0" in 0.conflist',
    ]],
    ["ranges of one set", [{
      ipam: {
        ranges: [[{ subnet: "10.1.0.0/24" }, { subnet: "10.2.0.0/24" }]],
      },
    }], [
      '0.conflist plugins[0].ipam.ranges[0][1].subnet: ADD fails while "cni0" has the gateway 10.1.0.1/24 of the set\'s first range',
    ]],
    ["other VLANs", [first, { ...second, vlan: 5 }, {
      ipam: { subnet: "10.3.0.0/24" },
      vlan: 6,
    }], []],
    ["other bridges", [first, { ...second, bridge: "br1" }], []],
    ["no gateway", [first, { ...second, isGateway: false }], []],
    ["parts of a subnet", [
      { ipam: { subnet: "10.1.0.0/24", rangeEnd: "10.1.0.9" } },
      { ipam: { subnet: "10.1.0.0/24", rangeStart: "10.1.0.10" } },
    ], []],
    ["families apart", [first, { ipam: { subnet: "fd00::/64" } }], []],
    ["subnets of IPv6", [
      { ipam: { subnet: "fd00::/64" } },
      { ipam: { subnet: "fd01::/64" } },
    ], []],
    ["both families in one network", [{
      ipam: {
        ranges: [[{ subnet: "10.1.0.0/24" }], [{ subnet: "fd00::/64" }]],
      },
    }, { ipam: { subnet: "fd01::/64" } }], []],
    ["two subnets of one container", [{
      ipam: {
        ranges: [[{ subnet: "10.1.0.0/24" }], [{ subnet: "10.2.0.0/24" }]],
      },
    }], []],
  ];
  for (const [name, networks, found] of rows) {
    await t.step(name, async () => {
      assertEquals(await validateGateways(...networks), found);
    });
  }
});

Deno.test("validate checks plugin files of a network", async () => {
  using directory = new PluginDirectory();
  const list = { cniVersion: "1.0.0", name: "net" };
  const file = directory.addFile("10.conflist", JSON.stringify(list));
  await Deno.mkdir(`${directory.path}/net`);
  directory.addFile("net/10.conf", '{ "type": "loopback",\n "mtu": 5 }');
  const { stdout } = await runCni(
    ...["validate", file, "--cni-path=/dev/null", "--conf-dir=/dev/null"],
  );
  assertMatch(stdout, /net\/10\.conf:2:2 warning plugins\[0\]\.mtu: loopback/);
});

Deno.test("validate fails if there is nothing to check", async () => {
  const { stderr, exitCode } = await runCni("validate");
  assertMatch(stderr, /name networks, files or directories, or use --all/);
  assertEquals(exitCode, 1);
  const missing = await runCni("validate", "./no-such.conflist");
  assertEquals(missing.exitCode, 1);
  assertMatch(missing.stderr, /Cannot read "\.\/no-such\.conflist"/);
});

Deno.test("validate states in its assessment that keys are not read", async () => {
  const misspelt = PODS.replace('"abc"', "1450")
    .replace(/ *"subnet": "10.61.*\n/, "")
    .replace('10.60.0.0/24",', '10.60.0.0/24" } }');
  const lenient = await run({ "pods.conflist": misspelt });
  assertEquals(
    lenient.stdout,
    `pods.conflist:7:7 warning plugins[0].ipMask: ptp has no such key; did you mean "ipMasq"? [unknown-key]
pods has 1 key that nothing reads: ptp
1 warning
`,
  );
  assertEquals(lenient.exitCode, 0);
  const strict = await run({ "pods.conflist": misspelt }, "--strict");
  assertStringIncludes(strict.stdout, "7:7 error   plugins[0].ipMask: ");
  assertStringIncludes(strict.stdout, "pods is not valid: ptp\n1 error\n");
  assertEquals(strict.exitCode, 1);
  const { stdout } = await run({ "pods.conflist": misspelt }, "--json");
  const { valid, configurations } = JSON.parse(stdout);
  assertEquals([valid, configurations[0].unknownKeys], [
    true,
    ["plugins[0].ipMask"],
  ]);
});

/** A network with a range. */
function network(name: string, subnet: string): string {
  const ipam = { type: "host-local", subnet };
  const plugins = [{ type: "bridge", ipam }];
  return JSON.stringify({ cniVersion: "1.0.0", name, plugins });
}

Deno.test("validate has one finding for a name that many files use", async () => {
  const files = Object.fromEntries(
    Array.from({ length: 75 }, (_, index) => [
      `${10 + index}-a.conflist`,
      network("a", "10.1.0.0/24"),
    ]),
  );
  const { stdout, exitCode } = await run(files, "--json");
  const { problems } = JSON.parse(stdout);
  assertEquals(
    problems.map(({ file, path, message }: Record<string, string>) =>
      `${file} ${path}: ${message}`
    ),
    [
      "11-a.conflist name: not used: 10-a.conflist also has this name, and " +
      "comes first; 73 more files have it: 12-a.conflist, 13-a.conflist, " +
      "14-a.conflist, …",
    ],
  );
  assertEquals(exitCode, 0);
});

Deno.test("validate has one finding for a range that many networks use", async () => {
  const files = Object.fromEntries(
    Array.from({ length: 20 }, (_, index) => [
      `${10 + index}.conflist`,
      network(`net${index}`, "10.1.0.0/24"),
    ]),
  );
  const { stdout } = await run(files, "--json");
  const { problems } = JSON.parse(stdout);
  assertEquals(problems.length, 20);
  assertEquals(
    problems[0].message,
    '10.1.0.0/24 overlaps 10.1.0.0/24 of network "net1" in 11.conflist, ' +
      "and ranges of 18 more: net2, net3, net4, …",
  );
});

Deno.test("validate fails if no file contains a network", async () => {
  const service = "apiVersion: v1\nkind: Service\nmetadata: { name: a }\n";
  for (const flag of ["--format=text", "--json"]) {
    const { exitCode } = await run({ "a.yaml": service }, flag);
    assertEquals(exitCode, 1);
  }
  const beside = await run({
    "a.yaml": service,
    "values.yaml": "replicas: 3\n",
    "b.conflist": network("b", "10.1.0.0/24"),
  });
  assertEquals([beside.stdout, beside.exitCode], ["b is valid: bridge\n", 0]);
});

Deno.test("validate reports files that runtimes ignore", async () => {
  using directory = new PluginDirectory();
  directory.addFile("10-a.conflist", network("a", "10.1.0.0/24"));
  directory.addFile("20-b.conflist.yaml", "cniVersion: 1.0.0\nplugins: []\n");
  directory.addFile("30-c.yaml", DEFINITIONS.split("---")[0] ?? "");
  const { stdout, exitCode } = await runCni(
    ...["validate", "--all", "--json", "--cni-path=/dev/null"],
    `--conf-dir=${directory.path}`,
  );
  const found = JSON.parse(stdout).problems.map(
    ({ severity, file, message }: Record<string, string>) =>
      `${severity} ${file?.split("/").at(-1)} ${message}`,
  );
  assertEquals(found, [
    "error 20-b.conflist.yaml runtimes ignore YAML: write JSON, in a file *.conflist, *.conf or *.json",
    "warning 30-c.yaml runtimes ignore *.yaml in their directory: an API server takes it",
    'error 30-c.yaml unknown macvlan mode: "bridgge"',
  ]);
  assertEquals(exitCode, 1);
});

Deno.test("validate wraps findings on a terminal, not inside words", async () => {
  using directory = new PluginDirectory();
  const { path } = directory;
  const file = directory.addFile("a.conflist", PODS);
  const line = ["validate", file, "--cni-path=/dev/null"];
  const { stdout } = await runCniOn(
    { width: path.length + 60 },
    ...line,
    "--conf-dir=/dev/null",
  );
  assertStringIncludes(
    stdout.replaceAll(`${path}/`, ""),
    `a.conflist:7:7  warning plugins[0].ipMask: ptp has no
    such key; did you mean "ipMasq"? [unknown-key]
`,
  );
});
