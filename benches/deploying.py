#!/usr/bin/env python3
"""How long a plan takes, how large the binary is and how quickly it starts, side by side in one run.

    cargo build --release && python3 benches/deploying.py [BINARY TO COMPARE WITH]

Deploys the example `ha` to the local cloud in an empty folder and times whole processes: medians of 15 runs, the
quickest and the slowest beside them. A binary to compare with (one of an earlier release) takes part where it can.
"""
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KAWS = ROOT / "target/release/kaws"
RUNS = 15
LOCAL = ("--cloud", "local")


def timed(binary, folder, *arguments, expected=0):
    """Milliseconds of whole processes: median, quickest, slowest."""
    times = []
    for _ in range(RUNS + 2):
        start = time.perf_counter()
        done = subprocess.run([binary, *arguments], cwd=folder, capture_output=True)
        times.append((time.perf_counter() - start) * 1000)
        assert done.returncode == expected, done.stderr.decode()
    times = sorted(times[2:])
    return statistics.median(times), times[0], times[-1]


def row(what, figures, ratio=""):
    median, low, high = figures
    print(f"| {what} | {median:.1f} ms ({low:.1f}–{high:.1f}) | {ratio} |")


def edit(folder, before, after):
    path = folder / "cluster.yaml"
    text = path.read_text()
    assert before in text, before
    path.write_text(text.replace(before, after, 1))


def main():
    other = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    print("| what | median (quickest–slowest) | |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(ROOT / "examples/ha/cluster.yaml", folder / "cluster.yaml")
        render = timed(KAWS, folder, "render")
        row("`render`, nothing to write", render)
        if other:
            before = timed(other, folder, "render", "--out", "other")
            row("the same, the other binary", before, f"{render[0] / before[0]:.2f} times it")
        row("`plan` of an empty cloud", timed(KAWS, folder, "plan", *LOCAL))
        subprocess.run([KAWS, "up", *LOCAL, "--yes"], cwd=folder, check=True, capture_output=True)
        plan = timed(KAWS, folder, "plan", *LOCAL)
        row("`plan`, no changes", plan, f"{plan[0] / render[0]:.1f} times `render`")
        row("`up`, no changes", timed(KAWS, folder, "up", *LOCAL, "--yes"))
        edit(folder, "kubernetesVersion: ", "kubernetesVersion: 1.36.2 # ")
        one = timed(KAWS, folder, "plan", *LOCAL)
        row("`plan`, one setting changed (one more rendering)", one, f"{one[0] / render[0]:.1f} times `render`")
        start = timed(KAWS, folder, "version")
        row("`version`: a cold start", start)
        if other:
            before = timed(other, folder, "version")
            row("the same, the other binary", before, f"{start[0] / before[0]:.2f} times it")
    for binary in filter(None, (KAWS, other)):
        print(f"| size of {binary.name} | {binary.stat().st_size / 1e6:.1f} MB | |")


main()
