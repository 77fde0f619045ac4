"""While one visitor opens a hostile file, the server responds to all others."""

import json
import threading
import time
import urllib.request

import psutil
import pytest
from test_hostile import ask

from lookahead.trace.schema import SCHEMA

pytestmark = [pytest.mark.models, pytest.mark.timed]
MB = 10**6
NAMES = ",".join(f'"k{n}":0' for n in range(290_000))
FILES = {
    "lanes": f'{{"schema":"{SCHEMA}","lanes":[{"{}," * 3_300_000}1]}}',
    "names": f'{{"schema":"{SCHEMA}",{NAMES}}}',
    "string": f'{{"schema":"{SCHEMA}","a":"{"x," * 16 * MB}"}}',
    "record": json.dumps({
        "engine": "vllm", "mean_acceptance_length": 1, "draft_acceptance_rate": 1, "acceptance_histogram": {"4000": 40_000},
        "num_accepted_draft_tokens": 160_000_000, "num_draft_tokens": 160_000_000, "num_spec_steps": 40_000,
        "per_step_accepted": [4000] * 40_000, "per_step_drafted": [4000] * 40_000,
    }),
}  # fmt: skip


def test_hostile_files_do_not_delay_other_visitors(app):
    components = json.loads(ask(app.url, "GET", "/config")[1])["components"]
    timeline = next(
        component["id"] for component in components if "open_" in (component["props"].get("server_fns") or [])
    )
    process = psutil.Process(app.process.pid)
    responses, slowest_s, max_bytes = [], 0.0, 0
    before = process.memory_info().rss

    def send(body):
        started_at = time.monotonic()
        response = ask(app.url, "POST", "/gradio_api/component_server", body)
        responses.append((*response, time.monotonic() - started_at))

    for text in FILES.values():
        request = {"data": text, "component_id": timeline, "fn_name": "open_", "session_hash": "hostile"}
        sender = threading.Thread(target=send, args=[json.dumps(request).encode()])
        sender.start()
        while sender.is_alive():
            started_at = time.monotonic()
            assert urllib.request.urlopen(f"{app.url}/healthz", timeout=30).status == 200
            slowest_s = max(slowest_s, time.monotonic() - started_at)
            max_bytes = max(max_bytes, process.memory_info().rss - before)
            time.sleep(0.02)
    assert [status for status, *_ in responses] == [200] * len(FILES)
    assert all("error" in json.loads(json.loads(text)) for _, text, _ in responses)
    assert max(seconds for *_, seconds in responses) < 4 and slowest_s < 1.5, "with a margin for a busy machine"
    assert max_bytes < 300 * MB and process.memory_info().rss - before < 100 * MB
