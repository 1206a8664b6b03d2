"""What every worker process needs: the fork server imports this once, and workers are born with it."""

import numpy as np

from siag.live.transports.shared_memory import worker
from siag.server.guard import square_norm

square_norm(np.zeros(1), 1)

__all__ = ["worker"]
