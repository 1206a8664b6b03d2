"""`python -m tests.experiments.claims`: write docs/reference/claims.md anew."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from listing import PAGE, page  # found beside this file

PAGE.write_text(page())
print(f"Written: {PAGE}")
