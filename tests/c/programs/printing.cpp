// What services of another program print comes to callers in C++.

#include "check.hpp"

int main()
{
    fb::client client;
    std::int64_t lines = 2;
    auto call = client.call_async("says", fb::in(lines));
    bool failed = false;
    try {
        call.wait();
    } catch (const fb::error &e) {
        failed = e.code() == FB_REMOTE_ERROR;
    }
    CHECK(failed);
    const fb::printed out = call.output(FB_STDOUT), err = call.output(FB_STDERR);
    CHECK(out.text == "line 0\nline 1\n" && out.others == 0);
    CHECK(err.text == "after 2 lines\n" && err.others == 0);
    auto bag = client.open_bag("says");
    bag.add(fb::in(lines));
    bag.end();
    const auto task = bag.next();
    CHECK(task && task->outcome == FB_REMOTE_ERROR);
    CHECK(bag.output(FB_STDOUT).text == "line 0\nline 1\n");
    std::puts("done");
    return 0;
}
