!> Meshes of several components, and particles.

module forebay_meshes
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_places
  use forebay_shim
  implicit none
  private
  public :: fb_snapshot_mesh, fb_snapshot_particles, put_mesh

  !> Copies a field on a regular mesh into a snapshot: readers of openPMD, VTK and ParaView find it in the file of the step.
  !> The component x of the mesh E is the array E_x of the snapshot. Without dims the axes are x, y and z.
  interface fb_snapshot_mesh
    module procedure components
  end interface fb_snapshot_mesh

contains

  subroutine components(snapshot, name, parts, offset, global, append, units, stat, errmsg, dims, coords, attrs, overlap, &
      spacing, origin, position, fill, compress, as_dtype)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: name
    type(fb_mesh_component), intent(in) :: parts(:)
    class(*), intent(in), optional :: offset(:), global(:)
    logical, intent(in), optional :: append
    character(len=*), intent(in), optional :: units, dims(:), attrs, overlap, compress
    type(fb_coordinate), intent(in), optional :: coords(:)
    class(*), intent(in), optional :: fill
    real(c_double), intent(in), optional :: spacing(:), origin(:), position(:)
    integer, intent(in), optional :: as_dtype
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer :: axes
    axes = 0
    if (size(parts) > 0) axes = axes_of(parts(1)%values)
    call put_mesh(snapshot, name, parts, axes, offset, global, append, units, stat, errmsg, dims, coords, attrs, overlap, &
        spacing, origin, position, fill, compress, as_dtype)
  end subroutine components

  !> Puts the components of a mesh, which has so many axes.
  subroutine put_mesh(snapshot, name, parts, axes, offset, global, append, units, stat, errmsg, dims, coords, attrs, &
      overlap, spacing, origin, position, fill, compress, as_dtype)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: name
    type(fb_mesh_component), intent(in) :: parts(:)
    integer, intent(in) :: axes
    class(*), intent(in), optional :: offset(:), global(:)
    logical, intent(in), optional :: append
    character(len=*), intent(in), optional :: units, dims(:), attrs, overlap, compress
    type(fb_coordinate), intent(in), optional :: coords(:)
    class(*), intent(in), optional :: fill
    real(c_double), intent(in), optional :: spacing(:), origin(:), position(:)
    integer, intent(in), optional :: as_dtype
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:)
    integer(c_int64_t), target :: c_offset(FB_MAX_RANK), c_global(FB_MAX_RANK)
    type(described_array), target :: about
    type(c_ptr) :: at, of
    integer(c_int) :: place, status
    status = place_of(axes, offset, global, append, c_offset, c_global, at, of, place)
    if (status == FB_OK) status = about_array(units, dims, coords, attrs, overlap, fill, compress, about)
    if (status == FB_OK) status = about_points(spacing, origin, position, about)
    if (present(as_dtype)) about%said%as_dtype = as_dtype
    if (status == FB_OK) status = fbf_snapshot_mesh(id(snapshot%at), text(name, c_name), parts, size(parts), place, at, of, &
        about%said)
    call settle(status, stat, errmsg)
  end subroutine put_mesh

  !> Copies a species of particles into a snapshot: readers of openPMD, VTK and ParaView find it in the file of the step. The
  !> component x of the record position of electrons is the array electrons/position/x of the snapshot. Each rank gives its
  !> own: with append, or with offset, the index of its first one, and global, the number of all. With sort_by, a record of
  !> integers, the particles of all ranks lie in its order in the file, as fb_particles_opts says in C.
  subroutine fb_snapshot_particles(snapshot, name, records, offset, global, append, sort_by, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: name
    type(fb_particle_record), intent(in) :: records(:)
    class(*), intent(in), optional :: offset, global
    logical, intent(in), optional :: append
    character(len=*), intent(in), optional :: sort_by
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:), c_sort_by(:)
    integer(c_int64_t), target :: c_offset(1), c_global(1)
    type(c_ptr) :: at, of
    integer(c_int) :: place, status
    status = place_of_particles(offset, global, append, c_offset, c_global, at, of, place)
    if (status == FB_OK) status = fbf_snapshot_particles(id(snapshot%at), text(name, c_name), records, size(records), place, &
        at, of, text(sort_by, c_sort_by))
    call settle(status, stat, errmsg)
  end subroutine fb_snapshot_particles
end module forebay_meshes
