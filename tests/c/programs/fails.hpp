// What is thrown has this code and this word in its text.

#ifndef FAILS_HPP
#define FAILS_HPP

#include <forebay.hpp>

#include <cstdio>

template <class F>
static bool fails(fb_status code, const char *word, F &&f)
{
    try {
        f();
    } catch (const fb::error &e) {
        if (e.code() == code && std::string(e.what()).find(word) != std::string::npos) return true;
        std::fprintf(stderr, "%s: %s\n", e.name(), e.what());
    }
    return false;
}

#endif
