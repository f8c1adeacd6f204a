"""What the tests have in place of the internet: a proxy that answers for every host itself.

    python internet.py --host 127.0.0.1 --port 0 --folder DIR

writes DIR/ca.crt, the authority of its certificates, prints `listening on HOST:PORT`, and answers CONNECT for any
host with a certificate made for it. DIR/world.json says what there is:

    {"charts": [["NAME", "VERSION"], ...],  in every chart repository
     "programs": {"etcd": "/path", ...}}    bytes of programs; one that is not named is a script that does nothing

Every download has a checksum beside it (.sha256, .sha256sum), archives are made of the programs that belong in them,
and the same path always gives the same bytes; the first download of a program breaks off half-way. DIR/digests.json
has the digests of the charts, by NAME/VERSION. `wrong` in world.json lists paths whose bytes are not what their
checksum says.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import hashlib
import io
import json
import pathlib
import ssl
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from parent import end_with_parent

ARCHIVES = {
    "etcd-": ["etcd", "etcdctl", "etcdutl"],
    "containerd-": ["containerd", "containerd-shim-runc-v2", "ctr"],
    "cni-plugins-": ["bridge", "host-local", "loopback", "portmap"],
    "helm-": ["helm"],
}
# What is equal is downloaded once: each has its name in it.
NOTHING = "#!/bin/sh\n# {}\nexit 0\n"


class Authority:
    """Signs a certificate for every host that is asked for."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.lock = threading.Lock()
        self.contexts: dict[str, ssl.SSLContext] = {}
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the internet of the tests")])
        self.certificate = self.sign(self.name, self.key, x509.BasicConstraints(ca=True, path_length=None), [])
        (folder / "ca.crt").write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, basic: x509.BasicConstraints, names: list[str]):
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=30))
            .add_extension(basic, critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), False)
        return builder.sign(self.key, hashes.SHA256())

    def context(self, host: str) -> ssl.SSLContext:
        """One at a time: two that write the same file would mix a certificate with another's key."""
        with self.lock:
            if host not in self.contexts:
                self.contexts[host] = self.made(host)
            return self.contexts[host]

    def made(self, host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:60])])
        certificate = self.sign(subject, key, x509.BasicConstraints(ca=False, path_length=None), [host])
        path = self.folder / f"{host}.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


class Content:
    """What is at an address."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.lock = threading.Lock()
        self.begun: set[str] = set()

    def breaks_off(self, path: str) -> bool:
        """Each program is broken off once, as connections are."""
        file = path.rsplit("/", 1)[-1]
        if "/charts/" in path or file == "index.yaml" or file.endswith((".sha256", ".sha256sum")) or path in self.begun:
            return False
        self.begun.add(path)
        return True

    def world(self) -> dict:
        return json.loads((self.folder / "world.json").read_text())

    def program(self, name: str) -> bytes:
        path = self.world()["programs"].get(name)
        return pathlib.Path(path).read_bytes() if path else NOTHING.format(name).encode()

    def archive(self, files: dict[str, bytes]) -> bytes:
        buffer = io.BytesIO()
        with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1, mtime=0) as zipped:
            with tarfile.open(fileobj=zipped, mode="w") as tar:
                for name, data in files.items():
                    info = tarfile.TarInfo(name)
                    info.size, info.mode = len(data), 0o755
                    tar.addfile(info, io.BytesIO(data))
        return buffer.getvalue()

    def chart(self, name: str, version: str) -> bytes:
        """A chart that leaves behind what it was given, and workloads of which nothing runs."""
        template = (
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-was-here\n"
            "data:\n  values: {{ .Values | toJson | quote }}\n"
        )
        name_of_it = "{{ .Release.Name }}"
        labels = f"{{app: {name_of_it}}}"
        pod = (
            f"selector: {{matchLabels: {labels}}}, template: {{metadata: {{labels: {labels}}}, "
            "spec: {nodeSelector: {nowhere: to-be-found}, containers: [{name: a, image: a.example/a}]}}"
        )
        workloads = (
            f"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: {name_of_it}}}\nspec: {{{pod}}}\n---\n"
            f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name_of_it}-operator}}\n"
            f"spec: {{replicas: 0, {pod}}}\n"
        )
        files = {
            f"{name}/Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: {version}\n".encode(),
            f"{name}/templates/proof.yaml": template.encode(),
            f"{name}/templates/workloads.yaml": workloads.encode(),
        }
        return self.archive(files)

    def digests(self) -> dict[str, str]:
        """The digest of each chart."""
        charts = self.world()["charts"]
        return {f"{name}/{version}": hashlib.sha256(self.chart(name, version)).hexdigest() for name, version in charts}

    def index(self) -> bytes:
        entries = {}
        for named, digest in self.digests().items():
            name, version = named.split("/")
            entry = {"version": version, "digest": digest, "urls": [f"charts/{name}-{version}.tgz"]}
            entries.setdefault(name, []).append(entry)
        return json.dumps({"apiVersion": "v1", "entries": entries}).encode()

    def at(self, path: str) -> bytes | None:
        file = path.rsplit("/", 1)[-1]
        if file == "index.yaml":
            return self.index()
        if "/charts/" in path:
            name, version = file.removesuffix(".tgz").rsplit("-", 1)
            return self.chart(name, version)
        for end in (".sha256", ".sha256sum"):
            if path.endswith(end):
                return hashlib.sha256(self.download(path.removesuffix(end))).hexdigest().encode()
        data = self.download(path)
        return data + b"# not what was published\n" if path in self.world().get("wrong", []) else data

    def download(self, path: str) -> bytes:
        """One at a time, and kept: archives are large."""
        with self.lock:
            kept = self.folder / hashlib.sha256(path.encode()).hexdigest()
            if not kept.exists():
                kept.write_bytes(self.made(path.rsplit("/", 1)[-1]))
            return kept.read_bytes()

    def made(self, file: str) -> bytes:
        if not file.endswith((".tar.gz", ".tgz")):
            names = self.world()["programs"]
            named = [name for name in names if file == name or file.startswith((f"{name}.", f"{name}-linux"))]
            return self.program(named[0] if named else file)
        members = next((m for start, m in ARCHIVES.items() if file.startswith(start)), [])
        return self.archive({f"{file.split('.')[0]}/{name}": self.program(name) for name in members})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    authority: Authority
    content: Content

    def do_CONNECT(self) -> None:
        host = self.path.rsplit(":", 1)[0]
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.connection = self.authority.context(host).wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb", self.rbufsize)
        self.wfile = self.connection.makefile("wb", self.wbufsize)
        self.close_connection = False

    def do_GET(self) -> None:
        data = self.content.at(self.path.split("?")[0])
        self.send_response(200 if data is not None else 404)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        if self.command == "GET" and self.content.breaks_off(self.path.split("?")[0]):
            self.wfile.write((data or b"")[: len(data or b"") // 2])
            self.close_connection = True
        elif self.command == "GET":
            self.wfile.write(data or b"")
        self.wfile.flush()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients go away when they have what they want."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    Handler.authority = Authority(arguments.folder)
    Handler.content = Content(arguments.folder)
    (arguments.folder / "digests.json").write_text(json.dumps(Handler.content.digests()))
    server = Server((arguments.host, arguments.port), Handler)
    end_with_parent()
    print(f"listening on {arguments.host}:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
