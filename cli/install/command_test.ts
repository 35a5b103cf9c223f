// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * `cni install` and `cni uninstall`, by the executable itself.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { join } from "@std/path/posix";
import { pause } from "../../base/deadline.ts";
import { ifPossible } from "../../base/files/io.ts";
import {
  allOf,
  ignoreUnless,
  requireRoot,
} from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { assertSuccess } from "../../tests/_harness/call_outcome.ts";
import { BIN, needsBin } from "../../tests/_harness/executables.ts";

const GO_PTP = "#!/bin/sh\n# another project's ptp\n";
const VERSION = { CNI_COMMAND: "VERSION" };

/** How `cni` ended. */
interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A node's directories: plugins, with another project's ptp, and configurations. */
class Node implements Disposable {
  readonly #root = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly bin: string;
  readonly conf: string;
  readonly cache = join(this.#root, "cache");

  constructor(bin = "bin", conf = "net.d") {
    this.bin = join(this.#root, bin);
    this.conf = join(this.#root, conf);
    Deno.mkdirSync(this.bin, { recursive: true });
    Deno.mkdirSync(this.conf, { recursive: true });
    Deno.writeTextFileSync(join(this.bin, "ptp"), GO_PTP, { mode: 0o755 });
  }

  async cni(command: string, ...flags: readonly string[]): Promise<Ended> {
    const { code, stdout, stderr } = await new Deno.Command(`${BIN}/cni`, {
      args: [command, this.bin, "--cache-dir", this.cache, ...flags],
      env: { NETCONFPATH: this.conf },
    }).output();
    const decoder = new TextDecoder();
    return {
      code,
      stdout: decoder.decode(stdout),
      stderr: decoder.decode(stderr),
    };
  }

  /** Runs `cni` with `--json` and returns its changes by name. */
  async changes(
    command: string,
    ...flags: readonly string[]
  ): Promise<Record<string, string>> {
    const { code, stdout, stderr } = await this.cni(
      command,
      "--json",
      ...flags,
    );
    assertEquals(code, 0, stdout + stderr);
    const files: { name: string; change: string }[] = JSON.parse(stdout).files;
    return Object.fromEntries(files.map(({ name, change }) => [name, change]));
  }

  /** Describes each file: a link's target, or mode and size. */
  state(): Record<string, string> {
    return Object.fromEntries(
      [...Deno.readDirSync(this.bin)].map(({ name, isSymlink }) => {
        const path = join(this.bin, name);
        if (isSymlink) return [name, Deno.readLinkSync(path)];
        const { mode, size, mtime } = Deno.statSync(path);
        return [name, `${mode} ${size} ${mtime?.getTime()}`];
      }),
    );
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.#root, { recursive: true });
  }
}

/** Whether this process may mount in a namespace of its own. */
const mountsByUnshare = new Deno.Command("unshare", {
  args: ["--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
  stdout: "null",
  stderr: "null",
}).outputSync().success;

const mountsInNamespace = ignoreUnless(
  mountsByUnshare,
  "needs to mount in a namespace of its own",
);

function onNode(name: string, test: (node: Node) => Promise<void>): void {
  Deno.test(`cni install ${name}`, needsBin, async () => {
    using node = new Node();
    await test(node);
  });
}

onNode("lists replaced files, and uninstall restores them", async (node) => {
  const before = node.state();
  const dry = await node.changes("install", "--dry-run");
  assertEquals(node.state(), before);

  const changes = await node.changes("install");
  assertEquals(changes, dry);
  assertEquals([changes["ptp"], changes["bridge"]], ["replaced", "installed"]);
  const others = ["multus", "multus-shim", "noop", "debug", "flannel"];
  for (const name of [...others, "whereabouts"]) {
    assert(!(name in changes), name);
  }
  const installed = node.state();
  assertEquals(installed["ptp"], "cni");
  const { success } = await new Deno.Command(join(node.bin, "ptp"), {
    env: VERSION,
  }).output();
  assert(success);

  const again = await node.changes("install");
  assertEquals(new Set(Object.values(again)), new Set(["unchanged"]));
  assertEquals(node.state(), installed);

  const undone = await node.changes("uninstall");
  assertEquals([undone["ptp"], undone["bridge"]], ["restored", "removed"]);
  assertEquals(node.state(), before);
  assertEquals(Deno.readTextFileSync(join(node.bin, "ptp")), GO_PTP);
  const { code, stderr } = await node.cni("uninstall");
  assertEquals(code, 1);
  assertStringIncludes(stderr, "Nothing is installed");
  assertEquals(await node.changes("uninstall", "--if-installed"), {});
  assertEquals(node.state(), before);
});

onNode(
  "--prune removes plugins that are not named, unless a network needs them",
  async (node) => {
    const before = node.state();
    await node.changes("install", "--only=ptp,vlan,vrf");
    await node.changes("install", "--only=ptp,vlan");
    assertEquals(node.state()["vrf"], "cni");
    const pruning = ["--only=vlan", "--prune"];
    const dry = await node.changes("install", ...pruning, "--dry-run");
    assertEquals(node.state()["vrf"], "cni");
    const changes = await node.changes("install", ...pruning);
    assertEquals(changes, dry);
    assertEquals([changes["ptp"], changes["vrf"]], ["restored", "removed"]);
    const installed = node.state();
    assertEquals(Object.keys(installed).toSorted(), [
      ".cni-install",
      "cni",
      "ptp",
      "vlan",
    ]);
    assertEquals(installed["ptp"], before["ptp"]);

    const list = {
      cniVersion: "1.0.0",
      name: "v",
      plugins: [{ type: "vlan" }],
    };
    Deno.writeTextFileSync(join(node.conf, "v.conflist"), JSON.stringify(list));
    const refused = await node.cni("install", "--only=ptp", "--prune");
    assertEquals(refused.code, 1);
    assertStringIncludes(refused.stderr, "v.conflist needs vlan");
    assertEquals(node.state(), installed);
    await node.changes("install", "--only=ptp", "--prune", "--force");
    assertEquals(node.state()["vlan"], undefined);
  },
);

onNode("--only --copy, and --rollback", async (node) => {
  const before = node.state();
  const names = ["--only", "ptp,host-local", "--copy"];
  assertEquals(await node.changes("install", ...names), {
    "cni": "installed",
    "ptp": "replaced",
    "host-local": "installed",
  });
  const { size } = Deno.statSync(`${BIN}/cni`);
  for (const name of ["ptp", "host-local"]) {
    const info = Deno.lstatSync(join(node.bin, name));
    assertEquals([info.isFile, info.size], [true, size]);
  }
  // Copies become links; what they had replaced is not forgotten.
  assertEquals(await node.changes("install", "--only", "ptp"), {
    "cni": "unchanged",
    "ptp": "updated",
  });
  await node.changes("install", "--rollback");
  assertEquals(node.state(), before);
});

onNode("copies flannel, which its manifest overwrites", async (node) => {
  await node.changes("install", "--only", "ptp,flannel");
  Deno.writeTextFileSync(join(node.bin, "flannel"), "another");
  const { success, stderr } = await new Deno.Command(join(node.bin, "ptp"), {
    env: VERSION,
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  assertEquals((await node.changes("uninstall"))["flannel"], "kept");
});

onNode(
  "updates an older executable, and keeps files that were added later",
  async (node) => {
    await node.changes("install", "--only", "ptp,bridge");
    Deno.writeTextFileSync(join(node.bin, "cni.old"), "older");
    Deno.renameSync(join(node.bin, "cni.old"), join(node.bin, "cni"));
    // Another package replaced this project's plugin with its own.
    Deno.removeSync(join(node.bin, "bridge"));
    Deno.writeTextFileSync(join(node.bin, "bridge"), "later");
    assertEquals(await node.changes("uninstall", "--dry-run"), {
      "bridge": "kept",
      "ptp": "restored",
      "cni": "kept",
    });
    assertEquals(
      (await node.changes("install", "--only", "ptp"))["cni"],
      "replaced",
    );
    await node.changes("uninstall");
    assertEquals(Deno.readTextFileSync(join(node.bin, "bridge")), "later");
    assertEquals(Deno.readTextFileSync(join(node.bin, "cni")), "older");
  },
);

/** Installs an older version of this project, with another content. */
async function installOlder(
  node: Node,
  ...flags: readonly string[]
): Promise<void> {
  const directory = join(node.bin, "../older"), older = join(directory, "cni");
  Deno.mkdirSync(directory);
  Deno.copyFileSync(`${BIN}/cni`, older);
  Deno.writeTextFileSync(older, "older", { append: true });
  const { success, stderr } = await new Deno.Command(older, {
    args: ["install", node.bin, "--cache-dir", node.cache, ...flags],
    env: { NETCONFPATH: node.conf },
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  Deno.removeSync(directory, { recursive: true });
}

onNode("recognizes its files on a node made from an image", async (node) => {
  const only = "--only=ptp,whereabouts";
  Deno.copyFileSync(join(node.bin, "ptp"), join(node.bin, "whereabouts"));
  const before = node.state();
  /** Gives each file another inode. */
  const copy = async (): Promise<void> => {
    Deno.renameSync(node.bin, `${node.bin}.from`);
    const { success } = await new Deno.Command("cp", {
      args: ["-a", `${node.bin}.from`, node.bin],
    }).output();
    assert(success);
    Deno.removeSync(`${node.bin}.from`, { recursive: true });
  };
  await installOlder(node, only);
  await copy();
  assertEquals(await node.changes("install", only), {
    "cni": "updated",
    "ptp": "unchanged",
    "whereabouts": "updated",
  });
  await copy();
  // What a killed installation leaves.
  Deno.writeTextFileSync(join(node.bin, ".whereabouts.unfinished"), "");
  await node.changes("uninstall");
  assertEquals(node.state(), before);
});

Deno.test({
  ...allOf(needsBin, mountsInNamespace),
  name: "cni install keeps what it replaced if it ends before a rename" +
    allOf(needsBin, mountsInNamespace).suffix,
  async fn(): Promise<void> {
    using node = new Node();
    Deno.copyFileSync(join(node.bin, "ptp"), join(node.bin, "whereabouts"));
    const before = node.state();
    await installOlder(node, "--copy", "--only=ptp,whereabouts");
    const installed = node.state(), names = new Set(Object.keys(installed));
    for (const name of ["whereabouts", "ptp"]) {
      // A file on which another is mounted cannot be replaced.
      const script = `mount --bind "$0/${name}" "$0/${name}"
        ${BIN}/cni install "$0" --only ${name} || exit 7`;
      const { code, stderr } = await new Deno.Command("unshare", {
        args: ["--mount", "sh", "-c", script, node.bin],
        env: { NETCONFPATH: node.conf },
      }).output();
      assertEquals(code, 7);
      assertStringIncludes(new TextDecoder().decode(stderr), "busy");
      const left = node.state();
      assertEquals(left[name], installed[name]);
      assertEquals(new Set(Object.keys(left)), names);
      assertEquals(await node.changes("install", "--only", name), {
        "cni": "unchanged",
        [name]: "updated",
      });
    }
    await node.changes("uninstall");
    assertEquals(node.state(), before);
  },
});

/** Another project's plugins in one executable, which says as what it is called. */
const MULTI_CALL = '#!/bin/sh\necho "theirs: ${0##*/}"\n';

/** Ways in which plugins lead to an executable `cni` of another project. */
const ARRANGEMENTS: Readonly<Record<string, (bin: string) => void>> = {
  "links": (bin) => {
    Deno.writeTextFileSync(join(bin, "cni"), MULTI_CALL, { mode: 0o755 });
    Deno.symlinkSync("cni", join(bin, "bridge"));
    Deno.symlinkSync("./cni", join(bin, "flannel"));
    Deno.symlinkSync(join(bin, "cni"), join(bin, "loopback"));
    Deno.symlinkSync("../bin/cni", join(bin, "host-local"));
    Deno.symlinkSync("cni", join(bin, "portmap"));
  },
  "hard links": (bin) => {
    Deno.writeTextFileSync(join(bin, "cni"), MULTI_CALL, { mode: 0o755 });
    for (const name of ["bridge", "flannel", "loopback", "portmap"]) {
      Deno.linkSync(join(bin, "cni"), join(bin, name));
    }
    Deno.symlinkSync("loopback", join(bin, "host-local"));
  },
  "links to links": (bin) => {
    Deno.writeTextFileSync(join(bin, "cni"), MULTI_CALL, { mode: 0o755 });
    Deno.symlinkSync("cni", join(bin, "portmap"));
    Deno.symlinkSync("portmap", join(bin, "bridge"));
    Deno.symlinkSync("bridge", join(bin, "flannel"));
    Deno.symlinkSync(join(bin, "bridge"), join(bin, "loopback"));
    Deno.symlinkSync("cni", join(bin, "host-local"));
  },
  "links to a link that leads out of the directory": (bin) => {
    const data = join(bin, "../data");
    Deno.mkdirSync(data);
    Deno.writeTextFileSync(join(data, "k3s"), MULTI_CALL, { mode: 0o755 });
    Deno.symlinkSync("k3s", join(data, "cni"));
    Deno.symlinkSync("../data/cni", join(bin, "cni"));
    for (const name of ["bridge", "flannel", "loopback"]) {
      Deno.symlinkSync("cni", join(bin, name));
    }
    Deno.symlinkSync(join(bin, "cni"), join(data, "back"));
    Deno.symlinkSync("../data/back", join(bin, "host-local"));
    Deno.symlinkSync("cni", join(bin, "portmap"));
  },
  "links to a plugin": (bin) => {
    Deno.writeTextFileSync(join(bin, "portmap"), MULTI_CALL, { mode: 0o755 });
    for (const name of ["bridge", "flannel", "loopback", "cni"]) {
      Deno.symlinkSync("portmap", join(bin, name));
    }
    Deno.symlinkSync("cni", join(bin, "host-local"));
  },
};

/** Runs a plugin of the node as runtimes do, for what it prints. */
async function print(node: Node, name: string): Promise<string> {
  const { stdout } = await new Deno.Command(join(node.bin, name), {
    env: VERSION,
  }).output();
  return new TextDecoder().decode(stdout).trim();
}

/** The plugins of {@linkcode ARRANGEMENTS} that stay another project's. */
const THEIRS = ["bridge", "flannel", "loopback", "host-local"];

for (const [arrangement, make] of Object.entries(ARRANGEMENTS)) {
  onNode(`keeps another project's plugins as ${arrangement}`, async (node) => {
    make(node.bin);
    const before = node.state();
    const requireTheirs = async (names: readonly string[]): Promise<void> => {
      for (const name of names) {
        assertEquals(await print(node, name), `theirs: ${name}`);
      }
    };
    const [only] = ["--only=portmap"];
    assertStringIncludes(
      (await node.cni("uninstall")).stderr,
      "Nothing is installed",
    );
    assertEquals(node.state(), before);
    await requireTheirs([...THEIRS, "portmap", "cni"]);

    const dry = await node.changes("install", only, "--dry-run");
    assertEquals(node.state(), before);
    const changes = await node.changes("install", only);
    assertEquals(changes, dry);
    assertEquals([changes["cni"], changes["portmap"]], [
      "replaced",
      "replaced",
    ]);
    await requireTheirs(THEIRS);
    assertStringIncludes(await print(node, "portmap"), "supportedVersions");
    const installed = node.state();

    const again = await node.changes("install", only);
    assertEquals(new Set(Object.values(again)), new Set(["unchanged"]));
    await node.changes("install", only, "--prune");
    assertEquals(node.state(), installed);
    await requireTheirs(THEIRS);

    // One more of them becomes ours, and then theirs again.
    await node.changes("install", "--only=portmap,bridge");
    assertStringIncludes(await print(node, "bridge"), "supportedVersions");
    await requireTheirs(THEIRS.slice(1));
    for (const attempt of ["first", "second"]) {
      await node.changes("uninstall");
      assertEquals(node.state(), before, attempt);
      await requireTheirs([...THEIRS, "portmap", "cni"]);
      await node.changes("install", only);
    }
    await node.changes("uninstall", "--force");
    assertEquals(node.state(), before);
  });
}

onNode("names plugins that still run another program", async (node) => {
  ARRANGEMENTS["links"]?.(node.bin);
  for (const flags of [["--dry-run"], []]) {
    const { stdout, stderr } = await node.cni(
      "install",
      "--only=portmap",
      ...flags,
    );
    assertMatch(stdout, /^bridge +repointed$/m);
    assertMatch(stdout, /^cni +replaced$/m);
    assertStringIncludes(
      stderr,
      "bridge, flannel, host-local, loopback link to a program that is " +
        "replaced; they keep running it",
    );
  }
  // A build of an image deletes what was replaced.
  Deno.removeSync(join(node.bin, ".cni-install/replaced"), { recursive: true });
  const undone = await node.changes("uninstall");
  assertEquals([undone["bridge"], undone["portmap"]], ["kept", "removed"]);
  assertEquals(await print(node, "bridge"), "theirs: bridge");
});

onNode("--dry-run shows the effect on networks", async (node) => {
  const put = (file: string, name: string, plugins: object[]): void =>
    Deno.writeTextFileSync(
      join(node.conf, file),
      JSON.stringify({ cniVersion: "1.0.0", name, plugins }),
    );
  for (const name of ["bridge", "firewall", "host-local", "istio-cni"]) {
    Deno.copyFileSync(join(node.bin, "ptp"), join(node.bin, name));
  }
  const ipam = { type: "host-local", subnet: "10.1.0.0/24" };
  put("10-pods.conflist", "pods", [
    { type: "ptp", ipMasq: true, ipam, capabilities: { ips: true } },
    { type: "sbr" },
    { type: "istio-cni", policy: { type: "ptp-like" } },
  ]);
  put("20-vlan.conflist", "vlan", [
    // A key of a later release of the Go plugin.
    { type: "bridge", vlan: 5, ipam: {}, portIsolationGroup: "a" },
    // The Go plugin ignores it.
    { type: "firewall", backend: "nft" },
  ]);
  put("30-multus.conflist", "many", [{
    type: "multus",
    delegates: [
      { type: "bridge", vlan: null, vlanTrunk: [], ipam: { type: "calico" } },
      { plugins: [{ type: "ptp", ipMasq: true, ipam }] },
      { type: "ptp", ipMasq: true, ipam },
    ],
  }]);
  const before = node.state();
  const { stdout } = await node.cni("install", "--dry-run", "--json");
  assertEquals(node.state(), before);
  const { networks } = JSON.parse(stdout);
  assertEquals(networks, [{
    network: "pods",
    file: join(node.conf, "10-pods.conflist"),
    plugins: {
      "ptp": "replaced",
      "sbr": "installed",
      "istio-cni": "kept",
      "host-local": "replaced",
    },
    differences: [
      'ptp "ipMasq":true: after a rollback, Go plugins up to 1.5 leave an ' +
      "nftables rule (docs/ptp.md)",
      'host-local "ips":true: a second ADD with a requested address is ' +
      "refused (docs/host-local.md)",
    ],
    unknownKeys: [],
    errors: [],
  }, {
    network: "vlan",
    file: join(node.conf, "20-vlan.conflist"),
    plugins: { bridge: "replaced", firewall: "replaced" },
    differences: [
      'bridge "vlan": VLAN filtering is also enabled on an existing bridge ' +
      "(docs/bridge.md)",
      "firewall: after a rollback, the nftables table inet cni_firewall " +
      "remains (docs/firewall.md)",
    ],
    unknownKeys: [
      "plugins[0].portIsolationGroup: bridge has no such key; did you mean " +
      `"portIsolation"?`,
    ],
    errors: [
      'plugins[1].backend: expected "iptables", "firewalld" or "nftables", ' +
      'got "nft"',
    ],
  }, {
    network: "many",
    file: join(node.conf, "30-multus.conflist"),
    plugins: {
      "multus": "kept",
      "bridge": "replaced",
      "ptp": "replaced",
      "host-local": "replaced",
    },
    differences: [
      'ptp "ipMasq":true: after a rollback, Go plugins up to 1.5 leave an ' +
      "nftables rule (docs/ptp.md)",
    ],
    unknownKeys: [],
    errors: [],
  }]);
  put("40-multus.conflist", "mixed", [{
    type: "multus",
    delegates: [
      { type: "ptp", ipam },
      { type: "bridge", mtu: "1400", ipam: { type: "calico" } },
    ],
  }]);
  // New plugins are also assessed.
  put("50-tap.conflist", "tap", [{ type: "tap", mtu: "1400" }]);
  const assessed = await node.cni("install", "--dry-run", "--json");
  const [tap] = JSON.parse(assessed.stdout).networks
    .filter(({ network }: { network: string }) => network === "tap");
  assertEquals([tap.plugins, tap.differences], [{ tap: "installed" }, []]);
  assertStringIncludes(tap.errors.join(), "plugins[0].mtu: expected");
  const text = (await node.cni("install", "--dry-run")).stdout;
  assertMatch(
    text,
    /^ +unknown plugins\[0\]\.portIsolationGroup: bridge has no/m,
  );
  // What stays is neither assessed nor compared.
  const some = await node.cni("install", "--dry-run", "--only", "host-local");
  assertStringIncludes(some.stdout, "vlan (");
  assertEquals(some.stdout.match(/error plugins|ipMasq|unknown/g), null);
});

onNode("--dry-run fails like the installation", async (node) => {
  /** Returns the errors of a dry run and of an installation. */
  const fail = async (
    directory: string,
    wrapper: readonly string[] = [],
  ): Promise<string> => {
    const [path = "", ...args] = [...wrapper, `${BIN}/cni`];
    const errors: string[] = [];
    const options = ["--only=ptp,vlan", "--cache-dir", node.cache];
    for (const flags of [["--dry-run"], []]) {
      const { code, stderr } = await new Deno.Command(path, {
        args: [...args, "install", directory, ...options, ...flags],
        env: { NETCONFPATH: node.conf },
      }).output();
      assertEquals(code, 1, directory);
      errors.push(new TextDecoder().decode(stderr));
    }
    assertEquals(errors[1], errors[0]);
    return errors[0] ?? "";
  };
  const ptp = join(node.bin, "ptp");
  assertStringIncludes(await fail(ptp), `Cannot write to "${ptp}"`);
  assertStringIncludes(
    await fail(`${ptp}/bin`),
    `Cannot write to "${ptp}/bin"`,
  );
  const before = node.state();
  if (mountsByUnshare) {
    const script = 'mount -t tmpfs -o ro none "$0" && exec "$@"';
    const readOnly = ["unshare", "--mount", "sh", "-c", script, node.bin];
    for (const directory of [node.bin, `${node.bin}/more/bin`]) {
      const problem = await fail(directory, readOnly);
      assertStringIncludes(problem, `Cannot write to "${directory}"`);
      assertStringIncludes(problem, "EROFS");
    }
  }
  assertEquals(node.state(), before);
  const vlan = join(node.bin, "vlan");
  Deno.mkdirSync(vlan);
  assertStringIncludes(
    await fail(node.bin),
    `Cannot replace "${vlan}"; it is a directory`,
  );
});

onNode("--dry-run shows limits that are too low", async (node) => {
  const runtime = join(node.conf, "containerd");
  Deno.copyFileSync("/bin/sleep", runtime);
  await using service = new Deno.Command("sh", {
    args: ["-c", `ulimit -n 16; exec ${runtime} 60`],
  }).spawn();
  const comm = `/proc/${service.pid}/comm`;
  while (Deno.readTextFileSync(comm) !== "containerd\n") await pause(5);
  const { stdout } = await node.cni("install", "--dry-run");
  assertStringIncludes(
    stdout,
    "error LimitNOFILE of containerd is 16 files, but plugins need 20",
  );
});

onNode("refuses unknown plugin names", async (node) => {
  const before = node.state();
  const { code, stderr } = await node.cni("install", "--only", "prp");
  assertEquals(code, 1);
  assertStringIncludes(stderr, 'no plugin is named "prp"; did you mean "ptp"?');
  assertEquals(node.state(), before);
});

onNode("cannot be undone while a network needs it", async (node) => {
  await node.changes("install", "--only", "ptp,chain,host-local");
  const plugins = [{
    type: "chain",
    plugins: [{ type: "ptp", ipam: { type: "host-local" } }],
  }];
  const file = join(node.conf, "10-pods.conflist");
  const list = { cniVersion: "1.0.0", name: "pods", plugins };
  Deno.writeTextFileSync(file, JSON.stringify(list));
  const before = node.state();
  const { code, stderr } = await node.cni("uninstall");
  assertEquals(code, 1);
  assertStringIncludes(stderr, `${file} needs chain, which would be missing`);
  assertEquals(node.state(), before);
  await node.changes("uninstall", "--force");
});

onNode("names the next step if a network needs it", async (node) => {
  await node.changes("install", "--only", "ptp,host-local");
  const file = join(node.conf, "10-pods.conflist");
  const plugins = [{ type: "ptp", ipam: { type: "host-local" } }];
  const list = { cniVersion: "1.0.0", name: "pods", plugins };
  Deno.writeTextFileSync(file, JSON.stringify(list));
  const { code, stderr } = await node.cni("uninstall");
  assertEquals(code, 1);
  assertStringIncludes(
    stderr,
    `run rm ${file} if you no longer need this network, or use --force`,
  );
  Deno.removeSync(file);
  await node.changes("uninstall");
});

onNode("cannot be undone while DEL needs a plugin", async (node) => {
  await node.changes("install", "--only", "chain,ptp");
  const results = join(node.conf, "cache", "results");
  Deno.mkdirSync(results, { recursive: true });
  const plugins = [{ type: "chain", plugins: [{ type: "ptp" }] }];
  const list = { cniVersion: "1.0.0", name: "pods", plugins };
  const cached = {
    kind: "cniCacheV1",
    containerId: "c1",
    ifName: "eth0",
    networkName: "pods",
    config: new TextEncoder().encode(JSON.stringify(list)).toBase64(),
    result: { cniVersion: "1.0.0" },
  };
  Deno.writeTextFileSync(`${results}/pods-c1-eth0`, JSON.stringify(cached));
  const flags = ["--cache-dir", join(node.conf, "cache")];
  const before = node.state();
  const { code, stderr } = await node.cni("uninstall", ...flags);
  assertEquals(code, 1, stderr);
  assertStringIncludes(
    stderr,
    "was attached with chain, which would be missing",
  );
  assertEquals(node.state(), before);
  await node.changes("uninstall", "--force", ...flags);
});

onNode("cannot be undone while flannel needs a plugin", async (node) => {
  const rows: [plugin: string, keys: object][] = [
    ["bridge", {}],
    ["bridge", { delegate: { mtu: 1400 }, ipam: { type: "static" } }],
    ["host-local", { delegate: { type: "ptp" } }],
  ];
  const file = join(node.conf, "10-flannel.conflist");
  for (const [plugin, keys] of rows) {
    await node.changes("install", "--only", "bridge,host-local");
    const plugins = [{ type: "flannel", ...keys }];
    const list = { cniVersion: "1.0.0", name: "cbr0", plugins };
    Deno.writeTextFileSync(file, JSON.stringify(list));
    const before = node.state();
    const { code, stderr } = await node.cni("uninstall");
    assertEquals(code, 1);
    assertStringIncludes(stderr, `needs ${plugin}, which would be missing`);
    assertEquals(node.state(), before);
    await node.changes("uninstall", "--force");
  }
});

onNode("reports why it does not enable the daemon", async (node) => {
  const reason =
    `The node daemon is not installed: no runtime uses "${node.bin}" by default. ` +
    `To install it: ${node.bin}/cni daemon enable\n`;
  const flags = ["--only", "host-local"];
  for (const more of [["--dry-run"], []]) {
    const { stderr } = await node.cni("install", ...flags, ...more);
    assertStringIncludes(stderr, reason);
  }
  const { stderr } = await node.cni("install", ...flags, "--no-daemon");
  assertEquals(stderr, "");
});

onNode("does not disturb running plugins", async (node) => {
  await node.changes("install");
  const path = join(node.bin, "ptp");
  let isDone = false;
  const call = async (): Promise<string[]> => {
    const failures: string[] = [];
    do {
      const ended = await new Deno.Command(path, { env: VERSION }).output();
      if (!ended.success) {
        failures.push(new TextDecoder().decode(ended.stderr));
      }
    } while (!isDone);
    return failures;
  };
  const callers = Array.from({ length: 4 }, call);
  const cni = join(node.bin, "cni");
  for (const form of ["--copy", "--link"]) {
    // Another program, so that the executable is installed anew.
    Deno.copyFileSync("/bin/true", `${cni}.other`);
    Deno.renameSync(`${cni}.other`, cni);
    const changes = await node.changes("install", form, "--only", "ptp");
    assertEquals(changes, { cni: "replaced", ptp: "updated" });
  }
  isDone = true;
  assertEquals((await Promise.all(callers)).flat(), []);
});

const needsMounts = allOf(
  needsBin,
  mountsInNamespace,
  ignoreUnless(
    ifPossible(() => Deno.statSync("/usr/lib/systemd")) !== undefined,
    "needs /usr/lib/systemd, to mount on it",
  ),
);

/**
 * Enables the daemon of `$0` as in an image: systemd is there, and does not run. Needs
 * a mount namespace.
 */
const ENABLED = `set -e
      mount -t tmpfs tmpfs /run
      mount -t tmpfs tmpfs /etc
      mount -t tmpfs tmpfs /usr/lib/systemd
      mkdir -p /etc/systemd/system /etc/cni/net.d
      touch /usr/lib/systemd/systemd
      printf '#!/bin/sh\n' >/run/systemctl && chmod +x /run/systemctl
      export PATH=/run:$PATH
      ${BIN}/cni install "$0" --no-daemon --only host-local
      "$0/cni" daemon enable`;

/** Runs a script in namespaces of its own, and returns what it printed and noted. */
async function runAlone(
  script: string,
  directory: string,
): Promise<[text: string, notes: string]> {
  const { code, stdout, stderr } = await new Deno.Command("unshare", {
    args: ["--mount", "--net", "sh", "-c", script, directory],
  }).output();
  const decoder = new TextDecoder();
  const [text, notes] = [decoder.decode(stdout), decoder.decode(stderr)];
  assertEquals(code, 0, text + notes);
  return [text, notes];
}

Deno.test({
  name: "cni daemon enable says who starts the daemon if systemd does not " +
    `run, and cni uninstall that it still runs${needsMounts.suffix}`,
  ignore: needsMounts.ignore,
  async fn(): Promise<void> {
    using node = new Node();
    const script = `${ENABLED}
      ${BIN}/cni install /opt/cni/bin --dry-run --only host-local
      "$0/cni" daemon --detach --no-warm-up 2>/run/log
      trap 'kill "$(cat /run/cni/daemon.pid)"' EXIT
      "$0/cni" daemon enable
      "$0/cni" daemon disable || echo "disable exits with $?"
      "$0/cni" uninstall "$0"
      ${BIN}/cni daemon status`;
    const [text, notes] = await runAlone(script, node.bin);
    assertMatch(text, /^daemon unit installed$/m);
    for (const directory of [node.bin, "/opt/cni/bin"]) {
      assertStringIncludes(
        notes,
        "The node daemon is not started: systemd, which starts it at boot, " +
          `does not run here. To start it now: ${directory}/cni daemon ` +
          "--detach 2>>/var/log/cni-daemon.log\n",
      );
    }
    const [, pid] = /^daemon started, process (\d+)$/m.exec(text) ?? [];
    assertMatch(text, new RegExp(`^daemon +running, process ${pid}$`, "m"));
    assertStringIncludes(
      notes,
      `A node daemon is already running, process ${pid}: `,
    );
    const stillRuns =
      "The node daemon is still running: systemd did not start it. To stop it: " +
      `kill ${pid}, or stop the program that runs it\n`;
    assertEquals(notes.split(stillRuns).length, 3);
    assertMatch(
      text,
      new RegExp(`^daemon running, process ${pid}\ndisable exits with 1$`, "m"),
    );
    const removed = "It runs an executable that has been removed; to stop it: ";
    assertStringIncludes(notes, `${removed}kill ${pid}\n`);
  },
});

const UNIT = "/etc/systemd/system/cni-daemon.service";

Deno.test({
  name:
    "cni uninstall removes no file if it is interrupted, or systemd refuses, " +
    `before the unit is removed${needsMounts.suffix}`,
  ignore: needsMounts.ignore,
  async fn(): Promise<void> {
    using node = new Node();
    const script = `${ENABLED}
      cp -p /run/systemctl /run/working
      for end in 'kill -INT $PPID; exec sleep 60' 'echo no bus >&2; exit 1'; do
        echo "$end" >>/run/systemctl
        "$0/cni" uninstall "$0" --force || echo "uninstall exits with $?"
        ls ${UNIT} "$0/cni" "$0/host-local"
        cp -p /run/working /run/systemctl
      done
      "$0/cni" uninstall "$0"
      ls ${UNIT} || true`;
    const [text, notes] = await runAlone(script, node.bin);
    const exits = text.match(/^uninstall exits with .*/mg);
    assertEquals(exits, ["uninstall exits with 130", "uninstall exits with 1"]);
    assertStringIncludes(
      notes,
      "Cannot uninstall: systemd did not remove the node daemon: " +
        'Cannot run "systemctl --root=/ disable cni-daemon.service": no bus. ' +
        "No plugin was removed. Try again when systemctl works; " +
        `where systemd does not run, first run rm ${UNIT}\n`,
    );
    assertMatch(text, /^daemon +removed$/m);
    assertEquals(text.split(`${UNIT}\n`).length, 3, text);
  },
});

Deno.test({
  name: "cni install enables the daemon when systemd no longer refuses" +
    needsMounts.suffix,
  ignore: needsMounts.ignore,
  async fn(): Promise<void> {
    using node = new Node();
    const script = `${ENABLED}
      mount -t tmpfs tmpfs /opt
      mkdir -p /opt/cni/bin
      rm ${UNIT}
      echo 'echo "$@" >>/run/log; [ -e /run/working ]' >>/run/systemctl
      for file in /run/other /run/working; do
        touch $file
        ${BIN}/cni install /opt/cni/bin --only host-local
      done
      cat /run/log`;
    const [text, notes] = await runAlone(script, node.bin);
    assertEquals(text.match(/^daemon .*/mg)?.map((row) => row.split(/ +/)[1]), [
      "unit",
      "failed",
      "unit",
    ]);
    assertEquals(text.match(/^--root=.*/mg), [
      "--root=/ enable cni-daemon.service",
      "--root=/ enable cni-daemon.service",
    ]);
    assertStringIncludes(notes, "Then: /opt/cni/bin/cni daemon enable\n");
  },
});

Deno.test({
  name: "cni install does not start a second daemon" +
    needsMounts.suffix,
  ignore: needsMounts.ignore,
  async fn(): Promise<void> {
    // A machine that systemd runs: its first process is this shell.
    const script = `set -e
      mount -t tmpfs tmpfs /run
      mkdir -p /run/systemd/system /run/conf
      printf systemd >/proc/1/comm
      cat >/run/systemctl <<'END'
#!/bin/sh
case $1 in show) cat /run/state;; *) echo "$*" >/run/done;; esac
END
      chmod +x /run/systemctl
      export PATH=/run:$PATH
      echo '{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "bridge", "daemonSocket": "/run/none.sock"}]}' >/run/conf/n.conflist
      for state in 'disabled 0' ' 0' 'enabled 0' 'disabled 1'; do
        printf 'UnitFileState=%s\nMainPID=%s\n' "\${state% *}" "\${state#* }" >/run/state
        ${BIN}/cni daemon restart >/dev/null || echo "exits with $?" >&2
        [ ! -e /run/done ] || cat /run/done >&2
        rm -f /run/done
        ${BIN}/cni doctor --json --conf-dir /run/conf --cache-dir /run/cache |
          tr -d '\n' && echo
      done`;
    const { stdout, stderr } = await new Deno.Command("unshare", {
      args: ["-mnpf", "--mount-proc", "sh", "-c", script],
    }).output();
    const decoder = new TextDecoder();
    const refused =
      "Cannot restart the node daemon: cni-daemon.service is not " +
      "enabled and does not run; delete this node's pod of the DaemonSet that " +
      "runs the daemon or, without a DaemonSet, run cni daemon enable\n" +
      "exits with 1\n";
    const restarted = "restart cni-daemon.service\n";
    assertEquals(
      decoder.decode(stderr),
      refused + refused + restarted + restarted,
    );
    const fixes = decoder.decode(stdout).trim().split("\n").map((line) =>
      JSON.parse(line).findings
        .find(({ code }: { code: string }) => code === "CNI0402")
    );
    assertEquals(fixes.map((found) => /^cni daemon/.test(found?.command)), [
      false,
      false,
      true,
      true,
    ], JSON.stringify(fixes));
  },
});

Deno.test({
  name: "cni install starts no daemon while one without systemd runs" +
    needsMounts.suffix,
  ignore: needsMounts.ignore,
  async fn(): Promise<void> {
    // A machine that systemd runs: its first process is this shell.
    const script = `set -e
      for directory in /run /opt /etc/systemd/system; do
        mount -t tmpfs tmpfs $directory
      done
      mkdir -p /run/systemd/system
      printf systemd >/proc/1/comm
      cat >/run/systemctl <<'END'
#!/bin/sh
case $1 in
  show) printf 'LoadState=not-found\\nActiveState=inactive\\nUnitFileState=\\nMainPID=0\\n' ;;
  *) echo "$*" >>/run/done ;;
esac
END
      chmod +x /run/systemctl
      export PATH=/run:$PATH
      # As in a pod of a DaemonSet.
      ${BIN}/cni daemon --detach --no-warm-up 2>/run/log >/dev/null
      install() {
        ${BIN}/cni install /opt/cni/bin --only host-local "$@" | grep ^daemon
        ls ${UNIT} 2>/dev/null || true
        [ ! -e /run/done ] || cat /run/done
      }
      pid=$(cat /run/cni/daemon.pid)
      echo "pid $pid"
      install --dry-run
      install
      kill $pid
      while kill -0 $pid 2>/dev/null; do sleep 0.1; done
      install`;
    const { code, stdout, stderr } = await new Deno.Command("unshare", {
      args: ["-mnpf", "--mount-proc", "sh", "-c", script],
    }).output();
    const decoder = new TextDecoder();
    const [text, notes] = [decoder.decode(stdout), decoder.decode(stderr)];
    assertEquals(code, 0, text + notes);
    const [first = "", ...lines] = text.trim().split("\n");
    const [, pid] = /^pid (\d+)$/.exec(first) ?? [];
    assertEquals(lines.map((line) => line.replace(/ {2,}/, " ")), [
      `daemon running, process ${pid}`,
      `daemon running, process ${pid}`,
      "daemon started",
      UNIT,
      "daemon-reload",
      "enable cni-daemon.service",
      "restart cni-daemon.service",
    ]);
    const left = `A node daemon is already running, process ${pid}, which ` +
      "systemd did not start: no other daemon was started.";
    assertEquals(notes.split(left).length, 3, notes);
  },
});

Deno.test({
  name: "cni install restarts a daemon without systemd with its flags" +
    needsMounts.suffix,
  ignore: needsMounts.ignore,
  async fn(): Promise<void> {
    using node = new Node();
    const script = `set -e
      mount -t tmpfs tmpfs /run
      mount -t tmpfs tmpfs /var/log
      show() {
        pid=$(cat /run/cni/daemon.pid)
        trap 'kill $pid' EXIT
        echo "$pid $(readlink /proc/$pid/exe /proc/$pid/fd/2 | tr '\\n' ' ')" \
          "$(tr '\\0' ' ' </proc/$pid/cmdline)"
      }
      ${BIN}/cni install "$0" --no-daemon --only host-local >/dev/null
      "$0/cni" daemon --detach --no-warm-up --no-heal 2>/run/log >/dev/null
      show
      rm "$0/cni" && echo old >"$0/cni"
      ends() {
        while kill -0 $1 2>/dev/null; do sleep 0.1; done
      }
      old=$pid
      ${BIN}/cni install "$0" --only host-local | grep ^daemon
      show
      # Until then, it would listen again after the end of the new one.
      ends $old
      kill -9 $pid
      ends $pid
      "$0/cni" daemon restart
      show
      old=$pid
      "$0/cni" daemon restart
      show
      ends $old`;
    const { code, stdout, stderr } = await new Deno.Command("unshare", {
      args: ["--mount", "--net", "sh", "-c", script, node.bin],
    }).output();
    const decoder = new TextDecoder();
    assertEquals(code, 0, decoder.decode(stderr));
    const lines = decoder.decode(stdout).split("\n").slice(0, -1);
    const bin = Deno.realPathSync(node.bin);
    const pids = new Set(lines.map((line) => /^\d+/.exec(line)?.[0]));
    assertEquals(pids.size, 5, lines.join("\n"));
    const daemonOf = (log: string, flags: string): string =>
      `PID ${bin}/cni ${log}  ${node.bin}/cni daemon ${flags}` +
      "--pid-file=/run/cni/daemon.pid ";
    const flagged = daemonOf("/run/log", "--no-warm-up --no-heal ");
    const plain = daemonOf("/var/log/cni-daemon.log", "");
    assertEquals(lines.map((line) => line.replace(/^\d+/, "PID")), [
      flagged,
      "daemon      restarted",
      flagged,
      "daemon started",
      plain,
      "daemon restarted",
      plain,
    ]);
  },
});

Deno.test({
  name: "cni install does not change a unit of another program" +
    needsMounts.suffix,
  ignore: needsMounts.ignore,
  async fn(): Promise<void> {
    using node = new Node();
    const script = `set -e
      mount -t tmpfs tmpfs /etc
      mount -t tmpfs tmpfs /usr/lib/systemd
      mount -t tmpfs tmpfs /opt
      mkdir -p /etc/systemd/system /etc/cni/net.d /opt/cni/bin
      touch /usr/lib/systemd/systemd
      printf '[Service]\nExecStart=/usr/bin/theirs\n' >${UNIT}
      cp ${UNIT} /opt/unit
      for flag in --dry-run --only=host-local; do
        "$0/cni" install /opt/cni/bin --only host-local $flag
      done
      "$0/cni" daemon enable || echo "enable exits with $?"
      "$0/cni" uninstall /opt/cni/bin
      cmp ${UNIT} /opt/unit`;
    await node.changes("install", "--only", "host-local", "--no-daemon");
    const { code, stdout, stderr } = await new Deno.Command("unshare", {
      args: ["--mount", "sh", "-c", script, node.bin],
    }).output();
    const decoder = new TextDecoder();
    const [text, notes] = [decoder.decode(stdout), decoder.decode(stderr)];
    assertEquals(code, 0, text + notes);
    assertEquals(text.match(/^daemon +failed$/mg)?.length, 2);
    assertMatch(text, /^enable exits with 1$/m);
    const problem = `Cannot write "${UNIT}"; it is the unit of another program`;
    assertEquals(notes.split(problem).length, 4, notes);
  },
});

Deno.test({
  ...requireRoot("attaches containers alongside the plugins of k3s", needsBin),
  async fn(): Promise<void> {
    const k3s = "var/lib/rancher/k3s";
    using node = new Node(`${k3s}/data/0a1b/bin`, `${k3s}/agent/etc/cni/net.d`);
    using hosts = TestHosts.create();
    Deno.removeSync(join(node.bin, "ptp"));
    Deno.writeTextFileSync(join(node.bin, "cni"), MULTI_CALL, { mode: 0o755 });
    for (const name of [...THEIRS, "portmap"]) {
      Deno.symlinkSync("cni", join(node.bin, name));
    }
    const network = { cniVersion: "1.0.0", name: "pods" };
    const plugins = [
      {
        type: "bridge",
        isGateway: true,
        ipMasq: true,
        ipMasqBackend: "nftables",
        ipam: hosts.hostLocal("10.42.0.0/24"),
      },
      {
        type: "portmap",
        backend: "nftables",
        runtimeConfig: {
          portMappings: [{
            hostPort: 8080,
            containerPort: 80,
            protocol: "tcp",
          }],
        },
      },
    ];
    Deno.writeTextFileSync(
      join(node.conf, "10-pods.conflist"),
      JSON.stringify({ ...network, plugins }),
    );
    const before = node.state();
    await node.changes("install", "--only=bridge,host-local,portmap");
    for (const name of ["flannel", "loopback"]) {
      assertEquals(await print(node, name), `theirs: ${name}`);
    }
    const run = (command: string, keys: object = {}): void => {
      const env = { CNI_PATH: node.bin };
      const inOrder = command === "DEL" ? plugins.toReversed() : plugins;
      for (const plugin of inOrder) {
        const config = { ...network, ...plugin, ...prev, ...keys };
        const output = hosts
          .exec(join(node.bin, plugin.type), command, config, { env });
        assertSuccess(output);
        if (command === "ADD") prev = { prevResult: output.json };
      }
    };
    let prev: { prevResult?: unknown } = {};
    run("ADD");
    assertEquals(hosts.leases("pods"), ["10.42.0.2"]);
    run("CHECK");
    run("DEL");
    assertEquals(hosts.leases("pods"), []);
    prev = {};
    run("ADD");
    prev = {};
    run("GC", { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] });
    assertEquals(hosts.leases("pods"), []);
    assertEquals(
      runIn(hosts.host, "nft", "list", "tables"),
      "",
    );
    await node.changes("uninstall");
    assertEquals(node.state(), before);
    for (const name of [...THEIRS, "portmap", "cni"]) {
      assertEquals(await print(node, name), `theirs: ${name}`);
    }
  },
});
