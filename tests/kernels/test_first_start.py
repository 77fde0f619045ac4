"""The first start on a processor compiles all functions, in several processes, and later starts compile nothing."""

import io
import os
import signal
import subprocess
import sys
from collections import deque

import pytest
import torch
from conftest import emitted

import lookahead
from lookahead.core import compilers, processor
from lookahead.kernels import block_pass, compiling, draft, first_start, llama_pass, recursive_pass

ECHO = "import sys; [print(line.strip(), flush=True) for line in sys.stdin]"


@pytest.fixture
def work(monkeypatch, tmp_path):
    """Functions that only record their names, an empty cache, and two cores."""
    compiled = []
    functions = {name: lambda name=name: compiled.append(name) for name in compiling.FUNCTIONS}
    monkeypatch.setattr(compiling, "FUNCTIONS", functions)
    monkeypatch.setattr(compiling, "cache_folders", lambda: iter([tmp_path]))
    monkeypatch.setattr(processor, "cores", lambda: 2)
    return compiled


def test_each_function_is_compiled_once_and_the_next_start_compiles_none(work, monkeypatch):
    elsewhere, reports = [], []

    def compile_elsewhere(waiting, finished):
        for unit in first_start._taken(waiting):
            elsewhere.extend(unit.split())
            finished(unit)
        return True

    monkeypatch.setattr(first_start, "_compile_elsewhere", compile_elsewhere)
    first_start.compile_all(torch.bfloat16, lambda *report: reports.append(report))
    names = " ".join(first_start.units(torch.bfloat16)).split()
    assert sorted([*work, *elsewhere]) == sorted(names) and len(names) > 20
    assert reports[-1] == (len(names), len(names)) and reports == sorted(reports)
    work.clear()
    first_start.compile_all(torch.bfloat16)
    assert not work


@pytest.mark.parametrize("command", [["-c", "print('other')"], ["-c", "import sys; sys.exit(1)"], None])
def test_a_process_that_fails_compiles_nothing(monkeypatch, command):
    python, popen, compiled = sys.executable, subprocess.Popen, []
    arguments = [python, *command] if command else ["/nowhere"]
    monkeypatch.setattr(compilers.subprocess, "Popen", lambda _, **options: popen(arguments, **options))
    assert not first_start._compile_elsewhere(deque(["attend.attend", "draft.tree"]), compiled.append)
    assert not compiled


def test_functions_that_are_missing_are_compiled_at_the_next_start(work, monkeypatch):
    monkeypatch.setattr(first_start, "_compile_elsewhere", lambda waiting, finished: False)
    for _ in range(2):
        first_start.compile_all(torch.bfloat16)
        assert sorted(work) == sorted(" ".join(first_start.units(torch.bfloat16)).split())
        work.clear()


@pytest.mark.parametrize("begun", [False, True])
def test_functions_of_other_drafters_are_compiled_later(work, monkeypatch, begun):
    elsewhere = []

    def compile_elsewhere(waiting, finished):
        elsewhere.extend(first_start._taken(waiting))
        return True

    monkeypatch.setattr(first_start, "_compile_elsewhere", compile_elsewhere)
    *others, drafting = first_start.units(torch.bfloat16)
    assert {name.partition(".")[0] for name in drafting.split()} == {"draft", "block_pass", "recursive_pass"}
    if begun:
        first_start.begin(torch.bfloat16, {"block"})
    first_start.compile_all(torch.bfloat16, drafters={"block"})
    compiled = {*work, *" ".join(elsewhere).split()}
    assert {*" ".join(others).split()} < compiled
    assert {name.partition(".")[0] for name in compiled - {*" ".join(others).split()}} == {"block_pass"}
    monkeypatch.setattr(compilers, "_COMMAND", [sys.executable, "-c", ECHO])
    assert len([*first_start.compile_deferred(torch.bfloat16)]) >= 1
    assert not [*first_start.compile_deferred(torch.bfloat16)], "the mark of complete compilation is set"


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="this system cannot suspend a process")
def test_the_other_process_is_suspended_while_visitors_compute(work, monkeypatch, tmp_path):
    """Closing the iteration ends the process, and nothing counts as compiled."""
    monkeypatch.setattr(compilers, "_COMMAND", [sys.executable, "-c", f"import time; time.sleep(1); {ECHO}"])
    monkeypatch.setattr(first_start, "STEP_S", 0.01)
    taken, take = [], compilers.take
    monkeypatch.setattr(compilers, "take", lambda: taken.append(take()) or taken[-1])
    steps = first_start.compile_deferred(torch.bfloat16)
    next(steps)
    (process,) = taken
    assert os.waitpid(process.pid, os.WUNTRACED) == (process.pid, signal.SIGSTOP << 8 | 0x7F)
    steps.close()
    assert process.wait(10) == -signal.SIGKILL
    assert not [*tmp_path.rglob(f"{compilers.MARK}*")]


def test_a_complete_start_compiles_all_functions(work, monkeypatch):
    monkeypatch.setattr(first_start, "_compile_elsewhere", lambda waiting, finished: True)
    first_start.begin(torch.bfloat16, {"a draft model"})
    first_start.compile_all(torch.bfloat16)
    assert {*work} == {*" ".join(first_start.units(torch.bfloat16)).split()}


def test_processes_that_wait_are_used_or_ended(monkeypatch, tmp_path):
    """They start early only if nothing was compiled before."""
    monkeypatch.setattr(compilers, "_COMMAND", [sys.executable, "-c", "import sys; sys.stdin.read()"])
    monkeypatch.setattr(processor, "cores", lambda: 3)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("LOOKAHEAD_KERNELS", raising=False)
    compilers.start_if_first()
    waiting = [*compilers._waiting]
    assert len(waiting) == compilers.further() == 2
    with compilers.take() as taken:
        assert taken is waiting[1]
    compilers.stop()
    assert [process.wait(10) for process in waiting] == [0, 0]
    (tmp_path / "version").mkdir()
    (tmp_path / "version" / f"{compilers.MARK}kind").touch()
    compilers.start_if_first()
    assert not compilers._waiting


def test_another_process_compiles_the_functions_that_it_reads(work, capsys):
    first_start.main(io.StringIO("attend.attend attend.attend_share\ndraft.tree\n"))
    assert work == ["attend.attend", "attend.attend_share", "draft.tree"]
    assert capsys.readouterr().out == "attend.attend attend.attend_share\ndraft.tree\n"


@pytest.mark.models
def test_no_call_compiles_a_function_again(models):
    """Arguments of other types than declared would be compiled at the first race."""
    for method in ("draft", "tree", "eagle", "eagle-tree", "mtp", "block", "medusa", "self"):
        emitted(lookahead.decode(models, "Once upon a time", method=method, max_new_tokens=8))
    for module in (llama_pass, draft, recursive_pass, block_pass):
        name = module.__name__.rpartition(".")[2]
        for function in [
            vars(module)[key.partition(".")[2]] for key in compiling.FUNCTIONS if key.startswith(f"{name}.")
        ]:
            assert len(getattr(function, "signatures", [1])) <= 1, function
