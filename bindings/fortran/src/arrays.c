/* Arrays as Fortran has them: read from descriptors, packed where they lie apart, pointed at in place.

       descriptor -> elements -> pass_in  -> the library     (no copy but of texts and logicals)
                              <- pass_back <- pass_out <-   */

#include "arrays.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char said[512];

fb_status refuse(fb_status status, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    vsnprintf(said, sizeof said, format, words);
    va_end(words);
    return status;
}

const char *fbf_said(void)
{
    static _Thread_local char last[sizeof said];
    if (!*said)
        return fb_last_error();
    memcpy(last, said, sizeof said);
    *said = 0;
    return last;
}

/* Notes an error that a Fortran module found. */
fb_status fbf_refuse(const char *text) { return refuse(FB_BAD_ARGUMENT, "%s", text); }

int64_t elements_count(const struct elements *e)
{
    int64_t count = 1;
    for (int axis = 0; axis < e->ndim; axis++)
        count *= e->shape[axis];
    return count;
}

/* The version stands at the same place in the descriptors of all compilers; what is behind it does not. */
static fb_status of_this_compiler(const CFI_cdesc_t *array)
{
    if (array->version == CFI_VERSION)
        return FB_OK;
    return refuse(FB_VERSION_MISMATCH,
                  "an array's descriptor has version %d, and version %d is what the C sources of the module were "
                  "compiled for; compile both with compilers of one house",
                  array->version, CFI_VERSION);
}

fb_status elements_of(const CFI_cdesc_t *array, fb_dtype dtype, int truth, struct elements *e)
{
    int most = dtype == FB_STR ? FB_MAX_RANK - 1 : FB_MAX_RANK;
    fb_status status = of_this_compiler(array);
    memset(e, 0, sizeof *e);
    if (status != FB_OK)
        return status;
    if (array->rank > most)
        return refuse(FB_BAD_ARGUMENT, "the array has rank %d; %d is the highest%s", array->rank, most,
                      dtype == FB_STR ? " of texts" : "");
    if (!array->base_addr) /* its extents are not to be looked at */
        return refuse(FB_BAD_ARGUMENT, "the array is not allocated or the pointer not associated");
    e->data = array->base_addr;
    e->ndim = array->rank;
    e->size = (int64_t)array->elem_len;
    e->truth = truth;
    e->kind = dtype == FB_STR ? TEXTS : dtype == FB_BOOL && (e->size != 1 || truth != 1) ? LOGICALS : AS_THEY_ARE;
    if (e->kind == AS_THEY_ARE && e->size != fb_dtype_size(dtype))
        return refuse(FB_BAD_ARGUMENT, "elements of %lld bytes cannot be of dtype %s; leave the argument dtype away",
                      (long long)e->size, fb_dtype_name_(dtype));
    for (int axis = 0; axis < e->ndim; axis++) {
        e->shape[axis] = array->dim[axis].extent;
        e->stride[axis] = array->dim[axis].sm;
        if (e->shape[axis] < 0)
            return refuse(FB_BAD_ARGUMENT, "the array is of assumed size, so its last extent is not known; "
                                           "give a section such as a(1:n)");
    }
    return FB_OK;
}

int lies_dense(const struct elements *e)
{
    int64_t next = e->size;
    if (e->kind != AS_THEY_ARE)
        return 0;
    for (int axis = 0; axis < e->ndim; axis++) {
        if (e->shape[axis] != 1 && e->stride[axis] != next)
            return 0;
        next *= e->shape[axis];
    }
    return 1;
}

/* Bytes of an element as it is kept. */
static int64_t kept_size(const struct elements *e) { return e->kind == LOGICALS ? 1 : e->size; }

static int64_t trimmed(const char *text, int64_t length)
{
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == 0))
        length--;
    return length;
}

/* One element on its way: texts end in zeros where Fortran has blanks, a truth value has one byte. */
static void pack_one(const struct elements *e, char *to, const char *from)
{
    int64_t length;
    if (e->kind == LOGICALS) {
        char any = 0;
        for (int64_t i = 0; i < e->size; i++)
            any |= from[i];
        *to = any != 0;
        return;
    }
    memcpy(to, from, (size_t)e->size);
    if (e->kind == TEXTS) {
        length = trimmed(from, e->size);
        memset(to + length, 0, (size_t)(e->size - length));
    }
}

static void unpack_one(const struct elements *e, char *to, const char *from)
{
    if (e->kind == LOGICALS) {
        int64_t value = *from ? e->truth : 0;
        memcpy(to, &value, (size_t)e->size); /* little-endian, as all we run on */
        return;
    }
    memcpy(to, from, (size_t)e->size);
    for (int64_t i = e->size; e->kind == TEXTS && i > 0 && to[i - 1] == 0; i--)
        to[i - 1] = ' ';
}

/* A row of elements that are kept as they are: the lengths that occur, each with its own loop. */
static void copy_row(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n, int64_t size)
{
#define ROW(bytes)                            \
    for (int64_t i = 0; i < n; i++)           \
        memcpy(to + i * to_stride, from + i * from_stride, bytes)
    switch (size) {
    case 1: ROW(1); break;
    case 2: ROW(2); break;
    case 4: ROW(4); break;
    case 8: ROW(8); break;
    default: ROW(16); break;
    }
#undef ROW
}

/* Copies all elements between their places and dense memory, a row along the first axis at a time. */
static void move(const struct elements *e, fb_order order, char *dense, int back)
{
    int64_t step[FB_MAX_RANK] = {0}, at[FB_MAX_RANK] = {0}, next = kept_size(e), rows = 1;
    int64_t n = e->ndim ? e->shape[0] : 1;
    for (int i = 0; i < e->ndim; i++) {
        int axis = order == FB_COLUMN_MAJOR ? i : e->ndim - 1 - i;
        step[axis] = next;
        next *= e->shape[axis];
    }
    for (int axis = 1; axis < e->ndim; axis++)
        rows *= e->shape[axis];
    for (int64_t row = 0; row < rows; row++) {
        char *here = e->data, *there = dense;
        for (int axis = 1; axis < e->ndim; axis++) {
            here += at[axis] * e->stride[axis];
            there += at[axis] * step[axis];
        }
        if (e->kind == AS_THEY_ARE && back)
            copy_row(here, e->stride[0], there, step[0], n, e->size);
        else if (e->kind == AS_THEY_ARE)
            copy_row(there, step[0], here, e->stride[0], n, e->size);
        else
            for (int64_t i = 0; i < n; i++) {
                if (back)
                    unpack_one(e, here + i * e->stride[0], there + i * step[0]);
                else
                    pack_one(e, there + i * step[0], here + i * e->stride[0]);
            }
        for (int axis = 1; axis < e->ndim && ++at[axis] == e->shape[axis]; axis++)
            at[axis] = 0;
    }
}

void elements_pack(const struct elements *e, fb_order order, void *to) { move(e, order, to, 0); }

void elements_unpack(const struct elements *e, fb_order order, const void *from)
{
    move(e, order, (char *)(uintptr_t)from, 1);
}

void first_fastest(struct passed *p, fb_dtype dtype, int ndim, const int64_t *shape, void *data)
{
    memcpy(p->shape, shape, (size_t)ndim * sizeof *shape);
    fb_first_fastest_(dtype, ndim, shape, p->strides);
    p->array = (fb_array){.dtype = dtype, .ndim = ndim, .shape = p->shape, .strides = p->strides, .data = data};
}

static fb_status own_room(const struct elements *e, struct passed *p)
{
    int64_t bytes = elements_count(e) * kept_size(e);
    p->own = malloc((size_t)bytes + 1);
    return p->own ? FB_OK : refuse(FB_FULL, "there is no memory for a copy of %lld bytes", (long long)bytes);
}

/* Where the elements lie; room where they are kept otherwise. */
fb_status pass_out(const struct elements *e, fb_dtype dtype, struct passed *p)
{
    memset(p, 0, sizeof *p);
    /* What a compiler says of the strides of an array of at most one element tells no order. */
    if (e->kind == AS_THEY_ARE && elements_count(e) <= 1) {
        first_fastest(p, dtype, e->ndim, e->shape, e->data);
        return FB_OK;
    }
    if (e->kind == AS_THEY_ARE) {
        memcpy(p->shape, e->shape, sizeof p->shape);
        memcpy(p->strides, e->stride, sizeof p->strides);
        p->array = (fb_array){.dtype = dtype, .ndim = e->ndim, .shape = p->shape, .strides = p->strides, .data = e->data};
        return FB_OK;
    }
    fb_status status = own_room(e, p);
    if (status != FB_OK)
        return status;
    first_fastest(p, dtype, e->ndim, e->shape, p->own);
    if (e->kind == TEXTS) { /* the last extent counts bytes */
        p->shape[p->array.ndim++] = e->size;
        p->array.strides = NULL;
    }
    return FB_OK;
}

/* The order in which a copy of them is packed. */
static fb_order order_of(const struct elements *e) { return e->kind == TEXTS ? FB_ROW_MAJOR : FB_COLUMN_MAJOR; }

fb_status pass_in(const struct elements *e, fb_dtype dtype, struct passed *p)
{
    fb_status status = pass_out(e, dtype, p);
    if (status != FB_OK || !p->own)
        return status;
    elements_pack(e, order_of(e), p->own);
    if (e->kind == TEXTS && e->ndim == 0)
        p->shape[0] = trimmed(p->own, e->size);
    return FB_OK;
}

fb_status reshape(const struct elements *e, int ndim, const int64_t *shape, int in, struct passed *p)
{
    fb_dtype dtype = p->array.dtype;
    if (p->own || lies_dense(e)) {
        first_fastest(p, dtype, ndim, shape, p->array.data);
        return FB_OK;
    }
    fb_status status = own_room(e, p);
    if (status == FB_OK && in)
        elements_pack(e, FB_COLUMN_MAJOR, p->own);
    if (status == FB_OK)
        first_fastest(p, dtype, ndim, shape, p->own);
    return status;
}

void pass_back(const struct elements *e, const struct passed *p)
{
    if (p->own)
        elements_unpack(e, order_of(e), p->own);
}

void pass_free(struct passed *p)
{
    free(p->own);
    p->own = NULL;
}

void last_axis_first(struct passed *p)
{
    int last = p->array.ndim - 1;
    if (last < 1)
        return;
    int64_t extent = p->shape[last], stride = p->strides[last];
    memmove(p->shape + 1, p->shape, (size_t)last * sizeof *p->shape);
    memmove(p->strides + 1, p->strides, (size_t)last * sizeof *p->strides);
    p->shape[0] = extent;
    p->strides[0] = stride;
}

fb_status point(CFI_cdesc_t *pointer, void *data, fb_order order, const int64_t *shape)
{
    static char nothing[16]; /* what a pointer to no elements points at */
    CFI_CDESC_T(FB_MAX_RANK) room;
    CFI_cdesc_t *source = (CFI_cdesc_t *)&room;
    CFI_index_t extents[FB_MAX_RANK] = {0}, ones[FB_MAX_RANK];
    fb_status status = of_this_compiler(pointer);
    if (status != FB_OK)
        return status;
    int rank = pointer->rank;
    for (int axis = 0; axis < rank; axis++) {
        extents[axis] = (CFI_index_t)shape[axis];
        ones[axis] = 1;
    }
    int bad = CFI_establish(source, data ? data : nothing, CFI_attribute_other, pointer->type, pointer->elem_len,
                            (CFI_rank_t)rank, extents);
    if (!bad && order == FB_ROW_MAJOR) {
        CFI_index_t next = (CFI_index_t)pointer->elem_len;
        for (int axis = rank - 1; axis >= 0; axis--) {
            source->dim[axis].sm = next;
            next *= extents[axis];
        }
    }
    if (!bad)
        bad = CFI_setpointer(pointer, source, rank ? ones : NULL);
    return bad ? refuse(FB_INTERNAL, "the compiler's descriptors refuse a pointer of rank %d (error %d)", rank, bad) : FB_OK;
}
