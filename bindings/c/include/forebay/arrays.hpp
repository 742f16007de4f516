// Errors, types, shapes, arrays: what the other headers of forebay.hpp are written in.

#ifndef FOREBAY_ARRAYS_HPP
#define FOREBAY_ARRAYS_HPP

#include "../forebay.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace fb {

// --- errors --------------------------------------------------------------------------------

// What a function of the library refused or could not do. what() says what happened, the value, what to do.
class error : public std::runtime_error {
public:
    // For what a program refuses by itself, in the library's words.
    error(fb_status code, const std::string &text) : std::runtime_error(text), code_(code) {}
    // The code, the same in every language.
    fb_status code() const noexcept { return code_; }
    // The name of the code, such as "NotFound".
    const char *name() const noexcept { return fb_status_name(code_); }
    // What helps in general where what() names nothing better.
    const char *remedy() const noexcept { return fb_status_remedy(code_); }

private:
    fb_status code_;
};

// Throws unless all went well.
inline void check(fb_status status)
{
    if (status != FB_OK) throw error(status, fb_last_error());
}

// The version of the library, which may be newer than FB_VERSION, that of the header.
inline std::string version() { return fb_version(); }

// How many handles and pieces of memory the program has not given back.
inline std::int64_t in_use()
{
    std::int64_t count = 0;
    check(fb_in_use(&count));
    return count;
}

// Options of forebay.h with all defaults: auto opts = fb::defaults<fb_open_opts>(); opts.buffer = 1 << 30;
template <class Options>
Options defaults()
{
    Options opts = {};
    opts.size = sizeof opts;
    return opts;
}

// --- types and shapes ----------------------------------------------------------------------

// A number of half precision, by its bits.
struct f16 {
    // Sign, exponent and fraction, as IEEE 754 lays them out.
    std::uint16_t bits;
};

template <class T>
struct is_complex : std::false_type {};
template <class T>
struct is_complex<std::complex<T>> : std::bool_constant<std::is_same_v<T, float> || std::is_same_v<T, double>> {};

// Whether elements may be of this type.
template <class T>
inline constexpr bool is_element = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, f16> ||
                                   (std::is_integral_v<T> && sizeof(T) <= 8) || is_complex<T>::value;

// The type of elements.
template <class T>
constexpr fb_dtype dtype_of()
{
    static_assert(is_element<T>, "elements are integers, float, double, std::complex of these, fb::f16, or bool");
    if constexpr (std::is_same_v<T, bool>) return FB_BOOL;
    else if constexpr (std::is_same_v<T, f16>) return FB_F16;
    else if constexpr (is_complex<T>::value) return sizeof(T) == 8 ? FB_C64 : FB_C128;
    else if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? FB_F32 : FB_F64;
    else if constexpr (std::is_signed_v<T>)
        return sizeof(T) == 1 ? FB_I8 : sizeof(T) == 2 ? FB_I16 : sizeof(T) == 4 ? FB_I32 : FB_I64;
    else
        return sizeof(T) == 1 ? FB_U8 : sizeof(T) == 2 ? FB_U16 : sizeof(T) == 4 ? FB_U32 : FB_U64;
}

// One number for each axis: the extents of an array, { 64, 128 }, an offset in it, strides. { } is that of a scalar.
class shape {
public:
    shape() = default;
    // One number for each axis, written out.
    shape(std::initializer_list<std::int64_t> extents) : shape(extents.begin(), static_cast<int>(extents.size())) {}
    // The first `rank` numbers of an array.
    shape(const std::int64_t *extents, int rank) : rank_(rank)
    {
        if (rank < 0 || rank > FB_MAX_RANK)
            throw error(FB_BAD_ARGUMENT, "the rank " + std::to_string(rank) + " is not possible; an array has 0 to " +
                                             std::to_string(FB_MAX_RANK) + " dimensions");
        for (int axis = 0; axis < rank; ++axis) extents_[axis] = extents[axis];
    }
    // The number of axes.
    int rank() const noexcept { return rank_; }
    // The numbers, as forebay.h takes them.
    const std::int64_t *data() const noexcept { return extents_; }
    // The number of one axis.
    std::int64_t operator[](int axis) const noexcept { return extents_[axis]; }
    // The number of elements.
    std::int64_t size() const noexcept
    {
        std::int64_t n = 1;
        for (int axis = 0; axis < rank_; ++axis) n *= extents_[axis];
        return n;
    }
    friend bool operator==(const shape &a, const shape &b) noexcept
    {
        return a.rank_ == b.rank_ && std::equal(a.extents_, a.extents_ + a.rank_, b.extents_);
    }
    friend bool operator!=(const shape &a, const shape &b) noexcept { return !(a == b); }

private:
    std::int64_t extents_[FB_MAX_RANK] = {};
    int rank_ = 0;
};

namespace detail {

inline std::string text_of(const shape &extents)
{
    std::string text = "[";
    for (int axis = 0; axis < extents.rank(); ++axis) text += (axis > 0 ? ", " : "") + std::to_string(extents[axis]);
    return text + "]";
}

// Refuses what has not one number for each of `rank` axes.
inline void of_rank(const shape &given, int rank, const char *what)
{
    if (given.rank() != rank)
        throw error(FB_BAD_ARGUMENT, std::string(what) + " " + text_of(given) + " is of rank " +
                                         std::to_string(given.rank()) + " and the array of rank " + std::to_string(rank) +
                                         "; give one number for each axis");
}

// Bytes from an element to its neighbour along each axis, where elements lie together.
inline shape dense_strides(const shape &extents, std::int64_t item, bool first_fastest)
{
    std::int64_t strides[FB_MAX_RANK] = {};
    std::uint64_t next = static_cast<std::uint64_t>(item);
    bool few = first_fastest;
    for (int axis = 0; axis < extents.rank(); ++axis) few = few && extents[axis] <= 1;
    for (int i = 0; i < extents.rank(); ++i) {
        const int axis = first_fastest ? i : extents.rank() - 1 - i;
        strides[axis] = static_cast<std::int64_t>(next);
        // Nothing steps over the strides of at most one element; they tell its order.
        if (few)
            next *= 2;
        else if (extents[axis] > 1) next *= static_cast<std::uint64_t>(extents[axis]);
    }
    return shape(strides, extents.rank());
}

} // namespace detail

// --- arrays --------------------------------------------------------------------------------

// Elements that lie elsewhere, together and row-major, with their shape.
template <class T>
struct span {
    // The first element.
    T *data = nullptr;
    // Their shape.
    fb::shape extents;

    // For a loop over the elements.
    T *begin() const noexcept { return data; }
    // Behind the last one.
    T *end() const noexcept { return data + extents.size(); }
    // The number of elements.
    std::int64_t size() const noexcept { return extents.size(); }
    // The i-th element in memory.
    T &operator[](std::int64_t i) const noexcept { return data[i]; }
};

// Elements that lie elsewhere, in any order, together or apart. The interior of a field with a ghost cell on each side:
//
//     fb::view<double>(field, { nx + 2, ny + 2 }).part({ 1, 1 }, { nx, ny })
template <class T>
class view {
public:
    using value_type = std::remove_const_t<T>;
    static_assert(is_element<value_type>, "elements are integers, float, double, std::complex of these, fb::f16, or bool");

    // Together, row-major: the last index runs fastest.
    view(T *data, const shape &extents)
        : view(data, extents, detail::dense_strides(extents, static_cast<std::int64_t>(sizeof(T)), false))
    {
    }
    // With the bytes from an element to its neighbour along each axis, negative ones too.
    view(T *data, const shape &extents, const shape &strides) : data_(data), extents_(extents), strides_(strides)
    {
        detail::of_rank(strides, extents.rank(), "strides");
    }
    // What may be written may be read.
    template <class U, class = std::enable_if_t<std::is_same_v<const U, T> && !std::is_same_v<U, T>>>
    view(const view<U> &other) : data_(other.data()), extents_(other.extents()), strides_(other.strides())
    {
    }

    // The element whose indices are all 0.
    T *data() const noexcept { return data_; }
    // The number of elements along each axis.
    const shape &extents() const noexcept { return extents_; }
    // Bytes from an element to its neighbour along each axis.
    const shape &strides() const noexcept { return strides_; }
    // The number of axes.
    int rank() const noexcept { return extents_.rank(); }
    // The number of elements.
    std::int64_t size() const noexcept { return extents_.size(); }

    // One element: a(i, j). Indices are not checked.
    template <class... Index>
    T &operator()(Index... index) const noexcept
    {
        const std::int64_t at[] = { static_cast<std::int64_t>(index)..., 0 };
        std::int64_t bytes = 0;
        for (int axis = 0; axis < static_cast<int>(sizeof...(index)); ++axis) bytes += at[axis] * strides_[axis];
        return *shifted(bytes);
    }
    // From `offset` on, along each axis so many elements, every `step`-th.
    view part(const shape &offset, const shape &extents, const shape &step = {}) const
    {
        detail::of_rank(offset, rank(), "the offset");
        detail::of_rank(extents, rank(), "the shape of the part");
        if (step.rank() != 0) detail::of_rank(step, rank(), "the step");
        std::int64_t strides[FB_MAX_RANK] = {}, bytes = 0;
        for (int axis = 0; axis < rank(); ++axis) {
            const std::int64_t by = step.rank() == 0 ? 1 : step[axis];
            const std::int64_t last = offset[axis] + (extents[axis] - 1) * by;
            if (extents[axis] < 0 || by < 1 || offset[axis] < 0 || (extents[axis] > 0 && last >= extents_[axis]))
                throw error(FB_BAD_ARGUMENT, "the part " + detail::text_of(extents) + " at " + detail::text_of(offset) +
                                                 " is not within " + detail::text_of(extents_) + "; see axis " +
                                                 std::to_string(axis));
            strides[axis] = by * strides_[axis];
            if (extents[axis] > 0) bytes += offset[axis] * strides_[axis];
        }
        return view(shifted(bytes), extents, shape(strides, rank()));
    }

private:
    using byte = std::conditional_t<std::is_const_v<T>, const char, char>;
    T *shifted(std::int64_t bytes) const noexcept
    {
        return reinterpret_cast<T *>(reinterpret_cast<byte *>(data_) + bytes);
    }

    T *data_;
    fb::shape extents_, strides_;
};

// Elements that lie together, the first index running fastest.
template <class T>
view<T> column_major(T *data, const shape &extents)
{
    return { data, extents, detail::dense_strides(extents, static_cast<std::int64_t>(sizeof(T)), true) };
}

// An array that was read, row-major.
template <class T>
struct array {
    // The elements, the last index running fastest.
    std::vector<T> values;
    // Their shape.
    fb::shape extents;
};

namespace detail {

// A vector's elements with the shape they are meant to have.
template <class T>
span<const T> whole(const std::vector<T> &values, const shape &extents)
{
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> packs its elements; give a pointer to bool");
    if (extents.size() != static_cast<std::int64_t>(values.size()))
        throw error(FB_BAD_ARGUMENT, "a vector of " + std::to_string(values.size()) + " elements was given for " +
                                         std::to_string(extents.size()) + "; give the shape it has");
    return { values.data(), extents };
}

template <class T>
shape line(const std::vector<T> &values)
{
    return { static_cast<std::int64_t>(values.size()) };
}

// Memory that the library allocated.
template <class T>
struct given {
    T *data = nullptr;
    std::int64_t count = 0;
    given() = default;
    given(const given &) = delete;
    given &operator=(const given &) = delete;
    ~given() { fb_free(data); }
};

// What a function lists, in a vector of its own.
template <class To, class From, class Function>
std::vector<To> listed(Function &&list)
{
    given<From> found;
    check(list(&found.data, &found.count));
    return std::vector<To>(found.data, found.data + found.count);
}

// A text that a function gives.
template <class Function>
std::string text(Function &&give)
{
    given<char> found;
    check(give(&found.data));
    return found.data == nullptr ? "" : found.data;
}

// An array of the library's, over elements that lie elsewhere.
struct described {
    fb::shape extents, strides;
    fb_array array = {};

    template <class T>
    described(const T *data, const fb::shape &given) : described(data, given, dtype_of<T>())
    {
    }
    described(const void *data, const fb::shape &given, fb_dtype dtype) : extents(given)
    {
        array.dtype = dtype;
        array.ndim = extents.rank();
        array.shape = extents.data();
        array.data = const_cast<void *>(data);
    }
    template <class T>
    explicit described(const view<T> &from) : described(from.data(), from.extents())
    {
        strides = from.strides();
        array.strides = strides.data();
    }
    described(const described &) = delete;
    described &operator=(const described &) = delete;
};

// Elements of the caller's that a list holds: where they lie, and of what type they are.
struct lying {
    fb_dtype dtype = {};
    fb::shape extents, strides;
    void *data = nullptr;

    lying() = default;
    template <class T>
    lying(const view<T> &from)
        : dtype(dtype_of<std::remove_const_t<T>>()), extents(from.extents()), strides(from.strides()),
          data(const_cast<std::remove_const_t<T> *>(from.data()))
    {
    }
    // For a function of forebay.h, which looks at it where it lies here.
    fb_array array() const
    {
        fb_array made = {};
        made.dtype = dtype;
        made.ndim = extents.rank();
        made.shape = extents.data();
        made.strides = strides.data();
        made.data = data;
        return made;
    }
};

// A number for each axis of a mesh, or none.
inline const double *of_each_axis(const std::vector<double> &numbers, int rank, const char *what)
{
    if (numbers.empty()) return nullptr;
    if (numbers.size() != static_cast<std::size_t>(rank))
        throw error(FB_BAD_ARGUMENT, std::string(what) + " has " + std::to_string(numbers.size()) +
                                         " numbers, and the mesh has " + std::to_string(rank) + " axes; give one for each");
    return numbers.data();
}

// What is being thrown by a function of the program that the library has called, as its failure.
inline fb_status fail() noexcept
{
    try {
        throw;
    } catch (const error &e) {
        return fb_fail(e.code(), e.what());
    } catch (const std::exception &e) {
        return fb_fail(FB_REMOTE_ERROR, e.what());
    } catch (...) {
        return fb_fail(FB_REMOTE_ERROR, "the function threw what is no std::exception");
    }
}

template <class Handle, fb_status (*Free)(Handle *)>
struct freer {
    void operator()(Handle *handle) const noexcept { Free(handle); }
};

// A handle with one owner. `Gone` says what became of it where it is not here any more.
template <class Handle, fb_status (*Free)(Handle *), const char *Gone>
class owned {
public:
    owned() = default;
    explicit owned(Handle *handle) noexcept : handle_(handle) {}
    // NULL where it is not here any more.
    Handle *get() const noexcept { return handle_.get(); }
    // For a function that needs it.
    Handle *open() const
    {
        if (!handle_) throw error(FB_CLOSED, Gone);
        return handle_.get();
    }
    void reset(Handle *handle) noexcept { handle_.reset(handle); }
    Handle *release() noexcept { return handle_.release(); }

private:
    std::unique_ptr<Handle, freer<Handle, Free>> handle_;
};

template <class T, class Read>
array<T> read(const shape &extents, Read &&into)
{
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> packs its elements; read into memory of your own");
    array<T> found{ {}, extents };
    found.values.resize(static_cast<std::size_t>(extents.size()));
    into(view<T>(found.values.data(), extents));
    return found;
}

template <class T, class Read>
array<T> read(const fb_info &info, Read &&into)
{
    return read<T>(shape(info.shape, info.ndim), std::forward<Read>(into));
}

// A part that a read picks: where it begins, and every how many-th element.
struct picked {
    picked(const shape &offset, const shape &step, int rank) : offset_(offset), step_(step)
    {
        of_rank(offset, rank, "the offset");
        if (step.rank() != 0) of_rank(step, rank, "the step");
    }
    const std::int64_t *offset() const noexcept { return offset_.data(); }
    const std::int64_t *step() const noexcept { return step_.rank() == 0 ? nullptr : step_.data(); }

private:
    shape offset_, step_;
};

// Gives memory of the library back.
struct let_go {
    void operator()(void *memory) const noexcept { fb_free(memory); }
};

} // namespace detail

// An array of a run as memory that is read when it is touched, until this goes. Elements as those of a view: a(i, j).
template <class T>
class mapped_array : public view<const T> {
public:
    // What fb_map or fb_snapshot_map has given.
    explicit mapped_array(const fb_array &array)
        : view<const T>(array.strides == nullptr
                            ? view<const T>(static_cast<const T *>(array.data), shape(array.shape, array.ndim))
                            : view<const T>(static_cast<const T *>(array.data), shape(array.shape, array.ndim),
                                            shape(array.strides, array.ndim))),
          memory_(array.data)
    {
    }

private:
    std::unique_ptr<void, detail::let_go> memory_;
};

} // namespace fb

#endif // FOREBAY_ARRAYS_HPP
