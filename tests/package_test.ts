/**
 * The Debian package on a machine that a real systemd runs: installed by apt from a
 * release's directory, upgraded, taken back to the version before, and removed.
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { writeRepository } from "../scripts/release/apt.ts";
import { addDocuments } from "../scripts/release/content.ts";
import { writeDeb } from "../scripts/release/deb.ts";
import { run } from "../scripts/release/run.ts";
import { allOf, hasCommand, ignoreUnless } from "../testing/capabilities.ts";
import { BIN, needsBin } from "./_harness/executables.ts";
import { needsSystemd, SystemdNode } from "./_harness/systemd_node.ts";

const { ignore, suffix } = allOf(
  needsBin,
  needsSystemd,
  ignoreUnless(hasCommand("dpkg-deb"), "needs dpkg-deb"),
);

const [OLD, NEW] = ["0.0.8", "0.0.9"];
const REPOSITORY = "/root/repository";
const CONTAINER = "c1";

/** A network, as a runtime has it. */
const CONFIG = {
  cniVersion: "1.0.0",
  name: "pods",
  type: "ptp",
  ipam: { type: "host-local", subnet: "10.22.0.0/24" },
};

/** Calls ptp as a runtime does: `call ADD`. */
const CALL = `#!/bin/sh
export CNI_COMMAND=$1 CNI_CONTAINERID=${CONTAINER} CNI_NETNS=/run/netns/blue
export CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin
exec /opt/cni/bin/ptp </root/config
`;

/** Makes a release of two versions, whose executables are different builds. */
async function writeRelease(directory: string): Promise<void> {
  const debs: string[] = [];
  for (const version of [OLD, NEW]) {
    const release = { name: "cni-plugins", version, epoch: 1_700_000_000 };
    const content = `${directory}/${version}`;
    await Deno.mkdir(content);
    await run("cp", ["-a", BIN, `${content}/bin`]);
    await addDocuments(content, release, []);
    if (version === NEW) await makeOtherBuild(`${content}/bin/cni`);
    const staging = `${directory}/deb-${version}`;
    const architecture = Deno.build.arch === "x86_64" ? "amd64" : "arm64";
    const options = { release, architecture, content, staging };
    const deb = await writeDeb({ ...options, out: directory });
    debs.push(deb.slice(deb.lastIndexOf("/") + 1));
    for (const done of [content, staging]) {
      await Deno.remove(done, { recursive: true });
    }
  }
  const release = { name: "cni-plugins", version: NEW, epoch: 1_700_000_000 };
  await writeRepository(release, debs, directory);
}

/** Changes the build's identity, so that a daemon of the other build is another one. */
async function makeOtherBuild(path: string): Promise<void> {
  const script = `digest=$(grep -aoE '"[0-9a-f]{64}"' "$0" | head -n 1 |
    tr -d '"')
sed -i "s/$digest/$(echo $digest | rev)/g" "$0"`;
  await run("sh", ["-c", script, path]);
}

/** Lists the files that packages and plugins may change, with mode and digest. */
async function listFiles(node: SystemdNode): Promise<string> {
  const places = "/opt /etc /usr /run/cni /var/lib/cni";
  return await node.get(`cd / && {
    find ${places} -printf '%y %m %p %l\\n'
    find ${places} -type f -exec md5sum {} +
  } 2>/dev/null | grep -v /etc/ld.so.cache | sort`);
}

/** Runs apt on the release's directory. */
async function apt(node: SystemdNode, args: string): Promise<string> {
  return await node.get(
    `apt-get -q -y -o Dir::Etc::SourceList=/root/sources.list ` +
      `-o Dir::Etc::SourceParts=- -o APT::Sandbox::User=root ${args}`,
  );
}

/** Reports which version's executable is where runtimes look for plugins. */
async function assertInstalled(
  node: SystemdNode,
  version: string,
): Promise<void> {
  const format = "'${Version}'";
  const query = `dpkg-query --show --showformat=${format} cni-plugins`;
  assertEquals(await node.get(query), version);
  await node.get("cmp /usr/lib/cni-plugins/cni /opt/cni/bin/cni");
  const status = JSON.parse(
    await node.get("/opt/cni/bin/cni daemon status --json"),
  );
  assertEquals(status.running, true);
  // It runs calls of this build only.
  assertEquals(await node.get("systemctl is-active cni-daemon"), "active");
  const pid = await node.get("systemctl show cni-daemon -P MainPID");
  await node.get(`cmp /proc/${pid}/exe /opt/cni/bin/cni`);
}

Deno.test({
  name: "package: apt installs a release, upgrades it, takes it back, and " +
    "removing it leaves nothing" + suffix,
  ignore,
  async fn(t): Promise<void> {
    await using node = await SystemdNode.boot();
    const repository = node.pathOf(REPOSITORY);
    Deno.mkdirSync(repository);
    // Compression takes a minute, and changes nothing here.
    Deno.env.set("DPKG_DEB_COMPRESSOR_TYPE", "none");
    await writeRelease(repository);
    const source = `deb [trusted=yes] file:${REPOSITORY} ./\n`;
    Deno.writeTextFileSync(node.pathOf("/root/sources.list"), source);
    Deno.writeTextFileSync(node.pathOf("/root/call"), CALL, { mode: 0o755 });
    const config = JSON.stringify(CONFIG);
    Deno.writeTextFileSync(node.pathOf("/root/config"), config);
    // Another project's plugin, and what its containers had.
    await node.get(
      "mkdir -p /opt/cni/bin /var/lib/cni /etc/cni/net.d && " +
        "echo another >/opt/cni/bin/ptp && ip netns add blue",
    );
    await apt(node, "update");
    const before = await listFiles(node);
    const plugins = "ls -A /opt/cni/bin";

    await t.step("the package replaces no plugin", async () => {
      await apt(node, `install cni-plugins=${OLD}`);
      assertEquals(await node.get(plugins), "ptp");
      await apt(node, "remove cni-plugins");
      assertEquals(await listFiles(node), before);
      await apt(node, `install cni-plugins=${OLD}`);
    });

    await t.step("cni install does, and starts the daemon", async () => {
      const install = "cni install /opt/cni/bin --only ptp,host-local";
      assertMatch(await node.get(install), /^daemon {6}started$/m);
      await assertInstalled(node, OLD);
      assertStringIncludes(await node.get("/root/call ADD"), "10.22.0.2");
    });

    await t.step("an upgrade updates plugins and daemon", async () => {
      await apt(node, "upgrade");
      await assertInstalled(node, NEW);
      const names = [".cni-install", "cni", "host-local", "ptp"];
      assertEquals((await node.get(plugins)).split("\n"), names);
    });

    await t.step("the version before comes back", async () => {
      await apt(node, `install --allow-downgrades cni-plugins=${OLD}`);
      await assertInstalled(node, OLD);
    });

    await t.step("a container of before is detached", async () => {
      await node.get("/root/call DEL");
      assertEquals(await node.get("ip -o link | grep -c veth || true"), "0");
    });

    await t.step("removing the package restores the files", async () => {
      await apt(node, "remove cni-plugins");
      await node.get("rm -r /var/lib/cni/* && ip netns del blue");
      assertEquals(await listFiles(node), before);
    });
  },
});
