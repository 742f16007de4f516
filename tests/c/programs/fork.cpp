// fork beside the handles of forebay.hpp: the child leaves their scopes, by return and by an exception, and takes
// nothing from the parent: fork PLACE.

#include "check.hpp"

#include <atomic>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

// True in the parent, false in a child that has left by return.
static bool parent_goes_on(const char *place, bool throws)
{
    const std::vector<double> x(5000, 1.5);
    std::atomic<bool> begun{ false }, may_go_on{ false };
    fb::server server;
    server.add("gate(in x:f64, out y:f64)", [&](fb::request &request) {
        begun = true;
        while (!may_go_on) std::this_thread::yield();
        request.set(1, 2 * request.scalar<double>(0));
    });
    server.start();
    fb::client client;
    fb::reference held = client.put(x);
    fb::run run(place, "w");
    fb::snapshot snapshot = run.snapshot(0);
    snapshot.put("E", x);
    double twice = 0;
    fb::future call = client.call_async("gate", 1.0, fb::out(twice));
    while (!begun) std::this_thread::yield();

    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0 && throws) throw std::runtime_error("the child leaves");
    if (pid == 0) return false;
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);

    may_go_on = true;
    call.wait();
    CHECK(twice == 2);
    CHECK(held.read<double>().values == x);
    snapshot.put("B", x);
    snapshot.end();
    snapshot.wait(20);
    CHECK(run.at(0).read<double>("E").values == x && run.at(0).read<double>("B").values == x);
    run.close();
    return true;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const pid_t parent = getpid();
    try {
        if (!parent_goes_on(argv[1], false)) return 0;
        parent_goes_on(argv[1], true);
    } catch (const std::runtime_error &e) {
        if (getpid() != parent) return 0;
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    std::int64_t in_use = -1;
    fb::check(fb_in_use(&in_use));
    CHECK(in_use == 0);
    std::puts("done");
    return 0;
}
