#ifdef __cplusplus
} /* extern "C" */
#endif

/* --- arrays whose elements lie together ------------------------------------------------------

       fb_put(run, "E", 0, FB_DENSE(e, FB_F64, nx, ny));
       fb_put(run, "dt", 0, FB_ONE(&dt, FB_F64));

   A pointer, the type of the elements, and their extents, the last index running fastest; of FB_DENSE_F the
   first one. Each is an fb_array, good for the call (in C: in its block). For elements that lie apart fill in an
   fb_array with strides. */

/* Bytes of an element; 0: there is no such type. */
static inline int64_t fb_dtype_size(fb_dtype dtype);

static inline int64_t fb_dtype_size(fb_dtype dtype)
{
    static const int64_t sizes[] = { @SIZES@ };
    return FB_AS_(size_t, dtype) < sizeof sizes / sizeof *sizes ? sizes[dtype] : 0;
}

static inline const char *fb_dtype_name_(fb_dtype dtype)
{
    static const char *const names[] = { @NAMES@ };
    return names[FB_AS_(size_t, dtype) < sizeof names / sizeof *names ? dtype : 0];
}

static inline void fb_first_fastest_(fb_dtype dtype, int ndim, const int64_t *shape, int64_t *strides)
{
    /* Without a sign: extents that are too large are refused by the library. */
    uint64_t next = FB_AS_(uint64_t, fb_dtype_size(dtype));
    int few = 1;
    for (int axis = 0; axis < ndim && axis < FB_MAX_RANK; ++axis) few = few && shape[axis] <= 1;
    for (int axis = 0; axis < ndim && axis < FB_MAX_RANK; ++axis) {
        strides[axis] = FB_AS_(int64_t, next);
        /* The strides of an array without elements tell its order, too, and so do those of a single one. */
        if (few) next *= 2;
        else if (shape[axis] > 1) next *= FB_AS_(uint64_t, shape[axis]);
    }
}

#ifdef __cplusplus

struct fb_dense_ {
    int64_t shape[FB_MAX_RANK];
    int64_t strides[FB_MAX_RANK];
    fb_array array;
    operator const fb_array *()
    {
        array.shape = shape;
        array.strides = array.strides ? strides : 0;
        return &array;
    }
};

template <class... Extents>
inline fb_dense_ fb_dense_of(bool first, const volatile void *data, fb_dtype dtype, Extents... extents)
{
    fb_dense_ made = fb_dense_();
    const int64_t given[] = { static_cast<int64_t>(extents)..., 0 };
    made.array.dtype = dtype;
    made.array.ndim = static_cast<int>(sizeof...(extents));
    made.array.data = const_cast<void *>(data);
    for (int axis = 0; axis < made.array.ndim && axis < FB_MAX_RANK; ++axis) made.shape[axis] = given[axis];
    fb_first_fastest_(dtype, made.array.ndim, given, made.strides);
    made.array.strides = first ? made.strides : 0;
    return made;
}

#define FB_DENSE(pointer, code, ...) fb_dense_of(false, pointer, code, __VA_ARGS__)
#define FB_DENSE_F(pointer, code, ...) fb_dense_of(true, pointer, code, __VA_ARGS__)
#define FB_ONE(pointer, code) fb_dense_of(false, pointer, code)

#else

static inline const fb_array *fb_dense_f_(fb_array *array, int64_t *strides)
{
    fb_first_fastest_(array->dtype, array->ndim, array->shape, strides);
    array->strides = strides;
    return array;
}

#define FB_DENSE_(pointer, code, ...) \
    (fb_array){ .dtype = (code), .ndim = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
                .shape = (int64_t[]){ __VA_ARGS__ }, .data = (void *)(pointer) }
#define FB_DENSE(pointer, code, ...) (&FB_DENSE_(pointer, code, __VA_ARGS__))
#define FB_DENSE_F(pointer, code, ...) \
    fb_dense_f_(&FB_DENSE_(pointer, code, __VA_ARGS__), (int64_t[FB_MAX_RANK]){ 0 })
#define FB_ONE(pointer, code) (&(fb_array){ .dtype = (code), .data = (void *)(pointer) })

#endif

/* --- what has attributes ----------------------------------------------------------------------

       fb_attr_put(fb_of_run(run), "dt", FB_ONE(&dt, FB_F64));
       fb_attr_set_str(fb_of_dataset(run, "E", 0), "solver", "spectral");
       fb_attr_put(fb_of_array(snapshot, "E"), "box", FB_DENSE(box, FB_F64, 2)); */

static inline fb_object fb_of_(fb_run *run, fb_snapshot *snapshot, const char *name, int64_t set)
{
    fb_object of;
    of.run = run;
    of.snapshot = snapshot;
    of.name = name;
    of.set = set;
    return of;
}

/* The run itself. */
static inline fb_object fb_of_run(fb_run *run)
{
    return fb_of_(run, 0, 0, 0);
}

/* A data set of a run. */
static inline fb_object fb_of_dataset(fb_run *run, const char *name, int64_t set)
{
    return fb_of_(run, 0, name ? name : "", set);
}

/* A table of a run. */
static inline fb_object fb_of_table(fb_run *run, const char *name)
{
    return fb_of_(run, 0, name ? name : "", FB_TABLE);
}

/* An array of a snapshot: of one being taken its attributes are set, of a complete one they are read. */
static inline fb_object fb_of_array(fb_snapshot *snapshot, const char *name)
{
    return fb_of_(0, snapshot, name, 0);
}

/* --- arguments of calls -------------------------------------------------------------------

   One for each parameter of the signature, results included:

       fb_arg args[] = { FB_IN_F64(2.0), FB_IN_ARRAY(x, FB_F64, n), FB_INOUT_ARRAY(y, FB_F64, n) };
       fb_call(client, "axpy", args, 3);

   or FB_CALL(client, "axpy", FB_IN_F64(2.0), FB_IN_ARRAY(x, FB_F64, n), FB_INOUT_ARRAY(y, FB_F64, n)).
   Arrays take a pointer, the type of the elements, and their extents; those that end in _F are
   column-major. For elements that lie apart set `strides`, in bytes. A text that comes back takes its room in
   bytes, the zero at its end included. */

#ifdef __cplusplus

inline fb_arg fb_arg_of(int kind, int direction, fb_dtype dtype, const volatile void *data)
{
    fb_arg arg = fb_arg();
    arg.kind = kind;
    arg.direction = direction;
    arg.dtype = dtype;
    arg.data = const_cast<void *>(data);
    return arg;
}

template <class... Extents>
inline fb_arg fb_arg_array(int direction, fb_dtype dtype, fb_order order, const volatile void *data, Extents... extents)
{
    fb_arg arg = fb_arg_of(FB_ARRAY, direction, dtype, data);
    const int64_t shape[] = { static_cast<int64_t>(extents)... };
    arg.order = order;
    arg.ndim = static_cast<int>(sizeof...(extents));
    for (int axis = 0; axis < arg.ndim && axis < FB_MAX_RANK; ++axis) arg.shape[axis] = shape[axis];
    return arg;
}

#define FB_SCALAR_MEMBER_(member, type, code, name) \
    inline fb_arg name(type value) \
    { \
        fb_arg arg = fb_arg_of(FB_SCALAR, FB_IN, code, 0); \
        arg.value.member = value; \
        return arg; \
    }
FB_SCALAR_MEMBER_(f64, double, FB_F64, FB_IN_F64)
FB_SCALAR_MEMBER_(f32, float, FB_F32, FB_IN_F32)
FB_SCALAR_MEMBER_(i32, int32_t, FB_I32, FB_IN_I32)
FB_SCALAR_MEMBER_(i64, int64_t, FB_I64, FB_IN_I64)
FB_SCALAR_MEMBER_(u64, uint64_t, FB_U64, FB_IN_U64)
#undef FB_SCALAR_MEMBER_

inline fb_arg FB_IN_BOOL(int value)
{
    fb_arg arg = fb_arg_of(FB_SCALAR, FB_IN, FB_BOOL, 0);
    arg.value.truth = value != 0;
    return arg;
}

inline fb_arg FB_IN_C128(double re, double im)
{
    fb_arg arg = fb_arg_of(FB_SCALAR, FB_IN, FB_C128, 0);
    arg.value.c128[0] = re;
    arg.value.c128[1] = im;
    return arg;
}

inline fb_arg fb_arg_room(int kind, int direction, fb_dtype dtype, const volatile void *data, int64_t room, int64_t *length)
{
    fb_arg arg = fb_arg_of(kind, direction, dtype, data);
    arg.shape[0] = room;
    arg.length = length;
    return arg;
}

inline fb_arg FB_REF(fb_ref *ref)
{
    fb_arg arg = fb_arg_of(FB_REFERENCE, FB_INOUT, fb_dtype(), 0);
    arg.reference = ref;
    return arg;
}

template <class... Args>
inline fb_status FB_CALL(fb_client *client, const char *service, const Args &...args)
{
    const fb_arg all[] = { args..., fb_arg() };
    return fb_call(client, service, all, static_cast<int>(sizeof...(args)));
}

#define FB_PLACE_(code, way, pointer) fb_arg_of(FB_SCALAR, way, code, pointer)
#define FB_ARRAY_(way, code, order, pointer, ...) fb_arg_array(way, code, order, pointer, __VA_ARGS__)
#define FB_ROOM_(kind, way, code, pointer, room, length) fb_arg_room(kind, way, code, pointer, room, length)

#else

#define FB_SCALAR_(code, member, x) \
    ((fb_arg){ .kind = FB_SCALAR, .direction = FB_IN, .dtype = code, .value = { .member = (x) } })
#define FB_IN_F64(x) FB_SCALAR_(FB_F64, f64, x)
#define FB_IN_F32(x) FB_SCALAR_(FB_F32, f32, x)
#define FB_IN_I32(x) FB_SCALAR_(FB_I32, i32, x)
#define FB_IN_I64(x) FB_SCALAR_(FB_I64, i64, x)
#define FB_IN_U64(x) FB_SCALAR_(FB_U64, u64, x)
#define FB_IN_BOOL(x) FB_SCALAR_(FB_BOOL, truth, (x) != 0)
#define FB_IN_C128(re, im) \
    ((fb_arg){ .kind = FB_SCALAR, .direction = FB_IN, .dtype = FB_C128, .value = { .c128 = { (re), (im) } } })
#define FB_REF(ref) ((fb_arg){ .kind = FB_REFERENCE, .direction = FB_INOUT, .reference = (ref) })
#define FB_PLACE_(code, way, pointer) \
    ((fb_arg){ .kind = FB_SCALAR, .direction = way, .dtype = code, .data = (void *)(pointer) })
#define FB_ARRAY_(way, code, ordering, pointer, ...) \
    ((fb_arg){ .kind = FB_ARRAY, .direction = way, .dtype = code, .order = ordering, \
               .ndim = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
               .data = (void *)(pointer), .shape = { __VA_ARGS__ } })
#define FB_ROOM_(which, way, code, pointer, room, gets) \
    ((fb_arg){ .kind = which, .direction = way, .dtype = code, .data = (void *)(pointer), \
               .length = (gets), .shape = { (room) } })
#define FB_CALL(client, service, ...) \
    fb_call(client, service, (const fb_arg[]){ __VA_ARGS__ }, \
            (int)(sizeof((const fb_arg[]){ __VA_ARGS__ }) / sizeof(fb_arg)))

#endif

#define FB_OUT_F64(pointer) FB_PLACE_(FB_F64, FB_OUT, pointer)
#define FB_OUT_F32(pointer) FB_PLACE_(FB_F32, FB_OUT, pointer)
#define FB_OUT_I32(pointer) FB_PLACE_(FB_I32, FB_OUT, pointer)
#define FB_OUT_I64(pointer) FB_PLACE_(FB_I64, FB_OUT, pointer)
#define FB_OUT_U64(pointer) FB_PLACE_(FB_U64, FB_OUT, pointer)
#define FB_OUT_BOOL(pointer) FB_PLACE_(FB_BOOL, FB_OUT, pointer)
#define FB_OUT_C128(pointer) FB_PLACE_(FB_C128, FB_OUT, pointer)
#define FB_INOUT_F64(pointer) FB_PLACE_(FB_F64, FB_INOUT, pointer)
#define FB_INOUT_F32(pointer) FB_PLACE_(FB_F32, FB_INOUT, pointer)
#define FB_INOUT_I32(pointer) FB_PLACE_(FB_I32, FB_INOUT, pointer)
#define FB_INOUT_I64(pointer) FB_PLACE_(FB_I64, FB_INOUT, pointer)
#define FB_INOUT_U64(pointer) FB_PLACE_(FB_U64, FB_INOUT, pointer)
#define FB_INOUT_BOOL(pointer) FB_PLACE_(FB_BOOL, FB_INOUT, pointer)
#define FB_INOUT_C128(pointer) FB_PLACE_(FB_C128, FB_INOUT, pointer)

#define FB_IN_ARRAY(pointer, code, ...) FB_ARRAY_(FB_IN, code, FB_ROW_MAJOR, pointer, __VA_ARGS__)
#define FB_OUT_ARRAY(pointer, code, ...) FB_ARRAY_(FB_OUT, code, FB_ROW_MAJOR, pointer, __VA_ARGS__)
#define FB_INOUT_ARRAY(pointer, code, ...) FB_ARRAY_(FB_INOUT, code, FB_ROW_MAJOR, pointer, __VA_ARGS__)
#define FB_IN_ARRAY_F(pointer, code, ...) FB_ARRAY_(FB_IN, code, FB_COLUMN_MAJOR, pointer, __VA_ARGS__)
#define FB_OUT_ARRAY_F(pointer, code, ...) FB_ARRAY_(FB_OUT, code, FB_COLUMN_MAJOR, pointer, __VA_ARGS__)
#define FB_INOUT_ARRAY_F(pointer, code, ...) FB_ARRAY_(FB_INOUT, code, FB_COLUMN_MAJOR, pointer, __VA_ARGS__)

#define FB_IN_STR(text) FB_ROOM_(FB_TEXT, FB_IN, FB_STR, text, 0, 0)
#define FB_OUT_STR(buffer, room) FB_ROOM_(FB_TEXT, FB_OUT, FB_STR, buffer, room, 0)
#define FB_INOUT_STR(buffer, room) FB_ROOM_(FB_TEXT, FB_INOUT, FB_STR, buffer, room, 0)
#define FB_IN_BYTES(pointer, count) FB_ROOM_(FB_RAW, FB_IN, FB_BYTES, pointer, count, 0)
#define FB_OUT_BYTES(buffer, room, length) FB_ROOM_(FB_RAW, FB_OUT, FB_BYTES, buffer, room, length)

#define FB_IN_FILE(path) FB_ROOM_(FB_FILE, FB_IN, FB_STR, path, 0, 0)
#define FB_OUT_FILE(path) FB_ROOM_(FB_FILE, FB_OUT, FB_STR, path, 0, 0)

#endif /* FOREBAY_H */
