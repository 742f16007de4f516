/* Integers of extents: what leaves 63 bits stays at their end, and is refused as too large. */
static inline int64_t fbs_add(int64_t x, int64_t y)
{
    int64_t r;
    return __builtin_add_overflow(x, y, &r) ? (x < 0 ? INT64_MIN : INT64_MAX) : r;
}
static inline int64_t fbs_subtract(int64_t x, int64_t y)
{
    int64_t r;
    return __builtin_sub_overflow(x, y, &r) ? (x < 0 ? INT64_MIN : INT64_MAX) : r;
}
static inline int64_t fbs_multiply(int64_t x, int64_t y)
{
    int64_t r;
    return __builtin_mul_overflow(x, y, &r) ? ((x < 0) == (y < 0) ? INT64_MAX : INT64_MIN) : r;
}
static inline int64_t fbs_divide(int64_t x, int64_t y)
{
    return y == 0 ? 0 : y == -1 ? fbs_subtract(0, x) : x / y;
}
static inline int64_t fbs_max(int64_t x, int64_t y) { return x > y ? x : y; }
static inline int64_t fbs_min(int64_t x, int64_t y) { return x < y ? x : y; }
static inline int64_t fbs_abs(int64_t x) { return x < 0 ? fbs_subtract(0, x) : x; }
static inline int64_t fbs_one_of(int64_t x, const char *bytes, size_t count)
{
    return x >= 0 && x < 256 && memchr(bytes, (int)x, count) != NULL;
}

