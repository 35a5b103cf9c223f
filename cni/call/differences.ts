/**
 * Collects all differences that CHECK finds in one error.
 *
 * @module
 */

import { CniError, ErrorCode, toCniError } from "../../base/error.ts";
import type { MaybePromise } from "../../base/waiting.ts";

/** A difference between the current state and the state that ADD left. */
export interface Difference {
  /** The description: one clause without a full stop, which runbooks quote. */
  readonly msg: string;
  /** The object as ADD left it; absent if only the text describes it. */
  readonly expected?: KernelObject | undefined;
}

/** The keys of every object. */
export interface InNetns {
  /** Path of its network namespace: CNI_NETNS, or the host's. */
  readonly netns: string;
}

/** A link that exists, with the settings in which it differs. */
export interface ExpectedLink extends InNetns {
  /** What the object is. */
  readonly kind: "link";
  /** Its name. */
  readonly link: string;
  /** True: the link must be up. */
  readonly isUp?: boolean | undefined;
  /** Its hardware address. */
  readonly mac?: string | undefined;
  /** In bytes. */
  readonly mtu?: number | undefined;
  /** Name of the bridge or the VRF whose port it is. */
  readonly master?: string | undefined;
  /**
   * As a port of a bridge: whether frames can leave through the port they came in
   * on.
   */
  readonly hairpin?: boolean | undefined;
  /** As a port of a bridge: whether it exchanges no frames with isolated ports. */
  readonly isolated?: boolean | undefined;
}

/** An address of a link. */
export interface ExpectedAddress extends InNetns {
  /** What the object is. */
  readonly kind: "address";
  /** Name of the link. */
  readonly link: string;
  /** With its prefix length, such as `10.1.0.2/24`. */
  readonly address: string;
}

/** A route through a link. */
export interface ExpectedRoute extends InNetns {
  /** What the object is. */
  readonly kind: "route";
  /** Name of the link. */
  readonly link: string;
  /** In CIDR notation, even for a default route. */
  readonly destination: string;
  /** The router; absent if the destination is on the link. */
  readonly gateway?: string | undefined;
}

/** A range of VLANs of a bridge port. */
export interface ExpectedVlans extends InNetns {
  /** What the object is. */
  readonly kind: "vlan";
  /** Name of the port. */
  readonly link: string;
  /** 1 to 4094. */
  readonly first: number;
  /** Equal to `first` for a single VLAN. */
  readonly last: number;
  /** Whether frames leave untagged, and untagged frames belong to the VLAN. */
  readonly isUntagged: boolean;
}

/** A kernel parameter of a namespace. */
export interface ExpectedSysctl extends InNetns {
  /** What the object is. */
  readonly kind: "sysctl";
  /** Its path below `/proc/sys`. */
  readonly key: string;
  /** Its value. */
  readonly value: string;
}

/** An object of the kernel in the state that ADD left. */
export type KernelObject =
  | ExpectedLink
  | ExpectedAddress
  | ExpectedRoute
  | ExpectedVlans
  | ExpectedSysctl;

/** Starts each further difference in an error's details. */
const ALSO = "also: ";

/** A difference whose object might be another program's, and of any shape. */
export interface RawDifference {
  /** As {@linkcode Difference.msg}. */
  readonly msg: string;
  /** Null or undefined if only the text describes it. */
  readonly expected?: unknown;
}

/**
 * Creates the error for differences. Its message is the text of the first difference,
 * and its details are the further texts, one per line. Its `differences` are the objects
 * in the same order, with null for a difference that names none.
 *
 * @param details Precede the other differences
 */
export function differenceError(
  code: number,
  [first, ...others]: readonly [RawDifference, ...RawDifference[]],
  details = "",
): CniError {
  const lines = others.map(({ msg }) => ALSO + msg);
  const objects = [first, ...others].map(({ expected }) => expected ?? null);
  return new CniError(code, first.msg, {
    details: [details, ...lines].filter((line) => line !== "").join("\n"),
    differences: objects.every((object) => object === null)
      ? undefined
      : objects,
  });
}

/** Splits an error into its differences. Any other error counts as one. */
export function splitDifferences(
  error: unknown,
): [RawDifference, ...RawDifference[]] {
  const { message, details, differences = [] } = toCniError(error);
  const { own, others } = splitDetails(details);
  return [
    { msg: [message, ...own].join("; "), expected: differences[0] },
    ...others.map((msg, index) => ({ msg, expected: differences[index + 1] })),
  ];
}

function splitDetails(details: string): { own: string[]; others: string[] } {
  const lines = details === "" ? [] : details.split("\n");
  return {
    own: lines.filter((line) => !line.startsWith(ALSO)),
    others: lines.filter((line) => line.startsWith(ALSO))
      .map((line) => line.slice(ALSO.length)),
  };
}

/**
 * Collects differences from the state that ADD left, and throws them as one
 * error.
 *
 * ```ts ignore
 * const differences = new Differences();
 * await differences.collect(() => call.ipam.check());
 * await differences.collect(() => checkAddresses(sandbox, link, addresses));
 * differences.throwAny();
 * ```
 */
export class Differences {
  readonly #failures: unknown[] = [];

  /**
   * Runs a check and collects its error.
   *
   * @returns What the check returns; undefined if it threw
   */
  async collect<T>(check: () => MaybePromise<T>): Promise<T | undefined> {
    try {
      return await check();
    } catch (error) {
      this.#failures.push(error);
      return undefined;
    }
  }

  /** Adds differences that a check lists. */
  add(...[first, ...others]: readonly Difference[]): void {
    if (first === undefined) return;
    const { Internal } = ErrorCode;
    this.#failures.push(differenceError(Internal, [first, ...others]));
  }

  /**
   * Throws the collected differences, if any.
   *
   * @throws The error itself if only one check failed
   * @throws {CniError} With the code of the first difference, if several failed
   */
  throwAny(): void {
    const [first, ...others] = this.#failures;
    if (first === undefined) return;
    if (others.length === 0) throw first;
    const { code, message, details } = toCniError(first);
    const [{ expected }, ...more] = splitDifferences(first);
    throw differenceError(
      code,
      [
        { msg: message, expected },
        ...more,
        ...others.flatMap(splitDifferences),
      ],
      splitDetails(details).own.join("\n"),
    );
  }
}
