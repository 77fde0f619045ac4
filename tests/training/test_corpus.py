"""Training data: readers, split, drills, instructions, tokenizer and mix."""

import itertools
import json
import re

import numpy as np
import pytest
import torch
from small_training import FEW_DRILLS, lines, write_corpus

import lookahead
from lookahead.measure.scenarios import SCENARIOS
from training import corpus as reading
from training import drills, instructions, passages
from training.batches import Batches
from training.corpus import Document
from training.functions import functions
from training.prompts import SAMPLES
from training.tokenizer import encode
from training.tokenizer import train as new_tokenizer


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def documents(corpus):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drills, "COUNTS", FEW_DRILLS)
        return reading.read(corpus)


def test_every_file_is_read_into_its_domain(documents):
    domains = {d.domain for d in documents}
    assert domains == {"stories", "tales", "records", "explain", "arithmetic", "code", "dialogue"}
    roles = {tuple(role for role, _ in d.turns) for d in documents}
    assert roles == {("text",), ("user", "assistant"), ("user", "assistant", "user", "assistant")}
    code = next(d for d in documents if d.domain == "code" and len(d.turns) == 2)
    assert "Add two numbers and return the sum." in code.turns[0][1]
    assert '"""' not in code.turns[1][1], "the answer does not repeat the question"
    assert len({d.text for d in documents}) == len(documents)


def test_campfire_stories_are_excluded(documents, corpus):
    kept = sum(d.domain == "tales" for d in documents)
    tales = (corpus / "stories_clean.jsonl").read_text(encoding="utf-8").splitlines()
    assert kept == sum(json.loads(line)["kind"] == "generated-child" for line in tales)


def test_the_split_is_by_document_and_holds_out_known_prompts():
    documents = [Document("stories", (("text", f"text {i}"),)) for i in range(4000)]
    share = sum(d.held_out for d in documents) / len(documents)
    assert share == pytest.approx(1 / 50, abs=0.01)
    for prompt in (SCENARIOS[0].prompt, SAMPLES[0][0]):
        assert Document("stories", (("text", f"{prompt} and so on"),)).held_out


def test_drills_are_correct_and_depend_only_on_the_seed():
    all_drills = list(drills.drills(seed=3))
    same, others = (list(itertools.islice(drills.drills(seed), 3000)) for seed in (3, 4))
    assert all_drills[:3000] == same != others
    assert {domain for domain, _, _ in all_drills} == {"records", "code", "arithmetic"}
    to_json = [
        (question, answer) for _, question, answer in all_drills if question.endswith("JSON.") or "to JSON:" in question
    ]
    assert len(to_json) > 100
    for _, answer in to_json:
        assert json.loads(answer)
    for domain, question, answer in all_drills:
        if domain == "code":
            compile(answer, question, "exec")
        if domain == "arithmetic":
            steps = re.findall(r"(\d+) ([+x-]) (\d+) = (\d+)", answer)
            for a, sign, b, result in steps:
                assert int(result) == {"+": int.__add__, "-": int.__sub__, "x": int.__mul__}[sign](int(a), int(b))
            assert answer.endswith(f"The answer is {steps[-1][-1]}.")
            assert int(steps[-1][-1]) >= 0 and "  " not in question
            operands = {int(n) for n in re.findall(r"\d+", question)}
            assert {int(n) for a, _, b, _ in steps for n in (a, b)} - {int(r) for *_, r in steps} <= operands


def test_generated_functions_are_correct():
    code = dict(functions())
    assert len(code) > 600 and len(set(code.values())) > 90

    def function(question):
        space = {}
        exec(code[question], space)
        return next(value for name, value in space.items() if name != "__builtins__")

    assert function("Write a Python function that counts the even numbers in a list.")([1, 2, 4]) == 2
    assert function("Write a Python function that does this: Return the negative numbers of a list.")([1, -2, 4]) == [
        -2
    ]
    assert function("Write a Python function that does this: Multiply two numbers.")(6, 7) == 42
    assert function("Python: a function that doubles every number in a list.")([1, 2]) == [2, 4]
    assert function("Write a function in Python that converts Fahrenheit to Celsius.")(212) == 100
    assert function("I need a Python function that returns the longest word in a list.")(["a", "abc", "ab"]) == "abc"


def test_story_requests_name_the_hero():
    story = "Once upon a time, there was a shy frog named Pip. He loved to jump in the pond. One day it rained."
    plain, request = reading.READERS["tinystories_clean.txt"](story)
    assert plain.turns == (("text", story),)
    assert request.turns[0][1].endswith("about a shy frog named Pip.") and request.turns[1] == ("assistant", story)
    _, detailed = reading.READERS["tinystories_clean.txt"](story + "!")
    assert "a shy frog named Pip who loves to jump in the pond" in detailed.text
    assert request.held_out == plain.held_out
    assert len(list(reading.READERS["tinystories_clean.txt"]("It rained. Nobody came."))) == 1


def test_tales_have_several_requests_and_lists_of_titles_are_excluded():
    ask, listed = (
        "Write a bedtime story called `{}`.",
        "Tell the child-appropriate tale called `Here they are:\n\nabcdef`.",
    )
    titles = ("ab", "abc", "abcd", "a\nb")
    rows = [{"kind": "generated-bedtime", "prompt": ask.format(title), "text": title} for title in titles]
    rows.append({"kind": "generated-child", "prompt": listed, "text": "t"})
    requests = [d.turns[0][1] for d in reading.READERS["stories_clean.jsonl"](lines(rows))]
    assert len(requests) == 3 and len({request.split(" called ")[0] for request in requests}) == 3
    assert requests[1] == "Write a bedtime story called `abc`."


def test_documents_with_one_answer_are_held_out_together(corpus):
    ask = "Explain thing {} like I'm five years old."
    rows = [{"kind": "llama-eli5", "prompt": ask.format(i), "text": f"Thing {i}."} for i in range(300)]
    documents = list(reading.READERS["tasks.jsonl"](lines(rows)))
    assert len(documents) == 3 * len(rows)
    for i in range(0, len(documents), 3):
        assert len({d.held_out for d in documents[i : i + 3]}) == 1
    assert 0 < sum(d.held_out for d in documents) < 100


def test_errors_name_the_problem(tmp_path):
    with pytest.raises(lookahead.LookaheadError, match="no such folder"):
        reading.read(tmp_path / "nowhere")
    with pytest.raises(lookahead.LookaheadError, match="it contains none of"):
        reading.read(tmp_path)
    (tmp_path / "tinystories_clean.txt.xz").write_bytes(b"not xz")
    with pytest.raises(lookahead.LookaheadError, match="cannot be read"):
        reading.read(tmp_path)


@pytest.fixture(scope="module")
def tokenizer(documents):
    return new_tokenizer((d.text for d in documents), 512, 256)


def test_every_byte_can_be_encoded(tokenizer):
    text = "".join(map(chr, range(32, 0x250))) + "\n\t \U0001f438 \u4f60\u597d 1234567"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer("1234567")["input_ids"]) == 7, "every digit is a token"


def test_documents_are_encoded_as_in_the_chat_template(tokenizer):
    document = Document("tales", (("user", "Tell a tale."), ("assistant", "Once there was a frog.")))
    chat = [{"role": "user", "content": "Tell a tale."}, {"role": "assistant", "content": "Once there was a frog."}]
    text = tokenizer.apply_chat_template(chat, tokenize=False)
    assert encode(tokenizer, [document])[0] == tokenizer(text, add_special_tokens=False)["input_ids"]


def test_rows_follow_the_mix_and_depend_only_on_their_number():
    streams = {"a": np.zeros(5000, np.uint16), "b": np.ones(5000, np.uint16), "c": np.full(5000, 2, np.uint16)}
    batches = Batches(streams, {"a": 0.5, "b": 0.3, "c": 0.2, "absent": 0.4}, seed=0)
    first = batches.batch(0, 1000, 8)[:, 0]
    assert [int((first == i).sum()) for i in range(3)] == [500, 300, 200]
    assert torch.equal(batches.batch(0, 64, 16)[40:], batches.batch(40, 24, 16))
    counting = Batches({"a": np.arange(1000, dtype=np.uint16)}, {"a": 1.0}, seed=0)
    rows = counting.batch(0, 20, 10)
    assert sorted(rows[:, :-1].flatten().tolist()) == list(range(200)), (
        "every token occurs once before the stream repeats"
    )


def test_there_are_many_instructions_and_held_out_ones_are_not_in_training():
    trained = [*itertools.islice(instructions.training(0), 4000)]
    assert len(set(trained)) > 2000 and trained[: len(instructions.KINDS)] != [
        *itertools.islice(instructions.training(1), 8)
    ]
    measured = instructions.measuring(5)
    assert set(measured) == set(instructions.KINDS) and all(len(texts) == 5 for texts in measured.values())
    assert not {text for texts in measured.values() for text in texts} & set(trained)


def test_questions_alternate_with_instructions():
    question, measured = "What is a tide?", next(iter(instructions.PROMPTS))
    trained = [*itertools.islice(instructions.training(0, [question, measured]), 40)]
    assert trained[1::2] == [question] * 20 and question not in trained[::2] and measured not in trained


def test_instructions_about_passages(documents):
    """There are many, of every kind. They depend on the seed, and use no held-out documents."""
    texts = [*itertools.islice(passages.about(documents, 3), 700)]
    assert texts == [*itertools.islice(passages.about(documents, 3), 700)]
    assert len(set(texts)) > 500 and max(map(len, texts)) <= passages.MAX_CHARACTERS
    beginnings = (
        "Copy this text:",
        "Correct this text:",
        "Turn this CSV into JSON:",
        "Fix this code:",
        "Tell a tale about ",
    )
    assert all(any(text.startswith(beginning) for text in texts) for beginning in beginnings)
    held_out = [d for d in documents if d.held_out]
    unseen = {sentence for d in held_out for _, text in d.turns for sentence in passages.SENTENCE.split(text)}
    seen = {part for d in documents if not d.held_out for _, text in d.turns for part in passages.SENTENCE.split(text)}
    assert unseen - seen and not any(part in text for part in unseen - seen if len(part) > 20 for text in texts)
    assert not [*passages.about(held_out, 3)], "held-out documents have no instructions"
    mixed = [*itertools.islice(instructions.training(0, ["What is a tide?"], iter(["one", "two"])), 8)]
    assert mixed[1::3][:2] == ["What is a tide?"] * 2 and mixed[2:6:3] == ["one", "two"], (
        "later there are no more others"
    )
