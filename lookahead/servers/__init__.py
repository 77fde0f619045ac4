"""Inference servers and engines of other projects: measured under load, raced or started for the bench; their records.

`client.py` requests texts, and `replies.py` reads the events of each kind of server. Only `__main__`, `server/` and `page/`
import this package. It imports `measure` and the packages below.
"""
