/**
 * The dispatcher's look at the environment: which variables each command needs,
 * and what may be in them.
 *
 * Source: containernetworking/cni pkg/skel/skel_test.go.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import type { Environment } from "../../base/process/environment.ts";
import { conformance } from "../_harness/conformance.ts";
import { assertFailure, CONFIG, CURRENT, ENV } from "../_harness/recorder.ts";
import { expand, record, refuses } from "./rows.ts";

const CHARACTERS = "interface name contains / or : or whitespace characters";

conformance("skel", {
  "ADD with container ID some-%%container-id is code 4, which shows it":
    refuses(
      { CNI_COMMAND: "ADD", CNI_CONTAINERID: "some-%%container-id" },
      CONFIG,
      {
        code: 4,
        msg: "invalid characters in containerID",
        details: "some-%%container-id",
      },
    ),
  ...expand([
    ["1234567890123456", "interface name is too long"],
    [".", "interface name is . or .."],
    ["..", "interface name is . or .."],
    ["test/test", CHARACTERS],
    ["test:test", CHARACTERS],
    ["test test", CHARACTERS],
  ], ([name, msg]) => [
    `ADD with interface name "${name}" is code 4, ${msg}`,
    refuses({ CNI_COMMAND: "ADD", CNI_IFNAME: name }, CONFIG, { code: 4, msg }),
  ]),
  "the error for a long interface name has the limit": refuses(
    { CNI_COMMAND: "ADD", CNI_IFNAME: "1234567890123456" },
    CONFIG,
    { code: 4, details: "interface name should be less than 16 characters" },
  ),
});

/** Which variables each command needs, besides CNI_COMMAND. */
const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  ADD: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  CHECK: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
  DEL: ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
  GC: ["CNI_PATH"],
  STATUS: ["CNI_PATH"],
  VERSION: [],
};

const NEEDS = Object.entries(REQUIRED).flatMap(([command, required]) =>
  Object.keys(ENV).map((name) =>
    [command, name, required.includes(name)] as const
  )
);

function without(name: string): Environment {
  return Object.fromEntries(
    Object.entries(ENV).filter(([key]) => key !== name),
  );
}

conformance("skel", {
  ...expand(NEEDS, ([command, name, isRequired]) => [
    isRequired
      ? `${command} without ${name} is code 4 and names it`
      : `${command} without ${name} is fine`,
    async () => {
      for (const env of [without(name), { ...ENV, [name]: "" }]) {
        const extras = { versions: ["1.1.0"], about: "" };
        const call = { ...env, CNI_COMMAND: command };
        const outcome = await record(call, CURRENT, extras);
        if (!isRequired) assertEquals(outcome.exitCode, 0);
        else {
          const msg = `required env variables [${name}] missing`;
          assertFailure(outcome, { code: 4, msg });
          assertEquals(outcome.operations, []);
        }
      }
    },
  ]),
  ...expand([
    ["ADD", "CNI_NETNS,CNI_IFNAME,CNI_PATH"],
    ["CHECK", "CNI_NETNS,CNI_IFNAME,CNI_PATH"],
    ["DEL", "CNI_IFNAME,CNI_PATH"],
    ["GC", "CNI_PATH"],
  ], ([command, names]) => [
    `${command} with several variables missing lists ${names}`,
    async () => {
      const env = {
        CNI_COMMAND: command,
        CNI_CONTAINERID: "some-container-id",
      };
      const outcome = await record(env, CONFIG);
      const msg = `required env variables [${names}] missing`;
      assertFailure(outcome, { code: 4, msg });
    },
  ]),
  "a malformed variable goes before missing ones": async () => {
    const outcome = await record(
      { CNI_COMMAND: "ADD", CNI_IFNAME: "a/b" },
      CONFIG,
    );
    assertFailure(outcome, { code: 4, msg: CHARACTERS });
  },
  "GC and STATUS ignore malformed IDs and names": async () => {
    for (const CNI_COMMAND of ["GC", "STATUS"]) {
      const bad = { CNI_CONTAINERID: "%%", CNI_IFNAME: "a/b" };
      const env = { ...ENV, ...bad, CNI_COMMAND };
      const outcome = await record(env, CURRENT, { versions: ["1.1.0"] });
      assertEquals(outcome.exitCode, 0);
    }
  },
});
