!> Elements of type logical.
#define ELEMENT logical
#define DTYPE FB_BOOL
#define TRUE_IS transfer(.true., 0_c_int)

module forebay_logical
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_meshes, only: put_mesh
  use forebay_places
  use forebay_shim
  use forebay_structures
#include "elements.inc"
end module forebay_logical
