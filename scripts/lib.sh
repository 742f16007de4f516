# What all scripts share: where we are, which tools come first, how we speak.
# Sourced, never run.

set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="$ROOT/.venv"
TARGET="${CARGO_TARGET_DIR:-$ROOT/target}"
cd "$ROOT"

# The tools of .venv come first: its cmake is new enough for HDF5 where the system's is not.
export PATH="$VENV/bin:$PATH"
# One interpreter for every build of the Python module, so that cargo and maturin
# do not build it in turns for two.
export PYO3_PYTHON="${PYO3_PYTHON:-$VENV/bin/python}"

say() { printf '%s\n' "$*"; }
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    [ $# -eq 0 ] || printf '       %s\n' "$@" >&2
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# compiles HEADER COMPILER [FLAG ...]: whether there is that compiler, and it finds the header.
compiles() { have "$2" && echo "#include <$1>" | "$2" -fsyntax-only -x c "${@:3}" - >/dev/null 2>&1; }

# mpi_of: the compilers of MPI for C and Fortran, and the launcher that belongs to them.
mpi_of() {
    local kind
    for kind in .openmpi .mpich ""; do
        if have "mpiexec$kind" && compiles mpi.h "mpicc$kind"; then
            echo "mpicc$kind" "mpifort$kind" "mpiexec$kind"
            return 0
        fi
    done
    return 1
}

# at_least 3.10.2 3.10: whether the first version is not older than the second.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# A command that may take long: silent when it goes well, its words shown when not.
quietly() {
    local what="$1" log
    shift
    log="$(mktemp)"
    if ! "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        rm -f "$log"
        die "$what did not work: $*" "the last lines above say why"
    fi
    rm -f "$log"
}
