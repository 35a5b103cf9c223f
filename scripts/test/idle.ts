/**
 * How many of the machine's processors have nothing to do.
 *
 * @module
 */

/** CPU time since the boot, in ticks, of all processors together. */
interface Ticks {
  readonly idle: number;
  readonly all: number;
}

/** Measures from one call to the next. */
export class IdleMeter {
  readonly #read: () => string;
  #before: Ticks;

  /** @param read Reads /proc/stat */
  constructor(read: () => string = readStat) {
    this.#read = read;
    this.#before = sumTicks(read());
  }

  /** Returns how many processors were idle since the last call, on average. */
  measure(): number {
    const text = this.#read();
    const now = sumTicks(text);
    const all = now.all - this.#before.all;
    const idle = now.idle - this.#before.idle;
    this.#before = now;
    return all <= 0 ? 0 : countProcessors(text) * idle / all;
  }
}

/** Empty where it cannot be read; then no processor counts as idle. */
function readStat(): string {
  try {
    return Deno.readTextFileSync("/proc/stat");
  } catch {
    return "";
  }
}

/** Source: proc_stat(5). Guests are counted as users, too. */
function sumTicks(stat: string): Ticks {
  const [first = ""] = stat.split("\n");
  const ticks = first.split(/\s+/).slice(1, 9).map(Number);
  const [, , , idle = 0, iowait = 0] = ticks;
  return {
    idle: idle + iowait,
    all: ticks.reduce((sum, value) => sum + value, 0),
  };
}

function countProcessors(stat: string): number {
  return stat.match(/^cpu\d+ /gm)?.length ?? 0;
}
