"""The page of a run, as a program hands it on."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable

from ._forebay import Error


class Page:
    """The links of a run's page.

    As text it is a link that may be printed: that of viewers, who look and do not steer, unless standard output is a
    terminal. What a job prints stands in a log that others may read.
    """

    def __init__(self, links: Callable[[], tuple[str, str]]) -> None:
        self._links = links
        self._viewer = links()[1]

    @property
    def operator(self) -> str:
        """A link that opens the page once, within five minutes, for who watches and steers; each one is new."""
        return self._links()[0]

    @property
    def viewer(self) -> str:
        """The link for all who may look."""
        return self._viewer

    def __str__(self) -> str:
        on_terminal = sys.stdout is not None and sys.stdout.isatty()
        try:
            return self.operator if on_terminal else self._viewer
        except Error:  # the run is closed: nobody steers it any more
            return self._viewer

    def __repr__(self) -> str:
        return f"<forebay.Page {self._viewer}>"

    def _repr_html_(self) -> str:
        link = html.escape(self._viewer)
        return f'<a href="{link}" target="_blank" rel="noopener">the page of the run</a>'
