/**
 * A real browser without a window: Chromium by its DevTools protocol.
 *
 * @example
 * ```ts
 * await using browser = await Browser.start();
 * await browser.look({ width: 390, theme: "dark" });
 * await browser.open("http://127.0.0.1:8000/");
 * assertEquals(await browser.evaluate("document.title"), "CNI plugins");
 * ```
 *
 * @module
 */

import { eventually } from "./eventually.ts";

/** Longest wait for an answer of the browser, on the slowest machine. */
const PATIENCE_MS = 60_000;

/** How a page is looked at. */
export interface View {
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
export class Browser implements AsyncDisposable {
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
      PATIENCE_MS,
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

  /** Waits until an expression in the page is true. */
  async waitFor(expression: string): Promise<void> {
    await eventually(
      expression,
      async () => await this.evaluate(`Boolean(${expression})`) === true,
    );
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
