/**
 * A real Prometheus with the rules of deploy/monitoring, and node-exporter, in a
 * throw-away host.
 *
 * @module
 */

import { load } from "js-yaml";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { PROMETHEUS_ROOT } from "../../scripts/debian_packages.ts";
import {
  ignoreUnless,
  isExecutable,
  type Needs,
} from "../../testing/capabilities.ts";
import { eventually } from "./eventually.ts";
import { spawnIn } from "./spawn_in.ts";

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
const ADDRESS = "127.0.0.1:9090", EXPORTER = "127.0.0.1:9100";

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
    return JSON.parse(
      await this.#ask("query", "instant", "-o", "json", SERVER, expression),
    );
  }

  /** Returns the names of all metrics there are. */
  async names(): Promise<string[]> {
    const said = await this.#ask("query", "labels", SERVER, "__name__");
    return said.trim().split("\n");
  }

  /** Returns the labels of an alert that fires. */
  async firing(alert: string): Promise<Sample["metric"][]> {
    const expression = `ALERTS{alertname="${alert}",alertstate="firing"}`;
    return (await this.query(expression)).map(({ metric }) => metric);
  }

  async #ask(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await spawnIn(this.#netns, {
      path: `${DIRECTORY}/promtool`,
      args,
      env: {},
      stdin: "",
    }).output;
    if (code !== 0) throw new Error(stderr);
    return stdout;
  }

  /** Ends it. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      child.kill("SIGKILL");
      await child.status;
    }
  }
}

const SERVER = `http://${ADDRESS}`;

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
