/**
 * Runs several test files in one process: `deno test load_files.ts -- FILE...`.
 *
 * `deno test` makes an isolate for each file that it is given, which loads all
 * modules anew. Here they are loaded once. A file that does not load is a test
 * that fails.
 *
 * @module
 */

for (const file of Deno.args) {
  try {
    await import(`file://${encodeURI(`${Deno.cwd()}/${file}`)}`);
  } catch (error) {
    Deno.test(`${file} loads`, () => {
      throw error;
    });
  }
}
