// The attributes of a run, of a data set, of a table or of an array of a snapshot.

#ifndef FOREBAY_ATTRIBUTES_HPP
#define FOREBAY_ATTRIBUTES_HPP

#include "arrays.hpp"

namespace fb {

namespace detail {

// Texts as one array: each has as many bytes as the longest one, with zeros at its end.
struct packed {
    std::vector<char> letters;
    fb::shape extents;

    explicit packed(const std::vector<std::string> &texts)
    {
        std::size_t longest = 0;
        for (const std::string &text : texts) longest = std::max(longest, text.size());
        letters.resize(texts.size() * longest + 1);
        for (std::size_t i = 0; i < texts.size(); ++i) std::copy(texts[i].begin(), texts[i].end(), &letters[i * longest]);
        extents = { static_cast<std::int64_t>(texts.size()), static_cast<std::int64_t>(longest) };
    }
};

template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};

} // namespace detail

// The attributes of a run, of a data set, of a table or of an array of a snapshot. Made by attrs() of each. Those of an array
// are set behind its put, before the end of the snapshot, and read when it is complete.
class attributes {
public:
    // Of the run where there is no name, of the table where `set` is FB_TABLE, else of a data set.
    explicit attributes(fb_run *run, std::optional<std::string> name = {}, std::int64_t set = 0)
        : run_(run), name_(std::move(name)), set_(set)
    {
    }
    // Of an array of a snapshot.
    attributes(fb_snapshot *snapshot, std::string name) : snapshot_(snapshot), name_(std::move(name)) {}

    // A number, a truth value or a text.
    template <class T, class = std::enable_if_t<is_element<T>>>
    void set(const char *key, T value)
    {
        put(key, detail::described(&value, shape()));
    }
    void set(const char *key, const std::string &text)
    {
        put(key, detail::described(text.data(), { static_cast<std::int64_t>(text.size()) }, FB_STR));
    }
    void set(const char *key, const char *text) { check(fb_attr_set_str(of(), key, text)); }
    // An array, which is kept with its type and shape.
    template <class T>
    void set(const char *key, const view<T> &values)
    {
        put(key, detail::described(values));
    }
    template <class T>
    void set(const char *key, const std::vector<T> &values)
    {
        set(key, view<const T>(detail::whole(values, detail::line(values)).data, detail::line(values)));
    }
    // A list of texts.
    void set(const char *key, const std::vector<std::string> &texts)
    {
        const detail::packed all(texts);
        put(key, detail::described(all.letters.data(), all.extents, FB_STR));
    }
    // Several of any kind: a JSON object. Null values delete; what is not named stays.
    void set_json(const std::string &object) { check(fb_attr_set_json(of(), object.c_str())); }

    // As a number, truth value or text, as a std::vector of numbers or of std::string. A number is read as another type when
    // it stays what it is there.
    template <class T>
    T get(const char *key) const
    {
        static_assert(is_element<T> || std::is_same_v<T, std::string> || detail::is_vector<T>::value,
                      "an attribute is read as a type of elements, std::string or std::vector; json() gives all of them");
        if constexpr (std::is_same_v<T, std::string>)
            return detail::text([&](char **text) { return fb_attr_get_str(of(), key, text); });
        else if constexpr (std::is_same_v<T, std::vector<std::string>>)
            return texts(key);
        else if constexpr (detail::is_vector<T>::value) {
            // Of another rank the library says what it is.
            const std::int64_t count = info(key).ndim == 1 ? info(key).shape[0] : 0;
            return detail::read<typename T::value_type>(shape{ count }, [&](const auto &to) { read(key, to); }).values;
        } else {
            T value{};
            read(key, view<T>(&value, shape()));
            return value;
        }
    }
    // As an array of its shape, row-major.
    template <class T>
    array<T> get_array(const char *key) const
    {
        return detail::read<T>(info(key), [&](const view<T> &to) { read(key, to); });
    }
    // Type and shape of one. The type is 0 when it is neither a number nor a text nor an array; json() has it.
    fb_info info(const char *key) const
    {
        fb_info about;
        check(fb_attr_info(of(), key, &about));
        return about;
    }
    // Whether there is one of this name.
    bool has(const char *key) const
    {
        int has = 0;
        check(fb_attr_has(of(), key, &has));
        return has != 0;
    }
    // Deletes one; one that is not there is nothing.
    void erase(const char *key) { check(fb_attr_delete(of(), key)); }
    // All of them as a JSON object.
    std::string json() const
    {
        return detail::text([&](char **json) { return fb_attr_get_json(of(), json); });
    }

private:
    fb_object of() const noexcept { return { run_, snapshot_, name_ ? name_->c_str() : nullptr, set_ }; }
    void put(const char *key, const detail::described &value) { check(fb_attr_put(of(), key, &value.array)); }
    template <class T>
    void read(const char *key, const view<T> &to) const
    {
        const detail::described array(to);
        check(fb_attr_get(of(), key, &array.array));
    }
    std::vector<std::string> texts(const char *key) const
    {
        const fb_info about = info(key);
        const std::int64_t length = about.ndim == 2 ? about.shape[1] : 0;
        const shape extents{ about.ndim == 2 ? about.shape[0] : 0, length };
        std::string letters(static_cast<std::size_t>(extents.size()), '\0');
        const detail::described room(&letters[0], extents, FB_STR);
        check(fb_attr_get(of(), key, &room.array));
        std::vector<std::string> found;
        for (std::int64_t i = 0; i < extents[0]; ++i) {
            const std::string one = letters.substr(static_cast<std::size_t>(i * length), static_cast<std::size_t>(length));
            found.push_back(one.substr(0, one.find('\0')));
        }
        return found;
    }

    fb_run *run_ = nullptr;
    fb_snapshot *snapshot_ = nullptr;
    std::optional<std::string> name_;
    std::int64_t set_ = 0;
};

} // namespace fb

#endif // FOREBAY_ATTRIBUTES_HPP
