!> Snapshots: whole arrays, blocks, what is appended, places in the buffer; read, restarted from, marked.

program snapshots
  use check
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan
  implicit none
  type(fb_run) :: run
  real(real64) :: e(4, 6)
  integer :: stat, i
  e = reshape([(real(i, real64), i=1, 24)], [4, 6])
  call fb_run_open(place(), 'w', run)
  call taken()
  call read_back()
  call refusals()
  call again()
  call fb_run_close(run)
  call kept()
  call finish()

contains

  subroutine taken()
    type(fb_snapshot) :: s, none
    real(real64), pointer :: whole(:, :), block(:, :), line(:)
    complex(real32), pointer :: c(:, :, :)
    integer(int64) :: step
    integer(int64), allocatable :: steps(:)
    nullify (whole, block, line, c) ! or valgrind wonders at what the compiler copies
    call fb_restart(run, none)
    call expect(.not. fb_is_there(none), 'a new run has no snapshot')
    do while (fb_step(run, step, 3))
      call fb_snapshot_begin(run, step, s, time=0.5d0 * real(step, real64))
      call fb_snapshot_put(s, 'E', e + real(step, real64), units='V/m')
      call fb_snapshot_put(s, 'section', e(4:1:-1, 1:6:2))
      call fb_snapshot_put(s, 'block', e(1:2, :), offset=[0, 0], global=[2, 6])
      call fb_snapshot_put(s, 'part', e(:, 2:4), offset=[0, 0], global=[4, 3])
      call fb_snapshot_put(s, 'x', e(:, 1), append=.true., units='m')
      call fb_snapshot_put(s, 'note', 'step')
      call fb_snapshot_put(s, 'flags', [.true., .false.])
      call fb_snapshot_put(s, 'n', step)
      call fb_snapshot_put(s, 'bits', [-1, 6, 7], dtype=FB_U32)
      call fb_snapshot_allocate(s, 'B', whole, [4, 6], units='T')
      whole = e * 2
      call fb_snapshot_allocate(s, 'placed block', block, shape(e), offset=[0, 0], global=[4, 6])
      block(:, :) = e * 3
      call fb_snapshot_allocate(s, 'line', line, [5_int64], append=.true.)
      line = [1, 2, 3, 4, 5]
      call fb_snapshot_allocate(s, 'c', c, [2, 1, 3])
      c = (1.0, -1.0)
      call fb_snapshot_end(s)
    end do
    call fb_snapshot_wait(s, timeout=30d0)
    call fb_snapshots(run, steps)
    call expect(all(steps == [0, 1, 2]), 'three snapshots')
    call over_time()
    call fb_snapshot_begin(run, step, s)
    call fb_snapshot_put(s, 'E', e)
    call fb_snapshot_discard(s)
    call fb_snapshots(run, steps)
    call expect(size(steps) == 3, 'what is discarded is not listed')
  end subroutine taken

  subroutine over_time()
    real(real64) :: whole(4, 6, 3), part(2, 1, 2), one(3), wide(2, 3)
    logical :: flags(2, 3)
    integer :: i
    character(len=200) :: words
    call fb_series(run, 'E', whole)
    call expect(all([(all(abs(whole(:, :, i) - e - (i - 1)) <= 0), i=1, 3)]), 'arrays of all steps')
    call fb_series(run, 'E', part, steps=[2_int64, 0_int64], offset=[1, 5], step=[2, 1])
    call expect(all(abs(part(:, 1, 1) - e(2:4:2, 6) - 2) <= 0) .and. all(abs(part(:, 1, 2) - e(2:4:2, 6)) <= 0), &
        'parts at two steps')
    call fb_series(run, 'E', wide(2, :), offset=[3, 0])
    call expect(all(abs(wide(2, :) - e(4, 1) - [0, 1, 2]) <= 0), 'one element over time, where its elements lie apart')
    call fb_series(run, 'flags', flags)
    call expect(all(flags(1, :)) .and. .not. any(flags(2, :)), 'truth values over time')
    words = ''
    call fb_series(run, 'x', one, offset=[0], step=[1], missing_nan=.true., stat=stat, errmsg=words)
    call expect(stat == FB_OK .and. all(abs(one - e(1, 1)) <= 0), 'one element of a line over time')
    call fb_series(run, 'no such array', one, missing_nan=.true., stat=stat, errmsg=words)
    call expect(stat == FB_NOT_FOUND .and. index(words, 'no such array') > 0, 'a name that no step has is told')
    call fb_series(run, 'bits', part, dtype=FB_F64, stat=stat)
    call expect(stat == FB_BAD_ARGUMENT .or. stat == FB_CONFLICT, 'an array of another kind is refused')
  end subroutine over_time

  subroutine read_back()
    type(fb_snapshot) :: s
    type(fb_step_info) :: about
    type(fb_dataset) :: info
    character(len=20), allocatable :: names(:)
    character(len=:), allocatable :: word
    real(real64) :: a(4, 6), b(4, 3), column(4)
    real(real64), pointer :: p(:, :)
    real(real64), allocatable :: new(:, :), line(:)
    complex(real32), allocatable :: c(:, :, :)
    logical :: flags(2)
    integer(int64) :: n
    integer(int32) :: bits(3)
    integer(int32), allocatable :: again(:)
    call fb_snapshot_at(run, 2, s)
    call fb_snapshot_step(s, about)
    call expect(about%step == 2 .and. abs(about%time - 1) <= 0 .and. about%nbytes > 0, 'what the snapshot is')
    call fb_snapshot_names(s, names)
    call expect(size(names) == 13 .and. any(names == 'placed block'), 'its names')
    call fb_snapshot_info(s, 'E', info)
    call expect(info%units == 'V/m' .and. all(info%shape(:2) == [4, 6]), 'an array of it')
    call fb_snapshot_get(s, 'E', a)
    call expect(all(abs(a - e - 2) <= 0), 'a whole array')
    p => null()
    call fb_snapshot_map(s, 'E', p, stat=stat)
    if (stat == FB_OK) then
      call expect(all(abs(p - e - 2) <= 0), 'memory over an array')
      call fb_unmap(p)
    end if
    call fb_snapshot_get(s, 'section', b)
    call expect(all(abs(b - e(4:1:-1, 1:6:2)) <= 0), 'a section')
    call fb_snapshot_get(s, 'part', b(4:1:-1, :))
    call expect(all(abs(b(4:1:-1, :) - e(:, 2:4)) <= 0), 'a block, into a section')
    call fb_snapshot_get(s, 'x', column)
    call expect(all(abs(column - e(:, 1)) <= 0), 'what was appended')
    call fb_snapshot_get_part(s, 'E', column, offset=[0, 4], count=[4, 1])
    call expect(all(abs(column - e(:, 5) - 2) <= 0), 'a column')
    call fb_snapshot_get_part(s, 'E', a(1:2, 1:2), offset=[0, 0], step=[3, 5])
    call expect(all(abs(a(1:2, 1:2) - e(1:4:3, 1:6:5) - 2) <= 0), 'the corners')
    call fb_snapshot_get_alloc(s, 'B', new)
    call expect(all(abs(new - 2 * e) <= 0), 'what was filled in place')
    call fb_snapshot_get_alloc(s, 'placed block', new)
    call expect(all(abs(new - 3 * e) <= 0), 'a block that was filled in place')
    call fb_snapshot_get_alloc(s, 'line', line)
    call expect(all(abs(line - [1, 2, 3, 4, 5]) <= 0), 'a line that was filled in place')
    call fb_snapshot_get_alloc(s, 'c', c)
    call expect(all(shape(c) == [2, 1, 3]) .and. all(abs(c - (1.0, -1.0)) <= 0), 'complex numbers')
    call fb_snapshot_get_alloc(s, 'note', word)
    call fb_snapshot_get(s, 'flags', flags)
    call fb_snapshot_get(s, 'n', n)
    call fb_snapshot_get(s, 'bits', bits, dtype=FB_U32)
    call fb_snapshot_get_alloc(s, 'bits', again, dtype=FB_U32)
    call fb_snapshot_get_part(s, 'bits', bits(:2), offset=[1], dtype=FB_U32)
    call expect(all(bits == [6, 7, 7]) .and. all(again == [-1, 6, 7]), 'bits without a sign')
    call expect(word == 'step' .and. flags(1) .and. .not. flags(2) .and. n == 2, 'a text, truth values, a scalar')
  end subroutine read_back

  subroutine refusals()
    type(fb_snapshot) :: s, other
    real(real64), pointer :: line(:)
    nullify (line)
    call fb_snapshot_begin(run, 1, s, stat=stat, errmsg=said)
    call refused(stat, FB_CONFLICT, '1')
    call fb_snapshot_begin(run, 20, s, stat=stat, errmsg=said)
    call refused(stat, FB_CONFLICT, 'ended at step 3')
    call fb_snapshot_begin(run, 3, s)
    call fb_snapshot_begin(run, 3, other, stat=stat, errmsg=said)
    call refused(stat, FB_CONFLICT, '3 is not ended')
    call fb_snapshot_put(s, 'E', e, offset=[0, 0], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'global')
    call fb_snapshot_put(s, 'E', e, offset=[0], global=[4], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'axis')
    call fb_snapshot_put(s, 'E', e, offset=[0, 0], global=[4, 6], append=.true., stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'appended')
    call fb_snapshot_allocate(s, 'L', line, [2, 2], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'rank')
    call fb_snapshot_discard(s)
    call fb_snapshot_put(s, 'E', e, stat=stat, errmsg=said)
    call expect(stat /= FB_OK, 'a snapshot that was discarded takes nothing')
    call fb_snapshot_at(run, 7, s, stat=stat, errmsg=said)
    call refused(stat, FB_NOT_FOUND, '7')
  end subroutine refusals

  subroutine again()
    type(fb_snapshot) :: s
    type(fb_step_info) :: about
    type(fb_checkpoint_info), allocatable :: marks(:)
    character(len=:), allocatable :: json
    real(real64), target, save :: nu = 2
    integer(int64) :: step
    type(fb_table) :: history
    integer(int64) :: rows
    integer :: short, first
    logical :: taken
    call fb_parameter(run, 'nu', nu, min=0d0)
    call fb_checkpoint(run, tag='good', step=step)
    call expect(step == 2, 'the last step is marked')
    call fb_checkpoints(run, marks)
    call expect(size(marks) == 1 .and. marks(1)%tag == 'good' .and. marks(1)%step == 2 .and. marks(1)%kept, 'the mark')
    call expect(marks(1)%id == 1 .and. marks(1)%parent == 0 .and. abs(marks(1)%time - 1) <= 0, 'its place in the tree')
    call fb_restart(run, s)
    call fb_snapshot_step(s, about)
    call fb_steps_from(run, s)
    call fb_table_open(run, 'history', history, [fb_column('step', FB_I64)], history=.true.)
    call fb_table_insert(history, [fb_values('step', 1)])
    first = -1
    do while (fb_step(run, short, 5))
      if (first < 0) first = short
      call fb_table_insert(history, [fb_values('step', short)])
      call fb_snapshot_begin(run, short, s, taken=taken)
      call expect(taken .neqv. short == 2, 'the one that the run went back to is not taken again')
      call expect(fb_position(run) == short, 'the position')
      call fb_snapshot_put(s, 'E', e)
      call fb_snapshot_end(s)
    end do
    call expect(first == 2 .and. short == 5, 'the loop goes on from the snapshot')
    call fb_snapshot_last(run, s)
    call fb_snapshot_step(s, about)
    call expect(about%step == 4 .and. ieee_is_nan(about%time), 'the last one, without a time')
    call fb_snapshot_parameters(s, json)
    call expect(index(json, 'nu') > 0, 'the parameters of that step')
    call fb_restart_from(run, 'good', s)
    call fb_snapshot_step(s, about)
    call expect(about%step == 2, 'back to the mark')
    call fb_table_count(history, rows)
    call expect(rows == 2, 'rows of later steps go')
    call fb_table_insert(history, [fb_values('step', 2)])
    call fb_table_count(history, rows)
    call expect(rows == 1, 'those of the step go when it is made again, with what was put before the loop')
    call fb_restart_from(run, 'bad', s, stat=stat, errmsg=said)
    call refused(stat, FB_NOT_FOUND, 'good')
  end subroutine again

  subroutine kept()
    type(fb_snapshot) :: s
    integer(int64), allocatable :: steps(:)
    integer :: step
    call fb_run_open(place(), 'w', run, keep='first 2', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'last 5')
    call fb_run_open(place(), 'w', run, keep='last 2')
    do step = 1, 5
      call fb_snapshot_begin(run, step, s)
      call fb_snapshot_put(s, 'E', e)
      call fb_snapshot_end(s)
    end do
    call fb_flush(run)
    call fb_snapshots(run, steps)
    call expect(size(steps) == 2, 'two snapshots stay')
    if (size(steps) == 2) call expect(all(steps == [4, 5]), 'the newest ones')
    call fb_run_close(run)
  end subroutine kept

end program snapshots
