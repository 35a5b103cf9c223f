/**
 * A plugin on a node: what requirements are made of.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { inNetns } from "../../ffi/netns.ts";
import { pause } from "../../base/deadline.ts";
import { COMMAND_SINCE, isAtLeast } from "../../cni/version.ts";
import type { Place, Sandbox } from "./place.ts";
import { differences, type State, stateOf, stateOfNode } from "./state.ts";
import { brief, Broken, expect, Untried } from "./verdict.ts";
import { quote } from "../../base/command_line/shell.ts";
import { formatCall, type Reply, type Request } from "./call.ts";

/** The purpose of a plugin. */
export type Kind = "interface" | "chained" | "ipam";

/** A way to call the plugin. */
export interface Way {
  call(place: Place, request: Request): Promise<Reply>;
  /**
   * Cuts an ADD short at each of its steps, and fails unless DEL removes what it
   * left.
   *
   * @throws {Broken} If something is left
   */
  cutShort(scene: Scene): Promise<void>;
}

/** A JSON object. */
// deno-lint-ignore no-explicit-any -- configurations and results of any plugin
export type Json = Record<string, any>;

/** A plugin to try, and what it needs. */
export interface Subject {
  /** Its type, as in configurations. */
  readonly type: string;
  readonly kind: Kind;
  /** Its configuration, without `cniVersion`, `name` and `prevResult`. */
  readonly config: (attachment?: Attachment, version?: string) => Json;
  /** The interface's name; `eth0` if undefined. */
  readonly ifName?: string | undefined;
  /** Additional variables. */
  readonly env?:
    | ((attachment?: Attachment) => Readonly<Record<string, string>>)
    | undefined;
  /** Makes the node ready. */
  readonly prepare?: ((scene: Scene) => void | Promise<void>) | undefined;
  /** Makes an attachment ready; returns its prevResult, if there is one. */
  readonly before?:
    | ((
      scene: Scene,
      attachment: Attachment,
    ) => Json | undefined | Promise<Json | undefined>)
    | undefined;
  /** Ends what `before` made. */
  readonly after?:
    | ((scene: Scene, attachment: Attachment) => void | Promise<void>)
    | undefined;
  /** A configuration without room for a second container. */
  readonly full?: Json | undefined;
  /** How many containers can be attached at the same time; 20 if undefined. */
  readonly most?: number | undefined;
  /** Requirements that do not apply, with the reason. */
  readonly except?: Readonly<Record<string, string>> | undefined;
  /** Whether its configuration is guessed, so that ADD may fail for that. */
  readonly isGuess?: boolean | undefined;
  /** What may stay or change: lines of the state. */
  readonly keeps?: RegExp | undefined;
}

/** A container that is, or will be, attached. */
export interface Attachment {
  readonly number: number;
  readonly containerId: string;
  readonly ifName: string;
  readonly sandbox: Sandbox;
  /** The result of the plugins before, or of ADD. */
  prevResult?: Json | undefined;
}

/** Changes of a call. */
export interface Changes {
  /** Keys of the configuration; undefined takes one away. */
  readonly keys?: Json;
  /** Variables; undefined takes one away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Instead of the configuration. */
  readonly stdin?: string;
}

/** Findings by name, and the lines for bash that led to them. */
export type Known = Map<string, Finding>;

/** What was found out, and how. */
interface Finding {
  readonly found: unknown;
  readonly transcript: readonly string[];
  /** Numbers of containers and of results that the transcript has. */
  readonly containers: number;
  readonly results: number;
}

/** How long what the kernel does later may take, in ms. */
const SETTLING_MS = 3000;

/** How long to wait before the next look, at first and at most, in ms. */
const PAUSE_MS = 50, MOST_PAUSE_MS = 800;

/** How long a line of shell may take, in ms. */
const SHELL_MS = 60_000;

/**
 * Runs a line, `$1`, for so many seconds, `$3`. Its output goes to files: daemons
 * that it starts may keep them open.
 */
const SHELL = 'exec timeout -k 1 "$3" sh -ec "$1" > "$2/out" 2> "$2/err"';

/** The exit code of timeout if it has ended what it started. */
const TIMED_OUT = 124;

/** A plugin on a node. */
export class Scene {
  readonly subject: Subject;
  readonly place: Place;
  readonly way: Way;
  /** The plugin's versions that the specification has. */
  readonly versions: readonly string[];
  /** Its name in transcripts. */
  readonly executable: string;
  /** The version that calls are made in. */
  version: string;
  /** The steps so far, as lines for bash. */
  readonly transcript: string[] = [];
  /** Whether every value is tried that is only sampled otherwise. */
  readonly isThorough: boolean;
  readonly #known: Known;
  readonly #shellMs: number;
  #count = 0;
  /** Results of ADD, as JSON, and their names in the transcript. */
  readonly #results = new Map<string, string>();
  #resultCount = 0;

  constructor(
    { subject, place, way, versions, executable, ...options }: {
      readonly subject: Subject;
      readonly place: Place;
      readonly way: Way;
      readonly versions: readonly string[];
      readonly executable: string;
      readonly isThorough?: boolean;
      /** How long a line of shell may take, in ms. */
      readonly shellMs?: number | undefined;
      /** Findings of other requirements on the plugin; none by default. */
      readonly known?: Known;
    },
  ) {
    this.subject = subject;
    this.place = place;
    this.way = way;
    this.versions = versions;
    this.version = versions.at(-1) ?? "1.1.0";
    this.executable = executable;
    this.isThorough = options.isThorough ?? false;
    this.#shellMs = options.shellMs ?? SHELL_MS;
    this.#known = options.known ?? new Map();
  }

  /**
   * Finds out what several requirements ask for: the first of them that does, for all.
   *
   * @param what Names it among all that is found out
   */
  async once<T>(what: string, findOut: () => Promise<T>): Promise<T> {
    const known = this.#known.get(what);
    if (known !== undefined) {
      this.transcript.push(...known.transcript);
      this.#count = Math.max(this.#count, known.containers);
      this.#resultCount = Math.max(this.#resultCount, known.results);
      return known.found as T;
    }
    const start = this.transcript.length;
    const found = await findOut();
    this.#known.set(what, {
      found,
      transcript: this.transcript.slice(start),
      containers: this.#count,
      results: this.#resultCount,
    });
    return found;
  }

  /** Makes the node ready. */
  async prepare(): Promise<void> {
    await this.subject.prepare?.(this);
  }

  /** Reports whether a command exists in the version. */
  has(command: keyof typeof COMMAND_SINCE): boolean {
    return isAtLeast(this.version, COMMAND_SINCE[command]);
  }

  /** Creates a container, and what a chained plugin finds there. */
  async container(ifName = this.subject.ifName ?? "eth0"): Promise<Attachment> {
    const number = ++this.#count;
    const sandbox = this.place.addSandbox(`c${number}`);
    this.transcript.push(
      `ip netns add c${number}; ip -n c${number} link set lo up`,
    );
    // Whose loopback is down, until a plugin brings it up.
    if (ifName === "lo") {
      inNetns(
        sandbox.netns,
        () =>
          new Deno.Command("ip", { args: ["link", "set", "lo", "down"] })
            .outputSync(),
      );
      this.transcript.splice(-1, 1, `ip netns add c${number}`);
    }
    const attachment: Attachment = {
      number,
      containerId: `c${number}`,
      ifName,
      sandbox,
    };
    attachment.prevResult = await this.subject.before?.(this, attachment);
    return attachment;
  }

  /** Removes a container, as a runtime does after DEL. */
  async remove(attachment: Attachment): Promise<void> {
    await this.subject.after?.(this, attachment);
    this.transcript.push(`ip netns del ${attachment.containerId}`);
    attachment.sandbox.remove();
  }

  /** Returns the input of a call. */
  request(
    command: string,
    attachment: Attachment | undefined,
    { keys = {}, env = {}, stdin }: Changes = {},
  ): Request {
    const of = attachment;
    const prevResult = of?.prevResult;
    const config = {
      cniVersion: this.version,
      name: "net1",
      ...this.subject.config(of, this.version),
      ...prevResult === undefined ? {} : { prevResult },
      ...keys,
    };
    const variables = {
      CNI_COMMAND: command,
      ...of && {
        CNI_CONTAINERID: of.containerId,
        CNI_NETNS: of.sandbox.path,
        CNI_IFNAME: of.ifName,
      },
      CNI_PATH: this.place.path,
      ...this.subject.env?.(of),
      ...env,
    };
    const given = Object.entries(variables)
      .filter((entry): entry is [string, string] => entry[1] !== undefined);
    return {
      env: Object.fromEntries(given),
      stdin: stdin ?? JSON.stringify(config),
    };
  }

  /** Calls the plugin. A call that does not end is a requirement that is broken. */
  async call(
    command: string,
    attachment?: Attachment,
    changes?: Changes,
  ): Promise<Reply> {
    const request = this.request(command, attachment, changes);
    return await this.send(request, () => this.way.call(this.place, request));
  }

  /** Makes a call, which becomes a part of the transcript. */
  async send(
    request: Request,
    call: () => Promise<Reply>,
  ): Promise<Reply> {
    if (request.env["CNI_NETNS"] === this.place.hostPath) {
      this.transcript.push("ip netns attach node $$");
    }
    const line = formatCall(this.executable, request, this.#results);
    const at = this.transcript.push(line) - 1;
    const reply = await call();
    if (request.env["CNI_COMMAND"] === "ADD" && reply.exit === "0") {
      this.#keep(at, reply.json);
    }
    if (reply.exit !== "hung") return reply;
    throw new Broken(
      `${request.env["CNI_COMMAND"]} did not end in time, and was killed`,
    );
  }

  /** Gives the result of a line a name, under which later calls have it. */
  #keep(at: number, result: unknown): void {
    if (typeof result !== "object" || result === null) return;
    const name = `result${++this.#resultCount}`;
    this.#results.set(JSON.stringify(result), name);
    this.transcript[at] = `${name}=$(${this.transcript[at]})`;
    this.transcript.push(`echo "$${name}"`);
  }

  /** ADD, which the requirement is not about; keeps the result for other calls. */
  async added(attachment?: Attachment, changes?: Changes): Promise<Attachment> {
    const one = attachment ?? await this.container();
    const reply = await this.call("ADD", one, changes);
    if (reply.exit !== "0") {
      throw new Untried(`ADD failed: ${describeReply(reply)}`);
    }
    one.prevResult = reply.json;
    return one;
  }

  /** A call that must succeed. */
  async succeed(
    command: string,
    attachment?: Attachment,
    changes?: Changes,
  ): Promise<Reply> {
    const reply = await this.call(command, attachment, changes);
    expect(reply.exit === "0", `${command} failed: ${describeReply(reply)}`);
    return reply;
  }

  /** A call that must fail; `what` says in which case. */
  async fail(
    what: string,
    command: string,
    attachment?: Attachment,
    changes?: Changes,
  ): Promise<Reply> {
    const reply = await this.call(command, attachment, changes);
    expect(reply.exit !== "0", `${command} succeeded ${what}`);
    expect(
      /^\d+$/.test(reply.exit),
      `${command} was killed by ${reply.exit} ${what}`,
    );
    return reply;
  }

  /** Attaches and detaches one container: what is shared stays from then on. */
  async warmUp(): Promise<void> {
    const one = await this.added();
    const reply = await this.call("DEL", one);
    if (reply.exit !== "0") {
      throw new Untried(`DEL failed: ${describeReply(reply)}`);
    }
    await this.remove(one);
  }

  /** What the node has. */
  state(): State {
    return this.#withoutKept(stateOfNode(this.place));
  }

  /** What a container has. */
  stateOf({ sandbox }: Attachment): State {
    return this.#withoutKept(stateOf(sandbox.netns));
  }

  #withoutKept(state: State): State {
    const { keeps } = this.subject;
    return keeps ? state.filter((line) => !keeps.test(line)) : state;
  }

  /** Fails unless a state is, immediately or soon, what it was before. */
  async same(before: State, now: () => State, what: string): Promise<void> {
    const end = performance.now() + SETTLING_MS;
    for (let ms = PAUSE_MS;; ms = Math.min(2 * ms, MOST_PAUSE_MS)) {
      const found = differences(before, now());
      if (found.length === 0) return;
      if (performance.now() > end) {
        const more = found.length > 4 ? `; ${found.length - 4} more` : "";
        throw new Broken(`${what}: ${found.slice(0, 4).join("; ")}${more}`);
      }
      await pause(ms);
    }
  }

  /** Writes a file of the node. */
  write(path: string, text: string, mode = 0o644): void {
    const directory = dirname(path);
    this.place.inside(() => {
      Deno.mkdirSync(directory, { recursive: true });
      Deno.writeTextFileSync(path, text, { mode });
    });
    const [file, content] = [quote(path), quote(text)];
    this.transcript.push(
      `mkdir -p ${quote(directory)}; printf %s ${content} > ${file}; ` +
        `chmod ${mode.toString(8)} ${file}`,
    );
  }

  /**
   * Runs a line of shell on the node, or in a container, as others would.
   *
   * @throws {Untried} If it fails, or does not end in time
   */
  shell(line: string, attachment?: Attachment): string {
    const netns = attachment?.sandbox.netns ?? this.place.host;
    this.transcript.push(
      attachment === undefined
        ? line
        : `ip netns exec ${attachment.containerId} sh -c ${quote(line)}`,
    );
    const seconds = `${this.#shellMs / 1000}`;
    const { directory } = this.place;
    const args = ["-c", SHELL, "sh", line, directory, seconds];
    const { code, stdout, stderr } = this.place.inside(() => {
      const { code } = inNetns(
        netns,
        () => new Deno.Command("sh", { args }).outputSync(),
      );
      const [stdout = "", stderr = ""] = ["out", "err"].map((name) => {
        const text = Deno.readTextFileSync(`${directory}/${name}`);
        Deno.removeSync(`${directory}/${name}`);
        return text;
      });
      return { code, stdout, stderr };
    });
    if (code === 0) return stdout;
    if (code === TIMED_OUT) {
      throw new Untried(`"${line}" did not end within ${seconds} s`);
    }
    throw new Untried(`${line}: ${brief(stderr)}`);
  }
}

/** Says what a failed call printed. */
export function describeReply({ exit, stdout, stderr, json }: Reply): string {
  if (typeof json?.msg === "string") {
    const details = json.details ? `; ${json.details}` : "";
    return brief(`code ${json.code}: ${json.msg}${details}`);
  }
  const printed = stdout || stderr;
  return brief(`exit ${exit}${printed ? `: ${printed}` : ", nothing printed"}`);
}
