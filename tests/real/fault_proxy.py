"""A proxy before the mock server that makes calls go wrong, from a seed.

    python fault_proxy.py --to 127.0.0.1:5555 --seed 7 --throttle 0.3 --error 0.05 --reset 0.02 \\
        --delay 0.01 --seconds 10 --truncate 0.02

Prints `listening on 127.0.0.1:PORT`, then one line at the end of each call that went wrong. A call is throttled
(an answer of AWS's, and the server sees nothing), answered with 503 before or after the server has seen it, cut off
with a reset before or after, delayed, or its answer is cut short. What happens to a call depends on the seed and on
the number of the call alone.
"""

import argparse
import http.client
import random
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Proxy(BaseHTTPRequestHandler):
    """Passes a call on, or makes it go wrong."""

    protocol_version = "HTTP/1.1"
    options = None
    calls = 0
    lock = threading.Lock()

    def handle_call(self):
        with Proxy.lock:
            Proxy.calls += 1
            number = Proxy.calls
        chance = random.Random(f"{self.options.seed}/{number}")
        body = self.read_body()
        what = self.fate(chance)
        before = chance.random() < 0.5
        if what == "throttle":
            return self.throttled()
        if what == "delay":
            threading.Event().wait(self.options.seconds)
        if what == "error" and before:
            return self.say(503, b"<Error><Code>ServiceUnavailable</Code><Message>later</Message></Error>")
        if what == "reset" and before:
            return self.cut()
        status, headers, answer = self.passed_on(body)
        if what == "error":
            return self.say(503, b"<Error><Code>ServiceUnavailable</Code><Message>later</Message></Error>")
        if what == "reset":
            return self.cut()
        self.answer(status, headers, answer, what == "truncate")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_call

    def fate(self, chance):
        """What happens to this call; each kind has its own share."""
        dice = chance.random()
        for kind in ("throttle", "error", "reset", "delay", "truncate"):
            share = getattr(self.options, kind)
            if dice < share:
                return kind
            dice -= share
        return "nothing"

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            whole = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                whole += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return whole
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def passed_on(self, body):
        connection = http.client.HTTPConnection(self.options.to, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("transfer-encoding", "content-length")}
        headers["Content-Length"] = str(len(body))
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()

    def throttled(self):
        """As the service says it: S3, those that speak JSON, and the others."""
        if self.headers.get("X-Amz-Target"):
            return self.say(400, b'{"__type": "ThrottlingException", "message": "Rate exceeded"}')
        if self.path != "/":
            return self.say(503, b"<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>")
        self.say(400, b"<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code>"
                      b"<Message>Rate exceeded</Message></Error><RequestId>x</RequestId></ErrorResponse>")

    def say(self, status, body):
        self.answer(status, [("Content-Type", "text/xml")], body, False)

    def answer(self, status, headers, body, short):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        length = next((v for n, v in headers if n.lower() == "content-length"), None)
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if short else body)
        if short:
            self.close_connection = True

    def cut(self):
        """A reset, not an orderly end."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def log_message(self, *_):
        pass

    def finish(self):
        try:
            super().finish()
        except OSError:
            pass


class Server(ThreadingHTTPServer):
    """Clients that go away are no news."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10)
    for kind in ("throttle", "error", "reset", "delay", "truncate"):
        parser.add_argument(f"--{kind}", type=float, default=0)
    Proxy.options = parser.parse_args()
    server = Server(("127.0.0.1", 0), Proxy)
    print(f"listening on 127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


main()
