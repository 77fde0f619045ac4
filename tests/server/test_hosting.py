"""Hosting: the Dockerfile, the settings of Spaces, the folders that the app writes to, and races with ZeroGPU.

The installing steps of the Dockerfile need an engine and a network, so its other steps are parsed. The copied files are
started with its command, and only a temporary folder can be written.
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

from lookahead.core import folders
from lookahead.kernels import compiling
from lookahead.model.heads.shape import KINDS
from lookahead.server import writable, zero

pytestmark = [pytest.mark.models, pytest.mark.long]

MAX_BYTES = 10_000_000
COLORS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
DOCKERFILE = re.sub(
    r"\\\n", " ", re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.M)
)
STEPS = [tuple(line.split(maxsplit=1)) for line in DOCKERFILE.splitlines() if line.strip()]
IGNORED = set((ROOT / ".dockerignore").read_text(encoding="utf-8").split())
FAULTS = re.compile(r"Traceback|Permission denied|Read-only file system|Errno 13\b|Errno 30\b")


def instructions(keyword):
    """Return the arguments of the Dockerfile's instructions with that keyword."""
    return [rest for name, rest in STEPS if name == keyword]


def environment(smol="", revision=""):
    """Return the container's variables when it is built with these arguments."""
    pairs = dict(pair.split("=", 1) for rest in instructions("ENV") for pair in shlex.split(rest))
    chosen = {name: re.sub(r"\$\{SMOL:\+(.*?)\}", r"\1" if smol else "", value) for name, value in pairs.items()}
    return {name: value.replace("${REVISION}", revision) for name, value in chosen.items()}


def health():
    """Return the options of the health check, and its command as a list."""
    options, _, command = instructions("HEALTHCHECK")[0].partition("CMD")
    return dict(re.findall(r"--([a-z-]+)=(\d+)s", options)), json.loads(command)


def pins(name="requirements.txt"):
    lines = (line.partition("#")[0].strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def copied():
    """Return the set of all files that COPY adds to the image, relative to the repository."""
    names = [name for rest in instructions("COPY") for name in shlex.split(rest)[:-1]]
    below = [path for name in names for path in ((ROOT / name).rglob("*") if (ROOT / name).is_dir() else [ROOT / name])]
    files = {path.relative_to(ROOT) for path in below if path.is_file()}
    return {path for path in files if not ("__pycache__" in path.parts or path.parts[0] in IGNORED)}


def repository_files():
    """Return every file of the repository."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=False, capture_output=True, text=True
    ).stdout
    names = listing.splitlines() or [p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if ".venv" not in p.parts]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


# ------------------------------------------------------------------ the Dockerfile


def test_the_container_has_the_settings_of_a_host():
    keywords, variables, (options, command) = [keyword for keyword, _ in STEPS], environment(), health()
    assert keywords[0] == "FROM" and keywords.count("FROM") == 1 and instructions("FROM")[0].endswith("-slim")
    assert (
        not instructions("USER")[0].startswith(("root", "0"))
        and instructions("WORKDIR") == ["/app"]
        and instructions("EXPOSE") == ["7860"]
    )
    assert keywords.index("USER") > max(i for i, keyword in enumerate(keywords) if keyword in ("RUN", "COPY")), (
        "root owns the code"
    )
    assert json.loads(instructions("CMD")[0]) == ["python", "app.py"], "without a shell, so that the app gets signals"
    assert (variables["GRADIO_SERVER_NAME"], variables["GRADIO_SERVER_PORT"]) == ("0.0.0.0", "7860")
    assert variables["GRADIO_TEMP_DIR"].startswith("/tmp/")
    assert variables["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert instructions("ARG") == ["TORCH_BACKEND=cpu", "SMOL=", "REVISION="]
    assert environment(revision="abc")["LOOKAHEAD_REVISION"] == "abc"
    assert (environment()["LOOKAHEAD_MODELS"], environment("1")["LOOKAHEAD_MODELS"]) == ("", "pocket,smol")
    assert any("fetch smol" in rest for rest in instructions("RUN"))
    assert any(f"first_start.prebuild('{variables['LOOKAHEAD_KERNELS']}')" in rest for rest in instructions("RUN"))
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
        tokenizer = set() if folder.name in KINDS else {"tokenizer.json"}  # a head uses the target's tokenizer
        for name in {"config.json", *tokenizer, *weights}:
            assert (folder / name).relative_to(ROOT).as_posix() in names
    assert any(name.startswith("assets/models/pocket/target/") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "training/", ".git"))]
    assert {".git", ".venv", "tests", "**/__pycache__"} <= IGNORED


def without_override():
    """In the child process: make file permissions apply to root too."""
    if os.getuid() == 0:
        import ctypes

        drop_from_bounding_set, dac_override = 24, 1  # linux/prctl.h, linux/capability.h
        ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override, 0, 0, 0)


def test_the_copied_files_run_offline_and_write_to_temporary_folders_only(tmp_path):
    """Start the copied files in a read-only folder with the container's variables and without a hub."""
    folder, port = tmp_path / "app", free_port()
    for path in copied():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    before = sorted(folder.rglob("*"))
    for path in (folder, *before):
        path.chmod(path.stat().st_mode & ~0o222)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    running = App(
        tmp_path, port, cwd=folder, in_child=without_override, HOME=str(folder), TMPDIR=str(temporary),
        HF_HUB_OFFLINE="0", HF_ENDPOINT="http://127.0.0.1:9", XDG_CACHE_HOME="",
        LOOKAHEAD_CACHE=os.environ.get("LOOKAHEAD_CACHE", str(folders.cache())),
        NUMBA_CACHE_DIR=str(next(compiling.cache_folders())),  # compiling takes half a minute
        **{**environment(), "GRADIO_TEMP_DIR": str(temporary / "gradio")},
    )  # fmt: skip
    try:
        refused = subprocess.run(
            ["sh", "-c", f"echo x > {folder}/written"], preexec_fn=without_override, check=False, capture_output=True
        )
        assert refused.returncode, "the folder can be written, so this test would check nothing"
        command = [sys.executable, *(part.replace("7860", str(port)) for part in health()[1][1:])]
        statuses = (subprocess.run(command, check=False, capture_output=True, timeout=60).returncode for _ in range(3))
        assert 0 in statuses, "the Dockerfile's health check fails three times"
    finally:
        status = running.stop()
    assert status == 0
    assert not FAULTS.search(running.output()), running.output()
    assert sorted(folder.rglob("*")) == before
    assert (temporary / f"lookahead-{os.getuid()}").is_dir(), "the folder for models from the hub"


def test_no_file_is_too_large_to_push():
    large = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in repository_files()}
    assert not {name: size for name, size in large.items() if size >= MAX_BYTES}


def test_requirements_are_pinned():
    for line in pins():
        assert line.count("==") == 1 and " " not in line, line
    assert [line for line in pins("requirements-dev.txt") if "==" not in line] == ["-r requirements.txt"]


def test_the_readme_begins_with_the_settings_of_spaces():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.startswith("---\n")
    space = yaml.safe_load(text.split("---\n")[1])
    assert space["sdk"] == "gradio" and f"gradio=={space['sdk_version']}" in pins()
    assert (ROOT / space["app_file"]).is_file()
    assert isinstance(space["python_version"], str), "quoted, or 3.10 becomes 3.1"
    assert instructions("FROM")[0] == f"python:{space['python_version']}-slim", (
        "both ways of hosting run the same Python"
    )
    assert {space["colorFrom"], space["colorTo"]} <= COLORS
    assert space["title"] and space["emoji"] and space["license"] == "mit"
    assert len(space["short_description"]) <= 60
    assert space.get("app_port", 7860) == 7860
    assert (ROOT / space["thumbnail"]).is_file() and "mcp-server" in space["tags"]
    assert space["models"] == [line.split()[0] for line in space["preload_from_hub"]] and space["suggested_hardware"]


# ------------------------------------------------------------------ folders that the app writes to


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a temporary folder `tmp`, and with `file`, below which even root cannot create a folder."""
    monkeypatch.setattr(writable.tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "file").write_text("")
    return tmp_path


def test_writable_folders_are_not_changed(folder, capfd):
    variables = {"HF_HOME": str(folder / "new" / "cache"), "GRADIO_TEMP_DIR": str(folder / "uploads")}
    environment = dict(variables)
    writable.use_writable_folders(environment, folder / "no-disk")
    assert environment == variables
    assert not (folder / "new").exists(), "no folder is created before it is needed"
    assert capfd.readouterr() == ("", "")


def test_a_folder_that_cannot_be_written_is_replaced_with_one_line(folder, capfd):
    environment = {"HF_HOME": str(folder / "file" / "cache"), "GRADIO_TEMP_DIR": str(folder / "file" / "uploads")}
    writable.use_writable_folders(environment, folder / "no-disk")
    for name in ("HF_HOME", "GRADIO_TEMP_DIR"):
        assert Path(environment[name]).is_relative_to(folder / "tmp")
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2 and all("cannot be written" in line for line in lines)
    assert (folder / "tmp" / f"lookahead-{os.getuid()}").stat().st_mode & 0o777 == 0o700

    environment = {"HF_HOME": str(folder), "HF_HUB_CACHE": str(folder / "file" / "hub"), "GRADIO_TEMP_DIR": str(folder)}
    writable.use_writable_folders(environment, folder / "no-disk")
    assert environment["HF_HOME"] == str(folder) and Path(environment["HF_HUB_CACHE"]).is_relative_to(folder / "tmp")

    environment = {"HF_HOME": str(folder / "file"), "HF_HUB_OFFLINE": "1", "GRADIO_TEMP_DIR": str(folder)}
    writable.use_writable_folders(environment, folder / "no-disk")
    assert environment["HF_HOME"] == str(folder / "file"), "models are only read there"


def test_a_space_with_a_disk_keeps_models_on_it(folder):
    disk = folder / "data"
    disk.mkdir()
    for variables, home in (
        ({"SPACE_ID": "a/b"}, str(disk / ".huggingface")),
        ({"SPACE_ID": "a/b", "HF_HOME": str(folder)}, str(folder)),
        ({"SPACE_ID": "a/b", "HF_HUB_CACHE": str(folder)}, None),
        ({"HF_HUB_OFFLINE": "1"}, None),
    ):
        environment = dict(variables)
        writable.use_writable_folders(environment, disk)
        assert environment.get("HF_HOME") == home


def test_a_folder_of_another_user_is_not_used(folder):
    (folder / "tmp" / f"lookahead-{os.getuid()}").symlink_to(folder)
    environment = {"HF_HOME": str(folder / "file"), "GRADIO_TEMP_DIR": str(folder)}
    writable.use_writable_folders(environment, folder / "no-disk")
    assert Path(environment["HF_HOME"]).parent.name.startswith("lookahead-")
    assert not Path(environment["HF_HOME"]).is_relative_to(folder / "tmp" / f"lookahead-{os.getuid()}")


def test_the_code_is_never_a_temporary_folder(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(
        writable.tempfile, "tempdir", str(tmp_path)
    )  # as Python chooses if it can write no other folder
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    environment = {"HF_HOME": str(tmp_path / "file"), "GRADIO_TEMP_DIR": str(tmp_path / "file")}
    writable.use_writable_folders(environment, tmp_path / "no-disk")
    assert environment["HF_HOME"] == str(tmp_path / "file")
    assert "there is no temporary folder" in capfd.readouterr().err


def test_without_a_temporary_folder_it_uses_memory_or_ends_with_an_error(tmp_path, monkeypatch):
    def none():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(writable.tempfile, "gettempdir", none)
    monkeypatch.setattr(writable, "SHARED", tmp_path / "missing" / "shm")
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
"""A replacement of Hugging Face's package, which pickles the arguments and the values of the other process."""
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

results = {"here": zero.ENABLED, "gpu": torch.cuda.is_available()}
server = ServerState(queue.call(load, "pocket"), Limits())
LocalContext.request.set("a visitor")  # as in Gradio's handler

def race(tokens):
    return follow(server, form.RaceForm("Once upon a time", ["naive", "draft"], {**form.DEFAULTS, "max_new_tokens": tokens, "k": "4"}))

events = [event for batch in race(12) for event in json.loads(batch)["ev"]]
results["kinds"] = [event["kind"] for event in events if event["kind"] != "status"]
results["end"] = events[-1]

running = race(900)
while not any(event["kind"] == "step" for event in json.loads(next(running))["ev"]):
    pass
running.close()
while "stopped" not in spaces.calls[-1]:
    time.sleep(0.05)

fields = {"max_new_tokens": 12, "k": "4"}
results["lanes"] = [
    [token for step in lane["steps"] for token in step["emitted"]]
    for lane in list(api._race(server, "Once upon a time", "draft", fields))[-1]["lanes"]
]
spaces.refuse.append("You have exceeded your quota.")
results["refused"] = [event for batch in race(12) for event in json.loads(batch)["ev"]][-1]
try:
    list(api._race(server, "Once upon a time", "draft", fields))
except ValueError as error:
    results["error"] = str(error)
results["calls"] = spaces.calls
zero.report()
results["reports"] = len(spaces.reports)
print(json.dumps(results))
"""


def run_script(script, tmp_path, **environment):
    """Run a script and return its last line, parsed as JSON."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SPACE")}
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={**variables, "PYTHONPATH": path, **environment},
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_races_run_in_the_process_with_the_gpu(tmp_path):
    (tmp_path / "spaces.py").write_text(SPACES)
    results = run_script(VISITS, tmp_path, SPACES_ZERO_GPU="true")
    assert results["here"] and not results["gpu"], "this process computes on its cores"
    assert results["kinds"][:2] == ["begin", "begin"], "the second describes the machine with the GPU"
    assert results["kinds"][2:-1] == ["step"] * (len(results["kinds"]) - 3) and results["kinds"][-1] == "end"
    assert results["end"]["reason"] == "finished" and results["end"]["verdict"]["sentence"]
    assert results["end"]["agreement"][1]["identical"]
    assert results["lanes"][0] == results["lanes"][1] and len(results["lanes"][0]) == 12
    for message in (results["refused"]["message"], results["error"]):
        assert message == "ZeroGPU: You have exceeded your quota."
    assert len(results["calls"]) == 5 and results["reports"] == 1
    for call in results["calls"]:
        assert call["visitor"] == "a visitor", "the visitor's quota is used"
        assert call["thread"].startswith("lookahead-compute"), "one race at a time"
    durations = [call["duration"] for call in results["calls"]]
    assert durations[0] == 21 and durations[1] == 74, "twelve and nine hundred tokens in two lanes"
    assert [bool(call.get("stopped")) for call in results["calls"]] == [False, True, False, False, False]


SCRIPT = "import json, sys; from lookahead.server import zero; print(json.dumps([zero.ENABLED, 'spaces' in sys.modules, zero.report()]))"


def test_nothing_is_imported_or_changed_on_other_machines(tmp_path):
    assert (zero.ENABLED, "spaces" in sys.modules, zero.report()) == (False, False, None)
    assert run_script(SCRIPT, tmp_path, SPACES_ZERO_GPU="true") == [False, False, None], "the package is not installed"
