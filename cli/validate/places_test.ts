import { assertEquals } from "@std/assert";
import { eachRow } from "../../tests/_harness/table.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";

// Mistakes in files as people write them. The mark is where the finding must
// point, in the file, by line and column.
const MARK = "▸";

/** A list with plugins. */
const pods = (...plugins: string[]): string =>
  `{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    ${plugins.join(",\n    ")}
  ]
}
`;
const IPAM = '{ "type": "host-local", "subnet": "10.60.0.0/24" }';
const BRIDGE = `{ "type": "bridge", "ipam": ${IPAM} }`;
/** A bridge with keys of host-local. */
const leased = (...keys: string[]): string =>
  pods(`{
      "type": "bridge",
      "ipam": {
        "type": "host-local",
        ${keys.join(",\n        ")}
      }
    }`);
const bridged = (...keys: string[]): string =>
  pods(`{
      "type": "bridge",
      ${[...keys, `"ipam": ${IPAM}`].join(",\n      ")}
    }`);
const chained = (type: string, ...keys: string[]): string =>
  pods(
    BRIDGE,
    `{
      "type": "${type}",
      ${keys.join(",\n      ")}
    }`,
  );
const joined = (type: string, ...keys: string[]): string =>
  pods(`{
      "type": "${type}",
      "master": "eth1",
      ${[...keys, `"ipam": ${IPAM}`].join(",\n      ")}
    }`);
const assigned = (type: string, ...keys: string[]): string =>
  pods(`{
      "type": "macvlan",
      "master": "eth1",
      "ipam": {
        "type": "${type}",
        ${keys.join(",\n        ")}
      }
    }`);
const definition = (config: string): string =>
  `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: storage
  namespace: prod
spec:
  config: ${config}
`;
const portmap = (...keys: string[]): string =>
  chained("portmap", '"capabilities": { "portMappings": true }', ...keys);

/** What is wrong, the file's name, its text with the mark, and the finding. */
type Row = readonly [name: string, text: string, finding: string];

const LISTS: readonly Row[] = [
  [
    "a letter is missing",
    bridged('▸"isDefaultGatway": true'),
    'warning plugins[0].isDefaultGatway: bridge has no such key; did you mean "isDefaultGateway"?',
  ],
  [
    "a bridge's key in ipam",
    leased('"subnet": "10.1.0.0/24"', '▸"ipMasq": true'),
    'warning plugins[0].ipam.ipMasq: host-local has no such key; it belongs next to "ipam"',
  ],
  [
    "a check of addresses in a mode that asks nobody",
    joined("ipvlan", '"conflictCheck": ▸true', '"mode": "l3"'),
    'error plugins[0].conflictCheck: needs mode "l2", got "l3": other modes cannot probe',
  ],
  [
    "a check of addresses without addresses",
    pods(`{
      "type": "vlan",
      "master": "eth1",
      "vlanId": 5,
      ▸"conflictCheck": true
    }`),
    'warning plugins[0].conflictCheck: no effect without "ipam"',
  ],
  [
    "whereabouts' key for host-local",
    leased('"subnet": "10.1.0.0/24"', '▸"range": "10.1.0.0/24"'),
    'warning plugins[0].ipam.range: host-local has no such key; did you mean "rangeStart"?',
  ],
  [
    "a start with a prefix length",
    leased('"subnet": "10.1.0.0/24"', '"rangeStart": ▸"10.1.0.10/24"'),
    "error plugins[0].ipam.rangeStart: invalid IP address: 10.1.0.10/24; write 10.1.0.10",
  ],
  [
    "a gateway with a prefix length",
    leased('"subnet": "10.1.0.0/24"', '"gateway": ▸"10.1.0.1/24"'),
    "error plugins[0].ipam.gateway: invalid IP address: 10.1.0.1/24; write 10.1.0.1",
  ],
  [
    "a list of subnets",
    leased('"subnet": ▸["10.1.0.0/24"]'),
    "error plugins[0].ipam.subnet: expected a string, got an array",
  ],
  [
    "a number for a directory",
    leased('"subnet": "10.1.0.0/24"', '"dataDir": ▸5'),
    'error plugins[0].ipam.dataDir: expected a string, got a number; write "5" in quotes',
  ],
  [
    "three brackets",
    leased('"ranges": [[▸[{ "subnet": "10.1.0.0/24" }]]]'),
    "error plugins[0].ipam.ranges[0][0]: expected an object, got an array",
  ],
  [
    "a next hop with a prefix length",
    leased(
      '"subnet": "10.1.0.0/24"',
      '"routes": [{ "dst": "0.0.0.0/0", "gw": ▸"10.1.0.1/32" }]',
    ),
    "error plugins[0].ipam.routes[0].gw: invalid IP address: 10.1.0.1/32; write 10.1.0.1",
  ],
  [
    "a destination with host bits",
    leased('"subnet": "10.1.0.0/24"', '"routes": [{ "dst": ▸"10.9.0.5/24" }]'),
    "warning plugins[0].ipam.routes[0].dst: 10.9.0.5/24 has host bits set: 10.9.0.0/24",
  ],
  [
    "a metric in quotes",
    leased(
      '"subnet": "10.1.0.0/24"',
      '"routes": [{ "dst": "10.9.0.0/16", "priority": ▸"10" }]',
    ),
    "error plugins[0].ipam.routes[0].priority: expected a number, got a string; write 10 without quotes",
  ],
  [
    "an end outside",
    leased('"subnet": "10.1.0.0/24"', '"rangeEnd": ▸"10.1.1.20"'),
    "error plugins[0].ipam.rangeEnd: 10.1.1.20 is not in 10.1.0.0/24",
  ],
  [
    "an IPv6 subnet with host bits",
    leased('"ranges": [[{ "subnet": ▸"fd00::5/64" }]]'),
    "error plugins[0].ipam.ranges[0][0].subnet: fd00::5/64 has host bits set; write fd00::/64",
  ],
  [
    "room for one container",
    leased('"ranges": [[{ "subnet": ▸"10.1.0.4/31" }]]'),
    "error plugins[0].ipam.ranges[0][0].subnet: 10.1.0.4/31 has one address for containers: a second container gets none; also set rangeStart if that is intended",
  ],
  [
    "room for one container, IPv6",
    leased('"ranges": [[{ "subnet": ▸"fd00::4/127" }]]'),
    "error plugins[0].ipam.ranges[0][0].subnet: fd00::4/127 has one address for containers: a second container gets none; also set rangeStart if that is intended",
  ],
  [
    "only an address",
    leased(
      '"ranges": [[{ "subnet": "10.1.0.0/24" }], [{ "subnet": ▸"10.2.0.7/32" }]]',
    ),
    "error plugins[0].ipam.ranges[1][0].subnet: 10.2.0.7/32 has one address for containers: a second container gets none; also set rangeStart if that is intended",
  ],
  [
    "all excluded",
    leased(
      '"subnet": "10.1.0.0/30"',
      '"rangeStart": ▸"10.1.0.2"',
      '"exclude": ["10.1.0.2"]',
    ),
    'error plugins[0].ipam.rangeStart: no address is left: the gateway and "exclude" cover the whole range',
  ],
  [
    "an exclusion outside",
    leased(
      '"subnet": "10.1.0.0/24"',
      '"exclude": ["10.1.0.9", ▸"10.2.0.0/28"]',
    ),
    "error plugins[0].ipam.exclude[1]: 10.2.0.0/28 is not in 10.1.0.0/24",
  ],
  [
    "an exclusion with host bits",
    leased('"subnet": "10.1.0.0/24"', '"exclude": [▸"10.1.0.9/28"]'),
    "error plugins[0].ipam.exclude[0]: 10.1.0.9/28 has host bits set; write 10.1.0.0/28",
  ],
  [
    "overlap in a set",
    leased(
      '"ranges": [[{ "subnet": "10.1.0.0/16" }, { "subnet": ▸"10.1.5.0/24" }]]',
    ),
    "error plugins[0].ipam.ranges[0][1].subnet: 10.1.5.0/24 overlaps 10.1.0.0/16 in ipam.ranges[0][0].subnet",
  ],
  [
    "overlap of IPv6 ranges",
    leased(
      '"ranges": [[{ "subnet": "fd00::/48" }], [{ "subnet": ▸"fd00:0:0:1::/64" }]]',
    ),
    "error plugins[0].ipam.ranges[1][0].subnet: fd00:0:0:1::/64 overlaps fd00::/48 in ipam.ranges[0][0].subnet",
  ],
  [
    "families in one set",
    leased(
      '"ranges": [[{ "subnet": "fd00::/64" }, { "subnet": ▸"10.1.5.0/24" }]]',
    ),
    "error plugins[0].ipam.ranges[0][1].subnet: 10.1.5.0/24 is IPv4 in a set of IPv6 ranges; write a set for each family",
  ],
  [
    "a VLAN in quotes",
    bridged('"vlan": ▸"100"'),
    "error plugins[0].vlan: expected a number, got a string; write 100 without quotes",
  ],
  [
    "a trunk's VLAN out of range",
    bridged('"vlanTrunk": [{ "id": 100 }, { "id": ▸5000 }]'),
    "error plugins[0].vlanTrunk[1].id: incorrect trunk id parameter: expected 1 to 4094",
  ],
  [
    "a trunk's misspelt key",
    bridged('"vlanTrunk": [{ ▸"vlan": 100 }]'),
    "warning plugins[0].vlanTrunk[0].vlan: bridge has no such key",
  ],
  [
    "another case",
    bridged('▸"hairpinmode": true'),
    'warning plugins[0].hairpinmode: usually spelt "hairpinMode"',
  ],
  [
    "a mode in capitals",
    joined("macvlan", '"mode": ▸"Bridge"'),
    'error plugins[0].mode: unknown macvlan mode: "Bridge"; write "bridge"',
  ],
  [
    "a number for an interface",
    pods(`{ "type": "macvlan", "master": ▸5, "ipam": ${IPAM} }`),
    'error plugins[0].master: expected a string, got a number; write "5" in quotes',
  ],
  [
    "docker's option",
    joined("macvlan", '▸"macvlan_mode": "bridge"'),
    'warning plugins[0].macvlan_mode: macvlan has no such key; did you mean "mode"?',
  ],
  [
    "ipvlan's mode in capitals",
    joined("ipvlan", '"mode": ▸"L2"'),
    'error plugins[0].mode: unknown ipvlan mode: "L2"; write "l2"',
  ],
  [
    "a VLAN ID in quotes",
    joined("vlan", '"vlanId": ▸"5"'),
    "error plugins[0].vlanId: expected a number, got a string; write 5 without quotes",
  ],
  [
    "a VLAN ID in another case",
    joined("vlan", '▸"vlanID": 5'),
    'warning plugins[0].vlanID: usually spelt "vlanId"',
  ],
  [
    "vlan with bridge's key",
    joined("vlan", '"vlanId": 5', '▸"vlan": 5'),
    'warning plugins[0].vlan: vlan has no such key; did you mean "vlanId"?',
  ],
  [
    "parameters in a list",
    chained("tuning", '"sysctl": ▸["net.core.somaxconn=500"]'),
    "error plugins[1].sysctl: expected an object, got an array",
  ],
  [
    "a parameter as boolean",
    chained("tuning", '"sysctl": { "net.ipv4.conf.all.rp_filter": ▸false }'),
    'error plugins[1].sysctl.net.ipv4.conf.all.rp_filter: expected a string, got a boolean; write "false" in quotes',
  ],
  [
    "an MTU in quotes",
    chained("tuning", '"mtu": ▸"1400"'),
    "error plugins[1].mtu: expected a number, got a string; write 1400 without quotes",
  ],
  [
    "on for true",
    chained("tuning", '"promisc": ▸"on"'),
    "error plugins[1].promisc: expected a boolean, got a string; write true without quotes",
  ],
  [
    "a number for true",
    chained("tuning", '"allmulti": ▸1'),
    "error plugins[1].allmulti: expected a boolean, got a number; write true",
  ],
  [
    "sysctls",
    chained("tuning", '▸"sysctls": { "net.core.somaxconn": "500" }'),
    'warning plugins[1].sysctls: tuning has no such key; did you mean "sysctl"?',
  ],
  [
    "an unknown backend of portmap",
    portmap('"backend": ▸"nft"'),
    'error plugins[1].backend: unrecognized backend "nft"',
  ],
  [
    "two ways to mark",
    portmap('"markMasqBit": 5', '"externalSetMarkChain": ▸"KUBE-MARK-MASQ"'),
    "error plugins[1].externalSetMarkChain: Cannot specify externalSetMarkChain and markMasqBit",
  ],
  [
    "a capability in another case",
    bridged('"capabilities": { ▸"IPs": true }'),
    'warning plugins[0].capabilities.IPs: bridge does not use it; did you mean "ips"?',
  ],
  [
    "capability",
    chained("tuning", '▸"capability": { "mac": true }'),
    'warning plugins[1].capability: tuning has no such key; did you mean "capabilities"?',
  ],
  [
    "1G",
    chained("bandwidth", '"egressRate": ▸"1G"', '"egressBurst": 1000000'),
    "error plugins[1].egressRate: expected a number, got a string; write bits, as a number: 1000000000",
  ],
  [
    "a rate in a capability",
    chained(
      "bandwidth",
      '"capabilities": { "bandwidth": ▸{ "ingressRate": 1000 } }',
    ),
    "error plugins[1].capabilities.bandwidth: expected a boolean, got an object",
  ],
  [
    "nft for nftables",
    chained("firewall", '"backend": ▸"nft"'),
    'error plugins[1].backend: expected "iptables", "firewalld" or "nftables", got "nft"',
  ],
  [
    "an underscore",
    chained("firewall", '"ingressPolicy": ▸"same_bridge"'),
    'error plugins[1].ingressPolicy: unknown ingress policy: "same_bridge"',
  ],
  [
    "a table in quotes",
    chained("vrf", '"vrfname": "blue"', '"table": ▸"100"'),
    "error plugins[1].table: expected a number, got a string; write 100 without quotes",
  ],
  [
    "a misspelt key of vrf",
    chained("vrf", '"vrfname": "blue"', '▸"tabel": 100'),
    'warning plugins[1].tabel: vrf has no such key; did you mean "table"?',
  ],
  [
    "dhcp with a subnet",
    assigned("dhcp", '▸"subnet": "10.1.0.0/24"'),
    "warning plugins[0].ipam.subnet: dhcp has no such key",
  ],
  [
    "address for addresses",
    assigned(
      "static",
      '"addresses": [{ "address": "10.1.0.2/24" }]',
      '▸"address": "10.1.0.2/24"',
    ),
    'warning plugins[0].ipam.address: static has no such key; did you mean "addresses"?',
  ],
  [
    "static's gateway with a prefix length",
    assigned(
      "static",
      '"addresses": [{ "address": "10.1.0.2/24", "gateway": ▸"10.1.0.1/24" }]',
    ),
    "error plugins[0].ipam.addresses[0].gateway: invalid IP address: 10.1.0.1/24; write 10.1.0.1",
  ],
  [
    "a gateway of the other family",
    assigned(
      "static",
      '"addresses": [{ "address": "10.1.0.2/24", "gateway": ▸"fd00::1" }]',
    ),
    "error plugins[0].ipam.addresses[0].gateway: fd00::1 is not an IPv4 address, as 10.1.0.2 is",
  ],
  [
    "a broadcast address",
    assigned("static", '"addresses": [{ "address": ▸"10.1.0.255/24" }]'),
    "warning plugins[0].ipam.addresses[0].address: 10.1.0.255 is the broadcast address of 10.1.0.0/24",
  ],
  [
    "host-local's key for whereabouts",
    assigned(
      "whereabouts",
      '"range": "10.1.0.0/24"',
      '▸"rangeStart": "10.1.0.5"',
    ),
    'warning plugins[0].ipam.rangeStart: whereabouts has no such key; did you mean "range_start"?',
  ],
  [
    "whereabouts' exclusions in a text",
    assigned(
      "whereabouts",
      '"range": "10.1.0.0/24"',
      '"exclude": ▸"10.1.0.5/32"',
    ),
    'error plugins[0].ipam.exclude: expected an array, got a string; write ["10.1.0.5/32"]',
  ],
  [
    "an address for nameservers",
    bridged('"dns": { "nameservers": ["10.0.0.10", ▸"ns1.example.com"] }'),
    'warning plugins[0].dns.nameservers[1]: "ns1.example.com" is not an IP address',
  ],
  [
    "a resolver's key",
    bridged('"dns": { ▸"server": "10.0.0.10" }'),
    'warning plugins[0].dns.server: dns has no such key; did you mean "nameservers"?',
  ],
  [
    "a domain in a list",
    bridged('"dns": { "domain": ▸["example.com"] }'),
    "error plugins[0].dns.domain: expected a string, got an array",
  ],
  [
    "IPAM as a plugin",
    pods(BRIDGE, '{ "type": ▸"host-local", "subnet": "10.1.0.0/24" }'),
    'error plugins[1].type: host-local makes no interface: name it in "ipam" of a plugin that does',
  ],
  [
    "static as a plugin",
    pods('{ "type": ▸"static", "addresses": [] }'),
    'error plugins[0].type: static makes no interface: name it in "ipam" of a plugin that does',
  ],
  [
    "whereabouts as a plugin",
    pods('{ "type": ▸"whereabouts", "range": "10.1.0.0/24" }'),
    'error plugins[0].type: whereabouts makes no interface: name it in "ipam" of a plugin that does',
  ],
  [
    "IPAM in a chain",
    pods('{ "type": "chain", "plugins": [{ "type": ▸"dhcp" }] }'),
    'error plugins[0].plugins[0].type: dhcp makes no interface: name it in "ipam" of a plugin that does',
  ],
  [
    "a misspelt key in a chain",
    pods(
      `{ "type": "chain", "plugins": [{ "type": "bridge", ▸"isGatway": true, "ipam": ${IPAM} }] }`,
    ),
    'warning plugins[0].plugins[0].isGatway: bridge has no such key; did you mean "isGateway"?',
  ],
  [
    "a chain's plugin without a type",
    pods(`{ "type": "chain", "plugins": [${BRIDGE}, ▸{ "mtu": 1400 }] }`),
    "error plugins[0].plugins[1].type: missing",
  ],
  [
    "a misspelt key of flannel's delegate",
    pods('{ "type": "flannel", "delegate": { ▸"isDefaultGatway": true } }'),
    'warning plugins[0].delegate.isDefaultGatway: bridge has no such key; did you mean "isDefaultGateway"?',
  ],
  [
    "a misspelt key of multus' delegate",
    pods(
      `{ "type": "multus", "delegates": [{ "name": "a", "type": "bridge", ▸"ipMask": true, "ipam": ${IPAM} }] }`,
    ),
    'warning plugins[0].delegates[0].ipMask: bridge has no such key; did you mean "ipMasq"?',
  ],
  [
    "multus' delegates in an object",
    pods(
      `{ "type": "multus", "clusterNetwork": "a", "delegates": ▸${BRIDGE} }`,
    ),
    "error plugins[0].delegates: expected an array, got an object; write [{…}]",
  ],
  [
    "a comma is missing",
    pods(BRIDGE).replace('"pods",', '"pods"').replace(
      '"plugins"',
      '▸"plugins"',
    ),
    'error : not JSON: expected a comma, got "\\"plugins\\""',
  ],
  [
    "Python's true",
    bridged('"isGateway": ▸True'),
    'error : not JSON: unexpected "True"; write true',
  ],
  [
    "typographic quotes",
    bridged("▸“isGateway”: true"),
    'error : not JSON: unexpected "“isGateway”"; use double quotes',
  ],
  [
    "a shell's comment",
    bridged('▸# the gateway\n      "isGateway": true'),
    'error : not JSON: unexpected "#"; JSON has no comments',
  ],
  [
    "whereabouts' start outside",
    assigned(
      "whereabouts",
      '"range": "10.1.0.0/24"',
      '"range_start": ▸"10.2.0.5"',
    ),
    "warning plugins[0].ipam.range_start: no effect: 10.2.0.5 is not in 10.1.0.0/24",
  ],
  [
    "whereabouts' end before its start",
    assigned(
      "whereabouts",
      '"range": "10.1.0.0/24"',
      '"range_start": "10.1.0.50"',
      '"range_end": ▸"10.1.0.5"',
    ),
    "error plugins[0].ipam.range_end: 10.1.0.5 is before range_start 10.1.0.50",
  ],
  [
    "whereabouts' gateway outside",
    assigned("whereabouts", '"range": "10.1.0.0/24"', '"gateway": ▸"10.2.0.1"'),
    "warning plugins[0].ipam.gateway: 10.2.0.1 is in none of the ranges: containers reach it on the link",
  ],
  [
    "whereabouts' exclusion outside",
    assigned(
      "whereabouts",
      '"range": "10.1.0.0/24"',
      '"exclude": [▸"10.9.0.0/28"]',
    ),
    "warning plugins[0].ipam.exclude[0]: no effect: 10.9.0.0/28 is not in 10.1.0.0/24",
  ],
  [
    "whereabouts' ranges overlap",
    assigned(
      "whereabouts",
      '"ipRanges": [{ "range": "10.1.0.0/24" }, { "range": ▸"10.1.0.0/25" }]',
    ),
    "warning plugins[0].ipam.ipRanges[1].range: 10.1.0.0/25 overlaps 10.1.0.0/24 in ipam.ipRanges[0].range",
  ],
  [
    "whereabouts' /31",
    assigned("whereabouts", '"range": ▸"10.1.0.0/31"'),
    "error plugins[0].ipam.range: net mask is too short, subnet 10.1.0.0/31 has no usable IP addresses, it is too small",
  ],
  [
    "a short PCI address",
    pods('{ "type": "host-device", "pciBusID": ▸"1f.6" }'),
    'warning plugins[0].pciBusID: "1f.6" is not like 0000:00:1f.6, with domain, bus, slot and function',
  ],
  [
    "an invalid MAC",
    pods('{ "type": "host-device", "hwaddr": ▸"zz" }'),
    "error plugins[0].hwaddr: invalid MAC address: zz",
  ],
  [
    "two keys for a device",
    pods(
      '{ "type": "host-device", "device": "eth1", "pciBusID": ▸"0000:00:1f.6" }',
    ),
    'warning plugins[0].pciBusID: only one key may name the device: "device" does',
  ],
  [
    "a long name of a VRF",
    chained("vrf", '"vrfname": ▸"a-very-long-name-of-a-vrf"'),
    'error plugins[1].vrfname: Cannot use "a-very-long-name-of-a-vrf" as the name of an interface',
  ],
  [
    "a route by the broadcast address",
    leased(
      '"subnet": "10.1.0.0/24"',
      '"routes": [{ "dst": "10.9.0.0/16", "gw": ▸"10.1.0.255" }]',
    ),
    "error plugins[0].ipam.routes[0].gw: the broadcast address of 10.1.0.0/24 cannot be a gateway",
  ],
  [
    "a default route by the broadcast address",
    pods(`{
      "type": "ptp",
      "ipam": {
        "type": "static",
        "addresses": [{ "address": ▸"10.1.0.5/24", "gateway": "10.1.0.255" }]
      }
    }`),
    "error plugins[0].ipam.addresses[0].address: ADD fails: a route has the gateway 10.1.0.255, the broadcast address",
  ],
  [
    "a gateway that is the broadcast address",
    leased('"subnet": "10.1.0.0/24"', '"gateway": ▸"10.1.0.255"'),
    "warning plugins[0].ipam.gateway: 10.1.0.255 is the broadcast address",
  ],
  [
    "a trunk without a VLAN",
    bridged('"vlanTrunk": [▸{}]'),
    'warning plugins[0].vlanTrunk[0]: no VLAN: set "id", or "minID" and "maxID"',
  ],
  [
    "ipvlan without addresses",
    pods('▸{ "type": "ipvlan", "master": "eth1" }'),
    'error plugins[0].ipam: ipvlan needs "ipam" if it comes first',
  ],
];

/** Files of other kinds, by name. */
const OTHERS:
  readonly (readonly [file: string, text: string, finding: string])[] = [
    [
      "20-pods.conf",
      '{ "cniVersion": "1.0.0", "name": "pods", "type": "bridge", ▸"isGatway": true }',
      'warning isGatway: bridge has no such key; did you mean "isGateway"?',
    ],
    [
      "30-pods.conflist.yaml",
      "▸cniVersion: 1.0.0\nname: pods\nplugins:\n  - type: loopback\n",
      "error : runtimes ignore YAML: write JSON, in a file *.conflist, *.conf or *.json",
    ],
    [
      "json.yaml",
      `▸${pods(BRIDGE)}`,
      "error : runtimes ignore YAML: write JSON, in a file *.conflist, *.conf or *.json",
    ],
    [
      "values.yaml",
      "▸replicas: 3\nimage: nginx\n",
      "error : no network: neither a configuration in JSON nor Kubernetes objects",
    ],
    [
      "empty.yaml",
      "▸",
      "error : no network: neither a configuration in JSON nor Kubernetes objects",
    ],
    ["empty.conf", "▸", "error : it is empty"],
    [
      "literal.yaml",
      definition(
        '|\n    {\n      "cniVersion": "1.0.0",\n      "type": "macvlan",\n      "mode": ▸"Bridge"\n    }',
      ),
      'error mode: unknown macvlan mode: "Bridge"; write "bridge"',
    ],
    [
      "folded.yaml",
      definition(
        '>\n    { "cniVersion": "1.0.0",\n      "type": "bridge", ▸"isGatway": true }',
      ),
      'warning isGatway: bridge has no such key; did you mean "isGateway"?',
    ],
    [
      "quoted.yaml",
      definition(
        `'{ "cniVersion": "1.0.0", "type": "ipvlan", "master": "eth1", "mode": ▸"L2", "ipam": ${IPAM} }'`,
      ),
      'error mode: unknown ipvlan mode: "L2"; write "l2"',
    ],
    [
      "broken.yaml",
      definition(`|\n    { "cniVersion": "1.0.0"\n      ▸"type": "macvlan" }`),
      'error : not JSON: expected a comma, got "\\"type\\""',
    ],
    [
      "path.yaml",
      definition(`'{ "cniVersion": "1.0.0", "type": ▸"/opt/cni/bin/bridge" }'`),
      'error type: expected a name, got a path; write "bridge"',
    ],
    [
      "ipam.yaml",
      definition(
        `'{ "cniVersion": "1.0.0", "type": ▸"whereabouts", "range": "10.1.0.0/24" }'`,
      ),
      'error type: whereabouts makes no interface: name it in "ipam" of a plugin that does',
    ],
    [
      "range.yaml",
      definition(
        `|\n    { "cniVersion": "1.0.0", "type": "bridge",\n      "ipam": { "type": "host-local", "ranges": [[{ "subnet": "10.1.0.0/24", "rangeStart": ▸"10.2.0.5" }]] } }`,
      ),
      "error ipam.ranges[0][0].rangeStart: 10.2.0.5 is not in 10.1.0.0/24",
    ],
    [
      "map.yaml",
      `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: cni }\ndata:\n  10-pods.conflist: |\n    { "cniVersion": "1.0.0", "name": "pods",\n      "plugins": [{ "type": "bridge", "mtu": ▸"1400" }] }\n`,
      "error plugins[0].mtu: expected a number, got a string; write 1400 without quotes",
    ],
    [
      "99-loopback.conf",
      '{ "cniVersion": "1.0.0", "name": ▸"", "type": "loopback" }',
      "warning name: missing: CRI-O names the network after the file; cni and multus do not find it",
    ],
    [
      "99-loopback.conf",
      '▸{ "cniVersion": "1.0.0", "type": "loopback" }',
      "warning name: missing: CRI-O names the network after the file; cni and multus do not find it",
    ],
    [
      "pod.yaml",
      `apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  annotations:\n    k8s.v1.cni.cncf.io/networks: '▸[{"namespace": "prod"}]'\n`,
      "error : k8s.v1.cni.cncf.io/networks: parsePodNetworkAnnotation: item 1 names no network",
    ],
    [
      "pod.yaml",
      `apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  annotations:\n    k8s.v1.cni.cncf.io/networks: '▸[{"name": "default/my-nad"}]'\n`,
      'error : k8s.v1.cni.cncf.io/networks: parsePodNetworkAnnotation: item 1: no object can have the name "default/my-nad"; the namespace has its own key, "namespace"',
    ],
    [
      "object.yaml",
      `apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata:\n  name: n1\nspec:\n  config:\n    ▸cniVersion: "1.0.0"\n    type: macvlan\n`,
      "error : spec.config: expected JSON in a string, such as config: |",
    ],
    [
      "version.yaml",
      `apiVersion: v1\nkind: List\nitems:\n- apiVersion: ▸k8s.cni.cncf.io/v1beta1\n  kind: NetworkAttachmentDefinition\n  metadata: { name: n1 }\n`,
      "error : apiVersion: expected k8s.cni.cncf.io/v1, got k8s.cni.cncf.io/v1beta1",
    ],
    [
      "name.yaml",
      `apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata:\n  name: ▸My_Net\nspec:\n  config: '{ "cniVersion": "1.0.0", "type": "macvlan" }'\n`,
      'error : metadata.name: the API server refuses "My_Net": use lower case letters, digits, dashes and dots',
    ],
    [
      "template.yaml",
      `apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata:\n  name: ▸{{ .Values.name }}\nspec:\n  config: '{ "cniVersion": "1.0.0", "type": "macvlan" }'\n`,
      "error : a template: render it first, for instance with helm template",
    ],
    [
      "operator.yaml",
      `apiVersion: operator.openshift.io/v1\nkind: Network\nmetadata: { name: cluster }\nspec:\n  additionalNetworks:\n  - name: lan\n    type: Raw\n    rawCNIConfig: |-\n      { "cniVersion": "1.0.0", "name": "lan", "type": "macvlan",\n        "master": "eth1", "mode": ▸"brige" }\n`,
      'error mode: unknown macvlan mode: "brige"',
    ],
    [
      "routes.yaml",
      `apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  annotations:\n    k8s.v1.cni.cncf.io/networks: '▸[{"name": "storage", "dev.cni.routes": [{"dst": "10.5.0.0/16", "via": "10.1.0.1"}]}]'\n`,
      'error : k8s.v1.cni.cncf.io/networks: parsePodNetworkAnnotation: network "storage": dev.cni.routes[0]: unknown key "via"',
    ],
    [
      "deployment.yaml",
      `apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: web }\nspec:\n  template:\n    metadata:\n      annotations:\n        k8s.v1.cni.cncf.io/networks: ▸prod/storage@eth1@eth2\n`,
      "error : k8s.v1.cni.cncf.io/networks: parsePodNetworkAnnotation: parsePodNetworkObjectName: Invalid network object (failed at '@')",
    ],
  ];

Deno.test("validate names a mistake by file, line, column and key", async (t) => {
  using directory = new PluginDirectory();
  const rows = [
    ...LISTS.map(([name, ...row]) => [name, "10.conflist", ...row] as const),
    ...OTHERS.map(([file, ...row]) => [file, file, ...row] as const),
  ];
  await eachRow(t, rows, async ([, name, text, expected]) => {
    const before = text.split(MARK)[0]?.split("\n") ?? [];
    const column = [...before.at(-1) ?? ""].length + 1;
    const file = directory.addFile(name, text.replace(MARK, ""));
    const { stdout } = await runCni(
      ...["validate", file, "--cni-path=/dev/null", "--conf-dir=/dev/null"],
      "--json",
    );
    const found = JSON.parse(stdout).problems.map(
      ({ line, column, severity, path, message }: Record<string, string>) =>
        `${line}:${column} ${severity} ${path}: ${message}`,
    );
    assertEquals(found, [`${before.length}:${column} ${expected}`]);
  });
});
