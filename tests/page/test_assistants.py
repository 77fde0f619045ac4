"""What an assistant may call, by the protocol that assistants speak (MCP): the tools, a race, advice, an address to hand on."""

import asyncio
import json
from ast import literal_eval
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

PROMPT = "Once upon a time there was a small frog who"


@asynccontextmanager
async def assistant(address):
    async with (
        streamable_http_client(f"{address}/gradio_api/mcp/") as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


def awaited(coroutine):
    """Its result, from a thread without an event loop: where there are browsers too, this one has theirs."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def called(address, name, **arguments):
    """What a tool answers: whether it is an error, and the words."""

    async def call():
        async with assistant(address) as session:
            answer = await session.call_tool(name, arguments)
            return answer.isError, answer.content[0].text

    return awaited(call())


def test_tools_are_those_that_change_nothing_for_others(address):
    async def tools():
        async with assistant(address) as session:
            return {tool.name: tool for tool in (await session.list_tools()).tools}

    offered = awaited(tools())
    assert sorted(offered) == ["advise", "families", "link", "methods", "race"]
    assert all(tool.description for tool in offered.values())
    race = offered["race"].inputSchema
    assert list(race["properties"]) == ["prompt", "method", "max_new_tokens", "k", "temperature", "seed"]
    assert race["required"] == ["prompt"] and all("description" in field for field in race["properties"].values())
    assert called(address, "choose", family="pocket")[0], "all assistants are one visitor to Gradio"


def test_a_race_its_advice_and_its_link(address):
    failed, words = called(address, "race", prompt=PROMPT, method="draft", max_new_tokens=12)
    naive, drafted = literal_eval(words)["lanes"]
    assert not failed
    written = [[token for step in lane["steps"] for token in step["emitted"]] for lane in (naive, drafted)]
    assert written[0] == written[1] and len(written[0]) == 12
    failed, words = called(address, "advise", prompt=PROMPT, max_new_tokens=24)
    assert not failed and "here" in literal_eval(words)["sentence"]
    failed, words = called(address, "link", prompt=PROMPT, method="draft", k="4")
    assert not failed and words.startswith(f"{address}/?") and "draft" in words
    failed, words = called(address, "methods")
    assert not failed and "hybrid" in {method["name"] for method in literal_eval(words)}


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("race", {"prompt": ""}, "prompt is empty: type some text to continue."),
        ("race", {"prompt": PROMPT, "method": "magic"}, "method is 'magic'"),
        ("race", {"prompt": PROMPT, "max_new_tokens": 0}, "max_new_tokens is 0"),
        ("link", {"prompt": PROMPT, "k": "many"}, 'give "auto" or a whole number'),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(address, name, arguments, words):
    failed, said = called(address, name, **arguments)
    assert failed and words in said and "Traceback" not in said


def test_two_assistants_race_at_once(address):
    async def race(prompt):
        async with assistant(address) as session:
            return await session.call_tool("race", {"prompt": prompt, "max_new_tokens": 40})

    async def both():
        return await asyncio.gather(race(PROMPT), race("1, 2, 3, 4,"))

    answers = awaited(both())
    assert not any(answer.isError for answer in answers)
    texts = [literal_eval(answer.content[0].text)["prompt"]["text"] for answer in answers]
    assert texts == [PROMPT, "1, 2, 3, 4,"], json.dumps(texts)
