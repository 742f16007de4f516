// Many calls of one service: bags of tasks, and a service as a function of a range.

#ifndef FOREBAY_BAGS_HPP
#define FOREBAY_BAGS_HPP

#include "futures.hpp"

#include <deque>

namespace fb {

// A task that a bag handed out.
struct task {
    // Which one, counted from 0.
    std::int64_t index;
    // What became of it.
    fb_status outcome;
    // Why it has failed; empty if it has not.
    std::string text;

    // Throws if it has failed.
    void check() const
    {
        if (outcome != FB_OK) throw error(outcome, "task " + std::to_string(index) + ": " + text);
    }
};

// Many calls of one service, on what servers there are; what is not over when this goes is given up.
class bag {
public:
    explicit bag(fb_bag *handle) : handle_(handle) {}
    fb_bag *get() const noexcept { return handle_.get(); }

    // Adds a task, and says its index: arguments as of client::call. What goes is copied; what comes is written by the
    // next() that hands the task out. An error of code FB_FULL when the bag is full of results that nobody took.
    template <class... Args>
    std::int64_t add(const Args &...args)
    {
        return add_within(FB_FOREVER, args...);
    }
    // Adds a task; an error of code FB_TIMEOUT when the bag is full of what is under way for so many seconds.
    template <class... Args>
    std::int64_t add_within(double timeout, const Args &...args)
    {
        const detail::arguments<Args...> all(args...);
        std::int64_t index = -1;
        fb::check(fb_bag_add(handle_.open(), all.data(), all.size(), timeout, &index));
        return index;
    }
    // There are no more tasks.
    void end() { fb::check(fb_bag_end(handle_.open())); }
    // The next task that is over; none when all were handed out after end(). It is for the caller to check().
    std::optional<task> next(double timeout = FB_FOREVER)
    {
        task found = { -1, FB_OK, {} };
        fb::check(fb_bag_next(handle_.open(), timeout, &found.index, &found.outcome));
        if (found.outcome != FB_OK) found.text = fb_last_error();
        return found.index < 0 ? std::nullopt : std::optional<task>(std::move(found));
    }
    // What the service printed to FB_STDOUT or FB_STDERR in the task that was handed out last, if that has failed.
    printed output(int stream) const
    {
        return detail::output_of(
            [&](char **text, std::int64_t *others) { return fb_bag_output(handle_.open(), stream, text, others); });
    }
    // Where a task is: FB_TASK_OPEN and its like.
    int state(std::int64_t index) const
    {
        int found = 0;
        fb::check(fb_bag_state(handle_.open(), index, &found));
        return found;
    }
    // How many tasks are where.
    fb_bag_totals counts() const
    {
        auto found = defaults<fb_bag_totals>();
        fb::check(fb_bag_counts(handle_.open(), &found));
        return found;
    }
    // Gives a task up: unless it is over it is handed out with FB_CANCELLED.
    void cancel(std::int64_t index) { fb::check(fb_bag_cancel(handle_.open(), index)); }

private:
    static constexpr char gone[] = "the bag was moved to another variable; use that one";
    detail::owned<fb_bag, fb_bag_free, gone> handle_;
};

// The results of a service with one argument and one number as its result, in the order of a range of arguments; made by
// client::map. Left early, what has not begun is not run.
template <class R, class Range>
class mapped {
public:
    // A result, and which argument it belongs to.
    struct value_type {
        std::int64_t index;
        R value;
    };

    // The bag, and the arguments of its tasks; client::map makes it.
    mapped(bag tasks, Range &&range) : tasks_(std::move(tasks)), range_(std::forward<Range>(range)) {}

    // Goes through the results once; a task that has failed throws.
    class iterator {
    public:
        explicit iterator(mapped *of) : of_(of) { ++*this; }
        const value_type &operator*() const { return of_->last_; }
        iterator &operator++()
        {
            if (!of_->step()) of_ = nullptr;
            return *this;
        }
        bool operator!=(std::nullptr_t) const { return of_ != nullptr; }

    private:
        mapped *of_;
    };

    // Begins with the first argument; once.
    iterator begin()
    {
        at_.emplace(std::begin(range_));
        return iterator(this);
    }
    // Behind the last result.
    std::nullptr_t end() const noexcept { return nullptr; }

private:
    // Tasks that were not handed out, at most.
    static constexpr std::size_t ahead = 1024;

    bool step()
    {
        while (!ended_ && open_.size() < ahead && add()) continue;
        const std::optional<task> found = tasks_.next();
        if (!found) return false;
        found->check();
        last_ = { found->index, open_.front() };
        open_.pop_front();
        return true;
    }
    // One task more, if there is one and it has a place without waiting.
    bool add()
    {
        if (*at_ == std::end(range_)) {
            tasks_.end();
            ended_ = true;
            return false;
        }
        open_.emplace_back();
        const fb_arg args[] = { in(**at_), out(open_.back()) };
        const fb_status status = fb_bag_add(tasks_.get(), args, 2, 0, nullptr);
        if (status != FB_OK) open_.pop_back();
        if (status == FB_FULL || status == FB_TIMEOUT) return false;
        fb::check(status);
        ++*at_;
        return true;
    }

    // Before the bag, which goes first: the results of tasks that are under way.
    std::deque<R> open_;
    bag tasks_;
    Range range_;
    std::optional<decltype(std::begin(std::declval<std::add_lvalue_reference_t<Range>>()))> at_;
    value_type last_ = {};
    bool ended_ = false;
};

} // namespace fb

#endif // FOREBAY_BAGS_HPP
