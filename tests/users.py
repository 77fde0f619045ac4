"""A classroom: `python users.py ADDRESS FIRST LAST` has users FIRST to LAST - 1 race at once, each a prompt and a seed.

Prints what became of each as JSON, with the place it was told and when it heard of it (seconds since 1970). A process
of its own, so that when it is over everybody has gone.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time

TOKENS = 24
OPENINGS = ("Once upon a time there was a {}", "The old {} by the sea", "Tom had a {} and")
NAMES = ("frog", "cat", "dog", "king", "queen", "boy", "boat", "kite", "fish", "bird")


def asked(user: int) -> dict:
    """What a user asks for; no two ask for the same."""
    prompt = OPENINGS[user % 3].format(NAMES[user // 3 % 10])
    temperature = (0.0, 0.8)[user % 2]
    return {"prompt": prompt, "method": ("draft", "ngram", "hybrid")[user % 3], "max_new_tokens": TOKENS, "k": "auto",
            "temperature": temperature, "seed": user}  # fmt: skip


def _race(address: str, user: int, together: threading.Barrier, found: dict) -> None:
    from gradio_client import Client

    client = Client(address, verbose=False)
    together.wait()
    job, told = client.submit(**asked(user), api_name="/race"), None
    for now in job:
        if told is None and "status" in now:
            ahead = re.search(r"(one|\d+) runs? (is|are) before", now["status"])
            told = (time.time(), int(ahead[1].replace("one", "1")) if ahead else 0)
    found[user] = {"trace": job.result(), "told": told}


def main() -> None:
    """Everybody at once."""
    address, users = sys.argv[1], range(int(sys.argv[2]), int(sys.argv[3]))
    together, found = threading.Barrier(len(users)), {}
    threads = [threading.Thread(target=_race, args=(address, user, together, found)) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
