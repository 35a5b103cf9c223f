/**
 * Stands in for the part of `jsr:@std/assert` that the tests use, where
 * jsr.io is out of reach. Signatures, results and the opening words of the
 * messages are std's.
 *
 * Source: https://jsr.io/@std/assert.
 *
 * @module
 */

import { diff } from "node:util";

/** Any class with instances of type `T`, including abstract classes. */
type Class<T> = abstract new (...args: never[]) => T;

/** The error of a failed assertion. */
export class AssertionError extends Error {
  override name = "AssertionError";
}

/**
 * Fails the test.
 *
 * @throws {AssertionError} Always
 */
export function fail(msg?: string): never {
  throw new AssertionError(`Failed assertion${suffix(msg)}`);
}

/**
 * Asserts that a value is truthy.
 *
 * @throws {AssertionError} If it is not
 */
export function assert(expr: unknown, msg = ""): asserts expr {
  if (!expr) throw new AssertionError(msg);
}

/**
 * Asserts that two values are deeply equal.
 *
 * Classes, keys (one with the value `undefined` is not one that is missing),
 * the getters of classes, and the entries of maps and sets count; the order of
 * keys does not. `NaN` equals itself, and `0` equals `-0`.
 *
 * @throws {AssertionError} If they are not; the message shows a line-by-line difference
 */
export function assertEquals<T>(actual: T, expected: T, msg?: string): void {
  if (isEqual(actual, expected)) return;
  const difference = formatDifference(inspect(actual), inspect(expected));
  throw new AssertionError(
    `Values are not equal${suffix(msg)}\n\n${difference}`,
  );
}

/**
 * Asserts that two values are not deeply equal.
 *
 * @throws {AssertionError} If they are
 */
export function assertNotEquals<T>(actual: T, expected: T, msg?: string): void {
  if (!isEqual(actual, expected)) return;
  throw new AssertionError(
    `Expected actual: ${inspect(actual)} not to be: ${inspect(expected)}${
      suffix(msg)
    }`,
  );
}

/**
 * Asserts that two values are the same by `Object.is`.
 *
 * @throws {AssertionError} If they are not
 */
export function assertStrictEquals<T>(
  actual: unknown,
  expected: T,
  msg?: string,
): asserts actual is T {
  if (Object.is(actual, expected)) return;
  const [left, right] = [inspect(actual), inspect(expected)];
  throw new AssertionError(
    left === right
      ? `Values have the same structure but are not reference-equal${
        suffix(msg)
      }\n\n${left}`
      : `Values are not strictly equal${suffix(msg)}\n\n${
        formatDifference(left, right)
      }`,
  );
}

/**
 * Asserts that a value is neither `null` nor `undefined`.
 *
 * @throws {AssertionError} If it is
 */
export function assertExists<T>(
  actual: T,
  msg?: string,
): asserts actual is NonNullable<T> {
  if (actual !== undefined && actual !== null) return;
  throw new AssertionError(
    `Expected actual: "${actual}" to not be null or undefined${suffix(msg)}`,
  );
}

/**
 * Asserts that a value is an instance of a class.
 *
 * @throws {AssertionError} If it is not
 */
export function assertInstanceOf<C extends Class<unknown>>(
  actual: unknown,
  expectedType: C,
  msg = "",
): asserts actual is InstanceType<C> {
  if (actual instanceof expectedType) return;
  throw new AssertionError(
    `Expected object to be an instance of "${expectedType.name}" but was ${
      describeType(actual)
    }${suffix(msg)}`,
  );
}

/**
 * Asserts that a text contains another.
 *
 * @throws {AssertionError} If it does not
 */
export function assertStringIncludes(
  actual: string,
  expected: string,
  msg?: string,
): void {
  if (actual.includes(expected)) return;
  throw new AssertionError(
    `Expected actual: "${actual}" to contain: "${expected}"${suffix(msg)}`,
  );
}

/**
 * Asserts that a text matches a regular expression.
 *
 * @throws {AssertionError} If it does not
 */
export function assertMatch(
  actual: string,
  expected: RegExp,
  msg?: string,
): void {
  if (expected.test(actual)) return;
  throw new AssertionError(
    `Expected actual: "${actual}" to match: "${expected}"${suffix(msg)}`,
  );
}

/** Asserts that a function throws, and returns what it threw. */
export function assertThrows(fn: () => unknown, msg?: string): unknown;
/**
 * Asserts that a function throws an error of a class, and returns that error.
 *
 * @param msgIncludes Text that the error's message must contain
 * @throws {AssertionError} If `fn` throws nothing or another error
 */
export function assertThrows<E extends Error = Error>(
  fn: () => unknown,
  ErrorClass: Class<E>,
  msgIncludes?: string,
  msg?: string,
): E;
export function assertThrows(
  fn: () => unknown,
  classOrMsg?: Class<Error> | string,
  msgIncludes?: string,
  msg?: string,
): unknown {
  const expected = readExpectation(classOrMsg, msgIncludes, msg);
  let thrown: unknown;
  try {
    fn();
  } catch (error) {
    thrown = error;
    requireError(error, expected, "thrown");
    return thrown;
  }
  throw new AssertionError(
    `Expected function to throw${suffix(expected.msg)}`,
  );
}

/** Asserts that a function returns a promise that rejects, and returns the reason. */
export function assertRejects(
  fn: () => PromiseLike<unknown>,
  msg?: string,
): Promise<unknown>;
/**
 * Asserts that a function returns a promise that rejects with an error of a
 * class, and returns that error. Throwing before the promise is made is a failure.
 *
 * @param msgIncludes Text that the error's message must contain
 * @throws {AssertionError} If it does not reject, or with another error
 */
export function assertRejects<E extends Error = Error>(
  fn: () => PromiseLike<unknown>,
  ErrorClass: Class<E>,
  msgIncludes?: string,
  msg?: string,
): Promise<E>;
export async function assertRejects(
  fn: () => PromiseLike<unknown>,
  classOrMsg?: Class<Error> | string,
  msgIncludes?: string,
  msg?: string,
): Promise<unknown> {
  const expected = readExpectation(classOrMsg, msgIncludes, msg);
  const promise = callForPromise(fn, expected.msg);
  try {
    await promise;
  } catch (error) {
    requireError(error, expected, "rejected");
    return error;
  }
  throw new AssertionError(
    `Expected function to reject${suffix(expected.msg)}`,
  );
}

/** What the overloads of `assertThrows` and `assertRejects` ask of an error. */
interface ErrorExpectation {
  readonly errorClass: Class<Error> | undefined;
  readonly msgIncludes: string | undefined;
  readonly msg: string | undefined;
}

function readExpectation(
  classOrMsg: Class<Error> | string | undefined,
  msgIncludes: string | undefined,
  msg: string | undefined,
): ErrorExpectation {
  return typeof classOrMsg === "string"
    ? { errorClass: undefined, msgIncludes: undefined, msg: classOrMsg }
    : { errorClass: classOrMsg, msgIncludes, msg };
}

/** Without a class any error passes, and as in std the message is not checked. */
function requireError(
  error: unknown,
  { errorClass, msgIncludes, msg }: ErrorExpectation,
  how: "thrown" | "rejected",
): void {
  if (errorClass === undefined) return;
  if (!(error instanceof Error)) {
    throw new AssertionError(`A non-Error object was ${how}${suffix(msg)}`);
  }
  const isExpected: boolean = error instanceof errorClass;
  if (!isExpected) {
    throw new AssertionError(
      `Expected error to be instance of "${errorClass.name}", but was "${error.constructor.name}"${
        suffix(msg)
      }\n\n${error.stack}`,
    );
  }
  if (msgIncludes !== undefined && !error.message.includes(msgIncludes)) {
    throw new AssertionError(
      `Expected error message to include ${JSON.stringify(msgIncludes)}, but ` +
        `got ${JSON.stringify(error.message)}${suffix(msg)}`,
    );
  }
}

function callForPromise(
  fn: () => PromiseLike<unknown>,
  msg: string | undefined,
): PromiseLike<unknown> {
  let promise: PromiseLike<unknown> | undefined;
  let cause: unknown;
  try {
    promise = fn();
  } catch (error) {
    cause = error;
  }
  if (typeof promise?.then === "function") return promise;
  throw new AssertionError(
    `Function throws when expected to reject${suffix(msg)}`,
    { cause },
  );
}

function suffix(msg: string | undefined): string {
  return msg ? `: ${msg}` : ".";
}

function describeType(value: unknown): string {
  if (value === null) return `"null"`;
  if (typeof value !== "object") return `"${typeof value}"`;
  return `"${value.constructor?.name ?? "Object"}"`;
}

function inspect(value: unknown): string {
  return Deno.inspect(value, {
    depth: Infinity,
    sorted: true,
    trailingComma: true,
    compact: false,
    iterableLimit: Infinity,
    strAbbreviateSize: Infinity,
  });
}

/** Classes with instances that are compared as text. */
const TEXT_CLASSES = [RegExp, URL, URLSearchParams] as const;

/** Pairs of objects under comparison: a pair met again is part of a cycle. */
type Seen = Map<object, object>;

function isEqual(
  left: unknown,
  right: unknown,
  seen: Seen = new Map(),
): boolean {
  if (left === right || Object.is(left, right)) return true;
  if (!isObject(left) || !isObject(right)) return false;
  if (!haveSamePrototype(left, right)) return false;
  if (left instanceof Date) return Object.is(+left, +(right as Date));
  if (TEXT_CLASSES.some((textClass) => left instanceof textClass)) {
    return String(left) === String(right);
  }
  if (seen.get(left) === right) return true;
  seen.set(left, right);
  return haveEqualEntries(left, right, seen) &&
    haveEqualKeys(left, right, seen);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** An object without a prototype counts as a plain one. */
function haveSamePrototype(left: object, right: object): boolean {
  const [leftPrototype, rightPrototype] = [left, right].map((value) =>
    Object.getPrototypeOf(value) ?? Object.prototype
  );
  return leftPrototype === rightPrototype;
}

/** Compares what maps, sets and buffers hold; other objects hold it in their keys. */
function haveEqualEntries(left: object, right: object, seen: Seen): boolean {
  if (left instanceof ArrayBuffer) {
    const [leftBytes, rightBytes] = [left, right as ArrayBuffer].map((buffer) =>
      new Uint8Array(buffer)
    );
    return isEqual(leftBytes, rightBytes);
  }
  if (!(left instanceof Map || left instanceof Set)) return true;
  return haveSameMembers([...left], [...right as Set<unknown>], seen);
}

/** Pairs off the members of two collections in any order. */
function haveSameMembers(
  left: unknown[],
  right: unknown[],
  seen: Seen,
): boolean {
  if (left.length !== right.length) return false;
  const unmatched = [...right];
  return left.every((member) => {
    // A trial that fails must not leave its pairs behind in `seen`.
    const at = unmatched.findIndex((candidate) =>
      isEqual(member, candidate, new Map(seen))
    );
    if (at >= 0) unmatched.splice(at, 1);
    return at >= 0;
  });
}

/** Of an object with a class the getters count, too: without them private fields would go unseen. */
function haveEqualKeys(left: object, right: object, seen: Seen): boolean {
  if (ArrayBuffer.isView(left) && !(left instanceof DataView)) {
    return haveEqualElements(left, right);
  }
  if (Object.keys(left).length !== Object.keys(right).length) return false;
  const keysOf = isPlain(left) ? ownEnumerableKeys : allKeys;
  const keys = new Set([...keysOf(left), ...keysOf(right)]);
  return [...keys].every((key) =>
    (key in left) === (key in right) &&
    isEqual(Reflect.get(left, key), Reflect.get(right, key), seen)
  );
}

function haveEqualElements(left: object, right: object): boolean {
  const [leftItems, rightItems] = [left, right] as ArrayLike<unknown>[];
  if (leftItems?.length !== rightItems?.length) return false;
  return Array.prototype.every.call(
    leftItems,
    (item, at) => isEqual(item, rightItems?.[at]),
  );
}

function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype ||
    prototype === Array.prototype;
}

function ownEnumerableKeys(value: object): PropertyKey[] {
  return Reflect.ownKeys(value).filter((key) =>
    Object.prototype.propertyIsEnumerable.call(value, key)
  );
}

function allKeys(value: object): PropertyKey[] {
  const keys: PropertyKey[] = [];
  for (
    let object = value;
    object !== null && object !== Object.prototype;
    object = Object.getPrototypeOf(object)
  ) keys.push(...Reflect.ownKeys(object));
  return keys;
}

/** Renders two texts as one: `-` marks lines of the first only, `+` of the second only. */
function formatDifference(actual: string, expected: string): string {
  const marks = { "0": " ", "1": "-", "-1": "+" };
  const lines = diff(actual.split("\n"), expected.split("\n"))
    .map(([which, line]) => `${marks[which]}   ${line}`);
  return `    [Diff] Actual / Expected\n\n${lines.join("\n")}\n`;
}
