"""A small hub for the tests: the routes of the real one that Lookahead uses, over folders, on this machine only.

It can be slow, break off in the middle of a file, ask for consent, know nothing, or know too much.
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
    """A folder served as a repository. `sizes` are what the hub claims of files that are not there."""

    folder: Path
    licence: str = "apache-2.0"
    gated: bool = False
    private: bool = False
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        """Of what lies in the folder, the same as long as that is the same."""
        return hashlib.sha1(str(self.folder).encode()).hexdigest()

    def files(self) -> dict[str, int]:
        """Name -> size."""
        return {path.name: path.stat().st_size for path in sorted(self.folder.iterdir())} | self.sizes


class FakeHub:
    """`repos` by name; `delay_s` a chunk, `breaks` connections to be cut after some chunks, `log` of what was asked for.

    `down` is the status of every answer, `faults` are statuses by file name, and after a chunk of a file in `stalls`
    nothing more is sent."""

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
                hub.answer(self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def add(self, name: str, folder: str | Path, **more) -> Repo:
        """Serve a folder under a name."""
        self.repos[name] = Repo(Path(folder), **more)
        return self.repos[name]

    def asked(self, ending: str, method: str = "GET") -> list[str | None]:
        """The ranges of the requests for what ends so."""
        return [span for kind, path, span in self.log if kind == method and path.endswith(ending)]

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        """One request."""
        path = to.path.split("?")[0]
        self.log.append((to.command, path, to.headers.get("Range")))
        parts = path.strip("/").split("/")
        if self.down:
            return self._say(to, self.down, {})
        name = "/".join(parts[2:4] if parts[0] == "api" else parts[:2])
        repo = self.repos.get(name)
        if repo is None or (repo.private and not to.headers.get("Authorization")):
            return self._say(to, 401, {"X-Error-Code": "RepoNotFound"})
        if parts[0] == "api":
            return self._json(to, name, repo)
        return self._file(to, repo, parts[-1])

    def _json(self, to, name: str, repo: Repo) -> None:
        siblings = []
        for file, size in repo.files().items():
            here = repo.folder / file
            one = {"rfilename": file, "size": size, "blobId": _etag(here) if here.is_file() else "0" * 40}
            siblings.append(one)
        self._say(to, 200, {"Content-Type": "application/json"}, json.dumps({
            "id": name, "sha": repo.commit, "gated": "manual" if repo.gated else False, "siblings": siblings, "tags": [],
            "cardData": {"license": repo.licence},
        }).encode())  # fmt: skip

    def _file(self, to, repo: Repo, file: str) -> None:
        if file in self.faults:
            return self._say(to, self.faults[file], {})
        if repo.gated:
            return self._say(to, 403, {"X-Error-Code": "GatedRepo"})
        path = repo.folder / file
        if not path.is_file():
            return self._say(to, 404, {"X-Error-Code": "EntryNotFound"})
        data = path.read_bytes()
        headers = {"ETag": f'"{_etag(path)}"', "X-Repo-Commit": repo.commit}
        first = 0
        if span := to.headers.get("Range"):
            first = int(span.removeprefix("bytes=").partition("-")[0])
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        return self._say(to, 206 if span else 200, headers, data[first:], file in self.stalls)

    def _say(self, to, status: int, headers: dict[str, str], body: bytes = b"", stalls: bool = False) -> None:
        to.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            to.send_header(key, value)
        to.end_headers()
        if to.command == "HEAD":
            return
        large = len(body) > 4 * CHUNK
        try:
            for start in range(0, len(body), CHUNK):
                to.wfile.write(body[start : start + CHUNK])
                while stalls and self.stalls:
                    time.sleep(0.05)
                if large and self.breaks and start >= 8 * CHUNK:
                    self.breaks -= 1
                    to.close_connection = True
                    to.connection.close()
                    return
                if large and self.delay_s:
                    time.sleep(self.delay_s)
        except OSError:  # whoever asked has gone
            to.close_connection = True


def _etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


@contextmanager
def serving():
    """A hub that runs."""
    hub = FakeHub()
    thread = threading.Thread(target=hub.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.server.shutdown()
        hub.server.server_close()
        thread.join()
