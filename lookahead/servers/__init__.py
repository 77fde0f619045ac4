"""Engines and servers that other people run: measured under load, raced, started for the bench, and their records replayed.

`client.py` requests texts, `replies.py` reads the events of each kind of server. Only `__main__`, `server/` and `page/` import
this package. It imports `measure` and the packages below.
"""
