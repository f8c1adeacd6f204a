#!/usr/bin/env python3
"""Asks the components of Kubernetes which flags, feature gates and admission plugins they know.

Builds scripts/kubernetes_flags/main.go against the Go module of each minor in VERSIONS, once per component,
and writes what the programs print to src/kubernetes/flags.json. With --check, only says whether the file is
what it would write. This needs Linux, Go, the modules and 15 GB of disk, and takes half an hour on two
cores, so scripts/test leaves it out: run it by hand when a minor is added or a patch is raised. --work keeps
the builds and their answers in FOLDER, and a later run asks only what is missing there.

    python3 scripts/kubernetes_flags.py [--check] [--work FOLDER]

The table, where a minor is the text after "1.":

    versions      minor -> the version that was asked.
    flags         component -> flag -> row. A row has
        type        the flag's type, as its help names it;
        default     its default as text; left out where it is empty;
        since       the first minor that has the flag; left out where the first minor of the table has it;
        removed     the first minor that has it no more; left out where the last minor has it;
        hidden      true where the help text of the last minor that has it leaves it out;
        deprecated  since: the first minor that calls it deprecated (the table's first minor stands for every
                    minor before it too); message: what the last minor that does so says; until: the first
                    minor that still has the flag and calls it deprecated no more, left out where there is none.
      Where type or default are not the same in all minors, they are minor -> value.
    gates         gate -> minor -> [stage, default, whether it is locked to the default], null where it is gone.
    gates apart   component -> gate -> the same, for gates that this component has otherwise than most others;
                  null where it does not know the gate.
    admission     minor -> known: all plugins in the order they run; on: those that are on by default.

What is minor -> value has a minor only where the value is another than in the minor before it. A gate whose
first minor is not the table's first is not there before it. What was removed before the table's first minor
is in src/kubernetes/removed.json, which is written by hand.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "src/kubernetes/flags.json"
PROGRAM = ROOT / "scripts/kubernetes_flags/main.go"

# The patch of each minor that is asked. A minor's flags stay as they are, but a patch may add a gate or turn
# its default: 1.34 did both after 1.34.0.
VERSIONS = {"34": "1.34.10", "35": "1.35.4", "36": "1.36.3", "37": "1.37.1"}

# For each component, what it adds to PROGRAM: imports, then the body of init.
COMPONENTS = {
    "kube-apiserver": (
        ['"k8s.io/kubernetes/cmd/kube-apiserver/app"', '"k8s.io/kubernetes/pkg/kubeapiserver/options"'],
        """command = app.NewAPIServerCommand
	admission = func() ([]string, []string, []string) {
		registered := options.NewAdmissionOptions().GenericAdmission.Plugins.Registered()
		return options.AllOrderedPlugins, registered, options.DefaultOffAdmissionPlugins().UnsortedList()
	}""",
    ),
    "kube-controller-manager": (
        ['"k8s.io/kubernetes/cmd/kube-controller-manager/app"'],
        "command = app.NewControllerManagerCommand",
    ),
    "kube-scheduler": (
        ['"github.com/spf13/cobra"', '"k8s.io/kubernetes/cmd/kube-scheduler/app"'],
        "command = func() *cobra.Command { return app.NewSchedulerCommand() }",
    ),
    "kubelet": (
        [
            '"context"',
            '"github.com/spf13/cobra"',
            '"github.com/spf13/pflag"',
            '"k8s.io/kubernetes/cmd/kubelet/app"',
            '"k8s.io/kubernetes/cmd/kubelet/app/options"',
        ],
        """command = func() *cobra.Command { return app.NewKubeletCommand(context.Background()) }
	apart = func(set *pflag.FlagSet) {
		config, err := options.NewKubeletConfiguration()
		if err != nil {
			panic(err)
		}
		options.NewKubeletFlags().AddFlags(set)
		options.AddKubeletConfigFlags(set, config)
		options.AddGlobalFlags(set)
	}""",
    ),
    "kube-proxy": (
        ['"k8s.io/kubernetes/cmd/kube-proxy/app"'],
        "command = app.NewProxyCommand",
    ),
}


def go(folder, *words):
    try:
        done = subprocess.run(["go", *words], cwd=folder, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        sys.exit("Go is not installed")
    if done.returncode:
        sys.exit(f"go {' '.join(words)} failed in {folder}")
    return done.stdout


def module(folder, version):
    """A module that asks for Kubernetes as its own go.mod does: the parts it keeps beside itself have the
    same version under another number."""
    beside = json.loads(go(folder, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"))["GoMod"]
    text = pathlib.Path(beside).read_text()
    lines = ["module kaws.example/flags", ""]
    lines += re.findall(r"^(?:go|godebug) .*$", text, re.M)
    lines.append(f"require k8s.io/kubernetes v{version}")
    for name in re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", text, re.M):
        lines.append(f"replace {name} => {name} v0.{version.split('.', 1)[1]}")
    (folder / "go.mod").write_text("\n".join(lines) + "\n")


def ask(work, minor, version):
    """What each component of one minor answers."""
    folder = work / version
    told = {name: folder / f"{name}.json" for name in COMPONENTS}
    if not all(path.exists() for path in told.values()):
        folder.mkdir(parents=True, exist_ok=True)
        for name, (imports, body) in COMPONENTS.items():
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "main.go").write_text(PROGRAM.read_text())
            lines = ["package main", "", "import (", *(f"\t{one}" for one in imports), ")", ""]
            (folder / name / "component.go").write_text("\n".join([*lines, f"func init() {{\n\t{body}\n}}\n"]))
        module(folder, version)
        go(folder, "mod", "tidy")
        for name, path in told.items():
            go(folder, "build", "-o", f"bin/{name}", f"./{name}")
            print(f"{name} {version} is built", file=sys.stderr)
            path.write_text(subprocess.check_output([folder / "bin" / name], text=True))
    answers = {name: json.loads(path.read_text()) for name, path in told.items()}
    for name, one in answers.items():
        if one["version"] != f"1.{minor}":
            sys.exit(f"{name} {version} says that it is {one['version']}")
    return answers


def changes(told):
    """Values by minor, without those that the minor before has too."""
    kept, last = {}, ()
    for minor, value in told.items():
        if value != last:
            kept[minor] = value
        last = value
    return kept


def single(told):
    """The one value of all minors, or the values by minor."""
    kept = changes(told)
    return kept if len(kept) > 1 else next(iter(kept.values()))


def flag(name, told):
    """One flag's row. `told` has what each minor says of it, None where it has no such flag."""
    here = {minor: row for minor, row in told.items() if row}
    minors, first, last = list(told), next(iter(here)), list(here)[-1]
    if list(here) != minors[minors.index(first):minors.index(last) + 1]:
        sys.exit(f"{name} goes and comes back: the table has no form for this")
    row = {"type": single({minor: one["type"] for minor, one in here.items()})}
    default = single({minor: one["default"] for minor, one in here.items()})
    if default != "":
        row["default"] = default
    if first != minors[0]:
        row["since"] = int(first)
    if last != minors[-1]:
        row["removed"] = int(minors[minors.index(last) + 1])
    if here[last].get("hidden"):
        row["hidden"] = True
    old = [minor for minor, one in here.items() if one.get("deprecated")]
    if old:
        row["deprecated"] = {"since": int(old[0]), "message": " ".join(here[old[-1]]["deprecated"].split())}
        if old[-1] != last:
            row["deprecated"]["until"] = int(list(here)[list(here).index(old[-1]) + 1])
    return row


def history(told):
    """A gate's changes. That it is not there yet goes without saying."""
    kept = changes(told)
    if next(iter(kept.values())) is None and len(kept) > 1:
        del kept[next(iter(kept))]
    return kept


def gates(answers):
    """The rows of all gates, and for each component those where it stands apart from most others."""
    rows, apart = {}, {component: {} for component in COMPONENTS}
    for name in sorted({gate for told in answers.values() for one in told.values() for gate in one["gates"]}):
        each = {component: {} for component in COMPONENTS}
        most = {}
        for minor, told in answers.items():
            for component, one in told.items():
                gate = one["gates"].get(name)
                each[component][minor] = gate and [gate["stage"], gate["default"], gate["locked"]]
            values = [each[component][minor] for component in COMPONENTS]
            most[minor] = max(values, key=values.count)
        rows[name] = history(most)
        for component, told in each.items():
            if told != most:
                apart[component][name] = history(told)
    return rows, {component: rest for component, rest in apart.items() if rest}


def lines(rows, indent):
    return ",\n".join(f"{indent}{json.dumps(name)}: {json.dumps(value)}" for name, value in rows.items())


def table(answers):
    parts = []
    for component in COMPONENTS:
        by_minor = {}
        for minor, told in answers.items():
            by_minor[minor] = {one["name"]: one for one in told[component]["flags"]}
        names = sorted(set().union(*by_minor.values()))
        rows = {name: flag(name, {minor: has.get(name) for minor, has in by_minor.items()}) for name in names}
        parts.append(f"  {json.dumps(component)}: {{\n{lines(rows, '   ')}\n  }}")
    rows, apart = gates(answers)
    admission = {minor: told["kube-apiserver"] for minor, told in answers.items()}
    admission = changes({minor: {"known": one["known"], "on": one["on"]} for minor, one in admission.items()})
    head = {"generated by": "scripts/kubernetes_flags.py", "versions": VERSIONS}
    return "\n".join([
        json.dumps(head)[:-1] + ",",
        ' "flags": {\n' + ",\n".join(parts) + "\n },",
        ' "gates": {\n' + lines(rows, "  ") + "\n },",
        ' "gates apart": {\n' + lines(apart, "  ") + "\n },",
        ' "admission": {\n' + lines(admission, "  ") + "\n }",
        "}\n",
    ])


def main():
    words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        if "--work" in words:
            folder = words[words.index("--work") + 1]
        work = pathlib.Path(folder).resolve()
        answers = {minor: ask(work, minor, version) for minor, version in VERSIONS.items()}
    text = table(answers)
    json.loads(text)
    if "--check" in words:
        if not OUT.exists() or OUT.read_text() != text:
            sys.exit(f"{OUT.relative_to(ROOT)} is not what the components say: python3 scripts/kubernetes_flags.py")
        return
    OUT.write_text(text)
    print(f"{OUT.relative_to(ROOT)}: {len(text)} bytes, {', '.join(VERSIONS.values())}")


main()
