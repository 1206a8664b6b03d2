"""Compiling what is only ever a part of something else, without making machine code of the part itself.

Numba makes finished machine code, optimised and ready to be called, of every function on the way, also of those that
are inlined where they are called. For a method's loop that is a dozen functions, and half of the time. Here a part is
left as LLVM's intermediate code; what it is linked into is optimised as a whole, as before, so the result is the same.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def part_compiler() -> type[Any] | None:
    """A compiler for parts, for the option `pipeline_class`; `None` with a Numba that does not have what it takes."""
    try:
        from numba.core.codegen import JITCodeLibrary
        from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
        from numba.core.compiler_machinery import PassManager, register_pass
        from numba.core.typed_passes import NativeLowering
    except ImportError:
        return None

    class PartLibrary(JITCodeLibrary):  # type: ignore[misc]  # Numba has no types
        """The code of a part: others link it, nobody calls it."""

        def _optimize_final_module(self) -> None:
            """What it is linked into will be."""

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class PartLowering(NativeLowering):  # type: ignore[misc]
        """Lowers a part to LLVM's code, and makes it known to those that call it."""

        _name = "siag_part_lowering"

        def run_pass(self, state: Any) -> bool:
            state.library = PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            state.flags.no_compile = True
            super().run_pass(state)
            lowered = state["cr"]
            never_called: Any = [].append  # callers know the part by it, and Numba wants a built-in function
            state.targetctx.insert_user_function(never_called, lowered.fndesc, [state.library])
            state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=never_called, env=lowered.env)
            return True

    class PartCompiler(CompilerBase):  # type: ignore[misc]
        """Numba's own passes, but for the last."""

        def define_pipelines(self) -> list[Any]:
            manager = PassManager("nopython")
            for pass_class, words in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
                manager.add_pass(PartLowering if pass_class is NativeLowering else pass_class, words)
            manager.finalize()
            return [manager]

    return PartCompiler
