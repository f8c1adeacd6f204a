"""Reads every file that kaws wrote with PyYAML, a reader of YAML 1.1, and compares with kaws's own reading.

CloudFormation's short tags become their long form, as CloudFormation takes them.
"""

import json
import sys

import yaml


class Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which knows CloudFormation's tags."""


def short_tag(loader, suffix, node):
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        return {name: value.split(".", 1) if suffix == "GetAtt" else value}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    return {name: loader.construct_mapping(node, deep=True)}


Loader.add_multi_constructor("!", short_tag)


def main():
    wrong = 0
    for path, ours in json.load(open(sys.argv[1])).items():
        with open(path, encoding="utf-8") as file:
            theirs = list(yaml.load_all(file, Loader))
        if json.dumps(theirs, sort_keys=True) != json.dumps(ours, sort_keys=True):
            wrong += 1
            print(f"{path} reads differently")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
