"""A classroom: `python users.py PORT FIRST LAST` races as users FIRST to LAST - 1 at once, each with a prompt and a seed.

Prints a JSON object with each user's trace, the seconds until it was complete, and the first queue status: its time (seconds
since 1970) and the number of runs ahead.
It is a separate process, so that all connections are closed when it ends.
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


def race_request(user: int) -> dict:
    """Return the fields of a user's race, which differ for every user."""
    prompt = OPENINGS[user % 3].format(NAMES[user // 3 % 10])
    temperature = (0.0, 0.8)[user % 2]
    return {"prompt": prompt, "method": ("draft", "ngram", "hybrid")[user % 3], "max_new_tokens": TOKENS, "k": "auto",
            "temperature": temperature, "seed": user}  # fmt: skip


class Caller:
    """A call of /race by plain HTTP, which fails after `patience_s` seconds without data.

    `cookie` selects a copy of the app behind a proxy, as a browser's cookie does; `copy` is the name of the selected copy.
    """

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
        response = self._line.getresponse()
        cookie = (response.headers.get("Set-Cookie") or cookie).partition(";")[0]
        self.copy = cookie.partition("=")[2]
        self.event = json.loads(response.read())["event_id"]
        self._line.request("GET", f"/gradio_api/call/race/{self.event}", headers={"Cookie": cookie})

    @cached_property
    def _response(self):
        return self._line.getresponse()

    def next(self):
        """Return the next (event, data)."""
        event = self._response.readline().decode().strip().removeprefix("event: ")
        data = self._response.readline().decode().removeprefix("data: ")
        self._response.readline()
        return event, json.loads(data)

    def until(self, phrase):
        """Wait for a status that contains `phrase`."""
        while phrase not in (now := self.next())[1][0].get("status", ""):
            assert now[0] == "generating", now
        return self

    def result(self):
        """Return the trace, or the data of the error."""
        while (now := self.next())[0] in ("generating", "heartbeat"):
            pass
        self._line.close()
        return now[1][0] if now[0] == "complete" else now[1]

    def vanish(self):
        self._line.sock.close()
        if "_response" in vars(self):
            self._response.close()
        self._line.close()


def _race(port: int, user: int, barrier: threading.Barrier, results: dict) -> None:
    barrier.wait()
    start = time.monotonic()
    caller, queue_status = Caller(port, patience_s=300, **race_request(user)), None
    while (now := caller.next())[0] in ("generating", "heartbeat"):
        if queue_status is None and now[1] and "status" in now[1][0]:
            ahead = re.search(r"(one|\d+) runs? (is|are) before", now[1][0]["status"])
            queue_status = (time.time(), int(ahead[1].replace("one", "1")) if ahead else 0)
    assert now[0] == "complete", now
    results[user] = {"trace": now[1][0], "queue_status": queue_status, "seconds": time.monotonic() - start}


def main() -> None:
    """Race as all users at once and print the results."""
    port, users = int(sys.argv[1]), range(int(sys.argv[2]), int(sys.argv[3]))
    barrier, results = threading.Barrier(len(users)), {}
    threads = [threading.Thread(target=_race, args=(port, user, barrier, results)) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
