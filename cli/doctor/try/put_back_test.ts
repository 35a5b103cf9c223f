import { assertEquals, assertRejects } from "@std/assert";
import { ifPossible } from "../../../base/files/io.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { Guard } from "./put_back.ts";

const IPV4 = "net/ipv4/ip_forward", IPV6 = "net/ipv6/conf/all/forwarding";
const LINK = "net/ipv4/conf/out0/forwarding";
const BRIDGE = "net/ipv4/conf/cni0/forwarding";
const ACCEPT_RA = "net/ipv6/conf/out0/accept_ra";

/** Settings, in the order in which they are written. */
type Settings = Readonly<Record<string, number>>;

const OFF = { [IPV4]: 0, [IPV6]: 0, [LINK]: 1, [ACCEPT_RA]: 1 };
/** What ADD writes. */
const ADDED = { [IPV4]: 1, [ACCEPT_RA]: 2, [IPV6]: 1 };

const ROWS: readonly (readonly [
  what: string,
  before: Settings,
  during: string | Settings,
  after: Settings,
])[] = [
  ["what ADD changed is restored", OFF, ADDED, OFF],
  [
    "with a new container, forwarding stays on",
    OFF,
    "ip link add veth7 type veth peer name peer7",
    { ...OFF, ...ADDED },
  ],
  [
    "links that kernel modules create are no containers",
    OFF,
    "ip link add ifb0 type veth peer name ifb1; " +
    "ip link add dummy0 type veth peer name bond0",
    OFF,
  ],
  [
    "the bridge that ADD creates is no container",
    OFF,
    "ip link add cni0 type bridge; " +
    "ip link add cni0.7 type veth peer name cni0.8",
    OFF,
  ],
  [
    "what an administrator turns off stays off",
    { [IPV4]: 1, [IPV6]: 1 },
    { [IPV4]: 0, [IPV6]: 0 },
    { [IPV4]: 0, [IPV6]: 0 },
  ],
  [
    "a link that an administrator makes forward still does",
    { [IPV4]: 1, [LINK]: 0 },
    { [LINK]: 1 },
    { [IPV4]: 1, [LINK]: 1 },
  ],
  [
    "a link that ADD makes ignore routers still does",
    OFF,
    { ...ADDED, [ACCEPT_RA]: 0 },
    { ...OFF, [ACCEPT_RA]: 0 },
  ],
];

/** Writes settings as a script. */
function write(settings: Settings): string {
  return Object.entries(settings)
    .map(([key, value]) => `echo ${value} > /proc/sys/${key}`).join("\n");
}

rootTest("cni doctor --try restores its own changes only", async (t) => {
  await eachRow(t, ROWS, async ([, before, during, after]) => {
    using hosts = TestHosts.create();
    const sh = (script: string): string =>
      runIn(hosts.host, "sh", "-ec", script);
    sh("ip link add out0 type veth peer name out1; " + write(before));
    const guard = Guard.start({
      host: hosts.host,
      links: ["lo", "out0", "out1"],
      shared: ["cni0"],
      commands: [],
    });
    if (typeof during === "string") sh(`${write(ADDED)}\n${during}`);
    else sh(write(during));
    const isKept = after[IPV4] === 1 && before[IPV4] === 0;
    assertEquals(await guard.release(), isKept ? [IPV4, IPV6] : []);
    const read = Object.keys(after).map((key) =>
      [key, Number(sh(`cat /proc/sys/${key}`))] as const
    );
    assertEquals(Object.fromEntries(read), after);
  });
});

rootTest(
  "cni doctor --try restores the forwarding of an existing bridge",
  async () => {
    using hosts = TestHosts.create();
    const sh = (script: string): string =>
      runIn(hosts.host, "sh", "-ec", script);
    sh("ip link add cni0 type bridge; " + write({ [IPV4]: 1, [BRIDGE]: 0 }));
    const guard = Guard.start({
      host: hosts.host,
      links: ["lo", "cni0"],
      shared: ["cni0"],
      commands: [],
    });
    sh(write({ [BRIDGE]: 1 }));
    assertEquals(await guard.release(), []);
    assertEquals(sh(`cat /proc/sys/${IPV4} /proc/sys/${BRIDGE}`), "1\n0\n");
  },
);

rootTest("cni doctor --try restores the forwarding of 1100 links", async () => {
  using hosts = TestHosts.create();
  const { host, directory } = hosts;
  const sh = (script: string): string => runIn(host, "sh", "-ec", script);
  const pairs = Array.from({ length: 550 }, (_, at) => [`a${at}`, `b${at}`]);
  const batch = `${directory}/batch`;
  const lines = pairs.map(([a, b]) => `link add ${a} type veth peer name ${b}`);
  await Deno.writeTextFile(batch, lines.join("\n"));
  const last = "net/ipv6/conf/b549";
  const before = {
    [IPV4]: 0,
    [IPV6]: 0,
    [`${last}/forwarding`]: 1,
    [`${last}/accept_ra`]: 1,
  };
  sh(`ip -batch ${batch}\n${write(before)}`);
  const guard = Guard.start({
    host,
    links: ["lo", ...pairs.flat()],
    shared: [],
    commands: [],
  });
  const added = { [IPV4]: 1, [`${last}/accept_ra`]: 2, [IPV6]: 1 };
  sh(write(added));
  assertEquals(await guard.release(), []);
  const read = Object.keys(before).map((key) =>
    [key, Number(sh(`cat /proc/sys/${key}`))] as const
  );
  assertEquals(Object.fromEntries(read), before);
});

/** Finds the process that a guard in this process has started. */
function findGuard(): string | undefined {
  const children = [...Deno.readDirSync("/proc/self/task")]
    .flatMap(({ name }) =>
      Deno.readTextFileSync(`/proc/self/task/${name}/children`).match(/\d+/g) ??
        []
    );
  return children.find((pid) =>
    ifPossible(() => Deno.readTextFileSync(`/proc/${pid}/cmdline`))
      ?.includes("is_alone") === true
  );
}

rootTest(
  "cni doctor --try detects that nothing restores forwarding",
  async () => {
    using hosts = TestHosts.create();
    const guard = Guard.start({
      host: hosts.host,
      links: ["lo"],
      shared: [],
      commands: [],
    });
    // The kernel's list of children may miss one while others begin and end.
    let pid: string | undefined;
    await eventually("the guard is a child", () => {
      pid = findGuard();
      return pid !== undefined;
    });
    Deno.kill(Number(pid), "SIGKILL");
    await assertRejects(() => guard.release(), Error, "is not restored");
  },
);
