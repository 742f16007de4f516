// Calls of services.

#ifndef FOREBAY_CALLS_HPP
#define FOREBAY_CALLS_HPP

#include "arguments.hpp"
#include "bags.hpp"

namespace fb {

class future;

namespace detail {

inline std::vector<fb_future *> handles(const std::vector<future> &calls);

} // namespace detail

// A call under way: its arrays, texts and variables are the call's until wait() returns or this goes.
class future {
public:
    explicit future(fb_future *handle) : handle_(handle) {}
    fb_future *get() const noexcept { return handle_.get(); }
    // Waits for its results; an error of code FB_TIMEOUT when it is still under way then: wait again.
    void wait(double timeout = FB_FOREVER) { check(fb_wait(handle_.open(), timeout)); }
    // Whether it is complete, without waiting; wait() then writes its results.
    bool done() const
    {
        int is = 0;
        check(fb_probe(handle_.open(), &is));
        return is != 0;
    }
    // Gives it up: wait() then throws an error of code FB_CANCELLED, unless it was complete before.
    void cancel() { check(fb_cancel(handle_.open())); }
    // Where its time went; whole when it is complete.
    fb_timing timing() const
    {
        auto found = defaults<fb_timing>();
        check(fb_call_timing(handle_.open(), &found));
        return found;
    }

private:
    friend std::vector<fb_future *> detail::handles(const std::vector<future> &calls);

    static constexpr char gone[] = "the future was moved to another variable; use that one";
    detail::owned<fb_future, fb_future_free, gone> handle_;
};

namespace detail {

inline std::vector<fb_future *> handles(const std::vector<future> &calls)
{
    std::vector<fb_future *> all;
    for (const future &call : calls) all.push_back(call.handle_.open());
    return all;
}

} // namespace detail

// Waits for all; an error of code FB_TIMEOUT when not all are complete then, else that of the first that failed.
inline void wait_all(const std::vector<future> &calls, double timeout = FB_FOREVER)
{
    const auto all = detail::handles(calls);
    check(fb_wait_all(all.data(), static_cast<int>(all.size()), timeout));
}
// Waits until one is complete, and says which. Its outcome is what wait() of it says.
inline int wait_any(const std::vector<future> &calls, double timeout = FB_FOREVER)
{
    const auto all = detail::handles(calls);
    int index = -1;
    check(fb_wait_any(all.data(), static_cast<int>(all.size()), timeout, &index));
    return index;
}
// Which is complete, the first one, without waiting.
inline std::optional<int> probe_any(const std::vector<future> &calls)
{
    const auto all = detail::handles(calls);
    int index = -1;
    check(fb_probe_any(all.data(), static_cast<int>(all.size()), &index));
    return index < 0 ? std::nullopt : std::optional<int>(index);
}
// Gives all up.
inline void cancel_all(const std::vector<future> &calls)
{
    const auto all = detail::handles(calls);
    check(fb_cancel_all(all.data(), static_cast<int>(all.size())));
}

// A client of the services that a broker knows: call("axpy", 2.0, x, fb::inout(y)).
class client {
public:
    // The path of the broker's socket, or its address "fb://HOST:PORT"; none: the node's agent, which is started when
    // there is none.
    explicit client(const char *broker = nullptr)
    {
        fb_client *handle = nullptr;
        check(fb_connect(broker, &handle));
        handle_.reset(handle);
    }
    fb_client *get() const noexcept { return handle_.get(); }

    // For how many seconds each call waits for a service that nobody offers yet.
    void patience(double seconds) { check(fb_patience(handle_.open(), seconds)); }

    // Calls a service and waits for its results: one argument for each parameter of the signature, results included.
    template <class... Args>
    void call(const char *service, const Args &...args) const
    {
        const detail::arguments<Args...> all(args...);
        check(fb_call(handle_.open(), service, all.data(), all.size()));
    }
    // Calls a service and waits for its results, at most `timeout` seconds; then the call is given up: an error of
    // code FB_TIMEOUT.
    template <class... Args>
    void call_within(double timeout, const char *service, const Args &...args) const
    {
        const detail::arguments<Args...> all(args...);
        check(fb_call_within(handle_.open(), service, all.data(), all.size(), timeout));
    }
    // Calls a service and returns at once. A text or vector that goes must live until the end of the call, too.
    template <class... Args>
    [[nodiscard]] future call_async(const char *service, const Args &...args) const
    {
        const detail::arguments<Args...> all(args...);
        fb_future *handle = nullptr;
        check(fb_call_async(handle_.open(), service, all.data(), all.size(), &handle));
        return future(handle);
    }
    // Calls a service and returns at once. With FB_TRANSFER_WAIT or FB_TRANSFER_COPY what goes only is the caller's
    // again when this returns.
    template <class... Args>
    [[nodiscard]] future call_async_as(int transfer, const char *service, const Args &...args) const
    {
        const detail::arguments<Args...> all(args...);
        fb_future *handle = nullptr;
        check(fb_call_async_as(handle_.open(), service, all.data(), all.size(), transfer, &handle));
        return future(handle);
    }

    // Many calls of one service, on what servers there are.
    bag open_bag(const char *service, const fb_bag_opts *opts = nullptr) const
    {
        fb_bag *handle = nullptr;
        check(fb_bag_open(handle_.open(), service, opts, &handle));
        return bag(handle);
    }
    // A service with one argument and one number as its result, for each of a range, on what servers there are:
    // for (const auto &square : client.map<double>("square", numbers)) sum += square.value;
    template <class R, class Range>
    mapped<R, Range> map(const char *service, Range &&arguments) const
    {
        return mapped<R, Range>(open_bag(service), std::forward<Range>(arguments));
    }

    // An array on a server, with this content. It lies there as it does here. The options say on which server.
    template <class T>
    reference put(const view<T> &from, const fb_ref_opts *opts = nullptr) const
    {
        return create(detail::described(from), opts);
    }
    template <class T>
    reference put(const std::vector<T> &values, const shape &extents, const fb_ref_opts *opts = nullptr) const
    {
        return put(view<const T>(detail::whole(values, extents).data, extents), opts);
    }
    template <class T>
    reference put(const std::vector<T> &values) const
    {
        return put(values, detail::line(values));
    }
    // An array of zeros on a server.
    template <class T>
    reference zeros(const shape &extents, const fb_ref_opts *opts = nullptr) const
    {
        return create(detail::described(static_cast<const T *>(nullptr), extents), opts);
    }

    // The signatures of the services that are offered, by name.
    std::vector<std::string> services() const
    {
        return detail::listed<std::string, char *>([&](auto **all, auto *n) { return fb_services(handle_.open(), all, n); });
    }
    // The signature of one service.
    std::string signature(const char *service) const
    {
        return detail::text([&](char **found) { return fb_signature(handle_.open(), service, found); });
    }

private:
    reference create(const detail::described &array, const fb_ref_opts *opts) const
    {
        fb_ref *handle = nullptr;
        check(fb_ref_create(handle_.open(), &array.array, opts, &handle));
        return reference(handle);
    }

    static constexpr char gone[] = "the client was moved to another variable; use that one";
    detail::owned<fb_client, fb_disconnect, gone> handle_;
};

} // namespace fb

#endif // FOREBAY_CALLS_HPP
