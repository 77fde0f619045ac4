"""Hosting: what the Dockerfile promises, what Spaces ask for, where the app writes, and races on a GPU that is lent.

The Dockerfile's installing steps need an engine and a network; its promises are read, and what it copies is started the way it
says, with nothing to write to but a temporary folder.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, App, free_port

from lookahead.model.heads.shape import KINDS
from lookahead.server import writable

pytestmark = [pytest.mark.models, pytest.mark.long]

MOST_BYTES = 10_000_000
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
DOCKERFILE = re.sub(
    r"\\\n", " ", re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.M)
)
STEPS = [tuple(line.split(maxsplit=1)) for line in DOCKERFILE.splitlines() if line.strip()]
IGNORED = set((ROOT / ".dockerignore").read_text(encoding="utf-8").split())
FAULTS = re.compile(r"Traceback|Permission denied|Read-only file system|Errno 13\b|Errno 30\b")


def said(word):
    """What the Dockerfile's instructions of that name say."""
    return [rest for name, rest in STEPS if name == word]


def environment(smol="", revision=""):
    """The container's variables, as it is built with these arguments."""
    pairs = dict(pair.split("=", 1) for rest in said("ENV") for pair in shlex.split(rest))
    chosen = {name: re.sub(r"\$\{SMOL:\+(.*?)\}", r"\1" if smol else "", value) for name, value in pairs.items()}
    return {name: value.replace("${REVISION}", revision) for name, value in chosen.items()}


def health():
    """The health check's options, and its command as words."""
    options, _, command = said("HEALTHCHECK")[0].partition("CMD")
    return dict(re.findall(r"--([a-z-]+)=(\d+)s", options)), json.loads(command)


def pins(name="requirements.txt"):
    lines = (line.partition("#")[0].strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def copied():
    """Every file that a COPY brings into the image, relative to the repository: {file}."""
    names = [name for rest in said("COPY") for name in shlex.split(rest)[:-1]]
    below = [path for name in names for path in ((ROOT / name).rglob("*") if (ROOT / name).is_dir() else [ROOT / name])]
    files = {path.relative_to(ROOT) for path in below if path.is_file()}
    return {path for path in files if not ("__pycache__" in path.parts or path.parts[0] in IGNORED)}


def kept():
    """Every file that belongs to the repository."""
    said = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=False, capture_output=True, text=True
    ).stdout
    names = said.splitlines() or [p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if ".venv" not in p.parts]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


# ------------------------------------------------------------------ what is promised


def test_the_container_is_what_a_host_expects():
    words, variables, (options, command) = [word for word, _ in STEPS], environment(), health()
    assert words[0] == "FROM" and words.count("FROM") == 1 and said("FROM")[0].endswith("-slim")
    assert not said("USER")[0].startswith(("root", "0")) and said("WORKDIR") == ["/app"] and said("EXPOSE") == ["7860"]
    assert words.index("USER") > max(i for i, word in enumerate(words) if word in ("RUN", "COPY")), "the code is root's"
    assert json.loads(said("CMD")[0]) == ["python", "app.py"], "without a shell, so that signals arrive"
    assert (variables["GRADIO_SERVER_NAME"], variables["GRADIO_SERVER_PORT"]) == ("0.0.0.0", "7860")
    assert variables["GRADIO_TEMP_DIR"].startswith("/tmp/")
    assert variables["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert said("ARG") == ["TORCH_BACKEND=cpu", "SMOL=", "REVISION="]
    assert environment(revision="abc")["LOOKAHEAD_REVISION"] == "abc"
    assert (environment()["LOOKAHEAD_MODELS"], environment("1")["LOOKAHEAD_MODELS"]) == ("", "pocket,smol")
    assert any("fetch smol" in rest for rest in said("RUN"))
    assert "7860/healthz" in command[-1] and int(options["start-period"]) >= 30


def test_everything_the_app_needs_is_copied():
    names = {path.as_posix() for path in copied()}
    assert {"app.py", "README.md", "LICENSE"} <= names
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "lookahead").rglob("*.py")} <= names
    models = ROOT / "assets" / "models"
    for folder in [path.parent for path in models.glob("*/*/config.json")]:
        index = folder / "model.safetensors.index.json"
        weights = (
            set(json.loads(index.read_text())["weight_map"].values()) if index.is_file() else {"model.safetensors"}
        )
        words = set() if folder.name in KINDS else {"tokenizer.json"}  # a head reads the target's tokens
        for name in {"config.json", *words, *weights}:
            assert (folder / name).relative_to(ROOT).as_posix() in names
    assert any(name.startswith("assets/models/pocket/target/") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "training/", ".git"))]
    assert {".git", ".venv", "tests", "**/__pycache__"} <= IGNORED


def without_override():
    """In the child: not even root may write where the permissions say no."""
    if os.getuid() == 0:
        import ctypes

        drop_from_bounding_set, dac_override = 24, 1  # linux/prctl.h, linux/capability.h
        ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override, 0, 0, 0)


def test_what_is_copied_runs_offline_and_writes_to_temporary_folders_only(tmp_path):
    """The copied files in a read-only folder, started with the container's variables. No hub answers."""
    place, port = tmp_path / "app", free_port()
    for path in copied():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, place / path)
    before = sorted(place.rglob("*"))
    for path in (place, *before):
        path.chmod(path.stat().st_mode & ~0o222)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    running = App(
        tmp_path, port, place=place, in_child=without_override, HOME=str(place), TMPDIR=str(temporary),
        HF_HUB_OFFLINE="0", HF_ENDPOINT="http://127.0.0.1:9", XDG_CACHE_HOME="",
        **{**environment(), "GRADIO_TEMP_DIR": str(temporary / "gradio")},
    )  # fmt: skip
    try:
        refused = subprocess.run(
            ["sh", "-c", f"echo x > {place}/written"], preexec_fn=without_override, check=False, capture_output=True
        )
        assert refused.returncode, "the folder could be written, so this test would show nothing"
        words = [sys.executable, *(word.replace("7860", str(port)) for word in health()[1][1:])]
        asked = (subprocess.run(words, check=False, capture_output=True, timeout=60).returncode for _ in range(3))
        assert 0 in asked, "the Dockerfile's health check, with the three tries that an engine gives it"
    finally:
        status = running.stop()
    assert status == 0
    assert not FAULTS.search(running.output()), running.output()
    assert sorted(place.rglob("*")) == before
    assert (temporary / f"lookahead-{os.getuid()}").is_dir(), "models from the hub would go there"


def test_no_file_is_too_large_to_push():
    large = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in kept()}
    assert not {name: size for name, size in large.items() if size >= MOST_BYTES}


def test_requirements_are_pinned():
    for line in pins():
        assert line.count("==") == 1 and " " not in line, line
    assert [line for line in pins("requirements-dev.txt") if "==" not in line] == ["-r requirements.txt"]


def test_the_readme_begins_with_what_spaces_ask_for():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.startswith("---\n")
    space = yaml.safe_load(text.split("---\n")[1])
    assert space["sdk"] == "gradio" and f"gradio=={space['sdk_version']}" in pins()
    assert (ROOT / space["app_file"]).is_file()
    assert isinstance(space["python_version"], str), "quoted, or 3.10 becomes 3.1"
    assert said("FROM")[0] == f"python:{space['python_version']}-slim", "both ways of hosting run the same Python"
    assert {space["colorFrom"], space["colorTo"]} <= COLOURS
    assert space["title"] and space["emoji"] and space["license"] == "mit"
    assert len(space["short_description"]) <= 60
    assert space.get("app_port", 7860) == 7860
    assert (ROOT / space["thumbnail"]).is_file() and "mcp-server" in space["tags"]
    assert space["models"] == [line.split()[0] for line in space["preload_from_hub"]] and space["suggested_hardware"]


# ------------------------------------------------------------------ where the app writes


@pytest.fixture
def among(tmp_path, monkeypatch):
    """A folder for temporary folders, and one that cannot be written (a file is in its way: root may write anywhere)."""
    monkeypatch.setattr(writable.tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "file").write_text("")
    return tmp_path


def test_places_that_can_be_written_are_left_alone(among, capfd):
    told = {"HF_HOME": str(among / "new" / "cache"), "GRADIO_TEMP_DIR": str(among / "uploads")}
    environment = dict(told)
    writable.use_writable_folders(environment, among / "no-disk")
    assert environment == told
    assert not (among / "new").exists(), "nothing is made before it is needed"
    assert capfd.readouterr() == ("", "")


def test_a_place_that_cannot_be_written_is_replaced_with_one_line(among, capfd):
    environment = {"HF_HOME": str(among / "file" / "cache"), "GRADIO_TEMP_DIR": str(among / "file" / "uploads")}
    writable.use_writable_folders(environment, among / "no-disk")
    for name in ("HF_HOME", "GRADIO_TEMP_DIR"):
        assert Path(environment[name]).is_relative_to(among / "tmp")
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2 and all("cannot be written" in line for line in lines)
    assert (among / "tmp" / f"lookahead-{os.getuid()}").stat().st_mode & 0o777 == 0o700

    environment = {"HF_HOME": str(among), "HF_HUB_CACHE": str(among / "file" / "hub"), "GRADIO_TEMP_DIR": str(among)}
    writable.use_writable_folders(environment, among / "no-disk")
    assert environment["HF_HOME"] == str(among) and Path(environment["HF_HUB_CACHE"]).is_relative_to(among / "tmp")

    environment = {"HF_HOME": str(among / "file"), "HF_HUB_OFFLINE": "1", "GRADIO_TEMP_DIR": str(among)}
    writable.use_writable_folders(environment, among / "no-disk")
    assert environment["HF_HOME"] == str(among / "file"), "models are only read there"


def test_a_space_with_a_disk_keeps_models_on_it(among):
    disk = among / "data"
    disk.mkdir()
    for given, home in (
        ({"SPACE_ID": "a/b"}, str(disk / ".huggingface")),
        ({"SPACE_ID": "a/b", "HF_HOME": str(among)}, str(among)),
        ({"SPACE_ID": "a/b", "HF_HUB_CACHE": str(among)}, None),
        ({"HF_HUB_OFFLINE": "1"}, None),
    ):
        environment = dict(given)
        writable.use_writable_folders(environment, disk)
        assert environment.get("HF_HOME") == home


def test_somebody_elses_folder_is_not_used(among):
    (among / "tmp" / f"lookahead-{os.getuid()}").symlink_to(among)
    environment = {"HF_HOME": str(among / "file"), "GRADIO_TEMP_DIR": str(among)}
    writable.use_writable_folders(environment, among / "no-disk")
    assert Path(environment["HF_HOME"]).parent.name.startswith("lookahead-")
    assert not Path(environment["HF_HOME"]).is_relative_to(among / "tmp" / f"lookahead-{os.getuid()}")


def test_the_code_is_never_a_temporary_place(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(
        writable.tempfile, "tempdir", str(tmp_path)
    )  # as Python chooses where nothing else can be written
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    environment = {"HF_HOME": str(tmp_path / "file"), "GRADIO_TEMP_DIR": str(tmp_path / "file")}
    writable.use_writable_folders(environment, tmp_path / "no-disk")
    assert environment["HF_HOME"] == str(tmp_path / "file")
    assert "there is no temporary folder" in capfd.readouterr().err


def test_with_no_temporary_place_there_is_memory_or_a_clear_end(tmp_path, monkeypatch):
    def none():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(writable.tempfile, "gettempdir", none)
    monkeypatch.setattr(writable, "SHARED", tmp_path / "gone" / "shm")
    monkeypatch.setattr(writable, "_writable", lambda folder: folder == tmp_path)
    with pytest.raises(OSError, match="set TMPDIR"):
        writable.use_writable_folders({})
    monkeypatch.setattr(writable, "SHARED", tmp_path)
    monkeypatch.setattr(writable.tempfile, "tempdir", None)
    environment = {}
    writable._require_temporary_folder(environment)
    assert environment == {"TMPDIR": str(tmp_path)} and writable.tempfile.tempdir == str(tmp_path)


# ------------------------------------------------------------------ ZeroGPU

SPACES = '''
"""Stands in for Hugging Face's package: what goes to the other process and what comes back is pickled."""
import functools, pickle, threading

calls, refuse, reports = [], [], []

class zero:
    def startup():
        reports.append(threading.current_thread().name)

def GPU(task, duration):
    @functools.wraps(task)
    def handler(*arguments):
        import gradio
        from gradio.context import LocalContext
        call = {"visitor": LocalContext.request.get(None), "thread": threading.current_thread().name, "duration": duration(*arguments)}
        calls.append(call)
        if refuse:
            raise gradio.Error(refuse[0])
        values = task(*pickle.loads(pickle.dumps(arguments)))
        try:
            for value in values:
                yield pickle.loads(pickle.dumps(value))
        except GeneratorExit:
            call["stopped"] = True
            raise
        finally:
            values.close()
    return handler
'''
VISITS = """
import json, time
import spaces, torch
from gradio.context import LocalContext
from lookahead import load
from lookahead.server.limits import Limits
from lookahead.page import api
from lookahead.server import form, zero
from lookahead.server.queue import queue
from lookahead.server.race_job import follow
from lookahead.server.state import ServerState

said = {"here": zero.HERE, "gpu": torch.cuda.is_available()}
server = ServerState(queue.call(load, "pocket"), Limits())
LocalContext.request.set("a visitor")  # as in Gradio's own handler

def race(tokens):
    return follow(server, form.RaceForm("Once upon a time", ["naive", "draft"], {**form.DEFAULTS, "max_new_tokens": tokens, "k": "4"}))

events = [event for batch in race(12) for event in json.loads(batch)["ev"]]
said["kinds"] = [event["kind"] for event in events if event["kind"] != "status"]
said["end"] = events[-1]

running = race(900)
while not any(event["kind"] == "step" for event in json.loads(next(running))["ev"]):
    pass
running.close()
while "stopped" not in spaces.calls[-1]:
    time.sleep(0.05)

given = {"max_new_tokens": 12, "k": "4"}
said["lanes"] = [
    [token for step in lane["steps"] for token in step["emitted"]]
    for lane in list(api._race(server, "Once upon a time", "draft", given))[-1]["lanes"]
]
spaces.refuse.append("You have exceeded your quota.")
said["refused"] = [event for batch in race(12) for event in json.loads(batch)["ev"]][-1]
try:
    list(api._race(server, "Once upon a time", "draft", given))
except ValueError as error:
    said["told"] = str(error)
said["calls"] = spaces.calls
zero.report()
said["reports"] = len(spaces.reports)
print(json.dumps(said))
"""


def ran(script, tmp_path, **environment):
    """What a script prints last, as JSON."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("SPACE")}
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={**given, "PYTHONPATH": path, **environment},
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_races_run_where_a_gpu_is_lent(tmp_path):
    (tmp_path / "spaces.py").write_text(SPACES)
    said = ran(VISITS, tmp_path, SPACES_ZERO_GPU="true")
    assert said["here"] and not said["gpu"], "this process computes on its cores"
    assert said["kinds"][:2] == ["begin", "begin"], "the second tells of the machine that was lent"
    assert said["kinds"][2:-1] == ["step"] * (len(said["kinds"]) - 3) and said["kinds"][-1] == "end"
    assert said["end"]["reason"] == "finished" and said["end"]["verdict"]["sentence"]
    assert said["end"]["agreement"][1]["identical"]
    assert said["lanes"][0] == said["lanes"][1] and len(said["lanes"][0]) == 12
    for words in (said["refused"]["message"], said["told"]):
        assert words == "ZeroGPU: You have exceeded your quota."
    assert len(said["calls"]) == 5 and said["reports"] == 1
    for call in said["calls"]:
        assert call["visitor"] == "a visitor", "the GPU is lent to whoever asks"
        assert call["thread"].startswith("lookahead-compute"), "one race at a time"
    durations = [call["duration"] for call in said["calls"]]
    assert durations[0] == 21 and durations[1] == 74, "twelve and nine hundred tokens in two lanes"
    assert [bool(call.get("stopped")) for call in said["calls"]] == [False, True, False, False, False]


LOOK = "import json, sys; from lookahead.server import zero; print(json.dumps([zero.HERE, 'spaces' in sys.modules, zero.report()]))"


def test_nothing_is_imported_or_changed_where_none_is_lent(tmp_path):
    assert ran(LOOK, tmp_path) == [False, False, None]
    assert ran(LOOK, tmp_path, SPACES_ZERO_GPU="true") == [False, False, None], "the package is not there"
