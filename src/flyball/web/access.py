"""Who may see the page and answer on it: a browser that opened the link printed in the person's own terminal.

- The link holds a token that works once. It becomes a cookie, which scripts cannot read and other sites cannot send.
- The address begins with a random folder, to which the cookie is bound: a browser sends cookies of 127.0.0.1 to every
  port, so without it any other local server, such as an agent's, would be sent ours.
- The host must be this server's own (a name that is made to lead here is refused), and a form must come from a page
  of this server and carry its token.
- None of this is ever on a disk that an agent can read. In a sandbox an agent has neither this network nor the memory
  of the process; without one it is best effort, and `serve` is refused in an agent's process like any other command
  that speaks for a person.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable
from hashlib import sha256

from flyball.system.http_server import Refused, Request

COOKIE = "flyball"
BROWSERS_MOST = 16
COOKIES_MOST = 50  # of a request, that are looked at
NOT_SIGNED_IN = "This browser is not signed in. Open the link that `flyball serve` printed last."
USED = "This link is wrong or was used before. Open the one that `flyball serve` printed last."


class Access:
    """Tokens and cookies of one server, for as long as it runs."""

    def __init__(self, port: int, on_link: Callable[[str], None]) -> None:
        """`on_link` hears each new link."""
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.base = f"/{secrets.token_urlsafe(12)}/"
        self.form = secrets.token_urlsafe(24)
        self._on_link, self._browsers, self._lock = on_link, list[bytes](), threading.Lock()
        self._token = b""
        self.new_link()

    def new_link(self) -> None:
        token = secrets.token_urlsafe(24)
        self._token = _digest(token)
        self._on_link(f"http://{self.hosts[0]}{self.base}in?token={token}")

    def sign_in(self, token: str) -> str:
        """The cookie for a link's token, which is used up. Raises Refused."""
        with self._lock:
            if not hmac.compare_digest(_digest(token), self._token):
                raise Refused(403, USED)
            value = secrets.token_urlsafe(24)
            self._browsers = [*self._browsers, _digest(value)][-BROWSERS_MOST:]
            self.new_link()
        return f"{COOKIE}={value}; Path={self.base}; HttpOnly; SameSite=Strict"

    def require_host(self, request: Request) -> None:
        if request.head("Host") not in self.hosts:
            raise Refused(421, f"This page is only served as http://{self.hosts[0]}.")

    def require_browser(self, request: Request) -> None:
        """A signed-in browser, and no other site that makes it ask."""
        if request.head("Sec-Fetch-Site") not in ("", "same-origin", "none"):
            raise Refused(403, "This request came from another site.")
        words = (word.strip().partition("=") for word in request.head("Cookie").split(";")[:COOKIES_MOST])
        digests = [_digest(value) for name, _, value in words if name == COOKIE]
        if not any(hmac.compare_digest(digest, known) for digest in digests for known in self._browsers):
            raise Refused(403, NOT_SIGNED_IN)

    def require_own_form(self, request: Request, token: str) -> None:
        if request.head("Origin") != f"http://{request.head('Host')}":
            raise Refused(403, "This form was not sent from a page of this server.")
        if not hmac.compare_digest(_digest(token), _digest(self.form)):
            raise Refused(
                403, "This form is from another start of `flyball serve`. Reload the page, then answer."
            )


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "replace")).digest()
