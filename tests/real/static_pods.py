#!/usr/bin/env python3
"""Stands in for the kubelet on a machine of the tests: runs what static pods name, as programs of the machine.

A machine here has no container runtime. Every volume of kaws's static pods has the same path in the pod as on the
node, so that a command runs the same outside a container; this is checked, and so are the files that must be there.
Programs are taken from the folder in /etc/kaws-tests/programs. Answers on 127.0.0.1:10248 as the kubelet does.
"""

import http.server
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import yaml

FOLDER = pathlib.Path("/etc/kubernetes/manifests")
PROGRAMS = pathlib.Path(pathlib.Path("/etc/kaws-tests/programs").read_text().strip())


def notify() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        address = os.environ.get("NOTIFY_SOCKET", "")
        if address:
            channel.connect(address.replace("@", "\0", 1))
            channel.send(b"READY=1")


def command(path: pathlib.Path) -> list[str]:
    pod = yaml.safe_load(path.read_text())
    [container] = pod["spec"]["containers"]
    volumes = {v["name"]: v["hostPath"] for v in pod["spec"]["volumes"]}
    for mount in container["volumeMounts"]:
        host = volumes[mount["name"]]
        if host["path"] != mount["mountPath"]:
            sys.exit(f"{path.name}: {mount['mountPath']} is {host['path']} on the node")
        found = pathlib.Path(host["path"])
        if host["type"] == "DirectoryOrCreate":
            found.mkdir(parents=True, exist_ok=True)
        elif not (found.is_dir() if host["type"] == "Directory" else found.is_file()):
            sys.exit(f"{path.name}: {found} is no {host['type']}")
    name, *arguments = container["command"]
    return [str(PROGRAMS / name), *arguments]


def keep(path: pathlib.Path) -> None:
    while True:
        log = pathlib.Path(f"/var/log/{path.stem}.log")
        with log.open("ab") as out:
            subprocess.run(command(path), stdout=out, stderr=out, check=False)
        time.sleep(2)


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        pass


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
for manifest in sorted(FOLDER.glob("*.yaml")) if FOLDER.is_dir() else []:
    threading.Thread(target=keep, args=(manifest,), daemon=True).start()
notify()
http.server.HTTPServer(("127.0.0.1", 10248), Health).serve_forever()
