! The input deck: read, checked, and refused with the line and the key that are wrong.
!
!     text of two_stream.toml -> section, key, value of each line -> the component of that name
!
! Of TOML this knows what the deck needs: comments, [section], [[beam]], and keys with an integer, a number or a
! text in quotes.

module deck
  use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  private
  public :: deck_load, deck_share, deck_flat

  !> One cold beam of particles.
  type, public :: beam_of_deck
    character(len=64) :: name = ''
    real(real64) :: plasma_frequency = 0 ! wp of this beam alone [wp]
    real(real64) :: charge_to_mass = 0 ! q/m
    real(real64) :: drift = 0 ! v0 [U]
    integer(int64) :: mode = 0 ! excited mode of the box
    real(real64) :: displacement = 0 ! amplitude of the excitation [U/wp]
    integer(int64) :: count = 0 ! particles
    logical :: seen(6) = .false.
  end type beam_of_deck

  !> Everything that defines a run.
  type, public :: input_deck
    real(real64) :: length = 0 ! [U/wp]
    integer(int64) :: grid = 0
    real(real64) :: dt = 0 ! [1/wp]
    integer(int64) :: steps = 0, snapshot_every = 0
    integer(int64) :: count = 0 ! particles of all beams
    real(real64) :: field_amplitude = 0 ! [m U wp/e]
    integer(int64) :: field_mode = 0
    real(real64) :: field_limit = 0 ! [m U wp/e]
    type(beam_of_deck), allocatable :: beams(:)
    logical :: seen(9) = .false.
  end type input_deck

  abstract interface
    !> Called for each key of the deck with the text of its value.
    subroutine visitor(key, value)
      character(len=*), intent(in) :: key, value
    end subroutine visitor
  end interface

  integer(int64), parameter :: MANY = 10000000000_int64
  character(len=*), parameter :: KEYS(9) = [character(len=20) :: 'box.length', 'box.grid', 'time.dt', 'time.steps', &
      'time.snapshot_every', 'particles.count', 'field.amplitude', 'field.mode', 'field.limit']
  character(len=*), parameter :: OF_BEAM(6) = [character(len=20) :: 'name', 'plasma_frequency', 'charge_to_mass', &
      'drift', 'mode', 'displacement']

contains

  !> Reads a deck; `error` says what is missing, unknown or out of range, or is empty.
  subroutine deck_load(path, d, error)
    character(len=*), intent(in) :: path
    type(input_deck), intent(out) :: d
    character(len=:), allocatable, intent(out) :: error
    character(len=1024) :: line
    character(len=:), allocatable :: section
    integer :: unit, number, bad
    allocate (d%beams(0))
    section = ''
    error = ''
    open (newunit=unit, file=path, action='read', status='old', iostat=bad, iomsg=line)
    if (bad /= 0) then
      error = path//': cannot read the deck: '//trim(line)
      return
    end if
    number = 0
    do
      number = number + 1
      read (unit, '(a)', iostat=bad) line
      if (bad /= 0) exit
      call take_line(d, trim(adjustl(without_comment(line))), section, error)
      if (error /= '') then
        error = path//':'//text_of(int(number, int64))//': '//error
        exit
      end if
    end do
    close (unit)
    if (error /= '') return
    call check_whole(d, error)
    if (error /= '') error = path//': '//error
  end subroutine deck_load

  function without_comment(line) result(kept)
    character(len=*), intent(in) :: line
    character(len=:), allocatable :: kept
    character :: quote
    integer :: i
    quote = ' '
    kept = line
    do i = 1, len(line)
      if (quote /= ' ') then
        if (line(i:i) == quote) quote = ' '
      else if (line(i:i) == '"' .or. line(i:i) == "'") then
        quote = line(i:i)
      else if (line(i:i) == '#') then
        kept = line(:i - 1)
        return
      end if
    end do
  end function without_comment

  !> One line: a section begins, or a key gets its value.
  subroutine take_line(d, line, section, error)
    type(input_deck), intent(inout) :: d
    character(len=*), intent(in) :: line
    character(len=:), allocatable, intent(inout) :: section, error
    integer :: equal
    equal = index(line, '=')
    if (line == '') then
      return
    else if (line == '[[beam]]') then
      section = 'beam'
      d%beams = [d%beams, beam_of_deck()]
    else if (line(1:1) == '[') then
      section = line(2:max(2, len(line) - 1))
      if (.not. any(section == [character(len=9) :: 'box', 'time', 'particles', 'field']) .or. line(len(line):) /= ']') &
        error = line//' is unknown; known are [box], [time], [particles], [[beam]], [field]'
    else if (equal < 2) then
      error = 'not TOML: "'//line//'" is neither [section] nor key = value'
    else
      call take_value(d, section, trim(line(:equal - 1)), trim(adjustl(line(equal + 1:))), error)
    end if
  end subroutine take_line

  !> Stores a value where its key says.
  subroutine take_value(d, section, key, value, error)
    type(input_deck), intent(inout) :: d
    character(len=*), intent(in) :: section, key, value
    character(len=:), allocatable, intent(inout) :: error
    character(len=:), allocatable :: wanted
    integer :: n
    wanted = ''
    n = size(d%beams)
    if (section == 'beam') then
      call see(OF_BEAM, key, d%beams(n)%seen)
    else
      call see(KEYS, section//'.'//key, d%seen)
    end if
    if (error /= '') return
    select case (section//'.'//key)
    case ('box.length'); call real_of(d%length, 'positive')
    case ('box.grid'); call integer_of(d%grid, 4_int64, 1000000_int64, 'an integer from 4 to 10^6')
    case ('time.dt'); call real_of(d%dt, 'positive')
    case ('time.steps'); call integer_of(d%steps, 1_int64, MANY, 'an integer from 1 to 10^10')
    case ('time.snapshot_every'); call integer_of(d%snapshot_every, 1_int64, MANY, 'an integer from 1 to 10^10')
    case ('particles.count'); call integer_of(d%count, 1_int64, MANY, 'an integer from 1 to 10^10')
    case ('field.amplitude'); call real_of(d%field_amplitude, 'any')
    case ('field.mode'); call integer_of(d%field_mode, 1_int64, 1000000_int64, 'an integer from 1 to 10^6')
    case ('field.limit'); call real_of(d%field_limit, 'positive')
    case ('beam.name'); call name_of(d%beams(n)%name)
    case ('beam.plasma_frequency'); call real_of(d%beams(n)%plasma_frequency, 'positive')
    case ('beam.charge_to_mass'); call real_of(d%beams(n)%charge_to_mass, 'not 0')
    case ('beam.drift'); call real_of(d%beams(n)%drift, 'any')
    case ('beam.mode'); call integer_of(d%beams(n)%mode, 1_int64, 1000000_int64, 'an integer from 1 to 10^6')
    case ('beam.displacement'); call real_of(d%beams(n)%displacement, 'any')
    end select
    if (wanted /= '') error = '['//section//'] '//key//': '//key//' = '//value//' is not '//wanted

  contains

    subroutine see(known, which, seen)
      character(len=*), intent(in) :: known(:), which
      logical, intent(inout) :: seen(:)
      integer :: at
      at = findloc(known, which, 1)
      if (at == 0) then
        error = '['//section//'] '//key//': unknown key'
      else if (seen(at)) then
        error = '['//section//'] '//key//': given a second time'
      else
        seen(at) = .true.
      end if
    end subroutine see

    subroutine real_of(x, what)
      real(real64), intent(inout) :: x
      character(len=*), intent(in) :: what
      integer :: bad
      bad = verify(plain(value), '0123456789+-.eE')
      if (bad == 0) read (value, *, iostat=bad) x
      if (what == 'positive') then
        if (bad /= 0 .or. .not. x > 0) wanted = 'a number above 0'
      else if (what == 'not 0') then
        if (bad /= 0 .or. .not. abs(x) > 0) wanted = 'a finite number other than 0'
      else if (bad /= 0) then
        wanted = 'a finite number'
      end if
      if (bad == 0 .and. .not. ieee_is_finite(x)) wanted = 'a finite number'
    end subroutine real_of

    subroutine integer_of(i, low, high, words)
      integer(int64), intent(inout) :: i
      integer(int64), intent(in) :: low, high
      character(len=*), intent(in) :: words
      integer :: bad
      bad = verify(plain(value), '0123456789+-')
      if (bad == 0) read (value, *, iostat=bad) i
      if (bad /= 0 .or. i < low .or. i > high) wanted = words
    end subroutine integer_of

    subroutine name_of(name)
      character(len=*), intent(inout) :: name
      integer :: last
      last = len(value)
      wanted = 'a name of letters, digits and underscores'
      if (last < 3) return
      if (value(1:1) /= value(last:) .or. index('"''', value(1:1)) == 0 .or. last - 2 > len(name)) return
      if (verify(value(2:last - 1), 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_') /= 0) return
      name = value(2:last - 1)
      wanted = ''
    end subroutine name_of

    !> A number without the underscores that TOML allows.
    function plain(word) result(digits)
      character(len=*), intent(in) :: word
      character(len=:), allocatable :: digits
      digits = merge('x', ' ', word == '')//word
      digits = trim(adjustl(digits))
    end function plain

  end subroutine take_value

  !> What no single key can tell.
  subroutine check_whole(d, error)
    type(input_deck), intent(inout) :: d
    character(len=:), allocatable, intent(inout) :: error
    integer :: b
    if (.not. all(d%seen)) error = 'the key '//trim(KEYS(findloc(d%seen, .false., 1)))//' is missing'
    if (size(d%beams) == 0) error = 'there is no [[beam]]; give one section for each beam'
    do b = 1, size(d%beams)
      if (.not. all(d%beams(b)%seen)) &
        error = '[beam]: the key '//trim(OF_BEAM(findloc(d%beams(b)%seen, .false., 1)))//' is missing'
      if (any(d%beams(:b - 1)%name == d%beams(b)%name)) error = '[beam] name: '//trim(d%beams(b)%name)//' names two beams'
    end do
    if (error == '') call deck_share(d, d%count, error)
    if (error == '' .and. abs(d%field_amplitude) > d%field_limit) error = '[field] amplitude: beyond the limit'
    if (error == '' .and. d%dt * maxval(d%beams%plasma_frequency) >= 2) &
      error = '[time] dt: leap-frog is unstable: dt times the plasma frequency must be below 2'
  end subroutine check_whole

  !> Shares the particles among the beams.
  subroutine deck_share(d, count, error)
    type(input_deck), intent(inout) :: d
    integer(int64), intent(in) :: count
    character(len=:), allocatable, intent(inout) :: error
    if (mod(count, size(d%beams, kind=int64)) /= 0) then
      error = text_of(count)//' particles cannot be shared evenly by '//text_of(size(d%beams, kind=int64))//' beams'
      return
    end if
    d%count = count
    d%beams%count = count / size(d%beams)
  end subroutine deck_share

  ! --- the deck as text, as the run keeps it: as Python writes it, so that a run goes on in any language ---

  function text_of(number) result(text)
    integer(int64), intent(in) :: number
    character(len=:), allocatable :: text
    character(len=24) :: room
    write (room, '(i0)') number
    text = trim(room)
  end function text_of

  !> The shortest text that reads back as the same number.
  function number_of(x) result(text)
    real(real64), intent(in) :: x
    character(len=:), allocatable :: text
    character(len=40) :: room, form
    real(real64) :: back
    integer :: digits, exponent
    do digits = 1, 17
      write (form, '(a, i0, a)') '(es40.', digits - 1, 'e3)'
      write (room, form) x
      read (room, *) back
      if (abs(back - x) <= 0) exit
    end do
    read (room(index(room, 'E') + 1:), *) exponent
    if (exponent >= -4 .and. exponent < 16) then
      write (form, '(a, i0, a)') '(f40.', max(1, digits - 1 - exponent), ')'
      write (room, form) x
      text = trim(adjustl(room))
    else
      write (form, '(i0)') abs(exponent)
      text = trim(adjustl(room(:index(room, 'E') - 1)))//'e'//merge('-', '+', exponent < 0)// &
          trim(merge('0', ' ', abs(exponent) < 10))//trim(form)
    end if
  end function number_of

  !> Visits all keys in order.
  subroutine deck_flat(d, visit)
    type(input_deck), intent(in) :: d
    procedure(visitor) :: visit
    character(len=:), allocatable :: name
    integer :: b
    call visit('length', number_of(d%length))
    call visit('grid', text_of(d%grid))
    call visit('dt', number_of(d%dt))
    call visit('steps', text_of(d%steps))
    call visit('snapshot_every', text_of(d%snapshot_every))
    do b = 1, size(d%beams)
      name = trim(d%beams(b)%name)
      call visit(name//'.plasma_frequency', number_of(d%beams(b)%plasma_frequency))
      call visit(name//'.charge_to_mass', number_of(d%beams(b)%charge_to_mass))
      call visit(name//'.drift', number_of(d%beams(b)%drift))
      call visit(name//'.mode', text_of(d%beams(b)%mode))
      call visit(name//'.displacement', number_of(d%beams(b)%displacement))
      call visit(name//'.count', text_of(d%beams(b)%count))
    end do
    call visit('field_amplitude', number_of(d%field_amplitude))
    call visit('field_mode', text_of(d%field_mode))
    call visit('field_limit', number_of(d%field_limit))
  end subroutine deck_flat

end module deck
