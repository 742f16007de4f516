// forebay.hpp: files as arguments, of a server in the same program; the first word of the command line is a folder.

#include "check.hpp"
#include "fails.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

static std::string text_of(const std::string &path)
{
    std::ostringstream found;
    found << std::ifstream(path).rdbuf();
    return found.str();
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    std::filesystem::current_path(argv[1]);
    {
        fb::server server;
        server.add("twice(in a:file, out b:file)", [](fb::request &request) {
            const std::string text = text_of(request.text(0));
            std::ofstream(request.text(1)) << text << text;
        });
        server.start();
        const fb::client client;
        std::ofstream("in") << "mesh ";
        client.call("twice", fb::in_file("in"), fb::out_file(std::string("out")));
        CHECK(text_of("out") == "mesh mesh ");
        const std::filesystem::path from = "in";
        auto call = client.call_async("twice", fb::in_file(from), fb::out_file("later"));
        call.wait();
        CHECK(text_of("later") == "mesh mesh ");
        CHECK(fails(FB_NOT_FOUND, "check the path", [&] { client.call("twice", fb::in_file("no"), fb::out_file("out")); }));
        CHECK(fails(FB_BAD_ARGUMENT, "FB_IN_FILE", [&] { client.call("twice", "in", fb::out_file("out")); }));
    }
    std::puts("done");
    return 0;
}
