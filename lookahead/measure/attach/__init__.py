"""Servers that others run, asked over HTTP: what they stream, what they count, and how they bear load.

Knows vLLM's, SGLang's and llama-server's answers. It does not know our models, our loop or any page.
"""
