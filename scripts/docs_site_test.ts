import { assertEquals, assertStringIncludes } from "@std/assert";
import MOVED from "../docs/site/.vitepress/moved.json" with { type: "json" };
import QUESTIONS from "../docs/site/questions.json" with { type: "json" };
import { hasCommand, ignoreUnless } from "../testing/capabilities.ts";
import { eventually } from "../tests/_harness/eventually.ts";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";
import { buildPages, installPackages } from "./docs_site.ts";
import { exists } from "../base/files/io.ts";

/** Longest wait for an answer of the browser, on the slowest machine. */
const TIMEOUT_MS = 60_000;

/** How a page is looked at. */
interface View {
  /** Width of the window, in CSS pixels; 390 is a phone's. */
  readonly width: number;
  /** The reader's preference. */
  readonly theme: "light" | "dark";
}

/** A message of the browser: an answer has the ID of its command. */
interface Message {
  readonly id?: number;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly message: string };
}

/** A running Chromium with one page. */
class Browser implements AsyncDisposable {
  readonly #answers = new Map<number, PromiseWithResolvers<Message>>();
  #lastId = 0;

  readonly #child: Deno.ChildProcess;
  readonly #profile: string;
  readonly #socket: WebSocket;

  /** Use {@linkcode Browser.start}. */
  constructor(child: Deno.ChildProcess, profile: string, socket: WebSocket) {
    this.#child = child;
    this.#profile = profile;
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      const message: Message = JSON.parse(data);
      if (message.id === undefined) return;
      this.#answers.get(message.id)?.resolve(message);
      this.#answers.delete(message.id);
    };
  }

  /** Starts a browser with an empty page, and a profile of its own. */
  static async start(): Promise<Browser> {
    const profile = Deno.makeTempDirSync({ prefix: "browser-" });
    const child = new Deno.Command("chromium", {
      args: [
        ...["--headless=new", "--no-sandbox", "--disable-gpu"],
        ...["--disable-dev-shm-usage", "--hide-scrollbars"],
        ...["--remote-debugging-port=0", `--user-data-dir=${profile}`],
        "about:blank",
      ],
      env: { HOME: profile },
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    // The file has the port as its first line.
    const path = `${profile}/DevToolsActivePort`;
    const read = (): string => {
      try {
        return Deno.readTextFileSync(path);
      } catch {
        return "";
      }
    };
    await eventually("chromium listens", () => read().includes("\n"));
    const [port] = read().split("\n");
    const targets: { type: string; webSocketDebuggerUrl: string }[] =
      await (await fetch(`http://127.0.0.1:${port}/json/list`)).json();
    const url = targets.find(({ type }) => type === "page");
    if (url === undefined) throw new Error("chromium has no page");
    const socket = new WebSocket(url.webSocketDebuggerUrl);
    await new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = reject;
    });
    return new Browser(child, profile, socket);
  }

  /** Sends a command of the protocol, and returns its result. */
  async send(
    method: string,
    params: Readonly<Record<string, unknown>> = {},
  ): Promise<Record<string, unknown>> {
    const id = ++this.#lastId;
    const answer = Promise.withResolvers<Message>();
    this.#answers.set(id, answer);
    this.#socket.send(JSON.stringify({ id, method, params }));
    const timer = setTimeout(
      () => answer.reject(new Error(`chromium did not answer ${method}`)),
      TIMEOUT_MS,
    );
    const { result, error } = await answer.promise
      .finally(() => clearTimeout(timer));
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result ?? {};
  }

  /** Returns the value of an expression in the page, awaited. */
  async evaluate(expression: string): Promise<unknown> {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", {
      expression,
      awaitPromise: true,
      returnByValue: true,
    }) as { result: { value?: unknown }; exceptionDetails?: unknown };
    if (exceptionDetails !== undefined) {
      throw new Error(`${expression}: ${JSON.stringify(exceptionDetails)}`);
    }
    return result.value;
  }

  /** Gives the window a width, and the reader a preference. */
  async look({ width, theme }: View): Promise<void> {
    await this.send("Emulation.setDeviceMetricsOverride", {
      width,
      height: 900,
      deviceScaleFactor: 1,
      mobile: width < 600,
    });
    await this.send("Emulation.setEmulatedMedia", {
      features: [{ name: "prefers-color-scheme", value: theme }],
    });
  }

  /** Opens a page, and waits for all of it. */
  async open(url: string): Promise<void> {
    await this.send("Page.navigate", { url });
    await this.waitFor(`location.href === ${JSON.stringify(url)} &&
      document.readyState === "complete"`);
  }

  /** Waits until an expression in the page is true, also if the page changes. */
  async waitFor(expression: string): Promise<void> {
    await eventually(expression, async () => {
      try {
        return await this.evaluate(`Boolean(${expression})`) === true;
      } catch (error) {
        if (NAVIGATED.test((error as Error).message)) return false;
        throw error;
      }
    });
  }

  /** Returns a picture of the window, or of the whole page, as PNG. */
  async picture(whole = false): Promise<Uint8Array> {
    const { data } = await this.send("Page.captureScreenshot", {
      format: "png",
      captureBeyondViewport: whole,
    });
    return Uint8Array.fromBase64(String(data));
  }

  /** Ends the browser, and removes its profile. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.send("Browser.close").catch(() => this.#child.kill("SIGKILL"));
    const closed = new Promise((resolve) => {
      this.#socket.onclose = resolve;
    });
    this.#socket.close();
    await this.#child.status;
    await closed;
    Deno.removeSync(this.#profile, { recursive: true });
  }
}

/** What the browser answers if a page is replaced while it evaluates. */
const NAVIGATED = /navigated or closed|context (?:was destroyed|with)/;

const SITE = new URL("../docs/site/", import.meta.url);

/** Where npm puts what the site's search is made of. */
const MINISEARCH = new URL(
  "node_modules/minisearch/dist/es/index.js",
  SITE,
);

/**
 * What an operator searches, and the sections that answer it: one of them is
 * the first result.
 */
const SEARCHED: Readonly<Record<string, readonly string[]>> = {
  "stuck in ContainerCreating": ["troubleshooting#a-pod-does-not-start"],
  "no free IP": ["troubleshooting#no-free-ip"],
  "no IP addresses available in range set": [
    "troubleshooting#no-free-ip",
    "errors#code-11",
  ],
  "failed to find plugin in path": [
    "troubleshooting#a-pod-does-not-start",
    "errors#code-999",
  ],
  "exec format error": ["troubleshooting#a-pod-does-not-start"],
  "context deadline exceeded": ["troubleshooting#a-timeout"],
  "pods start slowly": ["troubleshooting#pods-start-slowly"],
  "pod has no network": ["troubleshooting#a-pod-has-no-network"],
  "connections hang": ["troubleshooting#some-connections-hang"],
  "hostPort not reachable": [
    "troubleshooting#a-host-port",
    "troubleshooting#a-port-of-the-host",
  ],
  "DEL fails": ["troubleshooting#a-pod-stays-in-terminating"],
  "leaked addresses": [
    "troubleshooting#leaked-addresses",
    "whereabouts#leaked-addresses",
  ],
  reboot: ["troubleshooting#after-a-reboot"],
  "firewall reload": ["troubleshooting#after-a-firewall-reload"],
  "node not ready": ["troubleshooting#status-fails"],
  uninstall: ["uninstall#"],
  rollback: ["uninstall#"],
  upgrade: ["install#upgrade"],
  "kernel requirements": ["install#"],
  glibc: ["install#", "release#for-any-libc"],
  "Talos": ["install#distributions", "release#for-any-libc"],
  "SELinux": ["tap#selinux", "install#distributions"],
  k3s: ["install#runtimes"],
  podman: ["install#runtimes", "chain#what-a-runtime-sees"],
  "CRI-O": ["install#runtimes"],
  rootless: ["install#rootless"],
  "memory limit": [
    "install#limits-of-the-runtimes-service",
    "performance#memory",
  ],
  "MemoryDenyWriteExecute": [
    "troubleshooting#a-pod-does-not-start",
    "install#limits-of-the-runtimes-service",
    "daemon#confinement",
  ],
  "migrate from multus": ["migrate#from-go-multus"],
  "dry run": ["install#"],
  "nftables masquerade": ["ptp#masquerade"],
  "MTU": ["troubleshooting#some-connections-hang"],
  "VLAN": ["vlan#", "bridge#vlans"],
  "static IP": ["static#"],
  "keep IP": ["persistent-addresses#", "host-local#persistent-addresses"],
  "StatefulSet address": ["persistent-addresses#"],
  "live migration": ["persistent-addresses#live-migration"],
  "DHCP daemon": ["dhcp#"],
  "SR-IOV": ["host-device#", "multus-networks#devices"],
  "DPDK": ["host-device#dpdk-devices"],
  "two networks": ["multus-networks#"],
  "annotation networks": ["multus-networks#"],
  "definition refused": [
    "multus-networks#what-a-definition-may-do",
    "troubleshooting#multus",
    "security#network-attachment-definitions",
  ],
  "NetworkRefused": ["troubleshooting#multus", "multus-networks#what"],
  "cni-args": ["multus-networks#keys-of-cni-args"],
  "default route": ["multus-networks#default-routes"],
  "hot plug": ["multus-operation#the-protocol"],
  "thick multus": ["multus-operation#thick-multus"],
  "rate limit": ["bandwidth#"],
  burst: ["bandwidth#"],
  "source routing": ["sbr#"],
  "isolate networks": ["firewall#isolate-networks"],
  sysctl: ["tuning#"],
  orphans: ["cni#orphans"],
  "list attachments": ["cni#list"],
  "bug report": ["cni#report"],
  "systemd hardening": ["daemon#confinement"],
  confinement: ["daemon#confinement"],
  "disable daemon": ["daemon#"],
  "Prometheus": ["monitoring#"],
  "log file": ["logging#where-the-log-file-is"],
  trace: ["trace#"],
  "validate config": ["validate#"],
  "VS Code schema": ["validate#schemas-for-editors"],
  "verify signature": ["release#"],
  "Helm": ["quick-start"],
  "write a plugin": ["write-a-plugin#"],
  "conformance test": ["conformance#"],
  threat: ["security#"],
  "lock held": ["findings#cni0303", "security#locks", "errors#code-11"],
  "code 11": ["errors#code-11"],
  "CNI0601": ["findings#cni0601"],
  "supported versions": ["policy#support", "policy#"],
  "duplicate address": ["macvlan#duplicate-addresses"],
  slow: ["troubleshooting#pods-start-slowly"],
  "address leak": [
    "daemon#leaked-addresses",
    "troubleshooting#leaked-addresses",
    "whereabouts#leaked-addresses",
  ],
  "go back": ["uninstall#"],
  "pod cannot start": ["troubleshooting#a-pod-does-not-start"],
  timeout: ["troubleshooting#a-timeout"],
  "no route to host": ["troubleshooting#a-pod-has-no-network"],
  "plugin not found": ["troubleshooting#a-pod-does-not-start"],
  "daemon slow": ["troubleshooting#pods-start-slowly"],
  "false alarm": ["doctor#false-alarms-of-go-plugins"],
  "without systemd": ["daemon#nodes-without-systemd"],
  "misspelt key": ["validate#", "findings#cni0105"],
  "restore Go plugins": ["uninstall#"],
  "multus without Kubernetes": ["multus#without-kubernetes"],
  "range full": [
    "host-local#when-the-range-is-full",
    "troubleshooting#no-free-ip",
  ],
  "daemon stopped": [
    "daemon#when-the-daemon-is-stopped",
    "daemon#start-upgrade-and-stop",
  ],
  "stuck terminating": ["troubleshooting#a-pod-stays-in-terminating"],
};

/** Reports whether an address of a section is one that answers a search. */
function answers(text: string, address: string): boolean {
  const section = address.replace(/^.*\//, "").replace(".html", "");
  return SEARCHED[text]?.some((one) => section.startsWith(one)) ?? false;
}

/** Whether npm has the site's packages here, or could install them. */
const hasPackages = exists(MINISEARCH.pathname) ||
  Deno.env.get("CNI_TEST_NO_INSTALL") !== "1" && hasCommand("npm") &&
    installPackages() === 0;

/** The site, built once for all tests of this file. */
let built: string | undefined;

function buildOnce(): string {
  if (built !== undefined) return built;
  const directory = Deno.makeTempDirSync({ prefix: "docs-site-" });
  globalThis.addEventListener(
    "unload",
    () => Deno.removeSync(directory, { recursive: true }),
  );
  assertEquals(buildPages(directory), 0);
  return built = directory;
}

const TYPES: Readonly<Record<string, string>> = {
  css: "text/css",
  html: "text/html",
  js: "text/javascript",
  svg: "image/svg+xml",
  woff2: "font/woff2",
};

/** Lists the names in a directory. */
function listNames(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name).toSorted();
}

/** Serves the site on a port of its own. */
function serve(directory: string): Deno.HttpServer<Deno.NetAddr> {
  const setting = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  return Deno.serve(setting, async ({ url }) => {
    const path = decodeURIComponent(new URL(url).pathname);
    const type = TYPES[path.split(".").at(-1) ?? ""] ?? "text/plain";
    try {
      return new Response(await Deno.readFile(directory + path), {
        headers: { "content-type": type },
      });
    } catch {
      return new Response(null, { status: 404 });
    }
  });
}

Deno.test("deno task docs says what it needs without a network", async () => {
  using directory = new PluginDirectory();
  directory.add(
    "npm",
    `echo "npm $*" >> ${directory.path}/calls; exit 1`,
  );
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-config", "scripts/docs_site.ts"],
    cwd: new URL("..", import.meta.url),
    env: { PATH: `${directory.path}:/usr/bin:/bin` },
  }).output();
  assertEquals(code, 1);
  const said = new TextDecoder().decode(stderr);
  assertStringIncludes(said, "deno task docs needs the packages of docs/site/");
  assertEquals(
    directory.read("calls"),
    "npm ci --prefer-offline --fetch-retries=0 --no-audit --no-fund\n",
  );
});

const needsPackages = ignoreUnless(
  hasPackages,
  "needs the site's packages of npm",
);

const needsBrowser = ignoreUnless(
  hasPackages && hasCommand("chromium"),
  "needs the site's packages of npm, and chromium",
);

Deno.test({
  name: "the site's search finds the section or page that answers a question" +
    needsPackages.suffix,
  ignore: needsPackages.ignore,
  fn: async () => {
    const chunks = `${buildOnce()}/assets/chunks`;
    const index = listNames(chunks)
      .find((name) => name.startsWith("@localSearchIndex"));
    const { default: json } = await import(
      `file://${chunks}/${index}`
    );
    const { default: MiniSearch } = await import(MINISEARCH.href);
    const { SEARCH } = await import(
      new URL(".vitepress/search.mjs", SITE).href
    );
    // As VPLocalSearchBox.vue of VitePress opens it.
    const search = MiniSearch.loadJSON(json, {
      fields: ["title", "titles", "text"],
      storeFields: ["title", "titles"],
      searchOptions: { boost: { title: 4, text: 2, titles: 1 }, ...SEARCH },
    });
    const wrong = Object.keys(SEARCHED)
      .map((text) => ({ text, first: search.search(text)[0]?.id as string }))
      .filter(({ text, first }) => !answers(text, first ?? ""));
    assertEquals(wrong, []);
    const found = Object.keys(QUESTIONS).map((text) => {
      const [first] = search.search(text);
      return [text, String(first?.id).replace(/^.*\/|\.html.*$/g, "")];
    });
    assertEquals(Object.fromEntries(found), QUESTIONS);
  },
});

/** Names what a phone's reader cannot reach: it is beyond the window's edge. */
const CUT_OFF =
  `[...document.querySelectorAll(".vp-doc *")].filter((element) => {
  const { right, width } = element.getBoundingClientRect();
  if (width === 0 || right <= innerWidth + 1) return false;
  for (let p = element.parentElement; p !== document.body; p = p.parentElement) {
    if (/auto|scroll/.test(getComputedStyle(p).overflowX)) return false;
  }
  return true;
}).map(({ outerHTML }) => outerHTML.slice(0, 80)).concat(
  document.documentElement.scrollWidth > innerWidth ? "scrolls sideways" : [],
)`;

/** The lightness of the page and of the text on it, from 0 to 1. */
const LIGHTNESS = `[
  getComputedStyle(document.body).backgroundColor,
  getComputedStyle(document.querySelector(".vp-doc p")).color,
].map((color) => Math.max(...color.match(/\\d+/g).slice(0, 3)) / 255)`;

Deno.test({
  name:
    "the site in a browser: nothing is cut off, dark is dark, search works" +
    needsBrowser.suffix,
  ignore: needsBrowser.ignore,
  fn: async (t) => {
    const directory = buildOnce();
    await using server = serve(directory);
    await using browser = await Browser.start();
    const root = `http://127.0.0.1:${server.addr.port}`;
    const pages = listNames(new URL("../docs", import.meta.url).pathname)
      .filter((name) => name.endsWith(".md"))
      .map((name) => name.replace(/\.md$/, ".html"));
    await t.step("old addresses lead to new ones", async () => {
      for (const [old, to] of Object.entries(MOVED)) {
        const toUrl = (address: string) =>
          `${root}/${address.replace(/(?=#)|$/, ".html")}`;
        await browser.send("Page.navigate", { url: "about:blank" });
        await browser.send("Page.navigate", { url: toUrl(old) });
        await browser.waitFor(`location.href === ${JSON.stringify(toUrl(to))}`);
      }
    });
    await t.step("nothing is cut off", async () => {
      const cut: Record<string, unknown> = {};
      for (const page of pages) {
        await browser.open(`${root}/${page}`);
        for (const width of [390, 1280]) {
          await browser.look({ width, theme: "light" });
          const found = await browser.evaluate(CUT_OFF) as string[];
          if (found.length > 0) cut[`${page}, ${width} pixels`] = found;
        }
      }
      assertEquals(cut, {});
    });
    for (const theme of ["light", "dark"] as const) {
      await t.step(`text and page differ, ${theme}`, async () => {
        await browser.look({ width: 1280, theme });
        await browser.open(`${root}/show.html`);
        const lightness = await browser.evaluate(LIGHTNESS) as number[];
        const [page = 0, text = 0] = lightness;
        assertEquals(
          { light: page > 0.9 && text < 0.4, dark: page < 0.2 && text > 0.8 },
          { light: theme === "light", dark: theme === "dark" },
        );
      });
    }
    await t.step("what is typed is found", async () => {
      const box = ".VPLocalSearchBox";
      await browser.look({ width: 390, theme: "dark" });
      for (const text of Object.keys(SEARCHED)) {
        await browser.open(`${root}/index.html`);
        await browser.waitFor(`document.querySelector("#local-search button")`);
        await browser.evaluate(
          `document.querySelector("#local-search button").click()`,
        );
        await browser.waitFor(`document.querySelector("${box} input")`);
        await browser.evaluate(
          `document.querySelector("${box} input").select()`,
        );
        await browser.send("Input.insertText", { text });
        let first = "";
        await eventually(`"${text}" is answered`, async () => {
          first = String(
            await browser.evaluate(
              `document.querySelector("${box} .result")?.href`,
            ),
          );
          return answers(text, first);
        }, () => `instead of ${first}`);
      }
    });
  },
});
