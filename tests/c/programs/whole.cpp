// forebay.hpp, what modern.cpp leaves out: views of elements that lie apart, parts, attributes, tables, heads with
// functions of the program, diagrams, futures by the dozen: whole PLACE.

#include "check.hpp"
#include "fails.hpp"

#include <cmath>
#include <csignal>
#include <numeric>
#include <thread>
#include <unistd.h>

struct diverged : std::runtime_error {
    using std::runtime_error::runtime_error;
};

static std::vector<double> counted(std::size_t n)
{
    std::vector<double> values(n);
    std::iota(values.begin(), values.end(), 0.0);
    return values;
}

// A field of 4 x 6 whose interior of 2 x 4 has a ghost cell on each side.
static void views(fb::run &run)
{
    std::vector<double> field = counted(24);
    const fb::view<double> all(field.data(), { 4, 6 });
    const auto interior = all.part({ 1, 1 }, { 2, 4 });
    CHECK(all(2, 3) == 15 && interior(0, 0) == 7 && interior(1, 3) == 16 && interior.size() == 8);
    run.put("interior", interior, "V/m");
    CHECK((run.read<double>("interior").values == std::vector<double>{ 7, 8, 9, 10, 13, 14, 15, 16 }));
    CHECK(std::string(run.info("interior").units) == "V/m");
    std::vector<double> back(24, -1.0);
    run.read("interior", fb::view<double>(back.data(), { 4, 6 }).part({ 1, 1 }, { 2, 4 }));
    CHECK(back[0] == -1 && back[7] == 7 && back[10] == 10 && back[11] == -1 && back[16] == 16 && back[17] == -1);

    // Every other column, from the last row up, and a member of a structure.
    run.put("sparse", fb::view<const double>(&field[18], { 4, 3 }, { -48, 16 }));
    CHECK((run.read<double>("sparse").values == std::vector<double>{ 18, 20, 22, 12, 14, 16, 6, 8, 10, 0, 2, 4 }));
    struct particle {
        double x;
        float weight;
    } const particles[] = { { 1, 0.5f }, { 2, 1.5f } };
    run.put("weight", fb::view<const float>(&particles[0].weight, { 2 }, { sizeof(particle) }));
    CHECK((run.read<float>("weight").values == std::vector<float>{ 0.5f, 1.5f }));
    const auto turned = fb::column_major(field.data(), { 6, 4 });
    CHECK(turned(1, 0) == 1 && turned(0, 1) == 6);
    run.put("turned", turned);
    CHECK(run.info("turned").order == FB_COLUMN_MAJOR && run.read<double>("turned").values[1] == 6);
    const fb::f16 halves[] = { { 0x3c00 }, { 0xc000 } };
    run.put("halves", halves, { 2 });
    CHECK(run.info("halves").dtype == FB_F16 && run.read<fb::f16>("halves").values[1].bits == 0xc000);
    const fb::f16 none[1] = { { 0 } };
    run.put("empty", none, { 0, 3 });
    CHECK(run.read<fb::f16>("empty").extents == fb::shape{ 0, 3 });

    CHECK((run.read_part<double>("turned", { 1, 1 }, { 2, 3 }).values == std::vector<double>{ 7, 13, 19, 8, 14, 20 }));
    CHECK((run.read_part<double>("turned", { 0, 0 }, { 3, 2 }, { 2, 3 }).values == std::vector<double>{ 0, 18, 2, 20, 4, 22 }));
    CHECK(fails(FB_BAD_ARGUMENT, "one number for each axis", [&] { run.read_part<double>("turned", { 1 }, { 2, 3 }); }));
    CHECK(fails(FB_BAD_ARGUMENT, "is not within [4, 6]", [&] { all.part({ 1, 3 }, { 2, 4 }); }));
    CHECK(fails(FB_BAD_ARGUMENT, "strides [8] is of rank 1", [&] { fb::view<double>(field.data(), { 2, 3 }, { 8 }); }));

    const std::uint64_t first = run.put_if_version("versioned", all, 0);
    CHECK(run.put_if_version("versioned", all, first) == first + 1);
    CHECK(fails(FB_CONFLICT, "version", [&] { run.put_if_version("versioned", all, first); }));
    CHECK(run.list("w*").size() == 1 && run.list().size() > 4);
    CHECK(run.copy("weight", "mass") == 1 && run.rename("mass", "load") == 1 && run.erase("load") == 1);
    CHECK(run.rank() == 0 && run.ranks() == 1 && !run.read_only() && run.path().back() != '/');
    CHECK(run.stats().put_bytes > 0);
}

static void attributes(fb::run &run)
{
    auto own = run.attrs();
    own.set("code", "two_stream");
    own.set("dt", 0.25);
    own.set("n", 7);
    own.set("big", UINT64_MAX);
    own.set("open \"end\"", true);
    CHECK(own.get<std::string>("code") == "two_stream" && own.get<double>("dt") == 0.25 && own.get<std::int64_t>("n") == 7);
    CHECK(own.get<bool>("open \"end\"") && own.json().find("18446744073709551615") != std::string::npos);
    CHECK(own.has("dt"));
    own.erase("dt");
    CHECK(!own.has("dt"));
    CHECK(fails(FB_NOT_FOUND, "dt", [&] { own.get<double>("dt"); }));
    auto of_field = run.attrs("interior");
    of_field.set("solver", std::string("spectral"));
    of_field.set_json("{\"ghosts\": [1, 1]}");
    CHECK(run.attrs("interior").get<std::string>("solver") == "spectral" && !own.has("solver"));
}

static void tables(fb::run &run)
{
    fb::table bodies = run.table("bodies", { { "id", FB_I64 }, { "mass", FB_F64, "kg" }, { "kind", FB_STR }, { "k", FB_U64 } });
    const std::vector<int> ids{ 1, 2, 3 };
    const std::vector<double> masses{ 1.5, std::nan(""), 3.5 };
    const std::vector<std::string> kinds{ "ion", "", "electron" };
    const std::vector<std::uint64_t> large(3, UINT64_MAX);
    bodies.insert({ { "id", ids }, { "mass", masses }, { "kind", kinds }, { "k", large } });
    bodies.insert({ { "id", 4 }, { "kind", "probe" } });
    CHECK(bodies.count() == 4 && run.tables() == std::vector<std::string>{ "bodies" });
    CHECK(bodies.columns().size() == 4 && std::string(bodies.columns()[1].units) == "kg");
    bodies.attrs().set("origin", "beam");
    CHECK(run.table("bodies").attrs().get<std::string>("origin") == "beam");

    const fb::rows heavy = bodies.select("mass > ? and kind = ?", 2.0, "electron");
    CHECK(heavy.size() == 1 && heavy.columns() == std::vector<std::string>({ "id", "mass", "kind", "k" }));
    CHECK(heavy.column<std::int64_t>("id")[0] == 3 && heavy.column<double>(1)[0] == 3.5);
    CHECK(heavy.column<std::uint64_t>("k")[0] == UINT64_MAX && heavy.column<std::string>("kind")[0] == "electron");
    const fb::rows all = bodies.select_columns({ "kind", "mass" });
    CHECK(all.size() == 4 && all.is_null(3, "mass") && !all.is_null(0, 0) && std::isnan(all.column<double>("mass")[3]));
    CHECK(fails(FB_BAD_ARGUMENT, "there are kind, mass", [&] { all.column<double>("id"); }));
    bodies.index({ "kind", "mass" });
    CHECK(fails(FB_BAD_ARGUMENT, "no column", [&] { bodies.index({ "colour" }); }));
    CHECK(bodies.update({ { "mass", 9.0 }, { "kind", std::string("heavy") } }, "id = ?", 3) == 1);
    CHECK(run.sql("select sum(mass) from bodies where kind = ?", "heavy").column<double>(0)[0] == 9);
    const auto bytes = run.sql("select x'0102'").bytes(0, 0);
    CHECK(bytes.size() == 2);
    CHECK(bodies.erase("id = ?", 4) == 1 && bodies.erase(nullptr) == 3 && bodies.count() == 0);
    const std::vector<int> two{ 1, 2 };
    CHECK(fails(FB_BAD_ARGUMENT, "2 values for 3 rows", [&] { bodies.insert({ { "mass", masses }, { "id", two } }); }));
    CHECK(fails(FB_READ_ONLY, "delete", [&] { run.sql("delete from bodies"); }));

    fb::table atoms = run.table("atoms", { { "id", FB_I64 }, { "v", FB_F64, "m/s", { 3 } } });
    const std::vector<double> velocities{ 1, 2, 3, 4, 5, 6 };
    atoms.insert({ { "id", std::vector<int>{ 1, 2 } }, { "v", velocities, { 3 } } });
    CHECK(atoms.columns()[1].ndim == 1 && atoms.columns()[1].shape[0] == 3);
    CHECK(atoms.select().arrays<double>("v", { 3 }) == velocities);
    CHECK(fails(FB_BAD_ARGUMENT, "f64(2, 3)", [&] { atoms.select().arrays<double>("v", { 2 }); }));
    CHECK(fails(FB_BAD_ARGUMENT, "shape [4]", [&] { atoms.insert({ { "v", velocities, { 4 } } }); }));
    CHECK(fails(FB_BAD_ARGUMENT, "\"v\"", [&] { atoms.select("v > ?", 1.0); }));
}

static void heads(fb::run &run)
{
    bool filter = true;
    std::string scheme = "upwind";
    std::int64_t seed = 9007199254740993;
    run.parameter("filter", filter);
    run.parameter("scheme", scheme);
    run.parameter("seed", seed);
    CHECK(filter && scheme == "upwind");
    std::vector<std::int64_t> kept;
    run.on_save(
        [&](std::int64_t step) {
            if (step == 6) throw diverged("the field is no number");
            fb::snapshot snapshot = run.snapshot(step, 0.5 * static_cast<double>(step));
            auto place = snapshot.allocate_block<double>("E", { 2, 3 }, { 0, 0 }, { 2, 3 });
            std::fill(place.begin(), place.end(), static_cast<double>(step));
            const std::vector<double> ghosts = counted(20);
            const auto inside = fb::view<const double>(ghosts.data(), { 4, 5 }).part({ 1, 1 }, { 2, 3 });
            snapshot.put_block("v", inside, { 0, 0 }, { 2, 3 });
            snapshot.append("x", inside, "m");
            snapshot.end();
            kept.push_back(step);
        },
        2);
    run.on_command("kick", [](std::int64_t) { throw 7; });
    run.message("the wave breaks", FB_WARNING);
    fb::diagram energy = run.diagram("energy"), history = [&] {
        auto opts = fb::defaults<fb_diagram_opts>();
        opts.kind = "history";
        return run.diagram("growth", &opts);
    }();
    auto opts = fb::defaults<fb_loop_opts>();
    opts.keep_sigterm = 1;
    std::int64_t last = -1;
    // What the program threw in its own function is what the loop throws.
    try {
        for (std::int64_t step : run.steps(9, opts)) {
            history.append(static_cast<double>(step), { { "kinetic", 1.0 }, { "field", 2.0 } });
            energy.update({ 0, 1, 2 }, { 1, 4, 9 });
            last = step;
        }
        CHECK(false);
    } catch (const diverged &e) {
        CHECK(std::string(e.what()) == "the field is no number");
    }
    CHECK(last == 5 && (kept == std::vector<std::int64_t>{ 0, 2, 4 }) && !energy.wants());
    CHECK(fails(FB_BAD_ARGUMENT, "2 abscissae and 1", [&] { energy.update("a", { 1, 2 }, { 1 }); }));
    CHECK((run.snapshots() == std::vector<std::int64_t>{ 0, 2, 4 }));
    CHECK(run.checkpoint("four") == 4 && run.checkpoints().size() == 1);
    CHECK(std::string(run.checkpoints()[0].tag) == "four" && !run.ended_by());
    std::vector<double> over(4);
    run.series("v", { 4, 0 }, fb::view<double>(over.data(), { 2, 1, 2 }), { 1, 0 }, { 1, 2 });
    CHECK((over == std::vector<double>{ 11, 13, 11, 13 }));
    const fb::rows growth = run.history("growth");
    CHECK((growth.columns() == std::vector<std::string>{ "step", "t", "kinetic", "field" }) && growth.size() == 6);
    const fb::stored four = run.at(4);
    CHECK(four.parameters().find("upwind") != std::string::npos && four.info("x").shape[0] == 2);
    CHECK((four.read_part<double>("v", { 1, 0 }, { 1, 2 }, { 1, 2 }).values == std::vector<double>{ 11, 13 }));
    std::vector<double> wide(8, -1.0);
    four.read("v", fb::view<double>(wide.data(), { 2, 4 }).part({ 0, 1 }, { 2, 3 }));
    CHECK(wide[0] == -1 && wide[1] == 6 && wide[4] == -1 && wide[7] == 13);
    fb::run moved = std::move(run);
    run = std::move(moved);
    CHECK(run.restart("four")->step() == 4 && filter);
    CHECK(run.monitor_url().find("http") == 0 && !run.monitor().operator_url.empty());
}

// A state that could not be kept where SIGTERM ends the loop is no end in order.
static void ended(const char *place)
{
    auto opts = fb::defaults<fb_open_opts>();
    opts.buffer = 8 << 20;
    fb::run run(place, "w", &opts);
    run.on_save([](std::int64_t) { throw diverged("the disk of the moon is full"); });
    try {
        for (std::int64_t step : run.steps(FB_NO_END))
            if (step == 3) std::raise(SIGTERM);
        CHECK(false);
    } catch (const diverged &e) {
        CHECK(std::string(e.what()) == "the disk of the moon is full" && run.ended_by() == "SIGTERM");
    }
    run.close_unfinished();
}

/* Tasks on an array that a server holds. */
static void held_tasks(const fb::client &client)
{
    const fb::reference a = client.put(std::vector<double>(16, 1), { 4, 4 });
    fb::bag bag = client.open_bag("scale");
    for (int i = 0; i < 10; ++i) bag.add(a, 2.0);
    bag.end();
    while (const auto found = bag.next(20)) found->check();
    const auto values = a.read<double>();
    CHECK(values.values[0] == 1024 && values.values[15] == 1024 && bag.counts().done == 10);
}

static void many_tasks(const fb::client &client)
{
    constexpr std::size_t tasks = 3000;
    const std::vector<double> numbers = counted(tasks);
    std::size_t seen = 0;
    for (const auto &half : client.map<double>("halve", numbers)) {
        CHECK(half.index == static_cast<std::int64_t>(seen) && half.value == numbers[seen] / 2);
        ++seen;
    }
    CHECK(seen == tasks);
    // Left early; a range that is nobody's; none at all; a task that fails.
    for (const auto &half : client.map<double>("halve", counted(tasks))) {
        if (half.index == 10) break;
    }
    for (const auto &half : client.map<double>("halve", std::vector<double>())) CHECK(half.index < 0);
    CHECK(fails(FB_REMOTE_ERROR, "task 2: ", [&] {
        for (const auto &half : client.map<double>("halve", std::vector<double>{ 0, 1, -1, 2 })) CHECK(half.index < 2);
    }));

    auto opts = fb::defaults<fb_bag_opts>();
    opts.unordered = 1;
    fb::bag bag = client.open_bag("halve", &opts);
    std::vector<double> halves(4);
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(bag.add(numbers[i], fb::out(halves[i])) == static_cast<std::int64_t>(i));
    }
    CHECK(bag.add_within(20, -1.0, fb::out(halves[3])) == 3);
    bag.end();
    int over = 0;
    while (const auto found = bag.next(20)) {
        CHECK((found->outcome == FB_OK) == (found->index < 3) && found->text.empty() == (found->index < 3));
        ++over;
    }
    bag.cancel(3);
    CHECK(over == 4 && halves[2] == 1 && bag.state(3) == FB_TASK_FAILED && bag.counts().done == 3);
    CHECK(fails(FB_CONFLICT, "has ended", [&] { bag.add(1.0, fb::out(halves[0])); }));
    CHECK(fails(FB_NO_SERVER, "nobody", [&] { client.open_bag("nobody"); }));
    const fb::bag other = std::move(bag);
    CHECK(fails(FB_CLOSED, "the bag was moved", [&] { bag.end(); }) && bag.get() == nullptr);
}

static void calls()
{
    fb::server server;
    server.add("trace(in a:f64[n,n], out sum:f64)", [](fb::request &request) {
        const auto a = request.view<const double>(0);
        double sum = 0;
        for (std::int64_t i = 0; i < a.extents()[0]; ++i) sum += 10 * a(i, i) + a(0, i);
        request.set(1, sum);
    });
    server.add("first(in a:f64[m,n], out sum:f64)", [](fb::request &request) { request.set(1, request.array<double>(0)[1]); });
    server.add("scale(inout a:f64[m,n], in by:f64)", [](fb::request &request) {
        CHECK(request.count() == 2 && request.signature().find("scale(") == 0);
        const auto a = request.view<double>(0);
        for (std::int64_t i = 0; i < a.extents()[0]; ++i)
            for (std::int64_t j = 0; j < a.extents()[1]; ++j) a(i, j) *= request.scalar<double>(1);
    });
    server.add("turn(in some:bytes, out back:bytes)", [](fb::request &request) {
        const auto some = request.bytes(0);
        const std::vector<unsigned char> back(std::make_reverse_iterator(some.end()), std::make_reverse_iterator(some.begin()));
        request.set_bytes(1, back.data(), static_cast<std::int64_t>(back.size()));
    });
    server.add("push(inout x:f64[n], in v:f64[n], in dt:f64)", [](fb::request &request) {
        const auto at = request.array<double>(0), speed = request.array<double>(1);
        for (std::int64_t i = 0; i < at.size(); ++i) at[i] += request.scalar<double>(2) * speed[i];
    });
    server.add("slow()", [](fb::request &request) {
        while (!request.cancelled()) std::this_thread::yield();
    });
    server.add("halve(in x:f64, out y:f64)", [](fb::request &request) {
        const double x = request.scalar<double>(0);
        if (x < 0) throw fb::error(FB_BAD_ARGUMENT, "it is below zero");
        request.set(1, x / 2);
    });
    server.add("gone()", [](fb::request &) {});
    auto opts = fb::defaults<fb_ref_opts>();
    server.start();
    server.remove("gone");
    CHECK(!server.trouble() && server.load().queued == 0);
    fb::client client;
    client.patience(0);
    client.silence(30);
    // The broker hears of the removal a little later.
    while (client.services().size() > 7) std::this_thread::yield();
    CHECK(client.services().size() == 7);
    client.place_by("least");
    CHECK(fails(FB_NO_SERVER, "no server \"of nobody\" offers halve", [&] { client.on("of nobody").call("halve"); }));
    {
        const fb::client tied = client.on(static_cast<std::uint32_t>(getpid()));
        double half = 0;
        tied.call("halve", 3.0, fb::out(half));
        CHECK(half == 1.5);
    }
    many_tasks(client);
    held_tasks(client);
    const std::vector<double> square = counted(9);
    double sum = 0;
    client.call("trace", fb::view<const double>(square.data(), { 3, 3 }), fb::out(sum));
    CHECK(sum == 10 * (0 + 4 + 8) + 0 + 1 + 2);
    client.call("trace", fb::column_major(square.data(), { 3, 3 }), fb::out(sum));
    CHECK(sum == 10 * (0 + 4 + 8) + 0 + 3 + 6);
    CHECK(fails(FB_REMOTE_ERROR, "order C", [&] { client.call("first", fb::column_major(square.data(), { 3, 3 }), fb::out(sum)); }));
    std::vector<double> field(16, 1.0);
    const auto interior = fb::view<double>(field.data(), { 4, 4 }).part({ 1, 1 }, { 2, 2 });
    CHECK(fails(FB_BAD_ARGUMENT, "fb::inout(...) in C++", [&] { client.call("scale", fb::view<const double>(square.data(), { 3, 3 }), 3.0); }));
    client.call_within(60, "scale", fb::inout(interior), 3.0);
    CHECK(field[0] == 1 && field[5] == 3 && field[6] == 3 && field[7] == 1 && field[10] == 3 && field[15] == 1);
    const char some[] = { 1, 2, 3 };
    char back[8];
    std::int64_t length = 0;
    client.call("turn", FB_IN_BYTES(some, 3), FB_OUT_BYTES(back, sizeof back, &length));
    CHECK(length == 3 && back[0] == 3 && back[2] == 1);

    // Members of structures: no element of one is one of the other, though they lie between each other.
    struct particle {
        double x;
        float weight;
        double v;
    };
    std::vector<particle> particles(5, { 1.0, 0.5f, 4.0 });
    const fb::shape apart{ sizeof(particle) };
    const fb::view<double> x(&particles[0].x, { 5 }, apart), v(&particles[0].v, { 5 }, apart);
    client.call("push", fb::inout(x), v, 0.25);
    CHECK(particles[0].x == 2 && particles[4].x == 2 && particles[2].v == 4 && particles[3].weight == 0.5f);
    double matrix[4][3] = { { 1, 2, 3 }, { 1, 2, 3 }, { 1, 2, 3 }, { 1, 2, 3 } };
    const fb::view<double> columns(&matrix[0][0], { 4, 3 });
    const auto column = [&](std::int64_t j) { return fb::view<double>(&matrix[0][j], { 4 }, { sizeof matrix[0] }); };
    fb::future pushed = client.call_async("push", fb::inout(column(2)), column(1), 0.5);
    pushed.wait();
    CHECK(columns(3, 2) == 4 && columns(0, 2) == 4 && columns(3, 1) == 2 && columns(3, 0) == 1);
    CHECK(fails(FB_BAD_ARGUMENT, "share memory", [&] { client.call("push", fb::inout(column(1)), column(1), 0.5); }));

    std::vector<fb::future> many;
    for (int i = 0; i < 12; ++i) many.push_back(client.call_async("scale", fb::inout(&field[static_cast<std::size_t>(i)], { 1, 1 }), 2.0));
    fb::wait_all(many, 60);
    CHECK(fb::wait_any(many) == 0 && fb::probe_any(many) == 0 && field[0] == 2 && field[5] == 6);
    CHECK(many[0].timing().total > 0 && many[0].timing().server_pid != 0);
    std::vector<fb::future> waiting;
    for (int i = 0; i < 2; ++i) waiting.push_back(client.call_async("slow"));
    CHECK(!fb::probe_any(waiting));
    fb::cancel_all(waiting);
    CHECK(fails(FB_CANCELLED, "", [&] { fb::wait_all(waiting, 60); }));
    CHECK(fails(FB_TIMEOUT, "", [&] { client.call_within(0.01, "slow"); }));

    fb::reference zeros = client.zeros<double>({ 3, 4 });
    opts.with = zeros.get();
    fb::reference beside = client.put(interior, &opts);
    CHECK(beside.server() == zeros.server() && beside.server_pid() == zeros.server_pid());
    zeros.put_part({ 1, 1 }, interior);
    CHECK((zeros.read<double>().values == std::vector<double>{ 0, 0, 0, 0, 0, field[5], field[6], 0, 0, field[9], field[10], 0 }));
    CHECK((zeros.read_part<double>({ 1, 0 }, { 2, 2 }, { 1, 2 }).values == std::vector<double>{ 0, field[6], 0, field[10] }));
    std::vector<double> wide(24, -1.0);
    zeros.read(fb::view<double>(wide.data(), { 3, 8 }).part({ 0, 0 }, { 3, 4 }, { 1, 2 }));
    CHECK(wide[1] == -1 && wide[10] == field[5] && wide[12] == field[6]);
}

// What was closed, or moved to another variable, is told from what was never there.
static void gone(const char *place)
{
    fb::run run(place, "a");
    CHECK(run.restart()->step() == 4);
    fb::table table = run.table("bodies");
    fb::diagram diagram = run.diagram("energy");
    fb::stored stored = run.at(4);
    fb::rows rows = run.sql("select 7");
    fb::snapshot snapshot = run.snapshot(9);
    fb::server server;
    server.add("scale(inout a:f64[n])", [](fb::request &) {});
    server.start();
    fb::client client;
    fb::reference held = client.zeros<double>({ 2 });
    const std::vector<double> x{ 1, 2 };
    bool flag = true;
    std::vector<fb::future> calls;
    calls.push_back(client.call_async("scale", held));

    const fb::table other_table = std::move(table);
    CHECK(fails(FB_CLOSED, "the table was moved", [&] { table.count(); }) && other_table.count() == 0);
    const fb::diagram other_diagram = std::move(diagram);
    CHECK(fails(FB_CLOSED, "the diagram was moved", [&] { diagram.wants(); }) && other_diagram.get() != nullptr);
    const fb::stored other_stored = std::move(stored);
    CHECK(fails(FB_CLOSED, "the stored snapshot was moved", [&] { stored.step(); }) && other_stored.step() == 4);
    CHECK(fails(FB_CLOSED, "the stored snapshot was moved", [&] { run.steps(9, stored); }));
    CHECK(fails(FB_CLOSED, "the stored snapshot was moved", [&] { run.steps(9, std::optional<fb::stored>(std::move(stored))); }));
    const fb::rows other_rows = std::move(rows);
    CHECK(fails(FB_CLOSED, "the rows were moved", [&] { rows.column<double>(0); }) && other_rows.column<double>(0)[0] == 7);
    fb::snapshot other_snapshot = std::move(snapshot);
    CHECK(fails(FB_CLOSED, "the snapshot was moved", [&] { snapshot.put("x", x); }));
    other_snapshot.discard();
    CHECK(fails(FB_CLOSED, "", [&] { other_snapshot.put("x", x); }));
    const fb::reference other_held = std::move(held);
    CHECK(fails(FB_CLOSED, "the reference was moved", [&] { held.put(x); }));
    CHECK(fails(FB_CLOSED, "the reference was moved", [&] { client.call("scale", held); }));
    const fb::future other_call = std::move(calls[0]);
    CHECK(fails(FB_CLOSED, "the future was moved", [&] { calls[0].wait(); }));
    CHECK(fails(FB_CLOSED, "the future was moved", [&] { fb::wait_all(calls); }));
    const fb::client other_client = std::move(client);
    CHECK(fails(FB_CLOSED, "the client was moved", [&] { client.services(); }) && client.get() == nullptr);
    const fb::server other_server = std::move(server);
    CHECK(fails(FB_CLOSED, "the server was moved", [&] { server.trouble(); }));

    const char *const words = "the run was closed, or moved";
    for (int closed = 0; closed < 2; ++closed) {
        fb::run other = std::move(run);
        CHECK(run.get() == nullptr);
        CHECK(fails(FB_CLOSED, words, [&] { run.put("x", x); }));
        CHECK(fails(FB_CLOSED, words, [&] { run.snapshot(9); }));
        CHECK(fails(FB_CLOSED, words, [&] { run.restart(); }));
        CHECK(fails(FB_CLOSED, words, [&] { run.steps(9); }));
        CHECK(fails(FB_CLOSED, words, [&] { run.reach(9); }));
        CHECK(fails(FB_CLOSED, words, [&] { run.parameter("flag", flag); }));
        CHECK(fails(FB_CLOSED, words, [&] { run.on_save([](std::int64_t) {}); }));
        CHECK(fails(FB_CLOSED, words, [&] { run.attrs(); }));
        run.close();
        run = std::move(other);
        run.close();
    }
    CHECK(fails(FB_CLOSED, "", [&] { other_table.count(); }));
    CHECK(fails(FB_CLOSED, "", [&] { other_table.attrs().json(); }));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    CHECK(fb::version() == FB_VERSION);
    auto opts = fb::defaults<fb_open_opts>();
    opts.buffer = 8 << 20;
    {
        fb::run run(argv[1], "w", &opts);
        views(run);
        attributes(run);
        tables(run);
        heads(run);
        run.close_unfinished();
    }
    {
        fb::run run(argv[1], "r");
        CHECK(run.read_only() && run.attrs("interior").get<std::string>("solver") == "spectral");
    }
    calls();
    gone(argv[1]);
    ended(argv[1]);
    const fb::error missing(FB_NOT_FOUND, "x");
    CHECK(std::string(missing.name()) == "NotFound" && std::string(missing.remedy()).size() > 9);
    CHECK(fb::in_use() == 0);
    std::puts("done");
    return 0;
}
