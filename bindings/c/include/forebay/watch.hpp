// What people see of a run, and the heads of its loop, where they steer it.

#ifndef FOREBAY_WATCH_HPP
#define FOREBAY_WATCH_HPP

#include "arrays.hpp"

#include <exception>
#include <functional>

namespace fb {

// --- diagrams ------------------------------------------------------------------------------

// A diagram of a run's page. Made by run.diagram(); the diagram stays when this goes.
class diagram {
public:
    explicit diagram(fb_diagram *handle) : handle_(handle) {}
    fb_diagram *get() const noexcept { return handle_.get(); }

    // Replaces the points of a curve, or of a cloud of points; nullptr: the only one.
    void update(const char *curve, std::int64_t n, const double *x, const double *y)
    {
        check(fb_curve_update(handle_.open(), curve, n, x, y));
    }
    void update(const char *curve, const std::vector<double> &x, const std::vector<double> &y)
    {
        if (x.size() != y.size())
            throw error(FB_BAD_ARGUMENT, "a curve of " + std::to_string(x.size()) + " abscissae and " + std::to_string(y.size()) +
                                             " ordinates; give as many of both");
        update(curve, detail::line(x).size(), x.data(), y.data());
    }
    void update(const std::vector<double> &x, const std::vector<double> &y) { update(nullptr, x, y); }
    // Adds a point at `t` to each curve of a history: append(t, { { "kinetic", e }, { "field", w } }).
    void append(double t, std::initializer_list<std::pair<const char *, double>> points)
    {
        std::vector<const char *> names;
        std::vector<double> values;
        for (const auto &point : points) {
            names.push_back(point.first);
            values.push_back(point.second);
        }
        check(fb_history_append(handle_.open(), t, static_cast<int>(names.size()), names.data(), values.data()));
    }
    // Whether an update would be copied just now: spares the work of making points that nobody would see.
    bool wants(const char *curve = nullptr) const
    {
        int wants = 0;
        check(fb_diagram_wants(handle_.open(), curve, &wants));
        return wants != 0;
    }

private:
    static constexpr char gone[] = "the diagram was moved to another variable; use that one";
    detail::owned<fb_diagram, fb_diagram_free, gone> handle_;
};

// --- heads ---------------------------------------------------------------------------------

namespace detail {

// What the heads of a run's loop call and change.
class heads {
public:
    using callback = std::function<void(std::int64_t)>;

    explicit heads(fb_run *run) : run_(run) {}
    heads(const heads &) = delete;
    heads &operator=(const heads &) = delete;

    void on_save(callback save, const fb_save_opts *opts) { check(fb_on_save(run_, called, keep(std::move(save)), opts)); }
    void on_command(const char *name, callback command)
    {
        check(fb_on_command(run_, name, called, keep(std::move(command))));
    }
    // The variable follows the parameter of its name.
    void parameter(const char *name, bool &value, const fb_parameter_opts *opts)
    {
        auto &one = truths_.emplace_back(std::make_unique<truth>(truth{ value, &value }));
        check(fb_parameter_bool(run_, name, &one->read, opts));
        value = one->read != 0;
    }
    void parameter(const char *name, std::string &value, const fb_parameter_opts *opts)
    {
        if (value.size() >= room)
            throw error(FB_BAD_ARGUMENT, "the first value of the parameter \"" + std::string(name) + "\" has " +
                                             std::to_string(value.size()) + " bytes; a text has fewer than " + std::to_string(room));
        auto &one = texts_.emplace_back(std::make_unique<letters>(letters{ std::vector<char>(room), &value }));
        std::copy(value.begin(), value.end(), one->read.begin());
        check(fb_parameter_str(run_, name, one->read.data(), room, opts));
        value = one->read.data();
    }

    // Runs what acts at a head: parameters have their values then, and what a function of the program threw is thrown.
    template <class Head>
    bool at(Head &&head)
    {
        failed_ = nullptr;
        const int more = head();
        follow();
        if (more < 0 && failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
        if (more < 0) check(static_cast<fb_status>(-more));
        return more > 0;
    }
    void follow()
    {
        for (auto &one : truths_) *one->to = one->read != 0;
        for (auto &one : texts_)
            if (*one->to != one->read.data()) *one->to = one->read.data();
    }
    fb_run *run() const noexcept { return run_; }

private:
    static constexpr std::size_t room = 65536;
    struct truth {
        int read;
        bool *to;
    };
    struct letters {
        std::vector<char> read;
        std::string *to;
    };
    struct bound {
        heads *of;
        callback call;
    };

    bound *keep(callback call)
    {
        return callbacks_.emplace_back(std::make_unique<bound>(bound{ this, std::move(call) })).get();
    }
    static fb_status called(std::int64_t step, void *user) noexcept
    {
        bound *const one = static_cast<bound *>(user);
        try {
            one->call(step);
            return FB_OK;
        } catch (...) {
            one->of->failed_ = std::current_exception();
            return detail::fail();
        }
    }

    fb_run *run_;
    std::vector<std::unique_ptr<bound>> callbacks_;
    std::vector<std::unique_ptr<truth>> truths_;
    std::vector<std::unique_ptr<letters>> texts_;
    std::exception_ptr failed_;
};

} // namespace detail

// The loop head: for (std::int64_t step : run.steps(100)).
class steps {
public:
    class iterator {
    public:
        std::int64_t operator*() const noexcept { return step_; }
        iterator &operator++()
        {
            if (!heads_->at([this] { return fb_step(heads_->run(), &step_, end_); })) heads_ = nullptr;
            return *this;
        }
        bool operator!=(const iterator &other) const noexcept { return heads_ != other.heads_; }

    private:
        friend class steps;
        detail::heads *heads_ = nullptr;
        std::int64_t step_ = 0, end_ = 0;
    };

    // What the options name lives as long as `kept`.
    steps(detail::heads &heads, std::int64_t n, const fb_loop_opts &opts, std::shared_ptr<const void> kept = nullptr)
        : heads_(&heads), end_(n), opts_(opts), kept_(std::move(kept))
    {
    }
    // For the loop: its first head.
    iterator begin() const
    {
        iterator first;
        first.heads_ = heads_;
        first.end_ = end_;
        check(fb_steps_with(heads_->run(), &opts_));
        return ++first;
    }
    // Where it has no more.
    iterator end() const noexcept { return {}; }

private:
    detail::heads *heads_;
    std::int64_t end_;
    fb_loop_opts opts_;
    std::shared_ptr<const void> kept_;
};

} // namespace fb

#endif // FOREBAY_WATCH_HPP
