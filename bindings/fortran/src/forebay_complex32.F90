!> Elements of type complex(c_float_complex).
#define ELEMENT complex(c_float_complex)
#define DTYPE FB_C64
#define TRUE_IS 1
#define IN_PLACE

module forebay_complex32
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_meshes, only: put_mesh
  use forebay_places
  use forebay_shim
  use forebay_structures
#include "elements.inc"
end module forebay_complex32
