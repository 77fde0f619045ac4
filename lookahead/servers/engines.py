"""Other engines for the bench: vLLM and llama.cpp's server, started one after the other, with the same texts as our lanes.

Each gets the family's models and token ids of a prompt, and decodes greedily. Its time is that of the complete text minus that
of one token, so the prompt and the network are excluded. Its process is paused (SIGSTOP) while our lane computes. A naive lane of
ours runs with every text.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any

import httpx2

from ..core.events import SettingsError
from ..drafting.base import DRAFT_MODEL, EAGLE, LOOKUP, NO_DRAFT
from ..engine.lane import Lane
from ..family.models import Models
from ..family.sources import locations
from ..measure.timing import Entry, Question, Sample, Timing, lane_of, read_entry, time_lane
from .gguf import write

START_S, TEXT_S, END_S = 600, 300, 10  # time limits for the start of a server, a text, and the end of a server
VLLM_DRAFTS, VLLM_HEADS, VLLM_NGRAMS = (2, 4, 6), (2, 4), (4, 10)  # draft lengths
FIND_VLLM = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
LLAMA_DRAFTS, LLAMA_NGRAMS = (4, 8), (8, 32)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine: the `command` that starts it, to which host and port are added, and a function that requests ids."""

    label: str
    command: list[str]
    request_ids: Callable[[httpx2.Client, Sequence[int], int], list[int]]
    variables: Mapping[str, str] = field(default_factory=dict)
    technique: str = NO_DRAFT

    def samples(
        self, models: Models, questions: Sequence[tuple[int, Question]], repeat: int, options: Mapping[str, Any]
    ) -> Iterator[Sample]:
        """Time each greedy question (with its number) `repeat` times, each time with a naive lane of ours."""
        with EngineProcess(self) as process:
            for number, q in questions:
                lane = lane_of(models, q, read_entry("naive"), options)
                for repetition in range(-1, repeat):  # the first is a warm-up
                    process.send(signal.SIGSTOP)
                    naive = time_lane(lane)
                    process.send(signal.SIGCONT)
                    timing = _timed(process, lane, naive)
                    if repetition >= 0:
                        yield Sample(number, q, Entry(self.label, self.label, {}, {}), timing, naive)


def external_engines(models: Models, vllm_python: str | None, llama_server: str | None, folder: Path) -> list[Engine]:
    """Return the engines of an interpreter with vLLM and of a llama-server program, whose models are written to the folder.

    Raises `SettingsError` for a program that cannot be run, and for an interpreter without vLLM.
    """
    for option, program in (("vllm", vllm_python), ("llama-server", llama_server)):
        if program and not shutil.which(program):
            raise SettingsError(option, program, "it is not a program that can be run; give the path of one.")
    if vllm_python and subprocess.run([vllm_python, "-c", FIND_VLLM], capture_output=True).returncode:
        raise SettingsError(
            "vllm", vllm_python, "it is not a Python interpreter with vLLM; install vLLM in its environment."
        )
    engines = vllm(vllm_python, models) if vllm_python else []
    return engines + (llama_cpp(llama_server, models, folder) if llama_server else [])


def vllm(python: str, models: Models) -> list[Engine]:
    """Return vLLM without speculation, with our draft model, with our EAGLE head and with n-grams."""
    members = locations(models.spec)
    command = [
        python, "-m", "vllm.entrypoints.openai.api_server", "--model", members["target"], "--served-model-name", "target",
        "--dtype", models.dtype, "--max-model-len", str(models.target.context_length), "--max-num-seqs", "1",
        "--no-enable-prefix-caching",
    ]  # fmt: skip
    variables = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    kinds: list[tuple[str, str, Sequence[int], dict[str, Any]]] = []
    if "draft" in members:
        kinds.append(("draft", DRAFT_MODEL, VLLM_DRAFTS, {"method": "draft_model", "model": members["draft"]}))
    if "eagle" in members:  # vLLM runs no other kind of our heads on a CPU
        kinds.append(("eagle", EAGLE, VLLM_HEADS, {"method": "eagle3", "model": members["eagle"]}))
    kinds.append(("ngram", LOOKUP, VLLM_NGRAMS, {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 5}))
    engines = [Engine("vllm", command, request_vllm, variables)]
    for name, technique, lengths, settings in kinds:
        for k in lengths:
            speculating = ["--speculative-config", json.dumps(settings | {"num_speculative_tokens": k})]
            engines.append(Engine(f"vllm-{name}:k={k}", [*command, *speculating], request_vllm, variables, technique))
    return engines


def request_vllm(client: httpx2.Client, ids: Sequence[int], most: int) -> list[int]:
    """Return the ids that vLLM generates after `ids`."""
    request = {"model": "target", "prompt": list(ids), "max_tokens": most, "temperature": 0, "return_token_ids": True}
    return _post(client, "/v1/completions", request)["choices"][0]["token_ids"]


def llama_cpp(program: str, models: Models, folder: Path) -> list[Engine]:
    """Return llama.cpp's server without speculation, with our draft model and with n-grams.

    The options are those of build 11434. The family's models are written to the folder as GGUF files in float16.
    """
    members = locations(models.spec)
    files = {role: write(members[role], folder / f"{role}.gguf") for role in ("target", "draft") if role in members}
    command = [
        program, "--model", str(files["target"]), "--ctx-size", str(models.target.context_length), "--parallel", "1", "--no-webui",
        "--threads", str(os.cpu_count()),
    ]  # fmt: skip
    lookup = ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m"]
    kinds = [("ngram", LOOKUP, LLAMA_NGRAMS, lookup)]
    if "draft" in files:
        draft = ["--spec-type", "draft-simple", "--spec-draft-model", str(files["draft"]), "--spec-draft-n-max"]
        kinds.insert(0, ("draft", DRAFT_MODEL, LLAMA_DRAFTS, draft))
    engines = [Engine("llama.cpp", command, request_llama_cpp)]
    for name, technique, lengths, options in kinds:
        for k in lengths:
            speculating = [*command, *options, str(k)]
            engines.append(Engine(f"llama.cpp-{name}:k={k}", speculating, request_llama_cpp, technique=technique))
    return engines


def request_llama_cpp(client: httpx2.Client, ids: Sequence[int], most: int) -> list[int]:
    """Return the ids that llama.cpp's server generates after `ids`."""
    request = {"prompt": list(ids), "n_predict": most, "temperature": 0, "cache_prompt": False, "return_tokens": True}
    return _post(client, "/completion", request)["tokens"]


def _post(client: httpx2.Client, path: str, request: Mapping[str, Any]) -> dict[str, Any]:
    response = client.post(path, json=request)
    response.raise_for_status()
    return response.json()


class EngineProcess:
    """A context manager for an engine's process. Raises `SettingsError` with its last line if it does not start."""

    def __init__(self, engine: Engine):
        self._engine, self._log = engine, tempfile.TemporaryFile("w+")  # noqa: SIM115 open until the process ends
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        try:
            self._process = subprocess.Popen(
                [*engine.command, "--host", "127.0.0.1", "--port", str(port)], stdout=self._log, stderr=subprocess.STDOUT,
                env={**os.environ, "HF_HUB_OFFLINE": "1", **engine.variables}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise self._error(f"it cannot be run ({error}).") from None
        self.url, self.process_group = f"http://127.0.0.1:{port}", self._process.pid
        self._client = httpx2.Client(base_url=self.url, timeout=TEXT_S)

    def __enter__(self) -> EngineProcess:
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            self._process.wait()
        self.send(signal.SIGKILL)  # child processes
        self._log.close()

    def _wait(self) -> None:
        start = monotonic()
        while True:
            with suppress(httpx2.HTTPError):
                if self._client.get("/health", timeout=5).status_code == 200:
                    return
            if self._process.poll() is not None or monotonic() - start > START_S:
                self._log.seek(0)
                lines = self._log.read().strip().splitlines() or ["it printed nothing"]
                raise self._error(f"it did not start: {lines[-1]}")
            sleep(0.2)

    def _error(self, hint: str) -> SettingsError:
        return SettingsError(self._engine.label, self._engine.command[0], hint)

    def send(self, signal_: signal.Signals) -> None:
        """Send a signal to the engine and its child processes."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal_)

    def write(self, ids: Sequence[int], most: int) -> tuple[list[int], float]:
        """Return the generated ids and the seconds of the request."""
        start = perf_counter()
        try:
            generated = self._engine.request_ids(self._client, ids, most)
        except (httpx2.HTTPError, ValueError, LookupError) as error:
            raise self._error(f"it did not respond as expected ({error.__class__.__name__}: {error}).") from None
        return generated, perf_counter() - start


def _timed(process: EngineProcess, lane: Lane, naive: Timing) -> Timing:
    """Time a text as long as naive's. The seconds exclude those of the first token, and are scaled to all tokens."""
    _, first_s = process.write(lane.prompt, 1)
    ids, total_s = process.write(lane.prompt, len(naive.tokens))
    end = naive.tokens[-1]
    if end in lane.models.eos and len(ids) == len(naive.tokens) - 1:
        ids = [*ids, end]  # some engines omit the token that ends the text
    seconds = max(0.0, total_s - first_s) * len(ids) / max(1, len(ids) - 1)
    return Timing(tuple(ids), seconds, len(ids), 0, 0, 0, 0.0, 0.0, None, None)
