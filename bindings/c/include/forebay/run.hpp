// Runs: their data sets, snapshots, tables, and the loop.

#ifndef FOREBAY_RUN_HPP
#define FOREBAY_RUN_HPP

#include "snapshots.hpp"
#include "tables.hpp"
#include "watch.hpp"

#include <cmath>
#include <limits>

namespace fb {

// The links of a run's page.
struct page {
    // Of who may steer.
    std::string operator_url;
    // Of who may only look.
    std::string viewer_url;
};

// An open run. Call close() to hear of late errors; what is not closed is closed when it goes, as a run that did
// not come to its end if that is for an exception.
class run {
public:
    // The directory NAME.fb of a name, or a path; modes: "r" only reads, "r+" must exist, "a" is created when absent,
    // "w" created anew, "x" must not exist.
    explicit run(const std::string &place, const char *mode = "a", const fb_open_opts *opts = nullptr)
        : exceptions_(std::uncaught_exceptions())
    {
        fb_run *handle = nullptr;
        check(fb_run_open(place.c_str(), mode, opts, &handle));
        handle_.reset(handle);
        heads_ = std::make_unique<detail::heads>(handle);
    }
    run(run &&) = default;
    // What was there is closed as when it goes.
    run &operator=(run &&other) noexcept
    {
        run last(std::move(*this));
        handle_ = std::move(other.handle_);
        heads_ = std::move(other.heads_);
        return *this;
    }
    ~run()
    {
        if (get() != nullptr && std::uncaught_exceptions() > exceptions_) fb_run_close_unfinished(handle_.release());
    }
    fb_run *get() const noexcept { return handle_.get(); }

    // Drains and closes. After an error that can be mended it may be closed again.
    void close() { close_by(fb_run_close); }
    // Drains and closes the run of a program that did not come to its end: restart() goes on with the run.
    void close_unfinished() { close_by(fb_run_close_unfinished); }
    // Waits until everything put so far is durable.
    void flush() { check(fb_flush(handle_.open())); }

    // This rank, from 0.
    int rank() const { return ranks_of().first; }
    // The number of ranks.
    int ranks() const { return ranks_of().second; }
    // Its directory, absolute.
    std::string path() const
    {
        return detail::text([&](char **path) { return fb_path(handle_.open(), path); });
    }
    // Whether it is open for reading only.
    bool read_only() const
    {
        int is = 0;
        check(fb_is_read_only(handle_.open(), &is));
        return is != 0;
    }
    // Figures of the run so far.
    fb_stats stats() const
    {
        auto figures = defaults<fb_stats>();
        check(fb_run_stats(handle_.open(), &figures));
        return figures;
    }

    // --- data sets ---

    // The data are copied when it returns; they are durable after flush().
    template <class T>
    void put(const char *name, const view<T> &from, const char *units = nullptr, std::int64_t set = 0)
    {
        const fb_put_opts opts = options(units);
        const detail::described array(from);
        check(fb_put_with(handle_.open(), name, set, &array.array, &opts));
    }
    template <class T>
    void put(const char *name, const T *data, const shape &extents, const char *units = nullptr, std::int64_t set = 0)
    {
        put(name, view<const T>(data, extents), units, set);
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
    // A text.
    void put_text(const char *name, std::string_view text, std::int64_t set = 0)
    {
        const detail::described from(text.data(), { static_cast<std::int64_t>(text.size()) }, FB_STR);
        check(fb_put(handle_.open(), name, set, &from.array));
    }
    // Puts an array once a run: every snapshot that this rank takes from now on has it. The same bits again are nothing, others
    // FB_CONFLICT; with a step of 1 or more they take its place from that step on. The piece says units, dims and attrs.
    template <class T>
    void constant(const char *name, const view<T> &from, const piece &with = {}, std::int64_t step = 0)
    {
        const piece::options said(with, from.rank());
        const detail::described array(from);
        check(fb_constant(handle_.open(), name, &array.array, step, &said.opts));
    }
    template <class T>
    void constant(const char *name, const std::vector<T> &values, const piece &with = {}, std::int64_t step = 0)
    {
        const auto line = detail::line(values);
        constant(name, view<const T>(detail::whole(values, line).data, line), with, step);
    }
    // Stores only if the stored version is still `version` (0: there must be none yet), else FB_CONFLICT; returns the
    // version stored.
    template <class T>
    std::uint64_t put_if_version(const char *name, const view<T> &from, std::uint64_t version, const char *units = nullptr,
                                 std::int64_t set = 0)
    {
        const fb_put_opts opts = options(units);
        const detail::described array(from);
        std::uint64_t stored = 0;
        check(fb_put_if_version(handle_.open(), name, set, &array.array, version, &opts, &stored));
        return stored;
    }

    // Type, shape, unit and version of a data set.
    fb_info info(const char *name, std::int64_t set = 0) const
    {
        fb_info about;
        check(fb_dataset_info(handle_.open(), name, set, &about));
        return about;
    }
    // Into elements that lie anywhere: type and shape must be those stored.
    template <class T>
    void read(const char *name, const view<T> &to, std::int64_t set = 0) const
    {
        const detail::described array(to);
        check(fb_get(handle_.open(), name, set, &array.array));
    }
    template <class T>
    void read(const char *name, T *data, const shape &extents, std::int64_t set = 0) const
    {
        read(name, view<T>(data, extents), set);
    }
    // A whole data set, row-major.
    template <class T>
    array<T> read(const char *name, std::int64_t set = 0) const
    {
        return detail::read<T>(info(name, set), [&](const view<T> &to) { read(name, to, set); });
    }
    // A whole data set as memory that is read when it is touched, however large it is. It stays what it was when the data set
    // is put again or deleted. No checksums are compared.
    template <class T>
    mapped_array<T> map(const char *name, std::int64_t set = 0) const
    {
        fb_array array = {};
        check(fb_map(handle_.open(), name, set, dtype_of<T>(), &array));
        return mapped_array<T>(array);
    }
    // A part: from `offset` on, along each axis as many elements as there are in `to`, every `step`-th.
    template <class T>
    void read_part(const char *name, const shape &offset, const view<T> &to, const shape &step = {}, std::int64_t set = 0) const
    {
        const detail::picked part(offset, step, to.rank());
        const detail::described array(to);
        check(fb_get_part(handle_.open(), name, set, part.offset(), part.step(), &array.array));
    }
    // A part of shape `extents`, row-major.
    template <class T>
    array<T> read_part(const char *name, const shape &offset, const shape &extents, const shape &step = {},
                       std::int64_t set = 0) const
    {
        return detail::read<T>(extents, [&](const view<T> &to) { read_part(name, offset, to, step, set); });
    }
    // One array of the snapshots over time, or the same part of it at each: the first axis of `to` is that of the steps, the
    // others are those of the part, which begins at `offset`. `steps`: all complete ones if it is empty. With
    // `missing_nan` NaN stands for the array of a step that has none.
    template <class T>
    void series(const char *name, const std::vector<std::int64_t> &steps, const view<T> &to, const shape &offset = {},
                const shape &step = {}, bool missing_nan = false) const
    {
        auto opts = defaults<fb_series_opts>();
        opts.offset = offset.rank() > 0 ? offset.data() : nullptr;
        opts.step = step.rank() > 0 ? step.data() : nullptr;
        opts.missing_nan = missing_nan;
        const detail::described array(to);
        check(fb_series(handle_.open(), name, steps.empty() ? nullptr : steps.data(),
                        static_cast<std::int64_t>(steps.size()), &array.array, &opts));
    }
    // A text that was put.
    std::string read_text(const char *name, std::int64_t set = 0) const
    {
        const fb_info about = info(name, set);
        std::string text(static_cast<std::size_t>(about.nbytes), '\0');
        const detail::described to(&text[0], shape(about.shape, about.ndim), FB_STR);
        check(fb_get(handle_.open(), name, set, &to.array));
        return text;
    }

    // The data sets whose names match a glob, by name and set.
    std::vector<fb_info> list(const char *pattern = "*", std::int64_t set = FB_ALL_SETS) const
    {
        return detail::listed<fb_info, fb_info>(
            [&](auto **infos, auto *n) { return fb_list(handle_.open(), pattern, set, infos, n); });
    }
    // Deletes the data sets whose names match a glob; returns how many.
    std::int64_t erase(const char *pattern, std::int64_t set = FB_ALL_SETS)
    {
        std::int64_t count = 0;
        check(fb_delete(handle_.open(), pattern, set, &count));
        return count;
    }
    // Renames a data set with all its sets; returns how many.
    std::int64_t rename(const char *from, const char *to)
    {
        std::int64_t count = 0;
        check(fb_rename(handle_.open(), from, to, &count));
        return count;
    }
    // Copies a data set with all its sets; returns how many.
    std::int64_t copy(const char *from, const char *to)
    {
        std::int64_t count = 0;
        check(fb_copy(handle_.open(), from, to, &count));
        return count;
    }
    // The run's own attributes.
    attributes attrs() const { return attributes(handle_.open()); }
    // Those of a data set.
    attributes attrs(const std::string &name, std::int64_t set = 0) const { return attributes(handle_.open(), name, set); }

    // --- tables ---

    // Opens a table.
    fb::table table(const std::string &name) const { return { handle_.open(), name, {}, false }; }
    // Creates a table with its columns, or opens it when it has the same. Rows of a history belong to the step they
    // were made in and go when a restart goes back behind it.
    fb::table table(const std::string &name, const std::vector<column> &columns, bool history = false)
    {
        return { handle_.open(), name, columns, history };
    }
    // The names of the tables.
    std::vector<std::string> tables() const
    {
        return detail::listed<std::string, char *>([&](auto **names, auto *n) { return fb_tables(handle_.open(), names, n); });
    }
    // The points of a history: the columns step and t, and one for each curve, NaN where it has no point there.
    rows history(const char *title) const
    {
        fb_rows *found = nullptr;
        check(fb_history(handle_.open(), title, &found));
        return rows(found);
    }
    // Reads with SQL, with a value for each `?`; statements that write are refused.
    template <class... Args>
    rows sql(const char *query, const Args &...args) const
    {
        const detail::arguments<Args...> all(args...);
        fb_rows *found = nullptr;
        check(fb_sql(handle_.open(), query, all.data(), all.size(), &found));
        return rows(found);
    }

    // --- snapshots ---

    // Begins the snapshot of a step: the state after that many steps, which is what the loop finds before it computes it.
    fb::snapshot snapshot(std::int64_t step, double time = std::nan(""))
    {
        fb_snapshot *handle = nullptr;
        check(fb_snapshot_begin(handle_.open(), step, time, &handle));
        return fb::snapshot(handle);
    }
    // The numbers of the complete snapshots, ascending. A single rank sees all that it ended, several what is durable.
    std::vector<std::int64_t> snapshots() const
    {
        return detail::listed<std::int64_t, std::int64_t>(
            [&](auto **steps, auto *n) { return fb_snapshots(handle_.open(), steps, n); });
    }
    // The complete snapshot of a step; an error of code FB_NOT_FOUND names the nearest ones.
    stored at(std::int64_t step) const
    {
        fb_snapshot *handle = nullptr;
        check(fb_snapshot_at(handle_.open(), step, &handle));
        return stored(handle);
    }
    // The last complete snapshot, if there is one.
    std::optional<stored> last() const
    {
        fb_snapshot *handle = nullptr;
        check(fb_snapshot_last(handle_.open(), &handle));
        return perhaps(handle);
    }
    // Goes back to the last complete step, or to that of a checkpoint; go on with steps(n, what it gives).
    // Damaged snapshots are passed over; when strict they are an error.
    std::optional<stored> restart(const char *tag = nullptr, bool strict = false)
    {
        fb_snapshot *handle = nullptr;
        if (tag != nullptr) check(fb_restart_from(handle_.open(), tag, &handle));
        else check(strict ? fb_restart_strict(handle_.open(), &handle) : fb_restart(handle_.open(), &handle));
        heads().follow();
        return perhaps(handle);
    }
    // Gives a complete snapshot up: its number is free. Whether there was one.
    bool drop(std::int64_t step)
    {
        int dropped = 0;
        check(fb_drop(handle_.open(), step, &dropped));
        return dropped != 0;
    }
    // Puts small complete snapshots of one layout together, from the first to the last, both among them. How many lie in packs
    // now that did not before.
    std::int64_t pack(std::int64_t first = std::numeric_limits<std::int64_t>::min(),
                      std::int64_t last = std::numeric_limits<std::int64_t>::max())
    {
        std::int64_t packed = 0;
        check(fb_pack(handle_.open(), first, last, &packed, nullptr));
        return packed;
    }
    // Marks the last ended step; returns its number.
    std::int64_t checkpoint(const char *tag = nullptr)
    {
        std::int64_t step = 0;
        check(fb_checkpoint(handle_.open(), tag, &step));
        return step;
    }
    // The checkpoints, in the order they were made.
    std::vector<fb_checkpoint_info> checkpoints() const
    {
        return detail::listed<fb_checkpoint_info, fb_checkpoint_info>(
            [&](auto **all, auto *n) { return fb_checkpoints(handle_.open(), all, n); });
    }

    // --- the loop ---

    // To n, or to FB_NO_END until somebody ends it.
    fb::steps steps(std::int64_t n, std::int64_t start = 0, std::int64_t stride = 1)
    {
        return loop(n, start, nullptr, stride);
    }
    // On from the snapshot that restart() gave; without one it is the first start.
    fb::steps steps(std::int64_t n, const stored &from, std::int64_t stride = 1)
    {
        return loop(n, 0, from.handle_.open(), stride);
    }
    fb::steps steps(std::int64_t n, const std::optional<stored> &from, std::int64_t stride = 1)
    {
        return loop(n, 0, from ? from->handle_.open() : nullptr, stride);
    }
    // On from what restart() gives there and then.
    fb::steps steps(std::int64_t n, std::optional<stored> &&from, std::int64_t stride = 1)
    {
        if (!from) return loop(n, 0, nullptr, stride);
        const auto kept = std::make_shared<stored>(std::move(*from));
        return loop(n, 0, kept->handle_.open(), stride, kept);
    }
    // With a time limit, for instance.
    fb::steps steps(std::int64_t n, const fb_loop_opts &opts) { return { heads(), n, opts }; }
    // The head for programs that go through their steps by themselves: whether to go on.
    bool reach(std::int64_t step)
    {
        return heads().at([&] { return fb_reach(handle_.open(), step); });
    }
    // The loop ends at its next head.
    void finish() { check(fb_finish(handle_.open())); }
    // The number of the state that the program holds: how many steps are behind it.
    std::optional<std::int64_t> position() const
    {
        std::int64_t step = -1;
        check(fb_position(handle_.open(), &step));
        return step < 0 ? std::nullopt : std::optional<std::int64_t>(step);
    }
    // Why the loop was ended before its last step: "quit", "SIGTERM", "time limit", or what `forebay steer RUN end` gave.
    std::optional<std::string> ended_by() const
    {
        detail::given<char> why;
        check(fb_ended_by(handle_.open(), &why.data));
        return why.data == nullptr ? std::nullopt : std::optional<std::string>(why.data);
    }

    // --- watching and steering ---

    // The variable gets the parameter's value at step boundaries; it must live until the run is closed.
    void parameter(const char *name, double &value, const fb_parameter_opts *opts = nullptr)
    {
        check(fb_parameter_f64(handle_.open(), name, &value, opts));
    }
    void parameter(const char *name, std::int64_t &value, const fb_parameter_opts *opts = nullptr)
    {
        check(fb_parameter_i64(handle_.open(), name, &value, opts));
    }
    void parameter(const char *name, bool &value, const fb_parameter_opts *opts = nullptr)
    {
        heads().parameter(name, value, opts);
    }
    void parameter(const char *name, std::string &value, const fb_parameter_opts *opts = nullptr)
    {
        heads().parameter(name, value, opts);
    }
    // How the program keeps a state: run.on_save([&](std::int64_t step) { ... run.snapshot(step) ... }). The heads call
    // it at Save, where something ends the loop from outside, and at each that `every` divides. What it throws is shown
    // to whoever pressed Save; at the other heads the loop throws it.
    void on_save(std::function<void(std::int64_t)> save, std::int64_t every = 0)
    {
        auto opts = defaults<fb_save_opts>();
        opts.every = every;
        heads().on_save(std::move(save), &opts);
    }
    // A button of the program's own.
    void on_command(const char *name, std::function<void(std::int64_t)> command)
    {
        heads().on_command(name, std::move(command));
    }
    // A message for the people who watch.
    void message(const std::string &text, fb_level level = FB_INFO) { check(fb_message(handle_.open(), level, text.c_str())); }
    // A diagram of the run's page.
    fb::diagram diagram(const char *title, const fb_diagram_opts *opts = nullptr)
    {
        fb_diagram *handle = nullptr;
        check(fb_diagram_open(handle_.open(), title, opts, &handle));
        return fb::diagram(handle);
    }
    // Starts the run's page if it is not there.
    page monitor()
    {
        detail::given<char> steers, looks;
        check(fb_monitor(handle_.open(), &steers.data, &looks.data));
        return { steers.data, looks.data };
    }
    // The link that a program prints: of who may steer to a terminal, else of who may only look.
    std::string monitor_url()
    {
        return detail::text([&](char **url) { return fb_monitor_url(handle_.open(), url); });
    }

private:
    detail::heads &heads() const
    {
        (void)handle_.open();
        return *heads_;
    }
    static std::optional<stored> perhaps(fb_snapshot *handle)
    {
        return handle == nullptr ? std::nullopt : std::optional<stored>(std::in_place, handle);
    }
    static fb_put_opts options(const char *units)
    {
        auto opts = defaults<fb_put_opts>();
        opts.units = units;
        return opts;
    }
    fb::steps loop(std::int64_t n, std::int64_t start, const fb_snapshot *from, std::int64_t stride,
                   std::shared_ptr<const void> kept = nullptr)
    {
        auto opts = defaults<fb_loop_opts>();
        opts.start = start;
        opts.from = from;
        opts.stride = stride;
        return { heads(), n, opts, std::move(kept) };
    }
    std::pair<int, int> ranks_of() const
    {
        std::int32_t rank = 0, ranks = 0;
        check(fb_rank(handle_.open(), &rank, &ranks));
        return { rank, ranks };
    }
    void close_by(fb_status (*ends)(fb_run *))
    {
        const fb_status closed = ends(get());
        const std::string text = closed == FB_OK ? "" : fb_last_error();
        if (closed == FB_OK || fb_rank(get(), nullptr, nullptr) != FB_OK) (void)handle_.release();
        if (closed != FB_OK) throw error(closed, text);
    }

    int exceptions_;
    // Before the handle, whose end may still write parameters.
    std::unique_ptr<detail::heads> heads_;
    static constexpr char gone[] = "the run was closed, or moved to another variable; open it again, or use that one";
    detail::owned<fb_run, fb_run_close, gone> handle_;
};

} // namespace fb

#endif // FOREBAY_RUN_HPP
