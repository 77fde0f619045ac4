"""How the family is made: readers, split, tokenizer, mix, resuming, and a whole (tiny, bad) family end to end."""

import dataclasses
import itertools
import json
import lzma
import random
import re

import numpy as np
import pytest
import torch
from conftest import POCKET, emitted
from safetensors.torch import load_file

import lookahead
from lookahead.__main__ import main
from lookahead.measure.scenarios import SCENARIOS
from lookahead.model.heads import files
from lookahead.train import (
    ROLES,
    Job,
    Plan,
    card,
    describe,
    evaluate,
    heads,
    instructions,
    passages,
    states,
    tokenizer,
    train,
    writing,
)
from lookahead.train import corpus as reading
from lookahead.train.batches import Batches, Streams
from lookahead.train.corpus import Document
from lookahead.train.drills import drills
from lookahead.train.family import new_model
from lookahead.train.fit import Budget, fit, rate
from lookahead.train.functions import functions
from lookahead.train.losses import like, like_writing, next_token
from lookahead.train.plan import Shape
from lookahead.train.prompts import SAMPLES
from lookahead.train.tokenizer import encode
from lookahead.train.tokenizer import train as new_tokenizer

NAMES, ANIMALS, PLACES = ("Anna", "Ben", "Mia", "Tom"), ("frog", "dog", "cat", "hen"), ("park", "wood", "town", "barn")


def lines(rows):
    """Rows as JSON lines."""
    return "\n".join(map(json.dumps, rows))


def write(folder, name, text):
    with lzma.open(folder / f"{name}.xz", "wt", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A little of every kind of file, in the formats of the real ones."""
    folder, draws = tmp_path_factory.mktemp("corpus"), random.Random(0)

    def story():
        name, animal, place = (draws.choice(x) for x in (NAMES, ANIMALS, PLACES))
        return f"Once there was a {animal} named {name}. {name} went to the {place} {draws.randrange(1000)} times. The {animal} was glad."

    def joined(make, n):
        return "\n<|endoftext|>\n".join(make() for _ in range(n))

    write(folder, "tinystories_clean.txt", joined(lambda: story() + " " + story(), 300))
    kinds = ("generated-child", "generated-campfire")
    tales = [{"kind": draws.choice(kinds), "prompt": f"Tell a tale about {i}.", "text": story()} for i in range(120)]
    (folder / "stories_clean.jsonl").write_text(lines(tales), encoding="utf-8")  # not compressed
    asks = [f"Convert: {draws.choice(NAMES)},{i}" for i in range(150)]
    tasks = [{"kind": "format-conv", "prompt": ask, "text": f'{{"Age": {i}}}'} for i, ask in enumerate(asks)]
    write(folder, "tasks.jsonl", lines(tasks))
    write(folder, "qa_expository_clean.txt", joined(lambda: f"Explain the {draws.choice(PLACES)} {draws.random()}.\n\n" + story(), 80))  # fmt: skip
    sums = joined(lambda: f"What is {draws.randrange(999)} + 1?\nStep 1:\nAdd.", 120)
    write(folder, "step_by_step_math_clean.txt", sums)
    write(folder, "gsm8k_train_clean.txt", joined(lambda: f"Question: {draws.randrange(999)} eggs?\nAnswer: Many.", 60))
    function = 'def add{n}(a, b):\n    """Add two numbers and return the sum."""\n    return a + b + {n}\n'
    write(folder, "python_clean.txt", joined(lambda: function.format(n=draws.randrange(10**6)), 120))
    said = "User: I want a table for {n}.\nAssistant: At what time?\nUser: At {n}.\nAssistant: Done."
    write(folder, "sgd_train_clean.txt", joined(lambda: said.format(n=draws.randrange(10**6)), 100))
    return folder


@pytest.fixture(scope="session")
def documents(corpus):
    return reading.read(corpus)


def test_every_file_is_read_into_its_domain(documents):
    domains = {d.domain for d in documents}
    assert domains == {"stories", "tales", "records", "explain", "arithmetic", "code", "dialogue"}
    roles = {tuple(role for role, _ in d.turns) for d in documents}
    assert roles == {("text",), ("user", "assistant"), ("user", "assistant", "user", "assistant")}
    code = next(d for d in documents if d.domain == "code" and len(d.turns) == 2)
    assert "Add two numbers and return the sum." in code.turns[0][1]
    assert '"""' not in code.turns[1][1], "what the question says the answer need not repeat"
    assert len({d.text for d in documents}) == len(documents)


def test_campfire_stories_stay_out(documents, corpus):
    kept = sum(d.domain == "tales" for d in documents)
    tales = (corpus / "stories_clean.jsonl").read_text(encoding="utf-8").splitlines()
    assert kept == sum(json.loads(line)["kind"] == "generated-child" for line in tales)


def test_the_split_is_by_document_and_keeps_known_prompts_out():
    documents = [Document("stories", (("text", f"text {i}"),)) for i in range(4000)]
    share = sum(d.held_out for d in documents) / len(documents)
    assert share == pytest.approx(1 / 50, abs=0.01)
    for prompt in (SCENARIOS[0].prompt, SAMPLES[0][0]):
        assert Document("stories", (("text", f"{prompt} and so on"),)).held_out


def test_drills_are_the_same_everywhere_and_right():
    made = list(drills(seed=3))
    assert made == list(drills(seed=3)) and made != list(drills(seed=4))
    assert {domain for domain, _, _ in made} == {"records", "code", "arithmetic"}
    asked = [(question, answer) for _, question, answer in made if question.endswith("JSON.") or "to JSON:" in question]
    assert len(asked) > 100
    for _, answer in asked:
        assert json.loads(answer)
    for domain, question, answer in made:
        if domain == "code":
            compile(answer, question, "exec")
        if domain == "arithmetic":
            steps = re.findall(r"(\d+) ([+x-]) (\d+) = (\d+)", answer)
            for a, sign, b, result in steps:
                assert int(result) == {"+": int.__add__, "-": int.__sub__, "x": int.__mul__}[sign](int(a), int(b))
            assert answer.endswith(f"The answer is {steps[-1][-1]}.")
            assert int(steps[-1][-1]) >= 0 and "  " not in question
            given = {int(n) for n in re.findall(r"\d+", question)}
            assert {int(n) for a, _, b, _ in steps for n in (a, b)} - {int(r) for *_, r in steps} <= given


def test_functions_made_by_program_do_what_is_asked():
    asked = dict(functions())
    assert len(asked) > 600 and len(set(asked.values())) > 90

    def made(question):
        space = {}
        exec(asked[question], space)
        return next(value for name, value in space.items() if name != "__builtins__")

    assert made("Write a Python function that counts the even numbers in a list.")([1, 2, 4]) == 2
    assert made("Write a Python function that does this: Return the negative numbers of a list.")([1, -2, 4]) == [-2]
    assert made("Write a Python function that does this: Multiply two numbers.")(6, 7) == 42
    assert made("Python: a function that doubles every number in a list.")([1, 2]) == [2, 4]
    assert made("Write a function in Python that converts Fahrenheit to Celsius.")(212) == 100
    assert made("I need a Python function that returns the longest word in a list.")(["a", "abc", "ab"]) == "abc"


def test_stories_are_asked_for_by_what_they_are_about():
    told = "Once upon a time, there was a shy frog named Pip. He loved to jump in the pond. One day it rained."
    plain, asked = reading.READERS["tinystories_clean.txt"](told)
    assert plain.turns == (("text", told),)
    assert asked.turns[0][1].endswith("about a shy frog named Pip.") and asked.turns[1] == ("assistant", told)
    _, odd = reading.READERS["tinystories_clean.txt"](told + "!")
    assert "a shy frog named Pip who loves to jump in the pond" in odd.text
    assert asked.held_out == plain.held_out
    assert len(list(reading.READERS["tinystories_clean.txt"]("It rained. Nobody came."))) == 1


def test_tales_are_asked_for_in_several_ways_and_lists_of_titles_stay_out():
    ask, listed = (
        "Write a bedtime story called `{}`.",
        "Tell the child-appropriate tale called `Here they are:\n\nabcdef`.",
    )
    titles = ("ab", "abc", "abcd", "a\nb")
    rows = [{"kind": "generated-bedtime", "prompt": ask.format(title), "text": title} for title in titles]
    rows.append({"kind": "generated-child", "prompt": listed, "text": "t"})
    asked = [d.turns[0][1] for d in reading.READERS["stories_clean.jsonl"](lines(rows))]
    assert len(asked) == 3 and len({a.split(" called ")[0] for a in asked}) == 3
    assert asked[1] == "Write a bedtime story called `abc`."


def test_documents_with_one_answer_are_held_out_together(corpus):
    ask = "Explain thing {} like I'm five years old."
    rows = [{"kind": "llama-eli5", "prompt": ask.format(i), "text": f"Thing {i}."} for i in range(300)]
    documents = list(reading.READERS["tasks.jsonl"](lines(rows)))
    assert len(documents) == 3 * len(rows)
    for i in range(0, len(documents), 3):
        assert len({d.held_out for d in documents[i : i + 3]}) == 1
    assert 0 < sum(d.held_out for d in documents) < 100


def test_errors_say_what_is_wrong(tmp_path):
    with pytest.raises(lookahead.LookaheadError, match="no such folder"):
        reading.read(tmp_path / "nowhere")
    with pytest.raises(lookahead.LookaheadError, match="it holds none of"):
        reading.read(tmp_path)
    (tmp_path / "tinystories_clean.txt.xz").write_bytes(b"not xz")
    with pytest.raises(lookahead.LookaheadError, match="cannot be read"):
        reading.read(tmp_path)
    assert main(["train", "--corpus", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")]) == 2
    assert main(["train", "--corpus", str(tmp_path), "--out", str(tmp_path / "out"), "--minutes", "-1"]) == 2


@pytest.fixture(scope="session")
def words(documents):
    return new_tokenizer((d.text for d in documents), 512, 256)


def test_every_byte_can_be_written(words):
    text = "".join(map(chr, range(32, 0x250))) + "\n\t \U0001f438 \u4f60\u597d 1234567"
    assert words.decode(words(text)["input_ids"]) == text
    assert len(words("1234567")["input_ids"]) == 7, "digits stand alone"


def test_documents_are_encoded_as_the_chat_template_writes_them(words):
    document = Document("tales", (("user", "Tell a tale."), ("assistant", "Once there was a frog.")))
    chat = [{"role": "user", "content": "Tell a tale."}, {"role": "assistant", "content": "Once there was a frog."}]
    theirs = words.apply_chat_template(chat, tokenize=False)
    assert encode(words, [document])[0] == words(theirs, add_special_tokens=False)["input_ids"]


def test_rows_follow_the_mix_and_depend_on_their_number_alone():
    streams = {"a": np.zeros(5000, np.uint16), "b": np.ones(5000, np.uint16), "c": np.full(5000, 2, np.uint16)}
    batches = Batches(streams, {"a": 0.5, "b": 0.3, "c": 0.2, "absent": 0.4}, seed=0)
    first = batches.batch(0, 1000, 8)[:, 0]
    assert [int((first == i).sum()) for i in range(3)] == [500, 300, 200]
    assert torch.equal(batches.batch(0, 64, 16)[40:], batches.batch(40, 24, 16))
    counting = Batches({"a": np.arange(1000, dtype=np.uint16)}, {"a": 1.0}, seed=0)
    rows = counting.batch(0, 20, 10)
    assert sorted(rows[:, :-1].flatten().tolist()) == list(range(200)), "every token once before any comes again"


SMALL = Plan(
    vocab=512, context=512, target=Shape(2, 64, 2, 96), draft=Shape(1, 64, 2, 64), rows=((0.7, 32), (1.0, 64)), step_tokens=256,
    warm_steps=4, writing_tokens=6000, head_step_tokens=256,
)  # fmt: skip


def test_a_resumed_run_is_the_run_it_would_have_been(tmp_path):
    stream = {"a": np.random.default_rng(0).integers(0, 512, 4000).astype(np.uint16)}
    batches, told = Batches(stream, {"a": 1.0}, 0), []

    def run(folder, tokens, seed, plan=SMALL, **options):
        folder.mkdir(exist_ok=True)
        model, options = new_model(SMALL.target, SMALL, seed), {"watch": told.append, **options}
        report = fit(model, next_token, batches, plan, Budget(tokens=tokens), stage="s", folder=folder, **options)
        return report, model.state_dict()

    whole_report, whole = run(tmp_path / "whole", 256 * 12, 1)

    class Enough(Exception):
        pass

    def stop_after_six(report):
        if report.tokens == 256 * 6:
            raise Enough

    # Break off after six steps with a checkpoint that was just written, as a killed run would have it.
    plan = dataclasses.replace(SMALL, save_every_s=0.0)
    with pytest.raises(Enough):
        run(tmp_path / "parts", 256 * 12, 1, plan, watch=stop_after_six)
    report, parts = run(tmp_path / "parts", None, 99, resume=True)
    assert report.tokens == whole_report.tokens == 256 * 12
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert told[-1].loss < told[0].loss + 0.5


def test_the_rate_warms_up_stays_and_cools_down():
    plan = Plan()
    assert rate(plan, 0, 0.0) < 0.05
    assert rate(plan, 500, 0.3) == 1.0
    assert rate(plan, 5000, 1 - plan.cooling_share / 2) == pytest.approx(0.5)
    assert rate(plan, 9000, 1.0) == 0.0


def test_the_distillation_loss_is_zero_for_a_twin_only():
    teacher, student = new_model(SMALL.target, SMALL, 1), new_model(SMALL.draft, SMALL, 2)
    ids = torch.randint(0, 512, (2, 17))
    assert float(like(teacher)(teacher, ids).detach()) == pytest.approx(0.0, abs=1e-5)
    assert float(like(teacher)(student, ids).detach()) > 0.01


def test_what_was_thought_of_a_text_is_the_same_loss_without_the_teacher():
    teacher, student = new_model(SMALL.target, SMALL, 1), new_model(SMALL.draft, SMALL, 2)
    ids = torch.randint(0, 512, (2, 17))
    logp, order = teacher(ids[:, :-1]).logits.detach().float().log_softmax(-1).sort(-1, descending=True)
    whole, few = writing.Rows(ids, order, logp), writing.Rows(ids, order[..., :16], logp[..., :16])
    exact = float(like(teacher)(student, ids).detach())
    assert float(like_writing(0.0)(student, whole).detach()) == pytest.approx(exact, abs=1e-3)
    assert float(like_writing(0.0)(teacher, few).detach()) == pytest.approx(0.0, abs=1e-4)
    assert 0 < float(like_writing(0.0)(student, few).detach()) < exact, "lumping the rest together hides some of it"
    added = float((like_writing(0.5)(student, few) - like_writing(0.0)(student, few)).detach())
    favourites = student(ids[:, :-1]).logits.float().log_softmax(-1).gather(-1, order[..., :1])
    assert added == pytest.approx(-0.5 * float(favourites.mean().detach()), abs=1e-4)


STREAMS = Streams({"stories": np.arange(3, 503, dtype=np.uint16)}, {})


def write_rows(target, folder, rows, together, streams=STREAMS, plan=SMALL, resume=False):
    """So many rows of the target's writing."""
    plan = dataclasses.replace(plan, texts_together=together)
    return writing.written_rows(target, streams, plan, rows * writing.ROW, folder, lambda report: None, resume)


def test_the_target_keeps_what_it_thought(tmp_path):
    target = new_model(SMALL.target, SMALL, 1).eval()
    rows = writing.WrittenBatches(write_rows(target, tmp_path / "own", 3, 3)).batch(0, 3, writing.ROW)
    with torch.no_grad():
        logp = target(rows.ids[:, :-1]).logits[:, writing.OPENING - 1 :].float().log_softmax(-1)
    assert torch.allclose(logp.gather(-1, rows.likely), rows.logp, atol=0.05), "bfloat16 against float32"
    greedy = (rows.ids[:, writing.OPENING :] == rows.likely[..., 0]).float().mean()
    assert greedy > 0.95, "what a greedy text says next is the favourite, but where another text is opened"


def test_where_the_target_ends_a_text_another_is_opened(tmp_path):
    target, undecided = new_model(SMALL.target, SMALL, 1), dataclasses.replace(SMALL, writing_temperatures=(100.0,))
    questions = [[1, 300 + i, 2, *range(10, 40), 0] for i in range(50)]
    streams = Streams({"tales": np.array([token for q in questions for token in q], dtype=np.uint16)}, {})
    again = writing.NextOpening(writing.beginnings(streams.training, {"tales": 1.0}, (0, 0)), end=0)
    text, given = torch.tensor([[5, 0], [5, 6]]), []
    for _ in range(4):
        scores = again(text, torch.zeros(2, 512))
        given.append(int(scores[0].argmax()) if scores[0].isinf().any() else None)
        assert not scores[1].any(), "a text that goes on is left alone"
        text = torch.cat([text, torch.tensor([[given[-1] or 7], [6]])], 1)
    assert given[0] == 1 and given[1] >= 300 and given[2] == 2 and given[3] is None
    rows = write_rows(target, tmp_path, 16, 16, streams, undecided)
    ended = [(row, i) for row in rows["ids"].tolist() for i in range(writing.OPENING, writing.ROW - 3) if row[i] == 0]
    assert ended and all(row[i + 1] == 1 and row[i + 3] == 2 for row, i in ended)


def test_a_cache_that_grows_by_blocks_changes_nothing():
    target, given = new_model(SMALL.target, SMALL, 1).eval(), torch.randint(3, 500, (3, writing.BLOCK - 1))

    def write(**options):
        length = 2 * writing.BLOCK + 2
        seen = torch.ones_like(given)
        return target.generate(
            given, attention_mask=seen, max_new_tokens=length, eos_token_id=None, do_sample=False,
            output_logits=True, return_dict_in_generate=True, **options,
        )  # fmt: skip

    cache = writing.growing_cache(target)
    whole, grown = write(), write(past_key_values=cache)
    assert torch.equal(whole.sequences, grown.sequences)
    assert torch.allclose(torch.stack(whole.logits), torch.stack(grown.logits), atol=1e-4)
    assert cache.layers[0].keys.shape[2] == 3 * writing.BLOCK


def test_writing_that_was_stopped_goes_on_where_it_was(tmp_path):
    target = new_model(SMALL.target, SMALL, 1)
    whole = write_rows(target, tmp_path / "whole", 6, 2)
    part = write_rows(target, tmp_path / "part", 3, 2)
    rest = write_rows(target, tmp_path / "part", 6, 2, resume=True)
    assert whole["ids"].shape == (6, writing.ROW + 1) and len(part) == 4
    assert np.array_equal(rest, whole)
    assert (whole["ids"][:, : writing.OPENING] < 503).all()
    write_rows(target, tmp_path / "part", 1, 2)
    assert len([*(tmp_path / "part").iterdir()]) == 1, "a new run keeps nothing of an old one"


@pytest.fixture(scope="module")
def measures_little():
    """Few prompts and short answers, where it is not their quality that is tested."""
    few = {"PROMPTS_A_DOMAIN": 3, "HEAD_PROMPTS": 3, "NEW_TOKENS": 24, "CHECKED_TOKENS": 16}
    with pytest.MonkeyPatch.context() as patch:
        for name, number in few.items():
            patch.setattr(evaluate, name, number)
        yield


@pytest.fixture(scope="module")
def family(corpus, measures_little, tmp_path_factory):
    """A tiny family from the tiny corpus, by every stage of the real one."""
    out, told = tmp_path_factory.mktemp("family"), []
    job = Job(corpus, out, SMALL, tokens=15_000)
    train(job, told.append)
    describe(job)
    return job, told


def test_a_family_comes_out_that_loads_and_is_lossless(family):
    job, told = family
    stages = ["target", "draft-plain", "draft-soft", "own", "draft", "offdomain", "medusa", "eagle", "block"]
    assert [*dict.fromkeys(r.stage for r in told)] == stages
    models = lookahead.load("+".join(str(job.out / role) for role in ROLES))
    for prompt, chat in (("Once there was", False), ("Tell a tale about 7.", True)):
        naive = emitted(lookahead.decode(models, prompt, method="naive", max_new_tokens=30, chat=chat))
        for method in ("draft", "tree", "hybrid", "medusa", "eagle", "block-tree"):
            assert emitted(lookahead.decode(models, prompt, method=method, max_new_tokens=30, chat=chat)) == naive
    first = [r.loss for r in told if r.stage == "target"]
    assert first[-1] < first[0] - 0.5, "it learned something"
    assert not (job.out / "draft-plain").exists(), "what is only measured is not part of the family"


def test_the_card_is_written_from_measurements(family):
    job, _ = family
    card = (job.out / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# Llama-")
    assert "Built with Llama" in card
    for part in (
        "## Generations of drafters",
        "EAGLE-3 head",
        "## Budget",
        "## Held-out loss",
        "## Acceptance",
        "## Data",
        "## Limits",
        "## Samples",
        "**20.**",
    ):
        assert part in card
    report = json.loads((job.work / "evaluation.json").read_text(encoding="utf-8"))
    assert report["losses"]["target"]["stories"]["nats_a_token"] < 6.3
    assert 0 <= report["acceptance"]["draft"]["stories"] <= 1


def test_a_finished_family_is_not_trained_again(family):
    job, _ = family
    told = []
    train(dataclasses.replace(job, resume=True), told.append)
    assert told == []


def test_the_draft_alone_is_trained_further(family, tmp_path):
    job, _ = family
    told = []
    further = dataclasses.replace(job, out=tmp_path, tokens=2_000, start_from=job.out, only=("draft",))
    train(further, told.append)
    assert [*dict.fromkeys(r.stage for r in told)] == ["own", "draft-further"]
    for role, same in (("target", True), ("draft", False), ("offdomain", True)):
        before, after = ((folder / role / "model.safetensors").read_bytes() for folder in (job.out, tmp_path))
        assert (before == after) is same, role


def test_heads_are_trained_for_any_llama_without_a_corpus(family, tmp_path):
    """On what it writes itself, from nothing; and further from where they are."""
    shares = {"medusa": 0.1, "eagle": 0.03, "block": 0.03}
    plan, reports = dataclasses.replace(SMALL, texts_together=8, writing_tokens=8 * writing.ROW, heads_share=shares), []
    model, kinds = family[0].out / "target", ("medusa", "eagle", "block")
    job = Job(None, tmp_path / "out", plan, tokens=20_000, start_from=model, only=kinds)
    train(job, reports.append)
    assert [*dict.fromkeys(r.stage for r in reports)] == [
        "questions", "own", "states", "medusa", "eagle", "block"
    ]  # fmt: skip
    for kind in job.only:
        losses = [r.loss for r in reports if r.stage == kind]
        assert losses[-1] < losses[0], kind
        assert [r.accepted for r in reports if r.stage == kind][-1] >= 1
    path = describe(job)
    assert card.HEADS in path.read_text(encoding="utf-8")
    assert path == describe(job) and path.read_text(encoding="utf-8").count(card.HEADS) == 1, "its place is taken again"
    before = (job.out / "block" / "model.safetensors").read_bytes()
    train(dataclasses.replace(job, resume=True), reports.append)
    assert before == (job.out / "block" / "model.safetensors").read_bytes(), "nothing is left to do"
    further = dataclasses.replace(job, out=tmp_path / "further", start_from=job.out, tokens=2000, only=("block",))
    train(further, reports.append)
    assert before != (further.out / "block" / "model.safetensors").read_bytes()
    models = lookahead.load("+".join(str(job.out / name) for name in ("target", *job.only)))
    assert set(models.heads) == set(job.only)


@pytest.mark.parametrize(("ends", "stays"), [(1.7, True), (1.9, False)])
def test_a_head_that_ends_clearly_worse_than_it_began_is_not_kept(family, tmp_path, caplog, monkeypatch, ends, stays):
    worth = iter((2.0, ends))
    monkeypatch.setattr(evaluate, "accepted_length", lambda *_: next(worth))
    plan, given = dataclasses.replace(SMALL, texts_together=8, writing_tokens=8 * writing.ROW), family[0].out
    job = Job(None, tmp_path, plan, tokens=1000, start_from=given, only=("medusa",))
    train(job, lambda report: None)
    before, after = (load_file(folder / "medusa" / "model.safetensors") for folder in (given, job.out))
    same = all(torch.equal(weights, after[name]) for name, weights in before.items())
    assert (same, "it stays as it began" in caplog.text) == (stays, stays)
    budget = job.work / "budget.json"
    assert ("medusa" in budget.read_text() if budget.exists() else False) is not stays, "the card tells of what is kept"


def test_only_heads_can_do_without_a_corpus(tmp_path, capsys):
    assert main(["train", "--out", str(tmp_path), "--only", "draft", "--start-from", str(POCKET)]) == 2
    assert "only heads can be trained without one" in capsys.readouterr().err


def test_what_is_distant_costs_less_the_later_it_is():
    """A head with the target's own distribution has no distance from it, and total variation is what is rejected."""
    loss = heads.BlockLoss(None, favourite=0.0)
    wanted = torch.randn(2, 3, 50).log_softmax(-1)
    distance, chance = loss._distance(wanted, wanted)
    assert torch.allclose(distance, torch.zeros(2, 3), atol=1e-5) and torch.allclose(
        chance, torch.ones(2, 3), atol=1e-5
    )
    other = torch.randn(2, 3, 50).log_softmax(-1)
    accepted = torch.minimum(wanted.exp(), other.exp()).sum(-1)
    assert torch.allclose(loss._distance(other, wanted)[1], accepted, atol=1e-5), (
        "min(p, q) summed, Leviathan et al. 2023"
    )
    early, late = torch.zeros(1, 8), torch.zeros(1, 8)
    early[0, 0] = late[0, 7] = 1.0
    assert heads.weighted(early) > 4 * heads.weighted(late)


def test_rows_begin_with_whole_instructions_where_the_target_chats(tmp_path):
    target, asked = new_model(SMALL.target, SMALL, 1).eval(), [[1, *range(100 + i, 160 + 2 * i), 2] for i in range(99)]
    seeds = []

    def openings(seed):
        seeds.append(seed)
        return iter(asked)

    rows = writing.written_rows(
        target, None, dataclasses.replace(SMALL, texts_together=4), 4 * 80, tmp_path, lambda report: None, False,
        instructed=openings, written=60,
    )  # fmt: skip
    assert rows["ids"].shape == (4, writing.OPENING + 60) and rows["likely"].shape == (4, 60, writing.LIKELY)
    for row, opening in zip(rows["ids"].tolist(), asked, strict=False):
        assert row[: len(opening)] == opening
    assert seeds == [(SMALL.seed, 0)]
    greedy = (rows["ids"][0, 62:] == rows["likely"][0, 62 - writing.OPENING :, 0]).mean()
    assert greedy > 0.9, "favourites stand beside their tokens"


def test_instructions_are_many_and_what_is_measured_is_not_learned():
    given = [*itertools.islice(instructions.training(0), 4000)]
    assert len(set(given)) > 2000 and given[: len(instructions.KINDS)] != [
        *itertools.islice(instructions.training(1), 8)
    ]
    measured = instructions.measuring(5)
    assert set(measured) == set(instructions.KINDS) and all(len(of) == 5 for of in measured.values())
    assert not {one for of in measured.values() for one in of} & set(given)


def test_questions_of_its_own_stand_between_instructions():
    kept, measured = "What is a tide?", next(iter(instructions.PROMPTS))
    given = [*itertools.islice(instructions.training(0, [kept, measured]), 40)]
    assert given[1::2] == [kept] * 20 and kept not in given[::2] and measured not in given


def test_passages_of_a_corpus_are_asked_about(documents):
    """Many, of every kind, the same for a seed, and none of a document that is held out."""
    given = [*itertools.islice(passages.about(documents, 3), 700)]
    assert given == [*itertools.islice(passages.about(documents, 3), 700)]
    assert len(set(given)) > 500 and max(map(len, given)) <= passages.MOST
    beginnings = (
        "Copy this text:",
        "Correct this text:",
        "Turn this CSV into JSON:",
        "Fix this code:",
        "Tell a tale about ",
    )
    assert all(any(one.startswith(begin) for one in given) for begin in beginnings)
    held_out = [d for d in documents if d.held_out]
    unseen = {sentence for d in held_out for _, text in d.turns for sentence in passages.SENTENCE.split(text)}
    seen = {part for d in documents if not d.held_out for _, text in d.turns for part in passages.SENTENCE.split(text)}
    assert unseen - seen and not any(part in one for part in unseen - seen if len(part) > 20 for one in given)
    assert not [*passages.about(held_out, 3)], "of these there is nothing to ask"
    among = [*itertools.islice(instructions.training(0, ["What is a tide?"], iter(["one", "two"])), 8)]
    assert among[1::3][:2] == ["What is a tide?"] * 2 and among[2:6:3] == ["one", "two"], (
        "then there are no more of them"
    )


def test_of_a_corpus_another_chat_model_is_asked_about_passages(family, corpus, tmp_path, monkeypatch):
    """Its tokenizer does not know our markers, so that the corpus is no text for it to continue."""
    monkeypatch.setattr(tokenizer, "has_markers", lambda words: False)
    asked, about = [], passages.about
    monkeypatch.setattr(passages, "about", lambda *of: (asked.append(one) or one for one in about(*of)))
    plan = dataclasses.replace(SMALL, texts_together=8, writing_tokens=8 * writing.ROW, heads_share={"block": 0.03})
    job = Job(corpus, tmp_path / "out", plan, tokens=2000, start_from=family[0].out / "target", only=("block",))
    reports = []
    train(job, reports.append)
    assert next(r.stage for r in reports) == "questions" and len(asked) > 2
    assert files.config_of(job.out / "block")


@pytest.mark.parametrize("kind", ["eagle", "block"])
def test_a_head_of_a_large_vocabulary_knows_what_is_written_often(family, tmp_path, monkeypatch, kind):
    """It drafts these tokens alone, is kept in several files, learns further, and races losslessly."""
    monkeypatch.setattr(heads, "LARGE_VOCAB", 100)
    monkeypatch.setattr(heads, "KNOWN", 60)
    monkeypatch.setattr(files, "LARGEST_FILE", 20_000)
    plan = dataclasses.replace(
        SMALL, texts_together=8, writing_tokens=8 * writing.ROW, heads_share={kind: 0.03}, answer_tokens=60
    )
    job = Job(None, tmp_path / "out", plan, tokens=10_000, start_from=family[0].out / "target", only=(kind,))
    reports = []
    train(job, reports.append)
    losses = [r.loss for r in reports if r.stage == kind]
    assert losses[-1] < losses[0]
    weights = sorted((job.out / kind).glob("model-*.safetensors"))
    assert len(weights) > 1 and (job.out / kind / "model.safetensors.index.json").is_file()
    models = lookahead.load(f"{job.out / 'target'}+{job.out / kind}")
    known = set(models.heads[kind].ids.tolist())
    assert len(known) == 60 and models.tokenizer.eos_token_id in known
    naive = emitted(lookahead.decode(models, "Once there was", method="naive", max_new_tokens=30))
    for options in ({"k": 3}, {"k": 3, "temperature": 0.8}, {"k": 3, "temperature": 0.8, "rule": "rejection"}):
        steps = [*lookahead.decode(models, "Once there was", method=kind, max_new_tokens=30, **options)]
        assert {token for step in steps for token in step.draft.tokens} <= known
        assert len(options) > 1 or emitted(steps) == naive
    further = dataclasses.replace(job, out=tmp_path / "further", start_from=job.out, tokens=2000)
    train(further, reports.append)
    assert set(lookahead.load(f"{job.out / 'target'}+{further.out / kind}").heads[kind].ids.tolist()) == known


def test_what_the_target_makes_of_its_writing_is_kept_and_read_as_it_was(tmp_path, monkeypatch):
    """A head learns the same from files as from passes; rows that were added later are computed alone."""
    monkeypatch.setattr(states, "BLOCK", 4)
    target = new_model(SMALL.target, SMALL, 1).eval()
    target.requires_grad_(False)
    ids = np.random.default_rng(0).integers(0, SMALL.vocab, (7, 40), np.uint16)
    network = heads.new_head("block", target, 0, 1)
    kept, told = states.States(tmp_path, network.shape.taps), []
    kept.fill(target, ids[:5, :-1], told.append)
    assert told[-1].tokens == 5 * 39 and len(list(tmp_path.glob("*.npy"))) == 2 * (len(network.shape.taps) + 2)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("00000-*")}
    kept = states.States(tmp_path, network.shape.taps)
    kept.fill(target, ids[:, :-1], told.append)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("00000-*")} == stamps
    numbers = np.array([6, 1, 4])
    rows = writing.Rows(torch.from_numpy(ids[numbers].astype(np.int64)), None, None)
    loss = heads.BlockLoss(target, favourite=0.5)
    values = []
    for seen in (None, kept.at(numbers)):
        torch.manual_seed(3)
        with torch.autocast("cpu", torch.bfloat16):
            values.append(loss(network, rows._replace(seen=seen)).item())
    assert values[0] == pytest.approx(values[1], rel=0.01)
    assert states.States.nbytes(target, ids[:, :-1], network.shape.taps) == pytest.approx(
        sum(path.stat().st_size for path in tmp_path.glob("*.npy")), rel=0.1
    )
