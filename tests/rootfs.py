"""The Dockerfile's steps without a Docker engine: a fresh root file system, the app in it, and checks from outside.

As root, on a Debian or Ubuntu machine that has debootstrap:

    python3 tests/rootfs.py

The Dockerfile itself is read, and every step of it is carried out: a base is made with debootstrap, COPY obeys
.dockerignore, RUN runs in the new root, and CMD is started as USER, as process 1 of its own process namespace, with a
file system that is read-only but for /tmp. Every check is one line, "ok" or "FAIL"; the exit status is 1 if one fails, and
2 if a step cannot be carried out.

What stands in for something else is said in lines that begin with "note": Debian's own Python for the official Python
image, and for the package indexes those that pip and apt use on this machine. Where PyTorch's index cannot be reached, say

    python3 tests/rootfs.py --build-arg TORCH_BACKEND= --find-links FOLDER_WITH_A_TORCH_WHEEL

Everything is mounted in namespaces of child processes and is gone when they are; what is deleted at the end is looked
through for mounts first.

Knows how to make a root file system and what is promised of a container. It does not know image layers, registries,
volumes or limits of memory, and it shares this machine's network.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dockerfile import Ignored, Image, Step, StepError, command, image, pairs, parse, sources

ROOT = Path(__file__).resolve().parent.parent
SUITES = {"3.11": "bookworm", "3.13": "trixie"}  # the Debian whose own Python it is
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STARTS_S, STOPS_S = 240, 10  # `docker stop` waits ten seconds, then kills
FAULTS = r"Traceback|Permission denied|Read-only file system|Errno 13\b|Errno 30\b"
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def outside(arguments: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
    """A command on this machine; its output as text."""
    return subprocess.run([*arguments], check=False, text=True, capture_output=True, **options)


def text_of(path: Path) -> str:
    """A file's text; nothing where there is no file."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


# ------------------------------------------------------------------ the new root


def mounts_below(folder: Path) -> list[str]:
    """Mount points of this process's namespace at or below a folder."""
    points = [line.split()[4].replace("\\040", " ") for line in text_of(Path("/proc/self/mountinfo")).splitlines()]
    return [point for point in points if Path(point).is_relative_to(folder.resolve())]


def delete(folder: Path) -> None:
    """Delete a tree in which nothing is mounted."""
    if points := mounts_below(folder):
        raise StepError(f"not deleted, for something is mounted inside: {', '.join(points)}")
    subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=True)


@dataclass(frozen=True)
class Person:
    """A line of the new root's /etc/passwd."""

    uid: int
    gid: int
    home: str


def person(root: Path, name: str) -> Person:
    """Who `USER name` is; a number or "name:group" will also do."""
    for line in text_of(root / "etc/passwd").splitlines():
        parts = line.split(":")
        if name.split(":")[0] in (parts[0], parts[2]):
            return Person(int(parts[2]), int(parts[3]), parts[5])
    raise StepError(f"USER {name}: the root file system has no such user")


class Host:
    """What this machine needs to reach its package indexes, passed on to the steps that install and to nothing else."""

    def __init__(self, find_links: Sequence[str], passed: Mapping[str, str]):
        self.notes: list[str] = []
        self.folders: set[str] = set()
        self.environment = {name: os.environ[name] for name in PROXIES if name in os.environ}
        self.environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "UV_INDEX_STRATEGY": "unsafe-best-match"}
        pip = self._pip()
        certificates = {"PIP_CERT": pip.get("cert", ""), **{name: os.environ.get(name, "") for name in CERTIFICATES}}
        for name, path in certificates.items():
            if path and Path(path).exists():
                self.environment[name] = path
                self.folders.add(path)
        if "index-url" in pip:
            self._set("PIP_INDEX_URL", "UV_DEFAULT_INDEX", " ", [pip["index-url"]])
            self.notes.append("the package index is the one in this machine's pip configuration")
        if indexes := pip.get("extra-index-url", "").split():
            self._set("PIP_EXTRA_INDEX_URL", "UV_INDEX", " ", indexes)
            self.notes.append("package indexes beside PyPI come from this machine's pip configuration")
        if links := [*find_links, *pip.get("find-links", "").split()]:
            self._set("PIP_FIND_LINKS", "UV_FIND_LINKS", ",", links)
            wheels = sorted({wheel.name for link in links for wheel in Path(link).glob("*.whl")})
            self.notes.append(f"wheels at hand beside the indexes: {', '.join(wheels) or 'none'}")
        if seconds := pip.get("timeout") or pip.get("default-timeout"):
            self.environment |= {"PIP_DEFAULT_TIMEOUT": seconds, "UV_HTTP_TIMEOUT": seconds}
        self.environment |= passed

    def _set(self, pip: str, uv: str, between: str, places: list[str]) -> None:
        self.environment |= {pip: " ".join(places), uv: between.join(places)}
        for place in places:
            path = Path(place.removeprefix("file://"))
            if path.is_absolute() and path.exists():  # an index may link to files in the folder beside it
                self.folders.add(str(path.parent if place.startswith("file://") else path))

    @staticmethod
    def _pip() -> dict[str, str]:
        """pip's settings on this machine, those of files and of the environment together."""
        said = outside([sys.executable, "-m", "pip", "config", "list"]).stdout
        if not said and shutil.which("pip"):
            said = outside(["pip", "config", "list"]).stdout
        found: dict[str, str] = {}
        for line in sorted(said.splitlines(), key=lambda line: line.startswith(":env:")):
            key, _, value = line.partition("=")
            name, value = key.rpartition(".")[2], value.strip("'\"").replace("\\n", " ").strip()
            if name in ("find-links", "extra-index-url"):
                already = found.get(name, "").split()
                value = " ".join([*already, *(word for word in value.split() if word not in already)])
            found[name] = value
        return found

    @staticmethod
    def mirror(suite: str) -> str:
        """Where apt gets this suite on this machine; Debian's own address where apt does not say."""
        said = outside(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(ORIGIN) $(COMPONENT)"]).stdout
        for line in said.splitlines():
            if match := re.fullmatch(rf"(\S+) {suite} Debian main", line.strip()):
                return match[1]
        return "http://deb.debian.org/debian"


# The folder; files and folders of this machine to show inside, read-only; "--"; whether all is read-only; chroot's arguments.
INSIDE = r"""
set -eu
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do : > dev/$device; mount --bind /dev/$device dev/$device; done
mkdir dev/shm
mount -t tmpfs -o mode=1777,size=64m tmpfs dev/shm
ln -s /proc/self/fd dev/fd
for number in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${number%:*} dev/${number#*:}; done
mount -t proc proc proc
for file in etc/resolv.conf etc/hosts; do
    [ -e $file ] || : > $file
    mount --bind "$(readlink -f /$file)" $file; mount -o remount,bind,ro $file
done
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir -p ".$1"; else mkdir -p ".$(dirname "$1")"; [ -e ".$1" ] || : > ".$1"; fi
    mount --bind "$1" ".$1"; mount -o remount,bind,ro ".$1"; shift
done
if [ "$2" = read-only ]; then
    mount -t tmpfs -o mode=1777 tmpfs tmp
    mount -o remount,bind,ro "$root"
fi
shift 2
exec chroot "$@"
"""


class Root:
    """A root file system and what is run inside it."""

    def __init__(self, folder: Path, host: Host):
        self.folder, self.host = folder, host

    def base(self, name: str) -> None:
        """The stand-in for the image that FROM names."""
        match = re.fullmatch(r"python:(\d+\.\d+)-slim", name)
        if not match or match[1] not in SUITES:
            raise StepError(f"FROM {name}: known are python:X.Y-slim for X.Y in {', '.join(SUITES)}")
        suite = SUITES[match[1]]
        program = shutil.which("debootstrap") or "/usr/sbin/debootstrap"
        if not Path(program).exists():
            raise StepError("debootstrap is not installed: apt-get install debootstrap")
        packages = "--include=ca-certificates,python3,python3-pip,python3-venv"
        made = outside(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", program, "--variant=minbase", packages, suite,
             str(self.folder), self.host.mirror(suite)], env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )  # fmt: skip
        if made.returncode:
            raise StepError(f"debootstrap failed:\n{(made.stdout + made.stderr)[-3000:]}")
        (self.folder / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        for marker in self.folder.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            marker.unlink()
        version = self.run(Image(), ["python", "-V"]).split()[1]
        if not version.startswith(f"{match[1]}."):
            raise StepError(f"{suite} has Python {version}, the Dockerfile wants {match[1]}")
        print(
            f"note  {name} is stood in for by Debian {suite} (debootstrap, minbase), its Python {version} and its pip, without\n"
            "      the marker of PEP 668, which the official image does not have either",
            flush=True,
        )

    def arguments(self, made: Image, words: Sequence[str], *, served: bool = False) -> list[str]:
        """The command line that runs `words` inside, as process 1 of a process namespace of its own.

        `served`: read-only but for /tmp, and without anything of this machine's.
        """
        who = person(self.folder, made.user)
        environment = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": who.home, **made.environment}
        if not served:
            environment = {**self.host.environment, **made.arguments, **environment}
        return [
            "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "sh", "-c", INSIDE, "sh", str(self.folder),
            *([] if served else sorted(self.host.folders)), "--", "read-only" if served else "writable",
            f"--userspec={who.uid}:{who.gid}", f"--groups={who.gid}", str(self.folder), "/usr/bin/env", "-i",
            f"--chdir={made.folder}", *(f"{name}={value}" for name, value in environment.items()), *words,
        ]  # fmt: skip

    def run(self, made: Image, words: Sequence[str]) -> str:
        """A RUN step. Returns what it printed."""
        shown = {self.folder / path.lstrip("/") for path in self.host.folders}
        new = sorted({p for place in shown for p in (place, *place.parents) if not p.exists()}, reverse=True)
        # A file, not a pipe: nothing that a step leaves behind could hold this up.
        with tempfile.TemporaryFile("w+") as output:
            status = subprocess.run(
                self.arguments(made, words), check=False, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            ).returncode
            output.seek(0)
            text = output.read()
        for place in new:
            place.rmdir() if place.is_dir() else place.unlink()
        if status:
            raise StepError(f"{shlex.join(words)} ended with {status}:\n{text[-4000:]}")
        return text

    def copy(self, step: Step, made: Image, context: Path, ignored: Ignored) -> str:
        """A COPY step. Returns what was copied, in words."""
        files, to = sources(step, context, ignored, made.values())
        target = self.folder / os.path.normpath(os.path.join(made.folder, to)).lstrip("/")
        size = 0
        for name, below in files.items():
            place = target / below if below else target
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(context / name, place, follow_symlinks=False)
            os.chown(place, 0, 0, follow_symlinks=False)
            size += place.lstat().st_size
        return f"{len(files)} files, {size / 1e6:.1f} MB"

    def size_mb(self, below: str = "") -> float:
        """MB on disk, of all or of a folder."""
        said = outside(["du", "-sxk", str(self.folder / below)]).stdout
        return int(said.split()[0]) * 1024 / 1e6 if said else 0.0


def build(root: Root, steps: Sequence[Step], context: Path, given: Mapping[str, str]) -> None:
    """Carry out every step."""
    made, ignored = Image(), Ignored(text_of(context / ".dockerignore"))
    for number, step in enumerate(steps, 1):
        start, told = time.monotonic(), ""
        print(f"step  {number}/{len(steps)} {step.word} {step.rest[:100]}", flush=True)
        made.take(step, given)
        if step.word == "FROM":
            root.base(made.base)
        elif step.word == "WORKDIR":
            (root.folder / made.folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif step.word == "COPY":
            told = root.copy(step, made, context, ignored) + ", "
        elif step.word == "RUN":
            root.run(made, command(step.rest))
        if step.word in ("FROM", "COPY", "RUN"):
            print(f"      {told}{time.monotonic() - start:.1f} s", flush=True)


# ------------------------------------------------------------------ the checks


class Report:
    """One line a check."""

    def __init__(self) -> None:
        self.failed = 0

    def __call__(self, good: bool, words: str) -> bool:
        """Print a check, and remember whether it held."""
        self.failed += not good
        print(f"{'ok    ' if good else 'FAIL  '}{words}", flush=True)
        return good


class App:
    """CMD, running, with what it prints."""

    def __init__(self, root: Root, made: Image):
        self.root, self.made = root, made
        self.printed: list[str] = []
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            root.arguments(made, made.cmd, served=True),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=lambda: self.printed.extend(self._process.stdout), daemon=True)
        self._reader.start()

    def pid(self) -> int:
        """The app's process as this machine numbers it (inside it is 1); 0 if there is none."""
        own = self._process.pid
        return int(next(iter(text_of(Path(f"/proc/{own}/task/{own}/children")).split()), 0))

    def status(self, name: str) -> list[str]:
        """A line of the process's status."""
        lines = text_of(Path(f"/proc/{self.pid()}/status")).splitlines()
        return next((line.split()[1:] for line in lines if line.startswith(f"{name}:")), [])

    def beside(self, words: Sequence[str], *, user: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """A command in the app's namespaces and with its environment, as some user."""
        who = person(self.root.folder, user)
        environment = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": who.home, **self.made.environment}
        return outside(
            ["nsenter", "--target", str(self.pid()), "--mount", "--pid", "--root", f"--setuid={who.uid}",
             f"--setgid={who.gid}", "--", "/usr/bin/env", "-i", f"--chdir={self.made.folder}",
             *(f"{name}={value}" for name, value in environment.items()), *words], timeout=timeout,
        )  # fmt: skip

    def ended(self) -> int | None:
        """Its exit status, once it has one."""
        return self._process.poll()

    def stop(self) -> tuple[int | None, float]:
        """Send SIGTERM; the exit status (None if it goes on), and how many seconds that took."""
        start = time.monotonic()
        os.kill(self.pid(), signal.SIGTERM)
        try:
            return self._process.wait(timeout=STOPS_S), time.monotonic() - start
        except subprocess.TimeoutExpired:
            return None, time.monotonic() - start

    def end(self) -> None:
        """Whatever happened, nothing of it goes on: with process 1 everything inside ends."""
        if self.ended() is None:
            if pid := self.pid():
                os.kill(pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait(timeout=30)
        self._reader.join(timeout=10)


def answer(url: str, sent: object = None, timeout: float = 10) -> str:
    """The body of a page; `sent` is posted as JSON."""
    data = None if sent is None else json.dumps(sent).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=timeout) as reply:
        return reply.read().decode()


def raced(url: str) -> dict:
    """One real race through the app's HTTP interface: its trace."""
    call, kind = f"{url}/gradio_api/call/race", ""
    event = json.loads(answer(call, {"data": ["Once upon a time", "draft", 32, "4", 0, 0]}))["event_id"]
    for line in answer(f"{call}/{event}", timeout=180).splitlines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data" and kind == "complete":
            return json.loads(value)[0]
        elif name == "data" and kind == "error":
            raise StepError(f"the race was refused: {value}")
    raise StepError("the race ended without a result")


def first_answer_s(app: App, url: str) -> float | None:
    """Seconds until the first answer; None if the app ended or took too long."""
    while time.monotonic() - app.started < STARTS_S and app.ended() is None:
        try:
            answer(url, timeout=2)
            return time.monotonic() - app.started
        except OSError:
            time.sleep(0.1)
    return None


def check(app: App, made: Image, report: Report) -> None:
    """Everything that is promised of a running container."""
    url = f"http://127.0.0.1:{made.ports[0]}"
    seconds = first_answer_s(app, url)
    if not report(
        seconds is not None, f"the app answers on {made.ports[0]}" + (f" after {seconds:.1f} s" if seconds else "")
    ):
        return
    report("Lookahead" in answer(url), "the page is the app's")
    uids = sorted(set(app.status("Uid")))
    report("0" not in uids, f"its process is not root: uid {', '.join(uids)}, {made.user} inside")
    words = app.beside(["/bin/cat", "/proc/1/cmdline"], user="root").stdout.split("\0")[:-1]
    report(words == made.cmd, f"it is process 1 inside: {shlex.join(words)}")
    _well(app, made, report)
    start = time.monotonic()
    lanes = [[token for step in lane["steps"] for token in step["emitted"]] for lane in raced(url)["lanes"]]
    told = f"a race from outside: {' and '.join(str(len(lane)) for lane in lanes)} tokens, {time.monotonic() - start:.1f} s"
    report(len(lanes) == 2 and lanes[0] == lanes[1] != [], told + ", the same ids in both lanes")
    for user in (made.user, "root"):
        tried = app.beside(["/bin/sh", "-c", f"echo x > {made.folder}/written"], user=user)
        report(
            "read-only file system" in tried.stderr.lower(), f"writing below {made.folder} fails as {user}: read-only"
        )
    tried = app.beside(["/bin/sh", "-c", "echo x > /tmp/written && rm /tmp/written"], user=made.user)
    report(tried.returncode == 0, f"/tmp can be written by {made.user}")
    files = app.beside(["/usr/bin/find", "/tmp", "/dev/shm", "-type", "f"], user="root").stdout.split()
    print(f"note  files that the app has made: {', '.join(files) or 'none'}")
    asked = app.beside(
        ["python", "-c", "from importlib.metadata import version; print(version('torch'))"], user=made.user
    )
    print(f"note  torch in the container: {asked.stdout.strip()}")
    now, peak = (int((app.status(name) or ["0"])[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM"))
    print(f"note  memory after the race: {now:.0f} MB, at most {peak:.0f} MB")
    status, seconds = app.stop()
    report(status is not None, f"SIGTERM stops it within {STOPS_S} s: exit status {status} after {seconds:.1f} s")


def _well(app: App, made: Image, report: Report) -> None:
    """The health check, asked as an engine would."""
    if made.health is None:
        report(False, "there is a HEALTHCHECK")
        return
    limit, start = made.health.seconds("timeout", 30), time.monotonic()
    try:
        asked = app.beside(made.health.command, user=made.user, timeout=limit)
        said = asked.stderr.strip()[-300:]
        report(asked.returncode == 0, f"HEALTHCHECK: well, told in {time.monotonic() - start:.1f} s {said}".strip())
    except subprocess.TimeoutExpired:
        report(False, f"HEALTHCHECK: no word within {limit:.0f} s")


def told(app: App, report: Report) -> None:
    """What the app printed, and that nothing it wanted to write was refused."""
    text = "".join(app.printed)
    report(not re.search(FAULTS, text), "what it printed holds no traceback and no refused write:")
    for line in text.splitlines()[:40]:
        print(f"      {line[:160]}")


def taken(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main(argv: Sequence[str] | None = None) -> int:
    """Build, start, check, clean up."""
    parser = argparse.ArgumentParser(
        description="The Dockerfile's steps in a fresh root file system, and the app checked in it."
    )
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE", help="as docker build's")
    parser.add_argument("--find-links", action="append", default=[], metavar="FOLDER", help="wheels for pip and uv")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="for RUN, such as PIP_INDEX_URL"
    )
    parser.add_argument("--keep", metavar="DIR", help="build in DIR, which is not there yet, and leave it")
    parser.add_argument("--build-only", action="store_true", help="with --keep: do not start the app")
    chosen = parser.parse_args(argv)
    if os.geteuid() != 0:
        parser.error("chroot and mounts need root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that what follows "finally" is done
    start, report, app = time.monotonic(), Report(), None
    work = Path(chosen.keep).resolve() if chosen.keep else Path(tempfile.mkdtemp(prefix="lookahead-rootfs-"))
    try:
        text = text_of(ROOT / "Dockerfile")
        given, passed = (pairs(shlex.join(words)) for words in (chosen.build_arg, chosen.env))
        steps = parse(text)
        whole = image(steps, given)
        host = Host([str(Path(folder).resolve()) for folder in chosen.find_links], passed)
        for note in [*(f"the build argument {name} is {value!r}" for name, value in given.items()), *host.notes]:
            print(f"note  {note}")
        root = Root(work / "root", host)
        root.folder.mkdir(parents=True)
        build(root, steps, ROOT, given)
        sizes = root.size_mb(), root.size_mb("usr/local/lib"), root.size_mb(whole.folder.lstrip("/"))
        print(
            "note  the root file system: {:.0f} MB; Python packages {:.0f} MB, the app {:.0f} MB".format(*sizes), end=""
        )
        print(f"; {time.monotonic() - start:.0f} s to make", flush=True)
        if not chosen.build_only:
            if taken(whole.ports[0]):
                raise StepError(f"something on this machine listens on port {whole.ports[0]} already")
            app = App(root, whole)
            check(app, whole, report)
    except (StepError, OSError, subprocess.SubprocessError) as error:
        print(f"FAIL  {error}", flush=True)
        return 2
    finally:
        if app:
            app.end()
            told(app, report)
        if not chosen.keep:
            delete(work)
    print(f"note  {time.monotonic() - start:.0f} s in all; {report.failed or 'no'} checks failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
