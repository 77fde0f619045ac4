"""A reverse proxy that serves an app at a path prefix and removes the prefix, as Caddy's `handle_path` and nginx's `location`."""

import http.client
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import urlsplit

PREFIX = "/lookahead"
HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "server", "date"}


@contextmanager
def path_proxy(app, headers=()):
    """Run a proxy; yield it with `url`, the app's URL at `PREFIX` without a final slash, and `app`, the upstream URL.

    `app` may be changed. Every request to the app gets `headers`. The paths of other requests are in `other_paths`; their status
    is 404.
    """
    proxy = SimpleNamespace(app=app, other_paths=[])

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self):
            inside = self.path.removeprefix(PREFIX)
            if inside == self.path or inside[:1] not in ("", "/", "?"):
                proxy.other_paths.append(self.path)
                self.send_error(404)
                return
            upstream = http.client.HTTPConnection(urlsplit(proxy.app).netloc, timeout=60)
            try:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
                forwarded = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
                upstream.request(self.command, f"/{inside.removeprefix('/')}", body, forwarded | dict(headers))
                response = upstream.getresponse()
                self.send_response(response.status)
                for name, value in response.getheaders():
                    if name.lower() not in HOP:
                        self.send_header(name, value)
                self.end_headers()
                while part := response.read1(65536):
                    self.wfile.write(part)
            except OSError:
                pass  # the page was closed
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
