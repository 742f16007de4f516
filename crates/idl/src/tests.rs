//! Whole files: what they say, and where they are wrong.

use forebay_types::{Code, Order, Way};
use proptest::prelude::*;

use crate::{Hidden, Kind, Library, Routine, Source, StepValue, Threads};

const BLAS: &str = r#"fbi 1 ;  # blas.fbi
set convention fortran;  set symbol "%s_";  set threads safe;  set hidden end;  set env OPENBLAS_NUM_THREADS=1
set library "libopenblas.so.0"
dgemm(transa:char one of "NnTtCc", transb:char one of "NnTtCc", m:i32, n:i32, k:i32, alpha:f64,
      in a:f64[m if transa in "Nn" else k, k if transa in "Nn" else m] ld lda, lda,
      in b:f64[k if transb in "Nn" else n, n if transb in "Nn" else k] ld ldb, ldb,
      beta:f64, inout c:f64[m,n] ld ldc when beta != 0, ldc) xerbla cost 2*m*n*k
ddot(n:i32, in x:f64[n] inc incx, incx:i32, in y:f64[n] inc incy, incy:i32) -> f64
dgesv(n:i32, nrhs:i32, inout a:f64[n,n] ld lda, lda, out ipiv:i32[n], inout b:f64[n,nrhs] ld ldb, ldb,
      out info:i32 status <0 "argument {-info} is wrong" >0 "U({info},{info}) is exactly zero") xerbla cost n*n*n
dsyev(jobz:char one of "NnVv", uplo:char one of "UuLl", n:i32, inout a:f64[n,n] ld lda, lda, out w:f64[n],
      work work:f64[max(1,lwork)] query lwork, lwork:i32, out info:i32 status) xerbla
cblas_dgemm(const layout:i32 = 102, ta:i32 one of 111 112, tb:i32 one of 111 112, m:i32, n:i32, k:i32, alpha:f64,
      in a:f64[m if ta==111 else k, k if ta==111 else m] ld lda, lda, in b:f64[k if tb==111 else n, n if tb==111 else k] ld ldb, ldb,
      beta:f64, inout c:f64[m,n] ld ldc when beta != 0, ldc) convention c symbol "cblas_dgemm" order F xerbla cost 2*m*n*k
"#;

fn blas(name: &str) -> Routine {
    let library = Library::parse("blas.fbi", BLAS).unwrap();
    library.routines.into_iter().find(|r| r.name == name).unwrap()
}

fn refused(line: &str) -> String {
    let text = format!("fbi 1\nset convention fortran\n{line}\n");
    let e = Library::parse("f.fbi", &text).expect_err(line);
    assert_eq!(e.code(), Code::BadArgument);
    e.text().to_owned()
}

#[test]
fn the_lines_of_the_usual_routines_say_what_the_library_takes_and_what_is_published() {
    let library = Library::parse("blas.fbi", BLAS).unwrap();
    assert_eq!(library.settings.library.as_deref(), Some("libopenblas.so.0"));
    assert_eq!(library.settings.env, [("OPENBLAS_NUM_THREADS".to_owned(), "1".to_owned())]);
    assert_eq!(library.settings.threads, Threads::Safe);
    let dgemm = blas("dgemm");
    assert_eq!((dgemm.symbol.as_str(), dgemm.args.len(), dgemm.hidden), ("dgemm_", 13, Hidden::End));
    assert_eq!(
        dgemm.plain.signature.to_string(),
        "dgemm(in transa:str, in transb:str, in m:i32, in n:i32, in k:i32, in alpha:f64, in a:f64[a_0,a_1] order F, \
         in b:f64[b_0,b_1] order F, in beta:f64, inout c:f64[m,n] order F) cost 2*m*n*k"
    );
    let native = dgemm.native.signature.to_string();
    assert!(native.starts_with("native/dgemm(in transa:u8, in transb:u8, in m:i32"), "{native}");
    assert!(
        native.ends_with("in ldc:i32, out xerbla_info:i32, out xerbla_name:bytes) cost 2*m*n*k"),
        "{native}"
    );
    assert_eq!(blas("dgesv").plain.signature.cost().unwrap().to_string(), "n*n*n");
    let text = |cost: &str| format!("fbi 1\nf(n:i32, m:i32, in x:f64[n]) convention c cost {cost}");
    let published = |cost: &str| {
        let library = Library::parse("f.fbi", &text(cost)).unwrap();
        library.routines[0].plain.signature.cost().map(ToString::to_string)
    };
    assert_eq!(published("n*n*m + 2*n").as_deref(), Some("n*n*m + 2*n"));
    for unsaid in ["max(n,m)", "n - m", "7", "n*n/2"] {
        assert_eq!(published(unsaid), None, "{unsaid}");
    }
    let Kind::Array(a) = &dgemm.args[6].kind else { panic!("a is an array") };
    assert_eq!((a.way, a.order, a.ld), (Way::In, Order::F, Some(7)));
    let values = |trans: u8| move |at: usize| [i64::from(trans), 0, 2, 3, 4].get(at).copied().unwrap_or(0);
    assert_eq!((a.extents[0].eval(&values(b'n')), a.extents[1].eval(&values(b'n'))), (Ok(2), Ok(4)));
    assert_eq!((a.extents[0].eval(&values(b'C')), a.extents[1].eval(&values(b'C'))), (Ok(4), Ok(2)));
    let ddot = blas("ddot");
    assert_eq!(
        ddot.plain.signature.to_string(),
        "ddot(in n:i32, in x:f64[n], in incx:i32, in y:f64[n], in incy:i32, out result:f64)"
    );
    let dsyev = blas("dsyev");
    assert_eq!(
        dsyev.plain.signature.to_string(),
        "dsyev(in jobz:str, in uplo:str, in n:i32, inout a:f64[n,n] order F, out w:f64[n], out info:i32 status)"
    );
    assert_eq!(dsyev.native.sources[6], Source::First(6));
    let native = dsyev.native.signature.to_string();
    assert!(
        native.contains("inout w:f64[w_0], out work:f64, in lwork:i32, inout info:i32, out xerbla_info"),
        "{native}"
    );
    let c = blas("cblas_dgemm");
    assert_eq!((c.symbol.as_str(), c.hidden), ("cblas_dgemm", Hidden::None));
    let by_value: Vec<bool> = c.args.iter().map(|a| a.by_value).collect();
    assert_eq!(by_value, [1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 1, 1, 0, 1].map(|b| b == 1));
    let Kind::Scalar(info) = &blas("dgesv").args[7].kind else { panic!("info is a scalar") };
    assert_eq!(info.status.as_ref().map(Vec::len), Some(2));
}

#[test]
fn a_line_that_is_wrong_is_refused_with_its_place_and_what_to_write() {
    let text = "fbi 1\ndtrsm(m:i32, n:i32, inout b:f64[m,n] ld ldb)";
    let e = Library::parse("blas.fbi", text).unwrap_err();
    assert_eq!(e.text(), "blas.fbi:2:41: \"ldb\" is used by b but is no argument; add ldb:i32");
    for (line, says) in [
        ("f(n:i32, in x:f64[m])", "f.fbi:3:19: \"m\" is used by x but is no argument; add m:i32"),
        ("f(n:i32, x:f64[n])", "x is an array and has no direction"),
        ("f(n:f64, in x:f64[n])", "n is real"),
        ("f(out n:i32, in x:f64[n])", "n is no scalar that goes in"),
        ("f(n:i32, n:i32)", "two arguments are called \"n\""),
        ("f(n:int)", "\"int\" is no type of an argument"),
        ("f(n:f16)", "is no type"),
        ("f(n)", "\"n\" has no type and no array names it; write n:i32"),
        ("f(jobvs:char, proc select)", "select is a procedure; a remote library cannot call yours back"),
        ("f(in a:f64[2,2,2] ld lda, lda)", "two extents"),
        ("f(in a:f64[2,2] inc ia, ia)", "one extent"),
        (
            "f(in a:f64[lda,2] ld lda, lda)",
            "lda is named without a type, so not every caller passes it; write what stands behind a without lda, or",
        ),
        (
            "f(in x:f64[2] inc incx, incx) where incx > 0 \"x\"",
            "f.fbi:3:37: incx is named without a type, so not every caller passes it; write the condition behind where without incx, or give it a type: incx:i32",
        ),
        ("f(in x:f64[2] inc incx, incx) cost incx", "write the cost without incx"),
        ("f(in a:bool[3])", "is an array of logicals; write i32"),
        ("f(out c:char)", "a character, which goes in only"),
        ("f(out s:str)", "text, which goes in only"),
        ("f(inout s:file)", "a file, which goes in or comes out"),
        ("f(in s:file[n], n:i32)", "characters"),
        ("f(s:file, in x:f64[s])", "s is text"),
        ("f(in x:f64[n) ", "f.fbi:3:11: this \"[\" is not closed before the \")\" of line 3, column 13"),
        ("f(in x:f64[2] wide)", "\"wide\" is no option of an argument"),
        ("f() fast", "\"fast\" is no option of a routine"),
        ("f(const n:i32 = 3000000000)", "beyond what i32 holds"),
        ("f(const n:i32 = 0.5)", "is no integer"),
        ("f(n:i32 = n + 1)", "stands for itself"),
        ("f(n:i32, in x:f64[k]) let k = j let j = k", "stands for itself"),
        ("f(m:i32, in x:f64[m] by value)", "cannot be passed by value"),
        ("f(m:i32) -> f64 status", "a status that is returned is an integer"),
        ("f(m:i32) -> str", "returns text is not served"),
        ("f(m:i32) returns m", "nothing is returned"),
        ("f(m:i32) -> f64 returns m", "called \"m\" as an argument is"),
        ("f(in x:f64[1] order (o))", "an order that depends on an argument"),
        ("f(in x:f64[max(1)])", "max has 1 values"),
        ("f(n:i32) g(n:i32)", "\"g\" is no option of a routine"),
        ("f(n:i32)\nf(m:i32)", "\"f\" is a routine already"),
        ("set speed 3", "\"speed\" cannot be set"),
        ("set int 16", "stands where the size of integers, 32 or 64, is expected"),
        ("f(in x:f64[\"ab\"])", "stands where a number, a name"),
        ("chain f() plan p = g() call h(p)", "a chain calls functions of C"),
        ("chain f() call h(p)", "stands where \"plan\" of the chain is expected"),
        ("f(n:i32", "f.fbi:3:2: this \"(\" is never closed"),
        ("f(n:i32\ng(m:i32)\nh(m:i32)", "f.fbi:3:2: this \"(\" is never closed"),
        ("f(s:str, in x:f64[s])", "s is text"),
        ("f(n:i32 status)", "no integer that comes back"),
        ("f(work w:f64[1] query lw)", "\"lw\" is used by w but is no argument"),
        ("f(length(n), n:i32)", "n has no length"),
        ("3", "stands where a routine or set is expected"),
        ("f(n:i32) symbol \"a b\"", "is no symbol"),
        ("f(n:i32, \"x\")", "stands where an argument"),
        ("f(x:i32[3)", "this \"[\" is not closed before"),
        ("f(n:i32) where", "stands where a number"),
        ("f(n:i32) symbol \"x", "does not end"),
        ("f(n:12ab)", "is no number"),
    ] {
        let text = refused(line);
        assert!(text.starts_with("f.fbi:") && text.contains(says), "{line}\n  {text}\n  {says}");
    }
    let deep = format!("f(n:i32, in x:f64[{}n{}])", "(".repeat(200), ")".repeat(200));
    assert!(refused(&deep).contains("more than 64 levels"));
    assert!(Library::parse("f.fbi", "f()").unwrap_err().text().contains("begins with the line `fbi 1`"));
    assert!(Library::parse("f.fbi", "fbi 2").unwrap_err().text().contains("version 2"));
}

#[test]
fn what_is_let_and_computed_and_constant_stands_in_extents_as_what_it_is() {
    let text = "fbi 1\nset convention c\n\
                f(n:i64, const k:i32 = 3, len:u64 = n + 1, in x:f64[m], in y:f32[len*k], length(x), null, s:str) -> i32 \
                returns code let m = 2*n where n > 0 'n is positive' where n < 10 effects threads serial";
    let library = Library::parse("f.fbi", text).unwrap();
    let f = &library.routines[0];
    assert_eq!(
        f.plain.signature.to_string(),
        "f(in n:i64, in x:f64[2*n], in y:f32[y_0], in s:str, out code:i32) effects"
    );
    let Kind::Array(y) = &f.args[4].kind else { panic!("y is an array") };
    assert_eq!((y.extents[0].eval(&|_| 4), f.text(&y.extents[0])), (Ok(15), "(n + 1)*3".to_owned()));
    assert_eq!(f.wheres[0].text, "n is positive");
    assert_eq!(f.wheres[1].text, "n < 10");
    assert_eq!(f.kind_of(&f.args[4]), "y:f32[(n + 1)*3]");
    assert!(f.args[5].by_value && !f.args[6].by_value);
}

#[test]
fn a_chain_is_a_routine_of_functions_with_a_plan_between_them() {
    let head = "fbi 1\nset convention c\nchain fft(n:i32, in x:c128[n] align 64, out y:c128[n] align 64) ";
    let parse = |tail: &str| Library::parse("f.fbi", &format!("{head}{tail}"));
    let good =
        "plan p = make(n, x, y, const -1, const 64) keep 3 free drop(p) call run(p, x, y) threads safe";
    let fft = &parse(good).unwrap().routines[0];
    assert_eq!(fft.plain.signature.to_string(), "fft(in n:i32, in x:c128[n], out y:c128[n])");
    assert_eq!(fft.symbols(), ["make", "run", "drop"]);
    let chain = fft.chain.as_ref().unwrap();
    let values =
        [StepValue::Arg(0), StepValue::Arg(1), StepValue::Arg(2), StepValue::Const(-1), StepValue::Const(64)];
    assert_eq!((chain.plan.values.as_slice(), chain.keep), (&values[..], 3));
    for (tail, says) in [
        ("plan p = make(n, z) call run(p)", "\"z\" is no argument of the chain"),
        ("plan p = make(n, p) call run(p)", "the plan p is made by the first function"),
        ("plan p = make(n) call run(x)", "the second is called with it"),
        ("plan p = make(n) free drop(x) call run(p)", "drop frees the plan alone; write (p)"),
        ("plan p = make(n) keep 0 call run(p)", "keep 0 is not from 1"),
        ("plan p = make(const 3000000000) call run(p)", "beyond what an int holds"),
        ("plan p = make(n)", "stands where \"call\" of the chain"),
    ] {
        let e = parse(tail).unwrap_err();
        assert!(e.text().contains(says), "{tail}\n  {}", e.text());
    }
}

#[test]
fn a_let_that_doubles_itself_is_refused_before_it_fills_the_memory() {
    let refused = |levels: u32, of: &str| {
        let lets: String =
            (0..levels).map(|i| format!(" let a{i} = {}", of.replace('x', &format!("a{}", i + 1)))).collect();
        refused(&format!("f(n:i32, in x:f64[a0]) {lets} let a{levels} = n"))
    };
    assert!(refused(40, "x + x").contains("8 names stand for each other"));
    assert!(refused(6, "x + x + x + x").contains("has more than 1000 parts"));
    let long = format!("f(n:i32, in x:f64[n{}])", " + n".repeat(200));
    assert!(self::refused(&long).contains("more than 128 parts"));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(line in r#"[a-z0-9:,\[\]()<>=+*/"' \n;#-]{0,120}"#) {
        let _ = Library::parse("f.fbi", &format!("fbi 1\n{line}"));
        let _ = Library::parse("f.fbi", &format!("fbi 1\nf(n:i32, in x:f64[n] {line})"));
        let _ = Library::parse("f.fbi", &format!("fbi 1\nf(n:i32, in x:f64[{line}])"));
    }

    #[test]
    fn no_values_make_an_extent_panic(n in any::<i64>(), m in any::<i64>(), c in any::<u8>()) {
        let text = "fbi 1\nf(c:char, n:i64, m:i64, out x:f64[n*m/(n - m), abs(n) if c in 'Nn' else -m, max(n, m, 0), not n or m])";
        let library = Library::parse("f.fbi", text).unwrap();
        let Kind::Array(x) = &library.routines[0].args[3].kind else { panic!("x is an array") };
        for e in &x.extents {
            let _ = e.eval(&|at| [i64::from(c), n, m][at]);
        }
    }
}
