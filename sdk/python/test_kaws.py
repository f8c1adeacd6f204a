"""What plugins in Python rely on: run with `python3 -m unittest`.

Handlers are registered once a process: so each plugin here is a program of its own, run as kaws
runs it.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tempfile
import textwrap
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kaws

HERE = Path(__file__).resolve().parent


def request(**more: Any) -> dict[str, Any]:
    """Returns a request to render of a plugin `acme`, with more in it."""
    plugin = {"name": "acme", "version": "1.0.0", "settings": {"text": "Hi"}, "nodes": []}
    return {"apiVersion": "kaws/v1", "kaws": "0.1.0", "stage": "render", "plugin": plugin, **more}


class Ran:
    """A plugin's program that has ended."""

    def __init__(
        self,
        program: str,
        asked: bytes | Mapping[str, Any],
        args: tuple[str, ...] = (),
        **environment: str,
    ) -> None:
        code = "import kaws\n" + textwrap.dedent(program) + "\nkaws.main()\n"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "plugin.yaml").write_text("name: acme\n", encoding="utf-8")
            Path(folder, "acme.py").write_text(code, encoding="utf-8")
            path = os.environ.get("PATH", "")
            ran = subprocess.run(
                [sys.executable, "-B", "acme.py", *args],
                cwd=folder,
                env={"PATH": path, "PYTHONPATH": str(HERE), "LANG": "C.UTF-8", **environment},
                input=asked if isinstance(asked, bytes) else json.dumps(asked).encode(),
                capture_output=True,
                check=False,
            )
        self.code, self.said, self.log = ran.returncode, ran.stdout, ran.stderr.decode()

    def answer(self) -> Any:
        """Returns the document that it printed."""
        return json.loads(self.said)


class Contributions(unittest.TestCase):
    """`put` builds a tree out of paths and values."""

    def test_a_path_becomes_nested_maps(self) -> None:
        response = kaws.Response().put("kubelet", "nodes", "labels", "a.example/b", "yes")
        expected = {"kubelet": {"nodes": {"labels": {"a.example/b": "yes"}}}}
        self.assertEqual(response.contribution, expected)

    def test_maps_merge_and_of_anything_else_the_last_counts(self) -> None:
        response = kaws.Response().put("a", {"b": 1, "c": [1]}).put("a", "c", [2])
        response.put({"a": {"d": 3}, "e": None}).put("a", "b", "f", 4)
        expected = {"a": {"b": {"f": 4}, "c": [2], "d": 3}, "e": None}
        self.assertEqual(response.contribution, expected)

    def test_what_was_put_stays_the_callers(self) -> None:
        mine: dict[str, Any] = {"b": {"c": 1}}
        response = kaws.Response().put("a", mine).put("a", "b", "d", 2)
        mine["b"]["c"] = 3
        self.assertEqual(response.contribution, {"a": {"b": {"c": 1, "d": 2}}})
        self.assertEqual(mine, {"b": {"c": 3}})


class Answers(unittest.TestCase):
    """A response becomes a document in which only what was said stands."""

    def test_nothing_said_is_only_a_version(self) -> None:
        self.assertEqual(kaws.Response().document(), {"apiVersion": "kaws/v1"})

    def test_files_are_text_where_they_can_be(self) -> None:
        response = kaws.Response().artifact("a", "ü").artifact("b", b"c").artifact("d", b"\xff")
        expected = {"a": "ü", "b": "c", "d": {"base64": "/w=="}}
        self.assertEqual(response.document()["artifacts"], expected)

    def test_findings_say_what_they_have(self) -> None:
        response = kaws.Response().warning("silent", "No text.", help="set it", at="settings.text")
        response.fatal("loud", "Too much.")
        expected = [
            {
                "severity": "warning",
                "code": "silent",
                "message": "No text.",
                "help": "set it",
                "at": "settings.text",
            },
            {"severity": "fatal", "code": "loud", "message": "Too much."},
        ]
        self.assertEqual(response.document()["findings"], expected)

    def test_a_lookup_may_be_answered_with_what_is_empty(self) -> None:
        empty: list[Any] = [False, 0, "", [], {}]
        for value in empty:
            self.assertEqual(kaws.Response(value=value).document()["value"], value)


class Requests(unittest.TestCase):
    """A request is read whole, and what is not there is empty."""

    def test_what_is_not_there_is_empty(self) -> None:
        asked = kaws.Request.of(request())
        self.assertEqual((asked.stage, asked.event, asked.name), ("render", None, None))
        self.assertEqual((asked.model, asked.lookups, asked.facts, asked.secrets), ({}, {}, {}, {}))
        self.assertEqual(asked.settings, {"text": "Hi"})

    def test_a_pools_own_settings_count_for_it(self) -> None:
        plugin = kaws.Plugin("acme", settings={"a": 1}, pool_settings={"gpu": {"a": 2}})
        asked = kaws.Request(plugin)
        self.assertEqual(asked.settings_for("pool:gpu"), {"a": 2})
        self.assertEqual(asked.settings_for("pool:general"), {"a": 1})
        self.assertEqual(asked.settings_for("gpu"), {"a": 1})

    def test_other_plugins_are_told_of(self) -> None:
        other = {"name": "dex", "version": "2.0.0", "settings": {"x": 1}, "nodes": ["etcd"]}
        plugins = kaws.Request.of(request(plugins={"dex": other})).plugins
        self.assertEqual(plugins["dex"], kaws.Plugin("dex", "2.0.0", {"x": 1}, {}, ["etcd"]))

    def test_another_version_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "asked in kaws/v2, and this plugin speaks kaws/v1"):
            kaws.Request.of(request(apiVersion="kaws/v2"))

    def test_secrets_are_not_shown_by_chance(self) -> None:
        asked = kaws.Request.of(request(secrets={"token": "hunter2"}))
        self.assertEqual(asked.secrets["token"], "hunter2")
        self.assertNotIn("hunter2", repr(asked))


class Programs(unittest.TestCase):
    """A program answers what it is asked, and says nothing else on standard output."""

    HANDLERS = """
        def says(what):
            return lambda request: kaws.Response(value=[what, request.name])

        kaws.initialise(says("initialise"))
        kaws.render(says("render"))
        kaws.deploy(says("deploy"))
        kaws.validate(says("validate"))
        kaws.event("after-deploy")(says("after"))
        kaws.lookup("ami")(says("lookup"))
    """

    def test_each_question_has_its_function(self) -> None:
        nothing: dict[str, Any] = {"stage": None}
        for asked, expected in [
            ({"stage": "initialise"}, ["initialise", None]),
            ({"stage": "render"}, ["render", None]),
            ({"stage": "deploy", "name": "a"}, ["deploy", "a"]),
            ({"stage": "validate", "name": "b"}, ["validate", "b"]),
            ({**nothing, "event": "after-deploy"}, ["after", None]),
            ({**nothing, "name": "ami"}, ["lookup", "ami"]),
        ]:
            with self.subTest(asked=asked):
                self.assertEqual(Ran(self.HANDLERS, request(**asked)).answer()["value"], expected)

    def test_what_no_function_is_for_has_an_empty_answer(self) -> None:
        for program in ("", "kaws.render(lambda request: None)"):
            ran = Ran(program, request())
            self.assertEqual((ran.code, ran.said), (0, b'{"apiVersion":"kaws/v1"}\n'))

    def test_answers_are_canonical_in_any_locale(self) -> None:
        program = """
            @kaws.render
            def render(request):
                return kaws.Response().put("z", "ü").put("a", "b", 1).artifact("x", "\\u2028")
        """
        expected = (
            '{"apiVersion":"kaws/v1","artifacts":{"x":"\u2028"},'
            '"contribution":{"a":{"b":1},"z":"ü"}}\n'
        )
        for locale in ("C", "C.UTF-8", "POSIX"):
            ran = Ran(program, request(), LC_ALL=locale, PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
            self.assertEqual(ran.said.decode(), expected)

    def test_whatever_is_printed_goes_to_the_log(self) -> None:
        program = """
            import atexit, os
            print("at import")
            atexit.register(print, "at exit")

            @kaws.render
            def render(request):
                print("in a function")
                os.system("echo in a program")
                kaws.log("info", "grüezi")
        """
        ran = Ran(program, request())
        self.assertEqual(ran.said, b'{"apiVersion":"kaws/v1"}\n')
        self.assertIn('{"level": "info", "message": "grüezi"}', ran.log.splitlines())
        for line in ("at import", "in a function", "in a program", "at exit"):
            self.assertIn(line, ran.log.splitlines())

    def test_placeholders_are_what_nodes_fill_in(self) -> None:
        program = """
            @kaws.render
            def render(request):
                texts = [kaws.secret("t"), kaws.output("a.B"), kaws.node("zone")]
                return kaws.Response(value=texts)
        """
        expected = ["@{secret acme/t}", "@{output a.B}", "@{node zone}"]
        self.assertEqual(Ran(program, request()).answer()["value"], expected)
        with self.assertRaisesRegex(RuntimeError, "functions that answer a request"):
            kaws.secret("t")

    def test_a_failure_is_said_with_its_place(self) -> None:
        program = """
            def greet(settings):
                return settings["greeting"]

            @kaws.render
            def render(request):
                print("noise")
                return greet(request.settings)
        """
        ran = Ran(program, request())
        self.assertEqual(ran.code, 1)
        details = "at acme.py:4 in greet, from acme.py:9 in render"
        expected = {"code": "KeyError", "msg": "'greeting'", "details": details}
        self.assertEqual(ran.answer(), expected)
        self.assertIn("Traceback", ran.log)

    def test_what_is_no_response_is_a_failure(self) -> None:
        for program, words in [
            ("kaws.render(lambda request: {})", "render gave a dict, and no kaws.Response"),
            ("kaws.render(lambda r: kaws.Response().put('a', float('nan')))", "not JSON compliant"),
            ("kaws.render(lambda r: kaws.Response().put('a', '\\ud800'))", "surrogates"),
        ]:
            with self.subTest(program=program):
                ran = Ran(program, request())
                self.assertEqual(ran.code, 1)
                self.assertIn(words, ran.answer()["msg"])

    def test_what_is_no_request_is_a_failure(self) -> None:
        for asked in (b"", b"[]", b"{}", b"{", b"\xff\xfe"):
            with self.subTest(asked=asked):
                ran = Ran("", asked)
                self.assertEqual(ran.code, 1)
                self.assertTrue(ran.answer()["msg"])

    def test_two_functions_for_one_question_are_a_mistake(self) -> None:
        ran = Ran("kaws.render(print); kaws.render(print)", request())
        self.assertIn("two functions answer render", ran.log)

    def test_a_program_tells_what_it_is(self) -> None:
        for ran in (Ran("", b"", KAWS_COMMAND="INFO"), Ran("", b"", ("metadata",))):
            self.assertEqual((ran.code, ran.said), (0, b"name: acme\n"))

    def test_on_a_terminal_it_says_how_it_is_run(self) -> None:
        ours, its = pty.openpty()
        ran = subprocess.run(
            [sys.executable, "-B", "-c", "import kaws; kaws.main()"],
            cwd=HERE,
            stdin=its,
            capture_output=True,
            timeout=60,
            check=False,
        )
        os.close(ours)
        os.close(its)
        self.assertEqual((ran.returncode, ran.stdout), (1, b""))
        self.assertIn(b"kaws plugin run", ran.stderr)


class Tests(unittest.TestCase):
    """Authors test their functions without a program."""

    def test_the_answer_to_a_document_is_a_document(self) -> None:
        self.assertEqual(kaws.answer(request(stage="validate")), {"apiVersion": "kaws/v1"})

    def test_the_examples_copy_is_this_file(self) -> None:
        copy = HERE / "banner" / "kaws.py"
        self.assertEqual(copy.read_bytes(), (HERE / "kaws.py").read_bytes())


if __name__ == "__main__":
    unittest.main()
