"""The trainable parameters of a module as one array, of which the module's own are views."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from siag.foundations.errors import BadInput, SiagError
from siag.foundations.extras import needed
from siag.foundations.returned import Pieces
from siag.foundations.types import Floats

torch = needed("torch", "torch")

RUNNING = "its running statistics belong to no worker's gradient"
FROZEN = "use GroupNorm or LayerNorm, or track_running_stats=False, or .eval() of that layer to keep them as they are"
LARGE = 1 << 15  # numbers; fewer are copied sooner than parameters are pointed elsewhere


def trainable(module: Any) -> list[Any]:
    """The parameters that are trained, each once, however many names it has."""
    return [each for each in module.parameters() if each.requires_grad]


def check_trainable(module: Any) -> None:
    """Refuse a module without trainable parameters, or with such as are no real numbers, or unlike each other."""
    named = [(name, each) for name, each in module.named_parameters() if each.requires_grad]
    if not named:
        remedy = "requires_grad_() makes them trainable"
        raise BadInput("module", type(module).__name__, "one with trainable parameters", remedy)
    (first, like), *_ = named
    for name, each in named:
        if isinstance(each, torch.nn.parameter.UninitializedParameter):
            raise BadInput("module", name, "initialised", "call the module on a batch first")
        if each.is_meta:
            raise BadInput("module", name, "on a device with numbers, not meta", "to_empty() and initialise it")
        if not each.is_floating_point():
            allowed = f"of real numbers, not {str(each.dtype).removeprefix('torch.')}, to be trained"
            raise BadInput("module", name, allowed, "requires_grad_(False) keeps it as it is")
        if (each.dtype, each.device) != (like.dtype, like.device):
            both = f"{like.dtype} on {like.device} as {first}, not {each.dtype} on {each.device}"
            raise BadInput("module", name, both, "module.to(dtype, device) makes all alike")
    _check_apart(named)


def _check_apart(named: Sequence[tuple[str, Any]]) -> None:
    """Refuse parameters that share memory without being the same: each would be trained by itself."""
    places = sorted((each.data_ptr(), each.data_ptr() + each.nbytes, name) for name, each in named if each.numel())
    for (_, end, one), (begin, _, other) in pairwise(places):
        if begin < end:
            remedy = "tie them by giving both layers the same Parameter"
            raise BadInput("module", f"{one} and {other}", "parameters of memory of their own", remedy)


def _shared(w: Floats) -> Any:
    """A tensor of the same memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that w is not to be written to; no gradient does
        return torch.from_numpy(w)


def _slope(parameter: Any) -> Any:
    """The gradient of a parameter: 0 if it was not used, and never sparse."""
    if parameter.grad is None:
        return torch.zeros_like(parameter)
    return parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad


class Buffer(NamedTuple):
    """A buffer of a layer, as it was when it was looked at last."""

    name: str
    layer: Any
    own: str  # its name in the layer
    tensor: Any
    writes: int  # how often torch had written to that
    value: Any  # a copy of what was there at first


class Buffers:
    """The buffers of a module, which must stay as they are.

    Args:
        module: the module.
    """

    def __init__(self, module: Any) -> None:
        self._known: list[Buffer] = []
        for name, tensor in module.named_buffers():
            path, _, own = name.rpartition(".")
            self._known.append(Buffer(name, module.get_submodule(path), own, tensor, tensor._version, tensor.clone()))

    def check(self) -> None:
        """Refuse one that has changed; those that nobody has written to since are not compared."""
        for k, known in enumerate(self._known):
            now = getattr(known.layer, known.own)
            if now is known.tensor and now._version == known.writes:
                continue
            if not _same(now, known.value):
                what = f"the buffer {known.name} changes while the module computes"
                raise SiagError(f"{what}, and {RUNNING}; {FROZEN}")
            self._known[k] = known._replace(tensor=now, writes=now._version)


def _same(one: Any, other: Any) -> bool:
    """Whether two buffers have the same numbers, NaN being one."""
    if not isinstance(one, torch.Tensor) or one.shape != other.shape:
        return False
    if one.is_floating_point():
        one, other = torch.nan_to_num(one), torch.nan_to_num(other)
    return bool(torch.equal(one, other))


class Flat:
    """The parameters of a module as one array, of which they become views.

    On a processor and of type float32 or float64 it is a NumPy array, too, and a large w of that type is not even
    copied: a worker's w stays as it is while its gradient is computed. Otherwise what comes and goes is copied once
    more.

    Args:
        module: whose parameters; they are moved.
    """

    def __init__(self, module: Any) -> None:
        self._parameters = trainable(module)
        d, first = sum(each.numel() for each in self._parameters), self._parameters[0]
        self.device, self._type = first.device, first.dtype
        self._values = torch.empty(d, dtype=first.dtype, device=first.device)
        self._point_to(self._values)
        self.buffers = Buffers(module)
        self._source: Any = None  # the w that parameters are views of, if it is not a copy
        direct = first.device.type == "cpu" and first.dtype in (torch.float32, torch.float64)
        here = torch.float64 if first.dtype is torch.float64 else torch.float32
        self._host = None if direct else torch.empty(d, dtype=here, pin_memory=first.device.type == "cuda")
        self._numbers: Any = (self._values if self._host is None else self._host).numpy()

    def load(self, w: Floats) -> None:
        """Give the module these parameters, and no gradient."""
        for each in self._parameters:
            each.grad = None
        if self._host is None and w.size >= LARGE and w.dtype == self._numbers.dtype and w.flags.c_contiguous:
            if w is not self._source:
                self._point_to(_shared(w))
                self._source = w
            return
        if self._source is not None:
            self._point_to(self._values)
            self._source = None
        with np.errstate(over="ignore"):  # w may be beyond float32 in a run that diverges
            self._numbers[:] = w
        if self._host is not None:
            self._values.copy_(self._host)

    def _point_to(self, values: Any) -> None:
        """Let the module's parameters be views of these numbers."""
        at = 0
        for each in self._parameters:
            each.data = values[at : at + each.numel()].view(each.shape)
            at += each.numel()

    def gradient(self) -> Any:
        """(d,) the gradient that was computed; that of a parameter which was not used is 0."""
        slopes = [_slope(each) for each in self._parameters]
        if self._host is None:
            return Pieces([each.numpy() for each in slopes])
        return torch.cat([each.reshape(-1) for each in slopes]).to("cpu", self._host.dtype).numpy()

    def moved(self, part: Any) -> Any:
        """A batch as the module takes it: tensors where the parameters are, real numbers of their type."""
        if isinstance(part, torch.Tensor):
            kind = self._type if part.is_floating_point() else part.dtype
            return part if (part.dtype, part.device) == (kind, self.device) else part.to(self.device, kind)
        if isinstance(part, np.ndarray | np.generic):
            return self.moved(torch.from_numpy(np.array(part)))  # a copy: it may be read-only
        if isinstance(part, dict):
            return {name: self.moved(each) for name, each in part.items()}
        if type(part) in (tuple, list):
            return type(part)([self.moved(each) for each in part])
        return part

    @staticmethod
    def write(parameters: Sequence[Any], w: Floats) -> None:
        """Write w to parameters, one after the other."""
        at = 0
        for each in parameters:
            numbers = torch.tensor(w[at : at + each.numel()])
            each.data.copy_(numbers.view(each.shape))
            at += each.numel()
