"""A reverse proxy that serves an app below a path and cuts it off, as `handle_path` of Caddy does and `location` of nginx."""

import http.client
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import urlsplit

PREFIX = "/lookahead"
HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "server", "date"}


@contextmanager
def below_a_path(app, headers=()):
    """A proxy: `url` is the app's address at `PREFIX` without a slash at its end, `app` where it is, which may be changed.
    The app gets `headers` with every request. Requests for anything else are answered 404, and kept in `elsewhere`."""
    proxy = SimpleNamespace(app=app, elsewhere=[])

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self):
            inside = self.path.removeprefix(PREFIX)
            if inside == self.path or inside[:1] not in ("", "/", "?"):
                proxy.elsewhere.append(self.path)
                self.send_error(404)
                return
            upstream = http.client.HTTPConnection(urlsplit(proxy.app).netloc, timeout=60)
            try:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
                given = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
                upstream.request(self.command, f"/{inside.removeprefix('/')}", body, given | dict(headers))
                answer = upstream.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in HOP:
                        self.send_header(name, value)
                self.end_headers()
                while part := answer.read1(65536):
                    self.wfile.write(part)
            except OSError:
                pass  # a page that was left
            finally:
                upstream.close()

        do_POST = do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    proxy.url = f"http://127.0.0.1:{server.server_port}{PREFIX}"
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
