/* Of directives.h, what C++ (from C++11 on) needs: types and extents of what a directive names, which the compiler knows.
   The names are those of directives_c.h; vectors, and whatever else has data() and size(), go as arrays do. */

#ifndef FOREBAY_DIRECTIVES_CXX_H
#define FOREBAY_DIRECTIVES_CXX_H

#include <complex>
#include <string>
#include <type_traits>

namespace fbd {

template <class T>
struct bare : std::remove_cv<typename std::remove_reference<T>::type> {};

// The dtype of an element; 0: it is none.
template <class T>
struct code {
    static constexpr int real = std::is_floating_point<T>::value ? (sizeof(T) == 4 ? FB_F32 : sizeof(T) == 8 ? FB_F64 : 0) : 0;
    static constexpr int with_sign = sizeof(T) == 1 ? FB_I8 : sizeof(T) == 2 ? FB_I16 : sizeof(T) == 4 ? FB_I32 : FB_I64;
    static constexpr int without = sizeof(T) == 1 ? FB_U8 : sizeof(T) == 2 ? FB_U16 : sizeof(T) == 4 ? FB_U32 : FB_U64;
    static constexpr bool is_whole = std::is_integral<T>::value && sizeof(T) <= 8;
    static constexpr int value = is_whole ? (std::is_signed<T>::value ? with_sign : without) : real;
};
template <>
struct code<bool> {
    static constexpr int value = FB_BOOL;
};
template <>
struct code<char> {
    static constexpr int value = 0;
};
template <>
struct code<std::complex<float>> {
    static constexpr int value = FB_C64;
};
template <>
struct code<std::complex<double>> {
    static constexpr int value = FB_C128;
};

// What stands behind all brackets of an array, pointer or container.
template <class T, class = void>
struct element {
    using type = typename std::remove_cv<typename std::remove_all_extents<T>::type>::type;
};
template <class T>
struct element<T *> : element<typename std::remove_all_extents<T>::type> {};
template <class T>
struct element<T *const> : element<T *> {};
template <class T>
struct element<T, decltype(static_cast<void>(std::declval<T &>().data()), static_cast<void>(std::declval<T &>().size()))>
    : bare<decltype(*std::declval<T &>().data())> {};

template <class T>
struct is_array : std::integral_constant<bool, !std::is_arithmetic<T>::value && !std::is_same<T, typename element<T>::type>::value> {};
template <class T>
struct is_text : std::is_same<typename element<T>::type, char> {};

// The extents of an array of C, from outside in.
template <class T>
struct extents {
    static void of(fbd_local &) {}
};
template <class T, std::size_t N>
struct extents<T[N]> {
    static void of(fbd_local &local)
    {
        if (local.fbd_ndim < FB_MAX_RANK) local.fbd_shape[local.fbd_ndim] = static_cast<int64_t>(N);
        local.fbd_ndim++;
        extents<T>::of(local);
    }
};

inline fbd_local fbd_nothing(int dtype, fb_order order)
{
    fbd_local local = fbd_local();
    local.fbd_dtype = static_cast<fb_dtype>(dtype);
    local.fbd_order = order;
    local.fbd_room = SIZE_MAX;
    return local;
}
template <class T, std::size_t N>
fbd_local fbd_whole(T (&array)[N])
{
    fbd_local local = fbd_nothing(code<typename element<T[N]>::type>::value, FB_ROW_MAJOR);
    local.fbd_room = sizeof array;
    local.fbd_is_const = std::is_const<typename std::remove_all_extents<T>::type>::value;
    local.fbd_data = const_cast<void *>(static_cast<const volatile void *>(array));
    extents<typename std::remove_cv<T>::type[N]>::of(local);
    return local;
}
template <class C>
auto fbd_whole(C &held) -> decltype(static_cast<void>(held.data()), static_cast<void>(held.size()), fbd_local())
{
    fbd_local local = fbd_nothing(code<typename element<typename bare<C>::type>::type>::value, FB_ROW_MAJOR);
    local.fbd_room = held.size() * sizeof *held.data();
    local.fbd_is_const = std::is_const<typename std::remove_reference<decltype(*held.data())>::type>::value;
    local.fbd_data = const_cast<void *>(static_cast<const volatile void *>(held.data()));
    local.fbd_ndim = 1;
    local.fbd_shape[0] = static_cast<int64_t>(held.size());
    return local;
}
template <class T>
fbd_local pointed(T *pointer)
{
    fbd_local local = fbd_nothing(code<typename element<T *>::type>::value, FB_ROW_MAJOR);
    local.fbd_is_const = std::is_const<typename std::remove_all_extents<T>::type>::value;
    local.fbd_data = const_cast<void *>(static_cast<const volatile void *>(pointer));
    return local;
}
// Whatever it is: its own extents are given up for others.
template <class T, class = typename std::enable_if<!std::is_pointer<typename bare<T>::type>::value>::type>
fbd_local fbd_somewhere(T &array)
{
    return fbd_whole(array);
}
template <class T>
fbd_local fbd_somewhere(T *const &pointer)
{
    return pointed(pointer);
}
template <class... Extents>
fbd_local fbd_counted(fbd_local local, fb_order order, Extents... given)
{
    const int64_t all[] = { static_cast<int64_t>(given)... };
    local.fbd_order = order;
    local.fbd_ndim = static_cast<int>(sizeof...(given));
    for (int axis = 0; axis < local.fbd_ndim && axis < FB_MAX_RANK; ++axis) local.fbd_shape[axis] = all[axis];
    return local;
}

inline fb_arg fbd_as_arg(const fbd_local &local)
{
    fb_arg arg = fb_arg_of(FB_ARRAY, local.fbd_is_const ? FB_IN : FB_INOUT, local.fbd_dtype, local.fbd_data);
    arg.order = local.fbd_order;
    arg.ndim = local.fbd_ndim;
    for (int axis = 0; axis < local.fbd_ndim && axis < FB_MAX_RANK; ++axis) arg.shape[axis] = local.fbd_shape[axis];
    return arg;
}
template <class T>
typename std::enable_if<code<T>::value != 0, fb_arg>::type fbd_arg(const T &value)
{
    fb_arg made = fb_arg_of(FB_SCALAR, FB_IN, static_cast<fb_dtype>(code<T>::value), 0);
    memcpy(&made.value, &value, sizeof value);
    return made;
}
template <class T>
typename std::enable_if<std::is_enum<T>::value, fb_arg>::type fbd_arg(const T &value)
{
    return fbd_arg(static_cast<typename std::underlying_type<T>::type>(value));
}
// A letter is a text of one character, which stands in the argument itself.
inline fb_arg fbd_arg(char letter)
{
    fb_arg made = FB_IN_STR(0);
    memcpy(&made.value, &letter, 1);
    return made;
}
inline fb_arg fbd_arg(const char *text) { return FB_IN_STR(text); }
inline fb_arg fbd_arg(const std::string &text) { return FB_IN_STR(text.c_str()); }
template <class T>
typename std::enable_if<is_array<typename bare<T>::type>::value && !is_text<typename bare<T>::type>::value
                            && !std::is_pointer<typename bare<T>::type>::value,
                        fb_arg>::type
fbd_arg(T &array)
{
    return fbd_as_arg(fbd_whole(array));
}
template <class T>
fb_arg fbd_place(T *variable)
{
    return fb_arg_of(FB_SCALAR, FB_INOUT, static_cast<fb_dtype>(code<typename std::remove_cv<T>::type>::value), variable);
}

// What the macros below ask of a type. They are read where the program has macros of its own, which may be called `value`.
template <class T>
constexpr bool fbd_travels()
{
    return code<typename element<typename bare<T>::type>::type>::value != 0;
}
template <class T>
constexpr bool fbd_points()
{
    return std::is_pointer<typename bare<T>::type>::value;
}
// Whether all elements lie one behind the other: no pointers to rows, and no pointer to rows.
template <class T>
struct flat : std::integral_constant<bool, !std::is_pointer<typename std::remove_all_extents<T>::type>::value> {};
template <class T>
struct flat<T *> : std::integral_constant<bool, !std::is_pointer<T>::value && !std::is_array<T>::value> {};
template <class T>
constexpr bool fbd_is_flat()
{
    return flat<typename bare<T>::type>::value;
}
template <class T>
constexpr bool fbd_is_value()
{
    return !fbd_points<T>() || is_text<typename bare<T>::type>::value;
}

} // namespace fbd

#define FBD_IS_WHOLE(a) static_assert(!fbd::fbd_points<decltype(a)>(), FBD_NO_EXTENTS_(#a)); FBD_TRAVELS(a)
#define FBD_TRAVELS(a) \
    static_assert(fbd::fbd_travels<decltype(a)>(), FBD_NO_ELEMENTS_(#a)); \
    static_assert(fbd::fbd_is_flat<decltype(a)>(), FBD_NO_ROWS_(#a))
#define FBD_IS_VALUE(x) \
    static_assert(fbd::fbd_is_value<decltype(x)>(), FBD_NO_VALUE_(#x)); \
    static_assert(fbd::fbd_is_flat<decltype(x)>(), FBD_NO_ROWS_(#x))
#define FBD_IS_PLACE(p) static_assert(fbd::fbd_travels<decltype(p)>(), FBD_NO_PLACE_(#p))
#define FBD_WHOLE(a) fbd::fbd_whole(a)
#define FBD_COUNTED(p, which, ...) fbd::fbd_counted(fbd::fbd_somewhere(p), which, __VA_ARGS__)
#define FBD_ROOM(code, which, ...) fbd::fbd_counted(fbd::fbd_nothing(code, which), which, __VA_ARGS__)
#define FBD_ARG(x) fbd::fbd_arg(x)
#define FBD_TEXT(x) fbd::fbd_arg(x)
#define FBD_ARRAY(p, which, ...) fbd::fbd_as_arg(FBD_COUNTED(p, which, __VA_ARGS__))
#define FBD_PLACE(p) fbd::fbd_place(p)

#endif /* FOREBAY_DIRECTIVES_CXX_H */
