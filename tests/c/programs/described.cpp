// Arrays of a snapshot that say what they are, and attributes, in forebay.hpp: described PLACE.

#include "check.hpp"
#include "fails.hpp"

#include <cmath>

static void taken(fb::run &run)
{
    const std::vector<double> x{ 0, 0.25, 0.5, 0.75, 1, 1.25 }, y{ 10, 12, 14 };
    const std::vector<std::string> kinds{ "ion", "electron", "probe" };
    std::vector<double> T;
    for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 3; ++j) T.push_back(10 * i + j);
    const std::vector<float> u(T.begin(), T.end());
    fb::piece of_T("K");
    of_T.dims({ "x", "y" }).coord("x", x, "m").coord("y", y).attrs("{\"long_name\": \"temperature\"}");
    fb::snapshot snapshot = run.snapshot(1, 0.5);
    snapshot.put("T", T, { 6, 3 }, of_T);
    snapshot.put("u", u, { 6, 3 }, fb::piece().dims({ "x", "kind" }).coord("x", x, "m").coord("kind", kinds));
    std::vector<double> steps(20000);
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<double>(i / 100);
    snapshot.put("small", steps, { 20000 }, fb::piece().compress("gzip"));
    snapshot.put("plain", steps, { 20000 }, fb::piece().compress("none"));
    snapshot.put("opened", steps);
    CHECK(fails(FB_BAD_ARGUMENT, "\"zip\"", [&] { snapshot.put("v", T, { 6, 3 }, fb::piece().compress("zip")); }));
    snapshot.put_block("nodes", T.data(), { 6, 3 }, { 0, 0 }, { 6, 3 }, fb::piece().overlap("equal"));
    CHECK(fails(FB_BAD_ARGUMENT, "\"mean\"", [&] { snapshot.put("v", T, { 6, 3 }, fb::piece().overlap("mean")); }));
    auto place = snapshot.allocate<double>("p", { 6, 3 }, of_T);
    std::copy(T.begin(), T.end(), place.begin());
    fb::attributes attrs = snapshot.attrs("T");
    attrs.set("sigma", 0.5);
    attrs.set("n", 3);
    attrs.set("box", std::vector<float>{ 1, 2.5f });
    attrs.set("walls", std::vector<std::string>{ "in", "out" });
    snapshot.attrs("u").set("_FillValue", -1);
    snapshot.attrs("x").set("axis", "X");
    CHECK(fails(FB_NOT_FOUND, "put it first", [&] { snapshot.attrs("none").set("a", 1); }));
    CHECK(fails(FB_BAD_ARGUMENT, "the array has 2", [&] { snapshot.put("q", T, { 6, 3 }, fb::piece().dims({ "x" })); }));
    CHECK(fails(FB_CONFLICT, "\"T\"", [&] {
        snapshot.put("q", T, { 6, 3 }, fb::piece().dims({ "x", "y" }).coord("y", std::vector<double>{ 1, 2, 3 }));
    }));
    // One cell, a row, and nothing: each lies the same in both orders, and goes with what lies in one.
    const fb::shape cells{ 1, 4 }, block{ 4, 3 }, cube{ 1, 1, 4 };
    snapshot.put_block("row", T.data(), { 1, 1 }, { 0, 0 }, cells);
    snapshot.put_block("row", T.data() + 1, { 1, 3 }, { 0, 1 }, cells);
    for (const std::int64_t none : { 0, 3 }) snapshot.put_block("block", T.data(), { 0, none }, { 0, 0 }, block);
    snapshot.put_block("block", T.data(), { 1, 1 }, { 0, 0 }, block);
    snapshot.put_block("block", T.data() + 1, { 1, 2 }, { 0, 1 }, block);
    snapshot.put_block("block", T.data() + 3, { 3, 3 }, { 1, 0 }, block);
    snapshot.put_block("block", T.data(), { 4, 0 }, { 0, 0 }, block);
    snapshot.put_block("cube", T.data(), { 1, 1, 1 }, { 0, 0, 0 }, cube);
    snapshot.put_block("cube", T.data() + 1, { 1, 1, 3 }, { 0, 0, 1 }, cube);
    snapshot.end();
    snapshot.wait(60);
}

static void read(fb::run &run)
{
    const fb::stored snapshot = run.at(1);
    CHECK((snapshot.dims("T") == std::vector<std::string>{ "x", "y" }) && snapshot.dims("x").empty());
    CHECK((snapshot.coords("u") == std::vector<std::string>{ "x", "kind" }));
    CHECK(snapshot.read<double>(snapshot.coords("T")[1].c_str()).values[2] == 14);
    const fb_array_stats stats = snapshot.stats("small");
    CHECK(stats.min == 0 && stats.max == 199 && stats.mean == 99.5 && stats.nans == 0);
    for (const char *name : { "row", "block", "cube" }) {
        const std::vector<double> found = snapshot.read<double>(name).values, T = snapshot.read<double>("T").values;
        CHECK(std::equal(found.begin(), found.end(), T.begin()));
    }
    const fb::attributes attrs = snapshot.attrs("T");
    CHECK(attrs.get<double>("sigma") == 0.5 && attrs.get<int>("n") == 3 && attrs.get<std::string>("long_name") == "temperature");
    CHECK((attrs.get<std::vector<float>>("box") == std::vector<float>{ 1, 2.5f }));
    CHECK((attrs.get<std::vector<std::string>>("walls") == std::vector<std::string>{ "in", "out" }));
    CHECK(attrs.info("box").dtype == FB_F32 && snapshot.attrs("u").info("_FillValue").dtype == FB_F32);
    CHECK(fails(FB_BAD_ARGUMENT, "0.5 of dtype f64", [&] { attrs.get<int>("sigma"); }));
    CHECK(fails(FB_BAD_ARGUMENT, "not a text", [&] { attrs.get<std::string>("box"); }));
    CHECK(fails(FB_BAD_ARGUMENT, "i64", [&] { attrs.get<std::vector<double>>("n"); }));
}

static void everywhere(fb::run &run)
{
    run.put("set", 1.0, nullptr, 3);
    const std::vector<double> matrix{ 0, 1, 2, 3, 4, 5 };
    for (fb::attributes attrs : { run.attrs(), run.attrs("set", 3), run.table("bodies", { { "a", FB_F64 } }).attrs() }) {
        attrs.set("matrix", fb::view<const double>(matrix.data(), { 2, 3 }));
        CHECK(attrs.get_array<double>("matrix").extents == fb::shape({ 2, 3 }) && attrs.get_array<float>("matrix").values[5] == 5);
        attrs.set("z", std::complex<double>(1.5, -2));
        CHECK(attrs.get<std::complex<double>>("z") == std::complex<double>(1.5, -2));
        attrs.set("most", UINT64_MAX);
        CHECK(attrs.get<std::uint64_t>("most") == UINT64_MAX);
        CHECK(fails(FB_BAD_ARGUMENT, "18446744073709551615", [&] { attrs.get<std::int64_t>("most"); }));
        attrs.set("nan", std::nan(""));
        attrs.set("yes", true);
        CHECK(std::isnan(attrs.get<double>("nan")) && attrs.get<bool>("yes"));
        attrs.set("empty", std::string());
        CHECK(attrs.get<std::string>("empty").empty());
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    auto opts = fb::defaults<fb_open_opts>();
    opts.buffer = 8 << 20;
    opts.compress = "zstd";
    {
        fb::run run(argv[1], "w", &opts);
        taken(run);
        run.flush();
        read(run);
        everywhere(run);
        run.close();
    }
    CHECK(fb::in_use() == 0);
    std::puts("done");
    return 0;
}
