!> Watching and steering: the loop head, what buttons do, messages, diagrams.

module forebay_watch
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_snapshots, only: refresh
  use forebay_structures
  implicit none
  private
  public :: fb_step, fb_steps_from, fb_steps_with, fb_reach, fb_position, fb_on_save, fb_on_command, fb_message, fb_callback
  public :: fb_diagram_open, fb_diagram_wants, fb_curve_update, fb_history_append

  abstract interface
    !> A procedure of the program that the loop head calls, with the step about to be computed and what was
    !> given as `user` (an integer 0 when nothing was). A status other than FB_OK is shown to whoever pressed
    !> the button, with the text of the last error; the run goes on.
    subroutine fb_callback(step, user, status)
      import :: c_int64_t
      integer(c_int64_t), intent(in) :: step
      class(*), intent(inout) :: user
      integer, intent(inout) :: status
    end subroutine fb_callback
  end interface

  type, extends(attachment) :: callback
    procedure(fb_callback), pointer, nopass :: act => null()
    class(*), pointer :: user => null()
  end type callback

  !> The loop head: do while (fb_step(run, step, nsteps)).
  interface fb_step
    module procedure step_64, step_32, step_64_of_32
  end interface fb_step

  !> The head for programs that go through their steps by themselves: if (.not. fb_reach(run, step)) ...
  interface fb_reach
    module procedure reach_64, reach_32
  end interface fb_reach

  !> Replaces the points of a curve or of a cloud of points.
  interface fb_curve_update
    module procedure curve_f64, curve_f32
  end interface fb_curve_update

  integer, target, save :: nobody = 0

contains

  ! --- the loop -------------------------------------------------------------------------------------

  !> True with the step about to be computed in `step`; false at the end or when somebody pressed Quit, with the number
  !> of the state that is there in `step`: `nsteps`, or less. Behind the false of a loop the next call begins another
  !> one: FB_CONFLICT when that begins below the state that is there, so say where it goes on with fb_steps_with.
  function step_64(run, step, nsteps, stat, errmsg) result(more)
    type(fb_run), intent(in) :: run
    integer(c_int64_t), intent(inout) :: step
    integer(c_int64_t), intent(in) :: nsteps
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    logical :: more
    integer(c_int) :: went
    went = lib_step(id(run%at), step, nsteps)
    more = went > 0
    call refresh(run)
    call settle(max(-went, FB_OK), stat, errmsg)
  end function step_64

  function step_32(run, step, nsteps, stat, errmsg) result(more)
    type(fb_run), intent(in) :: run
    integer(c_int32_t), intent(inout) :: step
    integer(c_int32_t), intent(in) :: nsteps
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    logical :: more
    integer(c_int64_t) :: wide
    wide = step
    more = step_64(run, wide, int(nsteps, c_int64_t), stat, errmsg)
    step = int(wide, c_int32_t)
  end function step_32

  function step_64_of_32(run, step, nsteps, stat, errmsg) result(more)
    type(fb_run), intent(in) :: run
    integer(c_int64_t), intent(inout) :: step
    integer(c_int32_t), intent(in) :: nsteps
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    logical :: more
    more = step_64(run, step, int(nsteps, c_int64_t), stat, errmsg)
  end function step_64_of_32

  !> Says, where the state of `step` is there, whether to go on. What fb_step does at a head is done here. Numbers grow; the
  !> same one again answers the same and does nothing. False, from then on, once somebody pressed Quit, the time was over,
  !> or fb_finish was called.
  function reach_64(run, step, stat, errmsg) result(more)
    type(fb_run), intent(in) :: run
    integer(c_int64_t), intent(in) :: step
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    logical :: more
    integer(c_int) :: went
    went = lib_reach(id(run%at), step)
    more = went > 0
    call refresh(run)
    call settle(max(-went, FB_OK), stat, errmsg)
  end function reach_64

  function reach_32(run, step, stat, errmsg) result(more)
    type(fb_run), intent(in) :: run
    integer(c_int32_t), intent(in) :: step
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    logical :: more
    more = reach_64(run, int(step, c_int64_t), stat, errmsg)
  end function reach_32

  !> Where the next loop of fb_step begins: at the snapshot that fb_restart gave, which may be none, or at a number.
  subroutine fb_steps_from(run, start, stat, errmsg)
    type(fb_run), intent(in) :: run
    class(*), intent(in) :: start
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    select type (start)
    type is (fb_snapshot)
      call settle(lib_steps_from(id(run%at), id(start%at)), stat, errmsg)
    class default
      call fb_steps_with(run, start=start, stat=stat, errmsg=errmsg)
    end select
  end subroutine fb_steps_from

  !> The number of the state that the program holds, which is how many steps are behind it: that of the head in the body
  !> of a loop, where the loop ended behind it, where fb_restart went back to before it; -1 before anybody has said it.
  function fb_position(run, stat, errmsg) result(position)
    type(fb_run), intent(in) :: run
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: position
    position = -1
    call settle(lib_position(id(run%at), position), stat, errmsg)
  end function fb_position

  !> How the next loop of fb_step goes: where it begins, how far its heads are apart, by which time everything is to be on disk, in seconds since the
  !> process began (FB_JOB_END: at the end of the Slurm job), and whether SIGTERM does what it did, instead of saving and
  !> ending the run where it would end the program.
  subroutine fb_steps_with(run, start, stride, time_limit, keep_sigterm, stat, errmsg)
    type(fb_run), intent(in) :: run
    class(*), intent(in), optional :: start, stride
    real(c_double), intent(in), optional :: time_limit
    logical, intent(in), optional :: keep_sigterm
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(lib_loop_opts_struct), target :: opts
    integer(c_int) :: status
    opts%size = c_sizeof(opts)
    status = FB_OK
    if (present(start)) then
      select type (start)
      type is (fb_snapshot)
        opts%from = id(start%at)
      class default
        status = whole(start, opts%start)
      end select
    end if
    if (status == FB_OK .and. present(stride)) status = whole(stride, opts%stride)
    if (present(time_limit)) opts%time_limit = time_limit
    if (present(keep_sigterm)) opts%keep_sigterm = merge(1, 0, keep_sigterm)
    if (status == FB_OK) status = lib_steps_with(id(run%at), c_loc(opts))
    call settle(status, stat, errmsg)
  end subroutine fb_steps_with

  ! --- buttons and messages -------------------------------------------------------------------------

  !> What the library calls: the procedure of the program, with what it was given.
  recursive function act(step, user) bind(c) result(status)
    integer(c_int64_t), value :: step
    type(c_ptr), value :: user
    integer(c_int) :: status
    type(callback), pointer :: one
    integer :: answer
    call c_f_pointer(user, one)
    answer = FB_OK
    call one%act(step, one%user, answer)
    status = answer
  end function act

  !> The record of a procedure, kept as long as the run.
  function recorded(run, procedure_of, user, where) result(one)
    type(fb_run), intent(in) :: run
    procedure(fb_callback) :: procedure_of
    class(*), target, intent(in), optional :: user
    type(c_ptr), intent(inout) :: where
    type(callback), pointer :: one
    class(attachment), pointer :: kept
    where = c_null_ptr
    nullify (one)
    if (.not. c_associated(run%at%handle)) return
    allocate (one)
    one%act => procedure_of
    one%user => nobody
    if (present(user)) one%user => user
    where = c_loc(one)
    kept => one
    call attach(run%at, kept)
  end function recorded

  !> How the program keeps a state: `save` takes the snapshot of the number that it is given. The loop head calls it, before
  !> that step is computed: where somebody pressed Save, and where something ends the loop from outside. With `every` also at
  !> each head whose number it divides, and where the loop ends; so the body needs no snapshot. It is called once for each
  !> state, and with `every` again where the loop goes on behind fb_restart. What is given as `user` must be a target, and live until the run is closed.
  subroutine fb_on_save(run, save, user, every, stat, errmsg)
    type(fb_run), intent(in) :: run
    procedure(fb_callback) :: save
    class(*), target, intent(in), optional :: user
    class(*), intent(in), optional :: every
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(lib_save_opts_struct), target :: opts
    type(callback), pointer :: one
    type(c_ptr) :: where
    integer(c_int) :: status
    opts%size = c_sizeof(opts)
    status = FB_OK
    if (present(every)) status = whole(every, opts%every)
    if (status == FB_OK) then
      one => recorded(run, save, user, where)
      status = lib_on_save(id(run%at), c_funloc(act), where, c_loc(opts))
    end if
    call settle(status, stat, errmsg)
  end subroutine fb_on_save

  !> A button of the program's own, with what stands on it.
  subroutine fb_on_command(run, name, command, user, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: name
    procedure(fb_callback) :: command
    class(*), target, intent(in), optional :: user
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:)
    type(callback), pointer :: one
    type(c_ptr) :: where
    one => recorded(run, command, user, where)
    call settle(lib_on_command(id(run%at), text(name, c_name), c_funloc(act), where), stat, errmsg)
  end subroutine fb_on_command

  !> A message for the people who watch; FB_INFO unless another level is given.
  subroutine fb_message(run, words, level, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: words
    integer, intent(in), optional :: level
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_words(:)
    integer(c_int) :: c_level
    c_level = FB_INFO
    if (present(level)) c_level = level
    call settle(lib_message(id(run%at), c_level, text(words, c_words)), stat, errmsg)
  end subroutine fb_message

  ! --- diagrams -------------------------------------------------------------------------------------

  !> Declares a diagram: kind is curve, scatter or history; labels carry the unit in brackets, 'x [m]'.
  !> What several ranks append to a history at one step and abscissa is one point: the value of the lowest rank, or the
  !> 'sum', 'min', 'max' or 'mean' of all with reduce.
  subroutine fb_diagram_open(run, title, diagram, kind, x, y, v, xscale, yscale, every, stat, errmsg, reduce)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: title
    type(fb_diagram), intent(inout) :: diagram
    character(len=*), intent(in), optional :: kind, x, y, v, xscale, yscale
    integer, intent(in), optional :: every
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=*), intent(in), optional :: reduce
    character(kind=c_char), allocatable, target :: c_title(:), c_kind(:), c_x(:), c_y(:), c_v(:), c_xscale(:), c_yscale(:)
    character(kind=c_char), allocatable, target :: c_reduce(:)
    type(lib_diagram_opts_struct), target :: opts
    type(c_ptr) :: made
    integer(c_int) :: status
    made = c_null_ptr
    opts%size = c_sizeof(opts)
    opts%kind = text(kind, c_kind)
    opts%x = text(x, c_x)
    opts%y = text(y, c_y)
    opts%v = text(v, c_v)
    opts%xscale = text(xscale, c_xscale)
    opts%yscale = text(yscale, c_yscale)
    if (present(every)) opts%every = every
    opts%reduce = text(reduce, c_reduce)
    status = lib_diagram_open(id(run%at), text(title, c_title), c_loc(opts), made)
    if (status == FB_OK) call hold(diagram%at, A_DIAGRAM, made)
    call settle(status, stat, errmsg)
  end subroutine fb_diagram_open

  subroutine curve_f64(diagram, x, y, curve, stat, errmsg)
    type(fb_diagram), intent(in) :: diagram
    real(c_double), contiguous, target, intent(in) :: x(:), y(:)
    character(len=*), intent(in), optional :: curve
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_curve(:)
    integer(c_int) :: status
    if (size(x) /= size(y)) then
      status = note('x and y of a curve differ in their number of points')
    else if (size(x) == 0) then
      status = lib_curve_update(id(diagram%at), text(curve, c_curve), 0_c_int64_t)
    else
      status = lib_curve_update(id(diagram%at), text(curve, c_curve), size(x, kind=c_int64_t), x, y)
    end if
    call settle(status, stat, errmsg)
  end subroutine curve_f64

  subroutine curve_f32(diagram, x, y, curve, stat, errmsg)
    type(fb_diagram), intent(in) :: diagram
    real(c_float), intent(in) :: x(:), y(:)
    character(len=*), intent(in), optional :: curve
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call curve_f64(diagram, real(x, c_double), real(y, c_double), curve, stat, errmsg)
  end subroutine curve_f32

  !> Adds a point at `t` to each of the curves named; always recorded.
  subroutine fb_history_append(diagram, t, names, values, stat, errmsg)
    type(fb_diagram), intent(in) :: diagram
    real(c_double), intent(in) :: t
    character(len=*), intent(in) :: names(:)
    real(c_double), intent(in) :: values(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), target :: letters(len(names) + 1, size(names))
    type(c_ptr) :: named(size(names) + 1)
    integer(c_int) :: status
    integer :: i, j
    do i = 1, size(names)
      do j = 1, len_trim(names(i))
        letters(j, i) = names(i) (j:j)
      end do
      letters(len_trim(names(i)) + 1, i) = c_null_char
      named(i) = c_loc(letters(1, i))
    end do
    if (size(names) /= size(values)) then
      status = note('a history needs a value for each curve that is named')
    else
      status = lib_history_append(id(diagram%at), t, size(names), named, values)
    end if
    call settle(status, stat, errmsg)
  end subroutine fb_history_append

  !> Whether an update of a curve would be copied just now.
  subroutine fb_diagram_wants(diagram, wants, curve, stat, errmsg)
    type(fb_diagram), intent(in) :: diagram
    logical, intent(inout) :: wants
    character(len=*), intent(in), optional :: curve
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_curve(:)
    integer(c_int) :: status, answer
    answer = 0
    status = lib_diagram_wants(id(diagram%at), text(curve, c_curve), answer)
    if (status == FB_OK) wants = answer /= 0
    call settle(status, stat, errmsg)
  end subroutine fb_diagram_wants

end module forebay_watch
