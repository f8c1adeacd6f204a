"""An issuer of tokens, as an identity provider is: `issuer.py --host ADDRESS --url URL --folder DIR`.

Writes DIR/ca.crt (of its certificate) and DIR/token (of ana@acme.example, in the group platform, for the audience
kubernetes), then listens on ADDRESS:443.
"""

import argparse
import base64
import json
import pathlib
import ssl
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from internet import Authority
from parent import end_with_parent


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def token(key: rsa.RSAPrivateKey, url: str) -> str:
    now = int(time.time())
    claims = {"iss": url, "aud": "kubernetes", "sub": "ana", "email": "ana@acme.example", "email_verified": True,
              "groups": ["platform"], "iat": now, "exp": now + 3600}
    parts = [encoded(json.dumps(p).encode()) for p in ({"alg": "RS256", "typ": "JWT", "kid": "one"}, claims)]
    signature = key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
    return ".".join([*parts, encoded(signature)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    url = arguments.url
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_numbers()
    web_key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", "n": number(public.n), "e": number(public.e)}
    documents = {
        "/.well-known/openid-configuration": {"issuer": url, "jwks_uri": f"{url}/keys"},
        "/keys": {"keys": [web_key]},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(documents.get(self.path, {})).encode()
            self.send_response(200 if self.path in documents else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    context: ssl.SSLContext = Authority(arguments.folder).context(url.removeprefix("https://"))
    (arguments.folder / "token").write_text(token(key, url))
    end_with_parent()
    server = ThreadingHTTPServer((arguments.host, 443), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
