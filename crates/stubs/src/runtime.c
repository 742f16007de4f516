/* The part that all stubs of a library share: from the addresses that a program passes to a call of a service, and back.

   It stands on forebay.h alone. A routine that `xerbla` was told of at the server ends in the program's own xerbla_, as
   it would have in the library. BLAS has no way to say that a server is lost: then the program ends with a message, or
   goes on with the library behind the stubs if FOREBAY_STUBS is `auto`. Numbers that are not those of the library are
   never given.

   Environment: FOREBAY_STUBS (remote, auto, off), FOREBAY_STUBS_MIN (operations below which a routine stays local),
   FOREBAY_STUBS_REPORT (a file that gets a line at the end of the program: how many calls went out, how many stayed). */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <errno.h>
#include <forebay.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Most parameters of a service, and the longest name that xerbla is told. */
#define FBS_PARAMETERS 72
#define FBS_NAME 64

/* Where a parameter of the service comes from, or goes to. */
enum { FBS_ARGUMENT, FBS_FIRST, FBS_RESULT, FBS_XERBLA_INFO, FBS_XERBLA_NAME };

/* A parameter of the service. `at`, `ld`, `inc` and `tri` are places among the arguments of the routine, or -1. */
typedef struct {
    unsigned char source, direction, dtype, array, order, ndim;
    unsigned char logical; /* an `int` that is 0 or not */
    unsigned char status;  /* written whatever xerbla was told */
    unsigned char query;   /* an integer that is -1 when the routine is asked how long a work array is best */
    short at, ld, inc, tri;
    unsigned char ld_dtype, inc_dtype;
} fbs_param;

/* A routine. */
typedef struct {
    const char *name, *service, *signature, *symbol;
    const fbs_param *params;
    int count;
    void (*extents)(void *const *a, int64_t *e); /* of all arrays, one behind the other */
    int64_t (*cost)(void *const *a);             /* may be NULL */
    void *local;
    unsigned long out, in;
    int agrees; /* the server has the service with that signature */
} fbs_routine;

/* Whether only the elements that a routine has changed are written. */
static const int fbs_only_changed;

/* The routine of the program that is told of wrong arguments. */
extern void xerbla_(const char *name, const int *info, size_t length) __attribute__((weak));

/* (integers) */

/* The value of an integer, a character or a truth value, whatever its type. */
static inline int64_t fbs_integer(fb_dtype dtype, const void *at)
{
    fb_scalar s;
    switch (dtype) {
    case FB_I8: return memcpy(&s, at, 1), s.i8;
    case FB_I16: return memcpy(&s, at, 2), s.i16;
    case FB_I32: return memcpy(&s, at, 4), s.i32;
    case FB_I64: return memcpy(&s, at, 8), s.i64;
    case FB_U16: return memcpy(&s, at, 2), s.u16;
    case FB_U32: return memcpy(&s, at, 4), s.u32;
    case FB_U64: return memcpy(&s, at, 8), s.u64 > INT64_MAX ? INT64_MAX : (int64_t)s.u64;
    default: return memcpy(&s, at, 1), s.u8;
    }
}

static const unsigned char fbs_sizes[] = { 0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 8, 16, 1, 1, 1, 2 };

/* What the environment says, read once. */
static struct {
    enum { FBS_REMOTE, FBS_AUTO, FBS_OFF } mode;
    int64_t least; /* operations */
    const char *report;
} fbs_environment;

static pthread_once_t fbs_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t fbs_lock = PTHREAD_MUTEX_INITIALIZER;
static fb_client *fbs_client;
static int fbs_warned;

static void fbs_die(const fbs_routine *r, const char *what, const char *remedy)
{
    fprintf(stderr, "forebay stubs: %s: %s; %s\n", r->name, what, remedy);
    fflush(stderr);
    abort();
}

/* A child of fork has neither the parent's connection nor the threads behind it. */
static void fbs_forked(void)
{
    fbs_client = NULL;
    pthread_mutex_init(&fbs_lock, NULL);
}

static void fbs_begin(void)
{
    const char *mode = getenv("FOREBAY_STUBS"), *least = getenv("FOREBAY_STUBS_MIN");
    fbs_environment.report = getenv("FOREBAY_STUBS_REPORT");
    if (mode && strcmp(mode, "auto") == 0) {
        fbs_environment.mode = FBS_AUTO;
    } else if (mode && strcmp(mode, "off") == 0) {
        fbs_environment.mode = FBS_OFF;
    } else if (mode && *mode && strcmp(mode, "remote") != 0) {
        fprintf(stderr, "forebay stubs: FOREBAY_STUBS is \"%s\"; set it to remote, auto or off\n", mode);
        abort();
    }
    if (least && *least) {
        char *end;
        errno = 0;
        double flops = strtod(least, &end);
        if (*end || errno || !(flops >= 0)) {
            fprintf(stderr, "forebay stubs: FOREBAY_STUBS_MIN is \"%s\"; set it to a number of operations, such as 1e6\n", least);
            abort();
        }
        fbs_environment.least = flops < 9e18 ? (int64_t)flops : INT64_MAX;
    }
    pthread_atfork(NULL, NULL, fbs_forked);
}

/* The connection of this process, made at its first call. */
static fb_client *fbs_connect(void)
{
    fb_client *client = __atomic_load_n(&fbs_client, __ATOMIC_ACQUIRE);
    if (client) return client;
    pthread_mutex_lock(&fbs_lock);
    client = fbs_client;
    if (!client && fb_connect(NULL, &client) == FB_OK) __atomic_store_n(&fbs_client, client, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&fbs_lock);
    return client;
}

/* Whether the library behind the stubs has the routine. */
static int fbs_find(fbs_routine *r)
{
    void *local = __atomic_load_n(&r->local, __ATOMIC_RELAXED);
    if (!local && (local = dlsym(RTLD_NEXT, r->symbol))) __atomic_store_n(&r->local, local, __ATOMIC_RELAXED);
    return local != NULL;
}

/* The routine stays local; ends the program if there is none. */
static int fbs_local(fbs_routine *r, const char *why)
{
    if (!fbs_find(r)) fbs_die(r, why, "and no library behind the stubs has it; link or load one behind them");
    __atomic_fetch_add(&r->in, 1, __ATOMIC_RELAXED);
    return 0;
}

/* A call that failed: local in the mode `auto`, else the end of the program. */
static int fbs_failed(fbs_routine *r, fb_status status, const char *why)
{
    char what[2048], remedy[512];
    int is_auto = fbs_environment.mode == FBS_AUTO;
    snprintf(what, sizeof what, "the call failed (%d): %s", (int)status, why);
    if (is_auto && fbs_find(r)) {
        if (!__atomic_exchange_n(&fbs_warned, 1, __ATOMIC_RELAXED))
            fprintf(stderr, "forebay stubs: %s: %s; going on with the local library\n", r->name, what);
        __atomic_fetch_add(&r->in, 1, __ATOMIC_RELAXED);
        return 0;
    }
    int is_lost = status == FB_NO_SERVER || status == FB_SERVER_LOST;
    snprintf(remedy, sizeof remedy, "%s, or %s",
             is_lost ? "start a server with `forebay serve LIBRARY --idl FILE`, set FOREBAY_PATIENCE to wait for one" : "mend what the text says",
             is_auto ? "give FOREBAY_STUBS=auto a library to call: none behind the stubs has the routine; link the library itself "
                       "behind them, or run a program that is linked with it with the stubs in LD_PRELOAD"
                     : "set FOREBAY_STUBS=auto to have such calls done by the library behind the stubs");
    fbs_die(r, what, remedy);
    return 0;
}

/* Whether what is served is what the stub was made for: the same parameters, of the same ways and types. Asked at the first
   call of each routine. Otherwise results would be left behind, or arguments change places. */
static int fbs_agrees(fbs_routine *r, fb_client *client, fb_status *status, char *why, size_t room)
{
    char *served;
    if (__atomic_load_n(&r->agrees, __ATOMIC_RELAXED)) return 1;
    if ((*status = fb_signature(client, r->service, &served)) != FB_OK) {
        snprintf(why, room, "%s", fb_last_error());
        return 0;
    }
    size_t own = strcspn(r->signature, ")");
    int agrees = strcspn(served, ")") == own && strncmp(served, r->signature, own) == 0;
    if (!agrees)
        snprintf(why, room, "the stub and the server are made of two interface files, so make them of one; of the stub: %s, of the server: %s", r->signature, served);
    fb_free(served);
    *status = FB_BAD_ARGUMENT;
    __atomic_store_n(&r->agrees, agrees, __ATOMIC_RELAXED);
    return agrees;
}

/* How the elements of an array lie: `count` runs of `run` elements each, and the bytes between their beginnings. */
typedef struct {
    char *at;
    int64_t run, count, element, next;
} fbs_layout;

/* What is kept beside the arguments of a call. */
typedef struct {
    fb_arg args[FBS_PARAMETERS];
    fb_scalar values[FBS_PARAMETERS]; /* results that are passed on when xerbla was told of nothing */
    char *copies[FBS_PARAMETERS];     /* of arrays that travel as one */
    int64_t sent[FBS_PARAMETERS];     /* where in the copy it says how it was sent; 0: nowhere */
    fbs_layout lay[FBS_PARAMETERS];   /* where those lie */
    int info;
    char name[FBS_NAME];
    int64_t length;
} fbs_call;

/* Whether the routine is asked how long a work array is best. Then the program may pass anything in the place of the other
   arrays, and none of them travels. */
static int fbs_query(const fbs_routine *r, void *const *a)
{
    for (int i = 0; i < r->count; i++) {
        const fbs_param *p = &r->params[i];
        if (p->query && fbs_integer((fb_dtype)p->dtype, a[p->at]) == -1) return 1;
    }
    return 0;
}

static void fbs_array(fb_arg *arg, const fbs_param *p, void *const *a, const int64_t *e, int query)
{
    static char nothing[16];
    int64_t size = fbs_sizes[p->dtype];
    arg->kind = FB_ARRAY;
    arg->ndim = p->ndim;
    arg->order = p->order ? FB_COLUMN_MAJOR : FB_ROW_MAJOR;
    arg->data = query ? nothing : a[p->at];
    if (query) return;
    int64_t count = 1;
    for (int i = 0; i < p->ndim; i++) count *= (arg->shape[i] = e[i] > 0 ? e[i] : 0) != 0;
    if (p->inc >= 0) {
        /* The elements lie |inc| apart from the lowest address on; with 0 they are one. */
        int64_t inc = fbs_abs(fbs_integer((fb_dtype)p->inc_dtype, a[p->inc]));
        if (inc == 0 && count) arg->shape[0] = 1;
        arg->strides[0] = (inc ? inc : 1) * size;
    } else if (p->ld >= 0) {
        int64_t ld = fbs_integer((fb_dtype)p->ld_dtype, a[p->ld]);
        int along = p->order ? 0 : 1; /* the axis that runs fastest */
        if (ld < arg->shape[along]) { /* the library will say so; nothing can be sent */
            arg->shape[0] = arg->shape[1] = 0;
            ld = 1;
        }
        arg->strides[along] = size;
        arg->strides[1 - along] = (ld > 0 ? ld : 1) * size;
    }
    if (!count || !arg->data) {
        arg->data = nothing;
        memset(arg->strides, 0, sizeof arg->strides);
        for (int i = 0; i < p->ndim && !a[p->at]; i++) arg->shape[i] = 0;
    }
}

static fbs_layout fbs_lies(const fb_arg *arg)
{
    int64_t size = fbs_sizes[arg->dtype];
    if (arg->ndim == 2 && (arg->strides[0] || arg->strides[1])) {
        int fast = arg->order == FB_COLUMN_MAJOR ? 0 : 1;
        return (fbs_layout){ arg->data, arg->shape[fast], arg->shape[1 - fast], size, arg->strides[1 - fast] };
    }
    int64_t all = 1;
    for (int i = 0; i < arg->ndim; i++) all = fbs_multiply(all, arg->shape[i]);
    return (fbs_layout){ arg->data, all, 1, arg->ndim == 1 && arg->strides[0] ? arg->strides[0] : size, 0 };
}

static void fbs_transfer(fbs_layout to, fbs_layout from, int64_t size, int low, int high)
{
    for (int64_t j = 0; j < from.count; j++) {
        int64_t first = low ? j : 0, last = high && j + 1 < from.run ? j + 1 : from.run;
        char *t = to.at + j * to.next + first * to.element, *f = from.at + j * from.next + first * from.element;
        if (to.element == size && from.element == size) {
            if (first < last) memcpy(t, f, (size_t)((last - first) * size));
            continue;
        }
        for (int64_t i = first; i < last; i++, t += to.element, f += from.element) memcpy(t, f, (size_t)size);
    }
}

/* The same elements side by side. */
static fbs_layout fbs_dense(fbs_layout lies, void *at, int64_t size)
{
    return (fbs_layout){ at, lies.run, lies.count, size, lies.run * size };
}

/* The bytes from the first element to where the next run would begin: as far as anybody may take an array to reach. */
static uintptr_t fbs_reach(fbs_layout lies)
{
    int64_t run = lies.run * lies.element;
    return (uintptr_t)((lies.next > run ? lies.next : run) * lies.count);
}

/* Whether two arrays may have memory in common. */
static int fbs_meet(const fb_arg *x, const fb_arg *y)
{
    fbs_layout a = fbs_lies(x), b = fbs_lies(y);
    if (!a.run || !a.count || !b.run || !b.count) return 0;
    return (uintptr_t)a.at < (uintptr_t)b.at + fbs_reach(b) && (uintptr_t)b.at < (uintptr_t)a.at + fbs_reach(a);
}

/* Writes what differs of `bytes` of them, a word at a time: parts of a word that is equal are, too. */
#define FBS_CHANGED(word)                                                          \
    for (int64_t i = 0; i < bytes; i += (int64_t)sizeof(word)) {                   \
        word new, old;                                                             \
        memcpy(&new, back + i, sizeof new);                                        \
        memcpy(&old, sent + i, sizeof old);                                        \
        if (new != old) memcpy(to + i / size * step + i % size, &new, sizeof new); \
    }

static void fbs_changed_run(char *to, int64_t step, const char *back, const char *sent, int64_t bytes, int64_t size)
{
    int64_t word = size % 8 == 0 ? 8 : size % 4 == 0 ? 4 : 1;
    if (step == size) step = size = bytes; /* side by side, as one element */
    if (word == 8) FBS_CHANGED(uint64_t)
    else if (word == 4) FBS_CHANGED(uint32_t)
    else FBS_CHANGED(unsigned char)
}

/* Writes the elements in which `back` differs from `sent`. */
static void fbs_changed(fbs_layout to, const char *back, const char *sent, int64_t size)
{
    int64_t run = to.run * size;
    for (int64_t j = 0; j < to.count; j++)
        fbs_changed_run(to.at + j * to.next, to.element, back + j * run, sent + j * run, run, size);
}

/* What comes back travels as a copy when only a triangle of it counts, when it lies among the elements of another
   array, as blocks of one matrix do, or when only what the routine has changed is written: then a second copy tells what was
   sent. What the program holds by now does not tell it: in the heap behind an array of a line that says too much
   something else may have come while the call was made. */
static void fbs_copies(fbs_routine *r, fbs_call *call)
{
    for (int i = 0; i < r->count; i++) {
        const fbs_param *p = &r->params[i];
        if (!p->array || p->direction == FB_IN) continue;
        int apart = p->tri >= 0 || fbs_only_changed;
        for (int j = 0; j < r->count && !apart; j++)
            apart = j != i && r->params[j].array && !call->copies[j] && fbs_meet(&call->args[i], &call->args[j]);
        if (!apart) continue;
        fb_arg *arg = &call->args[i];
        int64_t size = fbs_sizes[p->dtype];
        fbs_layout lies = fbs_lies(arg);
        int64_t bytes = fbs_multiply(fbs_multiply(lies.run, lies.count), size);
        if (bytes == 0) continue;
        call->sent[i] = fbs_only_changed ? bytes : 0;
        if (!(call->copies[i] = malloc((size_t)fbs_add(bytes, call->sent[i])))) fbs_die(r, "there is no memory for a copy of an array", "use smaller ones");
        call->lay[i] = lies;
        fbs_transfer(fbs_dense(lies, call->copies[i], size), lies, size, 0, 0);
        memcpy(call->copies[i] + bytes, call->copies[i], (size_t)call->sent[i]);
        arg->data = call->copies[i];
        memset(arg->strides, 0, sizeof arg->strides);
    }
}

static void fbs_scalar(fbs_call *call, const fbs_param *p, int i, void *const *a)
{
    fb_arg *arg = &call->args[i];
    arg->kind = FB_SCALAR;
    if (p->source == FBS_XERBLA_INFO) {
        arg->data = &call->info;
    } else if (p->source == FBS_XERBLA_NAME) {
        arg->kind = FB_RAW;
        arg->data = call->name;
        arg->shape[0] = FBS_NAME;
        arg->length = &call->length;
    } else if (p->source == FBS_ARGUMENT && p->dtype == FB_BYTES) {
        /* A text of C, which ends with a zero byte. */
        arg->kind = FB_RAW;
        arg->data = a[p->at];
        arg->shape[0] = (int64_t)strlen(a[p->at]);
    } else if (p->source == FBS_ARGUMENT && p->direction != FB_OUT) {
        fb_scalar *value = p->direction == FB_IN ? &arg->value : &call->values[i];
        if (p->logical) {
            int truth;
            memcpy(&truth, a[p->at], sizeof truth);
            value->u8 = truth != 0;
        } else {
            memcpy(value, a[p->at], fbs_sizes[p->dtype]);
        }
    }
    if (!arg->data && p->direction != FB_IN) arg->data = &call->values[i];
}

/* What came back goes where the program wants it. */
static void fbs_take(const fbs_routine *r, fbs_call *call, void *const *a, void *result)
{
    for (int i = 0; i < r->count; i++) {
        const fbs_param *p = &r->params[i];
        if (p->array) {
            if (!call->copies[i]) continue;
            fbs_layout lies = call->lay[i];
            int column = call->args[i].order == FB_COLUMN_MAJOR;
            int lower = p->tri >= 0 && (fbs_integer(FB_U8, a[p->tri]) & ~0x20) == 'L', upper = p->tri >= 0 && !lower;
            int64_t size = fbs_sizes[p->dtype];
            if (call->info == 0 && call->sent[i])
                fbs_changed(lies, call->copies[i], call->copies[i] + call->sent[i], size);
            else if (call->info == 0)
                fbs_transfer(lies, fbs_dense(lies, call->copies[i], size), size, column ? lower : upper, column ? upper : lower);
            free(call->copies[i]);
            continue;
        }
        if (p->direction == FB_IN || (call->info && !p->status)) continue;
        if (p->source == FBS_RESULT) {
            memcpy(result, &call->values[i], fbs_sizes[p->dtype]);
            if (p->logical) *(int *)result = call->values[i].u8;
        } else if (p->source == FBS_ARGUMENT && p->logical) {
            int truth = call->values[i].u8;
            memcpy(a[p->at], &truth, sizeof truth);
        } else if (p->source == FBS_ARGUMENT || p->source == FBS_FIRST) {
            memcpy(a[p->at], &call->values[i], fbs_sizes[p->dtype]);
        }
    }
}

/* Tells the program's own xerbla, as the library would have. */
static void fbs_xerbla(const fbs_routine *r, fbs_call *call)
{
    char name[FBS_NAME];
    size_t length = call->length > 0 && call->length <= FBS_NAME ? (size_t)call->length : 0;
    memset(name, ' ', sizeof name);
    memcpy(name, call->name, length);
    while (length && (name[length - 1] == ' ' || name[length - 1] == 0)) name[--length] = ' ';
    void (*told)(const char *, const int *, size_t) = xerbla_;
    if (!told) {
        void *found = dlsym(RTLD_DEFAULT, "xerbla_");
        memcpy(&told, &found, sizeof told);
    }
    if (told) told(name, &call->info, length < 6 ? 6 : length); /* routines of six letters have blanks at the end */
    else fprintf(stderr, "forebay stubs: %s: argument %d has an illegal value\n", r->name, call->info);
}

/* Calls the service of a routine. 1: done; 0: the local routine is to be called. */
static int fbs(fbs_routine *r, void *const *a, void *result)
{
    pthread_once(&fbs_once, fbs_begin);
    if (fbs_environment.mode == FBS_OFF) return fbs_local(r, "FOREBAY_STUBS is off");
    if (fbs_environment.least > 0 && r->cost && r->cost(a) < fbs_environment.least && fbs_find(r)) return fbs_local(r, "");
    fb_client *client = fbs_connect();
    if (!client) return fbs_failed(r, FB_NO_SERVER, fb_last_error());
    fb_status status;
    char why[1536];
    if (!fbs_agrees(r, client, &status, why, sizeof why)) return fbs_failed(r, status, why);
    fbs_call call;
    int64_t extents[FBS_PARAMETERS * FB_MAX_RANK], *e = extents;
    memset(call.args, 0, sizeof call.args[0] * (size_t)r->count);
    memset(call.copies, 0, sizeof call.copies[0] * (size_t)r->count);
    call.info = 0;
    call.length = 0;
    if (r->extents) r->extents(a, extents);
    int query = fbs_query(r, a);
    for (int i = 0; i < r->count; i++) {
        const fbs_param *p = &r->params[i];
        call.args[i].direction = p->direction;
        call.args[i].dtype = (fb_dtype)p->dtype;
        if (!p->array) {
            fbs_scalar(&call, p, i, a);
            continue;
        }
        fbs_array(&call.args[i], p, a, e, query);
        e += p->ndim;
    }
    fbs_copies(r, &call);
    status = fb_call(client, r->service, call.args, r->count);
    if (status != FB_OK) {
        for (int i = 0; i < r->count; i++) free(call.copies[i]);
        return fbs_failed(r, status, fb_last_error());
    }
    __atomic_fetch_add(&r->out, 1, __ATOMIC_RELAXED);
    fbs_take(r, &call, a, result);
    if (call.info) fbs_xerbla(r, &call);
    return 1;
}

/* A line of each routine that was called, and one of all: "forebay stubs: dgemm 17496 out 0 local". */
static void fbs_report(fbs_routine *const *all, size_t count)
{
    if (!fbs_environment.report || !*fbs_environment.report) return;
    FILE *to = fopen(fbs_environment.report, "a");
    if (!to) {
        fprintf(stderr, "forebay stubs: FOREBAY_STUBS_REPORT is \"%s\", which cannot be written: %s\n", fbs_environment.report, strerror(errno));
        return;
    }
    unsigned long out = 0, in = 0;
    for (size_t i = 0; i < count; i++) {
        const fbs_routine *r = all[i];
        out += r->out;
        in += r->in;
        if (r->out || r->in) fprintf(to, "%s %lu out %lu local\n", r->name, r->out, r->in);
    }
    fprintf(to, "all of process %ld: %lu out %lu local\n", (long)getpid(), out, in);
    fclose(to);
}
