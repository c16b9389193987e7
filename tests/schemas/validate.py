"""Validates JSON documents, one per line of standard input, against a JSON schema.

Usage: validate.py SCHEMA [--strict]

Prints a line for each invalid document, and exits with 1 if there is one. With --strict, the schema is that of Clk's
JSON lines, and fields that it does not have are errors too.
"""

import json
import sys

import jsonschema


def close(schema):
    """Forbids further fields in each object whose fields the schema lists."""
    if isinstance(schema, dict):
        if "properties" in schema and "type" in schema:
            schema["additionalProperties"] = False
        for value in schema.values():
            close(value)
    elif isinstance(schema, list):
        for value in schema:
            close(value)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    strict = "--strict" in sys.argv
    validator_class = jsonschema.validators.validator_for(schema)
    validator_class.check_schema(schema)
    if strict:
        close(schema)
    validators = {}
    failed = False
    for number, line in enumerate(sys.stdin, 1):
        document = json.loads(line)
        # The definition of the line's kind gives better messages than `oneOf`.
        kind = document.get("kind") if strict else None
        if kind not in validators:
            if kind is not None and kind not in schema["$defs"]:
                print(f"document {number}: the kind {kind} is not in the schema")
                failed = True
                continue
            own = schema if kind is None else {**schema, "oneOf": [{"$ref": f"#/$defs/{kind}"}]}
            validators[kind] = validator_class(own)
        for error in validators[kind].iter_errors(document):
            deepest = jsonschema.exceptions.best_match([error])
            path = "/".join(str(part) for part in deepest.absolute_path)
            print(f"document {number}: {path}: {deepest.message[:400]}")
            failed = True
    sys.exit(1 if failed else 0)


main()
