/**
 * What a program in Go that ends soon, such as a compiler, is started with. It
 * collects no garbage until it has a GiB, which saves a quarter of the processor
 * time.
 */
export const GO_ENV: Readonly<Record<string, string>> = {
  GOGC: "off",
  GOMEMLIMIT: "1GiB",
};
