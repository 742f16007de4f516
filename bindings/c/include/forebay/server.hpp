// Servers, and calls as their services see them.

#ifndef FOREBAY_SERVER_HPP
#define FOREBAY_SERVER_HPP

#include "arrays.hpp"

#include <exception>
#include <functional>

namespace fb {

// A call as a service sees it; parameters count from 0.
class request {
public:
    explicit request(fb_request *handle) : handle_(handle) {}
    fb_request *get() const noexcept { return handle_; }

    // An array in place, in the order the caller has it; writing to an out or inout one is giving its result.
    template <class T>
    fb::view<T> view(int index) const
    {
        const fb_array found = in_place<T>(index);
        const shape extents(found.shape, found.ndim);
        if (found.strides == nullptr) return { static_cast<T *>(found.data), extents };
        return { static_cast<T *>(found.data), extents, shape(found.strides, found.ndim) };
    }
    // An array in place, as elements that lie together, row-major. A caller may have a matrix whose first index runs
    // fastest: an error here, unless the signature demands the order ("a:f64[m,n] order C").
    template <class T>
    span<T> array(int index) const
    {
        const fb_array found = in_place<T>(index);
        if (found.strides != nullptr && found.ndim > 1)
            throw error(FB_BAD_ARGUMENT, "the parameter " + std::to_string(index) +
                                             " has a first index that runs fastest; the service takes it by view(), or demands "
                                             "`order C` in its signature");
        return { static_cast<T *>(found.data), shape(found.shape, found.ndim) };
    }
    // How the caller has an array.
    fb_order order(int index) const
    {
        fb_order found = FB_ROW_MAJOR;
        check(fb_request_order(handle_, index, &found));
        return found;
    }
    // A number, converted to T if its value survives that; else an error.
    template <class T>
    T scalar(int index) const
    {
        T value{};
        check(fb_request_scalar(handle_, index, dtype_of<T>(), &value));
        return value;
    }
    // A text.
    std::string text(int index) const
    {
        const char *found = nullptr;
        check(fb_request_str(handle_, index, &found));
        return found;
    }
    // Bytes, good until the service returns.
    span<const unsigned char> bytes(int index) const
    {
        const void *found = nullptr;
        std::int64_t count = 0;
        check(fb_request_bytes(handle_, index, &found, &count));
        return { static_cast<const unsigned char *>(found), { count } };
    }
    // Gives a result its number, converted to the type of the signature, or its text.
    template <class T, class = std::enable_if_t<is_element<T>>>
    void set(int index, T value)
    {
        check(fb_request_set_scalar(handle_, index, dtype_of<T>(), &value));
    }
    void set(int index, const std::string &text) { check(fb_request_set_str(handle_, index, text.c_str())); }
    // Gives a result its bytes.
    void set_bytes(int index, const void *bytes, std::int64_t count)
    {
        check(fb_request_set_bytes(handle_, index, bytes, count));
    }
    // Whether the caller gave up: long services look now and then, and return.
    bool cancelled() const
    {
        int is = 0;
        check(fb_request_cancelled(handle_, &is));
        return is != 0;
    }
    // The signature of what was called.
    std::string signature() const
    {
        const char *found = nullptr;
        check(fb_request_signature(handle_, &found));
        return found;
    }
    // The number of parameters, results included.
    int count() const
    {
        int count = 0;
        check(fb_request_count(handle_, &count));
        return count;
    }

private:
    template <class T>
    fb_array in_place(int index) const
    {
        fb_array found = {};
        check(fb_request_array(handle_, index, dtype_of<std::remove_const_t<T>>(), &found));
        return found;
    }

    fb_request *handle_;
};

// A server of services; it stops when it goes. An exception of a service becomes its caller's error.
class server {
public:
    // What a service is: it reads its call and gives the results.
    using service = std::function<void(request &)>;

    // Without services yet. The options say its name, its broker, how many calls it serves at a time.
    explicit server(const fb_server_opts *opts = nullptr)
    {
        fb_server *handle = nullptr;
        check(fb_server_create(opts, &handle));
        handle_.reset(handle);
    }
    fb_server *get() const noexcept { return handle_.get(); }

    // Offers a function under a signature such as "axpy(in a:f64, in x:f64[n], inout y:f64[n])".
    void add(const std::string &signature, service body)
    {
        services_.push_back(std::make_unique<service>(std::move(body)));
        check(fb_service_register(handle_.open(), signature.c_str(), answer, services_.back().get()));
    }
    // Offers a service no more.
    void remove(const char *name) { check(fb_service_remove(handle_.open(), name)); }
    // Starts it: when this returns, clients of the broker find its services.
    void start() { check(fb_server_start(handle_.open())); }
    // Stops it: it leaves the broker and ends what it began. Stopping twice does nothing.
    void stop() { check(fb_server_stop(handle_.open())); }
    // Starts it and serves until stop(), SIGTERM or Ctrl-C.
    void serve() { check(fb_serve(handle_.open())); }
    // How busy it is; all zero when it does not run.
    fb_server_load load() const
    {
        auto found = defaults<fb_server_load>();
        check(fb_load(handle_.open(), &found));
        return found;
    }
    // The trouble that it has behind the scenes, such as a broker that does not answer, if it has any.
    std::optional<error> trouble() const
    {
        const fb_status status = fb_server_trouble(handle_.open());
        return status == FB_OK ? std::nullopt : std::optional<error>(std::in_place, status, fb_last_error());
    }

private:
    static fb_status answer(fb_request *handle, void *body) noexcept
    {
        try {
            request asked(handle);
            (*static_cast<service *>(body))(asked);
            return FB_OK;
        } catch (const std::exception &e) {
            return fb_request_fail(handle, e.what());
        } catch (...) {
            return fb_request_fail(handle, "the service threw what is no std::exception");
        }
    }

    // Before the handle, whose end stops the threads that run them.
    std::vector<std::unique_ptr<service>> services_;
    static constexpr char gone[] = "the server was moved to another variable; use that one";
    detail::owned<fb_server, fb_server_free, gone> handle_;
};

} // namespace fb

#endif // FOREBAY_SERVER_HPP
