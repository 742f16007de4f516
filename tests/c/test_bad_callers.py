"""Bad callers: NULL in the place of everything, foreign pointers, handles of another kind, and handles freed
before, for every function of the header. Never an abort; always an error with a text."""

from __future__ import annotations

from pathlib import Path

from kit import SANITIZERS, Home, Kit, functions

HANDLE_KINDS = [
    "run",
    "snapshot",
    "table",
    "rows",
    "diagram",
    "client",
    "future",
    "bag",
    "group",
    "ref",
    "server",
    "request",
]
# Functions for which NULL is nothing, or which have nothing that could be wrong.
TAKES_NULL = {
    "fb_run_close",
    "fb_run_close_unfinished",
    "fb_snapshot_free",
    "fb_table_free",
    "fb_rows_free",
    "fb_diagram_free",
    "fb_disconnect",
    "fb_future_free",
    "fb_bag_free",
    "fb_ref_kill",
    "fb_server_free",
    "fb_free",
    # Of no futures all are complete, and none is to be given up.
    "fb_wait_all",
    "fb_cancel_all",
}
TEXTS = {"fb_version", "fb_last_error", "fb_status_name", "fb_status_remedy"}

HEAD = r"""
#include "check.h"

static int failures;

static void expect(const char *what, int status, int wanted)
{
    const char *text = fb_last_error();
    /* fb_step tells its failure as a negative number. */
    if (status < 0) status = -status;
    if (wanted >= 0 ? status == wanted : status != FB_OK) {
        if (status == FB_OK) return;
        if (text[0] != 0 && fb_status_name((fb_status)status) != NULL && !speaks_python(text)) return;
    }
    fprintf(stderr, "%s gave %d (%s), wanted %d\n", what, status, text, wanted);
    failures += 1;
}

"""


def zero(parameter: str) -> str:
    """NULL, or zero, for a parameter."""
    if "*" in parameter:
        return "NULL"
    kind = parameter.rsplit(" ", 1)[0]
    return f"({kind}){{ 0 }}" if kind == "fb_object" else f"({kind})0"


def handle_of(parameter: str) -> str | None:
    """The kind of handle that a parameter takes."""
    words = parameter.replace("*", " * ").split()
    is_handle = len(words) == 3 and words[1] == "*" and words[0].removeprefix("fb_") in HANDLE_KINDS
    return words[0] if is_handle else None


def given_as(parameter: str) -> list[tuple[str, str]]:
    """The kinds of handles that a first parameter takes, each with how one is given there."""
    if parameter == "fb_object of":
        return [("fb_run", "fb_of_run({})"), ("fb_snapshot", 'fb_of_array({}, "a")')]
    kind = handle_of(parameter)
    return [] if kind is None else [(kind, "{}")]


def program(handles: str) -> str:
    """A program that calls every function with NULL, and each that takes a handle with bad ones."""
    lines = []
    for name, parameters in functions().items():
        if name in TEXTS:
            continue
        nothing = [zero(p) for p in parameters]
        wanted = "FB_OK" if name in TAKES_NULL else "-1"
        if name not in ("fb_connect", "fb_server_create"):  # their NULL makes one; below
            lines.append(f'expect("{name} of NULL", {name}({", ".join(nothing)}), {wanted});')
        for kind, given in given_as(parameters[0]) if parameters else []:
            for what, bad, status in (
                ("a foreign pointer", f"({kind} *)&place", "FB_BAD_ARGUMENT"),
                ("a small number", f"({kind} *)(intptr_t)7", "FB_BAD_ARGUMENT"),
                (
                    "another kind",
                    f"({kind} *)(void *){'run' if kind != 'fb_run' else 'table'}",
                    "FB_BAD_ARGUMENT",
                ),
                ("a freed handle", f"({kind} *)(void *)freed_{kind}", "FB_CLOSED"),
            ):
                if kind == "fb_request":
                    status = "FB_CLOSED"
                arguments = ", ".join([given.format(bad), *nothing[1:]])
                lines.append(f'expect("{name} of {what}", {name}({arguments}), {status});')
    return HEAD + f"int main(int argc, char **argv)\n{{\n{handles}\n    " + "\n    ".join(lines) + TAIL


HANDLES = r"""
    CHECK(argc == 2);
    double place[4] = { 0 };
    const fb_column column = { .name = "a", .dtype = FB_F64 };
    fb_run *run = NULL, *freed_fb_run = NULL;
    fb_snapshot *freed_fb_snapshot = NULL;
    fb_table *table = NULL, *freed_fb_table = NULL;
    fb_rows *freed_fb_rows = NULL;
    fb_diagram *freed_fb_diagram = NULL;
    fb_client *client = NULL, *freed_fb_client = NULL;
    fb_server *server = NULL, *freed_fb_server = NULL;
    fb_future *freed_fb_future = NULL;
    fb_ref *freed_fb_ref = NULL;
    fb_bag *freed_fb_bag = NULL;
    fb_group *freed_fb_group = NULL;
    fb_request *freed_fb_request = NULL;
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 4 << 20, .scratch = 1 };
    OK(fb_run_open(argv[1], "w", &opts, &freed_fb_run));
    OK(fb_run_close(freed_fb_run));
    OK(fb_run_open(argv[1], "w", &opts, &run));
    OK(fb_snapshot_begin(run, 0, 0, &freed_fb_snapshot));
    OK(fb_snapshot_free(freed_fb_snapshot));
    OK(fb_table_open(run, "t", &column, 1, NULL, &table));
    OK(fb_table_open(run, "t", NULL, 0, NULL, &freed_fb_table));
    OK(fb_table_free(freed_fb_table));
    OK(fb_sql(run, "select 1", NULL, 0, &freed_fb_rows));
    OK(fb_rows_free(freed_fb_rows));
    OK(fb_diagram_open(run, "d", NULL, &freed_fb_diagram));
    OK(fb_diagram_free(freed_fb_diagram));
    OK(fb_server_create(NULL, &server));
    OK(fb_service_register(server, "nothing(in a:f64)", nothing, &freed_fb_request));
    OK(fb_server_start(server));
    OK(fb_connect(NULL, &client));
    OK(fb_connect(NULL, &freed_fb_client));
    OK(fb_disconnect(freed_fb_client));
    const fb_arg one = FB_IN_F64(1);
    OK(fb_call_async(client, "nothing", &one, 1, &freed_fb_future));
    OK(fb_wait(freed_fb_future, FB_FOREVER));
    OK(fb_future_free(freed_fb_future));
    CHECK(freed_fb_request != NULL);
    OK(fb_bag_open(client, "nothing", NULL, &freed_fb_bag));
    OK(fb_bag_free(freed_fb_bag));
    OK(fb_group_begin(client, NULL, &freed_fb_group));
    OK(fb_group_end(freed_fb_group, FB_FOREVER, NULL));
    OK(fb_ref_create(client, FB_DENSE(NULL, FB_F64, 3), NULL, &freed_fb_ref));
    OK(fb_ref_kill(freed_fb_ref));
    OK(fb_server_create(NULL, &freed_fb_server));
    OK(fb_server_free(freed_fb_server));
    expect("fb_free of a foreign pointer", fb_free(place), FB_BAD_ARGUMENT);
    expect("fb_free of a handle", fb_free(run), FB_BAD_ARGUMENT);
    expect("fb_connect without a place", fb_connect(NULL, NULL), FB_BAD_ARGUMENT);
    expect("fb_server_create without a place", fb_server_create(NULL, NULL), FB_BAD_ARGUMENT);
"""

SERVICE = r"""
/* Keeps its request beyond its end, which it should not. */
static fb_status nothing(fb_request *request, void *user)
{
    *(fb_request **)user = request;
    return FB_OK;
}

"""

TAIL = r"""
    OK(fb_disconnect(client));
    OK(fb_server_free(server));
    OK(fb_run_close(run));
    NOTHING_IN_USE();
    if (failures == 0) puts("done");
    return failures != 0;
}
"""


def test_no_bad_caller_is_served_or_ends_the_program(kit: Kit, home: Home, tmp_path: Path) -> None:
    source = tmp_path / "bad_callers.c"
    source.write_text(program(HANDLES).replace("static int failures;", f"static int failures;\n{SERVICE}"))
    assert source.read_text().count("expect(") > 400
    run_path = tmp_path / "bad.fb"
    assert home.run(kit.compile(source), run_path) == "done\n"
    assert home.run(kit.compile(source, *SANITIZERS), run_path) == "done\n"
