!> Calls as a client: of a server in the same program, of one that is there (`calls there`), of one that the broker at
!> an address knows (`calls fb://HOST:PORT`).

program calls
  use services
  implicit none
  type(fb_server) :: server
  type(fb_client), target :: client
  logical :: there
  integer :: stat
  there = command_argument_count() > 0
  if (.not. there) then
    call fb_server_create(server, name='here', workers=3, memory=2**20)
    call offer(server)
    call fb_service_register(server, 'flip(inout truth:bool)', flip)
    call fb_service_register(server, 'nested(in depth:i64, out calls:i64)', nested, user=client)
    call fb_server_start(server)
  end if
  if (index(place(), 'fb://') == 1) then
    call fb_connect(client, broker=place())
  else
    call fb_connect(client)
  end if
  call by_value()
  call by_strides()
  call texts_and_bytes()
  call under_way()
  call many()
  call by_reference()
  call bad_calls()
  if (.not. there) then
    call truth()
    call deeper_than_workers()
  end if
  call fb_disconnect(client)
  if (.not. there) call ended()
  call finish()

contains

  subroutine by_value()
    real(real64), target :: x(1000), y(1000), m(3, 2)
    real(real64), target :: sum
    integer, target :: order
    character(len=120), allocatable :: signatures(:)
    character(len=:), allocatable :: signature
    integer :: i
    x = [(real(i - 1, real64), i=1, 1000)]
    y = 1
    call fb_call(client, 'axpy', [fb_in(2d0), fb_in(x), fb_inout(y)])
    call expect(abs(y(1) - 1) <= 0 .and. abs(y(1000) - 1999) <= 0, 'by value')
    call fb_call(client, 'axpy', [fb_in(1), fb_in(x), fb_inout(y)], timeout=20d0)
    call expect(abs(y(1000) - 2998) <= 0, 'an integer becomes a real number')
    m = reshape([1d0, 2d0, 3d0, 4d0, 5d0, 6d0], [3, 2])
    call fb_call(client, 'layout', args=[fb_in(m), fb_out(order), fb_out(sum)])
    call expect(order == FB_COLUMN_MAJOR .and. abs(sum - 91) <= 0, 'a matrix goes column by column')
    call fb_services(client, signatures)
    call expect(any(index(signatures, 'axpy(') == 1), 'the services')
    call fb_signature(client, 'axpy', signature)
    call expect(signature == 'axpy(in a:f64, in x:f64[n], inout y:f64[n])', 'a signature')
    call handed(x)
  end subroutine by_value

  subroutine handed(x)
    real(real64), intent(in), target :: x(:)
    real(real64), allocatable, target :: y(:)
    allocate (y(size(x)), source=0d0)
    call fb_call(client, 'axpy', [fb_in(1d0), fb_in(x), fb_inout(y)])
    call expect(all(abs(x - y) <= 0), 'a dummy argument and an allocatable array')
  end subroutine handed

  subroutine by_strides()
    type :: particle
      real(real64) :: x
      real(real32) :: v
      integer(int8) :: tag(12)
    end type particle
    type(particle), target :: beam(5)
    real(real64), target :: wide(10), y(5), matrix(4, 6), sum
    integer, target :: order
    integer :: i
    wide = [(real(i, real64), i=1, 10)]
    y = 0
    call fb_call(client, 'axpy', [fb_in(1d0), fb_in(wide(1:10:2)), fb_inout(y(5:1:-1))])
    call expect(all(abs(y - [9, 7, 5, 3, 1]) <= 0), 'sections in and inout')
    beam%x = 1
    call fb_call(client, 'axpy', [fb_in(2d0), fb_in(y), fb_inout(beam%x)])
    call expect(all(abs(beam%x - [19, 15, 11, 7, 3]) <= 0), 'members of structures')
    matrix = 0
    matrix(2:4:2, 1:5:2) = reshape([1d0, 2d0, 3d0, 4d0, 5d0, 6d0], [2, 3])
    call fb_call(client, 'layout', [fb_in(matrix(2:4:2, 1:5:2)), fb_out(order), fb_out(sum)])
    call expect(order == FB_COLUMN_MAJOR .and. abs(sum - 91) <= 0, 'a section of a matrix keeps its order')
  end subroutine by_strides

  subroutine texts_and_bytes()
    complex(real64), target :: z
    integer, target :: n
    character(len=20), target :: answer, long
    integer(int8), target :: raw(3), same(8)
    integer(int64), target :: length
    n = 41
    z = (1d0, 2d0)
    raw = [0_int8, 1_int8, 2_int8]
    answer = 'nothing'
    long = 'ions'
    call fb_call(client, 'values', [fb_inout(n), fb_inout(z), fb_in('ions   '), fb_in_bytes(raw), fb_out(answer), &
        fb_out_bytes(same, length)])
    call expect(n == 42 .and. abs(z - (2d0, 4d0)) <= 0, 'scalars in and out')
    call expect(answer == 'ions and 3 bytes' .and. length == 3 .and. all(same(:3) == raw), 'a text and bytes')
    call fb_call(client, 'values', [fb_inout(n), fb_inout(z), fb_in_text(long), fb_in_bytes(raw), fb_out(answer(:5)), &
        fb_out_bytes(same, length)], stat=stat, errmsg=said)
    call refused(stat, FB_FULL, 'said')
    call expect(n == 42, 'nothing is written when it fails')
  end subroutine texts_and_bytes

  subroutine under_way()
    type(fb_future) :: future
    type(fb_timing) :: timing
    real(real64), target :: x(3), y(3)
    character(len=20), target :: answer
    complex(real64), target :: z
    integer, target :: n
    integer(int8), target :: raw(2), same(2)
    integer(int64), target :: length
    logical :: done
    character(len=:), allocatable :: name
    x = [1, 2, 3]
    y = 1
    call fb_call_async(client, 'axpy', [fb_in(0.5d0), fb_in(x), fb_inout(y)], future)
    call fb_wait(future, timeout=20d0)
    call fb_wait(future)
    call expect(all(abs(y - [1.5d0, 2d0, 2.5d0]) <= 0), 'a call that was waited for')
    call fb_call_timing(future, timing, server=name)
    call expect(timing%total > 0 .and. timing%server_pid > 0 .and. len(name) > 0, 'where its time went')
    call fb_future_free(future)
    y = 1
    call fb_call_async(client, 'axpy', [fb_in(0.5d0), fb_in(x), fb_inout(y)], future, transfer=FB_TRANSFER_COPY)
    x = -1
    call fb_wait(future, timeout=20d0)
    call expect(all(abs(y - [1.5d0, 2d0, 2.5d0]) <= 0), 'a call whose arguments were copied')
    call fb_future_free(future)
    n = 1
    z = 0
    raw = 7
    call fb_call_async(client, 'values', [fb_inout(n), fb_inout(z), fb_in('a'), fb_in_bytes(raw), fb_out(answer), &
        fb_out_bytes(same, length)], future)
    call fb_wait(future)
    call expect(answer == 'a and 2 bytes', 'a text of a call that was waited for')
    call fb_call_async(client, 'patient', [fb_arg ::], future)
    call fb_probe(future, done)
    call expect(.not. done, 'still under way')
    call fb_wait(future, timeout=0d0, stat=stat, errmsg=said)
    call refused(stat, FB_TIMEOUT, 'patient')
    call fb_cancel(future)
    call fb_wait(future, stat=stat, errmsg=said)
    call refused(stat, FB_CANCELLED, 'patient')
  end subroutine under_way

  subroutine many()
    type(fb_future) :: futures(4), mixed(2)
    real(real64), target :: x(3, 4), y(3, 4)
    integer :: i, index
    x = 1
    y = 0
    do i = 1, 4
      call fb_call_async(client, 'axpy', [fb_in(i), fb_in(x(:, i)), fb_inout(y(:, i))], futures(i))
    end do
    call fb_wait_any(futures, index, timeout=20d0)
    call expect(index >= 1 .and. index <= 4, 'one of four')
    call fb_wait_all(futures, timeout=20d0)
    call fb_probe_any(futures, index)
    call expect(index == 1, 'the first that is complete')
    call expect(all([(abs(y(2, i) - i) <= 0, i=1, 4)]), 'all of four')
    call fb_call_async(client, 'fails', [fb_arg ::], mixed(1))
    call fb_call_async(client, 'patient', [fb_arg ::], mixed(2))
    call fb_wait(mixed(1), stat=stat, errmsg=said)
    call refused(stat, FB_REMOTE_ERROR, 'singular')
    call fb_wait_all(mixed, timeout=0.01d0, stat=stat, errmsg=said)
    call expect(stat == FB_TIMEOUT .or. stat == FB_REMOTE_ERROR, 'not all in time')
    call fb_cancel_all(mixed)
    call fb_wait_all(mixed, stat=stat, errmsg=said)
    call refused(stat, FB_REMOTE_ERROR, 'singular')
  end subroutine many

  subroutine by_reference()
    type(fb_ref) :: held, zeros, matrix, truths
    logical :: flags(2, 3)
    type(fb_dataset) :: info
    real(real64), target :: x(4), y(4)
    real(real64) :: m(2, 3), back(2, 3), column(2)
    real(real32) :: single(4)
    character(len=:), allocatable :: name
    integer(int32) :: pid
    x = [1, 2, 3, 4]
    y = 1
    call fb_ref_create(client, y, held)
    call fb_call(client, 'axpy', [fb_in(10d0), fb_in(x), fb_ref(held)])
    call fb_ref_get(held, y(4:1:-1))
    call expect(all(abs(y - [41, 31, 21, 11]) <= 0), 'what was held, into a section')
    call fb_ref_put(held, x)
    call fb_ref_put_part(held, [7d0, 7d0], offset=[0], count=[2], step=[3])
    call fb_ref_get(held, y)
    call expect(all(abs(y - [7, 2, 3, 7]) <= 0), 'every third element was written')
    call fb_ref_put(held, x)
    call fb_ref_put_part(held, [0d0, 0d0], offset=[1])
    call fb_ref_get(held, y)
    call expect(all(abs(y - [1, 0, 0, 4]) <= 0), 'a part was written')
    call fb_ref_get_part(held, y(1:2), offset=[0], step=[3])
    call expect(all(abs(y(1:2) - [1, 4]) <= 0), 'a part was read')
    call fb_ref_create(client, FB_F64, [2, 3], zeros, with=held)
    call fb_ref_info(zeros, info)
    call expect(info%order == FB_COLUMN_MAJOR .and. all(info%shape(:2) == [2, 3]), 'an array of zeros')
    m = reshape([1d0, 2d0, 3d0, 4d0, 5d0, 6d0], [2, 3])
    call fb_ref_create(client, m, matrix)
    call fb_ref_get(matrix, back)
    call expect(all(abs(back - m) <= 0), 'a matrix')
    call fb_ref_get_part(matrix, column, offset=[0, 1], count=[2, 1])
    call expect(all(abs(column - m(:, 2)) <= 0), 'its second column')
    call fb_ref_put_part(matrix, -m(:, 1:2), offset=[0, 1])
    call fb_ref_get(matrix, back)
    call expect(all(abs(back(:, 2:3) + m(:, 1:2)) <= 0) .and. all(abs(back(:, 1) - m(:, 1)) <= 0), 'a part of a matrix')
    call fb_ref_create(client, m > 2, truths)
    call fb_ref_info(truths, info)
    call expect(info%dtype == FB_BOOL, 'truth values are held as such')
    call fb_ref_put_part(truths, [.true.], offset=[0, 0], count=[1, 1])
    call fb_ref_get(truths, flags)
    call expect(all(flags .eqv. reshape([.true., .false., .true., .true., .true., .true.], [2, 3])), 'truth values')
    call fb_ref_put(truths, .not. flags)
    call fb_ref_get_part(truths, flags(:, 1), offset=[0, 0], count=[2, 1])
    call expect(all(flags(:, 1) .eqv. [.false., .true.]), 'a column of them')
    call fb_ref_server(held, name, pid=pid)
    call expect(len(name) > 0 .and. pid > 0, 'where it is held')
    call fb_ref_create(client, y, zeros, server=name)
    call fb_ref_create(client, FB_F64, [2], zeros, services='axpy')
    call fb_ref_create(client, y, zeros, services='nobody, axpy')
    call fb_call(client, 'axpy', [fb_in(1d0), fb_in(x), fb_ref(zeros)])
    call fb_ref_create(client, y, zeros, server='nowhere', stat=stat, errmsg=said)
    call refused(stat, FB_NO_SERVER, 'nowhere')
    call fb_ref_get(held, single, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'f32')
    call fb_ref_get(matrix, x, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '(2, 3)')
    call fb_ref_kill(held)
    call fb_call(client, 'axpy', [fb_in(1d0), fb_in(x), fb_ref(held)], stat=stat, errmsg=said)
    call expect(stat /= FB_OK, 'an array that was ended')
  end subroutine by_reference

  subroutine bad_calls()
    real(real64), target :: x(4), y(4), nine(1, 1, 1, 1, 1, 1, 1, 1, 1)
    real(real32), target :: f(4)
    real(real64), allocatable, target :: never(:)
    type(fb_client) :: none, tied
    x = 0
    y = 0
    f = 0
    nine = 0
    call fb_patience(client, 0.05d0)
    call fb_call(client, 'nobody', stat=stat, errmsg=said)
    call refused(stat, FB_NO_SERVER, 'waited 0.05 s in vain')
    call fb_patience(client, 0d0)
    call fb_silence(client, 1d9, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'a silence of 1000000000 s')
    call fb_place_by(client, 'luck', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'no rule of placement')
    call fb_place_by(client, 'least')
    call fb_on(client, tied, server='of nobody')
    call fb_call(tied, 'axpy', stat=stat, errmsg=said)
    call refused(stat, FB_NO_SERVER, 'of nobody')
    call fb_disconnect(tied)
    call fb_on(client, tied, pid=1_int32)
    call fb_call(tied, 'axpy', stat=stat, errmsg=said)
    call refused(stat, FB_NO_SERVER, 'pid 1')
    call fb_disconnect(tied)
    call fb_call(client, 'axpy', [fb_in(1)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '3 parameters')
    call fb_call(client, 'axpy', [fb_in(1), fb_in(f), fb_inout(y)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'f32')
    call fb_call(client, 'axpy', [fb_in(1), fb_in(x(1:3)), fb_inout(y)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'n')
    call fb_call(client, 'axpy', [fb_in(1), fb_in(x), fb_in(y)], stat=stat, errmsg=said)
    call expect(stat == FB_BAD_ARGUMENT, 'a result that is not to come back')
    call fb_call(client, 'axpy', [fb_in(1), fb_in(x), fb_inout(nine)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'rank')
    call fb_call(client, 'axpy', [fb_in(1), fb_in(x), fb_inout(never)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'allocated')
    call fb_call(client, 'axpy', [fb_in(repeat('x', 300)), fb_in(x), fb_inout(y)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'fb_in_text')
    call fb_call(client, 'fails', stat=stat, errmsg=said)
    call refused(stat, FB_REMOTE_ERROR, 'the matrix is singular')
    call fb_call(none, 'axpy', stat=stat, errmsg=said)
    call expect(stat == FB_BAD_ARGUMENT, 'a client that is not connected')
  end subroutine bad_calls

  subroutine truth()
    logical, target :: yes
    yes = .false.
    call fb_call(client, 'flip', [fb_inout(yes)])
    call expect(yes, 'a truth value comes back')
  end subroutine truth

  !> Services of a server may call it: its three workers give their places to others while they wait.
  subroutine deeper_than_workers()
    integer(int64), target :: count
    count = 0
    call fb_call(client, 'nested', [fb_in(9_int64), fb_out(count)], timeout=60d0)
    call expect(count == 10, 'ten calls within each other')
  end subroutine deeper_than_workers

  subroutine ended()
    type(fb_server_load) :: load
    ! A reply is there a moment before its service counts as over.
    do
      call fb_load(server, load)
      if (load%running == 0) exit
    end do
    call expect(load%served > 0, 'how busy the server was')
    call fb_server_trouble(server)
    call fb_service_remove(server, 'flip')
    call fb_server_stop(server)
    call fb_server_free(server)
  end subroutine ended

end program calls
