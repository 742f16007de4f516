// Tables and the rows that questions to them give.

#ifndef FOREBAY_TABLES_HPP
#define FOREBAY_TABLES_HPP

#include "arguments.hpp"
#include "attributes.hpp"

namespace fb {

namespace detail {

// The shape of so many elements as arrays of one shape, one for each row.
inline shape rows_of(std::int64_t elements, const shape &each, const char *column)
{
    std::int64_t extents[FB_MAX_RANK] = { each.size() > 0 ? elements / each.size() : 0 };
    if (each.rank() >= FB_MAX_RANK || extents[0] * each.size() != elements)
        throw error(FB_BAD_ARGUMENT, std::string("the column \"") + column + "\" gets " + std::to_string(elements) +
                                         " elements, which are no arrays of shape " + text_of(each));
    std::copy(each.data(), each.data() + each.rank(), extents + 1);
    return { extents, each.rank() + 1 };
}

} // namespace detail

// --- rows ----------------------------------------------------------------------------------

// Rows that a question gave. Columns count from 0, or go by name.
class rows {
public:
    explicit rows(fb_rows *handle) : handle_(handle) { check(fb_rows_count(handle_.open(), &rows_, &columns_)); }
    fb_rows *get() const noexcept { return handle_.get(); }

    // The number of rows.
    std::int64_t size() const noexcept { return rows_; }
    // The names of the columns.
    std::vector<std::string> columns() const
    {
        std::vector<std::string> names;
        for (int column = 0; column < columns_; ++column) names.push_back(name(column));
        return names;
    }
    // The values of a column, one for each row: double (NaN: no value), std::int64_t, std::uint64_t (every row must
    // have one) or std::string ("": no value).
    template <class T>
    std::vector<T> column(int column) const
    {
        static_assert(std::is_same_v<T, double> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::uint64_t> ||
                          std::is_same_v<T, std::string>,
                      "a column is read as double, std::int64_t, std::uint64_t or std::string");
        const std::size_t n = static_cast<std::size_t>(rows_);
        if constexpr (std::is_same_v<T, std::string>) {
            std::vector<const char *> texts(n);
            check(fb_rows_str(handle_.open(), column, texts.data()));
            std::vector<std::string> values;
            for (const char *text : texts) values.emplace_back(text == nullptr ? "" : text);
            return values;
        } else {
            std::vector<T> values(n);
            if constexpr (std::is_same_v<T, double>) check(fb_rows_f64(handle_.open(), column, values.data()));
            else if constexpr (std::is_same_v<T, std::int64_t>)
                check(fb_rows_i64(handle_.open(), column, values.data()));
            else
                check(fb_rows_u64(handle_.open(), column, values.data()));
            return values;
        }
    }
    template <class T>
    std::vector<T> column(const std::string &name) const
    {
        return column<T>(index(name));
    }
    // The arrays of a column, which have that shape, those of all rows one behind the other, row-major. What has no value
    // is NaN in a column of reals.
    template <class T>
    std::vector<T> arrays(int column, const shape &each) const
    {
        std::vector<T> values(static_cast<std::size_t>(rows_ * each.size()));
        const detail::described asked(values.data(), detail::rows_of(rows_ * each.size(), each, name(column).c_str()));
        check(fb_rows_array(handle_.open(), column, &asked.array));
        return values;
    }
    template <class T>
    std::vector<T> arrays(const std::string &name, const shape &each) const
    {
        return arrays<T>(index(name), each);
    }
    // One cell as bytes; they live as long as the rows.
    span<const unsigned char> bytes(std::int64_t row, int column) const
    {
        const void *found = nullptr;
        std::int64_t count = 0;
        check(fb_rows_bytes(handle_.open(), row, column, &found, &count));
        return { static_cast<const unsigned char *>(found), { count } };
    }
    span<const unsigned char> bytes(std::int64_t row, const std::string &name) const { return bytes(row, index(name)); }
    // Whether a cell has no value.
    bool is_null(std::int64_t row, int column) const
    {
        int is = 0;
        check(fb_rows_is_null(handle_.open(), row, column, &is));
        return is != 0;
    }
    bool is_null(std::int64_t row, const std::string &name) const { return is_null(row, index(name)); }

private:
    std::string name(int column) const
    {
        const char *found = nullptr;
        check(fb_rows_name(handle_.open(), column, &found));
        return found;
    }
    int index(const std::string &wanted) const
    {
        std::string there;
        for (int column = 0; column < columns_; ++column) {
            const std::string found = name(column);
            if (found == wanted) return column;
            there += (column == 0 ? "" : ", ") + found;
        }
        throw error(FB_BAD_ARGUMENT, "\"" + wanted + "\" is not a column; there are " + there);
    }

    static constexpr char gone[] = "the rows were moved to another variable; use that one";
    detail::owned<fb_rows, fb_rows_free, gone> handle_;
    std::int64_t rows_ = 0;
    int columns_ = 0;
};

// --- tables --------------------------------------------------------------------------------

// A column of a table to be made: its name, the type of its values, its unit, and the shape of the array that each value
// is. { "mass", FB_F64, "kg" }, { "velocity", FB_F64, "m/s", { 3 } }
struct column {
    // Its name.
    std::string name;
    // The type of its values; FB_STR for texts.
    fb_dtype dtype;
    // The unit of its values, if they have one.
    std::string units = {};
    // The extents of the array of numbers or truth values that each value is; none: a single value.
    fb::shape each = {};
};

// Values of one column, one for each row: { "mass", masses }, { "kind", kinds } of texts, { "mass", 1.5 } of one row.
// They must live until the function they are given to returns.
class values {
public:
    // Numbers, one for each row.
    template <class T>
    values(const char *column, const std::vector<T> &all) : values(column, all.data(), detail::line(all))
    {
        static_assert(!std::is_same_v<T, bool>, "std::vector<bool> packs its elements; give std::vector<unsigned char>");
    }
    // Arrays of that shape, one for each row, one behind the other, row-major.
    template <class T>
    values(const char *column, const std::vector<T> &all, const shape &each)
        : values(column, all.data(), detail::rows_of(static_cast<std::int64_t>(all.size()), each, column))
    {
    }
    // Texts, one for each row.
    values(const char *column, const std::vector<std::string> &all) : column_(column), rows_(detail::line(all).size())
    {
        for (const std::string &text : all) texts_.push_back(text.c_str());
    }
    // The number of one row.
    template <class T, class = std::enable_if_t<is_element<T>>>
    values(const char *column, const T &one) : values(column, &one, shape{ 1 })
    {
    }
    // The text of one row.
    values(const char *column, const char *one) : column_(column), rows_(1), texts_{ one } {}
    values(const char *column, const std::string &one) : values(column, one.c_str()) {}

    // For how many rows it has values.
    std::int64_t rows() const noexcept { return rows_; }
    // The column and its values as a structure of forebay.h.
    fb_values get() const noexcept
    {
        fb_values found = {};
        found.column = column_;
        if (array_) found.array = &array_->array;
        else found.texts = texts_.data();
        return found;
    }

private:
    template <class T>
    values(const char *column, const T *data, const shape &rows)
        : column_(column), rows_(rows[0]), array_(std::make_unique<detail::described>(data, rows))
    {
    }

    const char *column_;
    std::int64_t rows_;
    std::unique_ptr<detail::described> array_;
    std::vector<const char *> texts_;
};

namespace detail {

inline std::vector<fb_values> of_rows(std::initializer_list<values> given, std::int64_t rows)
{
    std::vector<fb_values> all;
    for (const values &one : given) {
        if (one.rows() != rows)
            throw error(FB_BAD_ARGUMENT, std::string("the column \"") + one.get().column + "\" has " + std::to_string(one.rows()) +
                                             " values for " + std::to_string(rows) + " rows; give one for each");
        all.push_back(one.get());
    }
    return all;
}

} // namespace detail

// A relational table of a run. Made by run.table(). Conditions are SQL, such as "mass > ? and kind = ?", with a value
// for each `?` behind them; nullptr: all rows.
class table {
public:
    table(fb_run *run, const std::string &name, const std::vector<column> &columns, bool history) : run_(run), name_(name)
    {
        std::vector<fb_column> all;
        for (const column &one : columns)
            all.push_back({ one.name.c_str(), one.dtype, one.units.empty() ? nullptr : one.units.c_str(), one.each.rank(),
                            one.each.data() });
        auto opts = defaults<fb_table_opts>();
        opts.history = history;
        fb_table *handle = nullptr;
        const int n = static_cast<int>(all.size());
        check(fb_table_open(run, name.c_str(), all.empty() ? nullptr : all.data(), n, &opts, &handle));
        handle_.reset(handle);
    }
    fb_table *get() const noexcept { return handle_.get(); }

    // Names, types and units of the columns.
    std::vector<fb_column_info> columns() const
    {
        return detail::listed<fb_column_info, fb_column_info>(
            [&](auto **columns, auto *n) { return fb_table_columns(handle_.open(), columns, n); });
    }
    // The table's own attributes.
    attributes attrs() const { return attributes(run_, name_, FB_TABLE); }

    // Adds rows: table.insert({ { "id", ids }, { "mass", masses } }). Columns that are not named have no value.
    void insert(std::initializer_list<values> given)
    {
        const std::int64_t n = given.size() == 0 ? 0 : given.begin()->rows();
        const std::vector<fb_values> all = detail::of_rows(given, n);
        check(fb_table_insert(handle_.open(), n, all.data(), static_cast<int>(all.size())));
    }
    // All columns of the rows where a condition holds, in the order they came.
    template <class... Args>
    fb::rows select(const char *condition = nullptr, const Args &...args) const
    {
        return select_columns({}, condition, args...);
    }
    // Only the columns named, of those rows.
    template <class... Args>
    fb::rows select_columns(const std::vector<std::string> &columns, const char *condition = nullptr,
                            const Args &...args) const
    {
        std::vector<const char *> names;
        for (const std::string &name : columns) names.push_back(name.c_str());
        const detail::arguments<Args...> all(args...);
        fb_rows *found = nullptr;
        check(fb_table_select(handle_.open(), names.empty() ? nullptr : names.data(), static_cast<int>(names.size()), condition,
                              all.data(), all.size(), &found));
        return fb::rows(found);
    }
    // Makes an index of columns, unless there is one, by which conditions find their rows without reading all.
    void index(const std::vector<std::string> &columns)
    {
        std::vector<const char *> names;
        for (const std::string &name : columns) names.push_back(name.c_str());
        check(fb_table_index(handle_.open(), names.data(), static_cast<int>(names.size())));
    }
    // Gives each column named its one value in the rows where a condition holds; returns how many rows.
    template <class... Args>
    std::int64_t update(std::initializer_list<values> given, const char *condition, const Args &...args)
    {
        const std::vector<fb_values> set = detail::of_rows(given, 1);
        const detail::arguments<Args...> all(args...);
        std::int64_t count = 0;
        check(fb_table_update(handle_.open(), set.data(), static_cast<int>(set.size()), condition, all.data(), all.size(),
                              &count));
        return count;
    }
    // Removes the rows where a condition holds; returns how many.
    template <class... Args>
    std::int64_t erase(const char *condition, const Args &...args)
    {
        const detail::arguments<Args...> all(args...);
        std::int64_t count = 0;
        check(fb_table_delete(handle_.open(), condition, all.data(), all.size(), &count));
        return count;
    }
    // The number of rows.
    std::int64_t count() const
    {
        std::int64_t count = 0;
        check(fb_table_count(handle_.open(), &count));
        return count;
    }

private:
    fb_run *run_;
    std::string name_;
    static constexpr char gone[] = "the table was moved to another variable; use that one";
    detail::owned<fb_table, fb_table_free, gone> handle_;
};

} // namespace fb

#endif // FOREBAY_TABLES_HPP
