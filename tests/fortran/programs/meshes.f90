!> Meshes and particles, as another program in Python writes them.

program meshes
  use check
  implicit none
  integer, parameter :: n = 5
  type(fb_run) :: run
  real(real64), target :: x(6), y(3), ex(6, 3), ey(6, 3), px(n), p(n, 3)
  real(real32), target :: w(n)
  integer(int64), target :: number(n), turned(n)
  integer :: stat, i, j
  x = [(0.2d0 * i, i=0, 5)]
  y = [10, 12, 14]
  ex = reshape([((real(10 * i + j, real64), i=0, 5), j=0, 2)], [6, 3])
  ey = ex + 0.5d0
  p = ex(:n, :)
  px = [(0.1d0 * i, i=0, n - 1)]
  w = 1
  number = [(i, i=0, n - 1)]
  turned = number(n:1:-1)
  call fb_run_open(place(), 'w', run)
  call taken()
  call refusals()
  call fb_run_close(run)
  call finish()

contains

  subroutine taken()
    type(fb_snapshot) :: s
    real(real64), pointer :: b(:, :), muons(:)
    nullify (b, muons)
    call fb_constant(run, 'table', [(0.5d0 * i, i=0, 1999)], units='K', attrs='{"of": "all"}')
    call fb_constant(run, 'few', number, dtype=FB_I64)
    call fb_constant(run, 'few', number + 1, step=100, dims=['n'])
    call fb_constant(run, 'few', [1, 2], stat=stat, errmsg=said)
    call refused(stat, FB_CONFLICT, 'say with step')
    call fb_snapshot_begin(run, 2, s, time=1d0)
    call fb_snapshot_mesh(s, 'E', [fb_component('x', ex, position=[0.5d0, 0d0]), fb_component('y', ey, [0d0, 0.5d0])], &
        units='kV/m', dims=['x', 'y'], coords=[fb_coord('x', x, 'm'), fb_coord('y', y)], attrs='{"note": "made"}')
    call fb_snapshot_mesh(s, 'rho', ey, units='C/m^3', spacing=[0.2d0, 2d0], origin=[0d0, 10d0], compress='gzip')
    call fb_snapshot_mesh(s, 'T', ex, offset=[0, 0], global=[6, 3], overlap='equal', spacing=[0.2d0, 2d0], &
        position=[0.5d0, 0.5d0])
    call fb_snapshot_put(s, 'holes', ex, offset=[0, 0], global=[12, 3], fill=-1)
    call fb_snapshot_allocate_mesh(s, 'B', b, [6, 3], component='z', units='T', spacing=[0.2d0, 2d0], &
        position=[0.5d0, 0.5d0])
    b = ex
    call fb_snapshot_particles(s, 'electrons', [fb_record('position', px, 'x', units='mm'), &
        fb_record('momentum', p, units='kg m/s'), fb_record('weighting', w), fb_record('id', number), &
        fb_record('mass', 9.1d-31, units='kg')], append=.true.)
    call fb_attr_set(s, 'of', 'them', name='electrons/momentum')
    call fb_snapshot_particles(s, 'ions', [fb_record('position', px, component='x', as_dtype=FB_F32)], offset=0, global=n)
    call fb_snapshot_particles(s, 'ranked', [fb_record('position', px, 'x', compress='zstd'), fb_record('id', turned)], &
        append=.true., sort_by='id')
    call fb_snapshot_put(s, 'coarse', px, as_dtype=FB_F16)
    call fb_snapshot_put(s, 'short', number, as_dtype=FB_I8)
    call fb_snapshot_mesh(s, 'line', px, as_dtype=FB_F32, dims=['s'], spacing=[0.5d0])
    call fb_snapshot_allocate_particles(s, 'muons', 'position', muons, [n], component='x', append=.true., units='m')
    muons = px
    call fb_snapshot_end(s)
  end subroutine taken

  subroutine refusals()
    type(fb_snapshot) :: s
    real(real64), pointer :: b(:, :)
    nullify (b)
    call fb_snapshot_begin(run, 3, s)
    call fb_snapshot_mesh(s, 'E', ex, spacing=[1d0], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '1 numbers')
    call fb_snapshot_mesh(s, 'E', ex, spacing=[1d0, 1d0], origin=[0d0], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'for each axis')
    call fb_snapshot_mesh(s, 'n', number, offset=[0], global=[9], fill=0.5d0, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'no value of the dtype i64')
    call fb_snapshot_allocate_mesh(s, 'n', b, [6, 3], offset=[0, 0], global=[9, 3], fill=.true., stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'neither a real nor an integer')
    call fb_snapshot_mesh(s, 'E', [fb_component('x', ex)], fill=1.0, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'shape of the whole')
    call fb_snapshot_mesh(s, 'E', ex, compress='zip', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'compress = "zip"')
    call fb_snapshot_mesh(s, 'E', [fb_component('x', ex)], compress='zip', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'compress = "zip"')
    call fb_snapshot_allocate_mesh(s, 'E', b, [6, 3], compress='zip', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'compress = "zip"')
    call fb_snapshot_allocate(s, 'n', b, [6, 3], compress='zip', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'compress = "zip"')
    call fb_snapshot_allocate(s, 'n', b, [6, 3], fill=1d0, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'shape of the whole')
    call fb_snapshot_mesh(s, 'E', [fb_component('x', ex), fb_component('y', ey(:5, :))], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'have the shapes')
    call fb_snapshot_mesh(s, 'E', [fb_component('x', ex, [0d0])], dims=['x', 'y'], append=.true., stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '1 numbers')
    call fb_snapshot_allocate_mesh(s, 'a b', b, [6, 3], offset=[0, 0], global=[6, 3], overlap='last', dims=['x', 'y'], &
        coords=[fb_coord('x', x)], attrs='{"a": 1}', origin=[0d0, 0d0], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'no name of a mesh')
    call fb_snapshot_particles(s, 'e', [fb_record('position', px, 'x'), fb_record('id', number(:4))], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'has 4')
    call fb_snapshot_particles(s, 'e', [fb_record('position', px, 'x')], offset=1, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'offset and global')
    call fb_snapshot_allocate_particles(s, 'e', 'position', b, [5, 4], offset=0, global=5, attrs='{"a": 1}', stat=stat, &
        errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'side by side')
    call fb_snapshot_allocate_mesh(s, 'appended', b, [6, 3], append=.true., units='K', stat=stat, errmsg=said)
    call expect(stat == FB_OK, 'a mesh behind those of lower ranks')
    call fb_snapshot_put(s, 'n', 100_int64 * number, as_dtype=FB_I8, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '[2] is 200')
    call fb_snapshot_mesh(s, 'n', [fb_component('x', ex)], as_dtype=FB_I8, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'use f32 or f16')
    call fb_snapshot_discard(s)
  end subroutine refusals

end program meshes
