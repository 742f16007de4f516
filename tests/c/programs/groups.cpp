// forebay.hpp: groups of calls by scopes, functions that are told the ends of calls, and the calls that have failed.

#include "check.hpp"
#include "fails.hpp"

#include <atomic>
#include <chrono>
#include <thread>

static std::atomic<bool> is_open{ false };

static void until(const std::atomic<int> &count, int wanted)
{
    while (count < wanted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

static void scopes(const fb::client &client)
{
    double y[3] = {};
    {
        fb::group all = client.cobegin();
        for (int i = 0; i < 3; ++i) all.call("square", double(i), fb::out(y[i]));
    }
    CHECK(y[0] == 0 && y[1] == 1 && y[2] == 4);
    CHECK(fails(FB_REMOTE_ERROR, "call 2 of 3 (square): ", [&] {
        fb::group all = client.cobegin();
        for (const double x : { 3.0, -1.0, -2.0 }) all.call("square", x, fb::out(y[0]));
    }));

    // Ended within the scope, which then has nothing to do; an inner one that the outer one ends.
    auto outer = client.cobegin();
    auto inner = outer.cobegin();
    inner.call("gate");
    CHECK(fails(FB_TIMEOUT, "call 1 of 1 (gate)", [&] { outer.end(0.02); }) && outer.get() != nullptr);
    is_open = true;
    const fb::future one = outer.call_async("square", 5.0, fb::out(y[1]));
    one.wait();
    CHECK(y[1] == 25);
    outer.end();
    CHECK(fails(FB_CLOSED, "the group has ended", [&] { outer.call("gate"); }));
    CHECK(fails(FB_CLOSED, "fb_group was freed", [&] { inner.call("gate"); }));

    // Left by an exception: what is under way is given up, and the exception is the body's.
    is_open = false;
    try {
        fb::group all = client.cobegin();
        fb::group within = all.cobegin();
        within.call("gate");
        throw std::runtime_error("the body's own");
    } catch (const std::runtime_error &e) {
        CHECK(std::string(e.what()) == "the body's own");
    }
    CHECK(fails(FB_CANCELLED, "call 1 of 1 (gate): ", [&] {
        fb::group all = client.cobegin();
        all.call("gate");
        all.cancel();
    }));
}

static void told(fb::client &client)
{
    std::atomic<int> ends{ 0 };
    double y = 0, next = 0;
    is_open = true;
    fb::future call = client.call_async("square", 3.0, fb::out(y));
    std::optional<fb::future> second;
    call.then([&](const fb::future &over) {
        over.wait();
        second.emplace(client.call_async("square", y, fb::out(next)));
        second->then([&](const fb::future &) { ++ends; });
        ++ends;
    });
    until(ends, 2);
    second->wait();
    CHECK(y == 9 && next == 81 && call.done());

    // Moved, and ended by what it tells; an exception is found among what has failed.
    auto kept = std::make_unique<fb::future>(client.call_async("gate"));
    kept->then([&](const fb::future &) {
        kept.reset();
        ++ends;
        throw std::runtime_error("the function's own");
    });
    until(ends, 3);
    call = client.call_async("gate");
    call.then([&](const fb::future &) { ++ends; });
    until(ends, 4);
    const auto failed = client.failed();
    CHECK(failed.size() == 3 && failed[0].text == "the function's own" && failed[0].code == FB_REMOTE_ERROR);
    CHECK(failed[0].service == "gate" && failed[2].service == "square" && failed[2].server_pid != 0);
    CHECK(failed[2].when > 0 && !failed[2].server.empty());

    // Gone before its end: nobody is told.
    is_open = false;
    {
        fb::future given_up = client.call_async("gate");
        given_up.then([&](const fb::future &) { ends = 100; });
    }
    is_open = true;
    call = client.call_async("gate");
    call.then([&](const fb::future &) { ++ends; });
    until(ends, 5);
    CHECK(ends == 5);
}

int main()
{
    fb::server server;
    server.add("square(in x:f64, out y:f64)", [](fb::request &asked) {
        const double x = asked.scalar<double>(0);
        if (x < 0) throw std::runtime_error("no square of what is below zero");
        asked.set(1, x * x);
    });
    server.add("gate()", [](fb::request &asked) {
        while (!is_open && !asked.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    server.start();
    {
        fb::client client;
        scopes(client);
        told(client);
    }
    server.stop();
    std::puts("done");
}
