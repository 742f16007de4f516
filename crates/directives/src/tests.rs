//! Sources in, sources out: what stands where, what is refused, and that nothing panics.

use super::*;
use proptest::prelude::*;

fn c(source: &str) -> String {
    translate(source, "f.c", Language::C).unwrap_or_else(|f| panic!("{}", f[0])).expect("it has directives")
}

fn refusal(source: &str, language: Language) -> String {
    let faults = translate(source, "f", language).expect_err("it is refused");
    faults.iter().map(|f| f.to_string()).collect::<Vec<_>>().join("\n")
}

/// What becomes of one directive of C, in a function.
fn one(directive: &str) -> String {
    let source = format!("void f(void)\n{{\n    //fb extern A, B, C, h\n    //fb {directive}\n}}\n");
    let made = c(&source);
    made.lines().rev().nth(1).unwrap().trim().to_owned()
}

fn one_refusal(directive: &str) -> String {
    let source = format!("void f(void)\n{{\n    //fb extern A, B, C, h\n    //fb {directive}\n}}\n");
    refusal(&source, Language::C).replace("f:4:", "")
}

fn fortran(source: &str, language: Language) -> String {
    translate(source, "f.f90", language).unwrap_or_else(|f| panic!("{}", f[0])).expect("it has directives")
}

#[test]
fn a_source_without_directives_is_left_alone() {
    let source = "int main(void) { /* //fb put A, a */ char *t = \"//fb put A, a\"; return '\\'' /* ' */; } // fb put A, a\n//fbx\n";
    assert_eq!(translate(source, "f.c", Language::C), Ok(None));
    assert_eq!(translate("x = '!$fb put A, a' ! no\n!fb put\n!$fbx\n", "f.f90", Language::Fortran), Ok(None));
    assert_eq!(
        translate(
            "const char *t = R\"x(\n//fb put A, a\n)x\"; int n = 1'000;\n",
            "f.cpp",
            Language::Cplusplus
        ),
        Ok(None)
    );
}

#[test]
fn a_directive_becomes_one_statement_in_its_place_and_lines_stay() {
    let source = "#define _GNU_SOURCE\n#include <stdio.h>\n#ifdef X\n#include \"x.h\"\n#endif\nint main(void)\n{\n    double a[4]; //fb create A, a\n    //fb call f(a,\n    //fb        A) /* twice */\n    return 0;\n}\n";
    let made = c(source);
    assert!(made.starts_with("#line 1 \"f.c\"\n#define _GNU_SOURCE\n#include <stdio.h>\n#include <forebay/directives.h>\n#line 3 \"f.c\"\n#ifdef X\n"), "{made}");
    let behind = made.split("#line 3 \"f.c\"\n").nth(1).unwrap();
    let lines: Vec<&str> = behind.lines().collect();
    assert_eq!(lines.len(), source.lines().count() - 2);
    assert!(
        lines[5].starts_with("    double a[4]; { FBD_IS_WHOLE(a); FBD_DO(\"create A, a\", "),
        "{}",
        lines[5]
    );
    assert!(lines[6].contains("fb_arg fbd_args[] = { FBD_ARG(a), fbd_array(\"A\") }; FBD_DO(\"call f(a, A)\", fbd_call(\"f\", fbd_args, 2)); }"), "{}", lines[6]);
    assert_eq!(lines[7..], ["", "    return 0;", "}"]);
}

#[test]
fn macros_of_the_program_do_not_change_our_header() {
    let made = c(
        "#define _GNU_SOURCE\n#define shape 3\n#ifdef X\n#define data(x) \\\n x\n#endif\n#include <stdio.h>\n#define room\nvoid f(void)\n{\n//fb extern A\n}\n",
    );
    let header = "#pragma push_macro(\"data\")\n#undef data\n#pragma push_macro(\"shape\")\n#undef shape\n#include <forebay/directives.h>\n#pragma pop_macro(\"data\")\n#pragma pop_macro(\"shape\")\n#line 8 \"f.c\"\n#define room\n";
    assert!(made.contains(header), "{made}");
}

#[test]
fn each_directive_has_its_call() {
    assert_eq!(one("connect"), "{ FBD_DO(\"connect\", fbd_connect(0)); }");
    assert_eq!(one("connect \"fb://h:1\" status e"), "{ e = fbd_connect(\"fb://h:1\"); }");
    assert!(one("create A, p->x, n, 2 * n order F on \"blas\"").ends_with(
        "fbd_create(\"A\", FBD_COUNTED(p->x, FB_COLUMN_MAJOR, n, 2 * n), \"blas\", 0, __FILE__, __LINE__)); }"
    ));
    assert!(one("create A, f64, n").contains("fbd_create(\"A\", FBD_ROOM(FB_F64, FB_ROW_MAJOR, n), 0, 0, "));
    assert!(one("put A, f(a, b)[2], n").contains("fbd_put(\"A\", FBD_COUNTED(f(a, b)[2], FB_ROW_MAJOR, n))"));
    assert!(one("create A, a order F").contains("fbd_in_order(FBD_WHOLE(a), FB_COLUMN_MAJOR)"));
    assert!(one("get A, a").contains("fbd_get(\"A\", FBD_WHOLE(a))"));
    assert_eq!(
        one("kill A, B"),
        "{ FBD_DO(\"kill A, B\", fbd_kill(\"A\")); FBD_DO(\"kill A, B\", fbd_kill(\"B\")); }"
    );
    assert_eq!(one("wait h status s"), "{ s = fbd_wait(\"h\"); }");
    let call =
        one("call native/dgemm_('N', \"T\", n, &info, array(p, n, m order F), A, (A)) async h status err");
    assert!(call.contains("FBD_TEXT(\"N\"), FBD_ARG(\"T\"), FBD_ARG(n), FBD_PLACE(&info), FBD_ARRAY(p, FB_COLUMN_MAJOR, n, m), fbd_array(\"A\"), FBD_ARG((A)) }"), "{call}");
    assert!(
        call.ends_with("err = fbd_start(\"h\", \"native/dgemm_\", fbd_args, 7, __FILE__, __LINE__); }"),
        "{call}"
    );
    assert!(one("call f()").ends_with("fbd_call(\"f\", 0, 0)); }"));
}

#[test]
fn an_array_is_made_where_what_the_file_calls_with_it_is_offered() {
    let source = "void f(void)\n{\n    //fb create A, f64, 3\n    //fb create B, f64, 3\n    //fb call native/g(A)\n    //fb call f(1, A) async h\n    //fb call other(a)\n}\n";
    let made = c(source);
    assert!(made.contains("FBD_ROOM(FB_F64, FB_ROW_MAJOR, 3), 0, \"f,native/g\", __FILE__"), "{made}");
    assert!(made.contains("FBD_ROOM(FB_F64, FB_ROW_MAJOR, 3), 0, 0, __FILE__"), "{made}");
    let made = fortran(
        "!$fb create A, f64, 3\n!$fb create b, f64, 3 on 's'\n!$fb call f(a, B)\n!$fb call g(1, A)\n",
        Language::Fortran,
    );
    assert!(made.contains("[integer(fbd_long) :: 3], services='f,g')\n"), "{made}");
    assert!(made.contains("[integer(fbd_long) :: 3], server='s')\n"), "{made}");
}

#[test]
fn what_only_the_plain_compiler_takes_is_left_out_and_its_directives_too() {
    let made = c("void f(void)\n{\n    //fb local\n    g(); //fb put A, a\n    //fb end\n}\n");
    assert!(made.contains("    #if 0\n    g(); //fb put A, a\n    #endif\n"), "{made}");
    let made = fortran("!$fb local\ncall g()\n!$fb end\ncall h()\n", Language::Fortran);
    assert_eq!(made, "# 1 \"f.f90\"\n!$fb local\n!call g()\n!$fb end\ncall h()\n");
    assert!(
        refusal("void f(void)\n{\n    //fb local\n}\n", Language::C)
            .starts_with("f:3:5: error: this `local` has no `end`")
    );
    assert!(refusal("void f(void)\n{\n    //fb end\n}\n", Language::C).contains("no `local` before"));
}

#[test]
fn a_directive_that_is_wrong_is_refused_with_its_place_and_what_to_write() {
    for (directive, says) in [
        ("crate A, a", "10: error: `crate` is no directive; did you mean `create`?"),
        ("", "10: error: a directive is missing; there are connect, create"),
        ("qqqqqqq A", "10: error: `qqqqqqq` is no directive; there are connect"),
        ("put A", "15: error: the end stands where `,` should; write put NAME, ARRAY"),
        ("put A a", "16: error: `a` stands where `,` should"),
        ("put D, a", "14: error: no directive of this file has created `D`; did you mean"),
        ("wait later", "15: error: no directive of this file has started (async) `later`; start it"),
        ("put 1, a", "14: error: `1` is no name"),
        ("create D, 100", "20: error: 100 is no array; room without one is a type and extents: f64, 100"),
        ("put A, f64, n", "17: error: f64 is a type, and put wants an array"),
        ("create D, f64", "20: error: how large is it? Write the extents of f64 behind it: f64, N"),
        (
            "create D, a statas e",
            "22: error: `statas` stands where the directive should end; did you mean `status`?",
        ),
        ("create D, a order X", "28: error: `X` is no order"),
        ("create D, a on", "24: error: something must follow `on`"),
        ("call f(A", "16: error: the `(` that stands here is never closed"),
        ("call f(A,", "19: error: the end stands where an argument should"),
        ("call f(array(p))", "24: error: `)` stands where an extent: array(POINTER, EXTENT ...) should"),
        ("call (A)", "15: error: `(` is no name of a service"),
        ("call f(\"x)", "17: error: the text that begins here has no \" at its end"),
        ("kill A, ", "17: error: the end stands where a name should"),
        ("extern A status e", "19: error: this directive does nothing that could fail"),
        ("put A, a, 1, 2, 3, 4, 5, 6, 7, 8, 9", "44: error: an array has at most 8 dimensions"),
    ] {
        let said = one_refusal(directive);
        assert!(said.starts_with(says), "{directive}: {said}");
    }
    let two = refusal("void f(void)\n{\n    //fb pit A, a\n    //fb put A, a\n}\n", Language::C);
    assert_eq!(two.lines().count(), 2, "{two}");
}

#[test]
fn a_directive_stands_only_where_a_statement_may() {
    for before in ["if (x)", "else", "return x +", "for (;;)", "do", "f(1,", "int x =", "FOO(x)"] {
        let said = refusal(&format!("void f(void)\n{{\n{before}\n//fb extern A\ng();\n}}\n"), Language::C);
        assert!(
            said.starts_with("f:4:1: error: a directive is a statement, and the one before it has not ended"),
            "{said}"
        );
    }
    for before in ["x = 1;", "{ }", "case 1:", "", "if (x) {", "}"] {
        c(&format!("void f(void)\n{{\n{before}\n//fb extern A\ng();\n}}\n"));
    }
    assert!(refusal("#define X 1 //fb put A, a\n", Language::C).contains("line of the preprocessor"));
    let said = refusal("x = 1 + & ! more\n\n  !$fb kill a\n  2\n", Language::Fortran);
    assert!(
        said.contains("f:3:3: error: a directive is a statement, and the one before it goes on"),
        "{said}"
    );
    let said = refusal("      x = 1 +\nc$fb kill a\n     & 2\n", Language::FixedFortran);
    assert!(said.contains("f:2:1: error: a directive is a statement"), "{said}");
}

#[test]
fn a_directive_is_not_the_statement_of_what_the_preprocessor_hides() {
    let function = |body: &str| format!("void f(void)\n{{\n{body}\n    g();\n}}\n");
    for (body, line, says) in [
        (
            "#pragma omp parallel\n//fb extern A",
            4,
            "`#pragma omp parallel` in line 3 takes the statement behind it",
        ),
        (
            "#pragma omp single // one\n\n/* x */\n#ifdef Y\n//fb local\ng();\n//fb end\n#endif",
            7,
            "`#pragma omp single`",
        ),
        ("#pragma acc \\\n kernels\n//fb extern A", 5, "`#pragma acc   kernels` in line 3"),
        (
            "# pragma omp parallel for\n//fb extern A",
            4,
            "takes the loop or assignment behind it, which this directive would be. Move",
        ),
        ("#pragma GCC ivdep\n//fb extern A", 4, "Move the directive before it, or into the loop"),
        (
            "if (x)\n#ifdef D\ng();\n#endif\n//fb extern A",
            7,
            "the one before it has not ended: it ends in `)`",
        ),
        ("if (x)\n#ifdef D\ng();\n#else\n//fb extern A\n#endif", 7, "it ends in `)`"),
        ("#ifdef D\nelse\n#else\ny = 1;\n#endif\n//fb extern A", 8, "it ends in `else`"),
        ("#if D\n#if E\nif (x)\n#elif F\ny = 1;\n#endif\n#else\n#endif\n//fb extern A", 11, "it ends in `)`"),
        ("#ifdef _OPENMP\n#pragma omp task\n#endif\n//fb extern A", 6, "`#pragma omp task` in line 4"),
    ] {
        let said = refusal(&function(body), Language::C);
        assert!(said.starts_with(&format!("f:{line}:1: error: ")) && said.contains(says), "{body}: {said}");
    }
    for body in [
        "#pragma omp parallel\n{\n//fb extern A\n}",
        "#pragma omp barrier\n//fb extern A",
        "#pragma omp parallel\ng();\n//fb extern A",
        "#pragma once\n#pragma GCC diagnostic push\n//fb extern A",
        "if (x)\n#ifdef D\ng();\n#else\nh();\n#endif\n//fb extern A",
        "#if 0\nthis was never said\n#endif\n//fb extern A",
        "#if 0\nif (x)\n#else\ng();\n#endif\n//fb extern A",
        "#else\n#endif\n#elif\n//fb extern A",
    ] {
        c(&function(body));
    }
}

#[test]
fn a_directive_of_fortran_stands_before_a_loop_of_openmp_and_within_its_blocks() {
    let free = |body: &str| format!("!$fb extern a\n{body}\nend\n");
    for body in [
        "!$omp parallel do\n!$fb kill a",
        "!$OMP PARALLELDO private(i)\n\n! x\n!$fb kill a",
        "!$omp parallel &\n!$omp   do\n!$fb kill a",
        "!$omp parallel &\n!$omp& do\n!$fb local\n!$fb end",
        "!$acc loop\n!$fb extern b\n!$fb kill a",
    ] {
        let said = refusal(&free(body), Language::Fortran);
        assert!(said.contains(" in line 2 takes the loop or assignment behind it, which this directive would be. Move the directive before it"), "{body}: {said}");
    }
    let said = refusal("c$fb extern a\nc$omp parallel\nc$omp+do\nc$fb kill a\n", Language::FixedFortran);
    assert!(said.starts_with("f:4:1: error: `c$omp parallel` in line 2"), "{said}");
    // A block at the beginning of a construct would be all of it.
    for (body, continues) in [
        ("!$omp parallel\n!$fb kill a", 1),
        ("!$omp parallel\n\n!$fb kill a\n!$fb kill a", 2),
        ("!$omp parallel\nx = 1\n!$fb kill a", 0),
        ("!$omp parallel\n!$ x = 1\n!$fb kill a", 0),
        ("!$omp end parallel do\n!$fb kill a", 0),
        ("!$omp barrier\n!$fb kill a", 0),
        ("! omp parallel\n!$fb kill a", 0),
    ] {
        let made = fortran(&free(body), Language::Fortran);
        assert_eq!(made.matches("\ncontinue\n").count(), continues, "{body}: {made}");
    }
}

#[test]
fn variables_of_fortran_that_are_no_targets_or_have_no_size_are_named_with_the_line_that_declares_them() {
    let of = |directive: &str| {
        let source = format!(
            "subroutine s(x, n)\nreal(8) :: x(n, *), y(3), z\nreal(8), target :: t(3)\n!$fb extern a\n!$fb {directive}\nend\n"
        );
        match translate(&source, "f", Language::Fortran) {
            Ok(_) => String::new(),
            Err(faults) => faults[0].to_string(),
        }
    };
    for directive in ["create b, X", "put a, x", "get a, x", "call f(x)", "call f(a, out(x))"] {
        let said = of(directive);
        assert!(said.starts_with("f:5:5: error: ") && said.to_lowercase().contains("x does not say how large it is, since line 2 declares it with (*); write the part that is meant: x(1:n)"), "{directive}: {said}");
    }
    for (directive, name) in
        [("call f(y)", "y"), ("call f(1, Y(1:2))", "Y"), ("call f(out(z))", "z"), ("call f(out(y(2)))", "y")]
    {
        let said = of(directive);
        assert!(said.contains(&format!("{name} is used where it lies and must be a target; give it that attribute in line 2: TARGET :: {name}")), "{directive}: {said}");
    }
    for directive in [
        "put a, y",
        "create b, x(1:n, 1:3)",
        "call f(z, n, y(2), out(t), t(1:2), a, 2 * y, s%y, out(elsewhere))",
    ] {
        assert_eq!(of(directive), "", "{directive}");
    }
}

#[test]
fn a_comment_that_looks_like_a_directive_and_is_none_is_told() {
    let warned = |source: &str, language| -> Vec<String> {
        warnings(source, "f", language).iter().map(|w| w.to_string()).collect()
    };
    for near in [
        "// fb call f(x)",
        "//FB call f(x)",
        "//fbcall f(x)",
        "//fb: Call f(x)",
        "/// fb call f(x)",
        "//$fb call f(x)",
        "/* fb call f(x) */",
        "//!$fb call f(x)",
    ] {
        let all = warned(&format!("void f(void)\n{{\n    int x; {near}\n}}\n"), Language::C);
        assert_eq!(all.len(), 1, "{near}: {all:?}");
        assert!(all[0].starts_with("f:3:12: warning: this comment is no directive, which begins with `//fb `; did you mean `//fb call f(x)"), "{}", all[0]);
    }
    for near in ["! $fb call f(x)", "!fb call f(x)", "!$fbcall f(x)", "!$ FB Call f(x)", "! fb: call f(x)"] {
        let all = warned(&format!("x = '!' ! y\n    {near}\n"), Language::Fortran);
        assert_eq!(
            all,
            [
                "f:2:5: warning: this comment is no directive, which begins its line with `!$fb `; did you mean `!$fb call f(x)`?"
            ],
            "{near}"
        );
    }
    assert_eq!(warned("x = 1 !$fb put a, a\n", Language::Fortran).len(), 1, "it has no line of its own");
    assert_eq!(
        warned("c fb put a, a\n*$ fb put a, a\n      x = 1 ! fb end\n", Language::FixedFortran).len(),
        3
    );
    let plain = "//fb call f()\n// //fb call f()\n/* //fb put A, a\n*/\n// fb is short for feedback\n//fbput_x\n// call fb\n/* fb calls */ char *t = \"// fb put A, a\";\n//fb\n//\n/**/\n//f\n// FBI wait\n";
    assert_eq!(warned(plain, Language::C), [""; 0]);
    let plain = "!$FB call f()\n! !$FB put a, a\n!!$fb put a, a\n! fb is short\nx = '! fb put'\n!\n!fb\n!é\n!$omp$fb\n";
    assert_eq!(warned(plain, Language::Fortran), [""; 0]);
}

#[test]
fn fortran_gets_a_block_that_declares_nothing_outside_of_it() {
    let source = "program x\nreal(8), target :: a(3), b(3)\n!$FB Create A, a on 'blas'\n!$fb call axpy(2d0, A, &\n!$fb & out(b), 'it''s', b(1:2)) status i\nend program\n";
    let made = fortran(source, Language::Fortran);
    assert!(made.contains("# 3 \"f.f90\"\nblock\n# 3 \"f.f90\"\nuse forebay_directives\n"), "{made}");
    assert!(made.contains("call fbd_begin('f.f90', 3_fbd_int, 'Create A, a on ''blas''')\n"), "{made}");
    assert!(made.contains("call fbd_create('a', a, server='blas')\n"), "{made}");
    assert!(made.contains("call fbd_call('axpy', [fb_arg :: fb_in(2d0), fbd_arg('a'), fb_inout(b), fb_in('it''s'), fb_in(b(1:2))])\n"), "{made}");
    assert!(
        made.contains("i = fbd_status()\n# 4 \"f.f90\"\nend block\n# 6 \"f.f90\"\nend program\n"),
        "{made}"
    );
    let made = fortran("!$fb create t, f64, n, m\n!$fb put t, x(1:n, 1:m)\n", Language::Fortran);
    assert!(made.contains("call fbd_create_room('t', FB_F64, [integer(fbd_long) :: n, m])\n"), "{made}");
    assert!(
        made.contains(
            "if (fbd_well()) call fb_ref_put(fbd_array, x(1:n, 1:m), stat=fbd_stat, errmsg=fbd_said)\n"
        ),
        "{made}"
    );
    let said = refusal("!$fb create a, a, n\n", Language::Fortran);
    assert!(
        said.contains(
            "f:1:16: error: an array of Fortran has its own extents; of a part write the section: a(1:n)"
        ),
        "{said}"
    );
    assert!(refusal("!$fb create a, a order F\n", Language::Fortran).contains("leave the order out"));
}

#[test]
fn lines_of_fortran_are_no_longer_than_its_forms_allow() {
    let long = format!("c$fb call f({})\n", (0..60).map(|i| format!("x{i}")).collect::<Vec<_>>().join(", "));
    let fixed = fortran(&long, Language::FixedFortran);
    let code = |made: &str| -> Vec<String> {
        made.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect()
    };
    assert!(
        code(&fixed).iter().all(|l| l.len() <= 72 && (l.starts_with("      ") || l.starts_with("     &"))),
        "{fixed}"
    );
    let free = fortran(&long.replace("c$", "!$"), Language::Fortran);
    assert!(code(&free).iter().all(|l| l.len() <= 132), "{free}");
}

#[test]
fn the_language_of_a_file_is_told_by_its_end() {
    let of = |name| Language::of(name);
    assert_eq!(of("a/b.c/x.cpp"), Some(Language::Cplusplus));
    assert_eq!(
        (of("x.F"), of("x.F90"), of("x.o")),
        (Some(Language::FixedFortran), Some(Language::Fortran), None)
    );
}

/// Pieces of sources, more likely than letters to meet a case.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("//fb "),
        Just("// fb "),
        Just("#pragma omp parallel\n"),
        Just("!$omp do &\n"),
        Just("#else\n"),
        Just("#endif\n"),
        Just("!$fb "),
        Just("c$fb "),
        Just("\n"),
        Just("create "),
        Just("put "),
        Just("call f("),
        Just("A"),
        Just(", "),
        Just(")"),
        Just("("),
        Just("\""),
        Just("'"),
        Just("\\"),
        Just("/*"),
        Just("*/"),
        Just("#include <x>\n"),
        Just("#if 0\n"),
        Just(" status e"),
        Just(" order F"),
        Just("local"),
        Just("end"),
        Just("&"),
        Just("R\"("),
        Just(";"),
        Just("é"),
        Just("\r\n"),
        Just("1'0"),
        Just("f64"),
        Just("extern "),
        Just("array("),
        Just("out("),
        Just(".true."),
        Just("\u{0}"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|all| all.concat())
}

proptest! {
    #[test]
    fn no_source_makes_the_translator_panic(source in pieces(), noise in ".{0,40}") {
        for language in [Language::C, Language::Cplusplus, Language::Fortran, Language::FixedFortran] {
            for text in [&source, &noise, &format!("//fb {noise}\n"), &format!("!$fb {noise}\n")] {
                warnings(text, "f", language);
                if let Ok(Some(made)) = translate(text, "f", language) {
                    prop_assert!(!made.is_empty());
                }
            }
        }
    }

    #[test]
    fn c_keeps_the_lines_behind_the_directives(source in pieces()) {
        if let Ok(Some(made)) = translate(&source, "f", Language::C) {
            let behind = made.rsplit_once("\n#line ").or(made.rsplit_once("#line ")).map(|(_, b)| b).unwrap_or_default();
            let (line, rest) = behind.split_once(" \"f\"\n").unwrap_or(("1", ""));
            let skipped = line.parse::<usize>().unwrap_or(1) - 1;
            prop_assert_eq!(rest.matches('\n').count() + skipped, source.matches('\n').count());
        }
    }
}

#[test]
fn an_array_that_is_created_and_that_no_call_takes_is_told_when_all_sources_are_seen() {
    let one = "void f(double *a)\n{\n    //fb create A, a, 3\n    //fb create B, f64, 3\n    //fb create C, f64, 3\n    //fb put B, a, 3\n    //fb kill A, B\n    //fb call g(C, 1.0)\n}\n";
    let other = "void g(double *a)\n{\n    //fb extern B\n    //fb call h(a, B)\n}\n";
    let fortran = "!$fb create A, x\n!$fb create far, x\n!$fb call g( FAR , x)\n!$fb get a, x\n";
    let told = |sources: &[(&str, &str, Language)]| -> Vec<String> {
        unused(sources).iter().map(Fault::to_string).collect()
    };
    let (c, more) = (("f.c", Language::C), ("g.cpp", Language::Cplusplus));
    assert_eq!(
        told(&[(one, c.0, c.1)]),
        [
            "f.c:3:17: warning: `A` is created and never used; give it to a call, or leave it out",
            "f.c:4:17: warning: no call takes `B`: what is put there or got only travels; give it to a call, or leave it out",
        ]
    );
    assert_eq!(told(&[(one, c.0, c.1), (other, more.0, more.1)]).len(), 1, "another file gives B to a call");
    // Names of Fortran are its own.
    let all = told(&[(one, c.0, c.1), (other, more.0, more.1), (fortran, "f.f90", Language::Fortran)]);
    assert_eq!(all.len(), 2);
    assert!(all[1].starts_with("f.f90:1:13: warning: no call takes `a`"), "{}", all[1]);
}
