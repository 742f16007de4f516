"""notices FILE: the licences of what is inside the command, the libraries and the page, for whoever passes them on.

Every crate that is linked, as `cargo metadata` knows them, with the sources of HDF5 among them, and every package of
npm that the page uses; the text of each licence once. Where one may choose, it is MIT.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OURS = ("forebay", "forebay-c", "forebay-python")
TEXT = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)([-_.].*)?", re.IGNORECASE)
RULE = "-" * 100


def metadata() -> dict[str, Any]:
    """What cargo says of this machine's dependencies."""
    said = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = next(line.split()[1] for line in said.splitlines() if line.startswith("host:"))
    words = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    described: dict[str, Any] = json.loads(found)
    return described


def linked(described: dict[str, Any]) -> list[dict[str, Any]]:
    """The crates of others that are linked: no tool of the build, no procedural macro."""
    packages = {p["id"]: p for p in described["packages"]}
    nodes = {n["id"]: n for n in described["resolve"]["nodes"]}
    wanted = [i for i, p in packages.items() if p["name"] in OURS and p["source"] is None]
    seen: set[str] = set()
    while wanted:
        one = wanted.pop()
        if one in seen or any("proc-macro" in t["kind"] for t in packages[one]["targets"]):
            continue
        seen.add(one)
        for dependency in nodes[one]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                wanted.append(dependency["pkg"])
    theirs = [packages[i] for i in seen if packages[i]["source"] is not None]
    return sorted(theirs, key=lambda p: (p["name"], p["version"]))


def texts(folder: Path, licence: str) -> list[str]:
    """The texts of the licences in a folder; of several to choose from, that of MIT."""
    # Tools of the build are not passed on.
    names = (p for p in folder.iterdir() if p.is_file() and "BUILDTOOLS" not in p.name)
    found = sorted(p for p in names if TEXT.fullmatch(p.name))
    if "MIT" in licence and " AND " not in licence:
        found = [p for p in found if "MIT" in p.name.upper()] or found
    return [p.read_text(encoding="utf-8", errors="replace").strip() for p in found]


def main(out: Path) -> None:
    """Writes the file."""
    parts: list[tuple[str, str, list[str]]] = []
    for crate in linked(metadata()):
        folder, licence = Path(crate["manifest_path"]).parent, crate["license"] or "see below"
        inside = [folder, *(p for p in (*folder.glob("ext/*"), folder / "libffi") if p.is_dir())]
        found = [text for place in inside for text in texts(place, licence)]
        parts.append((f"{crate['name']} {crate['version']}", licence, found))
    page = json.loads((ROOT / "web" / "package.json").read_text())
    for name in sorted(page["dependencies"]):
        folder = ROOT / "web" / "node_modules" / name
        package = json.loads((folder / "package.json").read_text())
        parts.append((f"{name} {package['version']}", package["license"], texts(folder, package["license"])))

    bearers: defaultdict[str, list[str]] = defaultdict(list)
    lines = ["Forebay contains software of others, under licences of their own.", ""]
    for name, licence, found in parts:
        lines.append(f"{name}: {licence}")
        for text in found:
            bearers[text].append(name)
    lines.append("The standard library of Rust: MIT OR Apache-2.0, by the contributors of the Rust project")
    for text, names in bearers.items():
        lines += ["", RULE, ", ".join(names), RULE, "", text]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: notices.py FILE")
    main(Path(sys.argv[1]))
