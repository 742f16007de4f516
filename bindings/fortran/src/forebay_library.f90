! Made from forebay.h by interfaces.py; do not edit.
!
! The functions of forebay.h, as they are: lib_put is fb_put.

module forebay_library
  use, intrinsic :: iso_c_binding, only: c_double, c_funptr, c_int, c_int32_t, c_int64_t, c_ptr, c_size_t
  implicit none
  public

  interface
    function lib_version() bind(c, name='fb_version') result(status)
      import
      type(c_ptr) :: status
    end function lib_version
    function lib_last_error() bind(c, name='fb_last_error') result(status)
      import
      type(c_ptr) :: status
    end function lib_last_error
    function lib_status_name(code) bind(c, name='fb_status_name') result(status)
      import
      integer(c_int), value :: code
      type(c_ptr) :: status
    end function lib_status_name
    function lib_status_remedy(code) bind(c, name='fb_status_remedy') result(status)
      import
      integer(c_int), value :: code
      type(c_ptr) :: status
    end function lib_status_remedy
    function lib_free(memory) bind(c, name='fb_free') result(status)
      import
      type(c_ptr), value :: memory
      integer(c_int) :: status
    end function lib_free
    function lib_in_use(count) bind(c, name='fb_in_use') result(status)
      import
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_in_use
    function lib_run_open(place, mode, opts, run) bind(c, name='fb_run_open') result(status)
      import
      type(c_ptr), value :: place, mode, opts
      type(c_ptr), intent(inout) :: run
      integer(c_int) :: status
    end function lib_run_open
    function lib_run_close(run) bind(c, name='fb_run_close') result(status)
      import
      type(c_ptr), value :: run
      integer(c_int) :: status
    end function lib_run_close
    function lib_run_close_unfinished(run) bind(c, name='fb_run_close_unfinished') result(status)
      import
      type(c_ptr), value :: run
      integer(c_int) :: status
    end function lib_run_close_unfinished
    function lib_rank(run, rank, ranks) bind(c, name='fb_rank') result(status)
      import
      type(c_ptr), value :: run
      integer(c_int32_t), intent(inout), optional :: rank, ranks
      integer(c_int) :: status
    end function lib_rank
    function lib_path(run, path) bind(c, name='fb_path') result(status)
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: path
      integer(c_int) :: status
    end function lib_path
    function lib_is_read_only(run, read_only) bind(c, name='fb_is_read_only') result(status)
      import
      type(c_ptr), value :: run
      integer(c_int), intent(inout), optional :: read_only
      integer(c_int) :: status
    end function lib_is_read_only
    function lib_flush(run) bind(c, name='fb_flush') result(status)
      import
      type(c_ptr), value :: run
      integer(c_int) :: status
    end function lib_flush
    function lib_run_stats(run, stats) bind(c, name='fb_run_stats') result(status)
      import
      type(c_ptr), value :: run, stats
      integer(c_int) :: status
    end function lib_run_stats
    function lib_put(run, name, set, dtype, ndim, shape, data) bind(c, name='fb_put') result(status)
      import
      type(c_ptr), value :: run, name, data
      integer(c_int64_t), value :: set
      integer(c_int), value :: dtype, ndim
      integer(c_int64_t), intent(in), optional :: shape(*)
      integer(c_int) :: status
    end function lib_put
    function lib_put_with(run, name, set, dtype, ndim, shape, data, opts) &
        bind(c, name='fb_put_with') result(status)
      import
      type(c_ptr), value :: run, name, data, opts
      integer(c_int64_t), value :: set
      integer(c_int), value :: dtype, ndim
      integer(c_int64_t), intent(in), optional :: shape(*)
      integer(c_int) :: status
    end function lib_put_with
    function lib_put_if_version(run, name, set, dtype, ndim, shape, data, version, opts, new_version) &
        bind(c, name='fb_put_if_version') result(status)
      import
      type(c_ptr), value :: run, name, data, opts
      integer(c_int64_t), value :: set, version
      integer(c_int), value :: dtype, ndim
      integer(c_int64_t), intent(in), optional :: shape(*)
      integer(c_int64_t), intent(inout), optional :: new_version
      integer(c_int) :: status
    end function lib_put_if_version
    function lib_get(run, name, set, dtype, ndim, shape, data) bind(c, name='fb_get') result(status)
      import
      type(c_ptr), value :: run, name, data
      integer(c_int64_t), value :: set
      integer(c_int), value :: dtype, ndim
      integer(c_int64_t), intent(in), optional :: shape(*)
      integer(c_int) :: status
    end function lib_get
    function lib_get_part(run, name, set, dtype, order, ndim, offset, count, step, data) &
        bind(c, name='fb_get_part') result(status)
      import
      type(c_ptr), value :: run, name, data
      integer(c_int64_t), value :: set
      integer(c_int), value :: dtype, order, ndim
      integer(c_int64_t), intent(in), optional :: offset(*), count(*), step(*)
      integer(c_int) :: status
    end function lib_get_part
    function lib_dataset_info(run, name, set, info) bind(c, name='fb_dataset_info') result(status)
      import
      type(c_ptr), value :: run, name, info
      integer(c_int64_t), value :: set
      integer(c_int) :: status
    end function lib_dataset_info
    function lib_list(run, pattern, set, infos, count) bind(c, name='fb_list') result(status)
      import
      type(c_ptr), value :: run, pattern
      integer(c_int64_t), value :: set
      type(c_ptr), intent(inout) :: infos
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_list
    function lib_delete(run, pattern, set, count) bind(c, name='fb_delete') result(status)
      import
      type(c_ptr), value :: run, pattern
      integer(c_int64_t), value :: set
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_delete
    function lib_rename(run, from, to, count) bind(c, name='fb_rename') result(status)
      import
      type(c_ptr), value :: run, from, to
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_rename
    function lib_copy(run, from, to, count) bind(c, name='fb_copy') result(status)
      import
      type(c_ptr), value :: run, from, to
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_copy
    function lib_attr_set_f64(run, name, set, key, value) &
        bind(c, name='fb_attr_set_f64') result(status)
      import
      type(c_ptr), value :: run, name, key
      integer(c_int64_t), value :: set
      real(c_double), value :: value
      integer(c_int) :: status
    end function lib_attr_set_f64
    function lib_attr_set_i64(run, name, set, key, value) &
        bind(c, name='fb_attr_set_i64') result(status)
      import
      type(c_ptr), value :: run, name, key
      integer(c_int64_t), value :: set, value
      integer(c_int) :: status
    end function lib_attr_set_i64
    function lib_attr_set_str(run, name, set, key, value) &
        bind(c, name='fb_attr_set_str') result(status)
      import
      type(c_ptr), value :: run, name, key, value
      integer(c_int64_t), value :: set
      integer(c_int) :: status
    end function lib_attr_set_str
    function lib_attr_set_json(run, name, set, json) bind(c, name='fb_attr_set_json') result(status)
      import
      type(c_ptr), value :: run, name, json
      integer(c_int64_t), value :: set
      integer(c_int) :: status
    end function lib_attr_set_json
    function lib_attr_get_f64(run, name, set, key, value) &
        bind(c, name='fb_attr_get_f64') result(status)
      import
      type(c_ptr), value :: run, name, key, value
      integer(c_int64_t), value :: set
      integer(c_int) :: status
    end function lib_attr_get_f64
    function lib_attr_get_i64(run, name, set, key, value) &
        bind(c, name='fb_attr_get_i64') result(status)
      import
      type(c_ptr), value :: run, name, key, value
      integer(c_int64_t), value :: set
      integer(c_int) :: status
    end function lib_attr_get_i64
    function lib_attr_get_str(run, name, set, key, value) &
        bind(c, name='fb_attr_get_str') result(status)
      import
      type(c_ptr), value :: run, name, key
      integer(c_int64_t), value :: set
      type(c_ptr), intent(inout) :: value
      integer(c_int) :: status
    end function lib_attr_get_str
    function lib_attr_get_json(run, name, set, json) bind(c, name='fb_attr_get_json') result(status)
      import
      type(c_ptr), value :: run, name
      integer(c_int64_t), value :: set
      type(c_ptr), intent(inout) :: json
      integer(c_int) :: status
    end function lib_attr_get_json
    function lib_attr_delete(run, name, set, key) bind(c, name='fb_attr_delete') result(status)
      import
      type(c_ptr), value :: run, name, key
      integer(c_int64_t), value :: set
      integer(c_int) :: status
    end function lib_attr_delete
    function lib_attr_has(run, name, set, key, has) bind(c, name='fb_attr_has') result(status)
      import
      type(c_ptr), value :: run, name, key
      integer(c_int64_t), value :: set
      integer(c_int), intent(inout), optional :: has
      integer(c_int) :: status
    end function lib_attr_has
    function lib_snapshot_begin(run, step, time, snapshot) &
        bind(c, name='fb_snapshot_begin') result(status)
      import
      type(c_ptr), value :: run
      integer(c_int64_t), value :: step
      real(c_double), value :: time
      type(c_ptr), intent(inout) :: snapshot
      integer(c_int) :: status
    end function lib_snapshot_begin
    function lib_snapshot_put(snapshot, name, dtype, ndim, local, offset, global, data) &
        bind(c, name='fb_snapshot_put') result(status)
      import
      type(c_ptr), value :: snapshot, name, data
      integer(c_int), value :: dtype, ndim
      integer(c_int64_t), intent(in), optional :: local(*), offset(*), global(*)
      integer(c_int) :: status
    end function lib_snapshot_put
    function lib_snapshot_put_with(snapshot, name, dtype, ndim, local, offset, global, data, opts) &
        bind(c, name='fb_snapshot_put_with') result(status)
      import
      type(c_ptr), value :: snapshot, name, data, opts
      integer(c_int), value :: dtype, ndim
      integer(c_int64_t), intent(in), optional :: local(*), offset(*), global(*)
      integer(c_int) :: status
    end function lib_snapshot_put_with
    function lib_snapshot_allocate(snapshot, name, dtype, ndim, local, offset, global, opts, data) &
        bind(c, name='fb_snapshot_allocate') result(status)
      import
      type(c_ptr), value :: snapshot, name, opts
      integer(c_int), value :: dtype, ndim
      integer(c_int64_t), intent(in), optional :: local(*), offset(*), global(*)
      type(c_ptr), intent(inout) :: data
      integer(c_int) :: status
    end function lib_snapshot_allocate
    function lib_snapshot_end(snapshot) bind(c, name='fb_snapshot_end') result(status)
      import
      type(c_ptr), value :: snapshot
      integer(c_int) :: status
    end function lib_snapshot_end
    function lib_snapshot_discard(snapshot) bind(c, name='fb_snapshot_discard') result(status)
      import
      type(c_ptr), value :: snapshot
      integer(c_int) :: status
    end function lib_snapshot_discard
    function lib_snapshot_wait(snapshot, timeout) bind(c, name='fb_snapshot_wait') result(status)
      import
      type(c_ptr), value :: snapshot
      real(c_double), value :: timeout
      integer(c_int) :: status
    end function lib_snapshot_wait
    function lib_snapshot_free(snapshot) bind(c, name='fb_snapshot_free') result(status)
      import
      type(c_ptr), value :: snapshot
      integer(c_int) :: status
    end function lib_snapshot_free
    function lib_snapshots(run, steps, count) bind(c, name='fb_snapshots') result(status)
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: steps
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_snapshots
    function lib_snapshot_at(run, step, snapshot) bind(c, name='fb_snapshot_at') result(status)
      import
      type(c_ptr), value :: run
      integer(c_int64_t), value :: step
      type(c_ptr), intent(inout) :: snapshot
      integer(c_int) :: status
    end function lib_snapshot_at
    function lib_snapshot_last(run, snapshot) bind(c, name='fb_snapshot_last') result(status)
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: snapshot
      integer(c_int) :: status
    end function lib_snapshot_last
    function lib_restart(run, snapshot) bind(c, name='fb_restart') result(status)
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: snapshot
      integer(c_int) :: status
    end function lib_restart
    function lib_restart_from(run, tag, snapshot) bind(c, name='fb_restart_from') result(status)
      import
      type(c_ptr), value :: run, tag
      type(c_ptr), intent(inout) :: snapshot
      integer(c_int) :: status
    end function lib_restart_from
    function lib_checkpoint(run, tag, step) bind(c, name='fb_checkpoint') result(status)
      import
      type(c_ptr), value :: run, tag
      integer(c_int64_t), intent(inout), optional :: step
      integer(c_int) :: status
    end function lib_checkpoint
    function lib_checkpoints(run, checkpoints, count) bind(c, name='fb_checkpoints') result(status)
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: checkpoints
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_checkpoints
    function lib_snapshot_step(snapshot, info) bind(c, name='fb_snapshot_step') result(status)
      import
      type(c_ptr), value :: snapshot, info
      integer(c_int) :: status
    end function lib_snapshot_step
    function lib_snapshot_parameters(snapshot, json) &
        bind(c, name='fb_snapshot_parameters') result(status)
      import
      type(c_ptr), value :: snapshot
      type(c_ptr), intent(inout) :: json
      integer(c_int) :: status
    end function lib_snapshot_parameters
    function lib_snapshot_names(snapshot, names, count) &
        bind(c, name='fb_snapshot_names') result(status)
      import
      type(c_ptr), value :: snapshot
      type(c_ptr), intent(inout) :: names
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_snapshot_names
    function lib_snapshot_info(snapshot, name, info) bind(c, name='fb_snapshot_info') result(status)
      import
      type(c_ptr), value :: snapshot, name, info
      integer(c_int) :: status
    end function lib_snapshot_info
    function lib_snapshot_get(snapshot, name, dtype, ndim, shape, data) &
        bind(c, name='fb_snapshot_get') result(status)
      import
      type(c_ptr), value :: snapshot, name, data
      integer(c_int), value :: dtype, ndim
      integer(c_int64_t), intent(in), optional :: shape(*)
      integer(c_int) :: status
    end function lib_snapshot_get
    function lib_snapshot_get_part(snapshot, name, dtype, order, ndim, offset, count, step, data) &
        bind(c, name='fb_snapshot_get_part') result(status)
      import
      type(c_ptr), value :: snapshot, name, data
      integer(c_int), value :: dtype, order, ndim
      integer(c_int64_t), intent(in), optional :: offset(*), count(*), step(*)
      integer(c_int) :: status
    end function lib_snapshot_get_part
    function lib_table_open(run, name, columns, ncolumns, opts, table) &
        bind(c, name='fb_table_open') result(status)
      import
      type(c_ptr), value :: run, name, columns, opts
      integer(c_int), value :: ncolumns
      type(c_ptr), intent(inout) :: table
      integer(c_int) :: status
    end function lib_table_open
    function lib_table_free(table) bind(c, name='fb_table_free') result(status)
      import
      type(c_ptr), value :: table
      integer(c_int) :: status
    end function lib_table_free
    function lib_tables(run, names, count) bind(c, name='fb_tables') result(status)
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: names
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_tables
    function lib_table_columns(table, columns, count) &
        bind(c, name='fb_table_columns') result(status)
      import
      type(c_ptr), value :: table
      type(c_ptr), intent(inout) :: columns
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_table_columns
    function lib_table_insert(table, nrows, values, nvalues) &
        bind(c, name='fb_table_insert') result(status)
      import
      type(c_ptr), value :: table, values
      integer(c_int64_t), value :: nrows
      integer(c_int), value :: nvalues
      integer(c_int) :: status
    end function lib_table_insert
    function lib_table_select(table, columns, ncolumns, condition, args, nargs, rows) &
        bind(c, name='fb_table_select') result(status)
      import
      type(c_ptr), value :: table, condition, args
      type(c_ptr), intent(in) :: columns(*)
      integer(c_int), value :: ncolumns, nargs
      type(c_ptr), intent(inout) :: rows
      integer(c_int) :: status
    end function lib_table_select
    function lib_table_update(table, values, nvalues, condition, args, nargs, count) &
        bind(c, name='fb_table_update') result(status)
      import
      type(c_ptr), value :: table, values, condition, args
      integer(c_int), value :: nvalues, nargs
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_table_update
    function lib_table_delete(table, condition, args, nargs, count) &
        bind(c, name='fb_table_delete') result(status)
      import
      type(c_ptr), value :: table, condition, args
      integer(c_int), value :: nargs
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_table_delete
    function lib_table_count(table, count) bind(c, name='fb_table_count') result(status)
      import
      type(c_ptr), value :: table
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_table_count
    function lib_sql(run, query, args, nargs, rows) bind(c, name='fb_sql') result(status)
      import
      type(c_ptr), value :: run, query, args
      integer(c_int), value :: nargs
      type(c_ptr), intent(inout) :: rows
      integer(c_int) :: status
    end function lib_sql
    function lib_rows_free(rows) bind(c, name='fb_rows_free') result(status)
      import
      type(c_ptr), value :: rows
      integer(c_int) :: status
    end function lib_rows_free
    function lib_rows_count(rows, nrows, ncolumns) bind(c, name='fb_rows_count') result(status)
      import
      type(c_ptr), value :: rows
      integer(c_int64_t), intent(inout), optional :: nrows
      integer(c_int), intent(inout), optional :: ncolumns
      integer(c_int) :: status
    end function lib_rows_count
    function lib_rows_name(rows, column, name) bind(c, name='fb_rows_name') result(status)
      import
      type(c_ptr), value :: rows, name
      integer(c_int), value :: column
      integer(c_int) :: status
    end function lib_rows_name
    function lib_rows_f64(rows, column, values) bind(c, name='fb_rows_f64') result(status)
      import
      type(c_ptr), value :: rows, values
      integer(c_int), value :: column
      integer(c_int) :: status
    end function lib_rows_f64
    function lib_rows_i64(rows, column, values) bind(c, name='fb_rows_i64') result(status)
      import
      type(c_ptr), value :: rows, values
      integer(c_int), value :: column
      integer(c_int) :: status
    end function lib_rows_i64
    function lib_rows_str(rows, column, values) bind(c, name='fb_rows_str') result(status)
      import
      type(c_ptr), value :: rows, values
      integer(c_int), value :: column
      integer(c_int) :: status
    end function lib_rows_str
    function lib_rows_bytes(rows, row, column, bytes, count) &
        bind(c, name='fb_rows_bytes') result(status)
      import
      type(c_ptr), value :: rows, bytes
      integer(c_int64_t), value :: row
      integer(c_int), value :: column
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_rows_bytes
    function lib_rows_is_null(rows, row, column, is_null) &
        bind(c, name='fb_rows_is_null') result(status)
      import
      type(c_ptr), value :: rows
      integer(c_int64_t), value :: row
      integer(c_int), value :: column
      integer(c_int), intent(inout), optional :: is_null
      integer(c_int) :: status
    end function lib_rows_is_null
    function lib_step(run, step, nsteps) bind(c, name='fb_step') result(status)
      import
      type(c_ptr), value :: run
      integer(c_int64_t), intent(inout), optional :: step
      integer(c_int64_t), value :: nsteps
      integer(c_int) :: status
    end function lib_step
    function lib_steps_from(run, start) bind(c, name='fb_steps_from') result(status)
      import
      type(c_ptr), value :: run
      integer(c_int64_t), value :: start
      integer(c_int) :: status
    end function lib_steps_from
    function lib_steps_with(run, opts) bind(c, name='fb_steps_with') result(status)
      import
      type(c_ptr), value :: run, opts
      integer(c_int) :: status
    end function lib_steps_with
    function lib_ended_by(run, why) bind(c, name='fb_ended_by') result(status)
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: why
      integer(c_int) :: status
    end function lib_ended_by
    function lib_on_save(run, function, user) bind(c, name='fb_on_save') result(status)
      import
      type(c_ptr), value :: run, user
      type(c_funptr), value :: function
      integer(c_int) :: status
    end function lib_on_save
    function lib_on_command(run, name, function, user) bind(c, name='fb_on_command') result(status)
      import
      type(c_ptr), value :: run, name, user
      type(c_funptr), value :: function
      integer(c_int) :: status
    end function lib_on_command
    function lib_message(run, level, text) bind(c, name='fb_message') result(status)
      import
      type(c_ptr), value :: run, text
      integer(c_int), value :: level
      integer(c_int) :: status
    end function lib_message
    function lib_monitor(run, operator_url, viewer_url) bind(c, name='fb_monitor') result(status)
      import
      type(c_ptr), value :: run
      type(c_ptr), intent(inout) :: operator_url, viewer_url
      integer(c_int) :: status
    end function lib_monitor
    function lib_diagram_open(run, title, opts, diagram) &
        bind(c, name='fb_diagram_open') result(status)
      import
      type(c_ptr), value :: run, title, opts
      type(c_ptr), intent(inout) :: diagram
      integer(c_int) :: status
    end function lib_diagram_open
    function lib_diagram_free(diagram) bind(c, name='fb_diagram_free') result(status)
      import
      type(c_ptr), value :: diagram
      integer(c_int) :: status
    end function lib_diagram_free
    function lib_curve_update(diagram, curve, n, x, y) &
        bind(c, name='fb_curve_update') result(status)
      import
      type(c_ptr), value :: diagram, curve
      integer(c_int64_t), value :: n
      real(c_double), intent(in), optional :: x(*), y(*)
      integer(c_int) :: status
    end function lib_curve_update
    function lib_history_append(diagram, t, n, names, values) &
        bind(c, name='fb_history_append') result(status)
      import
      type(c_ptr), value :: diagram
      real(c_double), value :: t
      integer(c_int), value :: n
      type(c_ptr), intent(in) :: names(*)
      real(c_double), intent(in), optional :: values(*)
      integer(c_int) :: status
    end function lib_history_append
    function lib_diagram_wants(diagram, curve, wants) &
        bind(c, name='fb_diagram_wants') result(status)
      import
      type(c_ptr), value :: diagram, curve
      integer(c_int), intent(inout), optional :: wants
      integer(c_int) :: status
    end function lib_diagram_wants
    function lib_parameter_f64(run, name, value, opts) &
        bind(c, name='fb_parameter_f64') result(status)
      import
      type(c_ptr), value :: run, name, value, opts
      integer(c_int) :: status
    end function lib_parameter_f64
    function lib_parameter_i64(run, name, value, opts) &
        bind(c, name='fb_parameter_i64') result(status)
      import
      type(c_ptr), value :: run, name, value, opts
      integer(c_int) :: status
    end function lib_parameter_i64
    function lib_parameter_bool(run, name, value, opts) &
        bind(c, name='fb_parameter_bool') result(status)
      import
      type(c_ptr), value :: run, name, value, opts
      integer(c_int) :: status
    end function lib_parameter_bool
    function lib_parameter_str(run, name, value, capacity, opts) &
        bind(c, name='fb_parameter_str') result(status)
      import
      type(c_ptr), value :: run, name, value, opts
      integer(c_size_t), value :: capacity
      integer(c_int) :: status
    end function lib_parameter_str
    function lib_connect(broker, client) bind(c, name='fb_connect') result(status)
      import
      type(c_ptr), value :: broker
      type(c_ptr), intent(inout) :: client
      integer(c_int) :: status
    end function lib_connect
    function lib_patience(client, seconds) bind(c, name='fb_patience') result(status)
      import
      type(c_ptr), value :: client
      real(c_double), value :: seconds
      integer(c_int) :: status
    end function lib_patience
    function lib_disconnect(client) bind(c, name='fb_disconnect') result(status)
      import
      type(c_ptr), value :: client
      integer(c_int) :: status
    end function lib_disconnect
    function lib_call(client, service, args, nargs) bind(c, name='fb_call') result(status)
      import
      type(c_ptr), value :: client, service, args
      integer(c_int), value :: nargs
      integer(c_int) :: status
    end function lib_call
    function lib_call_within(client, service, args, nargs, timeout) &
        bind(c, name='fb_call_within') result(status)
      import
      type(c_ptr), value :: client, service, args
      integer(c_int), value :: nargs
      real(c_double), value :: timeout
      integer(c_int) :: status
    end function lib_call_within
    function lib_call_async(client, service, args, nargs, future) &
        bind(c, name='fb_call_async') result(status)
      import
      type(c_ptr), value :: client, service, args
      integer(c_int), value :: nargs
      type(c_ptr), intent(inout) :: future
      integer(c_int) :: status
    end function lib_call_async
    function lib_services(client, signatures, count) bind(c, name='fb_services') result(status)
      import
      type(c_ptr), value :: client
      type(c_ptr), intent(inout) :: signatures
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_services
    function lib_signature(client, service, signature) bind(c, name='fb_signature') result(status)
      import
      type(c_ptr), value :: client, service
      type(c_ptr), intent(inout) :: signature
      integer(c_int) :: status
    end function lib_signature
    function lib_wait(future, timeout) bind(c, name='fb_wait') result(status)
      import
      type(c_ptr), value :: future
      real(c_double), value :: timeout
      integer(c_int) :: status
    end function lib_wait
    function lib_wait_all(futures, count, timeout) bind(c, name='fb_wait_all') result(status)
      import
      type(c_ptr), intent(in) :: futures(*)
      integer(c_int), value :: count
      real(c_double), value :: timeout
      integer(c_int) :: status
    end function lib_wait_all
    function lib_wait_any(futures, count, timeout, index) bind(c, name='fb_wait_any') result(status)
      import
      type(c_ptr), intent(in) :: futures(*)
      integer(c_int), value :: count
      real(c_double), value :: timeout
      integer(c_int), intent(inout), optional :: index
      integer(c_int) :: status
    end function lib_wait_any
    function lib_probe(future, done) bind(c, name='fb_probe') result(status)
      import
      type(c_ptr), value :: future
      integer(c_int), intent(inout), optional :: done
      integer(c_int) :: status
    end function lib_probe
    function lib_cancel(future) bind(c, name='fb_cancel') result(status)
      import
      type(c_ptr), value :: future
      integer(c_int) :: status
    end function lib_cancel
    function lib_probe_any(futures, count, index) bind(c, name='fb_probe_any') result(status)
      import
      type(c_ptr), intent(in) :: futures(*)
      integer(c_int), value :: count
      integer(c_int), intent(inout), optional :: index
      integer(c_int) :: status
    end function lib_probe_any
    function lib_cancel_all(futures, count) bind(c, name='fb_cancel_all') result(status)
      import
      type(c_ptr), intent(in) :: futures(*)
      integer(c_int), value :: count
      integer(c_int) :: status
    end function lib_cancel_all
    function lib_call_timing(future, timing) bind(c, name='fb_call_timing') result(status)
      import
      type(c_ptr), value :: future, timing
      integer(c_int) :: status
    end function lib_call_timing
    function lib_future_free(future) bind(c, name='fb_future_free') result(status)
      import
      type(c_ptr), value :: future
      integer(c_int) :: status
    end function lib_future_free
    function lib_ref_create(client, dtype, ndim, shape, data, opts, reference) &
        bind(c, name='fb_ref_create') result(status)
      import
      type(c_ptr), value :: client, data, opts
      integer(c_int), value :: dtype, ndim
      integer(c_int64_t), intent(in), optional :: shape(*)
      type(c_ptr), intent(inout) :: reference
      integer(c_int) :: status
    end function lib_ref_create
    function lib_ref_info(reference, info) bind(c, name='fb_ref_info') result(status)
      import
      type(c_ptr), value :: reference, info
      integer(c_int) :: status
    end function lib_ref_info
    function lib_ref_server(reference, name, pid) bind(c, name='fb_ref_server') result(status)
      import
      type(c_ptr), value :: reference
      type(c_ptr), intent(inout) :: name
      integer(c_int32_t), intent(inout), optional :: pid
      integer(c_int) :: status
    end function lib_ref_server
    function lib_ref_put(reference, data) bind(c, name='fb_ref_put') result(status)
      import
      type(c_ptr), value :: reference, data
      integer(c_int) :: status
    end function lib_ref_put
    function lib_ref_put_part(reference, ndim, offset, count, step, data) &
        bind(c, name='fb_ref_put_part') result(status)
      import
      type(c_ptr), value :: reference, data
      integer(c_int), value :: ndim
      integer(c_int64_t), intent(in), optional :: offset(*), count(*), step(*)
      integer(c_int) :: status
    end function lib_ref_put_part
    function lib_ref_get(reference, data) bind(c, name='fb_ref_get') result(status)
      import
      type(c_ptr), value :: reference, data
      integer(c_int) :: status
    end function lib_ref_get
    function lib_ref_get_part(reference, ndim, offset, count, step, data) &
        bind(c, name='fb_ref_get_part') result(status)
      import
      type(c_ptr), value :: reference, data
      integer(c_int), value :: ndim
      integer(c_int64_t), intent(in), optional :: offset(*), count(*), step(*)
      integer(c_int) :: status
    end function lib_ref_get_part
    function lib_ref_kill(reference) bind(c, name='fb_ref_kill') result(status)
      import
      type(c_ptr), value :: reference
      integer(c_int) :: status
    end function lib_ref_kill
    function lib_server_create(opts, server) bind(c, name='fb_server_create') result(status)
      import
      type(c_ptr), value :: opts
      type(c_ptr), intent(inout) :: server
      integer(c_int) :: status
    end function lib_server_create
    function lib_service_register(server, signature, function, user) &
        bind(c, name='fb_service_register') result(status)
      import
      type(c_ptr), value :: server, signature, user
      type(c_funptr), value :: function
      integer(c_int) :: status
    end function lib_service_register
    function lib_service_remove(server, name) bind(c, name='fb_service_remove') result(status)
      import
      type(c_ptr), value :: server, name
      integer(c_int) :: status
    end function lib_service_remove
    function lib_server_start(server) bind(c, name='fb_server_start') result(status)
      import
      type(c_ptr), value :: server
      integer(c_int) :: status
    end function lib_server_start
    function lib_server_stop(server) bind(c, name='fb_server_stop') result(status)
      import
      type(c_ptr), value :: server
      integer(c_int) :: status
    end function lib_server_stop
    function lib_serve(server) bind(c, name='fb_serve') result(status)
      import
      type(c_ptr), value :: server
      integer(c_int) :: status
    end function lib_serve
    function lib_load(server, load) bind(c, name='fb_load') result(status)
      import
      type(c_ptr), value :: server, load
      integer(c_int) :: status
    end function lib_load
    function lib_server_trouble(server) bind(c, name='fb_server_trouble') result(status)
      import
      type(c_ptr), value :: server
      integer(c_int) :: status
    end function lib_server_trouble
    function lib_server_free(server) bind(c, name='fb_server_free') result(status)
      import
      type(c_ptr), value :: server
      integer(c_int) :: status
    end function lib_server_free
    function lib_request_array(request, index, dtype, data, shape, ndim) &
        bind(c, name='fb_request_array') result(status)
      import
      type(c_ptr), value :: request, shape
      integer(c_int), value :: index, dtype
      type(c_ptr), intent(inout) :: data
      integer(c_int), intent(inout), optional :: ndim
      integer(c_int) :: status
    end function lib_request_array
    function lib_request_order(request, index, order) &
        bind(c, name='fb_request_order') result(status)
      import
      type(c_ptr), value :: request
      integer(c_int), value :: index
      integer(c_int), intent(inout), optional :: order
      integer(c_int) :: status
    end function lib_request_order
    function lib_request_f64(request, index, value) bind(c, name='fb_request_f64') result(status)
      import
      type(c_ptr), value :: request, value
      integer(c_int), value :: index
      integer(c_int) :: status
    end function lib_request_f64
    function lib_request_i64(request, index, value) bind(c, name='fb_request_i64') result(status)
      import
      type(c_ptr), value :: request, value
      integer(c_int), value :: index
      integer(c_int) :: status
    end function lib_request_i64
    function lib_request_scalar(request, index, dtype, value) &
        bind(c, name='fb_request_scalar') result(status)
      import
      type(c_ptr), value :: request, value
      integer(c_int), value :: index, dtype
      integer(c_int) :: status
    end function lib_request_scalar
    function lib_request_str(request, index, text) bind(c, name='fb_request_str') result(status)
      import
      type(c_ptr), value :: request, text
      integer(c_int), value :: index
      integer(c_int) :: status
    end function lib_request_str
    function lib_request_bytes(request, index, bytes, count) &
        bind(c, name='fb_request_bytes') result(status)
      import
      type(c_ptr), value :: request, bytes
      integer(c_int), value :: index
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_request_bytes
    function lib_request_set_f64(request, index, value) &
        bind(c, name='fb_request_set_f64') result(status)
      import
      type(c_ptr), value :: request
      integer(c_int), value :: index
      real(c_double), value :: value
      integer(c_int) :: status
    end function lib_request_set_f64
    function lib_request_set_i64(request, index, value) &
        bind(c, name='fb_request_set_i64') result(status)
      import
      type(c_ptr), value :: request
      integer(c_int), value :: index
      integer(c_int64_t), value :: value
      integer(c_int) :: status
    end function lib_request_set_i64
    function lib_request_set_scalar(request, index, dtype, value) &
        bind(c, name='fb_request_set_scalar') result(status)
      import
      type(c_ptr), value :: request, value
      integer(c_int), value :: index, dtype
      integer(c_int) :: status
    end function lib_request_set_scalar
    function lib_request_set_str(request, index, text) &
        bind(c, name='fb_request_set_str') result(status)
      import
      type(c_ptr), value :: request, text
      integer(c_int), value :: index
      integer(c_int) :: status
    end function lib_request_set_str
    function lib_request_set_bytes(request, index, bytes, count) &
        bind(c, name='fb_request_set_bytes') result(status)
      import
      type(c_ptr), value :: request, bytes
      integer(c_int), value :: index
      integer(c_int64_t), value :: count
      integer(c_int) :: status
    end function lib_request_set_bytes
    function lib_request_fail(request, text) bind(c, name='fb_request_fail') result(status)
      import
      type(c_ptr), value :: request, text
      integer(c_int) :: status
    end function lib_request_fail
    function lib_request_cancelled(request, cancelled) &
        bind(c, name='fb_request_cancelled') result(status)
      import
      type(c_ptr), value :: request
      integer(c_int), intent(inout), optional :: cancelled
      integer(c_int) :: status
    end function lib_request_cancelled
    function lib_request_signature(request, signature) &
        bind(c, name='fb_request_signature') result(status)
      import
      type(c_ptr), value :: request, signature
      integer(c_int) :: status
    end function lib_request_signature
    function lib_request_count(request, count) bind(c, name='fb_request_count') result(status)
      import
      type(c_ptr), value :: request
      integer(c_int), intent(inout), optional :: count
      integer(c_int) :: status
    end function lib_request_count
  end interface
end module forebay_library
