"""Files from the hub, downloaded by `huggingface_hub` in a child process that ends when its caller stops.

A download that ends early leaves whole files in the hub's cache, and the next one continues with the first missing file.
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

from huggingface_hub import HfApi, constants, hf_hub_download, scan_cache_dir, try_to_load_from_cache
from huggingface_hub.errors import (
    CacheNotFound,
    DisabledRepoError,
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.file_download import repo_folder_name

from ..core.events import ModelError
from ..core.wording import remark
from ..model.small_files import CONFIG, weight_files

CHUNK = 1 << 16  # bytes that the child writes at once, so progress is visible on a slow line
EVERY_S = 0.1
GRACE_S = 0.5  # the child may take to remove the file that it has not finished
STALLED_S = 60
ABANDONED_S = 3600  # age of an unfinished file that is removed
PACKAGES = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class File:
    """One file of a repository at one commit. `size` is 0 if the hub does not say it."""

    repo: str
    commit: str
    name: str
    size: int

    @property
    def here(self) -> Path | None:
        """Its path in the cache, None if it is not there or has another size."""
        path = try_to_load_from_cache(self.repo, self.name, revision=self.commit)
        return Path(path) if isinstance(path, str) and self.size in (0, Path(path).stat().st_size) else None


def cache() -> Path:
    """Return the folder of all downloads."""
    return Path(constants.HF_HUB_CACHE).expanduser()


def cached(repo: str) -> Path | None:
    """Return the newest snapshot of a repository in the cache, None unless it has a configuration and all weights."""
    path = try_to_load_from_cache(repo, CONFIG)
    with suppress(ModelError):
        if isinstance(path, str) and weight_files(Path(path).parent):
            return Path(path).parent
    return None


def repositories() -> list[str]:
    """Return the names of the models in the cache."""
    with suppress(CacheNotFound, ValueError):
        return sorted(repo.repo_id for repo in scan_cache_dir(cache()).repos if repo.repo_type == "model")
    return []


def bytes_of_weights(repo: str) -> int:
    """Return the size of the weights of a repository in the cache, 0 unless all are there."""
    copy = cached(repo)
    return sum(path.stat().st_size for path in copy.glob("model*.safetensors")) if copy else 0


def download(files: Sequence[File], progress: Callable[[int], None], main: bool = False) -> None:
    """Download the files that are missing, and call `progress(bytes that have arrived)` ten times per second.

    `main` stores in the cache which commit is the newest, so the files are found without a connection. An exception of
    `progress` ends the child process within a second. Raises `ModelError`.
    """
    if all(file.here and (not main or cached(file.repo) == file.here.parent) for file in files):
        return
    folders = {cache() / repo_folder_name(repo_id=file.repo, repo_type="model") / "blobs" for file in files}
    before, arrived, moved_at = _bytes(folders, ABANDONED_S), 0, monotonic()
    paths = filter(None, (str(PACKAGES), os.environ.get("PYTHONPATH")))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    command = [sys.executable, "-P", "-m", __name__]
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as child:
        try:
            with suppress(BrokenPipeError):  # the child has ended
                print(json.dumps([[astuple(file) for file in files], main]), file=child.stdin, flush=True)
            while child.poll() is None:
                if (bytes_ := _bytes(folders) - before) > arrived:
                    arrived, moved_at = bytes_, monotonic()
                progress(arrived)
                if monotonic() - moved_at > STALLED_S:
                    raise ModelError("model", files[0].repo, "the hub has stopped sending; try again later.")
                sleep(EVERY_S)
            answer = child.stdout.read()
        finally:
            with suppress(BrokenPipeError):
                child.stdin.close()  # at which it ends
            with suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_S)
            child.kill()
    broken = [files[0].repo, f"its download broke off ({child.returncode}); load again: files that are whole are kept."]
    repo, hint = json.loads(answer) if answer else broken
    if hint:
        raise ModelError("model", repo, hint)
    progress(_bytes(folders) - before)


def receive(files: Sequence[File], main: bool = False) -> None:
    """Download in this process. Raises `ModelError`."""
    for file in files:
        try:
            if not file.here:
                wrong = isinstance(try_to_load_from_cache(file.repo, file.name, revision=file.commit), str)
                path = hf_hub_download(file.repo, file.name, revision=file.commit, force_download=wrong)
                if file.size not in (0, os.path.getsize(path)):
                    hint = f"{file.name} has another size than the hub announced; try again later."
                    raise ModelError("model", file.repo, hint)
        except Exception as error:  # the client raises a dozen kinds
            raise explained(file.repo, error) from error
    for repo in {file.repo for file in files if main}:
        with suppress(Exception):  # the files are here; a later start without a connection does not find them
            HfApi().resolve_revision(repo)


def explained(repo: str, error: Exception, near: Sequence[str] = ()) -> ModelError:
    """Return an error of the hub's client as a sentence with what to do."""
    if isinstance(error, ModelError):
        return error
    if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    status = getattr(getattr(error, "response", None), "status_code", 0)
    if isinstance(error, GatedRepoError) or status == 403:
        page = f"{constants.ENDPOINT}/{repo}"
        hint = f"its authors ask who uses it; agree to its terms on {page}, and start the server with that account's HF_TOKEN."
    elif isinstance(error, DisabledRepoError):
        hint = "the hub has closed this model; choose another."
    elif isinstance(error, (RepositoryNotFoundError, HFValidationError)) or status == 404:
        like = f' ("{near[0]}"?)' if near else ""
        hint = f"the hub shows no such model; check the spelling{like}, or start the server with an HF_TOKEN if it is private."
    elif status == 401:
        hint = "the hub does not accept this server's HF_TOKEN; start the server with a new one, or with none."
    elif isinstance(error, OfflineModeIsEnabled):
        hint = "this server works without a connection (HF_HUB_OFFLINE), and has no copy; choose a model that it has."
    elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
        hint = "the disk is full; make room, then load again: files that are whole are kept."
    elif isinstance(error, OSError) and error.errno and error.filename:
        hint = f"the folder of downloads cannot be written ({error.strerror}); set HF_HOME to one that can."
    elif type(error) is ValueError:  # a file that is too large for the client
        hint = f"it cannot be downloaded ({remark(error)}); choose another model."
    else:
        kind = f"{type(error).__name__}{f' {status}' if status else ''}"
        hint = f"the hub cannot be reached ({kind}); try again later, or choose a model that this server has a copy of."
    return ModelError("model", repo, hint)


def _bytes(folders: Iterable[Path], abandoned_s: float = 0) -> int:
    """Return the size of all files; remove unfinished ones that are older than `abandoned_s`, if given."""
    total = 0
    for path in (path for folder in folders for path in folder.glob("*")):
        with suppress(OSError):  # it has another name by now
            about = path.stat()
            if abandoned_s and path.suffix == ".incomplete" and time() - about.st_mtime > abandoned_s:
                path.unlink()
            else:
                total += about.st_size
    return total


def _child() -> None:
    """Read a request from stdin, and print the repository and the sentence of the first error, or empty ones."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as for Ctrl-C, the client removes its unfinished file
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
    """Wait until the parent process closes the pipe or dies; then end this one."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)
    sleep(GRACE_S)
    os._exit(1)


if __name__ == "__main__":
    _child()
