#!/usr/bin/env python3
"""Reduces CloudFormation's resource schemas to what kaws plans with.

Reads the schemas that ship with cfn-lint (.tools/python, as scripts/test installs it) and writes
src/cloudformation/resources.json: for each type, which properties replace the resource when they change,
which may, and whether it can carry tags. With --check, only says whether the file is what it would write.

    python3 scripts/resource_table.py [--check]
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "src/cloudformation/resources.json"


def schemas():
    """The folder of cfn-lint's schemas, and the file of each type in the region that has most."""
    found = sorted((ROOT / ".tools/python/lib").glob("python3*/site-packages/cfnlint/data/schemas"))
    if not found:
        sys.exit("cfn-lint is not installed: run scripts/test once")
    folder = found[0]
    names = json.loads((folder / "providers/us-east-1.json").read_text())
    return folder, {kind: folder / "resources" / f"{digest}.json" for kind, digest in names.items()}


def properties(schema, key):
    """Property paths as `A.B`, list items as `*`, sorted."""
    paths = [p.removeprefix("/properties/").replace("/", ".") for p in schema.get(key, [])]
    return sorted(set(paths))


def table():
    folder, files = schemas()
    rows = {}
    for kind, path in sorted(files.items()):
        if not path.exists():
            continue
        schema = json.loads(path.read_text())
        row = {
            "replaces": properties(schema, "createOnlyProperties"),
            "mayReplace": properties(schema, "conditionalCreateOnlyProperties"),
        }
        # A property that only AWS sets cannot be changed by a template.
        read_only = set(properties(schema, "readOnlyProperties"))
        row = {key: [p for p in value if p not in read_only] for key, value in row.items()}
        tagging = schema.get("tagging", {})
        # CloudFormation hands a stack's tags on to every resource that can carry tags.
        row["tags"] = bool(tagging.get("taggable", schema.get("taggable", "Tags" in schema.get("properties", {}))))
        rows[kind] = {key: value for key, value in row.items() if value}
    version = json.loads((folder.parent.parent / "data/schemas/version.json").read_text()) if (
        folder / "version.json").exists() else {}
    return rows, version.get("schema_date", "")


def main():
    rows, date = table()
    head = {"generated": "by scripts/resource_table.py from the schemas in cfn-lint", "schemas": date}
    lines = [f"  {json.dumps(kind)}: {json.dumps(row, sort_keys=True)}" for kind, row in rows.items()]
    text = json.dumps(head)[:-1] + ', "types": {\n' + ",\n".join(lines) + "\n}}\n"
    json.loads(text)
    if "--check" in sys.argv[1:]:
        if not OUT.exists() or OUT.read_text() != text:
            sys.exit(f"{OUT.relative_to(ROOT)} is not what the schemas say: python3 scripts/resource_table.py")
        return
    OUT.write_text(text)
    print(f"{OUT.relative_to(ROOT)}: {len(rows)} types, {len(text)} bytes, schemas of {date}")


main()
