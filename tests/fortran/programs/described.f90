!> Arrays of a snapshot that say what they are, and attributes of everything that has some.

program described
  use check
  use, intrinsic :: iso_c_binding, only: c_bool
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_quiet_nan, ieee_value
  implicit none
  type(fb_run) :: run
  real(real64), target :: x(6), y(3)
  real(real64) :: t(6, 3)
  character(len=8), target :: kinds(3)
  integer :: stat, i, j
  x = [(0.25d0 * i, i=0, 5)]
  y = [10, 12, 14]
  kinds = [character(len=8) :: 'ion', 'electron', 'probe']
  t = reshape([((real(10 * i + j, real64), i=0, 5), j=0, 2)], [6, 3])
  call fb_run_open(place(), 'w', run, compress='zstd')
  call taken()
  call fb_flush(run)
  call refusals()
  call read_back()
  call everywhere()
  call fb_run_close(run)
  call finish()

contains

  subroutine taken()
    type(fb_snapshot) :: s
    real(real64), pointer :: p(:, :)
    real(real64), allocatable :: steps(:)
    logical :: yes
    nullify (p)
    call fb_snapshot_begin(run, 1, s, time=0.5d0)
    call fb_snapshot_put(s, 'T', t, units='K', dims=['x', 'y'], coords=[fb_coord('x', x, 'm'), fb_coord('y', y)], &
        attrs='{"long_name": "temperature", "gone": 1}')
    call fb_snapshot_put(s, 'u', real(t, real32), dims=['x   ', 'kind'], &
        coords=[fb_coord('x', x, units='m'), fb_coord('kind', kinds)], attrs='{"_FillValue": -1}')
    call fb_snapshot_allocate(s, 'p', p, [6, 3], units='K', dims=['x', 'y'], coords=[fb_coord('x', x, 'm')], &
        attrs='{"from": "the buffer"}')
    p = t
    allocate (steps(20000))
    do i = 1, size(steps)
      steps(i) = real((i - 1) / 100, real64)
    end do
    call fb_snapshot_put(s, 'small', steps, compress='gzip')
    call fb_snapshot_put(s, 'plain', steps, compress='none')
    call fb_snapshot_put(s, 'opened', steps)
    call fb_snapshot_put(s, 'v', t, compress='zip', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '"zip"')
    call fb_snapshot_put(s, 'nodes', t, offset=[0, 0], global=[6, 3], overlap='last')
    nullify (p)
    call fb_snapshot_allocate(s, 'room', p, [6, 3], offset=[0, 0], global=[6, 3], overlap='equal')
    p = t
    call fb_snapshot_put(s, 'v', t, offset=[0, 0], global=[6, 3], overlap='mean', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '"mean"')
    call fb_snapshot_put(s, 'v', t, append=.true., overlap='last', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'offset and global')
    call fb_snapshot_put(s, 'kelvin', t(:1, :1), attrs='{"units": "K"}')
    call fb_attr_set(s, 'sigma', 0.5d0, 'T')
    call fb_attr_set(s, 'n', 3, name='T')
    call fb_attr_set(s, 'box', [1.0, 2.5], name='T')
    call fb_attr_set(s, 'walls', ['in ', 'out'], name='T')
    call fb_attr_set_json(s, '{"periodic": true}', name='T')
    call fb_attr_delete(s, 'gone', name='T')
    call fb_attr_set(s, 'axis', 'X', name='x')
    call fb_attr_set(s, 'a', 1, name='none', stat=stat, errmsg=said)
    call refused(stat, FB_NOT_FOUND, 'put it first')
    call fb_attr_has(s, 'sigma', yes, name='T', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'being taken')
    call fb_snapshot_end(s)
  end subroutine taken

  subroutine refusals()
    type(fb_snapshot) :: s, none
    real(real64), allocatable, target :: never(:)
    call fb_snapshot_begin(run, 2, s)
    call fb_snapshot_put(s, 'T', t, dims=['x'], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'the array has 2')
    call fb_snapshot_put(s, 'T', t, coords=[fb_coord('x', x)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'without dims')
    call fb_snapshot_put(s, 'T', t, dims=['x', 'y'], coords=[fb_coord('x', x(:5))], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '5 elements, and the axis has 6')
    call fb_snapshot_put(s, 'T', t, dims=[('x', i=1, 9)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'more than 8')
    call fb_snapshot_put(s, 'T', t, dims=['x', 'y'], coords=[(fb_coord('x', x), i=1, 9)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '9 coordinates')
    allocate (never(0))
    call fb_snapshot_put(s, 'T', t, dims=['x', 'y'], coords=[fb_coord('x', never)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '0 elements')
    call fb_snapshot_put(s, 'T', t, attrs='no JSON', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'no JSON')
    ! Every second element, backwards: what is put is what the section shows.
    call fb_snapshot_put(s, 'half', x(:3), dims=['h'], coords=[fb_coord('h', x(5:1:-2))])
    call fb_snapshot_end(s)
    call fb_attr_set(none, 'a', 1, name='T', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'snapshot')
  end subroutine refusals

  subroutine read_back()
    type(fb_snapshot) :: s
    type(fb_array_stats) :: counted
    character(len=20), allocatable :: names(:)
    character(len=:), allocatable :: words
    character(len=3), allocatable :: walls(:)
    character(len=5) :: wide(2)
    real(real64) :: sigma, half(3)
    real(real32) :: box(2)
    real(real64), allocatable :: new(:)
    integer(int64), allocatable :: extents(:)
    integer :: n, kind
    logical :: yes
    call fb_snapshot_at(run, 1, s)
    call fb_snapshot_dims(s, 'T', names)
    call expect(size(names) == 2 .and. all(names == ['x', 'y']), 'names of axes')
    call fb_snapshot_coords(s, 'u', names)
    call expect(size(names) == 2 .and. all(names == ['x   ', 'kind']), 'names of coordinates')
    call fb_snapshot_dims(s, 'x', names)
    call expect(size(names) == 0, 'an array without names')
    call fb_snapshot_stats(s, 'small', counted)
    call expect(counted%nans == 0 .and. abs(counted%max - 199) <= 0 .and. abs(counted%mean - 99.5d0) <= 0, 'what values come to')
    call fb_attr_get(s, 'sigma', sigma, name='T')
    call fb_attr_get(s, 'n', n, name='T')
    call fb_attr_get(s, 'long_name', words, name='T')
    call fb_attr_get(s, 'periodic', yes, name='T')
    call expect(abs(sigma - 0.5d0) <= 0 .and. n == 3 .and. words == 'temperature' .and. yes, 'single values')
    call fb_attr_kind(s, 'box', kind, name='T', shape=extents)
    call expect(kind == FB_F32 .and. size(extents) == 1 .and. all(extents == 2), 'what an attribute is')
    call fb_attr_get(s, 'box', box, name='T')
    call fb_attr_get_alloc(s, 'box', new, name='T')
    call expect(abs(box(2) - 2.5) <= 0 .and. size(new) == 2 .and. abs(new(2) - 2.5d0) <= 0, 'an array')
    call fb_attr_get_alloc(s, 'walls', walls, name='T')
    call fb_attr_get(s, 'walls', wide, name='T')
    call expect(all(walls == ['in ', 'out']) .and. all(wide == walls), 'a list of texts')
    call fb_attr_kind(s, 'walls', kind, name='T', shape=extents)
    call expect(kind == FB_STR .and. all(extents == [2, 3]), 'what it is')
    call fb_attr_kind(s, '_FillValue', kind, name='u')
    call expect(kind == FB_F32, 'a value that stands for elements has their dtype')
    call fb_attr_has(s, 'gone', yes, name='T')
    call expect(.not. yes, 'what was deleted')
    call fb_attr_get_json(s, words, name='p')
    call expect(words == '{"from":"the buffer"}', 'all of an array that was filled in place')
    call fb_attr_get(s, 'sigma', n, name='T', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '0.5')
    call fb_snapshot_at(run, 2, s)
    call fb_snapshot_get(s, 'h', half)
    call expect(all(abs(half - x(5:1:-2)) <= 0), 'a coordinate that is a section')
  end subroutine read_back

  subroutine everywhere()
    type(fb_table) :: bodies
    integer(int64) :: long, most
    integer(int8) :: byte
    real(real32) :: single
    real(real64) :: m(2, 3), back(2, 3), number
    complex(real64) :: z, w
    complex(real32), allocatable :: several(:)
    logical :: flags(3)
    logical(c_bool) :: truth
    integer :: kind
    integer(int64), allocatable :: extents(:)
    real(real64), allocatable :: new(:, :)
    character(len=:), allocatable :: words
    call fb_table_open(run, 'bodies', bodies, [fb_column('a', FB_F64)])
    call fb_put(run, 'set', 1d0, set=3)
    m = reshape([0d0, 3d0, 1d0, 4d0, 2d0, 5d0], [2, 3])
    z = (1.5d0, -2d0)
    call fb_attr_set(run, 'matrix', m)
    call fb_attr_set(run, 'matrix', m, name='set', set=3)
    call fb_attr_set(run, 'matrix', m(2:1:-1, :), table='bodies')
    call fb_attr_get(run, 'matrix', back)
    call expect(all(abs(m - back) <= 0), 'a matrix of the run')
    call fb_attr_get(run, 'matrix', back, name='set', set=3)
    call expect(all(abs(m - back) <= 0), 'a matrix of a data set')
    call fb_attr_get(run, 'matrix', back(2:1:-1, :), table='bodies')
    call expect(all(abs(m - back) <= 0), 'a section of a matrix of a table')
    call fb_attr_get_alloc(run, 'matrix', new, name='set', set=3)
    call fb_attr_get_alloc(run, 'matrix', new, table='bodies')
    call expect(all(shape(new) == [2, 3]) .and. all(abs(new(1, :) - m(2, :)) <= 0), 'a new one')
    call fb_attr_kind(run, 'matrix', kind, name='set', set=3, shape=extents)
    call expect(kind == FB_F64 .and. all(extents == [2, 3]), 'what it is')
    call fb_attr_kind(run, 'matrix', kind, table='bodies')
    call expect(kind == FB_F64, 'what that of a table is')
    call fb_attr_set(run, 'z', z)
    call fb_attr_get(run, 'z', w)
    call expect(abs(z - w) <= 0, 'a complex number')
    call fb_attr_set(run, 'zs', [z, -z], table='bodies')
    call fb_attr_get_alloc(run, 'zs', several, table='bodies')
    call expect(size(several) == 2 .and. abs(several(2) - (-1.5, 2.0)) <= 0, 'complex numbers of another precision')
    call fb_attr_set(run, 'byte', 7_int8)
    call fb_attr_get(run, 'byte', long)
    call fb_attr_get(run, 'byte', byte)
    call expect(long == 7 .and. byte == 7, 'an integer of one byte')
    call fb_attr_set(run, 'single', 0.1)
    call fb_attr_get(run, 'single', single)
    call expect(abs(single - 0.1) <= 0, 'single precision')
    call fb_attr_set(run, 'flags', [.true., .false., .true.])
    call fb_attr_get(run, 'flags', flags)
    call fb_attr_set(run, 'truth', .true._c_bool)
    truth = .false.
    call fb_attr_get(run, 'truth', truth)
    call expect(all(flags .eqv. [.true., .false., .true.]) .and. truth, 'truth values')
    call fb_attr_set(run, 'nan', ieee_value(number, ieee_quiet_nan), table='bodies')
    call fb_attr_get(run, 'nan', number, table='bodies')
    call expect(ieee_is_nan(number), 'a number that is none')
    call fb_attr_set_json(run, '{"most": 18446744073709551615, "nested": [1, "a"]}')
    call fb_attr_get(run, 'most', most, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '18446744073709551615')
    call fb_attr_kind(run, 'nested', kind)
    call expect(kind == 0, 'what is no array')
    call fb_attr_get_alloc(run, 'matrix', several, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'rank')
    call fb_attr_get(run, 'nested', words, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'not a text')
    call fb_attr_kind(run, 'nobody', kind, stat=stat, errmsg=said)
    call refused(stat, FB_NOT_FOUND, 'nobody')
    call fb_table_free(bodies)
  end subroutine everywhere

end program described
