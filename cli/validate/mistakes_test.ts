import { assert, assertEquals } from "@std/assert";
import { pluginNames } from "../../plugins/registry.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";

// Mistakes that platform engineers make, each in a file of its own.
const IPAM = { type: "host-local", subnet: "10.60.0.0/24" };
const PTP = { type: "ptp", ipam: IPAM };
const list = (plugins: unknown, more: object = {}): string =>
  JSON.stringify({ cniVersion: "1.1.0", name: "bad", plugins, ...more });
const leased = (k: object): string =>
  list([{ type: "ptp", ipam: { ...IPAM, ...k } }]);
const fixed = (k: object): string =>
  list([{ type: "ptp", ipam: { type: "static", ...k } }]);
const whereabouts = (k: object): string =>
  list([{
    type: "macvlan",
    master: "eth0",
    ipam: {
      type: "whereabouts",
      kubernetes: { kubeconfig: "/etc/kubeconfig" },
      ...k,
    },
  }]);
const bridged = (k: object): string =>
  list([{ type: "bridge", ipam: IPAM, ...k }]);
const BANDWIDTH = {
  type: "bandwidth",
  ingressRate: 1000000,
  ingressBurst: 1000000,
};

const rows: [name: string, content: string, ...problems: string[]][] = [
  [
    "conditions of the other family",
    list([PTP, {
      type: "portmap",
      capabilities: { portMappings: true },
      conditionsV4: ["ip", "saddr", "{ 10.0.0.0/8,", "fd00::/8 }"],
      conditionsV6: ["ip", "saddr", "10.0.0.0/8"],
    }]),
    'error plugins[1].conditionsV4[3]: "fd00::/8" is for IPv6 packets: ADD of a container with ports fails; move the condition to conditionsV6',
    'error plugins[1].conditionsV6[0]: "ip" is for IPv4 packets: ADD of a container with ports fails; move the condition to conditionsV4',
  ],
  [
    "conditions of iptables for the other family",
    list([PTP, {
      type: "portmap",
      capabilities: { portMappings: true },
      conditionsV4: ["!", "-d", "2001:db8::1"],
      conditionsV6: ["!", "-s", "192.0.2.0/24"],
    }]),
    'error plugins[1].conditionsV4[2]: "2001:db8::1" is for IPv6 packets: ADD of a container with ports fails; move the condition to conditionsV6',
    'error plugins[1].conditionsV6[2]: "192.0.2.0/24" is for IPv4 packets: ADD of a container with ports fails; move the condition to conditionsV4',
  ],
  [
    "conditions of their own family",
    list([PTP, {
      type: "portmap",
      backend: "nftables",
      capabilities: { portMappings: true },
      conditionsV4: [
        ...["ip", "saddr", "10.0.0.1-10.0.0.9", "iifname", "ip6", "tcp"],
        ...["sport", "1000-2000", "ether", "saddr", "aa:bb:cc:dd:ee:ff"],
        ...["comment", '"not fd00::/8"'],
      ],
      conditionsV6: ["ip6", "saddr", "fd00::/8", "comment", '"no 10.0.0.1"'],
    }]),
  ],
  [
    "a gateway outside the subnet",
    leased({ subnet: "10.60.0.0/24", gateway: "192.0.2.1" }),
    "warning plugins[0].ipam.gateway: 192.0.2.1 is not in 10.60.0.0/24: containers reach it on the link",
  ],
  [
    "a gateway of the other family",
    leased({ subnet: "10.60.0.0/24", gateway: "fd00::1" }),
    "error plugins[0].ipam.gateway: fd00::1 is not an IPv4 address, as 10.60.0.0/24 is",
  ],
  [
    "a fixed address with a gateway of the other family",
    fixed({ addresses: [{ address: "10.60.0.9/24", gateway: "fd00::1" }] }),
    "error plugins[0].ipam.addresses[0].gateway: fd00::1 is not an IPv4 address, as 10.60.0.9 is",
  ],
  [
    "an entry of static with a gateway only, where nobody requests an address",
    fixed({ addresses: [{ gateway: "10.60.0.1" }] }),
    'error plugins[0].ipam.addresses[0].address: missing: without the capability "ips" no pod can request one',
  ],
  [
    "a gateway of a destination on the link",
    leased({ routes: [{ dst: "10.9.0.0/16", gw: "10.60.0.1", scope: 253 }] }),
    "error plugins[0].ipam.routes[0].gw: 10.60.0.1: a route of scope 253 must not have a gateway",
  ],
  [
    "a range that ends before it starts",
    whereabouts({ range: "10.0.0.9-10.0.0.5/24" }),
    "error plugins[0].ipam.range: 10.0.0.5 is before 10.0.0.9",
  ],
  [
    "debug writes where runtimes read",
    list([{ ...PTP }, {
      type: "debug",
      cniOutput: "/etc/cni/net.d/../net.d/debug.conf",
    }]),
    "error plugins[1].cniOutput: runtimes read each file of /etc/cni/net.d with this ending as a network, and may find none if one is malformed: name a file elsewhere",
  ],
  [
    "debug writes elsewhere",
    list([{ ...PTP }, {
      type: "debug",
      cniOutput: "/etc/cni/net.d/debug.log",
    }]),
  ],
  [
    "mtu abc",
    list([{ ...PTP, mtu: "abc" }]),
    "error plugins[0].mtu: expected a number, got a string",
  ],
  [
    "mtu -1",
    list([{ ...PTP, mtu: -1 }]),
    "warning plugins[0].mtu: negative, which means the default",
  ],
  [
    "mtu 9e6",
    list([{ ...PTP, mtu: 9000000 }]),
    "error plugins[0].mtu: expected 68 to 65535 bytes, got 9000000",
  ],
  [
    "1450.5",
    list([{ ...PTP, mtu: 1450.5 }]),
    "error plugins[0].mtu: expected an integer, got 1450.5",
  ],
  [
    "mtu '1450'",
    list([{ ...PTP, mtu: "1450" }]),
    "error plugins[0].mtu: expected a number, got a string; write 1450 without quotes",
  ],
  [
    "mtu 1000 v6",
    list([{
      type: "ptp",
      mtu: 1000,
      ipam: { type: "host-local", subnet: "fd00::/64" },
    }]),
    "error plugins[0].mtu: IPv6 needs at least 1280 bytes, got 1000",
  ],
  [
    "ipmasq",
    list([{ ...PTP, ipmasq: true }]),
    'warning plugins[0].ipmasq: usually spelt "ipMasq"',
  ],
  [
    "ipMasq yes",
    list([{ ...PTP, ipMasq: "yes" }]),
    "error plugins[0].ipMasq: expected a boolean, got a string; write true without quotes",
  ],
  [
    "ipMask",
    list([{ ...PTP, ipMask: true }]),
    'warning plugins[0].ipMask: ptp has no such key; did you mean "ipMasq"?',
  ],
  [
    "isGatway",
    bridged({ isGatway: true }),
    'warning plugins[0].isGatway: bridge has no such key; did you mean "isGateway"?',
  ],
  [
    "no subnet",
    list([{ type: "ptp", ipam: { type: "host-local" } }]),
    "error plugins[0].ipam: no IP ranges specified",
  ],
  [
    "/33",
    leased({ subnet: "10.60.0.0/33" }),
    "error plugins[0].ipam.subnet: invalid CIDR address: 10.60.0.0/33",
  ],
  [
    "host bits",
    leased({ subnet: "10.60.0.5/24" }),
    "error plugins[0].ipam.subnet: 10.60.0.5/24 has host bits set; write 10.60.0.0/24",
  ],
  [
    "no prefix",
    leased({ subnet: "10.60.0.0" }),
    "error plugins[0].ipam.subnet: invalid CIDR address: 10.60.0.0; write a prefix length too, such as 10.60.0.0/24",
  ],
  [
    "gw bad",
    leased({ gateway: "10.60.0.300" }),
    "error plugins[0].ipam.gateway: invalid IP address: 10.60.0.300",
  ],
  [
    "ranges flat",
    list([{
      type: "ptp",
      ipam: { type: "host-local", ranges: [{ subnet: "10.60.0.0/24" }] },
    }]),
    "error plugins[0].ipam.ranges[0]: expected an array, got an object; write [[{…}]]",
  ],
  [
    "start outside",
    leased({ rangeStart: "10.61.0.5" }),
    "error plugins[0].ipam.rangeStart: 10.61.0.5 is not in 10.60.0.0/24",
  ],
  [
    "default end before start",
    leased({ rangeStart: "10.60.0.255" }),
    "error plugins[0].ipam.rangeStart: invalid range set 0: RangeStart 10.60.0.255 is after RangeEnd 10.60.0.254 in network 10.60.0.0/24",
  ],
  [
    "end before start",
    leased({ rangeStart: "10.60.0.10", rangeEnd: "10.60.0.5" }),
    "error plugins[0].ipam.rangeStart: rangeStart 10.60.0.10 is after rangeEnd 10.60.0.5",
  ],
  [
    "overlap",
    list([{
      type: "ptp",
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "10.60.0.0/24" }], [{ subnet: "10.60.0.0/25" }]],
      },
    }]),
    "error plugins[0].ipam.ranges[1][0].subnet: 10.60.0.0/25 overlaps 10.60.0.0/24 in ipam.ranges[0][0].subnet",
  ],
  [
    "v4+v6 in one set",
    list([{
      type: "ptp",
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "10.60.0.0/24" }, { subnet: "fd00::/64" }]],
      },
    }]),
    "error plugins[0].ipam.ranges[0][1].subnet: fd00::/64 is IPv6 in a set of IPv4 ranges; write a set for each family",
  ],
  [
    "no dst",
    leased({ routes: [{}] }),
    "error plugins[0].ipam.routes[0].dst: missing",
  ],
  [
    "routes obj",
    leased({ routes: { dst: "0.0.0.0/0" } }),
    "error plugins[0].ipam.routes: expected an array, got an object; write [{…}]",
  ],
  [
    "routes str",
    leased({ routes: ["0.0.0.0/0"] }),
    'error plugins[0].ipam.routes[0]: expected an object, got a string; write {"dst": "0.0.0.0/0"}',
  ],
  [
    "default",
    leased({ routes: [{ dst: "default" }] }),
    "error plugins[0].ipam.routes[0].dst: invalid CIDR address: default; write 0.0.0.0/0 or ::/0",
  ],
  [
    "default without prefix",
    leased({ routes: [{ dst: "0.0.0.0" }] }),
    "error plugins[0].ipam.routes[0].dst: invalid CIDR address: 0.0.0.0; write 0.0.0.0/0",
  ],
  [
    "IPv6 default without prefix",
    leased({ routes: [{ dst: "::" }] }),
    "error plugins[0].ipam.routes[0].dst: invalid CIDR address: ::; write ::/0",
  ],
  [
    "0/0",
    leased({ routes: [{ dst: "0/0" }] }),
    "error plugins[0].ipam.routes[0].dst: invalid CIDR address: 0/0; write 0.0.0.0/0 or ::/0",
  ],
  [
    "gw outside",
    leased({ routes: [{ dst: "0.0.0.0/0", gw: "10.99.0.1" }] }),
    "warning plugins[0].ipam.routes[0].gw: 10.99.0.1 is in none of the container's subnets: 10.60.0.0/24; containers reach it on the link",
  ],
  [
    "two default",
    leased({
      routes: [{ dst: "0.0.0.0/0" }, { dst: "0.0.0.0/0", gw: "10.60.0.9" }],
    }),
    "warning plugins[0].ipam.routes[1]: a second route to 0.0.0.0/0; only one of them takes effect",
  ],
  [
    "family",
    leased({ routes: [{ dst: "0.0.0.0/0", gw: "fd00::1" }] }),
    "error plugins[0].ipam.routes[0].gw: fd00::1 is not an IPv4 address, as 0.0.0.0/0 is",
  ],
  [
    "v6 route w/o v6 address",
    leased({ routes: [{ dst: "::/0" }] }),
    "warning plugins[0].ipam.routes[0].dst: the container has no IPv6 address",
  ],
  [
    "bridge default + route",
    bridged({
      isDefaultGateway: true,
      ipam: { ...IPAM, routes: [{ dst: "0.0.0.0/0" }] },
    }),
  ],
  [
    "no ipam",
    list([{ type: "ptp" }]),
    'error plugins[0].ipam: ptp needs "ipam", an IPAM plugin',
  ],
  [
    "{}",
    list([{ type: "ptp", ipam: {} }]),
    'error plugins[0].ipam: ptp needs "ipam", an IPAM plugin',
  ],
  [
    "null",
    list([{ type: "ptp", ipam: null }]),
    'error plugins[0].ipam: ptp needs "ipam", an IPAM plugin',
  ],
  [
    "ipam string",
    list([{ type: "ptp", ipam: "host-local" }]),
    'error plugins[0].ipam: expected an object, got a string; write {"type": "host-local", …}',
  ],
  [
    "unknown ipam",
    leased({ gatway: "10.60.0.1" }),
    'warning plugins[0].ipam.gatway: host-local has no such key; did you mean "gateway"?',
  ],
  [
    "ipam array",
    list([{ type: "ptp", ipam: [IPAM] }]),
    "error plugins[0].ipam: expected an object, got an array; write {…} without brackets",
  ],
  [
    "subnet beside ipam",
    list([{ ...PTP, subnet: "10.0.0.0/24" }]),
    'warning plugins[0].subnet: ptp has no such key; it belongs in "ipam"',
  ],
  [
    "bw rate no burst",
    list([PTP, { type: "bandwidth", ingressRate: 1000000 }]),
  ],
  [
    "burst no rate",
    list([PTP, { type: "bandwidth", ingressBurst: 1000000 }]),
    'warning plugins[1]: bandwidth limits nothing: neither a rate nor the capability "bandwidth" is set',
    "error plugins[1].ingressBurst: ingressRate must also be set",
  ],
  [
    "bandwidth after macvlan",
    list([{ type: "macvlan", master: "eth0", ipam: IPAM }, BANDWIDTH]),
  ],
  [
    "keys of a masquerade that is off",
    list([{ ...PTP, ipMasq: false, outboundAddresses: ["192.0.2.9"] }]),
    "warning plugins[0].outboundAddresses: has no effect without ipMasq",
  ],
  [
    "a masquerade of a family that containers do not have",
    list([{
      ...PTP,
      ipMasq: true,
      ipMasqFamilies: [6],
      outboundAddresses: ["2001:db8::9"],
    }]),
    "warning plugins[0].ipMasqFamilies: no effect: containers have no IPv6 addresses",
    "warning plugins[0].outboundAddresses[0]: no effect: containers have no IPv6 addresses",
  ],
  [
    "a masquerade of both families",
    list([{ ...PTP, ipMasq: true, ipMasqFamilies: [4, 6] }]),
  ],
  [
    "a masquerade of a family that a runtime may pass",
    list([{
      ...PTP,
      capabilities: { ips: true },
      ipMasq: true,
      ipMasqFamilies: [6],
    }]),
  ],
  [
    "an address of the host in the containers' range",
    list([{
      type: "macvlan",
      master: "eth0",
      hostAccess: true,
      hostAddresses: ["10.60.0.1", "10.60.0.5", "10.60.0.6", "10.61.0.5"],
      ipam: { ...IPAM, exclude: ["10.60.0.6"] },
    }]),
    'warning plugins[0].hostAddresses[1]: 10.60.0.5 is also in the containers\' range of 10.60.0.0/24: add it to "exclude" of the range',
  ],
  ...["macvlan", "ipvlan"].map((type): [string, string, string] => [
    `addresses of the host without access, ${type}`,
    list([{ type, master: "eth0", hostAddresses: ["192.0.2.9"], ipam: IPAM }]),
    'warning plugins[0].hostAddresses: no effect without "hostAccess": true',
  ]),
  [
    "a check of addresses that the kernel checks",
    list([{
      type: "macvlan",
      master: "eth0",
      conflictCheck: true,
      ipam: { type: "slaac" },
    }]),
    "warning plugins[0].conflictCheck: no effect: the kernel itself checks addresses from router advertisements",
  ],
  [
    "slaac behind a bridge that would be the router",
    list([{ type: "bridge", isGateway: true, ipam: { type: "slaac" } }]),
    "error plugins[0].isGateway: slaac needs a router in the network: the bridge cannot be one",
  ],
  [
    "slaac without router advertisements",
    list([{
      type: "ipvlan",
      master: "eth0",
      mode: "l3",
      ipam: { type: "slaac" },
    }]),
    "error plugins[0].mode: no router advertisement arrives in mode l3: use l2",
  ],
  ...([[6, "no effect"], ["both", ""], [4, ""]] as const).map((
    [family, problem],
  ): [string, string, ...string[]] => [
    `a check of leased addresses, family ${family}`,
    list([{
      type: "macvlan",
      master: "eth0",
      conflictCheck: true,
      ipam: { type: "dhcp", family },
    }]),
    ...problem === "" ? [] : [
      `warning plugins[0].conflictCheck: ${problem}: the kernel itself checks addresses from a DHCPv6 server`,
    ],
  ]),
  [
    "slaac in a version without marks of addresses",
    list([{ type: "macvlan", master: "eth0", ipam: { type: "slaac" } }], {
      cniVersion: "0.2.0",
    }),
    "warning cniVersion: lists of plugins require 0.3.0 or later",
    'error plugins[0].ipam.type: plugin slaac does not support config version "0.2.0"',
  ],
  [
    "bandwidth after a plugin whose interface it cannot limit",
    list([{ type: "dummy", ipam: IPAM }, BANDWIDTH]),
    "error plugins[1]: bandwidth cannot limit the interface of dummy: use ptp or bridge",
  ],
  [
    "bw none",
    list([PTP, { type: "bandwidth" }]),
    'warning plugins[1]: bandwidth limits nothing: neither a rate nor the capability "bandwidth" is set',
  ],
  [
    "caps list",
    list([PTP, { type: "bandwidth", capabilities: ["bandwidth"] }]),
    "error plugins[1].capabilities: expected an object, got an array",
  ],
  [
    "bandwith",
    list([PTP, { type: "bandwidth", capabilities: { bandwith: true } }]),
    'warning plugins[1]: bandwidth limits nothing: neither a rate nor the capability "bandwidth" is set',
    'warning plugins[1].capabilities.bandwith: bandwidth does not use it; did you mean "bandwidth"?',
  ],
  [
    "cap 'true'",
    list([PTP, { type: "bandwidth", capabilities: { bandwidth: "true" } }]),
    "error plugins[1].capabilities.bandwidth: expected a boolean, got a string; write true without quotes",
  ],
  [
    "cap false",
    list([PTP, { type: "bandwidth", capabilities: { bandwidth: false } }]),
    'warning plugins[1]: bandwidth limits nothing: neither a rate nor the capability "bandwidth" is set',
  ],
  [
    "shaped and unshaped",
    list([PTP, {
      ...BANDWIDTH,
      shapedSubnets: ["10.0.0.0/8"],
      unshapedSubnets: ["10.1.0.0/16"],
    }]),
    "error plugins[1].unshapedSubnets: shapedSubnets and unshapedSubnets cannot be combined",
  ],
  [
    "9.9.9",
    list([PTP], { cniVersion: "9.9.9" }),
    "warning cniVersion: known versions are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0",
    'error plugins[0]: plugin ptp does not support config version "9.9.9"',
  ],
  [
    "latest",
    list([PTP], { cniVersion: "latest" }),
    "warning cniVersion: known versions are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0",
    'error plugins[0]: plugin ptp does not support config version "latest"',
  ],
  [
    "missing",
    list([PTP], { cniVersion: undefined }),
    'warning cniVersion: missing, which means "0.1.0"',
  ],
  [
    "number",
    list([PTP], { cniVersion: 1.0 }),
    "error cniVersion: invalid cniVersion type number",
  ],
  [
    "0.2.0",
    list([PTP], { cniVersion: "0.2.0" }),
    "warning cniVersion: lists of plugins require 0.3.0 or later",
  ],
  [
    "two addresses of a family before 0.3.0",
    list([{
      type: "ptp",
      ipam: {
        type: "static",
        addresses: [{ address: "10.1.0.5/24" }, { address: "10.2.0.5/24" }],
      },
    }], { cniVersion: "0.2.0" }),
    "warning cniVersion: lists of plugins require 0.3.0 or later",
    "error plugins[0].ipam.addresses[1].address: a second IPv4 address: before version 0.3.0, results have only one of each family",
  ],
  [
    "1.0",
    list([PTP], { cniVersion: "1.0" }),
    "warning cniVersion: known versions are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0",
    'error plugins[0]: plugin ptp does not support config version "1.0"',
  ],
  [
    "v1.0.0",
    list([PTP], { cniVersion: "v1.0.0" }),
    "warning cniVersion: known versions are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0",
    'error plugins[0]: plugin ptp does not support config version "v1.0.0"',
  ],
  [
    "cniversion",
    list([PTP], { cniVersion: undefined, cniversion: "1.0.0" }),
    'warning cniversion: no such key; did you mean "cniVersion"?',
    'warning cniVersion: missing, which means "0.1.0"',
  ],
  ["cniVersions", list([PTP], { cniVersions: ["1.0.0", "9.9.9"] })],
  ["no name", list([PTP], { name: undefined }), "error name: missing"],
  [
    "name a/b",
    list([PTP], { name: "a/b" }),
    'error name: invalid network name "a/b": it may have letters, digits, underscores, dots and dashes, and starts with a letter or digit',
  ],
  [
    "name empty",
    list([PTP], { name: "" }),
    "error name: missing network name",
  ],
  [
    "name space",
    list([PTP], { name: "my net" }),
    'error name: invalid network name "my net": it may have letters, digits, underscores, dots and dashes, and starts with a letter or digit',
  ],
  [
    "ipam without type",
    list([{ type: "bridge", ipam: { subnet: "10.60.0.0/24" } }]),
    'warning plugins[0].ipam.type: missing, so nothing reads "subnet": name the IPAM plugin',
  ],
  [
    "multus level",
    list([{
      type: "multus",
      clusterNetwork: "pods",
      kubeconfig: "/k",
      logLevel: "loud",
    }]),
    'warning plugins[0].logLevel: expected debug, verbose, error, panic, got "loud"',
  ],
  [
    "whereabouts all excluded",
    whereabouts({ range: "10.60.0.0/28", exclude: ["10.60.0.0/24"] }),
    "error plugins[0].ipam.exclude[0]: 10.60.0.0/24 excludes all addresses of 10.60.0.0/28",
  ],
  [
    "inner version",
    list([{ ...PTP, cniVersion: "0.3.1" }]),
    'warning plugins[0].cniVersion: no effect: the plugin gets the version of the list, "1.1.0"',
  ],
  ["[]", list([]), "error plugins: no plugins in list"],
  [
    "obj",
    list(PTP),
    "error plugins: expected an array, got an object; write [{…}]",
  ],
  ["none", list(undefined), "error plugins: missing"],
  ["plugin", list(undefined, { plugin: [PTP] }), "error plugins: missing"],
  [
    "bare",
    JSON.stringify({ cniVersion: "1.1.0", name: "n", ...PTP }),
    "error it is a bare plugin: name the file *.conf, or turn it into a list with cni convert --to list",
  ],
  [
    "plugin string",
    list(["ptp"]),
    "error plugins[0]: expected an object, got a string",
  ],
  [
    "nested list",
    list([[PTP]]),
    "error plugins[0]: expected an object, got an array",
  ],
  [
    "trailing comma",
    list([PTP]).replace("}}]", "},}]"),
    'error not JSON: expected a key in double quotes, got "}"; remove the comma before it',
  ],
  [
    "comment",
    "// x\n" + list([PTP]),
    "error not JSON: JSON has no comments",
  ],
  [
    "bom",
    "\ufeff" + list([PTP]),
    "error not JSON: it starts with a byte order mark",
  ],
  ["empty", "", "error it is empty"],
  [
    "array",
    "[" + list([PTP]) + "]",
    "error expected an object, got an array",
  ],
  [
    "yaml",
    "cniVersion: 1.0.0\nname: x\n",
    'error not JSON: unexpected "cniVersion"',
  ],
  [
    "single quotes",
    list([PTP]).replaceAll('"', "'"),
    "error not JSON: unexpected \"'cniVersion'\"; use double quotes",
  ],
  [
    "two docs",
    list([PTP]) + list([PTP]),
    'error not JSON: expected the end of the file, got "{"',
  ],
  [
    "truncated",
    list([PTP]).slice(0, 60),
    "error not JSON: expected a key in double quotes, got the end",
  ],
  [
    "10M",
    list([PTP, { ...BANDWIDTH, ingressRate: "10M" }]),
    "error plugins[1].ingressRate: expected a number, got a string; write bits, as a number: 10000000",
  ],
  [
    "negative",
    list([PTP, { ...BANDWIDTH, ingressRate: -1 }]),
    "error plugins[1].ingressRate: expected an integer from 0 to 2^64 - 1",
  ],
  [
    "burst huge",
    list([PTP, { ...BANDWIDTH, ingressBurst: 1e12 }]),
    "error plugins[1].ingressBurst: more than 4 GB; the unit is bits",
  ],
  [
    "rate 0 burst",
    list([PTP, { ...BANDWIDTH, ingressRate: 0 }]),
    'warning plugins[1]: bandwidth limits nothing: neither a rate nor the capability "bandwidth" is set',
    "error plugins[1].ingressBurst: ingressRate must also be set",
  ],
  ["tiny", list([PTP, { ...BANDWIDTH, ingressRate: 7 }])],
  [
    "bw unknown",
    list([PTP, { ...BANDWIDTH, rate: 5 }]),
    "warning plugins[1].rate: bandwidth has no such key",
  ],
  [
    "two bw",
    list([PTP, BANDWIDTH, BANDWIDTH]),
    "warning plugins[2]: a second bandwidth; one per network is enough",
  ],
  [
    "two makers",
    list([PTP, { type: "bridge", ipam: IPAM }]),
    "error plugins[1]: bridge would create the interface that ptp creates",
  ],
  [
    "first",
    list([BANDWIDTH, PTP]),
    "error plugins[0]: bandwidth must come after another plugin",
  ],
  [
    "ipam ptp",
    list([{ type: "ptp", ipam: { type: "ptp" } }]),
    "error plugins[0].ipam.type: ptp is not an IPAM plugin",
  ],
  [
    "host-locl",
    list([{ type: "ptp", ipam: { type: "host-locl" } }]),
    'error plugins[0].ipam.type: failed to find plugin "host-locl" in path []; did you mean "host-local"?',
  ],
  [
    "path",
    list([{ ...PTP, type: "/opt/cni/bin/ptp" }]),
    'error plugins[0].type: expected a name, got a path; write "ptp"',
  ],
  [
    "../ptp",
    list([{ ...PTP, type: "../ptp" }]),
    'error plugins[0].type: expected a name, got a path; write "ptp"',
  ],
  [
    "type empty",
    list([{ ...PTP, type: "" }]),
    "error plugins[0].type: missing",
  ],
  [
    "type missing",
    list([{ ipam: IPAM }]),
    "error plugins[0].type: missing",
  ],
  [
    "type number",
    list([{ type: 5 }]),
    'error plugins[0].type: expected a string, got a number; write "5" in quotes',
  ],
  [
    "brigde",
    list([{ type: "brigde" }]),
    'error plugins[0].type: failed to find plugin "brigde" in path []; did you mean "bridge"?',
  ],
  [
    "PTP",
    list([{ ...PTP, type: "PTP" }]),
    'error plugins[0].type: failed to find plugin "PTP" in path []; did you mean "ptp"?',
  ],
  [
    "Type",
    list([{ Type: "ptp", ipam: IPAM }]),
    'warning plugins[0].Type: usually spelt "type"',
  ],
  [
    "host-local as plugin",
    list([IPAM]),
    'error plugins[0].type: host-local makes no interface: name it in "ipam" of a plugin that does',
  ],
  [
    "whereabouts none",
    whereabouts({}),
    'warning plugins[0].ipam.range: no address: neither "range" nor "ipRanges" is set',
  ],
  [
    "whereabouts addresses",
    whereabouts({ addresses: [{ address: "10.1.0.2/24" }] }),
  ],
  [
    "whereabouts addresses beside a range",
    whereabouts({
      range: "10.2.0.0/24",
      addresses: [{ address: "10.1.0.2/24" }],
      routes: [{ dst: "10.9.0.0/16", gw: "10.2.0.1" }],
    }),
  ],
  ["whereabouts ipRanges", whereabouts({ ipRanges: [{ range: "fd00::/64" }] })],
  [
    "whereabouts stay",
    whereabouts({ range: "10.1.0.0/24", stay: "name" }),
    'error plugins[0].ipam.stay: needs "stayTime": how long a name keeps it',
  ],
  [
    "whereabouts stayTime",
    whereabouts({
      range: "10.1.0.0/24",
      stayTime: "10m",
      stayWhenScaled: "delete",
    }),
    'warning plugins[0].ipam.stayTime: no effect without "stay": "name"',
    'warning plugins[0].ipam.stayWhenScaled: no effect without "stay": "statefulset"',
  ],
  [
    "whereabouts stay with slices",
    whereabouts({
      range: "10.1.0.0/24",
      stay: "statefulset",
      node_slice_size: "/28",
    }),
    "error plugins[0].ipam.stay: impossible with node_slice_size: slices do not move",
  ],
  [
    "host-local stay",
    list([{ type: "ptp", ipam: { ...IPAM, stay: "name" } }]),
    'error plugins[0].ipam.stay: needs "stayTime": how long a name keeps it',
  ],
  [
    "host-local stayTime",
    list([{ type: "ptp", ipam: { ...IPAM, stayTime: "10m" } }]),
    'warning plugins[0].ipam.stayTime: no effect without "stay": "name"',
  ],
  [
    "host-local stay in a directory that is empty after a reboot",
    list([{
      type: "ptp",
      ipam: { ...IPAM, stay: "name", stayTime: "10m", dataDir: "/run/cni" },
    }]),
    'warning plugins[0].ipam.dataDir: no pod name keeps its address across a reboot: "/run/cni" is empty then',
  ],
  [
    "allowPersistentIPs",
    list([{
      type: "macvlan",
      master: "eth0",
      allowPersistentIPs: true,
      ipam: {
        type: "whereabouts",
        range: "10.1.0.0/24",
        kubernetes: { kubeconfig: "/etc/kubeconfig" },
      },
    }], { allowPersistentIPs: true }),
  ],
  [
    "static none",
    fixed({}),
    'warning plugins[0].ipam.addresses: no address: neither "addresses" nor the capability "ips" is set',
  ],
  [
    "static []",
    fixed({ addresses: [] }),
    'warning plugins[0].ipam.addresses: no address: neither "addresses" nor the capability "ips" is set',
  ],
  [
    "as strings",
    fixed({ addresses: ["10.1.0.2/24"] }),
    'error plugins[0].ipam.addresses[0]: expected an object, got a string; write {"address": "10.1.0.2/24"}',
  ],
  [
    "gw",
    fixed({ addresses: [{ address: "10.1.0.2/24", gateway: "10.2.0.1" }] }),
    "warning plugins[0].ipam.addresses[0].gateway: 10.2.0.1 is not in 10.1.0.2/24: containers reach it on the link",
  ],
  [
    "no prefix",
    fixed({ addresses: [{ address: "10.1.0.2" }] }),
    "error plugins[0].ipam.addresses[0].address: the 'address' field is expected to be in CIDR notation, got: '10.1.0.2'",
  ],
  [
    "network address",
    fixed({ addresses: [{ address: "10.1.0.0/24" }] }),
    "warning plugins[0].ipam.addresses[0].address: 10.1.0.0 is the network's address of 10.1.0.0/24",
  ],
  [
    "gw==addr",
    fixed({ addresses: [{ address: "10.1.0.2/24", gateway: "10.1.0.2" }] }),
    "warning plugins[0].ipam.addresses[0].gateway: 10.1.0.2 is the container's address",
  ],
  [
    "dup",
    fixed({
      addresses: [{ address: "10.1.0.2/24" }, { address: "10.1.0.2/24" }],
    }),
    "warning plugins[0].ipam.addresses[1].address: 10.1.0.2 is repeated",
  ],
  [
    "nameserver",
    list([{ ...PTP, dns: { nameservers: ["dns.example"] } }]),
    'warning plugins[0].dns.nameservers[0]: "dns.example" is not an IP address',
  ],
  [
    "ns string",
    list([{ ...PTP, dns: { nameservers: "10.0.0.1" } }]),
    'error plugins[0].dns.nameservers: expected an array, got a string; write ["10.0.0.1"]',
  ],
  [
    "dns key",
    list([{ ...PTP, dns: { nameserver: ["10.0.0.1"] } }]),
    'warning plugins[0].dns.nameserver: dns has no such key; did you mean "nameservers"?',
  ],
  [
    "ipam dns",
    fixed({
      addresses: [{ address: "10.1.0.2/24" }],
      dns: { nameservers: ["a"] },
    }),
    'warning plugins[0].ipam.dns.nameservers[0]: "a" is not an IP address',
  ],
  [
    "resolvConf",
    leased({ resolvConf: "/nonexistent" }),
    'warning plugins[0].ipam.resolvConf: on this node: Cannot read "/nonexistent"',
  ],
  [
    "dataDir",
    leased({ dataDir: "/proc/none" }),
    'warning plugins[0].ipam.dataDir: nothing can be written to "/proc/none"',
  ],
  [
    "relative dataDir",
    leased({ dataDir: "leases" }),
    "warning plugins[0].ipam.dataDir: a relative path depends on the runtime's directory",
  ],
  [
    "sbr main",
    list([PTP, { type: "sbr", table: 254 }]),
    "warning plugins[1].table: the table main of the container itself",
  ],
  [
    "sbr gw",
    list([PTP, { type: "sbr", gateways: ["x"] }]),
    "error plugins[1].gateways: invalid static gateway IP address: x",
  ],
  [
    "small",
    leased({ subnet: "10.60.0.0/31" }),
    "error plugins[0].ipam.subnet: 10.60.0.0/31 has one address for containers: a second container gets none; also set rangeStart if that is intended",
  ],
  [
    "/32",
    leased({ subnet: "10.60.0.0/32" }),
    "error plugins[0].ipam.subnet: 10.60.0.0/32 has one address for containers: a second container gets none; also set rangeStart if that is intended",
  ],
  [
    "the last address of IPv4, as a bridge's subnet",
    list([{
      type: "bridge",
      isGateway: true,
      ipam: { type: "host-local", subnet: "255.255.255.255/32" },
    }]),
    "error plugins[0].ipam.subnet: 255.255.255.255/32 has one address for containers: a second container gets none; also set rangeStart if that is intended",
  ],
  [
    "full",
    leased({ rangeStart: "10.60.0.1", rangeEnd: "10.60.0.1" }),
    "error plugins[0].ipam.rangeStart: no address except the gateway",
  ],
  [
    "multicast",
    leased({ subnet: "224.0.0.0/24" }),
    "warning plugins[0].ipam.subnet: 224.0.0.0/24 is not a network for containers",
  ],
  [
    "loopback",
    leased({ subnet: "127.0.0.0/24" }),
    "warning plugins[0].ipam.subnet: 127.0.0.0/24 is not a network for containers",
  ],
  [
    "dup",
    '{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"ptp","ipam":{"type":"host-local","subnet":"10.1.0.0/24"},"type":"bridge"}]}',
    "warning plugins[0].type: the key is repeated: it is also on line 1; the last one wins",
  ],
  [
    "case twice",
    '{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"ptp","mtu":1500,"MTU":1400,"ipam":{"type":"host-local","subnet":"10.1.0.0/24"}}]}',
    'warning plugins[0].MTU: the key is repeated: it is also on line 7, as "mtu"; the last one wins',
    'warning plugins[0].MTU: usually spelt "mtu"',
  ],
  [
    "disableCheck",
    list([PTP], { disableCheck: "yes" }),
    'error disableCheck: invalid value "yes" for disableCheck',
  ],
  [
    "disablegc",
    list([PTP], { disableGc: true }),
    'warning disableGc: no such key; did you mean "disableGC"?',
  ],
  [
    "vlan",
    bridged({ vlan: 4095 }),
    "error plugins[0].vlan: invalid VLAN ID 4095 (must be between 0 and 4094)",
  ],
  [
    "vlan neg",
    bridged({ vlan: -1 }),
    "error plugins[0].vlan: invalid VLAN ID -1 (must be between 0 and 4094)",
  ],
  [
    "trunk",
    bridged({ vlanTrunk: [{ minID: 200 }] }),
    "error plugins[0].vlanTrunk[0].minID: minID and maxID should be configured simultaneously, maxID is missing",
  ],
  [
    "trunk rev",
    bridged({ vlanTrunk: [{ minID: 20, maxID: 10 }] }),
    "error plugins[0].vlanTrunk[0].minID: minID is greater than maxID in trunk parameter",
  ],
  [
    "trunk obj",
    bridged({ vlanTrunk: { id: 5 } }),
    "error plugins[0].vlanTrunk: expected an array, got an object; write [{…}]",
  ],
  [
    "trunk num",
    bridged({ vlanTrunk: [5] }),
    "error plugins[0].vlanTrunk[0]: expected an object, got a number",
  ],
  [
    "long bridge",
    bridged({ bridge: "a-very-long-bridge-name" }),
    'error plugins[0].bridge: Cannot use "a-very-long-bridge-name" as the name of an interface',
  ],
  ["empty bridge", bridged({ bridge: "" })],
  [
    "slash",
    bridged({ bridge: "a/b" }),
    'error plugins[0].bridge: Cannot use "a/b" as the name of an interface',
  ],
  [
    "hairpin promisc",
    bridged({ hairpinMode: true, promiscMode: true }),
    "error plugins[0].promiscMode: cannot set hairpin mode and promiscuous mode at the same time",
  ],
  [
    "isGateway no ipam",
    list([{ type: "bridge", isGateway: true }]),
    'warning plugins[0].isGateway: no effect without "ipam"',
  ],
  [
    "ipMasq no ipam",
    list([{ type: "bridge", ipMasq: true }]),
    'warning plugins[0].ipMasq: no effect without "ipam"',
  ],
  [
    "backend",
    bridged({ ipMasq: true, ipMasqBackend: "nft" }),
    'error plugins[0].ipMasqBackend: expected "nftables" or "iptables", got "nft"',
  ],
  [
    "backend without masq",
    bridged({ ipMasqBackend: "nft" }),
    'warning plugins[0].ipMasqBackend: expected "nftables" or "iptables", got "nft"',
  ],
  [
    "disableContainerInterface ipam",
    bridged({ disableContainerInterface: true }),
    "error plugins[0].disableContainerInterface: cannot use IPAM when DisableContainerInterface flag is set",
  ],
  [
    "spoof",
    bridged({ macspoofchk: "true" }),
    "error plugins[0].macspoofchk: expected a boolean, got a string; write true without quotes",
  ],
  [
    "portmap none",
    list([PTP, { type: "portmap" }]),
    'warning plugins[1]: portmap maps nothing: the capability "portMappings" is missing',
  ],
  [
    "portmap before",
    list([{ type: "portmap", capabilities: { portMappings: true } }, PTP]),
    "error plugins[0]: portmap must come after another plugin",
  ],
  [
    "portmap snat str",
    list([PTP, {
      type: "portmap",
      snat: "true",
      capabilities: { portMappings: true },
    }]),
    "error plugins[1].snat: expected a boolean, got a string; write true without quotes",
  ],
  [
    "markMasqBit",
    list([PTP, {
      type: "portmap",
      markMasqBit: 32,
      capabilities: { portMappings: true },
    }]),
    "error plugins[1].markMasqBit: MasqMarkBit must be between 0 and 31",
  ],
  [
    "conditions",
    list([PTP, {
      type: "portmap",
      conditionsV4: "-d x",
      capabilities: { portMappings: true },
    }]),
    'error plugins[1].conditionsV4: expected an array, got a string; write ["-d x"]',
  ],
  [
    "tuning sysctl obj",
    list([PTP, { type: "tuning", sysctl: { "net.core.somaxconn": 500 } }]),
    'error plugins[1].sysctl.net.core.somaxconn: expected a string, got a number; write "500" in quotes',
  ],
  [
    "sysctl none",
    list([PTP, { type: "tuning", sysctl: { "net.nope.x": "1" } }]),
  ],
  [
    // podman and nerdctl write it: it sets the MAC of CNI_ARGS.
    "tuning without keys",
    list([PTP, { type: "tuning" }]),
  ],
  [
    "mac",
    list([PTP, { type: "tuning", mac: "zz" }]),
    'error plugins[1].mac: Cannot use MAC "zz"',
  ],
  [
    "firewall",
    list([PTP, { type: "firewall", backend: "ipt" }]),
    'error plugins[1].backend: expected "iptables", "firewalld" or "nftables", got "ipt"',
  ],
  [
    "policy",
    list([PTP, { type: "firewall", ingressPolicy: "closed" }]),
    'error plugins[1].ingressPolicy: unknown ingress policy: "closed"',
  ],
  [
    "runtimeConfig",
    list([{ ...PTP, runtimeConfig: { ips: ["10.1.1.1/24"] } }]),
  ],
  [
    "prevResult",
    list([{ ...PTP, prevResult: {} }]),
    "warning plugins[0].prevResult: the runtime sets it",
  ],
  [
    "args",
    list([{ ...PTP, args: { cni: { ips: ["bad"] } } }]),
    "error plugins[0].args.cni.ips[0]: invalid IP address: bad",
  ],
  ["macvlan master", list([{ type: "macvlan", ipam: IPAM }])],
  [
    "mode",
    list([{ type: "macvlan", mode: "x", ipam: IPAM }]),
    'error plugins[0].mode: unknown macvlan mode: "x"',
  ],
  [
    "ipvlan mtu",
    list([{ type: "ipvlan", mtu: "x", ipam: IPAM }]),
    "error plugins[0].mtu: expected a number, got a string",
  ],
  [
    "vlan none",
    list([{ type: "vlan", master: "eth0", ipam: IPAM }]),
    "warning plugins[0].vlanId: missing, which means 0: frames have a priority tag and no VLAN",
  ],
  ["vlan 0", list([{ type: "vlan", master: "eth0", vlanId: 0, ipam: IPAM }])],
  [
    "burst below a packet",
    list([PTP, { ...BANDWIDTH, egressRate: 1000000, egressBurst: 8000 }]),
    "warning plugins[1].egressBurst: 8000 bits are less than a packet of 1500 bytes, which never passes; write 12112 or more",
  ],
  [
    "bandwidth as its README has it",
    list([PTP, { type: "bandwidth", ingressRate: 123, ingressBurst: 456 }]),
    "warning plugins[1].ingressBurst: 456 bits are less than a packet of 1500 bytes, which never passes; write 12112 or more",
  ],
  [
    "burst below a packet, with subnets",
    list([PTP, {
      ...BANDWIDTH,
      ingressBurst: 8000,
      shapedSubnets: ["10.0.0.0/8"],
    }]),
  ],
  ["burst of a packet", list([PTP, { ...BANDWIDTH, ingressBurst: 12112 }])],
  [
    "loopback second",
    list([PTP, { type: "loopback" }]),
    "warning plugins[1]: no effect on the interface: loopback only brings up lo, and belongs in a network of its own",
  ],
  [
    "sysctl ..",
    list([PTP, {
      type: "tuning",
      sysctl: {
        "net.ipv4.conf.IFNAME.arp_filter": "1",
        "net/ipv4/../../kernel/core_pattern": "x",
      },
    }]),
    'warning plugins[1].sysctl.net/ipv4/../../kernel/core_pattern: a part is empty: it sets "net/ipv4/kernel/core_pattern"',
  ],
  [
    "sysctl of the kernel",
    list([PTP, { type: "tuning", sysctl: { "kernel.hostname": "x" } }]),
    'error plugins[1].sysctl.kernel.hostname: invalid net sysctl key: "kernel/hostname"',
  ],
  [
    "host-device ipam",
    list([{ type: "host-device", device: "eth1", ipam: { type: "static" } }]),
    'warning plugins[0].ipam.addresses: no address: neither "addresses" nor the capability "ips" is set',
  ],
  [
    "daemonSocket",
    list([{ ...PTP, daemonSocket: "run/x" }]),
    'error plugins[0].daemonSocket: expected an absolute path, got "run/x"',
  ],
  [
    "loopback+ipam",
    list([{ type: "loopback", ipam: IPAM }]),
    "warning plugins[0].ipam: no effect: loopback ignores it",
  ],
  [
    "same type twice",
    list([PTP, PTP]),
    "error plugins[1]: ptp would create the interface that ptp creates",
  ],
  ["$schema", list([{ ...PTP, $schema: "x" }], { $schema: "x" })],
  [
    "top plugin keys",
    list([PTP], { ipMasq: true, type: "ptp", ipam: IPAM }),
    'warning type: no effect here: it belongs in an item of "plugins"',
    'warning ipam: no effect here: it belongs in an item of "plugins"',
  ],
  [
    "mtu 1e3",
    list([{ ...PTP, mtu: 67 }]),
    "error plugins[0].mtu: expected 68 to 65535 bytes, got 67",
  ],
  [
    "exclude",
    leased({ exclude: ["10.61.0.1"] }),
    "error plugins[0].ipam.exclude[0]: 10.61.0.1 is not in 10.60.0.0/24",
  ],
  [
    "ipRanges cap static",
    list([{
      type: "ptp",
      capabilities: { ipRanges: true },
      ipam: { type: "static", addresses: [{ address: "10.1.0.2/24" }] },
    }]),
    "warning plugins[0].capabilities.ipRanges: ptp does not use it",
  ],
  [
    "dhcp macvlan",
    list([{
      type: "macvlan",
      master: "eth0",
      ipam: { type: "dhcp", request: [{ option: "x" }] },
    }]),
    'error plugins[0].ipam.request[0].option: Can not parse option "x"',
  ],
  [
    "dhcp IPv4 defaultRoute",
    list([{
      type: "macvlan",
      master: "eth0",
      ipam: { type: "dhcp", defaultRoute: false },
    }]),
    'error plugins[0].ipam.defaultRoute: Cannot use "defaultRoute" without IPv6: routes of IPv4 come with the lease',
  ],
  [
    "dhcp IPv6 defaultRoute",
    list([{
      type: "macvlan",
      master: "eth0",
      ipam: { type: "dhcp", family: 6, defaultRoute: false },
    }]),
  ],
  ["gateway in rangestart", leased({ rangeStart: "10.60.0.1" })],
  [
    "broadcast end",
    leased({ rangeEnd: "10.60.0.255" }),
    "warning plugins[0].ipam.rangeEnd: 10.60.0.255 is the broadcast address",
  ],
  ["chained dns", list([PTP, { ...BANDWIDTH, dns: {} }])],
  [
    "ipam in chained",
    list([PTP, { type: "tuning", ipam: IPAM }]),
    "warning plugins[1].ipam: no effect: tuning ignores it",
  ],
  [
    "subnet+ranges overlap",
    leased({ ranges: [[{ subnet: "10.60.0.0/24" }]] }),
    "error plugins[0].ipam.ranges[0][0].subnet: 10.60.0.0/24 overlaps 10.60.0.0/24 in ipam.subnet",
  ],
  [
    "vrf",
    list([PTP, { type: "vrf" }]),
    "error plugins[1].vrfname: missing",
  ],
  [
    "multus",
    list([{ type: "multus" }]),
    'error plugins[0]: multus needs "clusterNetwork" or "delegates"',
  ],
  [
    "debug hooks",
    list([PTP, { type: "debug", addHooks: ["x"] }]),
    'error plugins[1].addHooks[0]: expected an array, got a string; write ["x"]',
  ],
  [
    "dns an address",
    bridged({ dns: "10.0.0.10" }),
    'error plugins[0].dns: expected an object, got a string; write {"nameservers": ["10.0.0.10"]}',
  ],
  [
    "a range as a string",
    list([{
      type: "ptp",
      ipam: { type: "host-local", ranges: [["10.2.0.0/24"]] },
    }]),
    'error plugins[0].ipam.ranges[0][0]: expected an object, got a string; write {"subnet": "10.2.0.0/24"}',
  ],
  [
    "keys of a range beside ranges",
    list([{
      type: "ptp",
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "10.2.0.0/24" }]],
        gateway: "10.2.0.1",
      },
    }]),
    'warning plugins[0].ipam.gateway: no effect without "subnet" next to it; put it into a range of "ranges"',
  ],
  [
    "usePodCidr outside Calico",
    leased({ subnet: "usePodCidr" }),
    "error plugins[0].ipam.subnet: invalid CIDR address: usePodCidr; write the range itself, because only Calico's plugin replaces this word",
  ],
  [
    "via, to",
    leased({ routes: [{ dst: "10.9.0.0/16", to: "x", via: "10.60.0.1" }] }),
    'warning plugins[0].ipam.routes[0].to: host-local has no such key; did you mean "dst"?',
    'warning plugins[0].ipam.routes[0].via: host-local has no such key; did you mean "gw"?',
  ],
  [
    "docker's parent",
    list([{ type: "macvlan", master: "eth0", parent: "eth0", ipam: IPAM }]),
    'warning plugins[0].parent: macvlan has no such key; did you mean "master"?',
  ],
  [
    "keys of flannel's delegate",
    list([{ type: "flannel", isDefaultGateway: true }]),
    'warning plugins[0].isDefaultGateway: flannel has no such key; keys of the plugin that it runs belong in "delegate"',
  ],
  [
    "podman's own network",
    JSON.stringify({ name: "mynet", driver: "bridge", subnets: [] }),
    "error plugins: missing; networks with a driver, as in podman 4 and later, are not CNI networks",
  ],
];

Deno.test("validate reports the position of common mistakes", async (t) => {
  using directory = new PluginDirectory();
  for (const type of pluginNames) directory.addOwnExecutable(type);
  const { path } = directory;
  await eachRow(t, rows, async ([, content, ...problems]) => {
    const pretty = indent(content);
    const file = directory.addFile("10.conflist", pretty);
    const { stdout, exitCode } = await runCni(
      ...["validate", file, `--cni-path=${path}`, "--conf-dir=/dev/null"],
      "--json",
    );
    const found: Reported[] = JSON.parse(stdout).problems;
    const words = found.map(({ severity, path: place, message }) =>
      `${severity} ${place === "" ? "" : `${place}: `}${message}`
        .replaceAll(path, "")
    );
    assertEquals(words, problems);
    if (pretty !== content) {
      for (const one of found) checkPlace(one, pretty);
    }
    const isValid = !problems.some((problem) => problem.startsWith("error"));
    assertEquals(exitCode, isValid ? 0 : 1);
  });
});

/** A problem of the document of --json. */
interface Reported {
  readonly severity: string;
  readonly path: string;
  readonly message: string;
  readonly line: number;
  readonly column: number;
}

/** Writes a key in each line; a text that is not JSON, or repeats keys, stays. */
function indent(content: string): string {
  try {
    const document = JSON.parse(content);
    return JSON.stringify(document) === content
      ? JSON.stringify(document, null, 2)
      : content;
  } catch {
    return content;
  }
}

/** Fails unless a key or its value is at the position, or the object that lacks it. */
function checkPlace({ path, line, column }: Reported, text: string): void {
  const rest = (text.split("\n")[line - 1] ?? "").slice(column - 1);
  const parts = path.match(/[^.[\]]+/g) ?? [];
  let value: unknown = JSON.parse(text), isThere = true;
  for (const [at, part] of parts.entries()) {
    const object = value as Record<string, unknown> | undefined;
    // The key of a sysctl has dots.
    const names = [
      part,
      parts.slice(at).join("."),
      path.replace(/^.*sysctl\./, ""),
    ]
      .map((name) => name.toLowerCase());
    const [, inner] = Object.entries(object ?? {})
      .find(([key]) => names.includes(key.toLowerCase())) ?? [];
    isThere = inner !== undefined;
    if (!isThere) break;
    value = inner;
    if (object?.[part] === undefined) break;
  }
  const start = JSON.stringify(value, null, 2).split("\n")[0] ?? "";
  const isKey = isThere && rest.startsWith(JSON.stringify(parts.at(-1) ?? ""));
  const message = `${path} is not at ${line}:${column}: ${rest}`;
  assert(isKey || rest.startsWith(start), message);
}
