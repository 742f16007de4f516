"""The committed picture, its JSON, and the table in docs/guide/figures.md are made from one run."""

from __future__ import annotations

from pathlib import Path

import papers
import picture
import report
import targets
from report import ROOT, Figure

PAGE = ROOT / "docs" / "guide" / "figures.md"
IMAGES = ROOT / "docs" / "images"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def publish(figures: list[Figure], facts: dict[str, object]) -> None:
    """Writes all three."""
    picture.draw(figures, facts, IMAGES / "bench.png")
    papers.draw(figures, facts, IMAGES)
    (IMAGES / "bench.json").write_text(report.as_json(figures, facts))
    set_between(
        PAGE,
        f"Measured on: {report.sentence(facts)}.\n\n{targets.markdown(figures)}\n\n{report.markdown(figures)}",
    )
    print(f"bench: {IMAGES / 'bench.png'}, bench.json beside it and {PAGE} are of this run")


def set_between(page: Path, text: str) -> None:
    """Replaces what stands between the marks."""
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
