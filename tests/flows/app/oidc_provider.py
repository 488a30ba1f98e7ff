"""A small OpenID Connect provider: discovery, authorization code, signed ID token, and keys.

Whoever asks it to sign in names the person in the address (`login`); there is no password.
"""

from __future__ import annotations

import base64
import http.server
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

CLIENT = "evenhand"
CLIENT_SECRET = "known-to-provider-and-proxy"
KEY_NAME = "first"
GROUPS = {"ana": [], "ben": ["others", "staff"], "cleo": ["visitors"]}
# Signs with a key that the provider does not publish.
FORGER = "mallory"


def encoded(content: bytes) -> str:
    """Base64 for addresses, without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class OidcProvider(http.server.ThreadingHTTPServer):
    """The provider's state: its keys, and the codes that it gave out."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server_address[1]}"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.unknown_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.codes: dict[str, tuple[str, str]] = {}

    def id_token(self, name: str, nonce: str) -> str:
        """A signed token that says who somebody is."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": f"subject-{name}",
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            "email": f"{name}@example.org",
            "email_verified": True,
            "groups": GROUPS.get(name, []),
        }
        head = {"alg": "RS256", "typ": "JWT", "kid": KEY_NAME}
        parts = [encoded(json.dumps(part).encode()) for part in (head, claims)]
        key = self.unknown_key if name == FORGER else self.key
        signed = ".".join(parts).encode()
        signature = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        return f"{signed.decode()}.{encoded(signature)}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers the addresses of the provider."""

    server: OidcProvider

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        if place.path == "/.well-known/openid-configuration":
            self._answer(self._discovery())
        elif place.path == "/keys":
            numbers = self.server.key.public_key().public_numbers()
            key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_NAME}
            key["n"] = encoded(numbers.n.to_bytes(256, "big"))
            key["e"] = encoded(numbers.e.to_bytes(3, "big"))
            self._answer({"keys": [key]})
        elif place.path == "/authorize":
            self._authorize({name: texts[0] for name, texts in parse_qs(place.query).items()})
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        fields = {name: texts[0] for name, texts in parse_qs(body).items()}
        known = base64.b64encode(f"{CLIENT}:{CLIENT_SECRET}".encode()).decode()
        is_client = self.headers.get("Authorization") == f"Basic {known}"
        name, nonce = self.server.codes.pop(fields.get("code", ""), ("", ""))
        if self.path != "/token" or not is_client or not name:
            self.send_error(400)
            return
        token = self.server.id_token(name, nonce)
        self._answer(
            {
                "access_token": secrets.token_hex(8),
                "token_type": "Bearer",
                "expires_in": 300,
                "id_token": token,
            }
        )

    def _discovery(self) -> dict[str, Any]:
        issuer = self.server.issuer
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }

    def _authorize(self, asked: dict[str, str]) -> None:
        code = secrets.token_hex(8)
        self.server.codes[code] = (asked["login"], asked.get("nonce", ""))
        back = urlencode({"code": code, "state": asked["state"]})
        self.send_response(302)
        self.send_header("Location", f"{asked['redirect_uri']}?{back}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Write nothing."""


@contextmanager
def provider_running() -> Iterator[OidcProvider]:
    """A provider that answers at an address of this machine."""
    provider = OidcProvider()
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    try:
        yield provider
    finally:
        provider.shutdown()
        provider.server_close()
