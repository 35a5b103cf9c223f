import { assert, assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { decode } from "../../base/json/json.ts";
import type { Call } from "../../cni/plugin.ts";
import { type BridgeConfig, bridgeSchema } from "./schema.ts";
import { type BridgeSettings, hasVlans, settingsOf } from "./settings.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** Reads the settings of a configuration, as in a call. */
function read(config: unknown, args = ""): BridgeSettings {
  const decoded = decode(bridgeSchema(), config, "network configuration");
  return settingsOf(
    { config: decoded, args: { args } } as unknown as Call<BridgeConfig>,
  );
}

/** Settings of an empty configuration, except the MAC. */
const DEFAULTS: Omit<BridgeSettings, "mac"> = {
  hasChosenMac: false,
  bridge: "cni0",
  isLayer3: false,
  isGateway: false,
  isDefaultGateway: false,
  forceAddress: false,
  mtu: undefined,
  hairpin: false,
  promiscuous: false,
  isolated: false,
  vlan: undefined,
  trunk: [],
  preservesDefaultVlan: false,
  checksSpoofing: false,
  detectsDuplicates: false,
  checksConflicts: false,
  leavesContainerDown: false,
};

Deno.test("settingsOf() reads every key", async (t) => {
  const ipam = { type: "host-local" };
  const rows: [config: unknown, want: Partial<BridgeSettings>][] = [
    [{}, {}],
    [{ bridge: "" }, {}],
    [{ bridge: "br-lan" }, { bridge: "br-lan" }],
    [{ BRIDGE: "br-lan" }, { bridge: "br-lan" }],
    [{ ipam: {} }, {}],
    [{ ipam: { type: "" } }, {}],
    [{ ipam }, { isLayer3: true }],
    [{ isGateway: true }, { isGateway: true }],
    [{ isDefaultGateway: true }, { isGateway: true, isDefaultGateway: true }],
    [{ forceAddress: true }, { forceAddress: true }],
    [{ mtu: 1400 }, { mtu: 1400 }],
    [{ mtu: 0 }, {}],
    [{ mtu: -1 }, {}],
    [{ hairpinMode: true }, { hairpin: true }],
    [{ promiscMode: true }, { promiscuous: true }],
    [{ portIsolation: true }, { isolated: true }],
    [{ vlan: 0 }, {}],
    [{ vlan: 4094 }, { vlan: 4094 }],
    [{ vlanTrunk: [] }, {}],
    [{ vlanTrunk: [{ id: 5 }] }, { trunk: [{ first: 5, last: 5 }] }],
    [{ vlan: 3, vlanTrunk: [{ minID: 5, maxID: 6 }] }, {
      vlan: 3,
      trunk: [{ first: 5, last: 6 }],
    }],
    [{ preserveDefaultVlan: true }, { preservesDefaultVlan: true }],
    [{ macspoofchk: true }, { checksSpoofing: true }],
    [{ enabledad: true }, { detectsDuplicates: true }],
    [{ disableContainerInterface: true }, { leavesContainerDown: true }],
    [{ isGateway: null, vlan: null, mtu: null, bridge: null }, {}],
  ];
  await eachRow(t, rows, ([config, want]) => {
    const { mac, ...settings } = read(config);
    assertEquals(settings, { ...DEFAULTS, ...want });
    assert(mac.isLocallyAdministered && !mac.isMulticast, `${mac}`);
  }, ([config]) => JSON.stringify(config));
});

Deno.test("settingsOf() reads the MAC address from the source with the highest precedence", async (t) => {
  const MAC = (last: number): string => `c2:11:22:33:44:0${last}`;
  const cni = (mac: unknown): unknown => ({ args: { cni: { mac } } });
  const runtime = (mac: unknown): unknown => ({ runtimeConfig: { mac } });
  const rows: [name: string, args: string, config: unknown, want: string][] = [
    ["CNI_ARGS", `MAC=${MAC(1)}`, {}, MAC(1)],
    [
      "CNI_ARGS beside unknown ones",
      `IgnoreUnknown=1;K8S_POD=x;MAC=${MAC(1)}`,
      {},
      MAC(1),
    ],
    ["args.cni.mac", "", cni(MAC(2)), MAC(2)],
    ["args.cni.mac over CNI_ARGS", `MAC=${MAC(1)}`, cni(MAC(2)), MAC(2)],
    [
      "args.cni.mac over an invalid one in CNI_ARGS",
      "MAC=zz",
      cni(MAC(2)),
      MAC(2),
    ],
    ["runtimeConfig.mac", "", runtime(MAC(3)), MAC(3)],
    [
      "runtimeConfig.mac over both",
      `MAC=${MAC(1)}`,
      { ...cni(MAC(2)) as object, ...runtime(MAC(3)) as object },
      MAC(3),
    ],
    ["an empty one does not count", `MAC=${MAC(1)}`, {
      ...cni("") as object,
      ...runtime("") as object,
    }, MAC(1)],
    [
      "in upper case, with hyphens",
      "",
      runtime("C2-11-22-33-44-0A"),
      "c2:11:22:33:44:0a",
    ],
  ];
  await eachRow(
    t,
    rows,
    ([, args, config, want]) => assertEquals(`${read(config, args).mac}`, want),
  );
});

Deno.test("settingsOf() refuses invalid and contradictory keys", async (t) => {
  const ipam = { type: "host-local" };
  const rows: [config: unknown, code: number, text: string, args?: string][] = [
    [{ vlan: 4095 }, 7, "invalid VLAN ID 4095 (must be between 0 and 4094)"],
    [{ mtu: "1500" }, 7, "mtu"],
    [{ mtu: 1500.5 }, 7, "mtu"],
    [{ isGateway: "true" }, 7, "isGateway"],
    [{ vlanTrunk: { id: 1 } }, 7, "vlanTrunk"],
    [{ ipMasqBackend: 1 }, 7, "ipMasqBackend"],
    [{ bridge: "a/b" }, 7, 'Cannot use "a/b"'],
    [{ bridge: "br%d" }, 7, 'Cannot use "br%d"'],
    [
      { bridge: "long-name-12", vlan: 100, isGateway: true, ipam },
      7,
      'Cannot use "long-name-12.100"',
    ],
    [{ args: { cni: { mac: "c2:11" } } }, 7, 'Cannot use MAC "c2:11"'],
    [{ runtimeConfig: { mac: "01:00:5e:00:00:01" } }, 7, "Cannot use MAC"],
    [{ runtimeConfig: { mac: "00:00:00:00:00:00" } }, 7, "Cannot use MAC"],
    [{}, 4, 'Cannot use MAC "zz"', "MAC=zz"],
    [{}, 4, "invalid pair", "MAC=c2:11:22:33:44:01;"],
  ];
  await eachRow(t, rows, ([config, code, text, args]) => {
    const error = assertThrows(() => read(config, args), CniError);
    assertEquals(error.code, code, error.message);
    assert(error.message.includes(text), error.message);
  }, ([config, , , args]) => `${JSON.stringify(config)} ${args ?? ""}`);
});

Deno.test("hasVlans() reports whether the bridge needs VLAN filtering", () => {
  const rows: [config: unknown, want: boolean][] = [
    [{}, false],
    [{ vlan: 0, vlanTrunk: [] }, false],
    [{ vlan: 1 }, true],
    [{ vlanTrunk: [{ id: 1 }] }, true],
  ];
  for (const [config, want] of rows) {
    assertEquals(hasVlans(read(config)), want, JSON.stringify(config));
  }
});
