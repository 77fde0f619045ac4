"""Engines and servers that other people run: measured under load, raced, started for the bench, and their records replayed.

    addresses       servers by name or URL, with their keys
    stream          HTTP and server-sent events, with limits on time and size
    background      asynchronous work for callers that have no event loop
    reply           what arrives: passes and answers
    openai          reads the events of any OpenAI-compatible server; vllm, sglang and llama_server extend it
    completion      one text of one server
    load            many texts at once; the server's own counters
    report          speedups, intervals, acceptance and latency of two servers under load
    decision        should I turn it on, asked of two servers
    race            two or more servers on one prompt, recorded like any race
    engines, gguf   vLLM and llama.cpp, started here as rivals for the bench
    records         acceptance records of AIPerf and vLLM, read and judged
    replay          such records as a race that the page plays
    command         `python -m lookahead attach` and `acceptance`

Only `__main__`, `server/` and `page/` import this package. It imports `measure` and the packages below.
"""
