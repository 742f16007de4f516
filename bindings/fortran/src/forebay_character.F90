!> Elements of type character: texts, whose blanks at the end do not count.
#define ELEMENT character(len=*)
#define DTYPE FB_STR
#define TRUE_IS 1
#define TEXTS

module forebay_character
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_places
  use forebay_shim
  use forebay_structures
#include "elements.inc"
end module forebay_character
