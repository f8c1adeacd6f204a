#!/usr/bin/env python3
"""Captures what `kaws up`, `plan` and `destroy` show, in a terminal of 80 columns and without one.

    pip install pyte && cargo build && python3 scripts/screens.py

Runs the example `mixed` on the local cloud in an empty folder and writes docs/explanation/screens.md, to be looked
at by eye. Times differ from run to run, so nothing compares the page with what is printed.
"""
import os
import pathlib
import pty
import select
import shutil
import subprocess
import tempfile

import pyte

ROOT = pathlib.Path(__file__).resolve().parent.parent
KAWS = ROOT / "target/debug/kaws"
PAGE = ROOT / "docs/explanation/screens.md"
COLUMNS, LINES = 80, 48


def screen_text(screen):
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def in_terminal(folder, *arguments):
    """Runs kaws in a terminal; returns the fullest screen on the way, and the last one."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(LINES), USER="ana", HOSTNAME="laptop")
        os.execv(KAWS, [str(KAWS), *arguments])
    import fcntl, struct, termios
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    best, most = "", 0
    while True:
        ready, _, _ = select.select([fd], [], [], 20)
        try:
            data = os.read(fd, 65536) if ready else b""
        except OSError:
            data = b""
        if not data:
            break
        stream.feed(data)
        text = screen_text(screen)
        score = min(text.count("●"), 2) * 100 + text.count("✔") + text.count("○")
        if "●" in text and "✔" in text and score >= most:
            best, most = text, score
    os.waitpid(pid, 0)
    return best, screen_text(screen)


def without(folder, *arguments):
    done = subprocess.run([KAWS, *arguments], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.stderr + done.stdout


def below_plan(text):
    """The tree alone: the plan above it is shown by itself."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line and line[0] in "✔●○✘"), 0)
    return "\n".join(lines[first:])


def block(title, what, command, text):
    wide = [line for line in text.splitlines() if len(line) > COLUMNS]
    assert not wide, f"{title}: wider than {COLUMNS} columns: {wide}"
    return f"## {title}\n\n{what}\n\n```text\n$ {command}\n{text.strip()}\n```\n"


def edit(folder, before, after):
    path = folder / "cluster.yaml"
    text = path.read_text()
    assert before in text, before
    path.write_text(text.replace(before, after, 1))


def main():
    parts = ["# Screens\n\nWhat `kaws` shows while it deploys, captured in a terminal of 80 columns, and without "
             "one, by\n`scripts/screens.py`. All of it is the example `mixed` on the local cloud.\n"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(ROOT / "examples/mixed/cluster.yaml", folder / "cluster.yaml")
        local = ("--cloud", "local")
        parts.append(block("A first plan", "Before anything exists everything is new.", "kaws plan --cloud local",
                           without(folder, "plan", *local)))
        without(folder, "render")
        midway, _ = in_terminal(folder, "up", *local, "--yes", "--at-most", "3")
        parts.append(block("Midway, in a terminal", "The tree changes in place; times run.",
                           "kaws up --cloud local --yes", below_plan(midway)))
        shutil.rmtree(folder / ".kaws")
        _, last = in_terminal(folder, "up", *local, "--yes")
        parts.append(block("Done, in a terminal", "The same lines, when all is done.",
                           "kaws up --cloud local --yes", below_plan(last)))
        edit(folder, "kubernetesVersion: 1.36.3", "kubernetesVersion: 1.36.2") if "kubernetesVersion: 1.36.3" in (
            folder / "cluster.yaml").read_text() else edit(folder, "region:", "kubernetesVersion: 1.36.2\nregion:")
        parts.append(block("A plan of a change", "Causes are lettered; each change says whose it is.",
                           "kaws plan --cloud local", without(folder, "plan", *local)))
        without(folder, "render")
        _, failed = in_terminal(folder, "up", *local, "--yes", "--fail", "control-plane/Group=1 FAILURE signal out of 3")
        parts.append(block("A failure, in a terminal", "The root cause comes first; what is done stays done.",
                           "kaws up --cloud local --yes", below_plan(failed)))
        lines = without(folder, "up", *local, "--yes")
        start = next(i for i, line in enumerate(lines.splitlines()) if "●" in line)
        parts.append(block("Without a terminal", "A line a change, with the time in front.",
                           "kaws up --cloud local --yes | cat", "\n".join(lines.splitlines()[start:])))
        parts.append(block("A plan of destruction", "What is kept is named, with its id.",
                           "kaws destroy --cloud local --plan", without(folder, "destroy", *local, "--plan")))
    PAGE.write_text("\n".join(parts))
    print(f"{PAGE.relative_to(ROOT)} is written: look at it")


main()
