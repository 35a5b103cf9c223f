// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * `multus install` on temporary directories: what it leaves, and what it does
 * about each thing that may happen to it.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { openKubeClient } from "../../kube/client.ts";
import { conformance } from "../_harness/conformance.ts";
import { KubeApi } from "../../kube/testing/kube_api.ts";
import { MultusNode } from "../../plugins/multus/testing/node.ts";

/** Builds a row that has a node of its own. */
function row(test: (node: MultusNode) => Promise<void>): () => Promise<void> {
  return async () => {
    await using node = new MultusNode();
    await test(node);
  };
}

const PODS = { type: "ptp" };
const CONF = "net.d/00-multus.conf", CONFLIST = "net.d/00-multus.conflist";

/** The permissions of a file. */
function modeOf(path: string): number {
  return (Deno.statSync(path).mode ?? 0) & 0o777;
}

/** Installs and watches; returns when the configuration is there. */
async function started(
  node: MultusNode,
  ...flags: string[]
): ReturnType<MultusNode["watch"]> {
  const watch = await node.watch(...flags);
  await node.until("a configuration is there", () => node.conf() !== undefined);
  return watch;
}

function delegateName(node: MultusNode): unknown {
  return node.delegate()?.["name"];
}

function kubeconfigOf(node: MultusNode): {
  clusters: { cluster: Record<string, unknown> }[];
  users: { user: Record<string, unknown> }[];
} {
  return JSON.parse(node.read("net.d/multus.d/multus.kubeconfig") ?? "{}");
}

conformance("multus command", {
  "--version and -v print the version": row(async (node) => {
    for (const flag of ["--version", "-v"]) {
      const { code, stdout, stderr } = await node.multus(flag);
      assertEquals([code, stderr], [0, ""]);
      assertMatch(stdout, /^multus \d+\.\d+\.\d+\n$/);
    }
  }),
  "--help lists the commands, install --help the flags": row(async (node) => {
    const help = await node.multus("--help");
    assertEquals([help.code, help.stderr], [0, ""]);
    assertMatch(help.stdout, /^ {2}install {2,}\w/m);
    const flags = await node.multus("install", "--help");
    assertEquals([flags.code, flags.stderr], [0, ""]);
    assertStringIncludes(flags.stdout, "--cni-bin-dir DIRECTORY");
  }),
  "an unknown command is refused": row(async (node) => {
    assertEquals(await node.multus("toString"), {
      code: 1,
      stdout: "",
      stderr:
        'Cannot run "multus toString": unknown command; see multus --help\n',
    });
  }),
  "an unknown flag is refused, and nothing is done": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const { code, stderr } = await node.install("--wach");
    assertEquals([code, stderr], [
      1,
      'Cannot run "multus install": unknown flag --wach; did you mean --watch?\n',
    ]);
    assertEquals(node.confNames(), ["10-pods.conf"]);
  }),
});

conformance("multus install", {
  "all is there, for root alone, and nothing besides": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const { code, stdout } = await node.install();
    assertEquals([code, stdout], [0, ""]);
    assertEquals(node.confNames(), [
      "00-multus.conflist",
      "10-pods.conf",
      "multus.d",
    ]);
    const paths = [CONFLIST, "net.d/multus.d/multus.kubeconfig"];
    for (const path of [...paths, "net.d/multus.d/token"]) {
      assertEquals(modeOf(`${node.directory}/${path}`), 0o600, path);
    }
    const names = [...Deno.readDirSync(node.binDir)].map(({ name }) => name);
    assertEquals(names.sort(), ["cni-multus", "multus", "passthru"]);
    assertEquals(modeOf(`${node.binDir}/multus`), 0o755);
    assertEquals(node.read("bin/multus"), "#!/bin/sh\necho one\n");
    for (const name of ["multus", "passthru"]) {
      assertEquals(Deno.readLinkSync(`${node.binDir}/${name}`), "cni-multus");
    }
  }),
  "the running executable is installed": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const { code } = await node.install("--multus-bin-file=/proc/self/exe");
    assertEquals(code, 0);
    const { size, mode } = Deno.statSync(`${node.binDir}/multus`);
    assert(size > 10 << 20, `${size} bytes`);
    assertEquals((mode ?? 0) & 0o777, 0o755);
  }),
  "a second time nothing is written": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    await node.install();
    const paths = [
      "bin/multus",
      CONFLIST,
      "net.d/multus.d/token",
      "net.d/multus.d/multus.kubeconfig",
    ];
    const look = (): unknown[] =>
      paths.map((path) => Deno.statSync(`${node.directory}/${path}`).ino);
    const before = look();
    const { code, stderr } = await node.install();
    assertEquals(code, 0);
    assertEquals(look(), before);
    assert(!/wrote|installed|linked/.test(stderr), stderr);
  }),
  "an executable that runs is replaced, and runs on": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    Deno.copyFileSync("/bin/sleep", `${node.binDir}/multus`);
    const running = new Deno.Command(`${node.binDir}/multus`, {
      args: ["60"],
    }).spawn();
    try {
      assertEquals((await node.install()).code, 0);
      assertEquals(node.read("bin/multus"), "#!/bin/sh\necho one\n");
      const exe = Deno.readLinkSync(`/proc/${running.pid}/exe`);
      assertEquals(exe, `${node.binDir}/multus (deleted)`);
    } finally {
      running.kill();
      await running.status;
    }
  }),
  "an executable can be run while it is replaced": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    await node.install();
    const watch = await started(node);
    const path = `${node.binDir}/multus`;
    const outputs = new Set<string>();
    let number = 1;
    const run = (): void => {
      const { code, stdout } = new Deno.Command(path, { stdout: "piped" })
        .outputSync();
      assertEquals(code, 0);
      outputs.add(new TextDecoder().decode(stdout));
    };
    await node.until("ten executables were installed", () => {
      run();
      if (node.read("bin/multus") === node.read("multus")) {
        run();
        const script = `#!/bin/sh\necho ${++number}\n`;
        const next = `${node.directory}/next`;
        Deno.writeTextFileSync(next, script, { mode: 0o755 });
        Deno.renameSync(next, node.source);
      }
      return number > 10;
    });
    assertEquals(outputs.size, 10, [...outputs].join(""));
    await watch.end();
  }),
  "an interrupted copy is replaced": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const left = `${node.binDir}/.cni-multus.unfinished`;
    Deno.writeTextFileSync(left, "a half", { mode: 0o400 });
    assertEquals((await node.install()).code, 0);
    assertEquals(node.read("bin/multus"), "#!/bin/sh\necho one\n");
    assertEquals(node.read("bin/.cni-multus.unfinished"), undefined);
  }),
  "installers at once leave one whole executable": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const runs = [1, 2, 3, 4].map(() => node.install());
    const codes = (await Promise.all(runs)).map(({ code }) => code);
    assertEquals(codes, [0, 0, 0, 0]);
    assertEquals(node.read("bin/multus"), node.read("multus"));
    assertEquals(node.confNames(), [
      "00-multus.conflist",
      "10-pods.conf",
      "multus.d",
    ]);
  }),
  "a foreign plugin stays, unless it is named": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    Deno.writeTextFileSync(`${node.binDir}/passthru`, "other");
    Deno.writeTextFileSync(`${node.binDir}/host-local`, "other");
    assertEquals((await node.install("--plugins=all")).code, 0);
    assertEquals(node.read("bin/host-local"), "other");
    assertEquals(Deno.readLinkSync(`${node.binDir}/ptp`), "cni-multus");
    assertEquals((await node.install("--plugins=")).code, 0);
    assertEquals(node.read("bin/passthru"), "other");
    assertEquals((await node.install("--plugins=host-local")).code, 0);
    assertEquals(Deno.readLinkSync(`${node.binDir}/host-local`), "cni-multus");
  }),
  "--skip-multus-binary-copy, --plugins=none copy none": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    assertEquals((await node.install("--skip-multus-binary-copy")).code, 0);
    assertEquals([...Deno.readDirSync(node.binDir)], []);
    assertEquals((await node.install("--plugins=none")).code, 0);
    const names = [...Deno.readDirSync(node.binDir)].map(({ name }) => name);
    assertEquals(names.sort(), ["cni-multus", "multus"]);
  }),
  "a missing directory is reported, and not created": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    for (const flag of ["cni-bin-dir", "cni-conf-dir"]) {
      const path = `${node.directory}/missing`;
      const { code, stderr } = await node.install(`--${flag}=${path}`);
      assertEquals(code, 1);
      assertStringIncludes(
        stderr,
        `Cannot install into "${path}": the directory does not exist`,
      );
      assertEquals(node.read("missing"), undefined);
    }
  }),
  "the kubeconfig has server, CA and token, twice": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    await node.install("--multus-kubeconfig-file-host=/node/k.conf");
    const { clusters, users } = kubeconfigOf(node);
    assertEquals(clusters.map(({ cluster }) => cluster), [{
      server: "https://10.96.0.1:443",
      "certificate-authority-data": btoa("CA 1\n"),
    }]);
    assertEquals(users.map(({ user }) => user), [{
      token: "token-1",
      tokenFile: "/node/token",
    }]);
    assertEquals(node.read("net.d/multus.d/token"), "token-1\n");
    const conf = JSON.parse(node.conf() ?? "");
    assertEquals(conf.plugins[0].kubeconfig, "/node/k.conf");
  }),
  "without a service account no configuration is written": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    Deno.removeSync(`${node.serviceAccount}/token`);
    const { code, stderr } = await node.install();
    assertEquals(code, 1);
    assertStringIncludes(stderr, "Cannot write a kubeconfig: no token");
    assertEquals(node.conf(), undefined);
  }),
  "--multus-conf-file=none leaves configurations": row(async (node) => {
    const { code } = await node.install("--multus-conf-file=none");
    assertEquals(code, 0);
    assertEquals(node.confNames(), ["multus.d"]);
    assertEquals(node.read("bin/multus"), node.read("multus"));
  }),
  "a configuration of one's own is copied to the letter": row(async (node) => {
    const own = `${node.directory}/70-multus.conf`;
    const text = '{ "name": "n",\n "type": "multus", "delegates": [] }\n';
    Deno.writeTextFileSync(own, text);
    const { code } = await node.install(`--multus-conf-file=${own}`);
    assertEquals(code, 0);
    assertEquals(node.read("net.d/70-multus.conf"), text);
    assertEquals(node.conf(), undefined);
    Deno.writeTextFileSync(own, "{");
    const broken = await node.install(`--multus-conf-file=${own}`);
    assertEquals(broken.code, 1);
    assertEquals(node.read("net.d/70-multus.conf"), text);
  }),
  "the master network is waited for, but not for ever": row(async (node) => {
    const { code, stderr } = await node.install("--timeout=300ms");
    assertEquals(code, 1);
    assertStringIncludes(stderr, "Cannot find a master network in");
    const waiting = node.install();
    await node.until(
      "executable",
      () => node.read("bin/multus") !== undefined,
    );
    node.writeMaster("10-pods.conf", PODS);
    assertEquals((await waiting).code, 0);
    assertEquals(delegateName(node), "pods");
  }),
  "files of multus are never the master, by any name": row(async (node) => {
    const inner = { type: "multus", name: "m", cniVersion: "1.0.0" };
    node.writeConf("01-other-name.conf", JSON.stringify(inner));
    const list = { ...inner, plugins: [{ type: "multus-shim" }] };
    node.writeConf("02-list.conflist", JSON.stringify(list));
    node.writeMaster("10-pods.conflist", { plugins: [PODS] });
    assertEquals((await node.install()).code, 0);
    assertEquals(delegateName(node), "pods");
  }),
  "a file that is not a network is skipped, and logged": row(async (node) => {
    node.writeConf("01-empty.conf", "");
    node.writeConf("02-list.conflist", '{"name":"x","plugins":[]}');
    node.writeMaster("10-pods.conf", PODS);
    const { code, stderr } = await node.install();
    assertEquals([code, delegateName(node)], [0, "pods"]);
    assertStringIncludes(stderr, "01-empty.conf");
    assertStringIncludes(stderr, "02-list.conflist");
  }),
  "a master network is named by its file": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    node.writeMaster("20-named.conf", { ...PODS, name: "named" });
    const flag = "--multus-master-cni-file-name=20-named.conf";
    assertEquals((await node.install(flag)).code, 0);
    assertEquals(delegateName(node), "named");
  }),
  "conf or conflist by version, and the other goes": row(async (node) => {
    node.writeMaster("10-pods.conf", { ...PODS, cniVersion: "0.3.1" });
    await node.install();
    assertEquals(node.read(CONFLIST), undefined);
    assertEquals(JSON.parse(node.read(CONF) ?? "").type, "multus");
    node.writeMaster("10-pods.conf", { ...PODS, cniVersion: "1.1.0" });
    await node.install();
    assertEquals(node.read(CONF), undefined);
    assertEquals(
      JSON.parse(node.read(CONFLIST) ?? "").plugins[0].type,
      "multus",
    );
  }),
  "an empty configuration that Go's multus has left goes": row(async (node) => {
    node.writeConf("00-multus.conf", "");
    node.writeMaster("10-pods.conf", PODS);
    await node.install();
    assertEquals(node.confNames(), [
      "00-multus.conflist",
      "10-pods.conf",
      "multus.d",
    ]);
  }),
  "--rename-conf-file renames the master's file": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    node.writeMaster("20-other.conf", { ...PODS, name: "other" });
    for (const _ of [1, 2]) {
      assertEquals((await node.install("--rename-conf-file")).code, 0);
      assertEquals(delegateName(node), "pods");
      assertEquals(node.confNames(), [
        "00-multus.conflist",
        "10-pods.conf.old",
        "20-other.conf",
        "multus.d",
      ]);
    }
  }),
  "the readiness file is waited for, as long as is said": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const ready = `${node.directory}/ready`;
    const flag = `--readiness-indicator-file=${ready}`;
    const waiting = node.install(flag);
    await node.until(
      "it waits for the file",
      () => node.read("net.d/multus.d/multus.kubeconfig") !== undefined,
    );
    assertEquals(node.conf(), undefined);
    Deno.writeTextFileSync(ready, "");
    assertEquals((await waiting).code, 0);
    const conf = JSON.parse(node.conf() ?? "");
    assertEquals(conf.plugins[0].readinessindicatorfile, ready);
    Deno.removeSync(ready);
    Deno.removeSync(`${node.directory}/${CONFLIST}`);
    const { code, stderr } = await node.install(
      flag,
      "--readiness-timeout=200ms",
    );
    assertEquals([code, delegateName(node)], [0, "pods"]);
    assertStringIncludes(stderr, "continued without the readiness indicator");
  }),
});

conformance("multus install --watch", {
  "it ends on SIGTERM at once, and leaves all": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    const { code, tookMs } = await watch.end();
    assertEquals(code, 0);
    assert(tookMs < 10_000, `${tookMs} ms`);
    assertEquals(delegateName(node), "pods");
    assertStringIncludes(watch.log, "interrupted by SIGTERM");
  }),
  "--cleanup-config-on-exit removes only our file": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node, "--cleanup-config-on-exit");
    assertEquals((await watch.end()).code, 0);
    assertEquals(node.confNames(), ["10-pods.conf", "multus.d"]);
  }),
  "a new token and a new CA are on the node at once": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    for (const round of [2, 3]) {
      const startMs = performance.now();
      node.mountServiceAccount({ token: `token-${round}`, ca: `CA ${round}` });
      await node.until("the kubeconfig has both", () => {
        const { clusters, users } = kubeconfigOf(node);
        const ca = clusters[0]?.cluster["certificate-authority-data"];
        return users[0]?.user["token"] === `token-${round}` &&
          ca === btoa(`CA ${round}`);
      });
      // It looks by itself every 10 s.
      assert(performance.now() - startMs < 9_000);
      assertEquals(node.read("net.d/multus.d/token"), `token-${round}\n`);
    }
    await watch.end();
  }),
  "multus reaches the API, also with a renewed token": row(async (node) => {
    await using api = await KubeApi.start();
    api.putPod({ metadata: { name: "p", namespace: "test" } });
    const mount = (token: string): void =>
      node.mountServiceAccount({ token, ca: api.caPem });
    mount(api.token);
    Object.assign(node.env, api.inClusterEnvironment());
    node.writeMaster("10-pods.conf", PODS);
    const kubeconfig = `${node.confDir}/multus.d/multus.kubeconfig`;
    const watch = await started(
      node,
      `--multus-kubeconfig-file-host=${kubeconfig}`,
    );
    const ask = async (): Promise<unknown> => {
      using client = await openKubeClient({ kubeconfig, env: {} });
      return (await client?.getPod("test", "p"))?.metadata?.name;
    };
    assertEquals(await ask(), "p");
    api.revokeToken(api.token);
    await assertRejects(ask);
    const token = api.addToken();
    mount(token);
    await node.until(
      "renewed",
      () => node.read("net.d/multus.d/token") === `${token}\n`,
    );
    assertEquals(await ask(), "p");
    await watch.end();
  }),
  "an empty token does not replace a good one": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    node.mountServiceAccount({ token: "", ca: "CA" });
    await node.until("said", () => /it is empty/.test(watch.log));
    assertEquals(node.read("net.d/multus.d/token"), "token-1\n");
    node.mountServiceAccount({ token: "token-2", ca: "CA" });
    await node.until(
      "the next one",
      () => node.read("net.d/multus.d/token") === "token-2\n",
    );
    await watch.end();
  }),
  "a master network that is added later is found": row(async (node) => {
    const watch = await node.watch();
    await node.until("it waits", () => /Cannot find a master/.test(watch.log));
    assertEquals(node.read("bin/multus"), node.read("multus"));
    node.writeMaster("10-pods.conf", PODS);
    await node.until("it is found", () => delegateName(node) === "pods");
    await watch.end();
  }),
  "a master network replaced by rename is followed": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    node.writeMaster("10-pods.conf", { ...PODS, mtu: 1400 });
    await node.until(
      "change",
      () => node.delegate()?.["mtu"] === 1400,
    );
    await watch.end();
  }),
  "a master network that is written in place is followed": row(async (node) => {
    const path = node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    const conf = { cniVersion: "1.0.0", name: "again", type: "ptp" };
    Deno.writeTextFileSync(path, JSON.stringify(conf));
    await node.until("it is in ours", () => delegateName(node) === "again");
    await watch.end();
  }),
  "a renamed file of the master network is followed": row(async (node) => {
    const path = node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    Deno.renameSync(path, `${node.confDir}/05-pods.conf`);
    await node.until(
      "new name",
      () => /path=\S+05-pods\.conf/.test(watch.log),
    );
    assertEquals(delegateName(node), "pods");
    await watch.end();
  }),
  "an earlier file name becomes the master": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    const first = node.writeMaster("05-first.conf", {
      ...PODS,
      name: "first",
    });
    await node.until("it is chosen", () => delegateName(node) === "first");
    Deno.removeSync(first);
    await node.until("the other one is", () => delegateName(node) === "pods");
    await watch.end();
  }),
  "the last configuration outlives the master": row(async (node) => {
    const path = node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    const conf = node.conf();
    Deno.removeSync(path);
    await node.until("said", () => /Cannot find/.test(watch.log));
    assertEquals(node.conf(), conf);
    Deno.removeSync(`${node.directory}/${CONFLIST}`);
    await node.until("it is put back", () => node.conf() === conf);
    await watch.end();
  }),
  "the last configuration outlives a broken master": row(async (node) => {
    const path = node.writeMaster("10-pods.conf", PODS);
    node.writeMaster("20-other.conf", { ...PODS, name: "other" });
    const watch = await started(node);
    const conf = node.conf();
    for (const content of ["", "{", "[]", '{"name":"pods","plugins":[]}']) {
      const { length } = watch.log;
      Deno.writeTextFileSync(path, content);
      await node.until(
        `${content} is said`,
        () => /failed, will retry/.test(watch.log.slice(length)),
      );
      assertEquals(node.conf(), conf);
    }
    node.writeMaster("10-pods.conf", { ...PODS, name: "valid" });
    await node.until("it is valid again", () => delegateName(node) === "valid");
    await watch.end();
  }),
  "a configuration stays without a master network": row(async (node) => {
    const path = node.writeMaster("10-pods.conf", PODS);
    await node.install();
    const conf = node.conf();
    Deno.removeSync(path);
    const watch = await node.watch();
    await node.until("said", () => /Cannot find/.test(watch.log));
    assertEquals(node.conf(), conf);
    Deno.removeSync(`${node.directory}/${CONFLIST}`);
    await node.until("it is put back", () => node.conf() === conf);
    await watch.end();
  }),
  "a changed version changes the name, without a gap": row(async (node) => {
    node.writeMaster("10-pods.conf", { ...PODS, cniVersion: "0.4.0" });
    const watch = await started(node);
    let gaps = 0;
    for (const cniVersion of ["1.0.0", "0.4.0", "1.1.0"]) {
      node.writeMaster("10-pods.conf", { ...PODS, cniVersion });
      await node.until(`${cniVersion} is there alone`, () => {
        if (node.conf() === undefined) gaps++;
        const names = node.confNames().filter((name) =>
          name.startsWith("00-multus.")
        );
        return names.length === 1 &&
          node.delegate()?.["cniVersion"] === cniVersion;
      });
    }
    assertEquals(gaps, 0);
    await watch.end();
  }),
  "a renamed, removed or changed file is put back": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    const conf = node.conf();
    const path = `${node.directory}/${CONFLIST}`;
    const isBack = (): boolean => node.conf() === conf;
    Deno.renameSync(path, `${path}.cilium_bak`);
    await node.until("it is back after a rename", isBack);
    await node.until(
      "said",
      () => watch.log.includes("restored a file"),
    );
    Deno.removeSync(path);
    await node.until("it is back after a removal", isBack);
    Deno.writeTextFileSync(path, "{}");
    await node.until("it is back after a change", isBack);
    await watch.end();
  }),
  "constant removal is not fought at full speed": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    let removals = 0;
    const endMs = performance.now() + 2500;
    await node.until("2.5 s have passed", () => {
      if (node.conf() !== undefined) {
        Deno.removeSync(`${node.directory}/${CONFLIST}`);
        removals++;
      }
      return performance.now() > endMs && removals >= 2;
    });
    assert(removals <= 5, `${removals} removals`);
    const warning = "another program keeps replacing it";
    await node.until("said", () => watch.log.includes(warning));
    await node.until("it is back", () => node.conf() !== undefined);
    await watch.end();
  }),
  "a removed executable, link or credential is put back": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    for (const name of ["cni-multus", "multus", "passthru"]) {
      Deno.removeSync(`${node.binDir}/${name}`);
    }
    Deno.removeSync(`${node.confDir}/multus.d/token`);
    Deno.removeSync(`${node.confDir}/multus.d/multus.kubeconfig`);
    await node.until(
      "all are back",
      () =>
        node.read("bin/multus") === node.read("multus") &&
        node.read("bin/passthru") === node.read("multus") &&
        node.read("net.d/multus.d/token") === "token-1\n" &&
        kubeconfigOf(node).users?.length === 1,
    );
    await watch.end();
  }),
  "an executable that is changed is put back": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    Deno.writeTextFileSync(`${node.directory}/other`, "#!/bin/sh\necho two\n");
    Deno.renameSync(`${node.directory}/other`, `${node.binDir}/multus`);
    await node.until(
      "it is ours again",
      () => node.read("bin/multus") === node.read("multus"),
    );
    // As `cp` does it, through the link.
    Deno.writeTextFileSync(`${node.binDir}/multus`, "#!/bin/sh\necho 3\n");
    await node.until(
      "it is ours again, through the link",
      () => node.read("bin/multus") === node.read("multus"),
    );
    await watch.end();
  }),
  "only another multus is left alone, not the rest": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    await node.install("--plugins=passthru,host-local");
    Deno.writeTextFileSync(`${node.directory}/go`, "go");
    Deno.renameSync(`${node.directory}/go`, `${node.binDir}/multus`);
    assertEquals(node.read("bin/host-local"), node.read("multus"));
    assertEquals((await node.install()).code, 0);
    assertEquals(node.read("bin/multus"), node.read("multus"));
  }),
  "a newer executable in the source directory is installed": row(
    async (node) => {
      node.writeMaster("10-pods.conf", PODS);
      const watch = await started(node);
      Deno.writeTextFileSync(node.source, "#!/bin/sh\necho longer\n");
      await node.until(
        "installed",
        () => node.read("bin/multus") === "#!/bin/sh\necho longer\n",
      );
      await watch.end();
    },
  ),
  "an installed executable does not undo an upgrade": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const path = `${node.binDir}/multus`;
    Deno.renameSync(node.source, path);
    const watch = await started(node, `--multus-bin-file=${path}`);
    Deno.writeTextFileSync(`${node.directory}/new`, "upgrade");
    Deno.renameSync(`${node.directory}/new`, path);
    node.writeMaster("10-pods.conf", { ...PODS, name: "nudge" });
    await node.until(
      "looked at",
      () => delegateName(node) === "nudge",
    );
    assertEquals(node.read("bin/multus"), "upgrade");
    await watch.end();
  }),
  "a custom configuration is followed": row(async (node) => {
    const own = `${node.directory}/own`;
    Deno.mkdirSync(own);
    const write = (name: string): void =>
      Deno.writeTextFileSync(
        `${own}/00-mine.conf`,
        JSON.stringify({ name, type: "multus", delegates: [] }),
      );
    write("one");
    const watch = await node.watch(`--multus-conf-file=${own}/00-mine.conf`);
    const name = (): unknown => {
      const text = node.read("net.d/00-mine.conf");
      return text && JSON.parse(text).name;
    };
    await node.until("it is copied", () => name() === "one");
    write("two");
    await node.until("its change is copied", () => name() === "two");
    Deno.writeTextFileSync(`${own}/00-mine.conf`, "");
    await node.until(
      "it is said that it is broken",
      () => /failed, will retry/.test(watch.log),
    );
    assertEquals(name(), "two");
    assertEquals((await watch.end()).code, 0);
  }),
  "--skip-config-watch still follows the token": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node, "--skip-config-watch");
    node.writeMaster("10-pods.conf", { ...PODS, name: "later" });
    node.mountServiceAccount({ token: "token-2", ca: "CA" });
    await node.until(
      "token",
      () => node.read("net.d/multus.d/token") === "token-2\n",
    );
    assertEquals(delegateName(node), "pods");
    await watch.end();
  }),
  "directories that come later are found": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    Deno.removeSync(node.binDir);
    const watch = await node.watch();
    await node.until(
      "said",
      () => /the directory does not exist/.test(watch.log),
    );
    assertEquals(node.conf(), undefined);
    Deno.mkdirSync(node.binDir);
    await node.until("all is there", () => delegateName(node) === "pods");
    await node.until("said", () => watch.log.includes("recovered"));
    await watch.end();
  }),
  "a configuration is never seen empty or in part": row(async (node) => {
    node.writeMaster("10-pods.conf", PODS);
    const watch = await started(node);
    let mtu = 0;
    await node.until("it has changed ten times", () => {
      const seen = node.delegate();
      if (seen?.["mtu"] === mtu || mtu === 0) {
        node.writeMaster("10-pods.conf", {
          ...PODS,
          mtu: ++mtu,
          filler: "x".repeat(100_000),
        });
      }
      return mtu > 10;
    });
    await watch.end();
  }),
});
