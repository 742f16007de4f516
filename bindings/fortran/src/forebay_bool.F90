!> Elements of type logical(c_bool).
#define ELEMENT logical(c_bool)
#define DTYPE FB_BOOL
#define TRUE_IS ichar(transfer(.true._c_bool, "a"))
#define IN_PLACE

module forebay_bool
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_meshes, only: put_mesh
  use forebay_places
  use forebay_shim
  use forebay_structures
#include "elements.inc"
end module forebay_bool
