//! Sources of stubs, from an [interface file](forebay_idl): functions that call the services of a library that a
//! server offers. Pure text in, text out.
//!
//! | | what is written |
//! | --- | --- |
//! | [`native`] | C with the library's own symbols and calling sequences: a program that is linked against them, or runs with them in front, is not changed |
//! | [`c`] | a header of typed functions that return an `fb_status` |
//! | [`cplusplus`] | a header of functions of spans and values, which throw |
//! | [`fortran`] | a module of interfaces of the native stubs |
//! | [`python`] | a module of functions with hints and docstrings |
//!
//! ```
//! let text = "fbi 1\nset symbol \"%s_\"\nddot(n:i32, in x:f64[n] inc incx, incx, in y:f64[n] inc incy, incy) -> f64";
//! let library = forebay_idl::Library::parse("dot.fbi", text)?;
//! let c = forebay_stubs::native(&library, "dot.fbi", &["%s__".into()])?;
//! assert!(c.contains("double ddot_(void *a0, void *a1, void *a2, void *a3, void *a4)"));
//! assert!(c.contains("extern __typeof__(ddot_) ddot__ "));
//! # Ok::<(), forebay_types::Error>(())
//! ```
#![forbid(unsafe_code)]

mod fortran;
mod native;
mod python;
mod typed;

pub use fortran::fortran;
pub use native::native;
pub use python::python;
pub use typed::{c, cplusplus};

/// The name of a file without directory and ending, as a name of these languages: what is written is called by it.
fn stem(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.split('.').next().unwrap_or(name);
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if plain.starts_with(|c: char| c.is_ascii_alphabetic()) { plain } else { format!("lib_{plain}") }
}
