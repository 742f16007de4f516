! Generated from forebay.h by bindings/make.py; do not edit.
!
! The functions of forebay.h, as they are: lib_put is fb_put.

module forebay_library
  use, intrinsic :: iso_c_binding, only: c_double, c_funptr, c_int, c_int32_t, c_int64_t, c_ptr, c_size_t
  use forebay_structures, only: lib_object_struct
  implicit none
  public

  interface
    type(c_ptr) function lib_version() bind(c, name='fb_version')
      import
    end function lib_version
    type(c_ptr) function lib_last_error() bind(c, name='fb_last_error')
      import
    end function lib_last_error
    type(c_ptr) function lib_status_name(code) bind(c, name='fb_status_name')
      import
      integer(c_int), value :: code
    end function lib_status_name
    type(c_ptr) function lib_status_remedy(code) bind(c, name='fb_status_remedy')
      import
      integer(c_int), value :: code
    end function lib_status_remedy
    integer(c_int) function lib_fail(code, text) bind(c, name='fb_fail')
      import
      integer(c_int), value :: code
      type(c_ptr), value :: text
    end function lib_fail
    integer(c_int) function lib_free(memory) bind(c, name='fb_free')
      import
      type(c_ptr), value :: memory
    end function lib_free
    integer(c_int) function lib_in_use(count) bind(c, name='fb_in_use')
      import
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_in_use
    integer(c_int) function lib_run_open(place, mode, opts, run) bind(c, name='fb_run_open')
      import
      type(c_ptr), value :: place, mode, opts
      type(c_ptr), intent(inout) :: run
    end function lib_run_open
    integer(c_int) function lib_run_close(run) bind(c, name='fb_run_close')
      import
      type(c_ptr), value :: run
    end function lib_run_close
    integer(c_int) function lib_run_close_unfinished(run) bind(c, name='fb_run_close_unfinished')
      import
      type(c_ptr), value :: run
    end function lib_run_close_unfinished
    integer(c_int) function lib_rank(run, rank, ranks) bind(c, name='fb_rank')
      import
      type(c_ptr), value :: run
      integer(c_int32_t), intent(inout), optional :: rank, ranks
    end function lib_rank
    integer(c_int) function lib_path(run, path) bind(c, name='fb_path')
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: path
    end function lib_path
    integer(c_int) function lib_is_read_only(run, read_only) bind(c, name='fb_is_read_only')
      import
      type(c_ptr), value :: run
      integer(c_int), intent(inout), optional :: read_only
    end function lib_is_read_only
    integer(c_int) function lib_flush(run) bind(c, name='fb_flush')
      import
      type(c_ptr), value :: run
    end function lib_flush
    integer(c_int) function lib_run_stats(run, stats) bind(c, name='fb_run_stats')
      import
      type(c_ptr), value :: run, stats
    end function lib_run_stats
    integer(c_int) function lib_put(run, name, set, array) bind(c, name='fb_put')
      import
      type(c_ptr), value :: run, name, array
      integer(c_int64_t), value :: set
    end function lib_put
    integer(c_int) function lib_put_with(run, name, set, array, opts) bind(c, name='fb_put_with')
      import
      type(c_ptr), value :: run, name, array, opts
      integer(c_int64_t), value :: set
    end function lib_put_with
    integer(c_int) function lib_put_if_version(run, name, set, array, version, opts, new_version) &
        bind(c, name='fb_put_if_version')
      import
      type(c_ptr), value :: run, name, array, opts
      integer(c_int64_t), value :: set, version
      integer(c_int64_t), intent(inout), optional :: new_version
    end function lib_put_if_version
    integer(c_int) function lib_get(run, name, set, array) bind(c, name='fb_get')
      import
      type(c_ptr), value :: run, name, array
      integer(c_int64_t), value :: set
    end function lib_get
    integer(c_int) function lib_map(run, name, set, dtype, array) bind(c, name='fb_map')
      import
      type(c_ptr), value :: run, name, array
      integer(c_int64_t), value :: set
      integer(c_int), value :: dtype
    end function lib_map
    integer(c_int) function lib_get_part(run, name, set, offset, step, array) &
        bind(c, name='fb_get_part')
      import
      type(c_ptr), value :: run, name, array
      integer(c_int64_t), value :: set
      integer(c_int64_t), intent(in), optional :: offset(*), step(*)
    end function lib_get_part
    integer(c_int) function lib_dataset_info(run, name, set, info) bind(c, name='fb_dataset_info')
      import
      type(c_ptr), value :: run, name, info
      integer(c_int64_t), value :: set
    end function lib_dataset_info
    integer(c_int) function lib_list(run, pattern, set, infos, count) bind(c, name='fb_list')
      import
      type(c_ptr), value :: run, pattern
      integer(c_int64_t), value :: set
      type(c_ptr), intent(inout) :: infos
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_list
    integer(c_int) function lib_delete(run, pattern, set, count) bind(c, name='fb_delete')
      import
      type(c_ptr), value :: run, pattern
      integer(c_int64_t), value :: set
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_delete
    integer(c_int) function lib_rename(run, from, to, count) bind(c, name='fb_rename')
      import
      type(c_ptr), value :: run, from, to
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_rename
    integer(c_int) function lib_copy(run, from, to, count) bind(c, name='fb_copy')
      import
      type(c_ptr), value :: run, from, to
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_copy
    integer(c_int) function lib_attr_put(of, key, value) bind(c, name='fb_attr_put')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), value :: key, value
    end function lib_attr_put
    integer(c_int) function lib_attr_get(of, key, value) bind(c, name='fb_attr_get')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), value :: key, value
    end function lib_attr_get
    integer(c_int) function lib_attr_info(of, key, info) bind(c, name='fb_attr_info')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), value :: key, info
    end function lib_attr_info
    integer(c_int) function lib_attr_set_f64(of, key, value) bind(c, name='fb_attr_set_f64')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), value :: key
      real(c_double), value :: value
    end function lib_attr_set_f64
    integer(c_int) function lib_attr_set_i64(of, key, value) bind(c, name='fb_attr_set_i64')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), value :: key
      integer(c_int64_t), value :: value
    end function lib_attr_set_i64
    integer(c_int) function lib_attr_set_str(of, key, value) bind(c, name='fb_attr_set_str')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), value :: key, value
    end function lib_attr_set_str
    integer(c_int) function lib_attr_set_json(of, json) bind(c, name='fb_attr_set_json')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), value :: json
    end function lib_attr_set_json
    integer(c_int) function lib_attr_get_f64(of, key, value) bind(c, name='fb_attr_get_f64')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), value :: key, value
    end function lib_attr_get_f64
    integer(c_int) function lib_attr_get_i64(of, key, value) bind(c, name='fb_attr_get_i64')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), value :: key, value
    end function lib_attr_get_i64
    integer(c_int) function lib_attr_get_str(of, key, value) bind(c, name='fb_attr_get_str')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), value :: key
      type(c_ptr), intent(inout) :: value
    end function lib_attr_get_str
    integer(c_int) function lib_attr_get_json(of, json) bind(c, name='fb_attr_get_json')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), intent(inout) :: json
    end function lib_attr_get_json
    integer(c_int) function lib_attr_delete(of, key) bind(c, name='fb_attr_delete')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), value :: key
    end function lib_attr_delete
    integer(c_int) function lib_attr_has(of, key, has) bind(c, name='fb_attr_has')
      import
      type(lib_object_struct), value :: of
      type(c_ptr), value :: key
      integer(c_int), intent(inout), optional :: has
    end function lib_attr_has
    integer(c_int) function lib_snapshot_begin(run, step, time, snapshot) &
        bind(c, name='fb_snapshot_begin')
      import
      type(c_ptr), value :: run
      integer(c_int64_t), value :: step
      real(c_double), value :: time
      type(c_ptr), intent(inout) :: snapshot
    end function lib_snapshot_begin
    integer(c_int) function lib_snapshot_taken(snapshot, taken) bind(c, name='fb_snapshot_taken')
      import
      type(c_ptr), value :: snapshot
      integer(c_int), intent(inout), optional :: taken
    end function lib_snapshot_taken
    integer(c_int) function lib_snapshot_put(snapshot, name, array, offset, global) &
        bind(c, name='fb_snapshot_put')
      import
      type(c_ptr), value :: snapshot, name, array
      integer(c_int64_t), intent(in), optional :: offset(*), global(*)
    end function lib_snapshot_put
    integer(c_int) function lib_snapshot_put_with(snapshot, name, array, offset, global, opts) &
        bind(c, name='fb_snapshot_put_with')
      import
      type(c_ptr), value :: snapshot, name, array, opts
      integer(c_int64_t), intent(in), optional :: offset(*), global(*)
    end function lib_snapshot_put_with
    integer(c_int) function lib_snapshot_allocate(snapshot, name, array, offset, global, opts) &
        bind(c, name='fb_snapshot_allocate')
      import
      type(c_ptr), value :: snapshot, name, array, opts
      integer(c_int64_t), intent(in), optional :: offset(*), global(*)
    end function lib_snapshot_allocate
    integer(c_int) function lib_snapshot_end(snapshot) bind(c, name='fb_snapshot_end')
      import
      type(c_ptr), value :: snapshot
    end function lib_snapshot_end
    integer(c_int) function lib_snapshot_discard(snapshot) bind(c, name='fb_snapshot_discard')
      import
      type(c_ptr), value :: snapshot
    end function lib_snapshot_discard
    integer(c_int) function lib_snapshot_wait(snapshot, timeout) bind(c, name='fb_snapshot_wait')
      import
      type(c_ptr), value :: snapshot
      real(c_double), value :: timeout
    end function lib_snapshot_wait
    integer(c_int) function lib_snapshot_free(snapshot) bind(c, name='fb_snapshot_free')
      import
      type(c_ptr), value :: snapshot
    end function lib_snapshot_free
    integer(c_int) function lib_constant(run, name, array, step, opts) bind(c, name='fb_constant')
      import
      type(c_ptr), value :: run, name, array, opts
      integer(c_int64_t), value :: step
    end function lib_constant
    integer(c_int) function lib_snapshot_mesh(snapshot, name, components, ncomponents, offset, global, opts) &
        bind(c, name='fb_snapshot_mesh')
      import
      type(c_ptr), value :: snapshot, name, components, opts
      integer(c_int), value :: ncomponents
      integer(c_int64_t), intent(in), optional :: offset(*), global(*)
    end function lib_snapshot_mesh
    integer(c_int) function lib_snapshot_allocate_mesh(snapshot, name, component, array, offset, global, opts) &
        bind(c, name='fb_snapshot_allocate_mesh')
      import
      type(c_ptr), value :: snapshot, name, component, array, opts
      integer(c_int64_t), intent(in), optional :: offset(*), global(*)
    end function lib_snapshot_allocate_mesh
    integer(c_int) function lib_snapshot_particles(snapshot, name, records, nrecords, offset, global) &
        bind(c, name='fb_snapshot_particles')
      import
      type(c_ptr), value :: snapshot, name, records
      integer(c_int), value :: nrecords
      integer(c_int64_t), intent(in), optional :: offset(*), global(*)
    end function lib_snapshot_particles
    integer(c_int) function lib_snapshot_particles_with(snapshot, name, records, nrecords, offset, global, opts) &
        bind(c, name='fb_snapshot_particles_with')
      import
      type(c_ptr), value :: snapshot, name, records, opts
      integer(c_int), value :: nrecords
      integer(c_int64_t), intent(in), optional :: offset(*), global(*)
    end function lib_snapshot_particles_with
    integer(c_int) function lib_snapshot_allocate_particles(snapshot, name, record, component, array, offset, global, opts) &
        bind(c, name='fb_snapshot_allocate_particles')
      import
      type(c_ptr), value :: snapshot, name, record, component, array, opts
      integer(c_int64_t), intent(in), optional :: offset(*), global(*)
    end function lib_snapshot_allocate_particles
    integer(c_int) function lib_snapshots(run, steps, count) bind(c, name='fb_snapshots')
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: steps
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_snapshots
    integer(c_int) function lib_snapshot_at(run, step, snapshot) bind(c, name='fb_snapshot_at')
      import
      type(c_ptr), value :: run
      integer(c_int64_t), value :: step
      type(c_ptr), intent(inout) :: snapshot
    end function lib_snapshot_at
    integer(c_int) function lib_snapshot_last(run, snapshot) bind(c, name='fb_snapshot_last')
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: snapshot
    end function lib_snapshot_last
    integer(c_int) function lib_restart(run, snapshot) bind(c, name='fb_restart')
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: snapshot
    end function lib_restart
    integer(c_int) function lib_restart_strict(run, snapshot) bind(c, name='fb_restart_strict')
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: snapshot
    end function lib_restart_strict
    integer(c_int) function lib_restart_from(run, tag, snapshot) bind(c, name='fb_restart_from')
      import
      type(c_ptr), value :: run, tag
      type(c_ptr), intent(inout) :: snapshot
    end function lib_restart_from
    integer(c_int) function lib_drop(run, step, dropped) bind(c, name='fb_drop')
      import
      type(c_ptr), value :: run
      integer(c_int64_t), value :: step
      integer(c_int), intent(inout), optional :: dropped
    end function lib_drop
    integer(c_int) function lib_pack(run, first, last, packed, single) bind(c, name='fb_pack')
      import
      type(c_ptr), value :: run
      integer(c_int64_t), value :: first, last
      integer(c_int64_t), intent(inout), optional :: packed, single
    end function lib_pack
    integer(c_int) function lib_checkpoint(run, tag, step) bind(c, name='fb_checkpoint')
      import
      type(c_ptr), value :: run, tag
      integer(c_int64_t), intent(inout), optional :: step
    end function lib_checkpoint
    integer(c_int) function lib_checkpoints(run, checkpoints, count) bind(c, name='fb_checkpoints')
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: checkpoints
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_checkpoints
    integer(c_int) function lib_snapshot_step(snapshot, info) bind(c, name='fb_snapshot_step')
      import
      type(c_ptr), value :: snapshot, info
    end function lib_snapshot_step
    integer(c_int) function lib_snapshot_parameters(snapshot, json) &
        bind(c, name='fb_snapshot_parameters')
      import
      type(c_ptr), value :: snapshot
      type(c_ptr), intent(inout) :: json
    end function lib_snapshot_parameters
    integer(c_int) function lib_snapshot_passed(snapshot, steps, count) &
        bind(c, name='fb_snapshot_passed')
      import
      type(c_ptr), value :: snapshot
      type(c_ptr), intent(inout) :: steps
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_snapshot_passed
    integer(c_int) function lib_snapshot_names(snapshot, names, count) &
        bind(c, name='fb_snapshot_names')
      import
      type(c_ptr), value :: snapshot
      type(c_ptr), intent(inout) :: names
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_snapshot_names
    integer(c_int) function lib_snapshot_info(snapshot, name, info) bind(c, name='fb_snapshot_info')
      import
      type(c_ptr), value :: snapshot, name, info
    end function lib_snapshot_info
    integer(c_int) function lib_snapshot_stats(snapshot, name, stats) &
        bind(c, name='fb_snapshot_stats')
      import
      type(c_ptr), value :: snapshot, name, stats
    end function lib_snapshot_stats
    integer(c_int) function lib_snapshot_dims(snapshot, name, dims, count) &
        bind(c, name='fb_snapshot_dims')
      import
      type(c_ptr), value :: snapshot, name
      type(c_ptr), intent(inout) :: dims
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_snapshot_dims
    integer(c_int) function lib_snapshot_coords(snapshot, name, coords, count) &
        bind(c, name='fb_snapshot_coords')
      import
      type(c_ptr), value :: snapshot, name
      type(c_ptr), intent(inout) :: coords
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_snapshot_coords
    integer(c_int) function lib_snapshot_get(snapshot, name, array) bind(c, name='fb_snapshot_get')
      import
      type(c_ptr), value :: snapshot, name, array
    end function lib_snapshot_get
    integer(c_int) function lib_snapshot_map(snapshot, name, dtype, array) &
        bind(c, name='fb_snapshot_map')
      import
      type(c_ptr), value :: snapshot, name, array
      integer(c_int), value :: dtype
    end function lib_snapshot_map
    integer(c_int) function lib_snapshot_get_part(snapshot, name, offset, step, array) &
        bind(c, name='fb_snapshot_get_part')
      import
      type(c_ptr), value :: snapshot, name, array
      integer(c_int64_t), intent(in), optional :: offset(*), step(*)
    end function lib_snapshot_get_part
    integer(c_int) function lib_series(run, name, steps, count, array, opts) &
        bind(c, name='fb_series')
      import
      type(c_ptr), value :: run, name, array, opts
      integer(c_int64_t), intent(in), optional :: steps(*)
      integer(c_int64_t), value :: count
    end function lib_series
    integer(c_int) function lib_table_open(run, name, columns, ncolumns, opts, table) &
        bind(c, name='fb_table_open')
      import
      type(c_ptr), value :: run, name, columns, opts
      integer(c_int), value :: ncolumns
      type(c_ptr), intent(inout) :: table
    end function lib_table_open
    integer(c_int) function lib_table_free(table) bind(c, name='fb_table_free')
      import
      type(c_ptr), value :: table
    end function lib_table_free
    integer(c_int) function lib_tables(run, names, count) bind(c, name='fb_tables')
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: names
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_tables
    integer(c_int) function lib_table_columns(table, columns, count) &
        bind(c, name='fb_table_columns')
      import
      type(c_ptr), value :: table
      type(c_ptr), intent(inout) :: columns
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_table_columns
    integer(c_int) function lib_table_insert(table, nrows, values, nvalues) &
        bind(c, name='fb_table_insert')
      import
      type(c_ptr), value :: table, values
      integer(c_int64_t), value :: nrows
      integer(c_int), value :: nvalues
    end function lib_table_insert
    integer(c_int) function lib_table_select(table, columns, ncolumns, condition, args, nargs, rows) &
        bind(c, name='fb_table_select')
      import
      type(c_ptr), value :: table, condition, args
      type(c_ptr), intent(in) :: columns(*)
      integer(c_int), value :: ncolumns, nargs
      type(c_ptr), intent(inout) :: rows
    end function lib_table_select
    integer(c_int) function lib_table_index(table, columns, ncolumns) bind(c, name='fb_table_index')
      import
      type(c_ptr), value :: table
      type(c_ptr), intent(in) :: columns(*)
      integer(c_int), value :: ncolumns
    end function lib_table_index
    integer(c_int) function lib_table_update(table, values, nvalues, condition, args, nargs, count) &
        bind(c, name='fb_table_update')
      import
      type(c_ptr), value :: table, values, condition, args
      integer(c_int), value :: nvalues, nargs
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_table_update
    integer(c_int) function lib_table_delete(table, condition, args, nargs, count) &
        bind(c, name='fb_table_delete')
      import
      type(c_ptr), value :: table, condition, args
      integer(c_int), value :: nargs
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_table_delete
    integer(c_int) function lib_table_count(table, count) bind(c, name='fb_table_count')
      import
      type(c_ptr), value :: table
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_table_count
    integer(c_int) function lib_history(run, title, rows) bind(c, name='fb_history')
      import
      type(c_ptr), value :: run, title
      type(c_ptr), intent(inout) :: rows
    end function lib_history
    integer(c_int) function lib_sql(run, query, args, nargs, rows) bind(c, name='fb_sql')
      import
      type(c_ptr), value :: run, query, args
      integer(c_int), value :: nargs
      type(c_ptr), intent(inout) :: rows
    end function lib_sql
    integer(c_int) function lib_rows_free(rows) bind(c, name='fb_rows_free')
      import
      type(c_ptr), value :: rows
    end function lib_rows_free
    integer(c_int) function lib_rows_count(rows, nrows, ncolumns) bind(c, name='fb_rows_count')
      import
      type(c_ptr), value :: rows
      integer(c_int64_t), intent(inout), optional :: nrows
      integer(c_int), intent(inout), optional :: ncolumns
    end function lib_rows_count
    integer(c_int) function lib_rows_name(rows, column, name) bind(c, name='fb_rows_name')
      import
      type(c_ptr), value :: rows, name
      integer(c_int), value :: column
    end function lib_rows_name
    integer(c_int) function lib_rows_f64(rows, column, values) bind(c, name='fb_rows_f64')
      import
      type(c_ptr), value :: rows, values
      integer(c_int), value :: column
    end function lib_rows_f64
    integer(c_int) function lib_rows_u64(rows, column, values) bind(c, name='fb_rows_u64')
      import
      type(c_ptr), value :: rows, values
      integer(c_int), value :: column
    end function lib_rows_u64
    integer(c_int) function lib_rows_i64(rows, column, values) bind(c, name='fb_rows_i64')
      import
      type(c_ptr), value :: rows, values
      integer(c_int), value :: column
    end function lib_rows_i64
    integer(c_int) function lib_rows_str(rows, column, values) bind(c, name='fb_rows_str')
      import
      type(c_ptr), value :: rows, values
      integer(c_int), value :: column
    end function lib_rows_str
    integer(c_int) function lib_rows_array(rows, column, values) bind(c, name='fb_rows_array')
      import
      type(c_ptr), value :: rows, values
      integer(c_int), value :: column
    end function lib_rows_array
    integer(c_int) function lib_rows_bytes(rows, row, column, bytes, count) &
        bind(c, name='fb_rows_bytes')
      import
      type(c_ptr), value :: rows, bytes
      integer(c_int64_t), value :: row
      integer(c_int), value :: column
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_rows_bytes
    integer(c_int) function lib_rows_is_null(rows, row, column, is_null) &
        bind(c, name='fb_rows_is_null')
      import
      type(c_ptr), value :: rows
      integer(c_int64_t), value :: row
      integer(c_int), value :: column
      integer(c_int), intent(inout), optional :: is_null
    end function lib_rows_is_null
    integer(c_int) function lib_step(run, step, nsteps) bind(c, name='fb_step')
      import
      type(c_ptr), value :: run
      integer(c_int64_t), intent(inout), optional :: step
      integer(c_int64_t), value :: nsteps
    end function lib_step
    integer(c_int) function lib_steps_from(run, from) bind(c, name='fb_steps_from')
      import
      type(c_ptr), value :: run, from
    end function lib_steps_from
    integer(c_int) function lib_position(run, position) bind(c, name='fb_position')
      import
      type(c_ptr), value :: run
      integer(c_int64_t), intent(inout), optional :: position
    end function lib_position
    integer(c_int) function lib_steps_with(run, opts) bind(c, name='fb_steps_with')
      import
      type(c_ptr), value :: run, opts
    end function lib_steps_with
    integer(c_int) function lib_ended_by(run, why) bind(c, name='fb_ended_by')
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: why
    end function lib_ended_by
    integer(c_int) function lib_reach(run, step) bind(c, name='fb_reach')
      import
      type(c_ptr), value :: run
      integer(c_int64_t), value :: step
    end function lib_reach
    integer(c_int) function lib_finish(run) bind(c, name='fb_finish')
      import
      type(c_ptr), value :: run
    end function lib_finish
    integer(c_int) function lib_on_save(run, function, user, opts) bind(c, name='fb_on_save')
      import
      type(c_ptr), value :: run, user, opts
      type(c_funptr), value :: function
    end function lib_on_save
    integer(c_int) function lib_on_command(run, name, function, user) bind(c, name='fb_on_command')
      import
      type(c_ptr), value :: run, name, user
      type(c_funptr), value :: function
    end function lib_on_command
    integer(c_int) function lib_message(run, level, text) bind(c, name='fb_message')
      import
      type(c_ptr), value :: run, text
      integer(c_int), value :: level
    end function lib_message
    integer(c_int) function lib_monitor(run, operator_url, viewer_url) bind(c, name='fb_monitor')
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: operator_url, viewer_url
    end function lib_monitor
    integer(c_int) function lib_monitor_url(run, url) bind(c, name='fb_monitor_url')
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: url
    end function lib_monitor_url
    integer(c_int) function lib_diagram_open(run, title, opts, diagram) &
        bind(c, name='fb_diagram_open')
      import
      type(c_ptr), value :: run, title, opts
      type(c_ptr), intent(inout) :: diagram
    end function lib_diagram_open
    integer(c_int) function lib_diagram_free(diagram) bind(c, name='fb_diagram_free')
      import
      type(c_ptr), value :: diagram
    end function lib_diagram_free
    integer(c_int) function lib_curve_update(diagram, curve, n, x, y) &
        bind(c, name='fb_curve_update')
      import
      type(c_ptr), value :: diagram, curve
      integer(c_int64_t), value :: n
      real(c_double), intent(in), optional :: x(*), y(*)
    end function lib_curve_update
    integer(c_int) function lib_history_append(diagram, t, n, names, values) &
        bind(c, name='fb_history_append')
      import
      type(c_ptr), value :: diagram
      real(c_double), value :: t
      integer(c_int), value :: n
      type(c_ptr), intent(in) :: names(*)
      real(c_double), intent(in), optional :: values(*)
    end function lib_history_append
    integer(c_int) function lib_diagram_wants(diagram, curve, wants) &
        bind(c, name='fb_diagram_wants')
      import
      type(c_ptr), value :: diagram, curve
      integer(c_int), intent(inout), optional :: wants
    end function lib_diagram_wants
    integer(c_int) function lib_parameter_f64(run, name, value, opts) &
        bind(c, name='fb_parameter_f64')
      import
      type(c_ptr), value :: run, name, value, opts
    end function lib_parameter_f64
    integer(c_int) function lib_parameter_i64(run, name, value, opts) &
        bind(c, name='fb_parameter_i64')
      import
      type(c_ptr), value :: run, name, value, opts
    end function lib_parameter_i64
    integer(c_int) function lib_parameter_bool(run, name, value, opts) &
        bind(c, name='fb_parameter_bool')
      import
      type(c_ptr), value :: run, name, value, opts
    end function lib_parameter_bool
    integer(c_int) function lib_parameter_str(run, name, value, capacity, opts) &
        bind(c, name='fb_parameter_str')
      import
      type(c_ptr), value :: run, name, value, opts
      integer(c_size_t), value :: capacity
    end function lib_parameter_str
    integer(c_int) function lib_connect(broker, client) bind(c, name='fb_connect')
      import
      type(c_ptr), value :: broker
      type(c_ptr), intent(inout) :: client
    end function lib_connect
    integer(c_int) function lib_patience(client, seconds) bind(c, name='fb_patience')
      import
      type(c_ptr), value :: client
      real(c_double), value :: seconds
    end function lib_patience
    integer(c_int) function lib_silence(client, seconds) bind(c, name='fb_silence')
      import
      type(c_ptr), value :: client
      real(c_double), value :: seconds
    end function lib_silence
    integer(c_int) function lib_place_by(client, rule) bind(c, name='fb_place_by')
      import
      type(c_ptr), value :: client, rule
    end function lib_place_by
    integer(c_int) function lib_on(client, server, pid, tied) bind(c, name='fb_on')
      import
      type(c_ptr), value :: client, server
      integer(c_int32_t), value :: pid
      type(c_ptr), intent(inout) :: tied
    end function lib_on
    integer(c_int) function lib_disconnect(client) bind(c, name='fb_disconnect')
      import
      type(c_ptr), value :: client
    end function lib_disconnect
    integer(c_int) function lib_call(client, service, args, nargs) bind(c, name='fb_call')
      import
      type(c_ptr), value :: client, service, args
      integer(c_int), value :: nargs
    end function lib_call
    integer(c_int) function lib_call_within(client, service, args, nargs, timeout) &
        bind(c, name='fb_call_within')
      import
      type(c_ptr), value :: client, service, args
      integer(c_int), value :: nargs
      real(c_double), value :: timeout
    end function lib_call_within
    integer(c_int) function lib_call_async(client, service, args, nargs, future) &
        bind(c, name='fb_call_async')
      import
      type(c_ptr), value :: client, service, args
      integer(c_int), value :: nargs
      type(c_ptr), intent(inout) :: future
    end function lib_call_async
    integer(c_int) function lib_call_async_as(client, service, args, nargs, transfer, future) &
        bind(c, name='fb_call_async_as')
      import
      type(c_ptr), value :: client, service, args
      integer(c_int), value :: nargs, transfer
      type(c_ptr), intent(inout) :: future
    end function lib_call_async_as
    integer(c_int) function lib_services(client, signatures, count) bind(c, name='fb_services')
      import
      type(c_ptr), value :: client
      type(c_ptr), intent(inout) :: signatures
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_services
    integer(c_int) function lib_signature(client, service, signature) bind(c, name='fb_signature')
      import
      type(c_ptr), value :: client, service
      type(c_ptr), intent(inout) :: signature
    end function lib_signature
    integer(c_int) function lib_failed(client, index, failure) bind(c, name='fb_failed')
      import
      type(c_ptr), value :: client, failure
      integer(c_int64_t), value :: index
    end function lib_failed
    integer(c_int) function lib_place_with(client, function, user) bind(c, name='fb_place_with')
      import
      type(c_ptr), value :: client, user
      type(c_funptr), value :: function
    end function lib_place_with
    integer(c_int) function lib_wait(future, timeout) bind(c, name='fb_wait')
      import
      type(c_ptr), value :: future
      real(c_double), value :: timeout
    end function lib_wait
    integer(c_int) function lib_wait_all(futures, count, timeout) bind(c, name='fb_wait_all')
      import
      type(c_ptr), intent(in) :: futures(*)
      integer(c_int), value :: count
      real(c_double), value :: timeout
    end function lib_wait_all
    integer(c_int) function lib_wait_any(futures, count, timeout, index) bind(c, name='fb_wait_any')
      import
      type(c_ptr), intent(in) :: futures(*)
      integer(c_int), value :: count
      real(c_double), value :: timeout
      integer(c_int), intent(inout), optional :: index
    end function lib_wait_any
    integer(c_int) function lib_probe(future, done) bind(c, name='fb_probe')
      import
      type(c_ptr), value :: future
      integer(c_int), intent(inout), optional :: done
    end function lib_probe
    integer(c_int) function lib_cancel(future) bind(c, name='fb_cancel')
      import
      type(c_ptr), value :: future
    end function lib_cancel
    integer(c_int) function lib_probe_any(futures, count, index) bind(c, name='fb_probe_any')
      import
      type(c_ptr), intent(in) :: futures(*)
      integer(c_int), value :: count
      integer(c_int), intent(inout), optional :: index
    end function lib_probe_any
    integer(c_int) function lib_cancel_all(futures, count) bind(c, name='fb_cancel_all')
      import
      type(c_ptr), intent(in) :: futures(*)
      integer(c_int), value :: count
    end function lib_cancel_all
    integer(c_int) function lib_call_timing(future, timing) bind(c, name='fb_call_timing')
      import
      type(c_ptr), value :: future, timing
    end function lib_call_timing
    integer(c_int) function lib_call_output(future, stream, words, others) &
        bind(c, name='fb_call_output')
      import
      type(c_ptr), value :: future
      integer(c_int), value :: stream
      type(c_ptr), intent(inout) :: words
      integer(c_int64_t), intent(inout), optional :: others
    end function lib_call_output
    integer(c_int) function lib_future_free(future) bind(c, name='fb_future_free')
      import
      type(c_ptr), value :: future
    end function lib_future_free
    integer(c_int) function lib_notify(future, done, user) bind(c, name='fb_notify')
      import
      type(c_ptr), value :: future, user
      type(c_funptr), value :: done
    end function lib_notify
    integer(c_int) function lib_group_begin(client, parent, group) bind(c, name='fb_group_begin')
      import
      type(c_ptr), value :: client, parent
      type(c_ptr), intent(inout) :: group
    end function lib_group_begin
    integer(c_int) function lib_group_call(group, service, args, nargs, future) &
        bind(c, name='fb_group_call')
      import
      type(c_ptr), value :: group, service, args
      integer(c_int), value :: nargs
      type(c_ptr), intent(inout) :: future
    end function lib_group_call
    integer(c_int) function lib_group_end(group, timeout, index) bind(c, name='fb_group_end')
      import
      type(c_ptr), value :: group
      real(c_double), value :: timeout
      integer(c_int64_t), intent(inout), optional :: index
    end function lib_group_end
    integer(c_int) function lib_group_cancel(group) bind(c, name='fb_group_cancel')
      import
      type(c_ptr), value :: group
    end function lib_group_cancel
    integer(c_int) function lib_bag_open(client, service, opts, bag) bind(c, name='fb_bag_open')
      import
      type(c_ptr), value :: client, service, opts
      type(c_ptr), intent(inout) :: bag
    end function lib_bag_open
    integer(c_int) function lib_bag_add(bag, args, nargs, timeout, index) bind(c, name='fb_bag_add')
      import
      type(c_ptr), value :: bag, args
      integer(c_int), value :: nargs
      real(c_double), value :: timeout
      integer(c_int64_t), intent(inout), optional :: index
    end function lib_bag_add
    integer(c_int) function lib_bag_end(bag) bind(c, name='fb_bag_end')
      import
      type(c_ptr), value :: bag
    end function lib_bag_end
    integer(c_int) function lib_bag_next(bag, timeout, index, outcome) bind(c, name='fb_bag_next')
      import
      type(c_ptr), value :: bag
      real(c_double), value :: timeout
      integer(c_int64_t), intent(inout), optional :: index
      integer(c_int), intent(inout), optional :: outcome
    end function lib_bag_next
    integer(c_int) function lib_bag_run(bag, input, output, user) bind(c, name='fb_bag_run')
      import
      type(c_ptr), value :: bag, user
      type(c_funptr), value :: input, output
    end function lib_bag_run
    integer(c_int) function lib_bag_output(bag, stream, words, others) bind(c, name='fb_bag_output')
      import
      type(c_ptr), value :: bag
      integer(c_int), value :: stream
      type(c_ptr), intent(inout) :: words
      integer(c_int64_t), intent(inout), optional :: others
    end function lib_bag_output
    integer(c_int) function lib_bag_state(bag, index, state) bind(c, name='fb_bag_state')
      import
      type(c_ptr), value :: bag
      integer(c_int64_t), value :: index
      integer(c_int), intent(inout), optional :: state
    end function lib_bag_state
    integer(c_int) function lib_bag_counts(bag, totals) bind(c, name='fb_bag_counts')
      import
      type(c_ptr), value :: bag, totals
    end function lib_bag_counts
    integer(c_int) function lib_bag_cancel(bag, index) bind(c, name='fb_bag_cancel')
      import
      type(c_ptr), value :: bag
      integer(c_int64_t), value :: index
    end function lib_bag_cancel
    integer(c_int) function lib_bag_free(bag) bind(c, name='fb_bag_free')
      import
      type(c_ptr), value :: bag
    end function lib_bag_free
    integer(c_int) function lib_ref_create(client, array, opts, reference) &
        bind(c, name='fb_ref_create')
      import
      type(c_ptr), value :: client, array, opts
      type(c_ptr), intent(inout) :: reference
    end function lib_ref_create
    integer(c_int) function lib_ref_info(reference, info) bind(c, name='fb_ref_info')
      import
      type(c_ptr), value :: reference, info
    end function lib_ref_info
    integer(c_int) function lib_ref_server(reference, name, pid) bind(c, name='fb_ref_server')
      import
      type(c_ptr), value :: reference
      type(c_ptr), intent(inout) :: name
      integer(c_int32_t), intent(inout), optional :: pid
    end function lib_ref_server
    integer(c_int) function lib_ref_put(reference, array) bind(c, name='fb_ref_put')
      import
      type(c_ptr), value :: reference, array
    end function lib_ref_put
    integer(c_int) function lib_ref_put_part(reference, offset, step, array) &
        bind(c, name='fb_ref_put_part')
      import
      type(c_ptr), value :: reference, array
      integer(c_int64_t), intent(in), optional :: offset(*), step(*)
    end function lib_ref_put_part
    integer(c_int) function lib_ref_get(reference, array) bind(c, name='fb_ref_get')
      import
      type(c_ptr), value :: reference, array
    end function lib_ref_get
    integer(c_int) function lib_ref_get_part(reference, offset, step, array) &
        bind(c, name='fb_ref_get_part')
      import
      type(c_ptr), value :: reference, array
      integer(c_int64_t), intent(in), optional :: offset(*), step(*)
    end function lib_ref_get_part
    integer(c_int) function lib_ref_kill(reference) bind(c, name='fb_ref_kill')
      import
      type(c_ptr), value :: reference
    end function lib_ref_kill
    integer(c_int) function lib_server_create(opts, server) bind(c, name='fb_server_create')
      import
      type(c_ptr), value :: opts
      type(c_ptr), intent(inout) :: server
    end function lib_server_create
    integer(c_int) function lib_service_register(server, signature, function, user) &
        bind(c, name='fb_service_register')
      import
      type(c_ptr), value :: server, signature, user
      type(c_funptr), value :: function
    end function lib_service_register
    integer(c_int) function lib_service_remove(server, name) bind(c, name='fb_service_remove')
      import
      type(c_ptr), value :: server, name
    end function lib_service_remove
    integer(c_int) function lib_server_start(server) bind(c, name='fb_server_start')
      import
      type(c_ptr), value :: server
    end function lib_server_start
    integer(c_int) function lib_server_stop(server) bind(c, name='fb_server_stop')
      import
      type(c_ptr), value :: server
    end function lib_server_stop
    integer(c_int) function lib_serve(server) bind(c, name='fb_serve')
      import
      type(c_ptr), value :: server
    end function lib_serve
    integer(c_int) function lib_load(server, load) bind(c, name='fb_load')
      import
      type(c_ptr), value :: server, load
    end function lib_load
    integer(c_int) function lib_server_trouble(server) bind(c, name='fb_server_trouble')
      import
      type(c_ptr), value :: server
    end function lib_server_trouble
    integer(c_int) function lib_server_free(server) bind(c, name='fb_server_free')
      import
      type(c_ptr), value :: server
    end function lib_server_free
    integer(c_int) function lib_request_array(request, index, dtype, array) &
        bind(c, name='fb_request_array')
      import
      type(c_ptr), value :: request, array
      integer(c_int), value :: index, dtype
    end function lib_request_array
    integer(c_int) function lib_request_order(request, index, order) &
        bind(c, name='fb_request_order')
      import
      type(c_ptr), value :: request
      integer(c_int), value :: index
      integer(c_int), intent(inout), optional :: order
    end function lib_request_order
    integer(c_int) function lib_request_f64(request, index, value) bind(c, name='fb_request_f64')
      import
      type(c_ptr), value :: request, value
      integer(c_int), value :: index
    end function lib_request_f64
    integer(c_int) function lib_request_i64(request, index, value) bind(c, name='fb_request_i64')
      import
      type(c_ptr), value :: request, value
      integer(c_int), value :: index
    end function lib_request_i64
    integer(c_int) function lib_request_scalar(request, index, dtype, value) &
        bind(c, name='fb_request_scalar')
      import
      type(c_ptr), value :: request, value
      integer(c_int), value :: index, dtype
    end function lib_request_scalar
    integer(c_int) function lib_request_str(request, index, text) bind(c, name='fb_request_str')
      import
      type(c_ptr), value :: request, text
      integer(c_int), value :: index
    end function lib_request_str
    integer(c_int) function lib_request_bytes(request, index, bytes, count) &
        bind(c, name='fb_request_bytes')
      import
      type(c_ptr), value :: request, bytes
      integer(c_int), value :: index
      integer(c_int64_t), intent(inout), optional :: count
    end function lib_request_bytes
    integer(c_int) function lib_request_set_f64(request, index, value) &
        bind(c, name='fb_request_set_f64')
      import
      type(c_ptr), value :: request
      integer(c_int), value :: index
      real(c_double), value :: value
    end function lib_request_set_f64
    integer(c_int) function lib_request_set_i64(request, index, value) &
        bind(c, name='fb_request_set_i64')
      import
      type(c_ptr), value :: request
      integer(c_int), value :: index
      integer(c_int64_t), value :: value
    end function lib_request_set_i64
    integer(c_int) function lib_request_set_scalar(request, index, dtype, value) &
        bind(c, name='fb_request_set_scalar')
      import
      type(c_ptr), value :: request, value
      integer(c_int), value :: index, dtype
    end function lib_request_set_scalar
    integer(c_int) function lib_request_set_str(request, index, text) &
        bind(c, name='fb_request_set_str')
      import
      type(c_ptr), value :: request, text
      integer(c_int), value :: index
    end function lib_request_set_str
    integer(c_int) function lib_request_set_bytes(request, index, bytes, count) &
        bind(c, name='fb_request_set_bytes')
      import
      type(c_ptr), value :: request, bytes
      integer(c_int), value :: index
      integer(c_int64_t), value :: count
    end function lib_request_set_bytes
    integer(c_int) function lib_request_fail(request, text) bind(c, name='fb_request_fail')
      import
      type(c_ptr), value :: request, text
    end function lib_request_fail
    integer(c_int) function lib_request_cancelled(request, cancelled) &
        bind(c, name='fb_request_cancelled')
      import
      type(c_ptr), value :: request
      integer(c_int), intent(inout), optional :: cancelled
    end function lib_request_cancelled
    integer(c_int) function lib_request_signature(request, signature) &
        bind(c, name='fb_request_signature')
      import
      type(c_ptr), value :: request, signature
    end function lib_request_signature
    integer(c_int) function lib_request_count(request, count) bind(c, name='fb_request_count')
      import
      type(c_ptr), value :: request
      integer(c_int), intent(inout), optional :: count
    end function lib_request_count
  end interface
end module forebay_library
