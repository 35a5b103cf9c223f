import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";
import { parseFlags } from "../../../tests/_harness/tool_call.ts";
import {
  type ConfigurationOptions,
  hostPathOfToken,
  INSTALL_FLAGS,
  type InstallOptions,
  readInstallOptions,
  toHostPath,
} from "./options.ts";

const NAMES = {
  pluginNames: ["host-local", "multus", "passthru", "ptp"],
  knownNames: ["host-local", "multus", "passthru", "ptp", "cni"],
};

function read(...args: string[]): InstallOptions {
  const command = "multus install";
  const flags = parseFlags(command, INSTALL_FLAGS, args);
  return readInstallOptions({ command, flags, env: {} }, NAMES);
}

/**
 * Reads the options for a configuration generated from the master network's.
 */
function readMade(...args: string[]): ConfigurationOptions {
  const { configuration } = read(...args);
  if (configuration !== undefined && "keys" in configuration) {
    return configuration;
  }
  throw new Error("no configuration is made");
}

Deno.test("readInstallOptions() has the defaults of upstream multus", () => {
  assertEquals(read(), {
    executable: {
      source: "/proc/self/exe",
      directory: "/host/opt/cni/bin",
      links: ["passthru"],
      replacesOthers: false,
    },
    credentials: {
      serviceAccount: "/var/run/secrets/kubernetes.io/serviceaccount",
      directory: "/host/etc/cni/net.d/multus.d",
      hostPath: "/etc/cni/net.d/multus.d/multus.kubeconfig",
      skipTlsVerify: false,
      env: {},
      isOptional: false,
    },
    configuration: {
      directory: "/host/etc/cni/net.d",
      masterDirectory: "/host/etc/cni/net.d",
      renamesMaster: false,
      cniVersion: "",
      forcesVersion: false,
      takesName: false,
      keys: { kubeconfig: "/etc/cni/net.d/multus.d/multus.kubeconfig" },
      readinessFile: "",
      readinessTimeoutMs: 45_000,
    },
    isWatching: false,
    skipsConfigWatch: false,
    cleansUp: false,
    timeoutMs: 120_000,
  });
});

testRows("readInstallOptions() chooses the links by --plugins", [
  ["", ["passthru"], false],
  ["none", [], true],
  ["all", ["host-local", "passthru", "ptp"], false],
  ["passthru", ["passthru"], true],
  ["ptp,multus,cni", ["ptp", "cni"], true],
], ([plugins, links, replacesOthers]: [string, string[], boolean]) => {
  const { executable } = read(`--plugins=${plugins}`);
  assertEquals(executable?.links, links);
  if (links.length > 0) {
    assertEquals(executable?.replacesOthers, replacesOthers);
  }
}, ([plugins]) => `"${plugins}"`);

Deno.test("readInstallOptions() returns configuration keys in their order", () => {
  const { keys } = readMade(
    "--readiness-indicator-file=/ready",
    "--multus-cni-conf-dir=/host/etc/multus",
    "--additional-bin-dir=/bin2",
    "--daemon-socket-dir=/run/multus",
    "--multus-log-file=/log",
    "--multus-log-level=DEBUG",
    "--multus-log-to-stderr=false",
    "--global-namespaces=a,b",
    "--namespace-isolation",
    "--definition-types=*,chain",
    "--definition-keys=host-local.dataDir",
    "--trusted-namespaces=a, b",
    "--pod-requests=any",
    "--pod-args=mtu,promisc",
    "--pod-routes=10.50.0.0/16,fd50::/16",
    "--multus-kubeconfig-file-host=/k",
  );
  assertEquals(Object.entries(keys), [
    ["namespaceIsolation", true],
    ["globalNamespaces", "a,b"],
    ["definitionTypes", ["*", "chain"]],
    ["definitionKeys", ["host-local.dataDir"]],
    ["trustedNamespaces", ["a", "b"]],
    ["podRequests", "any"],
    ["podArgs", ["mtu", "promisc"]],
    ["podRoutes", ["10.50.0.0/16", "fd50::/16"]],
    ["logToStderr", false],
    ["logLevel", "debug"],
    ["logFile", "/log"],
    ["binDir", "/bin2"],
    ["daemonSocketDir", "/run/multus"],
    ["confDir", "/etc/multus"],
    ["readinessindicatorfile", "/ready"],
    ["kubeconfig", "/k"],
  ]);
});

Deno.test("readInstallOptions() removes only files that it writes", () => {
  const flag = "--cleanup-config-on-exit";
  assertEquals(read(flag).cleansUp, true);
  assertEquals(read(flag, "--multus-conf-file=/x").cleansUp, false);
  assertEquals(read(flag, "--multus-conf-file=none").cleansUp, false);
});

Deno.test("readInstallOptions() omits disabled parts", () => {
  assertEquals(read("--skip-multus-binary-copy").executable, undefined);
  assertEquals(read("--multus-conf-file=none").configuration, undefined);
  assertEquals(read("--multus-conf-file=/x/y.conf").configuration, {
    source: "/x/y.conf",
    directory: "/host/etc/cni/net.d",
  });
});

testRows<[string, number]>("readInstallOptions() reads times", [
  ["0", 0],
  ["45", 45_000],
  ["500ms", 500],
  ["2m", 120_000],
  ["1m30s", 90_000],
  ["999999999h", 2 ** 31 - 1],
], ([text, ms]) => {
  const { readinessTimeoutMs } = readMade(`--readiness-timeout=${text}`);
  assertEquals(readinessTimeoutMs, ms);
});

Deno.test("readInstallOptions() refuses contradictory flags", async (t) => {
  const rows: [string, string][] = [
    [
      "--plugins=nope",
      '--plugins must be of all, none, host-local, multus, passthru, ptp, cni, not "nope"',
    ],
    [
      "--plugins=ptp,",
      '--plugins must be of all, none, host-local, multus, passthru, ptp, cni, not ""',
    ],
    [
      "--multus-log-level=loud",
      '--multus-log-level must be debug, verbose, error or panic, not "loud"',
    ],
    ["--force-cni-version", "--force-cni-version needs --cni-version"],
    [
      "--timeout=soon",
      '--timeout must be a duration such as 500ms, 45s, 2m or 1h30m, not "soon"',
    ],
    [
      "--readiness-timeout=-1s",
      '--readiness-timeout must be a duration such as 500ms, 45s, 2m or 1h30m, not "-1s"',
    ],
  ];
  await eachRow(t, rows, ([flag, why]) => {
    assertThrows(
      () => read(flag),
      CniError,
      `Cannot run "multus install": ${why}`,
    );
  });
});

Deno.test("toHostPath() removes the mount point of the node's root", () => {
  assertEquals(toHostPath("/host/etc/x"), "/etc/x");
  assertEquals(toHostPath("/hosts/etc"), "/hosts/etc");
  assertEquals(toHostPath("/etc/host/x"), "/etc/host/x");
});

Deno.test("hostPathOfToken() returns a path next to the kubeconfig", () => {
  const { credentials } = read("--multus-kubeconfig-file-host=/a/b.conf");
  assertEquals(hostPathOfToken(credentials), "/a/token");
});

Deno.test("docs/multus.md names existing flags only", async () => {
  const page = new URL("../../../docs/multus.md", import.meta.url);
  const [, flags = ""] = (await Deno.readTextFile(page)).split("### Flags");
  const named = [...flags.matchAll(/`--([\w-]+)`/g)].map(([, name = ""]) =>
    name
  );
  assertEquals(named.filter((name) => !Object.hasOwn(INSTALL_FLAGS, name)), [
    "socket-dir",
  ]);
});
