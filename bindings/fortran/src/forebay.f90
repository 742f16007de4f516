!> Forebay for Fortran: the runtime around a parallel simulation. use forebay
!
!     call fb_run_open('two_stream', 'a', run)
!     do while (fb_step(run, step, nsteps))
!       call fb_snapshot_begin(run, step, snapshot)
!       call fb_snapshot_put(snapshot, 'E', e, units='V/m')
!       call fb_snapshot_end(snapshot)
!     end do
!     call fb_run_close(run)
!
! The names are those of forebay.h. Every procedure takes `stat` and `errmsg`; without `stat` an error ends the
! program with its text. Arrays may have any rank up to 8 and be sections; their elements are not transposed.

module forebay
  use forebay_constants
  use forebay_structures, only: fb_array_stats, fb_bag_totals, fb_failure, fb_server_load, fb_stats, fb_step_info, fb_timing
  use forebay_base, only: fb_bag, fb_client, fb_diagram, fb_future, fb_group, fb_is_there, fb_rows, fb_run, fb_server, &
      fb_snapshot, fb_table
  use forebay_places, only: fb_request
  use forebay_shim, only: fb_arg, fb_row_values
  use forebay_meshes, only: fb_snapshot_mesh, fb_snapshot_particles
  use forebay_int8
  use forebay_int16
  use forebay_int32
  use forebay_int64
  use forebay_real32
  use forebay_real64
  use forebay_complex32
  use forebay_complex64
  use forebay_bool
  use forebay_logical
  use forebay_character
  use forebay_texts
  use forebay_made
  use forebay_runs, only: fb_dataset, fb_fail, fb_in_use, fb_list, fb_run_close_unfinished, fb_run_open, fb_status_name, &
      fb_status_remedy, fb_version
  use forebay_attrs
  use forebay_snapshots, only: fb_checkpoint_info, fb_checkpoints, fb_drop, fb_restart, fb_restart_from, fb_snapshot_begin
  use forebay_tables
  use forebay_watch
  use forebay_parameters
  use forebay_calls
  use forebay_bags
  use forebay_groups
  use forebay_servers
  implicit none
  public
end module forebay
