!> Snapshots: begun; restarts, checkpoints.

module forebay_snapshots
  use, intrinsic :: iso_c_binding
  use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_structures
  implicit none
  private
  public :: fb_snapshot_begin, fb_restart, fb_restart_from, fb_drop, fb_checkpoints, refresh

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

  ! --- complete snapshots ---------------------------------------------------------------------------

  !> Goes back to the last complete step; fb_is_there tells whether there is one, else begin at 0. Damaged snapshots are
  !> passed over (fb_snapshot_passed); when `strict` they are an error, and so are arrays that were kept with less precision.
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

  !> Goes back to the step of the checkpoint `tag`; later snapshots are listed no more.
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

end module forebay_snapshots
