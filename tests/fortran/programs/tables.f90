!> Relational tables: columns, rows in columns, conditions with values, SQL, rows read back.

program tables
  use check
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_value, ieee_quiet_nan, ieee_positive_inf, ieee_is_finite
  implicit none
  type(fb_run) :: run
  type(fb_table) :: particles
  type(fb_rows) :: rows
  real(real64), target :: masses(6)
  integer(int32), target :: charges(3)
  character(len=10), target :: names(3)
  real(real64), allocatable :: mass(:)
  integer(int64), allocatable :: charge(:)
  character(len=10), allocatable :: name(:)
  character(len=3), allocatable :: tight(:)
  integer(int64) :: count
  integer :: columns, stat

  call fb_run_open(place(), 'w', run)
  call fb_table_open(run, 'particles', particles, &
      columns=[fb_column('mass', FB_F64, 'kg'), fb_column('charge', FB_I64), fb_column('name', FB_STR), fb_column('free', FB_BOOL)])
  call described()
  masses = [9.1d-31, 0d0, 1.7d-27, 0d0, 1.6d-27, 0d0]
  charges = [-1, 1, 0]
  names = [character(len=10) :: 'electron', 'proton', 'neutron']
  call fb_table_insert(particles, [fb_values('mass', masses(1:5:2)), fb_values('charge', charges), &
      fb_values('name', names)])
  call fb_table_insert(particles, [fb_values('name', 'photon'), fb_values('charge', 0), fb_values('free', .true.)])
  call fb_table_count(particles, count)
  call expect(count == 4, 'four rows')
  call selected()
  call changed()
  call oddities()
  call arrays()
  call refusals()
  call fb_rows_free(rows)
  call fb_table_free(particles)
  call fb_run_close(run)
  deallocate (mass, charge, name)
  call finish()

contains

  subroutine described()
    type(fb_column), allocatable :: found(:)
    character(len=20), allocatable :: all_tables(:)
    character(len=:), allocatable :: json
    integer :: year
    logical :: yes
    call fb_table_columns(particles, found)
    call expect(size(found) == 4 .and. found(1)%name == 'mass' .and. found(1)%units == 'kg', 'the columns')
    call expect(all(found%dtype == [FB_F64, FB_I64, FB_STR, FB_BOOL]), 'their types')
    call fb_tables(run, all_tables)
    call expect(any(all_tables == 'particles'), 'the tables of the run')
    call fb_attr_set(run, 'source', 'CODATA', table='particles')
    call fb_attr_set_json(run, '{"year": 2022, "of": "NIST"}', table='particles')
    call fb_attr_get(run, 'year', year, table='particles')
    call fb_attr_delete(run, 'of', table='particles')
    call fb_attr_has(run, 'of', yes, table='particles')
    call fb_attr_get_json(run, json, table='particles')
    call expect(year == 2022 .and. .not. yes .and. json == '{"source":"CODATA","year":2022}', 'attributes of a table')
    call fb_attr_get(run, 'year', year, name='particles', table='particles', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'not of both')
  end subroutine described

  subroutine selected()
    logical :: none
    integer(int8), allocatable :: bytes(:)
    character(len=:), allocatable :: heading
    call fb_table_select(particles, rows, condition='mass > ?', args=[fb_in(1d-28)])
    call fb_rows_count(rows, nrows=count, ncolumns=columns)
    call expect(count == 2 .and. columns == 4, 'rows where a condition holds')
    call fb_rows_get(rows, 1, mass)
    call fb_rows_get(rows, 2, charge)
    call fb_rows_get(rows, 3, name)
    call expect(all(abs(mass - [1.7d-27, 1.6d-27]) <= 0) .and. all(charge == [1, 0]), 'numbers of rows')
    call expect(all(name == [character(len=10) :: 'proton', 'neutron']), 'texts of rows')
    call fb_rows_get(rows, 3, tight, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'longer')
    call fb_rows_bytes(rows, 1, 3, bytes, stat=stat)
    call fb_table_select(particles, rows, columns=[character(len=6) :: 'name', 'mass'], condition='name = ?', &
        args=[fb_in('photon')])
    call fb_rows_name(rows, 2, heading)
    call fb_rows_get(rows, 2, mass)
    call fb_rows_is_null(rows, 1, 2, none)
    call expect(heading == 'mass' .and. none .and. ieee_is_nan(mass(1)), 'no value')
    call fb_sql(run, 'select count(*) as n, sum(charge) from particles where charge > ?', rows, args=[fb_in(-1)])
    call fb_rows_get(rows, 1, charge)
    call expect(charge(1) == 3, 'SQL')
  end subroutine selected

  subroutine changed()
    call fb_table_update(particles, [fb_values('charge', 7), fb_values('name', 'ion')], &
        condition='name = ?', args=[fb_in('proton')], count=count)
    call expect(count == 1, 'a row is changed')
    call fb_table_select(particles, rows, condition='charge = 7')
    call fb_rows_get(rows, 3, name)
    call expect(size(name) == 1 .and. name(1) == 'ion', 'to what was given')
    call fb_table_index(particles, ['charge', 'name  '])
    call fb_table_delete(particles, condition='mass is null and charge < ?', args=[fb_in(1)], count=count)
    call expect(count == 1, 'a row is deleted')
    call fb_table_delete(particles)
    call fb_table_count(particles, count)
    call expect(count == 0, 'all rows are deleted')
  end subroutine changed

  !> What SQLite has no place for comes back as it went in.
  subroutine oddities()
    type(fb_table) :: odd
    integer(int64), target :: big(3)
    real(real32), target :: single(3)
    real(real64), target :: v(3)
    big = [huge(big), 1_int64, 0_int64]
    single = [0.1, ieee_value(0.0, ieee_quiet_nan), 2.0]
    v = [ieee_value(0d0, ieee_quiet_nan), 0.5d0, ieee_value(0d0, ieee_positive_inf)]
    call fb_table_open(run, 'odd', odd, columns=[fb_column('k', FB_U64), fb_column('f', FB_F32), fb_column('v', FB_F64)])
    call fb_table_insert(odd, [fb_values('k', big), fb_values('f', single), fb_values('v', v)])
    call fb_table_select(odd, rows)
    call fb_rows_get(rows, 1, charge)
    call expect(all(charge == big), 'integers without a sign')
    call fb_rows_get(rows, 2, mass)
    call expect(abs(mass(1) - real(0.1, real64)) <= 0 .and. ieee_is_nan(mass(2)), 'single precision')
    call fb_rows_get(rows, 3, mass)
    call expect(ieee_is_nan(mass(1)) .and. abs(mass(2) - 0.5d0) <= 0 .and. .not. ieee_is_finite(mass(3)), 'no numbers')
    call fb_table_insert(odd, [fb_values('k', -1)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '-1')
    call fb_table_free(odd)
  end subroutine oddities

  !> Arrays in a column: the last axis of what is given and read is that of the rows.
  subroutine arrays()
    type(fb_table) :: atoms
    type(fb_column), allocatable :: found(:)
    real(real64), target :: v(3, 2), again(3, 2), one(3)
    integer(int32), target :: m(2, 3, 2), same(2, 3, 2)
    integer(int64), target :: numbers(2)
    logical, target :: on(2, 2), off(2, 2)
    integer :: i
    numbers = [1, 2]
    v = reshape([(real(i, real64), i = 1, 6)], [3, 2])
    m = reshape([(i, i = 1, 12)], [2, 3, 2])
    on = reshape([.true., .false., .false., .true.], [2, 2])
    one = [7d0, 8d0, 9d0]
    call fb_table_open(run, 'atoms', atoms, columns=[fb_column('v', FB_F64, 'm/s', shape=[3_int64]), &
        fb_column('m', FB_I32, shape=[2, 3]), fb_column('on', FB_BOOL, shape=[2]), fb_column('n', FB_I64)])
    call fb_table_columns(atoms, found)
    call expect(found(2)%ndim == 2 .and. all(found(2)%shape(:2) == [2, 3]) .and. found(4)%ndim == 0, 'shapes of columns')
    call fb_table_insert(atoms, [fb_values('v', v), fb_values('m', m), fb_values('on', on), fb_values('n', numbers)])
    call fb_table_select(atoms, rows)
    call fb_rows_array(rows, 1, again)
    call fb_rows_array(rows, 2, same)
    call fb_rows_array(rows, 3, off)
    call expect(all(abs(again - v) <= 0) .and. all(same == m) .and. all(off .eqv. on), 'arrays of rows')
    call fb_rows_array(rows, 2, same(:, :, 1), stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'i32(2, 2, 3)')
    call fb_table_update(atoms, [fb_values('v', one)], condition='n = 2', count=count)
    call fb_table_select(atoms, rows)
    call fb_rows_array(rows, 1, again)
    call expect(count == 1 .and. all(abs(again(:, 2) - one) <= 0), 'an array of one row')
    call fb_table_insert(atoms, [fb_values('v', m(:, :, 1))], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'f64(3,)')
    call fb_table_select(atoms, rows, condition='v > 1', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'arrays')
    call fb_table_free(atoms)
  end subroutine arrays

  subroutine refusals()
    call fb_table_insert(particles, [fb_values('mass', masses), fb_values('charge', charges)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'charge')
    call fb_table_insert(particles, [fb_values('size', masses)], stat=stat, errmsg=said)
    call refused(stat, FB_NOT_FOUND, 'size')
    call fb_table_select(particles, rows, condition='mass >', stat=stat, errmsg=said)
    call expect(stat == FB_BAD_ARGUMENT, 'a condition that is none')
    call fb_sql(run, 'delete from particles', rows, stat=stat, errmsg=said)
    call expect(stat /= FB_OK, 'SQL that writes')
    call fb_rows_get(rows, 99, mass, stat=stat, errmsg=said)
    call expect(stat == FB_BAD_ARGUMENT, 'a column that is not there')
    call fb_table_open(run, 'nowhere', particles, stat=stat, errmsg=said)
    call refused(stat, FB_NOT_FOUND, 'nowhere')
  end subroutine refusals

end program tables
