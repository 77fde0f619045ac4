"""Start the app with a strategy of `toy_drafters` in the registry: `python tests/toy_app.py --port P`."""

import sys

from lookahead.page import app
from lookahead.server.writable import use_writable_folders

if __name__ == "__main__":
    use_writable_folders()  # before the imports below, which read the variables, as in `app.main`
    from toy_drafters import Echo

    from lookahead.drafting import DRAFTERS

    DRAFTERS[Echo.name] = Echo
    sys.exit(app.main())
