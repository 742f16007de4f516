// The same in C++ as damage.c: damage PLACE write|read|go.

#include <forebay.hpp>

#include <cstdio>
#include <cstring>
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

template <class Call>
static bool is_corrupt(Call &&call)
{
    try {
        call();
    } catch (const fb::error &e) {
        return e.code() == FB_CORRUPT && std::strstr(e.what(), "damaged") != nullptr;
    }
    return false;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const bool reads = std::strcmp(argv[2], "read") == 0;
    fb_open_opts opts = {};
    opts.size = sizeof opts;
    opts.buffer = 8 << 20;
    fb::run run(argv[1], reads ? "r" : "a", &opts);
    if (reads) {
        CHECK(run.at(2).read<double>("E").values[999] == 2.25);
        CHECK(is_corrupt([&] { run.at(3).read<double>("E"); }));
    } else if (std::strcmp(argv[2], "go") == 0) {
        CHECK(is_corrupt([&] { run.restart(nullptr, true); }));
        const auto back = run.restart();
        CHECK(back && back->step() == 2 && back->passed() == std::vector<std::int64_t>{ 3 });
        take(run, 3);
        CHECK(run.drop(1) && !run.drop(1) && run.drop(0));
        take(run, 1);
        CHECK(run.last()->read<double>("E").values[7] == 3.25 && run.last()->passed().empty());
    } else {
        for (std::int64_t step = 0; step < 4; ++step) take(run, step);
    }
    run.close();
    std::puts("done");
    return 0;
}
