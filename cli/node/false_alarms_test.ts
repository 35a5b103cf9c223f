import { assertEquals } from "@std/assert";
import { isFalseAlarm } from "./false_alarms.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const NONE = { confDir: "/none", cacheDir: "/none" };
const V4 = ["10.1.2.2/24"], V6 = ["fd00:3::2/64"];
const GATEWAY = "Failed to find Gateway 10.1.2.1 for interface eth0";
const CHAIN =
  "chain CNI-DN-1d08c6784073350a000d1 not found in iptables table nat";
const RULES = (to: string): string =>
  `rule [[-p tcp --dport 8080 -j DNAT --to-destination ${to}]] in chain CNI-DN-4a9b not found`;

/** What the Go plugins 1.1.1 and 1.10.0 print, and whether nothing is wrong. */
const ROWS: [
  text: string,
  plugins: (string | { type: string; plugins: { type: string }[] })[],
  addresses: string[],
  boolean,
][] = [
  [`ptp: ${GATEWAY}`, ["ptp", "sbr"], V4, true],
  [`bridge: ${GATEWAY}`, ["bridge", "sbr"], V4, true],
  [`ptp: ${GATEWAY}`, ["ptp"], V4, false],
  [
    `ptp: ${GATEWAY}`,
    ["ptp", { type: "chain", plugins: [{ type: "sbr" }] }],
    V4,
    true,
  ],
  [`portmap: could not check ipv6 dnat: ${CHAIN}`, ["portmap"], V4, true],
  [`portmap: could not check ipv4 dnat: ${CHAIN}`, ["portmap"], V6, true],
  [`portmap: could not check ipv4 dnat: ${CHAIN}`, ["portmap"], V4, false],
  [
    `portmap: could not check ipv6 dnat: ${RULES("10.1.2.2:80")}`,
    ["portmap"],
    [...V4, ...V6],
    true,
  ],
  [
    `portmap: could not check ipv6 dnat: ${RULES("[fd00:3::2]:80")}`,
    ["portmap"],
    [...V4, ...V6],
    false,
  ],
  [
    "tuning: open /proc/sys/net/ipv4/conf/IFNAME/arp_filter: no such file or directory",
    ["tuning"],
    V4,
    true,
  ],
  [
    "tuning: Error: Tuning configured Promiscous Mode is off",
    ["tuning"],
    V4,
    false,
  ],
  [
    'bandwidth: netplugin failed: "panic: runtime error: invalid memory address or nil pointer dereference\\n…',
    ["bandwidth"],
    V4,
    true,
  ],
];

/** The beginning of a program that Go built. Source: cmd/link/internal/ld/elf.go. */
const BUILT_BY_GO = `\x7fELF${"\0".repeat(60)}\x04\0\0\0Go\0\0`;

Deno.test("isFalseAlarm() recognizes wrong CHECK errors of Go plugins", async (t) => {
  using go = new PluginDirectory();
  using own = new PluginDirectory();
  for (const name of ["ptp", "bridge", "portmap", "tuning", "bandwidth"]) {
    go.addFile(name, BUILT_BY_GO);
    own.addOwnExecutable(name);
  }
  await eachRow(t, ROWS, ([text, listed, addresses, expected]) => {
    const [plugin = "", msg = ""] = text.split(/: (.*)/);
    const attachment = {
      config: new TextEncoder().encode(
        JSON.stringify({
          plugins: listed.map((plugin) =>
            typeof plugin === "string" ? { type: plugin } : plugin
          ),
        }),
      ),
      result: {
        cniVersion: "1.0.0",
        ips: addresses.map((address) => ({ address })),
      },
    };
    const isFalse = ({ path }: PluginDirectory): boolean =>
      isFalseAlarm(
        { directories: { ...NONE, pluginDirs: [path] } },
        attachment,
        { plugin, msg },
      );
    assertEquals([isFalse(go), isFalse(own)], [expected, false]);
  });
});
