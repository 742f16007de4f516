//! The interface file: what the routines of a compiled library take and give, one line each.
//!
//! A whole file looks like this:
//!
//! ```text
//! fbi 1                          # blas.fbi
//! set library "libopenblas.so.0"
//! set convention fortran; set symbol "%s_"; set threads safe; set env OPENBLAS_NUM_THREADS=1
//!
//! ddot(n:i32, in x:f64[n] inc incx, incx:i32, in y:f64[n] inc incy, incy:i32) -> f64
//! dgesv(n:i32, nrhs:i32, inout a:f64[n,n] ld lda, lda, out ipiv:i32[n],
//!       inout b:f64[n,nrhs] ld ldb, ldb, out info:i32 status) xerbla cost n*n*n
//! dsyev(jobz:char one of "NV", uplo:char one of "UL", n:i32, inout a:f64[n,n] ld lda, lda, out w:f64[n],
//!       work work:f64[max(1,lwork)] query lwork, lwork, out info:i32 status) xerbla
//! cblas_daxpy(n:i32, alpha:f64, in x:f64[n], const incx:i32 = 1, inout y:f64[n], const incy:i32 = 1) convention c symbol "%s"
//! ```
//!
//! The arguments stand in the order in which the library takes them ([`Routine::args`]). From one line follow three
//! things: how the symbol is called, what is published for people ([`Routine::plain`]: leading dimensions, work arrays and
//! constants are left out), and what is published for stubs, which have all arguments of the
//! symbol ([`Routine::native`]). An extent is an [expression](Expr) over the scalars of the same line.
//!
//! ```text
//! file    = "fbi 1" { set | routine | chain }                  # "#" begins a comment, ";" or an end of line ends a statement
//! set     = "set" ( "library" TEXT | "convention" (fortran|c) | "symbol" TEXT | "int" (32|64) | "threads" (safe|serial|process)
//!         | "lock" NAME | "hidden" (end|next|none) | "complex" (value|pointer)
//!         | "stubs" (whole|changed) | "env" NAME "=" VALUE )
//! routine = NAME "(" arg {"," arg} ")" ["->" type [status]] { clause }  # goes on over several lines while its parentheses are open
//! chain   = "chain" NAME "(" arg {"," arg} ")" "plan" NAME "=" step ["keep" n] ["free" step] "call" step { clause }
//! step    = SYMBOL "(" value {"," value} ")"                   # a value is an argument, the plan, or "const" n
//! arg     = [in|out|inout] NAME ":" type ["[" expr {"," expr} "]"] { option }
//!         | NAME                                               # the leading dimension, increment or work length of an array
//!         | "const" NAME ":" type "=" value | NAME ":" type "=" expr
//!         | "work" NAME ":" type "[" expr "]" ["query" NAME] | "length" "(" NAME ")" | "null"
//! option  = "order" (F|C) | "ld" NAME | "inc" NAME | "tri" NAME | "align" n | "when" expr | "one of" (TEXT | n {n})
//!         | status | "by" (value|pointer)
//! status  = "status" { ("<"|">"|"==") n TEXT }
//! clause  = "symbol" TEXT | "convention" (fortran|c) | "order" (F|C) | "threads" W | "cost" expr | "effects" | "xerbla"
//!         | "returns" NAME | "let" NAME "=" expr | "where" expr [TEXT]
//! expr    = integers, scalars, + - * /, == != < <= > >=, and or not, max() min() abs(), x if c else y, x in "Nn"
//! ```
//!
//! A chain is a routine of two functions: the first makes a plan, which is kept for each set of scalars that it was made
//! with, the second does the work with the plan. Plans are made one at a time, with memory of their own in the place of arrays.
//!
//! ```
//! let text = "fbi 1\nset convention fortran; set symbol \"%s_\"\n\
//!             dtrsv(uplo:char, n:i32, in a:f64[n,n] ld lda, lda, inout x:f64[n] inc incx, incx)";
//! let library = forebay_idl::Library::parse("trsv.fbi", text)?;
//! let routine = &library.routines[0];
//! assert_eq!(routine.symbol, "dtrsv_");
//! assert_eq!(
//!     routine.plain.signature.to_string(),
//!     "dtrsv(in uplo:str, in n:i32, in a:f64[n,n] order F, inout x:f64[n])"
//! );
//! assert_eq!(
//!     routine.native.signature.to_string(),
//!     "native/dtrsv(in uplo:u8, in n:i32, in a:f64[a_0,a_1] order F, in lda:i32, inout x:f64[x_0], in incx:i32)"
//! );
//! # Ok::<(), forebay_types::Error>(())
//! ```
#![forbid(unsafe_code)]

mod expr;
mod lexer;
mod model;
mod parser;
mod publish;
mod raw;
mod routine;
#[cfg(test)]
mod tests;

pub use expr::{Binary, Expr, Fault, Function, Unary};
pub use model::{
    Arg, Array, Case, Chain, Complex, Convention, Hidden, Kind, Library, LinePlace, Literal, Published,
    Returned, Routine, Scalar, Settings, Source, Step, StepValue, Threads, Type, Where,
};
pub use publish::{IDL, NATIVE};
