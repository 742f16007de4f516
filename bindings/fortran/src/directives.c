/* Of directives: what an array is, whatever its kind and rank. */

#include "arrays.h"

#include <string.h>

static int dtype_of(const CFI_cdesc_t *array)
{
    const struct {
        CFI_type_t type;
        fb_dtype dtype;
    } all[] = { { CFI_type_int8_t, FB_I8 },   { CFI_type_int16_t, FB_I16 },          { CFI_type_int32_t, FB_I32 },
                { CFI_type_int64_t, FB_I64 }, { CFI_type_float, FB_F32 },            { CFI_type_double, FB_F64 },
                { CFI_type_Bool, FB_BOOL },   { CFI_type_float_Complex, FB_C64 }, { CFI_type_double_Complex, FB_C128 } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (array->type == all[i].type)
            return (int)all[i].dtype;
    return 0;
}

/* The dtype and extents of an array; FB_BAD_ARGUMENT: its elements have none, or its size is not known. */
fb_status fbf_room(const CFI_cdesc_t *array, int *dtype, int *ndim, int64_t *shape)
{
    struct elements e;
    const int found = dtype_of(array);
    if (found == 0)
        return refuse(FB_BAD_ARGUMENT, "its elements cannot travel: take integers, real, complex or logical(c_bool)");
    const fb_status status = elements_of(array, (fb_dtype)found, 1, &e);
    if (status != FB_OK)
        return status;
    *dtype = found;
    *ndim = e.ndim;
    memcpy(shape, e.shape, sizeof e.shape);
    return FB_OK;
}
