/**
 * The only error type that callers of `cni/` receive, its codes, and the conversion
 * of any thrown value.
 *
 * @module
 */

/**
 * Error codes that a plugin returns.
 *
 * 1-7, 11, 50 and 51 are the specification's; 8 and 999 are the Go library's. Codes
 * from 100 are free for plugins.
 *
 * Source: CNI spec 1.1.0, "Error"; containernetworking/cni pkg/types/types.go.
 */
export const ErrorCode = {
  /** The plugin does not support the configuration's cniVersion. */
  IncompatibleVersion: 1,
  /** A configuration key has a value that the plugin cannot honour. */
  UnsupportedField: 2,
  /** The container is unknown; the runtime need not clean up. */
  UnknownContainer: 3,
  /** A CNI_* environment variable is missing or malformed. */
  InvalidEnvironment: 4,
  /** Reading or writing failed. */
  IoFailure: 5,
  /** The input is not the expected JSON. */
  DecodingFailure: 6,
  /** The configuration is JSON, but not a valid configuration. */
  InvalidNetworkConfig: 7,
  /** CNI_NETNS is not a usable network namespace. */
  InvalidNetns: 8,
  /** A temporary condition: the runtime should try again later. */
  TryAgainLater: 11,
  /** STATUS: the plugin cannot serve ADD. */
  PluginNotAvailable: 50,
  /** STATUS: like 50, and already attached containers might have lost their network. */
  LimitedConnectivity: 51,
  /** Everything else. */
  Internal: 999,
} as const;

/** The JSON a plugin prints when it fails. */
export interface ErrorObject {
  /** The configuration's version, or the current version if it is unknown. */
  readonly cniVersion: string;
  /** See {@linkcode CniError.code}. */
  readonly code: number;
  /** The message. */
  readonly msg: string;
  /** The details; omitted if empty. */
  readonly details?: string;
  /** See {@linkcode CniError.differences}; omitted if undefined. */
  readonly differences?: readonly unknown[];
}

/** A failure with the code, message and details for the runtime. */
export class CniError extends Error {
  /** Names the class in texts. */
  override readonly name = "CniError";
  /** One of {@linkcode ErrorCode}, or a plugin's own code from 100. */
  readonly code: number;
  /** The details, without the texts of the causes. */
  readonly ownDetails: string | undefined;
  /**
   * The kernel objects that are missing or changed according to CHECK, as
   * `listDifferences()` reads them; undefined for other errors.
   */
  readonly differences: readonly unknown[] | undefined;

  /**
   * Creates an error.
   *
   * @param code One of {@linkcode ErrorCode}, or a plugin's own code from 100;
   *   anything that is not a valid code becomes 999
   * @param message A sentence that names the action and the object
   * @param options `details` for debugging, `cause` for the underlying error,
   * `differences` for CHECK
   */
  constructor(
    code: number,
    message: string,
    options: {
      details?: string;
      cause?: unknown;
      differences?: readonly unknown[] | undefined;
    } = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : {});
    this.code = Number.isSafeInteger(code) && code >= 0
      ? code
      : ErrorCode.Internal;
    this.ownDetails = options.details;
    this.differences = options.differences;
  }

  /**
   * The details text: the error's own details, then the causes' details, joined by `:
   * `.
   */
  get details(): string {
    const causes = listTexts(listCauses(this.cause), this.message);
    return [this.ownDetails ?? "", ...causes]
      .filter((text) => text !== "").join(": ");
  }

  /** Renders the error as the JSON object of the specification. */
  toObject(cniVersion: string): ErrorObject {
    const { code, details, differences } = this;
    return {
      cniVersion,
      code,
      msg: this.message || "unknown error",
      ...details !== "" && { details },
      ...differences && { differences },
    };
  }

  /**
   * Renders the error as text: the message, then the details after a `;`.
   *
   * Source: containernetworking/cni pkg/types/types.go `Error.Error`.
   */
  override toString(): string {
    const { msg, details } = this.toObject("");
    return details === undefined ? msg : `${msg}; ${details}`;
  }
}

/** Creates the error for an invalid configuration (code 7). */
export function invalidConfig(
  message: string,
  options?: ConstructorParameters<typeof CniError>[2],
): CniError {
  return new CniError(ErrorCode.InvalidNetworkConfig, message, options);
}

/** Lists an error and its causes, outermost first; a cycle ends the list. */
export function listCauses(error: unknown): unknown[] {
  const chain = new Set<unknown>();
  for (let link = error; link !== undefined && !chain.has(link);) {
    chain.add(link);
    link = link instanceof Error ? link.cause : undefined;
  }
  return [...chain];
}

function isPrintable(value: unknown): boolean {
  return value === null ||
    typeof value !== "object" && typeof value !== "function";
}

/** Lists the texts of a chain of causes, below a text that is already known. */
function listTexts(chain: readonly unknown[], above = ""): string[] {
  return chain.reduce<string[]>(
    (texts, link) => [...texts, ...ownTexts(link, above + texts.join())],
    [],
  );
}

/**
 * Returns an error's own message. For a failed system call of Deno, `No such file or
 * directory (os error 2): open '/x'`, this is the kernel's text, and the path unless
 * the text above contains it.
 */
export function ownMessage({ message }: Error, above: string): string {
  const [, text, path] =
    /^(.*) \(os error \d+\): \w+ '([^']*)'/s.exec(message) ?? [];
  if (text === undefined || path === undefined) return message;
  return above.includes(path) ? text : `${text}: "${path}"`;
}

/** Returns an error's own text, without its causes. */
function ownTexts(error: unknown, above: string): string[] {
  // Some values cannot be converted to text: an object might even lack toString().
  if (!(error instanceof Error)) {
    return [
      isPrintable(error) ? String(error) : "an object that is not an error",
    ];
  }
  const texts = [ownMessage(error, above)];
  if (error instanceof CniError) texts.push(error.ownDetails ?? "");
  if (error instanceof AggregateError) {
    texts.push(error.errors.map(describeError).join("; "));
  }
  const spoken = texts.filter((text) => text !== "");
  return spoken.length === 0 ? [error.name] : spoken;
}

/**
 * Renders any thrown value with its causes in one line, without a stack.
 *
 * @returns The message, the details and the causes' messages, joined by `: `
 */
export function describeError(error: unknown): string {
  return listTexts(listCauses(error)).join(": ");
}

/**
 * Turns any thrown value into a {@linkcode CniError}.
 *
 * A CniError anywhere in the chain of causes keeps its code and message, and an
 * AggregateError takes the first specific code among its errors. Anything else
 * has code 999 and its outermost text. The remaining texts of the chain are the
 * details.
 *
 * Source: containernetworking/cni pkg/skel/skel.go `PluginMainFuncsWithError`.
 */
export function toCniError(error: unknown): CniError {
  if (error instanceof CniError) return error;
  const chain = listCauses(error);
  const texts = listTexts(chain);
  const inner = chain.find((link) => link instanceof CniError);
  const message = inner?.message ?? texts[0] ?? "unknown error";
  const details = texts
    .filter((_, index) => index !== texts.indexOf(message)).join(": ");
  return new CniError(inner?.code ?? findMemberCode(chain), message, {
    details,
    differences: inner?.differences,
  });
}

/** Returns the same error with a different message. */
export function withMessage(
  { code, details, differences }: CniError,
  message: string,
): CniError {
  return new CniError(code, message, { details, differences });
}

/** Finds the first specific code among several failures. */
function findMemberCode(chain: readonly unknown[]): number {
  const codes = chain
    .flatMap((link) => link instanceof AggregateError ? link.errors : [])
    .map((member) => toCniError(member).code);
  return codes.find((code) => code !== ErrorCode.Internal) ??
    ErrorCode.Internal;
}

/**
 * Converts any thrown value to the JSON that a plugin prints.
 *
 * @param cniVersion The error object's version
 */
export function formatFailure(
  error: unknown,
  cniVersion: string,
): { stdout: string; exitCode: 1 } {
  const object = toCniError(error).toObject(cniVersion);
  return { stdout: JSON.stringify(object, null, 4), exitCode: 1 };
}
