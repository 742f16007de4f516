! The simulation, by one process (two_stream.f90) or many ranks (two_stream_mpi.f90).
!
!     deck -> quiet start (or the last complete snapshot)
!     each step: rank 0: field solve by the service poisson1d -> fields to all ranks
!       -> each rank pushes its particles -> sums over all ranks -> history, diagrams
!
! A snapshot holds the state before its step. Each rank gives its slice of the fields, as a block of a global array, and
! its particles, appended in the order of ranks; the step appears as a whole. So a run goes on on any number of ranks,
! and in any language, for those in C and Python keep the same. With the same number it goes on bit for bit.

module signals
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), volatile :: interrupted = 0
  integer(c_int), parameter :: SIGINT = 2, SIGTERM = 15
  interface
    function c_signal(number, action) bind(c, name='signal') result(former)
      import
      integer(c_int), value :: number
      type(c_funptr), value :: action
      type(c_funptr) :: former
    end function c_signal
    function c_usleep(microseconds) bind(c, name='usleep') result(bad)
      import
      integer(c_int32_t), value :: microseconds
      integer(c_int) :: bad
    end function c_usleep
  end interface
contains

  !> Ctrl-C and requests to end are seen once a step; a second one ends the program at once.
  subroutine on_signal(number) bind(c)
    integer(c_int), value :: number
    type(c_funptr) :: former
    interrupted = 1
    former = c_signal(number, c_null_funptr)
  end subroutine on_signal

end module signals

module simulation
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, output_unit, real64
  use deck
  use forebay
  use physics
  use ranks
  use report
  use signals
  implicit none

  type :: program_options
    character(len=:), allocatable :: deck, run
    integer(int64) :: particles = 0, steps = 0 ! 0: the deck's
    logical :: fresh = .false., renew = .false., monitor = .true.
    real(real64) :: wait = 20 ! seconds to wait for a server at first
  end type program_options

  !> The plasma, the run it is kept in, and the service it calls.
  type :: two_stream
    type(program_options) :: options
    type(input_deck) :: deck
    type(fb_run) :: run
    type(fb_client) :: client ! of rank 0
    type(fb_table) :: history ! of rank 0
    type(fb_diagram) :: phase_space, field, energies
    type(plasma) :: plasma
    real(real64), allocatable :: fields(:, :), points(:) ! fields: phi and E
    real(real64) :: amplitude = 0 ! of the external field: steerable
    integer(int64) :: start = 0, solved = -1 ! first step, step of phi and E
    type(clocked) :: clocked
  end type two_stream

  type(two_stream), target :: s
  type(fb_table) :: input
  integer(int64) :: deck_sum

contains

  subroutine fail(text)
    character(len=*), intent(in) :: text
    character(len=20) :: who
    who = ''
    if (nranks > 1) write (who, '(a, i0, a)') ' rank ', my_rank, ':'
    write (error_unit, '(4a)') 'two_stream:', trim(who), ' ', text
    stop 1, quiet=.true.
  end subroutine fail

  function now() result(seconds)
    real(real64) :: seconds
    integer(int64) :: ticks, rate
    call system_clock(ticks, rate)
    seconds = real(ticks, real64) / real(rate, real64)
  end function now

  ! --- the run: opened, of this deck, with its tables, diagrams and parameter -----------------------

  subroutine add_key(key, value)
    character(len=*), intent(in) :: key, value
    character(len=:), allocatable :: line
    integer :: i
    line = key//'='//value
    do i = 1, len(line)
      deck_sum = mod(deck_sum * 257 + iachar(line(i:i)), 2147483647_int64)
    end do
  end subroutine add_key

  !> Ranks with different decks would wait for each other in vain.
  subroutine check_one_deck()
    real(real64) :: all_sums(1)
    deck_sum = 0
    call deck_flat(s%deck, add_key)
    all_sums = real(deck_sum, real64)
    call ranks_sum(1, all_sums)
    if (nint(all_sums(1), int64) /= nranks * deck_sum) &
      call fail('the deck of this rank is not that of the others; start all ranks with the same deck and options')
  end subroutine check_one_deck

  !> Opens the run; begins it anew when asked for, or when it is finished and that is wanted.
  subroutine open_run()
    type(fb_snapshot) :: last
    type(fb_step_info) :: info
    call fb_run_open(s%options%run, merge('w', 'a', s%options%fresh), s%run, ranks=RANKS_GIVEN)
    if (.not. s%options%renew) return
    call fb_restart(s%run, last)
    if (fb_is_there(last)) call fb_snapshot_step(last, info)
    if (info%finished == 0) return
    call fb_run_close(s%run)
    call all_here() ! none begins anew before all have closed
    call fb_run_open(s%options%run, 'w', s%run, ranks=RANKS_GIVEN)
  end subroutine open_run

  !> Waits for all ranks.
  subroutine all_here()
    real(real64) :: none(1)
    none = 0
    call ranks_sum(1, none)
  end subroutine all_here

  !> Keeps the deck in the table `input`; a run that exists goes on only with the deck it was begun with.
  subroutine keep_deck()
    integer(int64) :: rows
    call fb_table_open(s%run, 'input', input, [fb_column('key', FB_STR), fb_column('value', FB_STR)])
    call fb_table_count(input, rows)
    if (rows == 0) call deck_flat(s%deck, keep_key)
    if (rows > 0) call deck_flat(s%deck, same_key)
    call fb_table_free(input)
  end subroutine keep_deck

  subroutine keep_key(key, value)
    character(len=*), intent(in) :: key, value
    call fb_table_insert(input, [fb_values('key', key), fb_values('value', value)])
  end subroutine keep_key

  !> The number of steps may grow.
  subroutine same_key(key, value)
    character(len=*), intent(in) :: key, value
    type(fb_rows) :: found
    character(len=128), allocatable :: old(:)
    call fb_table_select(input, found, ['value'], 'key = ?', [fb_in(key)])
    call fb_rows_get(found, 1, old)
    if (size(old) /= 1 .or. key == 'steps') return
    if (old(1) /= value) call fail('the run was begun with '//key//' = '//trim(old(1))//', the deck now says '// &
        value//'; give another --run, or --fresh to begin anew')
  end subroutine same_key

  !> Tables, diagrams, the parameter, the button Save.
  subroutine declare()
    if (my_rank == 0) call fb_table_open(s%run, 'history', s%history, [fb_column('step', FB_I64), &
        fb_column('time', FB_F64, UNIT_T), fb_column('field', FB_F64, UNIT_ENERGY), &
        fb_column('kinetic', FB_F64, UNIT_ENERGY), fb_column('momentum', FB_F64, UNIT_MOMENTUM)], history=.true.)
    call fb_diagram_open(s%run, 'Phase space', s%phase_space, kind='scatter', x='x ['//UNIT_X//']', y='v ['//UNIT_V//']')
    call fb_diagram_open(s%run, 'Electric field', s%field, x='x ['//UNIT_X//']', y='E ['//UNIT_E//']')
    call fb_diagram_open(s%run, 'Energies', s%energies, kind='history', x='t ['//UNIT_T//']', &
        y='energy ['//UNIT_ENERGY//']', yscale='log')
    s%amplitude = s%deck%field_amplitude
    call fb_parameter(s%run, 'external_field', s%amplitude, min=-s%deck%field_limit, max=s%deck%field_limit, &
        units=UNIT_E, help='Amplitude of a standing wave that pulls at the electrons')
    call fb_on_save(s%run, take_snapshot, every=s%deck%snapshot_every)
  end subroutine declare

  ! --- one step -------------------------------------------------------------------------------------

  !> The fields of the state before `step`, on all ranks.
  subroutine solve(step, patience)
    integer(int64), intent(in) :: step
    real(real64), intent(in) :: patience
    if (step == s%solved) return
    if (my_rank == 0) call call_poisson1d(patience)
    call ranks_tell(size(s%fields), s%fields)
    s%solved = step
  end subroutine solve

  !> Rank 0 calls the service; with patience it waits so long for a first server.
  subroutine call_poisson1d(patience)
    real(real64), intent(in) :: patience
    real(real64) :: deadline, begin
    character(len=500) :: said
    integer :: stat
    deadline = now() + patience
    do
      begin = now()
      call fb_call(s%client, 'poisson1d', [fb_in(s%deck%length), fb_in(s%plasma%rho), fb_out(s%fields(:, 1)), &
          fb_out(s%fields(:, 2))], stat=stat, errmsg=said)
      if (stat /= FB_NO_SERVER .or. begin > deadline) exit
      if (interrupted /= 0) call fail('interrupted while waiting for a server of poisson1d')
      stat = c_usleep(100000)
    end do
    if (stat /= FB_OK) call fail(trim(said))
    associate (c => s%clocked)
      if (c%ncalls == size(c%calls)) c%calls = [c%calls, spread(0.0_real64, 1, size(c%calls) + 1)]
      c%ncalls = c%ncalls + 1
      c%calls(c%ncalls) = now() - begin
    end associate
  end subroutine call_poisson1d

  !> This rank's slice of a field on the grid, whose axis is x.
  subroutine put_field(snapshot, name, field, unit)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: name, unit
    real(real64), intent(in) :: field(:)
    integer(int64) :: first, last
    first = share_first(s%deck%grid, my_rank, nranks)
    last = share_first(s%deck%grid, my_rank + 1, nranks)
    call fb_snapshot_mesh(snapshot, name, field(first + 1:last), offset=[first], global=[s%deck%grid], units=unit, &
        coords=[fb_coord('x', s%points, UNIT_X)])
  end subroutine put_field

  !> Keeps the state before `step`, with the fields of that state; the particles behind those of lower ranks.
  subroutine take_snapshot(step, user, status)
    integer(int64), intent(in) :: step
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    type(fb_snapshot) :: snapshot
    logical :: taken ! not where it is the one that the run went back to
    integer :: b
    call fb_snapshot_begin(s%run, step, snapshot, time=real(step, real64) * s%deck%dt, taken=taken)
    if (taken) call solve(step, 0.0_real64)
    call put_field(snapshot, 'E', s%fields(:, 2), UNIT_E)
    call put_field(snapshot, 'phi', s%fields(:, 1), UNIT_PHI)
    call put_field(snapshot, 'rho', s%plasma%rho, UNIT_RHO)
    do b = 1, size(s%deck%beams)
      associate (beam => s%plasma%species(b))
        call fb_snapshot_particles(snapshot, 'electrons_'//trim(s%deck%beams(b)%name), &
            [fb_record('position', beam%x, 'x', units=UNIT_X), fb_record('velocity', beam%v, 'x', units=UNIT_V)], append=.true.)
      end associate
    end do
    call fb_snapshot_end(snapshot, stat=status)
    select type (user) ! nothing was given
    end select
  end subroutine take_snapshot

  !> Adds the sums of all ranks up; true when one of them was told to end.
  function collect_all() result(told)
    logical :: told
    real(real64) :: all_sums(size(s%plasma%sums) + 1)
    all_sums = [s%plasma%sums, real(interrupted, real64)]
    call ranks_sum(size(all_sums), all_sums)
    told = all_sums(size(all_sums)) > 0
    s%plasma%sums = reshape(all_sums, shape(s%plasma%sums))
    call collect(s%plasma, s%deck)
  end function collect_all

  !> Computes one step; true when the program was told to end.
  function advance(step) result(told)
    integer(int64), intent(in) :: step
    real(real64) :: energy, t
    logical :: told
    integer :: b
    call solve(step, merge(s%options%wait, 0.0_real64, step == s%start))
    do b = 1, size(s%deck%beams)
      call fb_curve_update(s%phase_space, s%plasma%species(b)%x, s%plasma%species(b)%v, curve=s%deck%beams(b)%name)
    end do
    if (my_rank == 0) call fb_curve_update(s%field, s%points, s%fields(:, 2))
    energy = field_energy(s%deck, s%fields(:, 2))
    call push(s%plasma, s%deck, total_force(s%deck, s%fields(:, 2), s%amplitude))
    told = collect_all()
    if (my_rank /= 0) return
    t = real(step, real64) * s%deck%dt
    call fb_history_append(s%energies, t, [character(len=7) :: 'field', 'kinetic'], [energy, s%plasma%kinetic])
    call fb_table_insert(s%history, [fb_values('step', step), fb_values('time', t), fb_values('field', energy), &
        fb_values('kinetic', s%plasma%kinetic), fb_values('momentum', s%plasma%momentum)])
  end function advance

  ! --- the whole ------------------------------------------------------------------------------------

  !> Makes the state before the first step: from the last complete snapshot, or the quiet start.
  subroutine begin()
    type(fb_snapshot) :: last
    type(fb_step_info) :: info
    logical :: told
    integer :: i
    allocate (s%fields(s%deck%grid, 2), s%clocked%calls(0))
    s%fields = 0
    s%points = [(real(i, real64) * s%deck%length / real(s%deck%grid, real64), i=0, int(s%deck%grid) - 1)]
    call make_plasma(s%plasma, s%deck, my_rank, nranks)
    call fb_restart(s%run, last)
    call fb_steps_from(s%run, last)
    call declare()
    if (fb_is_there(last)) then
      call fb_snapshot_step(last, info)
      s%start = info%step
      call load(last)
    else
      call quiet_start(s%plasma, s%deck)
    end if
    call deposit(s%plasma, s%deck)
    told = collect_all() ! whoever was told is asked again in the first step
    if (fb_is_there(last)) return
    call solve(0_int64, s%options%wait)
    call half_step_back(s%plasma, s%deck, total_force(s%deck, s%fields(:, 2), s%amplitude))
  end subroutine begin

  !> This rank's particles, from a snapshot.
  subroutine load(from)
    type(fb_snapshot), intent(in) :: from
    character(len=:), allocatable :: name
    integer :: b
    do b = 1, size(s%deck%beams)
      associate (beam => s%plasma%species(b))
        if (size(beam%x) == 0) cycle
        name = 'electrons_'//trim(s%deck%beams(b)%name)
        call fb_snapshot_get_part(from, name//'/position/x', beam%x, offset=[beam%first])
        call fb_snapshot_get_part(from, name//'/velocity/x', beam%v, offset=[beam%first])
      end associate
    end do
  end subroutine load

  !> From the open run to the report; the exit status.
  function simulate() result(status)
    integer :: status
    integer(int64) :: step
    real(real64) :: since
    status = 0
    call check_one_deck()
    call open_run()
    if (my_rank == 0) call show_and_connect()
    call begin()
    if (my_rank /= 0) then
      continue
    else if (s%start >= s%deck%steps) then
      print '(a)', 'the run is finished; begin anew with --fresh, or go further with --steps'
    else if (s%start > 0) then
      print '(a, i0)', 'going on from step ', s%start
    end if
    flush (output_unit)
    since = now()
    do while (fb_step(s%run, step, s%deck%steps))
      if (advance(step)) then
        call fb_run_close_unfinished(s%run)
        if (my_rank == 0) write (error_unit, '(a)') 'two_stream: interrupted; start it again to go on from the last snapshot'
        status = 130
        return
      end if
    end do
    s%clocked%seconds = now() - since
    call fb_flush(s%run)
    call all_here() ! all ranks have flushed: the last step is durable
    if (my_rank == 0) call print_report(s%run, s%deck, s%clocked)
    call fb_run_close(s%run)
    call fb_disconnect(s%client)
  end function simulate

  !> What rank 0 does for all.
  subroutine show_and_connect()
    character(len=:), allocatable :: page
    call keep_deck()
    if (s%options%monitor) call fb_monitor_url(s%run, page)
    if (s%options%monitor) print '(2a)', 'the page: ', page
    flush (output_unit)
    call fb_connect(s%client)
  end subroutine show_and_connect

  ! --- options: the same as those of the example in Python ------------------------------------------

  function word(number) result(text)
    integer, intent(in) :: number
    character(len=:), allocatable :: text
    integer :: n
    call get_command_argument(number, length=n)
    allocate (character(len=n) :: text)
    if (n > 0) call get_command_argument(number, text)
  end function word

  subroutine print_help()
    print '(a)', 'usage: two_stream [DECK] [options]', 'The two-stream instability as a client of Forebay.', '', &
        '  --deck FILE      input deck (two_stream.toml)', &
        '  --run NAME       name of the run: the directory NAME.fb (two_stream)', &
        '  --particles N    number of particles, instead of the deck''s', &
        '  --steps N        number of steps, instead of the deck''s', '  --fresh          begin anew even if the run exists', &
        '  --renew          begin anew if the run is finished', '  --no-monitor     without the page', &
        '  --wait SECONDS   how long to wait for a server at first (20)'
  end subroutine print_help

  !> Reads the options; false when the program is to end, with its status.
  function read_options(o, status) result(go_on)
    type(program_options), intent(inout) :: o
    integer, intent(out) :: status
    character(len=:), allocatable :: name, value
    logical :: go_on
    integer :: i, bad
    o%deck = 'two_stream.toml'
    o%run = 'two_stream'
    status = 0
    go_on = .false.
    i = 0
    do while (i < command_argument_count())
      i = i + 1
      name = word(i)
      value = ''
      bad = 0
      if (any(name == [character(len=11) :: '--deck', '--run', '--particles', '--steps', '--wait'])) then
        i = i + 1
        value = word(i)
        if (value == '') bad = 1
      end if
      select case (name)
      case ('--help', '-h')
        if (my_rank == 0) call print_help()
        return
      case ('--fresh'); o%fresh = .true.
      case ('--renew'); o%renew = .true.
      case ('--no-monitor'); o%monitor = .false.
      case ('--deck'); o%deck = value
      case ('--run'); o%run = value
      case ('--particles'); call positive(o%particles)
      case ('--steps'); call positive(o%steps)
      case ('--wait')
        if (bad == 0) read (value, *, iostat=bad) o%wait
        if (o%wait < 0) bad = 1
      case default
        if (name(1:1) == '-') bad = 1
        o%deck = name
      end select
      if (bad /= 0) then
        if (my_rank == 0) write (error_unit, '(5a)') 'two_stream: ', name, ' ', value, &
            ' is not understood; --help names the options'
        status = 2
        return
      end if
    end do
    go_on = .true.

  contains

    subroutine positive(n)
      integer(int64), intent(inout) :: n
      if (bad == 0) bad = verify(value, '0123456789')
      if (bad == 0) read (value, *, iostat=bad) n
      if (n < 1) bad = 1
    end subroutine positive

  end function read_options

end module simulation

program main
  use simulation
  implicit none
  character(len=:), allocatable :: error
  type(c_funptr) :: former
  integer :: status
  call ranks_begin()
  former = c_signal(SIGINT, c_funloc(on_signal))
  former = c_signal(SIGTERM, c_funloc(on_signal))
  if (read_options(s%options, status)) then
    call deck_load(s%options%deck, s%deck, error)
    if (error == '' .and. s%options%particles > 0) call deck_share(s%deck, s%options%particles, error)
    if (s%options%steps > 0) s%deck%steps = s%options%steps
    if (error == '') then
      status = simulate()
    else
      if (my_rank == 0) write (error_unit, '(2a)') 'two_stream: ', error
      status = 1
    end if
  end if
  call ranks_end()
  stop status, quiet=.true.
end program main
