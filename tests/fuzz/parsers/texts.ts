/**
 * The parsers of text from outside.
 *
 * @module
 */

import { parseArgs } from "../../../cni/call/args.ts";
import { CniError } from "../../../base/error.ts";
import { decodeVersionInfo } from "../../../cni/invoke/version_probe.ts";
import { readPluginResult } from "../../../cni/invoke/plugin_result.ts";
import { decodeDocument, decodeOwnedResult } from "../../../libcni/cache.ts";
import {
  parseNetworkConf,
  parseNetworkConfList,
} from "../../../libcni/conf.ts";
import { parseJson } from "../../../base/json/json.ts";
import { decodeConfigVersion, readRequest } from "../../../cni/call/request.ts";
import { parsePrevResult } from "../../../cni/result/decoding.ts";
import { encodeResult } from "../../../cni/result/encoding.ts";
import { decodeValidAttachments } from "../../../cni/config/types.ts";
import { parseWritten } from "../../../cli/node/chain_form.ts";
import { ConfText } from "../../../cli/validate/conf_text.ts";
import { parseResolvConf } from "../../../ipam/host_local/resolv_conf.ts";
import { describeOwner, findIp } from "../../../ipam/host_local/lease.ts";
import { RequestError } from "../../../daemon/server/http_calls.ts";
import { decodeExecCredential } from "../../../kube/exec_credential.ts";
import { readKubeconfig } from "../../../kube/kubeconfig.ts";
import { parseYaml } from "../../../kube/yaml.ts";
import { Cidr } from "../../../net/cidr.ts";
import { AddressError, Ip } from "../../../net/ip.ts";
import { Mac } from "../../../net/mac.ts";
import { readThickRequest } from "../../../plugins/multus/thick/handler.ts";
import {
  parseInstance,
  parseQuoted,
} from "../../../plugins/parts/owner/comment_owner.ts";
import { readSubnetEnv } from "../../../plugins/flannel/subnet_env.ts";
import { readCheckpoint } from "../../../plugins/multus/devices/checkpoint.ts";
import { decodeScratch } from "../../../plugins/multus/records/scratch_document.ts";
import {
  parseDefaultNetwork,
  parseNetworks,
} from "../../../plugins/multus/select/annotations.ts";
import {
  parseK8sArgs,
  parseK8sArgsLeniently,
} from "../../../plugins/multus/model/k8s_args.ts";
import { splitRule } from "../../../plugins/parts/firewall/iptables/program.ts";
import { readEntries } from "../../../plugins/portmap/iptables_rules.ts";
import { parseQuantity } from "../../../node/capability_args.ts";
import { parseDuration } from "../../../base/duration.ts";
import { type Parser, textParser } from "./parser.ts";

const utf8 = new TextEncoder();

const CONF = `{"cniVersion":"1.0.0","name":"pods","type":"ptp","ipMasq":true,
"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}]]},
"dns":{"nameservers":["10.0.0.1"]},"capabilities":{"portMappings":true}}`;

const LIST = `{"cniVersion":"1.1.0","cniVersions":["1.0.0"],"name":"pods",
"disableCheck":"false","disableGC":true,"loadOnlyInlinedPlugins":true,
"plugins":[{"type":"ptp","ipam":{"type":"host-local"}},{"type":"portmap"}]}`;

const RESULT = `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0",
"mac":"02:00:00:00:00:01","mtu":1500,"sandbox":"/run/netns/a"}],
"ips":[{"address":"10.1.0.2/24","gateway":"10.1.0.1","interface":0}],
"routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.1","mtu":1400,"table":7,"scope":0}],
"dns":{"nameservers":["10.0.0.1"],"search":["a.b"]},"extra":{"x":1}}`;

const OLD_RESULT = `{"cniVersion":"0.2.0","ip4":{"ip":"10.1.0.2/24",
"gateway":"10.1.0.1","routes":[{"dst":"0.0.0.0/0"}]},"dns":{}}`;

const CACHE = JSON.stringify({
  kind: "cniCacheV1",
  containerId: "c1",
  config: utf8.encode(CONF).toBase64(),
  ifName: "eth0",
  networkName: "pods",
  netns: "/run/netns/a",
  cniArgs: [["K8S_POD_NAME", "web"]],
  capabilityArgs: { portMappings: [{ hostPort: 80 }] },
  result: JSON.parse(RESULT),
});

const ARGS = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;" +
  "K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u";

const ANNOTATION = JSON.stringify([{
  name: "net1",
  namespace: "default",
  interface: "net1",
  ips: ["10.2.0.3/24"],
  mac: "02:00:00:00:00:01",
  "default-route": ["10.2.0.1"],
  "dev.cni.routes": [
    { dst: "10.3.0.0/16", gw: "10.2.0.1", mtu: 1400, priority: 1, table: 9 },
    { dst: "ff00::/8", scope: 253 },
  ],
  portMappings: [{ hostPort: 1, containerPort: 2, protocol: "tcp" }],
  bandwidth: { ingressRate: 1, egressRate: 2 },
  "cni-args": { a: 1 },
}, { name: "net2" }]);

const KUBECONFIG = `apiVersion: v1
kind: Config
current-context: a
contexts:
- name: a
  context: {cluster: c, user: u, namespace: n}
clusters:
- name: c
  cluster:
    server: https://[::1]:6443
    certificate-authority-data: LS0=
    tls-server-name: api
users:
- name: u
  user: {token: secret}
`;

const CREDENTIAL = JSON.stringify({
  apiVersion: "client.authentication.k8s.io/v1",
  kind: "ExecCredential",
  status: { token: "secret", expirationTimestamp: "2030-01-01T00:00:00Z" },
});

const EXEC = {
  command: "get-token",
  args: [],
  env: [],
  apiVersion: "client.authentication.k8s.io/v1",
} as const;

const SCRATCH = JSON.stringify([{
  Conf: { cniVersion: "1.0.0", name: "pods", type: "ptp" },
  ConfList: { plugins: [] },
  Name: "pods",
  IfnameRequest: "eth0",
  MacRequest: "",
  IPRequest: ["10.1.0.2"],
  MasterPlugin: true,
  ConfListPlugin: false,
  Bytes: utf8.encode(CONF).toBase64(),
}]);

const SUBNET_ENV = `FLANNEL_NETWORK=10.1.0.0/16
FLANNEL_SUBNET=10.1.2.1/24
FLANNEL_IPV6_NETWORK=fd00::/48
FLANNEL_IPV6_SUBNET=fd00:0:0:1::1/64
FLANNEL_MTU=1450
FLANNEL_IPMASQ=true
`;

const CHECKPOINT = JSON.stringify({
  Data: {
    PodDeviceEntries: [{
      PodUID: "u",
      ContainerName: "c",
      ResourceName: "vendor/nic",
      DeviceIDs: { "0": ["a", "b"] },
      AllocResp: "",
    }, { PodUID: "u", ResourceName: "vendor/nic", DeviceIDs: ["c"] }],
    RegisteredDevices: { "vendor/nic": ["a"] },
  },
  Checksum: 1,
});

const THICK = JSON.stringify({
  env: {
    CNI_COMMAND: "ADD",
    CNI_CONTAINERID: "c1",
    CNI_NETNS: "/run/netns/a",
    CNI_IFNAME: "eth0",
    CNI_ARGS: ARGS,
  },
  config: utf8.encode(CONF).toBase64(),
  interfaceAttributes: { dra: {} },
});

/** Gives a parser of files each text in a file. */
function inFile(
  path: string,
  read: (path: string) => unknown,
): (text: string) => unknown {
  return (text) => {
    Deno.writeTextFileSync(path, text);
    return read(path);
  };
}

/**
 * Lists the parsers.
 *
 * @param directory For files, in memory at best
 */
export function listTextParsers(directory: string): Parser<string>[] {
  const cni = [CniError];
  const configs = [CONF, LIST];
  const results = [RESULT, OLD_RESULT];
  return [
    textParser({
      name: "JSON",
      samples: [...configs, RESULT],
      throws: cni,
      parse: (text) => parseJson(text),
    }),
    textParser({
      name: "stdin of a plugin",
      samples: configs,
      throws: cni,
      parse: (text) => {
        const { document } = readRequest(() => utf8.encode(text));
        decodeConfigVersion(document);
        decodeValidAttachments(document);
      },
    }),
    textParser({
      name: "prevResult",
      samples: results,
      throws: cni,
      parse: (text) => {
        const prevResult: unknown = parseJson(text);
        for (const cniVersion of ["0.2.0", "0.4.0", "1.1.0"]) {
          const result = parsePrevResult({ prevResult, cniVersion } as never);
          if (result !== undefined) encodeResult(result, cniVersion);
        }
      },
    }),
    textParser({
      name: "result of a delegate",
      samples: results,
      throws: cni,
      parse: (text) => {
        const { result } = readPluginResult(
          { stdout: text, result: undefined },
          "1.0.0",
        );
        encodeResult(result, "1.0.0");
      },
    }),
    textParser({
      name: "versions of a delegate",
      samples: ['{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}'],
      throws: cni,
      parse: decodeVersionInfo,
    }),
    textParser({
      name: "network configuration",
      samples: configs,
      throws: cni,
      parse: (text) => parseNetworkConf(utf8.encode(text)),
    }),
    textParser({
      name: "network configuration list",
      samples: configs,
      throws: cni,
      parse: (text) => parseNetworkConfList(utf8.encode(text)),
    }),
    textParser({
      name: "network of cni convert",
      samples: configs,
      throws: cni,
      parse: (text) => parseWritten(utf8.encode(text)),
    }),
    textParser({
      name: "duplicate keys",
      samples: [...configs, '{"a":1,"a":{"b":[{"c":1,"c":2}]}}'],
      throws: cni,
      parse: (text) => {
        const conf = new ConfText(text);
        conf.findSyntaxError();
        return conf.listRepeatedKeys();
      },
    }),
    textParser({
      name: "cached attachment",
      samples: [CACHE, RESULT],
      throws: cni,
      parse: (text) => decodeDocument(utf8.encode(text), "it"),
    }),
    textParser({
      name: "cached result",
      samples: [CACHE, RESULT],
      throws: cni,
      parse: (text) => decodeOwnedResult(utf8.encode(text), "it"),
    }),
    textParser({
      name: "CNI_ARGS",
      samples: [ARGS, "IP=10.1.0.2"],
      throws: cni,
      parse: parseArgs,
    }),
    textParser({
      name: "CNI_ARGS of a pod",
      samples: [ARGS],
      throws: cni,
      parse: parseK8sArgs,
    }),
    textParser({
      name: "CNI_ARGS of a pod, on DEL",
      samples: [ARGS],
      parse: parseK8sArgsLeniently,
    }),
    textParser({
      name: "networks annotation",
      samples: [ANNOTATION, "a,b/c@net1, d", "a"],
      throws: cni,
      parse: (text) => parseNetworks(text, "default"),
    }),
    textParser({
      name: "default-network annotation",
      samples: [ANNOTATION, "kube-system/a"],
      throws: cni,
      parse: (text) => parseDefaultNetwork(text, "kube-system"),
    }),
    textParser({
      name: "scratch file of multus",
      samples: [SCRATCH],
      throws: cni,
      parse: (text) => decodeScratch(utf8.encode(text), "it"),
    }),
    textParser({
      name: "checkpoint of the kubelet",
      samples: [CHECKPOINT],
      throws: cni,
      parse: inFile(
        `${directory}/checkpoint`,
        (path) => readCheckpoint(path, "u"),
      ),
    }),
    textParser({
      name: "subnet.env",
      samples: [SUBNET_ENV],
      throws: cni,
      parse: inFile(`${directory}/subnet.env`, readSubnetEnv),
    }),
    textParser({
      name: "resolv.conf",
      samples: ["nameserver 10.0.0.1\nsearch a.b c\noptions ndots:5\n"],
      parse: parseResolvConf,
    }),
    textParser({
      name: "lease",
      samples: ["c1\r\neth0", "c1", "10.1.0.2"],
      parse: (text) => [describeOwner(text), findIp(text)],
    }),
    textParser({
      name: "kubeconfig",
      samples: [KUBECONFIG],
      throws: cni,
      parse: inFile(
        `${directory}/kubeconfig`,
        (path) => readKubeconfig(path, {}),
      ),
    }),
    textParser({
      name: "YAML",
      samples: [KUBECONFIG, "a: &x [1, *x]", "- {a: b}\n- |\n  c\n"],
      throws: cni,
      parse: (text) => parseYaml(text, "it"),
    }),
    textParser({
      name: "credentials of a program",
      samples: [CREDENTIAL],
      throws: [Error],
      parse: (text) => decodeExecCredential(text, EXEC as never),
    }),
    textParser({
      name: "request of multus-shim",
      samples: [THICK],
      throws: [RequestError],
      parse: (text) => readThickRequest("/cni", text),
    }),
    textParser({
      name: "request of a hot-plug controller",
      samples: [THICK],
      throws: [RequestError],
      parse: (text) => readThickRequest("/delegate", text),
    }),
    textParser({
      name: "comment of a rule",
      samples: [
        "aa9217ce5dd9862e-508af7b3b68a2aed, net: pods, if: eth0, id: c1",
        'dnat name: "pods" id: "c1"',
      ],
      parse: (text) => [parseInstance(text), parseQuoted(text)],
    }),
    textParser({
      name: "rule of iptables-save",
      samples: [
        '-A CNI-DN-1 -s 10.1.0.0/24 -p tcp -m comment --comment "a \\"b\\"" ' +
        "-m multiport --dports 80,443 -j CNI-DN-0123",
      ],
      parse: (text) => [splitRule(text), readEntries([text])],
    }),
    textParser({
      name: "address",
      samples: ["10.1.0.2", "fd00::1", "::ffff:10.1.0.2"],
      throws: [AddressError],
      parse: (text) => {
        const ip = Ip.parse(text);
        if (!Ip.parse(ip.toString()).equals(ip)) throw new TypeError("differs");
      },
    }),
    textParser({
      name: "subnet",
      samples: ["10.1.0.2/24", "fd00::1/64", "::ffff:10.1.0.0/120"],
      throws: [AddressError],
      parse: (text) => {
        const cidr = Cidr.parse(text);
        if (Cidr.parse(`${cidr}`).toString() !== `${cidr}`) {
          throw new TypeError("differs");
        }
      },
    }),
    textParser({
      name: "MAC address",
      samples: ["02:00:00:00:00:01", "0200.0000.0001", "02-00-00-00-00-01"],
      throws: [AddressError],
      parse: (text) => Mac.parse(text),
    }),
    textParser({
      name: "quantity",
      samples: ["10M", "1.5Gi", "1e3", "-5"],
      throws: cni,
      parse: parseQuantity,
    }),
    textParser({
      name: "duration",
      samples: ["1h30m", "1.5s", "10ms"],
      parse: parseDuration,
    }),
  ];
}
