! Heat in a block of matter, by the ranks of an MPI program: the second of three programs around one run.
!
!     mpif90 heat3d.f90 $(pkg-config --cflags --libs forebay-fortran) -o heat3d
!     mpiexec -n 2 ./heat3d heat3d
!
! mesh.py has put the mesh, the boundary conditions and the box of cells of each rank into the run. A rank reads what is
! its own, computes with its neighbours, and keeps its box of T:
!
!     ghost cells from the neighbours or from the boundary -> fluxes through the faces of each cell -> T of the next step
!
! Killed, it goes on from its last snapshot, to the bit, on any number of ranks for which mesh.py has cut the block. The
! ranks have slabs along z, whose index runs slowest here: mesh.py --along z.

module block
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use forebay
  use mpi_f08
  implicit none
  private
  public :: open_block, begin, advance, keep, share_of_mean, parameter_of, fail

  type(fb_run), public :: run
  type(fb_diagram), public :: mean
  integer, public :: my_rank, nranks
  integer(int64), public :: whole(3) ! cells of all ranks
  real(real64), public :: dt
  integer(int64) :: first(3), n(3) ! cells before ours, and how many are ours
  real(real64) :: h(3)
  !> With a layer of ghost cells around: indices 0 and n + 1.
  real(real64), allocatable, target :: T(:, :, :), next(:, :, :)
  !> Diffusivity of the face below each cell along x, y and z.
  real(real64), allocatable :: Dx(:, :, :), Dy(:, :, :), Dz(:, :, :)

  interface
    function c_sched_yield() bind(c, name='sched_yield') result(bad)
      import :: c_int
      integer(c_int) :: bad
    end function c_sched_yield
  end interface

contains

  subroutine fail(text)
    character(len=*), intent(in) :: text
    write (error_unit, '(a)') 'heat3d: '//text
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine fail

  ! --- what mesh.py has put -----------------------------------------------------------------------

  function parameter_of(name) result(value)
    character(len=*), intent(in) :: name
    real(real64) :: value
    type(fb_rows) :: rows
    real(real64), allocatable :: values(:)
    call fb_sql(run, 'SELECT value FROM parameters WHERE name = ?', rows, args=[fb_in(name)])
    call fb_rows_get(rows, 1, values)
    if (size(values) /= 1) call fail('the run has no parameter of that name; run mesh.py first')
    value = values(1)
  end function parameter_of

  !> Whether a face of the block has a given temperature, and which.
  subroutine look_at(face, fixed, temperature)
    character(len=*), intent(in) :: face
    logical, intent(out) :: fixed
    real(real64), intent(out) :: temperature
    type(fb_rows) :: rows
    character(len=16), allocatable :: kinds(:)
    real(real64), allocatable :: temperatures(:)
    call fb_sql(run, 'SELECT kind, temperature FROM boundary WHERE face = ?', rows, args=[fb_in(face)])
    call fb_rows_get(rows, 1, kinds)
    call fb_rows_get(rows, 2, temperatures)
    fixed = kinds(1) == 'fixed'
    temperature = temperatures(1)
  end subroutine look_at

  !> The box of this rank, with its cells and faces; of ranks that have slabs along z.
  subroutine open_block(name)
    character(len=*), intent(in) :: name
    type(fb_dataset) :: info
    integer(int64) :: box(2, 3)
    call fb_run_open(name, 'r+', run)
    if (nint(parameter_of('ranks')) /= nranks) &
      call fail('the mesh is cut for another number of ranks; run mesh.py with --ranks, or start as many')
    call fb_get(run, 'decomposition', box, set=my_rank)
    call fb_dataset_info(run, 'mesh/diffusivity', info)
    whole = info%shape(:3)
    first = box(1, :)
    n = box(2, :) - box(1, :)
    if (any(n(:2) /= whole(:2))) call fail('this program wants slabs along z; run mesh.py --along z')
    dt = parameter_of('dt')
    h = [parameter_of('dx'), parameter_of('dy'), parameter_of('dz')]
    allocate (T(0:n(1) + 1, 0:n(2) + 1, 0:n(3) + 1), source=0.0_real64)
    allocate (next, Dx, Dy, Dz, mold=T)
    next = 0
    call read_faces()
  end subroutine open_block

  !> Diffusivities of the faces: the harmonic mean of both cells; half a cell's at a fixed face, whose temperature goes
  !> into the ghost cells; none at an insulated one.
  subroutine read_faces()
    real(real64), allocatable :: cells(:, :, :)
    integer(int64) :: low, high
    allocate (cells, mold=T)
    cells = 0
    ! Cells of ours and of the neighbours, into their places among the ghost cells.
    low = merge(1, 0, first(3) > 0)
    high = merge(1, 0, first(3) + n(3) < whole(3))
    call fb_get_part(run, 'mesh/diffusivity', cells(1:n(1), 1:n(2), 1 - low:n(3) + high), &
        offset=[0_int64, 0_int64, first(3) - low])
    Dx = 0
    Dy = 0
    Dz = 0
    Dx(1:, :, :) = between(cells(1:, :, :), cells(:n(1), :, :))
    Dy(:, 1:, :) = between(cells(:, 1:, :), cells(:, :n(2), :))
    Dz(:, :, 1:) = between(cells(:, :, 1:), cells(:, :, :n(3)))
    call boundary('x0', T(0, :, :), next(0, :, :), Dx(1, :, :), cells(1, :, :))
    call boundary('x1', T(n(1) + 1, :, :), next(n(1) + 1, :, :), Dx(n(1) + 1, :, :), cells(n(1), :, :))
    call boundary('y0', T(:, 0, :), next(:, 0, :), Dy(:, 1, :), cells(:, 1, :))
    call boundary('y1', T(:, n(2) + 1, :), next(:, n(2) + 1, :), Dy(:, n(2) + 1, :), cells(:, n(2), :))
    if (low == 0) call boundary('z0', T(:, :, 0), next(:, :, 0), Dz(:, :, 1), cells(:, :, 1))
    if (high == 0) call boundary('z1', T(:, :, n(3) + 1), next(:, :, n(3) + 1), Dz(:, :, n(3) + 1), cells(:, :, n(3)))
  end subroutine read_faces

  elemental function between(a, b) result(D)
    real(real64), intent(in) :: a, b
    real(real64) :: D
    D = 0
    if (a > 0 .and. b > 0) D = 2 * a * b / (a + b)
  end function between

  subroutine boundary(face, ghosts, later, D, cells)
    character(len=*), intent(in) :: face
    real(real64), intent(inout) :: ghosts(:, :), later(:, :), D(:, :)
    real(real64), intent(in) :: cells(:, :)
    real(real64) :: temperature
    logical :: fixed
    call look_at(face, fixed, temperature)
    D = 0
    if (.not. fixed) return
    D = 2 * cells
    ghosts = temperature
    later = temperature
  end subroutine boundary

  ! --- the computation ----------------------------------------------------------------------------

  !> The ghost cells that are a neighbour's. Waits, and lets others have the core meanwhile.
  subroutine exchange()
    type(MPI_Request) :: requests(4)
    integer :: layer, count
    logical :: all
    integer(c_int) :: bad
    layer = int(size(T, 1) * size(T, 2))
    count = 0
    if (my_rank > 0) call with(my_rank - 1, T(:, :, 0), T(:, :, 1))
    if (my_rank < nranks - 1) call with(my_rank + 1, T(:, :, n(3) + 1), T(:, :, n(3)))
    all = .false.
    do while (.not. all)
      call MPI_Testall(count, requests(:count), all, MPI_STATUSES_IGNORE)
      if (.not. all) bad = c_sched_yield()
    end do
    call MPI_F_sync_reg(T)

  contains

    subroutine with(other, ghosts, ours)
      integer, intent(in) :: other
      real(real64), intent(inout), contiguous, asynchronous :: ghosts(:, :)
      real(real64), intent(in), contiguous, asynchronous :: ours(:, :)
      call MPI_Irecv(ghosts, layer, MPI_DOUBLE_PRECISION, other, 0, MPI_COMM_WORLD, requests(count + 1))
      call MPI_Isend(ours, layer, MPI_DOUBLE_PRECISION, other, 0, MPI_COMM_WORLD, requests(count + 2))
      count = count + 2
    end subroutine with

  end subroutine exchange

  !> One explicit step of dT/dt = div(D grad T).
  subroutine advance()
    real(real64), allocatable :: old(:, :, :)
    real(real64) :: c(3)
    integer(int64) :: i, j, k
    call exchange()
    c = dt / (h * h)
    do k = 1, n(3)
      do j = 1, n(2)
        do i = 1, n(1)
          next(i, j, k) = T(i, j, k) &
              + c(1) * (Dx(i + 1, j, k) * (T(i + 1, j, k) - T(i, j, k)) - Dx(i, j, k) * (T(i, j, k) - T(i - 1, j, k))) &
              + c(2) * (Dy(i, j + 1, k) * (T(i, j + 1, k) - T(i, j, k)) - Dy(i, j, k) * (T(i, j, k) - T(i, j - 1, k))) &
              + c(3) * (Dz(i, j, k + 1) * (T(i, j, k + 1) - T(i, j, k)) - Dz(i, j, k) * (T(i, j, k) - T(i, j, k - 1)))
        end do
      end do
    end do
    call move_alloc(T, old)
    call move_alloc(next, T)
    call move_alloc(old, next)
  end subroutine advance

  !> The part that this rank has in the mean temperature of all cells.
  function share_of_mean() result(share)
    real(real64) :: share
    share = sum(T(1:n(1), 1:n(2), 1:n(3))) / real(product(whole), real64)
  end function share_of_mean

  ! --- the run --------------------------------------------------------------------------------------

  !> Keeps the state before `step`: our cells of T, without the ghost cells around them.
  subroutine keep(step, user, status)
    integer(int64), intent(in) :: step
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    type(fb_snapshot) :: snapshot
    real(real64) :: time
    time = real(step, real64) * dt
    call fb_history_append(mean, time, ['mean'], [share_of_mean()]) ! added up over the ranks
    call fb_snapshot_begin(run, step, snapshot, time=time)
    call fb_snapshot_mesh(snapshot, 'T', T(1:n(1), 1:n(2), 1:n(3)), offset=first, global=whole, units='K', spacing=h, &
        position=[0.5_real64, 0.5_real64, 0.5_real64])
    call fb_snapshot_end(snapshot, stat=status)
    select type (user) ! nothing was given
    end select
  end subroutine keep

  !> The state before the first step: of the last complete snapshot, or all cells alike.
  function begin() result(start)
    integer(int64) :: start
    type(fb_snapshot) :: last
    type(fb_step_info) :: info
    start = 0
    call fb_restart(run, last)
    if (fb_is_there(last)) then
      call fb_snapshot_step(last, info)
      start = info%step
      call fb_snapshot_get_part(last, 'T', T(1:n(1), 1:n(2), 1:n(3)), offset=first)
    else
      T(1:n(1), 1:n(2), 1:n(3)) = parameter_of('initial temperature')
    end if
    call fb_steps_from(run, last)
  end function begin

end module block

program heat3d
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use block
  use forebay
  use mpi_f08
  implicit none
  character(len=1024) :: name, option
  integer(int64) :: step, steps, start
  real(real64) :: share, all

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, my_rank)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks)
  call get_command_argument(1, name)
  call get_command_argument(2, option)
  if (name == '' .or. (option /= '' .and. option /= '--without-output')) &
    call fail('give the run that mesh.py has made:  heat3d RUN [--without-output]')

  call open_block(trim(name))
  steps = nint(parameter_of('steps'), int64)
  start = begin()
  if (my_rank == 0) print '(a, i0, a, i0, a, i0, a, i0, a, i0)', 'heat3d: ', whole(1), ' x ', whole(2), ' x ', whole(3), &
    ' cells, steps ', start, ' to ', steps
  if (option /= '') then ! to see what output costs
    do step = start, steps - 1
      call advance()
    end do
  else
    call fb_diagram_open(run, 'temperature', mean, kind='history', x='t [s]', y='T [K]', reduce='sum')
    call fb_on_save(run, keep, every=nint(parameter_of('snapshot every'), int64))
    do while (fb_step(run, step, steps))
      call advance()
    end do
  end if
  share = share_of_mean()
  call MPI_Reduce(share, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD)
  if (option /= '') then
    call fb_run_close_unfinished(run)
  else
    call fb_run_close(run)
  end if
  if (my_rank == 0) print '(a, i0, a, f0.6, a)', 'heat3d: step ', step, ', mean temperature ', all, ' K'
  call MPI_Finalize()
end program heat3d
