"""Engines and servers that other people run: measured under load, raced, started for the bench, and their records replayed.

`openai.py` reads the events of any OpenAI-compatible server; `vllm.py`, `sglang.py` and `llama_server.py` extend it. Only
`__main__`, `server/` and `page/` import this package. It imports `measure` and the packages below.
"""
