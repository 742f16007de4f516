// Calls of services.

#ifndef FOREBAY_CALLS_HPP
#define FOREBAY_CALLS_HPP

#include "arguments.hpp"
#include "bags.hpp"
#include "futures.hpp"
#include "groups.hpp"

namespace fb {

// A call that has failed.
struct failed_call {
    // The service that was called.
    std::string service;
    // What kind of failure it is.
    fb_status code;
    // The beginning of its text.
    std::string text;
    // Seconds since 1970.
    double when;
    // The server's name; empty where the call has reached none.
    std::string server;
    // Its pid, or 0.
    std::uint32_t server_pid;
};

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

    // For how many seconds, from 1 to 3600, a server on another host may say nothing before it is lost. Once a client.
    void silence(double seconds) { check(fb_silence(handle_.open(), seconds)); }

    // Which server gets a call is decided by that rule, once a client: "least" (the default), where the call is over first;
    // "turns", each server in turn.
    void place_by(const char *rule) { check(fb_place_by(handle_.open(), rule)); }
    // A client whose calls go to one server only: that of a name (to any of them if several share it), or of a process.
    // It shares the connections of this one, and its arrays lie there.
    client on(const char *server) const { return tied(server, 0); }
    client on(std::uint32_t pid) const { return tied(nullptr, pid); }

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

    // A group: calls that run at the same time, until the end of its scope.
    group cobegin() const { return group(handle_.open()); }
    // The last 1,000 calls that have failed, the newest first. Those that were given up are not among them.
    std::vector<failed_call> failed() const
    {
        std::vector<failed_call> all;
        for (auto one = defaults<fb_failure>();; one = defaults<fb_failure>()) {
            const fb_status status = fb_failed(handle_.open(), static_cast<std::int64_t>(all.size()), &one);
            if (status == FB_NOT_FOUND) return all;
            check(status);
            all.push_back({ one.service, one.code, one.text, one.when, one.server, one.server_pid });
        }
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
    explicit client(fb_client *handle) { handle_.reset(handle); }
    client tied(const char *server, std::uint32_t pid) const
    {
        fb_client *handle = nullptr;
        check(fb_on(handle_.open(), server, pid, &handle));
        return client(handle);
    }
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
