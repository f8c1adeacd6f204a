#!/usr/bin/env python3
"""Renders and plans fleets of clusters in one run each, and prints time and memory.

    cargo build --release && TMPDIR=/dev/shm python3 benches/fleet.py > benches/fleet.md

Each cluster is the example `ha` with a name of its own; plans are against the local cloud, which has nothing yet.
"""
import os
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KAWS = ROOT / "target/release/kaws"
SIZES = [75, 150, 300]


def measured(arguments, folder):
    """Seconds, and the peak of the resident memory in MiB."""
    start = time.perf_counter()
    process = subprocess.Popen([KAWS, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"kaws {arguments[0]} ended with {status}"
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def fleet(folder, size):
    text = (ROOT / "examples/ha/cluster.yaml").read_text()
    name = next(line for line in text.splitlines() if line.startswith("name:"))
    files = []
    for number in range(size):
        cluster = pathlib.Path(folder) / f"c{number}"
        cluster.mkdir()
        (cluster / "cluster.yaml").write_text(text.replace(name, f"name: c{number}", 1))
        files += ["-f", f"c{number}/cluster.yaml"]
    return files


def main():
    print("# Fleets\n")
    print("Printed by `benches/fleet.py`: release build, on tmpfs, on 2 cores of an AMD EPYC with 24 GiB. `render` is")
    print("one process for all clusters, one after the other; `plan` is one each, four at once, and the peak is that of")
    print("the largest.\n")
    print("| clusters | `render` | each | peak | `plan` | each | peak |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            files = fleet(folder, size)
            render, render_peak = measured(["render", *files], folder)
            plan, plan_peak = measured(["plan", "--cloud", "local", *files], folder)
            each = [f"{seconds / size * 1000:.1f} ms" for seconds in (render, plan)]
            print(
                f"| {size} | {render:.2f} s | {each[0]} | {render_peak:.0f} MiB "
                f"| {plan:.2f} s | {each[1]} | {plan_peak:.0f} MiB |"
            )


if __name__ == "__main__":
    main()
