// Calls under way.

#ifndef FOREBAY_FUTURES_HPP
#define FOREBAY_FUTURES_HPP

#include "arguments.hpp"

#include <functional>

namespace fb {

class future;

// What a service printed in a call that has failed: the last 20 lines.
struct printed {
    // The lines; empty if there are none, or its server does not keep them.
    std::string text;
    // How many other calls may have printed some of it; 0: all is the call's own.
    std::int64_t others = 0;
};

namespace detail {

// What is told by fb_call_output, or its like of a bag.
template <class Ask>
printed output_of(Ask ask)
{
    printed found;
    found.text = text([&](char **words) { return ask(words, &found.others); });
    return found;
}

inline std::vector<fb_future *> handles(const std::vector<future> &calls);

} // namespace detail

// A call under way: its arrays, texts and variables are the call's until wait() returns or this goes.
class future {
public:
    explicit future(fb_future *handle) : handle_(handle) {}
    future(future &&other) = default;
    future &operator=(future &&other) noexcept
    {
        // The call that was here goes first: a function that is told its end is waited for.
        if (this != &other) handle_.reset(other.handle_.release());
        if (this != &other) told_ = std::move(other.told_);
        return *this;
    }
    fb_future *get() const noexcept { return handle_.get(); }
    // Waits for its results; an error of code FB_TIMEOUT when it is still under way then: wait again.
    void wait(double timeout = FB_FOREVER) const { check(fb_wait(handle_.open(), timeout)); }
    // Has a function called with the call when it is complete: once, on a thread of the client, also when it was given up
    // or its server is lost. There wait() returns or throws at once, and new calls may be made. What it throws is found by
    // client::failed(). When this goes before the end the function is not called any more; one that runs is waited for.
    void then(std::function<void(const future &)> done)
    {
        told_.push_back(std::make_shared<notice>(std::move(done)));
        check(fb_notify(handle_.open(), tell, told_.back().get()));
    }
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
    // What its service printed to FB_STDOUT or FB_STDERR, if it has failed: of servers that keep their output.
    printed output(int stream) const
    {
        return detail::output_of(
            [&](char **text, std::int64_t *others) { return fb_call_output(handle_.open(), stream, text, others); });
    }

private:
    friend std::vector<fb_future *> detail::handles(const std::vector<future> &calls);

    struct notice : std::enable_shared_from_this<notice> {
        explicit notice(std::function<void(const future &)> call) : done(std::move(call)) {}
        std::function<void(const future &)> done;
    };

    static void tell(fb_future *handle, void *told) noexcept
    {
        // Kept, for the function may end the call that it is told of.
        const std::shared_ptr<notice> kept = static_cast<notice *>(told)->shared_from_this();
        future call(handle);
        try {
            kept->done(call);
        } catch (...) {
            (void)detail::fail();
        }
        (void)call.handle_.release();
    }

    // Before the handle, whose end withdraws them.
    std::vector<std::shared_ptr<notice>> told_;
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

} // namespace fb

#endif // FOREBAY_FUTURES_HPP
