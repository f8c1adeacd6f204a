"""The metadata service of one machine, version 2 only: a token first.

    python metadata.py ADDRESS '{"meta-data/instance-id": "i-1", ...}'

Listens on ADDRESS:80, inside the network of its machine. A test says another fact with POST, which AWS does not know.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from parent import end_with_parent

TOKEN = "a-token-of-this-machine"
FACTS = json.loads(sys.argv[2])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status: int, text: str = "") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        asked = self.path == "/latest/api/token" and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        self.reply(200, TOKEN) if asked else self.reply(400)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        FACTS[self.path.removeprefix("/latest/")] = self.rfile.read(length).decode()
        self.reply(200)

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != TOKEN:
            return self.reply(401)
        fact = FACTS.get(self.path.removeprefix("/latest/"))
        self.reply(404) if fact is None else self.reply(200, fact)

    def log_message(self, *_: object) -> None:
        pass


end_with_parent()
ThreadingHTTPServer((sys.argv[1], 80), Handler).serve_forever()
