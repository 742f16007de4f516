!> What all modules share: handles, errors, texts on their way to C and back.
!
! Copies of a handle hold the same thing of the library: it is given back when the last of them goes, or
! before, by its own procedure (fb_run_close and its like). Who holds what is told to handles.c.

module forebay_base
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int8, int16, int32, int64, output_unit
  use forebay_constants
  use forebay_library
  implicit none
  private
  public :: settle, text, text_from, text_taken, text_in, note, whole, wholes, limit_of, id, hold, attach, kept_with
  public :: give_back, gave_back, fbf_drop, fbf_keep, fbf_mending, fb_is_there

  !> Something a handle keeps alive: a procedure of the program, a variable that gets new values.
  type, abstract, public :: attachment
    class(attachment), pointer :: next => null()
  contains
    !> Brings a variable of the program up to date.
    procedure :: refresh => nothing_to_refresh
  end type attachment

  !> What is kept with a thing of the library.
  type, public :: attachments
    class(attachment), pointer :: first => null()
  end type attachments

  !> What a thing's last holder leaves to be given back.
  type, bind(c) :: given_up
    type(c_ptr) :: handle = c_null_ptr, attached = c_null_ptr, mending = c_null_ptr
    integer(c_int) :: kind = 0
  end type given_up

  !> A place that holds a thing of the library: its number there, and the box that its holders share.
  type, public :: counted
    type(c_ptr) :: handle = c_null_ptr
    type(c_ptr) :: box = c_null_ptr
    integer(c_int64_t) :: serial = 0
    integer(c_int) :: kind = 0
  contains
    procedure, private :: share
    generic :: assignment(=) => share
    final :: release
  end type counted

  integer, parameter, public :: A_RUN = 1, A_SNAPSHOT = 2, A_TABLE = 3, OF_ROWS = 4, A_DIAGRAM = 5, A_CLIENT = 6, &
      A_FUTURE = 7, A_REFERENCE = 8, A_SERVER = 9, A_BAG = 10, A_GROUP = 11

  !> An open run.
  type, public :: fb_run
    type(counted) :: at
  contains
    procedure, private :: share_run
    generic :: assignment(=) => share_run
  end type fb_run

  !> A snapshot: one being taken, or a complete one that is read.
  type, public :: fb_snapshot
    type(counted) :: at
  contains
    procedure, private :: share_snapshot
    generic :: assignment(=) => share_snapshot
  end type fb_snapshot

  !> A relational table of a run.
  type, public :: fb_table
    type(counted) :: at
  contains
    procedure, private :: share_table
    generic :: assignment(=) => share_table
  end type fb_table

  !> Rows that a query gave.
  type, public :: fb_rows
    type(counted) :: at
  contains
    procedure, private :: share_rows
    generic :: assignment(=) => share_rows
  end type fb_rows

  !> A diagram of a run.
  type, public :: fb_diagram
    type(counted) :: at
  contains
    procedure, private :: share_diagram
    generic :: assignment(=) => share_diagram
  end type fb_diagram

  !> A client of the services that a broker knows.
  type, public :: fb_client
    type(counted) :: at
  contains
    procedure, private :: share_client
    generic :: assignment(=) => share_client
  end type fb_client

  !> A call under way.
  type, public :: fb_future
    type(counted) :: at
  contains
    procedure, private :: share_future
    generic :: assignment(=) => share_future
  end type fb_future

  !> Many calls of one service.
  type, public :: fb_bag
    type(counted) :: at
  contains
    procedure, private :: share_bag
    generic :: assignment(=) => share_bag
  end type fb_bag

  !> Calls that run at the same time.
  type, public :: fb_group
    type(counted) :: at
    !> The box of the outermost group, which keeps what the calls of all groups within it have by memory of our own.
    type(c_ptr) :: outermost = c_null_ptr
    integer(c_int64_t) :: its_serial = 0
  contains
    procedure, private :: share_group
    generic :: assignment(=) => share_group
  end type fb_group

  !> An array that a server holds for a client.
  type, public :: fb_ref
    type(counted) :: at
  contains
    procedure, private :: share_ref
    generic :: assignment(=) => share_ref
  end type fb_ref

  !> A server of services.
  type, public :: fb_server
    type(counted) :: at
  contains
    procedure, private :: share_server
    generic :: assignment(=) => share_server
  end type fb_server

  !> Whether a handle has something: what was never opened has nothing, what was closed or freed has nothing any more, and
  !> fb_restart and fb_snapshot_last may find nothing.
  interface fb_is_there
    module procedure run_is_there, snapshot_is_there, table_is_there, rows_is_there, diagram_is_there, &
        client_is_there, future_is_there, bag_is_there, group_is_there, ref_is_there, server_is_there
  end interface fb_is_there

  interface
    function fbf_said() bind(c) result(said)
      import
      type(c_ptr) :: said
    end function fbf_said
    function fbf_refuse(words) bind(c) result(status)
      import
      type(c_ptr), value :: words
      integer(c_int) :: status
    end function fbf_refuse
    subroutine fbf_drop(mending) bind(c)
      import
      type(c_ptr), value :: mending
    end subroutine fbf_drop
    function fbf_box(holder, handle, kind, serial) bind(c) result(box)
      import
      type(c_ptr), value :: holder, handle
      integer(c_int), value :: kind
      integer(c_int64_t), intent(inout) :: serial
      type(c_ptr) :: box
    end function fbf_box
    subroutine fbf_share(box, serial, holder) bind(c)
      import
      type(c_ptr), value :: box, holder
      integer(c_int64_t), value :: serial
    end subroutine fbf_share
    function fbf_let_go(holder, up) bind(c) result(last)
      import
      type(c_ptr), value :: holder
      type(given_up), intent(inout) :: up
      integer(c_int) :: last
    end function fbf_let_go
    function fbf_attached(box, serial) bind(c) result(attached)
      import
      type(c_ptr), value :: box
      integer(c_int64_t), value :: serial
      type(c_ptr) :: attached
    end function fbf_attached
    function fbf_mending(box, serial) bind(c) result(mending)
      import
      type(c_ptr), value :: box
      integer(c_int64_t), value :: serial
      type(c_ptr) :: mending
    end function fbf_mending
    subroutine fbf_keep(box, serial, attached, mending) bind(c)
      import
      type(c_ptr), value :: box, attached, mending
      integer(c_int64_t), value :: serial
    end subroutine fbf_keep
    pure function c_strlen(words) bind(c, name='strlen') result(length)
      import
      type(c_ptr), value, intent(in) :: words
      integer(c_size_t) :: length
    end function c_strlen
  end interface

contains

  ! --- whether a handle has something -----------------------------------------------------------------

  pure function run_is_there(run) result(there)
    type(fb_run), intent(in) :: run
    logical :: there
    there = c_associated(run%at%handle)
  end function run_is_there

  pure function snapshot_is_there(snapshot) result(there)
    type(fb_snapshot), intent(in) :: snapshot
    logical :: there
    there = c_associated(snapshot%at%handle)
  end function snapshot_is_there

  pure function table_is_there(table) result(there)
    type(fb_table), intent(in) :: table
    logical :: there
    there = c_associated(table%at%handle)
  end function table_is_there

  pure function rows_is_there(rows) result(there)
    type(fb_rows), intent(in) :: rows
    logical :: there
    there = c_associated(rows%at%handle)
  end function rows_is_there

  pure function diagram_is_there(diagram) result(there)
    type(fb_diagram), intent(in) :: diagram
    logical :: there
    there = c_associated(diagram%at%handle)
  end function diagram_is_there

  pure function client_is_there(client) result(there)
    type(fb_client), intent(in) :: client
    logical :: there
    there = c_associated(client%at%handle)
  end function client_is_there

  pure function future_is_there(future) result(there)
    type(fb_future), intent(in) :: future
    logical :: there
    there = c_associated(future%at%handle)
  end function future_is_there

  pure function bag_is_there(bag) result(there)
    type(fb_bag), intent(in) :: bag
    logical :: there
    there = c_associated(bag%at%handle)
  end function bag_is_there

  pure function group_is_there(group) result(there)
    type(fb_group), intent(in) :: group
    logical :: there
    there = c_associated(group%at%handle)
  end function group_is_there

  pure function ref_is_there(reference) result(there)
    type(fb_ref), intent(in) :: reference
    logical :: there
    there = c_associated(reference%at%handle)
  end function ref_is_there

  pure function server_is_there(server) result(there)
    type(fb_server), intent(in) :: server
    logical :: there
    there = c_associated(server%at%handle)
  end function server_is_there

  ! --- handles --------------------------------------------------------------------------------------

  !> A copy holds the same thing; what the variable held before, it holds no more.
  impure elemental subroutine share(to, from)
    class(counted), intent(inout), target :: to
    type(counted), intent(in), target :: from
    if (c_associated(c_loc(to%serial), c_loc(from%serial))) return
    call let_go(to)
    call fbf_share(from%box, from%serial, c_loc(to%serial))
    to%handle = from%handle
    to%box = from%box
    to%serial = from%serial
    to%kind = from%kind
  end subroutine share

  impure elemental subroutine share_run(to, from)
    class(fb_run), intent(inout) :: to
    type(fb_run), intent(in) :: from
    call share(to%at, from%at)
  end subroutine share_run

  impure elemental subroutine share_snapshot(to, from)
    class(fb_snapshot), intent(inout) :: to
    type(fb_snapshot), intent(in) :: from
    call share(to%at, from%at)
  end subroutine share_snapshot

  impure elemental subroutine share_table(to, from)
    class(fb_table), intent(inout) :: to
    type(fb_table), intent(in) :: from
    call share(to%at, from%at)
  end subroutine share_table

  impure elemental subroutine share_rows(to, from)
    class(fb_rows), intent(inout) :: to
    type(fb_rows), intent(in) :: from
    call share(to%at, from%at)
  end subroutine share_rows

  impure elemental subroutine share_diagram(to, from)
    class(fb_diagram), intent(inout) :: to
    type(fb_diagram), intent(in) :: from
    call share(to%at, from%at)
  end subroutine share_diagram

  impure elemental subroutine share_client(to, from)
    class(fb_client), intent(inout) :: to
    type(fb_client), intent(in) :: from
    call share(to%at, from%at)
  end subroutine share_client

  impure elemental subroutine share_future(to, from)
    class(fb_future), intent(inout) :: to
    type(fb_future), intent(in) :: from
    call share(to%at, from%at)
  end subroutine share_future

  impure elemental subroutine share_bag(to, from)
    class(fb_bag), intent(inout) :: to
    type(fb_bag), intent(in) :: from
    call share(to%at, from%at)
  end subroutine share_bag

  impure elemental subroutine share_group(to, from)
    class(fb_group), intent(inout) :: to
    type(fb_group), intent(in) :: from
    call share(to%at, from%at)
    to%outermost = from%outermost
    to%its_serial = from%its_serial
  end subroutine share_group

  impure elemental subroutine share_ref(to, from)
    class(fb_ref), intent(inout) :: to
    type(fb_ref), intent(in) :: from
    call share(to%at, from%at)
  end subroutine share_ref

  impure elemental subroutine share_server(to, from)
    class(fb_server), intent(inout) :: to
    type(fb_server), intent(in) :: from
    call share(to%at, from%at)
  end subroutine share_server

  impure elemental subroutine release(at)
    type(counted), intent(inout) :: at
    call let_go(at)
  end subroutine release

  !> Puts a new thing into a handle, whose old one goes.
  subroutine hold(at, kind, handle)
    type(counted), intent(inout), target :: at
    integer(c_int), intent(in) :: kind
    type(c_ptr), intent(in) :: handle
    call let_go(at)
    if (.not. c_associated(handle)) return
    at%kind = kind
    at%handle = handle
    at%box = fbf_box(c_loc(at%serial), handle, kind, at%serial)
  end subroutine hold

  !> The thing's number in the library; null of a handle that has none.
  pure function id(at) result(handle)
    type(counted), intent(in) :: at
    type(c_ptr) :: handle
    handle = at%handle
  end function id

  !> What is kept with a thing.
  function kept_with(at) result(kept)
    type(counted), intent(in) :: at
    type(attachments), pointer :: kept
    type(c_ptr) :: where
    nullify (kept)
    where = fbf_attached(at%box, at%serial)
    if (c_associated(where)) call c_f_pointer(where, kept)
  end function kept_with

  !> Keeps something as long as the thing is there.
  subroutine attach(at, what)
    type(counted), intent(in) :: at
    class(attachment), pointer, intent(in) :: what
    type(attachments), pointer :: kept
    kept => kept_with(at)
    if (.not. associated(kept)) then
      allocate (kept)
      call fbf_keep(at%box, at%serial, c_loc(kept), c_null_ptr)
    end if
    what%next => kept%first
    kept%first => what
  end subroutine attach

  !> Gives a thing back before its last holder goes, and tells how that went.
  subroutine give_back(at, stat, errmsg)
    type(counted), intent(inout) :: at
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: status
    status = freed(at%kind, at%handle)
    call gave_back(at, status, stat, errmsg)
  end subroutine give_back

  !> The thing was given back by its own procedure, or could not be; tells how that went.
  subroutine gave_back(at, status, stat, errmsg)
    type(counted), intent(inout) :: at
    integer(c_int), intent(in) :: status
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=:), allocatable :: said
    logical :: again
    again = .false.
    said = ''
    if (status /= FB_OK) then
      said = text_from(fbf_said()) ! what is asked next has a text of its own
      if (at%kind == A_RUN) again = lib_rank(at%handle) == FB_OK
    end if
    if (.not. again) call let_go(at)
    call settle(status, stat, errmsg, said)
  end subroutine gave_back

  !> One holder less; the last one gives the thing back. What stands in the place is not looked at: a compiler
  !> may end a copy that was never filled.
  subroutine let_go(at)
    class(counted), intent(inout), target :: at
    type(given_up) :: up
    type(attachments), pointer :: kept
    class(attachment), pointer :: next
    integer(c_int) :: status
    if (fbf_let_go(c_loc(at%serial), up) /= 0) then
      status = freed(up%kind, up%handle)
      if (status /= FB_OK) call complain(status)
      call fbf_drop(up%mending)
      if (c_associated(up%attached)) then
        call c_f_pointer(up%attached, kept)
        do while (associated(kept%first))
          next => kept%first%next
          deallocate (kept%first)
          kept%first => next
        end do
        deallocate (kept)
      end if
    end if
    at%handle = c_null_ptr
    at%box = c_null_ptr
    at%serial = 0
  end subroutine let_go

  !> What a scope's end could not give back. Closed already is no trouble: a run may go before what it gave.
  subroutine complain(status)
    integer(c_int), intent(in) :: status
    character(len=:), allocatable :: said
    said = text_from(fbf_said())
    if (status /= FB_CLOSED) write (error_unit, '(2a)') 'forebay: ', said
  end subroutine complain

  !> Gives a thing of the library back, as its kind asks; none is nothing.
  function freed(kind, handle) result(status)
    integer(c_int), intent(in) :: kind
    type(c_ptr), intent(in) :: handle
    integer(c_int) :: status
    integer(c_int64_t) :: unused
    status = FB_OK
    select case (kind)
    case (A_RUN); status = lib_run_close(handle)
    case (A_SNAPSHOT); status = lib_snapshot_free(handle)
    case (A_TABLE); status = lib_table_free(handle)
    case (OF_ROWS); status = lib_rows_free(handle)
    case (A_DIAGRAM); status = lib_diagram_free(handle)
    case (A_CLIENT); status = lib_disconnect(handle)
    case (A_FUTURE); status = lib_future_free(handle)
    case (A_REFERENCE); status = lib_ref_kill(handle)
    case (A_SERVER); status = lib_server_free(handle)
    case (A_BAG); status = lib_bag_free(handle)
    case (A_GROUP)
      ! A scope's end gives up what was not ended.
      status = lib_group_cancel(handle)
      status = lib_group_end(handle, FB_FOREVER, unused)
      status = FB_OK
    end select
  end function freed

  subroutine nothing_to_refresh(self)
    class(attachment), intent(inout) :: self
    if (associated(self%next)) return
  end subroutine nothing_to_refresh

  ! --- errors ---------------------------------------------------------------------------------------

  !> Tells how a call went: in `stat` and `errmsg`, or, without `stat`, by ending the program if it failed. `words`
  !> is its text, if others were called since.
  subroutine settle(status, stat, errmsg, words)
    integer(c_int), intent(in) :: status
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=*), intent(in), optional :: words
    character(len=:), allocatable :: said
    if (present(stat)) stat = status
    if (status == FB_OK) return
    if (present(words)) then
      said = words
    else
      said = text_from(fbf_said())
    end if
    if (present(errmsg)) errmsg = said
    if (present(stat)) return
    flush (output_unit)
    error stop 'forebay: '//said
  end subroutine settle

  !> An error that a module itself found.
  function note(words) result(status)
    character(len=*), intent(in) :: words
    integer(c_int) :: status
    character(kind=c_char), allocatable, target :: room(:)
    status = fbf_refuse(text(words, room))
  end function note

  !> An integer of any kind, such as a set or a step.
  function whole(given, made) result(status)
    class(*), intent(in), optional :: given
    integer(int64), intent(inout) :: made
    integer(c_int) :: status
    status = FB_OK
    if (.not. present(given)) return
    select type (given)
    type is (integer(int64)); made = given
    type is (integer(int32)); made = given
    type is (integer(int16)); made = given
    type is (integer(int8)); made = given
    class default
      status = note('a set, step, or count that was given is not an integer; give one')
    end select
  end function whole

  !> Integers of any kind, such as extents; null when they were not given.
  function wholes(given, made, n, where) result(status)
    class(*), intent(in), optional :: given(:)
    integer(int64), intent(inout), target :: made(FB_MAX_RANK)
    integer, intent(inout) :: n
    type(c_ptr), intent(inout) :: where
    integer(c_int) :: status
    status = FB_OK
    where = c_null_ptr
    if (.not. present(given)) return
    if (size(given) > FB_MAX_RANK) then
      status = note('extents or offsets of more than 8 axes were given; 8 is the highest rank')
      return
    end if
    where = c_loc(made)
    n = size(given)
    select type (given)
    type is (integer(int64)); made(:n) = given
    type is (integer(int32)); made(:n) = given
    class default
      status = note('extents or offsets that were given are not integers of 4 or 8 bytes; give such')
    end select
  end function wholes

  !> A timeout in seconds; none was given: no limit.
  pure function limit_of(timeout) result(limit)
    real(c_double), intent(in), optional :: timeout
    real(c_double) :: limit
    limit = FB_FOREVER
    if (present(timeout)) limit = timeout
  end function limit_of

  ! --- texts ----------------------------------------------------------------------------------------

  !> A text for C, without blanks at its end: the room keeps it. Null when it was not given.
  function text(words, room) result(where)
    character(len=*), intent(in), optional :: words
    character(kind=c_char), allocatable, target, intent(inout) :: room(:)
    type(c_ptr) :: where
    integer :: i, n
    where = c_null_ptr
    if (.not. present(words)) return
    n = len_trim(words)
    allocate (room(n + 1))
    do i = 1, n
      room(i) = words(i:i)
    end do
    room(n + 1) = c_null_char
    where = c_loc(room)
  end function text

  !> A text that C has.
  function text_from(where) result(words)
    type(c_ptr), intent(in) :: where
    character(len=:), allocatable :: words
    character(kind=c_char), pointer :: letters(:)
    integer :: i, n
    words = ''
    if (.not. c_associated(where)) return
    n = int(c_strlen(where))
    call c_f_pointer(where, letters, [n])
    deallocate (words)
    allocate (character(len=n) :: words)
    do i = 1, n
      words(i:i) = letters(i)
    end do
  end function text_from

  !> A text that C made for us: it is given back.
  subroutine text_taken(where, words)
    type(c_ptr), intent(in) :: where
    character(len=:), allocatable, intent(inout) :: words
    integer(c_int) :: status
    words = text_from(where)
    status = lib_free(where)
    if (status /= FB_OK) words = text_from(fbf_said())
  end subroutine text_taken

  !> A text in a member of a structure.
  pure function text_in(letters) result(words)
    character(kind=c_char), intent(in) :: letters(:)
    character(len=size(letters)) :: words
    integer :: i
    words = ''
    do i = 1, size(letters)
      if (letters(i) == c_null_char) exit
      words(i:i) = letters(i)
    end do
  end function text_in

end module forebay_base
