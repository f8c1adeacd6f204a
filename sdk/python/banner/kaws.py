"""Plugins of kaws in Python: copy this one file beside your program.

A plugin is functions that are told a `Request` and give a `Response`:

    import kaws

    @kaws.render
    def render(request: kaws.Request) -> kaws.Response:
        return kaws.Response().artifact("hello.txt", request.settings["text"] + "\\n")

    kaws.main()

Not here: what a contribution may hold. `kaws plugin schema contribution` prints that.
"""

from __future__ import annotations

import base64
import copy
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

VERSION = "kaws/v1"
"""The version of the contract that this file speaks."""


# What a program is asked.


class Group(TypedDict):
    """A group of machines that are alike."""

    group: str
    stack: str
    pool: str | None
    role: str
    arch: str
    os: str
    instanceTypes: list[str]
    labels: dict[str, str]


class Made(TypedDict):
    """A file that plugins of earlier ranks made."""

    sha256: str
    mode: str


@dataclass(frozen=True)
class Plugin:
    """A plugin, as a cluster uses it."""

    name: str
    version: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    pool_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    nodes: Sequence[str] = ()

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Plugin:
        """Returns the plugin that a part of a request tells of."""
        return cls(
            name=raw["name"],
            version=raw.get("version", ""),
            settings=raw.get("settings", {}),
            pool_settings=raw.get("poolSettings", {}),
            nodes=raw.get("nodes", ()),
        )


@dataclass(frozen=True)
class Request:
    """What a program is asked. It is about a stage, an event or a lookup: just one of them.

    What each part holds, `kaws plugin schema request` says; what was not told is empty.
    """

    plugin: Plugin
    kaws: str = ""
    stage: str | None = None
    event: str | None = None
    name: str | None = None
    cluster: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    plugins: Mapping[str, Plugin] = field(default_factory=dict)
    artifacts: Mapping[str, Made] = field(default_factory=dict)
    lookups: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    # Values of secrets are for the program alone: no traceback and no log shows them by chance.
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Request:
        """Returns the request that a JSON document is."""
        if raw.get("apiVersion") != VERSION:
            raise ValueError(f"asked in {raw.get('apiVersion')}, and this plugin speaks {VERSION}")
        return cls(
            plugin=Plugin.of(raw["plugin"]),
            kaws=raw.get("kaws", ""),
            stage=raw.get("stage"),
            event=raw.get("event"),
            name=raw.get("name"),
            cluster=raw.get("cluster", {}),
            groups=raw.get("groups", {}),
            model=raw.get("model", {}),
            plugins={name: Plugin.of(other) for name, other in raw.get("plugins", {}).items()},
            artifacts=raw.get("artifacts", {}),
            lookups=raw.get("lookups", {}),
            facts=raw.get("facts") or {},
            secrets=raw.get("secrets", {}),
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """The plugin's settings, with defaults."""
        return self.plugin.settings

    def settings_for(self, group: str) -> Mapping[str, Any]:
        """Returns the settings that count for a group: its pool's own, where it has some."""
        pool = group[len("pool:") :] if group.startswith("pool:") else ""
        return self.plugin.pool_settings.get(pool, self.settings)

    @property
    def subject(self) -> str:
        """What it is about: `render`, `event after-deploy`, `lookup ami`."""
        if self.stage is not None:
            return self.stage
        return f"lookup {self.name}" if self.event is None else f"event {self.event}"


# What it answers.


@dataclass
class Response:
    """What a program answers: a part of the model, files, findings, or the value of a lookup."""

    contribution: Any = field(default_factory=dict)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    findings: list[dict[str, str]] = field(default_factory=list)
    value: Any = None

    def put(self, *path_and_value: Any) -> Response:
        """Adds to the contribution: `put("kubelet", "nodes", "labels", "example.org/x", "yes")`.

        Maps merge; of anything else, what is put last counts. Without a path the value is a whole
        contribution.
        """
        *path, value = path_and_value
        part: Any = copy.deepcopy(value)
        for segment in reversed(path):
            part = {segment: part}
        self.contribution = _merged(self.contribution, part)
        return self

    def artifact(self, path: str, content: str | bytes) -> Response:
        """Adds a file below rendered/; only render may."""
        self.artifacts[path] = content.encode() if isinstance(content, str) else content
        return self

    def warning(
        self, code: str, message: str, help: str | None = None, at: str | None = None
    ) -> Response:
        """Says something about the user's cluster; `at` is what it is about, as `settings.text`."""
        return self._found("warning", code, message, help, at)

    def fatal(
        self, code: str, message: str, help: str | None = None, at: str | None = None
    ) -> Response:
        """Says something about the user's cluster that stops the run."""
        return self._found("fatal", code, message, help, at)

    def _found(self, severity: str, code: str, message: str, *more: str | None) -> Response:
        finding = {"severity": severity, "code": code, "message": message}
        finding.update((key, text) for key, text in zip(("help", "at"), more) if text is not None)
        self.findings.append(finding)
        return self

    def document(self) -> dict[str, Any]:
        """Returns the JSON document; what was not said is not in it."""
        said: dict[str, Any] = {"apiVersion": VERSION}
        if self.contribution != {}:
            said["contribution"] = self.contribution
        if self.artifacts:
            said["artifacts"] = {path: _content(file) for path, file in self.artifacts.items()}
        if self.findings:
            said["findings"] = self.findings
        if self.value is not None:
            said["value"] = self.value
        return said


def _merged(old: Any, new: Any) -> Any:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    for key, value in new.items():
        old[key] = _merged(old[key], value) if key in old else value
    return old


def _content(file: bytes) -> str | dict[str, str]:
    try:
        return file.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(file).decode()}


# Who answers what.


Handler = Callable[[Request], "Response | None"]
"""A function of the plugin; `None` is nothing to add."""

_handlers: dict[str, Handler] = {}
_asked: Request | None = None


def _answers(subject: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        if subject in _handlers:
            raise ValueError(f"two functions answer {subject}")
        _handlers[subject] = handler
        return handler

    return register


initialise = _answers("initialise")
"""The function that adds to the model."""
render = _answers("render")
"""The function that adds files, and to machines, stacks, manifests and values."""
deploy = _answers("deploy")
"""The function that runs the plugin's steps; `request.name` says which."""
validate = _answers("validate")
"""The function that runs the plugin's checks; `request.name` says which."""


def event(name: str) -> Callable[[Handler], Handler]:
    """Returns the decorator of the function for an event, as `after-deploy`."""
    return _answers(f"event {name}")


def lookup(name: str) -> Callable[[Handler], Handler]:
    """Returns the decorator of the function that answers a lookup, with `Response(value=…)`."""
    return _answers(f"lookup {name}")


def answer(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the answer to a request, both as JSON documents: what `main` does, for tests."""
    global _asked
    _asked = request = Request.of(document)
    handler = _handlers.get(request.subject)
    response = handler(request) if handler is not None else None
    if not isinstance(response, (Response, type(None))):
        raise TypeError(f"{request.subject} gave a {type(response).__name__}, and no kaws.Response")
    return (response or Response()).document()


# What stands in texts, and is filled in on the node.


def secret(name: str) -> str:
    """Returns the placeholder of one of the plugin's secrets; its file needs the mode 0600."""
    if _asked is None:
        raise RuntimeError("kaws.secret is for functions that answer a request")
    return f"@{{secret {_asked.plugin.name}/{name}}}"


def output(name: str) -> str:
    """Returns the placeholder of a stack's output, as `network.VpcId`."""
    return f"@{{output {name}}}"


def node(name: str) -> str:
    """Returns the placeholder of what a node knows of itself, as `group` or `zone`."""
    return f"@{{node {name}}}"


# The program.


def log(level: str, message: str) -> None:
    """Writes a line of the log, as `log("info", "…")`."""
    line = json.dumps({"level": level, "message": message}, ensure_ascii=False)
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Reads a request, answers it, and ends the program where that fails."""
    # Standard output is the answer's alone: whatever else is printed, also by programs that this
    # one starts, goes to the log.
    out = os.dup(1)
    os.dup2(2, 1)
    about_itself = os.environ.get("KAWS_COMMAND") == "INFO" or sys.argv[1:2] == ["metadata"]
    if not about_itself and sys.stdin.isatty():
        sys.exit("This is a plugin of kaws, asked on its standard input: try `kaws plugin run`.")
    failed = False
    try:
        said = Path("plugin.yaml").read_bytes() if about_itself else _encoded(answer(_read()))
    except Exception as error:
        traceback.print_exc()
        failed, said = True, _failure(error)
    with os.fdopen(out, "wb") as file:
        file.write(said)
    if failed:
        sys.exit(1)


def _read() -> Mapping[str, Any]:
    document = json.loads(sys.stdin.buffer.read())
    if not isinstance(document, dict):
        raise ValueError("the request is no map")
    return document


def _encoded(document: Mapping[str, Any]) -> bytes:
    text = json.dumps(
        document, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return text.encode() + b"\n"


def _failure(error: Exception) -> bytes:
    """Returns what a program that failed says: the error, and where the plugin's own code was."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    places = [f"{Path(f.filename).name}:{f.lineno} in {f.name}" for f in reversed(frames[-3:])]
    failure = {"code": type(error).__name__, "msg": str(error) or repr(error)}
    if places:
        failure["details"] = "at " + ", from ".join(places)
    # An error may quote what is no Unicode, and is still to be said: so it is in ASCII.
    return json.dumps(failure, sort_keys=True).encode() + b"\n"
