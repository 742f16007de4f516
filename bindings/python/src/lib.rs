//! The native half of the Python package `forebay`: what touches memory, waits, or is called
//! often. The other half, `python/forebay/*.py`, is what users see: names, defaults, docstrings
//! and types; it stands on this module and on nothing else.
//!
//! The way of the data: an array of NumPy's is looked at where it lies (`arrays`, `ffi`) and
//! copied once, by the facade, with the interpreter's lock released (`waits`). What is read
//! comes back as an array over the memory that the facade read into.

mod arrays;
mod bag;
mod calls;
mod columns;
mod errors;
mod ffi;
mod future;
mod group;
mod json;
mod kept;
mod notify;
mod placement;
mod reference;
mod run;
mod scalar;
mod server;
mod snapshot;
mod status;
mod table;
mod waits;
mod watch;

use pyo3::prelude::*;

#[pymodule]
fn _forebay(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DTYPES", arrays::known())?;
    errors::register(module)?;
    module.add_class::<run::Run>()?;
    module.add_class::<snapshot::Snapshot>()?;
    module.add_class::<kept::Kept>()?;
    module.add_class::<kept::KeptSnapshots>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<columns::Columns>()?;
    module.add_class::<watch::Diagram>()?;
    module.add_class::<watch::Parameter>()?;
    module.add_class::<watch::Steps>()?;
    module.add_class::<calls::Client>()?;
    module.add_class::<bag::Bag>()?;
    module.add_class::<future::Future>()?;
    module.add_class::<group::Group>()?;
    module.add_class::<reference::Reference>()?;
    module.add_class::<server::Server>()?;
    module.add_function(wrap_pyfunction!(run::literal, module)?)?;
    module.add_function(wrap_pyfunction!(server::broker_at, module)?)?;
    module.add_function(wrap_pyfunction!(server::stop_with_parent, module)?)?;
    module.add_function(wrap_pyfunction!(server::pause_before, module)?)?;
    module.add_function(wrap_pyfunction!(server::tell_of_death, module)?)?;
    module.add_function(wrap_pyfunction!(server::look_for_command_in, module)?)?;
    module.add_function(wrap_pyfunction!(server::passed, module)?)?;
    module.add_function(wrap_pyfunction!(server::serving, module)?)?;
    module.add_function(wrap_pyfunction!(future::wait_all, module)?)?;
    module.add_function(wrap_pyfunction!(future::wait_any, module)?)?;
    module.add_function(wrap_pyfunction!(future::probe_any, module)?)?;
    Ok(())
}
