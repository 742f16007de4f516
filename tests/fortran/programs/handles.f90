!> Handles: copies share a thing, the last one gives it back, a scope's end is enough.

program handles
  use check
  implicit none
  type :: simulation
    type(fb_run) :: run
    type(fb_diagram), allocatable :: diagrams(:)
  end type simulation
  integer(int64) :: count
  integer :: stat

  call a_scope_ends()
  call fb_in_use(count)
  call expect(count == 0, 'the end of a scope closes a run and what it gave')
  call copies()
  call fb_in_use(count)
  call expect(count == 0, 'the last copy closes it')
  call components()
  call fb_in_use(count)
  call expect(count == 0, 'structures with handles give them back')
  call closed_and_used()
  call reopened()
  call finish()

contains

  subroutine a_scope_ends()
    type(fb_run) :: run
    type(fb_diagram) :: diagram
    type(fb_snapshot) :: snapshot
    type(fb_table) :: tables(3)
    integer :: i
    call fb_run_open(place(), 'w', run)
    call fb_put(run, 'kept', [1d0, 2d0])
    call fb_diagram_open(run, 'E', diagram)
    call fb_snapshot_begin(run, 1, snapshot)
    call fb_snapshot_put(snapshot, 'x', [1, 2, 3])
    call fb_snapshot_end(snapshot)
    do i = 1, 3
      call fb_table_open(run, 't'//achar(48 + i), tables(i), [fb_column('a', FB_I64)])
    end do
    call fb_in_use(count)
    call expect(count == 6, 'handles are counted')
  end subroutine a_scope_ends

  subroutine copies()
    type(fb_run) :: run, second
    real(real64) :: x(2)
    call fb_run_open(place(), 'r', run)
    second = run
    call inner(second)
    second = second
    call fb_in_use(count)
    call expect(count == 1, 'copies are of one thing')
    block
      type(fb_run) :: third
      third = run
    end block
    call fb_get(run, 'kept', x)
    run = second
    call fb_get(run, 'kept', x)
    call expect(all(abs(x - [1, 2]) <= 0), 'what one copy lost, another has')
  end subroutine copies

  subroutine inner(run)
    type(fb_run), intent(in) :: run
    type(fb_run) :: mine
    mine = run
  end subroutine inner

  subroutine components()
    type(simulation) :: one, two
    type(simulation), allocatable :: many(:)
    call fb_run_open(place(), 'a', one%run)
    call expect(fb_is_there(one%run), 'an open run is there')
    allocate (one%diagrams(2))
    call expect(.not. fb_is_there(one%diagrams(1)), 'a diagram that nobody opened is not there')
    call fb_diagram_open(one%run, 'first', one%diagrams(1))
    call fb_diagram_open(one%run, 'second', one%diagrams(2))
    two = one
    allocate (many(2))
    many(1) = two
    many(2) = many(1)
    deallocate (many)
    call fb_flush(two%run)
    call fb_curve_update(two%diagrams(2), [1d0], [2d0])
    call fb_in_use(count)
    call expect(count == 3, 'structures share what they hold')
  end subroutine components

  subroutine closed_and_used()
    type(fb_run) :: run, copy
    type(fb_snapshot) :: snapshot
    call fb_run_open(place(), 'a', run)
    copy = run
    call fb_snapshot_last(run, snapshot)
    call expect(fb_is_there(snapshot), 'there is a last snapshot')
    call fb_run_close(run)
    call expect(.not. fb_is_there(run), 'a closed run is not there')
    call fb_run_close(run, stat=stat, errmsg=said)
    call expect(stat == FB_OK .or. stat == FB_BAD_ARGUMENT, 'closing what is closed does no harm')
    call fb_flush(copy, stat=stat, errmsg=said)
    call refused(stat, FB_CLOSED, 'closed')
    call fb_snapshot_free(snapshot, stat=stat, errmsg=said)
    said = ''
  end subroutine closed_and_used

  subroutine reopened()
    type(fb_run) :: run
    call fb_run_open(place(), 'a', run)
    call fb_run_close(run)
    call fb_run_open(place(), 'r', run)
    call fb_run_open(place(), 'r', run)
    call fb_in_use(count)
    call expect(count == 1, 'a handle that is used again lets the first thing go')
    call fb_run_close(run)
  end subroutine reopened

end program handles
