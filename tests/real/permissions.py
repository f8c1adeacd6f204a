"""Whether a machine's role allows a call: the statements that its stack gives the role, as IAM reads them.

    allowed(statements, "s3:GetObject", "arn:aws:s3:::b/k", {"aws:ResourceTag/kaws/group": "etcd"})

Only what kaws renders is understood (Allow, Action, Resource, StringEquals, StringLike, Bool, Null); anything else
raises, so that no statement is passed over.
"""

from __future__ import annotations

import fnmatch
from typing import Any

Json = Any


def listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def matches(pattern: str, text: str) -> bool:
    # IAM has * and ? alone; fnmatch would read [ as well.
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))


def holds(condition: Json, context: dict[str, str]) -> bool:
    for operator, wanted in condition.items():
        for key, values in wanted.items():
            found = context.get(key)
            texts = [str(v).lower() if isinstance(v, bool) else str(v) for v in listed(values)]
            match operator:
                case "StringEquals" | "Bool":
                    good = found in texts
                case "StringLike":
                    good = found is not None and any(matches(t, found) for t in texts)
                case "Null":
                    good = (found is None) == (texts == ["true"])
                case _:
                    raise ValueError(f"the condition {operator} is not understood")
            if not good:
                return False
    return True


def allowed(statements: list[Json], action: str, resource: str, context: dict[str, str]) -> bool:
    granted = False
    for statement in statements:
        unknown = set(statement) - {"Sid", "Effect", "Action", "Resource", "Condition"}
        if unknown or statement["Effect"] != "Allow":
            raise ValueError(f"a statement that is not understood: {statement}")
        # Actions have no case, resources have.
        fits = any(matches(a.lower(), action.lower()) for a in listed(statement["Action"])) and any(
            matches(r, resource) for r in listed(statement["Resource"])
        )
        if fits and holds(statement.get("Condition", {}), context):
            granted = True
    return granted
