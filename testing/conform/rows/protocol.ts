/**
 * VERSION, errors and inputs.
 *
 * @module
 */

import { SPEC_VERSIONS } from "../../../cni/version.ts";
import type { Requirement } from "../requirement.ts";
import { expect, Untried } from "../verdict.ts";
import { type Attachment, describeReply, type Scene } from "../scene.ts";
import type { Reply } from "../call.ts";

/** Checks that a refusal is one document with a code and a message. */
function isError({ json }: Reply): boolean {
  return typeof json?.code === "number" && typeof json.msg === "string" &&
    json.msg !== "";
}

/** A call that cannot succeed. */
type Bad = readonly [what: string, call: (scene: Scene) => Promise<Reply>];

const BAD_CALLS: readonly Bad[] = [
  [
    "with an unknown command",
    async (scene) => await scene.call("JUMP", await scene.container()),
  ],
  [
    "without CNI_NETNS",
    async (scene) =>
      await scene.call("ADD", await scene.container(), {
        env: { CNI_NETNS: undefined },
      }),
  ],
  [
    "with an empty stdin",
    async (scene) =>
      await scene.call("ADD", await scene.container(), { stdin: "" }),
  ],
  [
    "with a stdin that is not JSON",
    async (scene) =>
      await scene.call("ADD", await scene.container(), { stdin: "{" }),
  ],
  [
    "with cniVersion 9.9.9",
    async (scene) =>
      await scene.call("ADD", await scene.container(), {
        keys: { cniVersion: "9.9.9" },
      }),
  ],
];

/** Makes calls that cannot succeed; yields the replies. */
async function* refusals(
  scene: Scene,
): AsyncGenerator<readonly [string, Reply]> {
  for (const [what, call] of BAD_CALLS) {
    yield [what, await scene.once(`a call ${what}`, () => call(scene))];
  }
}

const ASKED = ["0.4.0", "1.0.0"];

export const VERSION_REQUIREMENTS: readonly Requirement[] = [
  {
    id: "version-answer",
    title: "VERSION prints one document with cniVersion and supportedVersions",
    section: "5 VERSION Success",
    strength: "MUST",
    async run(scene): Promise<void> {
      const { json, stdout } = await scene.succeed("VERSION", undefined, {
        stdin: '{"cniVersion":"1.1.0"}',
      });
      expect(json !== undefined, `it printed ${JSON.stringify(stdout)}`);
      expect(typeof json.cniVersion === "string", "there is no cniVersion");
      expect(
        Array.isArray(json.supportedVersions) &&
          json.supportedVersions.every((one: unknown) =>
            typeof one === "string"
          ),
        "supportedVersions is not a list of strings",
      );
    },
  },
  {
    id: "version-echo",
    title: "VERSION returns the cniVersion that it was given",
    section: "5 VERSION Success",
    strength: "MUST",
    async run(scene): Promise<void> {
      for (const cniVersion of ASKED) {
        const { json } = await scene.succeed("VERSION", undefined, {
          stdin: JSON.stringify({ cniVersion }),
        });
        expect(
          json?.cniVersion === cniVersion,
          `given ${cniVersion}, it returns ${json?.cniVersion}`,
        );
      }
    },
  },
  {
    id: "version-alone",
    title: "VERSION needs no variable but CNI_COMMAND",
    section: "2 VERSION",
    strength: "MUST",
    async run(scene): Promise<void> {
      await scene.succeed("VERSION", undefined, {
        env: { CNI_PATH: undefined },
        stdin: '{"cniVersion":"1.1.0"}',
      });
    },
  },
  {
    id: "version-unsupported",
    title: "A cniVersion that is not supported is refused with code 1",
    section: "5 Error",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      const unknown = SPEC_VERSIONS.filter((one) =>
        !scene.versions.includes(one)
      );
      for (const command of ["ADD", "DEL"]) {
        for (const cniVersion of ["9.9.9", ...unknown]) {
          const one = await scene.container();
          const { json } = await scene.fail(
            `with cniVersion ${cniVersion}`,
            command,
            one,
            { keys: { cniVersion } },
          );
          expect(
            json?.code === 1,
            `${command} with cniVersion ${cniVersion}: code ${json?.code}`,
          );
        }
      }
    },
  },
];

/** Variables that ADD needs. */
const REQUIRED = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"];

function addWithout(scene: Scene, name: string): Promise<Reply> {
  return scene.once(
    `ADD without ${name}`,
    async () =>
      await scene.call("ADD", await scene.container(), {
        env: { [name]: undefined },
      }),
  );
}

export const ERROR_REQUIREMENTS: readonly Requirement[] = [
  {
    id: "error-exit",
    title: "Calls that cannot succeed exit with a code other than 0",
    section: "2 Errors",
    strength: "MUST",
    async run(scene): Promise<void> {
      for await (const [what, reply] of refusals(scene)) {
        expect(reply.exit !== "0", `exit 0 ${what}`);
        expect(
          /^\d+$/.test(reply.exit),
          `it was killed by ${reply.exit} ${what}`,
        );
      }
    },
  },
  {
    id: "error-document",
    title: "Errors are one document on stdout, with a code and a message",
    section: "2 Errors",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      for await (const [what, reply] of refusals(scene)) {
        expect(isError(reply), `${what}: ${describeReply(reply)}`);
      }
    },
  },
  {
    id: "error-version",
    title: "Errors have the cniVersion in use",
    section: "5 Error",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      for await (const [what, { json }] of refusals(scene)) {
        if (json === undefined) continue;
        expect(
          typeof json.cniVersion === "string",
          `${what}, the error has no cniVersion`,
        );
      }
    },
  },
  {
    id: "error-codes",
    title: "Codes below 100 are defined by the specification",
    section: "5 Error",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      // 8 is the Go library's, for a namespace that cannot be used.
      const known = [1, 2, 3, 4, 5, 6, 7, 8, 11, 50, 51];
      const look = (what: string, { json }: Reply): void =>
        expect(
          typeof json?.code !== "number" || known.includes(json.code) ||
            json.code >= 100,
          `code ${json?.code} ${what}`,
        );
      for await (const [what, reply] of refusals(scene)) look(what, reply);
      const one = await scene.container();
      const none = { env: { CNI_NETNS: "/run/netns/none" } };
      const own = { env: { CNI_NETNS: scene.place.hostPath } };
      look(
        "into a namespace that does not exist",
        await scene.call("ADD", one, none),
      );
      look(
        "into the plugin's own namespace",
        await scene.call("ADD", one, own),
      );
    },
  },
  {
    id: "variable-missing",
    title: "ADD fails without CNI_CONTAINERID, CNI_NETNS or CNI_IFNAME",
    section: "2 ADD",
    strength: "MUST",
    async run(scene): Promise<void> {
      for (const name of REQUIRED) {
        const { exit } = await addWithout(scene, name);
        expect(exit !== "0", `ADD succeeded without ${name}`);
        expect(/^\d+$/.test(exit), `ADD was killed by ${exit} without ${name}`);
      }
    },
  },
  {
    id: "variable-named",
    title: "The error for a missing variable has code 4 and its name",
    section: "5 Error",
    strength: "MUST",
    async run(scene): Promise<void> {
      for (const name of REQUIRED) {
        const reply = await addWithout(scene, name);
        const { json, exit } = reply;
        if (exit === "0") throw new Untried(`ADD succeeds without ${name}`);
        const text = `${json?.msg} ${json?.details ?? ""}`;
        expect(
          json?.code === 4 && text.includes(name),
          `without ${name}: ${describeReply(reply)}`,
        );
      }
    },
  },
  {
    id: "ifname",
    title: "A name that no interface can have is refused",
    section: "2 Parameters",
    strength: "MUST",
    kinds: ["interface", "chained"],
    async run(scene): Promise<void> {
      for (const name of ["a234567890123456", "a/b", "..", "a:b", "a b"]) {
        const one = await scene.container();
        await scene.fail(`with CNI_IFNAME "${name}"`, "ADD", one, {
          env: { CNI_IFNAME: name },
        });
      }
    },
  },
  {
    id: "container-id",
    title: "A container ID that breaks the rules is refused",
    section: "2 Parameters",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      const one = await scene.container();
      const before = scene.state();
      for (const id of ["../../etc/c1", "a/b", "-a", "a b"]) {
        await scene.fail(`with CNI_CONTAINERID "${id}"`, "ADD", one, {
          env: { CNI_CONTAINERID: id },
        });
      }
      await scene.same(before, () => scene.state(), "the refused ADD left");
    },
  },
];

/** A configuration that cannot be read as one. */
const NOT_A_CONFIGURATION = ["", "{", "[]", '"text"', "{} {}", "\0"];

/** Paths for CNI_NETNS that lead to no namespace. */
const NO_NAMESPACES = ["/run/netns/none", "/dev/null", "relative"];

export const INPUT_REQUIREMENTS: readonly Requirement[] = [
  {
    id: "input-syntax",
    title: "A stdin that is not one JSON object is refused with code 6",
    section: "5 Error",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      for (const stdin of NOT_A_CONFIGURATION) {
        const one = await scene.container();
        const what = `with stdin ${JSON.stringify(stdin)}`;
        const reply = await scene.fail(what, "ADD", one, { stdin });
        expect(
          [6, 7].includes(reply.json?.code),
          `${what}: ${describeReply(reply)}`,
        );
      }
    },
  },
  {
    id: "input-types",
    title: "Keys of a wrong type are refused, with an error on stdout",
    section: "2 Errors",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      const wrong = [
        { name: 5 },
        { cniVersion: 1 },
        { ipam: "host-local" },
        { dns: 5 },
        { prevResult: "none" },
      ];
      for (const keys of wrong) {
        const one = await scene.container();
        const what = `with ${JSON.stringify(keys)}`;
        const reply = await scene.call("ADD", one, { keys });
        // Not every plugin reads every key.
        if (reply.exit === "0") {
          await scene.call("DEL", one);
          continue;
        }
        expect(isError(reply), `${what}: ${describeReply(reply)}`);
      }
    },
  },
  {
    id: "input-huge",
    title: "A configuration of 8 MiB is read, or refused with an error",
    section: "1 Other keys",
    strength: "PRACTICE",
    async run(scene): Promise<void> {
      const one = await scene.container();
      const reply = await scene.call("ADD", one, {
        keys: { unknown: "x".repeat(8 * 1024 * 1024) },
      });
      expect(
        reply.exit === "0" || isError(reply),
        `it neither succeeded nor printed an error: ${describeReply(reply)}`,
      );
    },
  },
  {
    id: "network-name",
    title: "A network name that is a path is refused, and nothing is written",
    section: "1 Configuration format",
    strength: "MUST",
    async run(scene): Promise<void> {
      const one = await scene.container();
      const before = scene.state();
      for (const name of ["../../../etc/net1", "a/b", ".."]) {
        await scene.fail(`with name "${name}"`, "ADD", one, { keys: { name } });
      }
      await scene.same(before, () => scene.state(), "the refused ADD left");
    },
  },
  {
    id: "ipam-path",
    title: "An ipam.type that is a path is refused, and nothing is run",
    section: "1 Optional keys",
    strength: "MUST",
    kinds: ["interface"],
    needsIpam: true,
    async run(scene): Promise<void> {
      const marker = `${scene.place.directory}/it-ran`;
      const program = `${scene.place.directory}/evil`;
      scene.write(program, `#!/bin/sh\ntouch ${marker}\n`, 0o755);
      const up = "../".repeat(12) + program.slice(1);
      for (const type of [program, up]) {
        const one = await scene.container();
        await scene.fail(`with ipam.type "${type}"`, "ADD", one, {
          keys: { ipam: { type } },
        });
        const ran = scene.shell(`test -e ${marker} && echo yes || true`);
        expect(ran === "", `"${type}" was run`);
      }
    },
  },
  {
    id: "netns-missing",
    title: "ADD fails if CNI_NETNS is not a namespace",
    section: "2 ADD",
    strength: "MUST",
    kinds: ["interface"],
    async run(scene): Promise<void> {
      for (const path of NO_NAMESPACES) {
        const one = await scene.container();
        await scene.fail(`with CNI_NETNS ${path}`, "ADD", one, {
          env: { CNI_NETNS: path },
        });
      }
    },
  },
  {
    id: "netns-missing-clean",
    title:
      "ADD into a path that is not a namespace leaves nothing, even without DEL",
    section: "3 Lifecycle & Ordering",
    strength: "PRACTICE",
    kinds: ["interface"],
    async run(scene): Promise<void> {
      await scene.warmUp();
      const one = await scene.container();
      const before = scene.state();
      for (const path of NO_NAMESPACES) {
        const { exit } = await scene.call("ADD", one, {
          env: { CNI_NETNS: path },
        });
        if (exit === "0") throw new Untried("it succeeds");
        await scene.same(before, () => scene.state(), "the failed ADD left");
      }
    },
  },
  {
    id: "netns-own",
    title:
      "ADD into the plugin's own namespace prints one error, and no result",
    section: "2 Errors",
    strength: "SHOULD",
    kinds: ["interface", "chained"],
    async run(scene): Promise<void> {
      const one: Attachment = await scene.container();
      const { hostPath: CNI_NETNS } = scene.place;
      const reply = await scene.call("ADD", one, { env: { CNI_NETNS } });
      if (reply.exit === "0") {
        expect(reply.json !== undefined, "stdout is not one document");
        return;
      }
      const { stdout } = reply;
      const documents = stdout.split(/^}\s*(?={)/m).length;
      expect(
        isError(reply),
        documents > 1
          ? "stdout has a result and an error, which is no JSON document"
          : describeReply(reply),
      );
    },
  },
];
