// Arguments of calls and of questions in SQL, and arrays that a server holds.

#ifndef FOREBAY_ARGUMENTS_HPP
#define FOREBAY_ARGUMENTS_HPP

#include "arrays.hpp"

#include <cstring>

namespace fb {

// An array that a server holds; it ends when this goes.
class reference {
public:
    explicit reference(fb_ref *handle) : handle_(handle) {}
    fb_ref *get() const noexcept { return handle_.get(); }
    // Type and shape of the array.
    fb_info info() const
    {
        fb_info about;
        check(fb_ref_info(handle_.open(), &about));
        return about;
    }
    // Name of the server that holds it.
    std::string server() const
    {
        return detail::text([&](char **name) { return fb_ref_server(handle_.open(), name, nullptr); });
    }
    // Pid of the server that holds it.
    std::uint32_t server_pid() const
    {
        std::uint32_t pid = 0;
        check(fb_ref_server(handle_.open(), nullptr, &pid));
        return pid;
    }

    // Writes the whole array.
    template <class T>
    void put(const view<T> &from)
    {
        const detail::described array(from);
        check(fb_ref_put(handle_.open(), &array.array));
    }
    template <class T>
    void put(const std::vector<T> &values)
    {
        const shape extents = of_type<T>();
        put(view<const T>(detail::whole(values, extents).data, extents));
    }
    // Writes a part: from `offset` on, along each axis as many elements as there are in `from`, every `step`-th.
    template <class T>
    void put_part(const shape &offset, const view<T> &from, const shape &step = {})
    {
        const detail::picked part(offset, step, from.rank());
        const detail::described array(from);
        check(fb_ref_put_part(handle_.open(), part.offset(), part.step(), &array.array));
    }
    // Into elements that lie anywhere: type and shape must be those of the array.
    template <class T>
    void read(const view<T> &to) const
    {
        const detail::described array(to);
        check(fb_ref_get(handle_.open(), &array.array));
    }
    // The whole array, row-major.
    template <class T>
    array<T> read() const
    {
        return detail::read<T>(of_type<T>(), [&](const view<T> &to) { read(to); });
    }
    // A part: from `offset` on, along each axis as many elements as there are in `to`, every `step`-th.
    template <class T>
    void read_part(const shape &offset, const view<T> &to, const shape &step = {}) const
    {
        const detail::picked part(offset, step, to.rank());
        const detail::described array(to);
        check(fb_ref_get_part(handle_.open(), part.offset(), part.step(), &array.array));
    }
    // A part of shape `extents`, row-major.
    template <class T>
    array<T> read_part(const shape &offset, const shape &extents, const shape &step = {}) const
    {
        return detail::read<T>(extents, [&](const view<T> &to) { read_part(offset, to, step); });
    }

private:
    friend fb_arg in(const reference &held);

    template <class T>
    shape of_type() const
    {
        const fb_info about = info();
        if (about.dtype != dtype_of<T>()) throw error(FB_BAD_ARGUMENT, "the array on the server has another type of elements");
        return { about.shape, about.ndim };
    }

    static constexpr char gone[] = "the reference was moved to another variable; use that one";
    detail::owned<fb_ref, fb_ref_kill, gone> handle_;
};

// A number, a text, a vector or a view goes as it stands; what comes back is said by out and inout. What forebay.h
// makes, FB_IN_BYTES(pointer, count) for instance, goes too.
template <class T, class = std::enable_if_t<is_element<T>>>
fb_arg in(T value)
{
    fb_arg arg = fb_arg_of(FB_SCALAR, FB_IN, dtype_of<T>(), nullptr);
    static_assert(sizeof value <= sizeof arg.value);
    std::memcpy(&arg.value, &value, sizeof value);
    return arg;
}
inline fb_arg in(const char *text) { return FB_IN_STR(text); }
inline fb_arg in(const std::string &text) { return FB_IN_STR(text.c_str()); }
inline fb_arg in(const reference &held) { return FB_REF(held.handle_.open()); }
inline fb_arg in(const fb_arg &arg) { return arg; }
// The path of a file that goes.
inline fb_arg in_file(const char *path) { return FB_IN_FILE(path); }
inline fb_arg in_file(const std::string &path) { return FB_IN_FILE(path.c_str()); }
// The path that a file gets which comes back.
inline fb_arg out_file(const char *path) { return FB_OUT_FILE(path); }
inline fb_arg out_file(const std::string &path) { return FB_OUT_FILE(path.c_str()); }

namespace detail {

template <class T>
fb_arg array_arg(int direction, const T *data, const shape &extents)
{
    fb_arg arg = fb_arg_of(FB_ARRAY, direction, dtype_of<T>(), data);
    arg.ndim = extents.rank();
    for (int axis = 0; axis < extents.rank(); ++axis) arg.shape[axis] = extents[axis];
    return arg;
}
template <class T>
fb_arg array_arg(int direction, const view<T> &array)
{
    fb_arg arg = array_arg(direction, array.data(), array.extents());
    for (int axis = 0; axis < array.rank(); ++axis) arg.strides[axis] = array.strides()[axis];
    return arg;
}

} // namespace detail

// An array that goes.
template <class T>
fb_arg in(const view<T> &array)
{
    return detail::array_arg(FB_IN, array);
}
template <class T>
fb_arg in(const T *data, const shape &extents)
{
    return detail::array_arg(FB_IN, data, extents);
}
template <class T>
fb_arg in(const std::vector<T> &values)
{
    return in(values.data(), detail::line(values));
}
template <class T>
fb_arg in(const std::vector<T> &values, const shape &extents)
{
    return in(detail::whole(values, extents).data, extents);
}
// An array that comes back, in place.
template <class T>
fb_arg out(const view<T> &array)
{
    static_assert(!std::is_const_v<T>, "what comes back is written: give a view of elements that are not const");
    return detail::array_arg(FB_OUT, array);
}
template <class T>
fb_arg out(T *data, const shape &extents)
{
    return detail::array_arg(FB_OUT, data, extents);
}
template <class T>
fb_arg out(std::vector<T> &values)
{
    return out(values.data(), detail::line(values));
}
template <class T>
fb_arg out(std::vector<T> &values, const shape &extents)
{
    (void)detail::whole(values, extents);
    return out(values.data(), extents);
}
// A number that comes back.
template <class T, class = std::enable_if_t<is_element<T>>>
fb_arg out(T &value)
{
    return fb_arg_of(FB_SCALAR, FB_OUT, dtype_of<T>(), &value);
}
// A text that comes back, with the room for it, the zero at its end included.
inline fb_arg out(char *text, std::size_t room) { return FB_OUT_STR(text, static_cast<std::int64_t>(room)); }
// An array that goes and comes back, in place.
template <class T>
fb_arg inout(const view<T> &array)
{
    static_assert(!std::is_const_v<T>, "what comes back is written: give a view of elements that are not const");
    return detail::array_arg(FB_INOUT, array);
}
template <class T>
fb_arg inout(T *data, const shape &extents)
{
    return detail::array_arg(FB_INOUT, data, extents);
}
template <class T>
fb_arg inout(std::vector<T> &values)
{
    return inout(values.data(), detail::line(values));
}
template <class T>
fb_arg inout(std::vector<T> &values, const shape &extents)
{
    (void)detail::whole(values, extents);
    return inout(values.data(), extents);
}
// A number that goes and comes back.
template <class T, class = std::enable_if_t<is_element<T>>>
fb_arg inout(T &value)
{
    return fb_arg_of(FB_SCALAR, FB_INOUT, dtype_of<T>(), &value);
}

namespace detail {

// The arguments of one call. What they point to must live as long as the call.
template <class... Args>
class arguments {
public:
    explicit arguments(const Args &...args) : all_{ in(args)..., fb_arg() } {}
    const fb_arg *data() const noexcept { return all_; }
    int size() const noexcept { return static_cast<int>(sizeof...(Args)); }

private:
    fb_arg all_[sizeof...(Args) + 1];
};

} // namespace detail

} // namespace fb

#endif // FOREBAY_ARGUMENTS_HPP
