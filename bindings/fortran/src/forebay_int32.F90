!> Elements of type integer(c_int32_t).
#define ELEMENT integer(c_int32_t)
#define DTYPE FB_I32
#define TRUE_IS 1
#define IN_PLACE

module forebay_int32
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_meshes, only: put_mesh
  use forebay_places
  use forebay_shim
  use forebay_structures
#include "elements.inc"
end module forebay_int32
