"""Runs as plain Python: some thousand reports take less time than machine code takes to be made.

What is claimed of a method here holds of its machine code too: `conform`, which every method is put through, has both
take the same steps to the bit.
"""

from functools import partial

import siag

simulate = partial(siag.simulate, compiled=False)
