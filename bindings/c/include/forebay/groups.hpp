// Calls that run at the same time.

#ifndef FOREBAY_GROUPS_HPP
#define FOREBAY_GROUPS_HPP

#include "futures.hpp"

#include <exception>

namespace fb {

// Calls that run at the same time, until the end of the scope: there all are waited for, and the first failure, in the
// order in which they were made, is thrown. Where the scope is left by an exception they are given up instead.
//
//     {
//         fb::group both = client.cobegin();
//         both.call("dgesv", a, fb::inout(x));
//         both.call("dgesv", b, fb::inout(y));
//     }
class group {
public:
    // Within no group, or within another one, which ends it if it is open still.
    explicit group(fb_client *client, fb_group *around = nullptr) : client_(client)
    {
        check(fb_group_begin(client, around, &handle_));
    }
    // It is where it was begun, and is not copied.
    group(const group &) = delete;
    group &operator=(const group &) = delete;
    ~group() noexcept(false)
    {
        if (handle_ == nullptr) return;
        if (std::uncaught_exceptions() > before_) {
            fb_group_cancel(handle_);
            fb_group_end(handle_, FB_FOREVER, nullptr);
            return;
        }
        const fb_status status = fb_group_end(handle_, FB_FOREVER, nullptr);
        // One around it may have ended it.
        if (status != FB_CLOSED) check(status);
    }
    fb_group *get() const noexcept { return handle_; }

    // Calls a service and returns at once: arguments as of client::call_async.
    template <class... Args>
    void call(const char *service, const Args &...args)
    {
        const detail::arguments<Args...> all(args...);
        check(fb_group_call(open(), service, all.data(), all.size(), nullptr));
    }
    // The same, and gives the call, to look at it, to wait for it alone or to be told its end.
    template <class... Args>
    [[nodiscard]] future call_async(const char *service, const Args &...args)
    {
        const detail::arguments<Args...> all(args...);
        fb_future *handle = nullptr;
        check(fb_group_call(open(), service, all.data(), all.size(), &handle));
        return future(handle);
    }
    // A group within this one.
    group cobegin() { return group(client_, open()); }
    // Waits for all now; an error of code FB_TIMEOUT when a call is under way then: the group goes on.
    void end(double timeout = FB_FOREVER)
    {
        std::int64_t index = -1;
        const fb_status status = fb_group_end(open(), timeout, &index);
        if (status == FB_OK || status == FB_CLOSED || index >= 0) handle_ = nullptr;
        check(status);
    }
    // Gives up what is not complete; the end of the scope then throws an error of code FB_CANCELLED.
    void cancel() { check(fb_group_cancel(open())); }

private:
    fb_group *open() const
    {
        if (handle_ == nullptr) throw error(FB_CLOSED, "the group has ended; begin another one");
        return handle_;
    }

    fb_client *client_;
    fb_group *handle_ = nullptr;
    int before_ = std::uncaught_exceptions();
};

} // namespace fb

#endif // FOREBAY_GROUPS_HPP
