// None of the ranks, in C++: client PLACE.

#include "check.hpp"
#include "fails.hpp"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    auto opts = fb::defaults<fb_open_opts>();
    opts.client = 1;
    {
        fb::run run(argv[1], "r+", &opts);
        CHECK(run.rank() == 0 && run.ranks() == 0);
        run.put("beside", 2.5);
        CHECK(run.read<double>("beside").values[0] == 2.5);
        run.attrs().set("who", "a client");
        run.table("seen", { { "n", FB_I64 } }).insert({ { "n", std::vector<std::int64_t>{ 4, 5 } } });
        run.message("from a client", FB_WARNING);
        CHECK(fails(FB_BAD_ARGUMENT, "a snapshot is the ranks' alone", [&] { run.snapshot(7); }));
        run.close();
    }
    std::puts("done");
    return 0;
}
