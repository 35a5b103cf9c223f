/**
 * What a plugin does with the IPAM plugin that it calls.
 *
 * @module
 */

import type { Requirement } from "../requirement.ts";
import { expect, Untried } from "../verdict.ts";
import type { Attachment, Changes, Json, Scene } from "../scene.ts";

const IPAM = "conform-ipam";
const MARK = "conform-ipam was called";

/** Source of an IPAM plugin that keeps a record of its calls. */
function source(calls: string): string {
  return `#!/bin/sh
# Keeps its input, and answers what it was told to.
id=$(date +%s%N).$$
env | grep '^CNI_' > ${calls}/$id.env
cat > ${calls}/$id.stdin
echo "${MARK}" >&2
if [ -e ${calls}/fail-$CNI_COMMAND ]; then
  printf '{"cniVersion":"1.1.0","code":142,"msg":"conform-ipam fails"}'
  exit 1
fi
if [ "$CNI_COMMAND" = ADD ]; then cat ${calls}/result; fi
`;
}

/** A call that the IPAM plugin got. */
interface Call {
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** An IPAM plugin that says what it was called with. */
class Recorder {
  readonly #scene: Scene;
  readonly #calls: string;
  /** Changes that make a plugin use it. */
  readonly changes: Changes;

  constructor(scene: Scene, result: Json = {}) {
    this.#scene = scene;
    const { directory, path } = scene.place;
    this.#calls = `${directory}/calls`;
    const ipam = { type: IPAM };
    this.changes = {
      keys: { ipam },
      env: { CNI_PATH: `${path}:${directory}` },
    };
    const answer = {
      cniVersion: scene.version,
      ips: [{ address: "10.88.0.2/24", gateway: "10.88.0.1" }],
      routes: [{ dst: "0.0.0.0/0" }],
      ...result,
    };
    scene.write(`${directory}/${IPAM}`, source(this.#calls), 0o755);
    scene.write(`${this.#calls}/result`, JSON.stringify(answer));
  }

  /** Lets a command of it fail. */
  fail(command: string): void {
    this.#scene.shell(`touch ${this.#calls}/fail-${command}`);
  }

  /** The calls that it got of a command, in order. */
  calls(command: string): Call[] {
    const { transcript } = this.#scene;
    const line = `grep -h ^CNI_COMMAND= ${this.#calls}/*.env`;
    if (transcript.at(-1) !== line) transcript.push(line);
    return this.#scene.place.inside(() => {
      const names = [...Deno.readDirSync(this.#calls)].map(({ name }) => name)
        .filter((name) => name.endsWith(".env")).sort();
      return names.map((name): Call => {
        const path = `${this.#calls}/${name}`;
        const lines = Deno.readTextFileSync(path).trim().split("\n");
        const env = Object.fromEntries(lines.map((line) => {
          const at = line.indexOf("=");
          return [line.slice(0, at), line.slice(at + 1)];
        }));
        const stdin = Deno.readTextFileSync(path.replace(/env$/, "stdin"));
        return { env, stdin };
      }).filter(({ env }) => env["CNI_COMMAND"] === command);
    });
  }
}

/** A plugin that uses the recorder, attached. */
async function attached(
  scene: Scene,
  result?: Json,
): Promise<{ ipam: Recorder; one: Attachment }> {
  const ipam = new Recorder(scene, result);
  const one = await scene.added(undefined, ipam.changes);
  if (ipam.calls("ADD").length === 0) {
    throw new Untried("ADD does not call the IPAM plugin of its configuration");
  }
  return { ipam, one };
}

const without = ({ keys = {}, env = {} }: Changes, more: Json): Changes => ({
  keys: { ...keys, prevResult: undefined, ...more },
  env,
});

const ROW = {
  section: "4 Delegated plugin execution",
  kinds: ["interface"],
  needsIpam: true,
} as const;

export const DELEGATE_REQUIREMENTS: readonly Requirement[] = [
  {
    ...ROW,
    id: "ipam-input",
    title: "The IPAM plugin gets the same variables and configuration",
    strength: "MUST",
    async run(scene): Promise<void> {
      const { ipam, one } = await attached(scene);
      const asked = scene.request("ADD", {
        ...one,
        prevResult: undefined,
      }, ipam.changes);
      const [call] = ipam.calls("ADD");
      for (const [name, value] of Object.entries(asked.env)) {
        expect(
          !name.startsWith("CNI_") || call?.env[name] === value,
          `its ${name} is "${call?.env[name]}", not "${value}"`,
        );
      }
      const given = JSON.parse(call?.stdin ?? "null");
      for (const [key, value] of Object.entries(JSON.parse(asked.stdin))) {
        expect(
          JSON.stringify(given?.[key]) === JSON.stringify(value),
          `its ${key} is not the configuration's`,
        );
      }
    },
  },
  {
    ...ROW,
    id: "ipam-stderr",
    title: "The IPAM plugin's stderr is passed on to the plugin's stderr",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      const ipam = new Recorder(scene);
      const one = await scene.container();
      const { stderr } = await scene.call("ADD", one, ipam.changes);
      if (ipam.calls("ADD").length === 0) throw new Untried("it was not run");
      expect(stderr.includes(MARK), "it is not there after ADD");
    },
  },
  {
    ...ROW,
    id: "ipam-add-fails",
    title: "If the IPAM plugin's ADD fails, its DEL is run, and ADD fails",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      const ipam = new Recorder(scene);
      ipam.fail("ADD");
      const one = await scene.container();
      const before = scene.stateOf(one);
      const reply = await scene.fail(
        "although the IPAM plugin failed",
        "ADD",
        one,
        ipam.changes,
      );
      if (ipam.calls("ADD").length === 0) throw new Untried("it was not run");
      expect(ipam.calls("DEL").length > 0, "its DEL was not run");
      expect(reply.json?.msg, "there is no error on stdout");
      await scene.same(before, () => scene.stateOf(one), "ADD left");
    },
  },
  {
    ...ROW,
    id: "add-fails-later",
    title:
      "If ADD fails after the IPAM plugin's ADD, the IPAM plugin's DEL is run",
    strength: "PRACTICE",
    async run(scene): Promise<void> {
      // The kernel has no route over a group, not even on the link.
      const ipam = new Recorder(scene, {
        routes: [{ dst: "203.0.113.0/24", gw: "224.0.0.1" }],
      });
      const one = await scene.container();
      const before = scene.stateOf(one);
      const { exit } = await scene.call("ADD", one, ipam.changes);
      if (exit === "0" || ipam.calls("ADD").length === 0) {
        throw new Untried("ADD does not fail for a gateway that is a group");
      }
      expect(ipam.calls("DEL").length > 0, "its DEL was not run");
      await scene.same(before, () => scene.stateOf(one), "ADD left");
    },
  },
  {
    ...ROW,
    id: "ipam-del",
    title: "DEL runs the IPAM plugin's DEL, even without CNI_NETNS",
    strength: "MUST",
    async run(scene): Promise<void> {
      const { ipam, one } = await attached(scene);
      const { keys = {}, env = {} } = ipam.changes;
      await scene.call("DEL", one, {
        keys,
        env: { ...env, CNI_NETNS: undefined },
      });
      expect(ipam.calls("DEL").length > 0, "it was not run");
    },
  },
  {
    ...ROW,
    id: "ipam-del-fails",
    title: "DEL fails if the IPAM plugin's DEL fails",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      const { ipam, one } = await attached(scene);
      ipam.fail("DEL");
      await scene.fail(
        "although the IPAM plugin's DEL failed",
        "DEL",
        one,
        ipam.changes,
      );
    },
  },
  {
    ...ROW,
    id: "ipam-check",
    title: "CHECK runs the IPAM plugin's CHECK, and fails if it fails",
    strength: "MUST",
    since: "0.4.0",
    async run(scene): Promise<void> {
      const { ipam, one } = await attached(scene);
      ipam.fail("CHECK");
      const { exit } = await scene.call("CHECK", one, ipam.changes);
      expect(ipam.calls("CHECK").length > 0, "it was not run");
      expect(exit !== "0", "CHECK succeeds although it failed");
    },
  },
  {
    ...ROW,
    id: "ipam-gc",
    title: "GC runs the IPAM plugin's GC",
    section: "2 GC",
    strength: "MUST",
    since: "1.1.0",
    async run(scene): Promise<void> {
      const { ipam } = await attached(scene);
      const attachments = { "cni.dev/valid-attachments": [] };
      await scene.call("GC", undefined, without(ipam.changes, attachments));
      expect(ipam.calls("GC").length > 0, "it was not run");
    },
  },
  {
    ...ROW,
    id: "ipam-status",
    title: "STATUS runs the IPAM plugin's STATUS, and fails if it fails",
    section: "2 STATUS",
    strength: "MUST",
    since: "1.1.0",
    async run(scene): Promise<void> {
      const { ipam } = await attached(scene);
      ipam.fail("STATUS");
      const changes = without(ipam.changes, {});
      const { exit } = await scene.call("STATUS", undefined, changes);
      expect(ipam.calls("STATUS").length > 0, "it was not run");
      expect(exit !== "0", "STATUS succeeds although it failed");
    },
  },
];
