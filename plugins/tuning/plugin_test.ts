import { assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import {
  keepFile,
  needsImmutableFiles,
} from "../../tests/_harness/immutable_file.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import {
  ALL_SETTINGS,
  NEW_MAC,
  OLD_MAC,
  SYSCTL,
  TunedLink,
} from "./testing.ts";

const BACKUP = "test-container_eth0.json";

rootTest(
  "tuning.add() keeps the first backup when it is repeated",
  async () => {
    using scene = new TunedLink();
    const { link: before } = scene;
    await scene.succeed("ADD", { mtu: 1400, promisc: true });
    const { json: prevResult } = await scene.succeed("ADD", {
      mtu: 1300,
      txQLen: 7,
    });
    assertEquals(scene.backups, {
      [BACKUP]: { promisc: false, mtu: 1500, txQLen: 1000, network: "net1" },
    });
    // Once more, but this time it fails: all is as it was before.
    const { state } = scene;
    await scene.fail("ADD", [999, "Cannot set mtu"], { mtu: 1e9, txQLen: 8 });
    assertEquals(scene.state, state);
    await scene.succeed("DEL", { prevResult });
    assertEquals([scene.link, scene.backups], [before, {}]);
  },
);

rootTest("tuning.add() undoes everything if a value is refused", async (t) => {
  const rows: [name: string, keys: Keys, code: number, text: string][] = [
    ["MTU", { mtu: 1e6 }, 999, 'Cannot set mtu of "eth0" to 1000000'],
    [
      "sysctl's value",
      { sysctl: { "net.core.somaxconn": "many" } },
      5,
      'Cannot set sysctl net/core/somaxconn to "many"',
    ],
    [
      "sysctl that does not exist",
      { sysctl: { "net.none": "1" } },
      5,
      "Cannot set sysctl net/none",
    ],
  ];
  await eachRow(t, rows, async ([, keys, code, text]) => {
    const sysctl = { [SYSCTL]: "1", ...keys["sysctl"] as Keys };
    using scene = new TunedLink({ ...ALL_SETTINGS, ...keys, sysctl });
    const { state } = scene;
    await scene.fail("ADD", [code, text]);
    assertEquals(scene.state, state);
  });
});

rootTest("tuning changes nothing if it refuses the input", async (t) => {
  const text = "Cannot decode network configuration";
  const rows: [name: string, keys: Keys, code: number, text: string][] = [
    ["MAC", { mac: "x" }, 7, 'Cannot use MAC "x"'],
    [
      "MAC of args.cni",
      { mac: NEW_MAC, args: { cni: { mac: "x" } } },
      7,
      'Cannot use MAC "x"',
    ],
    [
      "a multicast MAC",
      { mac: "01:00:5e:00:00:01" },
      7,
      'Cannot use MAC "01:00:5e:00:00:01"; it is a multicast address',
    ],
    ["negative MTU", { mtu: -1 }, 7, `${text}: mtu: expected at least 0`],
    ["MTU as text", { mtu: "1500" }, 7, `${text}: mtu`],
    ["queue", { txQLen: 2 ** 32 }, 7, `${text}: txQLen: expected at most`],
    ["number as sysctl", { sysctl: { a: 1 } }, 7, `${text}: sysctl.a`],
    [
      "sysctl elsewhere",
      { sysctl: { "kernel.shmmax": "1" } },
      7,
      'invalid net sysctl key: "kernel/shmmax"',
    ],
    ["net", { sysctl: { net: "1" } }, 7, "invalid net sysctl key"],
    ["dots", { sysctl: { "net.../.x/..": "1" } }, 5, "sysctl net/x"],
    ["NUL", { sysctl: { "net.\0": "1" } }, 7, "invalid net sysctl key"],
    ["no result", { prevResult: undefined }, 7, "Required prevResult missing"],
  ];
  await eachRow(t, rows, async ([, keys, code, text]) => {
    using scene = new TunedLink({ ...ALL_SETTINGS, ...keys });
    const { state } = scene;
    await scene.fail("ADD", [code, text]);
    assertEquals(scene.state, state);
    assertEquals((await scene.run("DEL")).exitCode, 0);
  });
  await t.step("a missing interface", async () => {
    using scene = new TunedLink(ALL_SETTINGS);
    const problem = 'failed to get "eth9": Link not found';
    await scene.fail("ADD", [4, problem], {}, { ifName: "eth9" });
    assertEquals(scene.backups, {});
  });
  await t.step("CNI_ARGS", async () => {
    using scene = new TunedLink();
    const wrong = { env: { CNI_ARGS: "MAC=x" } };
    await scene.fail("ADD", [4, 'Cannot use MAC "x"'], {}, wrong);
    const unknown = { env: { CNI_ARGS: "X=1" } };
    await scene.fail("ADD", [4, "unknown args"], {}, unknown);
  });
  await t.step("an invalid sysctl at STATUS", async () => {
    using scene = new TunedLink({ sysctl: { "kernel.shmmax": "1" } });
    await scene.fail("STATUS", [7, "invalid net sysctl key"]);
    await scene.succeed("STATUS", { sysctl: { [SYSCTL]: "1" } });
  });
});

rootTest("tuning sets the MAC with the highest precedence", async (t) => {
  const mac = (last: number): string => `02:00:00:00:00:0${last}`;
  const all = {
    mac: mac(1),
    runtimeConfig: { mac: mac(3) },
    args: { cni: { mac: mac(4) } },
  };
  const { args, runtimeConfig } = all;
  const rows: [name: string, keys: Keys, args: string, want: string][] = [
    ["configuration", { mac: mac(1) }, "", mac(1)],
    ["CNI_ARGS", { mac: mac(1) }, `MAC=${mac(2)}`, mac(2)],
    ["empty CNI_ARGS", { mac: mac(1) }, "MAC=", mac(1)],
    ["runtime", { mac: mac(1), runtimeConfig }, `MAC=${mac(2)}`, mac(3)],
    ["args.cni", all, `MAC=${mac(2)}`, mac(4)],
    ["nothing by args.cni", { ...all, args: { cni: { mac: "" } } }, "", ""],
    ["capitals", { mac: "C2-11-22-33-44-55" }, "", NEW_MAC],
    ["null", { mac: null, runtimeConfig: { mac: null }, args }, "", mac(4)],
  ];
  await eachRow(t, rows, async ([, keys, args, want]) => {
    using scene = new TunedLink(keys);
    const env = { CNI_ARGS: args };
    const { json } = await scene.succeed("ADD", {}, { env });
    const expected = want || OLD_MAC;
    assertEquals([scene.link.mac, json.interfaces[1].mac], [
      expected,
      expected,
    ]);
    await scene.succeed("CHECK", { prevResult: json }, { env });
  });
});

rootTest("tuning.add() merges args.cni into the configuration", async () => {
  using scene = new TunedLink({
    promisc: true,
    mtu: 1400,
    txQLen: 5,
    sysctl: { [SYSCTL]: "0", "net.core.somaxconn": "77" },
    args: {
      cni: { promisc: false, mtu: 0, txQLen: 0, sysctl: { [SYSCTL]: "1" } },
    },
  });
  const { link: before } = scene;
  await scene.succeed("ADD");
  assertEquals(scene.link, { ...before, txQLen: 0 });
  assertEquals([scene.sysctl(), scene.sysctl("net/core/somaxconn")], [
    "1",
    "77",
  ]);
  // Without sysctls of the configuration, too.
  const args = { cni: { sysctl: { [SYSCTL]: "0" } } };
  await scene.succeed("ADD", { sysctl: undefined, args });
  assertEquals(scene.sysctl(), "0");
});

rootTest(
  "tuning sets sysctls of an interface with dots, by name or IFNAME",
  async () => {
    using scene = new TunedLink();
    const { sandbox } = scene.hosts;
    runIn(sandbox, "ip", "link", "set", "eth0", "name", "eth0.7");
    const sysctl = {
      "net.ipv4.conf.IFNAME.arp_filter": "1",
      "net/ipv6/conf/IFNAME/hop_limit": "7",
      "net.ipv4.conf.eth0.7.arp_notify": "1",
      "net/ipv6/conf/eth0.7/accept_ra": "0",
    };
    await scene.succeed("ADD", { sysctl, mtu: 1300 }, { ifName: "eth0.7" });
    const value = (key: string): string => scene.sysctl(`net/${key}`);
    assertEquals(value("ipv4/conf/eth0.7/arp_filter"), "1");
    assertEquals(value("ipv6/conf/eth0.7/hop_limit"), "7");
    assertEquals(value("ipv4/conf/eth0.7/arp_notify"), "1");
    assertEquals(value("ipv6/conf/eth0.7/accept_ra"), "0");
    assertEquals(Object.keys(scene.backups), ["test-container_eth0.7.json"]);
    await scene.succeed("DEL", {}, { ifName: "eth0.7" });
    assertEquals(scene.backups, {});
  },
);

rootTest(
  "tuning sets sysctls with several numbers, and write-only sysctls",
  async () => {
    using scene = new TunedLink({
      sysctl: {
        "net.ipv4.ip_local_port_range": "20000 30000",
        "net.ipv4.route.flush": "1",
        // Reading it fails with EIO until it is set.
        "net.ipv6.conf.IFNAME.stable_secret":
          "2001:0db8:0000:0000:0000:0000:0000:0001",
      },
    });
    const { json: prevResult } = await scene.succeed("ADD");
    assertEquals(scene.sysctl("net/ipv4/ip_local_port_range"), "20000\t30000");
    await scene.succeed("CHECK", { prevResult });
  },
);

rootTest(
  "tuning.add() returns the new MTU if prevResult contained the MTU",
  async () => {
    using scene = new TunedLink(ALL_SETTINGS);
    const { prevResult } = scene;
    const [host, own] = prevResult["interfaces"] as Keys[];
    const interfaces = [{ ...host, name: "eth0" }, { ...own, mtu: 1500 }];
    const given = { ...prevResult, interfaces, unknown: 1 };
    const { json } = await scene.succeed("ADD", { prevResult: given });
    const changed = { ...interfaces[1], mac: NEW_MAC, mtu: 1454 };
    assertEquals(json, { ...given, interfaces: [interfaces[0], changed] });
  },
);

rootTest("tuning.del() succeeds if anything is missing", async (t) => {
  const gone = { prevResult: undefined };
  const rows: [
    name: string,
    keys: Keys,
    env: Record<string, string>,
    change: (scene: TunedLink) => void,
  ][] = [
    ["no CNI_NETNS", gone, { CNI_NETNS: "" }, () => {}],
    ["no namespace", gone, { CNI_NETNS: "/run/netns/none" }, () => {}],
    ["a missing interface", gone, {}, ({ hosts }) => {
      runIn(hosts.sandbox, "ip", "link", "del", "eth0");
    }],
    ["bad keys", { mac: 1, mtu: "x", sysctl: 7, prevResult: 1 }, {}, () => {}],
    ["bad CNI_ARGS", gone, { CNI_ARGS: "MAC=x;y" }, () => {}],
    ["bad backup", gone, {}, (scene) => {
      scene.writeBackup(BACKUP, "");
    }],
    ["backup of something else", gone, {}, (scene) => {
      scene.writeBackup(BACKUP, '{"mtu":"x","mac":[]}');
    }],
  ];
  await eachRow(t, rows, async ([name, keys, env, change]) => {
    using scene = new TunedLink(ALL_SETTINGS);
    const { link: before } = scene;
    await scene.succeed("ADD");
    change(scene);
    const del = await scene.run("DEL", keys, { env });
    assertEquals([del.exitCode, del.stdout], [0, ""]);
    if (/^bad (keys|CNI)/.test(name)) assertEquals(scene.link, before);
    assertEquals(scene.backups, {});
    await scene.succeed("DEL", gone, { env });
  });
});

rootTest("tuning.del() restores what the kernel accepts", async () => {
  using scene = new TunedLink({ mtu: 1400, mac: NEW_MAC });
  const { json: prevResult } = await scene.succeed("ADD");
  // No link can have this MTU.
  const backup = { mtu: 1e6, mac: OLD_MAC };
  scene.writeBackup(BACKUP, JSON.stringify(backup));
  const { exitCode, stderr } = await scene.run("DEL", { prevResult });
  assertEquals(exitCode, 0);
  assertStringIncludes(stderr, 'Cannot set mtu of \\"eth0\\" to 1000000');
  assertEquals([scene.link.mac, scene.link.mtu], [OLD_MAC, 1400]);
  assertEquals(scene.backups, {});
});

const OTHER_MAC = "02:00:00:00:00:07";

rootTest(
  "tuning.del() restores an interface that its pod renamed or changed",
  async (t) => {
    const rows: [name: string, changes: string[], name: string][] = [
      ["its MAC", [`address ${OTHER_MAC}`], "eth0"],
      ["its name", ["down", "name wan"], "wan"],
      ["both", ["down", `address ${OTHER_MAC}`, "name wan"], "wan"],
    ];
    await eachRow(t, rows, async ([, changes, name]) => {
      using scene = new TunedLink({ mtu: 1400, promisc: true, txQLen: 77 });
      const { mtu, promisc, txQLen } = scene.link;
      const { json: prevResult } = await scene.succeed("ADD");
      for (const change of changes) scene.change(change);
      await scene.succeed("DEL", { prevResult });
      const [link] = ipJson(scene.hosts.sandbox, "link", "show", name);
      assertEquals([link.mtu, link.flags.includes("PROMISC"), link.txqlen], [
        mtu,
        promisc,
        txQLen,
      ]);
      assertEquals(scene.backups, {});
    });
  },
);

rootTest("tuning.del() changes no other pod at the same path", async () => {
  using scene = new TunedLink({ mtu: 1400 });
  const { json: prevResult } = await scene.succeed("ADD");
  // Whose interface has all that the result says.
  const sandbox = scene.hosts.addNetns();
  const peer = `eth0 address ${OLD_MAC} mtu 1400 netns ${sandbox.path}`;
  runIn(
    scene.hosts.host,
    "ip",
    ..."link add host1 type veth peer name".split(" "),
    ...peer.split(" "),
  );
  await scene.succeed("DEL", { prevResult }, { sandbox });
  const [{ mtu }] = ipJson(sandbox, "link", "show", "eth0");
  assertEquals([mtu, scene.link.mtu, scene.backups], [1400, 1400, {}]);
});

rootTest(
  "tuning.del() keeps the Go plugin's backup if the interface might be another pod's",
  async (t) => {
    const address = "10.0.0.2/24";
    const rows: [name: string, address: string, isRestored: boolean][] = [
      ["the address of the result", address, true],
      ["another address", "10.0.0.3/24", false],
    ];
    await eachRow(t, rows, async ([, address, isRestored]) => {
      using scene = new TunedLink({ mtu: 1400 });
      const { json: prevResult } = await scene.succeed("ADD");
      const backup = { mtu: 1500 };
      scene.writeBackup(BACKUP, JSON.stringify(backup));
      scene.change(`address ${OTHER_MAC}`);
      runIn(
        scene.hosts.sandbox,
        "ip",
        "address",
        "add",
        address,
        "dev",
        "eth0",
      );
      const { exitCode, stderr } = await scene.run("DEL", { prevResult });
      const text = "might belong to a different pod";
      assertEquals([exitCode, stderr.includes(text)], [0, !isRestored]);
      assertEquals(
        [scene.link.mtu, scene.backups],
        isRestored ? [1500, {}] : [1400, { [BACKUP]: backup }],
      );
    });
  },
);

rootTest(
  "tuning.gc() removes the backups of stale attachments",
  async () => {
    using scene = new TunedLink({ mtu: 1400 });
    const add = (containerId: string, name = "net1"): Promise<unknown> =>
      scene.succeed("ADD", { name }, { containerId });
    for (const id of ["a", "b", "c_eth0.json"]) await add(id);
    await add("d", "net2");
    const foreign = { "e_eth0.json": { mtu: 1500 }, "f_eth0.json": 7 };
    for (const [name, content] of Object.entries(foreign)) {
      scene.writeBackup(name, JSON.stringify(content));
    }
    const gc = async (list: unknown): Promise<string[]> => {
      const keys = { "cni.dev/valid-attachments": list };
      await scene.succeed("GC", keys);
      return Object.keys(scene.backups).map((name) => name.split("_")[0] ?? "")
        .sort();
    };
    assertEquals(await gc(undefined), ["a", "b", "c", "d", "e", "f"]);
    const valid = [{ containerID: "b", ifname: "eth0" }];
    assertEquals(await gc([...valid, { containerID: "a", ifname: "eth1" }]), [
      "b",
      "d",
      "e",
      "f",
    ]);
    assertEquals(await gc([]), ["d", "e", "f"]);
    // It changes nothing else, and needs no directory.
    assertEquals(ipJson(scene.hosts.sandbox, "link").length, 2);
    await scene.succeed("GC", {
      dataDir: `${scene.dataDir}/none`,
      "cni.dev/valid-attachments": [],
    });
  },
);

rootTest(
  "tuning.gc() removes the other backups if one cannot be removed",
  needsImmutableFiles,
  async () => {
    using scene = new TunedLink({ mtu: 1400 });
    for (const containerId of ["a", "b", "c"]) {
      await scene.succeed("ADD", {}, { containerId });
    }
    // The one that GC finds first.
    const [{ name }] = await Array.fromAsync(
      Deno.readDir(scene.dataDir),
    ) as [Deno.DirEntry];
    const path = `${scene.dataDir}/${name}`;
    using _kept = keepFile(path);
    await scene.fail("GC", [5, `Cannot remove "${path}"`], {
      "cni.dev/valid-attachments": [],
    });
    assertEquals(Object.keys(scene.backups), [name]);
  },
);
