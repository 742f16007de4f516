/* Of directives.h, what C needs: types and extents of what a directive names, which the compiler knows. */

#ifndef FOREBAY_DIRECTIVES_C_H
#define FOREBAY_DIRECTIVES_C_H

#define FBD_LONG_(kind) (sizeof(long) == 8 ? FB_##kind##64 : FB_##kind##32)
/* Types of elements, each with its dtype. */
#define FBD_EACH_(use) \
    use(signed char, FB_I8) use(short, FB_I16) use(int, FB_I32) use(long, FBD_LONG_(I)) use(long long, FB_I64) \
    use(unsigned char, FB_U8) use(unsigned short, FB_U16) use(unsigned int, FB_U32) use(unsigned long, FBD_LONG_(U)) \
    use(unsigned long long, FB_U64) use(float, FB_F32) use(double, FB_F64) use(_Bool, FB_BOOL) \
    use(float _Complex, FB_C64) use(double _Complex, FB_C128)

#define FBD_DTYPE_(type, code) type *: code, const type *: code,
#define FBD_NULL_(type, code) type: (type *)0,
#define FBD_ONE_(type, code) type: 1,
/* The dtype of what a pointer points to; 0: it is no element. */
#define FBD_POINTED_(p) _Generic((p), FBD_EACH_(FBD_DTYPE_) default: 0)
#define FBD_CONST_(type, code) const type *: 1,
/* Whether what a pointer points to is a const element. */
#define FBD_POINTED_CONST_(p) _Generic((p), FBD_EACH_(FBD_CONST_) default: 0)
/* An array or pointer as it is; in the place of a number one that is never followed, so that x[0] is good of both. */
#define FBD_DOWN_(x) _Generic((x), FBD_EACH_(FBD_NULL_) char: (char *)0, long double: (long double *)0, default: (x))
/* The same, one to three brackets further in. */
#define FBD_IN1_(a) FBD_DOWN_((a)[0])
#define FBD_IN2_(a) FBD_DOWN_(FBD_IN1_(a)[0])
#define FBD_IN3_(a) FBD_DOWN_(FBD_IN2_(a)[0])
/* The dtype of the elements of an array of up to four dimensions. */
#define FBD_TYPE_(a) \
    (FBD_POINTED_(&(a)[0]) ? FBD_POINTED_(&(a)[0]) : FBD_POINTED_(&FBD_IN1_(a)[0]) ? FBD_POINTED_(&FBD_IN1_(a)[0]) \
     : FBD_POINTED_(&FBD_IN2_(a)[0]) ? FBD_POINTED_(&FBD_IN2_(a)[0]) : FBD_POINTED_(&FBD_IN3_(a)[0]))
#define FBD_NDIM_(a) \
    (FBD_POINTED_(&(a)[0]) ? 1 : FBD_POINTED_(&FBD_IN1_(a)[0]) ? 2 : FBD_POINTED_(&FBD_IN2_(a)[0]) ? 3 : 4)
#define FBD_IS_CONST_(a) \
    (FBD_POINTED_CONST_(&(a)[0]) || FBD_POINTED_CONST_(&FBD_IN1_(a)[0]) || FBD_POINTED_CONST_(&FBD_IN2_(a)[0]) \
     || FBD_POINTED_CONST_(&FBD_IN3_(a)[0]))
#define FBD_EXTENTS_(a) \
    { (int64_t)(sizeof(a) / sizeof((a)[0])), (int64_t)(sizeof((a)[0]) / sizeof(FBD_IN1_(a)[0])), \
      (int64_t)(sizeof(FBD_IN1_(a)[0]) / sizeof(FBD_IN2_(a)[0])), (int64_t)(sizeof(FBD_IN2_(a)[0]) / sizeof(FBD_IN3_(a)[0])) }
#define FBD_POINTS_(a) __builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0]))
/* Whether what stands behind one to three brackets is a pointer: its row lies elsewhere. */
#define FBD_LEADS_AWAY_(a) \
    (__builtin_types_compatible_p(__typeof__((a)[0]), __typeof__(&FBD_IN1_(a)[0])) \
     || __builtin_types_compatible_p(__typeof__(FBD_IN1_(a)[0]), __typeof__(&FBD_IN2_(a)[0])) \
     || __builtin_types_compatible_p(__typeof__(FBD_IN2_(a)[0]), __typeof__(&FBD_IN3_(a)[0])))

/* What the compiler is to look at: that an array says itself how large it is; that elements can travel; that an argument
   is no pointer without extents; that what comes back has a place. */
#define FBD_IS_WHOLE(a) _Static_assert(!FBD_POINTS_(a), FBD_NO_EXTENTS_(#a)); FBD_TRAVELS(a)
#define FBD_TRAVELS(a) \
    _Static_assert(FBD_TYPE_(a) != 0, FBD_NO_ELEMENTS_(#a)); \
    _Static_assert(!FBD_LEADS_AWAY_(a) && (!FBD_POINTS_(a) || FBD_POINTED_(&(a)[0]) != 0), FBD_NO_ROWS_(#a))
#define FBD_IS_VALUE(x) \
    _Static_assert(!FBD_LEADS_AWAY_(FBD_DOWN_(x)), FBD_NO_ROWS_(#x)); \
    _Static_assert(_Generic((x), FBD_EACH_(FBD_ONE_) char: 1, char *: 1, const char *: 1, default: 0) \
                   || !__builtin_types_compatible_p(__typeof__(x), __typeof__((x) + 0)), FBD_NO_VALUE_(#x))
#define FBD_IS_PLACE(p) _Static_assert(FBD_POINTED_(p) != 0, FBD_NO_PLACE_(#p))

/* An array with its own extents. */
#define FBD_WHOLE(a) \
    ((fbd_local){ .fbd_dtype = (fb_dtype)FBD_TYPE_(a), .fbd_order = FB_ROW_MAJOR, .fbd_ndim = FBD_NDIM_(a), .fbd_room = sizeof(a), \
                  .fbd_is_const = FBD_IS_CONST_(a), \
                  .fbd_data = (void *)(a), .fbd_shape = FBD_EXTENTS_(a) })
/* An array or pointer with extents that are given. */
#define FBD_COUNTED(p, which, ...) \
    ((fbd_local){ .fbd_dtype = (fb_dtype)FBD_TYPE_(p), .fbd_order = which, .fbd_room = FBD_POINTS_(p) ? SIZE_MAX : sizeof(p), \
                  .fbd_is_const = FBD_IS_CONST_(p), \
                  .fbd_ndim = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), .fbd_data = (void *)(p), \
                  .fbd_shape = { __VA_ARGS__ } })
/* Extents alone. */
#define FBD_ROOM(code, which, ...) \
    ((fbd_local){ .fbd_dtype = code, .fbd_order = which, .fbd_room = SIZE_MAX, \
                  .fbd_ndim = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), .fbd_shape = { __VA_ARGS__ } })

static inline fb_arg fbd_scalar(fb_dtype dtype, const void *value)
{
    fb_arg arg = { .kind = FB_SCALAR, .direction = FB_IN, .dtype = dtype };
    memcpy(&arg.value, value, (size_t)fb_dtype_size(dtype));
    return arg;
}
#define FBD_VALUE_(name, type, code) \
    static inline fb_arg name(type value) { return fbd_scalar(code, &value); }
FBD_VALUE_(fbd_i8, signed char, FB_I8)
FBD_VALUE_(fbd_i16, short, FB_I16)
FBD_VALUE_(fbd_i32, int, FB_I32)
FBD_VALUE_(fbd_long, long, FBD_LONG_(I))
FBD_VALUE_(fbd_i64, long long, FB_I64)
FBD_VALUE_(fbd_u8, unsigned char, FB_U8)
FBD_VALUE_(fbd_u16, unsigned short, FB_U16)
FBD_VALUE_(fbd_u32, unsigned int, FB_U32)
FBD_VALUE_(fbd_ulong, unsigned long, FBD_LONG_(U))
FBD_VALUE_(fbd_u64, unsigned long long, FB_U64)
FBD_VALUE_(fbd_f32, float, FB_F32)
FBD_VALUE_(fbd_f64, double, FB_F64)
FBD_VALUE_(fbd_bool, _Bool, FB_BOOL)
FBD_VALUE_(fbd_c64, float _Complex, FB_C64)
FBD_VALUE_(fbd_c128, double _Complex, FB_C128)

static inline fb_arg fbd_text(const char *text)
{
    return FB_IN_STR(text);
}
/* A letter is a text of one character, which stands in the argument itself. */
static inline fb_arg fbd_letter(char letter)
{
    fb_arg arg = FB_IN_STR(0);
    memcpy(&arg.value, &letter, 1);
    return arg;
}
static inline fb_arg fbd_elements(const volatile void *data)
{
    return (fb_arg){ .kind = FB_ARRAY, .direction = FB_INOUT, .data = (void *)data };
}
static inline fb_arg fbd_arg(fb_arg arg, fbd_local local)
{
    if (arg.kind != FB_ARRAY) return arg;
    arg.dtype = local.fbd_dtype;
    arg.order = local.fbd_order;
    arg.ndim = local.fbd_ndim;
    if (local.fbd_is_const) arg.direction = FB_IN;
    memcpy(arg.shape, local.fbd_shape, sizeof arg.shape);
    return arg;
}
static inline fb_arg fbd_place(fb_dtype dtype, const volatile void *variable)
{
    return (fb_arg){ .kind = FB_SCALAR, .direction = FB_INOUT, .dtype = dtype, .data = (void *)variable };
}

#define FBD_MADE_(x) \
    _Generic((x), signed char: fbd_i8, short: fbd_i16, int: fbd_i32, long: fbd_long, long long: fbd_i64, \
             unsigned char: fbd_u8, unsigned short: fbd_u16, unsigned int: fbd_u32, unsigned long: fbd_ulong, \
             unsigned long long: fbd_u64, float: fbd_f32, double: fbd_f64, _Bool: fbd_bool, float _Complex: fbd_c64, \
             double _Complex: fbd_c128, char: fbd_letter, char *: fbd_text, const char *: fbd_text, default: fbd_elements)
#define FBD_TEXT(x) fbd_text(x)
/* A number, a text, or an array with its own extents, by the type of the expression. */
#define FBD_ARG(x) \
    fbd_arg(FBD_MADE_(x)(x), (fbd_local){ .fbd_dtype = (fb_dtype)FBD_TYPE_(FBD_DOWN_(x)), .fbd_ndim = FBD_NDIM_(FBD_DOWN_(x)), \
                                          .fbd_is_const = FBD_IS_CONST_(FBD_DOWN_(x)), \
                                          .fbd_shape = FBD_EXTENTS_(FBD_DOWN_(x)) })
/* An array or pointer with extents that are given. */
#define FBD_ARRAY(p, which, ...) fbd_arg(fbd_elements(p), FBD_COUNTED(p, which, __VA_ARGS__))
/* The variable of a number that comes back. */
#define FBD_PLACE(p) fbd_place((fb_dtype)FBD_POINTED_(p), p)

#endif /* FOREBAY_DIRECTIVES_C_H */
