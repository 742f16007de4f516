/* Arrays as Fortran has them, seen from C: what the other files of the shim share.

   A Fortran array comes as a C descriptor: address, extents, and the bytes between neighbours along each
   axis. Its dtype is told by the specific procedure that took it, never by the descriptor. */

#ifndef FOREBAY_FORTRAN_ARRAYS_H
#define FOREBAY_FORTRAN_ARRAYS_H

#include <ISO_Fortran_binding.h>
#include <forebay.h>

/* Longest text that fb_in takes by value. */
#define TEXT_ROOM 256

/* How elements of Fortran differ from those that are kept. */
enum { AS_THEY_ARE = 0, LOGICALS = 1, TEXTS = 2 };

/* Elements of Fortran, wherever they lie. */
struct elements {
    char *data;
    int kind;                  /* AS_THEY_ARE, LOGICALS (of more than a byte), or TEXTS */
    int ndim;
    int truth;                 /* the integer that .true. is, of LOGICALS */
    int64_t size;              /* bytes of an element; length of a text */
    int64_t shape[FB_MAX_RANK];
    int64_t stride[FB_MAX_RANK]; /* bytes between neighbours */
};

/* Elements as the library takes them: where they lie, or a copy of those that it keeps otherwise. */
struct passed {
    fb_array array;
    int64_t shape[FB_MAX_RANK];
    int64_t strides[FB_MAX_RANK];
    void *own; /* memory to free, NULL when they are passed where they lie */
};

/* The text of the error that was just returned: the shim's own, once, or the library's. */
const char *fbf_said(void);

/* Notes an error of the shim itself, for fbf_said. Returns the status. */
fb_status refuse(fb_status status, const char *format, ...);

/* What a descriptor describes. */
fb_status elements_of(const CFI_cdesc_t *array, fb_dtype dtype, int truth, struct elements *elements);

/* Number of elements. */
int64_t elements_count(const struct elements *elements);

/* Whether the elements lie as they are to be kept, the first index running fastest. */
int lies_dense(const struct elements *elements);

/* The elements for reading. */
fb_status pass_in(const struct elements *elements, fb_dtype dtype, struct passed *passed);

/* Room for elements to be written; they get there by pass_back. */
fb_status pass_out(const struct elements *elements, fb_dtype dtype, struct passed *passed);
void pass_back(const struct elements *elements, const struct passed *passed);
void pass_free(struct passed *passed);

/* Puts the last axis first: the library has rows along the first one, Fortran along the last one. */
void last_axis_first(struct passed *passed);

/* Makes of elements that were passed an array of other extents with as many elements, the first index running
   fastest. */
fb_status reshape(const struct elements *elements, int ndim, const int64_t *shape, int in, struct passed *passed);

/* A dense array whose first index runs fastest, in `passed`. */
void first_fastest(struct passed *passed, fb_dtype dtype, int ndim, const int64_t *shape, void *data);

/* Copies elements to dense memory of an order, or back from there. */
void elements_pack(const struct elements *elements, fb_order order, void *to);
void elements_unpack(const struct elements *elements, fb_order order, const void *from);

/* Makes a Fortran pointer point at dense memory: the same index is the same element in either order. */
fb_status point(CFI_cdesc_t *pointer, void *data, fb_order order, const int64_t *shape);

enum { LONGER = -1, UNFIT = -2 };

/* An argument of a call, as Fortran holds it; the twin of fb_arg in forebay_shim.f90. */
typedef struct {
    struct elements elements;
    int kind, direction;
    fb_dtype dtype;
    int given; /* bytes in `text` and one; LONGER, UNFIT: what was given cannot be an argument */
    fb_ref *reference;
    int64_t *length;
    fb_scalar value;
    char text[TEXT_ROOM];
} argument;

/* Values of one column; the twin of fb_values. */
typedef struct {
    char column[FB_NAME_ROOM];
    argument values;
} column_values;

/* The values along an axis; the twin of fb_coordinate. */
typedef struct {
    char dim[FB_NAME_ROOM];
    char units[FB_NAME_ROOM];
    argument values;
} coordinate;

/* A component of a mesh; the twin of fb_mesh_component. */
typedef struct {
    char name[FB_NAME_ROOM];
    double position[FB_MAX_RANK];
    int npositions;
    argument values;
} mesh_component;

/* A record of particles, or a component of one; the twin of fb_particle_record. */
typedef struct {
    char name[FB_NAME_ROOM];
    char component[FB_NAME_ROOM];
    char units[FB_NAME_ROOM];
    char compress[FB_NAME_ROOM];
    int as_dtype; /* 0: as it is */
    argument values;
} particle_record;

/* What goes with an array of a snapshot; the twin of said_of_array. */
typedef struct {
    const char *units;
    const char *attrs;
    const char *const *dims;
    const coordinate *coords;
    const char *overlap;
    const double *spacing, *origin, *position;
    const fb_array *fill;
    const char *compress;
    const char *record, *component; /* of particles; of a mesh the component alone */
    int ndims, ncoords;
    int npoints; /* axes that spacing, origin and position have a number for; 0: they are not given */
    int kind;
    int as_dtype; /* 0: as it is */
} said_of_array;

/* What an array of a snapshot is; the values are those of forebay_shim.f90. */
enum { PLAIN = 0, OF_MESH = 1, OF_PARTICLES = 2 };

#endif
