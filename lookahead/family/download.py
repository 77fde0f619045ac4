"""Downloads of files from the hub by `huggingface_hub`, in a child process that ends when its caller stops.

A download that ends early leaves complete files in the hub's cache. The next download continues with the first missing file.
"""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from threading import Thread
from time import monotonic, sleep, time

from huggingface_hub import (
    HfApi,
    constants,
    errors,
    get_session,
    hf_hub_download,
    hf_hub_url,
    hf_raise_for_status,
    scan_cache_dir,
    try_to_load_from_cache,
)
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import build_hf_headers

from ..core.events import Cancelled, ModelError
from ..core.wording import short_error
from ..model.small_files import CONFIG, weight_files

CHUNK = 1 << 16  # bytes that the child writes at once, so that progress is visible on a slow connection
POLL_S = 0.1
GRACE_S = 0.5  # time for the child to remove its unfinished file
STALLED_S = 60  # time without new bytes after which a download fails
ABANDONED_S = 3600  # age of an unfinished file that is removed
PACKAGES = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class File:
    """One file of a repository at one commit. `size` is 0 if the hub does not report it."""

    repo: str
    commit: str
    name: str
    size: int

    @property
    def cached_path(self) -> Path | None:
        """The file's path in the cache, None if it is missing or has another size."""
        path = try_to_load_from_cache(self.repo, self.name, revision=self.commit)
        return Path(path) if isinstance(path, str) and self.size in (0, Path(path).stat().st_size) else None

    @property
    def path(self) -> Path:
        """The file's path in the cache, also if it is missing."""
        return cache() / repo_folder_name(repo_id=self.repo, repo_type="model") / "snapshots" / self.commit / self.name

    @property
    def is_newest(self) -> bool:
        """Whether the file is in the cache and its commit is the newest one there, which is found without a connection."""
        return self.cached_path is not None and newest(self.repo, self.name) == self.cached_path


def cache() -> Path:
    """Return the folder of the hub's cache."""
    return Path(constants.HF_HUB_CACHE).expanduser()


def newest(repo: str, name: str) -> Path | None:
    """Return a file of the newest snapshot of a repository in the cache, None if it is missing."""
    path = try_to_load_from_cache(repo, name)
    return Path(path) if isinstance(path, str) else None


def cached(repo: str) -> Path | None:
    """Return the newest snapshot of a repository in the cache, None if its configuration or weights are incomplete."""
    path = newest(repo, CONFIG)
    with suppress(ModelError):
        if path and weight_files(path.parent):
            return path.parent
    return None


def repositories() -> list[str]:
    """Return the names of the models in the cache."""
    with suppress(errors.CacheNotFound, ValueError):
        return sorted(repo.repo_id for repo in scan_cache_dir(cache()).repos if repo.repo_type == "model")
    return []


def bytes_of_weights(repo: str) -> int:
    """Return the bytes of a repository's weights in the cache, 0 if they are incomplete."""
    copy = cached(repo)
    return sum(path.stat().st_size for path in copy.glob("model*.safetensors")) if copy else 0


def download(files: Sequence[File], progress: Callable[[int], None], main: bool = False) -> None:
    """Download the missing files, and call `progress(downloaded_bytes)` ten times per second.

    `main` also stores the newest commit in the cache, so that the files are found without a connection. If `progress` raises,
    the child process ends within a second. Raises `ModelError`.
    """
    if all(file.is_newest if main else file.cached_path for file in files):
        return
    folders = {cache() / repo_folder_name(repo_id=file.repo, repo_type="model") / "blobs" for file in files}
    before, downloaded, moved_at = _bytes(folders, ABANDONED_S), 0, monotonic()
    paths = filter(None, (str(PACKAGES), os.environ.get("PYTHONPATH")))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    command = [sys.executable, "-P", "-m", __name__]
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as child:
        try:
            with suppress(BrokenPipeError):  # the child has ended
                print(json.dumps([[astuple(file) for file in files], main]), file=child.stdin, flush=True)
            while child.poll() is None:
                if (bytes_ := _bytes(folders) - before) > downloaded:
                    downloaded, moved_at = bytes_, monotonic()
                progress(downloaded)
                if monotonic() - moved_at > STALLED_S:
                    raise ModelError("model", files[0].repo, "the hub has stopped sending; try again later.")
                sleep(POLL_S)
            output = child.stdout.read()
        finally:
            with suppress(BrokenPipeError):
                child.stdin.close()  # the child ends itself then
            with suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_S)
            child.kill()
    interrupted = f"its download was interrupted ({child.returncode}); load again. Complete files are kept."
    repo, hint = json.loads(output) if output else (files[0].repo, interrupted)
    if hint:
        raise ModelError("model", repo, hint)
    progress(_bytes(folders) - before)


def first_bytes(file: File, count: int, trusted: bool, waiting: Callable[[int], None]) -> bytes:
    """Return the first bytes of a file on the hub. `waiting` is called with the bytes so far. Raises `ModelError`.

    If `trusted`, the server's token is used.
    """
    headers = {**build_hf_headers(token=None if trusted else False), "Range": f"bytes=0-{count - 1}"}
    data = bytearray()
    try:
        url = hf_hub_url(file.repo, file.name, revision=file.commit)
        with get_session().stream("GET", url, headers=headers, follow_redirects=True, timeout=STALLED_S) as response:
            hf_raise_for_status(response)
            for chunk in response.iter_bytes(CHUNK):
                data += chunk
                waiting(len(data))
                if len(data) >= count:  # the server may send the whole file
                    break
    except Cancelled:
        raise
    except Exception as error:  # the client raises many types
        raise to_model_error(file.repo, error) from error
    return bytes(data[:count])


def receive(files: Sequence[File], main: bool = False) -> None:
    """Download in this process. Raises `ModelError`."""
    for file in files:
        try:
            if not file.cached_path:
                is_damaged = isinstance(try_to_load_from_cache(file.repo, file.name, revision=file.commit), str)
                path = hf_hub_download(file.repo, file.name, revision=file.commit, force_download=is_damaged)
                if file.size not in (0, os.path.getsize(path)):
                    hint = f"{file.name} does not have the size that the hub reported; try again later."
                    raise ModelError("model", file.repo, hint)
        except Exception as error:  # the client raises many types
            raise to_model_error(file.repo, error) from error
    for repo in {file.repo for file in files if main}:
        with suppress(Exception):  # only a later start without a connection needs this
            HfApi().resolve_revision(repo)


def to_model_error(repo: str, error: Exception, similar: Sequence[str] = ()) -> ModelError:
    """Return an error of the hub's client as a `ModelError` with a hint. `similar` are existing names like `repo`."""
    if isinstance(error, ModelError):
        return error
    if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    status = getattr(getattr(error, "response", None), "status_code", 0)
    if isinstance(error, errors.GatedRepoError) or status == 403:
        page = f"{constants.ENDPOINT}/{repo}"
        hint = f"access is restricted; agree to its terms on {page}, and start the server with that account's HF_TOKEN."
    elif isinstance(error, errors.DisabledRepoError):
        hint = "the hub has disabled this model; choose another."
    elif isinstance(error, (errors.RepositoryNotFoundError, errors.HFValidationError)) or status == 404:
        suggestion = f' ("{similar[0]}"?)' if similar else ""
        hint = f"the hub shows no such model; check the spelling{suggestion}, or start the server with an HF_TOKEN if it is private."
    elif status == 401:
        hint = "the hub does not accept this server's HF_TOKEN; start the server with a new token, or without one."
    elif isinstance(error, errors.OfflineModeIsEnabled):
        hint = "this server works without a connection (HF_HUB_OFFLINE) and has no copy; choose a model that it has."
    elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
        hint = "the disk is full; free some space, then load again. Complete files are kept."
    elif isinstance(error, OSError) and error.errno and error.filename:
        hint = f"the download folder cannot be written ({error.strerror}); set HF_HOME to a writable folder."
    elif type(error) is ValueError:  # the file is too large for the client
        hint = f"it cannot be downloaded ({short_error(error)}); choose another model."
    else:
        kind = f"{type(error).__name__}{f' {status}' if status else ''}"
        hint = f"the hub cannot be reached ({kind}); try again later, or choose a model that this server has already downloaded."
    return ModelError("model", repo, hint)


def _bytes(folders: Iterable[Path], abandoned_s: float = 0) -> int:
    """Return the bytes of all files. Remove unfinished files that are older than `abandoned_s`, unless it is 0."""
    total = 0
    for path in (path for folder in folders for path in folder.glob("*")):
        with suppress(OSError):  # the file has been renamed
            status = path.stat()
            if abandoned_s and path.suffix == ".incomplete" and time() - status.st_mtime > abandoned_s:
                path.unlink()
            else:
                total += status.st_size
    return total


def _child() -> None:
    """Read a request from stdin, download, and print the repository and hint of the first error, or two empty strings."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the client removes its unfinished file, as after Ctrl-C
    out, sys.stdout = sys.stdout, sys.stderr
    constants.DOWNLOAD_CHUNK_SIZE = CHUNK
    files, main = json.loads(sys.stdin.readline())
    Thread(target=_end_with_parent, daemon=True).start()
    failed = ("", "")
    try:
        receive([File(*file) for file in files], main)
    except ModelError as error:
        failed = (error.value, error.hint)
    print(json.dumps(failed), file=out, flush=True)


def _end_with_parent() -> None:
    """Wait until the parent process closes the pipe or ends, then end this process."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)
    sleep(GRACE_S)
    os._exit(1)


if __name__ == "__main__":
    _child()
