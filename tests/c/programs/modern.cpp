// forebay.hpp: handles, exceptions, arrays, snapshots, calls and a server: modern PLACE.

#include "check.hpp"
#include "fails.hpp"

#include <numeric>
#include <thread>

static void types()
{
    static_assert(fb::dtype_of<bool>() == FB_BOOL && fb::dtype_of<signed char>() == FB_I8);
    static_assert(fb::dtype_of<std::uint16_t>() == FB_U16 && fb::dtype_of<int>() == FB_I32);
    static_assert(fb::dtype_of<long long>() == FB_I64 && fb::dtype_of<unsigned long>() == FB_U64);
    static_assert(fb::dtype_of<float>() == FB_F32 && fb::dtype_of<std::complex<double>>() == FB_C128);
    static_assert(!std::is_copy_constructible_v<fb::run> && std::is_nothrow_move_constructible_v<fb::snapshot>);
    CHECK(fb::shape{ 3, 4 }.size() == 12 && fb::shape{}.size() == 1 && fb::shape{ 3, 0 }.size() == 0);
    CHECK(fb::shape{ 3, 4 } != fb::shape{ 4, 3 } && fb::shape{ 3, 4 } == fb::shape{ 3, 4 });
    CHECK(fails(FB_BAD_ARGUMENT, "rank 9", [] { fb::shape{ 1, 1, 1, 1, 1, 1, 1, 1, 1 }; }));
}

static void data(fb::run &run)
{
    std::vector<double> field(12);
    std::iota(field.begin(), field.end(), 0.0);
    run.put("E", field, { 3, 4 }, "V/m");
    run.put("line", std::vector<std::int32_t>{ 1, -2, 3 });
    run.put("wave", std::vector<std::complex<float>>{ { 1, 2 }, { 3, -4 } });
    run.put("pi", 3.25);
    run.put("E", field, { 12 }, nullptr, 7);
    run.put_text("deck", "nx = 64");
    const fb::array<double> back = run.read<double>("E");
    CHECK(back.values == field && back.extents == fb::shape{ 3, 4 });
    CHECK(run.read<double>("E", 7).extents == fb::shape{ 12 });
    const fb::mapped_array<double> same = run.map<double>("E");
    CHECK(same(2, 3) == field[11] && same.extents() == back.extents);
    CHECK(fails(FB_BAD_ARGUMENT, "f64", [&] { run.map<float>("E"); }));
    CHECK(std::string(run.info("E").units) == "V/m");
    CHECK(run.read<std::int32_t>("line").values[1] == -2);
    CHECK(run.read<std::complex<float>>("wave").values[1] == std::complex<float>(3, -4));
    CHECK(run.read<double>("pi").extents.rank() == 0 && run.read<double>("pi").values[0] == 3.25);
    CHECK(run.read_text("deck") == "nx = 64");
    CHECK(fails(FB_NOT_FOUND, "B", [&] { run.read<double>("B"); }));
    CHECK(fails(FB_BAD_ARGUMENT, "f64", [&] { run.read<float>("E"); }));
    CHECK(fails(FB_BAD_ARGUMENT, "12 elements", [&] { run.put("E", field, { 3, 5 }); }));
    // What has no words of its own here goes by forebay.h.
    fb::check(fb_attr_set_str(fb_of_dataset(run.get(), "E", 0), "solver", "spectral"));
    CHECK(fails(FB_NOT_FOUND, "nobody", [&] { fb::check(fb_attr_set_i64(fb_of_dataset(run.get(), "nobody", 0), "a", 1)); }));
}

static void snapshots(fb::run &run)
{
    std::vector<float> field(24, 1.5f);
    double nu = 0.25;
    run.parameter("nu", nu);
    for (std::int64_t step : run.steps(4)) {
        fb::snapshot snapshot = run.snapshot(step, 0.5 * static_cast<double>(step));
        field[0] = static_cast<float>(step);
        snapshot.put("E", field, { 4, 6 }, "V/m");
        snapshot.put_block("whole", field.data(), { 4, 6 }, { 0, 0 }, { 4, 6 });
        snapshot.append("x", field);
        fb::allocated<std::int64_t> place = snapshot.allocate<std::int64_t>("n", { 5 });
        const fb::allocated<std::int64_t> copy = place;
        std::fill(place.begin(), place.end(), step);
        CHECK(place.size() == 5 && place.extents() == fb::shape{ 5 } && copy[4] == step);
        snapshot.end();
        CHECK(!place && !copy && place.data() == nullptr && place.size() == 0 && place.begin() == place.end());
        CHECK(fails(FB_CLOSED, "next snapshot", [&] { place[0] = 7; }));
        if (step == 1) CHECK(run.checkpoint("one") == 1);
        if (step == 3) snapshot.wait(60);
    }
    const fb::mapped_array<float> there = run.at(3).map<float>("E");
    CHECK(there(0, 0) == 3 && there(3, 5) == 1.5f);
    // An exception discards what is not ended, and the step may be taken again.
    fb::allocated<double> of_torn;
    CHECK(!of_torn);
    try {
        fb::snapshot torn = run.snapshot(4);
        of_torn = torn.allocate<double>("y", { 2, 2 });
        CHECK(of_torn);
        torn.put("E", field);
        throw std::runtime_error("diverged");
    } catch (const std::runtime_error &) {
    }
    CHECK(!of_torn);
    CHECK(fails(FB_NOT_FOUND, "4", [&] { run.at(4); }));
    CHECK(run.position() == 4);
    fb::snapshot again = run.snapshot(4);
    CHECK(again.taken());
    fb::snapshot moved = std::move(again);
    moved.discard();
    CHECK(fails(FB_CONFLICT, "3", [&] { run.snapshot(3); }));

    const fb::stored last = run.last().value();
    CHECK(last.step() == 3 && last.time() == 1.5);
    CHECK(last.names() == std::vector<std::string>{ "E", "n", "whole", "x" });
    CHECK(last.read<float>("E").extents == fb::shape{ 4, 6 } && last.read<float>("x").values == field);
    CHECK(last.read<std::int64_t>("n").values == std::vector<std::int64_t>(5, 3));
    const fb::stored back = run.restart("one").value();
    CHECK(back.step() == 1);
    std::int64_t sum = 0;
    for (std::int64_t step : run.steps(4, back.step())) sum += step;
    CHECK(sum == 1 + 2 + 3);
}

static void calls()
{
    fb::client *own = nullptr;
    fb::server server;
    // Calls itself: the one worker gives its place to another while it waits.
    server.add("nested(in depth:i64, out calls:i64)", [&own](fb::request &request) {
        const auto depth = request.scalar<std::int64_t>(0);
        std::int64_t below = 0;
        if (depth > 0) own->call("nested", depth - 1, fb::out(below));
        request.set(1, below + 1);
    });
    server.add("axpy(in a:f64, in x:f64[n], inout y:f64[n])", [](fb::request &request) {
        const double a = request.scalar<double>(0);
        const auto x = request.array<double>(1), y = request.array<double>(2);
        if (x.size() == 0) throw std::invalid_argument("there is nothing to add");
        for (std::int64_t i = 0; i < x.size(); ++i) y[i] += a * x[i];
    });
    server.add("say(in who:str, in n:i32, out said:str, out twice:i64)", [](fb::request &request) {
        request.set(2, "hello " + request.text(0));
        request.set(3, std::int64_t(2) * request.scalar<std::int32_t>(1));
    });
    server.add("slow()", [](fb::request &request) {
        while (!request.cancelled()) std::this_thread::yield();
    });
    server.start();
    fb::client client;
    own = &client;
    std::int64_t calls = 0;
    client.call("nested", std::int64_t(9), fb::out(calls));
    CHECK(calls == 10);
    CHECK(client.signature("slow").find("slow(") == 0);
    const std::vector<double> x{ 1, 2, 3 };
    std::vector<double> y{ 1, 1, 1 };
    client.call("axpy", 2.0, x, fb::inout(y));
    CHECK((y == std::vector<double>{ 3, 5, 7 }));
    double raw[3] = { 0, 0, 0 };
    fb::future future = client.call_async("axpy", 0.5, fb::in(x.data(), { 3 }), fb::inout(raw, { 3 }));
    future.wait();
    CHECK(future.done() && raw[2] == 1.5);
    char said[32];
    std::int64_t twice = 0;
    client.call("say", std::string("you"), 21, fb::out(said, sizeof said), fb::out(twice));
    CHECK(std::string(said) == "hello you" && twice == 42);
    fb::reference held = client.put(y);
    client.call("axpy", 1.0, x, held);
    CHECK((held.read<double>().values == std::vector<double>{ 4, 7, 10 }));
    held.put(x);
    CHECK(held.read<double>().values == x);
    CHECK(fails(FB_BAD_ARGUMENT, "another type", [&] { held.read<float>(); }));
    std::vector<double> none;
    CHECK(fails(FB_REMOTE_ERROR, "nothing to add", [&] { client.call("axpy", 1.0, none, fb::inout(none)); }));
    CHECK(fails(FB_BAD_ARGUMENT, "inout", [&] { client.call("axpy", 1.0, x, y); }));
    CHECK(fails(FB_NO_SERVER, "nobody", [&] { client.call("nobody"); }));
    // A call that is let go of is given up, and its server may stop.
    fb::future forgotten = client.call_async("slow");
    CHECK(fails(FB_TIMEOUT, "", [&] { forgotten.wait(0.01); }));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    types();
    fb_open_opts opts = {};
    opts.size = sizeof opts;
    opts.buffer = 8 << 20;
    {
        fb::run run(argv[1], "w", &opts);
        data(run);
        snapshots(run);
        run.flush();
        run.close();
        CHECK(run.get() == nullptr);
    }
    CHECK(fails(FB_NOT_FOUND, "give the path", [] { fb::run("/nowhere/at/all", "r"); }));
    // One that goes for an exception is not finished, one that goes in order is.
    try {
        fb::run run(argv[1], "a", &opts);
        throw std::runtime_error("diverged");
    } catch (const std::runtime_error &) {
    }
    for (int finished = 0; finished < 2; ++finished) {
        fb::run run(argv[1], "a", &opts);
        CHECK(run.restart().value().info().finished == finished);
    }
    {
        fb::run run(argv[1], "a", &opts);
        const std::int64_t kept = run.restart().value().step();
        std::int64_t first = -1;
        for (std::int64_t step : run.steps(kept + 2, run.restart()))
            if (first < 0) first = step;
        CHECK(first == kept);
        run.close();
    }
    // One that is forgotten is told of: by the next one, and by the end of the run.
    {
        fb::run run((std::string(argv[1]) + "-forgotten").c_str(), "w", &opts);
        run.snapshot(0).put("x", std::vector<double>{ 1 });
        CHECK(fails(FB_CONFLICT, "not ended", [&] { run.snapshot(1); }));
        CHECK(fails(FB_CONFLICT, "not ended", [&] { run.close(); }));
        run.close();
    }
    calls();
    std::int64_t in_use = -1;
    fb::check(fb_in_use(&in_use));
    CHECK(in_use == 0);
    std::puts("done");
    return 0;
}
