"""Start Lookahead, as Spaces does: the same as `lookahead serve`."""

import sys

from lookahead.page.app import main

if __name__ == "__main__":
    sys.exit(main())
