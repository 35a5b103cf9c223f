import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { decode, decodeLeniently } from "../../../base/json/json.ts";
import { Cidr } from "../../../net/cidr.ts";
import { type MultusConfig, multusSchema, nodePath } from "./config.ts";

function read(document: object): MultusConfig {
  return decode(multusSchema(), document, "network configuration");
}

const DEFAULTS: MultusConfig = {
  delegates: [],
  defaultNetworks: [],
  defaultNetworksAreOptional: false,
  requireDevices: false,
  systemNamespaces: ["kube-system"],
  multusNamespace: "kube-system",
  namespaceIsolation: false,
  definitionTypes: ["*"],
  definitionKeys: [],
  trustedNamespaces: [],
  podRequests: "offered",
  podArgs: [],
  podRoutes: [],
  nonIsolatedNamespaces: ["default"],
  confDir: "/etc/cni/multus/net.d",
  cniDir: "/var/lib/cni/multus",
  binDir: "/opt/cni/bin",
  logLevel: "error",
  logToStderr: true,
  logOptions: {
    maxAgeDays: 5,
    maxSizeMegabytes: 100,
    maxBackups: 5,
    compress: true,
  },
  runtimeConfig: {},
};

Deno.test("multusSchema() has defaults for absent, empty and null keys", async (t) => {
  const rows: [string, object][] = [
    ["nothing", {}],
    ["unknown keys", { defaultnetworkfile: "/x", name: "n", type: "multus" }],
    ["empty texts", {
      clusterNetwork: "",
      kubeconfig: "",
      confDir: "",
      cniDir: "",
      binDir: "",
      logFile: "",
      logLevel: "",
      globalNamespaces: "",
      multusNamespace: "",
      readinessindicatorfile: "",
      auxiliaryCNIChainName: "",
      daemonSocketDir: "",
    }],
    ["null", {
      delegates: null,
      defaultNetworks: null,
      systemNamespaces: null,
      logToStderr: null,
      logOptions: null,
      capabilities: null,
      runtimeConfig: null,
      namespaceIsolation: null,
      prevResult: null,
    }],
  ];
  for (const [name, document] of rows) {
    await t.step(name, () => assertEquals(read(document), DEFAULTS));
  }
});

Deno.test("multusSchema() reads every key", async (t) => {
  const rows: [object, Partial<MultusConfig>][] = [
    [{ delegates: [{ type: "a" }] }, { delegates: [{ type: "a" }] }],
    [{ clusterNetwork: "net" }, { clusterNetwork: "net" }],
    [{ clusterNetwork: "./a/../b" }, { clusterNetwork: "./a/../b" }],
    [{ defaultNetworks: ["a"] }, { defaultNetworks: ["a"] }],
    [{ systemNamespaces: ["a"] }, { systemNamespaces: ["a"] }],
    [{ systemNamespaces: [] }, { systemNamespaces: [] }],
    [{ multusNamespace: "a" }, { multusNamespace: "a" }],
    [{ kubeconfig: "/a//b/../c" }, { kubeconfig: "/a/c" }],
    [{ apiTimeoutSeconds: 1.5 }, { apiTimeoutMs: 1500 }],
    [{ namespaceIsolation: true }, { namespaceIsolation: true }],
    [{ globalNamespaces: " a, b" }, { nonIsolatedNamespaces: ["a", "b"] }],
    [{ readinessindicatorfile: "/a/./b" }, { readinessIndicatorFile: "/a/b" }],
    [{ confDir: "/a/" }, { confDir: "/a" }],
    [{ cniDir: "/a/" }, { cniDir: "/a" }],
    [{ binDir: "bin" }, { binDir: `${Deno.cwd()}/bin` }],
    [{ logFile: "/a" }, { logFile: "/a" }],
    [{ logLevel: "Debug" }, { logLevel: "debug" }],
    [{ logLevel: "loud" }, { logLevel: "loud" }],
    [{ logToStderr: false }, { logToStderr: false }],
    [{ capabilities: { a: true, b: null } }, {}],
    [{ auxiliaryCNIChainName: "a" }, { auxiliaryChainName: "a" }],
    [{ retryDeleteOnError: true }, {}],
    [{ daemonSocketDir: "/a/" }, {}],
    [{ podRoutes: ["10.50.0.0/16", "::/0"] }, {
      podRoutes: [Cidr.parse("10.50.0.0/16"), Cidr.parse("::/0")],
    }],
    [{ prevResult: { ips: [] } }, { prevResult: { ips: [] } }],
    [{ CLUSTERNETWORK: "a", LogTOStderr: false }, {
      clusterNetwork: "a",
      logToStderr: false,
    }],
  ];
  for (const [document, expected] of rows) {
    await t.step(JSON.stringify(document), () => {
      assertEquals(read(document), { ...DEFAULTS, ...expected });
    });
  }
});

Deno.test("multusSchema() completes the rotation of logs", () => {
  const { logOptions } = read({ logOptions: { MaxAge: 1, compress: false } });
  assertEquals(logOptions, {
    ...DEFAULTS.logOptions,
    maxAgeDays: 1,
    compress: false,
  });
});

Deno.test("multusSchema() translates a container's paths to the node's", () => {
  const config = read({
    kubeconfig: "/host/etc/kubeconfig",
    binDir: "/host/opt/cni/bin",
  });
  assertEquals(config.kubeconfig, "/etc/kubeconfig");
  assertEquals(config.binDir, "/opt/cni/bin");
});

Deno.test("multusSchema() finds the directory where the reference's installer writes it", async (t) => {
  const rows: [object, string][] = [
    [{ cniConf: "/host/etc/cni/multus/net.d" }, "/etc/cni/multus/net.d"],
    [{ cniConf: "/host/opt/nets/" }, "/opt/nets"],
    [{ cniConf: "/hosts/nets" }, "/hosts/nets"],
    [{ cniConf: "/nets" }, "/nets"],
    [{ cniConf: "/nets", confDir: "/host/others" }, "/others"],
  ];
  for (const [document, confDir] of rows) {
    await t.step(JSON.stringify(document), () => {
      assertEquals(read(document).confDir, confDir);
    });
  }
});

Deno.test("multusSchema() keeps all of runtimeConfig, and normalizes known names", () => {
  const known = {
    portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
    bandwidth: { ingressRate: 1000, unknown: 1 },
    ips: ["10.1.1.1/24"],
    mac: "02:00:00:00:00:01",
  };
  const others = {
    dns: { servers: ["10.0.0.1"] },
    "io.kubernetes.cri.pod-annotations": { a: "b" },
  };
  const { ips, ...rest } = { ...known, ...others };
  const { runtimeConfig } = read({ runtimeConfig: { ...rest, IPs: ips } });
  assertEquals(runtimeConfig, { ...known, ...others });
});

Deno.test("multusSchema() refuses values of another type", async (t) => {
  const rows: [object, string][] = [
    [{ delegates: {} }, "delegates: expected an array"],
    [{ delegates: [null] }, "delegates[0]: expected an object"],
    [{ clusterNetwork: 5 }, "clusterNetwork: expected a string"],
    [{ apiTimeoutSeconds: 0 }, "apiTimeoutSeconds: expected more than 0"],
    [{ apiTimeoutSeconds: 220 }, "apiTimeoutSeconds: expected at most 219"],
    [{ podRoutes: ["10.50.0.0"] }, "podRoutes[0]: "],
    [{ globalNamespaces: ["a"] }, "globalNamespaces: expected a string"],
    [{ logToStderr: "yes" }, "logToStderr: expected a boolean"],
    [{ logOptions: { maxAge: "1" } }, "logOptions.maxAge: expected a"],
    [{ runtimeConfig: { ips: "10.1.1.1" } }, "runtimeConfig.ips: expected"],
    [
      { runtimeConfig: { portMappings: [{ hostPort: "80" }] } },
      "runtimeConfig.portMappings[0].hostPort: expected",
    ],
    [{ readinessindicatorfile: 1 }, "readinessindicatorfile: expected"],
  ];
  for (const [document, message] of rows) {
    await t.step(JSON.stringify(document), () => {
      const error = assertThrows(() => read(document), CniError, message);
      assertEquals(error.code, 7);
    });
  }
});

Deno.test("multusSchema() lets DEL ignore unreadable keys", () => {
  const dropped: string[] = [];
  const config = decodeLeniently(
    multusSchema(),
    {
      cniDir: "/a",
      delegates: "none",
      logOptions: { maxAge: "1" },
      runtimeConfig: { ips: 5, mac: "02:00:00:00:00:01" },
      kubeconfig: 5,
    },
    "network configuration",
    (problem) => dropped.push(problem),
  );
  assertEquals(config, {
    ...DEFAULTS,
    cniDir: "/a",
    runtimeConfig: { mac: "02:00:00:00:00:01" },
  });
  assertEquals(dropped.length, 4);
});

Deno.test("nodePath() removes the mount point of the node's root", async (t) => {
  const there = new Set(["/host/etc/really-there"]);
  const rows: [string, string][] = [
    ["/host/etc/cni/net.d", "/etc/cni/net.d"],
    ["/host/etc/really-there", "/host/etc/really-there"],
    ["/hosts/etc/cni", "/hosts/etc/cni"],
    ["/host", "/host"],
    ["/etc/host/cni", "/etc/host/cni"],
    ["", ""],
  ];
  for (const [path, expected] of rows) {
    await t.step(path, () => {
      assertEquals(nodePath(path, (path) => there.has(path)), expected);
    });
  }
});
