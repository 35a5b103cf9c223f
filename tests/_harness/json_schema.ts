/**
 * Promises of documents and schemas to scripts.
 *
 * @module
 */

import {
  getLanguageService,
  type JSONSchema,
  TextDocument,
} from "vscode-json-languageservice";

/** Returns what a document has that a schema does not allow. */
export async function validate(
  document: unknown,
  schema: object,
): Promise<string[]> {
  const service = getLanguageService({});
  const text = JSON.stringify(document);
  const file = TextDocument.create("file:///a.json", "json", 1, text);
  const parsed = service.parseJSONDocument(file);
  const problems = await service.doValidation(
    file,
    parsed,
    {},
    schema as JSONSchema,
  );
  return problems.map(({ message }) => `${message}`);
}

/** Lists the paths that a schema promises, with their types. */
export function listPromises(given: object, path = ""): string[] {
  const { required = [], properties = {}, items, type } = given as JSONSchema;
  return [
    `${path}: ${[type].flat().join(" or ")}`,
    ...required.map((key) => `${path}.${key} is there`),
    ...Object.entries(properties).flatMap(([key, value]) =>
      listPromises(value as object, `${path}.${key}`)
    ),
    ...items === undefined ? [] : listPromises(items as object, `${path}[]`),
  ];
}
