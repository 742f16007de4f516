"""What a library prints: it comes to who called it, and goes where the output of its server goes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from conftest import Place
from libraries import client_at, compiled

PRINTS = r"""
#include <stdint.h>
#include <stdio.h>
extern void xerbla_(const char *name, const int32_t *argument, size_t length);
void says_(const int32_t *lines)
{
    const int32_t argument = 1;
    for (int32_t i = 0; i < *lines; i++) printf("line %d\n", i);
    fprintf(stderr, "after %d lines\n", *lines);
    xerbla_("SAYS  ", &argument, 6);
}
void ends_badly_(const int32_t *n, double *twice, int32_t *info)
{
    fprintf(stderr, "%d is too much\n", *n);
    for (int32_t i = 0; i < *n; i++) twice[i] = 2 * i;
    *info = *n > 2 ? -1 : 0;
}
void dies_(void)
{
    printf("not the last words\n");
    fprintf(stderr, "the last words\n");
    *(volatile int *)8 = 1;
}
"""

PRINTS_IN_FORTRAN = """
subroutine tells(lines)
  integer :: lines, i
  external :: xerbla
  do i = 1, lines
    print '(a, i0)', 'line ', i
  end do
  call xerbla('TELLS ', 1)
end subroutine tells
"""


def test_what_a_routine_has_printed_comes_to_who_called_it_and_goes_on(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(tmp_path, PRINTS)
    (tmp_path / "tells.f90").write_text(PRINTS_IN_FORTRAN)
    library = tmp_path / "libtells.so"
    subprocess.run(
        ["gfortran", "-shared", "-fPIC", tmp_path / "tells.f90", "-o", library], check=True, timeout=60
    )
    head = 'fbi 1\nset symbol "%s_"\nset convention fortran\n'
    (tmp_path / "own.fbi").write_text(
        f'{head}set library "./libown.so"\nsays(lines:i32) xerbla\ndies()\n'
        "ends_badly(n:i32, out twice:f64[n], out info:i32 status)\n"
    )
    (tmp_path / "tells.fbi").write_text(f'{head}set library "./libtells.so"\ntells(lines:i32) xerbla\n')
    served = [
        place.forebay("serve", "--idl", name, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for name in ("own.fbi", "tells.fbi")
    ]
    client = client_at(place, monkeypatch)
    for _ in range(3):
        call = client.call_async("says", 2)
        with pytest.raises(fb.RemoteError) as raised:
            call.wait()
        assert (call.stdout, call.stderr) == ("line 0\nline 1\n", "after 2 lines\n")
        assert (raised.value.stdout, raised.value.stderr) == (call.stdout, call.stderr)
        assert call.output_others == raised.value.output_others == 0
        with pytest.raises(fb.RemoteError) as raised:
            client.call("tells", 2)
        assert (raised.value.stdout, raised.value.output_others) == ("line 1\nline 2\n", 0)
    tasks = list(client.map("says", [0, 1], errors="yield", window=1))
    assert [task.stderr for task in tasks] == ["after 0 lines\n", "after 1 lines\n"]
    # A status that is not 0 brings them, too, and the results as they are; one that is 0 brings none.
    twice = np.zeros(3)
    for _ in range(3):
        call = client.call_async("ends_badly", 3, twice)
        with pytest.raises(fb.RemoteError, match="its status info is -1") as raised:
            call.wait()
        assert (call.stderr, raised.value.stderr) == ("3 is too much\n", "3 is too much\n")
        with pytest.raises(fb.RemoteError) as raised:
            client.call("ends_badly", 3, twice)
        assert (raised.value.stderr, raised.value.info) == ("3 is too much\n", -1)
        assert twice.tolist() == [0.0, 2.0, 4.0]
        call = client.call_async("ends_badly", 2, twice[:2])
        assert (call.wait(), call.stderr) == (0, "")
    (task,) = client.map("ends_badly", [4], errors="yield")
    assert (task.stderr, task.info) == ("4 is too much\n", -1)
    with pytest.raises(
        (fb.ServerLost, fb.Poisoned),
        match=r"(?s)SIGSEGV in dies; at last it wrote to standard error:\n.*the last words",
    ):
        client.call("dies")
    for process in served:
        process.terminate()
    (out, err), (told, _) = [process.communicate(timeout=20) for process in served]
    # The call went to each life of the process, until the routine was withdrawn.
    assert out.splitlines() == [*["line 0", "line 1"] * 3, "line 0", *["not the last words"] * 3]
    assert err.splitlines().count("the last words") == 3
    assert told.splitlines() == ["line 1", "line 2"] * 3


def test_a_task_that_was_running_on_all_servers_that_died_says_so_when_none_is_left(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dies.py").write_text(
        """
import os, signal, sys
import forebay as fb

@fb.service("in n:i32, out m:i32")
def dies(n):
    if n == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return n
"""
    )
    for _ in range(2):
        place.forebay("serve", tmp_path / "dies.py")
    client = client_at(place, monkeypatch)
    assert client.call("dies", 0) == 0
    client.patience(1)
    tasks = list(client.map("dies", [0, 1], errors="yield"))
    assert tasks[0] == 0
    assert isinstance(tasks[1], fb.NoServer)
    assert "2 servers died while this task was running there" in str(tasks[1])
