#!/usr/bin/env python3
"""Measures production code: lengths of functions and files, documentation. Tests do not count.

Fails where a function has over 80 lines or a file over 700. The anchors' figures stand beside ours.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FUNCTION = re.compile(r"^\s*(pub(\([a-z: ]+\))?\s+)?(const\s+)?(async\s+)?fn\s+(\w+)")
# Median and p90 of functions, median and p90 of files: counted in the same way, on 2026-11-20.
ANCHORS = {
    "typst": (6, 33, 246, 824),
    "jj": (8, 39, 182, 830),
    "nextest": (8, 40, 214, 1000),
    "ripgrep": (4, 22, 172, 1046),
    "cargo": (9, 57, 211, 1059),
    "mdBook": (12, 50, 114, 436),
    "kube": (7, 24, 217, 585),
}


def production(text):
    """The lines before the file's tests."""
    return re.split(r"^#\[cfg\(test\)\]\s*\nmod tests", text, maxsplit=1, flags=re.M)[0].splitlines()


def functions(lines):
    """Name and length of each function with a body, by the braces' depth."""
    for start, line in enumerate(lines):
        found = FUNCTION.match(line)
        if not found:
            continue
        depth, opened = 0, False
        for end in range(start, len(lines)):
            code = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'|//.*', "", lines[end])
            for sign in code:
                depth += {"{": 1, "}": -1}.get(sign, 0)
                opened |= sign == "{"
            if not opened and code.rstrip().endswith(";"):
                break
            if opened and depth == 0:
                yield found.group(5), end - start + 1
                break


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def main():
    lengths, sizes, docs, comments, code, wrong = [], [], 0, 0, 0, []
    for path in sorted((ROOT / "src").rglob("*.rs")):
        lines = production(path.read_text())
        sizes.append(len(lines))
        if len(lines) > 700:
            wrong.append(f"{path.relative_to(ROOT)} has {len(lines)} lines, and 700 is the most")
        for name, length in functions(lines):
            lengths.append(length)
            if length > 80:
                wrong.append(f"{path.relative_to(ROOT)}: {name} has {length} lines, and 80 is the most")
        for line in (line.strip() for line in lines):
            docs += line.startswith(("///", "//!"))
            comments += line.startswith("//") and not line.startswith(("///", "//!"))
            code += bool(line) and not line.startswith("//")
    row = "{:<9} {:>7} {:>7} {:>7} {:>7}".format
    print(row("", "fn med", "fn p90", "file md", "file p90"))
    print(row("kaws", percentile(lengths, 0.5), percentile(lengths, 0.9), percentile(sizes, 0.5), percentile(sizes, 0.9)))
    for name, figures in ANCHORS.items():
        print(row(name, *figures))
    print(f"{len(lengths)} functions, longest {max(lengths)}; {len(sizes)} files, longest {max(sizes)}; {code} lines of code")
    print(f"doc/code {docs / code:.2f}, line/code {comments / code:.3f}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
