"""A server on loopback that stands for a host which nobody allowed."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """Keeps whatever reaches it, over TCP (as HTTP) and UDP."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.connections = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def setup(self) -> None:
                server.connections += 1
                super().setup()

            def do_POST(self) -> None:
                server.taken.append(self.rfile.read(int(self.headers["Content-Length"] or 0)).decode())
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"thanks")

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        threading.Thread(target=self.listen, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.http.server_address[1])

    def listen(self) -> None:
        while True:
            try:
                self.taken.append(repr(self.udp.recv(2048)))
            except OSError:
                return

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.udp.close()
