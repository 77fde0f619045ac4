"""A classroom: `python users.py PORT FIRST LAST` has users FIRST to LAST - 1 race at once, each a prompt and a seed.

Prints what became of each as JSON, with the place it was told and when it heard of it (seconds since 1970). A process
of its own, so that when it is over everybody has gone.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import threading
import time
from functools import cached_property

TOKENS = 24
OPENINGS = ("Once upon a time there was a {}", "The old {} by the sea", "Tom had a {} and")
NAMES = ("frog", "cat", "dog", "king", "queen", "boy", "boat", "kite", "fish", "bird")


def asked(user: int) -> dict:
    """What a user asks for; no two ask for the same."""
    prompt = OPENINGS[user % 3].format(NAMES[user // 3 % 10])
    temperature = (0.0, 0.8)[user % 2]
    return {"prompt": prompt, "method": ("draft", "ngram", "hybrid")[user % 3], "max_new_tokens": TOKENS, "k": "auto",
            "temperature": temperature, "seed": user}  # fmt: skip


class Caller:
    """One call to /race, by plain HTTP; it is given up when nothing is heard for `patience_s`. Behind a proxy `cookie` says
    which `copy` of the app it is to go to, and stays with, as a browser's does."""

    def __init__(self, port, patience_s=30, cookie="", **changed):
        data = {
            "prompt": "Once upon a time",
            "method": "draft",
            "max_new_tokens": 12,
            "k": "3",
            "temperature": 0,
            "seed": 0,
        }
        self._line = http.client.HTTPConnection("127.0.0.1", port, timeout=patience_s)
        body = json.dumps({"data": list({**data, **changed}.values())})
        headers = {"Content-Type": "application/json", "Cookie": cookie}
        self._line.request("POST", "/gradio_api/call/race", body, headers)
        answer = self._line.getresponse()
        given = (answer.headers.get("Set-Cookie") or cookie).partition(";")[0]
        self.copy = given.partition("=")[2]
        self.event = json.loads(answer.read())["event_id"]
        self._line.request("GET", f"/gradio_api/call/race/{self.event}", headers={"Cookie": given})

    @cached_property
    def _answer(self):
        return self._line.getresponse()

    def next(self):
        """The next (event, data)."""
        event = self._answer.readline().decode().strip().removeprefix("event: ")
        data = self._answer.readline().decode().removeprefix("data: ")
        self._answer.readline()
        return event, json.loads(data)

    def until(self, words):
        """Wait for a status."""
        while words not in (now := self.next())[1][0].get("status", ""):
            assert now[0] == "generating", now
        return self

    def result(self):
        """The trace, or what went wrong."""
        while (now := self.next())[0] in ("generating", "heartbeat"):
            pass
        self._line.close()
        return now[1][0] if now[0] == "complete" else now[1]

    def vanish(self):
        self._line.sock.close()
        if "_answer" in vars(self):
            self._answer.close()
        self._line.close()


def _race(port: int, user: int, together: threading.Barrier, found: dict) -> None:
    together.wait()
    caller, told = Caller(port, patience_s=300, **asked(user)), None
    while (now := caller.next())[0] in ("generating", "heartbeat"):
        if told is None and now[1] and "status" in now[1][0]:
            ahead = re.search(r"(one|\d+) runs? (is|are) before", now[1][0]["status"])
            told = (time.time(), int(ahead[1].replace("one", "1")) if ahead else 0)
    assert now[0] == "complete", now
    found[user] = {"trace": now[1][0], "told": told}


def main() -> None:
    """Everybody at once."""
    port, users = int(sys.argv[1]), range(int(sys.argv[2]), int(sys.argv[3]))
    together, found = threading.Barrier(len(users)), {}
    threads = [threading.Thread(target=_race, args=(port, user, together, found)) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
