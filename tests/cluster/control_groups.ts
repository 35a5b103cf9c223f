/**
 * The control groups of a node: one in each hierarchy of the machine.
 *
 * @module
 */

const ROOT = "/sys/fs/cgroup";
/** Version 2: no group has both processes and groups with controllers. */
const LEAF = "init";

/** Groups of one name, removed in the end. */
export class ControlGroups implements Disposable {
  readonly #isVersion2: boolean;
  readonly #paths: readonly string[];

  /** Creates them. */
  constructor(name: string) {
    const hierarchies = readHierarchies();
    this.#isVersion2 = hierarchies === undefined;
    this.#paths = hierarchies === undefined
      ? [`${ROOT}/${name}`]
      : hierarchies.map((hierarchy) => `${ROOT}/${hierarchy}/${name}`);
    for (const path of this.#paths) Deno.mkdirSync(path);
    for (const path of this.#paths) addProcessors(path);
    if (!this.#isVersion2) return;
    delegate(ROOT);
    Deno.mkdirSync(`${this.#path}/${LEAF}`);
  }

  get #path(): string {
    return this.#paths[0] ?? ROOT;
  }

  /** Returns a command that runs another one in the groups that are a node's roots. */
  enterRoot(...command: string[]): string[] {
    return enter(this.#paths, command);
  }

  /** Moves what is in the roots to where it may be, if that differs. */
  settle(): void {
    if (!this.#isVersion2) return;
    const pids = read(`${this.#path}/cgroup.procs`).split("\n");
    for (const pid of pids.filter((pid) => pid !== "")) {
      write(`${this.#path}/${LEAF}/cgroup.procs`, pid);
    }
    delegate(this.#path);
  }

  /** Returns a command that runs another one in the groups of a node's programs. */
  enter(...command: string[]): string[] {
    const paths = this.#isVersion2 ? [`${this.#path}/${LEAF}`] : this.#paths;
    return enter(paths, command);
  }

  /**
   * Removes the groups within, which no longer have processes, as a boot does.
   */
  clear(): void {
    this.#removeGroups("-mindepth", "1");
    if (this.#isVersion2) Deno.mkdirSync(`${this.#path}/${LEAF}`);
  }

  /** Removes these groups, which no longer have processes. */
  [Symbol.dispose](): void {
    this.#removeGroups();
  }

  #removeGroups(...options: string[]): void {
    const find = `find "$path" ${options.join(" ")} -depth -type d`;
    const script = `for path; do ${find} -exec rmdir {} + || exit 1; done`;
    const { success, stderr } = new Deno.Command("sh", {
      args: ["-c", script, "sh", ...this.#paths],
    }).outputSync();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
  }
}

/** Lists the directories of the hierarchies of version 1; undefined without. */
function readHierarchies(): string[] | undefined {
  const names = read("/proc/self/cgroup").trim().split("\n")
    .map((line) => (line.split(":")[1] ?? "").replace("name=", ""))
    .filter((name) => name !== "");
  return names.length === 0 ? undefined : names;
}

/** A new group of version 1 has no processors, and takes no process. */
function addProcessors(path: string): void {
  if (!path.startsWith(`${ROOT}/cpuset/`)) return;
  for (const name of ["cpuset.cpus", "cpuset.mems"]) {
    write(`${path}/${name}`, read(`${ROOT}/cpuset/${name}`));
  }
}

/** Gives the controllers of a group of version 2 to those in it. */
function delegate(path: string): void {
  const list = (file: string): string[] =>
    read(`${path}/cgroup.${file}`).trim().split(" ").filter(Boolean);
  const given = list("subtree_control");
  for (const name of list("controllers")) {
    if (!given.includes(name)) {
      write(`${path}/cgroup.subtree_control`, `+${name}`);
    }
  }
}

function enter(paths: readonly string[], command: readonly string[]): string[] {
  const files = paths.map((path) => `"${path}/cgroup.procs"`);
  const script = `for f in ${
    files.join(" ")
  }; do echo $$ > $f; done; exec "$@"`;
  return ["sh", "-ec", script, "sh", ...command];
}

function read(path: string): string {
  return Deno.readTextFileSync(path);
}

function write(path: string, text: string): void {
  Deno.writeTextFileSync(path, text);
}
