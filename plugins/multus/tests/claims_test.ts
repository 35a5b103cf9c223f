/**
 * Pods that name IPAMClaims: by multus alone, its daemon, the shim of thick
 * multus, and plugged into a running pod.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { CREATED_BY, MIGRATION_JOB } from "../../../kube/pod_evidence.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import { ipJson, runIn } from "../../../testing/ip_json.ts";
import {
  instanceOf,
  machineOf,
} from "../../../ipam/whereabouts/testing/claims.ts";
import { MultusDaemon } from "../testing/daemon.ts";
import {
  BIN,
  type HostCall,
  type HostPod,
  hostTest,
  MultusHost,
} from "../testing/host.ts";
import { howOften } from "../../../tests/_harness/repetition.ts";
import { ThickDaemon } from "../testing/thick_daemon.ts";

/** A node with a network of whereabouts that lets pods name claims. */
class Scene implements AsyncDisposable {
  readonly host: MultusHost;

  constructor(host: MultusHost) {
    this.host = host;
    host.api.putNad("default", "vms", this.network());
    host.api.put("namespaces", { metadata: { name: "kube-system" } });
  }

  static async start(): Promise<Scene> {
    return new Scene(await MultusHost.start());
  }

  /** The key is beside the plugins, where they do not see it. */
  network(more: JsonObject = {}): JsonObject {
    return {
      cniVersion: "1.0.0",
      name: "vms",
      allowPersistentIPs: true,
      plugins: [{
        type: "bridge",
        bridge: "br-vms",
        ipam: {
          type: "whereabouts",
          range: "10.30.0.0/24",
          ipRanges: [{ range: "fd30::/64" }],
          kubernetes: { kubeconfig: this.host.kubeconfig },
          dataDir: `${this.host.hosts.directory}/allocations`,
        },
      }],
      ...more,
    };
  }

  /** Puts the claim of a virtual machine. */
  putClaim(name: string, metadata: JsonObject = {}): void {
    this.host.api.put("ipamclaims", {
      metadata: {
        namespace: "default",
        name,
        ownerReferences: [{ ...machineOf("vm") }],
        ...metadata,
      },
      spec: { network: "vms", interface: "" },
    });
  }

  claim(name: string): string[] | undefined {
    return this.host.api.find("ipamclaims", "default", name)?.["status"]?.ips;
  }

  /** Adds a pod of the machine; the target of a migration has a label more. */
  addPod(name: string, claim = "vm.vms", isTarget = false): HostPod {
    const { uid } = instanceOf("vm");
    return this.host.addPod(name, {
      object: { status: { phase: "Running" } },
      networks: [{
        name: "vms",
        interface: "vm0",
        "ipam-claim-reference": claim,
      }],
      metadata: {
        ownerReferences: [{ controller: true, ...instanceOf("vm") }],
        labels: {
          [CREATED_BY]: uid,
          ...isTarget && { [MIGRATION_JOB]: `job-${name}` },
        },
      },
    });
  }

  /** The addresses that the pod's annotation has. */
  addressesOf(pod: HostPod): string[] {
    return this.host.status(pod)?.[1]?.ips;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]();
  }
}

/** Keys that let a definition name a kubeconfig and allocation files. */
const KEYS: JsonObject = {
  definitionKeys: [
    "host-local.dataDir",
    "whereabouts.kubeconfig",
    "whereabouts.dataDir",
  ],
};

const BOTH = ["10.30.0.1", "fd30::1"];

/** Restarts a virtual machine three times among other pods. */
async function restart(scene: Scene, call: HostCall): Promise<void> {
  const { host } = scene;
  scene.putClaim("vm.vms");
  for (const name of ["vm-a", "vm-b", "vm-c"]) {
    const pod = scene.addPod(name);
    await host.succeed("ADD", pod, call);
    assertEquals(scene.addressesOf(pod), BOTH, name);
    await host.succeed("DEL", pod, call);
    host.api.removePod("default", name);
    const other = scene.addPod(`other-${name}`, "");
    await host.succeed("ADD", other, call);
  }
  assertEquals(scene.claim("vm.vms"), ["10.30.0.1/24", "fd30::1/64"]);
}

hostTest("multus: a virtual machine keeps its addresses", async () => {
  await using scene = await Scene.start();
  await restart(scene, { keys: KEYS });
});

hostTest(
  "multus: a claim is found in annotations that the runtime passes",
  async () => {
    await using scene = await Scene.start();
    scene.putClaim("vm.vms");
    const pod = scene.addPod("vm-a");
    const runtimeConfig = {
      "io.kubernetes.cri.pod-annotations": pod.annotations as JsonObject,
    };
    await scene.host.succeed("ADD", pod, { keys: { ...KEYS, runtimeConfig } });
    assertEquals(scene.addressesOf(pod), BOTH);
  },
);

hostTest(
  "multus: a virtual machine keeps its addresses with the daemon",
  async () => {
    await using scene = await Scene.start();
    await using daemon = await MultusDaemon.start(scene.host);
    await restart(scene, {
      keys: { ...KEYS, daemonSocketDir: daemon.socketDir },
    });
  },
);

hostTest(
  "multus: a virtual machine keeps its addresses with the shim",
  async () => {
    await using scene = await Scene.start();
    await using daemon = await ThickDaemon.start(scene.host);
    await restart(scene, {
      command: [`${BIN}/multus-shim`],
      keys: { ...KEYS, daemonSocketDir: daemon.socketDir },
    });
  },
);

hostTest("multus: a network attached later uses its claim", async () => {
  await using scene = await Scene.start();
  const { host } = scene;
  scene.putClaim("vm.vms");
  await using daemon = await ThickDaemon.start(host, KEYS);
  const config = new TextEncoder().encode(JSON.stringify(scene.network()));
  for (const name of ["vm-a", "vm-b"]) {
    const pod = scene.addPod(name);
    const ask = async (command: string): Promise<string> => {
      const env = {
        CNI_COMMAND: command,
        CNI_CONTAINERID: pod.containerId,
        CNI_NETNS: pod.sandbox.path,
        CNI_IFNAME: "vm0",
        CNI_ARGS: `K8S_POD_NAMESPACE=default;K8S_POD_NAME=${name};` +
          `K8S_POD_UID=${pod.uid}`,
      };
      const body = { env, config: config.toBase64() };
      const { status, text } = await daemon.ask("/delegate", body);
      assertEquals(status, 200, text);
      return text;
    };
    assertMatch(await ask("ADD"), /"10\.30\.0\.1\/24"/);
    await ask("DEL");
    host.api.removePod("default", name);
  }
  assertEquals(scene.claim("vm.vms"), ["10.30.0.1/24", "fd30::1/64"]);
});

hostTest("multus: ADD with an unusable claim leaves nothing", async () => {
  await using scene = await Scene.start();
  const { host } = scene;
  scene.putClaim("vm.vms");
  const other = host.addPod("other", {
    networks: [{ name: "vms", "ipam-claim-reference": "vm.vms" }],
  });
  const { code, json } = await host.call("ADD", other, { keys: KEYS });
  assertEquals([code, json.code], [1, 7]);
  assertMatch(
    json.msg,
    /belongs to VirtualMachine "vm", which does not control/,
  );
  assertEquals(host.remainsOf(other).filter((one) => /link/.test(one)), []);
  const both = host.addPod("both", {
    networks: [{
      name: "vms",
      "ipam-claim-reference": "vm.vms",
      ips: ["10.30.0.7/24"],
    }],
  });
  const refused = await host.call("ADD", both, { keys: KEYS });
  assertEquals(refused.json.code, 7);
  assertMatch(
    refused.json.msg,
    /"ips" and "ipam-claim-reference" cannot be combined/,
  );
  assertEquals(scene.claim("vm.vms"), undefined);
});

hostTest("multus: cni-args set no claim and no pod identity", async () => {
  await using scene = await Scene.start();
  const { host } = scene;
  scene.putClaim("vm.vms");
  const evidence = {
    uid: "x",
    labels: {},
    controller: { ...instanceOf("vm") },
  };
  const pod = host.addPod("thief", {
    networks: [{
      name: "vms",
      "cni-args": {
        "ipam-claim-reference": "vm.vms",
        "cni.dev/pod": evidence,
        allowPersistentIPs: true,
      },
    }],
  });
  const refused = await host.call("ADD", pod, { keys: KEYS });
  assertEquals(refused.json.code, 7);
  assertMatch(refused.json.msg, /Refused "ipam-claim-reference" of "cni-args"/);
  // Nor where a node lets pods request anything.
  const keys = { ...KEYS, podRequests: "any" };
  await host.succeed("ADD", pod, { keys });
  assertEquals(scene.claim("vm.vms"), undefined);
});

hostTest(
  "multus: a network that does not allow claims ignores them",
  async () => {
    await using scene = await Scene.start();
    const { host } = scene;
    host.api.putNad(
      "default",
      "vms",
      scene.network({ allowPersistentIPs: false }),
    );
    const pod = scene.addPod("vm-a", "no-such-claim");
    const { code, stderr } = await host.call("ADD", pod, { keys: KEYS });
    assertEquals(code, 0);
    assertMatch(stderr, /Ignoring an IPAMClaim/);
    assertEquals(scene.addressesOf(pod), BOTH);
  },
);

hostTest(
  "multus: a pod without a claim needs no additional requests",
  async () => {
    await using scene = await Scene.start();
    const { host } = scene;
    const listRequests = async (
      name: string,
      allows: boolean,
    ): Promise<string[]> => {
      host.api.putNad(
        "default",
        "vms",
        scene.network({ allowPersistentIPs: allows }),
      );
      const pod = scene.addPod(name, "");
      host.api.clearRequests();
      await host.succeed("ADD", pod, { keys: KEYS });
      await host.succeed("DEL", pod, { keys: KEYS });
      const list = host.api.requests.map(({ method, path }) =>
        `${method} ${path.replace(name, "NAME")}`
      ).filter((one) => !one.includes("/events"));
      host.api.removePod("default", name);
      return list;
    };
    await listRequests("first", false);
    const without = await listRequests("without", false);
    assertEquals(await listRequests("with", true), without);
    // The pod, the definition; per range 3 of ADD; the annotation; 2 of DEL.
    assertEquals(without.length, 1 + 1 + 2 * 3 + 1 + 2 * 2, without.join("\n"));
  },
);

/** The neighbour's view of an address: the MAC that it has learned. */
function neighbour({ host: { hosts } }: Scene, ip: string): string | undefined {
  return ipJson(hosts.host, "neigh", "show", "dev", "br-vms")
    .find(({ dst }: { dst: string }) => dst === ip)?.lladdr;
}

/** Asks for the addresses anew, and returns the MACs that answer. */
function askFor(scene: Scene): (string | undefined)[] {
  const { host } = scene.host.hosts;
  runIn(host, "ip", "neigh", "flush", "dev", "br-vms");
  for (const ip of BOTH) {
    try {
      runIn(host, "ping", "-c1", "-W4", "-n", ip);
    } catch {
      // Nobody answers.
    }
  }
  return BOTH.map((ip) => neighbour(scene, ip));
}

/**
 * Counts what ports of bridges send by ARP, about the IPv6 address by NDP, and at
 * all.
 */
const COUNTING = `
add table bridge count
add set bridge count by4 { type ether_addr; flags dynamic; counter; }
add set bridge count by6 { type ether_addr; flags dynamic; counter; }
add set bridge count frames { type ether_addr; flags dynamic; counter; }
add chain bridge count ports { type filter hook prerouting priority 0; }
add rule bridge count ports ether type arp add @by4 { ether saddr }
add rule bridge count ports icmpv6 type { 135, 136 } \
  @th,64,128 0xfd300000000000000000000000000001 add @by6 { ether saddr }
add rule bridge count ports add @frames { ether saddr }
`;

/**
 * Returns how many packets of ARP and of NDP a pod has sent about its addresses,
 * and how many frames in all. From any of these, switches learn where a MAC is,
 * and the source and the target of a migration can have the same one.
 */
function countSent({ host: { hosts } }: Scene, pod: HostPod): number[] {
  const mac = macOf(pod);
  return ["by4", "by6", "frames"].map((name) => {
    const args = ["-j", "list", "set", "bridge", "count", name];
    const { nftables } = JSON.parse(runIn(hosts.host, "nft", ...args));
    const elements: { elem: { val: string; counter: { packets: number } } }[] =
      nftables[1].set.elem ?? [];
    const found = elements.find(({ elem }) => elem.val === mac);
    return found?.elem.counter.packets ?? 0;
  });
}

function macOf(pod: HostPod): string {
  return ipJson(pod.sandbox, "link", "show", "vm0")[0].address;
}

hostTest("multus: the target of a live migration is silent", async () => {
  await using scene = await Scene.start();
  const { host } = scene;
  scene.putClaim("vm.vms");
  const call = { keys: KEYS };
  const source = scene.addPod("vm-a");
  const node = host.hosts.host;
  runIn(node, "nft", COUNTING);
  await host.succeed("ADD", source, call);
  const announced = countSent(scene, source);
  assert(announced.every((count) => count > 0), `${announced}`);
  // A neighbour that believes all that it hears.
  runIn(node, "ip", "address", "add", "10.30.0.254/24", "dev", "br-vms");
  runIn(node, "ip", "address", "add", "fd30::fe/64", "dev", "br-vms", "nodad");
  runIn(node, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/br-vms/arp_accept");
  const mac = macOf(source);
  assertEquals(askFor(scene), [mac, mac]);
  const pool = JSON.stringify(
    host.api.find("ippools", "kube-system", "10.30.0.0-24"),
  );

  const target = scene.addPod("vm-b", "vm.vms", true);
  await host.succeed("ADD", target, call);
  assertEquals(scene.addressesOf(target), BOTH);
  // Nothing was announced, and only the source answers.
  assertEquals(BOTH.map((ip) => neighbour(scene, ip)), [mac, mac]);
  for (let times = 0; times < 3; times++) {
    assertEquals(askFor(scene), [mac, mac]);
  }
  assertEquals(countSent(scene, target), [0, 0, 0]);
  const [link] = ipJson(target.sandbox, "address", "show", "dev", "vm0");
  const flags = link.addr_info.map((
    { local, nodad = false, tentative = false }: {
      local: string;
      nodad?: boolean;
      tentative?: boolean;
    },
  ) => [local, nodad, tentative]);
  assertEquals(flags.slice(0, 2), [
    ["10.30.0.1", false, false],
    ["fd30::1", true, false],
  ]);
  await host.succeed("CHECK", target, call);

  // The migration fails: the target ends, and the machine stays.
  await host.succeed("DEL", target, call);
  host.api.removePod("default", "vm-b");
  assertEquals(askFor(scene), [mac, mac]);

  // The next two succeed; of more, each third fails too.
  let last = source;
  for (let count = 0; count < howOften(2); count++) {
    const next = scene.addPod(`vm-${count}`, "vm.vms", true);
    await host.succeed("ADD", next, call);
    const lastMac = macOf(last);
    assertEquals(askFor(scene), [lastMac, lastMac]);
    assertEquals(countSent(scene, next), [0, 0, 0]);
    const end = count % 3 === 2 ? next : last;
    await host.succeed("DEL", end, call);
    host.api.removePod("default", end.name);
    if (end === next) {
      assertEquals(askFor(scene), [lastMac, lastMac]);
      continue;
    }
    // The machine has moved; KubeVirt lets its new pod answer.
    runIn(next.sandbox, "nft", "delete", "table", "ip6", "cni_quiet_vm0");
    runIn(
      next.sandbox,
      ...["sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/vm0/arp_ignore"],
    );
    assertEquals(askFor(scene), [macOf(next), macOf(next)]);
    last = next;
  }
  assertEquals(
    JSON.stringify(host.api.find("ippools", "kube-system", "10.30.0.0-24")),
    pool,
  );
  // A pod that is alone again announces itself, label or not.
  await host.succeed("DEL", last, call);
  host.api.removePod("default", last.name);
  const alone = scene.addPod("vm-e", "vm.vms", true);
  await host.succeed("ADD", alone, call);
  assertEquals(neighbour(scene, "10.30.0.1"), macOf(alone));
  assertEquals(askFor(scene), [macOf(alone), macOf(alone)]);
});
