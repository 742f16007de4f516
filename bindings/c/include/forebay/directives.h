/* What programs call that `forebay cc` made of directives, in C and in C++. Nobody writes these calls by hand.

   Arrays at servers and calls under way have names, which are those of the whole program: whichever file creates an
   array, all that are linked together know it, and all share one connection. */

#ifndef FOREBAY_DIRECTIVES_H
#define FOREBAY_DIRECTIVES_H

#if defined(__GNUC__)
/* Whatever the program is compiled with, it is not told of what stands here. */
#pragma GCC system_header
#endif

#if defined(data) || defined(dtype) || defined(name) || defined(ndim) || defined(order) || defined(room) || defined(shape) \
    || defined(size) || defined(status) || defined(strides) || defined(value)
#error "a header of the program has a macro whose name is used here: data, dtype, name, ndim, order, room, shape, size, status, strides or value; before that header write #ifdef FOREBAY_CC, #include <forebay/directives.h>, #endif"
#endif

#include <forebay.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An array of the program, as a directive names it. What stands in the program in the end has names that no macro of the
   program has. */
typedef struct {
    fb_dtype fbd_dtype;
    fb_order fbd_order;
    int fbd_ndim;
    /* Its elements are const: nothing may be written there. */
    int fbd_is_const;
    /* Bytes that are there, SIZE_MAX where that is not known. */
    size_t fbd_room;
    void *fbd_data;
    int64_t fbd_shape[FB_MAX_RANK];
} fbd_local;

/* What the compiler says of a directive that it does not take, at the directive's line. */
#define FBD_NO_EXTENTS_(a) a " is a pointer, which does not say how much it points to; write the extents behind it: " a ", N"
#define FBD_NO_VALUE_(x) \
    x " is a pointer, which does not say how much it points to; write array(" x ", N), or &VARIABLE for a number that comes back"
#define FBD_NO_ELEMENTS_(a) a " has no elements that can travel: numbers, complex numbers or bool, in up to four dimensions"
#define FBD_NO_ROWS_(a) \
    a " points to rows and not to elements; if the rows lie one behind the other, write &" a "[0][0] and all extents, else pass each row"
#define FBD_NO_PLACE_(p) p " is not the place of a number, complex number or bool"

#ifdef __cplusplus
#include <forebay/directives_cxx.h>
extern "C" {
#else
#include <forebay/directives_c.h>
#endif

/* The same, as an array at a server is to have it. */
static inline fbd_local fbd_in_order(fbd_local local, fb_order order)
{
    local.fbd_order = order;
    return local;
}

/* An array at a server, or a call under way. */
typedef struct fbd_named {
    char *name;
    fb_ref *array;
    fb_future *call;
    /* Of a call: what it was given. */
    fb_arg *args;
    /* Where it was made. */
    const char *file;
    int line;
    struct fbd_named *next;
} fbd_named;

/* What all files of a program share: each brings it along, and the linker takes one. */
typedef struct {
    pthread_mutex_t lock;
    fb_client *client;
    fbd_named *arrays;
    fbd_named *calls;
} fbd_shared;
extern fbd_shared fbd_all;
__attribute__((weak, visibility("default"))) fbd_shared fbd_all = { PTHREAD_MUTEX_INITIALIZER, 0, 0, 0 };

#ifdef __cplusplus
}
#endif

/* Ends a directive that has no `status`: one that has failed ends the program. */
static inline void fbd_end(fb_status status, const char *file, int line, const char *directive)
{
    if (status == FB_OK) return;
    fflush(stdout);
    fprintf(stderr, "%s:%d: fb %s: %s\n", file, line, directive, fb_last_error());
    exit(1);
}

/* A directive without `status`. */
#define FBD_DO(directive, call) fbd_end(call, __FILE__, __LINE__, directive)

static inline fb_status fbd_refuse(fb_status status, const char *what, const char *name, const char *rest)
{
    char words[FB_TEXT_ROOM];
    snprintf(words, sizeof words, what, name, rest);
    return fb_fail(status, words);
}

/* The connection, which the first who needs it makes. */
static inline fb_status fbd_client(fb_client **client)
{
    fb_status status = FB_OK;
    pthread_mutex_lock(&fbd_all.lock);
    if (!fbd_all.client) status = fb_connect(0, &fbd_all.client);
    *client = fbd_all.client;
    pthread_mutex_unlock(&fbd_all.lock);
    return status;
}

static inline fb_status fbd_connect(const char *broker)
{
    fb_status status = FB_CONFLICT;
    pthread_mutex_lock(&fbd_all.lock);
    const int first = !fbd_all.client;
    if (first) status = fb_connect(broker, &fbd_all.client);
    pthread_mutex_unlock(&fbd_all.lock);
    if (first) return status;
    return fb_fail(FB_CONFLICT, "the program is connected already; connect once, before all other directives");
}

/* Finds a name in a list; called under the lock. */
static inline fbd_named **fbd_at(fbd_named **list, const char *name)
{
    while (*list && strcmp((*list)->name, name) != 0) list = &(*list)->next;
    return list;
}

/* What stands under a name, as it is now: another thread may take it out at any time. */
static inline int fbd_find(fbd_named **list, const char *name, fbd_named *found)
{
    pthread_mutex_lock(&fbd_all.lock);
    const fbd_named *one = *fbd_at(list, name);
    if (one) *found = *one;
    pthread_mutex_unlock(&fbd_all.lock);
    return one != 0;
}

/* Takes a name out of a list. */
static inline fbd_named *fbd_take(fbd_named **list, const char *name)
{
    pthread_mutex_lock(&fbd_all.lock);
    fbd_named **at = fbd_at(list, name), *one = *at;
    if (one) *at = one->next;
    pthread_mutex_unlock(&fbd_all.lock);
    return one;
}

/* Puts a name into a list, unless another thread was faster with the same one, which is found. */
static inline int fbd_add(fbd_named **list, fbd_named *one, fbd_named *found)
{
    pthread_mutex_lock(&fbd_all.lock);
    fbd_named **at = fbd_at(list, one->name);
    const int is_free = *at == 0;
    if (is_free) *at = one;
    else *found = **at;
    pthread_mutex_unlock(&fbd_all.lock);
    return is_free;
}

static inline fbd_named *fbd_new(const char *name, const char *file, int line)
{
    const size_t room = strlen(name) + 1;
    fbd_named *made = FB_AS_(fbd_named *, calloc(1, sizeof *made));
    char *own = FB_AS_(char *, malloc(room));
    if (made && own) {
        memcpy(own, name, room);
        made->name = own;
        made->file = file;
        made->line = line;
        return made;
    }
    free(made);
    free(own);
    return 0;
}

static inline void fbd_free(fbd_named *one)
{
    if (!one) return;
    free(one->args);
    free(one->name);
    free(one);
}

/* That a name is taken, and since where. */
static inline fb_status fbd_taken(const char *name, const fbd_named *by)
{
    char where[FB_NAME_ROOM];
    snprintf(where, sizeof where, "%s:%d", by->file, by->line);
    return fbd_refuse(FB_CONFLICT,
                      by->call ? "%s is under way already, since %s; wait for it first, or take another name"
                               : "%s is at a server already, since %s; kill it first, or take another name",
                      name, where);
}

/* An array of the program as the library takes it. */
static inline fb_status fbd_described(const fbd_local *local, fb_array *array, int64_t *strides)
{
    uint64_t bytes = FB_AS_(uint64_t, fb_dtype_size(local->fbd_dtype));
    for (int axis = 0; axis < local->fbd_ndim; ++axis) {
        const int64_t extent = local->fbd_shape[axis];
        if (extent < 0 || (extent > 0 && bytes > UINT64_MAX / FB_AS_(uint64_t, extent))) {
            char words[FB_NAME_ROOM];
            snprintf(words, sizeof words, "its extent %d is %lld; give one from 0 on", axis + 1, FB_AS_(long long, extent));
            return fb_fail(FB_BAD_ARGUMENT, words);
        }
        bytes *= FB_AS_(uint64_t, extent);
    }
    if (bytes > local->fbd_room) {
        char words[FB_NAME_ROOM];
        snprintf(words, sizeof words, "the array has %llu bytes, and its extents want %llu; give smaller extents",
                 FB_AS_(unsigned long long, local->fbd_room), FB_AS_(unsigned long long, bytes));
        return fb_fail(FB_BAD_ARGUMENT, words);
    }
    memset(array, 0, sizeof *array);
    array->dtype = local->fbd_dtype;
    array->ndim = local->fbd_ndim;
    array->shape = local->fbd_shape;
    array->data = local->fbd_data;
    if (local->fbd_order == FB_COLUMN_MAJOR) {
        fb_first_fastest_(local->fbd_dtype, local->fbd_ndim, local->fbd_shape, strides);
        array->strides = strides;
    }
    return FB_OK;
}

/* Room at a server, of zeros: at the one of that name, or at one that offers what calls of the file give the array to. */
static inline fb_status fbd_create(const char *name, fbd_local local, const char *server, const char *services,
                                   const char *file, int line)
{
    fb_client *client = 0;
    fb_array array;
    int64_t strides[FB_MAX_RANK];
    fb_ref_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.size = sizeof opts;
    opts.server = server;
    opts.services = services;
    fbd_named other;
    if (fbd_find(&fbd_all.arrays, name, &other)) return fbd_taken(name, &other);
    fb_status status = fbd_described(&local, &array, strides);
    if (status == FB_OK) status = fbd_client(&client);
    if (status != FB_OK) return status;
    fbd_named *made = fbd_new(name, file, line);
    if (!made) return fb_fail(FB_FULL, "there is no memory for one more name");
    array.data = 0;
    status = fb_ref_create(client, &array, &opts, &made->array);
    if (status == FB_OK && fbd_add(&fbd_all.arrays, made, &other)) return FB_OK;
    fb_ref_kill(made->array);
    fbd_free(made);
    return status == FB_OK ? fbd_taken(name, &other) : status;
}

static inline fb_status fbd_no_array(const char *name)
{
    return fbd_refuse(FB_NOT_FOUND, "there is no %s at a server%s; create it first", name, "");
}

/* The array of that name, and an array of the program as one of its type and extents: as many elements, in the order in
   which they lie. */
static inline fb_status fbd_pair(const char *name, const fbd_local *local, fb_ref **far, fb_array *array, fb_info *info,
                                 int64_t *strides)
{
    fbd_named named;
    if (!fbd_find(&fbd_all.arrays, name, &named)) return fbd_no_array(name);
    *far = named.array;
    fb_status status = fbd_described(local, array, strides);
    if (status == FB_OK) status = fb_ref_info(*far, info);
    if (status != FB_OK) return status;
    uint64_t here = 1, there = 1;
    for (int axis = 0; axis < local->fbd_ndim; ++axis) here *= FB_AS_(uint64_t, local->fbd_shape[axis]);
    for (int axis = 0; axis < info->ndim; ++axis) there *= FB_AS_(uint64_t, info->shape[axis]);
    if (here != there || local->fbd_dtype != info->dtype) {
        char words[FB_TEXT_ROOM];
        snprintf(words, sizeof words, "%s has %llu elements of type %s, and what is here %llu of type %s; both must agree", name,
                 FB_AS_(unsigned long long, there), fb_dtype_name_(info->dtype), FB_AS_(unsigned long long, here),
                 fb_dtype_name_(local->fbd_dtype));
        return fb_fail(FB_BAD_ARGUMENT, words);
    }
    array->ndim = info->ndim;
    array->shape = info->shape;
    array->strides = 0;
    if (info->order == FB_COLUMN_MAJOR) {
        fb_first_fastest_(info->dtype, info->ndim, info->shape, strides);
        array->strides = strides;
    }
    return FB_OK;
}

static inline fb_status fbd_put(const char *name, fbd_local local)
{
    fb_ref *far = 0;
    fb_array array;
    fb_info info;
    int64_t strides[FB_MAX_RANK];
    const fb_status status = fbd_pair(name, &local, &far, &array, &info, strides);
    return status == FB_OK ? fb_ref_put(far, &array) : status;
}

static inline fb_status fbd_get(const char *name, fbd_local local)
{
    if (local.fbd_is_const) return fb_fail(FB_BAD_ARGUMENT, "the array here is const, and would be written; take another one");
    fb_ref *far = 0;
    fb_array array;
    fb_info info;
    int64_t strides[FB_MAX_RANK];
    const fb_status status = fbd_pair(name, &local, &far, &array, &info, strides);
    return status == FB_OK ? fb_ref_get(far, &array) : status;
}

static inline fb_status fbd_kill(const char *name)
{
    fbd_named *named = fbd_take(&fbd_all.arrays, name);
    if (!named) return fbd_no_array(name);
    const fb_status status = fb_ref_kill(named->array);
    fbd_free(named);
    return status;
}

/* The array of that name as an argument. One that is not there is told of by the call. */
static inline fb_arg fbd_array(const char *name)
{
    fbd_named named;
    fb_arg arg;
    memset(&arg, 0, sizeof arg);
    arg.kind = FB_REFERENCE;
    arg.direction = FB_INOUT;
    arg.reference = fbd_find(&fbd_all.arrays, name, &named) ? named.array : 0;
    /* A string of the program, for the text of an error. */
    memcpy(&arg.value, &name, sizeof name);
    return arg;
}

/* Arguments where they stay: a letter stands in its own argument. */
static inline fb_status fbd_settled(fb_arg *args, int nargs)
{
    for (int i = 0; i < nargs; ++i) {
        if (args[i].kind == FB_REFERENCE && !args[i].reference) {
            const char *name;
            memcpy(&name, &args[i].value, sizeof name);
            return fbd_no_array(name);
        }
        if (args[i].kind == FB_TEXT && !args[i].data) args[i].data = &args[i].value;
    }
    return FB_OK;
}

static inline fb_status fbd_call(const char *service, fb_arg *args, int nargs)
{
    fb_client *client = 0;
    fb_status status = fbd_settled(args, nargs);
    if (status == FB_OK) status = fbd_client(&client);
    return status == FB_OK ? fb_call(client, service, args, nargs) : status;
}

static inline fb_status fbd_start(const char *name, const char *service, const fb_arg *args, int nargs, const char *file,
                                  int line)
{
    fb_client *client = 0;
    fbd_named other;
    if (fbd_find(&fbd_all.calls, name, &other)) return fbd_taken(name, &other);
    fb_status status = fbd_client(&client);
    if (status != FB_OK) return status;
    fbd_named *made = fbd_new(name, file, line);
    if (made) made->args = FB_AS_(fb_arg *, malloc(sizeof *args * FB_AS_(size_t, nargs + 1)));
    if (!made || !made->args) {
        fbd_free(made);
        return fb_fail(FB_FULL, "there is no memory for one more call");
    }
    if (nargs > 0) memcpy(made->args, args, sizeof *args * FB_AS_(size_t, nargs));
    status = fbd_settled(made->args, nargs);
    if (status == FB_OK) status = fb_call_async(client, service, made->args, nargs, &made->call);
    if (status == FB_OK && fbd_add(&fbd_all.calls, made, &other)) return FB_OK;
    fb_future_free(made->call);
    fbd_free(made);
    return status == FB_OK ? fbd_taken(name, &other) : status;
}

static inline fb_status fbd_wait(const char *name)
{
    fbd_named *named = fbd_take(&fbd_all.calls, name);
    if (!named) return fbd_refuse(FB_NOT_FOUND, "no call %s is under way%s; start it with async", name, "");
    const fb_status status = fb_wait(named->call, FB_FOREVER);
    char words[FB_TEXT_ROOM];
    snprintf(words, sizeof words, "%s", fb_last_error());
    fb_future_free(named->call);
    fbd_free(named);
    return status == FB_OK ? FB_OK : fb_fail(status, words);
}

#endif /* FOREBAY_DIRECTIVES_H */
