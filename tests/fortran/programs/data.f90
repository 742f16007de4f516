!> Data sets: whole arrays, sections, parts, new arrays, texts, versions, lists, descriptors, and bad arguments.

program data
  use check
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_value, ieee_quiet_nan
  implicit none
  type(fb_run) :: run, twice
  integer :: stat
  call fb_run_open(place(), 'w', run)
  call fb_run_open(place(), 'w', twice, stat=stat, errmsg=said)
  call refused(stat, FB_CONFLICT, 'this process has')
  call sections()
  call parts()
  call mapped()
  call new_arrays()
  call texts()
  call logicals()
  call versions_and_lists()
  call attributes()
  call attributes_of_a_set()
  call bad_arguments()
  call fb_run_close(run)
  call finish()

contains

  subroutine sections()
    real(real64) :: e(6, 5), back(6, 5), odd(3, 5)
    type :: particle
      real(real64) :: x
      real(real32) :: v
    end type particle
    type(particle) :: beam(7)
    real(real32) :: v(7)
    integer :: i
    call random_number(e)
    do i = 1, 7
      beam(i) = particle(real(i, real64), 0.5 * real(i))
    end do
    call fb_put(run, 'section', e(1:6:2, 5:1:-1))
    call fb_get(run, 'section', odd)
    call expect(all(abs(odd - e(1:6:2, 5:1:-1)) <= 0), 'a section goes as it is')
    back = 0
    call fb_get(run, 'section', back(2:6:2, 5:1:-1))
    call expect(all(abs(back(2:6:2, 5:1:-1) - odd) <= 0), 'a section gets what was put')
    call expect(all(abs(back(1:6:2, :)) <= 0), 'what is not of the section is left alone')
    call fb_put(run, 'member', beam%v)
    call fb_get(run, 'member', v)
    call expect(all(abs(v - beam%v) <= 0), 'a member of structures goes')
    v = -v
    call fb_put(run, 'member', v)
    call fb_get(run, 'member', beam%v)
    call expect(all(abs(beam%v - v) <= 0), 'a member of structures gets')
    call expect(all(abs(beam%x - [(real(i, real64), i=1, 7)]) <= 0), 'the other member is left alone')
    call fb_put(run, 'expression', 2 * e([1, 4], :))
    call fb_get(run, 'expression', odd(1:2, :))
    call expect(all(abs(odd(1:2, :) - 2 * e([1, 4], :)) <= 0), 'an expression goes')
    call fb_put(run, 'nothing', e(:, 1:0))
    call fb_get(run, 'nothing', e(:, 3:2))
    call inner(e(2:4, 2:3))
  end subroutine sections

  !> A section that came as an argument.
  subroutine inner(a)
    real(real64), intent(in) :: a(0:, -1:)
    real(real64) :: b(size(a, 1), size(a, 2))
    call fb_put(run, 'inner', a)
    call fb_get(run, 'inner', b)
    call expect(all(abs(a - b) <= 0), 'a dummy argument with bounds of its own goes')
  end subroutine inner

  subroutine parts()
    integer(int32) :: a(4, 5), column(4), some(2, 2), i
    a = reshape([(i, i=1, 20)], [4, 5])
    call fb_put(run, 'parts', a)
    call fb_get_part(run, 'parts', some, offset=[1, 2])
    call expect(all(some == a(2:3, 3:4)), 'a part from an offset on')
    call fb_get_part(run, 'parts', some, offset=[0_int64, 0_int64], step=[2_int64, 4_int64])
    call expect(all(some == a(1:4:2, 1:5:4)), 'every second row, every fourth column')
    call fb_get_part(run, 'parts', column, offset=[0, 3], count=[4, 1])
    call expect(all(column == a(:, 4)), 'a column of a matrix')
    column = 0
    call fb_get_part(run, 'parts', column(1:4:2), offset=[1, 0], count=[1, 2])
    call expect(all(column == [2, 0, 6, 0]), 'a part into a section')
  end subroutine parts

  subroutine mapped()
    real(real64), pointer :: p(:, :), line(:)
    real(real64), allocatable :: much(:, :)
    integer :: i, j
    p => null()
    line => null()
    allocate (much(200, 150))
    do j = 1, 150
      much(:, j) = [(1000 * j + i, i=1, 200)]
    end do
    call fb_put(run, 'much', much)
    call fb_map(run, 'much', p, stat=stat, errmsg=said)
    if (index(place(), 'fb://') == 1) then
      call refused(stat, FB_BAD_ARGUMENT, 'another host')
      return
    end if
    call expect(all(shape(p) == [200, 150]) .and. all(abs(p - much) <= 0), 'memory over a data set')
    call fb_delete(run, 'much')
    call expect(abs(p(200, 150) - 150200) <= 0, 'it stays when the data set is deleted')
    call fb_unmap(p)
    call expect(.not. associated(p), 'a pointer to nothing')
    call fb_map(run, 'parts', p, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'i32')
    call fb_map(run, 'no such set', line, set=3, stat=stat, errmsg=said)
    call refused(stat, FB_NOT_FOUND, 'no such set')
    call fb_unmap(line, stat=stat, errmsg=said)
    call expect(stat == FB_OK, 'nothing is let go of')
  end subroutine mapped

  subroutine new_arrays()
    complex(real64), allocatable :: c(:, :)
    real(real32), allocatable :: scalar, wrong(:)
    integer(int16), allocatable :: h(:, :, :)
    type :: box
      real(real64), allocatable :: field(:, :)
    end type box
    type(box) :: b
    integer :: i
    call fb_put(run, 'c', reshape([((1.0_real64, 2.0_real64) * i, i=1, 6)], [2, 3]))
    call fb_get_alloc(run, 'c', c)
    call expect(all(shape(c) == [2, 3]) .and. abs(c(2, 3) - (6.0_real64, 12.0_real64)) <= 0, 'a new array')
    call fb_get_alloc(run, 'c', c)
    call expect(all(shape(c) == [2, 3]), 'an array that was allocated before')
    call fb_put(run, 'h', reshape([(int(i, int16), i=1, 24)], [4, 3, 2]))
    call fb_get_alloc(run, 'h', h)
    call expect(h(3, 2, 2) == 19, 'a new array of three dimensions')
    call fb_put(run, 'r', 2.5)
    call fb_get_alloc(run, 'r', scalar)
    call expect(abs(scalar - 2.5) <= 0, 'a new scalar')
    call fb_put(run, 'field', reshape([1d0, 2d0, 3d0, 4d0], [2, 2]))
    call fb_get_alloc(run, 'field', b%field)
    call expect(abs(b%field(1, 2) - 3) <= 0, 'a component')
    call fb_get_alloc(run, 'c', wrong, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'c128')
    call expect(.not. allocated(wrong), 'nothing is allocated when it fails')
  end subroutine new_arrays

  subroutine texts()
    character(len=8) :: short(3), back(3)
    character(len=5) :: words(2, 2), again(2, 2)
    character(len=:), allocatable :: found
    character(len=3) :: tight
    short = [character(len=8) :: 'one', '', 'three']
    call fb_put(run, 'word', 'potential   ')
    call fb_get_alloc(run, 'word', found)
    call expect(len(found) == 9 .and. found == 'potential', 'a text loses the blanks at its end')
    back = 'x'
    call fb_put(run, 'two', 'ab')
    call fb_get(run, 'two', back(1))
    call expect(back(1) == 'ab', 'a text gets blanks up to the variable')
    call fb_get(run, 'word', tight, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '9 bytes')
    call fb_put(run, 'list', short)
    call fb_get(run, 'list', back)
    call expect(all(back == short), 'an array of texts')
    words = reshape(['north', 'east ', 'south', 'west '], [2, 2])
    call fb_put(run, 'table of words', words)
    call fb_get(run, 'table of words', again)
    call expect(all(again == words), 'a matrix of texts')
    call fb_put(run, 'every second', short(1:3:2))
    call fb_get(run, 'every second', back(3:1:-2))
    call expect(back(3) == 'one' .and. back(1) == 'three', 'a section of texts')
    call fb_put(run, 'empty', '')
    call fb_get_alloc(run, 'empty', found)
    call expect(len(found) == 0, 'no letters')
  end subroutine texts

  subroutine logicals()
    use, intrinsic :: iso_c_binding, only: c_bool
    logical :: here(3, 2), there(3, 2), one
    logical(c_bool) :: byte(3, 2)
    here = reshape([.true., .false., .false., .true., .true., .false.], [3, 2])
    call fb_put(run, 'l', here)
    call fb_get(run, 'l', there)
    call expect(all(here .eqv. there), 'truth values of the default kind')
    call fb_get(run, 'l', byte)
    call expect(all(here .eqv. byte), 'the same of one byte')
    call fb_put(run, 'l', byte(3:1:-1, :))
    call fb_get(run, 'l', there(3:1:-1, :))
    call expect(all(here .eqv. there), 'sections of them')
    call fb_put(run, 'truth', .true.)
    one = .false.
    call fb_get(run, 'truth', one)
    call expect(one, 'one truth value')
  end subroutine logicals

  subroutine versions_and_lists()
    type(fb_dataset), allocatable :: found(:)
    type(fb_dataset) :: info
    integer(int64) :: version, count
    real(real64) :: a(2)
    a = [1, 2]
    call fb_put_if_version(run, 'v', a, 0, version, set=7, units='m')
    call expect(version == 1, 'the first version')
    call fb_put_if_version(run, 'v', a, version, new_version=version, set=7, units='m', attrs='{"probe": 3}')
    call expect(version == 2, 'the second version')
    call fb_put_if_version(run, 'v', a, 1, set=7, stat=stat, errmsg=said)
    call refused(stat, FB_CONFLICT, 'v')
    call fb_dataset_info(run, 'v', info, set=7_int64)
    call expect(info%name == 'v' .and. info%units == 'm' .and. info%dtype == FB_F64 .and. info%set == 7, 'a description')
    call expect(info%ndim == 1 .and. info%shape(1) == 2 .and. info%nbytes == 16 .and. info%version == 2, 'its shape')
    call fb_put(run, 'v', a, set=9)
    call fb_list(run, 'v', found)
    call expect(size(found) == 2 .and. all(found%set == [7, 9]), 'all sets of a name')
    call fb_list(run, 'v', found, set=9)
    call expect(size(found) == 1, 'one set of a name')
    call fb_copy(run, 'v', 'w', count=count)
    call expect(count == 2, 'copied with all sets')
    call fb_rename(run, 'w', 'z', count=count)
    call expect(count == 2, 'renamed with all sets')
    call fb_delete(run, 'z', set=7, count=count)
    call expect(count == 1, 'one set deleted')
    call fb_delete(run, '[vz]', count=count)
    call expect(count == 3, 'all sets deleted')
    call without_a_sign()
    call fb_put(run, 'raw', [1_int8, 2_int8], dtype=FB_BYTES)
    call fb_dataset_info(run, 'raw', info)
    call expect(info%dtype == FB_BYTES, 'bytes')
  end subroutine versions_and_lists

  !> Integers that have no sign elsewhere, in a set of their own.
  subroutine without_a_sign()
    type(fb_dataset) :: info
    integer(int32) :: bits(2), last(1)
    integer(int16) :: half(2)
    integer(int32), allocatable :: new(:)
    integer(int64) :: version
    call fb_put(run, 'bits', [-1, 7], set=2, dtype=FB_U32, units='1', attrs='{"mask": true}')
    call fb_dataset_info(run, 'bits', info, set=2)
    call expect(info%dtype == FB_U32 .and. info%units == '1', 'bits without a sign')
    call fb_get(run, 'bits', bits, set=2, dtype=FB_U32)
    call fb_get_alloc(run, 'bits', new, set=2, dtype=FB_U32)
    call fb_get_part(run, 'bits', last, offset=[1], set=2, dtype=FB_U32)
    call expect(all(bits == [-1, 7]) .and. all(new == bits) .and. last(1) == 7, 'the same bits')
    call fb_get(run, 'bits', bits, set=2, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'u32')
    call fb_put_if_version(run, 'bits', bits, 1, version, set=2, dtype=FB_U32)
    call expect(version == 2, 'a second version of them')
    ! Numbers of half precision, by their bits: 1, -2.
    half = [15360_int16, -16384_int16]
    call fb_put(run, 'half', half, dtype=FB_F16)
    call fb_dataset_info(run, 'half', info)
    half = 0
    call fb_get(run, 'half', half, dtype=FB_F16)
    call expect(info%dtype == FB_F16 .and. all(half == [15360_int16, -16384_int16]), 'half precision')
    call fb_get_alloc(run, 'half', new, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'f16')
    call fb_put(run, 'none', bits, dtype=FB_F16, stat=stat, errmsg=said)
    call expect(stat == FB_BAD_ARGUMENT, 'bits of another size')
  end subroutine without_a_sign

  subroutine attributes()
    real(real64) :: x
    integer(int32) :: n
    integer(int64) :: long
    logical :: yes
    character(len=:), allocatable :: words
    call fb_put(run, 'E', [1d0])
    call fb_attr_set(run, 'solver', 'spectral', name='E')
    call fb_attr_set(run, 'order', 4, name='E')
    call fb_attr_set(run, 'dx', 0.5d0, name='E')
    call fb_attr_set(run, 'periodic', .true.)
    call fb_attr_set(run, 'long', 2_int64**40)
    call fb_attr_set_json(run, '{"a": [1, 2]}')
    call fb_attr_get(run, 'solver', words, name='E')
    call expect(words == 'spectral', 'a text')
    call fb_attr_get(run, 'order', n, name='E')
    call fb_attr_get(run, 'dx', x, name='E')
    call fb_attr_get(run, 'periodic', yes)
    call fb_attr_get(run, 'long', long)
    call expect(n == 4 .and. abs(x - 0.5d0) <= 0 .and. yes .and. long == 2_int64**40, 'numbers and truth')
    call fb_attr_set(run, 'blown up', ieee_value(x, ieee_quiet_nan))
    call fb_attr_get(run, 'blown up', x)
    call expect(ieee_is_nan(x), 'a number that is none')
    call fb_attr_set_json(run, '{"n": 18446744073709551616}', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '18446744073709551616')
    call fb_attr_get(run, 'long', n, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'long')
    call fb_attr_get_json(run, words)
    call expect(index(words, '"periodic":true') > 0, 'all as JSON')
    call fb_attr_delete(run, 'a')
    call fb_attr_has(run, 'a', yes)
    call expect(.not. yes, 'deleted')
    call fb_attr_get(run, 'none', x, name='E', stat=stat, errmsg=said)
    call refused(stat, FB_NOT_FOUND, 'none')
  end subroutine attributes

  !> The attributes of one set of a name; they are not those of another.
  subroutine attributes_of_a_set()
    character(len=:), allocatable :: words
    logical :: yes
    integer :: n
    call fb_put(run, 'E', [1d0], set=5, attrs='{"from": "probe 5"}')
    call fb_attr_set(run, 'at', 12, name='E', set=5)
    call fb_attr_set_json(run, '{"b": 2}', name='E', set=5)
    call fb_attr_get(run, 'b', n, name='E', set=5)
    call fb_attr_get_json(run, words, name='E', set=5)
    call expect(n == 2 .and. index(words, '"from":"probe 5"') > 0, 'those that came with the data, and others')
    call fb_attr_has(run, 'at', yes, name='E')
    call expect(.not. yes, 'another set has none of them')
    call fb_attr_delete(run, 'at', name='E', set=5)
    call fb_attr_has(run, 'at', yes, name='E', set=5)
    call expect(.not. yes, 'deleted from a set')
  end subroutine attributes_of_a_set

  subroutine bad_arguments()
    real(real64) :: a(2, 2), nine(1, 1, 1, 1, 1, 1, 1, 1, 1), flat(4)
    real(real64), allocatable :: never(:)
    real(real32) :: single(2, 2)
    type(fb_run) :: none
    a = 1
    nine = 1
    call fb_put(run, 'a', a)
    call fb_put(run, 'nine', nine, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'rank 9')
    call fb_get(run, 'a', single, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'f32')
    call fb_get(run, 'a', flat, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '(2, 2)')
    call fb_get_part(run, 'a', flat, offset=[0, 0], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'count')
    call fb_get_part(run, 'a', flat(1:3), offset=[0, 0], count=[2, 1], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '(2, 1)')
    call fb_get_part(run, 'a', flat(1:2), offset=[1, 0], count=[2, 1], stat=stat, errmsg=said)
    call expect(stat == FB_BAD_ARGUMENT, 'a part beyond the end')
    call fb_put(run, 'a', a, set=1.5, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'integer')
    call fb_put(run, 'a', a, dtype=FB_I64, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'dtype')
    call fb_put(run, '', a, stat=stat, errmsg=said)
    call expect(stat == FB_BAD_ARGUMENT, 'no name')
    call fb_put(none, 'a', a, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'run')
    call assumed_size(flat, never)
    call fb_get(run, 'a', a)
    call expect(all(abs(a - 1) <= 0), 'the data are as before')
  end subroutine bad_arguments

  subroutine assumed_size(a, never)
    real(real64), intent(in) :: a(*)
    real(real64), allocatable, intent(in) :: never(:)
    call expect(.not. allocated(never), 'never allocated')
    call fb_put(run, 'assumed', a(1:4))
  end subroutine assumed_size

end program data
