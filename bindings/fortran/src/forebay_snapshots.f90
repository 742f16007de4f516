!> Snapshots: begun, ended and waited for; complete ones found and described; restarts, checkpoints.

module forebay_snapshots
  use, intrinsic :: iso_c_binding
  use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_runs, only: described, fb_dataset, names_taken
  use forebay_structures
  implicit none
  private
  public :: fb_snapshot_begin, fb_snapshot_end, fb_snapshot_discard, fb_snapshot_wait, fb_snapshot_free
  public :: fb_snapshots, fb_snapshot_at, fb_snapshot_last, fb_restart, fb_restart_from, fb_checkpoint, fb_checkpoints
  public :: fb_drop, fb_snapshot_passed
  public :: fb_snapshot_step, fb_snapshot_parameters, fb_snapshot_names, fb_snapshot_info, refresh

  !> A step marked as restart point.
  type, public :: fb_checkpoint_info
    character(len=FB_NAME_ROOM - 1) :: tag = ''
    integer(c_int64_t) :: id = 0
    !> The checkpoint before, on the way the run took; 0: none.
    integer(c_int64_t) :: parent = 0
    integer(c_int64_t) :: step = 0
    !> Time of the step; NaN when none was given.
    real(c_double) :: time = 0
    !> Whether its step is in the run still.
    logical :: kept = .false.
  end type fb_checkpoint_info

contains

  !> Begins the snapshot of a step: the state after that many steps, which is what fb_step finds before it gives that
  !> step. One at a time in a run. `taken` is false when that state is kept already: then nothing is done.
  subroutine fb_snapshot_begin(run, step, snapshot, time, taken, stat, errmsg)
    type(fb_run), intent(in) :: run
    class(*), intent(in) :: step
    type(fb_snapshot), intent(inout) :: snapshot
    real(c_double), intent(in), optional :: time
    logical, intent(out), optional :: taken
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: number
    real(c_double) :: t
    type(c_ptr) :: made
    integer(c_int) :: status, is_taken
    is_taken = 0
    made = c_null_ptr
    t = ieee_value(t, ieee_quiet_nan)
    if (present(time)) t = time
    status = whole(step, number)
    if (status == FB_OK) status = lib_snapshot_begin(id(run%at), number, t, made)
    if (status == FB_OK) call hold(snapshot%at, A_SNAPSHOT, made)
    if (status == FB_OK) status = lib_snapshot_taken(made, is_taken)
    if (present(taken)) taken = is_taken /= 0
    call settle(status, stat, errmsg)
  end subroutine fb_snapshot_begin

  !> Ends the snapshot: it survives the death of this process.
  subroutine fb_snapshot_end(snapshot, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_snapshot_end(id(snapshot%at)), stat, errmsg)
  end subroutine fb_snapshot_end

  !> Gives the snapshot up, as if it had never begun.
  subroutine fb_snapshot_discard(snapshot, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_snapshot_discard(id(snapshot%at)), stat, errmsg)
  end subroutine fb_snapshot_discard

  !> Waits until the ended snapshot is durable on all ranks, at most `timeout` seconds.
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

  ! --- complete snapshots ---------------------------------------------------------------------------

  !> The numbers of the complete snapshots, ascending.
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
    call take_numbers(where, count, steps, status)
    call settle(status, stat, errmsg)
  end subroutine fb_snapshots

  !> Numbers that the library gave, unless it failed; its memory goes back.
  subroutine take_numbers(where, count, steps, status)
    type(c_ptr), intent(in) :: where
    integer(c_int64_t), intent(in) :: count
    integer(c_int64_t), allocatable, intent(inout) :: steps(:)
    integer(c_int), intent(inout) :: status
    integer(c_int64_t), pointer :: found(:)
    if (status /= FB_OK) return
    call c_f_pointer(where, found, [count])
    steps = found
    status = lib_free(where)
  end subroutine take_numbers

  !> The complete snapshot of a step.
  subroutine fb_snapshot_at(run, step, snapshot, stat, errmsg)
    type(fb_run), intent(in) :: run
    class(*), intent(in) :: step
    type(fb_snapshot), intent(inout) :: snapshot
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: number
    type(c_ptr) :: made
    integer(c_int) :: status
    made = c_null_ptr
    status = whole(step, number)
    if (status == FB_OK) status = lib_snapshot_at(id(run%at), number, made)
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

  !> Goes back to the last complete step; fb_is_there tells whether there is one, else begin at 0. Damaged snapshots are
  !> passed over (fb_snapshot_passed); when `strict` they are an error.
  subroutine fb_restart(run, snapshot, stat, errmsg, strict)
    type(fb_run), intent(in) :: run
    type(fb_snapshot), intent(inout) :: snapshot
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    logical, intent(in), optional :: strict
    logical :: is_strict
    type(c_ptr) :: made
    integer(c_int) :: status
    made = c_null_ptr
    is_strict = .false.
    if (present(strict)) is_strict = strict
    if (is_strict) then
      status = lib_restart_strict(id(run%at), made)
    else
      status = lib_restart(id(run%at), made)
    end if
    if (status == FB_OK) call hold(snapshot%at, A_SNAPSHOT, made)
    if (status == FB_OK) call refresh(run)
    call settle(status, stat, errmsg)
  end subroutine fb_restart

  !> The same to the step of a checkpoint.
  subroutine fb_restart_from(run, tag, snapshot, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: tag
    type(fb_snapshot), intent(inout) :: snapshot
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_tag(:)
    type(c_ptr) :: made
    integer(c_int) :: status
    made = c_null_ptr
    status = lib_restart_from(id(run%at), text(tag, c_tag), made)
    if (status == FB_OK) call hold(snapshot%at, A_SNAPSHOT, made)
    if (status == FB_OK) call refresh(run)
    call settle(status, stat, errmsg)
  end subroutine fb_restart_from

  !> The damaged snapshots that fb_restart passed over to come to this one.
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
    call take_numbers(where, count, steps, status)
    call settle(status, stat, errmsg)
  end subroutine fb_snapshot_passed

  !> Gives a complete snapshot up: it is listed no more, its file goes, and its number is free. `dropped` tells whether there
  !> was one. A rank that is to write the number again calls it, too.
  subroutine fb_drop(run, step, dropped, stat, errmsg)
    type(fb_run), intent(in) :: run
    class(*), intent(in) :: step
    logical, intent(out), optional :: dropped
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: number
    integer(c_int) :: status, there
    there = 0
    status = whole(step, number)
    if (status == FB_OK) status = lib_drop(id(run%at), number, there)
    if (present(dropped)) dropped = there /= 0
    call settle(status, stat, errmsg)
  end subroutine fb_drop

  !> Brings variables of the program that stand for parameters up to date.
  subroutine refresh(run)
    type(fb_run), intent(in) :: run
    type(attachments), pointer :: kept
    class(attachment), pointer :: one
    kept => kept_with(run%at)
    if (.not. associated(kept)) return
    one => kept%first
    do while (associated(one))
      call one%refresh()
      one => one%next
    end do
  end subroutine refresh

  !> Marks the last ended step as a restart point; `step` gets its number.
  subroutine fb_checkpoint(run, tag, step, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in), optional :: tag
    integer(c_int64_t), intent(inout), optional :: step
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_tag(:)
    call settle(lib_checkpoint(id(run%at), text(tag, c_tag), step), stat, errmsg)
  end subroutine fb_checkpoint

  !> The checkpoints, in the order they were made.
  subroutine fb_checkpoints(run, checkpoints, stat, errmsg)
    type(fb_run), intent(in) :: run
    type(fb_checkpoint_info), allocatable, intent(inout) :: checkpoints(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(lib_checkpoint_info_struct), pointer :: found(:)
    integer(c_int64_t) :: count, i
    type(c_ptr) :: where
    integer(c_int) :: status
    where = c_null_ptr
    count = 0
    status = lib_checkpoints(id(run%at), where, count)
    if (status == FB_OK) then
      if (allocated(checkpoints)) deallocate (checkpoints)
      allocate (checkpoints(count))
      call c_f_pointer(where, found, [count])
      do i = 1, count
        checkpoints(i)%tag = text_in(found(i)%tag)
        checkpoints(i)%id = found(i)%id
        checkpoints(i)%parent = found(i)%parent
        checkpoints(i)%step = found(i)%step
        checkpoints(i)%time = found(i)%time
        checkpoints(i)%kept = found(i)%kept /= 0
      end do
      status = lib_free(where)
    end if
    call settle(status, stat, errmsg)
  end subroutine fb_checkpoints

  !> Number, time and size of a complete snapshot, and whether its run had come to its end.
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
    type(c_ptr) :: where
    integer(c_int) :: status
    where = c_null_ptr
    status = lib_snapshot_parameters(id(snapshot%at), where)
    if (status == FB_OK) call text_taken(where, json)
    call settle(status, stat, errmsg)
  end subroutine fb_snapshot_parameters

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

end module forebay_snapshots
