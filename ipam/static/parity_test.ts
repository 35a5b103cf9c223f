/**
 * Holds static to the Go plugin of the same name: the same answers to the same
 * calls, and the same words where it fails.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { type Run, runAs } from "../host_local/testing.ts";
import { listPeers } from "../../tests/_harness/parity.ts";
import { runStatic, staticConfig } from "./testing.ts";

/** The versions that every peer has. */
const VERSIONS = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0"];

/** The input of a call. */
interface Scenario {
  readonly ipam?: JsonObject;
  readonly others?: JsonObject;
  readonly cniArgs?: string;
}

const IPV4 = { address: "10.10.0.1/24", gateway: "10.10.0.254" };
const IPV6 = { address: "3ffe:FFFF:0:01ff::1/64", gateway: "3ffe:ffff:0::1" };

/** Calls that both answer in the same way, if they can at that version. */
const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "nothing": { ipam: {} },
  "both families": { ipam: { addresses: [IPV4, IPV6] } },
  "several of a family": {
    ipam: { addresses: [IPV4, { address: "10.10.0.2/24" }] },
  },
  "routes and dns": {
    ipam: {
      addresses: [IPV4],
      routes: [
        { dst: "0.0.0.0/0" },
        { dst: "10.1.2.3/16", gw: "10.10.0.2" },
        { dst: "10.1.2.3/16", gw: "10.10.0.3" },
        { dst: "::/0", gw: "" },
      ],
      dns: {
        nameservers: ["10.10.0.53"],
        domain: "example.test",
        search: [],
        options: ["ndots:5"],
      },
    },
  },
  "CNI_ARGS alone": {
    ipam: {},
    cniArgs: "IP=10.10.0.1/24;GATEWAY=10.10.0.254",
  },
  "CNI_ARGS beside addresses": {
    ipam: { addresses: [IPV6] },
    cniArgs: "IgnoreUnknown=1;X=y;IP=10.10.0.1/24;GATEWAY=10.9.0.1,10.10.0.254",
  },
  "CNI_ARGS with empty values": {
    ipam: { addresses: [IPV4] },
    cniArgs: "IP=;GATEWAY=",
  },
  "blanks in CNI_ARGS": {
    ipam: {},
    cniArgs: "IP= 10.10.0.1/24 ,3ffe::1/64 ;GATEWAY= 10.10.0.254 , 3ffe::2",
  },
  "a gateway in CNI_ARGS, and one of its own": {
    ipam: { addresses: [IPV4] },
    cniArgs: "GATEWAY=10.10.0.253",
  },
  "args": {
    ipam: { addresses: [{ address: "10.9.0.1/24", gateway: "10.9.0.254" }] },
    others: { args: { cni: { ips: ["10.10.0.9/24", "3ffe::9/64"] } } },
  },
  "runtimeConfig": {
    ipam: {},
    others: { RuntimeConfig: { ips: ["10.10.0.9/24", "3ffe::9/64"] } },
  },
  "all sources": {
    ipam: { addresses: [{ address: "10.9.0.1/24", gateway: "10.9.0.254" }] },
    others: {
      args: { cni: { ips: ["10.10.0.8/24"] } },
      runtimeConfig: { ips: ["10.10.0.9/24"] },
    },
    cniArgs: "IP=10.10.0.7/24;GATEWAY=10.10.0.254",
  },
  "addresses that are wrong, and replaced": {
    ipam: { addresses: [{ address: "x" }] },
    others: { runtimeConfig: { ips: ["10.10.0.9/24"] } },
  },
  "empty lists": {
    ipam: { addresses: [IPV4] },
    others: { args: { cni: { ips: [] } }, runtimeConfig: { ips: [] } },
  },
  "null": {
    ipam: { addresses: [IPV4], routes: null, dns: null },
    others: { args: null, runtimeConfig: null },
  },
  "keys in another case": {
    ipam: { Addresses: [{ ADDRESS: "10.10.0.1/24", GateWay: "10.10.0.2" }] },
  },
  "no ipam": {},
  "no CIDR in addresses": { ipam: { addresses: [{ address: "10.10.0.1" }] } },
  "no address": { ipam: { addresses: [{}] } },
  "no CIDR in CNI_ARGS": { ipam: {}, cniArgs: "IP=10.10.0.1" },
  "an empty item in CNI_ARGS": { ipam: {}, cniArgs: "IP=10.10.0.1/24," },
  "no gateway in CNI_ARGS": { ipam: {}, cniArgs: "GATEWAY=10.10.0.1/24" },
  "no CIDR in args": {
    ipam: {},
    others: { args: { cni: { ips: ["10.10.0.1"] } } },
  },
  "no CIDR in args, which are not used": {
    ipam: {},
    others: {
      args: { cni: { ips: ["10.10.0.1"] } },
      runtimeConfig: { ips: ["10.10.0.1/24"] },
    },
  },
  "no CIDR in runtimeConfig": {
    ipam: {},
    others: { runtimeConfig: { ips: [" 10.10.0.1/24"] } },
  },
};

/** Calls that fail, with messages of which only a part is the same. */
const FAILURES: Readonly<Record<string, readonly [Scenario, string]>> = {
  "a gateway in addresses": [
    { ipam: { addresses: [{ address: "10.10.0.1/24", gateway: "x" }] } },
    "invalid IP address: x",
  ],
  "an unknown key in CNI_ARGS": [
    { ipam: {}, cniArgs: "IP=10.10.0.1/24;X=y" },
    'ARGS: unknown args ["X=y"]',
  ],
  "a pair in CNI_ARGS": [
    { ipam: {}, cniArgs: "IP=10.10.0.1/24;" },
    'ARGS: invalid pair ""',
  ],
};

/** Runs ours as {@linkcode runAs} runs Go's. */
const runOurs: Run = runStatic;

async function play(
  run: Run,
  { ipam, others = {}, cniArgs = "" }: Scenario,
  { command = "ADD", cniVersion = "1.0.0" } = {},
): ReturnType<Run> {
  const config = staticConfig(ipam, { ...others, cniVersion });
  return await run(command, config, { CNI_ARGS: cniArgs });
}

/** What is compared: a result whole, but no empty `dns`; of an error its message. */
function comparable({ exitCode, json }: Awaited<ReturnType<Run>>): unknown {
  if (exitCode !== 0) return { exitCode, msg: json.msg };
  const { dns = {}, ...others } = json ?? {};
  // Go plugins of some years ago print it at 1.0.0 too.
  return Object.keys(dns).length === 0 ? others : json;
}

for (const peer of listPeers("static")) {
  const runGo = runAs([`${peer.directory}/static`]);
  Deno.test(`static prints the same results and errors as the Go plugin (${peer.name})`, async (t) => {
    for (const [name, scenario] of Object.entries(SCENARIOS)) {
      for (const cniVersion of new Set([...VERSIONS, peer.cniVersion])) {
        await t.step(`${name}, ${cniVersion}`, async () => {
          const ours = await play(runOurs, scenario, { cniVersion });
          const theirs = await play(runGo, scenario, { cniVersion });
          assertEquals(comparable(ours), comparable(theirs));
        });
      }
    }
  });

  Deno.test(`static fails with the Go plugin's well-known messages (${peer.name})`, async (t) => {
    for (const [name, [scenario, quoted]] of Object.entries(FAILURES)) {
      await t.step(name, async () => {
        for (const run of [runOurs, runGo]) {
          const { exitCode, json, stdout } = await play(run, scenario);
          assertEquals(exitCode, 1);
          assert(
            `${json.msg}: ${json.details ?? ""}`.includes(quoted),
            stdout,
          );
        }
      });
    }
  });

  Deno.test(`static and the Go plugin accept each other's attachments (${peer.name})`, async (t) => {
    for (const [name, scenario] of Object.entries(SCENARIOS)) {
      const runs = [[runOurs, runGo], [runGo, runOurs]] as const;
      for (const [adds, others] of runs) {
        const label = adds === runGo ? "Go's, then ours" : "ours, then Go's";
        await t.step(`${name}: ${label}`, async () => {
          const added = await play(adds, scenario);
          if (added.exitCode !== 0) return;
          const prevResult = added.json;
          const checked = { ...scenario.others, prevResult };
          const later = { ...scenario, others: checked };
          for (const command of ["CHECK", "DEL"]) {
            const output = await play(others, later, { command });
            assertEquals(output.exitCode, 0, `${command}: ${output.stdout}`);
          }
        });
      }
    }
  });
}
