"""A mock of AWS for the tests of `kaws up`: moto 5.2.5, with a CloudFormation of our own in front.

    python mock_aws.py --port 0 --account 111122223333

listens on 127.0.0.1 and prints `listening on 127.0.0.1:PORT` once it is ready. It needs
`moto[server,cloudformation,ec2,s3,ssm,autoscaling,elbv2,iam,kms,route53,sts]==5.2.5` and PyYAML.

Every request comes to `Front`. Calls of CloudFormation are answered here: moto runs them synchronously, without
rollback, events or previews. Everything else goes to moto, one call at a time, so that a conditional write is
atomic. The stack engine makes its resources in moto's models where moto has them (EC2, IAM, KMS, S3, Auto Scaling,
load balancers, Route 53: other calls see them), and as mere records where not.

Paths of the tests, not of AWS:

    GET    /mock/calls     every call of AWS so far: [{service, action, parameters, time}]
    DELETE /mock/calls     forgets them
    POST   /mock/faults    {action, code, status, count, message?, prefix?}: so many next calls of the action fail;
                           with `prefix` those that list what begins with it
    POST   /mock/fail      {resource: "stack/LogicalId", reason, on?}: the next creation or update of the resource
                           fails; the stack is its name or its tag kaws/stack; `on` is create, update, delete,
                           rollback (of an update) or validation (of a change set)
    POST   /mock/delay     {seconds}: time that each resource and each preparation of a change set takes
    POST   /mock/drift     {resource: "stack/LogicalId", path, expected, actual}: somebody changed it by hand
    GET    /mock/stacks    every stack, deleted ones too: status, resources, outputs, parameters, and the order in
                           which the last deployment completed its resources
    POST   /mock/machines  {key, role}: calls with this access key are those of a machine, and are allowed what the
                           policies of the role say, `stack/LogicalId`; others are allowed everything
    GET    /mock/machines  the instances of all groups: {id, zone, tags}
    GET    /mock/signals   signals so far: {stack, resource, instance, status}
    DELETE /mock/signals   forgets them
    POST   /mock/reset     forgets everything

What it still gets wrong, compared with AWS:

 * No permissions but those of machines (/mock/machines), and no signature is checked. Encryption of objects is
   asked for as AWS does; bucket keys and encryption contexts are not.
 * Resources of one stack become complete one after the other, not in parallel; each takes the same time.
 * Signals are accepted and ignored: CreationPolicy and WaitOnResourceSignals never wait and never time out.
 * UpdatePolicy does nothing: an updated Auto Scaling group keeps its old instances.
 * Instances never boot: a group's instances are moto's, and InService at once.
 * Properties are checked against the schema's names and required ones only at the top level; no values are checked,
   no quotas, and what AWS would refuse (types of instances, sizes, policies) passes unless moto refuses it.
 * AWS's early validation of a change set (properties, names that are taken, buckets that are not empty) finds only
   what /mock/fail says; DescribeEvents tells of that alone.
 * Parameters of types such as AWS::EC2::Image::Id are not looked up: an id that does not exist passes.
 * VPCs, subnets and hosted zones that a template names by id, and that do not exist, are taken to be somebody else's
   and come into being in moto when first named (subnets in the first such VPC); AWS refuses them.
 * Whether an update replaces a resource comes from the schemas in cfn-lint (createOnlyProperties); where AWS's
   handler decides (conditionalCreateOnlyProperties), the preview says Conditional and the update happens in place.
 * An update in place reaches moto for launch templates, Auto Scaling groups, roles, instance profiles, buckets,
   records, aliases, keys, listeners, providers and EC2's tags; other types only show it in /mock/stacks.
 * A preview gives one detail per changed property: AWS often gives two for a parameter (Static and Dynamic). No
   Before and After values, whatever IncludePropertyValues says.
 * A preview takes every attribute of a resource that is modified for changed, as AWS documents; newer AWS may know
   better for attributes such as an Arn.
 * The change of a policy or of Metadata alone counts as a change; a change of a template's Description, comments or
   Metadata at the top level alone does not. Which of these AWS counts is not established for each.
 * An executed change set stays in ListChangeSets, and its name may be used again: not established for AWS.
 * Stack names, tags and descriptions are not checked for length and characters, parameters not for MinLength,
   MaxLength, MinValue and MaxValue.
 * Policies of stacks are kept, and not enforced.
 * Drift is what /mock/drift says, whatever is really there; finding it takes no time.
 * Not there, and answered with InvalidAction: CreateStack, UpdateStack, CancelUpdateStack, ValidateTemplate,
   stack sets, stack policies, imports, nested stacks, macros. RollbackStack takes back what failed here only.
 * No limits but those of 51,200 bytes, 1 MB and 500 resources; no pagination: every answer is one page.
 * A VPC, subnet, security group or zone counts as used, and is not deleted, while a resource of another stack names
   it; AWS looks at what is really there, and has more kinds of use.
 * DeleteStack while an operation runs is refused; AWS takes it while a stack is being created.
 * Custom resources, WaitConditions and other types that moto does not make are records: made-up id, made-up
   attributes of a plausible shape, no behaviour.
 * Rollback of an update in place sets the old properties again, which adds a third version to a launch template, as
   on AWS, and fails only where /mock/fail says so, or where the mock itself failed.
 * Fn::GetAtt of a property that can be written passes; AWS takes only what a type's documentation lists.
 * Exports may have the same name twice and may go while imported; NoEcho parameters are shown.
 * At delay 0 a change set is ready at once: CREATE_PENDING never shows, CREATE_IN_PROGRESS only with a delay.
 * Retain of S3, KMS and volumes keeps moto's object; UpdateReplacePolicy Snapshot keeps the volume instead.
 * Public parameters under /aws/service/ give an image id derived from their name, whether AWS has them or not, and
   DescribeImages does not know those images.
 * Bucket policies, encryption, ownership, public access and lifecycle rules of templates reach no bucket.
 * A load balancer's full name and other attributes that moto lacks are made up; attributes with a dot in their name
   are the text `LogicalId.Attribute`.
 * What a template does not say keeps moto's defaults: public addresses are of 127.0.0.0/8, ids of zones have no Z.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import copy
import dataclasses
import datetime
import functools
import hashlib
import importlib
import importlib.util
import io
import ipaddress
import json
import os
import pathlib
import random
import re
import sys
import threading
import time
import traceback
import unittest.mock
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from xml.sax.saxutils import escape

import permissions
import yaml
from parent import end_with_parent

TEMPLATE_BODY_LIMIT = 51_200
TEMPLATE_URL_LIMIT = 1_000_000
RESOURCES_LIMIT = 500
NO_CHANGES = "The submitted information didn't contain changes. Submit different information to create a change set."
INVALID = (
    "The following hook(s)/validation failed: [AWS::EarlyValidation::PropertyValidation]. To troubleshoot Early "
    "Validation errors, use the DescribeEvents API for detailed failure information."
)
CANCELLED = "Resource creation cancelled"
UPDATE_CANCELLED = "Resource update cancelled"

Json = Any


class AwsError(Exception):
    """An error that the client gets as AWS would say it."""

    def __init__(self, code: str, message: str, status: int = 400):
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


def validation_error(message: str) -> AwsError:
    return AwsError("ValidationError", message)


# --- Templates -------------------------------------------------------------------------------------------------------


class TemplateLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML with CloudFormation's short tags, which become their long form."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Json:
        # Keys are names: a condition may be called `Yes`, which YAML 1.1 takes for true.
        return {key.value: self.construct_object(value, deep) for key, value in node.value}


def short_tag(loader: Any, suffix: str, node: yaml.Node) -> Json:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        return {name: value.split(".", 1) if suffix == "GetAtt" else value}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    return {name: loader.construct_mapping(node, deep=True)}


TemplateLoader.add_multi_constructor("!", short_tag)
# CloudFormation reads `Version: 2012-10-17` as text, YAML 1.1 as a date.
TemplateLoader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: loader.construct_scalar(node))


@functools.lru_cache(maxsize=256)
def parse_template(text: str) -> Json:
    """The template as data. Shared by all who ask for the same text: nobody may change it."""
    try:
        template = yaml.load(text, TemplateLoader)
    except yaml.YAMLError as error:
        raise validation_error(f"Template format error: YAML not well-formed. ({error})") from error
    if not isinstance(template, dict):
        raise validation_error("Template format error: unsupported structure.")
    if not template.get("Resources"):
        raise validation_error("Template format error: At least one Resources member must be defined.")
    if len(template["Resources"]) > RESOURCES_LIMIT:
        count = len(template["Resources"])
        raise validation_error(
            f"Template format error: Number of resources, {count}, is greater than maximum allowed, {RESOURCES_LIMIT}"
        )
    return template


@dataclasses.dataclass(frozen=True)
class Reference:
    """A Ref (no attribute) or a Fn::GetAtt, wherever it stands."""

    name: str
    attribute: str | None


def references(value: Json) -> Iterator[Reference]:
    """All references in a piece of a template, in the order in which they stand."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        if len(value) == 1:
            ((name, argument),) = value.items()
            if name == "Ref":
                yield Reference(argument, None)
                return
            if name == "Fn::GetAtt":
                yield Reference(*get_att_parts(argument))
                return
            if name == "Fn::Sub":
                yield from sub_references(argument)
                return
        for item in value.values():
            yield from references(item)


def get_att_parts(argument: Json) -> tuple[str, str]:
    parts = argument.split(".", 1) if isinstance(argument, str) else argument
    return str(parts[0]), ".".join(str(part) for part in parts[1:])


def sub_references(argument: Json) -> Iterator[Reference]:
    text, variables = argument if isinstance(argument, list) else (argument, {})
    yield from references(list(variables.values()))
    for name in re.findall(r"\$\{([^!}][^}]*)\}", text):
        name = name.strip()
        if name not in variables:
            logical_id, _, attribute = name.partition(".")
            yield Reference(logical_id, attribute or None)


def dependencies(definition: Json, names: Iterable[str]) -> set[str]:
    """The other resources, out of `names`, that must exist before this one."""
    explicit = definition.get("DependsOn", [])
    explicit = [explicit] if isinstance(explicit, str) else explicit
    implicit = [reference.name for reference in references(definition.get("Properties", {}))]
    return set(names).intersection([*explicit, *implicit])


# --- Resource schemas ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Schema:
    """What the schema of a resource type says about its properties. Paths are split at their slashes."""

    known: bool
    properties: frozenset[str]
    required: tuple[str, ...]
    attributes: tuple[str, ...]
    create_only: tuple[tuple[str, ...], ...]
    maybe_create_only: tuple[tuple[str, ...], ...]
    identifier: tuple[str, ...]
    tag_property: str | None


NO_SCHEMA = Schema(False, frozenset(), (), (), (), (), (), None)

# What AWS documents as "Updates are not supported" or as a replacement, and the schemas do not say.
ALSO_CREATE_ONLY = {"AWS::EC2::Volume": ("AvailabilityZone", "Encrypted", "KmsKeyId", "SnapshotId")}


@functools.lru_cache(maxsize=1)
def schema_folder() -> pathlib.Path:
    """cfn-lint's data, without the second that importing cfn-lint takes."""
    return pathlib.Path(importlib.util.find_spec("cfnlint").origin).parent / "data" / "schemas"


@functools.lru_cache(maxsize=8)
def schema_hashes(region: str) -> dict[str, str]:
    return json.loads((schema_folder() / "providers" / f"{region}.json").read_text())


@functools.lru_cache(maxsize=512)
def schema_of(region: str, resource_type: str) -> Schema:
    digest = schema_hashes(region).get(resource_type)
    if digest is None:
        return NO_SCHEMA
    return read_schema(resource_type, json.loads((schema_folder() / "resources" / f"{digest}.json").read_text()))


def read_schema(resource_type: str, data: Json) -> Schema:
    def paths(key: str) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(path.split("/")[2:]) for path in data.get(key) or ())

    extra = tuple((name,) for name in ALSO_CREATE_ONLY.get(resource_type, ()))
    tagging = data.get("tagging") or {}
    tag_property = tagging.get("tagProperty", "/properties/Tags").rsplit("/", 1)[-1]
    return Schema(
        known=True,
        properties=frozenset(data.get("properties", {})),
        required=tuple(data.get("required") or ()),
        attributes=tuple(".".join(path) for path in paths("readOnlyProperties")),
        create_only=paths("createOnlyProperties") + extra,
        maybe_create_only=paths("conditionalCreateOnlyProperties"),
        identifier=tuple(".".join(path) for path in paths("primaryIdentifier")),
        tag_property=tag_property if tag_property in data.get("properties", {}) else None,
    )


def at_path(value: Json, path: tuple[str, ...]) -> Json:
    """The value at a path of a schema; `*` takes all items of a list."""
    for position, name in enumerate(path):
        if isinstance(value, list):
            rest = path[position + 1 :] if name == "*" else path[position:]
            return [at_path(item, rest) for item in value]
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


# --- Intrinsic functions ---------------------------------------------------------------------------------------------


class NoValue:
    """What `Ref: AWS::NoValue` gives: whatever holds it goes away."""


NO_VALUE = NoValue()


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a stack lives."""

    account: str
    region: str

    @property
    def partition(self) -> str:
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"

    @property
    def url_suffix(self) -> str:
        return "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com"

    def arn(self, service: str, resource: str, regional: bool = True) -> str:
        region = self.region if regional else ""
        return f"arn:{self.partition}:{service}:{region}:{self.account}:{resource}"


class Evaluation:
    """Resolves the intrinsic functions of one template with one set of parameters."""

    def __init__(
        self,
        template: Json,
        parameters: dict[str, Json],
        pseudo: dict[str, Json],
        ref: Callable[[str], str],
        get_att: Callable[[str, str], Json],
        import_value: Callable[[str], str],
    ):
        self.template, self.parameters, self.pseudo = template, parameters, pseudo
        self.ref, self.get_att, self.import_value = ref, get_att, import_value
        self.conditions: dict[str, bool] = {}

    def condition(self, name: str) -> bool:
        if name not in self.conditions:
            if name not in self.template.get("Conditions", {}):
                raise validation_error(f"Template error: unresolved condition dependency {name}")
            self.conditions[name] = is_true(self.resolve(self.template["Conditions"][name]))
        return self.conditions[name]

    def included(self, definition: Json) -> bool:
        """Whether the condition of a resource or output, if it has one, holds."""
        return "Condition" not in definition or self.condition(definition["Condition"])

    def resources(self) -> dict[str, Json]:
        return {name: one for name, one in self.template["Resources"].items() if self.included(one)}

    def resolve(self, value: Json) -> Json:
        if isinstance(value, list):
            return [item for item in map(self.resolve, value) if item is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            if function := self.functions.get(name):
                return function(argument)
            if name.startswith("Fn::"):
                raise validation_error(f"Template format error: the mock does not know the function {name}")
        resolved = {name: self.resolve(item) for name, item in value.items()}
        return {name: item for name, item in resolved.items() if item is not NO_VALUE}

    @functools.cached_property
    def functions(self) -> dict[str, Callable[[Json], Json]]:
        return {
            "Ref": self.fn_ref,
            "Condition": lambda name: (
                self.condition(name) if isinstance(name, str) else {"Condition": self.resolve(name)}
            ),
            "Fn::GetAtt": lambda argument: self.get_att(*get_att_parts(self.resolve(argument))),
            "Fn::Sub": self.fn_sub,
            "Fn::Join": lambda argument: argument[0].join(map(text_of, self.resolve(argument[1]))),
            "Fn::Split": lambda argument: self.resolve(argument[1]).split(argument[0]),
            "Fn::Select": self.fn_select,
            "Fn::If": lambda argument: self.resolve(argument[1 if self.condition(argument[0]) else 2]),
            "Fn::Equals": lambda argument: len({text_of(item) for item in self.resolve(argument)}) == 1,
            "Fn::Not": lambda argument: not is_true(self.resolve(argument[0])),
            "Fn::And": lambda argument: all(is_true(self.resolve(item)) for item in argument),
            "Fn::Or": lambda argument: any(is_true(self.resolve(item)) for item in argument),
            "Fn::FindInMap": self.fn_find_in_map,
            "Fn::GetAZs": self.fn_get_azs,
            "Fn::Cidr": self.fn_cidr,
            "Fn::Base64": lambda argument: base64.b64encode(text_of(self.resolve(argument)).encode()).decode(),
            "Fn::Length": lambda argument: len(self.resolve(argument)),
            "Fn::ToJsonString": lambda argument: json.dumps(self.resolve(argument)),
            "Fn::ImportValue": lambda argument: self.import_value(self.resolve(argument)),
        }

    def fn_ref(self, name: str) -> Json:
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in self.pseudo:
            return self.pseudo[name]
        return self.parameters[name] if name in self.parameters else self.ref(name)

    def fn_sub(self, argument: Json) -> str:
        text, variables = argument if isinstance(argument, list) else (argument, {})
        values = {name: text_of(self.resolve(item)) for name, item in variables.items()}

        def replacement(match: re.Match[str]) -> str:
            name = match[1].strip()
            if name.startswith("!"):
                return "${" + name[1:] + "}"
            if name in values:
                return values[name]
            logical_id, _, attribute = name.partition(".")
            return text_of(self.get_att(logical_id, attribute) if attribute else self.fn_ref(name))

        return re.sub(r"\$\{([^}]+)\}", replacement, text)

    def fn_select(self, argument: Json) -> Json:
        index, items = self.resolve(argument)
        try:
            return items[int(index)]
        except IndexError as error:
            raise validation_error(
                "Template error: Fn::Select cannot select nonexistent value at index " + str(index)
            ) from error

    def fn_find_in_map(self, argument: Json) -> Json:
        name, first, second, *options = [self.resolve(item) for item in argument]
        try:
            return self.template["Mappings"][name][first][second]
        except KeyError as error:
            if options and "DefaultValue" in options[0]:
                return options[0]["DefaultValue"]
            raise validation_error(f"Template error: Unable to get mapping for {name}::{first}::{second}") from error

    def fn_get_azs(self, argument: Json) -> list[str]:
        region = self.resolve(argument) or self.pseudo["AWS::Region"]
        return [f"{region}{letter}" for letter in "abc"]

    def fn_cidr(self, argument: Json) -> list[str]:
        block, count, *bits = self.resolve(argument)
        network = ipaddress.ip_network(block)
        prefix = network.max_prefixlen - int(bits[0] if bits else 8)
        subnets = network.subnets(new_prefix=prefix)
        return [str(subnet) for _, subnet in zip(range(int(count)), subnets, strict=False)]


def text_of(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def is_true(value: Json) -> bool:
    return value is True or value == "true"


# --- What is in memory -----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Resource:
    """One resource of a stack, as it is now."""

    logical_id: str
    type: str
    definition: Json
    properties: Json
    tags: dict[str, str]
    depends: set[str]
    physical_id: str = ""
    attributes: dict[str, Json] = dataclasses.field(default_factory=dict)
    status: str = ""
    reason: str = ""
    updated: datetime.datetime | None = None
    model: Any = None  # moto's object, if moto has one

    def keeps(self, policy: str) -> bool:
        """Whether the policy (DeletionPolicy or UpdateReplacePolicy) keeps what it applies to.

        When a `creation` is undone, RetainExceptOnCreate keeps nothing."""
        if policy == "creation":
            return self.definition.get("DeletionPolicy") in ("Retain", "Snapshot")
        return self.definition.get(policy) in ("Retain", "Snapshot", "RetainExceptOnCreate")


@dataclasses.dataclass
class Stack:
    name: str
    id: str
    place: Place
    status: str
    created: datetime.datetime
    reason: str = ""
    text: str = ""
    template: Json = None
    parameters: dict[str, str] = dataclasses.field(default_factory=dict)
    resolved: dict[str, str] = dataclasses.field(default_factory=dict)
    tags: dict[str, str] = dataclasses.field(default_factory=dict)
    capabilities: list[str] = dataclasses.field(default_factory=list)
    outputs: list[Json] = dataclasses.field(default_factory=list)
    resources: dict[str, Resource] = dataclasses.field(default_factory=dict)
    in_flight: dict[str, Resource] = dataclasses.field(default_factory=dict)
    gone: list[Resource] = dataclasses.field(default_factory=list)
    completed: list[str] = dataclasses.field(default_factory=list)
    events: list[Json] = dataclasses.field(default_factory=list)
    protected: bool = False
    policy: str = ""
    updated: datetime.datetime | None = None
    deleted: datetime.datetime | None = None
    change_set_id: str = ""
    token: str = ""
    # The deployment that failed and can still be taken back.
    stuck: Operation | None = None

    @property
    def busy(self) -> bool:
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    @property
    def exists(self) -> bool:
        return self.status != "DELETE_COMPLETE"

    def called(self, name: str) -> bool:
        """Whether a test means this stack."""
        return name in (self.name, self.id, self.tags.get("kaws/stack"))


@dataclasses.dataclass
class ChangeSet:
    name: str
    id: str
    stack: Stack
    type: str
    text: str
    template: Json
    parameters: dict[str, str]
    resolved: dict[str, str]
    tags: dict[str, str]
    capabilities: list[str]
    changes: list[Json]
    changed: bool
    description: str
    created: datetime.datetime
    ready: float
    on_failure: str
    reverts: bool = False
    executed: bool = False
    obsolete: bool = False
    # What early validation found.
    invalid: list[Json] = dataclasses.field(default_factory=list)

    @property
    def status(self) -> str:
        if time.monotonic() < self.ready:
            return "CREATE_IN_PROGRESS"
        return "CREATE_COMPLETE" if self.changed and not self.invalid else "FAILED"

    @property
    def execution_status(self) -> str:
        if self.executed:
            return "EXECUTE_COMPLETE"
        if self.obsolete:
            return "OBSOLETE"
        return "AVAILABLE" if self.status == "CREATE_COMPLETE" else "UNAVAILABLE"


@dataclasses.dataclass
class PlannedFailure:
    """What `POST /mock/fail` asks for."""

    stack: str
    logical_id: str
    reason: str
    on: tuple[str, ...]


@dataclasses.dataclass
class World:
    """Everything the mock remembers, except what moto remembers."""

    account: str
    lock: Any = dataclasses.field(default_factory=threading.RLock)
    started: float = dataclasses.field(default_factory=time.monotonic)
    # A reset makes the next generation: operations of an older one stop at their next step.
    generation: int = 0
    delay: float = 0.0
    stacks: list[Stack] = dataclasses.field(default_factory=list)
    change_sets: list[ChangeSet] = dataclasses.field(default_factory=list)
    calls: list[Json] = dataclasses.field(default_factory=list)
    faults: list[Json] = dataclasses.field(default_factory=list)
    failures: list[PlannedFailure] = dataclasses.field(default_factory=list)
    drifts: list[tuple[str, str, Json]] = dataclasses.field(default_factory=list)
    # Roles of machines, by their access keys.
    machines: dict[str, str] = dataclasses.field(default_factory=dict)
    signals: list[Json] = dataclasses.field(default_factory=list)

    def reset(self) -> None:
        self.generation += 1
        self.delay, self.started = 0.0, time.monotonic()
        memories = (self.stacks, self.change_sets, self.calls, self.faults, self.failures, self.drifts)
        memories += (self.machines, self.signals)
        for memory in memories:
            memory.clear()

    def stack(self, place: Place, name_or_id: str) -> Stack:
        """A stack that exists by name, or any stack by id, deleted ones too."""
        for stack in reversed(self.stacks):
            if stack.place == place and (stack.id == name_or_id or (stack.name == name_or_id and stack.exists)):
                return stack
        raise validation_error(f"Stack with id {name_or_id} does not exist")

    def take_failure(self, stack: Stack, logical_id: str, action: str) -> str | None:
        """The reason why this resource is to fail now, once."""
        for failure in self.failures:
            if failure.logical_id == logical_id and stack.called(failure.stack) and action in failure.on:
                self.failures.remove(failure)
                return failure.reason
        return None


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def hex_digits(count: int) -> str:
    return "".join(random.choices("0123456789abcdef", k=count))


def suffix(count: int = 12) -> str:
    return "".join(random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=count))


# --- Resources in moto -----------------------------------------------------------------------------------------------


class Moto:
    """moto's memory of one account and region. Services are imported when first asked for."""

    def __init__(self, place: Place):
        self.place = place

    def regional(self, service: str) -> Any:
        module = importlib.import_module(f"moto.{service}.models")
        return getattr(module, f"{service}_backends")[self.place.account][self.place.region]

    def worldwide(self, service: str) -> Any:
        module = importlib.import_module(f"moto.{service}.models")
        return getattr(module, f"{service}_backends")[self.place.account][self.place.partition]

    @property
    def ec2(self) -> Any:
        return self.regional("ec2")

    @property
    def elbv2(self) -> Any:
        return self.regional("elbv2")

    @property
    def kms(self) -> Any:
        return self.regional("kms")

    @property
    def autoscaling(self) -> Any:
        return self.regional("autoscaling")

    @property
    def iam(self) -> Any:
        return self.worldwide("iam")

    @property
    def s3(self) -> Any:
        return self.worldwide("s3")

    @property
    def route53(self) -> Any:
        return self.worldwide("route53")


@dataclasses.dataclass
class Making:
    """A resource that is about to be made or changed."""

    moto: Moto
    stack: Stack
    resource: Resource

    @property
    def properties(self) -> Json:
        return self.resource.properties

    def name(self, key: str, limit: int = 128) -> str:
        """The name that the template gives, or else one as CloudFormation makes them."""
        if key in self.properties:
            return self.properties[key]
        prefix = f"{self.stack.name}-{self.resource.logical_id}"
        ending = suffix(12)
        return f"{prefix[: limit - len(ending) - 1].rstrip('-')}-{ending}"


Made = tuple[str, Any]  # the physical id, and moto's object


def make_from_class(path: str, name_property: str | None = None, limit: int = 128) -> Callable[[Making], Made]:
    """Makes a resource the way moto's own CloudFormation does."""

    def make(making: Making) -> Made:
        module_name, class_name = path.split(":")
        model_class = getattr(importlib.import_module(module_name), class_name)
        name = making.name(name_property, limit) if name_property else making.resource.logical_id
        properties = copy.deepcopy(making.properties)
        if name_property:
            properties[name_property] = name
        place = making.moto.place
        model = model_class.create_from_cloudformation_json(
            name, {"Properties": properties}, place.account, place.region
        )
        physical_id = getattr(model, "physical_resource_id", None) or making.resource.logical_id
        return str(physical_id), model

    return make


def make_bucket(making: Making) -> Made:
    name = making.name("BucketName", 63).lower()
    try:
        bucket = making.moto.s3.create_bucket(name, making.moto.place.region)
    except Exception as error:
        raise AwsError("AlreadyExists", f"{name} already exists") from error
    configure_bucket(making, name)
    return name, bucket


def configure_bucket(making: Making, name: str) -> None:
    s3, properties = making.moto.s3, making.properties
    versioning = properties.get("VersioningConfiguration", {}).get("Status")
    if versioning or s3.get_bucket_versioning(name):
        s3.put_bucket_versioning(name, versioning or "Suspended")
    s3.put_bucket_tagging(name, all_tags(making))


def update_bucket(making: Making, _: Resource) -> None:
    configure_bucket(making, making.resource.physical_id)


def delete_bucket(moto: Moto, resource: Resource) -> None:
    name = resource.physical_id
    if moto.s3.get_bucket(name).keys:
        raise AwsError(
            "BucketNotEmpty", "The bucket you tried to delete is not empty. You must delete all versions in the bucket."
        )
    moto.s3.delete_bucket(name)


def make_bucket_policy(making: Making) -> Made:
    # Not moto's put_bucket_policy: moto would apply the policy to everybody, without its conditions. A policy that
    # denies everything that comes without TLS would lock the tests out.
    making.moto.s3.get_bucket(making.properties["Bucket"])
    return making.properties["Bucket"], None


def make_provider(making: Making) -> Made:
    properties = making.properties
    provider = making.moto.iam.create_open_id_connect_provider(
        properties["Url"], properties.get("ThumbprintList", ["0" * 40]), properties.get("ClientIdList", []), []
    )
    return provider.arn, provider


def update_provider(making: Making, _: Resource) -> None:
    provider = making.resource.model
    provider._client_id_list = making.properties.get("ClientIdList", [])
    provider._thumbprint_list = making.properties.get("ThumbprintList", ["0" * 40])


def make_role(making: Making) -> Made:
    properties = making.properties
    name = making.name("RoleName", 64)
    document = properties["AssumeRolePolicyDocument"]
    making.moto.iam.create_role(
        role_name=name,
        assume_role_policy_document=document if isinstance(document, str) else json.dumps(document),
        path=properties.get("Path", "/"),
        permissions_boundary=properties.get("PermissionsBoundary", ""),
        description=properties.get("Description", ""),
        tags=[{"Key": key, "Value": value} for key, value in own_tags(making).items()],
        max_session_duration=properties.get("MaxSessionDuration", 3600),
    )
    role = making.moto.iam.get_role(name)
    set_role_policies(making, role)
    return name, role


def set_role_policies(making: Making, role: Any) -> None:
    for name in list(role.policies):
        role.delete_policy(name)
    for policy in making.properties.get("Policies", []):
        role.put_policy(policy["PolicyName"], json.dumps(policy["PolicyDocument"]))


def update_role(making: Making, _: Resource) -> None:
    role = making.resource.model
    document = making.properties["AssumeRolePolicyDocument"]
    role.assume_role_policy_document = document if isinstance(document, str) else json.dumps(document)
    role.description = making.properties.get("Description", "")
    set_role_policies(making, role)


def delete_role(moto: Moto, resource: Resource) -> None:
    for name in list(resource.model.policies):
        resource.model.delete_policy(name)
    resource.model.managed_policies.clear()
    moto.iam.delete_role(resource.physical_id)


def update_profile(making: Making, _: Resource) -> None:
    making.resource.model.roles = [making.moto.iam.get_role(name) for name in making.properties["Roles"]]


def make_key(making: Making) -> Made:
    properties = making.properties
    tags = [{"TagKey": key, "TagValue": value} for key, value in own_tags(making).items()]
    policy = json.dumps(properties.get("KeyPolicy", {}))
    usage, spec = properties.get("KeyUsage", "ENCRYPT_DECRYPT"), properties.get("KeySpec", "SYMMETRIC_DEFAULT")
    key = making.moto.kms.create_key(policy, usage, spec, properties.get("Description", ""), tags)
    key.key_rotation_status = properties.get("EnableKeyRotation", False)
    return key.id, key


def update_key(making: Making, _: Resource) -> None:
    key = making.resource.model
    key.policy = json.dumps(making.properties.get("KeyPolicy", {}))
    key.description = making.properties.get("Description", "")
    key.key_rotation_status = making.properties.get("EnableKeyRotation", False)


def update_alias(making: Making, _: Resource) -> None:
    making.moto.kms.update_alias(making.properties["AliasName"], making.properties["TargetKeyId"])


def make_volume(making: Making) -> Made:
    properties = making.properties
    volume = making.moto.ec2.create_volume(
        size=int(properties.get("Size", 1)),
        zone_name=properties["AvailabilityZone"],
        encrypted=is_true(properties.get("Encrypted", False)),
        kms_key_id=properties.get("KmsKeyId"),
        volume_type=properties.get("VolumeType", "gp2"),
        iops=properties.get("Iops"),
        throughput=properties.get("Throughput"),
    )
    return volume.id, volume


def make_interface(making: Making) -> Made:
    # moto's own reads SecurityGroups, where CloudFormation has GroupSet.
    properties = making.properties
    interface = making.moto.ec2.create_network_interface(
        making.moto.ec2.get_subnet(properties["SubnetId"]),
        properties.get("PrivateIpAddress"),
        group_ids=properties.get("GroupSet", []),
        description=properties.get("Description"),
    )
    return interface.id, interface


def make_association(making: Making) -> Made:
    # moto's own gives the id of the route table, and forgets that main tables have one too.
    properties = making.properties
    association = making.moto.ec2.associate_route_table(properties["RouteTableId"], subnet_id=properties["SubnetId"])
    return getattr(association, "id", association), None


def update_with_class(making: Making, _: Resource) -> None:
    """Changes a resource the way moto's own CloudFormation does."""
    model, place = making.resource.model, making.moto.place
    properties = {"Properties": copy.deepcopy(making.properties)}
    type(model).update_from_cloudformation_json(model, "", properties, place.account, place.region)


def group_arguments(making: Making) -> Json:
    """The properties of an Auto Scaling group, as moto wants them to make and to change one."""
    properties = copy.deepcopy(making.properties)

    def number(key: str) -> int | None:
        return int(properties[key]) if key in properties else None

    return {
        "availability_zones": properties.get("AvailabilityZones", []),
        "desired_capacity": number("DesiredCapacity"),
        "max_size": number("MaxSize"),
        "min_size": number("MinSize"),
        "launch_config_name": properties.get("LaunchConfigurationName"),
        "launch_template": properties.get("LaunchTemplate", {}),
        "vpc_zone_identifier": ",".join(properties.get("VPCZoneIdentifier", [])) or None,
        "health_check_period": number("HealthCheckGracePeriod"),
        "health_check_type": properties.get("HealthCheckType"),
        "mixed_instances_policy": properties.get("MixedInstancesPolicy", {}),
    }


def make_group(making: Making) -> Made:
    name = making.name("AutoScalingGroupName", 255)
    group = making.moto.autoscaling.create_auto_scaling_group(
        name=name,
        default_cooldown=making.properties.get("Cooldown"),
        load_balancers=[],
        target_group_arns=making.properties.get("TargetGroupARNs", []),
        placement_group=None,
        termination_policies=making.properties.get("TerminationPolicies", []),
        tags=group_tags(making, name),
        new_instances_protected_from_scale_in=False,
        **group_arguments(making),
    )
    return name, group


def group_tags(making: Making, name: str) -> list[Json]:
    own = {tag["Key"]: tag for tag in making.properties.get("Tags", [])}
    stack = {
        key: {"Key": key, "Value": value, "PropagateAtLaunch": True}
        for key, value in all_tags(making, own=False).items()
    }
    common = {"ResourceId": name, "ResourceType": "auto-scaling-group"}
    return [
        {**tag, **common, "PropagateAtLaunch": is_true(tag["PropagateAtLaunch"])} for tag in {**stack, **own}.values()
    ]


def update_group(making: Making, old: Resource) -> None:
    group = making.resource.model
    arguments = group_arguments(making)
    if arguments["desired_capacity"] is None:
        # Left out, it stays what the autoscaler made of it, within the new bounds.
        arguments["desired_capacity"] = max(arguments["min_size"], min(group.desired_capacity, arguments["max_size"]))
    making.moto.autoscaling.update_auto_scaling_group(name=group.name, **arguments)
    group.tags = group_tags(making, group.name)
    group.target_group_arns = making.properties.get("TargetGroupARNs", [])


def delete_group(moto: Moto, resource: Resource) -> None:
    instances = {state.instance.id for state in resource.model.instance_states}
    moto.autoscaling.delete_auto_scaling_group(resource.physical_id)
    # moto keeps the disks of instances that are gone.
    for volume in list(moto.ec2.volumes.values()):
        if volume.attachment and volume.attachment.instance.id in instances:
            del moto.ec2.volumes[volume.id]


def make_balancer(making: Making) -> Made:
    properties = making.properties
    models = importlib.import_module("moto.elbv2.models")
    kind = {"network": "net", "gateway": "gwy"}.get(properties.get("Type"), "app")
    make_arn = models.make_arn_for_load_balancer
    # moto calls every balancer an application balancer in its ARN.
    with unittest.mock.patch.object(
        models, "make_arn_for_load_balancer", lambda **parts: make_arn(**parts).replace("/app/", f"/{kind}/")
    ):
        balancer = making.moto.elbv2.create_load_balancer(
            making.name("Name", 32),
            properties.get("SecurityGroups", []),
            properties.get("Subnets", []),
            scheme=properties.get("Scheme", "internet-facing"),
            loadbalancer_type=properties.get("Type", "application"),
            tags=[{"Key": key, "Value": value} for key, value in own_tags(making).items()],
        )
    return balancer.arn, balancer


def make_zone(making: Making) -> Made:
    networks = making.properties.get("VPCs", [])
    first = networks[0] if networks else {}
    zone = making.moto.route53.create_hosted_zone(
        making.properties["Name"],
        private_zone=bool(networks),
        vpcid=first.get("VPCId"),
        vpcregion=first.get("VPCRegion"),
        comment=making.properties.get("HostedZoneConfig", {}).get("Comment"),
    )
    for network in networks[1:]:
        zone.add_vpc(network["VPCId"], network["VPCRegion"])
    return zone.resource_id, zone


def make_record(making: Making) -> Made:
    properties = copy.deepcopy(making.properties)
    zone = making.moto.route53.get_hosted_zone(properties["HostedZoneId"])
    zone.upsert_rrset(properties)
    return properties["Name"].rstrip("."), None


def update_record(making: Making, old: Resource) -> None:
    delete_record(making.moto, old)
    make_record(making)


def delete_record(moto: Moto, resource: Resource) -> None:
    properties = resource.properties
    moto.route53.get_hosted_zone(properties["HostedZoneId"]).delete_rrset(copy.deepcopy(properties))


def delete_zone(moto: Moto, resource: Resource) -> None:
    moto.route53.zones.pop(resource.physical_id, None)


def make_record_only(making: Making) -> Made:
    """A resource that moto does not make: an id that looks like one of its type."""
    identifier = schema_of(making.moto.place.region, making.resource.type).identifier
    if len(identifier) == 1 and identifier[0] in making.properties:
        return str(making.properties[identifier[0]]), None
    if identifier and identifier[0].endswith("Arn"):
        return made_up_attribute(making.moto.place, making.resource, identifier[0]), None
    return f"{making.stack.name}-{making.resource.logical_id}-{suffix()}", None


def make_ingress(making: Making) -> Made:
    """moto's own, but with the rule itself as the object: by that it is found again."""
    group = making.moto.ec2.get_security_group_from_id(making.properties["GroupId"])
    before = {rule.id for rule in group.ingress_rules} if group else set()
    make_from_class("moto.ec2.models.security_groups:SecurityGroupIngress")(making)
    rule = next(rule for rule in group.ingress_rules if rule.id not in before)
    return rule.id, rule


def delete_ingress(moto: Moto, resource: Resource) -> None:
    # Not moto's revoke: that fails when the group that the rule names is gone.
    group = moto.ec2.get_security_group_from_id(resource.properties["GroupId"])
    if group:
        group.ingress_rules = [rule for rule in group.ingress_rules if rule.id != resource.physical_id]


def delete_profile(moto: Moto, resource: Resource) -> None:
    moto.iam.delete_instance_profile(resource.physical_id, ignore_attached_roles=True)


def delete_key(moto: Moto, resource: Resource) -> None:
    moto.kms.schedule_key_deletion(resource.physical_id, 30)


def make_gateway_attachment(making: Making) -> Made:
    vpc_id = making.properties["VpcId"]
    making.moto.ec2.attach_internet_gateway(making.properties["InternetGatewayId"], vpc_id)
    return f"IGW|{vpc_id}", None


def delete_gateway_attachment(moto: Moto, resource: Resource) -> None:
    moto.ec2.detach_internet_gateway(resource.properties["InternetGatewayId"], resource.properties["VpcId"])


def delete_route(moto: Moto, resource: Resource) -> None:
    moto.ec2.delete_route(resource.properties["RouteTableId"], resource.properties.get("DestinationCidrBlock"))


def by_id(service: str, method: str) -> Callable[[Moto, Resource], None]:
    """Deletes through the method of a moto backend that takes the physical id."""
    return lambda moto, resource: getattr(getattr(moto, service), method)(resource.physical_id)


def nothing(*_: Any) -> None:
    """The update or deletion of what leaves no trace in moto."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """How resources of one type are made, changed and deleted."""

    make: Callable[[Making], Made] = make_record_only
    delete: Callable[[Moto, Resource], None] = nothing
    update: Callable[[Making, Resource], None] = nothing


EC2 = "moto.ec2.models"
KINDS = {
    "AWS::AutoScaling::AutoScalingGroup": Kind(make_group, delete_group, update_group),
    "AWS::EC2::EIP": Kind(
        make_from_class(f"{EC2}.elastic_ip_addresses:ElasticAddress"),
        lambda moto, resource: moto.ec2.release_address(allocation_id=resource.model.allocation_id),
    ),
    "AWS::EC2::InternetGateway": Kind(
        make_from_class(f"{EC2}.internet_gateways:InternetGateway"), by_id("ec2", "delete_internet_gateway")
    ),
    "AWS::EC2::LaunchTemplate": Kind(
        make_from_class(f"{EC2}.launch_templates:LaunchTemplate", "LaunchTemplateName"),
        lambda moto, resource: moto.ec2.delete_launch_template(resource.model.name, None),
        update_with_class,
    ),
    "AWS::EC2::NatGateway": Kind(make_from_class(f"{EC2}.nat_gateways:NatGateway"), by_id("ec2", "delete_nat_gateway")),
    "AWS::EC2::NetworkInterface": Kind(make_interface, by_id("ec2", "delete_network_interface")),
    "AWS::EC2::Route": Kind(make_from_class(f"{EC2}.route_tables:Route"), delete_route),
    "AWS::EC2::RouteTable": Kind(make_from_class(f"{EC2}.route_tables:RouteTable"), by_id("ec2", "delete_route_table")),
    "AWS::EC2::SecurityGroup": Kind(
        make_from_class(f"{EC2}.security_groups:SecurityGroup", "GroupName"),
        lambda moto, resource: moto.ec2.delete_security_group(group_id=resource.physical_id),
    ),
    "AWS::EC2::SecurityGroupIngress": Kind(make_ingress, delete_ingress),
    "AWS::EC2::Subnet": Kind(make_from_class(f"{EC2}.subnets:Subnet"), by_id("ec2", "delete_subnet")),
    "AWS::EC2::SubnetRouteTableAssociation": Kind(make_association, by_id("ec2", "disassociate_route_table")),
    "AWS::EC2::VPC": Kind(make_from_class(f"{EC2}.vpcs:VPC"), by_id("ec2", "delete_vpc")),
    "AWS::EC2::VPCEndpoint": Kind(
        make_from_class(f"{EC2}.vpcs:VPCEndPoint"),
        lambda moto, resource: moto.ec2.delete_vpc_endpoints([resource.physical_id]),
    ),
    "AWS::EC2::VPCGatewayAttachment": Kind(make_gateway_attachment, delete_gateway_attachment),
    "AWS::EC2::Volume": Kind(make_volume, by_id("ec2", "delete_volume")),
    "AWS::ElasticLoadBalancingV2::Listener": Kind(
        make_from_class("moto.elbv2.models:FakeListener"), by_id("elbv2", "delete_listener"), update_with_class
    ),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": Kind(make_balancer, by_id("elbv2", "delete_load_balancer")),
    "AWS::ElasticLoadBalancingV2::TargetGroup": Kind(
        make_from_class("moto.elbv2.models:FakeTargetGroup", "Name", 32), by_id("elbv2", "delete_target_group")
    ),
    "AWS::IAM::InstanceProfile": Kind(
        make_from_class("moto.iam.models:InstanceProfile", "InstanceProfileName"), delete_profile, update_profile
    ),
    "AWS::IAM::OIDCProvider": Kind(make_provider, by_id("iam", "delete_open_id_connect_provider"), update_provider),
    "AWS::IAM::Role": Kind(make_role, delete_role, update_role),
    "AWS::KMS::Alias": Kind(make_from_class("moto.kms.models:Alias"), by_id("kms", "delete_alias"), update_alias),
    "AWS::KMS::Key": Kind(make_key, delete_key, update_key),
    "AWS::Route53::HostedZone": Kind(make_zone, delete_zone),
    "AWS::Route53::RecordSet": Kind(make_record, delete_record, update_record),
    "AWS::S3::Bucket": Kind(make_bucket, delete_bucket, update_bucket),
    "AWS::S3::BucketPolicy": Kind(make_bucket_policy),
}
RECORD_ONLY = Kind()

# Attributes that moto's objects have under another name than CloudFormation's.
MODEL_FIELDS = {
    ("AWS::EC2::EIP", "PublicIp"): "public_ip",
    ("AWS::EC2::NetworkInterface", "PrimaryPrivateIpAddress"): "private_ip_address",
    ("AWS::EC2::Subnet", "AvailabilityZone"): "availability_zone",
    ("AWS::ElasticLoadBalancingV2::LoadBalancer", "DNSName"): "dns_name",
    ("AWS::ElasticLoadBalancingV2::LoadBalancer", "LoadBalancerArn"): "arn",
    ("AWS::ElasticLoadBalancingV2::LoadBalancer", "LoadBalancerName"): "name",
    ("AWS::ElasticLoadBalancingV2::TargetGroup", "TargetGroupName"): "name",
    ("AWS::IAM::OIDCProvider", "Arn"): "arn",
}


def own_tags(making: Making) -> dict[str, str]:
    """The tags of the resource, over those of its stack."""
    tag_property = schema_of(making.moto.place.region, making.resource.type).tag_property or "Tags"
    tags = making.properties.get(tag_property)
    own = {tag["Key"]: tag["Value"] for tag in tags if "Key" in tag} if isinstance(tags, list) else {}
    return {**making.resource.tags, **own}


def all_tags(making: Making, own: bool = True) -> dict[str, str]:
    """With the tags that CloudFormation itself sets."""
    return {
        **(own_tags(making) if own else making.resource.tags),
        "aws:cloudformation:stack-name": making.stack.name,
        "aws:cloudformation:stack-id": making.stack.id,
        "aws:cloudformation:logical-id": making.resource.logical_id,
    }


def tag_in_ec2(making: Making) -> None:
    """EC2 keeps tags by id, whatever they belong to."""
    resource = making.resource
    if resource.type.startswith("AWS::EC2::") and resource.model is not None:
        identifier = getattr(resource.model, "allocation_id", None) or getattr(resource.model, "id", None)
        if isinstance(identifier, str):
            if schema_of(making.moto.place.region, resource.type).tag_property:
                making.moto.ec2.tags.pop(identifier, None)
            making.moto.ec2.create_tags([identifier], all_tags(making))


def read_attributes(place: Place, resource: Resource) -> dict[str, Json]:
    """All attributes of a resource: moto's where moto has them, made-up ones else. Made-up ones never change."""
    attributes = {}
    for name in schema_of(place.region, resource.type).attributes:
        if "." in name:
            continue
        value = model_attribute(resource, name)
        if value is None:
            value = resource.attributes.get(name) or made_up_attribute(place, resource, name)
        attributes[name] = value
    return attributes


def model_attribute(resource: Resource, name: str) -> Json:
    """An attribute out of moto's object, if that has it."""
    field = MODEL_FIELDS.get((resource.type, name))
    if field:
        return getattr(resource.model, field, None)
    if resource.model is None or not hasattr(resource.model, "get_cfn_attribute"):
        return None
    # moto says in a dozen ways that it does not have an attribute.
    with contextlib.suppress(Exception):
        return resource.model.get_cfn_attribute(name)
    return None


def made_up_attribute(place: Place, resource: Resource, name: str) -> str:
    """Something of the right shape, by the attribute's name."""
    service, kind = resource.type.lower().split("::")[1:]
    service = {"elasticloadbalancingv2": "elasticloadbalancing"}.get(service, service)
    if resource.physical_id and (name == "Id" or name in schema_of(place.region, resource.type).identifier):
        return resource.physical_id
    if name.lower().endswith("arn"):
        regional = service not in ("iam", "s3", "route53")
        return place.arn(service, f"{kind}/{resource.logical_id}-{hex_digits(8)}", regional)
    if name.endswith(("DNSName", "DomainName", "Endpoint")):
        return f"{resource.logical_id.lower()}-{hex_digits(16)}.{service}.{place.region}.{place.url_suffix}"
    if name in ("CanonicalHostedZoneID", "HostedZoneId"):
        return "Z" + suffix(13)
    if name.endswith(("Ip", "IpAddress")):
        return f"10.255.{random.randrange(256)}.{random.randrange(1, 255)}"
    return f"{name.lower().removesuffix('id')}-{hex_digits(17)}"


# The network of what is somebody else's; wide enough for 256 subnets.
STRANGERS_NETWORK = "172.20.0.0/16"


def adopt_strangers(moto: Moto, properties: Json) -> None:
    """Lets what a resource names by id exist: clusters may use somebody else's VPC, subnets and zones."""
    if isinstance(zone := properties.get("HostedZoneId"), str) and "Name" in properties:
        adopt_zone(moto, zone, properties["Name"])
    for text in texts(properties):
        if re.fullmatch(r"vpc-[0-9a-f]{17}", text):
            adopt_vpc(moto, text)
        elif re.fullmatch(r"subnet-[0-9a-f]{17}", text):
            adopt_subnet(moto, text)


def texts(value: Json) -> Iterator[str]:
    """All texts in a value, whatever holds them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)


def adopt_zone(moto: Moto, zone_id: str, record: str) -> None:
    if zone_id not in moto.route53.zones:
        domain = record.rstrip(".").split(".", 1)[-1] + "."
        zone = moto.route53.create_hosted_zone(domain, private_zone=True)
        moto.route53.zones[zone_id] = moto.route53.zones.pop(zone.resource_id)
        zone.resource_id = zone_id


def adopt_vpc(moto: Moto, vpc_id: str) -> None:
    if vpc_id not in moto.ec2.vpcs:
        with unittest.mock.patch("moto.ec2.models.vpcs.random_vpc_id", lambda: vpc_id):
            moto.ec2.create_vpc(STRANGERS_NETWORK)


def adopt_subnet(moto: Moto, subnet_id: str) -> None:
    subnets = [subnet for zone in moto.ec2.subnets.values() for subnet in zone.values()]
    if subnet_id in [subnet.id for subnet in subnets]:
        return
    vpcs = [vpc.id for vpc in moto.ec2.vpcs.values() if vpc.cidr_block == STRANGERS_NETWORK] or ["vpc-" + "0" * 17]
    adopt_vpc(moto, vpcs[0])
    count = len([subnet for subnet in subnets if subnet.vpc_id == vpcs[0]])
    zone = moto.place.region + "abc"[count % 3]
    with unittest.mock.patch("moto.ec2.models.subnets.random_subnet_id", lambda: subnet_id):
        moto.ec2.create_subnet(vpcs[0], f"172.20.{count}.0/24", availability_zone=zone)


# --- Previews: what a change set would change ------------------------------------------------------------------------


def pseudo_parameters(stack: Stack) -> dict[str, Json]:
    return {
        "AWS::AccountId": stack.place.account,
        "AWS::NotificationARNs": [],
        "AWS::Partition": stack.place.partition,
        "AWS::Region": stack.place.region,
        "AWS::StackId": stack.id,
        "AWS::StackName": stack.name,
        "AWS::URLSuffix": stack.place.url_suffix,
    }


def parameter_values(template: Json, resolved: dict[str, str]) -> dict[str, Json]:
    """The parameters as functions see them: lists as lists."""
    values: dict[str, Json] = {}
    for name, value in resolved.items():
        kind = template.get("Parameters", {}).get(name, {}).get("Type", "String")
        values[name] = value.split(",") if "List" in kind else value
    return values


def exported_value(world: World, place: Place) -> Callable[[str], str]:
    def find(name: str) -> str:
        for stack in world.stacks:
            for output in stack.outputs if stack.place == place and stack.exists else ():
                if output.get("ExportName") == name:
                    return output["OutputValue"]
        raise validation_error(f"No export named {name} found.")

    return find


def evaluation_of(
    world: World, stack: Stack, template: Json, resolved: dict[str, str], resources: dict[str, Resource]
) -> Evaluation:
    """Evaluates with the resources as they are."""

    def find(logical_id: str) -> Resource:
        if logical_id not in resources:
            raise validation_error(
                f"Template error: instance of Ref or Fn::GetAtt references undefined resource {logical_id}"
            )
        return resources[logical_id]

    def get_att(logical_id: str, attribute: str) -> Json:
        resource = find(logical_id)
        if attribute in resource.attributes:
            return resource.attributes[attribute]
        return resource.properties.get(attribute, f"{logical_id}.{attribute}")

    return Evaluation(
        template,
        parameter_values(template, resolved),
        pseudo_parameters(stack),
        lambda logical_id: find(logical_id).physical_id,
        get_att,
        exported_value(world, stack.place),
    )


class Preview:
    """Compares a stack with what it would become.

    A value that only executing will tell (of a resource that is new, modified or replaced) is a text that no real
    value contains, so that what depends on it differs from what is there.
    """

    UNKNOWN = "\0known after execution\0"

    def __init__(self, world: World, stack: Stack, template: Json, resolved: dict[str, str], tags: dict[str, str]):
        self.stack, self.tags = stack, tags
        self.replacements: dict[str, str] = {}
        self.evaluation = evaluation_of(world, stack, template, resolved, stack.resources)
        certain_ref, certain_att = self.evaluation.ref, self.evaluation.get_att
        self.evaluation.ref = lambda name: self.UNKNOWN if self.new_id(name) else certain_ref(name)
        self.evaluation.get_att = lambda name, attribute: (
            self.UNKNOWN if name in self.replacements else certain_att(name, attribute)
        )
        changed = {name for name in resolved if resolved[name] != stack.resolved.get(name)}
        self.changed_parameters = changed & set(template.get("Parameters", {}))
        self.definitions = self.evaluation.resources()

    def new_id(self, name: str) -> bool:
        return self.replacements.get(name, "False") != "False"

    def changes(self) -> list[Json]:
        changes = {}
        for name in dependency_order(self.definitions):
            change = self.addition(name) if name not in self.stack.resources else self.modification(name)
            if change:
                self.replacements[name] = change.get("Replacement", "True")
                changes[name] = change
        ordered = [changes[name] for name in sorted(changes)]
        removed = [name for name in sorted(self.stack.resources) if name not in self.definitions]
        return ordered + [self.removal(self.stack.resources[name]) for name in removed]

    def addition(self, name: str) -> Json:
        return {
            "Action": "Add",
            "LogicalResourceId": name,
            "ResourceType": self.definitions[name]["Type"],
            "Scope": [],
            "Details": [],
        }

    def removal(self, resource: Resource) -> Json:
        policy = resource.definition.get("DeletionPolicy")
        return {
            "Action": "Remove",
            "PolicyAction": policy if policy in ("Retain", "Snapshot") else "Delete",
            "LogicalResourceId": resource.logical_id,
            "PhysicalResourceId": resource.physical_id,
            "ResourceType": resource.type,
            "Scope": [],
            "Details": [],
        }

    def modification(self, name: str) -> Json | None:
        old, definition = self.stack.resources[name], self.definitions[name]
        if old.type != definition["Type"]:
            raise validation_error(
                "Update of resource type is not permitted. The new template modifies resource type of the following "
                f"resources: [{name}]"
            )
        details = self.property_details(old, definition) + self.other_details(old, definition)
        if not details:
            return None
        replacement = replacement_of(details)
        change = {
            "Action": "Modify",
            "LogicalResourceId": name,
            "PhysicalResourceId": old.physical_id,
            "ResourceType": old.type,
            "Replacement": replacement,
            "Scope": sorted({detail["Target"]["Attribute"] for detail in details}),
            "Details": details,
        }
        if replacement == "True":
            policy = old.definition.get("UpdateReplacePolicy", "Delete")
            change["PolicyAction"] = f"ReplaceAnd{policy}"
        return change

    def property_details(self, old: Resource, definition: Json) -> list[Json]:
        properties = definition.get("Properties", {})
        try:
            new = self.evaluation.resolve(properties)
        except (AttributeError, TypeError, ValueError, AwsError):
            # A function over something unknown: Select of a Split, say.
            new = {name: self.UNKNOWN for name in properties}
        schema = schema_of(self.stack.place.region, old.type)
        return [
            self.detail(schema, old.properties, new, name, properties.get(name))
            for name in sorted({*old.properties, *new})
            if old.properties.get(name) != new.get(name)
        ]

    def detail(self, schema: Schema, old: Json, new: Json, name: str, source: Json) -> Json:
        recreation = recreation_of(schema, old, new, name)
        attribute = "Tags" if name == schema.tag_property else "Properties"
        target = {"Attribute": attribute, "RequiresRecreation": recreation}
        if attribute == "Properties":
            target["Name"] = name
        cause, entity = self.cause(source)
        evaluation = "Dynamic" if cause.startswith("Resource") else "Static"
        detail = {"Target": target, "Evaluation": evaluation, "ChangeSource": cause}
        return {**detail, "CausingEntity": entity} if entity else detail

    def cause(self, source: Json) -> tuple[str, str | None]:
        """Why a property changes: the first reference in it to something that changes, or else the template."""
        for reference in references(source):
            if reference.name in self.changed_parameters:
                return "ParameterReference", reference.name
            if reference.attribute and reference.name in self.replacements:
                return "ResourceAttribute", f"{reference.name}.{reference.attribute}"
            if self.new_id(reference.name):
                return "ResourceReference", reference.name
        return "DirectModification", None

    def other_details(self, old: Resource, definition: Json) -> list[Json]:
        """What changes beside the properties: policies, metadata, and the tags that come from the stack."""
        details = []
        for name in ("CreationPolicy", "DeletionPolicy", "Metadata", "UpdatePolicy", "UpdateReplacePolicy"):
            if old.definition.get(name) != definition.get(name):
                details.append(direct_detail(name))
        if self.tags != self.stack.tags and schema_of(self.stack.place.region, old.type).tag_property:
            details.append(direct_detail("Tags"))
        return details


def put_back(stack: Stack, name: str) -> Json:
    """The change of a resource that only differs from what its stack made of it."""
    resource = stack.resources[name]
    return {
        "Action": "Modify",
        "LogicalResourceId": name,
        "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.type,
        "Replacement": "False",
        "Scope": ["Properties"],
        "Details": [],
    }


def direct_detail(attribute: str) -> Json:
    target = {"Attribute": attribute, "RequiresRecreation": "Never"}
    return {"Target": target, "Evaluation": "Static", "ChangeSource": "DirectModification"}


def recreation_of(schema: Schema, old: Json, new: Json, name: str) -> str:
    def differs(paths: tuple[tuple[str, ...], ...]) -> bool:
        return any(path[0] == name and at_path(old, path) != at_path(new, path) for path in paths)

    if differs(schema.create_only):
        return "Always"
    return "Conditionally" if differs(schema.maybe_create_only) else "Never"


def replacement_of(details: list[Json]) -> str:
    needs = {(detail["Target"]["RequiresRecreation"], detail["Evaluation"]) for detail in details}
    if ("Always", "Static") in needs:
        return "True"
    return "Conditional" if any(recreation != "Never" for recreation, _ in needs) else "False"


def dependency_order(definitions: dict[str, Json]) -> list[str]:
    """The resources, each after what it depends on; by name where that leaves a choice."""
    waiting = {name: dependencies(definition, definitions) - {name} for name, definition in sorted(definitions.items())}
    order: list[str] = []
    while waiting:
        ready = [name for name, needed in waiting.items() if not needed - set(order)]
        if not ready:
            raise validation_error(f"Circular dependency between resources: [{', '.join(sorted(waiting))}]")
        order += ready
        for name in ready:
            del waiting[name]
    return order


def check_template(template: Json, place: Place) -> None:
    """What CloudFormation refuses before it looks at anything but the template."""
    definitions = template["Resources"]
    for name, definition in definitions.items():
        if not isinstance(definition, dict) or "Type" not in definition:
            raise validation_error(
                f"Template format error: [/Resources/{name}] Every Resources object must contain a Type member."
            )
    types = {definition["Type"] for definition in definitions.values()}
    unknown = sorted(one for one in types if not one.startswith("Custom::") and not schema_of(place.region, one).known)
    if unknown:
        raise validation_error(f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]")
    for definition in definitions.values():
        needed = definition.get("DependsOn", [])
        check_names("Resources", [needed] if isinstance(needed, str) else needed, definitions)
    for block in ("Resources", "Outputs"):
        used = [one for one in references(template.get(block, {})) if not one.name.startswith("AWS::")]
        check_names(block, [one.name for one in used], {**definitions, **template.get("Parameters", {})})
        for reference in used:
            check_attribute(template, place, reference)


def check_names(block: str, names: list[str], known: dict[str, Json]) -> None:
    if unresolved := sorted(set(names) - set(known)):
        raise validation_error(
            f"Template format error: Unresolved resource dependencies [{', '.join(unresolved)}] "
            f"in the {block} block of the template"
        )


def check_attribute(template: Json, place: Place, reference: Reference) -> None:
    if reference.attribute is None or reference.name not in template["Resources"]:
        return
    schema = schema_of(place.region, template["Resources"][reference.name]["Type"])
    first = reference.attribute.split(".")[0]
    if schema.known and reference.attribute not in schema.attributes and first not in schema.properties:
        raise validation_error(
            f"Template error: resource {reference.name} does not support attribute type {reference.attribute} "
            "in Fn::GetAtt"
        )


def check_capabilities(template: Json, capabilities: list[str]) -> None:
    """Roles and the like need CAPABILITY_IAM, with names of their own CAPABILITY_NAMED_IAM."""
    names = {"RoleName", "UserName", "GroupName", "ManagedPolicyName", "InstanceProfileName"}
    makes_iam = [one for one in template["Resources"].values() if one["Type"] in IAM_TYPES]
    named = any(names & set(one.get("Properties", {})) for one in makes_iam)
    if named and "CAPABILITY_NAMED_IAM" not in capabilities:
        raise AwsError("InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_NAMED_IAM]")
    if makes_iam and not {"CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"} & set(capabilities):
        raise AwsError("InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_IAM]")


IAM_TYPES = {
    f"AWS::IAM::{name}"
    for name in (
        "AccessKey",
        "Group",
        "InstanceProfile",
        "ManagedPolicy",
        "Policy",
        "Role",
        "User",
        "UserToGroupAddition",
    )
}


# --- The stack engine ------------------------------------------------------------------------------------------------


class Stopped(Exception):
    """The mock was reset: the operation has nothing left to work on."""


class ResourceFailed(Exception):
    def __init__(self, resource: Resource, reason: str):
        super().__init__(reason)
        self.resource, self.reason = resource, reason


@dataclasses.dataclass
class Done:
    """A change to a resource that was made, so that a rollback can undo it."""

    action: str  # create, update or replace
    new: Resource
    old: Resource | None = None


class Operation:
    """One deployment or deletion of one stack, in a thread of its own."""

    def __init__(self, world: World, stack: Stack, change_set: ChangeSet | None = None, disable_rollback: bool = False):
        self.world, self.stack, self.change_set = world, stack, change_set
        self.disable_rollback = disable_rollback
        self.moto = Moto(stack.place)
        self.generation = world.generation
        self.done: list[Done] = []
        self.before: Stack | None = None
        self.skip: set[str] = set()

    def start(self, status: str, work: Callable[[], None]) -> None:
        self.set_status(status, "User Initiated")
        threading.Thread(target=self.run, args=(work,), daemon=True).start()

    def run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Stopped:
            pass
        except Exception:
            # A mistake of the mock must not leave the client waiting for ever.
            traceback.print_exc()
            with self.world.lock:
                self.set_status("UPDATE_ROLLBACK_FAILED", f"The mock failed: {traceback.format_exc(limit=-2)}")

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Holds the world while one thing happens."""
        with self.world.lock:
            if self.world.generation != self.generation:
                raise Stopped
            yield

    def pause(self) -> None:
        if self.world.delay:
            time.sleep(self.world.delay)

    # Events

    def event(self, logical_id: str, physical_id: str, kind: str, status: str, reason: str = "") -> None:
        entry = {
            "StackId": self.stack.id,
            "EventId": f"{logical_id}-{status}-{uuid.uuid4()}",
            "StackName": self.stack.name,
            "LogicalResourceId": logical_id,
            "PhysicalResourceId": physical_id,
            "ResourceType": kind,
            "Timestamp": now(),
            "ResourceStatus": status,
        }
        if reason:
            entry["ResourceStatusReason"] = reason
        if self.stack.token:
            entry["ClientRequestToken"] = self.stack.token
        self.stack.events.append(entry)

    def set_status(self, status: str, reason: str = "") -> None:
        self.stack.status, self.stack.reason = status, "" if reason == "User Initiated" else reason
        self.event(self.stack.name, self.stack.id, "AWS::CloudFormation::Stack", status, reason)

    def set_resource(self, resource: Resource, status: str, reason: str = "") -> None:
        resource.status, resource.reason, resource.updated = status, reason, now()
        self.event(resource.logical_id, resource.physical_id, resource.type, status, reason)

    # Creation and update

    def deploy(self) -> None:
        """Brings the stack to what the change set says; back to what it was if something fails."""
        stack, change_set = self.stack, self.change_set
        creating = change_set.type == "CREATE"
        before = copy.copy(stack)
        before.resources = dict(stack.resources)
        with self.step():
            stack.text, stack.template = change_set.text, change_set.template
            stack.parameters, stack.resolved = change_set.parameters, change_set.resolved
            stack.tags, stack.capabilities = change_set.tags, change_set.capabilities
            stack.completed, stack.in_flight = [], {}
            evaluation = evaluation_of(self.world, stack, stack.template, stack.resolved, stack.resources)
            definitions = evaluation.resources()
        try:
            self.make_all(evaluation, definitions)
            with self.step():
                stack.outputs = outputs_of(evaluation)
        except (ResourceFailed, AwsError) as failure:
            self.fail(before, failure, creating)
            return
        self.clean_up(definitions, creating)

    def make_all(self, evaluation: Evaluation, definitions: dict[str, Json]) -> None:
        """Makes the resources: all whose dependencies are there start together, and become complete in turn."""
        waiting = dependency_order(definitions)
        needed = {name: dependencies(definitions[name], definitions) - {name} for name in waiting}
        in_flight: list[Done] = []
        finished: set[str] = set()
        while waiting or in_flight:
            with self.step():
                for name in [name for name in waiting if needed[name] <= finished]:
                    waiting.remove(name)
                    change = self.begin(evaluation, name, definitions[name], needed[name])
                    if change:
                        in_flight.append(change)
                    else:
                        finished.add(name)
            if not in_flight:
                continue
            self.pause()
            change = in_flight.pop(0)
            with self.step():
                try:
                    self.finish(change)
                except ResourceFailed:
                    self.cancel(in_flight)
                    raise
            finished.add(change.new.logical_id)

    def begin(self, evaluation: Evaluation, name: str, definition: Json, depends: set[str]) -> Done | None:
        """Starts what a resource needs: nothing, if it is already what it should be."""
        old = self.stack.resources.get(name)
        properties = evaluation.resolve(definition.get("Properties", {}))
        new = Resource(name, definition["Type"], definition, properties, dict(self.stack.tags), depends)
        if old is None:
            self.stack.in_flight[name] = new
            self.set_resource(new, "CREATE_IN_PROGRESS")
            return Done("create", new)
        new.physical_id, new.attributes, new.model = old.physical_id, dict(old.attributes), old.model
        new.status, new.updated = old.status, old.updated
        schema = schema_of(self.stack.place.region, new.type)
        tags_differ = old.tags != new.tags and schema.tag_property is not None
        if old.properties == properties and not tags_differ:
            self.stack.resources[name] = new
            return None
        names = {*old.properties, *properties}
        self.stack.in_flight[name] = new
        replaced = any(recreation_of(schema, old.properties, properties, one) == "Always" for one in names)
        if replaced:
            reason = "Requested update requires the creation of a new physical resource; hence creating one."
            self.set_resource(new, "UPDATE_IN_PROGRESS", reason)
            return Done("replace", new, old)
        self.set_resource(new, "UPDATE_IN_PROGRESS")
        return Done("update", new, old)

    def finish(self, change: Done) -> None:
        new, old = change.new, change.old
        verb = "CREATE" if change.action == "create" else "UPDATE"
        try:
            reason = self.world.take_failure(self.stack, new.logical_id, verb.lower())
            if reason:
                raise AwsError("GeneralServiceException", reason)
            if change.action == "replace":
                self.check_replacement(new, old)
            if change.action == "update":
                self.update(new, old)
            else:
                self.create(new, verb)
        except Exception as error:
            reason = self.failure_reason(error)
            new.physical_id = old.physical_id if old else new.physical_id
            self.set_resource(new, f"{verb}_FAILED", reason)
            raise ResourceFailed(new, reason) from error
        self.stack.resources[new.logical_id] = self.stack.in_flight.pop(new.logical_id)
        self.done.append(change)
        self.stack.completed.append(new.logical_id)
        self.set_resource(new, f"{verb}_COMPLETE")

    def create(self, new: Resource, verb: str) -> None:
        self.check_properties(new)
        making = Making(self.moto, self.stack, new)
        adopt_strangers(self.moto, new.properties)
        new.physical_id, new.model = KINDS.get(new.type, RECORD_ONLY).make(making)
        new.attributes = {}
        tag_in_ec2(making)
        new.attributes = read_attributes(self.stack.place, new)
        self.set_resource(new, f"{verb}_IN_PROGRESS", "Resource creation Initiated")

    def update(self, new: Resource, old: Resource) -> None:
        self.check_properties(new)
        making = Making(self.moto, self.stack, new)
        adopt_strangers(self.moto, new.properties)
        KINDS.get(new.type, RECORD_ONLY).update(making, old)
        tag_in_ec2(making)
        new.attributes = read_attributes(self.stack.place, new)

    def check_properties(self, new: Resource) -> None:
        schema = schema_of(self.stack.place.region, new.type)
        if not schema.known:
            return
        problems = [
            f"#: extraneous key [{name}] is not permitted" for name in sorted(set(new.properties) - schema.properties)
        ]
        problems += [f"#: required key [{name}] not found" for name in schema.required if name not in new.properties]
        if problems:
            text = "\n".join(problems)
            raise AwsError(
                "InvalidRequest", f"Properties validation failed for resource {new.logical_id} with message:\n{text}"
            )

    def check_replacement(self, new: Resource, old: Resource) -> None:
        """A replacement exists beside what it replaces: it cannot have the same name."""
        identifier = schema_of(self.stack.place.region, new.type).identifier
        if (
            len(identifier) == 1
            and identifier[0] in new.properties
            and new.properties[identifier[0]] == old.properties.get(identifier[0])
        ):
            name = new.properties[identifier[0]]
            raise AwsError(
                "InvalidRequest",
                "CloudFormation cannot update a stack when a custom-named resource requires replacing. "
                f"Rename {name} and update the stack again.",
            )

    def failure_reason(self, error: Exception) -> str:
        if isinstance(error, AwsError):
            return error.message
        message = getattr(error, "message", None) or getattr(error, "description", None) or str(error)
        if type(error).__module__.startswith(("moto", "werkzeug")):
            return f"{message} (Service: moto, HandlerErrorCode: GeneralServiceException)"
        traceback.print_exception(error)
        return f"The mock failed: {type(error).__name__}: {message}"

    def cancel(self, in_flight: list[Done]) -> None:
        for change in in_flight:
            if change.action == "create":
                self.set_resource(change.new, "CREATE_FAILED", CANCELLED)
            else:
                self.set_resource(change.new, "UPDATE_FAILED", UPDATE_CANCELLED)

    # After a failure

    def fail(self, before: Stack, failure: Exception, creating: bool) -> None:
        name = failure.resource.logical_id if isinstance(failure, ResourceFailed) else ""
        verb = "create" if creating or name not in before.resources else "update"
        reason = f"The following resource(s) failed to {verb}: [{name}]. " if name else f"{failure} "
        keep = self.disable_rollback or self.change_set.on_failure == "DO_NOTHING"
        with self.step():
            if keep:
                self.before, self.stack.stuck = before, self
                self.set_status("CREATE_FAILED" if creating else "UPDATE_FAILED", reason)
                return
            if creating and self.change_set.on_failure == "DELETE":
                self.set_status("DELETE_IN_PROGRESS", f"{reason}Delete requested by user.")
            elif creating:
                self.set_status("ROLLBACK_IN_PROGRESS", f"{reason}Rollback requested by user.")
            else:
                self.set_status("UPDATE_ROLLBACK_IN_PROGRESS", reason)
        if creating:
            self.undo_creation()
        else:
            self.undo_update(before)

    def undo_creation(self) -> None:
        deleting = self.change_set.on_failure == "DELETE"
        with self.step():
            for resource in self.stack.in_flight.values():
                self.set_resource(resource, "DELETE_COMPLETE")
                self.stack.gone.append(resource)
            self.stack.in_flight = {}
        failed = self.delete_all([done.new for done in reversed(self.done)], "creation")
        with self.step():
            self.stack.outputs = []
            if failed:
                self.set_status("DELETE_FAILED" if deleting else "ROLLBACK_FAILED", not_deleted(failed))
            elif deleting:
                self.set_deleted()
            else:
                self.set_status("ROLLBACK_COMPLETE")

    def undo_update(self, before: Stack) -> None:
        stack = self.stack
        with self.step():
            evaluation = evaluation_of(self.world, before, before.template, before.resolved, before.resources)
            definitions = evaluation.resources()
        failed = [
            name
            for name in dependency_order(definitions)
            if not self.restore(evaluation, before.resources[name], definitions[name])
        ]
        with self.step():
            if failed:
                self.before, stack.stuck = before, self
                names = ", ".join(failed)
                self.set_status("UPDATE_ROLLBACK_FAILED", f"The following resource(s) failed to update: [{names}]. ")
                return
            stack.text, stack.template, stack.tags = before.text, before.template, before.tags
            stack.parameters, stack.resolved = before.parameters, before.resolved
            stack.capabilities, stack.outputs = before.capabilities, before.outputs
            stack.in_flight = {}
            self.set_status("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        self.delete_all([done.new for done in reversed(self.done) if done.action != "update"], "creation")
        with self.step():
            stack.resources = before.resources
            self.set_status("UPDATE_ROLLBACK_COMPLETE")

    def take_back(self, skip: list[str]) -> None:
        self.skip = set(skip)
        self.start("UPDATE_ROLLBACK_IN_PROGRESS", lambda: self.undo_update(self.before))

    def restore(self, evaluation: Evaluation, old: Resource, definition: Json) -> bool:
        """Makes a resource what it was; answers whether that went well. Its references count as they are now: a launch template that went back has
        a new version for that, and its group must use it."""
        done = next((done for done in self.done if done.old is old), None)
        now_there = self.stack.resources[old.logical_id]
        if old.logical_id in self.skip:
            with self.step():
                self.before.resources[old.logical_id] = now_there
                self.set_resource(now_there, "UPDATE_COMPLETE")
            return True
        with self.step():
            properties = evaluation.resolve(definition.get("Properties", {}))
            if done is None and properties == old.properties and old.logical_id not in self.stack.in_flight:
                return True
            if reason := self.world.take_failure(self.stack, old.logical_id, "rollback"):
                self.set_resource(now_there, "UPDATE_FAILED", reason)
                return False
            self.set_resource(old, "UPDATE_IN_PROGRESS")
        self.pause()
        with self.step():
            replaced = done is not None and done.action == "replace"
            if done is not None or properties != old.properties:
                old.properties = properties
                # What the mock cannot do here is no failure of what is tested.
                with contextlib.suppress(Exception):
                    if not replaced:
                        self.update(old, done.new if done else old)
            self.stack.resources[old.logical_id] = old
            self.set_resource(old, "UPDATE_COMPLETE")
        return True

    # Deletion

    def clean_up(self, definitions: dict[str, Json], creating: bool) -> None:
        """The end of a deployment: what was replaced or removed goes."""
        stack = self.stack
        if creating:
            with self.step():
                self.set_status("CREATE_COMPLETE")
            return
        with self.step():
            stack.updated = now()
            self.set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
            removed = [resource for name, resource in stack.resources.items() if name not in definitions]
            replaced = [done.old for done in reversed(self.done) if done.action == "replace"]
        self.delete_all(replaced, "UpdateReplacePolicy")
        self.delete_all(deletion_order(removed))
        with self.step():
            self.set_status("UPDATE_COMPLETE")

    def delete_stack(self) -> None:
        failed = self.delete_all(deletion_order(list(self.stack.resources.values())))
        with self.step():
            if failed:
                self.set_status("DELETE_FAILED", not_deleted(failed))
            else:
                self.set_deleted()

    def set_deleted(self) -> None:
        self.stack.deleted = now()
        self.set_status("DELETE_COMPLETE")

    def delete_all(self, resources: list[Resource], policy: str = "DeletionPolicy") -> list[str]:
        """Deletes in this order; answers what could not be deleted. What such a resource depends on stays as well."""
        failed: list[str] = []
        blocked: set[str] = set()
        for resource in resources:
            if resource.logical_id in blocked:
                blocked |= resource.depends
                continue
            if not resource.keeps(policy):
                with self.step():
                    self.set_resource(resource, "DELETE_IN_PROGRESS")
                self.pause()
            with self.step():
                if self.delete(resource, policy):
                    self.forget(resource)
                else:
                    failed.append(resource.logical_id)
                    blocked |= resource.depends
        return failed

    def delete(self, resource: Resource, policy: str) -> bool:
        if resource.keeps(policy):
            self.set_resource(resource, "DELETE_SKIPPED")
            return True
        try:
            if reason := self.world.take_failure(self.stack, resource.logical_id, "delete"):
                raise AwsError("GeneralServiceException", reason)
            self.check_unused(resource)
            KINDS.get(resource.type, RECORD_ONLY).delete(self.moto, resource)
        except Exception as error:
            self.set_resource(resource, "DELETE_FAILED", self.failure_reason(error))
            return False
        self.set_resource(resource, "DELETE_COMPLETE")
        return True

    def check_unused(self, resource: Resource) -> None:
        """moto lets go of networks that other stacks use."""
        if resource.type not in KEPT_WHILE_USED:
            return
        for stack in self.world.stacks:
            for user in stack.resources.values() if stack is not self.stack and stack.exists else ():
                if resource.physical_id in texts(user.properties):
                    raise AwsError(
                        "DependencyViolation",
                        f"resource {resource.physical_id} has a dependent object (Service: Ec2, Status Code: 400): "
                        f"{user.logical_id} of stack {stack.name}",
                    )

    def forget(self, resource: Resource) -> None:
        """Takes a deleted resource out of the stack, unless it was replaced."""
        if self.stack.resources.get(resource.logical_id) is resource:
            del self.stack.resources[resource.logical_id]
            self.stack.gone.append(resource)


KEPT_WHILE_USED = {
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::Subnet",
    "AWS::EC2::VPC",
    "AWS::Route53::HostedZone",
}


def not_deleted(names: list[str]) -> str:
    return f"The following resource(s) failed to delete: [{', '.join(names)}]. "


def deletion_order(resources: list[Resource]) -> list[Resource]:
    """Each resource after all that depend on it."""
    waiting = {resource.logical_id: resource for resource in resources}
    order: list[Resource] = []
    while waiting:
        needed = set().union(*(resource.depends for resource in waiting.values()))
        free = [resource for name, resource in reversed(waiting.items()) if name not in needed] or list(
            waiting.values()
        )
        order += free
        for resource in free:
            del waiting[resource.logical_id]
    return order


def outputs_of(evaluation: Evaluation) -> list[Json]:
    outputs = []
    for name, definition in sorted(evaluation.template.get("Outputs", {}).items()):
        if not evaluation.included(definition):
            continue
        output = {"OutputKey": name, "OutputValue": text_of(evaluation.resolve(definition["Value"]))}
        if "Description" in definition:
            output["Description"] = definition["Description"]
        if "Export" in definition:
            output["ExportName"] = evaluation.resolve(definition["Export"]["Name"])
        outputs.append(output)
    return outputs


# --- CloudFormation's API --------------------------------------------------------------------------------------------


class CloudFormation:
    """The actions of CloudFormation: each takes the form of a request and answers the data of the response."""

    def __init__(self, world: World):
        self.world = world

    def call(self, action: str, place: Place, form: dict[str, str]) -> Json:
        method = getattr(self, "action_" + re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower(), None)
        if method is None:
            raise AwsError("InvalidAction", f"The mock does not know the action {action} of CloudFormation")
        return method(place, form)

    # Change sets

    def action_create_change_set(self, place: Place, form: dict[str, str]) -> Json:
        name, kind = required(form, "ChangeSetName"), form.get("ChangeSetType", "UPDATE")
        stack, is_new = self.stack_for_change_set(place, required(form, "StackName"), kind, name)
        text = self.template_text(place, form, stack)
        template = parse_template(text)
        check_template(template, place)
        parameters, resolved = self.parameters(place, template, form, stack)
        capabilities = scalars(form, "Capabilities")
        check_capabilities(template, capabilities)
        tags = (
            {tag["Key"]: tag["Value"] for tag in structures(form, "Tags")}
            if kind == "CREATE" or "Tags.member.1.Key" in form
            else stack.tags
        )
        changes = Preview(self.world, stack, template, resolved, tags).changes()
        if form.get("DeploymentMode") == "REVERT_DRIFT":
            known = {change["LogicalResourceId"] for change in changes}
            changes += [put_back(stack, name) for name in self.drifted(stack) if name not in known]
        change_set = ChangeSet(
            name=name,
            id=place.arn("cloudformation", f"changeSet/{name}/{uuid.uuid4()}"),
            stack=stack,
            type=kind,
            text=text,
            template=template,
            parameters=parameters,
            resolved=resolved,
            tags=tags,
            capabilities=capabilities,
            changes=changes,
            changed=kind == "CREATE" or bool(changes) or differs_elsewhere(stack, template, resolved, tags),
            description=form.get("Description", ""),
            created=now(),
            ready=time.monotonic() + self.world.delay,
            on_failure=form.get("OnStackFailure", "ROLLBACK"),
            reverts=form.get("DeploymentMode") == "REVERT_DRIFT",
        )
        for logical_id in template["Resources"]:
            called = dataclasses.replace(stack, tags=tags)
            if reason := self.world.take_failure(called, logical_id, "validation"):
                change_set.invalid.append(validation_event(change_set, logical_id, reason))
        if is_new:
            self.world.stacks.append(stack)
            Operation(self.world, stack).set_status("REVIEW_IN_PROGRESS", "User Initiated")
        self.world.change_sets.append(change_set)
        return {"Id": change_set.id, "StackId": stack.id}

    def drifted(self, stack: Stack) -> list[str]:
        return [name for called, name, _ in self.world.drifts if stack.called(called)]

    def stack_for_change_set(self, place: Place, name: str, kind: str, change_set: str) -> tuple[Stack, bool]:
        """The stack that a change set is for, and whether the change set brings it into being."""
        try:
            stack = self.world.stack(place, name)
        except AwsError:
            if kind != "CREATE":
                raise validation_error(f"Stack [{name}] does not exist") from None
            stack_id = place.arn("cloudformation", f"stack/{name}/{uuid.uuid4()}")
            return Stack(name, stack_id, place, "REVIEW_IN_PROGRESS", now()), True
        if any(
            one.stack is stack and one.name == change_set and not one.executed and not one.obsolete
            for one in self.world.change_sets
        ):
            raise AwsError("AlreadyExistsException", f"ChangeSet {change_set} already exists")
        if kind == "CREATE" and stack.status != "REVIEW_IN_PROGRESS":
            raise validation_error(
                f"Stack [{stack.name}] already exists and cannot be created again with the changeSet [{change_set}]."
            )
        if kind == "UPDATE" and stack.status not in UPDATABLE:
            raise validation_error(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
        if kind not in ("CREATE", "UPDATE"):
            raise validation_error(f"The mock does not know change sets of type {kind}")
        return stack, False

    def template_text(self, place: Place, form: dict[str, str], stack: Stack) -> str:
        if "TemplateBody" in form:
            text = form["TemplateBody"]
            if len(text.encode()) > TEMPLATE_BODY_LIMIT:
                raise validation_error(
                    f"1 validation error detected: Value '{text[:40]}...' at 'templateBody' failed to satisfy "
                    f"constraint: Member must have length less than or equal to {TEMPLATE_BODY_LIMIT}"
                )
            return text
        if "TemplateURL" in form:
            return self.template_at(place, form["TemplateURL"])
        if is_true(form.get("UsePreviousTemplate")) and stack.text:
            return stack.text
        raise validation_error("Either Template URL or Template Body must be specified.")

    def template_at(self, place: Place, url: str) -> str:
        bucket, key = bucket_and_key(url)
        s3 = Moto(place).s3
        try:
            found = s3.get_object(bucket, key)
        except Exception as error:
            raise validation_error("S3 error: The specified bucket does not exist") from error
        if found is None:
            raise validation_error("S3 error: The specified key does not exist.")
        if len(found.value) > TEMPLATE_URL_LIMIT:
            raise validation_error(f"Template may not exceed {TEMPLATE_URL_LIMIT} bytes in size.")
        return found.value.decode()

    def parameters(
        self, place: Place, template: Json, form: dict[str, str], stack: Stack
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The parameters as given, and as the template sees them."""
        declared = template.get("Parameters", {})
        given = {one["ParameterKey"]: one for one in structures(form, "Parameters")}
        unknown = sorted(set(given) - set(declared))
        if unknown:
            raise validation_error(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
        values: dict[str, str] = {}
        for name, definition in declared.items():
            value = parameter_value(name, definition, given.get(name, {}), stack)
            if value is not None:
                values[name] = value
        missing = sorted(set(declared) - set(values))
        if missing:
            raise validation_error(f"Parameters: [{', '.join(missing)}] must have values")
        for name, value in values.items():
            check_parameter(name, value, declared[name])
        return values, {name: resolved_parameter(place, declared[name], value) for name, value in values.items()}

    def find_change_set(self, place: Place, form: dict[str, str]) -> ChangeSet:
        name = required(form, "ChangeSetName")
        if not name.startswith("arn:") and "StackName" not in form:
            raise validation_error("StackName must be specified if ChangeSetName is not specified as an ARN.")
        for one in reversed(self.world.change_sets):
            in_stack = one.stack.place == place and form.get("StackName") in (None, one.stack.name, one.stack.id)
            if in_stack and name in (one.name, one.id) and (one.stack.exists or name == one.id):
                return one
        raise AwsError("ChangeSetNotFound", f"ChangeSet [{name}] does not exist", 404)

    def action_describe_change_set(self, place: Place, form: dict[str, str]) -> Json:
        one = self.find_change_set(place, form)
        waiting = one.status == "CREATE_IN_PROGRESS"
        return {
            **change_set_summary(one),
            "Parameters": parameter_list(one.parameters, one.resolved),
            "Tags": tag_list(one.tags),
            "Capabilities": one.capabilities,
            "Changes": [] if waiting else [{"Type": "Resource", "ResourceChange": change} for change in one.changes],
            "NotificationARNs": [],
            "RollbackConfiguration": {},
            "OnStackFailure": one.on_failure,
        }

    def action_describe_events(self, place: Place, form: dict[str, str]) -> Json:
        return {"OperationEvents": self.find_change_set(place, form).invalid}

    def action_detect_stack_drift(self, place: Place, form: dict[str, str]) -> Json:
        return {"StackDriftDetectionId": self.world.stack(place, required(form, "StackName")).id}

    def action_describe_stack_drift_detection_status(self, place: Place, form: dict[str, str]) -> Json:
        stack = self.world.stack(place, required(form, "StackDriftDetectionId"))
        status = {"StackDriftDetectionId": stack.id, "StackId": stack.id, "DetectionStatus": "DETECTION_COMPLETE"}
        return {**status, "Timestamp": now()}

    def action_describe_stack_resource_drifts(self, place: Place, form: dict[str, str]) -> Json:
        stack = self.world.stack(place, required(form, "StackName"))
        return {
            "StackResourceDrifts": [
                {
                    "StackId": stack.id,
                    "LogicalResourceId": name,
                    "ResourceType": stack.resources[name].type,
                    "StackResourceDriftStatus": "MODIFIED",
                    "PropertyDifferences": [difference],
                    "Timestamp": now(),
                }
                for called, name, difference in self.world.drifts
                if stack.called(called)
            ]
        }

    def action_list_change_sets(self, place: Place, form: dict[str, str]) -> Json:
        stack = self.world.stack(place, required(form, "StackName"))
        return {"Summaries": [change_set_summary(one) for one in self.world.change_sets if one.stack is stack]}

    def action_delete_change_set(self, place: Place, form: dict[str, str]) -> Json:
        with contextlib.suppress(AwsError):
            one = self.find_change_set(place, form)
            if not (one.executed and one.stack.busy):
                self.world.change_sets.remove(one)
        return {}

    def action_execute_change_set(self, place: Place, form: dict[str, str]) -> Json:
        one = self.find_change_set(place, form)
        if one.execution_status != "AVAILABLE":
            status = one.execution_status if one.executed or one.obsolete else one.status
            message = f"ChangeSet [{one.id}] cannot be executed in its current status of [{status}]"
            raise AwsError("InvalidChangeSetStatus", message)
        stack = one.stack
        if one.reverts:
            self.world.drifts[:] = [drift for drift in self.world.drifts if not stack.called(drift[0])]
        if stack.status not in (UPDATABLE if one.type == "UPDATE" else {"REVIEW_IN_PROGRESS"}):
            raise validation_error(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
        one.executed = True
        stack.change_set_id, stack.token = one.id, form.get("ClientRequestToken", "")
        # Executing one change set deletes the others of the stack.
        self.world.change_sets = [
            other for other in self.world.change_sets if other.stack is not stack or other.executed
        ]
        operation = Operation(self.world, stack, one, is_true(form.get("DisableRollback")))
        operation.start(f"{one.type}_IN_PROGRESS", operation.deploy)
        return {}

    # Stacks

    def action_describe_stacks(self, place: Place, form: dict[str, str]) -> Json:
        if "StackName" in form:
            return {"Stacks": [stack_description(self.world.stack(place, form["StackName"]))]}
        return {"Stacks": [stack_description(one) for one in self.world.stacks if one.place == place and one.exists]}

    def action_list_stacks(self, place: Place, form: dict[str, str]) -> Json:
        wanted = scalars(form, "StackStatusFilter")
        stacks = [one for one in reversed(self.world.stacks) if one.place == place]
        return {"StackSummaries": [stack_summary(one) for one in stacks if not wanted or one.status in wanted]}

    def action_describe_stack_events(self, place: Place, form: dict[str, str]) -> Json:
        stack = self.world.stack(place, required(form, "StackName"))
        return {"StackEvents": list(reversed(stack.events))}

    def action_get_template(self, place: Place, form: dict[str, str]) -> Json:
        source = (
            self.find_change_set(place, form)
            if "ChangeSetName" in form
            else self.world.stack(place, required(form, "StackName"))
        )
        return {"TemplateBody": source.text, "StagesAvailable": ["Original", "Processed"]}

    def action_list_stack_resources(self, place: Place, form: dict[str, str]) -> Json:
        stack = self.world.stack(place, required(form, "StackName"))
        return {
            "StackResourceSummaries": [resource_summary(one, "LastUpdatedTimestamp") for one in listed_resources(stack)]
        }

    def action_describe_stack_resources(self, place: Place, form: dict[str, str]) -> Json:
        stack = self.world.stack(place, required(form, "StackName"))
        wanted = form.get("LogicalResourceId")
        found = [one for one in listed_resources(stack) if wanted in (None, one.logical_id)]
        common = {"StackName": stack.name, "StackId": stack.id}
        return {"StackResources": [{**resource_summary(one, "Timestamp"), **common} for one in found]}

    def action_describe_stack_resource(self, place: Place, form: dict[str, str]) -> Json:
        stack, name = self.world.stack(place, required(form, "StackName")), required(form, "LogicalResourceId")
        for one in listed_resources(stack):
            if one.logical_id == name:
                common = {"StackName": stack.name, "StackId": stack.id}
                return {"StackResourceDetail": {**resource_summary(one, "LastUpdatedTimestamp"), **common}}
        raise validation_error(f"Resource {name} does not exist for stack {stack.name}")

    def action_delete_stack(self, place: Place, form: dict[str, str]) -> Json:
        try:
            stack = self.world.stack(place, required(form, "StackName"))
        except AwsError:
            return {}
        if not stack.exists:
            return {}
        if stack.protected:
            raise validation_error(f"Stack [{stack.id}] cannot be deleted while TerminationProtection is enabled")
        if stack.busy:
            raise validation_error(f"Stack [{stack.id}] cannot be deleted while in status {stack.status}")
        if scalars(form, "RetainResources") and stack.status != "DELETE_FAILED":
            raise validation_error(
                f"Invalid operation on stack [{stack.id}]. Specify ResourcesToRetain only when the stack is in the "
                "DELETE_FAILED state."
            )
        stack.token = form.get("ClientRequestToken", "")
        self.world.change_sets = [one for one in self.world.change_sets if one.stack is not stack or one.executed]
        for name in scalars(form, "RetainResources"):
            stack.resources.pop(name, None)
        operation = Operation(self.world, stack)
        operation.start("DELETE_IN_PROGRESS", operation.delete_stack)
        return {}

    def action_rollback_stack(self, place: Place, form: dict[str, str]) -> Json:
        stack = self.world.stack(place, required(form, "StackName"))
        if stack.status == "CREATE_FAILED" and stack.stuck:
            stack.stuck.start("ROLLBACK_IN_PROGRESS", stack.stuck.undo_creation)
            return {"StackId": stack.id}
        stack = self.stuck(place, form, "UPDATE_FAILED")
        stack.stuck.take_back([])
        return {"StackId": stack.id}

    def action_continue_update_rollback(self, place: Place, form: dict[str, str]) -> Json:
        stack = self.stuck(place, form, "UPDATE_ROLLBACK_FAILED")
        skip = scalars(form, "ResourcesToSkip")
        for name in skip:
            if name not in stack.resources or stack.resources[name].status != "UPDATE_FAILED":
                raise validation_error(f"Resources [{name}] cannot be skipped: it is not in UPDATE_FAILED state")
        stack.stuck.take_back(skip)
        return {}

    def stuck(self, place: Place, form: dict[str, str], status: str) -> Stack:
        stack = self.world.stack(place, required(form, "StackName"))
        if stack.status != status or stack.stuck is None:
            raise validation_error(f"Stack:{stack.id} is in {stack.status} state and can not be rolled back.")
        stack.token = form.get("ClientRequestToken", "")
        return stack

    def action_update_termination_protection(self, place: Place, form: dict[str, str]) -> Json:
        stack = self.world.stack(place, required(form, "StackName"))
        if not stack.exists:
            raise validation_error(f"Stack [{stack.name}] does not exist")
        stack.protected = is_true(required(form, "EnableTerminationProtection"))
        return {"StackId": stack.id}

    def action_set_stack_policy(self, place: Place, form: dict[str, str]) -> Json:
        stack = self.world.stack(place, required(form, "StackName"))
        stack.policy = required(form, "StackPolicyBody")
        return {}

    def action_get_stack_policy(self, place: Place, form: dict[str, str]) -> Json:
        policy = self.world.stack(place, required(form, "StackName")).policy
        return {"StackPolicyBody": policy} if policy else {}

    def action_signal_resource(self, place: Place, form: dict[str, str]) -> Json:
        stack = self.world.stack(place, required(form, "StackName"))
        signal = {name: required(form, name) for name in ("LogicalResourceId", "UniqueId", "Status")}
        if signal["LogicalResourceId"] not in stack.resources:
            raise AwsError("ValidationError", f"{stack.name} has no {signal['LogicalResourceId']}")
        self.world.signals.append(
            {
                "stack": stack.name,
                "resource": signal["LogicalResourceId"],
                "instance": signal["UniqueId"],
                "status": signal["Status"],
            }
        )
        return {}


UPDATABLE = {
    "CREATE_COMPLETE",
    "UPDATE_COMPLETE",
    "UPDATE_ROLLBACK_COMPLETE",
    "CREATE_FAILED",
    "UPDATE_FAILED",
    "IMPORT_COMPLETE",
}


def differs_elsewhere(stack: Stack, template: Json, resolved: dict[str, str], tags: dict[str, str]) -> bool:
    """Whether something changes that is no resource."""
    before = stack.template or {}
    same_parts = all(before.get(part) == template.get(part) for part in ("Outputs", "Conditions"))
    return not same_parts or resolved != stack.resolved or tags != stack.tags


def parameter_value(name: str, definition: Json, entry: dict[str, str], stack: Stack) -> str | None:
    """What a change set gives a parameter: the value it names, the one before, or the template's."""
    if is_true(entry.get("UsePreviousValue")):
        if name not in stack.parameters:
            raise validation_error(
                f"Invalid input for parameter key {name}. Cannot specify usePreviousValue as true for a parameter "
                "key not in the previous template"
            )
        return stack.parameters[name]
    if "ParameterValue" in entry:
        return entry["ParameterValue"]
    return text_of(definition["Default"]) if "Default" in definition else None


def check_parameter(name: str, value: str, definition: Json) -> None:
    allowed = [text_of(item) for item in definition.get("AllowedValues", [])]
    if allowed and value not in allowed:
        raise validation_error(f"Parameter '{name}' must be one of AllowedValues")
    pattern = definition.get("AllowedPattern")
    if pattern and not re.fullmatch(pattern, value):
        raise validation_error(f"Parameter '{name}' must match pattern {pattern}")


def resolved_parameter(place: Place, definition: Json, value: str) -> str:
    """Looks up parameters that are names of SSM parameters."""
    if not definition.get("Type", "").startswith("AWS::SSM::Parameter::Value"):
        return value
    answer_public_parameters()
    parameter = Moto(place).regional("ssm").get_parameter(value)
    if parameter is None:
        raise validation_error(f"Unable to fetch parameters [{value}] from parameter store for this account.")
    return parameter.value


def bucket_and_key(url: str) -> tuple[str, str]:
    """Out of any form of URL of an object: https://bucket.s3..., https://s3.../bucket and http://127.0.0.1:1/bucket."""
    parts = urllib.parse.urlsplit(url)
    path = urllib.parse.unquote(parts.path).lstrip("/")
    host = parts.hostname or ""
    if re.match(r".+\.s3[.-]", host):
        return re.split(r"\.s3[.-]", host)[0], path
    bucket, _, key = path.partition("/")
    return bucket, key


def listed_resources(stack: Stack) -> list[Resource]:
    """The resources as they are now; after a deletion or a rollback also those that are gone."""
    gone = stack.gone if stack.status.startswith(("DELETE", "ROLLBACK")) else []
    resources = {resource.logical_id: resource for resource in gone} | stack.resources | stack.in_flight
    return [resources[name] for name in sorted(resources)]


def resource_summary(resource: Resource, time_key: str) -> Json:
    summary = {
        "LogicalResourceId": resource.logical_id,
        "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.type,
        "ResourceStatus": resource.status,
        time_key: resource.updated,
        "DriftInformation": {"StackResourceDriftStatus": "NOT_CHECKED"},
    }
    return {**summary, "ResourceStatusReason": resource.reason} if resource.reason else summary


def change_set_summary(one: ChangeSet) -> Json:
    summary = {
        "ChangeSetName": one.name,
        "ChangeSetId": one.id,
        "StackId": one.stack.id,
        "StackName": one.stack.name,
        "Status": one.status,
        "ExecutionStatus": one.execution_status,
        "CreationTime": one.created,
        "IncludeNestedStacks": False,
    }
    if one.description:
        summary["Description"] = one.description
    reason = INVALID if one.invalid else NO_CHANGES
    return {**summary, "StatusReason": reason} if one.status == "FAILED" else summary


def validation_event(one: ChangeSet, logical_id: str, reason: str) -> Json:
    return {
        "EventId": str(uuid.uuid4()),
        "StackId": one.stack.id,
        "OperationType": "CREATE_CHANGESET",
        "EventType": "VALIDATION_ERROR",
        "LogicalResourceId": logical_id,
        "ResourceType": one.template["Resources"][logical_id]["Type"],
        "Timestamp": now(),
        "ValidationFailureMode": "FAIL",
        "ValidationName": "PROPERTY_VALIDATION",
        "ValidationStatus": "FAILED",
        "ValidationStatusReason": reason,
        "ValidationPath": f"/Resources/{logical_id}/Properties",
    }


def parameter_list(values: dict[str, str], resolved: dict[str, str]) -> list[Json]:
    entries = []
    for name, value in values.items():
        entry = {"ParameterKey": name, "ParameterValue": value}
        if resolved.get(name, value) != value:
            entry["ResolvedValue"] = resolved[name]
        entries.append(entry)
    return entries


def tag_list(tags: dict[str, str]) -> list[Json]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def stack_summary(stack: Stack) -> Json:
    summary = {
        "StackId": stack.id,
        "StackName": stack.name,
        "CreationTime": stack.created,
        "StackStatus": stack.status,
        "DriftInformation": {"StackDriftStatus": "NOT_CHECKED"},
    }
    optional = {
        "StackStatusReason": stack.reason,
        "LastUpdatedTime": stack.updated,
        "DeletionTime": stack.deleted,
        "TemplateDescription": (stack.template or {}).get("Description"),
    }
    return {**summary, **{key: value for key, value in optional.items() if value}}


def stack_description(stack: Stack) -> Json:
    summary = stack_summary(stack)
    description = summary.pop("TemplateDescription", None)
    described = {
        **summary,
        "Parameters": parameter_list(stack.parameters, stack.resolved),
        "Outputs": stack.outputs,
        "Tags": tag_list(stack.tags),
        "Capabilities": stack.capabilities,
        "NotificationARNs": [],
        "RollbackConfiguration": {},
        "DisableRollback": False,
        "EnableTerminationProtection": stack.protected,
    }
    if description:
        described["Description"] = description
    if stack.change_set_id:
        described["ChangeSetId"] = stack.change_set_id
    return described


# --- The query protocol ----------------------------------------------------------------------------------------------


def required(form: dict[str, str], name: str) -> str:
    if name not in form:
        member = name[0].lower() + name[1:]
        raise validation_error(
            f"1 validation error detected: Value null at '{member}' failed to satisfy constraint: "
            "Member must not be null"
        )
    return form[name]


def scalars(form: dict[str, str], name: str) -> list[str]:
    """`Name.member.1=a&Name.member.2=b` as a list."""
    values = []
    while (key := f"{name}.member.{len(values) + 1}") in form:
        values.append(form[key])
    return values


def structures(form: dict[str, str], name: str) -> list[dict[str, str]]:
    """`Name.member.1.Key=a&Name.member.1.Value=b` as a list."""
    entries: dict[int, dict[str, str]] = {}
    for key, value in form.items():
        if match := re.fullmatch(rf"{name}\.member\.(\d+)\.(\w+)", key):
            entries.setdefault(int(match[1]), {})[match[2]] = value
    return [entries[index] for index in sorted(entries)]


def to_xml(value: Json) -> str:
    if isinstance(value, dict):
        return "".join(f"<{name}>{to_xml(item)}</{name}>" for name, item in value.items())
    if isinstance(value, list):
        return "".join(f"<member>{to_xml(item)}</member>" for item in value)
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return escape(text_of(value), {"\r": "&#13;"})


def query_answer(action: str, result: Json) -> bytes:
    namespace = "http://cloudformation.amazonaws.com/doc/2010-05-15/"
    body = f"<{action}Result>{to_xml(result)}</{action}Result>"
    body += f"<ResponseMetadata><RequestId>{uuid.uuid4()}</RequestId></ResponseMetadata>"
    return f'<{action}Response xmlns="{namespace}">{body}</{action}Response>'.encode()


# --- The server ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Call:
    """One request, as far as it must be understood to record it, to answer it, or to make it fail."""

    service: str
    region: str
    action: str
    parameters: Json
    protocol: str  # query, ec2, json, s3 or rest
    form: dict[str, str]


def read_call(environ: Json, body: bytes) -> Call:
    credential = re.search(r"Credential=[^/]*/[^/]*/([^/]*)/([^/]*)/", environ.get("HTTP_AUTHORIZATION", ""))
    region, service = credential.groups() if credential else ("us-east-1", "s3")
    target = environ.get("HTTP_X_AMZ_TARGET")
    if target:
        parameters = json.loads(body or b"{}")
        return Call(service, region, target.rsplit(".", 1)[-1], short(parameters), "json", {})
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        form = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
        protocol = "ec2" if service == "ec2" else "query"
        hidden = {"Action", "Version", "TemplateBody"}
        parameters = short({key: value for key, value in form.items() if key not in hidden and ".member." not in key})
        named = {name: scalars(form, name) for name in ("ResourcesToSkip", "RetainResources")}
        parameters |= {name: names for name, names in named.items() if names}
        return Call(service, region, form.get("Action", ""), parameters, protocol, form)
    if service != "s3":
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        return Call(service, region, f"{method} {path}", {"method": method, "path": path}, "rest", {})
    return read_s3_call(environ, region)


def short(parameters: Json) -> Json:
    """What is worth keeping of a request for /mock/calls."""
    return {key: value for key, value in parameters.items() if not isinstance(value, str) or len(value) <= 200}


S3_HEADERS = {"HTTP_IF_NONE_MATCH": "IfNoneMatch", "HTTP_IF_MATCH": "IfMatch"}
# The query of a request to S3 says what it is about: ?versions, ?policy, ...
S3_SUBRESOURCES = {
    "versions": "ObjectVersions",
    "versioning": "BucketVersioning",
    "location": "BucketLocation",
    "policy": "BucketPolicy",
    "policyStatus": "BucketPolicyStatus",
    "encryption": "BucketEncryption",
    "lifecycle": "BucketLifecycleConfiguration",
    "publicAccessBlock": "PublicAccessBlock",
    "ownershipControls": "BucketOwnershipControls",
    "tagging": "Tagging",
    "acl": "Acl",
}


def read_s3_call(environ: Json, region: str) -> Call:
    method = environ["REQUEST_METHOD"]
    query = dict(urllib.parse.parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    bucket, _, key = environ.get("PATH_INFO", "").lstrip("/").partition("/")
    parameters = {"method": method, "Bucket": bucket, "Key": key}
    parameters |= {name: environ[header] for header, name in S3_HEADERS.items() if header in environ}
    parameters |= {name: query[name] for name in ("prefix", "versionId") if name in query}
    parameters = {name: value for name, value in parameters.items() if value}
    return Call("s3", region, s3_action(method, bucket, key, query, environ), parameters, "s3", {})


def s3_action(method: str, bucket: str, key: str, query: dict[str, str], environ: Json) -> str:
    verb = {"GET": "Get", "PUT": "Put", "DELETE": "Delete", "HEAD": "Head", "POST": "Post"}.get(method, method)
    for name, thing in S3_SUBRESOURCES.items():
        if name in query:
            return "ListObjectVersions" if name == "versions" else verb + thing
    if not bucket:
        return "ListBuckets"
    if not key:
        names = {
            "GET": "ListObjectsV2" if "list-type" in query else "ListObjects",
            "PUT": "CreateBucket",
            "POST": "DeleteObjects",
        }
        return names.get(method, f"{verb}Bucket")
    if method == "POST":
        return "CreateMultipartUpload" if "uploads" in query else "CompleteMultipartUpload"
    if "uploadId" in query:
        return {"PUT": "UploadPart", "DELETE": "AbortMultipartUpload"}.get(method, "ListParts")
    if method == "PUT" and "HTTP_X_AMZ_COPY_SOURCE" in environ:
        return "CopyObject"
    return f"{verb}Object"


def error_answer(protocol: str, error: AwsError) -> tuple[int, str, bytes]:
    """Status, type and body of an error, in the protocol of the call."""
    if protocol == "json":
        return (
            error.status,
            "application/x-amz-json-1.1",
            json.dumps({"__type": error.code, "message": error.message}).encode(),
        )
    inner = f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
    if protocol == "s3":
        body = f"<Error>{inner}<RequestId>{uuid.uuid4()}</RequestId></Error>"
    elif protocol == "ec2":
        body = f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>{uuid.uuid4()}</RequestID></Response>"
    else:
        kind = "Sender" if error.status < 500 else "Receiver"
        inner = f"<Error><Type>{kind}</Type>{inner}</Error>"
        body = f"<ErrorResponse>{inner}<RequestId>{uuid.uuid4()}</RequestId></ErrorResponse>"
    return error.status, "text/xml", f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode()


class Front:
    """The WSGI application: records each call, and answers it or hands it to moto."""

    def __init__(self, world: World, moto: Any):
        self.world, self.moto = world, moto
        self.cloudformation = CloudFormation(world)
        self.controls = Controls(world)

    def __call__(self, environ: Json, start_response: Any) -> Iterable[bytes]:
        body = read_body(environ)
        if environ["PATH_INFO"].startswith("/mock/"):
            return self.control(environ, body, start_response)
        call = read_call(environ, body)
        with self.world.lock:
            since = round(time.monotonic() - self.world.started, 4)
            entry = {"service": call.service, "action": call.action, "parameters": call.parameters, "time": since}
            self.world.calls.append(entry)
            try:
                self.fail_if_asked(call)
                self.check_machine(call, environ, entry)
                return self.answer(call, environ, start_response)
            except Exception as error:
                answer = error_answer(call.protocol, as_aws_error(call, error))
                return respond(start_response, *answer, head=environ["REQUEST_METHOD"] == "HEAD")

    def answer(self, call: Call, environ: Json, start_response: Any) -> Iterable[bytes]:
        if (call.service, call.action) == ("autoscaling", "CompleteLifecycleAction"):
            # moto knows no lifecycle actions: nothing of its groups ever waits.
            return respond(start_response, 200, "text/xml", query_answer(call.action, {}))
        if call.service != "cloudformation":
            return self.ask_moto(call, environ, start_response)
        place = Place(self.world.account, call.region)
        result = self.cloudformation.call(call.action, place, call.form)
        return respond(start_response, 200, "text/xml", query_answer(call.action, result))

    def fail_if_asked(self, call: Call) -> None:
        for fault in self.world.faults:
            listed = call.parameters.get("prefix", "").startswith(fault.get("prefix", ""))
            if fault["action"] == call.action and listed and fault["count"] > 0:
                fault["count"] -= 1
                message = fault.get("message", "Rate exceeded" if "Throttl" in fault["code"] else fault["code"])
                raise AwsError(fault["code"], message, fault["status"])

    def check_machine(self, call: Call, environ: Json, entry: Json) -> None:
        """Refuses a machine what its role's policies do not allow."""
        key = re.search(r"Credential=([^/]*)/", environ.get("HTTP_AUTHORIZATION", ""))
        role = self.world.machines.get(key.group(1)) if key else None
        if role is None:
            return
        entry["by"] = key.group(1)
        name, _, logical_id = role.rpartition("/")
        [stack] = [s for s in self.world.stacks if s.name == name and s.exists]
        policies = stack.resources[logical_id].properties.get("Policies", [])
        statements = [s for policy in policies for s in policy["PolicyDocument"]["Statement"]]
        for action, resource, context in self.needed(call, statements):
            if not permissions.allowed(statements, action, resource, context):
                entry["denied"] = action
                raise AwsError("AccessDenied", f"{role} is not allowed {action} on {resource}", 403)

    def needed(self, call: Call, statements: list[Json]) -> Iterator[tuple[str, str, dict[str, str]]]:
        """What a machine must be allowed to do for one call."""
        via = f"{call.service}.{call.region}.amazonaws.com"
        key = next(
            (r.attributes["Arn"] for s in self.world.stacks for r in s.resources.values() if r.type == "AWS::KMS::Key"),
            "",
        )
        match call.service, call.action:
            case "s3", "GetObject" | "PutObject":
                bucket, name = call.parameters["Bucket"], call.parameters["Key"]
                arn = f"arn:aws:s3:::{bucket}"
                yield f"s3:{call.action}", f"{arn}/{name}", {}
                if call.action == "PutObject":
                    yield "kms:GenerateDataKey", key, {"kms:ViaService": via}
                elif name in self.moto_objects(bucket):
                    yield "kms:Decrypt", key, {"kms:ViaService": via}
                else:
                    # Who may not list learns nothing of what is missing.
                    yield "s3:ListBucket", arn, {"s3:prefix": name}
            case "cloudformation", "SignalResource":
                stack = self.world.stack(Place(self.world.account, call.region), call.form["StackName"])
                yield "cloudformation:SignalResource", stack.id, {}
            case "ec2", "AttachVolume":
                place = f"arn:aws:ec2:{call.region}:{self.world.account}"
                for kind, name in (("volume", call.form["VolumeId"]), ("instance", call.form["InstanceId"])):
                    context = {f"aws:ResourceTag/{k}": v for k, v in ec2_tags(self.world.account, call.region, name).items()}
                    yield "ec2:AttachVolume", f"{place}:{kind}/{name}", context
                yield "kms:CreateGrant", key, {"kms:ViaService": via, "kms:GrantIsForAWSResource": "true"}
            case "autoscaling", "CompleteLifecycleAction":
                group = call.form["AutoScalingGroupName"]
                place = f"arn:aws:autoscaling:{call.region}:{self.world.account}"
                yield "autoscaling:CompleteLifecycleAction", f"{place}:autoScalingGroup:1:autoScalingGroupName/{group}", {}
            case _:
                yield f"{call.service}:{call.action}", "*", {}

    def moto_objects(self, bucket: str) -> set[str]:
        from moto.s3.models import FakeDeleteMarker, s3_backends

        keys = s3_backends[self.world.account]["aws"].buckets[bucket].keys
        return {name for name, object in keys.items() if not isinstance(object, FakeDeleteMarker)}

    def ask_moto(self, call: Call, environ: Json, start_response: Any) -> Iterable[bytes]:
        """moto's answer; its pages of HTML for what it cannot do become errors that a client can read."""
        if call.service == "ssm":
            answer_public_parameters()
        seen: list[Any] = []
        parts = self.moto(environ, lambda status, headers, *_: seen.append((status, headers)))
        body = b"".join(parts)
        status, headers = seen[0]
        if status.startswith("500") and b"<html" in body[:400].lower():
            reason = re.sub(r"<[^>]+>|\s+", " ", body.decode(errors="replace"))[:400]
            raise AwsError("MockNotImplemented", f"moto cannot answer {call.service} {call.action}: {reason}")
        start_response(status, headers)
        return [body]

    def control(self, environ: Json, body: bytes, start_response: Any) -> Iterable[bytes]:
        try:
            status, answer = self.controls.answer(
                environ["REQUEST_METHOD"], environ["PATH_INFO"], json.loads(body or b"null")
            )
        except (KeyError, TypeError, ValueError) as error:
            status, answer = 400, {"error": f"{type(error).__name__}: {error}"}
        return respond(start_response, status, "application/json", json.dumps(answer, default=str).encode())


def ec2_tags(account: str, region: str, name: str) -> dict[str, str]:
    from moto.ec2.models import ec2_backends

    return {tag["key"]: tag["value"] for tag in ec2_backends[account][region].describe_tags({"resource-id": [name]})}


def as_aws_error(call: Call, error: Exception) -> AwsError:
    """Whatever goes wrong, the client gets an error that it can read, and that it does not retry."""
    if isinstance(error, AwsError):
        return error
    if isinstance(error, NotImplementedError):
        return AwsError("MockNotImplemented", f"moto cannot answer {call.service} {call.action}: {error}")
    traceback.print_exception(error)
    return AwsError("MockFailure", f"The mock failed: {type(error).__name__}: {error}")


def read_body(environ: Json) -> bytes:
    """Reads the whole request before anything is locked, and puts it back for moto."""
    if environ.get("CONTENT_LENGTH"):
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    elif "chunked" in environ.get("HTTP_TRANSFER_ENCODING", ""):
        body = environ["wsgi.input"].read()
        environ["CONTENT_LENGTH"] = str(len(body))
    else:
        return b""
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def respond(start_response: Any, status: int, content_type: str, body: bytes, head: bool = False) -> list[bytes]:
    start_response(
        f"{status} {'OK' if status < 400 else 'Error'}",
        [("Content-Type", content_type), ("Content-Length", str(len(body)))],
    )
    return [] if head else [body]


class Controls:
    """What is under /mock/: for the tests, not for the client."""

    def __init__(self, world: World):
        self.world = world

    def answer(self, method: str, path: str, given: Json) -> tuple[int, Json]:
        handler = getattr(self, f"{method.lower()}_{path.removeprefix('/mock/').rstrip('/')}", None)
        if handler is None:
            return 404, {"error": f"there is no {method} {path}"}
        with self.world.lock:
            return 200, handler(given)

    def get_calls(self, _: Json) -> Json:
        return list(self.world.calls)

    def delete_calls(self, _: Json) -> Json:
        self.world.calls.clear()
        return {}

    def post_faults(self, given: Json) -> Json:
        fault = {"status": 400, "count": 1, **given}
        self.world.faults.append({**fault, "action": given["action"], "code": given["code"]})
        return {}

    def post_fail(self, given: Json) -> Json:
        stack, _, logical_id = given["resource"].rpartition("/")
        on = (given["on"],) if "on" in given else ("create", "update")
        self.world.failures.append(PlannedFailure(stack, logical_id, given["reason"], on))
        return {}

    def post_drift(self, given: Json) -> Json:
        stack, _, logical_id = given["resource"].rpartition("/")
        names = {"path": "PropertyPath", "expected": "ExpectedValue", "actual": "ActualValue"}
        difference = {there: given[here] for here, there in names.items()}
        self.world.drifts.append((stack, logical_id, {**difference, "DifferenceType": "NOT_EQUAL"}))
        return {}

    def post_delay(self, given: Json) -> Json:
        self.world.delay = float(given["seconds"])
        return {}

    def get_stacks(self, _: Json) -> Json:
        return [stack_report(stack) for stack in self.world.stacks]

    def post_machines(self, given: Json) -> Json:
        self.world.machines[given["key"]] = given["role"]
        return {}

    def get_machines(self, _: Json) -> Json:
        from moto.ec2.models import ec2_backends

        machines = []
        for region, backend in ec2_backends[self.world.account].items():
            for instance in backend.all_instances():
                # What was ended is still listed for a while.
                if instance.state_code == 48:
                    continue
                tags = ec2_tags(self.world.account, region, instance.id)
                machines.append({"id": instance.id, "zone": instance.placement.zone, "tags": tags})
        return machines

    def get_signals(self, _: Json) -> Json:
        return list(self.world.signals)

    def delete_signals(self, _: Json) -> Json:
        self.world.signals.clear()
        return {}

    def post_reset(self, _: Json) -> Json:
        from moto.moto_api._internal.models import moto_api_backend

        self.world.reset()
        moto_api_backend.reset()
        return {}


def stack_report(stack: Stack) -> Json:
    resources = {
        name: {
            "type": resource.type,
            "status": resource.status,
            "physicalId": resource.physical_id,
            "properties": resource.properties,
            "attributes": resource.attributes,
        }
        for name, resource in stack.resources.items()
    }
    return {
        "name": stack.name,
        "id": stack.id,
        "region": stack.place.region,
        "status": stack.status,
        "protected": stack.protected,
        "policy": stack.policy,
        "tags": stack.tags,
        "order": stack.completed,
        "resources": resources,
        "outputs": {output["OutputKey"]: output["OutputValue"] for output in stack.outputs},
        "parameters": stack.parameters,
    }


# --- Public parameters of SSM ----------------------------------------------------------------------------------------


def image_id(name: str) -> str:
    return "ami-" + hashlib.sha256(name.encode()).hexdigest()[:17]


def names_image(name: str) -> bool:
    return name.startswith("/aws/service/") and not name.startswith("/aws/service/global-infrastructure/")


@functools.cache
def answer_public_parameters() -> None:
    """Makes moto's SSM know every public parameter of an image: once, before the first call of SSM."""
    from moto.ssm import models

    class Parameters(models.ParameterDict):
        def add_image(self, name: str) -> None:
            if names_image(name) and not dict.__contains__(self, name):
                parameter = models.Parameter(
                    account_id=self.account_id,
                    name=name,
                    value=image_id(name),
                    parameter_type="String",
                    description=None,
                    allowed_pattern=None,
                    keyid=None,
                    last_modified_date=time.time(),
                    version=1,
                    data_type="text",
                )
                dict.__setitem__(self, name, [parameter])

        def __getitem__(self, name: str) -> Any:
            self.add_image(name)
            return super().__getitem__(name)

        def __contains__(self, name: Any) -> bool:
            self.add_image(name)
            return super().__contains__(name)

    models.ParameterDict = Parameters


def remember_launches() -> None:
    """Makes moto's machines remember which version of the launch template they were made from: it says 1 of all."""
    from moto.autoscaling.models import InstanceState

    class Launched(InstanceState):
        def __init__(self, *arguments: Any, **named: Any):
            super().__init__(*arguments, **named)
            self.made_from = getattr(self.auto_scaling_group, "launch_template_version", None)

        @property
        def launch_template(self) -> Json:
            known = super().launch_template
            return known and {**known, "Version": self.made_from or known["Version"]}

    import moto.autoscaling.models as models

    models.InstanceState = Launched


# --- The program -----------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description="A mock of AWS for the tests of kaws up")
    parser.add_argument("--port", type=int, default=0, help="0 takes one that is free")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--account", default="111122223333")
    arguments = parser.parse_args()
    # moto reads these when it is imported.
    os.environ["MOTO_ACCOUNT_ID"] = arguments.account
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    serve(arguments.host, arguments.port, World(arguments.account))


def serve(host: str, port: int, world: World) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    class Handler(MotoRequestHandler):
        def log(self, *_: Any) -> None:
            """One line per request would drown what the mock has to say."""

    front = Front(world, DomainDispatcherApplication(create_backend_app))
    server = make_server(host, port, front, threaded=True, request_handler=Handler)
    end_with_parent()
    print(f"listening on {host}:{server.server_port}", flush=True)
    threading.Thread(target=warm_up, daemon=True).start()
    server.serve_forever()


def warm_up() -> None:
    """Imports the slow half of moto while nobody waits for it."""
    for service in ("s3", "ec2", "iam", "kms", "elbv2", "autoscaling", "route53"):
        importlib.import_module(f"moto.{service}.models")
    remember_launches()


if __name__ == "__main__":
    sys.exit(main())
