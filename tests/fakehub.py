"""A fake Hugging Face hub that serves folders: the routes that Lookahead uses.

It can be slow, cut connections, require consent, lack repositories, or claim files that do not exist.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CHUNK = 1 << 14


@dataclass
class Repo:
    """A folder served as a repository. `sizes` are files that the hub lists although they do not exist."""

    folder: Path
    license: str = "apache-2.0"
    gated: bool = False
    private: bool = False
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        """A commit hash that depends on the path of the folder."""
        return hashlib.sha1(str(self.folder).encode()).hexdigest()

    def files(self) -> dict[str, int]:
        """Return sizes in bytes by file name."""
        paths = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        return {str(path.relative_to(self.folder)): path.stat().st_size for path in paths} | self.sizes


class FakeHub:
    """A fake hub.

    `repos` are by name. `delay_s` is a delay per chunk, `breaks` the number of connections to cut, and `log` has all requests.
    `down` is the status of every response if it is not 0, and `faults` are statuses by file name. Files in `stalls` send one
    chunk and then wait.
    """

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.delay_s = 0.0
        self.breaks = 0
        self.down = 0
        self.faults: dict[str, int] = {}
        self.stalls: set[str] = set()
        self.log: list[tuple[str, str, str | None]] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self.do_GET()

            def do_GET(self):
                hub.respond(self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def add(self, name: str, folder: str | Path, **more) -> Repo:
        """Serve a folder as a repository."""
        self.repos[name] = Repo(Path(folder), **more)
        return self.repos[name]

    def requested_ranges(self, ending: str, method: str = "GET") -> list[str | None]:
        """Return the ranges of the requests for paths that end with `ending`."""
        return [span for kind, path, span in self.log if kind == method and path.endswith(ending)]

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """Respond to one request."""
        path = handler.path.split("?")[0]
        self.log.append((handler.command, path, handler.headers.get("Range")))
        parts = path.strip("/").split("/")
        if self.down:
            return self._send(handler, self.down, {})
        name = "/".join(parts[2:4] if parts[0] == "api" else parts[:2])
        repo = self.repos.get(name)
        if repo is None or (repo.private and not handler.headers.get("Authorization")):
            return self._send(handler, 401, {"X-Error-Code": "RepoNotFound"})
        if parts[0] == "api":
            return self._json(handler, name, repo)
        return self._file(handler, repo, "/".join(parts[4:]))

    def _json(self, handler, name: str, repo: Repo) -> None:
        siblings = []
        for file, size in repo.files().items():
            path = repo.folder / file
            etag = _etag(path) if path.is_file() else "0" * 40
            siblings.append({"rfilename": file, "size": size, "blobId": etag})
        self._send(handler, 200, {"Content-Type": "application/json"}, json.dumps({
            "id": name, "sha": repo.commit, "gated": "manual" if repo.gated else False, "siblings": siblings, "tags": [],
            "cardData": {"license": repo.license},
        }).encode())  # fmt: skip

    def _file(self, handler, repo: Repo, file: str) -> None:
        if file in self.faults:
            return self._send(handler, self.faults[file], {})
        if repo.gated:
            return self._send(handler, 403, {"X-Error-Code": "GatedRepo"})
        path = repo.folder / file
        if not path.is_file():
            return self._send(handler, 404, {"X-Error-Code": "EntryNotFound"})
        data = path.read_bytes()
        headers = {"ETag": f'"{_etag(path)}"', "X-Repo-Commit": repo.commit}
        first = 0
        if span := handler.headers.get("Range"):
            first, last = span.removeprefix("bytes=").split("-")
            first, last = int(first), min(int(last or len(data)), len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            data = data[: last + 1]
        return self._send(handler, 206 if span else 200, headers, data[first:], file in self.stalls)

    def _send(self, handler, status: int, headers: dict[str, str], body: bytes = b"", stalls: bool = False) -> None:
        handler.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            handler.send_header(key, value)
        handler.end_headers()
        if handler.command == "HEAD":
            return
        large = len(body) > 4 * CHUNK
        try:
            for start in range(0, len(body), CHUNK):
                handler.wfile.write(body[start : start + CHUNK])
                while stalls and self.stalls:
                    time.sleep(0.05)
                if large and self.breaks and start >= 8 * CHUNK:
                    self.breaks -= 1
                    handler.close_connection = True
                    handler.connection.close()
                    return
                if large and self.delay_s:
                    time.sleep(self.delay_s)
        except OSError:  # the client has closed the connection
            handler.close_connection = True


def _etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


@contextmanager
def serving():
    """Run a fake hub."""
    hub = FakeHub()
    thread = threading.Thread(target=hub.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.server.shutdown()
        hub.server.server_close()
        thread.join()
