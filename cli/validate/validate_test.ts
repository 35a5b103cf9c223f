import { assertEquals } from "@std/assert";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";

const OURS = [
  "bandwidth",
  "bridge",
  "chain",
  "dhcp",
  "firewall",
  "flannel",
  "host-device",
  "host-local",
  "ipvlan",
  "loopback",
  "macvlan",
  "multus",
  "ptp",
  "sbr",
  "static",
  "tap",
  "tuning",
  "vlan",
];
const IPAM = { type: "host-local", subnet: "10.60.0.0/24" };
const PTP = { type: "ptp", ipam: IPAM };
const SHAPED = { type: "bandwidth", capabilities: { bandwidth: true } };

/** The document that the tool prints. */
interface Found {
  readonly exitCode: number;
  readonly valid: boolean;
  /** `severity path: message`. */
  readonly problems: readonly string[];
  readonly notChecked: readonly string[];
}

/** Validates a file on a node with all of this project's plugins, and "other". */
async function validate(content: string, ...args: string[]): Promise<Found> {
  using directory = new PluginDirectory();
  for (const type of OURS) directory.addOwnExecutable(type);
  const versions = '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}';
  directory.add("other", `[ "$CNI_COMMAND" = VERSION ] && echo '${versions}'`);
  const file = directory.addFile("10.conflist", content);
  const { path } = directory;
  const { stdout, stderr, exitCode } = await runCni(
    ...[
      "validate",
      file,
      `--cni-path=${path}`,
      "--conf-dir=/dev/null",
      "--json",
    ],
    ...args,
  );
  assertEquals(stderr, "");
  const { valid, problems, configurations } = JSON.parse(stdout);
  const [{ notChecked }] = configurations;
  return {
    exitCode,
    valid,
    notChecked,
    problems: problems.map((problem: Record<string, string>) =>
      `${problem["severity"]} ${problem["path"]}: ${
        problem["message"]?.replaceAll(path, "")
      }`
    ),
  };
}

function list(plugins: readonly object[], more: object = {}): string {
  return JSON.stringify({ cniVersion: "1.1.0", name: "bad", plugins, ...more });
}

/** ptp with keys of host-local. */
function leased(keys: object): string {
  return list([{ type: "ptp", ipam: { ...IPAM, ...keys } }]);
}

/** ptp with keys of static. */
function fixed(keys: object): string {
  return list([{ type: "ptp", ipam: { type: "static", ...keys } }]);
}

const rows: [name: string, content: string, ...problems: string[]][] = [
  ["nothing wrong", list([PTP, SHAPED])],
  [
    "keys in other cases",
    list([{ ...PTP, MTU: 1450, IPMASQ: false }]),
    'warning plugins[0].MTU: usually spelt "mtu"',
    'warning plugins[0].IPMASQ: usually spelt "ipMasq"',
  ],
  ["comments and keys of others", list([{ ...PTP, _why: 1, "x.io/y": 1 }])],
  ["a list's keys of others", list([PTP], { nerdctlID: "x" })],
  [
    "a text for a number",
    list([{ ...PTP, mtu: "abc" }]),
    "error plugins[0].mtu: expected a number, got a string",
  ],
  [
    "a misspelt key",
    list([{ ...PTP, ipMask: true }]),
    'warning plugins[0].ipMask: ptp has no such key; did you mean "ipMasq"?',
  ],
  [
    "a misspelt key of an item",
    list([{ type: "bridge", vlanTrunk: [{ id: 1 }, { id: 2, mnID: 1 }] }]),
    'warning plugins[0].vlanTrunk[1].mnID: bridge has no such key; did you mean "minID"?',
  ],
  [
    "a misspelt key of IPAM",
    leased({ gatway: "10.60.0.9" }),
    'warning plugins[0].ipam.gatway: host-local has no such key; did you mean "gateway"?',
  ],
  [
    "an unknown key",
    list([{ type: "loopback", frobnicate: 1 }]),
    "warning plugins[0].frobnicate: loopback has no such key",
  ],
  [
    "no subnet",
    leased({ subnet: "10.60.0.0/33" }),
    "error plugins[0].ipam.subnet: invalid CIDR address: 10.60.0.0/33",
  ],
  [
    "values that do not fit together",
    leased({ subnet: "10.60.0.5/24" }),
    "error plugins[0].ipam.subnet: 10.60.0.5/24 has host bits set; write 10.60.0.0/24",
  ],
  [
    "a value that is out of range",
    list([{ type: "bridge", vlan: 5000, ipam: IPAM }]),
    "error plugins[0].vlan: invalid VLAN ID 5000 (must be between 0 and 4094)",
  ],
  [
    "two default routes",
    leased({ routes: [{ dst: "0.0.0.0/0" }, { dst: "0.0.0.0/0", gw: "::1" }] }),
    "warning plugins[0].ipam.routes[1]: a second route to 0.0.0.0/0; only one of them takes effect",
    "error plugins[0].ipam.routes[1].gw: ::1 is not an IPv4 address, as 0.0.0.0/0 is",
  ],
  [
    "no IPAM",
    list([{ type: "ptp", ipam: {} }]),
    'error plugins[0].ipam: ptp needs "ipam", an IPAM plugin',
  ],
  ["a bridge without IPAM", list([{ type: "bridge" }])],
  [
    "a plugin for IPAM that does no IPAM",
    list([{ type: "bridge", ipam: { type: "ptp", subnet: "x" } }]),
    "error plugins[0].ipam.type: ptp is not an IPAM plugin",
  ],
  [
    "a limit that limits nothing",
    list([PTP, { type: "bandwidth" }]),
    'warning plugins[1]: bandwidth limits nothing: neither a rate nor the capability "bandwidth" is set',
  ],
  [
    "a misspelt capability",
    list([{ ...PTP, capabilities: { ipRangs: true, ips: true } }]),
    'warning plugins[0].capabilities.ipRangs: ptp does not use it; did you mean "ipRanges"?',
  ],
  [
    "a version that nobody knows",
    list([PTP], { cniVersion: "9.9.9" }),
    "warning cniVersion: known versions are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0",
    'error plugins[0]: plugin ptp does not support config version "9.9.9"',
  ],
  [
    "a list before there were lists",
    list([PTP], { cniVersion: "0.2.0" }),
    "warning cniVersion: lists of plugins require 0.3.0 or later",
  ],
  [
    "two plugins that make the interface",
    list([PTP, { type: "bridge", ipam: IPAM }]),
    "error plugins[1]: bridge would create the interface that ptp creates",
  ],
  [
    "a chained plugin that comes first",
    list([{ type: "sbr" }]),
    "error plugins[0]: sbr must come after another plugin",
  ],
  [
    "firewall that comes first",
    list([{ type: "firewall" }, PTP]),
    "error plugins[0]: firewall must come after another plugin",
  ],
  [
    "an IPAM plugin with a daemon",
    list([{ type: "macvlan", master: "up0", ipam: { type: "dhcp" } }]),
  ],
  [
    "a VLAN without IPAM",
    list([{ type: "vlan", master: "up0", vlanId: 5 }]),
  ],
  [
    "ptp without IPAM",
    list([{ type: "ptp" }]),
    'error plugins[0].ipam: ptp needs "ipam", an IPAM plugin',
  ],
  [
    "an unknown mode of macvlan",
    list([{ type: "macvlan", master: "up0", mode: "l2" }]),
    'error plugins[0].mode: unknown macvlan mode: "l2"',
  ],
  [
    "an unknown mode of ipvlan",
    list([{ type: "ipvlan", master: "up0", mode: "bridge", ipam: IPAM }]),
    'error plugins[0].mode: unknown ipvlan mode: "bridge"',
  ],
  [
    "an invalid MAC",
    list([{ type: "tap", mac: "c2:11" }]),
    'error plugins[0].mac: Cannot use MAC "c2:11"',
  ],
  [
    "an invalid MAC of macvlan",
    list([{ type: "macvlan", master: "up0", mac: "01:00:5e:00:00:01" }]),
    'error plugins[0].mac: Cannot use MAC "01:00:5e:00:00:01"',
  ],
  [
    "vlan without a master",
    list([{ type: "vlan", vlanId: 5, ipam: IPAM }]),
    'error plugins[0]: "master" field is required. It specifies the host interface name to create the VLAN for',
  ],
  [
    "a VLAN out of range",
    list([{ type: "vlan", master: "up0", vlanId: 4095, ipam: IPAM }]),
    "error plugins[0].vlanId: invalid VLAN ID 4095 (must be between 0 and 4094)",
  ],
  [
    "a parameter outside of net",
    list([PTP, { type: "tuning", sysctl: { "kernel.shmmax": "1" } }]),
    'error plugins[1].sysctl.kernel.shmmax: invalid net sysctl key: "kernel/shmmax"',
  ],
  [
    "host-device without a device",
    list([{ type: "host-device", devcie: "ens5" }]),
    'error plugins[0]: no device: set "device", "hwaddr", "kernelpath", "pciBusID", or the capability "deviceID"',
    'warning plugins[0].devcie: host-device has no such key; did you mean "device"?',
  ],
  [
    "host-device with a device",
    list([{ type: "host-device", hwAddr: "c2:11:22:33:44:55" }]),
    'warning plugins[0].hwAddr: usually spelt "hwaddr"',
  ],
  [
    "host-device with the runtime's device",
    list([{ type: "host-device", capabilities: { deviceID: true } }]),
  ],
  [
    "ptp with dhcp",
    list([{ type: "ptp", ipam: { type: "dhcp" } }]),
    "error plugins[0].ipam.type: ptp does not work with dhcp",
  ],
  [
    "ipvlan with the addresses of another plugin",
    list([PTP, { type: "ipvlan", master: "eth0" }]),
  ],
  [
    "a second plugin that makes the interface",
    list([PTP, { type: "macvlan", master: "up0" }]),
    "error plugins[1]: macvlan would create the interface that ptp creates",
  ],
  [
    "the runtime's MAC",
    list([PTP, { type: "tuning", capabilities: { mac: true, ips: true } }]),
    "warning plugins[1].capabilities.ips: tuning does not use it",
  ],
  [
    "flannel, whose delegate uses capabilities and gets ranges",
    list([{
      type: "flannel",
      capabilities: { mac: true },
      delegate: { hairpinMode: true },
      ipam: { type: "host-local", dataDir: "/run/leases" },
    }]),
  ],
  [
    "flannel with a name for its delegate",
    list([{ type: "flannel", delegate: { name: "x" } }]),
    "error plugins[0].delegate: 'delegate' dictionary must not have 'name' field, it'll be set by flannel",
  ],
  [
    "flannel and its delegate",
    list([{ type: "flannel" }, { type: "bridge" }]),
    "error plugins[1]: bridge would create the interface that flannel creates",
  ],
  [
    "a gateway of another subnet",
    fixed({ addresses: [{ address: "10.1.0.2/24", gateway: "10.2.0.1" }] }),
    "warning plugins[0].ipam.addresses[0].gateway: 10.2.0.1 is not in 10.1.0.2/24: containers reach it on the link",
  ],
  [
    "a name for an address",
    list([{ ...PTP, dns: { nameservers: ["10.0.0.1", "dns.example"] } }]),
    'warning plugins[0].dns.nameservers[1]: "dns.example" is not an IP address',
  ],
  [
    "a misspelt key of the list",
    list([PTP], { disablecheck: true }),
    'warning disablecheck: no such key; did you mean "disableCheck"?',
  ],
  [
    "a repeated key",
    '{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"ptp","type":"bridge"}]}',
    "warning plugins[0].type: the key is repeated: it is also on line 1; the last one wins",
  ],
  ["a chain", list([{ ...SHAPED, type: "chain", plugins: [PTP, SHAPED] }])],
  [
    "a chain that hides what its plugins want",
    list([{ type: "chain", dns: {}, plugins: [{ ...PTP, mtu: 0.5 }, SHAPED] }]),
    'error plugins[0].capabilities: "bandwidth" is missing: a plugin of the chain declares it, but the runtime does not pass it on',
    "error plugins[0].dns: no effect in a chain; set it in one of its plugins",
    "error plugins[0].plugins[0].mtu: expected an integer, got 0.5",
  ],
  [
    "a chain of something else",
    list([{ type: "chain", plugins: [{}] }]),
    "error plugins[0].plugins[0].type: missing",
  ],
  [
    "a chain of something else, with its key in another case",
    list([{ type: "chain", Plugins: [{}] }]),
    "error plugins[0].plugins[0].type: missing",
  ],
  [
    "a type in two spellings, of which a runtime takes the last in its order",
    list([{ Type: "ptp", type: "chain", plugins: [{}] }]),
    'warning plugins[0].type: the key is repeated: it is also on line 1, as "Type"; the last one wins',
    "error plugins[0].plugins[0].type: missing",
  ],
  [
    "a type of null and one in another spelling",
    list([{ ...PTP, type: null, Type: "ptp" }]),
    'warning plugins[0].Type: the key is repeated: it is also on line 1, as "type"; the last one wins',
    'warning plugins[0].Type: usually spelt "type"',
  ],
  [
    "a plugin that is missing",
    list([{ type: "brigde", ipam: { type: "host-locl" } }]),
    'error plugins[0].type: failed to find plugin "brigde" in path []; did you mean "bridge"?',
    'error plugins[0].ipam.type: failed to find plugin "host-locl" in path []; did you mean "host-local"?',
  ],
  [
    "a bare plugin",
    JSON.stringify({ cniVersion: "1.1.0", name: "n", ...PTP }),
    "error : it is a bare plugin: name the file *.conf, or turn it into a list with cni convert --to list",
  ],
  [
    "a directory of leases that cannot be there",
    leased({ dataDir: "/proc/none" }),
    'warning plugins[0].ipam.dataDir: nothing can be written to "/proc/none"',
  ],
];

Deno.test("validate reports problems of a configuration", async (t) => {
  await eachRow(t, rows, async ([, content, ...problems]) => {
    const found = await validate(content);
    assertEquals(found.problems, problems);
    const valid = !problems.some((problem) => problem.startsWith("error"));
    assertEquals([found.valid, found.exitCode], [valid, valid ? 0 : 1]);
  });
});

Deno.test("validate --strict fails on warnings", async () => {
  const warned = await validate(list([{ ...PTP, ipMask: true }]), "--strict");
  assertEquals([warned.valid, warned.exitCode], [false, 1]);
  const fine = await validate(list([PTP]), "--strict");
  assertEquals([fine.valid, fine.exitCode], [true, 0]);
});

Deno.test("validate names plugins without key checks", async () => {
  const plugins = [{ ...PTP, ipam: { type: "other" } }, {
    type: "other",
    x: 1,
  }];
  const { problems, notChecked } = await validate(list(plugins));
  assertEquals([problems, notChecked], [[], ["other"]]);
});
