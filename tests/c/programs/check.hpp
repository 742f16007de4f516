// What the test programs of forebay.hpp share: a check that tells where it failed, and what the library said.

#ifndef CHECK_HPP
#define CHECK_HPP

#include <forebay.hpp>

#include <cstdio>
#include <cstdlib>

#define CHECK(...) \
    do { \
        if (!(__VA_ARGS__)) { \
            std::fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #__VA_ARGS__, fb_last_error()); \
            std::exit(1); \
        } \
    } while (0)

#endif
