// forebay.hpp: forebay.h for C++17. Handles own what they hold, failures are exceptions, arrays are vectors or
// pointers with a shape. Nothing is hidden: get() of each gives the handle for the functions of forebay.h, and
// fb::check makes their failures exceptions too. Link with -lforebay (pkg-config forebay).
//
//     fb::run run("two_stream");
//     for (std::int64_t step : run.steps(100)) {
//         fb::snapshot snapshot = run.snapshot(step, 0.1 * step);
//         snapshot.put("E", field);
//         snapshot.end();                       // an exception before it discards the snapshot
//     }
//     run.close();

#ifndef FOREBAY_HPP
#define FOREBAY_HPP

#if __cplusplus < 201703L
#error "forebay.hpp needs C++17: compile with -std=c++17 or later, or use forebay.h"
#endif

#include "forebay.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
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
    error(fb_status code, const std::string &text) : std::runtime_error(text), code_(code) {}
    fb_status code() const noexcept { return code_; }

private:
    fb_status code_;
};

// Throws unless all went well.
inline void check(fb_status status)
{
    if (status != FB_OK) throw error(status, fb_last_error());
}

// --- types and shapes ----------------------------------------------------------------------

template <class T>
struct is_complex : std::false_type {};
template <class T>
struct is_complex<std::complex<T>> : std::bool_constant<std::is_same_v<T, float> || std::is_same_v<T, double>> {};

template <class T>
inline constexpr bool is_element =
    std::is_same_v<T, float> || std::is_same_v<T, double> || (std::is_integral_v<T> && sizeof(T) <= 8) || is_complex<T>::value;

// The type of elements.
template <class T>
constexpr fb_dtype dtype_of()
{
    static_assert(is_element<T>, "elements are integers, float, double, std::complex of these, or bool");
    if constexpr (std::is_same_v<T, bool>) return FB_BOOL;
    else if constexpr (is_complex<T>::value) return sizeof(T) == 8 ? FB_C64 : FB_C128;
    else if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? FB_F32 : FB_F64;
    else if constexpr (std::is_signed_v<T>)
        return sizeof(T) == 1 ? FB_I8 : sizeof(T) == 2 ? FB_I16 : sizeof(T) == 4 ? FB_I32 : FB_I64;
    else
        return sizeof(T) == 1 ? FB_U8 : sizeof(T) == 2 ? FB_U16 : sizeof(T) == 4 ? FB_U32 : FB_U64;
}

// The extents of an array: { 64, 128 }; { } is a scalar.
class shape {
public:
    shape() = default;
    shape(std::initializer_list<std::int64_t> extents) : shape(extents.begin(), static_cast<int>(extents.size())) {}
    shape(const std::int64_t *extents, int rank) : rank_(rank)
    {
        if (rank < 0 || rank > FB_MAX_RANK)
            throw error(FB_BAD_ARGUMENT, "the rank " + std::to_string(rank) + " is not possible; an array has 0 to " +
                                             std::to_string(FB_MAX_RANK) + " dimensions");
        for (int axis = 0; axis < rank; ++axis) extents_[axis] = extents[axis];
    }
    int rank() const noexcept { return rank_; }
    const std::int64_t *data() const noexcept { return extents_; }
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

// Elements that lie elsewhere, row-major, with their shape.
template <class T>
struct span {
    T *data = nullptr;
    fb::shape extents;

    T *begin() const noexcept { return data; }
    T *end() const noexcept { return data + extents.size(); }
    std::int64_t size() const noexcept { return extents.size(); }
    T &operator[](std::int64_t i) const noexcept { return data[i]; }
};

// A place in the buffer of a snapshot, row-major. It is empty as soon as that snapshot has ended, was discarded or is gone:
// the memory is the library's again. A loop over many elements takes data() once.
template <class T>
class allocated {
public:
    allocated() = default;
    allocated(T *data, const fb::shape &extents, std::weak_ptr<const void> snapshot)
        : data_(data), extents_(extents), snapshot_(std::move(snapshot))
    {
    }
    // NULL when it is empty.
    T *data() const noexcept { return snapshot_.expired() ? nullptr : data_; }
    explicit operator bool() const noexcept { return !snapshot_.expired(); }
    std::int64_t size() const noexcept { return *this ? extents_.size() : 0; }
    const fb::shape &extents() const noexcept { return extents_; }
    T *begin() const noexcept { return data(); }
    T *end() const noexcept { return data() + size(); }
    T &operator[](std::int64_t i) const
    {
        if (!*this) throw error(FB_CLOSED, "the snapshot that this place is of has ended; allocate one in the next snapshot");
        return data_[i];
    }

private:
    T *data_ = nullptr;
    fb::shape extents_;
    std::weak_ptr<const void> snapshot_;
};

// An array that was read, row-major.
template <class T>
struct array {
    std::vector<T> values;
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

// An array of the library's, over elements that lie together, row-major.
struct described {
    fb::shape extents;
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
    described(const described &) = delete;
    described &operator=(const described &) = delete;
};

template <class Handle, fb_status (*Free)(Handle *)>
struct freer {
    void operator()(Handle *handle) const noexcept { Free(handle); }
};

// A handle with one owner.
template <class Handle, fb_status (*Free)(Handle *)>
using owned = std::unique_ptr<Handle, freer<Handle, Free>>;

template <class T, class Read>
array<T> read(const fb_info &info, Read &&into)
{
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> packs its elements; read into memory of your own");
    array<T> found{ {}, shape(info.shape, info.ndim) };
    found.values.resize(static_cast<std::size_t>(found.extents.size()));
    into(found.values.data(), found.extents);
    return found;
}

} // namespace detail

// --- runs ----------------------------------------------------------------------------------

// A complete snapshot, read.
class stored {
public:
    explicit stored(fb_snapshot *handle) : handle_(handle) {}
    fb_snapshot *get() const noexcept { return handle_.get(); }

    fb_step_info info() const
    {
        fb_step_info about = {};
        about.size = sizeof about;
        check(fb_snapshot_step(get(), &about));
        return about;
    }
    std::int64_t step() const { return info().step; }
    // NaN when none was given.
    double time() const { return info().time; }
    // The damaged snapshots that a restart passed over to come to this one.
    std::vector<std::int64_t> passed() const
    {
        detail::given<std::int64_t> found;
        check(fb_snapshot_passed(get(), &found.data, &found.count));
        return std::vector<std::int64_t>(found.data, found.data + found.count);
    }
    std::vector<std::string> names() const
    {
        detail::given<char *> found;
        check(fb_snapshot_names(get(), &found.data, &found.count));
        return std::vector<std::string>(found.data, found.data + found.count);
    }
    fb_info info(const char *name) const
    {
        fb_info about;
        check(fb_snapshot_info(get(), name, &about));
        return about;
    }
    template <class T>
    void read(const char *name, T *data, const shape &extents) const
    {
        const detail::described to(data, extents);
        check(fb_snapshot_get(get(), name, &to.array));
    }
    template <class T>
    array<T> read(const char *name) const
    {
        return detail::read<T>(info(name), [&](T *data, const shape &extents) { read(name, data, extents); });
    }

private:
    detail::owned<fb_snapshot, fb_snapshot_free> handle_;
};

// A snapshot being taken. What is not ended when it goes, for an exception perhaps, is discarded.
class snapshot {
public:
    explicit snapshot(fb_snapshot *handle) : handle_(handle) {}
    fb_snapshot *get() const noexcept { return handle_.get(); }

    // The whole array, of one rank.
    template <class T>
    void put(const char *name, const T *data, const shape &extents, const char *units = nullptr)
    {
        put_at(name, data, extents, nullptr, nullptr, units);
    }
    template <class T>
    void put(const char *name, const std::vector<T> &values, const char *units = nullptr)
    {
        put(name, values, detail::line(values), units);
    }
    template <class T>
    void put(const char *name, const std::vector<T> &values, const shape &extents, const char *units = nullptr)
    {
        put(name, detail::whole(values, extents).data, extents, units);
    }
    // This rank's block of an array of shape `global`.
    template <class T>
    void put_block(const char *name, const T *data, const shape &local, const shape &offset, const shape &global,
                   const char *units = nullptr)
    {
        if (offset.rank() != local.rank() || global.rank() != local.rank())
            throw error(FB_BAD_ARGUMENT, "local shape, offset and global shape are of different rank; give one of each axis");
        put_at(name, data, local, offset.data(), global.data(), units);
    }
    // Behind the arrays of lower ranks, along axis 0.
    template <class T>
    void append(const char *name, const T *data, const shape &extents, const char *units = nullptr)
    {
        put_at(name, data, extents, FB_APPEND, nullptr, units);
    }
    template <class T>
    void append(const char *name, const std::vector<T> &values, const char *units = nullptr)
    {
        append(name, values.data(), detail::line(values), units);
    }
    // A place in the buffer, to be filled before the end: nothing is copied then. It is empty behind end() and discard().
    template <class T>
    allocated<T> allocate(const char *name, const shape &extents, const char *units = nullptr)
    {
        detail::described place(static_cast<const T *>(nullptr), extents);
        const fb_piece_opts opts = options(units);
        check(fb_snapshot_allocate(get(), name, &place.array, nullptr, nullptr, &opts));
        if (!open_) open_ = std::make_shared<char>();
        return { static_cast<T *>(place.array.data), extents, open_ };
    }

    // Whether it is taken: not when this state is kept already, by Save or since the run went back to it. Then nothing is done.
    bool taken() const
    {
        int taken = 0;
        check(fb_snapshot_taken(get(), &taken));
        return taken != 0;
    }
    // Buffered when it returns: it survives the death of this process.
    void end()
    {
        open_.reset();
        check(fb_snapshot_end(get()));
    }
    void discard()
    {
        open_.reset();
        check(fb_snapshot_discard(get()));
    }
    // Waits until it is durable on all ranks; an error of code FB_TIMEOUT when that takes longer.
    void wait(double timeout = FB_FOREVER) { check(fb_snapshot_wait(get(), timeout)); }

private:
    static fb_piece_opts options(const char *units)
    {
        fb_piece_opts opts = {};
        opts.size = sizeof opts;
        opts.units = units;
        return opts;
    }
    template <class T>
    void put_at(const char *name, const T *data, const shape &local, const std::int64_t *offset, const std::int64_t *global,
                const char *units)
    {
        const fb_piece_opts opts = options(units);
        const detail::described from(data, local);
        check(fb_snapshot_put_with(get(), name, &from.array, offset, global, &opts));
    }

    detail::owned<fb_snapshot, fb_snapshot_free> handle_;
    // Lives while what was allocated may be written.
    std::shared_ptr<const void> open_;
};

// The loop head: for (std::int64_t step : run.steps(100)).
class steps {
public:
    class iterator {
    public:
        std::int64_t operator*() const noexcept { return step_; }
        iterator &operator++()
        {
            const int more = fb_step(run_, &step_, end_);
            if (more < 0) check(static_cast<fb_status>(-more));
            if (more == 0) run_ = nullptr;
            return *this;
        }
        bool operator!=(const iterator &other) const noexcept { return run_ != other.run_; }

    private:
        friend class steps;
        fb_run *run_ = nullptr;
        std::int64_t step_ = 0, end_ = 0;
    };

    steps(fb_run *run, std::int64_t n, std::int64_t start, std::int64_t stride)
        : run_(run), start_(start), end_(n), stride_(stride)
    {
    }
    steps(fb_run *run, std::int64_t n, const fb_snapshot *from, std::int64_t stride)
        : run_(run), from_(from), end_(n), stride_(stride)
    {
    }
    iterator begin() const
    {
        iterator first;
        first.run_ = run_;
        first.end_ = end_;
        fb_loop_opts opts = {};
        opts.size = sizeof opts;
        opts.start = start_;
        opts.from = from_;
        opts.stride = stride_;
        check(fb_steps_with(run_, &opts));
        return ++first;
    }
    iterator end() const noexcept { return {}; }

private:
    fb_run *run_;
    const fb_snapshot *from_ = nullptr;
    std::int64_t start_ = 0, end_, stride_;
};

// An open run. Call close() to hear of late errors; what is not closed is closed when it goes, as a run that did
// not come to its end if that is for an exception.
class run {
public:
    explicit run(const std::string &place, const char *mode = "a", const fb_open_opts *opts = nullptr)
        : exceptions_(std::uncaught_exceptions())
    {
        fb_run *handle = nullptr;
        check(fb_run_open(place.c_str(), mode, opts, &handle));
        handle_.reset(handle);
    }
    run(run &&) = default;
    // What was there is closed as when it goes.
    run &operator=(run &&other) noexcept
    {
        run last(std::move(*this));
        handle_ = std::move(other.handle_);
        return *this;
    }
    ~run()
    {
        if (handle_ && std::uncaught_exceptions() > exceptions_) fb_run_close_unfinished(handle_.release());
    }
    fb_run *get() const noexcept { return handle_.get(); }

    // Drains and closes. After an error that can be mended it may be closed again.
    void close()
    {
        const fb_status closed = fb_run_close(get());
        const std::string text = closed == FB_OK ? "" : fb_last_error();
        if (closed == FB_OK || fb_rank(get(), nullptr, nullptr) != FB_OK) (void)handle_.release();
        if (closed != FB_OK) throw error(closed, text);
    }
    // Waits until everything put so far is durable.
    void flush() { check(fb_flush(get())); }

    template <class T>
    void put(const char *name, const T *data, const shape &extents, const char *units = nullptr, std::int64_t set = 0)
    {
        fb_put_opts opts = {};
        opts.size = sizeof opts;
        opts.units = units;
        const detail::described from(data, extents);
        check(fb_put_with(get(), name, set, &from.array, &opts));
    }
    template <class T>
    void put(const char *name, const std::vector<T> &values, const char *units = nullptr, std::int64_t set = 0)
    {
        put(name, values, detail::line(values), units, set);
    }
    template <class T>
    void put(const char *name, const std::vector<T> &values, const shape &extents, const char *units = nullptr,
             std::int64_t set = 0)
    {
        put(name, detail::whole(values, extents).data, extents, units, set);
    }
    // One number.
    template <class T, class = std::enable_if_t<is_element<T>>>
    void put(const char *name, T value, const char *units = nullptr, std::int64_t set = 0)
    {
        put(name, &value, shape(), units, set);
    }
    void put_text(const char *name, std::string_view text, std::int64_t set = 0)
    {
        const detail::described from(text.data(), { static_cast<std::int64_t>(text.size()) }, FB_STR);
        check(fb_put(get(), name, set, &from.array));
    }

    fb_info info(const char *name, std::int64_t set = 0) const
    {
        fb_info about;
        check(fb_dataset_info(get(), name, set, &about));
        return about;
    }
    template <class T>
    void read(const char *name, T *data, const shape &extents, std::int64_t set = 0) const
    {
        const detail::described to(data, extents);
        check(fb_get(get(), name, set, &to.array));
    }
    template <class T>
    array<T> read(const char *name, std::int64_t set = 0) const
    {
        return detail::read<T>(info(name, set), [&](T *data, const shape &extents) { read(name, data, extents, set); });
    }
    std::string read_text(const char *name, std::int64_t set = 0) const
    {
        const fb_info about = info(name, set);
        std::string text(static_cast<std::size_t>(about.nbytes), '\0');
        const detail::described to(&text[0], shape(about.shape, about.ndim), FB_STR);
        check(fb_get(get(), name, set, &to.array));
        return text;
    }

    // Begins the snapshot of a step: the state after that many steps, which is what the loop finds before it computes it.
    fb::snapshot snapshot(std::int64_t step, double time = std::nan(""))
    {
        fb_snapshot *handle = nullptr;
        check(fb_snapshot_begin(get(), step, time, &handle));
        return fb::snapshot(handle);
    }
    stored at(std::int64_t step) const
    {
        fb_snapshot *handle = nullptr;
        check(fb_snapshot_at(get(), step, &handle));
        return stored(handle);
    }
    // The last complete snapshot, if there is one.
    std::optional<stored> last() const
    {
        fb_snapshot *handle = nullptr;
        check(fb_snapshot_last(get(), &handle));
        return perhaps(handle);
    }
    // Goes back to the last complete step, or to that of a checkpoint; go on with steps(n, what it gives).
    // Damaged snapshots are passed over; when strict they are an error.
    std::optional<stored> restart(const char *tag = nullptr, bool strict = false)
    {
        fb_snapshot *handle = nullptr;
        if (tag != nullptr) check(fb_restart_from(get(), tag, &handle));
        else check(strict ? fb_restart_strict(get(), &handle) : fb_restart(get(), &handle));
        return perhaps(handle);
    }
    // Gives a complete snapshot up: its number is free. Whether there was one.
    bool drop(std::int64_t step)
    {
        int dropped = 0;
        check(fb_drop(get(), step, &dropped));
        return dropped != 0;
    }
    // Marks the last ended step; returns its number.
    std::int64_t checkpoint(const char *tag = nullptr)
    {
        std::int64_t step = 0;
        check(fb_checkpoint(get(), tag, &step));
        return step;
    }

    // To n, or to FB_NO_END until somebody ends it.
    fb::steps steps(std::int64_t n, std::int64_t start = 0, std::int64_t stride = 1) { return { get(), n, start, stride }; }
    fb::steps steps(std::int64_t n, const stored &from, std::int64_t stride = 1) { return { get(), n, from.get(), stride }; }
    fb::steps steps(std::int64_t n, const std::optional<stored> &from, std::int64_t stride = 1)
    {
        return { get(), n, from ? from->get() : nullptr, stride };
    }
    // The head for programs that go through their steps by themselves: whether to go on.
    bool reach(std::int64_t step)
    {
        const int more = fb_reach(get(), step);
        if (more < 0) check(static_cast<fb_status>(-more));
        return more > 0;
    }
    // The loop ends at its next head.
    void finish() { check(fb_finish(get())); }
    // The number of the state that the program holds: how many steps are behind it.
    std::optional<std::int64_t> position() const
    {
        std::int64_t step = -1;
        check(fb_position(get(), &step));
        return step < 0 ? std::nullopt : std::optional<std::int64_t>(step);
    }
    // The variable gets the parameter's value at step boundaries; it must live until the run is closed.
    void parameter(const char *name, double &value, const fb_parameter_opts *opts = nullptr)
    {
        check(fb_parameter_f64(get(), name, &value, opts));
    }
    void parameter(const char *name, std::int64_t &value, const fb_parameter_opts *opts = nullptr)
    {
        check(fb_parameter_i64(get(), name, &value, opts));
    }

private:
    static std::optional<stored> perhaps(fb_snapshot *handle)
    {
        return handle == nullptr ? std::nullopt : std::optional<stored>(std::in_place, handle);
    }

    int exceptions_;
    detail::owned<fb_run, fb_run_close> handle_;
};

// --- calls ---------------------------------------------------------------------------------

// An array that a server holds; it ends when this goes.
class reference {
public:
    explicit reference(fb_ref *handle) : handle_(handle) {}
    fb_ref *get() const noexcept { return handle_.get(); }
    fb_info info() const
    {
        fb_info about;
        check(fb_ref_info(get(), &about));
        return about;
    }
    template <class T>
    void put(const std::vector<T> &values)
    {
        const shape extents = of_type<T>();
        const detail::described from(detail::whole(values, extents).data, extents);
        check(fb_ref_put(get(), &from.array));
    }
    template <class T>
    array<T> read() const
    {
        of_type<T>();
        return detail::read<T>(info(), [&](T *data, const shape &extents) {
            const detail::described to(data, extents);
            check(fb_ref_get(get(), &to.array));
        });
    }

private:
    template <class T>
    shape of_type() const
    {
        const fb_info about = info();
        if (about.dtype != dtype_of<T>()) throw error(FB_BAD_ARGUMENT, "the array on the server has another type of elements");
        return { about.shape, about.ndim };
    }

    detail::owned<fb_ref, fb_ref_kill> handle_;
};

// Arguments of calls. A number, a text or a vector goes as it stands; what comes back is said by out and inout.
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
inline fb_arg in(const reference &held) { return FB_REF(held.get()); }
inline fb_arg in(const fb_arg &arg) { return arg; }

namespace detail {
template <class T>
fb_arg array_arg(int direction, const T *data, const shape &extents)
{
    fb_arg arg = fb_arg_of(FB_ARRAY, direction, dtype_of<T>(), data);
    arg.ndim = extents.rank();
    for (int axis = 0; axis < extents.rank(); ++axis) arg.shape[axis] = extents[axis];
    return arg;
}
} // namespace detail

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
template <class T, class = std::enable_if_t<is_element<T>>>
fb_arg out(T &value)
{
    return fb_arg_of(FB_SCALAR, FB_OUT, dtype_of<T>(), &value);
}
// A text that comes back, with the room for it, the zero at its end included.
inline fb_arg out(char *text, std::size_t room) { return FB_OUT_STR(text, static_cast<std::int64_t>(room)); }
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
template <class T, class = std::enable_if_t<is_element<T>>>
fb_arg inout(T &value)
{
    return fb_arg_of(FB_SCALAR, FB_INOUT, dtype_of<T>(), &value);
}

// A call under way: its arrays, texts and variables are the call's until wait() returns or this goes.
class future {
public:
    explicit future(fb_future *handle) : handle_(handle) {}
    fb_future *get() const noexcept { return handle_.get(); }
    // An error of code FB_TIMEOUT when it is still under way then; wait again.
    void wait(double timeout = FB_FOREVER) { check(fb_wait(get(), timeout)); }
    bool done() const
    {
        int is = 0;
        check(fb_probe(get(), &is));
        return is != 0;
    }
    void cancel() { check(fb_cancel(get())); }

private:
    detail::owned<fb_future, fb_future_free> handle_;
};

// A client of the services that a broker knows: call("axpy", 2.0, x, fb::inout(y)).
class client {
public:
    // The path of the broker's socket; none: the node's agent, which is started when there is none.
    explicit client(const char *broker = nullptr)
    {
        fb_client *handle = nullptr;
        check(fb_connect(broker, &handle));
        handle_.reset(handle);
    }
    fb_client *get() const noexcept { return handle_.get(); }

    template <class... Args>
    void call(const char *service, const Args &...args) const
    {
        const fb_arg all[] = { in(args)..., fb_arg() };
        check(fb_call(get(), service, all, static_cast<int>(sizeof...(args))));
    }
    // Returns at once. A text or vector that goes must live until the end of the call, too.
    template <class... Args>
    [[nodiscard]] future call_async(const char *service, const Args &...args) const
    {
        const fb_arg all[] = { in(args)..., fb_arg() };
        fb_future *handle = nullptr;
        check(fb_call_async(get(), service, all, static_cast<int>(sizeof...(args)), &handle));
        return future(handle);
    }
    // The same with FB_TRANSFER_WAIT or FB_TRANSFER_COPY: what goes only is the caller's again when this returns.
    template <class... Args>
    [[nodiscard]] future call_async_as(int transfer, const char *service, const Args &...args) const
    {
        const fb_arg all[] = { in(args)..., fb_arg() };
        fb_future *handle = nullptr;
        check(fb_call_async_as(get(), service, all, static_cast<int>(sizeof...(args)), transfer, &handle));
        return future(handle);
    }
    // An array on a server, with this content.
    template <class T>
    reference put(const std::vector<T> &values, const shape &extents) const
    {
        fb_ref *handle = nullptr;
        const detail::described from(detail::whole(values, extents).data, extents);
        check(fb_ref_create(get(), &from.array, nullptr, &handle));
        return reference(handle);
    }
    template <class T>
    reference put(const std::vector<T> &values) const
    {
        return put(values, detail::line(values));
    }
    std::string signature(const char *service) const
    {
        detail::given<char> found;
        check(fb_signature(get(), service, &found.data));
        return found.data;
    }

private:
    detail::owned<fb_client, fb_disconnect> handle_;
};

// --- servers -------------------------------------------------------------------------------

// A call as a service sees it; parameters count from 0.
class request {
public:
    explicit request(fb_request *handle) : handle_(handle) {}
    fb_request *get() const noexcept { return handle_; }

    // An array in place; writing to an out or inout one is giving its result.
    template <class T>
    span<T> array(int index) const
    {
        fb_array found = {};
        check(fb_request_array(handle_, index, dtype_of<T>(), &found));
        return { static_cast<T *>(found.data), shape(found.shape, found.ndim) };
    }
    template <class T>
    T scalar(int index) const
    {
        T value{};
        check(fb_request_scalar(handle_, index, dtype_of<T>(), &value));
        return value;
    }
    std::string text(int index) const
    {
        const char *found = nullptr;
        check(fb_request_str(handle_, index, &found));
        return found;
    }
    template <class T, class = std::enable_if_t<is_element<T>>>
    void set(int index, T value)
    {
        check(fb_request_set_scalar(handle_, index, dtype_of<T>(), &value));
    }
    void set(int index, const std::string &text) { check(fb_request_set_str(handle_, index, text.c_str())); }
    bool cancelled() const
    {
        int is = 0;
        check(fb_request_cancelled(handle_, &is));
        return is != 0;
    }

private:
    fb_request *handle_;
};

// A server of services; it stops when it goes. An exception of a service becomes its caller's error.
class server {
public:
    using service = std::function<void(request &)>;

    explicit server(const fb_server_opts *opts = nullptr)
    {
        fb_server *handle = nullptr;
        check(fb_server_create(opts, &handle));
        handle_.reset(handle);
    }
    fb_server *get() const noexcept { return handle_.get(); }

    // Offers a function under a signature such as "axpy(in a:f64, in x:f64[n], inout y:f64[n])".
    void add(const std::string &signature, service body)
    {
        services_.push_back(std::make_unique<service>(std::move(body)));
        check(fb_service_register(get(), signature.c_str(), answer, services_.back().get()));
    }
    void start() { check(fb_server_start(get())); }
    void stop() { check(fb_server_stop(get())); }
    // Until stop(), SIGTERM or Ctrl-C.
    void serve() { check(fb_serve(get())); }

private:
    static fb_status answer(fb_request *handle, void *body) noexcept
    {
        try {
            request asked(handle);
            (*static_cast<service *>(body))(asked);
            return FB_OK;
        } catch (const std::exception &e) {
            return fb_request_fail(handle, e.what());
        } catch (...) {
            return fb_request_fail(handle, "the service threw what is no std::exception");
        }
    }

    // Before the handle, whose end stops the threads that run them.
    std::vector<std::unique_ptr<service>> services_;
    detail::owned<fb_server, fb_server_free> handle_;
};

} // namespace fb

#endif // FOREBAY_HPP
