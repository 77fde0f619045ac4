"""A fake inference server with the API of vLLM, llama-server, SGLang or a generic OpenAI server, and with faults.

It writes a fixed text in which each word is a token. `speed` is seconds per pass, `runs` are the accepted tokens of its passes in
turn, and `fault` is one of `Fake.FAULTS`.
"""

import asyncio
import json
import socket
import threading
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route

WORDS = [f" w{i}" for i in range(400)]


class Fake:
    """The behavior of a server, and the requests that it received."""

    FAULTS = (
        "kill", "stall", "silent", "garbage", "not events", "wrong key", "wrong model", "error event", "endless", "busy",
        "foreign", "counts", "slow drip", "odd ids", "endless refusal",
    )  # fmt: skip

    def __init__(self, kind="vllm", runs=(), speed=0.0, fault=None, key=None, text=WORDS, chunk=1, k=4):
        self.kind, self.runs, self.speed, self.fault, self.key, self.text = kind, runs, speed, fault, key, text
        self.chunk, self.k, self.requests, self.total = chunk, k, [], [0, 0, 0, 0]

    def passes(self, most, runs=None):
        """Return the token ids and the number of accepted tokens of every pass; the first pass reads the prompt."""
        runs = self.runs if runs is None else runs
        ids, number, out = list(range(most)), 0, [([0], None)]
        start = 1
        while start < most:
            accepted = runs[number % len(runs)] if runs else 0
            run = ids[start : start + accepted + 1]
            out.append((run, accepted if runs else None))
            start, number = start + len(run), number + 1
        return out

    async def models(self, request):
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return JSONResponse({"error": {"message": f"Unauthorized: {request.headers.get('authorization')}"}}, 401)
        owner = {"llama-server": "llamacpp", "openai": "unknown"}.get(self.kind, self.kind)
        return JSONResponse({"data": [{"id": "target", "owned_by": owner}]})

    async def metrics(self, request):
        names = (
            "generation_tokens",
            "spec_decode_num_drafts",
            "spec_decode_num_draft_tokens",
            "spec_decode_num_accepted_tokens",
        )
        lines = [f'vllm:{name}_total{{engine="0"}} {float(n)}' for name, n in zip(names, self.total, strict=True)]
        return PlainTextResponse("# HELP nothing\n" + "\n".join(lines) + "\n")

    async def write(self, request):
        body = await request.json()
        self.requests.append((request.url.path, body))
        if self.fault == "wrong model":
            return JSONResponse({"error": {"message": "The model `x` does not exist."}}, 404)
        if self.fault == "busy":
            return PlainTextResponse("try later", 503)
        if self.fault == "endless refusal":

            async def endless():
                while True:
                    yield "no " * 10_000
                    await asyncio.sleep(0)

            return StreamingResponse(endless(), 500)
        if self.fault == "silent":
            await asyncio.sleep(60)
        if self.fault == "not events":
            return PlainTextResponse("<html>hello</html>\n" * 4)
        most = body.get("max_tokens") or body.get("n_predict") or body["sampling_params"]["max_new_tokens"]
        runs = () if body.get("speculative.n_max") == 0 else self.runs  # as in older versions of llama-server
        return StreamingResponse(self.stream(most, runs, request.url.path), media_type="text/event-stream")

    async def stream(self, most, runs, path):
        drafted = accepted = sent = 0
        text, steps = "", []
        passes = self.passes(most, runs)
        for number, (run, accepted_run) in enumerate(passes):
            if number == 3:
                match self.fault:
                    case "kill":
                        raise ConnectionResetError
                    case "stall":
                        await asyncio.sleep(60)
                    case "garbage":
                        yield "data: {not json\n\n"
                    case "foreign":
                        yield 'data: {"choices": 3, "content": null, "text": 1, "meta_info": []}\n\n'
                    case "error event":
                        yield 'data: {"error": {"message": "out of memory"}}\n\n'
                    case "endless":
                        for _ in range(40):
                            yield "data: " + "x" * 100_000
                    case "slow drip":
                        while True:
                            yield ": still here\n\n"
                            await asyncio.sleep(0.05)
            await asyncio.sleep(self.speed)
            if accepted_run is not None:
                drafted, accepted = drafted + self.k, accepted + len(run) - 1
                steps.append((self.k, len(run) - 1 if len(run) <= accepted_run else accepted_run))
            sent += len(run)
            last = number == len(passes) - 1
            for event in self.events(run, text, path, drafted, accepted, steps, last, sent):
                yield f"data: {json.dumps(event)}\n\n"
            text += "".join(self.text[i] for i in run)
        self.total = [a + b for a, b in zip(self.total, (sent, len(steps), drafted, accepted), strict=True)]
        if self.kind in ("vllm", "openai"):
            usage = {"prompt_tokens": 3, "completion_tokens": sent}
            counts = {
                "num_draft_tokens": drafted, "num_accepted_draft_tokens": sum(a for _, a in steps), "num_spec_steps": len(steps),
                "per_step_accepted": [a for _, a in steps] + ([2, 2, 2] if self.fault == "counts" else []),
                "per_step_drafted": [d for d, _ in steps] + ([4, 4, 4] if self.fault == "counts" else []),
            }  # fmt: skip
            if self.fault == "counts":
                counts |= {"num_draft_tokens": drafted + 12, "num_spec_steps": len(steps) + 3}
                counts["num_accepted_draft_tokens"] += 6
            metrics = {"speculative_decoding": counts} if steps and self.kind == "vllm" else None
            yield f"data: {json.dumps({'choices': [], 'usage': usage, 'metrics': metrics})}\n\n"
        yield "data: [DONE]\n\n"

    def events(self, run, before, path, drafted, accepted, steps, last, sent):
        words, reason = [self.text[i] for i in run], "length" if last else None
        text = "".join(words)
        if self.kind == "llama-server":
            timings = {"draft_n": drafted, "draft_n_accepted": accepted} if steps else {}
            return [
                {
                    "content": word,
                    "tokens": [i],
                    "stop": last and i == run[-1],
                    "stop_type": "limit",
                    "timings": timings,
                }
                for i, word in zip(run, words, strict=True)
            ]
        if self.kind == "sglang":
            meta = {
                "finish_reason": {"type": reason} if reason else None,
                "completion_tokens": sent,
                "spec_verify_ct": len(steps),
            }
            if steps:
                meta |= {"spec_draft_token_num": drafted, "spec_accept_token_num": accepted}
            return [{"text": before + text, "output_ids": list(range(sent)), "meta_info": meta}]
        run = [-1 - i for i in run] if self.fault == "odd ids" else run
        ids = {"token_ids": run} if self.kind == "vllm" else {}
        shape = {"delta": {"content": text}} if "chat" in path else {"text": text}
        return [{"choices": [{"index": 0, "finish_reason": reason, **shape, **ids}], "usage": None}]

    def app(self):
        """Return the ASGI app."""
        return Starlette(routes=[
            Route("/v1/models", self.models), Route("/metrics", self.metrics),
            *(
                Route(path, self.write, methods=["POST"])
                for path in ("/v1/completions", "/v1/chat/completions", "/completion", "/generate")
            ),
        ])  # fmt: skip


@contextmanager
def serving(fake):
    """Run the fake server; yield its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(fake.app(), port=port, log_level="critical", timeout_graceful_shutdown=0))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
