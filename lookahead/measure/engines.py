"""Other engines beside ours: vLLM and llama.cpp's server, started here one after the other, writing the same texts.

Each is given the family's own models, token ids for a prompt, and no sampling. Its seconds are those of a whole text
less those of a text of one token, so that neither reading the prompt nor the way to the server counts. It stands still
(SIGSTOP) while our lane computes, and a naive lane of ours runs beside every text of its.

Knows processes and HTTP. It does not know tables.
"""

from __future__ import annotations

import json
import os
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

from ..core.events import Settings, SettingsError
from ..family.models import Models
from ..family.sources import places
from ..race.lane import Lane
from .gguf import write
from .timing import Entry, Question, Sample, Timing, read_entry, time_lane

START_S, TEXT_S, END_S = 600, 300, 10  # for a server to be ready, a text to be written, a server to end
VLLM_DRAFTS, VLLM_HEADS, VLLM_NGRAMS = (2, 4, 6), (2, 4), (4, 10)  # draft lengths it is given
LLAMA_DRAFTS, LLAMA_NGRAMS = (4, 8), (8, 32)
ALONE = ("vllm", "llama.cpp")  # without speculation


@dataclass(frozen=True, slots=True)
class Engine:
    """How to start an engine at a port, and to ask it for the ids that follow ids."""

    label: str
    command: Callable[[int], list[str]]
    ask: Callable[[httpx2.Client, Sequence[int], int], list[int]]
    variables: Mapping[str, str] = field(default_factory=dict)


def vllm(python: str, models: Models) -> list[Engine]:
    """vLLM, in the environment of that interpreter: without speculation, with our draft model and EAGLE head, with its n-grams."""
    members = places(models.spec)

    def engine(label: str, speculative: Mapping[str, Any] | None) -> Engine:
        def command(port: int) -> list[str]:
            server = [python, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port)]
            model = ["--model", members["target"], "--served-model-name", "target", "--dtype", models.dtype]
            room = ["--max-model-len", str(models.target.context_length), "--max-num-seqs", "1"]
            plan = [] if speculative is None else ["--speculative-config", json.dumps(speculative)]
            return [*server, *model, *room, "--no-enable-prefix-caching", *plan]

        return Engine(label, command, _ask_vllm, {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"})

    engines = [engine("vllm", None)]
    if "draft" in members:
        for k in VLLM_DRAFTS:
            plan = {"method": "draft_model", "model": members["draft"], "num_speculative_tokens": k}
            engines.append(engine(f"vllm-draft:k={k}", plan))
    if "eagle" in members:  # of heads that ship this kind alone runs in vLLM on a processor
        for k in VLLM_HEADS:
            plan = {"method": "eagle3", "model": members["eagle"], "num_speculative_tokens": k}
            engines.append(engine(f"vllm-eagle:k={k}", plan))
    for k in VLLM_NGRAMS:
        plan = {"method": "ngram", "num_speculative_tokens": k, "prompt_lookup_min": 2, "prompt_lookup_max": 5}
        engines.append(engine(f"vllm-ngram:k={k}", plan))
    return engines


def _ask_vllm(client: httpx2.Client, ids: Sequence[int], most: int) -> list[int]:
    request = {"model": "target", "prompt": list(ids), "max_tokens": most, "temperature": 0, "return_token_ids": True}
    return _answer(client, "/v1/completions", request)["choices"][0]["token_ids"]


def llama_cpp(program: str, models: Models, folder: Path) -> list[Engine]:
    """llama.cpp's server: alone, with our draft model and with its n-grams, on the family's models in float16 GGUF files that
    are put in a folder. Its options are those of build 11434; older ones had other names."""
    members = places(models.spec)
    files = {role: write(members[role], folder / f"{role}.gguf") for role in ("target", "draft") if role in members}

    def engine(label: str, more: Sequence[str]) -> Engine:
        def command(port: int) -> list[str]:
            server = [program, "--host", "127.0.0.1", "--port", str(port), "--model", str(files["target"])]
            room = ["--ctx-size", str(models.target.context_length), "--parallel", "1", "--no-webui"]
            return [*server, *room, "--threads", str(os.cpu_count()), *more]

        return Engine(label, command, _ask_llama_cpp)

    engines = [engine("llama.cpp", [])]
    if "draft" in files:
        drafting = ["--spec-type", "draft-simple", "--spec-draft-model", str(files["draft"]), "--spec-draft-n-max"]
        engines += [engine(f"llama.cpp-draft:k={k}", [*drafting, str(k)]) for k in LLAMA_DRAFTS]
    lookup = ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m"]
    return [*engines, *(engine(f"llama.cpp-ngram:k={k}", [*lookup, str(k)]) for k in LLAMA_NGRAMS)]


def _ask_llama_cpp(client: httpx2.Client, ids: Sequence[int], most: int) -> list[int]:
    request = {"prompt": list(ids), "n_predict": most, "temperature": 0, "cache_prompt": False, "return_tokens": True}
    return _answer(client, "/completion", request)["tokens"]


def _answer(client: httpx2.Client, path: str, request: Mapping[str, Any]) -> dict[str, Any]:
    answer = client.post(path, json=request)
    answer.raise_for_status()
    return answer.json()


class Server:
    """An engine's process, from its start to its end; ready when it can be asked.

    Raises `SettingsError` where it does not start, with the last line it wrote.
    """

    def __init__(self, engine: Engine):
        self._engine, self._log = engine, tempfile.TemporaryFile("w+")  # noqa: SIM115 as long as the process
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        try:
            self._process = subprocess.Popen(
                engine.command(port), env={**os.environ, "HF_HUB_OFFLINE": "1", **engine.variables},
                stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise SettingsError(engine.label, engine.command(port)[0], f"it cannot be run ({error}).") from None
        self.url, self.process_group = f"http://127.0.0.1:{port}", self._process.pid
        self._client = httpx2.Client(base_url=self.url, timeout=TEXT_S)

    def __enter__(self) -> Server:
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._send(signal.SIGCONT)
        self._send(signal.SIGTERM)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._send(signal.SIGKILL)
            self._process.wait()
        self._send(signal.SIGKILL)  # what it has started itself
        self._log.close()

    def _wait(self) -> None:
        start = monotonic()
        while True:
            with suppress(httpx2.HTTPError):
                if self._client.get("/health", timeout=5).status_code == 200:
                    return
            if self._process.poll() is not None or monotonic() - start > START_S:
                self._log.seek(0)
                lines = self._log.read().strip().splitlines() or ["it wrote nothing"]
                raise SettingsError(self._engine.label, self._engine.command(0)[0], f"it did not start: {lines[-1]}")
            sleep(0.2)

    def _send(self, what: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, what)

    def stand_still(self) -> None:
        """Take no time until `go_on`."""
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Be there to be asked again."""
        self._send(signal.SIGCONT)

    def write(self, ids: Sequence[int], most: int) -> tuple[list[int], float]:
        """The ids that follow, and the seconds until they were there."""
        start = perf_counter()
        try:
            following = self._engine.ask(self._client, ids, most)
        except (httpx2.HTTPError, ValueError, LookupError) as error:
            mend = f"it did not answer as expected ({error.__class__.__name__}: {error})."
            raise SettingsError(self._engine.label, self._engine.command(0)[0], mend) from None
        return following, perf_counter() - start


def samples(
    models: Models, engines: Sequence[Engine], questions: Sequence[Question], repeat: int, options: Mapping[str, Any]
) -> Iterator[Sample]:
    """Every engine on every greedy question `repeat` times, each time beside a naive lane of ours."""
    plain = read_entry("naive")
    for block, engine in enumerate(engines, start=1):
        with Server(engine) as server:
            for number, q in greedy(questions, options):
                lane = _naive(models, q, options)
                for turn in range(-1, repeat):  # the first is for warming up
                    server.stand_still()
                    naive = time_lane(lane)
                    server.go_on()
                    timing = _timed(server, lane, naive)
                    if turn >= 0:
                        yield Sample(number, q, plain, turn, -block, naive)
                        yield Sample(number, q, Entry(engine.label, engine.label, {}, {}), turn, -block, timing)


def greedy(questions: Sequence[Question], options: Mapping[str, Any]) -> list[tuple[int, Question]]:
    """The questions, with their numbers, on which engines can be compared: sampling is every engine's own."""
    return [(n, q) for n, q in enumerate(questions) if not {**options, **q.settings}.get("temperature")]


def _naive(models: Models, q: Question, options: Mapping[str, Any]) -> Lane:
    return Lane(models, q.prompt, "naive", Settings(**{**options, **q.settings, "chat": q.chat, "details": False}))


def _timed(server: Server, lane: Lane, naive: Timing) -> Timing:
    """A text as long as ours, by an engine; its seconds without the first token's, scaled to all tokens."""
    _, first_s = server.write(lane.prompt, 1)
    ids, whole_s = server.write(lane.prompt, len(naive.tokens))
    end = naive.tokens[-1]
    if end in lane.models.eos and len(ids) == len(naive.tokens) - 1:
        ids = [*ids, end]  # some engines leave out the token that ended the text
    seconds = max(0.0, whole_s - first_s) * len(ids) / max(1, len(ids) - 1)
    return Timing(tuple(ids), seconds, len(ids), 0, 0, 0, 0.0, 0.0, None, None)
