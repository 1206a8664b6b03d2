"""How `make docs` builds the site: pages in Markdown (MyST), the reference from docstrings (autodoc, napoleon)."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.ext.autodoc.mock import mock
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.roles import XRefRole
from sphinx.util import logging
from sphinx.util.inspect import TypeAliasForwardRef
from sphinx.util.nodes import make_refnode

import siag
from siag.foundations.dispatch import Compiled, Verb

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))  # for what is beside this file

from commands import write_commands  # noqa: E402
from pictures import make_all  # noqa: E402

project, author, release = "siag", "the authors of siag", siag.__version__
copyright = "the authors of siag, Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["made/*.md"]

html_theme = "furo"
html_title = f"siag {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sphinx = False
html_copy_source = False
pygments_style, pygments_dark_style = "a11y-light", "a11y-dark"

myst_enable_extensions = ["attrs_inline", "attrs_block", "colon_fence"]
myst_heading_anchors = 3
smartquotes_action = "De"  # dashes and dots; quotes stay as in code

napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Reference"]
autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    name: name for name in ("Floats", "Integers", "Rng", "Record", "Gradient", "AnyPath", "Progress")
}
python_maximum_signature_line_length = 100
# What adapters and streams stand on is not installed here: their docstrings are read without it.
autodoc_mock_imports = [
    *("torch", "jax", "flax", "sklearn", "river", "scipy", "pandas", "mlflow", "tensorboard"),
    *("ray", "fsspec", "pyarrow", "polars", "confluent_kafka", "redis", "paho"),
]
default_role = "name"  # `Name` in a docstring is a link where there is such a name, and code elsewhere

PARTS = ("methods", "problems", "activity", "steps", "theory", "streams", "losses", "runtimes", "adapters", "server",
         "storage")  # fmt: skip
ELSEWHERE = {"train", "serve", "relay", "work", "Simulated", "Until"}  # of siag.runtimes: shown as names of siag itself


RNG = ("uniform", "below", "normal", "normals", "chi_square")


def public_names() -> dict[str, str]:
    """Where each public object is documented, by the name of the module that defines it."""
    found = {}
    sys.modules["siag.rng"] = siag.rng
    for module in ("siag", *(f"siag.{part}" for part in PARTS), "siag.rng"):
        part = importlib.import_module(module)
        for name in RNG if module == "siag.rng" else part.__all__:
            if module == "siag.runtimes" and name in ELSEWHERE:
                continue
            thing = getattr(part, name)
            found[f"{module}.{name}"] = f"{module}.{name}"
            if getattr(thing, "__module__", "").startswith("siag") and hasattr(thing, "__qualname__"):
                found.setdefault(f"{thing.__module__}.{thing.__qualname__}", f"{module}.{name}")
    return found


def unwrap(names: Iterable[str]) -> None:
    """Verbs and compiled functions are documented as the functions they were made from."""
    importlib.import_module("siag.checks")  # whatever uses verbs has to be imported before they are replaced
    for full in names:
        module, _, name = full.rpartition(".")
        thing = getattr(sys.modules[module], name)
        if isinstance(thing, Verb | Compiled):
            setattr(sys.modules[module], name, thing.__wrapped__)


def resolve(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Links to public names under whatever name they are written; what is not public stays as it is, without a link."""
    if node.get("refdomain") != "py" and node["reftype"] != "name":
        return None
    names, target = app.public_names, node["reftarget"].partition("(")[0]
    if "." not in target and not target[:1].isupper():  # rather the name of a parameter
        return contnode
    short = [full for full in set(names.values()) if full.endswith(f".{target}")] if target[:1].isupper() else []
    objects = env.get_domain("py").objects
    for full in (names.get(target), names.get(f"siag.{target}"), *(short if len(short) == 1 else ())):
        if full in objects:
            there = objects[full]
            return make_refnode(app.builder, node["refdoc"], there.docname, there.node_id, [contnode], full)
    return contnode


ROOT = {"CONTRIBUTING": "contributing", "CHANGELOG": "changelog", "README": "index", "RESULTS": "reference/results"}


def link_the_root(app: Any, docname: str, source: list[str]) -> None:
    """Some files at the root of the repository are pages of the site, too."""
    source[0] = re.sub(
        rf"\]\((?:\.\./)+(?:benchmarks/)?({'|'.join(ROOT)})\.md", lambda found: f"](/{ROOT[found[1]]}.md", source[0]
    )


def escape(app: Any, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """In formulas |A| is a size, not the name of something to be put in its place."""
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[k] = re.sub(r"(`[^`]*`)|\|", lambda found: found[1] or r"\|", line)


def level_captions(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """The captions of the menu are headings, of which a screen reader must know the level."""
    menu = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = menu.replace('role="heading"', 'role="heading" aria-level="2"')


def complete(app: Any, env: Any) -> None:
    """Every public name must be somewhere in the reference."""
    known = env.get_domain("py").objects
    for full in sorted(set(app.public_names.values())):
        if full not in known and full.removeprefix("siag.") not in (*PARTS, "rng", "__version__"):
            logging.getLogger(__name__).warning("public, but not in the reference: %s", full)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    # Or "What is recorded of w: the loss" would have a type before its colon.
    GoogleDocstring._parse_attribute_docstring = GoogleDocstring._consume_to_end
    # Or a union of it with others would be TypeAliasForwardRef('Floats') | None.
    TypeAliasForwardRef.__repr__ = lambda self: self.name
    make_all(DOCS / "made")
    write_commands(DOCS / "made" / "commands.md")
    with mock(autodoc_mock_imports):
        app.public_names = public_names()
        unwrap(set(app.public_names.values()))
    app.add_role("name", XRefRole(innernodeclass=nodes.literal))
    app.connect("autodoc-process-docstring", escape)
    app.connect("source-read", link_the_root)
    app.connect("missing-reference", resolve)
    app.connect("env-check-consistency", complete)
    app.connect("html-page-context", level_captions, priority=900)  # after the theme has made the menu
