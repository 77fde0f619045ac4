"""Bytes from the hub into its ordinary cache: resumed where an earlier try broke off, stopped between two small pieces.

The hub's own client throws away what it has of a file when it is interrupted, and looks up only every ten megabytes.
Weights take minutes to hours, so here a file in the making is kept beside the finished ones under a name of its own, and
goes on from its end next time. A finished file is handed to the client, which files it: other programs then find it too.

Knows repositories, files and the hub's errors. It does not know what is in a file.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from httpx2 import TransportError  # the client's own kind of a broken connection
from huggingface_hub import (
    HfFileMetadata,
    constants,
    get_hf_file_metadata,
    get_session,
    hf_hub_download,
    hf_hub_url,
    hf_raise_for_status,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import WeakFileLock, build_hf_headers

from ..core.events import ModelError

TRIES = 5  # in a row that brought nothing
PLAIN_NAME = re.compile(r"[\w][\w.-]*")


@dataclass(frozen=True, slots=True)
class File:
    """One file of a repository at one commit."""

    repo: str
    commit: str
    name: str
    size: int

    @property
    def here(self) -> Path | None:
        """Where it lies in the cache, if it does."""
        path = try_to_load_from_cache(self.repo, self.name, revision=self.commit)
        return Path(path) if isinstance(path, str) else None


def cache() -> Path:
    """The folder that downloads go to."""
    return Path(constants.HF_HUB_CACHE).expanduser()


def cached(repo: str) -> Path | None:
    """The newest snapshot of a repository in the cache, if its configuration is there."""
    path = try_to_load_from_cache(repo, "config.json")
    return Path(path).parent if isinstance(path, str) else None


def fetch(file: File, progress: Callable[[int], None] = lambda size: None) -> Path:
    """A file's place in the cache, brought there if need be; `progress(bytes)` gets how much of it is here.

    What `progress` raises ends the download, and what came so far is kept. Raises what the hub's client raises; `explained`
    has words for it.
    """
    if path := file.here:
        progress(file.size)
        return path
    if file.size > constants.MAX_HTTP_DOWNLOAD_SIZE:
        mend = (
            f"{file.name} is too large for one download; run `hf download {file.repo}` on the server, then load again."
        )
        raise ModelError("model", file.repo, mend)
    etag = _about(file).etag
    if etag is None or not PLAIN_NAME.fullmatch(etag):
        raise ModelError("model", file.repo, f"the hub says nothing usable about {file.name}; try again later.")
    blobs = _folder(file.repo) / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    whole, part = blobs / etag, blobs / f"{etag}.lookahead.incomplete"
    lock = cache() / ".locks" / blobs.parent.name / f"{etag}.lookahead.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with WeakFileLock(lock, timeout=1):
            if not whole.exists():
                _stream(file, part, progress)
                part.replace(whole)
    except TimeoutError:
        raise ModelError("model", file.repo, f"another program is bringing {file.name}; load again later.") from None
    progress(file.size)
    return Path(hf_hub_download(file.repo, file.name, revision=file.commit))


def settle(repo: str, commit: str) -> None:
    """Note that a repository's newest commit is this one, as the client does: it is found without a connection then."""
    ref = _folder(repo) / "refs" / "main"
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_text(commit, encoding="utf-8")


def _folder(repo: str) -> Path:
    return cache() / f"models--{repo.replace('/', '--')}"


def _about(file: File) -> HfFileMetadata:
    return get_hf_file_metadata(hf_hub_url(file.repo, file.name, revision=file.commit))


def _stream(file: File, part: Path, progress: Callable[[int], None]) -> None:
    """The rest of a file, tried again from where it broke off."""
    part.touch()
    tries = 0
    while (size := part.stat().st_size) < file.size:
        progress(size)
        try:
            _rest(_about(file).location, part, size, progress)  # asked for anew: such an address does not hold for ever
            broken = ConnectionError("the hub stopped sending")
        except TransportError as error:
            broken = error
        tries = 0 if part.stat().st_size > size else tries + 1
        if tries == TRIES:
            raise broken
    if part.stat().st_size > file.size:
        part.unlink()
        raise ConnectionError("the hub sent more than it had announced")


def _rest(url: str, part: Path, size: int, progress: Callable[[int], None]) -> None:
    # What another host is asked for is signed already; the server's token is not for it.
    headers = build_hf_headers() if url.startswith(constants.ENDPOINT + "/") else {}
    # Uncompressed, so that what arrives can be counted and continued.
    request_headers = {**headers, "Accept-Encoding": "identity"} | ({"Range": f"bytes={size}-"} if size else {})
    with get_session().stream("GET", url, headers=request_headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT) as answer:
        hf_raise_for_status(answer)
        if size and answer.status_code != 206:  # it cannot be continued there
            size = 0
        with part.open("ab" if size else "wb") as out:
            for piece in answer.iter_bytes():  # as they come: whoever stops does not wait
                out.write(piece)
                size += len(piece)
                progress(size)


def explained(repo: str, error: Exception, near: list[str] | None = None) -> ModelError:
    """One line for what the hub's client raised: what it means and what to do."""
    if isinstance(error, ModelError):
        return error
    status = getattr(getattr(error, "response", None), "status_code", 0)
    page = f"{constants.ENDPOINT}/{repo}"
    if isinstance(error, GatedRepoError) or status == 403:
        mend = f"its authors ask who uses it; agree to its terms on {page}, and start the server with that account's HF_TOKEN."
    elif isinstance(error, DisabledRepoError):
        mend = "the hub has closed this model; choose another."
    elif isinstance(error, RepositoryNotFoundError) or status == 404:
        like = f' ("{near[0]}"?)' if near else ""
        mend = f"the hub shows no such model; check the spelling{like}, or start the server with an HF_TOKEN if it is private."
    elif status == 401:
        mend = "the hub does not accept this server's HF_TOKEN; start the server with a new one, or with none."
    elif isinstance(error, OfflineModeIsEnabled):
        mend = "this server works without a connection (HF_HUB_OFFLINE), and has no copy; choose a model that it has."
    elif isinstance(error, HFValidationError):
        mend = 'the hub has no names like that; give "organisation/model".'
    elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
        mend = "the disk is full; make room, then load again: what came so far is kept."
    else:
        kind = f"{type(error).__name__}{f' {status}' if status else ''}"
        mend = f"the hub cannot be reached ({kind}); try again later, or choose a model that this server has a copy of."
    return ModelError("model", repo, mend)
