"""A class that votes while others race: `python voters.py PORT [VOTERS]`, by default 60, and 30 that race.

Each voter polls every second and answers after some seconds. The right answer is shown after the last race. Prints a JSON object:
the numbers of complete votes and races, and the seconds that requests and races took.
"""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median, quantiles

QUESTION, OPTIONS = "nine-rows", 3
CODE, SECRET = "VOTERS", "f" * 32
POLL_S = 1.0


class Client:
    """A tab that sends requests to `/votes`. `seconds` are the durations of its requests."""

    def __init__(self, port: int):
        self.seconds: list[float] = []
        self._line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def send(self, action: str, **fields) -> dict:
        start = time.monotonic()
        self._line.request("POST", f"/votes/{action}", json.dumps({"code": CODE, **fields}))
        response = self._line.getresponse()
        report = json.loads(response.read())
        assert response.status == 200, report
        self.seconds.append(time.monotonic() - start)
        return report


def _vote(client: Client, number: int, complete: list) -> None:
    voter, chance = f"{number:032x}", random.Random(number)
    time.sleep(chance.uniform(0, POLL_S))
    answer_after, choice = chance.randrange(8), number % OPTIONS
    report, polls = client.send("read", voter=voter), 0
    while not report["shown"]:
        if polls == answer_after:
            client.send("answer", voter=voter, round=report["round"], choice=choice)
        time.sleep(POLL_S)
        report, polls = client.send("read", voter=voter), polls + 1
    if report["chosen"] == choice:
        complete.append(number)


def load(port: int, voters: int = 60, racers: range = range(30)) -> dict:
    """Let voters vote while users race. Returns the counts and the seconds."""
    teacher, clients, complete = Client(port), [Client(port) for _ in range(voters)], []
    teacher.send("open", secret=SECRET, question=QUESTION)
    threads = [threading.Thread(target=_vote, args=(client, n, complete)) for n, client in enumerate(clients)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    command = [sys.executable, Path(__file__).parent / "users.py", str(port), str(racers.start), str(racers.stop)]
    racing = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    output: list[str] = []
    reader = threading.Thread(target=lambda: output.append(racing.stdout.read()))
    reader.start()
    while reader.is_alive() or teacher.send("watch", secret=SECRET)["answers"] < voters:
        teacher.send("watch", secret=SECRET)
        time.sleep(POLL_S)
    raced_s = time.monotonic() - start
    shown = teacher.send("show", secret=SECRET)
    for thread in threads:
        thread.join()
    teacher.send("close", secret=SECRET)
    seconds = sorted(s for client in (teacher, *clients) for s in client.seconds)
    results = json.loads(output[0])
    waits = [result["seconds"] for result in results.values()]
    return {
        "votes": len(complete), "counted": sum(shown["counts"]), "races": len(results), "requests": len(seconds),
        "request_median_s": median(seconds), "request_99_s": quantiles(seconds, n=100)[98], "request_longest_s": seconds[-1],
        "race_median_s": median(waits), "race_longest_s": max(waits), "total_s": raced_s,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(load(*map(int, sys.argv[1:])), indent=1))
