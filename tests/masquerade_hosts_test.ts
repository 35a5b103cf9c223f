/**
 * Masquerading on hosts that have few programs, or rules of others: the whole
 * life of an attachment, by the executables, in a mount namespace in which other
 * directories lie over those of the programs.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { bridgeConfig } from "../plugins/bridge/testing/bridge_network.ts";
import { allOf, rootTest } from "../testing/capabilities.ts";
import { dualStack } from "./_harness/dual_stack.ts";
import type { ExecOutput } from "../testing/exec_in.ts";
import { needsBin } from "./_harness/executables.ts";
import { HostPrograms, OTHERS, PROGRAMS } from "./_harness/host_programs.ts";
import { runIn } from "../testing/ip_json.ts";
import {
  type MakeConfig,
  MasqueradeScene,
} from "./_harness/masquerade_scene.ts";
import { OUTSIDE, reached } from "./_harness/outside.ts";
import type { Keys } from "./_harness/plugin_scene.ts";
import { isRootless } from "./_harness/rootless.ts";
import { needsLegacyIptables, needsRuleTools } from "./_harness/rules.ts";

/** Where the rules are kept. */
type Place = "a table of nftables" | "iptables-nft" | "iptables-legacy";

/** A host with these programs and tables. */
class Host extends MasqueradeScene {
  readonly #programs: HostPrograms;
  readonly #type: string;

  constructor(
    type: string,
    makeConfig: MakeConfig,
    { programs, others, backend }: {
      readonly programs: string;
      readonly others: string;
      readonly backend: string | undefined;
    },
  ) {
    const makeWithGateway: MakeConfig = (hosts, extras) =>
      makeConfig(hosts, { ...extras, isGateway: true });
    super(type, makeWithGateway, backend);
    this.#type = type;
    this.#programs = new HostPrograms(this.hosts, programs);
    runIn(this.hosts.host, "sh", "-ec", others);
  }

  /** All rules, of both variants, without the tables that legacy programs leave. */
  get allRules(): string {
    // Others than the machine's root cannot list the tables, which this one adds.
    const [suffix, ...args] = isRootless ? ["", "-t", "nat", "-S"] : ["-save"];
    const legacy = ["iptables-legacy", "ip6tables-legacy"]
      .map((name) => runIn(this.hosts.host, `${name}${suffix}`, ...args))
      .join("").split("\n").filter((line) => /^-|CNI-/.test(line));
    return [this.rules, ...legacy].join("\n");
  }

  /** Where the container's rules are. */
  get place(): Place {
    const { rules, allRules } = this;
    if (/^\tchain masq_checks/m.test(rules)) return "a table of nftables";
    const isInNft = /^-A CNI-/m.test(rules);
    assertMatch(allRules, /^-A CNI-.*test-container/m);
    return isInNft ? "iptables-nft" : "iptables-legacy";
  }

  /** Runs a command that must succeed. */
  call(command: string, extras: Keys = {}): Keys {
    const { code, stdout, stderr } = this.exec(command, extras);
    assertEquals(code, 0, stdout + stderr);
    return stdout === "" ? {} : JSON.parse(stdout);
  }

  /** Runs the executable, which finds no other programs than the host has. */
  exec(command: string, extras: Keys = {}): ExecOutput {
    const config = { ...this.config, ...extras };
    return this.#programs.exec(this.#type, command, config);
  }
}

/** The attempts. */
interface Life {
  readonly programs: keyof typeof PROGRAMS;
  readonly others: keyof typeof OTHERS;
  readonly backend?: string;
  readonly place: Place;
}

const needsAll = allOf(needsBin, needsRuleTools, needsLegacyIptables());

rootTest("ptp fails if a host lacks the named iptables", needsAll, () => {
  using host = new Host("ptp", dualStack, {
    programs: "",
    others: OTHERS["tables by iptables-legacy"] ?? "",
    backend: "iptables",
  });
  const rows: [command: string, text: RegExp][] = [
    ["STATUS", /"code": 50,[^]*the host has no iptables/],
    ["ADD", /the host has no iptables/],
  ];
  // Its rules may be there, and nothing can remove them. That nobody can tell is
  // no reason to keep a container.
  if (isRootless) host.call("DEL");
  else rows.push(["DEL", /the host has no iptables for its legacy rules/]);
  for (const [command, text] of rows) {
    const { code, stdout } = host.exec(command);
    assertEquals(code, 1);
    assertMatch(stdout, text);
  }
  host.call("DEL", { ipMasqBackend: undefined });
});

/** Registers a test of an attachment's whole life. */
function testLife(
  type: string,
  makeConfig: MakeConfig,
  { programs, others, backend, place }: Life,
): void {
  const suffix = backend === undefined ? "" : `, ipMasqBackend ${backend}`;
  rootTest(
    `${type} masquerades with ${place} on a host with ${programs} and ${others}${suffix}`,
    needsAll,
    () => {
      using host = new Host(type, makeConfig, {
        programs: PROGRAMS[programs] ?? "",
        others: OTHERS[others] ?? "",
        backend,
      });
      const before = host.allRules;
      host.call("STATUS", { cniVersion: "1.1.0" });
      const prevResult = host.call("ADD");
      assertEquals(reached(host.hosts.sandbox), OUTSIDE);
      assertEquals(host.place, place);
      host.call("CHECK", { prevResult });
      host.call("DEL", { prevResult });
      assertEquals(host.allRules, before);
      host.call("ADD");
      host.call("GC", {
        cniVersion: "1.1.0",
        "cni.dev/valid-attachments": [],
      });
      assertEquals(host.allRules, before);
    },
  );
}

for (const others of Object.keys(OTHERS)) {
  const byNftables = {
    programs: "no program at all",
    others,
    place: "a table of nftables",
  } as const;
  testLife("ptp", dualStack, byNftables);
  testLife("ptp", dualStack, { ...byNftables, backend: "nftables" });
  testLife("bridge", bridgeConfig, byNftables);
  testLife("ptp", dualStack, {
    programs: "iptables-nft",
    others,
    // iptables does not work with a table that has such a chain.
    place: others === "tables by nft" ? "a table of nftables" : "iptables-nft",
  });
  testLife("ptp", dualStack, {
    programs: "iptables-legacy",
    others,
    place: "iptables-legacy",
  });
}
for (const others of ["nobody's tables", "tables by iptables-legacy"]) {
  testLife("ptp", dualStack, {
    programs: "a script as iptables",
    others,
    place: "iptables-legacy",
  });
  for (
    const programs of [
      "an iptables without its kernel modules",
      "an iptables that does not start",
    ]
  ) {
    testLife("ptp", dualStack, {
      programs,
      others,
      place: "a table of nftables",
    });
  }
}
testLife("ptp", dualStack, {
  programs: "iptables-nft",
  // Of a container with a legacy iptables; the host has none.
  others: "tables by iptables-legacy",
  backend: "iptables",
  place: "iptables-nft",
});
