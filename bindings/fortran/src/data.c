/* Arrays of data sets, snapshots, references and requests, on their way between Fortran and the library.

   The names fbf_... are called by the Fortran modules, whose interfaces stand in forebay_shim.f90. */

#include "arrays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where an array of a snapshot belongs: the values are those of forebay_shim.f90. */
enum { WHOLE = 0, BLOCK = 1, BEHIND = 2 };

fb_status fbf_put(fb_run *run, const char *name, int64_t set, fb_dtype dtype, int truth, const CFI_cdesc_t *array,
                  const char *units, const char *attrs, const int64_t *version, uint64_t *new_version)
{
    const fb_put_opts opts = {.size = sizeof opts, .units = units, .attrs = attrs};
    struct elements e;
    struct passed p = {0};
    fb_status status = elements_of(array, dtype, truth, &e);
    if (status == FB_OK && version && *version < 0)
        status = refuse(FB_BAD_ARGUMENT, "the version %lld is below 0", (long long)*version);
    if (status == FB_OK)
        status = pass_in(&e, dtype, &p);
    if (status == FB_OK && version)
        status = fb_put_if_version(run, name, set, &p.array, (uint64_t)*version, &opts, new_version);
    else if (status == FB_OK)
        status = fb_put_with(run, name, set, &p.array, &opts);
    pass_free(&p);
    return status;
}

/* One data set of a run, or one array of a snapshot. */
struct source {
    fb_run *run;
    fb_snapshot *snapshot;
    const char *name;
    int64_t set;
};

static fb_status describe(const struct source *from, fb_info *info)
{
    return from->run ? fb_dataset_info(from->run, from->name, from->set, info)
                     : fb_snapshot_info(from->snapshot, from->name, info);
}

static fb_status read_part(const struct source *from, const int64_t *offset, const int64_t *step, const fb_array *to)
{
    if (from->run)
        return fb_get_part(from->run, from->name, from->set, offset, step, to);
    return fb_snapshot_get_part(from->snapshot, from->name, offset, step, to);
}

/* Extents as text, such as (64, 128). */
static const char *extents(int ndim, const int64_t *shape, char *text, size_t room)
{
    size_t at = (size_t)snprintf(text, room, "(");
    for (int axis = 0; axis < ndim && at < room; axis++)
        at += (size_t)snprintf(text + at, room - at, "%s%lld", axis ? ", " : "", (long long)shape[axis]);
    if (at < room)
        snprintf(text + at, room - at, ")");
    return text;
}

/* Whether an array of that dtype and shape is what is stored. */
static fb_status same_as_stored(const char *name, const fb_info *info, fb_dtype dtype, int ndim, const int64_t *shape)
{
    char stored[128], given[128];
    int same = info->ndim == ndim && info->dtype == dtype;
    for (int axis = 0; same && axis < ndim; axis++)
        same = info->shape[axis] == shape[axis];
    if (same)
        return FB_OK;
    return refuse(FB_BAD_ARGUMENT, "%s is %s %s, not %s %s; give an array of that kind and shape", name,
                  fb_dtype_name_(info->dtype), extents(info->ndim, info->shape, stored, sizeof stored), fb_dtype_name_(dtype),
                  extents(ndim, shape, given, sizeof given));
}

/* Reads a text, shorter than the variable or as long, or texts of a shorter length. */
static fb_status read_texts(const struct source *from, const fb_info *info, const struct elements *e)
{
    static const int64_t zeros[FB_MAX_RANK];
    int64_t shape[FB_MAX_RANK], length = info->ndim ? info->shape[info->ndim - 1] : 0, n = elements_count(e);
    memcpy(shape, e->shape, sizeof shape);
    if (e->ndim < FB_MAX_RANK)
        shape[e->ndim] = length;
    if (info->dtype == FB_STR && info->ndim == e->ndim + 1 && length > e->size)
        return refuse(FB_BAD_ARGUMENT, "%s has %lld bytes, more than the variable's %lld; give a longer one, or fb_get_alloc",
                      from->name, (long long)length, (long long)e->size);
    fb_status status = same_as_stored(from->name, info, FB_STR, e->ndim + 1, shape);
    char *raw = status == FB_OK ? malloc((size_t)(n * length) + 1) : NULL;
    char *wide = status == FB_OK ? calloc((size_t)(n * e->size) + 1, 1) : NULL;
    if (status == FB_OK && (!raw || !wide))
        status = refuse(FB_FULL, "there is no memory for %lld texts", (long long)n);
    const fb_array stored = {.dtype = FB_STR, .ndim = info->ndim, .shape = info->shape, .data = raw};
    if (status == FB_OK)
        status = read_part(from, zeros, NULL, &stored);
    if (status == FB_OK) {
        for (int64_t i = 0; i < n; i++)
            memcpy(wide + i * e->size, raw + i * length, (size_t)length);
        elements_unpack(e, FB_ROW_MAJOR, wide);
    }
    free(raw);
    free(wide);
    return status;
}

static fb_status read_whole(const struct source *from, fb_dtype dtype, const struct elements *e)
{
    static const int64_t zeros[FB_MAX_RANK];
    fb_info info;
    struct passed p = {0};
    fb_status status = describe(from, &info);
    if (status == FB_OK && e->kind == TEXTS)
        return read_texts(from, &info, e);
    if (status == FB_OK)
        status = same_as_stored(from->name, &info, dtype, e->ndim, e->shape);
    if (status == FB_OK)
        status = pass_out(e, dtype, &p);
    if (status == FB_OK)
        status = read_part(from, zeros, NULL, &p.array);
    if (status == FB_OK)
        pass_back(e, &p);
    pass_free(&p);
    return status;
}

/* The extents of a part, which are those of the array unless `count` gives others, and its number of elements. */
static fb_status part_size(const struct elements *e, int ndim, const int64_t **count, int64_t *all)
{
    if (!*count && ndim != e->ndim)
        return refuse(FB_BAD_ARGUMENT, "offset has %d elements, the array rank %d; give count, too", ndim, e->ndim);
    *count = *count ? *count : e->shape;
    *all = 1;
    for (int axis = 0; axis < ndim; axis++)
        *all *= (*count)[axis] < 0 ? 0 : (*count)[axis];
    return FB_OK;
}

/* Reads a part: `count` elements of each of the `ndim` axes (NULL: those of the array). */
static fb_status read_some(const struct source *from, fb_dtype dtype, const struct elements *e, int ndim,
                           const int64_t *offset, const int64_t *count, const int64_t *step)
{
    struct passed p = {0};
    char text[128];
    int64_t all = 0;
    fb_status status = part_size(e, ndim, &count, &all);
    if (status != FB_OK)
        return status;
    if (all != elements_count(e))
        return refuse(FB_BAD_ARGUMENT, "a part of %s elements does not fit into an array of %lld",
                      extents(ndim, count, text, sizeof text), (long long)elements_count(e));
    status = pass_out(e, dtype, &p);
    if (status == FB_OK && ndim != e->ndim)
        status = reshape(e, ndim, count, 0, &p);
    if (status == FB_OK)
        status = read_part(from, offset, step, &p.array);
    if (status == FB_OK)
        pass_back(e, &p);
    pass_free(&p);
    return status;
}

fb_status fbf_get(fb_run *run, fb_snapshot *snapshot, const char *name, int64_t set, fb_dtype dtype, int truth,
                  const CFI_cdesc_t *array, int ndim, const int64_t *offset, const int64_t *count, const int64_t *step)
{
    const struct source from = {run, snapshot, name, set};
    struct elements e;
    fb_status status = elements_of(array, dtype, truth, &e);
    if (status != FB_OK)
        return status;
    if (!offset)
        return read_whole(&from, dtype, &e);
    return read_some(&from, dtype, &e, ndim, offset, count, step);
}

/* The library has the steps along the first axis, Fortran along the last one. */
fb_status fbf_series(fb_run *run, const char *name, fb_dtype dtype, int truth, const CFI_cdesc_t *array,
                     const int64_t *steps, int64_t count, int ndim, const int64_t *offset, const int64_t *step,
                     int missing_nan)
{
    const fb_series_opts opts = {.size = sizeof opts, .offset = offset, .step = step, .missing_nan = missing_nan};
    int64_t shape[FB_MAX_RANK + 1] = {0}, strides[FB_MAX_RANK + 1] = {0};
    struct elements e;
    struct passed p = {0};
    fb_status status = elements_of(array, dtype, truth, &e);
    if (status == FB_OK && e.ndim == 0)
        return refuse(FB_BAD_ARGUMENT, "the array of a series has no axis; its last one is that of the steps");
    if (status == FB_OK)
        status = pass_out(&e, dtype, &p);
    if (status != FB_OK)
        return status;
    int last = p.array.ndim - 1, axes = last;
    for (int axis = 0; axis < last; axis++) {
        shape[axis + 1] = p.array.shape[axis];
        strides[axis + 1] = p.array.strides[axis];
    }
    /* One element of each array. */
    for (; offset && last == 0 && axes < ndim; axes++) {
        shape[axes + 1] = 1;
        strides[axes + 1] = p.array.strides[0];
    }
    if (offset && axes != ndim) {
        pass_free(&p);
        return refuse(FB_BAD_ARGUMENT, "offset has %d elements, and the array %d axes before that of the steps", ndim, last);
    }
    shape[0] = p.array.shape[last];
    strides[0] = p.array.strides[last];
    const fb_array turned = {.dtype = dtype, .ndim = axes + 1, .shape = shape, .strides = strides, .data = p.array.data};
    status = fb_series(run, name, steps, count, &turned, &opts);
    if (status == FB_OK)
        pass_back(&e, &p);
    pass_free(&p);
    return status;
}

/* What stands behind `where` in the calls of a snapshot. */
static const int64_t *offset_of(int where, const int64_t *offset)
{
    return where == WHOLE ? NULL : where == BEHIND ? FB_APPEND : offset;
}

/* The coordinates as the library takes them, and memory for those that it keeps otherwise. */
struct coordinates {
    fb_coord made[FB_MAX_RANK];
    struct passed passed[FB_MAX_RANK];
};

static fb_status coordinates_of(const said_of_array *said, struct coordinates *c)
{
    memset(c, 0, sizeof *c);
    if (said->ncoords > FB_MAX_RANK)
        return refuse(FB_BAD_ARGUMENT, "%d coordinates were given; there is at most one for each axis", said->ncoords);
    for (int i = 0; i < said->ncoords; i++) {
        const coordinate *from = &said->coords[i];
        if (from->values.given == UNFIT)
            return refuse(FB_BAD_ARGUMENT, "the array of the coordinate %s is not allocated", from->dim);
        fb_status status = pass_in(&from->values.elements, from->values.dtype, &c->passed[i]);
        if (status != FB_OK)
            return status;
        c->made[i] = (fb_coord){.dim = from->dim, .values = &c->passed[i].array, .units = *from->units ? from->units : NULL};
    }
    return FB_OK;
}

static void coordinates_free(struct coordinates *c)
{
    for (int i = 0; i < FB_MAX_RANK; i++)
        pass_free(&c->passed[i]);
}

static fb_piece_opts options_of(const said_of_array *said, const struct coordinates *c)
{
    return (fb_piece_opts){.size = sizeof(fb_piece_opts),
                           .units = said->units,
                           .dims = said->ndims ? said->dims : NULL,
                           .ndims = said->ndims,
                           .coords = said->ncoords ? c->made : NULL,
                           .ncoords = said->ncoords,
                           .attrs = said->attrs,
                           .overlap = said->overlap,
                           .spacing = said->spacing,
                           .origin = said->origin,
                           .position = said->position,
                           .fill = said->fill,
                           .compress = said->compress,
                           .as_dtype = (fb_dtype)said->as_dtype};
}

/* Whether spacing, origin and position have a number for each axis. */
static fb_status fit_axes(int given, int ndim)
{
    if (given == 0 || given == ndim)
        return FB_OK;
    return refuse(FB_BAD_ARGUMENT, "spacing, origin or position has %d numbers, and the mesh has %d axes; give one for each",
                  given, ndim);
}

/* An array and all that goes with it, as the library takes them. */
struct described {
    struct coordinates c;
    struct passed p;
    fb_piece_opts opts;
};

static fb_status describe_array(const CFI_cdesc_t *array, fb_dtype dtype, int truth, const said_of_array *said,
                                struct described *d)
{
    struct elements e;
    fb_status status = coordinates_of(said, &d->c);
    memset(&d->p, 0, sizeof d->p);
    d->opts = options_of(said, &d->c);
    if (status == FB_OK)
        status = elements_of(array, dtype, truth, &e);
    if (status == FB_OK)
        status = pass_in(&e, dtype, &d->p);
    return status;
}

static fb_status described_free(struct described *d, fb_status status)
{
    pass_free(&d->p);
    coordinates_free(&d->c);
    return status;
}

fb_status fbf_constant(fb_run *run, const char *name, fb_dtype dtype, int truth, const CFI_cdesc_t *array, int64_t step,
                       const said_of_array *said)
{
    struct described d;
    fb_status status = describe_array(array, dtype, truth, said, &d);
    if (status == FB_OK)
        status = fb_constant(run, name, &d.p.array, step, &d.opts);
    return described_free(&d, status);
}

fb_status fbf_snapshot_put(fb_snapshot *snapshot, const char *name, fb_dtype dtype, int truth, const CFI_cdesc_t *array,
                           int where, const int64_t *offset, const int64_t *global, const said_of_array *said)
{
    struct described d;
    fb_status status = describe_array(array, dtype, truth, said, &d);
    if (status == FB_OK)
        status = fb_snapshot_put_with(snapshot, name, &d.p.array, offset_of(where, offset), where == BLOCK ? global : NULL,
                                      &d.opts);
    return described_free(&d, status);
}

fb_status fbf_snapshot_allocate(fb_snapshot *snapshot, const char *name, fb_dtype dtype, CFI_cdesc_t *pointer, int ndim,
                                const int64_t *local, int where, const int64_t *offset, const int64_t *global,
                                const said_of_array *said)
{
    struct coordinates c;
    struct passed p = {0};
    if (ndim != pointer->rank)
        return refuse(FB_BAD_ARGUMENT, "shape has %d extents, the pointer rank %d", ndim, pointer->rank);
    fb_status status = coordinates_of(said, &c);
    const fb_piece_opts opts = options_of(said, &c);
    first_fastest(&p, dtype, ndim, local, NULL);
    const int64_t *at = offset_of(where, offset), *of = where == BLOCK ? global : NULL;
    if (status == FB_OK)
        status = fit_axes(said->npoints, ndim);
    if (status == FB_OK && said->kind == OF_MESH)
        status = fb_snapshot_allocate_mesh(snapshot, name, said->component, &p.array, at, of, &opts);
    else if (status == FB_OK && said->kind == OF_PARTICLES)
        status = fb_snapshot_allocate_particles(snapshot, name, said->record, said->component, &p.array, at, of, &opts);
    else if (status == FB_OK)
        status = fb_snapshot_allocate(snapshot, name, &p.array, at, of, &opts);
    coordinates_free(&c);
    return status == FB_OK ? point(pointer, p.array.data, FB_COLUMN_MAJOR, local) : status;
}

/* An array of a run, or else of a snapshot. */
fb_status fbf_map(fb_run *run, fb_snapshot *snapshot, const char *name, int64_t set, fb_dtype dtype, CFI_cdesc_t *pointer)
{
    fb_array found;
    fb_status status = snapshot ? fb_snapshot_map(snapshot, name, dtype, &found) : fb_map(run, name, set, dtype, &found);
    if (status != FB_OK)
        return status;
    if (found.ndim != pointer->rank)
        status = refuse(FB_BAD_ARGUMENT, "%s has rank %d, the pointer rank %d", name, found.ndim, pointer->rank);
    else
        status = point(pointer, found.data, found.strides ? FB_COLUMN_MAJOR : FB_ROW_MAJOR, found.shape);
    if (status != FB_OK)
        fb_free(found.data);
    return status;
}

fb_status fbf_unmap(CFI_cdesc_t *pointer)
{
    fb_status status = fb_free(pointer->base_addr);
    if (status == FB_OK && CFI_setpointer(pointer, NULL, NULL))
        return refuse(FB_INTERNAL, "the compiler's descriptors refuse a pointer to nothing");
    return status;
}

/* One of several arrays as the library takes it; a number for all particles has no axes. */
static fb_status one_of_several(const char *what, const argument *from, struct passed *passed)
{
    if (from->given == UNFIT)
        return refuse(FB_BAD_ARGUMENT, "the array of %s is not allocated", what);
    if (from->dtype == FB_STR)
        return refuse(FB_BAD_ARGUMENT, "%s is text; give numbers", what);
    if (from->kind != FB_SCALAR)
        return pass_in(&from->elements, from->dtype, passed);
    passed->array = (fb_array){.dtype = from->dtype, .data = (void *)(uintptr_t)&from->value};
    return FB_OK;
}

fb_status fbf_snapshot_mesh(fb_snapshot *snapshot, const char *name, const mesh_component *components, int count, int where,
                            const int64_t *offset, const int64_t *global, const said_of_array *said)
{
    struct coordinates c;
    fb_component *made = calloc((size_t)count + 1, sizeof *made);
    struct passed *passed = calloc((size_t)count + 1, sizeof *passed);
    fb_status status = coordinates_of(said, &c);
    const fb_piece_opts opts = options_of(said, &c);
    if (!made || !passed)
        status = refuse(FB_FULL, "there is no memory for %d components", count);
    for (int i = 0; i < count && status == FB_OK; i++) {
        const mesh_component *one = &components[i];
        status = one_of_several(*one->name ? one->name : name, &one->values, &passed[i]);
        if (status == FB_OK)
            status = fit_axes(one->npositions, passed[i].array.ndim);
        if (status == FB_OK)
            status = fit_axes(said->npoints, passed[i].array.ndim);
        made[i] = (fb_component){.name = one->name, .values = &passed[i].array, .position = one->npositions ? one->position : NULL};
    }
    if (status == FB_OK)
        status = fb_snapshot_mesh(snapshot, name, made, count, offset_of(where, offset), where == BLOCK ? global : NULL, &opts);
    for (int i = 0; i < count && passed; i++)
        pass_free(&passed[i]);
    free(passed);
    free(made);
    coordinates_free(&c);
    return status;
}

fb_status fbf_snapshot_particles(fb_snapshot *snapshot, const char *name, const particle_record *records, int count, int where,
                                 const int64_t *offset, const int64_t *global, const char *sort_by)
{
    const fb_particles_opts opts = {.size = sizeof opts, .sort_by = sort_by};
    fb_record *made = calloc((size_t)count + 1, sizeof *made);
    struct passed *passed = calloc((size_t)count + 1, sizeof *passed);
    fb_status status = made && passed ? FB_OK : refuse(FB_FULL, "there is no memory for %d records", count);
    for (int i = 0; i < count && status == FB_OK; i++) {
        const particle_record *one = &records[i];
        status = one_of_several(one->name, &one->values, &passed[i]);
        made[i] = (fb_record){.name = one->name, .component = one->component, .values = &passed[i].array, .units = one->units,
                              .as_dtype = (fb_dtype)one->as_dtype, .compress = *one->compress ? one->compress : NULL};
    }
    if (status == FB_OK)
        status = fb_snapshot_particles_with(snapshot, name, made, count, offset_of(where, offset),
                                            where == BLOCK ? global : NULL, &opts);
    for (int i = 0; i < count && passed; i++)
        pass_free(&passed[i]);
    free(passed);
    free(made);
    return status;
}

/* --- attributes ------------------------------------------------------------------------------------- */

/* Structures go by their address: not every compiler hands one over by value. */

fb_status fbf_attr_put(const fb_object *of, const char *key, fb_dtype dtype, int truth, const CFI_cdesc_t *value)
{
    struct elements e;
    struct passed p = {0};
    fb_status status = elements_of(value, dtype, truth, &e);
    if (status == FB_OK)
        status = pass_in(&e, dtype, &p);
    if (status == FB_OK)
        status = fb_attr_put(*of, key, &p.array);
    pass_free(&p);
    return status;
}

fb_status fbf_attr_get(const fb_object *of, const char *key, fb_dtype dtype, int truth, const CFI_cdesc_t *value)
{
    struct elements e;
    struct passed p = {0};
    fb_status status = elements_of(value, dtype, truth, &e);
    if (status == FB_OK)
        status = pass_out(&e, dtype, &p);
    if (status == FB_OK)
        status = fb_attr_get(*of, key, &p.array);
    if (status == FB_OK)
        pass_back(&e, &p);
    pass_free(&p);
    return status;
}

fb_status fbf_attr_info(const fb_object *of, const char *key, fb_info *info) { return fb_attr_info(*of, key, info); }

fb_status fbf_attr_get_str(const fb_object *of, const char *key, char **text) { return fb_attr_get_str(*of, key, text); }

fb_status fbf_attr_set_json(const fb_object *of, const char *json) { return fb_attr_set_json(*of, json); }

fb_status fbf_attr_get_json(const fb_object *of, char **json) { return fb_attr_get_json(*of, json); }

fb_status fbf_attr_delete(const fb_object *of, const char *key) { return fb_attr_delete(*of, key); }

fb_status fbf_attr_has(const fb_object *of, const char *key, int *has) { return fb_attr_has(*of, key, has); }

/* --- references ------------------------------------------------------------------------------------- */

fb_status fbf_ref_create(fb_client *client, fb_dtype dtype, int truth, const CFI_cdesc_t *array, const char *server,
                         fb_ref *with, const char *services, fb_ref **reference)
{
    const fb_ref_opts opts = {.size = sizeof opts, .server = server, .with = with, .services = services};
    struct elements e;
    struct passed p = {0};
    fb_status status = elements_of(array, dtype, truth, &e);
    if (status == FB_OK)
        status = pass_in(&e, dtype, &p);
    if (status == FB_OK)
        status = fb_ref_create(client, &p.array, &opts, reference);
    pass_free(&p);
    return status;
}

/* An array of zeros. */
fb_status fbf_ref_zeros(fb_client *client, fb_dtype dtype, int ndim, const int64_t *shape, const char *server, fb_ref *with,
                        const char *services, fb_ref **reference)
{
    const fb_ref_opts opts = {.size = sizeof opts, .server = server, .with = with, .services = services};
    struct passed p = {0};
    first_fastest(&p, dtype, ndim, shape, NULL);
    return fb_ref_create(client, &p.array, &opts, reference);
}

/* The part of a reference that the elements are for; writes (put) or reads it. With a count of its own the array is
   of another rank: its elements in their order are those of the part in Fortran's order. */
static fb_status ref_part(fb_ref *reference, fb_dtype dtype, const struct elements *e, int ndim, const int64_t *offset,
                          const int64_t *count, const int64_t *step, int put)
{
    struct passed p = {0};
    int64_t all = 0;
    fb_status status = part_size(e, ndim, &count, &all);
    if (status != FB_OK)
        return status;
    if (all != elements_count(e))
        return refuse(FB_BAD_ARGUMENT, "a part of %lld elements and an array of %lld do not fit", (long long)all,
                      (long long)elements_count(e));
    status = put ? pass_in(e, dtype, &p) : pass_out(e, dtype, &p);
    if (status == FB_OK && ndim != e->ndim)
        status = reshape(e, ndim, count, put, &p);
    if (status == FB_OK)
        status = put ? fb_ref_put_part(reference, offset, step, &p.array) : fb_ref_get_part(reference, offset, step, &p.array);
    if (status == FB_OK && !put)
        pass_back(e, &p);
    pass_free(&p);
    return status;
}

fb_status fbf_ref_move(fb_ref *reference, fb_dtype dtype, int truth, const CFI_cdesc_t *array, int ndim,
                       const int64_t *offset, const int64_t *count, const int64_t *step, int put)
{
    static const int64_t zeros[FB_MAX_RANK];
    struct elements e;
    fb_info info;
    fb_status status = elements_of(array, dtype, truth, &e);
    if (status == FB_OK)
        status = fb_ref_info(reference, &info);
    if (status == FB_OK && offset && info.dtype != dtype)
        status = refuse(FB_BAD_ARGUMENT, "the array on the server is of dtype %s, not %s", fb_dtype_name_(info.dtype), fb_dtype_name_(dtype));
    if (status == FB_OK && !offset)
        status = same_as_stored("the array on the server", &info, dtype, e.ndim, e.shape);
    if (status != FB_OK)
        return status;
    if (offset)
        return ref_part(reference, dtype, &e, ndim, offset, count, step, put);
    return ref_part(reference, dtype, &e, e.ndim, zeros, NULL, NULL, put);
}

/* --- requests --------------------------------------------------------------------------------------- */

fb_status fbf_request_array(fb_request *request, int index, fb_dtype dtype, CFI_cdesc_t *pointer)
{
    fb_array found;
    fb_status status = fb_request_array(request, index, dtype, &found);
    if (status == FB_OK && found.ndim != pointer->rank)
        return refuse(FB_BAD_ARGUMENT, "parameter %d has rank %d, the pointer rank %d", index + 1, found.ndim, pointer->rank);
    fb_order order = status == FB_OK && found.strides ? FB_COLUMN_MAJOR : FB_ROW_MAJOR;
    return status == FB_OK ? point(pointer, found.data, order, found.shape) : status;
}
