// forebay.hpp: forebay.h for C++17. Handles own what they hold, failures are exceptions, arrays are vectors, views or
// pointers with a shape. Nothing is hidden: get() of each gives the handle for the functions of forebay.h, NULL where
// it was closed or moved to another variable, and fb::check makes their failures exceptions too. Link with -lforebay (pkg-config forebay).
//
//     fb::run run("two_stream");
//     for (std::int64_t step : run.steps(100)) {
//         fb::snapshot snapshot = run.snapshot(step, 0.1 * step);
//         snapshot.put("E", field);
//         snapshot.end();                       // an exception before it discards the snapshot
//     }
//     run.close();

#ifndef FOREBAY_HPP
#define FOREBAY_HPP

#if __cplusplus < 201703L
#error "forebay.hpp needs C++17: compile with -std=c++17 or later, or use forebay.h"
#endif

#include "forebay/calls.hpp"
#include "forebay/run.hpp"
#include "forebay/server.hpp"

#endif // FOREBAY_HPP
