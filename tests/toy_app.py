"""The app with a strategy of `toy_drafters` in the registry, for the tests: `python tests/toy_app.py --port P`."""

import sys

import app
import places

if __name__ == "__main__":
    places.settle()  # before anything below remembers another place, as in `app.main`
    from toy_drafters import Echo

    from lookahead.drafting import DRAFTERS

    DRAFTERS[Echo.name] = Echo
    sys.exit(app.main())
