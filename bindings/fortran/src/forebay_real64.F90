!> Elements of type real(c_double).
#define ELEMENT real(c_double)
#define DTYPE FB_F64
#define TRUE_IS 1
#define IN_PLACE

module forebay_real64
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_meshes, only: put_mesh
  use forebay_places
  use forebay_shim
  use forebay_structures
#include "elements.inc"
end module forebay_real64
