"""The tools for assistants over MCP (Model Context Protocol): a race, advice, a link."""

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
async def session_with(address):
    async with (
        streamable_http_client(f"{address}/gradio_api/mcp/") as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


def result_of(coroutine):
    """Return the coroutine's result from a thread without an event loop; this thread may have the browsers' loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def call_tool(address, name, **arguments):
    """Return a tool's reply: (is it an error, text)."""

    async def call():
        async with session_with(address) as session:
            reply = await session.call_tool(name, arguments)
            return reply.isError, reply.content[0].text

    return result_of(call())


def test_tools_change_nothing_for_others(address):
    async def tools():
        async with session_with(address) as session:
            return {tool.name: tool for tool in (await session.list_tools()).tools}

    offered = result_of(tools())
    assert sorted(offered) == ["advise", "families", "link", "methods", "race"]
    assert all(tool.description for tool in offered.values())
    race = offered["race"].inputSchema
    assert list(race["properties"]) == ["prompt", "method", "max_new_tokens", "k", "temperature", "seed", "schema"]
    assert race["required"] == ["prompt"] and all("description" in field for field in race["properties"].values())
    assert call_tool(address, "choose", family="pocket")[0], "all assistants are one visitor to Gradio"


def test_a_race_its_advice_and_its_link(address):
    failed, text = call_tool(address, "race", prompt=PROMPT, method="draft", max_new_tokens=12)
    naive, drafted = literal_eval(text)["lanes"]
    assert not failed
    written = [[token for step in lane["steps"] for token in step["emitted"]] for lane in (naive, drafted)]
    assert written[0] == written[1] and len(written[0]) == 12
    failed, text = call_tool(address, "race", prompt=PROMPT, method="grammar", schema='["yes", "no"]')
    steps = literal_eval(text)["lanes"][1]["steps"]
    assert not failed and "".join(piece for step in steps for piece in step["pieces"]) in ("yes", "no")
    failed, text = call_tool(address, "advise", prompt=PROMPT, max_new_tokens=24)
    assert not failed and literal_eval(text)["sentence"].startswith(("Yes: ", "Don't: "))
    failed, text = call_tool(address, "link", prompt=PROMPT, method="draft", k="4")
    assert not failed and text.startswith(f"{address}/?") and "draft" in text
    failed, text = call_tool(address, "methods")
    assert not failed and "hybrid" in {method["name"] for method in literal_eval(text)}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("race", {"prompt": ""}, "prompt is empty: type some text to continue."),
        ("race", {"prompt": PROMPT, "method": "magic"}, "method is 'magic'"),
        ("race", {"prompt": PROMPT, "max_new_tokens": 0}, "max_new_tokens is 0"),
        ("race", {"prompt": PROMPT, "schema": "(a"}, "the regular expression is invalid: unclosed group."),
        ("link", {"prompt": PROMPT, "k": "many"}, 'give "auto" or a whole number'),
    ],
)
def test_errors_are_sentences(address, name, arguments, message):
    failed, text = call_tool(address, name, **arguments)
    assert failed and message in text and "Traceback" not in text


def test_two_assistants_race_at_once(address):
    async def race(prompt):
        async with session_with(address) as session:
            return await session.call_tool("race", {"prompt": prompt, "max_new_tokens": 40})

    async def both():
        return await asyncio.gather(race(PROMPT), race("1, 2, 3, 4,"))

    replies = result_of(both())
    assert not any(reply.isError for reply in replies)
    texts = [literal_eval(reply.content[0].text)["prompt"]["text"] for reply in replies]
    assert texts == [PROMPT, "1, 2, 3, 4,"], json.dumps(texts)
