"""What is sent to worker processes of this machine: by name where they can import it, otherwise by value, code and all.

Lambdas, closures and what was typed into a notebook or a session have no name that another process could import.
"""

from __future__ import annotations

import os
import pickle
import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any


class ByValue:
    """Something that reaches another process as it is, with the code of its functions.

    Args:
        value: what is sent; the other process gets it, not this class.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        import cloudpickle

        return pickle.loads, (cloudpickle.dumps(self.value),)


class Pickled:
    """Something that was pickled before; the other process gets it, not this class."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return pickle.loads, (self.content,)


def sendable(value: Any) -> Any:
    """The same, or the same by value, if no other process could import a part of it."""
    torch = "torch" in sys.modules  # it has ForkingPickler move tensors to shared memory, each with an open file
    try:
        content = pickle.dumps(value) if torch else bytes(ForkingPickler.dumps(value))
    except Exception:  # whatever pickling raises, and a user's __reduce__
        return ByValue(value)
    if b"__main__" in content and not in_a_script():
        return ByValue(value)
    return Pickled(content) if torch and b"torch" in content else value


def in_a_script() -> bool:
    """Whether what is in `__main__` can be imported from a file; in a notebook or a session it cannot."""
    return os.path.isfile(getattr(sys.modules["__main__"], "__file__", None) or "")
