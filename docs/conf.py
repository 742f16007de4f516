"""How the guide becomes pages: Sphinx reads the Markdown of the tree as it lies, and the references come
from the sources (see `reference.py`). `make docs` builds it; a warning is an error there."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import reference  # noqa: E402

project = "Forebay"
author = "the authors of Forebay"
version = release = reference.version()

# The root of the tree is the root of the pages, so that links between them hold here and there.
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "docs/**.rst",
    "spec/*.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "fuzz/README.md",
]
exclude_patterns = [
    "target",
    "web",
    "out",
    ".venv",
    "tests",
    "examples",
    "benches",
    "bindings",
    "crates",
    "fuzz/[!R]*",
]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 4
myst_links_external_new_tab = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}

html_theme = "furo"
html_title = f"Forebay {release}"
html_baseurl = ""
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["page.css"]


def setup(app: Sphinx) -> None:
    """Writes the references before Sphinx looks for pages."""
    reference.write(HERE / "reference")
