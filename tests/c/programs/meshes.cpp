// Meshes and particles, elements in both orders, as another program in Python writes them, in forebay.hpp: meshes PLACE.

#include "check.hpp"
#include "fails.hpp"

using line = std::vector<double>;

static line plane(bool rows, int n, int m, double more)
{
    line made(static_cast<std::size_t>(n * m));
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < m; ++j) made[static_cast<std::size_t>(rows ? i * m + j : j * n + i)] = 10 * i + j + more;
    return made;
}

static fb::view<const double> seen(const line &values, bool rows, const fb::shape &extents)
{
    return rows ? fb::view<const double>(values.data(), extents) : fb::column_major(values.data(), extents);
}

static void take(fb::run &run, bool rows)
{
    const line x{ 0.2 * 0, 0.2 * 1, 0.2 * 2, 0.2 * 3, 0.2 * 4, 0.2 * 5 }, y{ 10, 12, 14 };
    const line px{ 0.1 * 0, 0.1 * 1, 0.1 * 2, 0.1 * 3, 0.1 * 4 }, spacing{ 0.2, 2 }, middle{ 0.5, 0.5 };
    const line Ex = plane(rows, 6, 3, 0), Ey = plane(rows, 6, 3, 0.5), p = plane(rows, 5, 3, 0);
    const std::vector<float> w(5, 1);
    const std::vector<std::int64_t> id{ 0, 1, 2, 3, 4 };
    const auto ex = seen(Ex, rows, { 6, 3 }), ey = seen(Ey, rows, { 6, 3 });
    line table(2000);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = 0.5 * static_cast<double>(i);
    run.constant("table", table, fb::piece("K").attrs("{\"of\": \"all\"}"));
    run.constant("few", id);
    CHECK(fails(FB_CONFLICT, "say with step", [&] { run.constant("few", w); }));
    fb::snapshot s = run.snapshot(rows ? 1 : 2, rows ? 0.5 : 1);
    s.mesh("E", { fb::component("x", ex).position({ 0.5, 0 }), fb::component("y", ey).position({ 0, 0.5 }) },
           fb::piece("kV/m").coord("x", x, "m").coord("y", y).attrs("{\"note\": \"made\"}"));
    s.mesh("rho", ey, fb::piece("C/m^3").spacing(spacing).origin({ 0, 10 }));
    s.mesh_block("T", ex, { 0, 0 }, { 6, 3 }, fb::piece().overlap("equal").spacing(spacing).position(middle));
    s.put_block("holes", ex, { 0, 0 }, { 12, 3 }, fb::piece().fill(-1.0f));
    // What is allocated is row-major; the other order is put as it lies.
    if (rows) {
        auto place = s.allocate_mesh<double>("B", "z", { 6, 3 }, fb::piece("T").spacing(spacing).position(middle));
        std::copy(Ex.begin(), Ex.end(), place.begin());
    } else {
        s.mesh("B", { { "z", ex } }, fb::piece("T").spacing(spacing).position(middle));
    }
    s.particles("electrons", { { "position", "x", px, "mm" },
                               fb::record("momentum", seen(p, rows, { 5, 3 }), "kg m/s").attrs("{\"of\": \"them\"}"),
                               { "weighting", w },
                               { "id", id },
                               { "mass", 9.1e-31, "kg" } });
    s.particles_block("ions", { fb::record("position", "x", px).as_dtype(FB_F32) }, 0, 5);
    const std::vector<std::int64_t> turned{ 4, 3, 2, 1, 0 };
    s.particles("ranked", { fb::record("position", "x", px).compress("zstd"), { "id", turned } }, "id");
    s.put("coarse", px, fb::piece().as_dtype(FB_F16));
    s.put("short", id, fb::piece().as_dtype(FB_I8));
    s.mesh("line", px, { 5 }, fb::piece().as_dtype(FB_F32).dims({ "s" }).spacing({ 0.5 }));
    auto muons = s.allocate_particles<double>("muons", "position", "x", { 5 }, "m");
    std::copy(px.begin(), px.end(), muons.begin());
    s.end();
    CHECK(!muons);
}

static void refuse(fb::run &run)
{
    const line E(18), px(5);
    fb::snapshot s = run.snapshot(3);
    CHECK(fails(FB_BAD_ARGUMENT, "has 1 numbers", [&] { s.mesh("E", E, { 6, 3 }, fb::piece().spacing({ 1 })); }));
    CHECK(fails(FB_BAD_ARGUMENT, "fb_snapshot_mesh", [&] { s.put("E", E, { 6, 3 }, fb::piece().spacing({ 1, 1 })); }));
    CHECK(fails(FB_BAD_ARGUMENT, "have the shapes", [&] { s.mesh("E", { { "x", E, { 6, 3 } }, { "y", E, { 3, 6 } } }); }));
    CHECK(fails(FB_BAD_ARGUMENT, "3 numbers", [&] { s.mesh("E", { fb::component("x", E).position({ 0, 0, 0 }) }); }));
    CHECK(fails(FB_BAD_ARGUMENT, "side by side", [&] { s.particles("e", { { "position", E, { 3, 6 } } }); }));
    CHECK(fails(FB_BAD_ARGUMENT, "give arrays", [&] { s.particles("e", { { "position", 1 }, { "id", px } }); }));
    CHECK(fails(FB_BAD_ARGUMENT, "no value of the dtype f32", [&] {
        s.put_block("F", std::vector<float>(2).data(), { 2 }, { 0 }, { 4 }, fb::piece().fill(0.1));
    }));
    CHECK(fails(FB_BAD_ARGUMENT, "use f32 or f16", [&] { s.put("n", px, fb::piece().as_dtype(FB_I16)); }));
    s.discard();
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    fb::run run(argv[1], "w");
    take(run, true);
    take(run, false);
    refuse(run);
    run.close();
    std::puts("done");
    return 0;
}
