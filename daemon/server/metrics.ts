/**
 * Counters of the daemon, in the text format of Prometheus.
 *
 * @module
 */

/** Labels of a sample, in the order in which they are shown. */
export type Labels = Readonly<Record<string, string | number>>;

/** Samples that are read when they are shown. */
export interface Gauge {
  readonly name: string;
  /** `counter` for a value that only grows; `gauge` by default. */
  readonly type?: "gauge" | "counter";
  readonly help: string;
  /** Returns the values by their labels. */
  readonly read: () => readonly (readonly [labels: Labels, value: number])[];
}

/** Upper bounds of the histograms' buckets, in seconds. */
const BUCKETS = [
  0.005,
  0.01,
  0.025,
  0.05,
  0.1,
  0.25,
  0.5,
  1,
  2.5,
  5,
  10,
  30,
  60,
];

/** A counter with labels. */
export class Counter {
  readonly #values = new Map<string, number>();
  readonly #name: string;
  readonly #help: string;

  /** Creates a counter; a name of a counter ends in `_total`. */
  constructor(name: string, help: string) {
    this.#name = name;
    this.#help = help;
  }

  /** Increments a sample. */
  add(labels: Labels): void {
    const key = formatLabels(labels);
    this.#values.set(key, (this.#values.get(key) ?? 0) + 1);
  }

  /** Formats all values. */
  format(): string {
    const lines = [...this.#values]
      .map(([labels, value]) => `${this.#name}${labels} ${value}`);
    return formatMetric(this.#name, "counter", this.#help, lines);
  }
}

/** Durations with the same labels. */
interface Durations {
  readonly labels: Labels;
  /** Counts by bucket; the last bucket is +Inf. */
  readonly counts: number[];
  sum: number;
}

/** A histogram of durations with labels. */
export class Histogram {
  readonly #durations = new Map<string, Durations>();
  readonly #name: string;
  readonly #help: string;

  /** Creates a histogram; its name ends in `_seconds`. */
  constructor(name: string, help: string) {
    this.#name = name;
    this.#help = help;
  }

  /** Adds a duration in seconds. */
  observe(labels: Labels, seconds: number): void {
    const key = formatLabels(labels);
    const durations = this.#durations.get(key) ??
      { labels, counts: [...BUCKETS, Infinity].map(() => 0), sum: 0 };
    this.#durations.set(key, durations);
    const found = BUCKETS.findIndex((bound) => seconds <= bound);
    const at = found === -1 ? BUCKETS.length : found;
    durations.counts[at] = (durations.counts[at] ?? 0) + 1;
    durations.sum += seconds;
  }

  /** Formats all values. */
  format(): string {
    const lines = [...this.#durations.values()]
      .flatMap((durations) => this.#formatOne(durations));
    return formatMetric(this.#name, "histogram", this.#help, lines);
  }

  #formatOne({ labels, counts, sum }: Durations): string[] {
    let count = 0;
    const buckets = counts.map((each, index) => {
      count += each;
      const le = BUCKETS[index] ?? "+Inf";
      return `${this.#name}_bucket${formatLabels({ ...labels, le })} ${count}`;
    });
    const own = formatLabels(labels);
    return [
      ...buckets,
      `${this.#name}_sum${own} ${sum}`,
      `${this.#name}_count${own} ${count}`,
    ];
  }
}

/** Formats the current values of a gauge. */
export function formatGauge(
  { name, type = "gauge", help, read }: Gauge,
): string {
  const lines = read()
    .map(([labels, value]) => `${name}${formatKept(labels)} ${value}`);
  return formatMetric(name, type, help, lines);
}

/** Source: prometheus.io/docs/instrumenting/exposition_formats. */
function formatMetric(
  name: string,
  type: string,
  help: string,
  lines: readonly string[],
): string {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ""]
    .join("\n");
}

/** Formatted labels: some gauges return the same objects each time. */
const FORMATTED = new WeakMap<Labels, string>();

function formatKept(labels: Labels): string {
  const known = FORMATTED.get(labels) ?? formatLabels(labels);
  FORMATTED.set(labels, known);
  return known;
}

function formatLabels(labels: Labels): string {
  const pairs = Object.entries(labels)
    .map(([name, value]) => `${name}="${escape(String(value))}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

/**
 * The format escapes no other control characters, and a value may come from a caller
 * or a file: they must not control a terminal that shows the metrics.
 */
function escape(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')
    .replaceAll("\n", "\\n").replace(/\p{Cc}/gu, "\ufffd");
}
