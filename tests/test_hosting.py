"""Hosting: what the Dockerfile promises, what Spaces ask for, where the app writes, and races on a GPU that is lent.

The Dockerfile's steps are carried out by rootfs.py, as root and in a minute or two; here they are read.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import rootfs
import yaml
from conftest import ROOT
from dockerfile import Health, Ignored, StepError, command, expand, image, parse, sources

import places

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STEPS = parse(TEXT)
IGNORED = Ignored((ROOT / ".dockerignore").read_text(encoding="utf-8"))
MOST_BYTES = 10_000_000
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}


def pins(name="requirements.txt"):
    lines = (line.partition("#")[0].strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def copied():
    return {name for step in STEPS if step.word == "COPY" for name in sources(step, ROOT, IGNORED)[0]}


def kept():
    """Every file that belongs to the repository."""
    said = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=False, capture_output=True, text=True
    ).stdout
    names = said.splitlines() or [p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if ".venv" not in p.parts]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


# ------------------------------------------------------------------ reading a Dockerfile


def test_instructions_are_read_with_their_lines():
    text = "# a\nFROM x\n\nRUN one \\\n    # said in between\n    && two\nenv A=1 B='2 3'\n"
    steps = parse(text)
    assert [(s.line, s.word, s.rest) for s in steps] == [
        (2, "FROM", "x"), (4, "RUN", "one && two"), (7, "ENV", "A=1 B='2 3'"),
    ]  # fmt: skip
    assert image(steps).environment == {"A": "1", "B": "2 3"}


@pytest.mark.parametrize(
    "text",
    [
        "FROM x\nADD a b", "FROM x\nRUN --mount=type=cache a", "FROM x\nCOPY --chown=1 a b", "FROM x\nRUN <<END\na\nEND",
        "FROM x\nRUN a \\", "# syntax=docker/dockerfile:1\nFROM x", "FROM x\nFROM y", "RUN a", "", "FROM x\nUSER",
    ],
)  # fmt: skip
def test_what_is_not_known_is_an_error(text):
    with pytest.raises(StepError):
        parse(text)


def test_variables_are_replaced():
    values = {"A": "1", "EMPTY": ""}
    assert expand("$A ${A} ${B:-2} ${EMPTY:-3} ${A:+x$A} ${EMPTY:+y}", values) == "1 1 2 3 x$A "
    made = image(parse("FROM x\nARG V=1\nARG W=${V}0\nENV P=/p Q=$P$V\nWORKDIR /a\nWORKDIR b$V"), {"V": "2"})
    assert made.values() == {"V": "2", "W": "20", "P": "/p", "Q": "2"}
    assert made.folder == "/a/b2"
    with pytest.raises(StepError):
        image(parse("FROM x"), {"V": "2"})


def test_commands_and_health_checks():
    assert command('["a", "b c"]') == ["a", "b c"]
    assert command("a b") == ["/bin/sh", "-c", "a b"]
    health = Health.of('--interval=2m --timeout=500ms CMD ["a"]')
    assert (health.command, health.seconds("interval", 0), health.seconds("timeout", 0)) == (["a"], 120, 0.5)
    for wrong in ("NONE", "--often=1s CMD a", 'CMD ["a", 1]'):
        with pytest.raises(StepError):
            Health.of(wrong)


def test_ignored_files_are_not_copied(tmp_path):
    for name in ("a.py", "b/c.txt", "b/d/e.pyc", "b/d/keep.pyc", "tests/t.py", "x/__pycache__/y.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    ignored = Ignored("# said\ntests\n**/__pycache__\n**/*.pyc\n!b/d/keep.pyc\n")

    def files(line):
        return sources(parse(f"FROM x\n{line}")[1], tmp_path, ignored)[0]

    assert files("COPY b to") == {"b/c.txt": "c.txt", "b/d/keep.pyc": "d/keep.pyc"}
    assert files("COPY . .") == {name: name for name in ("a.py", "b/c.txt", "b/d/keep.pyc")}
    assert files("COPY *.py there/") == {"a.py": "a.py"}
    assert files("COPY a.py there") == {"a.py": ""}
    for wrong in ("COPY tests t", "COPY gone g", "COPY a.py b there", "COPY a.py"):
        with pytest.raises(StepError):
            files(wrong)


# ------------------------------------------------------------------ what is promised


def test_the_container_is_what_a_host_expects():
    made = image(STEPS)
    assert made.user not in ("", "0", "root") and made.folder == "/app" and made.ports == [7860]
    assert made.cmd == ["python", "app.py"], "without a shell, so that signals arrive"
    assert made.environment["GRADIO_SERVER_NAME"] == "0.0.0.0"
    assert made.environment["GRADIO_SERVER_PORT"] == "7860"
    assert made.environment["GRADIO_TEMP_DIR"].startswith("/tmp/")
    assert made.environment["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert made.health and "7860" in made.health.command[-1]
    assert made.health.seconds("start-period", 0) >= 30
    assert made.base.endswith("-slim") and made.arguments["TORCH_BACKEND"] == "cpu"
    words = [step.word for step in STEPS]
    assert words.index("USER") > max(i for i, word in enumerate(words) if word in ("RUN", "COPY")), "the code is root's"


def test_everything_the_app_needs_is_copied():
    names = copied()
    own = {p.stem for p in ROOT.glob("*.py")}
    for node in ast.walk(ast.parse((ROOT / "app.py").read_text(encoding="utf-8"))):
        imported = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
        assert {f"{name}.py" for name in imported & own} <= names
    assert {p.relative_to(ROOT).as_posix() for p in (ROOT / "lookahead").rglob("*.py")} <= names
    models = ROOT / "assets" / "models"
    for folder in [p.parent for p in models.glob("*/*/config.json")]:
        index = folder / "model.safetensors.index.json"
        weights = (
            set(json.loads(index.read_text())["weight_map"].values()) if index.is_file() else {"model.safetensors"}
        )
        for name in {"config.json", "tokenizer.json", *weights}:
            assert (folder / name).relative_to(ROOT).as_posix() in names
    assert any(name.startswith("assets/models/pocket/target/") for name in names)
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests/", ".git"))]
    for name in (".git/HEAD", "tests/conftest.py", ".venv/bin/python", "lookahead/__pycache__/x.pyc"):
        assert IGNORED(name)


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
    assert image(STEPS).base == f"python:{space['python_version']}-slim", "both ways of hosting run the same Python"
    assert {space["colorFrom"], space["colorTo"]} <= COLOURS
    assert space["title"] and space["emoji"] and space["license"] == "mit"
    assert len(space["short_description"]) <= 60
    assert space.get("app_port", 7860) == 7860


def test_the_script_that_carries_the_steps_out_is_in_order():
    assert subprocess.run(["sh", "-n"], input=rootfs.INSIDE, text=True, check=False).returncode == 0
    assert rootfs.mounts_below(Path("/")) and not rootfs.mounts_below(ROOT / "lookahead")
    assert image(STEPS).base.removeprefix("python:").removesuffix("-slim") in rootfs.SUITES


# ------------------------------------------------------------------ where the app writes


@pytest.fixture
def among(tmp_path, monkeypatch):
    """A folder for temporary folders, and one that cannot be written (a file is in its way: root may write anywhere)."""
    monkeypatch.setattr(places.tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "file").write_text("")
    return tmp_path


def test_places_that_can_be_written_are_left_alone(among, capfd):
    told = {"HF_HOME": str(among / "new" / "cache"), "GRADIO_TEMP_DIR": str(among / "uploads")}
    environment = dict(told)
    places.settle(environment, among / "no-disk")
    assert environment == told
    assert not (among / "new").exists(), "nothing is made before it is needed"
    assert capfd.readouterr() == ("", "")


def test_a_place_that_cannot_be_written_is_replaced_with_one_line(among, capfd):
    environment = {"HF_HOME": str(among / "file" / "cache"), "GRADIO_TEMP_DIR": str(among / "file" / "uploads")}
    places.settle(environment, among / "no-disk")
    for name in ("HF_HOME", "GRADIO_TEMP_DIR"):
        assert Path(environment[name]).is_relative_to(among / "tmp")
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2 and all("cannot be written" in line for line in lines)
    assert (among / "tmp" / f"lookahead-{os.getuid()}").stat().st_mode & 0o777 == 0o700

    environment = {"HF_HOME": str(among), "HF_HUB_CACHE": str(among / "file" / "hub"), "GRADIO_TEMP_DIR": str(among)}
    places.settle(environment, among / "no-disk")
    assert environment["HF_HOME"] == str(among) and Path(environment["HF_HUB_CACHE"]).is_relative_to(among / "tmp")

    environment = {"HF_HOME": str(among / "file"), "HF_HUB_OFFLINE": "1", "GRADIO_TEMP_DIR": str(among)}
    places.settle(environment, among / "no-disk")
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
        places.settle(environment, disk)
        assert environment.get("HF_HOME") == home


def test_somebody_elses_folder_is_not_used(among):
    (among / "tmp" / f"lookahead-{os.getuid()}").symlink_to(among)
    environment = {"HF_HOME": str(among / "file"), "GRADIO_TEMP_DIR": str(among)}
    places.settle(environment, among / "no-disk")
    assert Path(environment["HF_HOME"]).parent.name.startswith("lookahead-")
    assert not Path(environment["HF_HOME"]).is_relative_to(among / "tmp" / f"lookahead-{os.getuid()}")


def test_the_code_is_never_a_temporary_place(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(
        places.tempfile, "tempdir", str(tmp_path)
    )  # as Python chooses where nothing else can be written
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    environment = {"HF_HOME": str(tmp_path / "file"), "GRADIO_TEMP_DIR": str(tmp_path / "file")}
    places.settle(environment, tmp_path / "no-disk")
    assert environment["HF_HOME"] == str(tmp_path / "file")
    assert "nor any temporary folder" in capfd.readouterr().err


def test_with_no_temporary_place_there_is_memory_or_a_clear_end(tmp_path, monkeypatch):
    def none():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(places.tempfile, "gettempdir", none)
    monkeypatch.setattr(places, "SHARED", tmp_path / "gone" / "shm")
    monkeypatch.setattr(places, "_writable", lambda folder: folder == tmp_path)
    with pytest.raises(OSError, match="set TMPDIR"):
        places.settle({})
    monkeypatch.setattr(places, "SHARED", tmp_path)
    monkeypatch.setattr(places.tempfile, "tempdir", None)
    environment = {}
    places._spare(environment)
    assert environment == {"TMPDIR": str(tmp_path)} and places.tempfile.tempdir == str(tmp_path)


# ------------------------------------------------------------------ ZeroGPU

SPACES = '''
"""Stands in for Hugging Face's package: what goes to the other process and what comes back is pickled."""
import functools, pickle, threading

calls, refuse = [], []

def GPU(task, duration):
    @functools.wraps(task)
    def handler(*arguments):
        import gradio
        from gradio.context import LocalContext
        call = {"visitor": LocalContext.request.get(None), "thread": threading.current_thread().name, "duration": duration}
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
from lookahead import load, worker
from lookahead.limits import Limits
from lookahead.ui import Stage, api, form, zero
from lookahead.ui.racing import raced

said = {"here": zero.HERE, "gpu": torch.cuda.is_available()}
stage = Stage(worker.call(load, "pocket"), Limits())
LocalContext.request.set("a visitor")  # as in Gradio's own handler

def race(tokens):
    return raced(stage, "Once upon a time", ["naive", "draft"], {**form.DEFAULTS, "max_new_tokens": tokens, "k": "4"})

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
    for lane in list(api._told(stage, "Once upon a time", "draft", given))[-1]["lanes"]
]
spaces.refuse.append("You have exceeded your quota.")
said["refused"] = [event for batch in race(12) for event in json.loads(batch)["ev"]][-1]
try:
    list(api._told(stage, "Once upon a time", "draft", given))
except ValueError as error:
    said["told"] = str(error)
said["calls"] = spaces.calls
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


@pytest.mark.models
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
    assert len(said["calls"]) == 5
    for call in said["calls"]:
        assert call["visitor"] == "a visitor", "the GPU is lent to whoever asks"
        assert call["thread"].startswith("lookahead-compute"), "one race at a time"
        assert 0 < call["duration"] <= 60
    assert [bool(call.get("stopped")) for call in said["calls"]] == [False, True, False, False, False]


LOOK = "import json, sys; from lookahead.ui import zero; print(json.dumps([zero.HERE, 'spaces' in sys.modules, zero.lent(1, 2, 3)]))"


def test_nothing_is_imported_or_changed_where_none_is_lent(tmp_path):
    assert ran(LOOK, tmp_path) == [False, False, 1]
    assert ran(LOOK, tmp_path, SPACES_ZERO_GPU="true") == [False, False, 1], "the package is not there"
