// Snapshots: those being taken and those that are complete.

#ifndef FOREBAY_SNAPSHOTS_HPP
#define FOREBAY_SNAPSHOTS_HPP

#include "attributes.hpp"

#include <cstring>
#include <exception>

namespace fb {

// What goes with an array of a snapshot. A unit alone may be given as it stands, "V/m".
//
//     snapshot.put("T", T, { nx, ny }, fb::piece("K").dims({ "x", "y" }).coord("x", x, "m"))
class piece {
public:
    // With a unit, or without one.
    piece(const char *units = nullptr) : units_(units == nullptr ? "" : units) {}

    // A name for each axis.
    piece &dims(std::initializer_list<const char *> names)
    {
        dims_.assign(names.begin(), names.end());
        return *this;
    }
    piece &dims(const std::vector<std::string> &names)
    {
        dims_ = names;
        return *this;
    }
    // The values along an axis, one for each index along the whole of it. They are the caller's, and stay until the put.
    template <class T>
    piece &coord(const std::string &dim, const view<T> &values, const char *units = nullptr)
    {
        const detail::described from(values);
        return add({ dim, units == nullptr ? "" : units, {}, from.array.dtype, values.extents(), values.strides(),
                     from.array.data });
    }
    template <class T>
    piece &coord(const std::string &dim, const std::vector<T> &values, const char *units = nullptr)
    {
        const auto line = detail::line(values);
        return coord(dim, view<const T>(detail::whole(values, line).data, line), units);
    }
    // Texts along an axis.
    piece &coord(const std::string &dim, const std::vector<std::string> &texts, const char *units = nullptr)
    {
        detail::packed all(texts);
        const shape strides = detail::dense_strides(all.extents, 1, false);
        return add({ dim, units == nullptr ? "" : units, std::move(all.letters), FB_STR, all.extents, strides, nullptr });
    }
    // What holds where blocks of ranks lie over each other, given with offset and shape of the whole: "equal", the same
    // bits, or "last", the highest rank's block counts. Without it that is an error.
    piece &overlap(const std::string &rule)
    {
        overlap_ = rule;
        return *this;
    }
    // "gzip": chunks of about a megabyte are compressed behind the program's back, and every reader of HDF5 reads them.
    // "zstd" is faster, and asks h5py for the package hdf5plugin; "none" takes back what the run was opened with.
    // Not together with overlap.
    piece &compress(const std::string &way)
    {
        compress_ = way;
        return *this;
    }
    // The value of elements that no rank puts, given with offset and shape of the whole: without it the blocks of all ranks
    // must cover that. It must be a value of the array's type, and all ranks say the same.
    template <class T, class = std::enable_if_t<is_element<T>>>
    piece &fill(T value)
    {
        static_assert(sizeof value <= sizeof fill_);
        filling_ = dtype_of<T>();
        std::memcpy(fill_, &value, sizeof value);
        return *this;
    }
    // Keeps the array with less precision, FB_F64 as FB_F32, or integers as shorter ones that hold every value. It is
    // converted while it is copied. Not of what is allocated.
    piece &as_dtype(fb_dtype dtype)
    {
        as_dtype_ = dtype;
        return *this;
    }
    // Attributes as a JSON object. snapshot.attrs() sets others behind the put.
    piece &attrs(const std::string &object)
    {
        attrs_ = object;
        return *this;
    }
    // Of a mesh: the distance from one point to the next along each axis; without it as the coordinates have it, or 1.
    piece &spacing(const std::vector<double> &distances)
    {
        spacing_ = distances;
        return *this;
    }
    // Of a mesh: where its first point is, a number for each axis; without it as the coordinates have it, or 0.
    piece &origin(const std::vector<double> &first)
    {
        origin_ = first;
        return *this;
    }
    // Of a mesh: where in its cell the field is, a number for each axis, from 0 to less than 1 of the spacing.
    piece &position(const std::vector<double> &place)
    {
        position_ = place;
        return *this;
    }

private:
    friend class snapshot;
    friend class run;

    struct axis {
        std::string dim, units;
        std::vector<char> letters; // of texts
        fb_dtype dtype;
        shape extents, strides;
        void *data;
    };
    piece &add(axis &&one)
    {
        coords_.push_back(std::move(one));
        return *this;
    }

    // All of it for a function of forebay.h, which looks at it where it lies here.
    struct options {
        std::vector<const char *> dims;
        std::vector<fb_array> arrays;
        std::vector<fb_coord> coords;
        fb_array fill = {};
        fb_piece_opts opts = defaults<fb_piece_opts>();

        // Of an array of that rank.
        options(const piece &all, int rank)
        {
            fill.dtype = all.filling_;
            fill.data = const_cast<unsigned char *>(all.fill_);
            opts.fill = all.filling_ == fb_dtype() ? nullptr : &fill;
            opts.as_dtype = all.as_dtype_;
            opts.spacing = detail::of_each_axis(all.spacing_, rank, "spacing");
            opts.origin = detail::of_each_axis(all.origin_, rank, "origin");
            opts.position = detail::of_each_axis(all.position_, rank, "position");
            for (const std::string &dim : all.dims_) dims.push_back(dim.c_str());
            for (const axis &one : all.coords_) {
                void *data = one.letters.empty() ? one.data : const_cast<char *>(one.letters.data());
                arrays.push_back({ one.dtype, one.extents.rank(), one.extents.data(), one.strides.data(), data });
            }
            for (std::size_t i = 0; i < arrays.size(); ++i)
                coords.push_back({ all.coords_[i].dim.c_str(), &arrays[i], all.coords_[i].units.c_str() });
            opts.units = all.units_.c_str();
            opts.dims = dims.empty() ? nullptr : dims.data();
            opts.ndims = static_cast<int>(dims.size());
            opts.coords = coords.empty() ? nullptr : coords.data();
            opts.ncoords = static_cast<int>(coords.size());
            opts.attrs = all.attrs_.empty() ? nullptr : all.attrs_.c_str();
            opts.overlap = all.overlap_.empty() ? nullptr : all.overlap_.c_str();
            opts.compress = all.compress_.empty() ? nullptr : all.compress_.c_str();
        }
        options(const options &) = delete;
        options &operator=(const options &) = delete;
    };

    std::string units_, attrs_, overlap_, compress_;
    std::vector<std::string> dims_;
    std::vector<axis> coords_;
    std::vector<double> spacing_, origin_, position_;
    fb_dtype filling_ = fb_dtype(), as_dtype_ = fb_dtype();
    alignas(16) unsigned char fill_[16] = {};
};

// A component of a mesh, { "x", Ex }. Its elements are the caller's, and stay until the put.
class component {
public:
    // Without a name the mesh is this one array.
    template <class T>
    component(const std::string &name, const view<T> &values) : name_(name), values_(values)
    {
    }
    template <class T>
    component(const std::string &name, const T *data, const shape &extents) : component(name, view<const T>(data, extents))
    {
    }
    template <class T>
    component(const std::string &name, const std::vector<T> &values, const shape &extents)
        : component(name, detail::whole(values, extents).data, extents)
    {
    }
    template <class T>
    component(const std::string &name, const std::vector<T> &values) : component(name, values, detail::line(values))
    {
    }
    // Where in its cell this component is, a number for each axis; without it as the piece says.
    component &position(const std::vector<double> &place)
    {
        position_ = place;
        return *this;
    }

private:
    friend class snapshot;

    std::string name_;
    detail::lying values_;
    std::vector<double> position_;
};

// A record of a species of particles, { "weighting", w }, or a component of one, { "position", "x", x, "m" }. Its elements
// are the caller's, and stay until the put.
class record {
public:
    // One component, a number for each particle.
    template <class T>
    record(const std::string &name, const std::string &component, const view<T> &values, const char *units = nullptr)
        : name_(name), component_(component), units_(units == nullptr ? "" : units), values_(values)
    {
    }
    template <class T>
    record(const std::string &name, const std::string &component, const std::vector<T> &values, const char *units = nullptr)
        : record(name, component, view<const T>(values.data(), detail::line(values)), units)
    {
    }
    // A whole record: a number for each particle, or up to three of them side by side, of shape { n, 3 }.
    template <class T>
    record(const std::string &name, const view<T> &values, const char *units = nullptr)
        : record(name, std::string(), values, units)
    {
    }
    template <class T>
    record(const std::string &name, const std::vector<T> &values, const char *units = nullptr)
        : record(name, std::string(), values, units)
    {
    }
    template <class T>
    record(const std::string &name, const std::vector<T> &values, const shape &extents, const char *units = nullptr)
        : record(name, std::string(), view<const T>(detail::whole(values, extents).data, extents), units)
    {
    }
    // One number for all particles.
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    record(const std::string &name, T number, const char *units = nullptr)
        : name_(name), units_(units == nullptr ? "" : units), number_(static_cast<double>(number))
    {
    }
    // Attributes as a JSON object.
    record &attrs(const std::string &object)
    {
        attrs_ = object;
        return *this;
    }
    // Keeps the array with less precision, as fb::piece does.
    record &as_dtype(fb_dtype dtype)
    {
        as_dtype_ = dtype;
        return *this;
    }
    // How it is compressed, as fb::piece does.
    record &compress(const std::string &way)
    {
        compress_ = way;
        return *this;
    }

private:
    friend class snapshot;

    std::string name_, component_, units_, attrs_, compress_;
    detail::lying values_;
    double number_ = 0;
    fb_dtype as_dtype_ = fb_dtype();
};

// A complete snapshot, read.
class stored {
public:
    explicit stored(fb_snapshot *handle) : handle_(handle) {}
    fb_snapshot *get() const noexcept { return handle_.get(); }

    // Its number, its time, its bytes, and whether the run had come to its end.
    fb_step_info info() const
    {
        auto about = defaults<fb_step_info>();
        check(fb_snapshot_step(handle_.open(), &about));
        return about;
    }
    // Its number.
    std::int64_t step() const { return info().step; }
    // Its time; NaN when none was given.
    double time() const { return info().time; }
    // The values of the parameters when it was taken, as a JSON object.
    std::string parameters() const
    {
        return detail::text([&](char **json) { return fb_snapshot_parameters(handle_.open(), json); });
    }
    // The damaged snapshots that a restart passed over to come to this one.
    std::vector<std::int64_t> passed() const
    {
        return detail::listed<std::int64_t, std::int64_t>(
            [&](auto **steps, auto *n) { return fb_snapshot_passed(handle_.open(), steps, n); });
    }
    // The names of its arrays.
    std::vector<std::string> names() const
    {
        return detail::listed<std::string, char *>(
            [&](auto **names, auto *n) { return fb_snapshot_names(handle_.open(), names, n); });
    }
    // Type, shape and unit of an array.
    fb_info info(const char *name) const
    {
        fb_info about;
        check(fb_snapshot_info(handle_.open(), name, &about));
        return about;
    }
    // Its least, greatest and mean value, counted when it was written.
    fb_array_stats stats(const char *name) const
    {
        auto counted = defaults<fb_array_stats>();
        check(fb_snapshot_stats(handle_.open(), name, &counted));
        return counted;
    }
    // The names of the axes of an array; none when they have no names.
    std::vector<std::string> dims(const char *name) const
    {
        return detail::listed<std::string, char *>(
            [&](auto **dims, auto *n) { return fb_snapshot_dims(handle_.open(), name, dims, n); });
    }
    // The coordinates of an array, one for each axis that has a name: the names of the arrays that hold them, "" for none.
    std::vector<std::string> coords(const char *name) const
    {
        return detail::listed<std::string, char *>(
            [&](auto **coords, auto *n) { return fb_snapshot_coords(handle_.open(), name, coords, n); });
    }
    // The attributes of an array.
    attributes attrs(const std::string &name) const { return attributes(handle_.open(), name); }
    // Into elements that lie anywhere: type and shape must be those stored.
    template <class T>
    void read(const char *name, const view<T> &to) const
    {
        const detail::described array(to);
        check(fb_snapshot_get(handle_.open(), name, &array.array));
    }
    template <class T>
    void read(const char *name, T *data, const shape &extents) const
    {
        read(name, view<T>(data, extents));
    }
    // A whole array, row-major.
    template <class T>
    array<T> read(const char *name) const
    {
        return detail::read<T>(info(name), [&](const view<T> &to) { read(name, to); });
    }
    // A whole array as memory that is read when it is touched, as map() of a run gives a data set.
    template <class T>
    mapped_array<T> map(const char *name) const
    {
        fb_array array = {};
        check(fb_snapshot_map(handle_.open(), name, dtype_of<T>(), &array));
        return mapped_array<T>(array);
    }
    // A part: from `offset` on, along each axis as many elements as there are in `to`, every `step`-th.
    template <class T>
    void read_part(const char *name, const shape &offset, const view<T> &to, const shape &step = {}) const
    {
        const detail::picked part(offset, step, to.rank());
        const detail::described array(to);
        check(fb_snapshot_get_part(handle_.open(), name, part.offset(), part.step(), &array.array));
    }
    // A part of shape `extents`, row-major.
    template <class T>
    array<T> read_part(const char *name, const shape &offset, const shape &extents, const shape &step = {}) const
    {
        return detail::read<T>(extents, [&](const view<T> &to) { read_part(name, offset, to, step); });
    }

private:
    friend class run;

    static constexpr char gone[] = "the stored snapshot was moved to another variable; use that one";
    detail::owned<fb_snapshot, fb_snapshot_free, gone> handle_;
};

// A place in the buffer of a snapshot, row-major. It is empty as soon as that snapshot has ended, was discarded or is gone:
// the memory is the library's again. A loop over many elements takes data() once.
template <class T>
class allocated {
public:
    allocated() = default;
    // NULL when it is empty.
    T *data() const noexcept { return snapshot_.expired() ? nullptr : data_; }
    // Whether it may be written.
    explicit operator bool() const noexcept { return !snapshot_.expired(); }
    // The number of elements; 0 when it is empty.
    std::int64_t size() const noexcept { return *this ? extents_.size() : 0; }
    // The shape it was asked for.
    const fb::shape &extents() const noexcept { return extents_; }
    // For a loop over its elements.
    T *begin() const noexcept { return data(); }
    // Behind the last one.
    T *end() const noexcept { return data() + size(); }
    // The i-th element in memory; an error of code FB_CLOSED when it is empty.
    T &operator[](std::int64_t i) const
    {
        if (!*this) throw error(FB_CLOSED, "the snapshot that this place is of has ended; allocate one in the next snapshot");
        return data_[i];
    }

private:
    friend class snapshot;

    allocated(T *data, const fb::shape &extents, std::weak_ptr<const void> snapshot)
        : data_(data), extents_(extents), snapshot_(std::move(snapshot))
    {
    }

    T *data_ = nullptr;
    fb::shape extents_;
    std::weak_ptr<const void> snapshot_;
};

// A snapshot being taken. One that goes for an exception is discarded. One that goes without end() or discard() is
// forgotten: the next snapshot and close() of the run say so (FB_CONFLICT).
class snapshot {
public:
    explicit snapshot(fb_snapshot *handle) : handle_(handle), exceptions_(std::uncaught_exceptions()) {}
    snapshot(snapshot &&) = default;
    // What was there goes as any other.
    snapshot &operator=(snapshot &&other) noexcept
    {
        snapshot last(std::move(*this));
        handle_ = std::move(other.handle_);
        open_ = std::move(other.open_);
        over_ = other.over_;
        return *this;
    }
    ~snapshot()
    {
        // The run keeps what its handle stands for, and tells of it.
        if (handle_.get() != nullptr && !over_ && std::uncaught_exceptions() <= exceptions_) handle_.release();
    }
    fb_snapshot *get() const noexcept { return handle_.get(); }

    // The whole array, of one rank.
    template <class T>
    void put(const char *name, const view<T> &from, const piece &with = {})
    {
        put_at(name, from, nullptr, nullptr, with);
    }
    template <class T>
    void put(const char *name, const T *data, const shape &extents, const piece &with = {})
    {
        put(name, view<const T>(data, extents), with);
    }
    template <class T>
    void put(const char *name, const std::vector<T> &values, const piece &with = {})
    {
        put(name, values, detail::line(values), with);
    }
    template <class T>
    void put(const char *name, const std::vector<T> &values, const shape &extents, const piece &with = {})
    {
        put(name, detail::whole(values, extents).data, extents, with);
    }
    // This rank's block of an array of shape `global`.
    template <class T>
    void put_block(const char *name, const view<T> &local, const shape &offset, const shape &global, const piece &with = {})
    {
        detail::of_rank(offset, local.rank(), "the offset");
        detail::of_rank(global, local.rank(), "the global shape");
        put_at(name, local, offset.data(), global.data(), with);
    }
    template <class T>
    void put_block(const char *name, const T *data, const shape &local, const shape &offset, const shape &global,
                   const piece &with = {})
    {
        put_block(name, view<const T>(data, local), offset, global, with);
    }
    // Behind the arrays of lower ranks, along axis 0.
    template <class T>
    void append(const char *name, const view<T> &from, const piece &with = {})
    {
        put_at(name, from, FB_APPEND, nullptr, with);
    }
    template <class T>
    void append(const char *name, const T *data, const shape &extents, const piece &with = {})
    {
        append(name, view<const T>(data, extents), with);
    }
    template <class T>
    void append(const char *name, const std::vector<T> &values, const piece &with = {})
    {
        append(name, values.data(), detail::line(values), with);
    }
    // A place in the buffer, to be filled before the end: nothing is copied then. It is empty behind end() and discard().
    template <class T>
    allocated<T> allocate(const char *name, const shape &extents, const piece &with = {})
    {
        return allocate_at<T>(name, extents, nullptr, nullptr, with);
    }
    // A place in the buffer for this rank's block of an array of shape `global`, to be filled before the end.
    template <class T>
    allocated<T> allocate_block(const char *name, const shape &local, const shape &offset, const shape &global,
                                const piece &with = {})
    {
        detail::of_rank(offset, local.rank(), "the offset");
        detail::of_rank(global, local.rank(), "the global shape");
        return allocate_at<T>(name, local, offset.data(), global.data(), with);
    }

    // A field on a regular mesh, an array for each component: readers of openPMD, VTK and ParaView find it in the file of the
    // step. The component "x" of the mesh "E" is the array "E_x" of the snapshot. Without dims the axes are x, y and z.
    //
    //     snapshot.mesh("E", { { "x", Ex, { nx, ny } }, { "y", Ey, { nx, ny } } }, fb::piece("V/m").spacing({ dx, dy }))
    void mesh(const char *name, const std::vector<component> &components, const piece &with = {})
    {
        mesh_at(name, components, nullptr, nullptr, with);
    }
    // A mesh that is one array.
    template <class T>
    void mesh(const char *name, const view<T> &values, const piece &with = {})
    {
        mesh_at(name, { component("", values) }, nullptr, nullptr, with);
    }
    template <class T>
    void mesh(const char *name, const std::vector<T> &values, const shape &extents, const piece &with = {})
    {
        mesh_at(name, { component("", values, extents) }, nullptr, nullptr, with);
    }
    // This rank's block of a mesh of shape `global`.
    void mesh_block(const char *name, const std::vector<component> &components, const shape &offset, const shape &global,
                    const piece &with = {})
    {
        for (const component &one : components) {
            detail::of_rank(offset, one.values_.extents.rank(), "the offset");
            detail::of_rank(global, one.values_.extents.rank(), "the global shape");
        }
        mesh_at(name, components, offset.data(), global.data(), with);
    }
    template <class T>
    void mesh_block(const char *name, const view<T> &local, const shape &offset, const shape &global, const piece &with = {})
    {
        mesh_block(name, { component("", local) }, offset, global, with);
    }
    // A place in the buffer for a component of a mesh ("": the mesh is one array), to be filled before the end.
    template <class T>
    allocated<T> allocate_mesh(const char *name, const char *component_name, const shape &extents, const piece &with = {})
    {
        return allocate_mesh_at<T>(name, component_name, extents, nullptr, nullptr, with);
    }
    // A place in the buffer for this rank's block of a component of a mesh of shape `global`.
    template <class T>
    allocated<T> allocate_mesh_block(const char *name, const char *component_name, const shape &local, const shape &offset,
                                     const shape &global, const piece &with = {})
    {
        detail::of_rank(offset, local.rank(), "the offset");
        detail::of_rank(global, local.rank(), "the global shape");
        return allocate_mesh_at<T>(name, component_name, local, offset.data(), global.data(), with);
    }
    // This rank's particles of a species, behind those of lower ranks: readers of openPMD, VTK and ParaView find them in the
    // file of the step. The component "x" of the record "position" is the array NAME/position/x of the snapshot.
    void particles(const char *name, const std::vector<record> &records, const char *sort_by = nullptr)
    {
        particles_at(name, records, FB_APPEND, nullptr, sort_by);
    }
    // This rank's particles from the index `first` on, among so many.
    void particles_block(const char *name, const std::vector<record> &records, std::int64_t first, std::int64_t all,
                         const char *sort_by = nullptr)
    {
        particles_at(name, records, &first, &all, sort_by);
    }
    // A place in the buffer for a record of this rank's particles, or a component of one ("": the whole record), behind those
    // of lower ranks, to be filled before the end. Records that are one number for all go with particles().
    template <class T>
    allocated<T> allocate_particles(const char *name, const char *record_name, const char *component_name,
                                    const shape &extents, const piece &with = {})
    {
        return allocate_as<T>(extents, with, [&](fb_array *place, const fb_piece_opts *opts) {
            return fb_snapshot_allocate_particles(handle_.open(), name, record_name, component_name, place, FB_APPEND,
                                                  nullptr, opts);
        });
    }

    // The attributes of an array that was put.
    attributes attrs(const std::string &name) { return attributes(handle_.open(), name); }

    // Whether it is taken: not when this state is kept already, by Save or since the run went back to it. Then nothing is done.
    bool taken() const
    {
        int taken = 0;
        check(fb_snapshot_taken(handle_.open(), &taken));
        return taken != 0;
    }
    // Buffered when it returns: it survives the death of this process.
    void end()
    {
        open_.reset();
        check(fb_snapshot_end(handle_.open()));
        over_ = true;
    }
    // Gives it up, as if it had never begun. After its end this does nothing.
    void discard()
    {
        open_.reset();
        check(fb_snapshot_discard(handle_.open()));
        over_ = true;
    }
    // Waits until it is durable on all ranks; an error of code FB_TIMEOUT when that takes longer.
    void wait(double timeout = FB_FOREVER) { check(fb_snapshot_wait(handle_.open(), timeout)); }

private:
    template <class T>
    void put_at(const char *name, const view<T> &local, const std::int64_t *offset, const std::int64_t *global,
                const piece &with)
    {
        const piece::options said(with, local.rank());
        const detail::described from(local);
        check(fb_snapshot_put_with(handle_.open(), name, &from.array, offset, global, &said.opts));
    }
    template <class T>
    allocated<T> allocate_at(const char *name, const shape &local, const std::int64_t *offset, const std::int64_t *global,
                             const piece &with)
    {
        return allocate_as<T>(local, with, [&](fb_array *place, const fb_piece_opts *opts) {
            return fb_snapshot_allocate(handle_.open(), name, place, offset, global, opts);
        });
    }
    template <class T>
    allocated<T> allocate_mesh_at(const char *name, const char *component_name, const shape &local, const std::int64_t *offset,
                                  const std::int64_t *global, const piece &with)
    {
        return allocate_as<T>(local, with, [&](fb_array *place, const fb_piece_opts *opts) {
            return fb_snapshot_allocate_mesh(handle_.open(), name, component_name, place, offset, global, opts);
        });
    }
    void mesh_at(const char *name, const std::vector<component> &components, const std::int64_t *offset,
                 const std::int64_t *global, const piece &with)
    {
        std::vector<fb_array> arrays;
        std::vector<fb_component> made;
        for (const component &one : components) arrays.push_back(one.values_.array());
        for (std::size_t i = 0; i < components.size(); ++i) {
            const component &one = components[i];
            const double *position = detail::of_each_axis(one.position_, one.values_.extents.rank(), "position");
            made.push_back({ one.name_.c_str(), &arrays[i], position });
        }
        const piece::options said(with, components.empty() ? 0 : components[0].values_.extents.rank());
        check(fb_snapshot_mesh(handle_.open(), name, made.data(), static_cast<int>(made.size()), offset, global, &said.opts));
    }
    void particles_at(const char *name, const std::vector<record> &records, const std::int64_t *offset,
                      const std::int64_t *global, const char *sort_by)
    {
        std::vector<fb_array> arrays;
        std::vector<fb_record> made;
        for (const record &one : records) {
            fb_array number = {};
            number.dtype = FB_F64;
            number.data = const_cast<double *>(&one.number_);
            arrays.push_back(one.values_.data == nullptr && one.values_.extents.rank() == 0 ? number : one.values_.array());
        }
        for (std::size_t i = 0; i < records.size(); ++i) {
            const record &one = records[i];
            const char *attrs = one.attrs_.empty() ? nullptr : one.attrs_.c_str();
            const char *compress = one.compress_.empty() ? nullptr : one.compress_.c_str();
            made.push_back({ one.name_.c_str(), one.component_.c_str(), &arrays[i], one.units_.c_str(), attrs, one.as_dtype_,
                             compress });
        }
        auto opts = defaults<fb_particles_opts>();
        opts.sort_by = sort_by;
        const int count = static_cast<int>(made.size());
        check(fb_snapshot_particles_with(handle_.open(), name, made.data(), count, offset, global, &opts));
    }
    template <class T, class Allocate>
    allocated<T> allocate_as(const shape &local, const piece &with, Allocate &&allocate)
    {
        detail::described place(static_cast<const T *>(nullptr), local);
        const piece::options said(with, local.rank());
        check(allocate(&place.array, &said.opts));
        if (!open_) open_ = std::make_shared<char>();
        return { static_cast<T *>(place.array.data), local, open_ };
    }

    static constexpr char gone[] = "the snapshot was moved to another variable; use that one";
    detail::owned<fb_snapshot, fb_snapshot_free, gone> handle_;
    // Lives while what was allocated may be written.
    std::shared_ptr<const void> open_;
    // Exceptions under way when it began: one more means that it goes for that.
    int exceptions_;
    bool over_ = false;
};

} // namespace fb

#endif // FOREBAY_SNAPSHOTS_HPP
