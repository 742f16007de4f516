// The same in C++ as damage.c: damage PLACE write|read|go|lose|again.

#include <forebay.hpp>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            return 1; \
        } \
    } while (0)

static void take(fb::run &run, std::int64_t step)
{
    const std::vector<double> field(1000, static_cast<double>(step) + 0.25);
    auto snapshot = run.snapshot(step);
    snapshot.put("E", field);
    snapshot.end();
    snapshot.wait();
}

// What is thrown has this code and these words in its text.
template <class Call>
static bool fails(fb_status code, std::initializer_list<const char *> words, Call &&call)
{
    try {
        call();
    } catch (const fb::error &e) {
        bool all = e.code() == code;
        for (const char *word : words) all = all && std::strstr(e.what(), word) != nullptr;
        if (!all) std::fprintf(stderr, "%s: %s\n", fb_status_name(e.code()), e.what());
        return all;
    }
    return false;
}

static int go(fb::run &run)
{
    CHECK(fails(FB_CORRUPT, { "step 3 is damaged" }, [&] { run.restart(nullptr, true); }));
    const auto back = run.restart();
    CHECK(back && back->step() == 2 && back->passed() == std::vector<std::int64_t>{ 3 });
    take(run, 3);
    const auto to = run.restart();
    std::vector<std::int64_t> heads;
    for (std::int64_t step : run.steps(6, *to)) heads.push_back(step);
    CHECK(heads == std::vector<std::int64_t>({ 3, 4, 5 }) && run.position() == 6);
    CHECK(run.drop(1) && !run.drop(1) && run.drop(0));
    take(run, 1);
    CHECK(run.last()->read<double>("E").values[7] == 3.25 && run.last()->passed().empty());
    CHECK(run.pack(1, 2) == 2 && run.pack() == 0 && run.at(2).read<double>("E").values[7] == 2.25);
    return 0;
}

static void say(const char *word)
{
    std::puts(word);
    std::fflush(stdout);
}

static int lose(fb::run &run)
{
    take(run, 0);
    say("ready");
    CHECK(std::getchar() == '\n');
    auto snapshot = run.snapshot(1);
    snapshot.put("E", std::vector<double>(1000, 1.25));
    snapshot.end();
    say("waiting");
    CHECK(fails(FB_SERVER_LOST, { "lost" }, [&] { snapshot.wait(); }));
    CHECK(fails(FB_SERVER_LOST, { "lost" }, [&] { run.flush(); }));
    CHECK(fails(FB_SERVER_LOST, { "lost" }, [&] { run.put("a", 1.0); }));
    CHECK(fails(FB_SERVER_LOST, { "lost" }, [&] { run.close(); }));
    return 0;
}

static int again(fb::run &run)
{
    std::int64_t last = -1;
    for (std::int64_t step : run.steps(2)) {
        CHECK(fails(FB_CONFLICT, { "complete steps up to 1" }, [&] { run.snapshot(step); }));
        last = step;
    }
    CHECK(last == 1 && run.last()->step() == 1);
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const std::string what = argv[2];
    fb_open_opts opts = {};
    opts.size = sizeof opts;
    opts.buffer = 8 << 20;
    opts.late = "ignore";
    if (what == "go") opts.pack = "no";
    fb::run run(argv[1], what == "read" ? "r" : "a", &opts);
    if (what == "read") {
        CHECK(run.at(2).read<double>("E").values[999] == 2.25);
        CHECK(fails(FB_CORRUPT, { "0000000003.h5", "forebay drop" }, [&] { run.at(3).read<double>("E"); }));
    } else if (what == "go") {
        if (go(run) != 0) return 1;
    } else if (what == "again") {
        if (again(run) != 0) return 1;
    } else if (what == "lose") {
        if (lose(run) != 0) return 1;
    } else {
        for (std::int64_t step = 0; step < 4; ++step) take(run, step);
    }
    if (what != "lose") run.close();
    std::puts("done");
    return 0;
}
