"""Where the files that tests read lie."""

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
LIBRARY = ROOT / "grammars"
EXAMPLES = ROOT / "examples"
CASES = Path(os.environ.get("FGG_CASES", ROOT.parent / "shared" / "cases"))  # reference answers
