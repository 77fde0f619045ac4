"""Run the doctor on real vLLM servers in five states, and print a table of its diagnoses.

    VLLM_PYTHON=PYTHON .venv/bin/python tests/servers/doctor_states.py --runs 3

The states: no drafter, a draft model with random weights, one of another domain, a draft that is too long under load, and a fitting
draft model. Exits with 1 if a diagnosis is wrong. `test_vllm.py` runs one state per day.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import vllm_environment  # noqa: E402

from lookahead.family.sources import locations  # noqa: E402
from lookahead.measure.tables import markdown_table  # noqa: E402
from lookahead.servers.addresses import server_at  # noqa: E402
from lookahead.servers.doctor import bundled_questions, examine  # noqa: E402
from lookahead.servers.engines import Engine, EngineProcess  # noqa: E402
from lookahead.servers.load import SIDES  # noqa: E402

K, LONG_K = 3, 15
STATES = {  # the expected finding, the draft model, and its number of tokens
    "off": ("off", None, 0),
    "random weights": ("broken-drafter", "random", K),
    "another domain": ("low-acceptance", "offdomain", K),
    "k too large": ("k-too-large", "draft", LONG_K),
    "healthy": ("healthy", "draft", K),
}
BUDGET_S = 45


def vllm(draft: str | None = None, k: int = 0) -> Engine:
    """Return vLLM on this processor, in float32, with the draft model of a folder."""
    command = [
        vllm_environment.python(), "-m", "vllm.entrypoints.openai.api_server", "--model", locations("pocket")["target"],
        "--served-model-name", "target", "--dtype", "float32", "--max-model-len", "2048", "--max-num-seqs", "16",
        "--no-enable-prefix-caching", "--enforce-eager",
    ]  # fmt: skip
    config = {"method": "draft_model", "model": draft, "num_speculative_tokens": k}
    drafting = ["--speculative-config", json.dumps(config), "--per-request-spec-decode-metrics", "detailed"]
    variables = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return Engine("vllm", [*command, *(drafting if draft else [])], None, variables)


def random_draft(folder: Path) -> str:
    """Write a draft model with random weights and the configuration of the bundled one; return its folder."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, set_seed

    source = locations("pocket")["draft"]
    set_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(source)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return str(folder)


def draft_folder(name: str | None, folder: Path) -> str | None:
    """Return the folder of a draft model; a random one is written into `folder`."""
    return random_draft(folder) if name == "random" else locations("pocket")[name] if name else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--states", nargs="+", default=[*STATES], choices=[*STATES])
    parser.add_argument("--seconds", type=float, default=BUDGET_S)
    parser.add_argument("--reports", type=Path, help="write the reports into this folder")
    arguments = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    rows, wrong = [], 0
    with TemporaryDirectory() as folder, EngineProcess(vllm()) as plain:
        for state in arguments.states:
            expected, name, k = STATES[state]
            with EngineProcess(vllm(draft_folder(name, Path(folder)), k)) as fast:
                sides = dict(
                    zip(SIDES, (server_at(e.url, n, {}) for e, n in ((plain, "plain"), (fast, "fast"))), strict=True)
                )
                for run in range(1, arguments.runs + 1):
                    start = perf_counter()
                    *_, last = (p for p in examine(sides, bundled_questions(), arguments.seconds) if p and p.result)
                    found = last.result.findings
                    wrong += found[0].id != expected
                    row = [
                        state,
                        str(run),
                        expected,
                        found[0].id,
                        str(found[0].id == expected),
                        str(round(perf_counter() - start)),
                    ]
                    rows.append([*row, ", ".join(finding.id for finding in found[1:])])
                    print(*rows[-1], found[0].evidence, sep=" | ", flush=True)
                    if arguments.reports:
                        arguments.reports.mkdir(exist_ok=True)
                        path = arguments.reports / f"{state.replace(' ', '-')}-{run}.md"
                        path.write_text(last.result.markdown(), encoding="utf-8")
    print(markdown_table(["state", "run", "expected", "diagnosis", "correct", "seconds", "further findings"], rows))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
