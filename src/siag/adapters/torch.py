"""`Torch`: a module of PyTorch as a model that `siag.train` takes, and gives back trained."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from siag.adapters.torch_batches import read
from siag.adapters.torch_flat import FROZEN, RUNNING, Flat, check_trainable, trainable
from siag.foundations import check
from siag.foundations.errors import BadInput, Missing, SiagError, reason_of, shorten
from siag.foundations.extras import needed
from siag.foundations.types import Floats
from siag.live.model import Model

torch = needed("torch", "torch")

PAIR = "a batch must be a pair (inputs, targets); for others give objective=, a function of the module and the batch"


class Torch(Model):
    """A module and its loss: `siag.train(siag.adapters.Torch(module, loss), streams)`; `run.model` is it, trained.

        F_i(w) = E loss(module(inputs; w), targets) over the batches (inputs, targets) of worker i

    w are the module's trainable parameters, one after the other, each once, however many names it has. Frozen ones
    (`requires_grad=False`) and buffers stay as they are. The module itself is not changed: a copy is trained, and
    `run.model` is another. Layers are in the mode they are in, `train()` or `eval()`.

    A stream is a `DataLoader`, a `Dataset` or a pair (X, y) of tensors or arrays, which are read in batches, shuffled
    anew for each pass; or anything else to iterate over that gives batches. Tensors and arrays of floating-point
    numbers are converted to the type of the parameters.

    Dropout and other random layers draw from torch's generator, which is set anew before every batch and gradient from
    the run's seed, the worker and the number of its batch.

    Args:
        module: a `torch.nn.Module` whose trainable parameters have one type, float32 or another, and one device.
        loss: loss(outputs, targets), a tensor with one number, such as `torch.nn.CrossEntropyLoss()`.
        objective: instead of `loss`, for batches that are no such pairs: objective(module, batch), likewise.
        batch: how many samples of a `Dataset`, or rows of a pair, are a batch.
        device: where to compute, such as "cuda"; by default where the module is.
        threads: how many a gradient may use; there are as many workers as streams, at the same time.

    Example:
        >>> import torch, siag
        >>> x = torch.linspace(-1.0, 1.0, 20)[:, None]
        >>> model = Torch(torch.nn.Linear(1, 1), torch.nn.MSELoss(), batch=5)
        >>> streams = [(x, 2.0 * x + 1.0), (x, 2.0 * x + 3.0)]
        >>> run = siag.train(model, streams, until=2000, runtime=siag.Simulated(seed=1))
        >>> [round(value.item(), 1) for value in run.model.state_dict().values()]
        [2.0, 2.0]
    """

    preload = ("siag.adapters.torch",)

    def __init__(
        self,
        module: Any,
        loss: Callable[[Any, Any], Any] | None = None,
        *,
        objective: Callable[[Any, Any], Any] | None = None,
        batch: int = 32,
        device: Any = None,
        threads: int = 1,
    ) -> None:
        _check_module(module)
        _check_functions(loss, objective)
        self._loss, self._objective = loss, objective
        self._batch, self._threads = check.integer("batch", batch), check.integer("threads", threads)
        self._module = copy.deepcopy(module)
        if device is not None:
            _move(self._module, device)
        found = trainable(self._module)
        self._w0 = np.concatenate([each.detach().cpu().double().numpy().ravel() for each in found])
        self.messages = "float64" if found[0].dtype is torch.float64 else "float32"
        self._flat: Flat | None = None

    def __repr__(self) -> str:
        return f"Torch({type(self._module).__name__}, d={self._w0.size})"

    def __getstate__(self) -> dict[str, Any]:
        """It is sent as the module; the other process makes its own arrays."""
        return self.__dict__ | {"_flat": None, "_module": _separate(self._module)}

    @property
    def w0(self) -> Floats:
        """(d,) the module's parameters when this was made."""
        return self._w0

    def read(self, stream: Any, worker: int, seed: int) -> Any:
        """The batches of a worker."""
        return read(stream, self._batch)

    def seed(self, seed: int) -> None:
        """What is drawn next, by samplers and transforms, follows from this number."""
        torch.default_generator.manual_seed(seed)  # torch.manual_seed looks for devices each time, for 0.3 ms

    def value_and_gradient(self, w: Floats, sample: Any, seed: int) -> tuple[float, Any]:
        """The loss of a batch, and its gradient where torch has put it, not copied."""
        flat, threads = self._with(w), torch.get_num_threads()
        if threads != self._threads:
            torch.set_num_threads(self._threads)
        try:
            self.seed(seed)
            if flat.device.type == "cuda":
                torch.cuda.manual_seed(seed)
            loss = self._computed(flat.moved(sample))
            flat.buffers.check()
            loss.backward()
            return loss.item(), flat.gradient()
        finally:
            if threads != self._threads:
                torch.set_num_threads(threads)

    def restored(self, w: Floats) -> Any:
        """A module of the same class with these parameters, where the module was."""
        module = _separate(self._module)
        Flat.write(trainable(module), w)
        return module

    def evaluated(self, function: Callable[[Any], Any], w: Floats) -> Any:
        """What a function says of the module, which it is given in mode `eval()` and without gradients."""
        self._with(w)
        modes = [(each, each.training) for each in self._module.modules()]
        self._module.eval()
        try:
            with torch.no_grad():
                return function(self._module)
        finally:
            for each, mode in modes:
                each.training = mode

    def _with(self, w: Floats) -> Flat:
        """The module's arrays, with these parameters; made when they are first needed."""
        if self._flat is None:
            self._flat = Flat(self._module)
        self._flat.load(w)
        return self._flat

    def _computed(self, batch: Any) -> Any:
        """The loss of a batch, with its graph."""
        if self._objective is not None:
            return _checked(self._objective(self._module, batch))
        if not isinstance(batch, tuple | list) or len(batch) != 2 or self._loss is None:
            raise SiagError(f"a batch is {shorten(batch)}; {PAIR}")
        inputs, targets = batch
        if isinstance(inputs, dict):
            outputs = self._module(**inputs)
        else:
            outputs = self._module(*inputs) if isinstance(inputs, tuple | list) else self._module(inputs)
        return _checked(self._loss(outputs, targets))


def _check_module(module: Any) -> None:
    """Refuse what is no module, or has nothing to train, or trains more than its parameters."""
    if isinstance(module, type) and issubclass(module, torch.nn.Module):
        raise BadInput("module", module, "a module, not its class", f"make one: {module.__name__}(…)")
    if not isinstance(module, torch.nn.Module):
        raise BadInput("module", module, "a torch.nn.Module")
    check_trainable(module)
    for name, layer in module.named_modules():
        if layer.training and getattr(layer, "running_mean", None) is not None:
            what = f"{type(layer).__name__} {name}".strip()
            raise BadInput("module", what, f"a module without it: {RUNNING}", FROZEN)


def _move(module: Any, device: Any) -> None:
    """Move a module to a device that torch has here."""
    try:
        module.to(device)
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:  # torch raises each of them
        remedy = "leave it out to compute where the module is"
        raise BadInput("device", device, f"a device of torch that is there ({reason_of(error)})", remedy) from None


def _check_functions(loss: Any, objective: Any) -> None:
    """Refuse both of loss and objective, and neither, and what cannot be called."""
    if loss is None and objective is None:
        raise Missing("loss", "give a function of outputs and targets, such as torch.nn.CrossEntropyLoss()")
    if loss is not None and objective is not None:
        raise BadInput("objective", objective, "given without loss", "leave out one of them")
    name, given = ("loss", loss) if objective is None else ("objective", objective)
    if isinstance(given, type):
        raise BadInput(name, given, "a function, not a class", f"make one: {given.__name__}(…)")
    if not callable(given):
        raise BadInput(name, given, "a function that returns a tensor with one number")
    if isinstance(given, torch.nn.Module) and any(each.requires_grad for each in given.parameters()):
        raise BadInput(name, given, "without trainable parameters", "make it a part of the module")


def _checked(loss: Any) -> Any:
    """A loss that can be differentiated."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.is_complex():
        what = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else shorten(loss)
        raise SiagError(f"the loss is {what}; it must be a tensor with one real number, such as the mean over a batch")
    if not loss.requires_grad:
        raise SiagError("the loss does not depend on the parameters; compute it without item(), detach() and no_grad()")
    return loss


def _separate(module: Any) -> Any:
    """A copy whose parameters share no memory, and have no gradients."""
    kept = {id(each.grad): None for each in module.parameters() if each.grad is not None}
    other = copy.deepcopy(module, kept)
    for each in other.parameters():
        each.grad = None
        each.data = each.data.clone()
    return other
