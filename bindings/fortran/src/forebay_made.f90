! Generated from forebay.h by bindings/make.py; do not edit.
!
! The procedures that say in Fortran what the function says in C.

module forebay_made
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_places, only: fb_request
  use forebay_runs, only: described, fb_dataset, names_taken, numbers_taken
  use forebay_structures
  implicit none
  private
  public :: fb_run_close, fb_rank, fb_path, fb_is_read_only, fb_flush, fb_run_stats
  public :: fb_dataset_info, fb_delete, fb_rename, fb_copy
  public :: fb_snapshot_end, fb_snapshot_discard, fb_snapshot_wait, fb_snapshot_free
  public :: fb_snapshots, fb_snapshot_at, fb_snapshot_last, fb_pack, fb_checkpoint, fb_snapshot_step, &
        fb_snapshot_parameters, fb_snapshot_passed, fb_snapshot_names, fb_snapshot_info, fb_snapshot_stats, &
        fb_snapshot_dims, fb_snapshot_coords
  public :: fb_table_free, fb_tables, fb_table_count, fb_history
  public :: fb_rows_free, fb_rows_count, fb_rows_name, fb_rows_is_null
  public :: fb_ended_by, fb_finish, fb_monitor, fb_monitor_url, fb_diagram_free
  public :: fb_patience, fb_silence, fb_place_by, fb_disconnect, fb_services, fb_signature
  public :: fb_probe, fb_cancel, fb_call_output, fb_future_free
  public :: fb_group_cancel
  public :: fb_bag_end, fb_bag_output, fb_bag_state, fb_bag_counts, fb_bag_cancel, fb_bag_free
  public :: fb_ref_info, fb_ref_kill
  public :: fb_service_remove, fb_server_start, fb_server_stop, fb_serve, fb_load, fb_server_trouble, fb_server_free
  public :: fb_request_order, fb_request_cancelled, fb_request_signature, fb_request_count

contains

  ! --- runs ----------------------------------------------------------------------------------------

  !> Drains and closes a run, and frees it with its snapshots, tables and diagrams. When it fails the run is closed
  !> all the same and the text says what was lost, unless it can be tried again: then the handle stays good (fb_rank
  !> answers).
  subroutine fb_run_close(run, stat, errmsg)
    type(fb_run), intent(inout) :: run
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call give_back(run%at, stat, errmsg)
  end subroutine fb_run_close

  !> This rank and the number of ranks, 0 and 0 of a client.
  subroutine fb_rank(run, rank, ranks, stat, errmsg)
    type(fb_run), intent(in) :: run
    integer(c_int32_t), intent(inout), optional :: rank, ranks
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_rank(id(run%at), rank, ranks), stat, errmsg)
  end subroutine fb_rank

  !> The directory of the run, absolute.
  subroutine fb_path(run, path, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=:), allocatable, intent(inout) :: path
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: c_path
    integer(c_int) :: status
    c_path = c_null_ptr
    status = lib_path(id(run%at), c_path)
    if (status == FB_OK) call text_taken(c_path, path)
    call settle(status, stat, errmsg)
  end subroutine fb_path

  !> Whether the run is open for reading only.
  subroutine fb_is_read_only(run, read_only, stat, errmsg)
    type(fb_run), intent(in) :: run
    logical, intent(inout) :: read_only
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: c_read_only, status
    c_read_only = 0
    status = lib_is_read_only(id(run%at), c_read_only)
    if (status == FB_OK) read_only = c_read_only /= 0
    call settle(status, stat, errmsg)
  end subroutine fb_is_read_only

  !> Waits until everything put so far is durable; reports what could not be written.
  subroutine fb_flush(run, stat, errmsg)
    type(fb_run), intent(in) :: run
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_flush(id(run%at)), stat, errmsg)
  end subroutine fb_flush

  !> Figures of the run so far.
  subroutine fb_run_stats(run, stats, stat, errmsg)
    type(fb_run), intent(in) :: run
    type(fb_stats), intent(inout), target :: stats
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    stats%size = c_sizeof(stats)
    call settle(lib_run_stats(id(run%at), c_loc(stats)), stat, errmsg)
  end subroutine fb_run_stats

  ! --- data sets -----------------------------------------------------------------------------------

  !> Describes a data set.
  subroutine fb_dataset_info(run, name, info, set, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: name
    type(fb_dataset), intent(inout) :: info
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:)
    integer(c_int64_t) :: c_set
    type(lib_info_struct), target :: found
    integer(c_int) :: status
    c_set = 0
    status = whole(set, c_set)
    if (status == FB_OK) status = lib_dataset_info(id(run%at), text(name, c_name), c_set, c_loc(found))
    if (status == FB_OK) info = described(found)
    call settle(status, stat, errmsg)
  end subroutine fb_dataset_info

  !> Deletes the data sets whose names match a glob, of one set or FB_ALL_SETS; `count` gets how many.
  subroutine fb_delete(run, pattern, set, count, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: pattern
    class(*), intent(in), optional :: set
    integer(c_int64_t), intent(inout), optional :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_pattern(:)
    integer(c_int64_t) :: c_set
    integer(c_int) :: status
    c_set = FB_ALL_SETS
    status = whole(set, c_set)
    if (status == FB_OK) status = lib_delete(id(run%at), text(pattern, c_pattern), c_set, count)
    call settle(status, stat, errmsg)
  end subroutine fb_delete

  !> Renames a data set with all its sets; `count` gets how many.
  subroutine fb_rename(run, from, to, count, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: from, to
    integer(c_int64_t), intent(inout), optional :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_from(:), c_to(:)
    call settle(lib_rename(id(run%at), text(from, c_from), text(to, c_to), count), stat, errmsg)
  end subroutine fb_rename

  !> Copies a data set with all its sets; `count` gets how many.
  subroutine fb_copy(run, from, to, count, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: from, to
    integer(c_int64_t), intent(inout), optional :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_from(:), c_to(:)
    call settle(lib_copy(id(run%at), text(from, c_from), text(to, c_to), count), stat, errmsg)
  end subroutine fb_copy

  ! --- snapshots being taken -----------------------------------------------------------------------

  !> Ends the snapshot: it is buffered, that is, it survives the death of this process. Ending it twice does
  !> nothing; FB_CLOSED if it was discarded.
  subroutine fb_snapshot_end(snapshot, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_snapshot_end(id(snapshot%at)), stat, errmsg)
  end subroutine fb_snapshot_end

  !> Gives the snapshot up, as if it had never begun. After its end this does nothing.
  subroutine fb_snapshot_discard(snapshot, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_snapshot_discard(id(snapshot%at)), stat, errmsg)
  end subroutine fb_snapshot_discard

  !> Waits until the ended snapshot is durable on all ranks; FB_TIMEOUT after `timeout` seconds (FB_FOREVER: no
  !> limit).
  subroutine fb_snapshot_wait(snapshot, timeout, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_snapshot_wait(id(snapshot%at), limit_of(timeout)), stat, errmsg)
  end subroutine fb_snapshot_wait

  !> Frees a snapshot's handle; one that is not ended is discarded.
  subroutine fb_snapshot_free(snapshot, stat, errmsg)
    type(fb_snapshot), intent(inout) :: snapshot
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call give_back(snapshot%at, stat, errmsg)
  end subroutine fb_snapshot_free

  ! --- complete snapshots --------------------------------------------------------------------------

  !> The numbers of the complete snapshots, ascending. A single rank sees all that it ended (this waits for the
  !> disk); of several ranks, what is durable.
  subroutine fb_snapshots(run, steps, stat, errmsg)
    type(fb_run), intent(in) :: run
    integer(c_int64_t), allocatable, intent(inout) :: steps(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: count
    type(c_ptr) :: where
    integer(c_int) :: status
    where = c_null_ptr
    count = 0
    status = lib_snapshots(id(run%at), where, count)
    if (status == FB_OK) status = numbers_taken(where, count, steps)
    call settle(status, stat, errmsg)
  end subroutine fb_snapshots

  !> The complete snapshot of a step; FB_NOT_FOUND names the nearest ones.
  subroutine fb_snapshot_at(run, step, snapshot, stat, errmsg)
    type(fb_run), intent(in) :: run
    class(*), intent(in) :: step
    type(fb_snapshot), intent(inout) :: snapshot
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: c_step
    type(c_ptr) :: made
    integer(c_int) :: status
    made = c_null_ptr
    status = whole(step, c_step)
    if (status == FB_OK) status = lib_snapshot_at(id(run%at), c_step, made)
    if (status == FB_OK) call hold(snapshot%at, A_SNAPSHOT, made)
    call settle(status, stat, errmsg)
  end subroutine fb_snapshot_at

  !> The last complete snapshot; fb_is_there tells whether there is one.
  subroutine fb_snapshot_last(run, snapshot, stat, errmsg)
    type(fb_run), intent(in) :: run
    type(fb_snapshot), intent(inout) :: snapshot
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: made
    integer(c_int) :: status
    made = c_null_ptr
    status = lib_snapshot_last(id(run%at), made)
    if (status == FB_OK) call hold(snapshot%at, A_SNAPSHOT, made)
    call settle(status, stat, errmsg)
  end subroutine fb_snapshot_last

  !> Puts complete snapshots from `first` to `last` together, both among them (INT64_MIN and INT64_MAX: all), as far
  !> as they can be: small ones of one layout that follow each other become one file of stacked arrays. They are
  !> read, listed and restarted from as before. `packed` gets how many lie in packs now that did not before.
  !> `single` gets how many stay in files of their own; `forebay pack` says why. FB_FULL when the disk has no room
  !> for both, with nothing lost.
  subroutine fb_pack(run, first, last, packed, single, stat, errmsg)
    type(fb_run), intent(in) :: run
    class(*), intent(in) :: first, last
    integer(c_int64_t), intent(inout), optional :: packed, single
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: c_first, c_last
    integer(c_int) :: status
    status = whole(first, c_first)
    if (status == FB_OK) status = whole(last, c_last)
    if (status == FB_OK) status = lib_pack(id(run%at), c_first, c_last, packed, single)
    call settle(status, stat, errmsg)
  end subroutine fb_pack

  !> Marks the last ended step as a restart point under a tag (without it: none); `step` gets its number.
  subroutine fb_checkpoint(run, tag, step, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in), optional :: tag
    integer(c_int64_t), intent(inout), optional :: step
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_tag(:)
    call settle(lib_checkpoint(id(run%at), text(tag, c_tag), step), stat, errmsg)
  end subroutine fb_checkpoint

  !> Number, time and size of a complete snapshot.
  subroutine fb_snapshot_step(snapshot, info, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    type(fb_step_info), intent(inout), target :: info
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    info%size = c_sizeof(info)
    call settle(lib_snapshot_step(id(snapshot%at), c_loc(info)), stat, errmsg)
  end subroutine fb_snapshot_step

  !> The values of the parameters when it was taken, as a JSON object.
  subroutine fb_snapshot_parameters(snapshot, json, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=:), allocatable, intent(inout) :: json
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: c_json
    integer(c_int) :: status
    c_json = c_null_ptr
    status = lib_snapshot_parameters(id(snapshot%at), c_json)
    if (status == FB_OK) call text_taken(c_json, json)
    call settle(status, stat, errmsg)
  end subroutine fb_snapshot_parameters

  !> The numbers of the damaged snapshots that fb_restart passed over to come to this one.
  subroutine fb_snapshot_passed(snapshot, steps, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    integer(c_int64_t), allocatable, intent(inout) :: steps(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: count
    type(c_ptr) :: where
    integer(c_int) :: status
    where = c_null_ptr
    count = 0
    status = lib_snapshot_passed(id(snapshot%at), where, count)
    if (status == FB_OK) status = numbers_taken(where, count, steps)
    call settle(status, stat, errmsg)
  end subroutine fb_snapshot_passed

  !> The names of its arrays.
  subroutine fb_snapshot_names(snapshot, names, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), allocatable, intent(inout) :: names(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: count
    type(c_ptr) :: where
    integer(c_int) :: status
    where = c_null_ptr
    count = 0
    status = lib_snapshot_names(id(snapshot%at), where, count)
    if (status == FB_OK) status = names_taken(where, count, names)
    call settle(status, stat, errmsg)
  end subroutine fb_snapshot_names

  !> Describes one of its arrays.
  subroutine fb_snapshot_info(snapshot, name, info, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: name
    type(fb_dataset), intent(inout) :: info
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:)
    type(lib_info_struct), target :: found
    integer(c_int) :: status
    status = lib_snapshot_info(id(snapshot%at), text(name, c_name), c_loc(found))
    if (status == FB_OK) info = described(found)
    call settle(status, stat, errmsg)
  end subroutine fb_snapshot_info

  !> The least, the greatest and the mean value of one of its arrays, without reading it: they were counted when it
  !> was written. FB_NOT_FOUND of truth values, texts and bytes, and in snapshots of earlier versions.
  subroutine fb_snapshot_stats(snapshot, name, stats, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: name
    type(fb_array_stats), intent(inout), target :: stats
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:)
    stats%size = c_sizeof(stats)
    call settle(lib_snapshot_stats(id(snapshot%at), text(name, c_name), c_loc(stats)), stat, errmsg)
  end subroutine fb_snapshot_stats

  !> The names of the axes of one of its arrays, in the order of the indices; none when they have no names.
  subroutine fb_snapshot_dims(snapshot, name, dims, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: name
    character(len=*), allocatable, intent(inout) :: dims(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:)
    integer(c_int64_t) :: count
    type(c_ptr) :: where
    integer(c_int) :: status
    where = c_null_ptr
    count = 0
    status = lib_snapshot_dims(id(snapshot%at), text(name, c_name), where, count)
    if (status == FB_OK) status = names_taken(where, count, dims)
    call settle(status, stat, errmsg)
  end subroutine fb_snapshot_dims

  !> The coordinates of one of its arrays, one for each axis that has a name: the names of the arrays that hold
  !> them, which fb_snapshot_info and fb_snapshot_get take; "" where an axis has none.
  subroutine fb_snapshot_coords(snapshot, name, coords, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: name
    character(len=*), allocatable, intent(inout) :: coords(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:)
    integer(c_int64_t) :: count
    type(c_ptr) :: where
    integer(c_int) :: status
    where = c_null_ptr
    count = 0
    status = lib_snapshot_coords(id(snapshot%at), text(name, c_name), where, count)
    if (status == FB_OK) status = names_taken(where, count, coords)
    call settle(status, stat, errmsg)
  end subroutine fb_snapshot_coords

  ! --- tables --------------------------------------------------------------------------------------

  !> Frees the handle; the table stays in the run.
  subroutine fb_table_free(table, stat, errmsg)
    type(fb_table), intent(inout) :: table
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call give_back(table%at, stat, errmsg)
  end subroutine fb_table_free

  !> The names of the run's tables.
  subroutine fb_tables(run, names, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), allocatable, intent(inout) :: names(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: count
    type(c_ptr) :: where
    integer(c_int) :: status
    where = c_null_ptr
    count = 0
    status = lib_tables(id(run%at), where, count)
    if (status == FB_OK) status = names_taken(where, count, names)
    call settle(status, stat, errmsg)
  end subroutine fb_tables

  !> The number of rows.
  subroutine fb_table_count(table, count, stat, errmsg)
    type(fb_table), intent(in) :: table
    integer(c_int64_t), intent(inout) :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_table_count(id(table%at), count), stat, errmsg)
  end subroutine fb_table_count

  !> Reads the points of a history: the columns step and t, and one for each curve, NaN where it has no point at
  !> that step and t.
  subroutine fb_history(run, title, rows, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: title
    type(fb_rows), intent(inout) :: rows
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_title(:)
    type(c_ptr) :: made
    integer(c_int) :: status
    made = c_null_ptr
    status = lib_history(id(run%at), text(title, c_title), made)
    if (status == FB_OK) call hold(rows%at, OF_ROWS, made)
    call settle(status, stat, errmsg)
  end subroutine fb_history

  ! --- rows of a query -----------------------------------------------------------------------------

  !> Frees rows.
  subroutine fb_rows_free(rows, stat, errmsg)
    type(fb_rows), intent(inout) :: rows
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call give_back(rows%at, stat, errmsg)
  end subroutine fb_rows_free

  !> The number of rows and of columns.
  subroutine fb_rows_count(rows, nrows, ncolumns, stat, errmsg)
    type(fb_rows), intent(in) :: rows
    integer(c_int64_t), intent(inout), optional :: nrows
    integer, intent(inout), optional :: ncolumns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_rows_count(id(rows%at), nrows, ncolumns), stat, errmsg)
  end subroutine fb_rows_count

  !> The name of a column, counted from 1.
  subroutine fb_rows_name(rows, column, name, stat, errmsg)
    type(fb_rows), intent(in) :: rows
    integer, intent(in) :: column
    character(len=:), allocatable, intent(inout) :: name
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr), target :: c_name
    integer(c_int) :: status
    c_name = c_null_ptr
    status = lib_rows_name(id(rows%at), column - 1, c_loc(c_name))
    if (status == FB_OK) name = text_from(c_name)
    call settle(status, stat, errmsg)
  end subroutine fb_rows_name

  !> Whether a cell has no value. A NaN has none.
  subroutine fb_rows_is_null(rows, row, column, is_null, stat, errmsg)
    type(fb_rows), intent(in) :: rows
    class(*), intent(in) :: row
    integer, intent(in) :: column
    logical, intent(inout) :: is_null
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: c_row
    integer(c_int) :: c_is_null, status
    c_is_null = 0
    status = whole(row, c_row)
    if (status == FB_OK) status = lib_rows_is_null(id(rows%at), c_row - 1, column - 1, c_is_null)
    if (status == FB_OK) is_null = c_is_null /= 0
    call settle(status, stat, errmsg)
  end subroutine fb_rows_is_null

  ! --- watching and steering -----------------------------------------------------------------------

  !> Why the loop was ended before its last step: "quit", "SIGTERM", "time limit", or the reason given to `forebay
  !> steer RUN end`; `why` is empty when it was not.
  subroutine fb_ended_by(run, why, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=:), allocatable, intent(inout) :: why
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: c_why
    integer(c_int) :: status
    c_why = c_null_ptr
    status = lib_ended_by(id(run%at), c_why)
    if (status == FB_OK) call text_taken(c_why, why)
    call settle(status, stat, errmsg)
  end subroutine fb_ended_by

  !> The loop ends at its next head, as if that were its last one: for a loop without an end, or one that has
  !> converged. Call it in all ranks at the same step. FB_CONFLICT when no loop is under way.
  subroutine fb_finish(run, stat, errmsg)
    type(fb_run), intent(in) :: run
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_finish(id(run%at)), stat, errmsg)
  end subroutine fb_finish

  !> Starts the run's page if it is not there. Gives the link of who may steer and of who may only look.
  subroutine fb_monitor(run, operator_url, viewer_url, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=:), allocatable, intent(inout), optional :: operator_url, viewer_url
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: c_operator_url, c_viewer_url
    integer(c_int) :: status
    c_operator_url = c_null_ptr
    c_viewer_url = c_null_ptr
    status = lib_monitor(id(run%at), c_operator_url, c_viewer_url)
    if (status == FB_OK .and. present(operator_url)) call text_taken(c_operator_url, operator_url)
    if (status == FB_OK .and. .not. present(operator_url)) status = lib_free(c_operator_url)
    if (status == FB_OK .and. present(viewer_url)) call text_taken(c_viewer_url, viewer_url)
    if (status == FB_OK .and. .not. present(viewer_url)) status = lib_free(c_viewer_url)
    call settle(status, stat, errmsg)
  end subroutine fb_monitor

  !> The link that a program prints: the one of who may steer when standard output is a terminal, otherwise the one
  !> of who may only look, for what is printed may stand in a log that others read. Starts the page if it is not
  !> there.
  subroutine fb_monitor_url(run, url, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=:), allocatable, intent(inout) :: url
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: c_url
    integer(c_int) :: status
    c_url = c_null_ptr
    status = lib_monitor_url(id(run%at), c_url)
    if (status == FB_OK) call text_taken(c_url, url)
    call settle(status, stat, errmsg)
  end subroutine fb_monitor_url

  !> Frees the handle; the diagram stays.
  subroutine fb_diagram_free(diagram, stat, errmsg)
    type(fb_diagram), intent(inout) :: diagram
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call give_back(diagram%at, stat, errmsg)
  end subroutine fb_diagram_free

  ! --- calls ---------------------------------------------------------------------------------------

  !> For how many seconds each call of the client waits for a service that nobody offers yet, and an array for a
  !> server to hold it; 0: not at all, FB_FOREVER: as long as it takes; at first as FOREBAY_PATIENCE says, 0 without
  !> it. For programs that are started before their servers.
  subroutine fb_patience(client, seconds, stat, errmsg)
    type(fb_client), intent(in) :: client
    real(c_double), intent(in) :: seconds
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_patience(id(client%at), seconds), stat, errmsg)
  end subroutine fb_patience

  !> For how many seconds, from 1 to 3600, a server on another host may say nothing before it is lost and its calls
  !> go elsewhere; of the servers that the client reaches from now on; as FOREBAY_SILENCE says, or 10, if not said.
  !> One that computes, or receives what is sent to it, says once a second that it lives.
  subroutine fb_silence(client, seconds, stat, errmsg)
    type(fb_client), intent(in) :: client
    real(c_double), intent(in) :: seconds
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_silence(id(client%at), seconds), stat, errmsg)
  end subroutine fb_silence

  !> Which server gets a call is decided by that rule: "least" (the default), where the call is over first, by what
  !> is known of how long calls of that size take there and of what is there already; "turns", each server in turn,
  !> whatever it has to do. Once a client, FB_CONFLICT after that; fb_place_with gives a function.
  subroutine fb_place_by(client, rule, stat, errmsg)
    type(fb_client), intent(in) :: client
    character(len=*), intent(in) :: rule
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_rule(:)
    call settle(lib_place_by(id(client%at), text(rule, c_rule)), stat, errmsg)
  end subroutine fb_place_by

  !> Closes a client: its calls under way end with FB_CLOSED, whichever thread waits for them, and the arrays that
  !> servers hold for it are freed; what is left of both is to be freed still, which takes no time. One that fb_on
  !> made ends alone, and with the client that it was made of. FB_BAD_ARGUMENT in a function that is told the end of
  !> a call.
  subroutine fb_disconnect(client, stat, errmsg)
    type(fb_client), intent(inout) :: client
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call give_back(client%at, stat, errmsg)
  end subroutine fb_disconnect

  !> The signatures of the services that are offered, by name, such as "axpy(in a:f64, in x:f64[n], inout
  !> y:f64[n])".
  subroutine fb_services(client, signatures, stat, errmsg)
    type(fb_client), intent(in) :: client
    character(len=*), allocatable, intent(inout) :: signatures(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: count
    type(c_ptr) :: where
    integer(c_int) :: status
    where = c_null_ptr
    count = 0
    status = lib_services(id(client%at), where, count)
    if (status == FB_OK) status = names_taken(where, count, signatures)
    call settle(status, stat, errmsg)
  end subroutine fb_services

  !> The signature of a service.
  subroutine fb_signature(client, service, signature, stat, errmsg)
    type(fb_client), intent(in) :: client
    character(len=*), intent(in) :: service
    character(len=:), allocatable, intent(inout) :: signature
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_service(:)
    type(c_ptr) :: c_signature
    integer(c_int) :: status
    c_signature = c_null_ptr
    status = lib_signature(id(client%at), text(service, c_service), c_signature)
    if (status == FB_OK) call text_taken(c_signature, signature)
    call settle(status, stat, errmsg)
  end subroutine fb_signature

  ! --- calls under way -----------------------------------------------------------------------------

  !> Whether a call is complete, without waiting, in any thread. fb_wait then writes its results.
  subroutine fb_probe(future, done, stat, errmsg)
    type(fb_future), intent(in) :: future
    logical, intent(inout) :: done
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: c_done, status
    c_done = 0
    status = lib_probe(id(future%at), c_done)
    if (status == FB_OK) done = c_done /= 0
    call settle(status, stat, errmsg)
  end subroutine fb_probe

  !> Gives a call up: it is not begun any more, and a running service may notice. Waiting for it gives FB_CANCELLED,
  !> unless it was complete before; a thread that waits just now is told soon.
  subroutine fb_cancel(future, stat, errmsg)
    type(fb_future), intent(in) :: future
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_cancel(id(future%at)), stat, errmsg)
  end subroutine fb_cancel

  !> What the service of a call that has failed, or whose status is not 0, printed to `stream`, FB_STDOUT or
  !> FB_STDERR: the last 20 lines, of 4,096 bytes at most. `words` gets them, or an empty text. Servers in Python
  !> bring them, those of `forebay serve --idl`, and those made with `output` in fb_server_opts. What is printed
  !> belongs to the server's process: `others` gets how many other calls may have printed some of it, 0 if all is
  !> this call's.
  subroutine fb_call_output(future, stream, words, others, stat, errmsg)
    type(fb_future), intent(in) :: future
    integer, intent(in) :: stream
    character(len=:), allocatable, intent(inout) :: words
    integer(c_int64_t), intent(inout), optional :: others
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: c_words
    integer(c_int) :: status
    c_words = c_null_ptr
    status = lib_call_output(id(future%at), stream, c_words, others)
    if (status == FB_OK) call text_taken(c_words, words)
    call settle(status, stat, errmsg)
  end subroutine fb_call_output

  !> Frees a call; one that is not complete is cancelled, but for one of a group, which is the group's. A function
  !> that is told of its end just now is waited for, unless it is its own thread that frees; none is told any more.
  subroutine fb_future_free(future, stat, errmsg)
    type(fb_future), intent(inout) :: future
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call give_back(future%at, stat, errmsg)
  end subroutine fb_future_free

  ! --- calls that run at the same time -------------------------------------------------------------

  !> Gives up what is not complete of a group's calls, and of those of groups within it; no more calls are made in
  !> it. It is ended by fb_group_end still, which takes no time then and tells FB_CANCELLED if nothing failed
  !> before.
  subroutine fb_group_cancel(group, stat, errmsg)
    type(fb_group), intent(in) :: group
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_group_cancel(id(group%at)), stat, errmsg)
  end subroutine fb_group_cancel

  ! --- many calls of one service -------------------------------------------------------------------

  !> There are no more tasks; saying it again is nothing.
  subroutine fb_bag_end(bag, stat, errmsg)
    type(fb_bag), intent(in) :: bag
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_bag_end(id(bag%at)), stat, errmsg)
  end subroutine fb_bag_end

  !> What the service printed to `stream` in the task that was handed out last, by fb_bag_next or to the function of
  !> fb_bag_run, if that has failed: as fb_call_output.
  subroutine fb_bag_output(bag, stream, words, others, stat, errmsg)
    type(fb_bag), intent(in) :: bag
    integer, intent(in) :: stream
    character(len=:), allocatable, intent(inout) :: words
    integer(c_int64_t), intent(inout), optional :: others
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: c_words
    integer(c_int) :: status
    c_words = c_null_ptr
    status = lib_bag_output(id(bag%at), stream, c_words, others)
    if (status == FB_OK) call text_taken(c_words, words)
    call settle(status, stat, errmsg)
  end subroutine fb_bag_output

  !> Where a task is: FB_TASK_OPEN, FB_TASK_DONE, FB_TASK_FAILED or FB_TASK_CANCELLED, in any thread. FB_NOT_FOUND
  !> when none of that number was added.
  subroutine fb_bag_state(bag, index, state, stat, errmsg)
    type(fb_bag), intent(in) :: bag
    class(*), intent(in) :: index
    integer, intent(inout) :: state
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: c_index
    integer(c_int) :: status
    status = whole(index, c_index)
    if (status == FB_OK) status = lib_bag_state(id(bag%at), c_index - 1, state)
    call settle(status, stat, errmsg)
  end subroutine fb_bag_state

  !> How many tasks are where, in any thread.
  subroutine fb_bag_counts(bag, totals, stat, errmsg)
    type(fb_bag), intent(in) :: bag
    type(fb_bag_totals), intent(inout), target :: totals
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    totals%size = c_sizeof(totals)
    call settle(lib_bag_counts(id(bag%at), c_loc(totals)), stat, errmsg)
  end subroutine fb_bag_counts

  !> Gives a task up, in any thread: unless it is over it is handed out with FB_CANCELLED, and is not begun any
  !> more. FB_NOT_FOUND when none of that number was added.
  subroutine fb_bag_cancel(bag, index, stat, errmsg)
    type(fb_bag), intent(in) :: bag
    class(*), intent(in) :: index
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: c_index
    integer(c_int) :: status
    status = whole(index, c_index)
    if (status == FB_OK) status = lib_bag_cancel(id(bag%at), c_index - 1)
    call settle(status, stat, errmsg)
  end subroutine fb_bag_cancel

  !> Frees a bag: tasks that are not over are given up, none begins any more, and what comes is the caller's again.
  !> A thread that waits for results is told FB_CLOSED.
  subroutine fb_bag_free(bag, stat, errmsg)
    type(fb_bag), intent(inout) :: bag
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call give_back(bag%at, stat, errmsg)
  end subroutine fb_bag_free

  ! --- references ----------------------------------------------------------------------------------

  !> Describes the array; its name is "".
  subroutine fb_ref_info(reference, info, stat, errmsg)
    type(fb_ref), intent(in) :: reference
    type(fb_dataset), intent(inout) :: info
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(lib_info_struct), target :: found
    integer(c_int) :: status
    status = lib_ref_info(id(reference%at), c_loc(found))
    if (status == FB_OK) info = described(found)
    call settle(status, stat, errmsg)
  end subroutine fb_ref_info

  !> Ends the array on its server and frees the handle. A call under way that uses it keeps it until it is complete.
  subroutine fb_ref_kill(reference, stat, errmsg)
    type(fb_ref), intent(inout) :: reference
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call give_back(reference%at, stat, errmsg)
  end subroutine fb_ref_kill

  ! --- servers -------------------------------------------------------------------------------------

  !> Offers a service of a running server no more.
  subroutine fb_service_remove(server, name, stat, errmsg)
    type(fb_server), intent(in) :: server
    character(len=*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:)
    call settle(lib_service_remove(id(server%at), text(name, c_name)), stat, errmsg)
  end subroutine fb_service_remove

  !> Starts a server: when it returns, clients of the broker find its services.
  subroutine fb_server_start(server, stat, errmsg)
    type(fb_server), intent(in) :: server
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_server_start(id(server%at)), stat, errmsg)
  end subroutine fb_server_start

  !> Stops a server: it leaves the broker and ends what it began. Stopping twice does nothing. FB_CONFLICT from
  !> within a service of its own.
  subroutine fb_server_stop(server, stat, errmsg)
    type(fb_server), intent(in) :: server
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_server_stop(id(server%at)), stat, errmsg)
  end subroutine fb_server_stop

  !> Starts a server if it does not run, and serves until fb_server_stop, SIGTERM or SIGINT; then it is stopped and
  !> FB_OK returned. Signals that the program handles itself stay with it.
  subroutine fb_serve(server, stat, errmsg)
    type(fb_server), intent(in) :: server
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_serve(id(server%at)), stat, errmsg)
  end subroutine fb_serve

  !> How busy a server is; all zero when it does not run.
  subroutine fb_load(server, load, stat, errmsg)
    type(fb_server), intent(in) :: server
    type(fb_server_load), intent(inout), target :: load
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    load%size = c_sizeof(load)
    call settle(lib_load(id(server%at), c_loc(load)), stat, errmsg)
  end subroutine fb_load

  !> The trouble that a running server has behind the scenes, such as a broker that does not answer: its status,
  !> with its text as this thread's last error. FB_OK while there is none.
  subroutine fb_server_trouble(server, stat, errmsg)
    type(fb_server), intent(in) :: server
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_server_trouble(id(server%at)), stat, errmsg)
  end subroutine fb_server_trouble

  !> Stops and frees a server.
  subroutine fb_server_free(server, stat, errmsg)
    type(fb_server), intent(inout) :: server
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call give_back(server%at, stat, errmsg)
  end subroutine fb_server_free

  ! --- calls as a service function sees them -------------------------------------------------------

  !> The order of an array parameter: FB_ROW_MAJOR or FB_COLUMN_MAJOR, as the caller has it.
  subroutine fb_request_order(request, index, order, stat, errmsg)
    type(fb_request), intent(in) :: request
    integer, intent(in) :: index
    integer, intent(inout) :: order
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_request_order(request%handle, index - 1, order), stat, errmsg)
  end subroutine fb_request_order

  !> Whether the caller gave up: long services look now and then, and return.
  subroutine fb_request_cancelled(request, cancelled, stat, errmsg)
    type(fb_request), intent(in) :: request
    logical, intent(inout) :: cancelled
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: c_cancelled, status
    c_cancelled = 0
    status = lib_request_cancelled(request%handle, c_cancelled)
    if (status == FB_OK) cancelled = c_cancelled /= 0
    call settle(status, stat, errmsg)
  end subroutine fb_request_cancelled

  !> The signature of what was called.
  subroutine fb_request_signature(request, signature, stat, errmsg)
    type(fb_request), intent(in) :: request
    character(len=:), allocatable, intent(inout) :: signature
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr), target :: c_signature
    integer(c_int) :: status
    c_signature = c_null_ptr
    status = lib_request_signature(request%handle, c_loc(c_signature))
    if (status == FB_OK) signature = text_from(c_signature)
    call settle(status, stat, errmsg)
  end subroutine fb_request_signature

  !> The number of parameters, results included.
  subroutine fb_request_count(request, count, stat, errmsg)
    type(fb_request), intent(in) :: request
    integer, intent(inout) :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_request_count(request%handle, count), stat, errmsg)
  end subroutine fb_request_count

end module forebay_made
