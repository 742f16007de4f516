"""The C library as `make install` puts it, and programs compiled against it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "bindings")]

import header  # noqa: E402
from far import Agent as Agent  # noqa: E402
from places import Place, ended, hear, run  # noqa: E402

PROGRAMS = Path(__file__).parent / "programs"
HEADER = header.HEADER
# What a careful user compiles with; the header must pass.
C99 = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-g"]
CXX = ["-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-g"]
CXX += ["-Wshadow", "-Wconversion", "-Wold-style-cast"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]


def functions() -> dict[str, list[str]]:
    """The functions of the header by name, with their parameters."""
    return {one.name: [str(p) for p in one.parameters] for one in header.functions().values()}


class Kit:
    """The installed library, under a prefix."""

    def __init__(self, prefix: Path, folder: Path) -> None:
        self.prefix = prefix
        self.folder = folder
        self.compiled: dict[tuple[object, ...], Path] = {}
        self.env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}

    def flags(self, *asked: str, package: str = "forebay") -> list[str]:
        """What pkg-config says."""
        return shlex.split(run("pkg-config", *asked, package, env=self.env))

    def compile(self, source: Path, *flags: str, name: str = "", static: bool = False) -> Path:
        """Compiles a program against the shared library, or against the static one; the same one once."""
        same = (source, *flags, name, static)
        if same in self.compiled:
            return self.compiled[same]
        made = self.folder / (name or f"{source.stem}{len(self.compiled) or ''}")
        compiler, warnings = ("c++", CXX) if source.suffix == ".cpp" else ("cc", C99)
        if static:
            own = [*self.flags("--cflags"), str(self.prefix / "lib" / "libforebay.a")]
            own += [word for word in self.flags("--static", "--libs-only-l") if word != "-lforebay"]
        else:
            own = self.flags("--cflags", "--libs")
        run(compiler, *warnings, f"-I{PROGRAMS}", source, *flags, *own, "-lpthread", "-o", made)
        self.compiled[same] = made
        return made


def forebay_cc(kit: Kit, *words: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """What `forebay cc` of the installation does."""
    command = [str(kit.prefix / "bin" / "forebay"), "cc", *(str(word) for word in words)]
    env = {**kit.env, **variables}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=100, check=False)


def compiled(kit: Kit, *words: str | Path, cwd: Path) -> None:
    """Compiles with it, without a word."""
    done = forebay_cc(kit, *words, cwd=cwd)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class Home(Place):
    """Where compiled programs run: they find the command as installed programs do, beside the library."""

    def __init__(self, kit: Kit) -> None:
        super().__init__()
        self.variables.pop("FOREBAY_EXE", None)
        self.kit = kit

    @property
    def env(self) -> dict[str, str]:
        env = super().env
        env.pop("FOREBAY_EXE", None)
        folders = env["PATH"].split(os.pathsep)
        env["PATH"] = os.pathsep.join(f for f in folders if not Path(f, "forebay").exists())
        return env

    def start_ready(self, program: Path, *words: str | Path) -> subprocess.Popen[str]:
        """Starts a program here that says when it is ready; it has said so when this returns."""
        process = self.start(program, *words)
        hear(process, "ready")
        return process

    def serve_axpy(self, folder: Path) -> None:
        """Serves the service that the guide begins with."""
        page = (ROOT / "docs" / "guide" / "calls.md").read_text()
        service = re.search(r"^```python\n(# axpy\.py\n.*?)^```$", page, re.S | re.M)
        assert service is not None
        (folder / "axpy.py").write_text(service[1])
        env = {**self.env, "FOREBAY_PYTHON": sys.executable}
        self.start(self.kit.prefix / "bin" / "forebay", "serve", folder / "axpy.py", env=env)

    def run(
        self,
        program: Path,
        *words: str | Path,
        under: tuple[str, ...] = (),
        timeout: float = 90,
        **variables: str,
    ) -> str:
        """Runs a program here to its end, well; returns what it printed."""
        process = self.start(*under, program, *words, env={**self.env, **variables})
        return ended(process, timeout=timeout)[0]
