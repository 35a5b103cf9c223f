/**
 * A real Prometheus with the rules of deploy/monitoring, and node-exporter, in
 * a temporary host.
 *
 * @module
 */

import { load } from "js-yaml";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { PROMETHEUS_ROOT } from "../../scripts/setup/debian_packages.ts";
import {
  ignoreUnless,
  isExecutable,
  type Needs,
} from "../../testing/capabilities.ts";
import { eventually } from "../_harness/eventually.ts";

const DIRECTORY = `${PROMETHEUS_ROOT}/usr/bin`;
const PROGRAMS = ["prometheus", "promtool", "prometheus-node-exporter"];

/** Skips what needs Prometheus. */
export const needsPrometheus: Needs = ignoreUnless(
  PROGRAMS.every((name) => isExecutable(`${DIRECTORY}/${name}`)),
  "needs Debian's prometheus in build/prometheus",
);

/** The files that are delivered. */
export const MONITORING: string = decodeURIComponent(
  new URL("../../deploy/monitoring", import.meta.url).pathname,
);

/** A rule as it is written. */
export interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
  readonly for?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Reads the rules that are delivered. */
export function readRules(): Rule[] {
  const text = Deno.readTextFileSync(`${MONITORING}/rules.yaml`);
  const { groups } = load(text) as { groups: { rules: Rule[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

/** Runs promtool; returns what it printed, and throws if it fails. */
export async function promtool(...args: readonly string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(
    `${DIRECTORY}/promtool`,
    { args: [...args] },
  ).output();
  const [said = "", complaint = ""] = [stdout, stderr]
    .map((bytes) => new TextDecoder().decode(bytes));
  if (!success) {
    throw new Error(`promtool ${args.join(" ")}: ${complaint}${said}`);
  }
  return said;
}

/** Where they listen. */
const HOST = "127.0.0.1", PORT = 9090;
const ADDRESS = `${HOST}:${PORT}`, EXPORTER = "127.0.0.1:9100";

/** What Prometheus is to watch. */
export interface Watched {
  /** The host. */
  readonly netns: NetNs;
  /** Gets its configuration and data. */
  readonly directory: string;
  /** The directory of text files. */
  readonly textfiles: string;
  /** Where the daemon serves its metrics. */
  readonly daemon: string;
  /** Changes the text of the rules. */
  readonly edit: (rules: string) => string;
}

/** A sample of an answer. */
interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [time: number, value: string];
}

/** A running Prometheus. */
export class Prometheus implements AsyncDisposable {
  readonly #netns: NetNs;
  readonly #children: readonly Deno.ChildProcess[];

  private constructor(netns: NetNs, children: readonly Deno.ChildProcess[]) {
    [this.#netns, this.#children] = [netns, children];
  }

  /** Starts it, and waits until it answers. */
  static async start(watched: Watched): Promise<Prometheus> {
    const { netns, directory, textfiles } = watched;
    const config = writeConfiguration(watched);
    const spawn = (name: string, ...args: string[]): Deno.ChildProcess =>
      inNetns(netns, () =>
        new Deno.Command(`${DIRECTORY}/${name}`, {
          args,
          stdin: "null",
          stdout: "null",
          stderr: "null",
        }).spawn());
    const prometheus = new Prometheus(netns, [
      spawn(
        "prometheus-node-exporter",
        "--collector.disable-defaults",
        "--collector.textfile",
        `--collector.textfile.directory=${textfiles}`,
        `--web.listen-address=${EXPORTER}`,
      ),
      spawn(
        "prometheus",
        `--config.file=${config}`,
        `--storage.tsdb.path=${directory}/prometheus`,
        `--web.listen-address=${ADDRESS}`,
      ),
    ]);
    await eventually("Prometheus answers", async () => {
      try {
        return (await prometheus.query("up")).length > 0;
      } catch {
        return false;
      }
    });
    return prometheus;
  }

  /** Asks for what an expression is now. */
  async query(expression: string): Promise<Sample[]> {
    const query = encodeURIComponent(expression);
    return (await this.#ask<{ result: Sample[] }>(`query?query=${query}`))
      .result;
  }

  /** Returns the names of all metrics there are. */
  async names(): Promise<string[]> {
    return await this.#ask<string[]>("label/__name__/values");
  }

  /** Returns the labels of an alert that fires. */
  async firing(alert: string): Promise<Sample["metric"][]> {
    const expression = `ALERTS{alertname="${alert}",alertstate="firing"}`;
    return (await this.query(expression)).map(({ metric }) => metric);
  }

  /** Asks its API; throws if it does not answer, or refuses. */
  async #ask<T>(path: string): Promise<T> {
    // The socket is made before connect() returns, in the namespace.
    const { connecting } = inNetns(this.#netns, () => ({
      connecting: Deno.connect({ hostname: HOST, port: PORT }),
    }));
    using connection = await connecting;
    const request = `GET /api/v1/${path} HTTP/1.0\r\n\r\n`;
    await connection.write(new TextEncoder().encode(request));
    const answer = await new Response(connection.readable).text();
    const [head = "", body = ""] = answer.split("\r\n\r\n");
    if (!head.startsWith("HTTP/1.0 200 ")) {
      throw new Error(`${path}: ${answer}`);
    }
    return JSON.parse(body).data;
  }

  /** Ends it. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      child.kill("SIGKILL");
      await child.status;
    }
  }
}

/** Returns the path of the configuration. */
function writeConfiguration(
  { directory, daemon, edit }: Watched,
): string {
  const rules = `${directory}/rules.yaml`;
  const text = Deno.readTextFileSync(`${MONITORING}/rules.yaml`);
  Deno.writeTextFileSync(rules, edit(text));
  const path = `${directory}/prometheus.yaml`;
  const job = (name: string, target: string): unknown => ({
    job_name: name,
    static_configs: [{ targets: [target] }],
  });
  const every = "500ms";
  Deno.writeTextFileSync(
    path,
    JSON.stringify({
      global: {
        scrape_interval: every,
        scrape_timeout: every,
        evaluation_interval: every,
      },
      rule_files: [rules],
      scrape_configs: [job("cni-daemon", daemon), job("node", EXPORTER)],
    }),
  );
  return path;
}
