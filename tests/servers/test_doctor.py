"""The doctor: each finding from an imitated server or from measurements with given seconds, the report, and the command."""

import json
from dataclasses import replace
from itertools import cycle, islice

import pytest
from fakeserver import Fake, serving
from starlette.responses import JSONResponse

from lookahead.__main__ import main
from lookahead.measure.timing import Question
from lookahead.servers import diagnosis, doctor, findings
from lookahead.servers.addresses import RemoteError, server_at
from lookahead.servers.findings import Measurements, forecasts, levels, loop_start
from lookahead.servers.load import SIDES, Block, CompletedRequest
from lookahead.servers.probes import COPYING, COUNTING, SCHEMA, long_prompt, probes
from lookahead.servers.replies import Completion, Pass

pytestmark = pytest.mark.engines

PROMPTS = [Question(str(i), "ab"[i % 2], f"Prompt {i}", False) for i in range(8)]
MAX_TOKENS, MIN_S = 24, 5.0
ANSWERS = {
    COPYING: lambda prompt: prompt.partition(": ")[2],
    COUNTING: lambda prompt: counted_on(prompt),
    SCHEMA: lambda prompt: person_in(prompt),
}
K, RUNS = 4, (4, 2, 4, 0, 4, 3)


def counted_on(prompt):
    shown = [int(part) for part in prompt.partition(": ")[2].split(", ")]
    return ", ".join(str(shown[0] + (shown[1] - shown[0]) * i) for i in range(9))


def person_in(prompt):
    name, _, age, *_, city = prompt.partition(": ")[2].rstrip(".").split()
    return json.dumps({"name": name, "age": int(age), "city": city})


class Answering(Fake):
    """A server that answers the questions with known answers, all of them wrong if `corrupted`."""

    def __init__(self, *arguments, corrupted=False, **more):
        super().__init__(*arguments, **more)
        self.corrupted = corrupted
        self.answers = {probe.question.prompt: ANSWERS[probe.question.category] for probe in probes()}

    async def write(self, request):
        body = await request.json()
        prompt = body["messages"][0]["content"] if "messages" in body else body["prompt"]
        if prompt not in self.answers:
            return await super().write(request)
        self.requests.append((request.url.path, body))
        answer = "?" if self.corrupted else self.answers[prompt](prompt)
        return await Fake(self.kind, self.runs, text=[answer, *[""] * 400]).write(request)


class Reordered(Fake):
    """A server with other ids than `Fake`: `ids` are those of a text, in turn."""

    def __init__(self, *arguments, ids, **more):
        super().__init__(*arguments, **more)
        self.ids = ids

    def passes(self, most, runs=None):
        ids = [*islice(cycle(self.ids), most)]
        return [([ids[i] for i in run], accepted) for run, accepted in super().passes(most, runs)]


def examined(monkeypatch, plain, fast, *phases, contexts=(1024,)):
    """Return the last diagnosis of two imitated servers, after these phases or all, with few loads and contexts."""
    monkeypatch.setattr(doctor, "LOADS", (2,))
    monkeypatch.setattr(doctor, "CONTEXTS", contexts)
    if phases:
        monkeypatch.setattr(doctor, "SHARES", dict.fromkeys(phases, 1.0))
    with serving(plain) as plain_url, serving(fast) as fast_url:
        sides = dict(zip(SIDES, (server_at(plain_url, "plain", {}), server_at(fast_url, "fast", {})), strict=True))
        return [p for p in doctor.examine(sides, PROMPTS, MIN_S, MAX_TOKENS) if p and p.result][-1].result


def ids_of(found):
    return [finding.id for finding in found.findings]


def text(passes, start=0.01, ids=None):
    """Return a completion of (seconds, accepted or None) per pass, with k drafted tokens each; the first has one token."""
    at_s, out, token, drafts = start, [Pass(start, "w", (0,))], 1, []
    for seconds, accepted in passes:
        at_s += seconds
        size = 1 + (accepted or 0)
        run = tuple(range(token, token + size)) if ids is None else tuple(ids[token : token + size])
        out.append(Pass(at_s, "w" * size, run, K if accepted is not None else None, accepted))
        drafts += [accepted] if accepted is not None else []
        token += size
    counts = (K * len(drafts), sum(drafts), len(drafts)) if drafts else None
    return Completion(tuple(out), "length", token, counts)


def measured(plain, fast, loads=(1,), categories=("a",)):
    """Return measurements: `plain(load, prompt)` and `fast(load, prompt)` return completions."""
    questions = [Question(str(i), category, "Prompt", False) for i, category in enumerate(categories)]
    blocks = []
    for load in loads:
        for side, make in zip(SIDES, (plain, fast), strict=True):
            texts = tuple(CompletedRequest(i, 0.0, make(load, i)) for i in range(len(questions)))
            blocks.append(Block(side, load, 1.0, 1, texts))
    return Measurements(questions, dict.fromkeys(SIDES, "vllm"), blocks)


def naive(seconds=0.01, tokens=40):
    return text([(seconds, None)] * tokens)


def diagnose(found):
    return findings.diagnose(found, levels(found))


def first(found):
    return diagnose(found)[0]


def test_two_healthy_servers_have_a_full_report(monkeypatch):
    found = examined(monkeypatch, Answering(), Answering(runs=RUNS))
    assert {*ids_of(found)} <= {"healthy", "slower", "k-too-large"}, "their seconds are not compared here"
    assert {"categories", "load", "positions", "lengths", "questions", "output"} <= found.sections.keys()
    assert [row["name"] for row in found.sections["categories"]] == ["a", "b", "all"]
    assert [(row["total"], row["baseline"], row["speculative"]) for row in found.sections["questions"]] == [
        (7, 7, 7),
        (6, 6, 6),
        (7, 7, 7),
    ]
    assert found.missing.keys() >= {*diagnosis.TITLES} - found.sections.keys()
    assert found.sections["positions"][0]["rate"] == pytest.approx(5 / 6, abs=0.1)
    document = json.loads(json.dumps(found.document()))
    assert document["findings"] and document["published"][0]["source"] and document["advice"] == found.advice
    markdown = found.markdown()
    assert markdown.rstrip().endswith(found.advice) and all(title in markdown for title in diagnosis.TITLES.values())


def test_an_unfinished_diagnosis_calls_sections_not_measured_yet(monkeypatch):
    monkeypatch.setattr(doctor, "LOADS", (2,))
    monkeypatch.setattr(doctor, "CONTEXTS", (1024,))
    with serving(Answering()) as plain_url, serving(Answering(runs=RUNS)) as fast_url:
        sides = dict(zip(SIDES, (server_at(plain_url, "plain", {}), server_at(fast_url, "fast", {})), strict=True))
        reports = [p for p in doctor.examine(sides, PROMPTS, MIN_S, MAX_TOKENS) if p and p.result]
    assert reports[0].result.reason("questions") == reports[0].result.reason("reasoning") == "Not measured yet."
    assert "yet" not in "".join(map(reports[-1].result.reason, diagnosis.TITLES))
    assert {p.unit for p in reports} == {"s"}


def test_schemas_are_sent(monkeypatch):
    fake = Answering(runs=RUNS)
    examined(monkeypatch, Answering(), fake, "texts", "questions")
    formats = [body["response_format"] for _, body in fake.requests if "response_format" in body]
    assert formats and all(f["json_schema"]["schema"]["required"] == ["name", "age", "city"] for f in formats)


@pytest.mark.parametrize("kind", ["vllm", "openai", "llama-server", "sglang"])
def test_speculation_that_is_off(monkeypatch, kind):
    found = examined(monkeypatch, Fake(kind), Fake(kind), "texts")
    assert ids_of(found)[0] == "off" and "1.00 tokens" in found.findings[0].evidence
    assert bool(found.findings[0].flag) == (kind != "openai")


def test_a_broken_drafter(monkeypatch):
    found = examined(monkeypatch, Fake(), Fake(runs=(0,)), "texts")
    assert ids_of(found)[0] == "broken-drafter" and "bigram table" in found.findings[0].evidence


def test_a_drafter_of_another_domain():
    plain, good, bad = naive(), [(0.01, 4)] * 12, [(0.01, 0)] * 36

    def fast(load, prompt):
        return text([*good, *bad] if prompt == 1 else bad)

    found = first(measured(lambda *_: plain, fast, categories=("stories", "records", "tales")))
    assert found.id == "low-acceptance" and "another domain" in found.title and "records" in found.fix
    assert first(measured(lambda *_: plain, lambda *_: text(bad + good))).title.endswith("every category.")


@pytest.mark.parametrize("accepted", [RUNS, (0, 0, 0)])
def test_loops_are_found_only_with_high_acceptance(accepted):
    ids = [*range(20), *[7, 8, 9] * 40]
    steps = [(0.01, n) for n in islice(cycle((4,) if accepted == RUNS else accepted), 30)]
    found = diagnose(measured(lambda *_: naive(), lambda *_: text(steps, ids=ids)))
    assert ("loops" in [finding.id for finding in found]) == (accepted == RUNS)


def test_a_loop_begins_after_the_last_other_token():
    ids = (*range(20), *[7, 8, 9] * 12)
    assert loop_start(Completion((Pass(0.1, "", ids),))) == 20
    assert loop_start(Completion((Pass(0.1, "ab" * 20),))) == 0
    assert loop_start(Completion((Pass(0.1, "", tuple(range(60))),))) is None


def test_counters_that_disagree(monkeypatch):
    found = examined(monkeypatch, Fake(), Fake(runs=RUNS, fault="counts"), "texts")
    finding = next(finding for finding in found.findings if finding.id == "counters-disagree")
    assert "A response differs from the received tokens" in finding.evidence


def test_sums_of_counters_that_disagree_with_the_texts():
    found = measured(lambda *_: naive(tokens=45), lambda *_: text([(0.012, 4)] * 9), categories="aaaa")
    _, fast = found.blocks
    sums = {"generated": 4 * 46, "passes": 4 * 9, "drafted": 4 * 9 * K, "accepted": 4 * 9 * 4}
    found.blocks[1] = replace(fast, counted=sums)
    assert first(found).id == "healthy"
    found.blocks[1] = replace(fast, counted={**sums, "accepted": 80})
    assert first(found).id == "counters-disagree" and "accepted 80 and 144" in first(found).evidence


def test_texts_that_differ_have_a_position(monkeypatch):
    found = examined(monkeypatch, Fake(), Reordered(runs=RUNS, ids=[*range(6), 9, *range(7, 40)]), "texts", "load")
    finding = next(finding for finding in found.findings if finding.id == "text-differs")
    assert "8 of 8 texts differ, the first one at token 7" in finding.evidence and "tie" in finding.fix


def test_corrupted_answers(monkeypatch):
    found = examined(monkeypatch, Answering(), Answering(runs=RUNS, corrupted=True), "texts", "questions")
    finding = next(finding for finding in found.findings if finding.id == "corrupted")
    assert finding.severity == findings.ERROR and "baseline has 20 right" in finding.evidence


def test_requests_that_fail():
    found = measured(lambda *_: naive(), lambda *_: text([(0.01, 4)] * 30))
    failed = CompletedRequest(0, 0.0, None, "server is 'fast': it is overloaded")
    found.blocks.append(Block(SIDES[1], 8, 1.0, 1, (failed,)))
    assert first(found).id == "failing" and "overloaded" in first(found).evidence


def test_a_draft_length_that_is_too_large_under_load():
    accepted = [4, 1, 1, 0, 1, 2] * 6

    def fast(load, prompt):
        return text([(0.012 if load == 1 else 0.05, n) for n in accepted])

    found = first(measured(lambda *_: naive(), fast, loads=(1, 8), categories="aaaa"))
    assert found.id == "k-too-large" and "With 8 at once" in found.evidence
    assert '"num_speculative_tokens": 1' in found.flag


def test_slower_texts():
    found = first(measured(lambda *_: naive(), lambda *_: text([(0.09, 4)] * 9), categories="aaaa"))
    assert found.id == "slower" and "without speculation" in found.fix


def test_a_fast_server_is_healthy():
    found = diagnose(measured(lambda *_: naive(tokens=45), lambda *_: text([(0.012, 4)] * 9), (1, 8), "aaaa"))
    assert [finding.id for finding in found] == ["healthy"] and "On for up to 8 at once" in found[0].evidence


def test_counts_in_counters_alone_are_not_reported_as_off():
    counters = {"generated": 41, "passes": 10, "drafted": 40, "accepted": 31}
    found = measured(lambda *_: naive(), lambda *_: naive())
    plain, fast = found.blocks
    found.blocks[:] = [plain, replace(fast, counted=counters)]
    assert [finding.id for finding in diagnose(found)] == ["unreported"]
    assert first(found).flag == "--per-request-spec-decode-metrics detailed"


def test_reasoning_and_answers_have_rows():
    parts = [Pass(0.01 * i, "w", (i,), *((4, 0) if i else (None, None)), (), i < 6) for i in range(12)]
    thinking = Completion(tuple(parts), "stop", 12, (44, 0, 11))
    rows = diagnosis._reasoning(measured(lambda *_: thinking, lambda *_: thinking))
    assert [(row["name"], row["speedup"], row["mean_acceptance_length"]) for row in rows] == [
        ("reasoning", pytest.approx(1), 1),
        ("answer", pytest.approx(1), 1),
    ]
    assert diagnosis._reasoning(measured(lambda *_: naive(), lambda *_: naive())) == []


def test_forecasts_of_shorter_drafts():
    pairs = measured(lambda *_: naive(), lambda *_: text([(0.03, 1)] * 20)).pairs()
    predicted = forecasts(pairs)
    assert [forecast.k for forecast in predicted] == [1, 2, 3, 4]
    assert predicted[-1].speedup == pytest.approx(2 / 3) and predicted[0].speedup == pytest.approx(2 / 1.5)


def test_the_trial_of_draft_lengths_needs_a_server_that_reads_them(monkeypatch):
    class Switching(Fake):
        async def write(self, request):
            k = (await request.json()).get("speculative.n_max", K)
            self.k, self.runs = k, (k, 0)
            return await super().write(request)

    found = examined(monkeypatch, Fake("llama-server"), Switching("llama-server", runs=RUNS), "texts", "lengths")
    assert [row["k"] for row in found.sections["lengths"] if row["trial"]] == [1, 2, 4, 8, 16]
    assert found.best_k in (0, 1, 2, 4, 8, 16)
    found = examined(monkeypatch, Fake("llama-server"), Fake("llama-server", runs=RUNS), "texts", "lengths")
    assert not any(row["trial"] for row in found.sections["lengths"])


def test_a_context_that_a_server_refuses_is_stated(monkeypatch):
    class Short(Fake):
        async def write(self, request):
            if len((await request.json())["prompt"]) > 4096:
                return JSONResponse({"error": {"message": "the context is too long"}}, 400)
            return await super().write(request)

    found = examined(monkeypatch, Short(), Short(runs=RUNS), "texts", "context", contexts=(256, 4096))
    assert len(found.sections["context"]) == 1
    assert found.missing["context"].startswith("4096 tokens: ") and "too long" in found.reason("context")


def test_probes_check_their_answers():
    asked = probes()
    assert len(asked) == 20
    for probe in asked:
        answer = ANSWERS[probe.question.category](probe.question.prompt)
        assert probe.is_correct(answer) and not probe.is_correct(answer[:-1])


@pytest.mark.parametrize("characters", [500, 40_000])
def test_long_prompts_have_the_length(characters):
    prompt = long_prompt(characters)
    assert 0.85 * characters < len(prompt) <= characters
    assert len({*prompt.splitlines()}) == len(prompt.splitlines())


def test_categories_alternate():
    assert doctor.in_turn(["a", "a", "a", "b", "c", "c"]) == [0, 3, 4, 1, 5, 2]


def test_servers_without_text_raise_an_error(monkeypatch):
    with pytest.raises(RemoteError, match="no such model"):
        examined(monkeypatch, Fake(), Fake(fault="wrong model"), "texts")


def test_the_command(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(doctor, "SHARES", {"texts": 1.0})
    report = tmp_path / "report.md"
    with serving(Fake()) as plain, serving(Fake(runs=(0,))) as fast:
        arguments = ["doctor", "--baseline", plain, "--speculative", fast, "--seconds", "5", "--max-new-tokens", "8"]
        assert main([*arguments, "--json", "--markdown", str(report)]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["findings"][0]["id"] == "broken-drafter" and plain not in json.dumps(document)
        assert document["advice"] in report.read_text(encoding="utf-8")
        assert main(arguments) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("error: The drafter is broken.\n") and "Acceptance by position" in shown
        assert main([*arguments[:-4], "--seconds", "1"]) == 2
        assert "seconds" in capsys.readouterr().err
        assert main(["doctor", "--baseline", plain, "--speculative", "nonsense"]) == 2
        assert "http://localhost:8000" in capsys.readouterr().err
