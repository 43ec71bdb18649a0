"""``python -m decoevo_dspy``."""

import sys

from decoevo_dspy.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
