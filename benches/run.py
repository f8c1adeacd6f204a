#!/usr/bin/env python3
"""Measures `kaws render` as whole processes, beside a floor and beside peers.

Usage: benches/run.py [--quick] [--no-peers]

Figures are reported, never asserted: they depend on the machine. The exit code is 1 only where a
command failed. Linux only; needs cargo and rustc, and for the peers Python with venv, Node and npm.
KAWS_BIN names another binary than target/release/kaws.
"""

import argparse
import ctypes
import dataclasses
import hashlib
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time

from generate import generate

BENCHES = pathlib.Path(__file__).resolve().parent
ROOT = BENCHES.parent
VENV = BENCHES / ".venv"
CDK = BENCHES / "peers" / "cdk"
REQUIREMENTS = [BENCHES / "peers" / p / "requirements.txt" for p in ("sceptre", "troposphere")]
PR_SET_CHILD_SUBREAPER = 36

# Sizes, and the size that the one and the other series pass through.
POOLS, PLUGINS, BOTH = [50, 100, 200, 500], [50, 100, 200, 500], (500, 200)
QUICK_POOLS, QUICK_PLUGINS, QUICK_BOTH = [50, 100], [25, 50], (100, 50)
# Peers may not ask the network how old they are while they are timed.
PEER_ENV = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "CDK_DISABLE_CLI_TELEMETRY": "true",
    "CDK_DISABLE_VERSION_CHECK": "1",
}


class Failed(Exception):
    """A command that is measured, or prepares a measurement, failed."""


@dataclasses.dataclass
class Timed:
    walls: list
    cpus: list
    peak: int

    @property
    def wall(self):
        return statistics.median(self.walls)

    @property
    def cpu(self):
        return statistics.median(self.cpus)


@dataclasses.dataclass
class Rendered:
    """One cluster, rendered into an empty folder and then again; and the floor for both."""

    first: Timed
    second: Timed
    floor: Timed
    floor_second: Timed
    files: int
    bytes: int
    resources: int


# Measuring


def remove(folder):
    """Moves a folder away. Deleting thousands of files would slow the file system for the runs after it
    (ext4 does not hand out inodes again that were freed moments ago), and measure that instead."""
    if pathlib.Path(folder).exists():
        gone = pathlib.Path(folder).parent / ".gone"
        gone.mkdir(parents=True, exist_ok=True)
        os.rename(folder, gone / str(time.monotonic_ns()))


def once(argv, cwd, log):
    """Runs a command; returns its seconds of wall clock and of CPU, children included."""
    write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), write, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    os.chdir(cwd)
    start = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - start
    check(argv, status, log)
    return wall, usage.ru_utime + usage.ru_stime


def peak(argv, cwd, log):
    """Runs a command; returns the peak of its largest process, in bytes.

    Linux counts the memory of whoever starts a process as the process's own peak, and Python is
    larger than some of what is measured. So a shell starts it and ends, and Python, as the reaper
    of orphans, waits for it.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    script = 'log=$1; shift; "$@" >"$log" 2>&1 </dev/null & echo $!'
    shell = ["/bin/sh", "-c", script, "sh", str(log), *argv]
    pid = int(subprocess.run(shell, cwd=cwd, stdout=subprocess.PIPE, check=True).stdout)
    _, status, usage = os.wait4(pid, 0)
    check(argv, status, log)
    return usage.ru_maxrss * 1024


def check(argv, status, log):
    code = os.waitstatus_to_exitcode(status)
    if code:
        tail = log.read_text(errors="replace").splitlines()[-12:]
        raise Failed(f"{shlex.join(argv)}: exit code {code}\n" + "\n".join(tail))


def measure(argv, runs, log, cwd=ROOT, before=lambda: None):
    argv = [str(a) for a in argv]
    # The run for the memory also warms the page cache.
    before()
    most = peak(argv, cwd, log)
    samples = []
    for _ in range(runs):
        before()
        samples.append(once(argv, cwd, log))
    return Timed([s[0] for s in samples], [s[1] for s in samples], most)


def measure_cluster(kaws, floor, work, file, runs):
    out, floor_out, log = work / "out", work / "floor-out", work / "log"
    render = [kaws, "render", "--file", file, "--out", out]
    first = measure(render, runs, log, before=lambda: remove(out))
    second = measure(render, runs, log)
    copy = [floor, file.parent, out, floor_out]
    floors = [measure(copy, runs, log, before=lambda: remove(floor_out)), measure(copy, runs, log)]
    files = [p for p in out.rglob("*") if p.is_file()]
    stacks = (p.read_text() for p in (out / "stacks").glob("*.yaml"))
    total = sum(p.stat().st_size for p in files)
    resources = sum(map(yaml_resources, stacks))
    remove(out)
    remove(floor_out)
    return Rendered(first, second, *floors, len(files), total, resources)


def yaml_resources(text):
    """Counts the resources of a template whose nesting is two spaces deep."""
    section, count = "", 0
    for line in text.splitlines():
        if line[:1].isalpha():
            section = line.split(":")[0]
        elif section == "Resources" and re.match(r"    Type: ", line):
            count += 1
    return count


# Preparing


def say(text):
    print(text, file=sys.stderr, flush=True)


def command(argv, cwd=ROOT):
    """Runs what prepares a measurement."""
    say("$ " + shlex.join(map(str, argv)))
    done = subprocess.run(argv, cwd=cwd, stdout=sys.stderr, check=False)
    if done.returncode:
        raise Failed(f"{shlex.join(map(str, argv))}: exit code {done.returncode}")


def binary():
    named = os.environ.get("KAWS_BIN")
    path = pathlib.Path(named).resolve() if named else ROOT / "target" / "release" / "kaws"
    if not path.exists() and not named:
        command(["cargo", "build", "--release"])
    if not path.exists():
        raise Failed(f"there is no {path}")
    return path


def stale(kaws):
    """Returns whether the binary is older than what it is built from."""
    parts = [ROOT / p for p in ("Cargo.toml", "src", "plugins", "contrib", "templates")]
    files = [f for p in parts for f in ([p] if p.is_file() else p.rglob("*")) if f.is_file()]
    return any(f.stat().st_mtime > kaws.stat().st_mtime for f in files)


def floor_binary(work):
    source, made = BENCHES / "floor" / "floor.rs", work / "floor"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        command(["rustc", "-O", "--edition", "2024", "-o", made, source])
    return made


def once_per(stamp, inputs, install):
    """Calls `install` unless it was done before with the same inputs."""
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in inputs)).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        install()
        stamp.write_text(digest)


def install_python():
    remove(VENV)
    command([sys.executable, "-m", "venv", VENV])
    pip = [VENV / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    command([*pip, *(arg for r in REQUIREMENTS for arg in ("--requirement", r))])


def install_node():
    command(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=CDK)


# Peers


def sceptre_templates(log):
    # It prints each template as one YAML string.
    program = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"
    argv = [VENV / "bin" / "python", "-c", program]
    done = subprocess.run(argv, stdin=log.open(), stdout=subprocess.PIPE, check=True)
    return [(yaml_resources(text), len(text)) for text in json.loads(done.stdout)]


def json_templates(out):
    files = [p for p in out.glob("*.template.json")]
    return [(len(json.loads(p.read_text())["Resources"]), p.stat().st_size) for p in files]


def measure_peers(work, runs):
    """Returns rows (name, Timed, templates), and what could not be measured."""
    log, out = work / "log", work / "peer-out"
    node, bin_ = shutil.which("node"), VENV / "bin"
    cdk = [CDK / "node_modules" / ".bin" / "cdk", "synth", "-q", "--no-notices", "--no-lookups"]
    python = (VENV / ".installed", REQUIREMENTS, install_python)
    npm = (CDK / "node_modules" / ".installed", [CDK / "package-lock.json"], install_node)
    made, printed, nothing = (lambda: json_templates(out)), (lambda: sceptre_templates(log)), list
    peers = [
        ("node -e 0", npm, [node, "-e", "0"], ROOT, nothing),
        ("cdk synth", npm, [*cdk, "--output", out], CDK, made),
        ("python -c pass", python, [bin_ / "python", "-c", "pass"], ROOT, nothing),
        ("sceptre generate", python, [bin_ / "sceptre", "generate", "demo"], "sceptre", printed),
        ("troposphere", python, [bin_ / "python", "gen.py", out], "troposphere", made),
    ]
    os.environ.update(PEER_ENV)
    rows, missed = [], []
    for name, needs, argv, cwd, templates in peers:
        say(f"peer {name}")
        try:
            once_per(*needs)
            timed = measure(argv, runs, log, BENCHES / "peers" / cwd, lambda: remove(out))
            rows.append((name, timed, templates()))
        except (Failed, OSError, subprocess.CalledProcessError) as error:
            missed.append(f"{name} was not measured: {error}")
    remove(out)
    return rows, missed


# Reporting


def seconds(value):
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s"


def span(timed):
    return f"{seconds(min(timed.walls))} – {seconds(max(timed.walls))}"


def mib(count):
    return f"{count / 2**20:.1f} MiB"


def ratio(a, b):
    return f"{a / b:.1f}×" if b else "–"


def table(head, rows):
    """Returns a Markdown table; all columns but the first are figures."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def version(*argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return (done.stdout.splitlines() or ["?"])[0]
    except (OSError, subprocess.CalledProcessError):
        return "none"


def machine(kaws, work):
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", info, re.MULTILINE)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    described = subprocess.run(["df", "--output=fstype", work], capture_output=True, text=True)
    disk = (described.stdout.split() or ["?"])[-1]
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    lines = [
        f"- processor: {model[1] if model else platform.machine()}, "
        f"{len(os.sched_getaffinity(0))} cores; memory: {memory / 2**30:.0f} GiB",
        f"- Linux {platform.release()}; file system: {disk}; load at the start: {load}",
        f"- {version(str(kaws), 'version')}; {version('rustc', '--version')}; "
        f"Python {platform.python_version()}; Node {version('node', '--version')}",
    ]
    return "\n".join(lines) + "\n"


def renders(results):
    head = ["cluster", "run", "median", "least – most", "CPU", "peak", "floor", "kaws / floor"]
    rows = []
    for name, r in results.items():
        for run, t, floor in [("first", r.first, r.floor), ("second", r.second, r.floor_second)]:
            times = [seconds(t.wall), span(t), seconds(t.cpu), mib(t.peak), seconds(floor.wall)]
            rows.append([name, run, *times, ratio(t.wall, floor.wall)])
    sizes = [
        [n, f"{r.files:,}", mib(r.bytes), f"{r.resources:,}", mib(r.floor.peak)]
        for n, r in results.items()
    ]
    return (
        table(head, rows)
        + "\n"
        + table(["cluster", "files", "bytes", "resources", "peak of the floor"], sizes)
    )


def growth(what, results):
    """`results` by number, ascending. × linear: how time grew over how the number grew."""
    head = [what, "first", "each", "× linear", "second", "× linear", "peak", "× linear", "× floor"]
    rows, before = [], None
    for number, r in results.items():
        row = [number, seconds(r.first.wall), seconds(r.first.wall / number)]
        figures = [lambda r: r.first.wall, lambda r: r.second.wall, lambda r: r.first.peak]
        factors = [
            f"{figure(r) / figure(before[1]) / (number / before[0]):.2f}" if before else "–"
            for figure in figures
        ]
        row += [factors[0], seconds(r.second.wall), factors[1], mib(r.first.peak), factors[2]]
        rows.append([*row, ratio(r.first.wall, r.floor.wall)])
        before = (number, r)
    return table(head, rows)


def peers_table(rows, kaws):
    head = ["program", "median", "least – most", "CPU", "peak", "templates", "resources", "bytes"]
    head += ["time / kaws", "peak / kaws"]
    lines = []
    if kaws:
        t = kaws.first
        made = ["see above", kaws.resources, f"{kaws.bytes:,}", "1", "1"]
        lines.append(["kaws render", seconds(t.wall), span(t), seconds(t.cpu), mib(t.peak), *made])
    for name, t, templates in rows:
        made = [len(templates), sum(n for n, _ in templates), f"{sum(b for _, b in templates):,}"]
        made = made if templates else ["–"] * 3
        versus = ["–", "–"]
        if kaws:
            versus = [ratio(t.wall, kaws.first.wall), ratio(t.peak, kaws.first.peak)]
        figures = [seconds(t.wall), span(t), seconds(t.cpu), mib(t.peak)]
        lines.append([name, *figures, *made, *versus])
    return table(head, lines)


def goals(example, largest):
    """The goals, and what was measured; a first render, as that is the slower one."""
    rows = []
    wanted = [
        ("the example of three zones", example, "25 ms, 40 MB (38.1 MiB)"),
        ("500 pools and 200 plugins", largest, "2 s, 500 MB (476.8 MiB)"),
    ]
    for name, r, goal in wanted:
        if r:
            measured = f"{seconds(r.first.wall)}, {mib(r.first.peak)}"
            rows.append([name, f"at most {goal}", measured])
            rows.append([f"{name}, over the floor", "3× or less",
                         ratio(r.first.wall, r.floor.wall)])
    return table(["goal", "wanted", "measured"], rows) if rows else ""


NOTES = """\
Whole processes: wall clock from start to end, and user and system CPU with that of children, as
the median of {small} runs (the example, peers) or {large} (the others); peak is the resident memory
of the largest process, of one more run. `first` renders into an empty folder, `second` again with
nothing changed. The floor reads the same inputs and writes the same bytes, as one process and one
thread.
"""

PEER_NOTES = """\
The peers make one cluster of 70 resources: a network in three zones, etcd, a control plane and
one pool. kaws also makes the nodes' bundles, the manifests and the add-ons' values, and cdk also
checks its templates. They start with an empty output folder, too; sceptre prints its templates.
"""


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true",
                        help="no peers, small sizes, few runs; leaves results.md as it is")
    parser.add_argument("--no-peers", action="store_true", help="kaws and the floor alone")
    parser.add_argument("--example", type=pathlib.Path, metavar="FILE",
                        default=ROOT / "examples" / "ha" / "cluster.yaml",
                        help="the small cluster (default: examples/ha/cluster.yaml)")
    parser.add_argument("--work", type=pathlib.Path, metavar="DIR", default=BENCHES / ".work",
                        help="where clusters are written and rendered (default: benches/.work)")
    return parser.parse_args()


def measure_all(args, kaws, work):
    """Returns results by cluster, by (pools, plugins), and what failed."""
    small, large = (3, 1) if args.quick else (10, 3)
    pools, plugins = (QUICK_POOLS, QUICK_PLUGINS) if args.quick else (POOLS, PLUGINS)
    both = QUICK_BOTH if args.quick else BOTH
    floor = floor_binary(work)
    example, sizes, failures = None, {}, []
    try:
        say(f"example {args.example}")
        if not args.example.exists():
            raise Failed(f"there is no {args.example}")
        example = measure_cluster(kaws, floor, work, args.example.resolve(), small)
    except Failed as error:
        failures.append(str(error))
    wanted = {(n, both[1]) for n in pools} | {(both[0], n) for n in plugins}
    for size in sorted(wanted):
        say("{} pools, {} plugins".format(*size))
        folder = work / "cluster"
        remove(folder)
        generate(folder, *size)
        try:
            sizes[size] = measure_cluster(kaws, floor, work, folder / "cluster.yaml", large)
        except Failed as error:
            failures.append("{} pools, {} plugins: {}".format(*size, error))
    remove(work / "cluster")
    return example, sizes, failures, (small, large), both


def main():
    args = options()
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    try:
        kaws = binary()
        about = machine(kaws, work)
        example, sizes, failures, runs, (pools, plugins) = measure_all(args, kaws, work)
    except Failed as error:
        sys.exit(str(error))
    clusters = {"example": example} if example else {}
    clusters |= {"{} pools, {} plugins".format(*size): r for size, r in sizes.items()}
    parts = ["# Speed of kaws render\n", about]
    if stale(kaws):
        parts.append("The binary is older than the sources beside it.\n")
    parts += [goals(example, sizes.get(BOTH)), NOTES.format(small=runs[0], large=runs[1])]
    parts += ["## Beside the floor\n", renders(clusters)] if clusters else []
    by_pools = {n: r for (n, p), r in sizes.items() if p == plugins}
    by_plugins = {n: r for (p, n), r in sizes.items() if p == pools}
    if sizes:
        parts += [
            "## Growth\n",
            "× linear is how much the figure grew over how much the number did since the line "
            "above:\n1.00 is linear, less is better.\n",
            f"Pools, with {plugins} plugins:\n", growth("pools", by_pools),
            f"Plugins, with {pools} pools:\n", growth("plugins", by_plugins),
        ]
    if not (args.no_peers or args.quick):
        rows, missed = measure_peers(work, runs[0])
        failures += missed
        parts += ["## Beside peers\n", PEER_NOTES, peers_table(rows, example)]
    if failures:
        parts += ["## Failures\n", *(f"```text\n{f}\n```\n" for f in failures)]
    for gone in work.glob("**/.gone"):
        shutil.rmtree(gone, ignore_errors=True)
    text = "\n".join(p for p in parts if p)
    print(text)
    (work if args.quick else BENCHES).joinpath("results.md").write_text(text)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
